//! Ids of users and tenants as people write them, and as the users table has them.

use super::engine::Engine;
use crate::database::value::Value;
use crate::database::{Column, Database, Dialect};
use crate::error::Error;
use crate::schema::ResolvedSchema;
use crate::transaction::application::no_tenants;

/// The beginning of a value of bytes, before its digits.
const BYTES: &str = "0x";
/// The end of a sentence about a text that the database cannot hold.
pub(super) const UNHELD: &str = "has the character U+0000, which no text of this database holds";

impl<D: Database> Engine<D> {
    /// Returns the id of a user in the form of the users table, from its written form. An id in a
    /// column of bytes is written as `0x` and its digits.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`], [`Error::Value`] when the users table has numbers, or bytes, and this is none
    /// that it can hold.
    pub fn user(&mut self, text: &str) -> Result<Value, Error> {
        self.transactions.refresh()?;
        let dialect = self.transactions.database.dialect();
        let (_, live) = self.transactions.application.described()?;
        if dialect.refuses_text(text) {
            let what = format!("the id of a user {UNHELD}");
            return Err(Error::Value { what });
        }
        written_in(live, dialect, &live.pseudo.id, text).ok_or_else(|| Error::Value {
            what: format!("the id of a user is {}", spelling(live, &live.pseudo.id)),
        })
    }

    /// Returns the tenant in the form of the users table, from its written form.
    ///
    /// # Errors
    /// [`Error::Tenant`] when there are no tenants or the tenant columns hold numbers, or bytes, and this is none that they
    /// can hold, [`Error::Database`], [`Error::Spec`].
    pub fn tenant(&mut self, text: &str) -> Result<Value, Error> {
        self.transactions.refresh()?;
        let dialect = self.transactions.database.dialect();
        let (_, live) = self.transactions.application.described()?;
        let users = live.table(&live.pseudo.table);
        let Some(column) = users.and_then(|table| table.tenant.as_ref()) else {
            return Err(no_tenants());
        };
        if dialect.refuses_text(text) {
            let what = format!("a tenant {UNHELD}");
            return Err(Error::Tenant { what });
        }
        written_in(live, dialect, column, text).ok_or_else(|| Error::Tenant {
            what: format!("a tenant is {}", spelling(live, column)),
        })
    }
}

impl Value {
    /// Returns the value as a person writes it: bytes as `0x` and their digits.
    pub fn written(&self) -> String {
        match self {
            Self::Bytes(_) => format!("{BYTES}{self}"),
            other => other.to_string(),
        }
    }

    /// Returns the values that a person may mean by `text` where nothing says what the ids are: the
    /// text, and the bytes that it spells.
    pub fn meant(text: &str) -> Vec<Self> {
        let bytes = text.strip_prefix(BYTES).and_then(bytes_of);
        let mut all = vec![Self::from(text)];
        all.extend(bytes.map(Self::Bytes));
        all
    }
}

/// Returns the value of a column of the users table from its written form; nothing if the column
/// cannot hold it.
fn written_in(live: &ResolvedSchema, dialect: Dialect, column: &str, text: &str) -> Option<Value> {
    let column = column_of(live, column);
    if column.is_some_and(Column::is_binary)
        && let Some(digits) = text.strip_prefix(BYTES)
    {
        return bytes_of(digits).map(Value::Bytes);
    }
    let Some(column) = column.filter(|column| column.is_number(dialect)) else {
        // No statement would find what the column cannot hold, as `NaN` among numbers.
        let value = Value::from(text);
        let is_held = column.is_none_or(|it| !it.compared(dialect, &value).is_null());
        return is_held.then_some(value);
    };
    let number: i128 = text.parse().ok()?;
    if !column.integers(dialect).contains(&number) {
        return None;
    }
    let signed = i64::try_from(number).map(Value::Int).ok();
    signed.or_else(|| u64::try_from(number).map(Value::UInt).ok())
}

/// Returns the value of a column of the users table that has this name as a principal; nothing if
/// the column cannot hold it.
pub(super) fn named_in(
    live: &ResolvedSchema,
    dialect: Dialect,
    column: &str,
    name: &[u8],
) -> Option<Value> {
    if column_of(live, column).is_some_and(Column::is_binary) {
        return Some(Value::Bytes(name.to_vec()));
    }
    written_in(live, dialect, column, std::str::from_utf8(name).ok()?)
}

fn column_of<'l>(live: &'l ResolvedSchema, column: &str) -> Option<&'l Column> {
    let users = live.table(&live.pseudo.table);
    users.and_then(|table| table.catalog.column(column))
}

/// Returns the bytes that pairs of digits stand for, if nothing else is there.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |it: &u8| char::from(*it).to_digit(16);
        let value = digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?;
        u8::try_from(value).ok()
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// Returns in words how values of a column of the users table are written.
fn spelling(live: &ResolvedSchema, column: &str) -> &'static str {
    if column_of(live, column).is_some_and(Column::is_binary) {
        "written here as 0x and pairs of hexadecimal digits"
    } else {
        "a number here, and one that its column can hold"
    }
}
