//! Places of output files: never that of a file that cannot be made again, and never with half a
//! file.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use probity_disguise::database::{Database as _, Sqlite};
use probity_store::{Options as StoreOptions, Store};
use probity_testing::program::Program;
use tempfile::TempDir;

const LINE: &[u8] = b"{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\"}\n";

/// Files that no command may replace or add to, in the folder that [`place`] makes and the test
/// adds links to.
const TARGETS: [&str; 36] = [
    "audit.key",
    "audit/probity.toml",
    "audit/keys/master.key",
    "audit/streams/default/checkpoint",
    "audit/streams/default/segments/00000000000000000000.seg",
    "audit/new",
    "audit/streams/default/segments/new",
    "audit.heads/default",
    "audit.heads/new",
    "elsewhere/keys/master.key",
    "elsewhere/keys/new",
    "elsewhere/../audit/new",
    "link.key",
    "second.key",
    "segment",
    "backup",
    "kept",
    "theirs",
    "v",
    "v.root",
    "app.db",
    "data/probity-store.toml",
    "data/store.1.sealed",
    "data/store.1.subjects",
    "data/new",
    "data.key",
    "old.key",
    "mark",
    "sealed",
    "subjects",
    "receipts",
    "credential",
    "token",
    "share",
    "certificate",
    "signer",
];

/// Files that hold the only copy of something wherever they lie, and how they begin.
const SECRETS: [(&str, &str); 6] = [
    ("receipts", "probity-receipt-key-v1 example.com/r AAAA"),
    ("credential", "probity-disguise-key-v1 AAAA"),
    ("token", "probity-disguise-token-v1 AAAA"),
    ("share", "probity-disguise-share-v1 AAAA"),
    ("certificate", "-----BEGIN CERTIFICATE-----"),
    ("signer", "PRIVATE+KEY+witness+1a2b3c4d+AAAA"),
];

fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

fn run(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    Program::new(env!("CARGO_BIN_EXE_probity")).run(folder, args, input)
}

fn done(folder: &Path, args: &[&str], input: &[u8]) {
    let output = run(folder, args, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
}

/// Makes a log with entries, the second copy of its heads, its keys, a pocket database, an embedded
/// store, and secrets.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), &["init", "audit"], b"");
    done(folder.path(), &["append", "audit"], LINE);
    fs::write(
        folder.path().join("v.sql"),
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);",
    )
    .unwrap();
    done(
        folder.path(),
        &["pocket", "create", "v", "--schema", "v.sql"],
        b"",
    );
    let mut application = Sqlite::open(&folder.path().join("app.db")).unwrap();
    let made = "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL)";
    application.execute(made, &[]).unwrap();
    for (name, text) in SECRETS {
        fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
    }
    let data = folder.path().join("data");
    Store::open(&data, StoreOptions::default())
        .unwrap()
        .close()
        .unwrap();
    for (name, copy) in [
        ("probity-store.toml", "mark"),
        ("store.1.sealed", "sealed"),
        ("store.1.subjects", "subjects"),
    ] {
        fs::copy(data.join(name), folder.path().join(copy)).unwrap();
    }
    // A store whose mark is gone is one, too: what is put into its folder is in the way of its rescue.
    let old = folder.path().join("old");
    fs::create_dir(&old).unwrap();
    fs::copy(data.join("store.1.sealed"), old.join("store.1.sealed")).unwrap();
    fs::write(folder.path().join("old.key"), "damaged").unwrap();
    folder
}

/// Returns every file below `folder` with its content.
fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(all(&path));
        } else {
            let content = fs::read(&path).unwrap_or_default();
            found.insert(path, content);
        }
    }
    found
}

/// L2: `export -o L.key` replaced the root key and ended with status 0. `prove` and `pocket
/// extract` did the same with a log's files and a pocket database. Each writer of files is tried
/// against everything that cannot be made again, and nothing changes. It is tried by name, by
/// symbolic link and by hard link, with `--overwrite` too.
#[test]
fn nothing_that_cannot_be_made_again_is_replaced() {
    let folder = place();
    let at = folder.path();
    fs::create_dir(at.join("elsewhere")).unwrap();
    symlink(at.join("audit/keys"), at.join("elsewhere/keys")).unwrap();
    symlink(at.join("audit.key"), at.join("link.key")).unwrap();
    fs::hard_link(at.join("audit.key"), at.join("second.key")).unwrap();
    fs::hard_link(
        at.join("audit/streams/default/segments/00000000000000000000.seg"),
        at.join("segment"),
    )
    .unwrap();
    fs::copy(at.join("audit.key"), at.join("backup")).unwrap();
    fs::copy(at.join("audit/streams/default/checkpoint"), at.join("kept")).unwrap();
    fs::copy(at.join("audit/streams/default/log.vkey"), at.join("theirs")).unwrap();
    let before = all(at);
    let writers: [&[&str]; 4] = [
        &["export", "audit", "--format", "jsonl"],
        &["prove", "audit", "--index", "0"],
        &["pocket", "extract", "v", "SELECT id FROM t"],
        &[
            "disguise",
            "draft",
            "--db",
            "sqlite:app.db",
            "--users",
            "users",
        ],
    ];
    for (number, writer) in writers.iter().enumerate() {
        // Each of them does write where it may.
        let new = format!("new{number}");
        done(at, &[writer, &["-o", &new][..]].concat(), b"");
        for target in TARGETS {
            for more in [&[][..], &["--overwrite"]] {
                let args = [writer, &["-o", target][..], more].concat();
                let output = run(at, &args, b"");
                assert_eq!(output.status.code(), Some(1), "{args:?}");
            }
        }
    }
    let mut after = all(at);
    // The key that checks an extract lies beside the database.
    after.remove(&at.join("v.vkey"));
    for number in 0..writers.len() {
        assert!(after.remove(&at.join(format!("new{number}"))).is_some());
    }
    let names = |found: &BTreeMap<PathBuf, _>| found.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    // Opening the database writes to it; it must still be one.
    let changed: Vec<_> = before
        .keys()
        .filter(|path| before.get(*path) != after.get(*path))
        .filter(|path| !["v", "v.root"].iter().any(|own| path.ends_with(own)))
        .collect();
    assert_eq!(changed, Vec::<&PathBuf>::new());
    done(at, &["pocket", "verify", "v"], b"");
}

/// L2: what was at the place was replaced without a word. Now it stays, unless `--overwrite` says otherwise.
#[test]
fn a_file_is_replaced_only_when_asked() {
    let folder = place();
    let at = folder.path();
    fs::write(at.join("out"), "before").unwrap();
    for writer in [
        &["export", "audit", "--format", "csv", "-o", "out"][..],
        &["prove", "audit", "--index", "0", "-o", "out"],
        &["pocket", "extract", "v", "SELECT id FROM t", "-o", "out"],
    ] {
        fs::write(at.join("out"), "before").unwrap();
        let output = run(at, writer, b"");
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.contains("it is there already") && stderr.contains("--overwrite"),
            "{stderr}"
        );
        assert_eq!(fs::read(at.join("out")).unwrap(), b"before");
        done(at, &[writer, &["--overwrite"]].concat(), b"");
        assert_ne!(fs::read(at.join("out")).unwrap(), b"before");
        let mode = fs::metadata(at.join("out")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(parts(at), Vec::<PathBuf>::new());
}

/// L2: what is left of a log is a log too, and a server's configuration of the same name is none.
#[test]
fn an_emptied_log_takes_no_file_and_the_folder_of_a_server_does() {
    let folder = place();
    let at = folder.path();
    for (name, content) in [
        (
            "emptied",
            fs::read_to_string(at.join("audit/probity.toml")).unwrap(),
        ),
        ("server", "listen = [\"127.0.0.1:0\"]\n".to_owned()),
    ] {
        fs::create_dir(at.join(name)).unwrap();
        fs::write(at.join(name).join("probity.toml"), content).unwrap();
    }
    for (target, status) in [("emptied/out", 1), ("emptied.key", 1), ("server/out", 0)] {
        let args = ["export", "audit", "--format", "jsonl", "-o", target];
        assert_eq!(run(at, &args, b"").status.code(), Some(status), "{target}");
    }
}

/// L2: with `PROBITY_HEADS` the heads lie in a folder that no name gives away, and the key anywhere.
#[test]
fn heads_and_keys_elsewhere_are_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("second")).unwrap();
    let with = |args: &[&str], input: &[u8]| {
        let mut command = probity(at, args);
        command
            .env("PROBITY_HEADS", at.join("second"))
            .env("PROBITY_KEY_FILE", at.join("k"));
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap().status.code()
    };
    assert_eq!(with(&["init", "audit"], b""), Some(0));
    assert_eq!(with(&["append", "audit"], LINE), Some(0));
    // Damaged, the key is not known by what it holds.
    let before = all(at);
    for target in ["second/new", "second/default", "k"] {
        let args = [
            "export",
            "audit",
            "--format",
            "jsonl",
            "--overwrite",
            "-o",
            target,
        ];
        assert_eq!(with(&args, b""), Some(1), "{target}");
    }
    assert!(before == all(at), "a file was changed");
}

/// UX 12: Ctrl-C left `c2.csv.part-13901`, 72 MB of personal data in clear.
#[test]
fn a_signal_leaves_no_part_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["init", "audit"], b"");
    done(at, &["append", "audit"], &LINE.repeat(400_000));
    for signal in ["INT", "TERM", "HUP"] {
        // On a busy machine an export may end before the signal reaches it; then another one is begun.
        let stopped = (0..10).find_map(|_| stopped_export(at, signal));
        let (code, line) = stopped.expect("no export lasted until its signal");
        assert_eq!(code, Some(1));
        assert_eq!(
            line,
            "error: stopped by a signal; the file under way was removed\n"
        );
        assert_eq!(parts(at), Vec::<PathBuf>::new());
        assert!(!at.join("out").exists());
    }
}

/// Returns `command` with every signal as a terminal leaves it: a shell in the background has some
/// ignored, and so have its children.
fn heeding(command: &Command) -> Command {
    let mut heeding = Command::new("env");
    heeding
        .args(["--default-signal", "--"])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => heeding.env(name, value),
            None => heeding.env_remove(name),
        };
    }
    heeding
}

/// Returns exit status and first message of an export that is sent `signal` while it writes; `None`
/// where it ended before.
fn stopped_export(at: &Path, signal: &str) -> Option<(Option<i32>, String)> {
    let mut child = heeding(&probity(
        at,
        &["export", "audit", "--format", "csv", "-o", "out"],
    ))
    .spawn()
    .unwrap();
    while parts(at).is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", signal, &id]).status();
    assert!(sent.unwrap().success());
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let status = child.wait().unwrap();
    if status.success() {
        fs::remove_file(at.join("out")).unwrap();
        return None;
    }
    Some((status.code(), line))
}

/// Signals that `nohup` has ignored stay ignored: a closed terminal's signal ends no export in the
/// background.
#[test]
fn a_signal_that_was_ignored_before_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["init", "audit"], b"");
    done(at, &["append", "audit"], &LINE.repeat(100_000));
    let program = env!("CARGO_BIN_EXE_probity");
    let export = format!("trap '' HUP; exec {program} export audit --format csv -o out");
    let mut child = Command::new("sh")
        .args(["-c", &export])
        .current_dir(at)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while parts(at).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::yield_now();
    }
    let sent = Command::new("kill")
        .args(["-s", "HUP", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    assert!(child.wait().unwrap().success());
    let written = fs::read_to_string(at.join("out")).unwrap();
    assert_eq!(written.lines().count(), 100_001);
}

/// Files that are not whole.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.to_string_lossy().contains(".part-"))
        .collect()
}

/// An export that was cut off by its reader ended with status 0 and no word, even on a damaged log: what came passed for
/// all of it. A full disk had no remedy, for the system's error was lost on the way through the rows.
#[test]
fn an_export_that_is_cut_off_by_its_reader_says_so_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["init", "audit"], b"");
    done(at, &["append", "audit"], &LINE.repeat(20_000));
    for format in ["csv", "jsonl"] {
        let mut child = probity(at, &["export", "audit", "--format", format])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut read = BufReader::new(child.stdout.take().unwrap());
        read.read_line(&mut line).unwrap();
        drop(read);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(
            (ended.status.code(), said.as_str()),
            (
                Some(1),
                "error: standard output was closed before its end\n"
            ),
            "{format}"
        );
    }
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let export = ["export", "audit", "--format", "csv"];
    let ended = probity(at, &export).stdout(full).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
}
