//! A person's own database, in a fixed schema.
//!
//! The sources are a log and a store with their data about one subject, and disguises with the rows
//! that they hid. The credentials that reveal the rows come along.
//!
//! "A person's own database" in `docs/pocketdb.md` gives the schema. Recurring names are rows of small tables, so
//! that rows are narrow and a query on any name follows an index.

mod entries;
mod exact_json;
mod hidden;
mod items;
mod names;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_disguise::{PersonCommitment, Value as Id};
use probity_log::reader::{Damage, Reader};
use probity_pocketdb::flash::Nand;
use probity_pocketdb::{SecureStore, Store, Value};
use probity_policy::Policy;

use crate::error::VaultError;
use crate::observer::Observer;
use crate::script::NoRows;

/// The table with the subject of the database and the sources of its rows.
const ABOUT: &str = "CREATE TABLE about (id INTEGER PRIMARY KEY, name TEXT(16), value TEXT(255))";
/// Rows per commit.
const ROWS_PER_COMMIT: u32 = 32;
/// Bytes of one piece of a value.
const VALUE_PIECE_BYTES: usize = 120;
/// The replacement for another person's name.
const SOMEBODY: &str = "*";
/// The encoding of what is left out because it concerns other people.
const WITHHELD: &str = "withheld";
/// The most values of one row.
const VALUES_MAX: usize = 8;

/// The counts of what was found about a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Filled {
    /// Entries of the log about the person; `None` without a log.
    pub entries: Option<u64>,
    /// Keys of the store about the person; `None` without a store.
    pub keys: Option<u64>,
    /// Keys of the store that do not open, of whomever they are; `None` without a store.
    pub unreadable: Option<u64>,
}

/// The word of an export about the person whose rows it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "rows of nobody in particular may be another person's"]
#[non_exhaustive]
pub enum Attribution {
    /// All of it names the person of the database.
    Named,
    /// Some of it names nobody: an export of an earlier version, or rows of another origin.
    Unnamed,
}

/// A person's own database while it is filled, each source at most once but for credentials and
/// hidden rows. The database is made for it: its tables must not be there yet.
///
/// Rows are committed 32 at a time; after an error, the database is to be thrown away.
pub struct Person<'a, F: Nand, S: SecureStore> {
    store: &'a mut Store<F, S>,
    subject: String,
    /// Rows since the last commit.
    pending: u32,
    filled: Filled,
    has_credentials: bool,
    /// The names of the disguises with hidden rows, once there are some, in the order of their ids.
    disguises: Option<Vec<String>>,
    /// The ids that the person may have in the databases of disguises.
    ids: Vec<Id>,
    /// The tenant of these ids.
    tenant: Option<Id>,
}

impl<'a, F: Nand, S: SecureStore> Person<'a, F, S> {
    /// Begins to fill `store` with what is held about `subject`, whose name is written as in
    /// entries.
    ///
    /// # Errors
    /// [`VaultError::Pocket`], also where the name is longer than 255 bytes.
    pub fn new(store: &'a mut Store<F, S>, subject: &str) -> Result<Self, VaultError> {
        let mut person = Self {
            store,
            subject: subject.to_owned(),
            pending: 0,
            filled: Filled::default(),
            has_credentials: false,
            disguises: None,
            ids: Id::meant(subject),
            tenant: None,
        };
        person.create(&[ABOUT])?;
        person.about("subject", subject)?;
        Ok(person)
    }

    /// Imports the entries about the person from an open log, and notes in the database which
    /// losses the log's keeper accepted. Names of the other subjects of an entry are replaced, and
    /// its payload is left out. With `damaged_too`, whatever is left of a damaged log is read, and
    /// what is missing is noted too.
    ///
    /// The observer is told of each entry.
    ///
    /// # Errors
    /// [`VaultError::Log`]; [`VaultError::TooManyNames`]; [`VaultError::Pocket`].
    pub fn log(
        &mut self,
        reader: &Reader,
        damaged_too: bool,
        observer: &mut dyn Observer,
    ) -> Result<Damage, VaultError> {
        let damage = entries::fill(self, reader, damaged_too, observer)?;
        self.filled.entries = self.rows("entries");
        Ok(damage)
    }

    /// Imports the keys that `policy` assigns to the person from all databases of an open store;
    /// `name` is kept as the store's. A value that concerns others too is left out, and their names
    /// are replaced.
    ///
    /// A value is read in parts, so nothing may change the store meanwhile: its clock is one that stands
    /// ([`probity_store::Clock::Manual`]), for else keys expire.
    ///
    /// # Errors
    /// [`VaultError::StoreSilent`], [`VaultError::StoreForm`] and [`VaultError::StoreKind`];
    /// [`VaultError::StoreChanged`] for a key that went while it was read; [`VaultError::Pocket`].
    pub fn items(
        &mut self,
        store: &probity_store::Store,
        policy: &Policy,
        name: &str,
    ) -> Result<(), VaultError> {
        items::fill(self, store, policy, name)?;
        self.filled.keys = self.rows("items");
        Ok(())
    }

    /// Imports a credential, of which `name` is the name: of a longer one, the first 64 bytes are
    /// kept.
    ///
    /// # Errors
    /// [`VaultError::Pocket`].
    pub fn credential(&mut self, name: &str, secret: &[u8]) -> Result<(), VaultError> {
        hidden::credential(self, name, secret)
    }

    /// Says by which ids the person is known in the databases of disguises, and of which tenant
    /// these are. Without any, the name of the subject is the id. The database notes both.
    ///
    /// # Errors
    /// [`VaultError::Pocket`], also where one is longer than 255 bytes.
    pub fn known_as(&mut self, users: &[String], tenant: Option<&str>) -> Result<(), VaultError> {
        if !users.is_empty() {
            self.ids = users.iter().flat_map(|user| Id::meant(user)).collect();
        }
        self.tenant = tenant.map(Id::from);
        for user in users {
            self.about("user", user)?;
        }
        tenant.map_or(Ok(()), |tenant| self.about("tenant", tenant))
    }

    /// Imports the hidden rows of an export of disguises, once it names the person. They are JSON
    /// objects with the members `disguise`, `table`, `row` and `values`, one after the other, in an
    /// array, or in the member `rows` of an object; other members of rows are ignored. Beside `rows`
    /// the members `form` and `person` say whose they are.
    ///
    /// # Errors
    /// [`VaultError::NoExport`]; [`VaultError::OtherPerson`]; [`VaultError::HiddenTooLong`];
    /// [`VaultError::Pocket`].
    pub fn hidden_rows(&mut self, export: &[u8]) -> Result<Attribution, VaultError> {
        hidden::fill(self, export)
    }

    /// Returns whether the person has the id to which an export commits.
    fn is_named_by(&self, export: PersonCommitment) -> bool {
        let mut ids = self.ids.iter();
        ids.any(|id| export.is_of(self.tenant.as_ref(), id))
    }

    /// Commits the last rows, and returns what was found.
    ///
    /// # Errors
    /// [`VaultError::Pocket`].
    pub fn finish(mut self) -> Result<Filled, VaultError> {
        self.commit()?;
        Ok(self.filled)
    }

    fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), VaultError> {
        self.store.execute(text, values, &mut NoRows)?;
        Ok(())
    }

    /// Creates tables, outside any transaction.
    fn create(&mut self, statements: &[&str]) -> Result<(), VaultError> {
        self.commit()?;
        statements
            .iter()
            .try_for_each(|statement| self.execute(statement, &[]))
    }

    fn insert(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), VaultError> {
        if self.pending == 0 {
            self.execute("BEGIN", &[])?;
        }
        self.execute(text, values)?;
        self.pending += 1;
        if self.pending >= ROWS_PER_COMMIT {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), VaultError> {
        if self.pending > 0 {
            self.pending = 0;
            self.execute("COMMIT", &[])?;
        }
        Ok(())
    }

    fn about(&mut self, name: &str, value: &str) -> Result<(), VaultError> {
        let values = [Value::Text(name), Value::Text(value)];
        self.insert("INSERT INTO about (name, value) VALUES (?, ?)", &values)
    }

    /// Returns the number of rows of `table`; `None` without one.
    fn rows(&self, table: &str) -> Option<u64> {
        let table = self.store.table(table)?;
        Some(u64::from(self.store.count(table)))
    }

    /// Returns the id of the last row of `table`; zero without one.
    fn last(&self, table: &str) -> i64 {
        let table = self.store.table(table);
        table.map_or(0, |table| i64::from(self.store.count(table)))
    }

    /// Writes a value in pieces, an empty one too.
    fn value(
        &mut self,
        statement: &str,
        owner: &[Value<'_>],
        bytes: &[u8],
    ) -> Result<(), VaultError> {
        if bytes.is_empty() {
            let mut values = owner.to_vec();
            values.extend([Value::Text("text"), Value::Integer(1), Value::Text("")]);
            return self.insert(statement, &values);
        }
        self.pieces(statement, owner, bytes, VALUE_PIECE_BYTES)
    }

    /// Writes `bytes` in pieces, each a row of `owner`, encoding, number and text. No bytes give no
    /// row.
    fn pieces(
        &mut self,
        statement: &str,
        owner: &[Value<'_>],
        bytes: &[u8],
        piece_bytes: usize,
    ) -> Result<(), VaultError> {
        let (encoding, text) = match readable(bytes) {
            Some(text) => ("text", text.to_owned()),
            None => ("base64", STANDARD.encode(bytes)),
        };
        let mut rest = text.as_str();
        let mut piece = 0;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(piece_bytes));
            piece += 1;
            let mut values = Vec::with_capacity(VALUES_MAX);
            values.extend_from_slice(owner);
            values.extend([
                Value::Text(encoding),
                Value::Integer(piece),
                Value::Text(part),
            ]);
            self.insert(statement, &values)?;
            rest = after;
        }
        Ok(())
    }
}

/// Returns `bytes` as a text that people can read; `None` where they are none, or one with control
/// characters other than tabs and line ends.
fn readable(bytes: &[u8]) -> Option<&str> {
    let is_control = |byte: &u8| *byte < 0x20 && !b"\t\n\r".contains(byte);
    let text = str::from_utf8(bytes).ok()?;
    (!bytes.iter().any(is_control)).then_some(text)
}
