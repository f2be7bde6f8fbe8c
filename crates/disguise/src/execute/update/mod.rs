//! Updates of rows that are disguised meanwhile. They are recorded in order. A record that is
//! opened for a reveal goes through those that came after it.

mod anew;
mod changed;
mod conversion;
mod doubt;
mod found;
mod made;
mod mapping;
mod numbers;
mod overwritten;
mod question;
mod reading;
mod records;
mod session;
mod trial;
mod typed;
mod typing;
mod unsaid;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::made::Made;

pub use self::mapping::Mapping;
pub(crate) use self::numbers::as_numbers;
pub(crate) use self::records::Updates;
use crate::database::shape::Shape;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::settings;

/// The version of a list of updates.
const LIST_VERSION: u32 = 1;
/// The version of a list in which an update says settings of a session.
const LIST_VERSION_OF_SETTINGS: u32 = 2;
/// The version of a list in which an update says how texts are made, or the types of what it makes.
const LIST_VERSION_OF_TYPES: u32 = 3;

/// The version of a list in which an update says columns that were added.
const LIST_VERSION_OF_ADDED: u32 = 4;
/// The version of a list in which an update says types that its migration found.
const LIST_VERSION_OF_FOUND: u32 = 5;

/// A row as it was when it was hidden.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// Its table.
    pub table: String,
    /// Its columns. A record of one overwritten value has only that column and the identifying
    /// ones.
    pub columns: Vec<(String, Value)>,
    /// True if all columns are there.
    pub is_whole: bool,
}

impl Row {
    /// Creates a row of `table` with these columns, as an update returns it.
    pub const fn new(table: String, columns: Vec<(String, Value)>) -> Self {
        Self {
            table,
            columns,
            is_whole: true,
        }
    }

    /// Returns the value of `column`.
    pub fn value(&self, column: &str) -> Option<&Value> {
        let mut columns = self.columns.iter();
        columns
            .find(|(name, _)| name == column)
            .map(|(_, value)| value)
    }
}

/// An update by code: it maps rows that were hidden before it.
///
/// Must be deterministic and leave the ids of users as they are; its name must never change.
pub trait Update {
    /// The name under which it was recorded.
    fn name(&self) -> &str;
    /// Returns the rows that `row` becomes; columns that do not concern it come back unchanged.
    ///
    /// # Errors
    /// The fault of the row, in one clause; the reveal is then refused and nothing changes.
    fn rows(&self, row: Row) -> Result<Vec<Row>, String>;
}

/// An update as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// The mapping; absent for an update by code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mapping: Option<Mapping>,
    /// The types that the columns which it makes had when it was recorded.
    #[serde(default, skip_serializing_if = "Made::is_empty", with = "made")]
    made: Made,
    /// The types that its migration found, as far as it says them.
    #[serde(default, skip_serializing_if = "Made::is_empty", with = "made")]
    was: Made,
}

impl Recorded {
    /// Returns an update by code.
    pub(crate) fn of_code(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            mapping: None,
            made: Made::new(),
            was: Made::new(),
        }
    }

    /// Returns a change of the types of columns that was not recorded by itself.
    fn of_change(name: &str, found: &Arc<Shape>) -> Self {
        Self {
            made: Made::from([(found.table.clone(), Arc::clone(found))]),
            ..Self::of_code(name)
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    version: u32,
    updates: Vec<Recorded>,
}

/// Returns the recorded updates, the oldest first.
pub(crate) fn recorded(database: &mut dyn TenantConnection) -> Result<Vec<Recorded>, Error> {
    listed(settings::updates(database)?.as_deref())
}

/// Returns the updates of the list as it is stored, if there is one.
pub(crate) fn listed(text: Option<&[u8]>) -> Result<Vec<Recorded>, Error> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    let list: List = serde_json::from_slice(text).map_err(|_form| Error::Forged)?;
    if !(LIST_VERSION..=LIST_VERSION_OF_FOUND).contains(&list.version) {
        return Err(Error::Value {
            what: format!(
                "the list of updates has the unknown version {}",
                list.version
            ),
        });
    }
    Ok(list.updates)
}

/// Returns the number of recorded updates.
pub(crate) fn count(updates: &[Recorded]) -> u32 {
    u32::try_from(updates.len()).unwrap_or(u32::MAX)
}

/// Stores all updates.
pub(crate) fn put(
    database: &mut dyn TenantConnection,
    updates: Vec<Recorded>,
) -> Result<(), Error> {
    let mut mappings = updates.iter().filter_map(|it| it.mapping.as_ref());
    let has_types = updates.iter().any(|it| !it.made.is_empty());
    let version = if mappings.clone().any(Mapping::says_found) {
        LIST_VERSION_OF_FOUND
    } else if mappings.clone().any(Mapping::says_added) {
        LIST_VERSION_OF_ADDED
    } else if has_types || mappings.clone().any(Mapping::says_forms) {
        LIST_VERSION_OF_TYPES
    } else if mappings.any(Mapping::says_settings) {
        LIST_VERSION_OF_SETTINGS
    } else {
        LIST_VERSION
    };
    let list = List { version, updates };
    let text = serde_json::to_vec(&list).map_err(|error| Error::Value {
        what: error.to_string(),
    })?;
    settings::put_updates(database, &text)
}
