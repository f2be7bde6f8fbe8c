//! Connections to databases, the same for every database engine.

mod amount;
mod catalog;
pub(crate) mod column;
pub(crate) mod declaration;
mod family;
pub(crate) mod fragment;
mod keeping;
#[cfg(feature = "mysql")]
mod mysql;
mod opening;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod shape;
mod sqlite;
pub(crate) mod tenant;
pub(crate) mod value;
mod vocabulary;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod wording;

use std::fmt::Write as _;
use std::ops::{ControlFlow, DerefMut};

use crate::database::value::Value;
pub(crate) use catalog::INSERT_INTO;
use catalog::spoken_of;
pub use catalog::{
    Catalog, CatalogTable, Constraint, ForeignKey, LateElsewhere, Matching, OnDelete, OnUpdate,
    Property, Referrer, Rule,
};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use catalog::{note_constraints, note_primary_keys, note_triggers, note_unique_keys};
pub(crate) use column::NAME_BYTES_MAX;
pub use column::{Column, Structure, Times};
pub(crate) use family::{Family, is_time};
#[cfg(feature = "mysql")]
pub use mysql::Mysql;
pub use opening::still_answers;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use vocabulary::Said;
pub(crate) use vocabulary::Vocabulary;
use vocabulary::Words;

/// The URL schemes of databases.
const SCHEMES: [&str; 5] = ["sqlite", "postgres", "postgresql", "mysql", "mariadb"];

/// The most parameters that one statement may carry, below every engine's own limit.
pub(crate) const PARAMETERS_MAX: usize = 8_000;

/// The mode in which statements are carried out on `MariaDB`.
pub(crate) const MARIADB_MODE: &str =
    "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION";

/// The SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `SQLite` 3.35 or later.
    Sqlite,
    /// `PostgreSQL` 12 or later.
    Postgres,
    /// `MariaDB` 10.5 or later, `MySQL` 8.
    Mysql,
}

impl Dialect {
    /// `name` as a quoted identifier.
    pub fn quote(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
            Self::Mysql => format!("`{}`", name.replace('`', "``")),
        }
    }

    /// Returns whether no text of the database can hold `text`.
    pub(crate) fn refuses_text(self, text: &str) -> bool {
        self == Self::Postgres && text.contains('\0')
    }

    /// Returns the clause before the values of an insertion that lets them into columns that the
    /// database numbers itself.
    pub(crate) const fn own_values(self) -> &'static str {
        match self {
            Self::Postgres => "OVERRIDING SYSTEM VALUE ",
            Self::Sqlite | Self::Mysql => "",
        }
    }

    /// Returns the clause after the columns of the engine's own tables.
    pub(crate) const fn table_end(self) -> &'static str {
        match self {
            // Without a row number, nothing shows the order in which rows were written.
            Self::Sqlite => " WITHOUT ROWID",
            Self::Postgres => "",
            Self::Mysql => " ENGINE=InnoDB",
        }
    }

    /// Returns a parameter with a column's type, for places where the database cannot infer it.
    pub(crate) fn typed(self, column: Option<&Column>) -> String {
        match (self, column) {
            (Self::Postgres, Some(column)) => format!("?::{}", column.unbounded()),
            _ => "?".to_owned(),
        }
    }

    /// Returns the column type of the engine's own binary columns.
    pub(crate) const fn binary(self) -> &'static str {
        match self {
            Self::Sqlite => "BLOB",
            Self::Postgres => "BYTEA",
            Self::Mysql => "LONGBLOB",
        }
    }

    /// Returns the column type of the engine's own binary keys.
    pub(crate) const fn binary_key(self) -> &'static str {
        match self {
            Self::Sqlite => "BLOB",
            Self::Postgres => "BYTEA",
            Self::Mysql => "VARBINARY(64)",
        }
    }

    /// Returns ` AND ...`: the condition that a value has bytes, and none of `count` that are
    /// parameters.
    pub(crate) fn without(self, column: &str, count: usize) -> String {
        if count == 0 {
            return String::new();
        }
        let (empty, absent) = match self {
            Self::Sqlite => ("x''", format!("instr({column}, ?) = 0")),
            Self::Mysql => ("x''", format!("INSTR({column}, ?) = 0")),
            Self::Postgres => ("''::bytea", format!("position(?::bytea IN {column}) = 0")),
        };
        format!(" AND {column} <> {empty}") + &format!(" AND {absent}").repeat(count)
    }

    /// Returns a subquery that a deletion from one of its own tables may contain.
    pub(crate) fn apart(self, query: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("({query})"),
            Self::Mysql => format!("(SELECT * FROM ({query}) AS probity_apart)"),
        }
    }

    /// Returns the most rows that one statement changes, each to a value of its own.
    pub(crate) const fn changes_max(self) -> usize {
        match self {
            Self::Sqlite | Self::Postgres => PARAMETERS_MAX,
            // Each row is compared with all values.
            Self::Mysql => 64,
        }
    }

    /// Returns the statement that limits the lock waits of the current transaction to the time that
    /// a person would wait for an answer. The limit may stay set for the connection.
    pub(crate) const fn short_patience(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("SET LOCAL lock_timeout = '10s'"),
            Self::Mysql => Some("SET SESSION innodb_lock_wait_timeout = 10"),
        }
    }

    /// Returns the lock that lets one connection at a time prepare the database; on `SQLite` a
    /// writer is alone anyway.
    pub(crate) const fn installation_lock(self) -> Option<Lock> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some(Lock {
                patience: Some("SET LOCAL lock_timeout = '60s'"),
                take: "SELECT pg_advisory_lock(hashtextextended('probity ' || current_schema(), 0))",
                give: "SELECT pg_advisory_unlock(hashtextextended('probity ' || current_schema(), 0))",
            }),
            Self::Mysql => Some(Lock {
                patience: None,
                take: "SELECT GET_LOCK(CONCAT('probity_', MD5(DATABASE())), 60)",
                give: "SELECT RELEASE_LOCK(CONCAT('probity_', MD5(DATABASE())))",
            }),
        }
    }

    /// Returns the name in this dialect of a function that conditions may use.
    pub(crate) fn function(self, name: &str) -> &str {
        match (self, name) {
            // Elsewhere characters are counted, here bytes.
            (Self::Mysql, "length") => "char_length",
            (Self::Sqlite, "char_length") => "length",
            _ => name,
        }
    }
}

/// Statements for a lock that a connection holds beyond its transactions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lock {
    /// The statement that limits the wait of `take`, if `take` does not set the limit itself.
    pub(crate) patience: Option<&'static str>,
    pub(crate) take: &'static str,
    pub(crate) give: &'static str,
}

/// The kind of a database error, as far as the engine needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatabaseErrorKind {
    /// A primary key or unique constraint.
    Unique,
    /// Any other constraint.
    Constraint,
    /// A wait for another transaction timed out; the whole operation may be tried again later.
    Busy,
    /// Another transaction conflicted and was kept; the whole operation may be tried again at once.
    Conflict,
    /// The statement names a table that is not there.
    Absent,
    /// A text that was read is not UTF-8, or not the only one that is the same in Unicode.
    NotUtf8,
    /// The server took the connection, or had it already, and did not answer in time.
    Silent,
    /// Anything else.
    Other,
}

/// An error of the database.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DatabaseError {
    /// The kind of the error.
    pub kind: DatabaseErrorKind,
    /// The message for reports. It never contains a value, bound or stored, so it is not the text
    /// of a server or a trigger but its error code. Only an error before the connection is made
    /// quotes the server.
    pub message: String,
    /// The text of the database, which may quote values; it is never reported.
    pub said: Said,
}

impl DatabaseError {
    /// Returns the error for bytes that are not UTF-8 in a text column.
    fn of_bytes_in(column: &str) -> Self {
        let meaning = "a text is not UTF-8, so that it can be neither hidden nor brought back; write it anew as a text, or as bytes";
        Self::of_text_in(None, column, meaning)
    }

    /// Returns the error for a text that would be stored as another one: its encoding has several
    /// codes for a letter, or one for what is none.
    fn of_twin_in(table: Option<&str>, column: &str) -> Self {
        let meaning = "a text would be stored otherwise if it were written back, since the encoding of the column has no one-to-one way to Unicode for it, so that it can be neither hidden nor brought back; write it anew, or give the column another encoding";
        Self::of_text_in(table, column, meaning)
    }

    fn of_text_in(table: Option<&str>, column: &str, meaning: &'static str) -> Self {
        Self {
            kind: DatabaseErrorKind::NotUtf8,
            message: meaning.to_owned(),
            said: Said::of(Words {
                table: table.map(str::to_owned),
                column: Some(column.to_owned()),
                meaning,
                ..Words::default()
            }),
        }
    }
}

/// One connection to a database.
///
/// Statements have `?` for each parameter. Implementers must return every value without loss. They
/// must run all statements between `begin` and `commit` in one serialisable transaction. A
/// transaction must stay usable after an [`attempt`](Self::attempt) that broke a constraint; after
/// another such statement, it may only be rolled back. Callers may not assume that a failed
/// `commit` changed nothing.
pub trait Database {
    /// Returns its SQL dialect.
    fn dialect(&self) -> Dialect;
    /// Starts a serialisable transaction that may write.
    ///
    /// # Errors
    /// When the database refuses.
    fn begin(&mut self) -> Result<(), DatabaseError>;
    /// Starts a transaction that only reads, and sees the database as it is at one moment however
    /// long it takes; [`rollback`](Self::rollback) ends it.
    ///
    /// # Errors
    /// When the database refuses.
    fn begin_reading(&mut self) -> Result<(), DatabaseError>;
    /// Makes the transaction durable.
    ///
    /// # Errors
    /// When the database refuses; the transaction is then open or gone.
    fn commit(&mut self) -> Result<(), DatabaseError>;
    /// Undoes the transaction.
    ///
    /// # Errors
    /// When the database refuses.
    fn rollback(&mut self) -> Result<(), DatabaseError>;
    /// Runs a statement and returns the number of rows it changed. Rows that it found count even if
    /// their values were equal; rows changed by triggers or foreign keys do not.
    ///
    /// # Errors
    /// When the database refuses.
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError>;
    /// Runs a statement that may break a constraint, and then has no effect. Returns the number of
    /// rows it changed.
    ///
    /// # Errors
    /// When the database refuses; the transaction stays usable after a broken constraint.
    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError>;
    /// Runs a statement once for each of `rows` and returns the number of rows it changed. When one
    /// is refused, the effects of those before it remain.
    ///
    /// # Errors
    /// When the database refuses.
    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let mut changed: u64 = 0;
        for row in rows {
            changed = changed.saturating_add(self.execute(sql, row)?);
        }
        Ok(changed)
    }
    /// Runs a query and returns its rows.
    ///
    /// # Errors
    /// When the database refuses.
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError>;
    /// Runs a query and passes its rows to `each`, until that breaks. The databases of this crate
    /// keep one row at a time.
    ///
    /// # Errors
    /// When the database refuses.
    fn query_each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(Vec<Value>) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        for row in self.query(sql, parameters)? {
            if each(row).is_break() {
                break;
            }
        }
        Ok(())
    }
    /// Reads all tables, keys and foreign keys.
    ///
    /// # Errors
    /// When the database refuses.
    fn catalog(&mut self) -> Result<Catalog, DatabaseError>;
    /// Returns a number that changes whenever a table changes, so that the catalog need not be read
    /// every time.
    ///
    /// # Errors
    /// When the database refuses.
    fn catalog_version(&mut self) -> Result<i64, DatabaseError>;
    /// Returns the access path that the database plans for a query, in its own words, one line
    /// each.
    ///
    /// # Errors
    /// When the database refuses.
    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError>;
    /// Returns whether `DELETE` can return the rows with `RETURNING`, by [`query`](Self::query).
    fn returns_deleted(&self) -> bool;
    /// Defers the checks of foreign keys to the commit, if the database can, for rows that refer to
    /// each other.
    ///
    /// # Errors
    /// When the database refuses.
    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError>;
    /// Has everything checked at once that was put off to the commit. An error names the constraint.
    ///
    /// # Errors
    /// When a constraint or a trigger refuses what was done.
    fn check_deferred(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }
    /// Clears deleted rows of earlier transactions from the files, as far as the database keeps
    /// them there and other connections allow it. Returns a sentence about the rest: the place, the
    /// reason, and the remedy.
    ///
    /// # Errors
    /// When the database refuses.
    fn clear_away(&mut self) -> Result<Option<String>, DatabaseError> {
        Ok(None)
    }
    /// Opens another connection to the same database, to ask for the outcome of a transaction when
    /// this one was lost at its commit.
    ///
    /// # Errors
    /// When the database cannot be reached, or only this connection can reach it.
    fn another(&self) -> Result<Box<dyn Database>, DatabaseError> {
        Err(DatabaseError {
            kind: DatabaseErrorKind::Other,
            message: "there is no other connection to this database".to_owned(),
            said: Said::default(),
        })
    }
}

/// A pointer to a connection is a connection.
impl<P: DerefMut<Target: Database>> Database for P {
    fn dialect(&self) -> Dialect {
        (**self).dialect()
    }
    fn begin(&mut self) -> Result<(), DatabaseError> {
        (**self).begin()
    }
    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        (**self).begin_reading()
    }
    fn commit(&mut self) -> Result<(), DatabaseError> {
        (**self).commit()
    }
    fn rollback(&mut self) -> Result<(), DatabaseError> {
        (**self).rollback()
    }
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        (**self).execute(sql, parameters)
    }
    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        (**self).attempt(sql, parameters)
    }
    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        (**self).execute_each(sql, rows)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        (**self).query(sql, parameters)
    }
    fn query_each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(Vec<Value>) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        (**self).query_each(sql, parameters, each)
    }
    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        (**self).catalog()
    }
    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        (**self).catalog_version()
    }
    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        (**self).explain(sql, parameters)
    }
    fn returns_deleted(&self) -> bool {
        (**self).returns_deleted()
    }
    fn check_deferred(&mut self) -> Result<(), DatabaseError> {
        (**self).check_deferred()
    }
    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        (**self).defer_foreign_keys()
    }
    fn clear_away(&mut self) -> Result<Option<String>, DatabaseError> {
        (**self).clear_away()
    }
    fn another(&self) -> Result<Box<dyn Database>, DatabaseError> {
        (**self).another()
    }
}

/// Connects to the database that `url` names: `sqlite:FILE`, which must exist, or
/// `mysql://user:password@host:port/database`, or `postgres://user:password@host:port/database`.
///
/// A server has 10 seconds to accept the connection, to let the account in and to answer; a time to
/// connect that the address sets, `tcp_connect_timeout_ms` or `connect_timeout`, counts twice.
///
/// # Errors
/// When the form is unknown, and those of [`Sqlite::existing`] and the driver of a server. The
/// message never quotes a password.
pub fn connect(url: &str) -> Result<Box<dyn Database + Send>, DatabaseError> {
    connect_holding(url, ())
}

/// Connects as [`connect`], and keeps `held` until the attempt has ended. An attempt that a silent
/// server keeps open ends later than its error: a permit for a number of connections is free again
/// only then.
///
/// # Errors
/// Those of [`connect`].
pub fn connect_holding(
    url: &str,
    held: impl Send + 'static,
) -> Result<Box<dyn Database + Send>, DatabaseError> {
    let refused = |message: String| DatabaseError {
        kind: DatabaseErrorKind::Other,
        message,
        said: Said::default(),
    };
    match url.split_once(':') {
        Some(("sqlite", rest)) => {
            drop(held);
            let file = sqlite_file(rest).ok_or_else(|| {
                let what = "the address names no file: SQLite takes an empty name, :memory: and names beginning with file: for other things than a file of that name";
                refused(what.to_owned())
            })?;
            Ok(Box::new(Sqlite::existing(std::path::Path::new(file))?))
        }
        #[cfg(feature = "mysql")]
        Some(("mysql", _)) => Ok(Box::new(Mysql::open_holding(url, held)?)),
        #[cfg(feature = "mysql")]
        Some(("mariadb", rest)) => {
            let url = format!("mysql:{rest}");
            Ok(Box::new(Mysql::open_holding(&url, held)?))
        }
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(Box::new(Postgres::open_holding(url, held)?)),
        Some((scheme, _)) if SCHEMES.contains(&scheme) => Err(refused(format!(
            "this program was built without the driver for {scheme}"
        ))),
        _ => Err(refused(
            "a database is named sqlite:FILE, mysql://user:password@host:port/database or postgres://user:password@host:port/database"
                .to_owned(),
        )),
    }
}

/// Returns whether `url` begins like the address of a database, as for [`connect`].
pub fn is_address(url: &str) -> bool {
    match url.split_once(':') {
        Some(("sqlite", rest)) => sqlite_file(rest).is_some(),
        Some((scheme, _)) => SCHEMES.contains(&scheme),
        None => false,
    }
}

/// Returns the file that an address of `SQLite` names behind its scheme. `SQLite` would take an
/// empty name, `:memory:` and some URIs for a database of their own, which is new and empty.
fn sqlite_file(rest: &str) -> Option<&str> {
    let file = rest.strip_prefix("//").unwrap_or(rest);
    let is_file = !file.is_empty() && file != ":memory:" && !file.starts_with("file:");
    is_file.then_some(file)
}

/// Returns whether the address of a database, as for [`connect`], contains a password: the list of
/// processes shows the arguments of a program to everybody.
pub fn holds_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else {
        return false;
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A password may hold slashes and at signs.
    let user = place.rsplit_once('@').map(|(user, _)| user);
    let in_query = |it: &str| {
        let name = it.split('=').next().unwrap_or_default();
        name.eq_ignore_ascii_case("password")
    };
    user.is_some_and(|user| user.contains(':')) || query.split('&').any(in_query)
}

/// `?, ?, ...` for `count` parameters.
pub(crate) fn placeholders(count: usize) -> String {
    let mut out = String::with_capacity(count.saturating_mul(2));
    for index in 0..count {
        out.push_str(if index == 0 { "?" } else { ",?" });
    }
    out
}

/// `(?,?),(?,?),...` for `rows` rows of `width` parameters.
pub(crate) fn tuples(rows: usize, width: usize) -> String {
    repeated(rows, &placeholders(width))
}

/// `tuple` in brackets, `rows` times.
pub(crate) fn repeated(rows: usize, tuple: &str) -> String {
    let mut out = String::with_capacity(rows.saturating_mul(tuple.len().saturating_add(3)));
    for index in 0..rows {
        let comma = if index == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        write!(out, "{comma}({tuple})").unwrap_or_default();
    }
    out
}
