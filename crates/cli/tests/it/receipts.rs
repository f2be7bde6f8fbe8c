//! Receipts on a standard output that takes only some of them.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and reads files"
)]

use std::fs::{self, OpenOptions};
use std::process::Command;

use probity_testing::program::Program;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));
const LINES: usize = 2000;

fn new_log() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    PROBITY.ends(folder.path(), &["init", "log"], "", 0);
    fs::write(
        folder.path().join("in"),
        "{\"action\":\"x\"}\n".repeat(LINES),
    )
    .unwrap();
    folder
}

/// Receipts counted as printed once they were in the buffer of standard output. Where the disk was
/// full, hundreds of entries had none, and the message said that they had.
#[test]
fn receipts_that_never_left_the_buffer_are_said_to_be_missing() {
    let folder = new_log();
    let at = folder.path();
    // No file of the command grows beyond 96 KiB: the file of receipts would.
    let script = "trap '' XFSZ; ulimit -f 192; exec \"$0\" append log in --receipts > receipts";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_probity")]);
    let ended = limited.current_dir(at).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let printed = fs::read_to_string(at.join("receipts")).unwrap();
    let whole = printed.matches('\n').count();
    assert!(whole > 0 && whole < LINES, "{whole}");
    let missing = LINES - whole;
    let told = [
        format!("{LINES} entries appended, the last {missing} of them without a receipt"),
        format!(
            "entries {whole} to {} are recorded without a receipt",
            LINES - 1
        ),
    ];
    for told in told {
        assert!(said.contains(&told), "{whole}: {said}");
    }
}

/// Receipts in the buffer of standard output left it after they had been counted. Where the disk of
/// the log was full, all of them were said to be missing, and all were printed.
#[test]
fn receipts_that_leave_the_buffer_at_the_end_are_counted() {
    let folder = new_log();
    let at = folder.path();
    let payload = "x".repeat(300);
    let line = |number| format!("{{\"action\":\"x\",\"payload\":\"{number}{payload}\"}}\n");
    let lines: String = (0..600).map(line).collect();
    fs::write(at.join("in"), lines).unwrap();
    // The file of receipts is a pipe: the files of the log alone stop growing.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" append log in --receipts --durability strict --compression none";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_probity")]);
    let ended = limited.current_dir(at).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let printed = ended.stdout.split(|byte| *byte == b'\n').count() - 1;
    assert!(printed > 0 && printed < 200, "{printed}: {said}");
    let (kept, _) = said.split_once(" entries appended").expect(&said);
    let kept: usize = kept.rsplit(' ').next().unwrap().parse().expect(&said);
    let told = match kept - printed {
        0 => "entries appended, then".to_owned(),
        missing => format!("appended, the last {missing} of them without a receipt"),
    };
    assert!(said.contains(&told), "{printed} of {kept}: {said}");
}

/// With one entry the message said nothing of its receipt.
#[test]
fn one_receipt_that_was_not_printed_is_said_to_be_missing() {
    let folder = new_log();
    let at = folder.path();
    fs::write(at.join("one"), "{\"action\":\"x\"}\n").unwrap();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut append = PROBITY.command(at, &["append", "log", "one", "--receipts"]);
    let ended = append.stdout(full).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("the last 1 of them without a receipt"),
        "{said}"
    );
    assert!(
        said.contains("entries 0 to 0 are recorded without"),
        "{said}"
    );
}
