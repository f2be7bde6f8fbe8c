//! Logs that were moved or lack their configuration, and keys that an editor changed: advice that leads somewhere.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and moves files"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Command;

use probity_testing::program::Program;
use tempfile::TempDir;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));
const LINE: &str = "{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\"}\n";

fn run(at: &Path, args: &[&str], status: i32) -> (String, String) {
    PROBITY.ends(at, args, "", status)
}

fn new_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["init", "audit"], 0);
    PROBITY.ends(folder.path(), &["append", "audit"], LINE, 0);
    folder
}

/// The advice after a log was moved under its writer named the old path, where nothing was, and then a new log there.
#[test]
fn an_append_whose_log_was_moved_says_how_to_go_on_at_the_new_path() {
    let folder = new_log();
    let at = folder.path();
    let args = ["append", "audit", "--receipts"];
    let mut child = PROBITY.command(at, &args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE.as_bytes()).unwrap();
    let mut receipts = BufReader::new(child.stdout.take().unwrap()).lines();
    receipts.next().unwrap().unwrap();
    fs::rename(at.join("audit"), at.join("elsewhere")).unwrap();
    stdin.write_all(LINE.as_bytes()).unwrap();
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_ne!(ended.status.code(), Some(0), "{said}");
    for advice in [
        "go on with the new path, and move the folder of second copies",
        "probity export NEW --stream default",
        "probity append NEW - --stream default --receipts --from-line LINE",
    ] {
        assert!(said.contains(advice), "{advice}: {said}");
    }
    fs::rename(at.join("audit.heads"), at.join("elsewhere.heads")).unwrap();
    run(at, &["verify", "elsewhere", "--key", "audit.vkey"], 0);
    let args = ["append", "elsewhere", "--key", "audit.key"];
    PROBITY.ends(at, &args, LINE, 0);
}

/// An input was to be repeated whole though the log may have forgotten its lines. With a name for the lines it stops there.
#[test]
fn only_an_input_with_a_name_is_to_be_repeated() {
    for name in [None, Some("--idempotency-key=monday")] {
        let folder = new_log();
        let at = folder.path();
        let line = |key: &str| match name {
            None => format!("{{\"action\":\"read\",\"idempotency_key\":\"{key}\"}}\n"),
            Some(_) => LINE.to_owned(),
        };
        let args = ["append", "audit", "--receipts"];
        let args: Vec<&str> = args.into_iter().chain(name).collect();
        let mut child = PROBITY.command(at, &args).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(line("1").as_bytes()).unwrap();
        let mut receipts = BufReader::new(child.stdout.take().unwrap()).lines();
        receipts.next().unwrap().unwrap();
        fs::rename(at.join("audit"), at.join("elsewhere")).unwrap();
        stdin.write_all(line("2").as_bytes()).unwrap();
        drop(stdin);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        let may_repeat = name.is_some();
        assert_eq!(
            said.contains("none is recorded twice"),
            may_repeat,
            "{said}"
        );
        assert_eq!(said.contains("--from-line LINE"), !may_repeat, "{said}");
    }
}

/// An older copy of the log was put in the place of the moved one: the count was taken from there,
/// receipts were out for what "nothing was appended" said, and the advice made a second history.
#[test]
fn an_append_counts_in_no_other_folder_than_it_wrote_to() {
    let folder = new_log();
    let at = folder.path();
    let mut copy = Command::new("cp");
    let copied = copy.args(["-a", "audit", "older"]).current_dir(at).status();
    assert!(copied.unwrap().success());
    let args = ["append", "audit", "--receipts"];
    let mut child = PROBITY.command(at, &args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE.as_bytes()).unwrap();
    let mut receipts = BufReader::new(child.stdout.take().unwrap()).lines();
    receipts.next().unwrap().unwrap();
    fs::rename(at.join("audit"), at.join("elsewhere")).unwrap();
    fs::rename(at.join("older"), at.join("audit")).unwrap();
    stdin.write_all(LINE.as_bytes()).unwrap();
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_ne!(ended.status.code(), Some(0), "{said}");
    assert!(!said.contains("nothing was appended"), "{said}");
    assert!(
        said.contains("probity append NEW - --stream default"),
        "{said}"
    );
    assert!(!said.contains("append audit"), "{said}");
}

/// A log without its configuration was said to be deleted, though everything else of it was there.
#[test]
fn a_log_without_its_configuration_is_not_said_to_be_deleted() {
    let folder = new_log();
    let at = folder.path();
    fs::rename(at.join("audit/probity.toml"), at.join("kept")).unwrap();
    for args in [
        &["verify", "audit", "--key", "audit.vkey"][..],
        &["verify", "audit"],
        &["append", "audit"],
    ] {
        let (_, said) = run(at, args, 3);
        assert!(
            said.contains("put probity.toml back from any backup"),
            "{said}"
        );
        assert!(!said.contains("deleted"), "{said}");
    }
    fs::rename(at.join("kept"), at.join("audit/probity.toml")).unwrap();
    run(at, &["verify", "audit", "--key", "audit.vkey"], 0);
}

/// A key that an editor of Windows had saved was no key file, and a checkpoint was no checkpoint, with the advice to take an
/// undamaged copy.
#[test]
fn an_editor_changes_no_key_and_a_changed_checkpoint_says_so() {
    let folder = new_log();
    let at = folder.path();
    for key in ["audit.key", "audit.vkey"] {
        let text = fs::read_to_string(at.join(key)).unwrap();
        let saved = format!("\u{feff}{}\r\n", text.trim_end());
        fs::write(at.join("saved"), saved).unwrap();
        run(at, &["verify", "audit", "--key", "saved"], 0);
        let export = [
            "export",
            "audit",
            "--format",
            "csv",
            "--overwrite",
            "-o",
            "saved",
        ];
        let (_, said) = run(at, &export, 1);
        assert!(said.contains("never overwritten"), "{said}");
    }
    let head = fs::read_to_string(at.join("audit/streams/default/checkpoint")).unwrap();
    fs::write(at.join("head"), head.replace('\n', "\r\n")).unwrap();
    let (_, said) = run(at, &["verify", "audit", "--since", "head"], 2);
    assert!(said.contains("its line ends were changed"), "{said}");
}

/// Advice that failed: to append to a log whose root key is lost, and to repeat an append of a folder. An older log that is
/// none was an option that nobody had given.
#[test]
fn advice_about_a_lost_key_a_folder_and_no_older_log_leads_somewhere() {
    let folder = new_log();
    let at = folder.path();
    let (_, said) = run(at, &["append", "audit", "audit"], 1);
    assert!(said.contains("name a file: a folder is there"), "{said}");
    assert!(!said.contains("go on with"), "{said}");
    run(at, &["init", "other"], 0);
    let (exported, _) = run(at, &["export", "audit", "--format", "jsonl"], 0);
    let (_, said) = PROBITY.ends(at, &["append", "other"], &exported, 1);
    let go_on = "go on with: probity append other - --stream default --exported --from-line 1";
    assert!(said.contains(go_on), "{said}");
    let (_, said) = run(at, &["verify", "audit", "--continues", "other"], 1);
    assert!(
        said.contains("name with --continues the log of an older version"),
        "{said}"
    );
    fs::remove_file(at.join("audit.key")).unwrap();
    let (_, said) = run(at, &["init", "audit"], 1);
    assert!(said.contains("put audit.key back from a backup"), "{said}");
}

/// A repeated command with `--idempotency-key` recorded lines twice that lay further back than the
/// log looks for keys, and ended with status 0. It stops where later lines of the name are there.
#[test]
fn a_repeated_input_stops_where_the_log_may_have_forgotten_a_line() {
    let folder = new_log();
    let at = folder.path();
    let line = serde_json::json!({"action": "read", "payload": "x".repeat(520_000)}).to_string();
    fs::write(at.join("big"), (line + "\n").repeat(170)).unwrap();
    let append = [
        "append",
        "audit",
        "big",
        "--compression",
        "none",
        "--idempotency-key",
        "big",
    ];
    run(at, &append, 0);
    let (_, said) = run(at, &append, 1);
    assert!(
        said.contains("line 1: line 170 of this name is in the log"),
        "{said}"
    );
    assert!(said.contains("nothing was appended"), "{said}");
    assert!(said.contains("--from-line LINE --at-index INDEX"), "{said}");
    let (said, _) = run(
        at,
        &[&append[..], &["--from-line", "171", "--at-index", "171"]].concat(),
        0,
    );
    assert!(said.contains("0 entries appended"), "{said}");
}

/// A repeated input was recorded twice, with status 0, where the log knew keys of lines far behind
/// the first alone, or had forgotten one within its first frame. The log names its last line now.
#[test]
fn a_repeated_input_of_any_length_stops_where_a_line_may_be_forgotten() {
    for lines in [65_700, 140_000] {
        let folder = new_log();
        let at = folder.path();
        let input = "{\"action\":\"read\"}\n".repeat(lines);
        fs::write(at.join("lines"), &input).unwrap();
        let append = ["append", "audit", "lines", "--idempotency-key", "monday"];
        run(at, &append, 0);
        let (_, said) = run(at, &append, 1);
        let last = format!("line 1: line {lines} of this name is in the log");
        assert!(said.contains(&last), "{said}");
        assert!(said.contains("nothing was appended"), "{said}");
    }
}

/// Lines with keys of their own drove the keys of the name out of what the log remembers, and the whole input was
/// recorded twice. Beside a name they are refused, and nothing else is.
#[test]
fn no_line_has_two_keys() {
    let folder = new_log();
    let at = folder.path();
    let own = "{\"action\":\"read\",\"idempotency_key\":\"own\"}\n";
    fs::write(at.join("lines"), [LINE, own, LINE].concat()).unwrap();
    let append = ["append", "audit", "lines", "--idempotency-key", "monday"];
    let (_, said) = run(at, &append, 1);
    assert!(
        said.contains("line 2: it has an idempotency key of its own"),
        "{said}"
    );
    assert!(said.contains("1 entry appended"), "{said}");
    fs::write(at.join("lines"), LINE.repeat(3)).unwrap();
    let (said, _) = run(at, &append, 0);
    assert!(said.contains("2 entries appended"), "{said}");
    assert!(said.contains("1 line was already recorded"), "{said}");
}

/// A `--from-line` far behind the input's end appended nothing, with status 0.
#[test]
fn an_input_that_ends_before_the_line_to_begin_at_is_refused() {
    let folder = new_log();
    let at = folder.path();
    let append = |line| {
        PROBITY
            .ends(at, &["append", "audit", "--from-line", line], LINE, 1)
            .1
    };
    PROBITY.ends(at, &["append", "audit", "--from-line", "2"], LINE, 0);
    let said = append("3");
    assert!(said.contains("the input has 1 line, and"), "{said}");
    assert!(said.contains("nothing was appended"), "{said}");
}
