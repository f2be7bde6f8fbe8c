//! `MariaDB` and `MySQL`, through their synchronous client.

mod catalog;
mod settings;
mod twins;

use std::ops::ControlFlow;

use mysql::consts::{CapabilityFlags, ColumnFlags, ColumnType};
use mysql::prelude::Queryable as _;
use mysql::{Conn, DriverError, Opts, OptsBuilder, Params};

use self::settings::settle;
use self::twins::{Checked, Twins};
use super::opening::{
    ACCEPT_WAIT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, opening_wait, within,
};
use super::{Catalog, Database, DatabaseError, DatabaseErrorKind, Dialect, Said, Words, wording};
use crate::database::column::whole_number;
use crate::database::value::Value;

/// Prepared statements kept.
const STATEMENTS_MAX: usize = 512;

/// The state of an error that a trigger or a function raises by itself.
const SIGNALLED: &str = "45000";

/// The collation number of binary columns.
const BINARY: u16 = 63;

/// A connection to a `MariaDB` or `MySQL` server.
pub struct Mysql {
    connection: Conn,
    options: Opts,
    mariadb: bool,
    version: i64,
    /// True if the account may read the foreign keys of all databases, once that was tried.
    reads_all_keys: Option<bool>,
    /// The columns of the catalog in which several texts may be one in Unicode.
    twins: Twins,
}

impl Mysql {
    /// Connects to `url`, like `mysql://user:password@host:port/database`, without TLS; `?socket=PATH` reaches a
    /// server on this machine.
    ///
    /// # Errors
    /// When the form is wrong, or the server refuses or cannot be reached.
    pub fn connect(url: &str) -> Result<Self, DatabaseError> {
        Self::open_holding(url, ())
    }

    /// Connects, and keeps `held` until the attempt has ended.
    pub(super) fn open_holding(
        url: &str,
        held: impl Send + 'static,
    ) -> Result<Self, DatabaseError> {
        // The parser's own words could quote the password.
        let options = Opts::from_url(url).map_err(|_form| DatabaseError {
            kind: DatabaseErrorKind::Other,
            message: "the URL of the database has a wrong form".to_owned(),
            said: Said::default(),
        })?;
        if options.get_db_name().is_none() {
            return Err(DatabaseError {
                kind: DatabaseErrorKind::Other,
                message: "the URL names no database: mysql://user:password@host:port/database"
                    .to_owned(),
                said: Said::default(),
            });
        }
        let wait = options.get_tcp_connect_timeout().unwrap_or(ACCEPT_WAIT);
        let idle = options.get_tcp_keepalive_time_ms();
        let idle = idle.or_else(|| u32::try_from(KEEPALIVE_IDLE.as_millis()).ok());
        let interval = options.get_tcp_keepalive_probe_interval_secs();
        let interval = interval.or_else(|| u32::try_from(KEEPALIVE_INTERVAL.as_secs()).ok());
        let retries = options.get_tcp_keepalive_probe_count();
        let options = OptsBuilder::from_opts(options)
            .stmt_cache_size(STATEMENTS_MAX)
            // An update then returns the number of rows it found, not of those that held something
            // else before.
            .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
            .tcp_connect_timeout(Some(wait))
            .tcp_keepalive_time_ms(idle)
            .tcp_keepalive_probe_interval_secs(interval)
            .tcp_keepalive_probe_count(retries.or(Some(KEEPALIVE_RETRIES)));
        Self::open(options.into(), held)
    }

    fn open(options: Opts, held: impl Send + 'static) -> Result<Self, DatabaseError> {
        let accept = options.get_tcp_connect_timeout().unwrap_or(ACCEPT_WAIT);
        within(opening_wait(accept, 1), held, move || {
            Self::settled(options)
        })
    }

    /// Logs in and makes the settings of every connection.
    fn settled(options: Opts) -> Result<Self, DatabaseError> {
        let mut connection = Conn::new(options.clone()).map_err(unconnected)?;
        let mariadb = settle(&mut connection)?;
        Ok(Self {
            connection,
            options,
            mariadb,
            version: 0,
            reads_all_keys: None,
            twins: Twins::default(),
        })
    }

    /// Returns a query with a check of each text that it reads, if it reads columns in which
    /// several texts may be one in Unicode.
    fn checked(&mut self, sql: &str) -> Result<Option<Checked>, DatabaseError> {
        if self.twins.is_empty() || !sql.starts_with("SELECT ") {
            return Ok(None);
        }
        let statement = self.connection.prep(sql).map_err(refused)?;
        Ok(self.twins.checked(sql, &statement.columns()))
    }
}

impl Database for Mysql {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.connection
            .query_drop("START TRANSACTION")
            .map_err(refused)
    }

    /// Other levels have no snapshot, or lock the rows they read.
    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.connection
            .query_drop("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .map_err(refused)?;
        self.connection
            .query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            .map_err(refused)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.connection.query_drop("COMMIT").map_err(refused)
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.connection.query_drop("ROLLBACK").map_err(refused)
    }

    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        if parameters.is_empty() {
            self.connection.query_drop(sql).map_err(refused)?;
        } else {
            self.connection
                .exec_drop(sql, bound(parameters))
                .map_err(refused)?;
        }
        Ok(self.connection.affected_rows())
    }

    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.execute(sql, parameters)
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
        let checked = self.checked(sql)?;
        let (sql, checks) = checked
            .as_ref()
            .map_or((sql, 0), |it| (&it.sql, it.checks()));
        let mut rows = self
            .connection
            .exec_iter(sql, bound(parameters))
            .map_err(refused)?;
        let columns = rows.columns();
        let columns: Vec<mysql::Column> = columns.as_ref().iter().skip(checks).cloned().collect();
        for row in rows.by_ref() {
            let mut values = row.map_err(refused)?.unwrap_raw();
            if let Some(checked) = &checked {
                checked.refuse_twins(&mut values)?;
            }
            let read: Result<Vec<Value>, DatabaseError> = columns
                .iter()
                .zip(values)
                .map(|(column, value)| read(column, value.unwrap_or(mysql::Value::NULL)))
                .collect();
            if each(read?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        self.read_catalog()
    }

    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        self.read_catalog_version()
    }

    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        let sql = format!("EXPLAIN {sql}");
        let rows: Vec<mysql::Row> = self
            .connection
            .exec(sql, bound(parameters))
            .map_err(refused)?;
        let word = |row: &mysql::Row, name: &str| -> Option<String> {
            let text: Option<String> = row.get_opt(name)?.ok()?;
            Some(format!("{name} {}", text?))
        };
        let names = ["table", "type", "key", "Extra"];
        let line = |row: &mysql::Row| {
            let words: Vec<String> = names.iter().filter_map(|name| word(row, name)).collect();
            words.join(", ")
        };
        Ok(rows.iter().map(line).collect())
    }

    fn returns_deleted(&self) -> bool {
        // What such a statement returns is not checked.
        self.mariadb && self.twins.is_empty()
    }

    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        // The server checks each row as it comes; a row refused for its order is tried again.
        Ok(())
    }

    fn another(&self) -> Result<Box<dyn Database>, DatabaseError> {
        Ok(Box::new(Self::open(self.options.clone(), ())?))
    }
}

fn bound(parameters: &[Value]) -> Params {
    if parameters.is_empty() {
        return Params::Empty;
    }
    let one = |value: &Value| match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(value) => mysql::Value::Int(*value),
        Value::UInt(value) => mysql::Value::UInt(*value),
        Value::Real(value) => mysql::Value::Double(*value),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => mysql::Value::Bytes(bytes.clone()),
    };
    Params::Positional(parameters.iter().map(one).collect())
}

fn read(column: &mysql::Column, value: mysql::Value) -> Result<Value, DatabaseError> {
    Ok(match value {
        mysql::Value::NULL => Value::Null,
        mysql::Value::Int(value) => Value::Int(value),
        mysql::Value::UInt(value) => i64::try_from(value).map_or(Value::UInt(value), Value::Int),
        mysql::Value::Float(value) => Value::Real(value.into()),
        mysql::Value::Double(value) => Value::Real(value),
        mysql::Value::Date(year, month, day, hour, minute, second, micros) => {
            let day = format!("{year:04}-{month:02}-{day:02}");
            Value::Text(match column.column_type() {
                ColumnType::MYSQL_TYPE_DATE => day,
                _ => format!(
                    "{day} {hour:02}:{minute:02}:{second:02}{}",
                    fraction(micros)
                ),
            })
        }
        mysql::Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if negative { "-" } else { "" };
            let hours = days.saturating_mul(24).saturating_add(hours.into());
            let fraction = fraction(micros);
            Value::Text(format!(
                "{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"
            ))
        }
        // The server compares bytes with a column of bits as it compares texts with numbers.
        mysql::Value::Bytes(bytes) if column.column_type() == ColumnType::MYSQL_TYPE_BIT => {
            Value::of_bits(&bytes)
        }
        mysql::Value::Bytes(bytes) if is_binary(column) => Value::Bytes(bytes),
        mysql::Value::Bytes(bytes) => {
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_bytes| DatabaseError::of_bytes_in(&column.name_str()))?;
            // A text beside other values would be compared as a floating-point number.
            let is_decimal = column.column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL;
            let number = is_decimal.then(|| whole_number(&text)).flatten();
            number.unwrap_or(Value::Text(text))
        }
    })
}

fn fraction(micros: u32) -> String {
    if micros == 0 {
        return String::new();
    }
    format!(".{micros:06}")
}

/// Returns whether bytes of this column are bytes, and not the text of a number or a document.
fn is_binary(column: &mysql::Column) -> bool {
    let binary = column.character_set() == BINARY;
    match column.column_type() {
        ColumnType::MYSQL_TYPE_GEOMETRY => true,
        ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_STRING => {
            binary && column.flags().contains(ColumnFlags::BINARY_FLAG)
        }
        _ => false,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: mysql::Error) -> DatabaseError {
    use DatabaseErrorKind::{Absent, Busy, Conflict, Constraint, Other, Unique};
    let (kind, message) = match &error {
        mysql::Error::MySqlError(error) => {
            let kind = match error.code {
                // A trigger gives an error any number, beside the state of an error of its own.
                _ if error.state == SIGNALLED => Constraint,
                // With the name of the key, and without.
                1062 | 1169 | 1586 | 1022 => Unique,
                1644 => Constraint,
                // NOT NULL, foreign keys, CHECK, and values that do not fit.
                1048 | 1216 | 1217 | 1364 | 1451 | 1452 | 3819 | 4025 => Constraint,
                1264 | 1265 | 1292 | 1365 | 1366 | 1406 | 1411 | 1416 | 1690 | 4038 => Constraint,
                // Without a partition, of mixed collations, or of a type that is not converted.
                1526 | 1267 | 1271 | 4078 => Constraint,
                1205 => Busy,
                1020 | 1213 => Conflict,
                1146 => Absent,
                _ => Other,
            };
            let is_signalled = error.state == SIGNALLED;
            let meaning = wording::of_mysql(if is_signalled { 1644 } else { error.code }, kind);
            let code = format!("error {}", error.code);
            return DatabaseError {
                kind,
                message: wording::plain(meaning, &code),
                said: Said::of(Words {
                    text: error.message.clone(),
                    meaning,
                    code,
                    ..Words::default()
                }),
            };
        }
        mysql::Error::DriverError(DriverError::CouldNotConnect(_)) => {
            (Other, "the server cannot be reached".to_owned())
        }
        mysql::Error::FromValueError(_) | mysql::Error::FromRowError(_) => (
            Other,
            "the driver does not read a value that it got".to_owned(),
        ),
        other => (Other, other.to_string()),
    };
    DatabaseError {
        kind,
        message,
        said: Said::default(),
    }
}

/// Returns the error of a failed connection. It quotes the server, whose words name the account and
/// the database; there are no values yet.
fn unconnected(error: mysql::Error) -> DatabaseError {
    let message = match &error {
        mysql::Error::MySqlError(error) => Some(error.message.clone()),
        mysql::Error::DriverError(DriverError::CouldNotConnect(Some((place, words, _kind)))) => {
            Some(format!("the server at {place} cannot be reached: {words}"))
        }
        mysql::Error::DriverError(DriverError::ConnectTimeout) => {
            Some("the server did not accept the connection in time".to_owned())
        }
        mysql::Error::IoError(error) => {
            Some(format!("the connection broke before the login: {error}"))
        }
        _ => None,
    };
    let refused = refused(error);
    DatabaseError {
        message: message.unwrap_or(refused.message),
        ..refused
    }
}
