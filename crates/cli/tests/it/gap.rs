//! A proxy whose log has no room: answered operations that the log lacks are counted, in a `gap`
//! and in the message at the end.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed; it waits for another process"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use probity_log::storage::SmallDisk;
use probity_testing::program::Program;
use rustix::process::{Pid, Signal, kill_process};

/// Enough for a log, and for a few thousand entries.
const DISK_BYTES: u64 = 1 << 20;

fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

fn run(at: &Path, arguments: &[&str]) -> Output {
    probity(at, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A proxy before a store, whose log lies on a small disk.
struct Running {
    child: Child,
    client: TcpStream,
    answered: u64,
}

impl Running {
    fn start(place: &Place, options: &[&str]) -> Self {
        let log = place.log();
        let mut arguments = vec!["proxy", "--log", &log, "--init", "--listen", "127.0.0.1:0"];
        arguments.extend(["--store", "data"]);
        arguments.extend(options);
        let mut child = probity(place.at.path(), &arguments).spawn().unwrap();
        let mut said = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut said).unwrap();
        let (_, rest) = said.split_once("listening on ").unwrap();
        let client = TcpStream::connect(rest.split(';').next().unwrap()).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            child,
            client,
            answered: 0,
        }
    }

    /// Sets a key; whether that was answered with OK.
    fn set(&mut self) -> bool {
        let key = format!("user:{}:x", self.answered);
        let command = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
        if self.client.write_all(command.as_bytes()).is_err() {
            return false;
        }
        let mut reply = [0; 5];
        let is_ok = self.client.read_exact(&mut reply).is_ok() && reply == *b"+OK\r\n";
        self.answered += u64::from(is_ok);
        is_ok
    }

    /// Sets `count` keys; whether all were answered with OK.
    fn sets(&mut self, count: usize) -> bool {
        (0..count).all(|_| self.set())
    }

    /// Returns whether a key exists.
    fn has(&mut self, key: &str) -> bool {
        let command = format!("*2\r\n$6\r\nEXISTS\r\n${}\r\n{key}\r\n", key.len());
        self.client.write_all(command.as_bytes()).unwrap();
        let mut reply = [0; 4];
        self.client.read_exact(&mut reply).unwrap();
        reply == *b":1\r\n"
    }

    fn stop(self) -> (u64, Option<i32>, String) {
        self.stop_by(Signal::TERM)
    }

    fn stop_by(self, signal: Signal) -> (u64, Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.end()
    }

    /// Waits until it ends by itself.
    fn end(mut self) -> (u64, Option<i32>, String) {
        let late = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().unwrap().is_none() {
            let is_late = Instant::now() > late;
            if is_late {
                self.child.kill().unwrap();
            }
            assert!(!is_late, "the proxy goes on");
            sleep(Duration::from_millis(20));
        }
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (self.answered, self.child.wait().unwrap().code(), said)
    }
}

struct Place {
    disk: SmallDisk,
    at: tempfile::TempDir,
}

impl Place {
    fn new(what: &str) -> Option<Self> {
        Some(Self {
            disk: SmallDisk::mounted(what, DISK_BYTES)?,
            at: tempfile::tempdir().unwrap(),
        })
    }

    fn log(&self) -> String {
        self.disk.path().join("audit").display().to_string()
    }

    fn filler(&self) -> PathBuf {
        self.disk.path().join("filler")
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut file = fs::File::create(self.filler()).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn exported(&self) -> String {
        let log = self.log();
        let output = run(self.at.path(), &["export", &log, "--format", "jsonl"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns whether the log, which is being written to, has one by now.
    fn has_gap(&self) -> bool {
        let log = self.log();
        let output = run(self.at.path(), &["export", &log, "--format", "jsonl"]);
        // If an opening repairs what is being read, the next check tells.
        output.status.success() && text(&output.stdout).contains("\"gap\"")
    }

    /// Operations on keys in the log, and the sum of all gaps by what became of the replies.
    fn counts(&self) -> (u64, u64, u64) {
        let (mut entries, mut let_go, mut withheld) = (0, 0, 0);
        for line in self.exported().lines() {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            if entry["action"] != "gap" {
                entries += 1;
                continue;
            }
            let payload = entry["payload"].as_str().unwrap();
            let gap: serde_json::Value = serde_json::from_str(payload).unwrap();
            let missed = gap["missed"].as_u64().unwrap();
            match gap["replies"].as_str().unwrap() {
                "let go" => let_go += missed,
                _ => withheld += missed,
            }
        }
        (entries, let_go, withheld)
    }

    fn assert_intact(&self) {
        let log = self.log();
        let key = format!("{log}.key");
        let verified = run(self.at.path(), &["verify", &log, "--key", &key]);
        let said = text(&verified.stdout);
        assert_eq!(verified.status.code(), Some(0), "{said}");
    }
}

/// With `--forward-on-log-failure` thousands of operations passed a full disk, and neither an entry
/// nor a message counted them. The log takes nothing more for the rest of the process. Now it is
/// opened again in the process, and one `gap` has the exact count. It covers the operations that
/// were not taken, and those that were taken and never became durable.
#[test]
fn what_passes_a_full_disk_is_counted_by_a_gap_as_soon_as_there_is_room() {
    for mode in ["strict", "group", "relaxed"] {
        let Some(place) = Place::new("a proxy on a full disk") else {
            return;
        };
        let options = ["--forward-on-log-failure", "--durability", mode];
        let mut proxy = Running::start(&place, &options);
        assert!(proxy.sets(300), "{mode}");
        place.fill();
        assert!(proxy.sets(3000), "{mode}");
        fs::remove_file(place.filler()).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        while !place.has_gap() && Instant::now() < end {
            sleep(Duration::from_millis(200));
        }
        assert!(proxy.sets(3), "{mode}");
        let (answered, status, said) = proxy.stop();
        assert_eq!(status, Some(0), "{mode}: {said}");
        let (entries, let_go, withheld) = place.counts();
        assert!(let_go > 0, "{mode}: {said}");
        assert_eq!(
            (entries + let_go, withheld),
            (answered, 0),
            "{mode}: {said}"
        );
        place.assert_intact();
    }
}

/// If there is no room until the process has ended, it says how many entries are missing, with
/// status 1. The next opening of the log for writing records the count.
#[test]
fn what_is_missing_when_a_proxy_ends_on_a_full_disk_is_recorded_by_the_next_opening() {
    for mode in ["strict", "group", "relaxed"] {
        let Some(place) = Place::new("a proxy that ends on a full disk") else {
            return;
        };
        let options = ["--forward-on-log-failure", "--durability", mode];
        let mut proxy = Running::start(&place, &options);
        assert!(proxy.sets(300), "{mode}");
        place.fill();
        assert!(proxy.sets(3000), "{mode}");
        let (answered, status, said) = proxy.stop();
        assert_eq!(status, Some(1), "{mode}: {said}");
        assert!(
            said.contains("operations were answered whose entries are not known"),
            "{said}"
        );
        fs::remove_file(place.filler()).unwrap();
        let log = place.log();
        for (opened, records) in [(1, true), (2, false)] {
            let appended = run(place.at.path(), &["append", &log]);
            let note = text(&appended.stderr);
            assert!(appended.status.success(), "{note}");
            assert_eq!(note.contains("recorded: "), records, "{opened}: {note}");
        }
        let (entries, let_go, withheld) = place.counts();
        assert_eq!(
            (entries + let_go, withheld),
            (answered, 0),
            "{mode}: {said}"
        );
        place.assert_intact();
    }
}

/// The manual said of the default proxy that it gives no answer that is not recorded. In the modes
/// `group` and `relaxed` replies go out before their entries are durable. The end of the proxy says
/// how many that were, and the next opening records the exact count.
#[test]
fn a_proxy_that_fails_closed_says_what_it_answered_and_does_not_have() {
    for mode in ["strict", "group", "relaxed"] {
        let Some(place) = Place::new("a proxy that fails closed") else {
            return;
        };
        let mut proxy = Running::start(&place, &["--durability", mode]);
        assert!(proxy.sets(300), "{mode}");
        place.fill();
        while proxy.set() {}
        // A supervisor starts it again, and clients had errors for ever.
        let (answered, status, said) = proxy.end();
        assert_eq!(status, Some(1), "{mode}: {said}");
        assert!(said.contains("the log has failed"), "{mode}: {said}");
        assert!(said.contains("No space left on device"), "{mode}: {said}");
        fs::remove_file(place.filler()).unwrap();
        let appended = run(place.at.path(), &["append", &place.log()]);
        assert!(appended.status.success(), "{}", text(&appended.stderr));
        let (entries, let_go, withheld) = place.counts();
        // The last command got an error: refused before it was done, or done.
        let done = entries + let_go + withheld;
        assert!((answered..=answered + 1).contains(&done), "{mode}: {said}");
        if mode == "strict" {
            assert_eq!(let_go, 0, "{said}");
            assert!(entries >= answered, "{said}");
        } else if let_go > 0 {
            assert!(
                said.contains(" answered whose entries are not known"),
                "{said}"
            );
        }
        place.assert_intact();
    }
}

/// A closed terminal ended the proxy like a kill, and the store lost what it had answered in the
/// last second.
#[test]
fn a_hangup_ends_a_proxy_in_order() {
    let Some(place) = Place::new("a proxy whose terminal is closed") else {
        return;
    };
    let mut proxy = Running::start(&place, &[]);
    assert!(proxy.sets(50));
    let (answered, status, said) = proxy.stop_by(Signal::HUP);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(place.counts(), (answered, 0, 0), "{said}");
    let mut again = Running::start(&place, &[]);
    assert!(again.has("user:49:x"));
    let (_, status, said) = again.stop();
    assert_eq!(status, Some(0), "{said}");
}
