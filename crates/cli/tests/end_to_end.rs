//! Real Redis clients and a real server, the proxy between them: what they did is in the log.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Server {
    fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
            ])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            let (_sender, receiver) = std::sync::mpsc::channel::<()>();
            let _elapsed = receiver.recv_timeout(Duration::from_millis(10));
        }
        Self {
            child,
            port,
            _folder: folder,
        }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

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
    probity(folder, args)
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the proxy until it is dropped or stopped.
struct Proxy {
    child: Child,
    port: String,
}

impl Proxy {
    fn start(folder: &Path, server: &Server, more: &[&str]) -> Self {
        let url = server.url();
        let args = [
            "proxy",
            "--log",
            "audit",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            &url,
        ];
        Self::ready(probity(folder, &[&args, more].concat()).spawn().unwrap())
    }

    /// Waits until clients can connect to the proxy that was started.
    fn ready(mut child: Child) -> Self {
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        let port = ready
            .strip_prefix("listening on 127.0.0.1:")
            .and_then(|r| r.split(';').next());
        Self {
            port: port.expect("the proxy is ready").to_owned(),
            child,
        }
    }

    fn cli(&self, input: &str) -> String {
        let mut child = Command::new("redis-cli")
            .args(["-p", &self.port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli is installed");
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        text(&child.wait_with_output().unwrap().stdout)
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn exported(folder: &Path, filter: &[&str]) -> Vec<Value> {
    let output = run(
        folder,
        &[&["export", "audit", "--format", "jsonl"], filter].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn assert_intact(folder: &Path) -> u64 {
    let output = run(folder, &["verify", "audit", "--key", "audit.key", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let streams = document["streams"].as_array().unwrap();
    streams
        .iter()
        .find(|stream| stream["name"] == "default")
        .unwrap()["entries"]
        .as_u64()
        .unwrap()
}

#[test]
fn what_clients_do_is_recorded_verified_and_exported() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    for durability in ["strict", "group"] {
        let proxy = Proxy::start(
            folder.path(),
            &server,
            &["--init", "--durability", durability],
        );
        let replies = proxy.cli(
            "CLIENT SETNAME billing\nSET user:7:mail a@b\nGET user:7:mail\nGET user:8:mail\n\
             LPUSH user:7:mail x\nMGET user:7:mail user:9:mail\nDEL user:7:mail\n",
        );
        assert!(replies.starts_with("OK\nOK\na@b\n\nWRONGTYPE"), "{replies}");
        proxy.stop();
    }
    let entries = exported(folder.path(), &["--subject", "7"]);
    let seen: Vec<(&str, &str, &str)> = entries
        .iter()
        .map(|entry| {
            let field = |name: &str| entry[name].as_str().unwrap_or_default();
            (field("action"), field("key"), field("outcome"))
        })
        .collect();
    assert_eq!(seen.len(), 10, "{entries:?}");
    assert_eq!(seen[..5], seen[5..]);
    assert_eq!(seen[1], ("read", "user:7:mail", "ok"));
    assert_eq!((seen[2].2, seen[4].0), ("failed", "delete"));
    assert!(
        entries
            .iter()
            .all(|entry| entry["actor"].as_str().unwrap().contains("billing"))
    );
    let absent = exported(
        folder.path(),
        &["--key", "user:8:mail", "--outcome", "absent"],
    );
    assert_eq!(absent.len(), 2);
    assert!(assert_intact(folder.path()) >= 14);
}

#[test]
fn every_operation_of_a_benchmark_is_in_the_log() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &server, &["--init"]);
    let status = Command::new("redis-benchmark")
        .args([
            "-p",
            &proxy.port,
            "-n",
            "20000",
            "-c",
            "20",
            "-P",
            "16",
            "-q",
            "SET",
            "user:1:x",
            "v",
        ])
        .stdout(Stdio::null())
        .status()
        .expect("redis-benchmark is installed");
    assert!(status.success());
    proxy.stop();
    assert_eq!(
        exported(folder.path(), &["--key", "user:1:x"]).len(),
        20_000
    );
    assert!(assert_intact(folder.path()) >= 20_000);
}

#[test]
fn the_demo_shows_the_main_job_without_any_server() {
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown here");
    let run_demo = || {
        // Neither a search path nor a setting leads to a server.
        let mut demo = probity(folder.path(), &["demo", "--dir", "shown here"]);
        demo.env("PATH", "").env("PROBITY_UPSTREAM", "redis://h:1");
        demo.spawn().unwrap().wait_with_output().unwrap()
    };
    let output = run_demo();
    let report = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{report}{}",
        text(&output.stderr)
    );
    for part in [
        "recorded   4006 commands of 6 clients",
        ", 150 of them answered with an error",
        "verified   intact, without any secret: 3700 entries and ",
        "found      frame: stream default, ",
        "exported   3700 entries",
        "person 7   22 entries",
        "next, try:",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let lines = |name: &str| {
        fs::read_to_string(shown.join(name))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(lines("entries.jsonl"), 3700);
    assert_eq!(lines("person-7.jsonl"), 22);
    try_what_the_report_says(folder.path(), &report);
    let again = run_demo();
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("holds files already"));
}

/// Runs the commands below `next, try:` as they stand; the proxy runs until it is told to stop.
fn try_what_the_report_says(folder: &Path, report: &str) {
    let (_, next) = report.split_once("next, try:\n").unwrap();
    let commands: Vec<&str> = next.lines().map(str::trim).collect();
    let (proxy, commands): (Vec<&str>, Vec<&str>) = commands
        .into_iter()
        .filter(|command| !command.starts_with('#'))
        .partition(|command| command.contains(" proxy "));
    assert_eq!((proxy.len(), commands.len()), (1, 5));
    let shell = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(folder);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        shell.spawn().unwrap()
    };
    for command in commands {
        let ended = shell(command).wait_with_output().unwrap();
        let expected = if command.contains("tampered") { 3 } else { 0 };
        assert_eq!(ended.status.code(), Some(expected), "{command}");
    }
    let any_port = proxy[0].replace("127.0.0.1:6380", "127.0.0.1:0");
    let proxy = Proxy::ready(shell(&format!("exec {any_port}")));
    let replies = proxy.cli("HGET user:7:profile city\nEXISTS user:6:profile\n");
    assert_eq!(replies, "Porto\n0\n");
    proxy.stop();
}
