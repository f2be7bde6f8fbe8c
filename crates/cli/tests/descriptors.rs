//! Clients of the proxy and of the HTTP server never take the open files that the log needs.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and writes a configuration"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use probity_disguise::Database as _;
use probity_disguise::database::connect as connect_database;
use probity_testing::{redis, wait};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// Most files that the proxy may have open here.
const FILES: usize = 400;
/// Files that are not for clients, by default.
const RESERVED: usize = 256;

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Starts a proxy that may have so many files open; returns it with its port.
fn proxy(folder: &Path, files: usize, behind: &[&str]) -> (Ends, u16) {
    let serving = [
        "proxy",
        "--log",
        "audit",
        "--init",
        "--listen",
        "127.0.0.1:0",
    ];
    started(folder, files, &[&serving, behind].concat())
}

/// Starts a server that may have so many files open and changes its key each second; returns it
/// with its port.
fn started(folder: &Path, files: usize, arguments: &[&str]) -> (Ends, u16) {
    let probity = env!("CARGO_BIN_EXE_probity");
    let limited = format!("ulimit -S -n 64; ulimit -H -n {files}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited, probity])
        .args(arguments)
        .args(["--key-interval", "1"])
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut ready).unwrap();
    let port = ready
        .replace("http://", "")
        .strip_prefix("listening on 127.0.0.1:")
        .and_then(|rest| rest.split(';').next())
        .and_then(|port| port.parse().ok());
    (Ends(child), port.unwrap_or_default())
}

fn ask(socket: &mut TcpStream, line: &str) -> String {
    socket.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = [0; 512];
    let count = socket.read(&mut reply).unwrap();
    String::from_utf8_lossy(reply.get(..count).unwrap()).into_owned()
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    socket
}

fn holds_out(behind: &[&str], folder: &Path, clients_max: usize) {
    let (mut ends, port) = proxy(folder, FILES, behind);
    assert_ne!(port, 0);
    let mut one = connect(port);
    assert_eq!(ask(&mut one, "SET user:a:1 x"), "+OK\r\n");
    let idle: Vec<TcpStream> = (0..FILES).map(|_| connect(port)).collect();
    // Each second the log has another key, for which it opens and replaces files.
    for number in 0..6 {
        wait(600);
        let reply = ask(&mut one, &format!("SET user:a:1 {number}"));
        assert_eq!(reply, "+OK\r\n", "{behind:?}");
    }
    drop(idle);
    wait(300);
    assert_eq!(ask(&mut connect(port), "GET user:a:1"), "$1\r\n5\r\n");
    let id = ends.0.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success());
    assert!(ends.0.wait().unwrap().success());
    let mut said = String::new();
    let mut stderr = ends.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let warning = format!("at most {clients_max} clients at once, not 10000");
    assert!(said.contains(&warning), "{said}");
}

/// Some 500 idle clients without a token took all open files of a process that may have 1,024. The
/// log failed at its next checkpoint, and every client got errors for good. Now the limit of
/// clients leaves the log its files.
#[test]
fn idle_clients_leave_the_log_its_files() {
    let folder = tempfile::tempdir().unwrap();
    holds_out(&["--store", "data"], folder.path(), FILES - RESERVED);
}

/// Before a server each client takes two open files.
#[test]
fn idle_clients_of_a_server_leave_the_log_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, socket) = redis::on_socket();
    let upstream = format!("unix:{}", socket.display());
    holds_out(
        &["--upstream", &upstream],
        folder.path(),
        (FILES - RESERVED) / 2,
    );
}

/// With too few open files for a single client the proxy says so and does not start.
#[test]
fn a_proxy_without_files_for_clients_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (mut ends, port) = proxy(folder.path(), 200, &["--store", "data"]);
    assert_eq!(port, 0);
    let mut said = String::new();
    let mut stderr = ends.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("may have 200 files open"), "{said}");
    assert!(!ends.0.wait().unwrap().success());
}

const TOKEN: &str = "a-token-that-is-long-enough-0123456789";

/// Makes a folder with a log, a database of 50 people and the configuration of a server.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    fs::write(&file, "").unwrap();
    let mut database = connect_database(&format!("sqlite:{}", file.display())).unwrap();
    let rows: Vec<String> = (1..=50).map(|id| format!("({id}, 'name {id}')")).collect();
    for sql in [
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
        "CREATE TABLE posts (id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users(id), text TEXT)",
        &format!("INSERT INTO users VALUES {}", rows.join(", ")),
    ] {
        database.execute(sql, &[]).unwrap();
    }
    for arguments in [
        &["init", "audit"][..],
        &[
            "disguise",
            "draft",
            "--db",
            "sqlite:app.db",
            "-o",
            "leave.toml",
        ],
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(arguments)
            .current_dir(folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .env_remove("PROBITY_HEADS")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let digest = Sha256::digest(TOKEN);
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    let digits = digits.collect::<Vec<_>>().concat();
    let config = format!(
        "listen = \"127.0.0.1:0\"\nlog.folder = \"audit\"\nlimits.unauthenticated = 8\n\
         [database.app]\nurl = \"sqlite:app.db\"\nspec.leave.file = \"leave.toml\"\n\
         [[token]]\nname = \"shop\"\nsha256 = \"{digits}\"\ndatabases = [\"app\"]\noperations = [\"register\"]\n"
    );
    fs::write(folder.path().join("probity.toml"), config).unwrap();
    folder
}

fn health() -> String {
    format!("GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n")
}

fn register(id: usize) -> String {
    let body = format!("{{\"user\":\"{id}\",\"spec\":\"leave\"}}");
    format!(
        "POST /v1/disguise/app/register HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Somebody with a token kept 179 connections to a server that might have 200 files open. Its log
/// failed, and it answered each request with an error until it was started anew. Now the limit of
/// connections leaves the log and the databases their files.
#[test]
fn clients_of_the_http_server_leave_the_log_its_files() {
    let folder = place();
    let serve = ["serve", "--config", "probity.toml"];
    let (mut ends, port) = started(folder.path(), FILES, &serve);
    assert_ne!(port, 0);
    let mut one = connect(port);
    assert!(ask(&mut one, &health()).starts_with("HTTP/1.1 200"));
    // Some have no place, and wait for one.
    let idle: Vec<TcpStream> = (0..FILES).map(|_| connect(port)).collect();
    for mut socket in &idle {
        let _full = socket.write_all(format!("{}\r\n", health()).as_bytes());
    }
    for id in 1..=6 {
        wait(600);
        let answer = ask(&mut one, &register(id));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    drop(idle);
    wait(300);
    let answer = ask(&mut connect(port), &register(7));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let id = ends.0.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success() && ends.0.wait().unwrap().success());
    let said = said(&mut ends);
    // 8 connections with 6 files each, and twice the 8 without a token.
    let left = FILES - RESERVED - 8 * 6 - 2 * 8;
    let warning = format!("limits.connections is {left}, for");
    assert!(said.contains(&warning), "{said}");
}

#[test]
fn an_http_server_without_files_for_clients_does_not_start() {
    let folder = place();
    let (mut ends, port) = started(folder.path(), 300, &["serve", "--config", "probity.toml"]);
    assert_eq!(port, 0);
    assert!(!ends.0.wait().unwrap().success());
    let said = said(&mut ends);
    assert!(
        said.contains("may have 300 files open, and 320 are needed"),
        "{said}"
    );
}

fn said(ends: &mut Ends) -> String {
    let mut said = String::new();
    let mut stderr = ends.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    said
}
