//! Second copies of the heads in the folder of the log itself: no command takes them.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use probity_testing::program::Program;
use tempfile::TempDir;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));

/// The commands that compare second copies, or write them, of the log `audit`.
const COMMANDS: [&[&str]; 17] = [
    &["append", "audit"],
    &["append", "audit", "--accept-loss"],
    &[
        "check-receipts",
        "receipts",
        "--log",
        "audit",
        "--key",
        "audit.vkey",
    ],
    &[
        "disguise",
        "replay",
        "--db",
        "sqlite:app.db",
        "--log",
        "audit",
    ],
    &[
        "disguise",
        "subject-name",
        "--db",
        "sqlite:app.db",
        "--log",
        "audit",
        "--user",
        "19",
    ],
    &[
        "disguise",
        "sweep",
        "--db",
        "sqlite:app.db",
        "--log",
        "audit",
    ],
    &["export", "audit", "--format", "jsonl"],
    &["keys", "chain", "audit", "-o", "chain"],
    &["keys", "status", "audit"],
    &[
        "pocket",
        "create",
        "pocket",
        "--log",
        "audit",
        "--subject",
        "alice",
    ],
    &["prove", "audit", "--index", "0", "-o", "proof"],
    &[
        "proxy",
        "--log",
        "audit",
        "--store",
        "store",
        "--listen",
        "127.0.0.1:0",
    ],
    &["serve", "--config", "serve.toml"],
    &["stream", "create", "audit", "more"],
    &["stream", "list", "audit"],
    &["subject", "export", "audit", "alice", "--pocket", "copy"],
    &["verify", "audit"],
];

/// Runs the program, with `heads` as `PROBITY_HEADS`; gives its status and standard error.
fn run(at: &Path, heads: Option<&str>, args: &[&str]) -> (Option<i32>, String) {
    let mut command = PROBITY.command(at, args);
    command.envs(heads.map(|heads| ("PROBITY_HEADS", heads)));
    let mut child = command.spawn().unwrap();
    // A command that reads no input may have ended.
    drop(
        child
            .stdin
            .take()
            .unwrap()
            .write_all(b"{\"action\":\"read\"}\n"),
    );
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

fn done(at: &Path, args: &[&str]) {
    let (status, said) = run(at, None, args);
    assert_eq!(status, Some(0), "{args:?}: {said}");
}

fn is_refused(at: &Path, heads: Option<&str>, args: &[&str]) {
    let (status, said) = run(at, heads, args);
    assert_eq!(status, Some(1), "{args:?}, {heads:?}: {said}");
    for words in [
        "lie in the folder of the log",
        "name a folder outside the log's with PROBITY_HEADS or --heads",
    ] {
        assert!(said.contains(words), "{args:?}, {heads:?}: {said}");
    }
}

/// The names of everything in the folder with sums of the content; the lock names the last writer.
fn content(at: &Path) -> String {
    let mut sums = Command::new("sh");
    let list = "find . ! -path ./audit/lock | sort; \
                find . -type f ! -path ./audit/lock -print0 | sort -z | xargs -0 cksum";
    let listed = sums.args(["-c", list]).current_dir(at).output().unwrap();
    assert!(listed.status.success());
    String::from_utf8(listed.stdout).unwrap()
}

/// Makes the log `audit` with an entry, whose second copies were moved into it.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["init", "audit"]);
    done(at, &["append", "audit"]);
    let mut database = Sqlite::open(&at.join("app.db")).unwrap();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
        "INSERT INTO people VALUES (19, 'Bea')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    drop(database);
    let register =
        "disguise register --db sqlite:app.db --user 19 --credential-out 19.key --log audit";
    done(at, &register.split(' ').collect::<Vec<_>>());
    fs::create_dir(at.join("elsewhere")).unwrap();
    fs::rename(at.join("audit.heads"), at.join("audit/kept")).unwrap();
    symlink("../audit/kept", at.join("elsewhere/link")).unwrap();
    fs::write(at.join("receipts"), "").unwrap();
    let config = format!(
        "listen = \"127.0.0.1:0\"\nlog.folder = \"audit\"\n[database.app]\nurl = \"sqlite:app.db\"\n\
         [[token]]\nname = \"shop\"\nsha256 = \"{}\"\ndatabases = [\"app\"]\noperations = [\"list\"]\n",
        "0123456789abcdef".repeat(4)
    );
    fs::write(at.join("serve.toml"), config).unwrap();
    folder
}

/// A folder in the log itself was taken for the second copies, and whoever put an older copy of the log back put
/// theirs back too. Every command that reads or writes second copies refuses such a folder, under each of its names.
#[test]
fn no_command_takes_second_copies_in_the_log_itself() {
    let folder = place();
    let at = folder.path();
    let whole = at.join("audit/kept");
    let before = content(at);
    for args in COMMANDS {
        for heads in [
            "audit/kept",
            "audit",
            "elsewhere/link",
            whole.to_str().unwrap(),
        ] {
            is_refused(at, Some(heads), args);
        }
    }
    for args in [&["verify", "audit"][..], COMMANDS[2]] {
        is_refused(
            at,
            None,
            &[args, &["--heads", "elsewhere/../audit/kept"]].concat(),
        );
    }
    // Without the variable, by a link in the place of the folder beside the log.
    symlink("audit/kept", at.join("audit.heads")).unwrap();
    for args in COMMANDS {
        is_refused(at, None, args);
    }
    fs::remove_file(at.join("audit.heads")).unwrap();
    assert_eq!(content(at), before);
    // As advised: the copies go elsewhere, and the log is verified with them.
    fs::rename(&whole, at.join("elsewhere/kept")).unwrap();
    let (status, said) = run(
        at,
        Some("elsewhere/kept"),
        &["verify", "audit", "--key", "audit.vkey"],
    );
    assert_eq!(status, Some(0), "{said}");
}

/// A new log would have had its second copies in itself from the first day. Nothing is made for one,
/// not even its root key.
#[test]
fn no_log_is_created_with_second_copies_in_itself() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let proxy = [
        "proxy",
        "--init",
        "--log",
        "new",
        "--store",
        "store",
        "--listen",
        "127.0.0.1:0",
    ];
    for heads in ["new", "new/heads", "./new/deep/../heads"] {
        is_refused(at, Some(heads), &["init", "new"]);
        is_refused(at, Some(heads), &proxy);
    }
    let mut left: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    left.retain(|name| name != "store" && name != "store.key");
    assert!(left.is_empty(), "{left:?}");
}

/// `PROBITY_HEADS` with the folder of another log was taken, and that log got files that belong to
/// nothing in it. It is refused before anything is made or written, and so is `--heads`.
#[test]
fn the_folder_of_another_log_is_taken_by_no_command() {
    let folder = place();
    let at = folder.path();
    done(at, &["init", "other"]);
    let before = content(at);
    let is_refused = |heads: Option<&str>, args: &[&str]| {
        let (status, said) = run(at, heads, args);
        assert_eq!(status, Some(1), "{args:?}: {said}");
        for words in [
            "other is the folder of a log",
            "second copies of this log alone",
        ] {
            assert!(said.contains(words), "{args:?}: {said}");
        }
    };
    for args in COMMANDS {
        is_refused(Some("other"), args);
    }
    is_refused(Some("other"), &["init", "new"]);
    is_refused(None, &["verify", "audit", "--heads", "other"]);
    assert_eq!(content(at), before);
}
