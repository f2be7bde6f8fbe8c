//! The settings that say which database a log tells of, and which log that is.

use std::collections::BTreeMap;

use crate::crypto::random;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Database, DatabaseErrorKind};
use crate::error::{Doing as _, Error};
use crate::records::name::{NAME_BYTES, name, setting_check};
use crate::records::settings::{SALT, SALT_BYTES, damaged, put_setting};
use crate::records::subject::{LOG_NAME_BYTES, LogName, LogNames};
use crate::records::tables::{SETTINGS, bytes, uninstalled};
use crate::statements::deletion::delete_keys;

/// The setting that names the log in which operations are told of.
const LOG: &[u8] = b"log";
/// Its value where several logs may tell of operations, so that none is the one.
const SEVERAL: &[u8] = b"";
/// Its value where operations were done of which no log tells, and none was named yet.
const UNTOLD: &[u8] = b"-";
/// The setting that has the names of all logs in which operations were told of before a separation.
const FORMER_LOGS: &[u8] = b"former logs";
/// The setting that makes another database of a copy.
const HISTORY: &[u8] = b"history";
/// Bytes of the random number of a history, before its check.
const HISTORY_BYTES: usize = 16;
const _: () = assert!(HISTORY_BYTES == LOG_NAME_BYTES, "checked alike");

/// The settings that say which database a log tells of.
pub(crate) struct Identity {
    /// The random salt of this database.
    pub(crate) salt: Vec<u8>,
    history: Option<[u8; HISTORY_BYTES]>,
    log: NotedLog,
    former_logs: Vec<LogName>,
}

/// The log in which operations are told of, as it is noted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotedLog {
    /// No operation was done yet.
    Nothing,
    /// Operations beside registrations were done without a log. A backup of that time looks the same,
    /// whichever log tells of the database since.
    Untold,
    /// Several logs may tell of operations.
    Several,
    Named(LogName),
}

impl Identity {
    /// Reads it.
    ///
    /// # Errors
    /// [`Error::DamagedRow`] for a setting that cannot be what was stored.
    pub(crate) fn read(database: &mut dyn Database) -> Result<Self, Error> {
        let sql = format!("SELECT name, value FROM {SETTINGS} WHERE name IN (?, ?, ?, ?)");
        let names = [SALT, HISTORY, LOG, FORMER_LOGS];
        let rows = database.query(&sql, &names.map(bytes));
        let mut all = BTreeMap::new();
        for row in rows.map_err(uninstalled)? {
            let Ok([name, value]) = <[Value; 2]>::try_from(row) else {
                continue;
            };
            let name = name.principal();
            let Value::Bytes(value) = value else {
                return Err(damaged(&String::from_utf8_lossy(&name)));
            };
            all.insert(name, value);
        }
        let salt = all.remove(SALT).ok_or(Error::NotInstalled)?;
        let history = all.remove(HISTORY);
        if salt.len() != SALT_BYTES {
            return Err(damaged("salt"));
        }
        let log = all.remove(LOG);
        let former_logs = all.remove(FORMER_LOGS).unwrap_or_default();
        Ok(Self {
            log: noted(&salt, log.as_deref()).ok_or_else(|| damaged("log"))?,
            former_logs: checked(&salt, FORMER_LOGS, &former_logs)
                .ok_or_else(|| damaged("former logs"))?,
            history: history.map(|it| number(&salt, &it)).transpose()?,
            salt,
        })
    }

    /// Returns whether the log in which its operations are told of is noted.
    pub(crate) const fn has_log(&self) -> bool {
        matches!(self.log, NotedLog::Named(_))
    }

    /// Returns whether it is noted that several logs may tell of operations.
    pub(crate) fn has_several_logs(&self) -> bool {
        self.log == NotedLog::Several
    }

    /// Returns whether nothing is noted yet.
    pub(crate) fn may_have_log(&self) -> bool {
        self.log == NotedLog::Nothing
    }

    /// Returns whether nothing says which log tells of its operations.
    pub(crate) fn is_unsaid(&self) -> bool {
        matches!(self.log, NotedLog::Nothing | NotedLog::Untold)
    }

    /// Returns whether it was made another database.
    pub(crate) const fn has_history(&self) -> bool {
        self.history.is_some()
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

    /// Refuses a log of which nothing says that it is the one of this database, in which operations were
    /// done without any.
    pub(crate) fn refuse_unsaid_log(&self, log: Option<&LogNames>) -> Result<(), Error> {
        if log.is_some() && self.log == NotedLog::Untold {
            return Err(Error::UnsaidLog);
        }
        Ok(())
    }

    /// Returns whether its operations are told of in this log, or in one of the same key that was noted by
    /// the key alone: the first operation with it notes which one that is.
    fn is_of(&self, log: &LogNames) -> bool {
        let is_it = |known| known == log.present || known == log.of_key;
        matches!(self.log, NotedLog::Named(known) if is_it(known))
    }

    /// Refuses to make another database of it in the log that tells of it, or of what it was before. A
    /// name by the key alone may be that of any log of the key.
    pub(crate) fn refuse_same_log(&self, log: &LogNames) -> Result<(), Error> {
        let present = match self.log {
            NotedLog::Named(known) => Some(known),
            NotedLog::Nothing | NotedLog::Untold | NotedLog::Several => None,
        };
        let has = |name| present == Some(name) || self.former_logs.contains(&name);
        if has(log.present) {
            return Err(Error::SameLog);
        }
        if has(log.of_key) {
            return Err(Error::UnclearLog);
        }
        Ok(())
    }

    /// Notes its log as one of what it was before.
    pub(crate) fn put_former_log(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let NotedLog::Named(log) = self.log else {
            return Ok(());
        };
        let all = [self.former_logs.concat(), log.to_vec()].concat();
        let all = self.with_check(FORMER_LOGS, &all);
        put_setting(database, FORMER_LOGS, &all)
    }

    /// Notes the log in which the first operation is told of, or, once, that the database has some of
    /// which a log that was not noted tells. A name that does not tell logs of one key apart makes way
    /// for the one that does.
    pub(crate) fn put_log(
        &self,
        database: &mut dyn TenantConnection,
        log: Option<&LogNames>,
        has_logged: bool,
    ) -> Result<(), Error> {
        let Some(log) = log else {
            return Ok(());
        };
        match self.log {
            // Another log may tell of those before.
            NotedLog::Nothing if has_logged && self.history.is_none() => {
                put_first(database, SEVERAL)
            }
            NotedLog::Nothing => put_first(database, &self.with_check(LOG, &log.present)),
            NotedLog::Named(known) if known == log.of_key && known != log.present => {
                self.put_named(database, log)
            }
            NotedLog::Named(_) | NotedLog::Several | NotedLog::Untold => Ok(()),
        }
    }

    /// Notes the log of which somebody, or what it tells, says that it is the one. Where another log may
    /// tell of operations before (`has_logged`), the first of its own decides.
    pub(crate) fn put_said_log(
        &self,
        database: &mut dyn TenantConnection,
        log: Option<&LogNames>,
        has_logged: bool,
    ) -> Result<(), Error> {
        match (log, self.log) {
            (Some(log), NotedLog::Untold) => self.put_named(database, log),
            (Some(log), NotedLog::Nothing) if !has_logged => {
                put_first(database, &self.with_check(LOG, &log.present))
            }
            _ => Ok(()),
        }
    }

    /// Notes that operations were done of which no log tells, unless a program before let one tell of
    /// others.
    pub(crate) fn put_untold(
        &self,
        database: &mut dyn Database,
        has_logged: bool,
    ) -> Result<(), Error> {
        if self.may_have_log() && !has_logged {
            return put_first(database, UNTOLD);
        }
        Ok(())
    }

    /// Makes another database of it, of which no log tells yet.
    pub(crate) fn put_history(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let number = self.with_check(HISTORY, &random::<HISTORY_BYTES>()?);
        put_setting(database, HISTORY, &number)?;
        let by = ["name".to_owned()];
        delete_keys(database, SETTINGS, &by, &[vec![bytes(LOG)]]).map(drop)
    }

    fn put_named(&self, database: &mut dyn TenantConnection, log: &LogNames) -> Result<(), Error> {
        put_setting(database, LOG, &self.with_check(LOG, &log.present))
    }

    fn with_check(&self, setting: &[u8], value: &[u8]) -> Vec<u8> {
        let check = setting_check(&self.salt, setting, value);
        [value, &check].concat()
    }
}

/// Stores the first value of the setting that names the log.
fn put_first(database: &mut dyn Database, value: &[u8]) -> Result<(), Error> {
    let sql = format!("INSERT INTO {SETTINGS} (name, value) VALUES (?, ?)");
    let put = database.attempt(&sql, &[bytes(LOG), bytes(value)]);
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

/// Parses the setting that names the log; nothing where it is damaged.
fn noted(salt: &[u8], value: Option<&[u8]>) -> Option<NotedLog> {
    match value {
        None => Some(NotedLog::Nothing),
        Some(SEVERAL) => Some(NotedLog::Several),
        Some(UNTOLD) => Some(NotedLog::Untold),
        Some(value) => match checked(salt, LOG, value)?.as_slice() {
            [log] => Some(NotedLog::Named(*log)),
            _ => None,
        },
    }
}

/// Parses names of logs, or the number of a history, and the check behind them, which programs before
/// did not write; nothing where they are damaged.
fn checked(salt: &[u8], setting: &[u8], value: &[u8]) -> Option<Vec<LogName>> {
    let (names, check) = value.as_chunks::<LOG_NAME_BYTES>();
    let is_it = match check.len() {
        0 => true,
        NAME_BYTES => {
            let names = value.get(..value.len().saturating_sub(NAME_BYTES))?;
            check == setting_check(salt, setting, names)
        }
        _ => false,
    };
    is_it.then(|| names.to_vec())
}

/// Parses the number of a history.
fn number(salt: &[u8], value: &[u8]) -> Result<[u8; HISTORY_BYTES], Error> {
    match checked(salt, HISTORY, value).as_deref() {
        Some([number]) => Ok(*number),
        _ => Err(damaged_history()),
    }
}

/// Returns the error for a history that cannot be the one of this database.
pub(crate) fn damaged_history() -> Error {
    damaged("history")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_names_of_logs_are_none() {
        let salt = b"a salt";
        let names = [[1; LOG_NAME_BYTES], [2; LOG_NAME_BYTES]];
        let mut value = names.concat();
        assert_eq!(checked(salt, FORMER_LOGS, &value), Some(names.to_vec()));
        value.extend(setting_check(salt, FORMER_LOGS, &names.concat()));
        assert_eq!(checked(salt, FORMER_LOGS, &value), Some(names.to_vec()));
        for place in 0..value.len() {
            let mut changed = value.clone();
            changed[place] ^= 1;
            assert_eq!(checked(salt, FORMER_LOGS, &changed), None);
            let is_earlier_form = place % LOG_NAME_BYTES == 0;
            let cut = checked(salt, FORMER_LOGS, &value[..place]);
            assert_eq!(cut.is_some(), is_earlier_form, "{place}");
        }
        assert!(noted(salt, Some(&value)).is_none());
        assert!(noted(salt, Some(b"--")).is_none());
    }
}
