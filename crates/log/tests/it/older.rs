//! Logs of version 2, which an earlier release wrote: read, verified and proved as before, and
//! never written to.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and copies its log"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::Version;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamName};

/// Logs of 18 entries in two openings: sections, sections of subjects, whole frames with LZ4.
const LOGS: [&str; 3] = ["section", "erasable", "lz4"];

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v2")
}

fn root(log: &str) -> RootKey {
    let text = fs::read_to_string(testdata().join(format!("{log}.key"))).unwrap();
    RootKey::from_text(&text).unwrap()
}

#[test]
fn a_log_of_version_2_is_intact_with_and_without_its_root_key() {
    for log in LOGS {
        for root in [None, Some(root(log))] {
            let options = VerifyOptions {
                root,
                ..VerifyOptions::default()
            };
            let report = verify(&testdata().join(log), &options).unwrap();
            assert!(report.is_intact(), "{log}: {:?}", report.faults);
            assert_eq!(report.streams[1].entries, 18, "{log}");
        }
    }
}

#[test]
fn a_log_of_version_2_gives_back_what_was_written() {
    for log in LOGS {
        let reader = Reader::open(&testdata().join(log), &root(log)).unwrap();
        let mut found = Vec::new();
        reader
            .read::<LogError>(&Filter::default(), &mut |entry| {
                let entry = &entry.entry;
                let key = String::from_utf8(entry.key.to_vec()).unwrap();
                found.push((
                    key,
                    entry.subjects.as_joined().to_owned(),
                    entry.payload.len(),
                ));
                Ok(())
            })
            .unwrap();
        let expected: Vec<_> = (1..=6)
            .flat_map(|number| {
                [
                    (format!("user:{number}:email"), "anna\nbert".to_owned(), 2),
                    (format!("user:{number}"), format!("carl{number}"), 0),
                    (String::new(), String::new(), 0),
                ]
            })
            .collect();
        assert_eq!(found, expected, "{log}");
    }
}

#[test]
fn an_entry_of_a_log_of_version_2_is_proved() {
    for log in LOGS {
        let reader = Reader::open(&testdata().join(log), &root(log)).unwrap();
        let geometry = fs::read_to_string(testdata().join(log).join("probity.toml")).unwrap();
        let geometry = Geometry::parse(&geometry).unwrap();
        for index in 0..18 {
            let made = reader.prove(&StreamName::default(), index, None).unwrap();
            let proved = made.proof.check(geometry.anchor()).unwrap();
            assert_eq!(proved.index, index, "{log}");
        }
    }
}

#[test]
fn a_log_of_version_2_is_not_written_to() {
    let copy = tempfile::tempdir().unwrap();
    for log in LOGS {
        let place = copy.path().join(log);
        copy_folder(&testdata().join(log), &place);
        let refused = Log::open(&place, &root(log), Options::default()).unwrap_err();
        assert!(
            matches!(refused, LogError::OlderVersion { found } if found == Version::V2),
            "{refused}"
        );
        let report = verify(&place, &VerifyOptions::default()).unwrap();
        assert!(report.is_intact(), "{log}: {:?}", report.faults);
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let place = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_folder(&file.path(), &place);
        } else {
            fs::copy(file.path(), place).unwrap();
        }
    }
}
