//! `PostgreSQL`, through its synchronous client; the client's runtime stays inside it.

mod catalog;
mod reading;
mod settings;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::io;
use std::ops::ControlFlow;

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::{Format, IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

use self::reading::{Readable, Texts};
use self::settings::settle;
use super::opening::{
    ACCEPT_WAIT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, opening_wait, within,
};
use super::{Catalog, Database, DatabaseError, DatabaseErrorKind, Dialect, Said, Words, wording};
use crate::database::column::whole;
use crate::database::value::Value;

/// Prepared statements kept.
const STATEMENTS_MAX: usize = 512;

/// The code of what a statement gives that was prepared before a table changed, and of little else.
const STALE: &str = "0A000";

/// The beginning of the driver's error for a URL that it cannot read.
const WRONG_URL: &str = "invalid connection string";
/// The beginning of its cause where an option has a wrong value.
const WRONG_VALUE: &str = "invalid value for option";

/// The function of the server that refuses to read a table with rows hidden by a policy; the code
/// says only that a right is missing.
const POLICIES: &str = "check_enable_rls";

/// The codes of what a trigger raises, and of a text that is none of its type, as of queries and
/// paths: it is the row that is refused, as by a constraint. So are a value that is too long for an
/// index, one that only the server may give, and one of a type that takes no input.
const OF_THE_ROW: [&str; 4] = ["42601", "54000", "428C9", "0A000"];

/// The codes of names that are not there: of a table, function, schema, type or role. Those of a
/// statement were looked up when it was prepared, so that it is a value that names one (`regclass`
/// and its like), or what a trigger does.
const OF_NAMES: [&str; 4] = ["42P01", "42883", "3F000", "42704"];

/// The first words of statements that concern savepoints or end a transaction.
const CONTROLS: [&str; 6] = ["SAVEPOINT", "RELEASE", "ROLLBACK", "ABORT", "COMMIT", "END"];

/// A connection to a `PostgreSQL` server.
pub struct Postgres {
    client: Client,
    config: Config,
    statements: HashMap<String, Statement>,
    /// Queries kept, in the form in which their answers are read.
    queries: HashMap<String, Readable>,
    texts: Texts,
    /// The savepoint of a statement that was tried is still there.
    has_savepoint: bool,
    /// False once the catalog was found to have nothing that is put off to the commit.
    may_defer: bool,
}

impl Postgres {
    /// Connects to `url`, like `postgres://user:password@host:port/database`, without TLS.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn connect(url: &str) -> Result<Self, DatabaseError> {
        Self::open_holding(url, ())
    }

    /// Connects, and keeps `held` until the attempt has ended.
    pub(super) fn open_holding(
        url: &str,
        held: impl Send + 'static,
    ) -> Result<Self, DatabaseError> {
        let mut config: Config = url.parse().map_err(unconnected)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(ACCEPT_WAIT);
        }
        // The driver does not say whether the URL sets the idle time; its own is two hours.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        Self::open(config, held)
    }

    fn open(config: Config, held: impl Send + 'static) -> Result<Self, DatabaseError> {
        let accept = config.get_connect_timeout().copied();
        let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        let wait = opening_wait(accept.unwrap_or(ACCEPT_WAIT), hosts);
        within(wait, held, move || Self::settled(config))
    }

    /// Logs in and makes the settings of every connection.
    fn settled(config: Config) -> Result<Self, DatabaseError> {
        let mut client = config.connect(NoTls).map_err(unconnected)?;
        let texts = settle(&mut client)?;
        Ok(Self {
            client,
            config,
            statements: HashMap::new(),
            queries: HashMap::new(),
            texts,
            has_savepoint: false,
            may_defer: true,
        })
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, DatabaseError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&numbered(sql)).map_err(refused)?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Prepares a query in a form whose answer is read without loss.
    fn readable(&mut self, sql: &str) -> Result<Readable, DatabaseError> {
        if let Some(query) = self.queries.get(sql) {
            return Ok(query.clone());
        }
        let plain = self.client.prepare(&numbered(sql)).map_err(refused)?;
        let query = match reading::wrapped(sql, plain.columns(), self.texts) {
            Some((sql, checked)) => Readable {
                statement: self.client.prepare(&numbered(&sql)).map_err(refused)?,
                checked,
            },
            None => Readable::of(plain),
        };
        if self.queries.len() >= STATEMENTS_MAX {
            self.queries.clear();
        }
        self.queries.insert(sql.to_owned(), query.clone());
        Ok(query)
    }

    /// Runs a statement; `refused_values` makes the error of what is wrong with its values.
    fn execute_with(
        &mut self,
        sql: &str,
        parameters: &[Value],
        refused_values: fn(postgres::Error) -> DatabaseError,
    ) -> Result<u64, DatabaseError> {
        let defines = ["CREATE", "DROP", "ALTER"]
            .iter()
            .any(|word| sql.starts_with(word));
        if parameters.is_empty() {
            self.make_way(sql)?;
            let done = self.client.execute(&numbered(sql), &[]).map_err(refused);
            if defines {
                self.forget_statements();
            }
            return done;
        }
        let statement = self.prepared(sql)?;
        let bound: Vec<Bound<'_>> = parameters.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> =
            bound.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
        self.client
            .execute(&statement, &bound)
            .map_err(refused_values)
    }

    fn forget_statements(&mut self) {
        self.statements.clear();
        self.queries.clear();
    }

    /// Keeps the savepoint of a statement above all others, which form a stack. A new savepoint
    /// replaces it. A statement that goes back to an older one, releases that or ends the
    /// transaction removes it.
    fn make_way(&mut self, sql: &str) -> Result<(), DatabaseError> {
        let word = sql.split([' ', '\n', '\t', ';']).find(|it| !it.is_empty());
        let word = word.unwrap_or_default().to_ascii_uppercase();
        if !self.has_savepoint || !CONTROLS.contains(&word.as_str()) {
            return Ok(());
        }
        self.has_savepoint = false;
        if word == "SAVEPOINT" {
            return self.control("RELEASE probity_statement");
        }
        Ok(())
    }

    /// Runs a statement that answers nothing, in one round trip.
    fn control(&mut self, sql: &str) -> Result<(), DatabaseError> {
        self.client.batch_execute(sql).map_err(refused)
    }
}

impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.has_savepoint = false;
        // Rows that a policy hides from the account would be left out silently; now they are an
        // error.
        self.control("BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL row_security = off")
    }

    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.has_savepoint = false;
        // As in a writing transaction, hidden rows are an error.
        self.control(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off",
        )
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.has_savepoint = false;
        self.control("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.has_savepoint = false;
        // A table that changed may be why.
        self.forget_statements();
        self.control("ROLLBACK")
    }

    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.execute_with(sql, parameters, refused)
    }

    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        // An error would end the whole transaction; the savepoint confines it to the statement.
        // It is released with the next one, or by the end of the transaction.
        self.control(if self.has_savepoint {
            "RELEASE probity_statement; SAVEPOINT probity_statement"
        } else {
            "SAVEPOINT probity_statement"
        })?;
        self.has_savepoint = true;
        let done = self.execute_with(sql, parameters, refused_row);
        if done.is_err() {
            self.control("ROLLBACK TO probity_statement")?;
        }
        done
    }

    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        if parameters.is_empty() {
            self.make_way(sql)?;
        }
        let query = self.readable(sql)?;
        let bound: Vec<Bound<'_>> = parameters.iter().map(Bound).collect();
        let bound: Vec<&(dyn ToSql + Sync)> =
            bound.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
        // All rows at once wake the client's runtime once, not once for each.
        let rows = self.client.query(&query.statement, &bound);
        let rows = rows.map_err(refused)?;
        rows.iter().map(|row| query.values(row)).collect()
    }

    fn query_each(
        &mut self,
        sql: &str,
        parameters: &[Value],
        each: &mut dyn FnMut(Vec<Value>) -> ControlFlow<()>,
    ) -> Result<(), DatabaseError> {
        if parameters.is_empty() {
            self.make_way(sql)?;
        }
        let query = self.readable(sql)?;
        let bound = parameters.iter().map(Bound);
        let rows = self.client.query_raw(&query.statement, bound);
        let mut rows = rows.map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            if each(query.values(&row)?).is_break() {
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
        // In EXPLAIN the parameters of a prepared statement have no value, so literals replace
        // them.
        let mut values = parameters.iter();
        let literal = replaced(sql, || {
            values.next().map_or_else(|| "NULL".to_owned(), quoted)
        });
        let rows = self
            .client
            .simple_query(&format!("EXPLAIN {literal}"))
            .map_err(refused)?;
        let line = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(rows.iter().filter_map(line).collect())
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        // Unique keys are not deferred with them: a violation would fail the commit, and everything
        // with it.
        let unique = self.query(catalog::DEFERRABLE_UNIQUE_KEYS, &[])?;
        self.control("SET CONSTRAINTS ALL DEFERRED")?;
        match unique.concat().first() {
            Some(Value::Text(names)) => self.control(&format!("SET CONSTRAINTS {names} IMMEDIATE")),
            _ => Ok(()),
        }
    }

    fn check_deferred(&mut self) -> Result<(), DatabaseError> {
        // A constraint that came since is checked by the commit, which then changes nothing.
        if !self.may_defer {
            return Ok(());
        }
        let all = self.client.batch_execute(
            "SAVEPOINT probity_deferred; SET CONSTRAINTS ALL IMMEDIATE; RELEASE probity_deferred",
        );
        let Err(error) = all else {
            return Ok(());
        };
        let refused = refused(error);
        if is_passing(&refused) || self.control("ROLLBACK TO probity_deferred").is_err() {
            return Err(refused);
        }
        // A trigger names no constraint, so each is asked.
        for row in self.query(catalog::DEFERRABLE, &[])? {
            let [Value::Text(name), Value::Text(place)] = row.as_slice() else {
                continue;
            };
            let one = format!("SET CONSTRAINTS {name} IMMEDIATE");
            if let Err(error) = self.client.batch_execute(&one) {
                return Err(refused_by(error, place));
            }
        }
        Err(refused)
    }

    fn another(&self) -> Result<Box<dyn Database>, DatabaseError> {
        Ok(Box::new(Self::open(self.config.clone(), ())?))
    }
}

/// A value sent as text, which the column's own input function reads.
#[derive(Debug)]
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Bytes(bytes) => {
                out.extend_from_slice(b"\\x");
                out.extend_from_slice(Value::Bytes(bytes.clone()).to_string().as_bytes());
            }
            Value::Text(text) if [Type::INT2, Type::INT4, Type::INT8].contains(of) => {
                let text = whole(text).unwrap_or_else(|| text.clone());
                out.extend_from_slice(text.as_bytes());
            }
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.to_sql(ty, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

/// Returns a literal whose type the server infers.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bytes(_) => format!("'\\x{value}'"),
        other => format!("'{}'", other.to_string().replace('\'', "''")),
    }
}

/// `?` outside of quotes becomes `$1`, `$2`, ...
fn numbered(sql: &str) -> String {
    let mut number: usize = 0;
    replaced(sql, || {
        number = number.saturating_add(1);
        format!("${number}")
    })
}

/// Replaces each `?` outside of quotes by the next result of `mark`.
fn replaced(sql: &str, mut mark: impl FnMut() -> String) -> String {
    let mut out = String::with_capacity(sql.len().saturating_add(16));
    let mut quoted: Option<char> = None;
    for letter in sql.chars() {
        match (quoted, letter) {
            (None, '?') => {
                out.push_str(&mark());
                continue;
            }
            (None, '"' | '\'') => quoted = Some(letter),
            (Some(open), close) if open == close => quoted = None,
            _ => {}
        }
        out.push(letter);
    }
    out
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: postgres::Error) -> DatabaseError {
    let code = error
        .code()
        .map(|code| code.code().to_owned())
        .unwrap_or_default();
    let kind = match code.as_str() {
        "23505" => DatabaseErrorKind::Unique,
        "55P03" => DatabaseErrorKind::Busy,
        // A statement prepared before a table changed is invalid; the next try prepares it again.
        STALE | "40001" | "40P01" => DatabaseErrorKind::Conflict,
        "42P01" => DatabaseErrorKind::Absent,
        // Constraints, and values that their columns do not take.
        code if code.starts_with("23") || code.starts_with("22") => DatabaseErrorKind::Constraint,
        // A function of a trigger or a condition raised it.
        code if code.starts_with("P0") => DatabaseErrorKind::Constraint,
        code if OF_THE_ROW.contains(&code) => DatabaseErrorKind::Constraint,
        _ => DatabaseErrorKind::Other,
    };
    // A server quotes values in messages of its own, and triggers may use any text under any code.
    let Some(it) = error.as_db_error() else {
        return DatabaseError {
            kind,
            message: own_words(&error),
            said: Said::default(),
        };
    };
    if it.routine() == Some(POLICIES) {
        return DatabaseError {
            kind,
            message: wording::of_policy(&code),
            said: Said::default(),
        };
    }
    let (meaning, code) = (wording::of_postgres(&code), format!("SQLSTATE {code}"));
    DatabaseError {
        kind,
        message: wording::plain(meaning, &code),
        said: Said::of(Words {
            text: it.message().to_owned(),
            table: it.table().map(str::to_owned),
            column: it.column().map(str::to_owned),
            constraint: it.constraint().map(str::to_owned),
            is_constraint: code.starts_with("SQLSTATE 23"),
            meaning,
            code,
        }),
    }
}

/// Returns the error of a statement that was prepared, and whose values may be refused.
fn refused_row(error: postgres::Error) -> DatabaseError {
    let names = error.code().is_some_and(|it| OF_NAMES.contains(&it.code()));
    let refused = refused(error);
    DatabaseError {
        kind: if names {
            DatabaseErrorKind::Constraint
        } else {
            refused.kind
        },
        ..refused
    }
}

/// Returns whether an error comes of other transactions alone.
fn is_passing(error: &DatabaseError) -> bool {
    matches!(
        error.kind,
        DatabaseErrorKind::Busy | DatabaseErrorKind::Conflict
    )
}

/// Returns the error of what the constraint at `place` refuses when it is checked at last.
fn refused_by(error: postgres::Error, place: &str) -> DatabaseError {
    let code = error.code().map(|code| code.code().to_owned());
    let refused = refused(error);
    let Some(code) = code.filter(|_| !is_passing(&refused)) else {
        return refused;
    };
    let meaning = wording::of_postgres(&code);
    DatabaseError {
        kind: DatabaseErrorKind::Constraint,
        message: format!("{place}, which is checked at the commit: {meaning} (SQLSTATE {code})"),
        said: Said::default(),
    }
}

/// Returns the driver's own words, without the text that they are about.
fn own_words(error: &postgres::Error) -> String {
    let is_of_system = error.source().is_some_and(<dyn StdError>::is::<io::Error>);
    let words = error.to_string();
    if is_of_system || error.is_closed() {
        return words;
    }
    words.split(':').next().unwrap_or_default().to_owned()
}

/// Returns the error of a failed connection. It quotes the server, whose words name the account and
/// the database; there are no values yet.
fn unconnected(error: postgres::Error) -> DatabaseError {
    let message = match (error.as_db_error(), error.source()) {
        (Some(it), _) => it.message().to_owned(),
        (None, Some(cause)) if quotes_no_password(&error, cause) => format!("{error}: {cause}"),
        (None, _) => error.to_string(),
    };
    DatabaseError {
        message,
        ..refused(error)
    }
}

/// Returns whether a cause may be told. Of a URL with a wrong form it may quote a part, and only
/// where a value is refused it names nothing but the option.
fn quotes_no_password(error: &postgres::Error, cause: &dyn StdError) -> bool {
    let of_url = error.to_string().starts_with(WRONG_URL);
    !of_url || cause.to_string().starts_with(WRONG_VALUE)
}
