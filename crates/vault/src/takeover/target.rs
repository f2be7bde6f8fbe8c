//! Columns that foreign keys refer to: the values of a referring column that are exactly one of theirs.

use probity_disguise::database::{Catalog, CatalogTable};
use probity_disguise::{Database, Dialect, Value as Found};
use probity_pocketdb::Value;

use super::column::Form;
use super::keys::key_of;
use super::losses::{Kind, converts_nothing, kinds};
use crate::error::VaultError;

/// The column that a referring one leads to. A column here has the type of the one that it refers to,
/// and the other database may have two types that it compares.
pub(super) struct Target {
    table: String,
    column: String,
    form: Form,
    /// The kind of its values, where those of another kind are equal to none of them, and here would
    /// have the same text.
    kind: Option<Kind>,
}

impl Target {
    /// Returns the target of each column of a table that refers to one.
    pub(super) fn of_columns(
        database: &mut dyn Database,
        catalog: &Catalog,
        table: &CatalogTable,
    ) -> Result<Vec<Option<Self>>, VaultError> {
        let columns = table.columns.iter();
        let targets = columns.map(|column| Self::of(database, catalog, table, &column.name));
        targets.collect()
    }

    fn of(
        database: &mut dyn Database,
        catalog: &Catalog,
        table: &CatalogTable,
        column: &str,
    ) -> Result<Option<Self>, VaultError> {
        let Some(key) = key_of(table, column) else {
            return Ok(None);
        };
        let target = catalog.get(&key.to_table);
        let target = target.and_then(|target| target.column(key.to_columns.first()?));
        let Some(target) = target else {
            return Ok(None);
        };
        let dialect = database.dialect();
        let kind = if dialect == Dialect::Sqlite && converts_nothing(target) {
            let found = kinds(database, &key.to_table, &target.name)?;
            // Of both kinds it is only where both were given up for texts.
            found.first().copied().filter(|_| found.len() == 1)
        } else {
            None
        };
        Ok(Some(Self {
            table: key.to_table.clone(),
            column: target.name.clone(),
            form: Form::of(dialect, target),
            kind,
        }))
    }

    /// Returns what a value of a referring column is among the values of this one; `None` where it is
    /// none of them. `text` is the text of what was found.
    pub(super) fn key<'t>(
        &self,
        found: &Found,
        value: Value<'t>,
        text: &'t str,
    ) -> Option<Value<'t>> {
        let kind = match found {
            Found::Text(_) => Kind::Text,
            _ => Kind::Number,
        };
        if self.kind.is_some_and(|own| own != kind) {
            return None;
        }
        match (self.form, value, found) {
            (Form::Integer | Form::Boolean, Value::Integer(_), _)
            | (Form::Real, Value::Integer(_) | Value::Real(_), _)
            | (Form::Decimal | Form::Text, Value::Text(_), _) => Some(value),
            (Form::Integer | Form::Boolean, Value::Real(number), _) => {
                exact_integer(number).map(Value::Integer)
            }
            (Form::Integer | Form::Boolean, _, Found::Real(number)) => {
                exact_integer(*number).map(Value::Integer)
            }
            (Form::Real, _, Found::Real(number)) => Some(Value::Real(*number)),
            // An integer beside a real number is compared exactly where its row is looked up.
            (Form::Integer | Form::Boolean | Form::Real, Value::Text(text), _) => {
                integer_of(text).map(Value::Integer)
            }
            (Form::Decimal | Form::Text, Value::Integer(_), Found::Int(_)) => {
                Some(Value::Text(text))
            }
            _ => None,
        }
    }

    /// Returns the refusal of a value that is none of this column's.
    pub(super) fn refusal(&self, column: String) -> VaultError {
        VaultError::NotReferred {
            columns: vec![column],
            what: format!("{}.{} has no such value", self.table, self.column),
        }
    }
}

/// Returns the integer whose text is exactly this one: `05` and `+5` are texts that no integer has.
fn integer_of(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Returns the integer that a real number is.
fn exact_integer(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0;
    // All digits of a whole number are its own.
    is_whole.then(|| format!("{number:.0}").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_number_is_an_integer_where_it_has_its_value() {
        for (number, integer) in [
            (2.0, Some(2)),
            (-0.0, Some(0)),
            (2.5, None),
            (9_007_199_254_740_992.0, Some(9_007_199_254_740_992)),
            (-2f64.powi(63), Some(i64::MIN)),
            (2f64.powi(63), None),
            (1e300, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(exact_integer(number), integer, "{number}");
        }
    }
}
