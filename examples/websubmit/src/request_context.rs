//! The application's tables and the engine, over one connection.

use probity_disguise::database::Sqlite;
use probity_disguise::{Database as _, Engine, Spec, SpecFile, Value};
use probity_format::Timestamp;

use crate::problem::Problem;

const APPLICATION: &str = include_str!("../disguises/application.toml");

/// The tables know nothing of disguises but one column, which tells a placeholder from a person.
const TABLES: [&str; 4] = [
    "CREATE TABLE IF NOT EXISTS users (email TEXT PRIMARY KEY, is_teacher INTEGER NOT NULL, is_placeholder INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS lectures (id INTEGER PRIMARY KEY, label TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS questions (lecture INTEGER NOT NULL REFERENCES lectures, number INTEGER NOT NULL, question TEXT NOT NULL, PRIMARY KEY (lecture, number))",
    "CREATE TABLE IF NOT EXISTS answers (email TEXT NOT NULL REFERENCES users, lecture INTEGER NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (email, lecture, number), FOREIGN KEY (lecture, number) REFERENCES questions)",
];

/// The lectures of a new database, with their questions.
const LECTURES: [(&str, &[&str]); 2] = [
    (
        "What data are personal",
        &[
            "Name three data that identify you without your name.",
            "Is a salted hash of an e-mail address personal data? Why?",
        ],
    ),
    (
        "The right to erasure",
        &["Which data may a shop keep about a customer who leaves, and how long?"],
    ),
];

/// The engine over one connection of the database, and the time of the request.
pub(crate) struct RequestContext {
    pub(crate) engine: Engine<Sqlite>,
    pub(crate) now: Timestamp,
}

impl RequestContext {
    /// The engine for this application over `database`.
    pub(crate) fn new(database: Sqlite, now: Timestamp) -> Result<Self, Problem> {
        let file = SpecFile::parse(APPLICATION)?;
        let users = file
            .pseudo
            .ok_or(Problem::Broken("no users are described"))?;
        Ok(Self {
            engine: Engine::new(database, file.schema, users),
            now,
        })
    }

    /// Makes the tables that are missing, the application's and the engine's.
    pub(crate) fn prepare(&mut self) -> Result<(), Problem> {
        for table in TABLES {
            self.change(table, &[])?;
        }
        if self.rows("SELECT 1 FROM lectures LIMIT 1", &[])?.is_empty() {
            for ((label, questions), id) in LECTURES.into_iter().zip(1..) {
                let row = [Value::Int(id), Value::from(label)];
                self.change("INSERT INTO lectures VALUES (?, ?)", &row)?;
                for (question, number) in questions.iter().zip(1..) {
                    let row = [Value::Int(id), Value::Int(number), Value::from(*question)];
                    self.change("INSERT INTO questions VALUES (?, ?, ?)", &row)?;
                }
            }
        }
        Ok(self.engine.install()?)
    }

    /// The rows that a query of the application gives.
    pub(crate) fn rows(
        &mut self,
        sql: &str,
        parameters: &[Value],
    ) -> Result<Vec<Vec<Value>>, Problem> {
        Ok(self.engine.database().query(sql, parameters)?)
    }

    /// Runs a statement of the application; gives how many rows it changed.
    pub(crate) fn change(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, Problem> {
        Ok(self.engine.database().execute(sql, parameters)?)
    }
}

/// A specification that belongs to the program.
pub(crate) fn specification(text: &str) -> Result<Spec, Problem> {
    Ok(SpecFile::parse(text)?.spec)
}
