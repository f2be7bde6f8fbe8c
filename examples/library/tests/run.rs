//! Every program ends well, and prints what its library did.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;

/// Runs `program` in a new folder and returns the lines that it printed.
fn run(program: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let output = Command::new(program).arg(&made).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    assert!(made.is_dir());
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn a_log_is_read_verified_and_proved() {
    let lines = run(env!("CARGO_BIN_EXE_append_and_verify"));
    assert_eq!(
        lines[..7],
        [
            "appended create as entry 0",
            "appended read as entry 1",
            "appended erase as entry 2",
            "read back create of user:7",
            "read back read of user:7",
            "read back erase of user:7",
            "the log is intact",
        ]
    );
    assert!(
        lines[7].ends_with("shows that entry 1 is read"),
        "{lines:?}"
    );
}

#[test]
fn commands_of_a_client_are_recorded() {
    let lines = run(env!("CARGO_BIN_EXE_record_a_store"));
    assert_eq!(
        lines,
        [
            r#"the store replied "+OK\r\n$3\r\nBea\r\n:1\r\n""#,
            "recorded update of user:7",
            "recorded read of user:7",
            "recorded delete of user:7",
        ]
    );
}

#[test]
fn a_person_leaves_and_comes_back() {
    let lines = run(env!("CARGO_BIN_EXE_leave_and_come_back"));
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], r#"at first: "hello" by Bea"#);
    assert!(
        lines[2].starts_with(r#"while Bea is away: "hello" by "#) && !lines[2].ends_with("Bea")
    );
    assert_eq!(lines[3], r#"while Bea is away: "welcome" by Cem"#);
    assert_eq!(lines[4], r#"once Bea is back: "hello" by Bea"#);
    assert_eq!(lines[6], "all of it came back");
}

#[test]
fn visits_are_found_after_the_database_was_opened_again() {
    let lines = run(env!("CARGO_BIN_EXE_pocket_database"));
    assert_eq!(lines.last().unwrap(), "2 visits in 2026");
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_person_gets_a_copy_of_their_own() {
    let lines = run(env!("CARGO_BIN_EXE_own_copy"));
    assert_eq!(
        lines,
        [
            "the log has 2 entries about Bea",
            "2 letters were imported",
            "since April: Your order, sent",
        ]
    );
}
