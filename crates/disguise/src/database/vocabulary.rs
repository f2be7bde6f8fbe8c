//! Filters errors of the database: names from its catalog and known words of servers, never a
//! value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Catalog, Column, DatabaseError, Rule};

/// The messages of servers about a refusal, with a hole for each name or value. Other messages are
/// not repeated, because triggers may put anything into them.
const SENTENCES: [&str; 27] = [
    // PostgreSQL.
    "duplicate key value violates unique constraint \"{}\"",
    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
    "null value in column \"{}\" violates not-null constraint",
    "new row for relation \"{}\" violates check constraint \"{}\"",
    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
    "conflicting key value violates exclusion constraint \"{}\"",
    "value for domain {} violates check constraint \"{}\"",
    "domain {} does not allow null values",
    "value too long for type {}",
    "invalid input syntax for type {}: \"{}\"",
    "invalid input value for enum {}: \"{}\"",
    "date/time field value out of range: \"{}\"",
    "value \"{}\" is out of range for type {}",
    "no partition of relation \"{}\" found for row",
    "integer out of range",
    "smallint out of range",
    "bigint out of range",
    "numeric field overflow",
    // MariaDB and MySQL.
    "Duplicate entry '{}' for key '{}'",
    "Column '{}' cannot be null",
    "Field '{}' doesn't have a default value",
    "Cannot delete or update a parent row: a foreign key constraint fails (`{}`.`{}`, CONSTRAINT `{}` FOREIGN KEY (`{}`) REFERENCES `{}` (`{}`){})",
    "Cannot add or update a child row: a foreign key constraint fails (`{}`.`{}`, CONSTRAINT `{}` FOREIGN KEY (`{}`) REFERENCES `{}` (`{}`){})",
    "CONSTRAINT `{}` failed for `{}`.`{}`",
    "Incorrect {} value: '{}' for column `{}`.`{}`.`{}`",
    "{} for column '{}'",
];
/// The faults that may stand before `for column` in the last of these sentences.
const FAULTS: [&str; 3] = ["Out of range value", "Data truncated", "Data too long"];

/// The text of a database about a refusal. It may quote values, so only a `Vocabulary` reads it.
#[derive(Clone, Default)]
pub struct Said(Option<Box<Words>>);

impl Said {
    pub(super) fn of(words: Words) -> Self {
        Self(Some(Box::new(words)))
    }

    /// Returns the text about a statement that had no value of a row.
    pub(crate) fn without_values(&self) -> Option<&str> {
        self.0.as_deref().map(|it| it.text.as_str())
    }

    /// Returns the part about a constraint, if a constraint is the cause.
    pub(super) fn of_constraint(&mut self) -> Option<&mut Words> {
        self.0.as_deref_mut().filter(|it| it.is_constraint)
    }
}

/// The words of a database, and what they are about by its own account.
#[derive(Clone, Default)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) table: Option<String>,
    pub(super) column: Option<String>,
    pub(super) constraint: Option<String>,
    /// True if a constraint is why.
    pub(super) is_constraint: bool,
    /// The meaning of the code, and the code; empty if nothing is to be added.
    pub(super) meaning: &'static str,
    pub(super) code: String,
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Said")
    }
}

/// The names of a table.
#[derive(Debug, Default)]
struct TableNames {
    columns: BTreeMap<String, Column>,
    /// The constraints, with their columns.
    constraints: BTreeMap<String, Vec<String>>,
    /// The conditions, with their columns.
    conditions: BTreeMap<String, Vec<String>>,
}

impl TableNames {
    fn column(&self, name: &str) -> Option<&str> {
        self.columns
            .get_key_value(name)
            .map(|(name, _)| name.as_str())
    }
}

/// The names of a database.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    tables: BTreeMap<String, TableNames>,
    types: BTreeSet<String>,
}

/// The table, columns and constraint that an error concerns.
struct Place<'a> {
    table: &'a str,
    columns: Vec<&'a str>,
    constraint: Option<&'a str>,
}

impl Vocabulary {
    /// Returns a column as the catalog describes it.
    pub(crate) fn column(&self, table: &str, name: &str) -> Option<&Column> {
        self.tables.get(table)?.columns.get(name)
    }

    pub(crate) fn of(catalog: &Catalog) -> Self {
        let mut vocabulary = Self::default();
        for (name, table) in catalog {
            let mut names = TableNames::default();
            for column in &table.columns {
                names.columns.insert(column.name.clone(), column.clone());
                let types = [Some(&column.declared), column.base.as_ref()];
                vocabulary
                    .types
                    .extend(types.into_iter().flatten().cloned());
            }
            for name in &table.primary_key {
                names.columns.entry(name.clone()).or_default();
            }
            for it in &table.constraints {
                let columns = it.columns.clone();
                if !it.name.is_empty() {
                    names.constraints.insert(it.name.clone(), columns.clone());
                }
                if let Rule::Check(condition) = &it.rule {
                    names
                        .conditions
                        .insert(condition.trim().to_owned(), columns);
                }
            }
            vocabulary.tables.insert(name.clone(), names);
        }
        vocabulary
    }

    /// Returns the error of `statement` with the table, the column and the constraint it concerns,
    /// and the words of the database as far as they contain only these names.
    pub(crate) fn named(&self, statement: &str, mut error: DatabaseError) -> DatabaseError {
        let Some(said) = &error.said.0 else {
            return error;
        };
        if said.meaning.is_empty() {
            // The words of `SQLite` about a constraint quote no value.
            if let Some(place) = self.place(statement, said).filter(|_| said.is_constraint) {
                error.message = format!("{place}: {}", error.message);
            }
            return error;
        }
        let words = match self.masked(&said.text) {
            Some(words) => format!(" ({}: {words})", said.code),
            None if said.code.is_empty() => String::new(),
            None => format!(" ({})", said.code),
        };
        let meaning = said.meaning;
        error.message = match self.place(statement, said) {
            Some(place) => format!("{place}: {meaning}{words}"),
            None => format!("{meaning}{words}"),
        };
        error
    }

    /// Returns the existing table, columns or constraint that `said` names; else the table of the
    /// statement.
    fn place(&self, statement: &str, said: &Words) -> Option<Place<'_>> {
        let quoted = quoted(&said.text);
        let own = named_in(statement);
        let tables = said
            .table
            .iter()
            .map(String::as_str)
            .chain(quoted.iter().copied())
            .chain(own);
        let tables: Vec<(&str, &TableNames)> = tables.filter_map(|it| self.table(it)).collect();
        let constraint = said.constraint.as_deref().into_iter();
        let last = quoted.iter().rev().copied();
        let after_point = last
            .clone()
            .filter_map(|it| it.rsplit_once('.').map(|(_, it)| it));
        let called: Vec<&str> = constraint.chain(last.clone()).chain(after_point).collect();
        let mut of_tables = called
            .iter()
            .flat_map(|it| tables.iter().map(move |table| (it, table)));
        let known = of_tables
            .find_map(|(it, (table, names))| Some((*table, names.constraints.get_key_value(*it)?)));
        let anywhere = || {
            let mut all = called
                .iter()
                .flat_map(|it| self.tables.iter().map(move |table| (it, table)));
            all.find_map(|(it, (table, names))| {
                Some((table.as_str(), names.constraints.get_key_value(*it)?))
            })
        };
        if let Some((table, (constraint, columns))) = known.or_else(anywhere) {
            return Some(Place {
                table,
                columns: columns.iter().map(String::as_str).collect(),
                constraint: Some(constraint),
            });
        }
        let (table, names) = tables.first()?;
        if let Some(columns) = names.conditions.get(said.text.trim()) {
            let columns = columns.iter().map(String::as_str).collect();
            return Some(Place {
                table,
                columns,
                constraint: None,
            });
        }
        let said = said.column.iter().flat_map(|it| it.split(','));
        let columns: Vec<&str> = said.filter_map(|it| names.column(it)).collect();
        let columns = if columns.is_empty() {
            last.filter_map(|it| names.column(it)).take(1).collect()
        } else {
            columns
        };
        Some(Place {
            table,
            columns,
            constraint: None,
        })
    }

    fn table(&self, name: &str) -> Option<(&str, &TableNames)> {
        let (name, names) = self.tables.get_key_value(name)?;
        Some((name, names))
    }

    fn has(&self, name: &str) -> bool {
        let mut all = self.tables.values();
        let of_table =
            |it: &TableNames| it.columns.contains_key(name) || it.constraints.contains_key(name);
        self.tables.contains_key(name)
            || self.types.contains(name)
            || FAULTS.contains(&name)
            || name
                .split_once('.')
                .is_some_and(|(table, own)| self.tables.contains_key(table) && self.has(own))
            || all.any(of_table)
    }

    /// Returns the words of a server with three dots in place of everything but names; nothing for
    /// unknown words.
    fn masked(&self, words: &str) -> Option<String> {
        let (head, row) = words.rsplit_once(" at row ").unwrap_or((words, ""));
        let is_row = !row.is_empty() && row.bytes().all(|byte| byte.is_ascii_digit());
        let words = if is_row { head } else { words };
        SENTENCES
            .iter()
            .find_map(|sentence| self.filled(sentence, words))
    }

    fn filled(&self, sentence: &str, words: &str) -> Option<String> {
        let mut pieces = sentence.split("{}").peekable();
        let first = pieces.next()?;
        let mut rest = words.strip_prefix(first)?;
        let mut out = first.to_owned();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            let (hole, after) = match (is_last, piece) {
                (true, "") => (rest, ""),
                (true, piece) => (rest.strip_suffix(piece)?, ""),
                (false, piece) => rest.split_once(piece)?,
            };
            out.push_str(if self.has(hole) { hole } else { "..." });
            out.push_str(piece);
            rest = after;
        }
        rest.is_empty().then_some(out)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}", self.table)?;
        match self.columns.as_slice() {
            [] => {}
            [one] => write!(f, ", column {one}")?,
            several => write!(f, ", columns {}", several.join(", "))?,
        }
        self.constraint
            .map_or(Ok(()), |it| write!(f, ", constraint {it}"))
    }
}

/// Returns the quoted parts of a text.
fn quoted(words: &str) -> Vec<&str> {
    let parts = words.split(['\'', '`', '"']);
    parts
        .enumerate()
        .filter(|(at, _)| at % 2 == 1)
        .map(|(_, it)| it)
        .collect()
}

/// Returns the table that a statement changes or reads first.
fn named_in(statement: &str) -> Option<&str> {
    let words = [
        "INSERT INTO ",
        "INSERT IGNORE INTO ",
        "INSERT OR ABORT INTO ",
        "UPDATE OR ABORT ",
        "UPDATE ",
        "UPDATE IGNORE ",
        "DELETE FROM ",
        " FROM ",
    ];
    let after = words.iter().find_map(|word| statement.split_once(word));
    quoted(after?.1).first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{CatalogTable, Constraint, DatabaseErrorKind};

    fn vocabulary() -> Vocabulary {
        let column = |name: &str| Column {
            name: name.to_owned(),
            declared: "integer".to_owned(),
            ..Column::default()
        };
        let constraint = |name: &str, column: &str| Constraint {
            name: name.to_owned(),
            columns: vec![column.to_owned()],
            rule: Rule::Unique,
        };
        let table = CatalogTable {
            columns: vec![column("id"), column("email")],
            constraints: vec![constraint("PRIMARY", "id"), constraint("by_mail", "email")],
            ..CatalogTable::default()
        };
        Vocabulary::of(&Catalog::from([("users".to_owned(), table)]))
    }

    fn told(words: &str) -> String {
        let error = DatabaseError {
            kind: DatabaseErrorKind::Unique,
            message: String::new(),
            said: Said::of(Words {
                text: words.to_owned(),
                meaning: "it is refused",
                code: "error 1".to_owned(),
                ..Words::default()
            }),
        };
        let statement = "UPDATE `users` SET `email` = ?";
        vocabulary().named(statement, error).message
    }

    #[test]
    fn names_of_the_catalog_are_told_and_nothing_else_is() {
        assert_eq!(
            told("Duplicate entry 'bea@example.com' for key 'by_mail'"),
            "table users, column email, constraint by_mail: it is refused (error 1: Duplicate entry '...' for key 'by_mail')"
        );
        assert_eq!(
            told("Data too long for column 'email' at row 19"),
            "table users, column email: it is refused (error 1: Data too long for column 'email')"
        );
        let place = "table users: it is refused";
        for (words, own) in [
            ("bea@example.com is not welcome", "(error 1)"),
            (
                "Column 'bea@example.com' cannot be null",
                "(error 1: Column '...' cannot be null)",
            ),
            (
                "Duplicate entry 'x' for key 'bea' for key 'bea",
                "(error 1)",
            ),
            ("bea for column '19'", "(error 1: ... for column '...')"),
            ("integer out of range, said bea", "(error 1)"),
        ] {
            assert_eq!(told(words), format!("{place} {own}"));
        }
        let twice = told("Duplicate entry 'x' for key 'bea' for key 'by_mail'");
        assert!(
            twice.contains("constraint by_mail") && !twice.contains("bea'"),
            "{twice}"
        );
    }
}
