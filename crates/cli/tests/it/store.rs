//! The embedded store on the real program: killed at any moment it holds what it acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use probity_log::storage::SmallDisk;
use probity_testing::program::Program;

fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> Output {
    probity(folder, args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The proxy before its store, until it is killed or stopped.
pub(crate) struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    pub(crate) fn start(folder: &Path, more: &[&str]) -> Self {
        Self::start_with(folder, &[&["--log", "audit"], more].concat())
    }

    /// Starts one whose log `more` names.
    pub(crate) fn start_with(folder: &Path, more: &[&str]) -> Self {
        let args = [
            "proxy",
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

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn stop(mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits until the process ends by itself; returns its status and what it reported.
    pub(crate) fn end_of_itself(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > Duration::from_secs(20) {
                self.kill();
                panic!("the proxy goes on");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = self.child.wait_with_output().unwrap();
        (ended.status.code(), text(&ended.stderr))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        socket
    }

    pub(crate) fn ask(&self, lines: &str) -> String {
        self.try_ask(lines).unwrap()
    }

    pub(crate) fn try_ask(&self, lines: &str) -> io::Result<String> {
        let mut socket = self.connect();
        let lines = format!("{}\r\nQUIT\r\n", lines.replace('\n', "\r\n"));
        socket.write_all(lines.as_bytes())?;
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply)?;
        Ok(text(&reply).replace("\r\n", " "))
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

/// The bound of what clients keep waiting could be set by a program that uses the library, and by no option of this one. There is one.
#[test]
fn the_memory_of_what_waits_is_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path(), &["--store-waiting-bytes-max", "100000"]);
    let value = "v".repeat(1000);
    let queued = format!("SET a {value}\n").repeat(120);
    let heard = proxy.ask(&format!("MULTI\n{queued}EXEC"));
    assert!(heard.contains("take more than 100000 bytes"), "{heard}");
    assert!(heard.ends_with("-EXECABORT Transaction discarded because of previous errors. +OK "));
    proxy.stop();
    let refused = run(
        folder.path(),
        &[
            "proxy",
            "--log",
            "audit",
            "--store",
            "data",
            "--store-waiting-bytes-max",
            "1",
        ],
    );
    assert_eq!(refused.status.code(), Some(2));
}

/// S19: nothing said that whoever reaches the address reads and changes everything.
#[test]
fn an_address_beyond_the_machine_is_warned_of_before_it_is_listened_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, address: &str| {
        let args = ["proxy", "--init", "--log", name, "--listen", address];
        let store = format!("{name}-data");
        let ended = run(folder.path(), &[&args[..], &["--store", &store]].concat());
        assert!(!ended.status.success());
        text(&ended.stderr)
    };
    // An address for documentation, which no machine has: listening there fails.
    let warning = "warning: whoever reaches 192.0.2.1:6380 can read and change everything";
    assert!(at("one", "192.0.2.1:6380").contains(warning));
    let proxy = Proxy::start(folder.path(), &[]);
    let taken = at("two", &format!("127.0.0.1:{}", proxy.port));
    assert!(
        taken.contains("sealed under") && !taken.contains("warning"),
        "{taken}"
    );
    proxy.stop();
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
        .replace("version = 5", "version = 6");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&mark)
        .unwrap();
    file.write_all(newer.as_bytes()).unwrap();
    let said = start();
    assert!(
        said.contains("format version 6, this program knows 5"),
        "{said}"
    );
    assert!(said.contains("use the newer program"), "{said}");
}

/// The embedded store knows no passwords, and nothing said so when others could reach it (S19).
#[test]
fn a_store_that_others_reach_is_warned_of_and_its_key_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |more: &[&str]| {
        let args = ["proxy", "--log", "audit", "--init", "--store", "data"];
        let mut child = probity(folder.path(), &[&args, more].concat())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("listening on"), "{ready}");
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        text(&child.wait_with_output().unwrap().stderr)
    };
    let first = said(&["--listen", "127.0.0.1:0"]);
    assert!(
        first.contains("data is sealed under data.key; back up that key file"),
        "{first}"
    );
    assert!(!first.contains("warning"), "{first}");
    let open = said(&["--listen", "0.0.0.0:0"]);
    assert!(
        open.contains("warning") && open.contains("knows no passwords"),
        "{open}"
    );
    assert!(!open.contains("back up that key file"), "{open}");
    assert!(!said(&["--listen", "unix:here.sock"]).contains("warning"));
}

/// Removed data stayed in freed pages until they were needed again (point 11).
#[test]
fn a_store_is_rewritten_by_command_and_holds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(text(&run(path, &["store", "rewrite", "data"]).stderr).contains("data is no store"));
    let proxy = Proxy::start(path, &[]);
    assert_eq!(
        proxy.ask("SET a 1\nSET user:7 gone\nDEL user:7"),
        "+OK +OK :1 +OK "
    );
    let busy = run(path, &["store", "rewrite", "data"]);
    assert_eq!(busy.status.code(), Some(1));
    assert!(text(&busy.stderr).contains("in use by another process"));
    proxy.stop();
    let done = run(path, &["store", "rewrite", "data"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(
        path.join("data/store.2.sealed").exists() && !path.join("data/store.1.sealed").exists()
    );
    let proxy = Proxy::start(path, &[]);
    assert_eq!(proxy.ask("GET a\nEXISTS user:7"), "$1 1 :0 +OK ");
    proxy.stop();
}

/// A store of version 1, its file alone: its length, and runs of bytes that are not zero, each behind its place and length.
const CLEAR: &[u8] = include_bytes!("../../../store/testdata/unsealed-store.runs");
const CLEAR_MARK: &str = "version = 1\n";
/// Part of every key and value in it.
const MARKER: &[u8] = b"marker";

fn clear_file() -> Vec<u8> {
    let (length, mut runs) = CLEAR.split_first_chunk::<4>().unwrap();
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(*length)).unwrap()];
    while let Some((head, rest)) = runs.split_first_chunk::<6>() {
        let [a, b, c, d, high, low] = *head;
        let place = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        let (run, after) = rest.split_at(usize::from(u16::from_be_bytes([high, low])));
        bytes
            .get_mut(place..place + run.len())
            .unwrap()
            .copy_from_slice(run);
        runs = after;
    }
    bytes
}

/// Puts a store in clear into the folder `data`, beside the key that is there.
fn put_clear(folder: &Path) {
    fs::create_dir_all(folder.join("data")).unwrap();
    for (name, bytes) in [
        ("store.redb", clear_file()),
        ("probity-store.toml", CLEAR_MARK.into()),
    ] {
        drop(fs::remove_file(folder.join("data").join(name)));
        fs::write(folder.join("data").join(name), bytes).unwrap();
    }
}

/// Returns whether a file below `folder` holds `words`, or bears a name with them.
fn is_anywhere(folder: &Path, words: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_anywhere(&path, words);
        }
        let bytes = fs::read(&path).unwrap();
        bytes.windows(words.len()).any(|it| it == words)
    })
}

/// Nothing ran the option that converts a store in clear beside a key. Without it the store is
/// refused and left as it is. With it the store is converted, and nothing of it can be read then.
/// With sealed files there, or with a key file that holds no key, the option is refused too.
#[test]
fn a_store_in_clear_is_converted_by_command_and_nothing_readable_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let convert = ["store", "rewrite", "data", "--from-clear"];
    let refused = |args: &[&str], why: &str| {
        let output = run(path, args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?} {said}");
        assert!(said.contains(why), "{args:?} {said}");
    };
    refused(&convert, "data is no store");
    assert!(!path.join("data").exists() && !path.join("data.key").exists());
    Proxy::start(path, &[]).stop();
    // Whoever puts a file in clear beside the sealed ones gets it served by no option.
    let mark = fs::read(path.join("data/probity-store.toml")).unwrap();
    put_clear(path);
    refused(&convert, "store.1.sealed");
    assert_eq!(
        fs::read(path.join("data/store.redb")).unwrap(),
        clear_file()
    );
    fs::remove_file(path.join("data/store.redb")).unwrap();
    fs::write(path.join("data/probity-store.toml"), mark).unwrap();
    let proxy = Proxy::start(path, &[]);
    assert_eq!(proxy.ask("DBSIZE"), ":0 +OK ");
    proxy.stop();

    fs::remove_dir_all(path.join("data")).unwrap();
    put_clear(path);
    assert!(is_anywhere(path, MARKER));
    refused(&["store", "rewrite", "data"], "with --from-clear");
    let proxy = [
        "proxy",
        "--log",
        "audit",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "data",
    ];
    refused(&proxy, "with --from-clear");
    let key = fs::read(path.join("data.key")).unwrap();
    fs::write(path.join("none.key"), "no key\n").unwrap();
    refused(&[&convert[..], &["--key", "none.key"]].concat(), "none.key");
    assert_eq!(
        fs::read(path.join("data/store.redb")).unwrap(),
        clear_file()
    );
    assert_eq!(fs::read(path.join("data.key")).unwrap(), key);

    let done = run(path, &convert);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(!path.join("data/store.redb").exists());
    assert!(!is_anywhere(path, MARKER));
    let proxy = Proxy::start(path, &[]);
    let asked =
        "GET user:7:marker-key\nHGET hash:marker marker-field\nLRANGE list:marker 0 0\nDBSIZE";
    assert_eq!(
        proxy.ask(asked),
        "$12 marker-short $12 marker-value *1 $11 marker-item :7 +OK "
    );
    proxy.stop();
    // An already sealed store is rewritten, with the option or without.
    assert_eq!(run(path, &convert).status.code(), Some(0));
    assert!(!is_anywhere(path, MARKER));
}

/// A full disk was called damage of the store, with the advice to put a backup back, which would have lost what was answered since.
#[test]
fn a_full_disk_is_no_damage_of_the_store() {
    let Some(mut disk) = SmallDisk::mounted("a store on a full disk", 8 << 20) else {
        return;
    };
    let folder = disk.path().to_owned();
    let proxy = Proxy::start(&folder, &["--durability", "strict"]);
    let value = "v".repeat(4000);
    assert_eq!(
        proxy.ask(&format!("SET a {value}\nSET b 2")),
        "+OK +OK +OK "
    );
    proxy.stop();
    fs::write(folder.join("ballast"), vec![0; 8 << 20]).unwrap_err();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join("audit").display().to_string();
    let open = [
        "proxy",
        "--log",
        &log,
        "--init",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "another",
    ];
    // A store that is there opens without room: what a rewriting left is wiped, and takes none.
    for args in [&["store", "rewrite", "data"][..], &open] {
        let refused = run(&folder, args);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("No space left on device"), "{said}");
        assert!(said.contains("nothing stored is lost"), "{said}");
        assert!(!said.contains("backup"), "{said}");
    }
    disk.remount("size=32m").unwrap();
    let proxy = Proxy::start(&folder, &[]);
    assert_eq!(proxy.ask("STRLEN a\nGET b"), ":4000 $1 2 +OK ");
    proxy.stop();
}

/// A proxy whose store had failed went on listening, refused every command, and nothing told its
/// operator. It closes its clients and ends by itself with status 1, the place and a remedy.
#[test]
fn a_proxy_whose_store_has_failed_ends_with_an_error_that_names_the_store() {
    for (sync, lost) in [
        ("always", "every change that was answered is on the disk"),
        ("second", "changes of the last second may be lost"),
    ] {
        let Some(disk) = SmallDisk::mounted("a store that fails in a proxy", 8 << 20) else {
            return;
        };
        let elsewhere = tempfile::tempdir().unwrap();
        let log = elsewhere.path().join("audit").display().to_string();
        let more = ["--log", &log, "--store-sync", sync];
        let proxy = Proxy::start_with(disk.path(), &more);
        assert_eq!(proxy.ask("SET a 1"), "+OK +OK ");
        let mut idle = proxy.connect();
        idle.write_all(b"PING\r\n").unwrap();
        let mut pong = [0; 7];
        idle.read_exact(&mut pong).unwrap();
        fs::write(disk.path().join("ballast"), vec![0; 8 << 20]).unwrap_err();
        let value = "v".repeat(2 << 20);
        let set = format!("*3\n$3\nSET\n$1\nb\n${}\n{value}", value.len());
        // Its connection may end before all of it is read.
        let heard = proxy.try_ask(&set).unwrap_or_default();
        assert!(sync == "second" || heard.is_empty(), "{heard}");
        let (status, said) = proxy.end_of_itself();
        assert_eq!(status, Some(1), "{said}");
        for part in [
            "the store in data has failed",
            "No space left on device",
            "start it again",
            lost,
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(
            idle.read(&mut pong).unwrap(),
            0,
            "no client is left waiting"
        );
        fs::remove_file(disk.path().join("ballast")).unwrap();
        let proxy = Proxy::start_with(disk.path(), &more);
        let kept = proxy.ask("GET a");
        let may_be_lost = sync == "second" && kept == "$-1 +OK ";
        assert!(kept == "$1 1 +OK " || may_be_lost, "{kept}");
        proxy.stop();
    }
}

/// A conversion said that nothing removed was left, and the old file stayed in clear under another
/// hard link. That name keeps its bytes, as a backup should, and the command names the file.
#[test]
fn a_conversion_beside_a_backup_of_hard_links_says_that_its_content_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    put_clear(path);
    fs::hard_link(path.join("data/store.redb"), path.join("backup")).unwrap();
    let done = run(path, &["store", "rewrite", "data"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    let warning = "data/store.redb was removed and not overwritten";
    assert!(said.contains(warning), "{said}");
    assert!(!said.contains("probity-store.toml"), "{said}");
    assert_eq!(fs::read(path.join("backup")).unwrap(), clear_file());
    let again = run(path, &["store", "rewrite", "data"]);
    assert!(!text(&again.stderr).contains("warning"), "{said}");
}
