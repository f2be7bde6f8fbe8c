//! A database to measure on, and the insertion of its data.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use probity_disguise::database::{Sqlite, connect, holds_password};
use probity_disguise::{Database, Dialect, Value};

use crate::command::BenchError;
use crate::workload::Random;

/// Number of values per insertion while tables are filled.
const VALUES_A_STATEMENT: usize = 4_000;

/// Location of a database.
pub(crate) struct Place {
    kind: Kind,
    /// `true` once this run has found it empty.
    is_ours: AtomicBool,
}

enum Kind {
    /// A new `SQLite` file, and whether commits wait for the disk.
    File(PathBuf, bool),
    /// A server's database, which is empty at the beginning.
    Server(String),
}

impl Place {
    pub(crate) fn file(path: PathBuf, sync: bool) -> Self {
        Self {
            kind: Kind::File(path, sync),
            is_ours: AtomicBool::new(false),
        }
    }

    /// Parses `url`, the address of a server's database without a password.
    pub(crate) fn server(url: &str) -> Result<Self, BenchError> {
        if holds_password(url) {
            return Err(BenchError::Failed(
                "the database's password stands in the argument --db, for all to see; name a file with the address with --db-file"
                    .to_owned(),
            ));
        }
        Ok(Self::at(url.to_owned()))
    }

    /// Reads the address of a server's database from the first line of a file.
    pub(crate) fn server_in(file: &Path) -> Result<Self, BenchError> {
        let text = std::fs::read_to_string(file)?;
        let line = text.lines().next().unwrap_or_default();
        Ok(Self::at(line.trim().to_owned()))
    }

    fn at(url: String) -> Self {
        Self {
            kind: Kind::Server(url),
            is_ours: AtomicBool::new(false),
        }
    }

    /// Connects to an empty database: a new file, or a server's database. There it drops the tables
    /// of an earlier part of the same run: the engine's own and those that `statements` create.
    pub(crate) fn empty(&self, statements: &[&str]) -> Result<Box<dyn Database>, BenchError> {
        match &self.kind {
            Kind::File(path, _) => {
                for end in ["", "-wal", "-shm"] {
                    let mut file = path.clone().into_os_string();
                    file.push(end);
                    match std::fs::remove_file(file) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error.into());
                        }
                        _ => {}
                    }
                }
                drop(Sqlite::open(path)?);
                self.connect()
            }
            Kind::Server(url) => {
                let mut database = connect(url)?;
                // Relaxed: only one thread empties the database.
                let is_ours = self.is_ours.load(Ordering::Relaxed);
                drop_made(database.as_mut(), statements, is_ours)?;
                self.is_ours.store(true, Ordering::Relaxed);
                Ok(database)
            }
        }
    }

    /// Opens another connection to the database.
    pub(crate) fn connect(&self) -> Result<Box<dyn Database>, BenchError> {
        match &self.kind {
            Kind::File(path, sync) => {
                let mut database = Sqlite::open(path)?;
                let sync = if *sync { "FULL" } else { "NORMAL" };
                database.query("PRAGMA journal_mode = WAL", &[])?;
                database.execute(&format!("PRAGMA synchronous = {sync}"), &[])?;
                Ok(Box::new(database))
            }
            Kind::Server(url) => {
                let database = connect(url)?;
                Ok(database)
            }
        }
    }
}

/// Returns the table that a statement creates.
pub(crate) fn made_by(statement: &str) -> Option<&str> {
    let rest = statement.strip_prefix("CREATE TABLE ")?;
    rest.split_whitespace().next()
}

/// Drops the tables of an earlier part of this run; returns an error if the database has any other.
fn drop_made(
    database: &mut dyn Database,
    statements: &[&str],
    is_ours: bool,
) -> Result<(), BenchError> {
    let dialect = database.dialect();
    let made: Vec<&str> = statements.iter().filter_map(|sql| made_by(sql)).collect();
    for table in database.catalog()?.keys() {
        if !is_ours || !(table.starts_with("probity_") || made.contains(&table.as_str())) {
            return Err(BenchError::Failed(format!(
                "the database is not empty, it holds the table {table}; give an empty one"
            )));
        }
        database.execute(&format!("DROP TABLE {}", dialect.quote(table)), &[])?;
    }
    Ok(())
}

/// Returns the name of the database in results.
pub(crate) const fn called(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "SQLite",
        Dialect::Postgres => "PostgreSQL",
        Dialect::Mysql => "MariaDB",
        _ => "another",
    }
}

/// Fills tables, many rows per statement.
pub(crate) struct Filler<'a> {
    database: &'a mut dyn Database,
    pub(crate) random: Random,
    table: &'static str,
    width: usize,
    waiting: Vec<Value>,
}

impl<'a> Filler<'a> {
    pub(crate) const fn new(database: &'a mut dyn Database, random: Random) -> Self {
        Self {
            database,
            random,
            table: "",
            width: 0,
            waiting: Vec::new(),
        }
    }

    /// Adds a row; all rows of a table must be added together.
    pub(crate) fn row<const N: usize>(
        &mut self,
        table: &'static str,
        row: [Value; N],
    ) -> Result<(), BenchError> {
        if self.table != table || self.waiting.len() + N > VALUES_A_STATEMENT {
            self.flush()?;
            self.table = table;
            self.width = N;
        }
        self.waiting.extend(row);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        insert(self.database, self.table, self.width, &self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    /// Returns a text of `words` words of a small vocabulary.
    pub(crate) fn text(&mut self, words: u64) -> Value {
        const WORDS: [&str; 8] = [
            "lecture ", "answer ", "because ", "theorem ", "review ", "value ", "the ", "of ",
        ];
        let mut text = String::new();
        for _ in 0..words {
            let place = usize::try_from(self.random.below(8)).unwrap_or_default();
            text.push_str(WORDS.get(place).copied().unwrap_or_default());
        }
        Value::Text(text)
    }

    /// Returns a number below `bound`; small numbers are far more frequent. Of n numbers the first
    /// has a share of about 1 / sqrt(n).
    pub(crate) fn skewed(&mut self, bound: i64) -> i64 {
        let fraction = u128::from(self.random.below(1 << 32));
        let squared = (fraction * fraction) >> 32;
        let bound = u128::from(bound.unsigned_abs());
        i64::try_from((squared * bound) >> 32).unwrap_or_default()
    }

    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        let below = self.random.below(bound.unsigned_abs());
        i64::try_from(below).unwrap_or_default()
    }
}

/// Inserts rows of `width` values each, which are concatenated.
pub(crate) fn insert(
    database: &mut dyn Database,
    table: &str,
    width: usize,
    values: &[Value],
) -> Result<(), BenchError> {
    if width == 0 {
        return Ok(());
    }
    let dialect = database.dialect();
    let tuple = format!("({})", vec!["?"; width].join(","));
    for part in values.chunks(VALUES_A_STATEMENT / width * width) {
        let tuples = vec![tuple.as_str(); part.len() / width].join(",");
        let sql = format!("INSERT INTO {} VALUES {tuples}", dialect.quote(table));
        database.execute(&sql, part)?;
    }
    Ok(())
}
