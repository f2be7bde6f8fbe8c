//! Rows that disguises hid of a person, and the credentials that reveal them.
//!
//! The hidden rows are JSON objects with the members `disguise`, `table`, `row` and `values`. They
//! come one a line, in an array, or in the member `rows` of an object; other members are ignored.

use std::fs;
use std::path::Path;

use probity_pocketdb::Value;
use serde_json::value::RawValue;

use super::exact_json::Exact;
use super::{Person, VALUE_PIECE_BYTES};
use crate::args::PocketCreate;
use crate::failure::Failure;
use crate::key_file::warn_if_open;

/// The table of credentials.
const CREDENTIALS: [&str; 1] = [
    "CREATE TABLE credentials (id INTEGER PRIMARY KEY, name TEXT(64), encoding TEXT(8), \
     piece INTEGER, text TEXT(120))",
];
/// The tables of hidden rows, referenced ones first.
const SCHEMA: [&str; 3] = [
    "CREATE TABLE disguises (id INTEGER PRIMARY KEY, name TEXT(64))",
    "CREATE TABLE hidden (id INTEGER PRIMARY KEY, disguise INTEGER REFERENCES disguises(id), \
     source TEXT(64) INDEXED, place TEXT(120))",
    "CREATE TABLE hidden_values (id INTEGER PRIMARY KEY, hidden INTEGER REFERENCES hidden(id), \
     name TEXT(64), type TEXT(8), encoding TEXT(8), piece INTEGER, text TEXT(120))",
];
/// Size limits of a file with hidden rows and of one with a credential, in bytes.
const EXPORT_BYTES_MAX: u64 = 256 << 20;
const CREDENTIAL_BYTES_MAX: u64 = 64 << 10;

/// Imports the credentials and the hidden rows that the arguments name.
pub(super) fn fill(person: &mut Person<'_>, args: &PocketCreate) -> Result<(), Failure> {
    if !args.credentials.is_empty() {
        person.create(&CREDENTIALS)?;
    }
    for path in &args.credentials {
        warn_if_open(path, "the secret in");
        let bytes = read(path, CREDENTIAL_BYTES_MAX)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split_at(name.floor_char_boundary(64)).0;
        person.pieces(
            "INSERT INTO credentials (name, encoding, piece, text) VALUES (?, ?, ?, ?)",
            &[Value::Text(name)],
            &bytes,
            VALUE_PIECE_BYTES,
        )?;
    }
    if args.disguises.is_empty() {
        return Ok(());
    }
    person.create(&SCHEMA)?;
    let mut names = Vec::new();
    for path in &args.disguises {
        let text = read(path, EXPORT_BYTES_MAX)?;
        let refused = |reason: String| {
            Failure::new(format!(
                "{} is no export of a disguise: {reason}",
                path.display()
            ))
        };
        let mut count = 0;
        let documents = serde_json::Deserializer::from_slice(&text);
        for document in documents.into_iter::<Box<RawValue>>() {
            let document = document.and_then(|raw| Exact::of(&raw));
            let document = document.map_err(|error| refused(error.to_string()))?;
            for row in rows_of(&document) {
                count += 1;
                let hidden = Hidden::of(row);
                let hidden =
                    hidden.map_err(|what| refused(format!("row {count} has no {what}")))?;
                hidden.write(person, &mut names)?;
            }
        }
        if count == 0 {
            return Err(refused("it has no rows".to_owned()));
        }
    }
    Ok(())
}

/// Reads a file of at most `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::file("read", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > most {
        return Err(Failure::new(format!(
            "{} is longer than {most} bytes",
            path.display()
        )));
    }
    fs::read(path).map_err(failed)
}

/// Returns the rows of a document.
fn rows_of(document: &Exact) -> &[Exact] {
    match (document, document.member("rows")) {
        (Exact::List(rows), _) | (_, Some(Exact::List(rows))) => rows,
        _ => std::slice::from_ref(document),
    }
}

/// A row that a disguise has hidden.
struct Hidden<'j> {
    disguise: String,
    table: &'j str,
    row: String,
    values: &'j [(String, Exact)],
}

impl<'j> Hidden<'j> {
    /// Parses a row; the error names the member that it lacks.
    fn of(row: &'j Exact) -> Result<Self, &'static str> {
        let member = |name: &'static str| row.member(name).ok_or(name);
        let Exact::Text(table) = member("table")? else {
            return Err("table");
        };
        let Exact::Members(values) = member("values")? else {
            return Err("values");
        };
        Ok(Self {
            disguise: member("disguise")?.plain(),
            table,
            row: member("row")?.plain(),
            values,
        })
    }

    fn write(&self, person: &mut Person<'_>, names: &mut Vec<String>) -> Result<(), Failure> {
        let known = names.iter().position(|name| *name == self.disguise);
        let number = known.unwrap_or(names.len());
        if known.is_none() {
            let statement = "INSERT INTO disguises (name) VALUES (?)";
            person.insert(statement, &[Value::Text(&self.disguise)])?;
            names.push(self.disguise.clone());
        }
        let disguise = i64::try_from(number + 1).unwrap_or(i64::MAX);
        person.insert(
            "INSERT INTO hidden (disguise, source, place) VALUES (?, ?, ?)",
            &[
                Value::Integer(disguise),
                Value::Text(self.table),
                Value::Text(&self.row),
            ],
        )?;
        let hidden = person.last("hidden");
        for (name, value) in self.values {
            let owner = [
                Value::Integer(hidden),
                Value::Text(name),
                Value::Text(type_of(value)),
            ];
            let statement = "INSERT INTO hidden_values (hidden, name, type, encoding, piece, text) \
                             VALUES (?, ?, ?, ?, ?, ?)";
            person.value(statement, &owner, value.plain().as_bytes())?;
        }
        Ok(())
    }
}

fn type_of(value: &Exact) -> &'static str {
    match value {
        Exact::Null => "null",
        Exact::Boolean(_) => "boolean",
        Exact::Number(_) => "number",
        Exact::Text(_) => "text",
        Exact::List(_) | Exact::Members(_) => "json",
    }
}
