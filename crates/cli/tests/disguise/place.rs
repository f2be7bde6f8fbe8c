//! A folder with a log, and a database with two people in it, for the program to work on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probity_disguise::Database;
use probity_disguise::database::{Sqlite, connect};
use serde_json::Value;
use tempfile::TempDir;

const TABLES: [&str; 6] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE posts (id BIGINT PRIMARY KEY, author_id BIGINT REFERENCES people(id), text VARCHAR(80))",
    "CREATE TABLE likes (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES people(id), post_id BIGINT REFERENCES posts(id))",
    "INSERT INTO people VALUES (19, 'Bea Very-Personal'), (20, 'Al')",
    "INSERT INTO posts VALUES (1, 19, 'hello'), (2, 20, 'world')",
    "INSERT INTO likes VALUES (1, 19, 2), (2, 20, 1)",
];

/// Person 19 leaves, and the log is told.
pub(crate) const APPLY: [&str; 8] = [
    "disguise",
    "apply",
    "--spec",
    "leave.toml",
    "--user",
    "19",
    "--log",
    "audit",
];

/// A folder with a log, and a database with two people in it.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        let place = Self { folder, url };
        let mut database = place.database();
        for sql in TABLES {
            database.execute(sql, &[]).unwrap();
        }
        place.run(&["init", "audit"], 0);
        place
    }

    pub(crate) fn sqlite() -> Self {
        Self::new(|folder| {
            let file = folder.join("app.db");
            drop(Sqlite::open(&file).unwrap());
            format!("sqlite:{}", file.display())
        })
    }

    pub(crate) fn database(&self) -> Box<dyn Database> {
        connect(&self.url).unwrap()
    }

    /// Says that the log is the first one of the database, in which something was done without.
    pub(crate) fn begin_log(&self) {
        self.run(&["disguise", "begin-log", "--log", "audit"], 0);
    }

    pub(crate) fn rows(&self) -> Vec<String> {
        let mut database = self.database();
        let mut all = Vec::new();
        for table in ["people", "posts", "likes"] {
            let sql = format!("SELECT * FROM {table} ORDER BY id");
            let rows = database.query(&sql, &[]).unwrap();
            all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
        }
        all
    }

    /// Returns the program as a command whose outputs are kept.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .env("PROBITY_DB", &self.url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program, expects the status, and gives both outputs.
    pub(crate) fn run(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}\n{stdout}{stderr}"
        );
        (stdout, stderr)
    }

    pub(crate) fn json(&self, args: &[&str], status: i32) -> Value {
        let (stdout, _) = self.run(&[args, &["--json"]].concat(), status);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

pub(crate) fn prepared() -> Place {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    fs::write(place.path("19.pw"), "a long password\n").unwrap();
    let register = [
        "disguise",
        "register",
        "--user",
        "19",
        "--password-file",
        "19.pw",
    ];
    place.run(
        &[&register[..], &["--credential-out", "19.token"]].concat(),
        0,
    );
    place
}
