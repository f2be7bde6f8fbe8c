//! Traces of its keys that a process with an open log leaves: in a core dump, and in its memory.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_log::storage::not_shown;
use probity_store::{Options, Store};
use tempfile::TempDir;

const LINE: &[u8] = b"{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\"}\n";
const NOBODY: &str = "65534";

/// A writer that has taken an entry and waits for more, started through `shell` with core dumps allowed.
struct Writer {
    child: Child,
    folder: TempDir,
    _input: ChildStdin,
}

impl Writer {
    fn start(before: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = if before.is_empty() {
            PathBuf::from(env!("CARGO_BIN_EXE_probity"))
        } else {
            // Another user may have no way to the folder of the program.
            let copy = folder.path().join("program");
            fs::copy(env!("CARGO_BIN_EXE_probity"), &copy).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
            copy
        };
        let program = program.display();
        let start = |args: &str| {
            let mut command = Command::new(before.first().unwrap_or(&"env"));
            command
                .args(before.iter().skip(1))
                .args([
                    "sh",
                    "-c",
                    &format!("ulimit -c unlimited; exec {program} {args}"),
                ])
                .current_dir(folder.path())
                .env_remove("PROBITY_KEY_FILE")
                .env_remove("PROBITY_HEADS")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        if !before.is_empty() {
            let given = Command::new("chown")
                .arg(NOBODY)
                .arg(folder.path())
                .status();
            assert!(given.unwrap().success());
        }
        assert!(
            start("init audit")
                .wait_with_output()
                .unwrap()
                .status
                .success()
        );
        let mut child = start("append audit --receipts");
        let mut input = child.stdin.take().unwrap();
        input.write_all(LINE).unwrap();
        let mut receipt = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut receipt)
            .unwrap();
        assert!(receipt.contains("\"index\":0"), "{receipt}");
        Self {
            child,
            folder,
            _input: input,
        }
    }

    fn path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.child.id())
    }

    /// Counts how often `wanted` stands in the readable memory.
    fn count(&self, wanted: &[u8]) -> usize {
        let memory = File::open(self.path("mem")).unwrap();
        let maps = fs::read_to_string(self.path("maps")).unwrap();
        let mut found = 0;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let (range, rights) = (words.next().unwrap(), words.next().unwrap());
            let (begin, end) = range.split_once('-').unwrap();
            let address = |text| u64::from_str_radix(text, 16).unwrap();
            if !rights.starts_with("rw") {
                continue;
            }
            let length = usize::try_from(address(end) - address(begin)).unwrap();
            let mut bytes = vec![0; length];
            if memory.read_exact_at(&mut bytes, address(begin)).is_ok() {
                found += bytes
                    .windows(wanted.len())
                    .filter(|window| *window == wanted)
                    .count();
            }
        }
        found
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// S21: a core dump of a writer held the wrapping key, the master key and the signing seed. Where the shell allows dumps of any
/// size, the writer that is aborted makes none, while another program does.
#[test]
fn an_aborted_writer_leaves_no_core_dump() {
    let mut writer = Writer::start(&[]);
    let limits = fs::read_to_string(writer.path("limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    let sizes: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(sizes, ["0", "0"], "{core}");
    let sent = Command::new("kill")
        .args(["-s", "ABRT", &writer.child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let ended = writer.child.wait().unwrap();
    assert_eq!(ended.signal(), Some(6));
    assert!(!ended.core_dumped());
    let left = fs::read_dir(writer.folder.path()).unwrap();
    let names: Vec<String> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("core")), "{names:?}");
    // A dump that the shell allows is made, where the system makes any.
    let other = Command::new("sh")
        .args(["-c", "ulimit -c unlimited && kill -s ABRT $$"])
        .current_dir(writer.folder.path())
        .status()
        .unwrap();
    if !other.core_dumped() {
        not_shown(
            "a core dump that is allowed",
            "this system makes none at all",
        );
    }
}

/// S21: a dump that is handed to a program obeys no limit, only whether the process may be dumped.
/// Another program of the same user could read the memory. The files of such a process belong to
/// root.
#[test]
fn the_memory_of_a_writer_is_not_its_users_to_read() {
    if !is_root() {
        let reason = "only root can start a writer as another user";
        not_shown("the memory of a writer of another user", reason);
        return;
    }
    let nobody = ["setpriv", "--reuid", NOBODY, "--clear-groups"];
    let writer = Writer::start(&nobody);
    let status = fs::read_to_string(writer.path("status")).unwrap();
    let user = status
        .lines()
        .find(|line| line.starts_with("Uid:"))
        .unwrap();
    assert_eq!(user.split_whitespace().nth(1), Some(NOBODY));
    assert_eq!(fs::metadata(writer.path("mem")).unwrap().uid(), 0);
}

/// S21: keys that are moved leave copies. Only the opening needs the root key, so none of it is
/// left in the memory of an open writer. The test looks for its bytes and for the text of its file;
/// that it finds the entry's origin shows that it can find them.
#[test]
fn no_copy_of_the_root_key_stays_in_memory() {
    if !is_root() {
        let reason = "only root can read the memory of a writer";
        not_shown("no copy of the root key in memory", reason);
        return;
    }
    let writer = Writer::start(&[]);
    let text = fs::read_to_string(writer.folder.path().join("audit.key")).unwrap();
    let (_, encoded) = text.trim_end().split_once(' ').unwrap();
    let bytes = STANDARD.decode(encoded).unwrap();
    assert!(
        writer.count(b"streams/default") > 0,
        "the memory was not read"
    );
    assert_eq!(writer.count(&bytes), 0);
    assert_eq!(writer.count(encoded.as_bytes()), 0);
}

/// L1: others could read the keys of stores, root files of pocket databases, credentials and keys
/// of receipts. A warning came only for the key of a log. Each command that uses one of them warns
/// now, and of a restricted one it does not.
#[test]
fn each_secret_file_that_others_can_read_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let store = Store::open(&at.join("data"), Options::default()).unwrap();
    store.close().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        let output = command.args(args).current_dir(at).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    File::create(at.join("v.sql"))
        .unwrap()
        .write_all(b"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);")
        .unwrap();
    run(&["pocket", "create", "v", "--schema", "v.sql"]);
    run(&["init", "audit"]);
    File::create(at.join("person"))
        .unwrap()
        .write_all(b"probity-disguise-key-v1 damaged\n")
        .unwrap();
    let receipts = [
        "disguise",
        "receipt-key",
        "receipts",
        "--name",
        "example.com/r",
    ];
    run(&receipts);
    let with_credential = |number: u32| {
        let file = format!("w{number}");
        run(&[
            "pocket",
            "create",
            &file,
            "--subject",
            "7",
            "--credential",
            "person",
        ])
    };
    let cases: [(&str, &[&str]); 7] = [
        ("data.key", &["store", "rewrite", "data"]),
        ("v.root", &["pocket", "verify", "v"]),
        ("audit.key", &["append", "audit"]),
        ("audit.key", &["export", "audit", "--format", "csv"]),
        ("audit.key", &["verify", "audit", "--key", "audit.key"]),
        ("audit.key", &["prove", "audit", "--index", "0", "-o", "p"]),
        ("receipts", &receipts),
    ];
    for (file, args) in cases {
        for (mode, is_warned) in [(0o600, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(at.join(file), fs::Permissions::from_mode(mode)).unwrap();
            let said = run(args);
            let warned = said.contains("warning: others can read")
                && said.contains(&format!("chmod 600 {file}"));
            assert_eq!(warned, is_warned, "{file} {mode:o}: {said}");
        }
    }
    for (number, mode) in [(0, 0o600), (1, 0o644)] {
        fs::set_permissions(at.join("person"), fs::Permissions::from_mode(mode)).unwrap();
        let is_warned = with_credential(number).contains("chmod 600 person");
        assert_eq!(is_warned, number == 1);
        fs::set_permissions(at.join("audit.key"), fs::Permissions::from_mode(mode)).unwrap();
        let file = format!("s{number}");
        let said = run(&["subject", "export", "audit", "7", "--pocket", &file]);
        assert_eq!(said.contains("chmod 600 audit.key"), number == 1, "{said}");
    }
}
