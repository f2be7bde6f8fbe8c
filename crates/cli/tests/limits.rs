//! The report of `verify` about what it did not read: bytes that an option leaves out, and a
//! rollback with nothing to compare.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use probity_testing::program::Program;
use serde_json::Value;
use tempfile::TempDir;

fn probity(folder: &Path, args: &[&str], input: &str, status: i32) -> (String, String) {
    Program::new(env!("CARGO_BIN_EXE_probity")).ends(folder, args, input, status)
}

fn verified(folder: &Path, args: &[&str], status: i32) -> (String, Value) {
    let args = [&["verify"], args].concat();
    let text = probity(folder, &args, "", status).0;
    let json = probity(folder, &[&args[..], &["--json"]].concat(), "", status).0;
    (text, serde_json::from_str(&json).unwrap())
}

fn stream<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut streams = document["streams"].as_array().unwrap().iter();
    streams.find(|stream| stream["name"] == name).unwrap()
}

fn copy(folder: &Path, from: &str, to: &str) {
    let mut command = Command::new("cp");
    let copied = command.args(["-r", from, to]).current_dir(folder).status();
    assert!(copied.unwrap().success());
}

const SEGMENT: &str = "streams/default/segments/00000000000000000000.seg";

/// Makes a log with an entry of January and one of March, each in its own frame, and `kept`, the
/// checkpoint over the first.
fn place() -> (TempDir, usize) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(
        at,
        &["init", "audit", "--origin", "example.com/audit"],
        "",
        0,
    );
    let append = |time| {
        let line = format!("{{\"time\":\"{time}\",\"action\":\"read\",\"key\":\"user:7\"}}\n");
        probity(at, &["append", "audit"], &line, 0);
    };
    append("2026-01-31T12:00:00Z");
    fs::copy(at.join("audit/streams/default/checkpoint"), at.join("kept")).unwrap();
    let end = fs::read(at.join("audit").join(SEGMENT)).unwrap().len();
    append("2026-03-31T12:00:00Z");
    (folder, end)
}

/// `verify --since LAST` and `--from TIME` read only what grew, and said `intact` over a log whose
/// older bytes were zeros. The manual promised every byte. Bytes that are not read are counted, and
/// the verdict is of what was read.
#[test]
fn a_verification_that_leaves_bytes_out_says_so() {
    let (folder, end) = place();
    let at = folder.path();
    let segment = at.join("audit").join(SEGMENT);
    let whole = fs::read(&segment).unwrap();
    let mut damaged = whole.clone();
    damaged[end - 60..end].fill(0);
    let partly: [(&[&str], &str); 3] = [
        (&["audit", "--since", "kept"], "--since"),
        (&["audit", "--from", "2026-03-01T00:00:00Z"], "--from"),
        (
            &["audit", "--key", "audit.key", "--since", "kept"],
            "--since",
        ),
    ];
    for bytes in [&damaged, &whole] {
        fs::write(&segment, bytes).unwrap();
        for (args, option) in partly {
            let (text, document) = verified(at, args, 0);
            let last = text.lines().last().unwrap();
            assert!(last.starts_with("intact as far as it was read: "), "{text}");
            assert!(last.contains(" in 1 frame not read"), "{text}");
            let line = text
                .lines()
                .find(|line| line.contains(" not read: "))
                .unwrap();
            assert!(line.starts_with("stream default: 1 frame of "), "{line}");
            assert!(line.contains(option), "{line}");
            assert_eq!(document["verdict"], "intact as far as it was read");
            assert_eq!(document["frames_skipped"], 1);
            let skipped = &stream(&document, "default")["skipped"][0];
            assert_eq!(skipped["frames"], 1, "{document}");
            assert_eq!(skipped["bytes"], document["bytes_skipped"]);
            assert!(skipped["bytes"].as_u64().unwrap() > 60);
            assert!(skipped["why"].as_str().unwrap().contains(option));
        }
    }
    // A time that leaves nothing out leaves nothing to be said.
    let (text, document) = verified(at, &["audit", "--from", "2026-01-01T00:00:00Z"], 0);
    assert!(text.contains("\nintact: "), "{text}");
    assert_eq!(document["frames_skipped"], 0);
    assert_eq!(
        stream(&document, "default")["skipped"],
        Value::Array(Vec::new())
    );
    fs::write(&segment, &damaged).unwrap();
    let (_, document) = verified(at, &["audit"], 3);
    assert_eq!(document["verdict"], "broken");
    assert_eq!(document["frames_skipped"], 0);
}

/// An older copy of the log was plainly `intact` to a verifier key with nothing to compare heads
/// with. The manual said that a key finds a rollback.
#[test]
fn a_key_alone_does_not_hide_that_a_rollback_was_not_looked_for() {
    let (folder, _) = place();
    let at = folder.path();
    copy(at, "audit", "older");
    copy(at, "audit.heads", "heads");
    probity(at, &["append", "audit"], "{\"action\":\"read\"}\n", 0);
    for key in ["audit.vkey", "audit.key"] {
        let (text, document) = verified(at, &["older", "--key", key], 0);
        let verdict = "intact, but whether it was rolled back cannot be told";
        assert!(text.contains(&format!("\n{verdict}: ")), "{text}");
        assert!(text.contains("--heads DIR, or --since FILE"), "{text}");
        assert_eq!(document["verdict"], verdict);
        assert_eq!(document["rollback"], "not compared");
    }
    // With second copies, of that time or of today, it can be told.
    let (text, document) = verified(at, &["older", "--key", "audit.vkey", "--heads", "heads"], 0);
    assert!(text.contains("\nintact: "), "{text}");
    assert_eq!(document["rollback"], "compared");
    verified(
        at,
        &["older", "--key", "audit.vkey", "--heads", "audit.heads"],
        3,
    );
    // A checkpoint that was kept says it up to its own time.
    let (text, document) = verified(at, &["older", "--key", "audit.vkey", "--since", "kept"], 0);
    let verdict = "intact as far as it was read, but whether it was rolled back since the checkpoint given cannot be told";
    assert!(text.contains(&format!("\n{verdict}: ")), "{text}");
    assert_eq!(
        document["rollback"],
        "compared with the checkpoint given with --since"
    );
    // Of one stream alone the copy is gone.
    fs::remove_file(at.join("heads/default")).unwrap();
    let (text, document) = verified(at, &["older", "--heads", "heads"], 0);
    assert!(text.contains("of default no second copy"), "{text}");
    assert_eq!(document["rollback"], "compared of some streams");
    assert_eq!(
        document["verdict"],
        "intact, but whether some streams were rolled back cannot be told"
    );
    // A folder that is named and holds none is no verification; the document says the status too.
    fs::create_dir(at.join("empty")).unwrap();
    let (_, document) = verified(at, &["older", "--key", "audit.vkey", "--heads", "empty"], 1);
    assert_eq!(document["status"], 1);
}

/// A checkpoint of another log, or a file that is none, was reported as damage of the journal of the log.
#[test]
fn a_checkpoint_of_another_log_is_a_wrong_argument() {
    let (folder, _) = place();
    let at = folder.path();
    probity(
        at,
        &["init", "other", "--origin", "example.com/other"],
        "",
        0,
    );
    let strange = "other/streams/journal/checkpoint";
    for json in [&[][..], &["--json"]] {
        let args = [&["verify", "audit", "--since", strange], json].concat();
        let (stdout, stderr) = probity(at, &args, "", 2);
        // The document of the failure is no verdict.
        assert_eq!(stdout.is_empty(), json.is_empty(), "{stdout}");
        assert!(!stdout.contains("verdict"), "{stdout}");
        assert!(
            stderr.starts_with(&format!(
                "error: {strange} is a checkpoint of example.com/other/streams/journal, and the log in audit is example.com/audit\nhelp: "
            )),
            "{stderr}"
        );
        let args = [&["verify", "audit", "--since", "audit.vkey"], json].concat();
        let (_, stderr) = probity(at, &args, "", 2);
        assert!(
            stderr.starts_with("error: audit.vkey is no checkpoint\nhelp: "),
            "{stderr}"
        );
    }
    // One of a stream that this log never had is another matter: the log may have had it.
    let text = fs::read_to_string(at.join("kept")).unwrap();
    fs::write(at.join("kept"), text.replacen("default", "persons", 1)).unwrap();
    verified(at, &["audit", "--since", "kept"], 3);
}
