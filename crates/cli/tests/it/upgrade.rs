//! A log of version 2 is continued as a new one that names what was signed last of it, and both are checked together.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probity_format::frame::{Frame, FrameHeader};
use tempfile::TempDir;

/// Logs of 18 entries that an earlier release wrote.
const LOGS: [&str; 3] = ["section", "erasable", "lz4"];

fn probity(folder: &Path, args: &[&str], status: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(args)
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    said
}

/// Makes a folder with copies of the logs.
fn logs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/testdata/v2");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(format!("{}/.", from.display()))
        .arg(folder.path())
        .status();
    assert!(copied.unwrap().success());
    folder
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[test]
fn a_log_of_version_2_goes_on_as_a_new_one_and_is_left_as_it_is() {
    let folder = logs();
    let place = folder.path();
    for old in LOGS {
        let new = format!("{old}-3");
        let key = format!("{old}.key");
        let before = files(&place.join(old));
        let said = probity(place, &["upgrade", old, &new, "--key", &key], 0);
        assert!(said.contains("names 2 heads"), "{said}");
        assert_eq!(files(&place.join(old)), before);
        assert!(place.join(format!("{new}.vkey")).exists());
        let said = probity(place, &["stream", "list", &new], 0);
        assert!(said.contains("default"), "{said}");
        assert_eq!(said.contains("yes"), old == "erasable", "{said}");
        let entry = r#"{"action":"read","key":"user:7","subject":"7"}"#;
        fs::write(place.join("entry.jsonl"), entry).unwrap();
        probity(place, &["append", &new, "entry.jsonl"], 0);
        let said = probity(place, &["verify", &new, "--continues", old], 0);
        assert!(said.contains("exactly what the journal names"), "{said}");
        let json = ["verify", &new, "--continues", old, "--json"];
        assert!(probity(place, &json, 0).contains("\"is_named\":true"));
        let journal = ["export", &new, "--stream", "journal", "--format", "jsonl"];
        let journal = probity(place, &journal, 0);
        let actions: Vec<&str> = journal
            .lines()
            .take(3)
            .filter_map(|line| line.split("\"action\":\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(actions, ["log.create", "log.continue", "stream.create"]);
    }
}

#[test]
fn running_it_again_changes_nothing_and_finishes_what_a_crash_left() {
    let folder = logs();
    let place = folder.path();
    let upgrade = ["upgrade", "section", "new"];
    probity(place, &upgrade, 0);
    let key = fs::read(place.join("new.vkey")).unwrap();
    probity(place, &upgrade, 0);
    assert_eq!(fs::read(place.join("new.vkey")).unwrap(), key);
    fs::remove_file(place.join("new.vkey")).unwrap();
    probity(place, &upgrade, 0);
    assert_eq!(fs::read(place.join("new.vkey")).unwrap(), key);
    // Of a creation that was cut short nothing is left but keys, and maybe the geometry.
    let cut = place.join("cut");
    fs::create_dir_all(cut.join("keys")).unwrap();
    for name in ["probity.toml", "keys/master.key", "keys/signing.key"] {
        fs::copy(place.join("new").join(name), cut.join(name)).unwrap();
    }
    fs::copy(place.join("new.key"), place.join("cut.key")).unwrap();
    probity(place, &["upgrade", "section", "cut"], 0);
    probity(place, &["verify", "cut", "--continues", "section"], 0);
    // Another log is not continued by one that continues this one.
    let said = probity(place, &["upgrade", "lz4", "new"], 1);
    assert!(said.contains("continues another log"), "{said}");
    probity(place, &["init", "fresh"], 0);
    let said = probity(place, &["upgrade", "lz4", "fresh"], 1);
    assert!(said.contains("continues no other"), "{said}");
    let said = probity(place, &["upgrade", "fresh", "newer"], 1);
    assert!(said.contains("newest version"), "{said}");
    assert!(!place.join("newer").exists());
}

#[test]
fn a_damaged_log_is_not_continued_and_one_that_was_changed_afterwards_is_found() {
    let folder = logs();
    let place = folder.path();
    probity(place, &["upgrade", "section", "new"], 0);
    let said = probity(place, &["verify", "new", "--continues", "lz4"], 3);
    assert!(said.contains("is not what the journal names"), "{said}");
    let segment = place.join("section/streams/default/segments/00000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).unwrap() ^= 1;
    fs::write(&segment, bytes).unwrap();
    let said = probity(place, &["upgrade", "section", "other"], 3);
    assert!(said.contains("broken"), "{said}");
    assert!(!place.join("other").exists() && !place.join("other.key").exists());
    let said = probity(place, &["verify", "new", "--continues", "section"], 3);
    assert!(said.contains("fault frame of section"), "{said}");
    // A log that continues none does not continue this one.
    probity(place, &["init", "fresh"], 0);
    let said = probity(place, &["verify", "fresh", "--continues", "lz4"], 3);
    assert!(said.contains("is not what the journal names"), "{said}");
}

/// Puts a frame behind the last of stream `default`: that one once more, with the next numbers, other bytes and the root that they have.
fn add_a_frame_of_nobody(log: &Path) {
    let segment = log.join("streams/default/segments/00000000.seg");
    let mut content = fs::read(&segment).unwrap();
    let magic = content.windows(4).rposition(|four| four == b"PBF1");
    let mut frame = content.get(magic.unwrap()..).unwrap().to_vec();
    let last = FrameHeader::decode(&frame).unwrap();
    let next = last.first_entry + u64::from(last.entries);
    frame[16..24].copy_from_slice(&(last.frame + 1).to_le_bytes());
    frame[24..32].copy_from_slice(&next.to_le_bytes());
    let end = frame.len() - 32;
    frame[end - 20..end].fill(0x5A);
    let sealed = Frame::parse(&frame).unwrap().sealed_root();
    frame[end..].copy_from_slice(sealed.as_bytes());
    content.extend_from_slice(&frame);
    fs::write(segment, content).unwrap();
}

/// Frames after the head of an older log were called sealed by the log's keys and were exported.
/// Whoever upgraded was told to have them signed. Nothing says who wrote them: every command says
/// so, and reads what was signed.
#[test]
fn what_nobody_signed_in_an_older_log_is_named_by_every_command_and_read_by_none() {
    for old in LOGS {
        let folder = logs();
        let place = folder.path();
        add_a_frame_of_nobody(&place.join(old));
        let key = format!("{old}.key");
        for verify in [vec!["verify", old], vec!["verify", old, "--key", &key]] {
            let said = probity(place, &verify, 0);
            assert!(said.contains("stream default: 1 frame of"), "{said}");
            assert!(said.contains("nothing tells whose they are"), "{said}");
            assert!(!said.contains("keys sealed"), "{said}");
        }
        let export = ["export", old, "--key-file", &key, "--format", "jsonl"];
        for export in [export.to_vec(), [&export[..], &["--damaged-too"]].concat()] {
            let said = probity(place, &export, 0);
            assert!(
                said.contains("left out: stream default: 1 frame of"),
                "{said}"
            );
            assert_eq!(said.matches("\"action\"").count(), 18, "{said}");
        }
        let prove = [
            "prove", old, "--index", "18", "--key", &key, "-o", "18.proof",
        ];
        let said = probity(place, &prove, 1);
        assert!(said.contains("anybody may have written it"), "{said}");
        let said = probity(place, &["upgrade", old, "new"], 1);
        assert!(said.contains("1 frame that no checkpoint covers"), "{said}");
        assert!(
            said.contains("anybody may have written them: copy the folder of the older log aside"),
            "{said}"
        );
        assert!(!place.join("new").exists());
    }
}
