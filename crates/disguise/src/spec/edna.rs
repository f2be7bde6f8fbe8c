//! Edna's three JSON files, accepted unchanged.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Kind, Spec, SpecError, Transformation, condition, joined};
use crate::generate::Generator;
use crate::schema::{Pseudo, Reference, TableNotes};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Entry {
    Remove {
        pred: String,
        from: String,
    },
    Modify {
        pred: String,
        from: String,
        col: String,
        gen_value: Generator,
    },
    Decor {
        pred: String,
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

pub(super) fn spec(text: &str) -> Result<Spec, SpecError> {
    let tables: BTreeMap<String, Vec<Entry>> = parse(text)?;
    let mut spec = Spec::default();
    for (table, entries) in tables {
        for (index, entry) in entries.into_iter().enumerate() {
            let place = format!("table {table}, entry {}", index.saturating_add(1));
            spec.transformations
                .push(transformation(&table, place, entry));
        }
    }
    Ok(spec)
}

fn transformation(table: &str, place: String, entry: Entry) -> Transformation {
    let (predicate, from, kind) = match entry {
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
                generator: gen_value,
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
pub(crate) fn tables(text: &str) -> Result<BTreeMap<String, TableNotes>, SpecError> {
    let tables: BTreeMap<String, TableInfo> = parse(text)?;
    tables
        .into_iter()
        .map(|(name, table)| Ok((name.clone(), notes(&name, table)?)))
        .collect()
}

fn notes(name: &str, table: TableInfo) -> Result<TableNotes, SpecError> {
    let wrong = |what: String| Err(SpecError::new(format!("table {name}"), what));
    if table.table != name {
        return wrong(format!("calls itself {}", table.table));
    }
    let mut notes = TableNotes {
        identity: table.id_cols,
        ..TableNotes::default()
    };
    for key in table.owner_fks.iter().chain(&table.other_fks) {
        if key.from_table != name {
            return wrong(format!("has a foreign key of table {}", key.from_table));
        }
    }
    notes.owners = table
        .owner_fks
        .into_iter()
        .map(|key| key.from_col)
        .collect();
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
pub(crate) fn pseudo(text: &str) -> Result<Pseudo, SpecError> {
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
        SpecError::new(place, error.to_string())
    })
}
