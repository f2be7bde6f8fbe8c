//! `SQLite`, embedded.

mod checks;
mod keys;
mod utf16;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};

use self::utf16::Order;
use super::{
    Catalog, CatalogTable, Column, Constraint, Database, DatabaseError, DatabaseErrorKind, Dialect,
    Property, Rule, Said, Structure, Words, spoken_of,
};
use crate::database::value::Value;

/// The time that a statement waits for another connection's lock.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// The time that a checkpoint waits for readers of an older state; after it, deleted rows stay in
/// the write-ahead log until those readers are done.
const CLEAR_WAIT: Duration = Duration::from_secs(2);
/// Kibibytes of pages kept in memory, so that a large transaction is not written out before its end.
const CACHE_KIBIBYTES: i64 = 65_536;
/// The name of a row's place.
const ROW_PLACE: &str = "rowid";
/// The constraints for which `SQLite` names only the columns.
const NAMING_COLUMNS: [i32; 7] = [
    rusqlite::ffi::SQLITE_CONSTRAINT_CHECK,
    rusqlite::ffi::SQLITE_CONSTRAINT_DATATYPE,
    rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
    rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL,
    rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
    rusqlite::ffi::SQLITE_CONSTRAINT_ROWID,
    rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE,
];
/// Statements kept prepared.
const STATEMENTS_KEPT: usize = 256;

/// A connection to a `SQLite` file.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    /// True if a trigger may refuse a row and leave what its statement did before
    /// (`RAISE(FAIL)`).
    leaves_halves: bool,
    /// The order of bytes in a file whose texts are UTF-16: what is no UTF-16 there is read as
    /// another text.
    utf16: Option<Order>,
}

impl Sqlite {
    /// Opens the file at `path`, which must exist unless it is to be created empty.
    ///
    /// # Errors
    /// When `SQLite` cannot open it.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let database = Self::over(Connection::open(path).map_err(refused)?)?;
        database.make_own()?;
        Ok(database)
    }

    /// Opens the file at `path`, which must exist: a mistyped name must not become an empty database.
    ///
    /// # Errors
    /// When there is no such file or `SQLite` cannot open it.
    pub fn existing(path: &Path) -> Result<Self, DatabaseError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Self::over(Connection::open_with_flags(path, flags).map_err(refused)?)?;
        database.make_own()?;
        // The application's foreign keys hold for what is done here too.
        database.control("PRAGMA foreign_keys = ON")?;
        Ok(database)
    }

    /// Works on a connection of the application, so that both share transactions and settings. From
    /// then on its deletions overwrite the file: removed rows must not stay in free pages.
    ///
    /// # Errors
    /// When `SQLite` refuses the settings.
    pub fn over(connection: Connection) -> Result<Self, DatabaseError> {
        connection.busy_timeout(BUSY_WAIT).map_err(refused)?;
        connection
            .pragma_update(None, "secure_delete", "ON")
            .map_err(refused)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let encoding: String = connection
            .query_row("PRAGMA encoding", [], |row| row.get(0))
            .map_err(refused)?;
        Ok(Self {
            connection,
            leaves_halves: false,
            utf16: Order::of(&encoding),
        })
    }

    /// Returns the connection underneath, for the application's own statements.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Settings of a connection that no application shares.
    fn make_own(&self) -> Result<(), DatabaseError> {
        // With samples of `ANALYZE`, a statement would be prepared again for each value it runs
        // with.
        let stable = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
        self.connection
            .set_db_config(stable, true)
            .and_then(|_| {
                self.connection
                    .pragma_update(None, "cache_size", -CACHE_KIBIBYTES)
            })
            .map_err(refused)
    }

    /// Writes the write-ahead log over the old pages of the file and empties it. Returns whether no
    /// other connection prevented it.
    fn checkpoint(&self) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(CLEAR_WAIT)?;
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = self
            .connection
            .query_row(sql, [], |row| row.get::<_, i64>(0));
        self.connection.busy_timeout(BUSY_WAIT)?;
        match busy {
            Ok(busy) => Ok(busy == 0),
            Err(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Runs a prepared statement. A trigger may end the whole transaction (`RAISE(ROLLBACK)`); this
    /// must not be taken for the refusal of a single row.
    fn run(
        &self,
        statement: &mut CachedStatement<'_>,
        parameters: &[Value],
    ) -> Result<u64, DatabaseError> {
        let was_open = !self.connection.is_autocommit();
        let is_confined = was_open && self.leaves_halves && !statement.readonly();
        if is_confined {
            self.control("SAVEPOINT probity_statement")?;
        }
        let done = statement.execute(params_from_iter(parameters));
        if is_confined && !self.connection.is_autocommit() {
            if done.is_err() {
                self.control("ROLLBACK TO probity_statement")?;
            }
            self.control("RELEASE probity_statement")?;
        }
        match done {
            Ok(changed) => Ok(u64::try_from(changed).unwrap_or(u64::MAX)),
            Err(error) if was_open && self.connection.is_autocommit() => Err(DatabaseError {
                kind: DatabaseErrorKind::Other,
                message: format!("{}, which ended the transaction", words(&error)),
                said: Said::default(),
            }),
            Err(error) => Err(refused(error)),
        }
    }

    fn control(&self, sql: &str) -> Result<(), DatabaseError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut it| it.execute([]))
            .map_err(refused)?;
        Ok(())
    }

    fn table(&self, name: &str) -> rusqlite::Result<CatalogTable> {
        let mut table = CatalogTable::default();
        let is_strict = self.is_strict(name)?;
        let mut keys: Vec<(i64, String)> = Vec::new();
        let mut statement = self.connection.prepare(
            "SELECT name, type, \"notnull\", pk, dflt_value IS NOT NULL FROM pragma_table_info(?)",
        )?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            let column: String = row.get(0)?;
            let position: i64 = row.get(3)?;
            if position > 0 {
                keys.push((position, column.clone()));
            }
            let declared: String = row.get(1)?;
            // In a strict table it keeps every value as it is; elsewhere it is a word like others.
            let has_none = is_strict && declared.eq_ignore_ascii_case("ANY");
            let nullable = row.get::<_, i64>(2)? == 0;
            let has_default = row.get::<_, i64>(4)? == 1;
            table.columns.push(Column {
                name: column,
                declared: if has_none { String::new() } else { declared },
                nullable,
                has_default,
                base: None,
                members: Vec::new(),
                collation: None,
                times: None,
                structure: Structure::Single,
            });
        }
        table.row_place = self.row_place(name, &table)?;
        keys.sort();
        table.primary_key = keys.into_iter().map(|(_, name)| name).collect();
        table.foreign_keys = self.foreign_keys(name)?;
        let made = self.made(name)?;
        table.unique_keys = self.unique_keys((name, &made), &table)?;
        if checks::names_collations(&made) {
            for column in &mut table.columns {
                column.collation = self.collation(name, &column.name)?;
            }
        }
        if checks::settles_conflicts(&made) {
            table.properties.push(Property::SettlesConflicts);
        }
        table.constraints = self.constraints((name, &made), &table)?;
        Ok(table)
    }

    /// Returns a table and the columns by which it refers to missing rows, so that the commit is
    /// refused.
    fn broken_key(&self) -> rusqlite::Result<Option<(String, String)>> {
        let sql = "SELECT c.\"table\", group_concat(l.\"from\")
                     FROM (SELECT \"table\", fkid FROM pragma_foreign_key_check LIMIT 1) c,
                          pragma_foreign_key_list(c.\"table\") l
                    WHERE l.id = c.fkid GROUP BY 1";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        match rows.next()? {
            Some(row) => Ok(Some((row.get(0)?, row.get(1)?))),
            None => Ok(None),
        }
    }

    /// Returns unique keys, conditions and foreign keys. `SQLite` names few of them.
    fn constraints(
        &self,
        (name, made): (&str, &str),
        table: &CatalogTable,
    ) -> rusqlite::Result<Vec<Constraint>> {
        let mut found: Vec<Constraint> = Vec::new();
        let mut statement = self.connection.prepare_cached(
            "SELECT l.name, i.name FROM pragma_index_list(?) l, pragma_index_info(l.name) i
              WHERE l.\"unique\" ORDER BY l.seq, i.seqno",
        )?;
        let mut rows = statement.query([name])?;
        while let Some(row) = rows.next()? {
            let index: String = row.get(0)?;
            if found.last().is_none_or(|last| last.name != index) {
                found.push(Constraint {
                    name: index,
                    columns: Vec::new(),
                    rule: Rule::Unique,
                });
            }
            if let (Some(last), Some(column)) = (found.last_mut(), row.get(1)?) {
                last.columns.push(column);
            }
        }
        for (name, condition) in checks::of(made) {
            found.push(Constraint {
                name,
                columns: spoken_of(&table.columns, &condition),
                rule: Rule::Check(condition),
            });
        }
        for key in &table.foreign_keys {
            found.push(Constraint {
                name: String::new(),
                columns: key.columns.clone(),
                rule: Rule::Reference,
            });
        }
        Ok(found)
    }

    /// Returns the statement that created a table.
    fn made(&self, name: &str) -> rusqlite::Result<String> {
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([name], |row| row.get(0))
    }
}

impl Database for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.control("BEGIN IMMEDIATE")
    }

    /// The first statement fixes the snapshot: until the end writers wait, or append to a
    /// write-ahead log.
    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.control("BEGIN DEFERRED")
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.control("COMMIT").map_err(|mut error| {
            if let Some(said) = error.said.of_constraint() {
                let broken = self.broken_key().unwrap_or_default();
                (said.table, said.column) = broken.unzip();
            }
            error
        })
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.control("ROLLBACK")
    }

    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refused)?;
        self.run(&mut statement, parameters)
    }

    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.execute(sql, parameters)
    }

    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refused)?;
        let mut changed: u64 = 0;
        for row in rows {
            changed = changed.saturating_add(self.run(&mut statement, row)?);
        }
        Ok(changed)
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        let mut out = Vec::new();
        self.query_each(sql, parameters, &mut |row| {
            out.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(out)
    }

    fn query_each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(Vec<Value>) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(refused)?;
        let width = statement.column_count();
        let order = self.utf16.filter(|_| utf16::is_read(sql));
        if order.is_some() {
            let sql = utf16::with_bytes(sql, &statement.column_names().collect::<Vec<_>>());
            statement = self.connection.prepare_cached(&sql).map_err(refused)?;
        }
        let mut rows = statement
            .query(params_from_iter(parameters))
            .map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let name = |index| row.as_ref().column_name(index).unwrap_or_default();
            let mut values = Vec::with_capacity(width);
            for index in 0..width {
                let value = read(row.get_ref(index).map_err(refused)?);
                let value = value.ok_or_else(|| DatabaseError::of_bytes_in(name(index)))?;
                if let (Some(order), Value::Text(text)) = (order, &value) {
                    let bytes = row.get_ref(width.saturating_add(index));
                    if !order.is_of(text, bytes.map_err(refused)?) {
                        return Err(DatabaseError::of_twin_in(None, name(index)));
                    }
                }
                values.push(value);
            }
            if each(values).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        // Virtual tables have no rows of their own, and are read by modules that need not be there.
        let names = self.query(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage <> 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
            &[],
        )?;
        let mut catalog = Catalog::new();
        for row in names {
            if let Some(Value::Text(name)) = row.into_iter().next() {
                let table = self.table(&name).map_err(refused)?;
                catalog.insert(name, table);
            }
        }
        fit_foreign_keys(&mut catalog);
        let indexes = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND rootpage = 0";
        checks::note_places(&mut catalog, &self.query(indexes, &[])?);
        let triggers = "SELECT tbl_name, name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY tbl_name, name";
        self.leaves_halves = false;
        for row in self.query(triggers, &[])? {
            let [Value::Text(of), Value::Text(name), Value::Text(made)] = row.as_slice() else {
                continue;
            };
            self.leaves_halves |= checks::leaves_halves(made);
            let tables = catalog.iter_mut();
            for (_, table) in tables.filter(|(table, _)| table.eq_ignore_ascii_case(of)) {
                table.triggers.push(name.clone());
            }
        }
        Ok(catalog)
    }

    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        match self
            .query("PRAGMA schema_version", &[])?
            .into_iter()
            .flatten()
            .next()
        {
            Some(Value::Int(version)) => Ok(version),
            _ => Ok(-1),
        }
    }

    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        let rows = self.query(&format!("EXPLAIN QUERY PLAN {sql}"), parameters)?;
        let detail = |row: Vec<Value>| row.last().map(Value::to_string);
        Ok(rows.into_iter().filter_map(detail).collect())
    }

    fn returns_deleted(&self) -> bool {
        // What such a statement returns is not checked.
        self.utf16.is_none()
    }

    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        self.control("PRAGMA defer_foreign_keys = ON")
    }

    fn clear_away(&mut self) -> Result<Option<String>, DatabaseError> {
        let sql = "PRAGMA journal_mode";
        let mode = self
            .connection
            .query_row(sql, [], |row| row.get::<_, String>(0));
        if mode.map_err(refused)? != "wal" || self.checkpoint().map_err(refused)? {
            return Ok(None);
        }
        let file = self.connection.path().unwrap_or_default();
        Ok(Some(format!(
            "what was removed can still be read in {file} and {file}-wal, because another connection reads an older state; once that is over, the next operation that removes takes it away, or: sqlite3 {file} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )))
    }
}

/// Gives foreign keys the spelling of tables and columns: they may be written in other case, and a
/// key that names no columns means the primary key of its target.
fn fit_foreign_keys(catalog: &mut Catalog) {
    let targets = catalog.clone();
    let keys = catalog.values_mut().flat_map(|it| &mut it.foreign_keys);
    for key in keys {
        let mut all = targets.iter();
        let target = all.find(|(name, _)| name.eq_ignore_ascii_case(&key.to_table));
        let Some((name, target)) = target else {
            continue;
        };
        key.to_table.clone_from(name);
        if key.to_columns.iter().any(String::is_empty) {
            key.to_columns.clone_from(&target.primary_key);
        }
        for to in &mut key.to_columns {
            let mut columns = target.columns.iter();
            if let Some(column) = columns.find(|it| it.name.eq_ignore_ascii_case(to)) {
                to.clone_from(&column.name);
            }
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::UInt(value) => {
                return i64::try_from(*value)
                    .map(ToSqlOutput::from)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
            }
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Returns a value, unless it is a text that is not UTF-8.
fn read(value: ValueRef<'_>) -> Option<Value> {
    Some(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
        ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).ok()?),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: rusqlite::Error) -> DatabaseError {
    let kind = match &error {
        // `SQLite` has no code of its own for it.
        rusqlite::Error::SqlInputError { msg, .. }
        | rusqlite::Error::SqliteFailure(_, Some(msg))
            if msg.starts_with("no such table") =>
        {
            DatabaseErrorKind::Absent
        }
        rusqlite::Error::SqliteFailure(failure, _) => match failure.extended_code {
            rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
            | rusqlite::ffi::SQLITE_CONSTRAINT_ROWID => DatabaseErrorKind::Unique,
            // A function of an index or a condition, as of a text that is no JSON.
            rusqlite::ffi::SQLITE_ERROR => DatabaseErrorKind::Constraint,
            _ => match failure.code {
                ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => {
                    DatabaseErrorKind::Constraint
                }
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => DatabaseErrorKind::Busy,
                _ => DatabaseErrorKind::Other,
            },
        },
        _ => DatabaseErrorKind::Other,
    };
    let message = words(&error);
    DatabaseError {
        kind,
        said: breach(&error, &message),
        message,
    }
}

/// Returns the column, condition or constraint that a violation concerns, from the words of
/// `SQLite`.
fn breach(error: &rusqlite::Error, told: &str) -> Said {
    if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) {
        return Said::default();
    }
    let about = told
        .split_once("constraint failed: ")
        .map_or("", |(_, it)| it);
    let pairs: Vec<(&str, &str)> = about
        .split(", ")
        .filter_map(|it| it.split_once('.'))
        .collect();
    let columns: Vec<&str> = pairs.iter().map(|(_, column)| *column).collect();
    Said::of(Words {
        text: about.to_owned(),
        table: pairs.first().map(|(table, _)| (*table).to_owned()),
        column: Some(columns.join(",")),
        constraint: Some(about.to_owned()),
        is_constraint: true,
        ..Words::default()
    })
}

/// Returns the report of an error. While a statement runs, functions and triggers put values into
/// the words of `SQLite`. Its words about a constraint name columns. Its words about a statement
/// that it cannot parse quote the statement, which holds no value.
fn words(error: &rusqlite::Error) -> String {
    let rusqlite::Error::SqliteFailure(failure, said) = error else {
        return error.to_string();
    };
    let is_of_schema = said
        .as_ref()
        .is_some_and(|it| it.starts_with("no such table"));
    let names_columns = match failure.code {
        ErrorCode::Unknown => is_of_schema,
        ErrorCode::ConstraintViolation => NAMING_COLUMNS.contains(&failure.extended_code),
        _ => true,
    };
    if names_columns {
        return error.to_string();
    }
    let code = failure.extended_code;
    format!(
        "a function or a trigger refuses it (SQLite error {code}; what it says may quote values and is not repeated)"
    )
}
