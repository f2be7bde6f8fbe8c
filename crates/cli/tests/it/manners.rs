//! Manners that all commands share: JSON, options, times, progress and signals.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use probity_testing::program::Program;
use serde_json::Value;
use tempfile::TempDir;

fn command(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn probity(folder: &Path, args: &[&str], input: &str, status: i32) -> (String, String) {
    Program::new(env!("CARGO_BIN_EXE_probity")).ends(folder, args, input, status)
}

/// Returns the one document that the command prints with `--json`.
fn document(folder: &Path, args: &[&str], input: &str, status: i32) -> Value {
    let args = [args, &["--json"]].concat();
    let (stdout, stderr) = probity(folder, &args, input, status);
    let document: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|why| panic!("{args:?}: {why}: {stdout}"));
    assert_eq!(document["version"], 1, "{args:?}: {document}");
    let named = document["command"].as_str().unwrap().to_owned();
    assert_eq!(args[..named.split(' ').count()].join(" "), named);
    if let Some(error) = document.get("error") {
        assert_eq!(document["status"], status, "{document}");
        assert!(
            stderr.contains(error.as_str().unwrap()),
            "{document} {stderr}"
        );
        let help = document.get("help").map(|help| help.as_str().unwrap());
        assert!(help.is_none_or(|help| stderr.contains(help)), "{document}");
    }
    document
}

const ENTRIES: &str = r#"{"time":"2026-02-28T23:59:59Z","action":"read","key":"user:7","subject":"7"}
{"time":"2026-03-01T00:00:00Z","action":"read","key":"user:7","subject":"7"}
{"time":"2026-03-01T12:00:00Z","action":"update","key":"user:8","subject":"8"}
"#;

fn log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    probity(folder.path(), &["init", "audit"], "", 0);
    probity(folder.path(), &["append", "audit"], ENTRIES, 0);
    folder
}

/// Documents had no version, lists were bare arrays, and most failures printed no document: a script
/// had to parse messages for people. Every command prints one object with version and command.
#[test]
fn every_document_names_its_version_and_command() {
    let folder = log();
    let at = folder.path();
    document(at, &["init", "other"], "", 0);
    document(at, &["append", "audit"], ENTRIES, 0);
    document(at, &["verify", "audit"], "", 0);
    document(at, &["keys", "status", "audit"], "", 0);
    let streams = document(at, &["stream", "list", "audit"], "", 0);
    assert_eq!(streams["streams"][0]["name"], "default", "{streams}");
    let prove = ["prove", "audit", "--index", "0", "-o", "entry.tlog-proof"];
    document(at, &prove, "", 0);
    let check = ["check-proof", "entry.tlog-proof", "--key", "audit.vkey"];
    document(at, &check, "", 0);
    let export = ["subject", "export", "audit", "7", "--pocket", "7.pocket"];
    document(at, &export, "", 0);
    document(at, &["pocket", "verify", "7.pocket"], "", 0);
    document(at, &["pocket", "stats", "7.pocket"], "", 0);
}

/// `prove`, `subject export`, and `append` without a document printed no JSON where they failed.
#[test]
fn a_failure_is_a_document_too() {
    let folder = log();
    let at = folder.path();
    let failures: [(&[&str], &str, i32); 9] = [
        (
            &["prove", "audit", "--index", "99", "-o", "no.tlog-proof"],
            "",
            1,
        ),
        (&["prove", "nowhere", "--index", "0", "-o", "no"], "", 1),
        (
            &["subject", "export", "nowhere", "7", "--pocket", "7.pocket"],
            "",
            1,
        ),
        (&["append", "audit"], "no document\n", 1),
        (&["append", "audit", "missing.jsonl"], "", 1),
        (&["verify", "nowhere"], "", 1),
        (&["disguise", "scheduled", "--db", "sqlite:none.db"], "", 1),
        (&["pocket", "stats", "none.pocket"], "", 1),
        (&["verify"], "", 2),
    ];
    for (args, input, status) in failures {
        let found = document(at, args, input, status);
        assert!(found["error"].is_string(), "{args:?}: {found}");
    }
    // Evidence that is broken.
    let segment = at.join("audit/streams/default/segments/00000000000000000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let export: &[&str] = &["subject", "export", "audit", "7", "--pocket", "7.pocket"];
    let prove: &[&str] = &["prove", "audit", "--index", "0", "-o", "no.tlog-proof"];
    for args in [export, prove] {
        let found = document(at, args, "", 3);
        assert!(found["error"].is_string(), "{args:?}: {found}");
    }
    assert_eq!(
        document(at, &["verify", "audit"], "", 3)["verdict"],
        "broken"
    );
}

/// `--key` was the root key of 22 commands, the key of the wanted entries of `export`, whose root key
/// was `--key-file`. It names a key file everywhere; `--key-file` stays for old scripts.
#[test]
fn key_names_a_key_file_everywhere() {
    let folder = log();
    let at = folder.path();
    fs::rename(at.join("audit.key"), at.join("moved.key")).unwrap();
    let export = ["export", "audit", "--format", "jsonl"];
    for option in ["--key", "--key-file"] {
        let args = [&export[..], &[option, "moved.key"]].concat();
        assert_eq!(probity(at, &args, "", 0).0.lines().count(), 3, "{option}");
    }
    let of_entry = ["--key", "moved.key", "--entry-key", "user:8"];
    let found = probity(at, &[&export[..], &of_entry].concat(), "", 0).0;
    assert_eq!(found.lines().count(), 1, "{found}");
    for option in ["--entry-key-base64", "--key-base64"] {
        let of_entry = ["--key", "moved.key", option, "dXNlcjo3"];
        let found = probity(at, &[&export[..], &of_entry].concat(), "", 0).0;
        assert_eq!(found.lines().count(), 2, "{found}");
    }
    // A script that means the key of entries is told the option.
    let refused = probity(at, &[&export[..], &["--key", "user:8"]].concat(), "", 1).1;
    assert!(refused.contains("--entry-key"), "{refused}");
    let help = probity(at, &["export", "--help"], "", 0).0;
    assert!(!help.contains("--key-file"), "{help}");
}

/// Times were taken in full alone: `--from 2026-03-01` and `--from -7d` were wrong usage.
#[test]
fn times_may_be_dates_and_ages() {
    let folder = log();
    let at = folder.path();
    let export = ["export", "audit", "--format", "jsonl"];
    let count = |more: &[&str]| {
        let found = probity(at, &[&export[..], more].concat(), "", 0).0;
        found.lines().count()
    };
    assert_eq!(count(&["--from", "2026-03-01"]), 2);
    assert_eq!(count(&["--to", "2026-03-01"]), 1);
    assert_eq!(count(&["--from", "2026-03-01", "--to", "2026-03-02"]), 2);
    assert_eq!(count(&["--from", "2026-02-28T23:59:59Z"]), 3);
    probity(
        at,
        &["append", "audit"],
        "{\"action\":\"read\",\"subject\":\"9\"}\n",
        0,
    );
    for age in ["-7d", "-2w", "-3h", "-90m", "-3600s"] {
        assert_eq!(count(&["--subject", "9", "--from", age]), 1, "{age}");
        assert_eq!(count(&["--subject", "9", "--to", age]), 0, "{age}");
    }
    let verify = ["verify", "audit", "--from", "-7d"];
    assert!(probity(at, &verify, "", 0).0.contains("intact"));
    for wrong in [
        "7d",
        "-d",
        "-7y",
        "-7",
        "-7 d",
        "2026-13-01",
        "2026-02-30",
        "2026-3-1",
        "yesterday",
        "-999999999999999999d",
        "--7d",
    ] {
        let args = [&export[..], &["--from", wrong]].concat();
        let refused = probity(at, &args, "", 2).1;
        assert!(refused.contains("2026-01-31"), "{wrong}: {refused}");
    }
    let reversed = [&export[..], &["--from", "-1d", "--to", "-2d"]].concat();
    probity(at, &reversed, "", 2);
}

/// A line of an export did not say where its entry stands, so it could not be proved. With the option
/// each line does, and `append --exported` leaves the place out again.
#[test]
fn an_export_names_the_place_of_each_entry() {
    let folder = log();
    let at = folder.path();
    let export = ["export", "audit", "--format", "jsonl", "--with-place"];
    let lines = probity(at, &export, "", 0).0;
    let places: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (index, place) in places.iter().enumerate() {
        assert_eq!(place["stream"], "default");
        assert_eq!(place["index"], index, "{place}");
    }
    let index = places[2]["index"].to_string();
    let prove = ["prove", "audit", "--index", &index, "-o", "entry"];
    probity(at, &prove, "", 0);
    let told = document(at, &["check-proof", "entry", "--key", "audit.vkey"], "", 0);
    assert_eq!(told["entry"]["action"], "update", "{told}");
    probity(at, &["init", "other"], "", 0);
    probity(at, &["append", "other", "--exported"], &lines, 0);
    let refused = probity(at, &["append", "other"], &lines, 1).1;
    assert!(refused.contains("--exported"), "{refused}");
    let csv = [
        "export",
        "audit",
        "--format",
        "csv",
        "--with-place",
        "-o",
        "rows.csv",
    ];
    probity(at, &csv, "", 0);
    let rows = fs::read_to_string(at.join("rows.csv")).unwrap();
    assert!(rows.starts_with("stream,index,"), "{rows}");
}

/// A pocket database with one table, and a file of `rows` rows for it.
fn pocket(rows: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT(40))";
    fs::write(at.join("t.sql"), schema).unwrap();
    let row = |number: u32| format!("{number},name {number}\n");
    let lines: String = (1..=rows).map(row).collect();
    fs::write(at.join("t.csv"), format!("id,a\n{lines}")).unwrap();
    let create = ["pocket", "create", "v", "--schema", "t.sql", "--size", "16"];
    probity(at, &create, "", 0);
    folder
}

fn count(folder: &Path) -> u64 {
    let query = ["pocket", "query", "v", "SELECT COUNT(*) AS n FROM t"];
    let args = [&query[..], &["--format", "json"]].concat();
    let found: Value = serde_json::from_str(&probity(folder, &args, "", 0).0).unwrap();
    found["n"].as_u64().unwrap()
}

/// Ctrl-C killed an import: it said neither how many rows are in, nor where to go on. The rows read
/// until then are committed and counted, and the command goes on behind them.
#[test]
fn an_import_that_is_interrupted_keeps_and_counts_its_rows() {
    let folder = pocket(0);
    let at = folder.path();
    let mut child = command(at, &["pocket", "import", "v", "t", "-", "--json"])
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // More than a buffer of the reader, so that some rows are taken before the input pauses.
    let row = |number: u32| format!("{number},x\n");
    let rows: String = (1..=2_000).map(row).collect();
    input.write_all(format!("id,a\n{rows}").as_bytes()).unwrap();
    input.flush().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.unwrap().success());
    let began = Instant::now();
    let ended = child.wait_with_output().unwrap();
    drop(input);
    assert!(began.elapsed() < Duration::from_secs(20));
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{stdout}{stderr}");
    let told: Value = serde_json::from_str(&stdout).unwrap();
    let error = told["error"].as_str().unwrap();
    assert!(error.contains("a signal asked to stop"), "{error}");
    let rows = count(at);
    assert!(rows > 0, "{error}");
    assert!(
        error.starts_with(&format!("{rows} rows were imported")),
        "{rows}: {error}"
    );
    probity(at, &["pocket", "verify", "v"], "", 0);
}

/// Ctrl-C killed a reorganisation. It ends behind a step now and counts the steps, and the same
/// command goes on.
#[test]
fn a_reorganisation_that_is_interrupted_goes_on_later() {
    let folder = pocket(6_000);
    let at = folder.path();
    probity(at, &["pocket", "import", "v", "t", "t.csv"], "", 0);
    let child = command(at, &["pocket", "reorganize", "v"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    let id = child.id().to_string();
    drop(Command::new("kill").args(["-s", "INT", &id]).output());
    let ended = child.wait_with_output().unwrap();
    let stderr = text(&ended.stderr);
    // The work may have ended before the signal came, or not yet have begun to watch for it.
    match ended.status.code() {
        Some(0) | None => {}
        Some(1) => assert!(
            stderr.contains(" steps are done, then a signal asked to stop"),
            "{stderr}"
        ),
        other => panic!("{other:?}: {stderr}"),
    }
    probity(at, &["pocket", "reorganize", "v"], "", 0);
    probity(at, &["pocket", "verify", "v"], "", 0);
    assert_eq!(count(at), 6_000);
}

/// `pocket import`, `subject export` and `disguise replay` said nothing for as long as they took.
/// On a terminal each shows how far it is.
#[test]
fn long_work_shows_its_progress_on_a_terminal() {
    let folder = pocket(3_000);
    let at = folder.path();
    let said = on_a_terminal(at, "pocket import v t t.csv");
    assert!(said.contains(" rows"), "{said}");
    assert!(said.contains("imported 3000 rows into t"), "{said}");
    probity(at, &["init", "audit"], "", 0);
    let lines = "{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\"}\n".repeat(2_000);
    fs::write(at.join("lines.jsonl"), lines).unwrap();
    let said = on_a_terminal(at, "append audit lines.jsonl");
    assert!(said.contains("1024 entries"), "{said}");
    let said = on_a_terminal(at, "subject export audit 7 --pocket 7.pocket");
    assert!(said.contains("1024 entries"), "{said}");
}

/// Runs the program with a terminal for its outputs, and returns what the terminal showed.
fn on_a_terminal(folder: &Path, args: &str) -> String {
    let line = format!("{} {args}", env!("CARGO_BIN_EXE_probity"));
    let shown = folder.join("terminal");
    let ended = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder)
        .env("TERM", "xterm")
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .env_remove("PROBITY_POCKET_ROOT")
        .stdin(Stdio::null())
        .stdout(File::create(&shown).unwrap())
        .status()
        .unwrap();
    let said = fs::read_to_string(&shown).unwrap();
    assert!(ended.success(), "{args}: {said}");
    said
}

/// `probity help` and `probity help COMMAND` print what `--help` does.
#[test]
fn help_is_a_command() {
    let at = Path::new(".");
    for (command, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "export"], &["export", "--help"]),
        (&["help", "pocket", "query"], &["pocket", "query", "--help"]),
    ] {
        assert_eq!(probity(at, command, "", 0).0, probity(at, option, "", 0).0);
    }
}
