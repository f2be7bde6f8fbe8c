//! A server of this program in a folder of its own, with a log, a database with two people in it, and tokens.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use probity_disguise::Database;
use probity_disguise::database::{Sqlite, connect};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::client::{Answer, asked, posted};

pub(crate) const TABLES: [&str; 6] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE posts (id BIGINT PRIMARY KEY, author_id BIGINT REFERENCES people(id), text VARCHAR(80))",
    "CREATE TABLE likes (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES people(id), post_id BIGINT REFERENCES posts(id))",
    "INSERT INTO people VALUES (19, 'Bea Very-Personal'), (20, 'Al')",
    "INSERT INTO posts VALUES (1, 19, 'hello'), (2, 20, 'world')",
    "INSERT INTO likes VALUES (1, 19, 2), (2, 20, 1)",
];

/// May do everything.
pub(crate) const SHOP: &str = "shop-token-0123456789abcdef0123456789";
/// May register, and no more.
pub(crate) const DESK: &str = "desk-token-0123456789abcdef0123456789";
/// May do everything in the other database.
pub(crate) const OTHER: &str = "other-token-0123456789abcdef012345678";

/// The most repetitions of a request while the answer is busy.
const TRIES_MAX: u32 = 1_000;

/// Returns the settings of a token for the configuration.
pub(crate) fn token(name: &str, token: &str, database: &str, operations: &[&str]) -> String {
    let bytes = Sha256::digest(token);
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    let digest = digits.collect::<String>();
    format!(
        "[[token]]\nname = \"{name}\"\nsha256 = \"{digest}\"\ndatabases = [\"{database}\"]\noperations = {operations:?}\n"
    )
}

/// A server with its files.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) url: String,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    address: SocketAddr,
    said: JoinHandle<String>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.lock().unwrap().take() {
            drop(running.child.kill());
            drop(running.child.wait());
        }
    }
}

impl Place {
    /// Starts a server with limits of its own.
    pub(crate) fn new(url: impl FnOnce(&Path) -> String, limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        let place = Self {
            folder,
            url,
            running: Mutex::new(None),
        };
        let mut database = place.database();
        for sql in TABLES {
            database.execute(sql, &[]).unwrap();
        }
        drop(database);
        place.run(&["init", "audit"]);
        place.run(&["disguise", "draft", "-o", "leave.toml"]);
        let leave = fs::read_to_string(place.path("leave.toml")).unwrap();
        let idle = format!("inactive = \"people.name = 'Idle'\"\n{leave}");
        fs::write(place.path("idle.toml"), idle).unwrap();
        let key = ["receipts.key", "--name", "example.com/receipts"];
        let made = place.run(&[&["disguise", "receipt-key"][..], &key].concat());
        fs::write(place.path("receipts.pub"), made.stdout).unwrap();
        fs::write(place.path("app.url"), format!("{}\n", place.url)).unwrap();
        fs::write(place.path("probity.toml"), Self::config(limits)).unwrap();
        place.start();
        place
    }

    pub(crate) fn sqlite() -> Self {
        Self::new(sqlite_file, "")
    }

    fn config(limits: &str) -> String {
        let all = probity_http::operations().collect::<Vec<_>>();
        [
            "listen = \"127.0.0.1:0\"\nreceipt_key = \"receipts.key\"\n".to_owned(),
            format!("[log]\nfolder = \"audit\"\n[limits]\n{limits}\n"),
            "[database.app]\nurl_file = \"app.url\"\nspec.leave.file = \"leave.toml\"\nspec.idle.file = \"idle.toml\"\n".to_owned(),
            "[database.other]\nurl = \"sqlite:other.db\"\n".to_owned(),
            token("shop", SHOP, "app", &all),
            token("desk", DESK, "app", &["register"]),
            token("elsewhere", OTHER, "other", &all),
        ]
        .concat()
    }

    /// Starts the server anew with another configuration.
    pub(crate) fn configure(&self, config: &str) {
        self.stop();
        fs::write(self.path("probity.toml"), config).unwrap();
        self.start();
    }

    /// Starts the server and waits until it listens.
    pub(crate) fn start(&self) {
        let (mut child, line) = self.spawned("probity.toml");
        let mut stderr = child.stderr.take().unwrap();
        let said = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let Some(address) = line.strip_prefix("listening on http://") else {
            drop(child.kill());
            panic!("{line:?}: {}", said.join().unwrap());
        };
        let (address, _) = address.split_once(';').unwrap();
        let address = address.parse().unwrap();
        let running = Running {
            child,
            address,
            said,
        };
        *self.running.lock().unwrap() = Some(running);
    }

    /// Starts a server with this configuration; returns its first line, which is empty where it
    /// does not start.
    pub(crate) fn spawned(&self, config: &str) -> (Child, String) {
        let mut child = self
            .command(&["serve", "--config", config])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        (child, line)
    }

    /// Asks the server to stop, and gives whether it ended well and what it said to the operator.
    pub(crate) fn stop(&self) -> (bool, String) {
        self.signal("TERM");
        self.ended()
    }

    /// Ends the server as a power cut would.
    pub(crate) fn kill(&self) {
        self.signal("KILL");
        self.ended();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let running = self.running.lock().unwrap();
        let id = running.as_ref().unwrap().child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn ended(&self) -> (bool, String) {
        let mut running = self.running.lock().unwrap().take().unwrap();
        let status = running.child.wait().unwrap();
        (status.success(), running.said.join().unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.lock().unwrap().as_ref().unwrap().address
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn database(&self) -> Box<dyn Database> {
        connect(&self.url).unwrap()
    }

    /// Returns everything that the application has.
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

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .env("PROBITY_DB", &self.url)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its good end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?} {output:?}");
        output
    }

    /// Returns the entries of the log, once the server has stopped.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let output = self.run(&["export", "audit", "--format", "jsonl"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.map(Result::unwrap).collect()
    }

    /// Asks for what needs no token.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        asked(self.address(), &request).unwrap()
    }

    /// Asks for an operation in the database `app`.
    pub(crate) fn post(&self, token: &str, operation: &str, body: &Value) -> Answer {
        self.post_to("app", token, operation, body)
    }

    /// Asks for an operation in a database.
    pub(crate) fn post_to(
        &self,
        database: &str,
        token: &str,
        operation: &str,
        body: &Value,
    ) -> Answer {
        let path = format!("/v1/disguise/{database}/{operation}");
        let request = posted(&path, token, &body.to_string());
        asked(self.address(), &request).unwrap()
    }

    /// Asks as the shop does, again while others are in the way, and expects that it is done.
    pub(crate) fn done(&self, operation: &str, body: &Value) -> Value {
        let mut answer = self.post(SHOP, operation, body);
        for _ in 0..TRIES_MAX {
            if answer.status != 503 || answer.problem() != "busy" {
                break;
            }
            answer = self.post(SHOP, operation, body);
        }
        assert_eq!(answer.status, 200, "{operation} {answer:?}");
        answer.json()
    }

    /// Asks as the shop does, and expects this problem.
    pub(crate) fn refused(&self, operation: &str, body: &Value, status: u16) -> String {
        let answer = self.post(SHOP, operation, body);
        assert_eq!(answer.status, status, "{operation} {answer:?}");
        answer.problem()
    }

    /// Registers a user and gives the credential.
    pub(crate) fn registered(&self, user: &str) -> Value {
        let made = self.done("register", &json!({"user": user, "spec": "leave"}));
        made["credential"].clone()
    }
}

pub(crate) fn sqlite_file(folder: &Path) -> String {
    let file = folder.join("app.db");
    drop(Sqlite::open(&file).unwrap());
    drop(Sqlite::open(&folder.join("other.db")).unwrap());
    format!("sqlite:{}", file.display())
}
