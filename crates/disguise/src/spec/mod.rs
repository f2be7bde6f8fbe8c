//! Specifications of disguises as written: parsed, not yet checked against a database.

pub(crate) mod draft;
mod edna;
pub(crate) mod filler;
mod name_matching;
mod native;
pub(crate) mod predicate;
pub(crate) mod redact;
pub(crate) mod trial;

use std::collections::{BTreeMap, BTreeSet};

use crate::database::value::Value;
use crate::error::SpecError;
use crate::schema::generate::Generator;
use crate::schema::{Pseudo, Schema};
use crate::spec::redact::Redact;

/// The most bytes that a specification file may have.
const SPEC_BYTES_MAX: usize = 1 << 20;

/// One change to the rows that a predicate chooses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transformation {
    pub(crate) table: String,
    /// The place in the file, for errors.
    pub(crate) place: String,
    /// SQL condition; `None` for every row.
    pub(crate) predicate: Option<String>,
    /// Joined tables, beginning with the table itself; `None` for the table alone.
    pub(crate) from: Option<String>,
    pub(crate) kind: Kind,
}

/// The change to the rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Remove,
    Modify {
        column: String,
        replacement: Replacement,
    },
    Decorrelate {
        group_by: Vec<String>,
        owners: Vec<String>,
    },
    /// References to people become NULL. No file says so of a table; what is said of people who leave does.
    Unlink {
        column: String,
    },
}

/// The value that replaces another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Replacement {
    /// A value drawn for each row.
    Drawn(Generator),
    /// The text that it was, with marks in the place of what was found in it.
    Redacted(Redact),
}

/// A disguise specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    pub(crate) transformations: Vec<Transformation>,
    pub(crate) parameters: BTreeMap<String, Option<String>>,
    /// Parameters of the condition of inactivity, which stands in the same file.
    pub(crate) of_inactivity: BTreeSet<String>,
    /// True if it has Edna's form, in which slips are noted that she does not notice.
    pub(crate) of_edna: bool,
    /// The file that it was parsed from.
    pub(crate) text: String,
}

impl Spec {
    /// Parses Edna's disguise specification, JSON as its prototype reads it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn from_edna_json(text: &str) -> Result<Self, SpecError> {
        let spec = edna::spec(bounded(text)?)?;
        Ok(spec.of(text))
    }

    /// Returns whether it removes rows of a table.
    pub(crate) fn removes(&self, table: &str) -> bool {
        let mut steps = self.transformations.iter();
        steps.any(|it| it.kind == Kind::Remove && it.table.eq_ignore_ascii_case(table))
    }

    fn of(self, text: &str) -> Self {
        let text = text.to_owned();
        Self { text, ..self }
    }

    /// The tables it names, in order of first mention.
    pub fn tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = Vec::new();
        for transformation in &self.transformations {
            if !tables.contains(&transformation.table.as_str()) {
                tables.push(&transformation.table);
            }
        }
        tables
    }

    /// Returns the values of all parameters: those that are given, and the defaults of the others.
    pub(crate) fn given(
        &self,
        named: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Value>, SpecError> {
        let mut given = named.clone();
        for (name, default) in &self.parameters {
            match (given.contains_key(name), default) {
                (false, Some(default)) => {
                    given.insert(name.clone(), Value::Text(default.clone()));
                }
                (false, None) => {
                    return Err(SpecError::of_parameter(name, "is not given"));
                }
                (true, _) => {}
            }
        }
        Ok(given)
    }

    /// Refuses a specification that changes nothing, as a file that was cut short does: whoever asked
    /// to leave would stay.
    pub(crate) fn refuse_empty(&self) -> Result<(), SpecError> {
        if self.transformations.is_empty() {
            let what = "changes no table, so that nothing would be hidden";
            return Err(SpecError::new("the specification", what));
        }
        Ok(())
    }

    /// Refuses a parameter that the specification neither declares nor uses, and that `inactive` does not use either: a name
    /// with a slip in it would leave the default in the place of the value.
    pub(crate) fn refuse_unknown(
        &self,
        named: &BTreeMap<String, Value>,
        inactive: Option<&str>,
    ) -> Result<(), SpecError> {
        let mut known = self.of_inactivity.clone();
        known.extend(self.parameters.keys().cloned());
        known.extend(inactive.into_iter().flat_map(predicate::parameters));
        for it in &self.transformations {
            let conditions = it.predicate.iter().chain(&it.from);
            known.extend(conditions.flat_map(|text| predicate::parameters(text)));
            if let Kind::Modify {
                replacement: Replacement::Redacted(redact),
                ..
            } = &it.kind
            {
                known.extend(redact.parameters().map(str::to_owned));
            }
        }
        let Some(unknown) = named.keys().find(|name| !known.contains(*name)) else {
            return Ok(());
        };
        let known: Vec<String> = known.into_iter().collect();
        let has = match known.as_slice() {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        let what = format!("is not in the specification, whose parameters are: {has}");
        Err(SpecError::of_parameter(unknown, what))
    }
}

pub(crate) use native::{described, description};

fn bounded(text: &str) -> Result<&str, SpecError> {
    if text.len() > SPEC_BYTES_MAX {
        let what = format!("has {} bytes, the limit is {SPEC_BYTES_MAX}", text.len());
        return Err(SpecError::new("the file", what));
    }
    Ok(text)
}

/// A file in the native form, or Edna's disguise specification: what happens, and what is said beside it.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct SpecFile {
    /// The disguise.
    pub spec: Spec,
    /// Annotations of tables.
    pub schema: Schema,
    /// The way in which placeholder users are made, when it is said.
    pub pseudo: Option<Pseudo>,
    /// The people who count as inactive, when it is said: a condition on the users table.
    pub inactive: Option<String>,
}

impl SpecFile {
    /// Parses any of the forms: the native one in TOML or JSON, or Edna's JSON.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        bounded(text)?;
        let file = if !text.trim_start().starts_with('{') {
            native::from_toml(text)?
        } else if is_native_json(text) {
            native::from_json(text)?
        } else {
            Self {
                spec: edna::spec(text)?,
                ..Self::default()
            }
        };
        let mut spec = file.spec.of(text);
        let inactive = file.inactive.as_deref().into_iter();
        spec.of_inactivity = inactive.flat_map(predicate::parameters).collect();
        Ok(Self { spec, ..file })
    }
}

/// Returns whether a JSON text has the native form: Edna's has nothing but tables, and for each a list of objects with
/// one key.
fn is_native_json(text: &str) -> bool {
    let Ok(serde_json::Value::Object(parts)) = serde_json::from_str(text) else {
        return false;
    };
    let edna = |entry: &serde_json::Value| {
        let names = ["Remove", "Modify", "Decor"];
        names.iter().any(|name| entry.get(name).is_some())
    };
    let native = [
        "users",
        "tenant",
        "inactive",
        "tables",
        "parameters",
        "remove",
        "modify",
        "decorrelate",
    ];
    parts.iter().all(|(name, value)| {
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        native.contains(&name.as_str()) && !entries.iter().any(edna)
    })
}

/// No condition, or the words that mean none.
fn condition(predicate: &str) -> Option<String> {
    let trimmed = predicate.trim();
    let none = trimmed.is_empty() || trimmed.eq_ignore_ascii_case("true");
    (!none).then(|| trimmed.to_owned())
}

fn joined(from: &str) -> Option<String> {
    let trimmed = from.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}
