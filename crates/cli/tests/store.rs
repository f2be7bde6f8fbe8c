//! The embedded store on the real program: killed at any moment it holds what it acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail loudly"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Kills in the gate; `PROBITY_STORE_KILLS` asks for another number.
const KILLS: u64 = 6;
const KEYS: u64 = 20;

fn probity(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_UPSTREAM");
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    probity(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The proxy before its store, until it is killed or stopped.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let args = [
            "proxy",
            "--log",
            "audit",
            "--init",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "data",
        ];
        let mut child = probity(folder, &[&args, more].concat()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        let port = ready
            .strip_prefix("listening on 127.0.0.1:")
            .and_then(|rest| rest.split(';').next())
            .expect("the proxy is ready")
            .parse()
            .unwrap();
        Self { child, port }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        assert!(self.child.wait().unwrap().success());
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        socket
    }

    fn ask(&self, lines: &str) -> String {
        let mut socket = self.connect();
        let lines = format!("{}\r\nQUIT\r\n", lines.replace('\n', "\r\n"));
        socket.write_all(lines.as_bytes()).unwrap();
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).unwrap();
        text(&reply).replace("\r\n", " ")
    }
}

#[test]
fn a_stopped_store_is_there_when_it_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &[]);
    let said = "SET a 1\nHSET h f v\nRPUSH l x y\nSADD s m\nZADD z 2 m\nSETRANGE big 100000 end\nEXPIREAT a 4000000000";
    assert_eq!(proxy.ask(said), "+OK :1 :2 :1 :1 :100003 :1 +OK ");
    proxy.stop();
    let proxy = Proxy::start(folder.path(), &[]);
    let asked = "GET a\nHGET h f\nLRANGE l 0 -1\nSISMEMBER s m\nZSCORE z m\nSTRLEN big\nEXPIRETIME a\nDBSIZE";
    assert_eq!(
        proxy.ask(asked),
        "$1 1 $1 v *2 $1 x $1 y :1 $1 2 :100003 :4000000000 :6 +OK "
    );
    proxy.stop();
    let verified = run(folder.path(), &["verify", "audit"]);
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stdout)
    );
}

/// Says that key `number` has the value `value`, until the connection ends; what was acknowledged.
fn write_until_killed(mut socket: TcpStream, first: u64) -> BTreeMap<u64, u64> {
    let mut acknowledged = BTreeMap::new();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    for value in first.. {
        let (number, mut line) = (value % KEYS, String::new());
        let said = format!("SET key{number} {value}\r\n");
        if socket.write_all(said.as_bytes()).is_err() {
            break;
        }
        match reader.read_line(&mut line) {
            Ok(count) if count > 0 && line == "+OK\r\n" => acknowledged.insert(number, value),
            _ => break,
        };
    }
    acknowledged
}

#[test]
fn what_was_acknowledged_under_strict_is_there_after_a_kill_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a longer run is asked for there")]
    let kills = std::env::var("PROBITY_STORE_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let mut next = 1;
    for round in 0..kills {
        let proxy = Proxy::start(folder.path(), &["--durability", "strict"]);
        for (number, value) in &known {
            let reply = proxy.ask(&format!("GET key{number}"));
            let found: u64 = reply.split(' ').nth(1).unwrap().parse().unwrap();
            // What was on its way when the process was killed may have been done or not.
            assert!(
                found >= *value,
                "round {round}: key{number} was {value}, is {found}"
            );
        }
        let (first, socket) = (next, proxy.connect());
        let writer = std::thread::spawn(move || write_until_killed(socket, first));
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let _elapsed = receiver.recv_timeout(Duration::from_millis(100 + round * 37 % 300));
        proxy.kill();
        let acknowledged = writer.join().unwrap();
        assert!(!acknowledged.is_empty(), "round {round} wrote nothing");
        next = acknowledged.values().max().unwrap() + 2;
        known.extend(acknowledged);
        let verified = run(folder.path(), &["verify", "audit"]);
        assert_eq!(
            verified.status.code(),
            Some(0),
            "{}",
            text(&verified.stdout)
        );
    }
}

#[test]
fn a_store_that_is_not_one_or_newer_or_in_use_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let start = || {
        let args = [
            "proxy",
            "--log",
            "audit",
            "--init",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "data",
        ];
        let output = run(path, &args);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    fs::create_dir(path.join("data")).unwrap();
    fs::copy("Cargo.toml", path.join("data/letter.txt")).unwrap();
    assert!(start().contains("data is no store, and not empty"));
    assert!(path.join("data/letter.txt").exists());
    fs::remove_dir_all(path.join("data")).unwrap();

    let proxy = Proxy::start(path, &[]);
    assert_eq!(proxy.ask("SET a 1"), "+OK +OK ");
    let other = run(
        path,
        &[
            "proxy",
            "--log",
            "other",
            "--init",
            "--listen",
            "127.0.0.1:0",
            "--store",
            "data",
        ],
    );
    assert!(text(&other.stderr).contains("the store in data is in use by another process"));
    proxy.stop();

    let mark = path.join("data/probity-store.toml");
    let newer = fs::read_to_string(&mark)
        .unwrap()
        .replace("version = 1", "version = 2");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&mark)
        .unwrap();
    file.write_all(newer.as_bytes()).unwrap();
    let said = start();
    assert!(
        said.contains("format version 2, this program knows 1"),
        "{said}"
    );
    assert!(said.contains("use the newer program"), "{said}");
}
