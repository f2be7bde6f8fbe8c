//! The tables of the engine itself, by their names.

use crate::database::value::Value;
use crate::database::{DatabaseError, DatabaseErrorKind};
use crate::error::Error;

pub(crate) const PRINCIPALS: &str = "probity_principals";
pub(crate) const LOCATORS: &str = "probity_locators";
pub(crate) const BAGS: &str = "probity_bags";
pub(crate) const CREDENTIALS: &str = "probity_credentials";
pub(crate) const SHARED: &str = "probity_shared";
pub(crate) const SETTINGS: &str = "probity_settings";
pub(crate) const HOLDS: &str = "probity_holds";
pub(crate) const DEADLINES: &str = "probity_deadlines";
pub(crate) const FLEETING: &str = "probity_fleeting";
pub(crate) const SCHEDULED: &str = "probity_scheduled";
pub(crate) const DECAYED: &str = "probity_decayed";
pub(crate) const OPERATIONS: &str = "probity_operations";
pub(crate) const LATEST: &str = "probity_latest";
pub(crate) const INTENTS: &str = "probity_intents";
pub(crate) const FORGOTTEN: &str = "probity_forgotten";
pub(crate) const ANSWERS: &str = "probity_answers";
pub(crate) const REFUSALS: &str = "probity_refusals";
pub(crate) const SUCCESSIONS: &str = "probity_successions";

/// The tables that every release has had: registrations, and what was hidden.
pub(crate) const OF_EVERY_RELEASE: [&str; 5] = [PRINCIPALS, LOCATORS, BAGS, CREDENTIALS, SHARED];

/// All tables but [`SETTINGS`].
pub(crate) const BESIDE_SETTINGS: [&str; 17] = [
    PRINCIPALS,
    LOCATORS,
    BAGS,
    CREDENTIALS,
    SHARED,
    HOLDS,
    DEADLINES,
    FLEETING,
    SCHEDULED,
    DECAYED,
    FORGOTTEN,
    REFUSALS,
    OPERATIONS,
    LATEST,
    INTENTS,
    ANSWERS,
    SUCCESSIONS,
];

/// Returns whether a table of this name is one that disguises make in a database.
pub fn is_own_table(name: &str) -> bool {
    name == SETTINGS || BESIDE_SETTINGS.contains(&name)
}

/// Returns the error of a read; a missing table of the engine means that the database is not
/// prepared for disguises.
pub(crate) fn uninstalled(error: DatabaseError) -> Error {
    match error.kind {
        DatabaseErrorKind::Absent => Error::NotInstalled,
        _ => Error::Database {
            doing: "reading what is stored of disguises",
            source: error,
        },
    }
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec())
}
