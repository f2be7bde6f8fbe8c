//! Settings of a database: its salt, the description of the application, the list of updates.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::crypto::random;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Database, DatabaseErrorKind};
use crate::error::{Doing as _, Error};
use crate::records::name::name;
use crate::records::subject::LogNames;
use crate::records::tables::{
    DECAYED, HOLDS, INTENTS, LOCATORS, PRINCIPALS, SCHEDULED, SETTINGS, bytes, uninstalled,
};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;

/// The setting that is the random salt of this database.
pub(crate) const SALT: &[u8] = b"salt";
/// The setting that lists the updates.
pub(crate) const UPDATES: &[u8] = b"updates";

/// The setting that names the log in which operations are told of.
const LOG: &[u8] = b"log";
/// Its value where several logs may tell of operations, so that none is the one.
const SEVERAL: &[u8] = b"";
/// The setting that has the names of all logs in which operations were told of before a separation.
const FORMER_LOGS: &[u8] = b"former logs";
/// The setting that makes another database of a copy.
const HISTORY: &[u8] = b"history";
/// Bytes of the random number of a history.
const HISTORY_BYTES: usize = 16;

/// Bytes of the salt.
pub(crate) const SALT_BYTES: usize = 16;
/// The bytes before and after all marks that tell a salt from another: they lie in a table of their
/// own, so that settings of another database are found out.
pub(crate) const SALT_MARKS: [&[u8]; 2] = [SALT_MARK, b"salt;"];
const SALT_MARK: &[u8] = b"salt:";

/// Returns the mark of a salt.
fn salt_mark(salt: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise salt\0");
    hash.update(salt);
    let digest = hash.finalize();
    let digest = digest.iter().copied().take(SALT_BYTES);
    SALT_MARK.iter().copied().chain(digest).collect()
}

/// Refuses a salt that is not the one whose mark is there: under another one nobody's records, holds
/// and registrations are found.
pub(crate) fn refuse_other_salt(salt: &[u8], marks: &[Vec<u8>]) -> Result<(), Error> {
    let is_it = marks.is_empty() || marks.contains(&salt_mark(salt));
    if salt.len() == SALT_BYTES && is_it {
        return Ok(());
    }
    Err(Error::DamagedRow {
        table: SETTINGS,
        row: "salt".to_owned(),
    })
}

/// Returns the marks of salts, of which there is one; none in a database that a program before this
/// prepared.
pub(crate) fn salt_marks(database: &mut dyn Database) -> Result<Vec<Vec<u8>>, Error> {
    let sql = format!("SELECT mark FROM {DECAYED} WHERE mark > ? AND mark < ?");
    let rows = database.query(&sql, &SALT_MARKS.map(bytes));
    let marks = rows.map_err(uninstalled)?.into_iter().flatten();
    Ok(marks
        .filter_map(|mark| match mark {
            Value::Bytes(mark) => Some(mark),
            _ => None,
        })
        .collect())
}

/// Stores the mark of a salt.
pub(crate) fn put_salt_mark(database: &mut dyn TenantConnection, salt: &[u8]) -> Result<(), Error> {
    insert_all(
        database,
        DECAYED,
        &["mark"],
        &[vec![bytes(&salt_mark(salt))]],
    )
}

/// Stores the description of the application.
pub(crate) fn put_description(
    database: &mut dyn TenantConnection,
    text: &str,
) -> Result<(), Error> {
    put_setting(database, b"description", text.as_bytes())
}

/// Returns the description of the application that was stored last.
pub(crate) fn description(database: &mut dyn Database) -> Result<String, Error> {
    match setting(database, b"description")? {
        Some(text) => String::from_utf8(text).map_err(|_bytes| Error::DamagedRow {
            table: SETTINGS,
            row: "description".to_owned(),
        }),
        None => Err(Error::NotInstalled),
    }
}

/// Returns the list of updates as it was stored last.
pub(crate) fn updates(database: &mut dyn TenantConnection) -> Result<Option<Vec<u8>>, Error> {
    setting(database, UPDATES)
}

/// Stores the list of updates.
pub(crate) fn put_updates(database: &mut dyn TenantConnection, text: &[u8]) -> Result<(), Error> {
    put_setting(database, UPDATES, text)
}

pub(crate) fn put_setting(
    database: &mut dyn TenantConnection,
    name: &[u8],
    value: &[u8],
) -> Result<(), Error> {
    let by = ["name".to_owned()];
    delete_keys(database, SETTINGS, &by, &[vec![bytes(name)]])?;
    insert_all(
        database,
        SETTINGS,
        &["name", "value"],
        &[vec![bytes(name), bytes(value)]],
    )
}

pub(crate) fn setting(database: &mut dyn Database, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let sql = format!("SELECT value FROM {SETTINGS} WHERE name = ?");
    let rows = database.query(&sql, &[bytes(name)]).map_err(uninstalled)?;
    Ok(match rows.into_iter().flatten().next() {
        Some(Value::Bytes(value)) => Some(value),
        _ => None,
    })
}

/// Returns the random salt of this database.
pub(crate) fn own_salt(database: &mut dyn Database) -> Result<Vec<u8>, Error> {
    setting(database, SALT)?.ok_or(Error::NotInstalled)
}

/// Returns the salt of the current tenant's records, or of this database if there are no tenants.
pub(crate) fn salt(database: &mut dyn TenantConnection) -> Result<Vec<u8>, Error> {
    let salt = own_salt(database)?;
    Ok(database.tenancy().salt(salt))
}

/// The settings that say which database a log tells of.
pub(crate) struct Identity {
    /// The random salt of this database.
    pub(crate) salt: Vec<u8>,
    history: Option<Vec<u8>>,
    log: Option<Vec<u8>>,
    former_logs: Vec<u8>,
}

impl Identity {
    /// Returns whether the log in which its operations are told of is noted.
    pub(crate) fn has_log(&self) -> bool {
        self.log.as_deref().is_some_and(|log| log != SEVERAL)
    }

    /// Returns whether a log may be noted still.
    pub(crate) const fn may_have_log(&self) -> bool {
        self.log.is_none()
    }

    /// Reads it.
    pub(crate) fn read(database: &mut dyn Database) -> Result<Self, Error> {
        let sql = format!("SELECT name, value FROM {SETTINGS} WHERE name IN (?, ?, ?, ?)");
        let names = [SALT, HISTORY, LOG, FORMER_LOGS];
        let rows = database.query(&sql, &names.map(bytes));
        let rows = rows.map_err(uninstalled)?.into_iter();
        let mut all: BTreeMap<Vec<u8>, Vec<u8>> = rows
            .filter_map(|row| match <[Value; 2]>::try_from(row) {
                Ok([name, Value::Bytes(value)]) => Some((name.principal(), value)),
                _ => None,
            })
            .collect();
        Ok(Self {
            salt: all.remove(SALT).ok_or(Error::NotInstalled)?,
            history: all.remove(HISTORY),
            log: all.remove(LOG),
            former_logs: all.remove(FORMER_LOGS).unwrap_or_default(),
        })
    }

    /// Returns the name in entries of the database, or of the tenant, that has `salt`.
    pub(crate) fn name(&self, salt: &[u8]) -> String {
        match &self.history {
            None => name(b"database", &[salt]),
            Some(history) => name(b"database", &[salt, history]),
        }
    }

    /// Refuses another log than the one in which operations of this database are told of: of two
    /// neither tells a replay what it takes.
    pub(crate) fn refuse_other_log(&self, log: Option<&LogNames>) -> Result<(), Error> {
        match log {
            Some(log) if self.has_log() && !self.is_of(log) => Err(Error::OtherLog),
            _ => Ok(()),
        }
    }

    /// Returns whether its operations are told of in this log.
    pub(crate) fn is_of(&self, log: &LogNames) -> bool {
        let names = [&log.present, &log.former];
        let known = self.log.as_deref();
        known.is_some_and(|known| names.iter().any(|it| it.as_slice() == known))
    }

    /// Returns whether operations of what it was before are told of in this log.
    pub(crate) fn was_of(&self, log: &LogNames) -> bool {
        let mut names = self.former_logs.chunks(log.present.len());
        names.any(|it| it == log.present || it == log.former)
    }

    /// Notes its log as one of what it was before.
    pub(crate) fn put_former_log(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let Some(log) = self.log.as_deref().filter(|log| *log != SEVERAL) else {
            return Ok(());
        };
        let all = [self.former_logs.as_slice(), log].concat();
        put_setting(database, FORMER_LOGS, &all)
    }

    /// Notes the log in which the first operation is told of, or, once, that the database has some of
    /// which a log that was not noted tells.
    pub(crate) fn put_log(
        &self,
        database: &mut dyn Database,
        log: Option<&LogNames>,
        has_logged: bool,
    ) -> Result<(), Error> {
        let (None, Some(log)) = (&self.log, log) else {
            return Ok(());
        };
        // Another log may tell of those before.
        let is_sure = self.history.is_some() || !has_logged;
        let log = if is_sure {
            log.present.as_slice()
        } else {
            SEVERAL
        };
        let sql = format!("INSERT INTO {SETTINGS} (name, value) VALUES (?, ?)");
        let put = database.attempt(&sql, &[bytes(LOG), bytes(log)]);
        put.map(drop)
            .map_err(|mut error| {
                // Somebody else's first operation came before; then this one is tried again.
                if error.kind == DatabaseErrorKind::Unique {
                    error.kind = DatabaseErrorKind::Conflict;
                }
                error
            })
            .doing("noting the log")
    }
}

/// Makes another database of this one, of which no log tells yet.
pub(crate) fn put_history(database: &mut dyn TenantConnection) -> Result<(), Error> {
    put_setting(database, HISTORY, &random::<HISTORY_BYTES>()?)?;
    let by = ["name".to_owned()];
    delete_keys(database, SETTINGS, &by, &[vec![bytes(LOG)]]).map(drop)
}

/// Returns whether anybody is registered or anything is hidden.
pub(crate) fn is_in_use(database: &mut dyn TenantConnection) -> Result<bool, Error> {
    for table in [PRINCIPALS, LOCATORS, SCHEDULED, INTENTS, HOLDS] {
        let rows = database.query(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]);
        if !rows.map_err(uninstalled)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
