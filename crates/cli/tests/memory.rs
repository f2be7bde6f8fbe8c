//! The memory that the program needs, under a limit held by the system.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and writes files of its own"
)]

use std::path::Path;
use std::process::{Command, Output};

use probity_disguise::database::Sqlite;
use probity_disguise::{Database as _, Value};
use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Timestamp};
use probity_log::{Durability, Log, Options, StreamConfig, StreamName};

/// Frames of the log, each with a record of 192 bytes beside it: 29 MB of records, and as much of tiles.
const FRAMES: u64 = 150_000;
/// Memory given to the program, without its code and stack, in KiB.
const DATA: u64 = 32 << 10;

/// Rows of a person: 130 MB where all of them are held.
const ROWS: u32 = 400_000;
/// Memory given to a disguise, in KiB.
const DISGUISE_DATA: u64 = 88 << 10;

/// Makes a log whose frames hold one entry each.
fn many_frames(path: &Path) {
    let root = RootKey::new(Secret::new([7; 32]));
    let options = Options {
        frame_entries_max: 1,
        durability: Durability::Relaxed,
        ..Options::default()
    };
    let config = StreamConfig::default();
    let log = Log::create(path, "example.com/frames", &root, config, options).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for _ in 0..FRAMES {
        appender
            .append(&Entry::new(time, "read", b"user:7"))
            .unwrap();
    }
    drop(appender);
    log.close().unwrap();
}

fn limited(folder: &Path, kibibytes: u64, arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_probity");
    let script = format!("ulimit -d {kibibytes} && exec {program} {arguments}");
    let mut command = Command::new("sh");
    // With an arena for each thread, the memory taken depends on how the threads happen to run.
    command.env("MALLOC_ARENA_MAX", "1");
    command.args(["-c", &script]).current_dir(folder);
    command.output().unwrap()
}

/// Hides what a person likes, and leaves the account.
const OVERWRITE: &str = r#"
[users]
table = "people"
id = "id"
[users.placeholder]
id = { RandNum = { lb = 1099511627776, ub = 9007199254740991 } }
name = { RandStr = { len = 24 } }
[[modify]]
table = "likes"
column = "what"
value = { RandStr = { len = 12 } }
"#;

/// Makes a database in which one person has many rows, and what hides that person.
fn many_rows(folder: &Path, rows: u32) -> String {
    let file = folder.join("app.db");
    let url = format!("sqlite:{}", file.display());
    let mut database = Sqlite::open(&file).unwrap();
    for sql in [
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)".to_owned(),
        "CREATE TABLE likes (id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES people(id), what TEXT)".to_owned(),
        "CREATE INDEX likes_user ON likes (user_id)".to_owned(),
        "INSERT INTO people VALUES (19, 'Bea'), (20, 'Al')".to_owned(),
        format!("WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {rows}) INSERT INTO likes SELECT i, 19, 'what is liked under number ' || i FROM s"),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    url
}

/// Returns the number of likes of each person, and measures of what they like.
fn likes(folder: &Path) -> Vec<Vec<Value>> {
    let mut database = Sqlite::open(&folder.join("app.db")).unwrap();
    let sql = "SELECT user_id, COUNT(*), SUM(LENGTH(what)), MIN(what), MAX(what) FROM likes GROUP BY user_id";
    database.query(sql, &[]).unwrap()
}

#[test]
fn a_person_with_many_rows_leaves_returns_and_changes_the_key_in_the_same_memory() {
    for how in ["", "--chunk-rows 2000"] {
        leaves_and_returns(None, how);
    }
}

#[test]
fn many_values_of_a_person_are_overwritten_and_come_back_in_the_same_memory() {
    leaves_and_returns(Some(OVERWRITE), "");
}

/// Hides a person with many rows by `spec`, or by a draft, as `how` says, and reveals them with
/// another key.
fn leaves_and_returns(spec: Option<&str>, how: &str) {
    let folder = tempfile::tempdir().unwrap();
    let db = many_rows(folder.path(), ROWS);
    let before = likes(folder.path());
    let run = |arguments: &str| {
        let arguments = format!("disguise {arguments} --db {db}");
        let done = limited(folder.path(), DISGUISE_DATA, &arguments);
        let complaint = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{arguments}: {complaint}");
        String::from_utf8(done.stdout).unwrap()
    };
    match spec {
        Some(spec) => std::fs::write(folder.path().join("leave.toml"), spec).unwrap(),
        None => drop(run("draft -o leave.toml")),
    }
    run("register --spec leave.toml --user 19 --credential-out 19.key");
    let applied = run(&format!("apply --spec leave.toml --user 19 --json {how}"));
    assert_ne!(likes(folder.path()), before);
    run("rekey --user 19 --new-key --credential 19.key --credential-out new.key");
    let applied: serde_json::Value = serde_json::from_str(&applied).unwrap();
    assert_eq!(applied["rows"]["likes"], ROWS);
    let id = applied["id"].as_str().unwrap();
    run(&format!("reveal --id {id} --credential new.key"));
    assert_eq!(likes(folder.path()), before);
}

#[test]
fn verification_takes_the_same_memory_however_many_frames_there_are() {
    let folder = tempfile::tempdir().unwrap();
    many_frames(&folder.path().join("log"));
    let verified = limited(folder.path(), DATA, "verify log --jobs 2 --json");
    let said = String::from_utf8(verified.stdout).unwrap();
    let complaint = String::from_utf8(verified.stderr).unwrap();
    assert!(verified.status.success(), "{said}{complaint}");
    assert!(said.contains(&format!("\"frames\":{FRAMES},")), "{said}");
    // The limit is one: in a tenth of it not even the program fits.
    let refused = limited(folder.path(), DATA / 10, "verify log");
    assert!(!refused.status.success());
}
