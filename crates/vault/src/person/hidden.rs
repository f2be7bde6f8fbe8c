//! Rows that disguises hid of a person, and the credentials that reveal them.

use probity_disguise::{Exported, PersonCommitment};
use probity_pocketdb::flash::Nand;
use probity_pocketdb::{SecureStore, Value};
use serde_json::value::RawValue;

use super::exact_json::Exact;
use super::{Attribution, Person, VALUE_PIECE_BYTES};
use crate::error::{ExportFault, VaultError};
use crate::rows_file::without_place;

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
/// Bytes of a credential's name that are kept, and of any other name that is taken.
const NAME_BYTES: usize = 64;
/// Bytes of what names a row.
const PLACE_BYTES: usize = 120;

/// Imports a credential.
pub(super) fn credential<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    name: &str,
    secret: &[u8],
) -> Result<(), VaultError> {
    if !person.has_credentials {
        person.create(&CREDENTIALS)?;
        person.has_credentials = true;
    }
    let name = name.split_at(name.floor_char_boundary(NAME_BYTES)).0;
    person.pieces(
        "INSERT INTO credentials (name, encoding, piece, text) VALUES (?, ?, ?, ?)",
        &[Value::Text(name)],
        secret,
        VALUE_PIECE_BYTES,
    )
}

/// Imports the hidden rows of an export, and returns whether it says whose they are.
pub(super) fn fill<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    export: &[u8],
) -> Result<Attribution, VaultError> {
    let mut names = if let Some(names) = person.disguises.take() {
        names
    } else {
        person.create(&SCHEMA)?;
        Vec::new()
    };
    let mut number = 0;
    let mut attribution = Attribution::Named;
    let documents = serde_json::Deserializer::from_slice(export);
    let mut documents = documents.into_iter::<Box<RawValue>>();
    while let Some(raw) = documents.next() {
        let malformed = |words| VaultError::NoExport(ExportFault::Malformed(words));
        let raw = raw.map_err(|error| malformed(error.to_string()))?;
        let document = Exact::of(&raw).map_err(|error| {
            let begins = documents.byte_offset().saturating_sub(raw.get().len());
            let before = export.get(..begins).unwrap_or_default();
            let line = before.split(|byte| *byte == b'\n').count();
            let words = without_place(&error);
            malformed(format!(
                "{words}, in the document that begins at line {line}"
            ))
        })?;
        match person_of(&document).map_err(VaultError::NoExport)? {
            Some(named) if !person.is_named_by(named) => return Err(VaultError::OtherPerson),
            Some(_) => {}
            None => attribution = Attribution::Unnamed,
        }
        for row in rows_of(&document).map_err(VaultError::NoExport)? {
            number += 1;
            let hidden = Hidden::of(row)
                .map_err(|lacks| VaultError::NoExport(ExportFault::Row { number, lacks }))?;
            hidden.check_lengths(number)?;
            hidden.write(person, &mut names)?;
        }
    }
    if number == 0 {
        return Err(VaultError::NoExport(ExportFault::Empty));
    }
    person.disguises = Some(names);
    Ok(attribution)
}

/// Returns the person whom a document names; nothing for one of an earlier form, or for rows alone.
fn person_of(document: &Exact) -> Result<Option<PersonCommitment>, ExportFault> {
    if !matches!(document.member("rows"), Some(Exact::List(_))) {
        return Ok(None);
    }
    let person = document.member("person");
    match (document.member("form"), person) {
        (None, None) => return Ok(None),
        // Without its form an export is still that of the person whom it names.
        (None, Some(_)) => {}
        (Some(Exact::Number(form)), _) if *form == Exported::FORM.to_string() => {}
        (Some(Exact::Null), _) => return Err(ExportFault::Form("null".to_owned())),
        (Some(form), _) => return Err(ExportFault::Form(form.plain())),
    }
    let text = |name| match person?.member(name)? {
        Exact::Text(text) => Some(text),
        _ => None,
    };
    let parsed = text("nonce").zip(text("hash"));
    let parsed = parsed.and_then(|(nonce, hash)| PersonCommitment::parse(nonce, hash));
    parsed.map(Some).ok_or(ExportFault::NoPerson)
}

/// Returns the rows of a document.
fn rows_of(document: &Exact) -> Result<&[Exact], ExportFault> {
    match (document, document.member("rows")) {
        (Exact::List(rows), _) => Ok(rows),
        // One of the two would be passed over.
        (_, Some(Exact::List(_))) if Hidden::of(document).is_ok() => Err(ExportFault::RowWithRows),
        (_, Some(Exact::List(rows))) => Ok(rows),
        _ => Ok(std::slice::from_ref(document)),
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

    /// Refuses what its columns here do not hold, with the number of the row.
    fn check_lengths(&self, number: u64) -> Result<(), VaultError> {
        let columns = self.values.iter().map(|(name, _)| name.as_str());
        let names = [
            (&*self.disguise, "the name of a disguise", NAME_BYTES),
            (self.table, "the name of a table", NAME_BYTES),
            (&*self.row, "a key", PLACE_BYTES),
        ];
        let columns = columns.map(|name| (name, "the name of a column", NAME_BYTES));
        for (text, part, most) in names.into_iter().chain(columns) {
            let bytes = text.len();
            if bytes > most {
                return Err(VaultError::HiddenTooLong {
                    number,
                    part,
                    bytes,
                    most,
                });
            }
        }
        Ok(())
    }

    fn write<F: Nand, S: SecureStore>(
        &self,
        person: &mut Person<'_, F, S>,
        names: &mut Vec<String>,
    ) -> Result<(), VaultError> {
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
