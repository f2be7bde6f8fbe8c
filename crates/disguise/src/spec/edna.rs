//! Edna's three JSON files, accepted unchanged.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Kind, Replacement, Spec, Transformation, condition, joined};
use crate::error::SpecError;
use crate::schema::generate::Generator;
use crate::schema::{Pseudo, Reference, Schema, TableNotes};

/// A condition as text. Older files have a tree in its place, which Edna's program of today does not read either.
struct Condition(String);

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            _ => Err(D::Error::custom(
                "pred is no text: this is an older form of Edna's files, which her program does not read any more either; write the condition as SQL, or \"True\" for every row",
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Entry {
    Remove {
        pred: Condition,
        from: String,
    },
    Modify {
        pred: Condition,
        from: String,
        col: String,
        gen_value: Generator,
    },
    Decor {
        pred: Condition,
        from: String,
        group_by_cols: Vec<String>,
        user_fk_cols: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    to_table: String,
    to_col: String,
    from_table: String,
    from_col: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableInfo {
    table: String,
    id_cols: Vec<String>,
    owner_fks: Vec<Key>,
    other_fks: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PseudoInfo {
    table: String,
    id_col: String,
    cols: Vec<String>,
    val_generation: Vec<Generator>,
}

/// The entries of one table, as they stand in the file.
type Entries<'a> = (String, Vec<&'a RawValue>);

/// A JSON object in the order of the file, each table once.
struct Tables<'a>(Vec<Entries<'a>>);

impl<'de> Deserialize<'de> for Tables<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Tables<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of transformations for each table")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Tables<'de>, M::Error> {
        let mut tables: Vec<Entries<'de>> = Vec::new();
        while let Some((table, entries)) = map.next_entry::<String, Vec<&'de RawValue>>()? {
            if tables.iter().any(|(known, _)| *known == table) {
                return Err(M::Error::custom(format!("table {table} appears twice")));
            }
            tables.push((table, entries));
        }
        Ok(Tables(tables))
    }
}

impl Schema {
    /// Parses Edna's table information.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn from_edna_json(text: &str) -> Result<Self, SpecError> {
        Ok(Self {
            notes: tables(text)?,
            tenant: None,
            of_edna: true,
        })
    }
}

impl Pseudo {
    /// Parses Edna's generator of pseudoprincipals.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn from_edna_json(text: &str) -> Result<Self, SpecError> {
        pseudo(text)
    }
}

pub(super) fn spec(text: &str) -> Result<Spec, SpecError> {
    let Tables(tables) = parse(text)?;
    let mut spec = Spec {
        of_edna: true,
        ..Spec::default()
    };
    for (table, entries) in tables {
        for (index, raw) in entries.into_iter().enumerate() {
            let line = line_of(text, raw.get());
            let place = format!(
                "line {line}, table {table}, entry {}",
                index.saturating_add(1)
            );
            let entry: Entry = serde_json::from_str(raw.get()).map_err(|error| {
                let line = line.saturating_add(error.line()).saturating_sub(1);
                SpecError::new(format!("line {line}, table {table}"), without_place(&error))
            })?;
            spec.transformations
                .push(transformation(&table, place, entry));
        }
    }
    Ok(spec)
}

/// The line of `text` on which its part `part` begins.
fn line_of(text: &str, part: &str) -> usize {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let before = text.get(..start).unwrap_or_default();
    before.matches('\n').count().saturating_add(1)
}

/// The message of a JSON error, which names its place in the part that was parsed.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

fn transformation(table: &str, place: String, entry: Entry) -> Transformation {
    let (Condition(predicate), from, kind) = match entry {
        Entry::Remove { pred, from } => (pred, from, Kind::Remove),
        Entry::Modify {
            pred,
            from,
            col,
            gen_value,
        } => (
            pred,
            from,
            Kind::Modify {
                column: col,
                replacement: Replacement::Drawn(gen_value),
            },
        ),
        Entry::Decor {
            pred,
            from,
            group_by_cols,
            user_fk_cols,
        } => (
            pred,
            from,
            Kind::Decorrelate {
                group_by: group_by_cols,
                owners: user_fk_cols,
            },
        ),
    };
    Transformation {
        table: table.to_owned(),
        place,
        predicate: condition(&predicate),
        from: joined(&from),
        kind,
    }
}

/// Parses Edna's table information.
fn tables(text: &str) -> Result<BTreeMap<String, TableNotes>, SpecError> {
    let tables: BTreeMap<String, TableInfo> = parse(text)?;
    tables
        .into_iter()
        .map(|(name, table)| Ok((name.clone(), notes(&name, table)?)))
        .collect()
}

fn notes(name: &str, table: TableInfo) -> Result<TableNotes, SpecError> {
    let wrong = |what: String| Err(SpecError::new(format!("table {name}"), what));
    if !table.table.eq_ignore_ascii_case(name) {
        return wrong(format!("calls itself {}", table.table));
    }
    let mut notes = TableNotes {
        identity: Some(table.id_cols),
        ..TableNotes::default()
    };
    for key in table.owner_fks.iter().chain(&table.other_fks) {
        if !key.from_table.eq_ignore_ascii_case(name) {
            return wrong(format!("has a foreign key of table {}", key.from_table));
        }
    }
    let owners = table.owner_fks.into_iter().map(|key| key.from_col);
    notes.owners = Some(owners.collect());
    notes.references = table
        .other_fks
        .into_iter()
        .map(|key| Reference {
            columns: vec![key.from_col],
            to_table: key.to_table,
            to_columns: vec![key.to_col],
        })
        .collect();
    Ok(notes)
}

/// Parses Edna's generator of pseudoprincipals.
fn pseudo(text: &str) -> Result<Pseudo, SpecError> {
    let info: PseudoInfo = parse(text)?;
    if info.cols.len() != info.val_generation.len() {
        let what = format!(
            "has {} columns but {} generators",
            info.cols.len(),
            info.val_generation.len()
        );
        return Err(SpecError::new("the pseudoprincipal generator", what));
    }
    Ok(Pseudo {
        table: info.table,
        id: info.id_col,
        columns: info.cols.into_iter().zip(info.val_generation).collect(),
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, SpecError> {
    serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        SpecError::new(place, without_place(&error))
    })
}
