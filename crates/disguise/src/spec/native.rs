//! The native form of a specification, TOML or JSON: what happens, to whose rows, and who the users are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{Kind, Replacement, Spec, SpecFile, Transformation, condition, joined};
use crate::error::SpecError;
use crate::schema::generate::Generator;
use crate::schema::leaving::Said;
use crate::schema::{Pseudo, Reference, References, Schema, TableNotes};
use crate::spec::redact::Redact;

/// The parts that say what happens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<T> {
    users: Option<Users>,
    tenant: Option<String>,
    inactive: Option<String>,
    #[serde(default)]
    tables: BTreeMap<String, Table>,
    /// Parameter name to its default; the empty text means that the caller must give it.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    #[serde(default = "Vec::new")]
    remove: Vec<T>,
    #[serde(default = "Vec::new")]
    modify: Vec<T>,
    #[serde(default = "Vec::new")]
    decorrelate: Vec<T>,
}

/// The users table and how its placeholders are made.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Users {
    table: String,
    id: String,
    #[serde(default)]
    placeholder: Option<BTreeMap<String, Generator>>,
}

/// The notes on one table; missing ones are read from the database.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owners: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    readers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    through: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    references: Vec<Key>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meanwhile: Option<References>,
    #[serde(default, skip_serializing_if = "Said::is_empty")]
    on_leave: Said,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    columns: Vec<String>,
    table: String,
    to: Vec<String>,
}

/// The part that is stored in the database, so that a reveal needs no file.
#[derive(Serialize, Deserialize)]
struct Description {
    users: Users,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// True if the notes on tables come from an Edna file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    edna: bool,
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    table: String,
    #[serde(default)]
    r#where: String,
    #[serde(default)]
    from: String,
    column: Option<String>,
    value: Option<Generator>,
    redact: Option<Redact>,
    owners: Option<Vec<String>>,
    group_by: Option<Vec<String>>,
}

/// Parses the form in TOML.
pub(super) fn from_toml(text: &str) -> Result<SpecFile, SpecError> {
    let line = |place: usize| {
        let before = text.get(..place).unwrap_or_default();
        before.matches('\n').count().saturating_add(1)
    };
    let file: File<Spanned<Entry>> = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(span.start));
        SpecError::new(format!("line {line}"), error.message().to_owned())
    })?;
    built(file, |entry| {
        let place = format!("line {}", line(entry.span().start));
        (place, entry.into_inner())
    })
}

/// Parses the same form in JSON.
pub(super) fn from_json(text: &str) -> Result<SpecFile, SpecError> {
    let file: File<Entry> = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        SpecError::new(place, error.to_string())
    })?;
    let mut number: usize = 0;
    built(file, |entry| {
        number = number.saturating_add(1);
        (format!("transformation {number}"), entry)
    })
}

fn built<T>(
    file: File<T>,
    mut placed: impl FnMut(T) -> (String, Entry),
) -> Result<SpecFile, SpecError> {
    let mut spec = Spec::default();
    let words = [
        ("remove", file.remove),
        ("modify", file.modify),
        ("decorrelate", file.decorrelate),
    ];
    for (word, entries) in words {
        for entry in entries {
            let (place, entry) = placed(entry);
            let place = format!("{place}, {word} of table {}", entry.table);
            spec.transformations
                .push(transformation(word, place, entry)?);
        }
    }
    spec.parameters = file
        .parameters
        .into_iter()
        .map(|(name, default)| (name, (!default.is_empty()).then_some(default)))
        .collect();
    Ok(SpecFile {
        spec,
        schema: schema(file.tenant, file.tables),
        pseudo: file.users.map(pseudo).transpose()?,
        inactive: file.inactive,
    })
}

fn transformation(word: &str, place: String, entry: Entry) -> Result<Transformation, SpecError> {
    let missing = |name: &str| SpecError::new(place.clone(), format!("needs {name}"));
    let extra = |name: &str| SpecError::new(place.clone(), format!("takes no {name}"));
    let column = entry.column;
    let replacement = match (entry.value, entry.redact) {
        (Some(value), None) => Some(Replacement::Drawn(value)),
        (None, Some(redact)) => Some(Replacement::Redacted(redact)),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(extra("value beside redact")),
    };
    let (owners, group_by) = (entry.owners, entry.group_by);
    if word != "modify" && (column.is_some() || replacement.is_some()) {
        return Err(extra("column, value and redact"));
    }
    if word != "decorrelate" && (owners.is_some() || group_by.is_some()) {
        return Err(extra("owners and group_by"));
    }
    let kind = match word {
        "remove" => Kind::Remove,
        "modify" => Kind::Modify {
            column: column.ok_or_else(|| missing("column"))?,
            replacement: replacement.ok_or_else(|| missing("value or redact"))?,
        },
        _ => Kind::Decorrelate {
            owners: owners.ok_or_else(|| missing("owners"))?,
            group_by: group_by.unwrap_or_default(),
        },
    };
    Ok(Transformation {
        table: entry.table,
        predicate: condition(&entry.r#where),
        from: joined(&entry.from),
        place,
        kind,
    })
}

fn pseudo(users: Users) -> Result<Pseudo, SpecError> {
    let Some(placeholder) = users.placeholder else {
        let what = "needs placeholder, which says how each column of a placeholder is made: see what disguise draft proposes";
        return Err(SpecError::new(
            format!("users, table {}", users.table),
            what,
        ));
    };
    Ok(Pseudo {
        table: users.table,
        id: users.id,
        columns: placeholder.into_iter().collect(),
    })
}

fn schema(tenant: Option<String>, tables: BTreeMap<String, Table>) -> Schema {
    let reference = |key: Key| Reference {
        columns: key.columns,
        to_table: key.table,
        to_columns: key.to,
    };
    let notes = |table: Table| TableNotes {
        identity: table.identity,
        owners: table.owners,
        readers: table.readers,
        through: table.through,
        references: table.references.into_iter().map(reference).collect(),
        meanwhile: table.meanwhile,
        on_leave: table.on_leave,
        tenant: table.tenant,
        shared: table.shared,
    };
    Schema {
        tenant,
        of_edna: false,
        notes: tables
            .into_iter()
            .map(|(name, table)| (name, notes(table)))
            .collect(),
    }
}

/// Writes a description down, to be stored in the database.
pub(crate) fn description(schema: &Schema, pseudo: &Pseudo) -> Result<String, serde_json::Error> {
    let key = |reference: &Reference| Key {
        columns: reference.columns.clone(),
        table: reference.to_table.clone(),
        to: reference.to_columns.clone(),
    };
    let table = |notes: &TableNotes| Table {
        identity: notes.identity.clone(),
        owners: notes.owners.clone(),
        readers: notes.readers.clone(),
        through: notes.through.clone(),
        references: notes.references.iter().map(key).collect(),
        meanwhile: notes.meanwhile,
        on_leave: notes.on_leave.clone(),
        tenant: notes.tenant.clone(),
        shared: notes.shared,
    };
    serde_json::to_string(&Description {
        users: Users {
            table: pseudo.table.clone(),
            id: pseudo.id.clone(),
            placeholder: Some(pseudo.columns.iter().cloned().collect()),
        },
        tenant: schema.tenant.clone(),
        edna: schema.of_edna,
        tables: schema
            .notes
            .iter()
            .map(|(name, notes)| (name.clone(), table(notes)))
            .collect(),
    })
}

/// Reads what [`description`] wrote.
pub(crate) fn described(text: &str) -> Result<(Schema, Pseudo), SpecError> {
    let stored: Description = serde_json::from_str(text)
        .map_err(|error| SpecError::new("the stored description", error.to_string()))?;
    let mut schema = schema(stored.tenant, stored.tables);
    schema.of_edna = stored.edna;
    Ok((schema, pseudo(stored.users)?))
}
