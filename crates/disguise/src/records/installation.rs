//! The engine's own tables: missing ones are created, by one of all the processes that open a
//! database at once.

use sha2::{Digest as _, Sha256};

use crate::crypto::random;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Database, DatabaseError, DatabaseErrorKind, Dialect, Said};
use crate::error::{Doing as _, Error};
use crate::records::settings::{self, SALT, SALT_BYTES, description, put_setting, setting};
use crate::records::tables::{
    ANSWERS, BAGS, BESIDE_SETTINGS, CREDENTIALS, DEADLINES, DECAYED, FLEETING, FORGOTTEN, HOLDS,
    INTENTS, LATEST, LOCATORS, OF_EVERY_RELEASE, OPERATIONS, PRINCIPALS, REFUSALS, SCHEDULED,
    SETTINGS, SHARED, SUCCESSIONS,
};

/// The setting that says which tables there are.
const LAYOUT: &[u8] = b"layout";
/// Bytes of the hash of all tables.
const LAYOUT_BYTES: usize = 16;
const LOOKING: &str = "looking for the tables of disguises";

/// The description and layout that a database is prepared for.
pub(crate) struct Installation<'a> {
    /// The description of the application.
    pub(crate) description: &'a str,
    layout: Vec<u8>,
}

impl<'a> Installation<'a> {
    pub(crate) fn new(dialect: Dialect, description: &'a str) -> Self {
        Self {
            description,
            layout: layout_of(dialect),
        }
    }

    /// Returns whether the tables exist and the description is the stored one.
    pub(crate) fn is_done(&self, database: &mut dyn Database) -> Result<bool, Error> {
        Ok(self.has_tables(database)? && self.is_described(database)? && is_salt_marked(database)?)
    }

    /// Returns whether all tables exist.
    pub(crate) fn has_tables(&self, database: &mut dyn Database) -> Result<bool, Error> {
        match setting(database, LAYOUT) {
            Ok(layout) => Ok(layout.as_ref() == Some(&self.layout)),
            Err(Error::NotInstalled) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the description is the one that is stored.
    pub(crate) fn is_described(&self, database: &mut dyn Database) -> Result<bool, Error> {
        match description(database) {
            Ok(text) => Ok(text == self.description),
            Err(Error::NotInstalled) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Notes that all tables exist, with a new salt if the database has none yet.
    pub(crate) fn note_tables(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        if setting(database, SALT)?.is_none() {
            put_setting(database, SALT, &random::<SALT_BYTES>()?)?;
        }
        if !is_salt_marked(database)? {
            let salt = settings::own_salt(database)?;
            settings::put_salt_mark(database, &salt)?;
        }
        if self.has_tables(database)? {
            return Ok(());
        }
        put_setting(database, LAYOUT, &self.layout)
    }
}

/// Returns whether the salt has a mark; refuses one that has another's.
fn is_salt_marked(database: &mut dyn Database) -> Result<bool, Error> {
    let salt = settings::own_salt(database)?;
    let marks = settings::salt_marks(database)?;
    settings::refuse_other_salt(&salt, &marks)?;
    Ok(!marks.is_empty())
}

/// Returns whether this program, or one with the same tables, has prepared the database.
pub(crate) fn is_current(database: &mut dyn Database) -> Result<bool, Error> {
    Ok(setting(database, LAYOUT)? == Some(layout_of(database.dialect())))
}

/// Refuses a database that has lost one of the tables.
///
/// # Errors
/// [`Error::RecordsLost`], [`Error::Database`].
pub(crate) fn refuse_lost(database: &mut dyn Database) -> Result<(), Error> {
    match lost_table(database)? {
        Some(table) => Err(Error::RecordsLost { table }),
        None => Ok(()),
    }
}

/// Returns a table that was there and is gone. Created anew, it would look as if nothing had ever
/// been in it; without [`SETTINGS`], a new salt would hide what the others hold.
fn lost_table(database: &mut dyn Database) -> Result<Option<&'static str>, Error> {
    if !has_salt(database)? {
        for table in BESIDE_SETTINGS {
            if has_rows(database, table)? == Some(true) {
                // Another process may have prepared the database since the salt was looked for.
                let is_prepared = has_salt(database)?;
                return Ok((!is_prepared).then_some(SETTINGS));
            }
        }
        return Ok(None);
    }
    let layout = setting(database, LAYOUT)?;
    let is_current = layout == Some(layout_of(database.dialect()));
    let expected: &[&str] = if is_current {
        &BESIDE_SETTINGS
    } else {
        &OF_EVERY_RELEASE
    };
    let one = expected.iter();
    let one = one.map(|table| format!("SELECT 1 FROM {table} WHERE 1 = 0"));
    let all = one.collect::<Vec<_>>().join(" UNION ALL ");
    match database.query(&all, &[]) {
        Err(error) if error.kind == DatabaseErrorKind::Absent => {}
        all => return all.doing(LOOKING).map(|_| None),
    }
    for table in expected {
        if has_rows(database, table)?.is_none() {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

fn has_salt(database: &mut dyn Database) -> Result<bool, Error> {
    match setting(database, SALT) {
        Err(Error::NotInstalled) => Ok(false),
        salt => salt.map(|salt| salt.is_some()),
    }
}

/// Returns whether a table has rows; `None` if it is not there.
fn has_rows(database: &mut dyn Database, table: &str) -> Result<Option<bool>, Error> {
    match database.query(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]) {
        Err(error) if error.kind == DatabaseErrorKind::Absent => Ok(None),
        rows => rows.doing(LOOKING).map(|rows| Some(!rows.is_empty())),
    }
}

/// Creates the missing tables.
pub(crate) fn create(database: &mut dyn TenantConnection) -> Result<(), Error> {
    for statement in tables(database.dialect()) {
        database
            .execute(&statement, &[])
            .doing("creating the disguise tables")?;
    }
    Ok(())
}

/// Waits until nobody else prepares the database. The connection holds the lock until [`unlock`] or
/// its end. A server that defines tables for several connections at once refuses some of them,
/// whatever they say of tables that exist.
pub(crate) fn lock(database: &mut dyn Database) -> Result<(), Error> {
    const DOING: &str = "waiting for others to prepare the database";
    let Some(lock) = database.dialect().installation_lock() else {
        return Ok(());
    };
    database.begin().doing(DOING)?;
    let taken = match lock.patience {
        Some(sql) => database.execute(sql, &[]),
        None => Ok(0),
    };
    let taken = taken.and_then(|_| database.query(lock.take, &[]));
    if taken.is_ok() {
        database.commit().doing(DOING)?;
    } else {
        database.rollback().unwrap_or_default();
    }
    // A server that gives up waiting answers with a zero.
    if taken.doing(DOING)?.concat() == [Value::Int(0)] {
        let message = "another process has been preparing it for too long".to_owned();
        let kind = DatabaseErrorKind::Busy;
        return Err(DatabaseError {
            kind,
            message,
            said: Said::default(),
        })
        .doing(DOING);
    }
    Ok(())
}

/// Lets others prepare the database.
pub(crate) fn unlock(database: &mut dyn Database) {
    if let Some(lock) = database.dialect().installation_lock() {
        // A connection that cannot say so is lost, and its locks with it.
        database.query(lock.give, &[]).unwrap_or_default();
    }
}

/// Returns a hash of all tables.
fn layout_of(dialect: Dialect) -> Vec<u8> {
    let mut hash = Sha256::new();
    for statement in tables(dialect) {
        hash.update(statement);
        hash.update([0]);
    }
    hash.finalize().iter().copied().take(LAYOUT_BYTES).collect()
}

fn tables(dialect: Dialect) -> impl Iterator<Item = String> {
    let (binary, key, end) = (dialect.binary(), dialect.binary_key(), dialect.table_end());
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {PRINCIPALS} (id {key} NOT NULL PRIMARY KEY, public_key {binary} NOT NULL, standing INTEGER NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {LOCATORS} (id {key} NOT NULL PRIMARY KEY, mailbox {key} NOT NULL, sealed {binary} NOT NULL) {end}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {LOCATORS}_mailbox ON {LOCATORS} (mailbox)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {BAGS} (id {key} NOT NULL PRIMARY KEY, body {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {CREDENTIALS} (id {key} NOT NULL PRIMARY KEY, holder {key} NOT NULL, wrapped {binary} NOT NULL) {end}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {CREDENTIALS}_holder ON {CREDENTIALS} (holder)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {SHARED} (slot {key} NOT NULL PRIMARY KEY, version {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {SETTINGS} (name {key} NOT NULL PRIMARY KEY, value {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {HOLDS} (id {key} NOT NULL PRIMARY KEY, held {key} NOT NULL, since BIGINT NOT NULL, actor {binary} NOT NULL, basis {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {DEADLINES} (id {key} NOT NULL PRIMARY KEY, due BIGINT NOT NULL, disguise {key} NOT NULL, cohort {key} NOT NULL) {end}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {DEADLINES}_due ON {DEADLINES} (due)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {FLEETING} (id {key} NOT NULL PRIMARY KEY, due BIGINT NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {SCHEDULED} (id {key} NOT NULL PRIMARY KEY, due BIGINT NOT NULL, what {binary} NOT NULL) {end}"
        ),
        format!("CREATE TABLE IF NOT EXISTS {DECAYED} (mark {key} NOT NULL PRIMARY KEY) {end}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {FORGOTTEN} (id {key} NOT NULL PRIMARY KEY, mailbox {key} NOT NULL) {end}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {FORGOTTEN}_mailbox ON {FORGOTTEN} (mailbox)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {REFUSALS} (id {key} NOT NULL PRIMARY KEY, refused BIGINT NOT NULL, latest BIGINT NOT NULL) {end}"
        ),
        format!("CREATE TABLE IF NOT EXISTS {OPERATIONS} (id {key} NOT NULL PRIMARY KEY) {end}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {LATEST} (id {key} NOT NULL PRIMARY KEY, after {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {INTENTS} (id {key} NOT NULL PRIMARY KEY, what {binary} NOT NULL) {end}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {ANSWERS} (id {key} NOT NULL PRIMARY KEY, request {key} NOT NULL, due BIGINT NOT NULL, sealed {binary} NOT NULL) {end}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {ANSWERS}_due ON {ANSWERS} (due)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {SUCCESSIONS} (id {key} NOT NULL PRIMARY KEY, sealed {binary} NOT NULL) {end}"
        ),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_that_must_be_there_are_those_that_are_created() {
        for dialect in [Dialect::Sqlite, Dialect::Mysql, Dialect::Postgres] {
            let created = tables(dialect);
            let created = created.filter_map(|it| {
                let name = it.strip_prefix("CREATE TABLE IF NOT EXISTS ")?;
                name.split(' ').next().map(str::to_owned)
            });
            let mut created: Vec<String> = created.filter(|it| it != SETTINGS).collect();
            created.sort();
            let mut known = BESIDE_SETTINGS;
            known.sort_unstable();
            assert_eq!(created, known);
        }
    }
}
