//! `pocket schema`: the tables and columns of a database, and the refusals that they explain.

use std::path::Path;

use probity_pocketdb::{ColumnDefinition, Kind, Layout};
use serde::Serialize;

use super::{Place, Vault};
use crate::args::PocketSchema;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::Output;

/// The remedy for a statement about a table, a column or a key that is not there.
pub(super) const ADVICE: &str = "see tables, columns and keys with: probity pocket schema FILE";

#[derive(Serialize)]
struct Schema<'a> {
    file: &'a Path,
    tables: Vec<TableForm>,
}

#[derive(Serialize)]
struct TableForm {
    name: String,
    /// `rows` or `columns`, where the table says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_as: Option<&'static str>,
    columns: Vec<ColumnForm>,
    #[serde(skip)]
    statement: String,
}

#[derive(Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of a document are what readers of it ask for"
)]
struct ColumnForm {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    /// Bytes of the longest text.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_max: Option<u16>,
    primary_key: bool,
    unique: bool,
    indexed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    references: Option<KeyForm>,
}

#[derive(Serialize)]
struct KeyForm {
    table: String,
    /// None where that table has no column for its rows' numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
}

impl ColumnForm {
    fn of((column, kind): (ColumnDefinition<'_>, Kind)) -> Self {
        let (kind, bytes_max) = match kind {
            Kind::Position | Kind::Integer | Kind::Reference => ("integer", None),
            Kind::Real => ("real", None),
            Kind::Text(bytes) => ("text", Some(bytes)),
        };
        let primary_key = column.kind == Kind::Position;
        Self {
            name: column.name.to_owned(),
            kind,
            bytes_max,
            primary_key,
            unique: column.unique || primary_key,
            // Rows are found by their number, and by each number that refers to them.
            indexed: column.indexed || primary_key || column.reference.is_some(),
            references: column.reference.map(|(table, key)| KeyForm {
                table: table.to_owned(),
                column: (!key.is_empty()).then(|| key.to_owned()),
            }),
        }
    }
}

pub(super) fn run(args: &PocketSchema, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let vault = place.open(true)?;
    let tables = tables_of(&vault);
    place.close(vault)?;
    let mut output = Output::new();
    if args.json {
        let file = &place.file;
        output.json(&Schema { file, tables })?;
    } else {
        for table in &tables {
            output.lines(&table.statement)?;
        }
    }
    output.flush()?;
    Ok(Status::Done)
}

fn tables_of(vault: &Vault) -> Vec<TableForm> {
    let tables = vault.tables().map(|(table, name)| TableForm {
        name: name.to_owned(),
        stored_as: match vault.layout(table) {
            Layout::Keyed => None,
            Layout::Rows => Some("rows"),
            Layout::Columns => Some("columns"),
        },
        columns: vault.definitions(table).map(ColumnForm::of).collect(),
        statement: vault.creation(table),
    });
    tables.collect()
}

/// Returns whether the database refuses a statement, in the words `what`, for something that its
/// tables, columns and keys explain.
pub(super) fn is_of_schema(what: &str) -> bool {
    let begins = ["there is no table ", "there is no column "];
    let ends = [
        " is not a table of the statement",
        " is not joined along its foreign key",
        " references all the others",
    ];
    let asks = ["SHOW", "DESCRIBE", "DESC", "PRAGMA"];
    let is_lacking = what.starts_with("the table ") && what.contains(" has no column ");
    is_lacking
        || begins.iter().any(|words| what.starts_with(words))
        || ends.iter().any(|words| what.ends_with(words))
        || what.starts_with("several tables have a column ")
        || asks
            .iter()
            .any(|word| what == format!("{word} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_about_tables_columns_and_keys_are_known_by_their_words() {
        for what in [
            "there is no column who",
            "the table people has no column who",
            "several tables have a column name",
            "x is not a table of the statement",
            "actors is not joined along its foreign key",
            "no table of the query references all the others",
            "SHOW is not supported",
        ] {
            assert!(is_of_schema(what), "{what}");
        }
        for what in [
            "HAVING is not supported",
            "FROM is expected",
            "the table has a primary key already",
        ] {
            assert!(!is_of_schema(what), "{what}");
        }
    }
}
