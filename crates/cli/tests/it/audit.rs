//! The log `audit` in a folder of its own, and the program run in that folder.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::path::Path;
use std::process::{Command, Output};

use probity_testing::program::Program;
use tempfile::TempDir;

pub(crate) const LINE: &[u8] = b"{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\"}\n";

pub(crate) fn probity(folder: &Path, args: &[&str]) -> Command {
    Program::new(env!("CARGO_BIN_EXE_probity")).command(folder, args)
}

pub(crate) fn run(folder: &Path, args: &[&str], input: &[u8]) -> Output {
    Program::new(env!("CARGO_BIN_EXE_probity")).run(folder, args, input)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn new_log() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["init", "audit"], b"");
    assert!(made.status.success(), "{}", text(&made.stderr));
    folder
}

pub(crate) fn assert_intact(folder: &Path, entries: u64) {
    let verified = run(
        folder,
        &["verify", "audit", "--key", "audit.key", "--json"],
        b"",
    );
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stdout)
    );
    let document: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let streams = document["streams"].as_array().unwrap();
    let default = streams
        .iter()
        .find(|stream| stream["name"] == "default")
        .unwrap();
    assert_eq!(default["entries"].as_u64(), Some(entries), "{document}");
}
