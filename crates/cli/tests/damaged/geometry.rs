//! A log of which nothing readable says what it is, is a damaged log and no empty place.

use std::fs;
use std::path::Path;

use crate::{Place, is_safe};

/// A change that somebody makes to a file, and its name.
type Edit = (&'static str, fn(&Path));

/// The changes that somebody makes to the geometry.
const EDITS: [Edit; 9] = [
    ("an older format", |file| edit(file, "format = 1")),
    ("a newer format", |file| edit(file, "format = 4")),
    ("the other format", |file| edit(file, "format = 2")),
    ("no text", |file| fs::write(file, b"\xff").unwrap()),
    ("garbage", |file| fs::write(file, b"garbage").unwrap()),
    ("nothing in it", |file| fs::write(file, b"").unwrap()),
    ("no file", |file| fs::remove_file(file).unwrap()),
    ("a folder", |file| {
        fs::remove_file(file).unwrap();
        fs::create_dir(file).unwrap();
    }),
    ("a link", |file| {
        fs::rename(file, file.with_file_name("moved")).unwrap();
        std::os::unix::fs::symlink("moved", file).unwrap();
    }),
];

fn edit(file: &Path, line: &str) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("format = 3", line)).unwrap();
}

/// M5: it was "not a log, create one", or of a version that another program knows, and the status was 1.
#[test]
fn a_log_without_a_sound_geometry_is_damaged_and_nobody_is_told_to_begin_anew() {
    let place = Place::new();
    fs::write(place.path("none"), b"").unwrap();
    for (name, make) in EDITS {
        place.changed(
            |log| make(&log.join("probity.toml")),
            |place| {
                for command in [
                    &["verify", "audit"][..],
                    &["verify", "audit", "--key", "audit.vkey"],
                    &["verify", "audit", "--key", "audit.key"],
                    &["append", "audit", "none"],
                    &["export", "audit", "--format", "jsonl"],
                    &["keys", "status", "audit"],
                    &["stream", "list", "audit"],
                    &["prove", "audit", "--index", "0", "-o", "proof"],
                    &[
                        "check-receipts",
                        "none",
                        "--log",
                        "audit",
                        "--key",
                        "audit.vkey",
                    ],
                ] {
                    let output = place.program(command, "");
                    let error = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert_eq!(
                        output.status.code(),
                        Some(3),
                        "{name}, {command:?}: {error}"
                    );
                    is_safe(&error, name);
                }
                let output = place.program(&["init", "audit"], "");
                assert_eq!(output.status.code(), Some(1), "{name}");
                let error = String::from_utf8_lossy(&output.stderr).into_owned();
                is_safe(&error, name);
                assert!(!place.path("audit/streams/default/new").exists());
            },
        );
    }
    // An empty place has nothing damaged.
    fs::create_dir(place.path("empty")).unwrap();
    for nowhere in ["empty", "nowhere", "app.db"] {
        place.run(&["verify", nowhere], 1, "");
    }
}

/// With a damaged first frame of the journal, or without a journal, a log was none to `proxy
/// --init`, which advised to create one. Where the rest was gone too, it replaced the keys.
#[test]
fn no_proxy_begins_a_damaged_log_anew() {
    let damages: [Edit; 3] = [
        ("its first frame", |log| {
            let file = crate::journal(log);
            let mut bytes = fs::read(&file).unwrap();
            bytes[300] ^= 1;
            fs::write(file, bytes).unwrap();
        }),
        ("the journal", |log| {
            fs::remove_dir_all(log.join("streams/journal")).unwrap();
        }),
        ("all but a checkpoint", |log| {
            for name in ["streams/default", "streams/heads", "subjects"] {
                drop(fs::remove_dir_all(log.join(name)));
            }
            fs::remove_dir_all(log.join("streams/journal/tile")).unwrap();
            fs::remove_dir_all(log.with_extension("heads")).unwrap();
            let bytes = fs::read(crate::journal(log)).unwrap();
            fs::write(crate::journal(log), &bytes[..40]).unwrap();
        }),
    ];
    let place = Place::new();
    for (what, damage) in damages {
        place.changed(damage, |place| {
            let read = |name: &str| fs::read(place.path("audit").join(name)).unwrap();
            let before = ["keys/master.key", "probity.toml"].map(read);
            let store = ["--store", "store", "--listen", "127.0.0.1:0"];
            let proxy = ["proxy", "--log", "audit", "--init"];
            let (_, error) = place.run(&[&proxy[..], &store].concat(), 3, "");
            assert!(!error.contains("probity init"), "{what}: {error}");
            let after = ["keys/master.key", "probity.toml"].map(read);
            assert!(
                before == after,
                "{what}: a key or the geometry was replaced"
            );
        });
    }
}
