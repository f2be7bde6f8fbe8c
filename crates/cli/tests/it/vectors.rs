//! The log that stands in the repository for those who write a reader of their own: it says what the files beside it say.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/testdata/v3")
}

/// Makes a copy, because readers may write beside a log; folders without files are not kept in the
/// repository.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = format!("{}/.", testdata().display());
    let copied = Command::new("cp")
        .arg("-r")
        .arg(from)
        .arg(folder.path())
        .status();
    assert!(copied.unwrap().success());
    folder
}

fn probity(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(args)
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .output()
        .unwrap()
}

/// Status 4: who opens the contents sees that one person is erased.
#[test]
fn the_vectors_verify_with_the_key_beside_them_and_with_the_root_key() {
    let folder = copy();
    for (key, status) in [("log.vkey", 0), ("root.key", 4)] {
        let output = probity(folder.path(), &["verify", "log", "--key", key]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{key}: {said}");
    }
}

#[test]
fn the_vectors_hold_the_entries_beside_them() {
    let folder = copy();
    for stream in ["default", "people", "columns"] {
        let args = [
            "export",
            "log",
            "--stream",
            stream,
            "--key-file",
            "root.key",
            "--format",
            "jsonl",
        ];
        let output = probity(folder.path(), &args);
        let expected = fs::read(testdata().join(format!("{stream}.jsonl"))).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8(expected).unwrap()
        );
    }
}

#[test]
fn the_proofs_beside_the_vectors_are_checked() {
    let folder = copy();
    for (file, action) in [("default-2.proof", "delete"), ("columns-0.proof", "action")] {
        let output = probity(folder.path(), &["check-proof", file, "--key", "log.vkey"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(action), "{said}");
    }
}

/// The bytes of the dump are those of the segments that it names, all of them.
#[test]
fn the_hex_dump_has_every_byte_of_the_segments() {
    let text = fs::read_to_string(testdata().join("segments.hex")).unwrap();
    for part in text.split("# ").skip(1) {
        let (name, lines) = part.split_once('\n').unwrap();
        let shown = lines.lines().filter_map(|line| line.split_once("  "));
        let shown: Vec<&str> = shown.flat_map(|(_, bytes)| bytes.split(' ')).collect();
        let mut stored = String::new();
        for byte in fs::read(testdata().join("log").join(name)).unwrap() {
            write!(stored, "{byte:02x} ").unwrap();
        }
        assert_eq!(shown.join(" "), stored.trim_end(), "{name}");
    }
}
