//! Real Redis clients and a real server, the proxy between them: what they did is in the log.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use probity_testing::program::Program;
use probity_testing::redis::Redis;
use serde_json::Value;

fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
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
    fn start(folder: &Path, server: &Redis, more: &[&str]) -> Self {
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
        redis_cli(&self.port, &[], input)
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
    let server = Redis::start(&[]);
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
        &["--entry-key", "user:8:mail", "--outcome", "absent"],
    );
    assert_eq!(absent.len(), 2);
    assert!(assert_intact(folder.path()) >= 14);
}

#[test]
fn every_operation_of_a_benchmark_is_in_the_log() {
    let server = Redis::start(&[]);
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
        exported(folder.path(), &["--entry-key", "user:1:x"]).len(),
        20_000
    );
    assert!(assert_intact(folder.path()) >= 20_000);
}

/// Returns what redis-cli prints for `input` at `port`.
fn redis_cli(port: &str, options: &[&str], input: &str) -> String {
    let mut child = Command::new("redis-cli")
        .args(["-p", port])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli is installed");
    let mut said = child.stdin.take().unwrap();
    said.write_all(input.as_bytes()).unwrap();
    drop(said);
    text(&child.wait_with_output().unwrap().stdout)
}

#[test]
fn redis_cli_prints_the_same_with_and_without_the_proxy() {
    let server = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &server, &["--init"]);
    let input = "FLUSHALL\nSET user:1:a \"x y\"\nGET user:1:a\nGET user:2:a\nINCR n\nINCR user:1:a\nHSET user:1:h f v g w\n\
        HGETALL user:1:h\nRPUSH user:1:l a b c\nLRANGE user:1:l 0 -1\nZADD user:1:z 1.5 m 2 n\nZRANGE user:1:z 0 -1 WITHSCORES\n\
        MULTI\nSET user:3:t 1\nLPUSH user:3:t x\nEXEC\nSELECT 2\nSET user:4:d 1\nNOSUCH\nEVAL \"return {KEYS[1], 7}\" 1 user:5:e\nDBSIZE\n";
    let direct = server.port().to_string();
    for options in [
        &[][..],
        &["--no-raw"],
        &["-3", "--no-raw"],
        &["--csv"],
        &["-n", "3"],
    ] {
        assert_eq!(
            redis_cli(&proxy.port, options, input),
            redis_cli(&direct, options, input),
            "{options:?}"
        );
    }
    let mass: Vec<String> = (0..3_000)
        .map(|number| format!("SET user:{number}:mass {number}\r\n"))
        .collect();
    let mass = mass.concat();
    let piped = redis_cli(&proxy.port, &["--pipe"], &mass);
    assert!(piped.contains("errors: 0, replies: 3000"), "{piped}");
    proxy.stop();
    let entries = exported(folder.path(), &[]);
    let of = |part: &str| {
        let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
        keys.filter(|key| key.contains(part)).count()
    };
    assert_eq!(of(":mass"), 3_000);
    // Five times: twice in plain commands, twice in a transaction, once each in another database and a script.
    assert_eq!((of("user:3:t"), of("user:4:d"), of("user:5:e")), (10, 5, 5));
    assert_eq!(
        (of("user:1:h"), of("user:1:l"), of("user:1:z")),
        (10, 10, 10)
    );
    assert_intact(folder.path());
}

#[test]
fn every_key_that_a_benchmark_touches_is_recorded_as_often_as_the_server_was_asked() {
    let server = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &server, &["--init"]);
    let tests = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset";
    for pipeline in ["1", "16"] {
        let status = Command::new("redis-benchmark")
            .args([
                "-p",
                &proxy.port,
                "-n",
                "1000",
                "-r",
                "50",
                "-c",
                "10",
                "-q",
            ])
            .args(["-P", pipeline, "-t", tests])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("redis-benchmark is installed");
        assert!(status.success());
    }
    proxy.stop();
    let stats = redis_cli(&server.port().to_string(), &[], "INFO commandstats\n");
    let asked = |command: &str| -> usize {
        let line = format!("cmdstat_{command}:calls=");
        let (_, rest) = stats
            .split_once(&line)
            .unwrap_or_else(|| panic!("{command}: {stats}"));
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let entries = exported(folder.path(), &[]);
    let recorded = |command: &str| {
        let word = format!("{{\"command\":\"{command}\"");
        let payloads = entries.iter().filter_map(|entry| entry["payload"].as_str());
        payloads
            .filter(|payload| payload.starts_with(&word))
            .count()
    };
    for command in [
        "set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd",
        "zpopmin", "lrange",
    ] {
        assert!(asked(command) >= 2_000, "{command}");
        assert_eq!(recorded(command), asked(command), "{command}");
    }
    // Ten keys each.
    assert_eq!(recorded("mset"), asked("mset") * 10);
    assert_intact(folder.path());
}

#[test]
fn a_full_disk_under_the_log_ends_what_cannot_be_recorded() {
    let server = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    // No file may grow beyond 256 KiB: the log's segment soon does.
    let program = env!("CARGO_BIN_EXE_probity");
    let limited = format!(
        "trap '' XFSZ; ulimit -f 256; exec {program} proxy --log audit --init --durability strict --listen 127.0.0.1:0 --upstream {url}"
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &limited]).current_dir(folder.path());
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut proxy = Proxy::ready(shell.spawn().unwrap());
    let mut acknowledged: u64 = 0;
    let mut heard = String::new();
    let mut socket = TcpStream::connect(format!("127.0.0.1:{}", proxy.port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    for round in 0..200_u64 {
        // Random names, which no compressor makes small.
        let said: Vec<String> = (0..500)
            .map(|number| {
                let name = (round * 500 + number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                format!("INCR user:{name:x}:{:x}\r\n", name.wrapping_mul(name))
            })
            .collect();
        if socket.write_all(said.concat().as_bytes()).is_err() {
            break;
        }
        let mut lines = 0;
        while lines < 500 {
            heard.clear();
            if reader.read_line(&mut heard).unwrap_or(0) == 0 || heard.starts_with('-') {
                break;
            }
            lines += 1;
            acknowledged += 1;
        }
        if lines < 500 {
            break;
        }
    }
    assert!(acknowledged > 0 && acknowledged < 100_000, "{acknowledged}");
    // Nothing is done for anybody any more.
    let before = redis_cli(&server.port().to_string(), &[], "DBSIZE\n");
    let refused = redis_cli(&proxy.port, &[], "SET user:1:after x\n");
    // The proxy ends, and says so to whom it still answers.
    assert!(
        refused.is_empty() || refused.contains("the log does not take entries; nothing is done"),
        "{refused}"
    );
    assert_eq!(
        redis_cli(&server.port().to_string(), &[], "DBSIZE\n"),
        before
    );
    assert_eq!(proxy.child.wait().unwrap().code(), Some(1));
    // With room again the log is repaired when it is opened; what was acknowledged is there.
    let proxy = Proxy::start(folder.path(), &server, &[]);
    assert_eq!(redis_cli(&proxy.port, &[], "SET user:1:after x\n"), "OK\n");
    proxy.stop();
    assert!(assert_intact(folder.path()) > acknowledged);
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
    assert_eq!((proxy.len(), commands.len()), (1, 6));
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
