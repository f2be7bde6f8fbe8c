//! Every command that reads with the root key, over what verification with that key finds in the
//! folder of the log beside its streams.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::keys::RootKey;
use probity_format::slot::slot_bytes;
use probity_log::{Log, Options};

use crate::{Place, copy, flip};

/// The commands that read with the root key. The second entry to be proved stands under a head that
/// an older key signed, and the third does not exist.
const READERS: [&[&str]; 8] = [
    &["export", "audit", "--format", "jsonl"],
    &["export", "audit", "--format", "jsonl", "--damaged-too"],
    &["subject", "export", "audit", "alice", "--pocket", "hers"],
    &["prove", "audit", "--index", "119", "-o", "proof"],
    &[
        "prove", "audit", "--stream", "people", "--index", "0", "-o", "proof",
    ],
    &["prove", "audit", "--index", "400", "-o", "proof"],
    &["stream", "list", "audit"],
    &["disguise", "replay", "--log", "audit", "--dry-run"],
];

type Statuses = [i32; READERS.len()];

/// All is well. The log has no operation of the database, which a replay says by its status.
const SOUND: Statuses = [0, 0, 0, 0, 0, 1, 0, 4];
/// The status of `verify` with the root key, whatever is read.
const REFUSED: Statuses = [3; READERS.len()];
/// The stream with the key of `alice` is damaged, and no other.
const OF_PEOPLE: Statuses = [3, 3, 3, 0, 3, 1, 0, 3];
/// No head can be signed again, and the rest is well.
const UNSIGNING: Statuses = [0, 0, 0, 0, 1, 1, 0, 4];

/// Statuses of the commands in [`READERS`], and the messages of each.
fn ends(place: &Place) -> (Statuses, Vec<String>) {
    let mut said = Vec::new();
    let statuses = READERS.map(|args| {
        let output = place.program(args, "");
        said.push(String::from_utf8_lossy(&output.stderr).into_owned());
        for left in ["hers", "hers.root", "proof"] {
            drop(fs::remove_file(place.path(left)));
        }
        output.status.code().unwrap()
    });
    (statuses, said)
}

fn verify(place: &Place) -> (Option<i32>, String) {
    let output = place.program(&["verify", "audit", "--key", "audit.key"], "");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (output.status.code(), said)
}

/// A place with people of whom one was erased, an older copy of the log in `older`, and another log
/// of the same root key in `other`.
fn place() -> Place {
    let place = Place::new();
    let append = |args: &[&str], who| {
        let line = format!("{{\"action\":\"read\",\"key\":\"k\",\"subject\":\"{who}\"}}\n");
        place.run(&[&["append", "audit"], args].concat(), 0, &line);
    };
    let people = ["stream", "create", "audit", "people", "--erasable"];
    place.run(&people, 0, "");
    for who in ["alice", "bob", "eve"] {
        append(&["--stream", "people"], who);
    }
    for (from, to) in [("audit", "older"), ("audit.heads", "older.heads")] {
        copy(&place.path(from), &place.path(to));
    }
    let root = RootKey::from_text(&fs::read_to_string(place.path("audit.key")).unwrap()).unwrap();
    let log = Log::open(&place.path("audit"), &root, Options::default()).unwrap();
    log.erase("eve").unwrap().unwrap();
    log.close().unwrap();
    append(&[], "alice");
    fs::copy(place.path("audit.key"), place.path("other.key")).unwrap();
    let other = place.path("other");
    let config = probity_log::StreamConfig::default();
    let created = Log::create(
        &other,
        "example.com/other",
        &root,
        config,
        Options::default(),
    );
    created.unwrap().close().unwrap();
    place
}

/// Puts the older copy back, except for the parts `but` of it.
fn put_back(log: &Path, but: &[&str]) {
    let kept: Vec<(PathBuf, PathBuf)> = but
        .iter()
        .map(|part| (log.join(part), log.with_file_name(part.replace('/', "-"))))
        .collect();
    for (from, to) in &kept {
        fs::rename(from, to).unwrap();
    }
    fs::remove_dir_all(log).unwrap();
    copy(&log.with_file_name("older"), log);
    for (from, to) in kept {
        if from.is_dir() {
            fs::remove_dir_all(&from).unwrap();
        }
        fs::rename(to, from).unwrap();
    }
    let heads = log.with_file_name("audit.heads");
    fs::remove_dir_all(&heads).unwrap();
    copy(&log.with_file_name("older.heads"), &heads);
}

fn of(log: &Path, folder: &str, part: &str) {
    fs::copy(log.with_file_name(folder).join(part), log.join(part)).unwrap();
}

fn gone(log: &Path, part: &str) {
    fs::remove_file(log.join(part)).unwrap();
}

fn folder(log: &Path, part: &str) {
    drop(fs::remove_file(log.join(part)));
    fs::create_dir(log.join(part)).unwrap();
}

/// Changes the bytes of one slot.
fn slot(log: &Path, number: usize, change: fn(&mut [u8])) {
    let file = log.join("subjects/slots");
    let mut bytes = fs::read(&file).unwrap();
    let size = slot_bytes(probity_format::Version::NEWEST);
    change(&mut bytes[size * number..][..size]);
    fs::write(file, bytes).unwrap();
}

/// A change, and the status of each command in [`READERS`] after it.
type Change = (&'static str, fn(&Path), Statuses);

/// Changes of which verification with the root key says that the log is broken. Where a command
/// ends otherwise, `docs/trust.md`, "Readers", has the reason.
const CHANGES: [Change; 27] = [
    (
        "an older signing key",
        |log| of(log, "older", "keys/signing.key"),
        REFUSED,
    ),
    ("newer keys", |log| put_back(log, &["keys"]), REFUSED),
    ("newer notes", |log| put_back(log, &["durable"]), REFUSED),
    ("no geometry", |log| gone(log, "probity.toml"), REFUSED),
    (
        "a foreign geometry",
        |log| of(log, "other", "probity.toml"),
        REFUSED,
    ),
    ("no master key", |log| gone(log, "keys/master.key"), REFUSED),
    (
        "a foreign master key",
        |log| of(log, "other", "keys/master.key"),
        REFUSED,
    ),
    (
        "no keys",
        |log| fs::remove_dir_all(log.join("keys")).unwrap(),
        REFUSED,
    ),
    (
        "a folder of slots",
        |log| folder(log, "subjects/slots"),
        REFUSED,
    ),
    (
        "a changed copy of the journal's head",
        |log| {
            flip(log.with_file_name("audit.heads").join("journal"), |_| 30);
        },
        REFUSED,
    ),
    (
        "a foreign key beside the journal",
        |log| {
            of(log, "other", "streams/journal/log.vkey");
        },
        REFUSED,
    ),
    ("no slots", |log| gone(log, "subjects/slots"), OF_PEOPLE),
    (
        "a changed slot",
        |log| slot(log, 0, |bytes| bytes[40] ^= 1),
        OF_PEOPLE,
    ),
    (
        "a slot without key",
        |log| slot(log, 0, |bytes| bytes[24..].fill(0)),
        OF_PEOPLE,
    ),
    (
        "a slot of zeros",
        |log| slot(log, 0, |bytes| bytes.fill(0)),
        OF_PEOPLE,
    ),
    (
        "a changed frame of one stream",
        |log| {
            flip(
                log.join("streams/people/segments/00000000000000000000.seg"),
                |_| 100,
            );
        },
        OF_PEOPLE,
    ),
    (
        "a key of the erased",
        |log| slot(log, 2, |bytes| bytes[40] ^= 1),
        SOUND,
    ),
    (
        "no name of the erased",
        |log| slot(log, 2, |bytes| bytes.fill(0)),
        SOUND,
    ),
    (
        "no signing key",
        |log| gone(log, "keys/signing.key"),
        UNSIGNING,
    ),
    (
        "a foreign signing key",
        |log| of(log, "other", "keys/signing.key"),
        UNSIGNING,
    ),
    (
        "a folder of a signing key",
        |log| folder(log, "keys/signing.key"),
        [0, 0, 0, 0, 3, 1, 0, 4],
    ),
    ("no witness key", |log| gone(log, "keys/witness.key"), SOUND),
    (
        "a foreign witness key",
        |log| of(log, "other", "keys/witness.key"),
        SOUND,
    ),
    ("a folder of notes", |log| folder(log, "durable"), SOUND),
    ("a folder of repairs", |log| folder(log, "repairs"), SOUND),
    ("a folder of gaps", |log| folder(log, "missed"), SOUND),
    ("a folder of a lock", |log| folder(log, "lock"), SOUND),
];

/// Everything was put back to an older copy except `keys/`. `verify` and `append` ended with 3; an
/// export was a part of the entries with status 0, and a proof ended with 0 or 1.
#[test]
fn an_older_copy_beside_newer_keys_is_told_by_every_command() {
    let place = place();
    fs::write(place.path("none"), b"").unwrap();
    for has_copies in [true, false] {
        let older = |log: &Path| {
            put_back(log, &["keys"]);
            if !has_copies {
                fs::remove_dir_all(log.with_file_name("audit.heads")).unwrap();
            }
        };
        place.changed(older, |place| {
            let fault = "keys/signing.key: is not the signing key that the journal certified last";
            let (status, said) = verify(place);
            assert!(status == Some(3) && said.contains(fault), "{said}");
            let (statuses, said) = ends(place);
            assert_eq!(statuses, REFUSED, "{said:?}");
            for said in said {
                assert!(said.contains(fault), "{said}");
            }
            let damaged = place.run(READERS[1], 3, "").0;
            assert_eq!(damaged.lines().count(), 123);
            let (_, said) = place.run(&["append", "audit", "none"], 3, "");
            assert!(said.contains(fault), "{said}");
        });
    }
    assert_eq!(ends(&place).0, SOUND);
}

/// Of what verification with the root key found outside the streams, other commands had looked at
/// some things and not at others, and nothing said at which.
#[test]
fn what_verification_with_the_root_key_finds_stops_every_reader_that_it_concerns() {
    let place = place();
    assert_eq!(ends(&place).0, SOUND);
    assert_eq!(verify(&place).0, Some(4));
    for (name, make, statuses) in CHANGES {
        place.changed(make, |place| {
            let (status, said) = verify(place);
            assert_eq!(status, Some(3), "{name}: {said}");
            let (found, said) = ends(place);
            assert_eq!(found, statuses, "{name}: {said:?}");
        });
    }
}

/// A copy without the keys that sign is for people who read the log and do not write it.
#[test]
fn a_copy_without_the_keys_that_sign_is_read_like_the_log() {
    let place = place();
    let whole = place.run(READERS[0], 0, "").0;
    let without = |log: &Path| {
        for key in ["signing.key", "witness.key"] {
            gone(log, &format!("keys/{key}"));
        }
    };
    place.changed(without, |place| {
        assert_eq!(ends(place).0, UNSIGNING);
        assert_eq!(place.run(READERS[0], 0, "").0, whole);
        place.run(&["verify", "audit"], 0, "");
    });
    let keyless = |log: &Path| fs::remove_dir_all(log.join("keys")).unwrap();
    place.changed(keyless, |place| {
        place.run(&["verify", "audit"], 0, "");
        place.run(&["verify", "audit", "--key", "audit.vkey"], 0, "");
    });
}
