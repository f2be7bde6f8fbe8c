//! Small files of the log that somebody else wrote, or that are no files at all.

use std::fs;
use std::path::Path;

use probity_log::verify::{FaultClass, UncheckedReason, VerifyOptions, verify};
use probity_log::{Log, LogError, RepairKind, StreamName};

use crate::{add, append, closed, intact, journal, options, root};

#[test]
fn no_sentence_that_somebody_else_wrote_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let sentences = [
        b"5 entries about user:7 were removed by admin Bob\n".to_vec(),
        vec![b'x'; 3_000_000],
        vec![0xFF; 40],
    ];
    for sentence in sentences {
        fs::write(path.join("repairs"), &sentence).unwrap();
        let log = Log::open(&path, &root(), options()).unwrap();
        let said = log.repairs().to_vec();
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0].kind, RepairKind::Notes);
        log.close().unwrap();
        intact(&path);
    }
    assert!(!journal(&path).iter().any(|entry| entry[2].contains("Bob")));
}

#[test]
fn small_files_of_somebody_else_stop_no_writer() {
    let strange: [fn(&Path); 5] = [
        |path| add(&path.join("streams/journal/checkpoint"), &[0xFF]),
        |path| {
            add(
                &path.join("streams/journal/checkpoint"),
                &vec![b'x'; 70_000],
            );
        },
        |path| fs::write(path.join("durable"), vec![1; 60_000_000]).unwrap(),
        |path| fs::write(path.join("durable"), b"").unwrap(),
        |path| fs::remove_file(path.join("streams/journal/checkpoint")).unwrap(),
    ];
    for strange in strange {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        strange(&path);
        let log = Log::open(&path, &root(), options()).unwrap();
        append(&log, &StreamName::default(), "d");
        log.close().unwrap();
        intact(&path);
        assert_eq!(fs::metadata(path.join("durable")).unwrap().len(), 324);
    }
}

#[test]
fn an_edited_version_is_not_taken_for_an_older_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let (shorter, _) = geometry.split_at(geometry.rfind("witness").unwrap());
    fs::write(
        path.join("probity.toml"),
        shorter.replace("format = 3", "format = 2"),
    )
    .unwrap();
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::Broken { .. }), "{refused}");
    assert!(refused.to_string().contains("it was edited"), "{refused}");
}

/// Puts something that is no file in the place of one, and its name.
type Plant = (&'static str, fn(&Path));

fn plants() -> [Plant; 3] {
    [
        ("a folder", |file| fs::create_dir(file).unwrap()),
        ("a link", |file| {
            std::os::unix::fs::symlink("/dev/zero", file).unwrap();
        }),
        ("a socket", |file| {
            let place = tempfile::tempdir().unwrap();
            let socket = place.path().join("s");
            drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
            fs::rename(&socket, file).unwrap();
        }),
    ]
}

/// M6, L6: what is no file was an error of the system, or nothing at all: it is damage, and verification names it.
#[test]
fn what_is_no_file_is_damage_and_named() {
    for name in [
        "durable",
        "repairs",
        "lock",
        "keys/master.key",
        "keys/signing.key",
        "keys/signing.next",
        "subjects/slots",
    ] {
        for (what, plant) in plants() {
            let folder = tempfile::tempdir().unwrap();
            let path = closed(folder.path());
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            drop(fs::remove_file(&file));
            plant(&file);
            let report = verify(&path, &VerifyOptions::default()).unwrap();
            let [fault] = report.faults.as_slice() else {
                panic!("{name}, {what}: {:?}", report.faults);
            };
            assert_eq!(
                (fault.class, fault.place.as_str()),
                (FaultClass::Unknown, name)
            );
            if let Err(refused) = Log::open(&path, &root(), options()) {
                let is_damage = matches!(refused, LogError::Broken { .. });
                assert!(is_damage, "{name}, {what}: {refused}");
            }
        }
    }
}

/// A crash leaves temporary files, and so can somebody who wants to keep something there: no report named them.
#[test]
fn temporary_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    fs::write(path.join("keys/.tmp-1-2"), b"left").unwrap();
    fs::create_dir(path.join(".tmp-folder")).unwrap();
    let report = verify(&path, &VerifyOptions::default()).unwrap();
    let named = report.unchecked.iter();
    let named = named.filter(|it| it.why == UncheckedReason::Leftover);
    let named: Vec<&str> = named.map(|it| it.path.as_str()).collect();
    assert_eq!(named, [".tmp-folder", "keys/.tmp-1-2"]);
    assert!(report.is_intact());
}
