//! Slots of subjects that the journal does not count yet: entries with a receipt depend on them
//! alone.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

mod given_up;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::entry::idempotency_digest;
use probity_format::keys::{RootKey, Secret};
use probity_format::slot::SLOT_BYTES;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::prove::ProveError;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify};
use probity_log::{Durability, Log, LogError, Options, Repair, StreamConfig, StreamName};

const SLOTS: &str = "subjects/slots";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Nothing is signed for until the log is closed.
fn options() -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    }
}

fn append(log: &Log, subjects: &str) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: Subjects::joined(subjects),
        payload: b"content",
        ..Entry::new(time, "read", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
}

/// Appends an entry with an idempotency key, for which the writer reads back what it has.
fn append_once(log: &Log, subject: &str) {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let key = idempotency_digest("once").unwrap();
    let entry = Entry {
        subjects: Subjects::joined(subject),
        idempotency: Some(&key),
        ..Entry::new(time, "read", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
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

/// A killed log with a signed entry about anna, and unsigned entries with receipts about bert and
/// carl.
fn killed(folder: &Path) -> PathBuf {
    killed_with(folder, &["bert", "carl"])
}

/// A killed log with a signed entry about anna, and unsigned entries with receipts about each of
/// `unsigned`.
fn killed_with(folder: &Path, unsigned: &[&str]) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    let log = Log::create(&path, "example.com/log", &root(), config, options()).unwrap();
    append(&log, "anna");
    log.close().unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for subjects in unsigned {
        append(&log, subjects);
    }
    let killed = folder.join("killed");
    copy(&path, &killed);
    copy(&folder.join("log.heads"), &folder.join("killed.heads"));
    log.close().unwrap();
    killed
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status();
    assert!(copied.unwrap().success());
}

fn verified(path: &Path) -> Report {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

fn subjects(path: &Path) -> Result<Vec<String>, LogError> {
    let mut found = Vec::new();
    Reader::open(path, &root())?.read::<LogError>(&Filter::default(), &mut |entry| {
        found.push(entry.entry.subjects.as_joined().to_owned());
        Ok(())
    })?;
    Ok(found)
}

/// Every file below `folder` but the lock, with its content.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

type Damage = fn(&mut Vec<u8>);

fn damages() -> [(&'static str, Damage); 5] {
    [
        ("cut off", |slots| slots.truncate(2 * SLOT_BYTES)),
        ("cut in half", |slots| slots.truncate(2 * SLOT_BYTES + 100)),
        ("cut to the one that was signed for", |slots| {
            slots.truncate(SLOT_BYTES);
        }),
        ("zeros", |slots| {
            slots.split_at_mut(2 * SLOT_BYTES).1.fill(0);
        }),
        ("a flipped bit", |slots| {
            *slots.get_mut(2 * SLOT_BYTES + 60).unwrap() ^= 1;
        }),
    ]
}

fn damage(path: &Path, damage: Damage) -> Vec<u8> {
    let mut slots = fs::read(path.join(SLOTS)).unwrap();
    let good = slots.clone();
    assert_eq!(slots.len(), 3 * SLOT_BYTES);
    damage(&mut slots);
    fs::write(path.join(SLOTS), &slots).unwrap();
    good
}

/// Verification with the root key found no fault. The next opening reused the number of the slot
/// for another subject and signed both. The right file was refused from then on, and entries with
/// receipts were lost for good.
#[test]
fn a_slot_that_durable_entries_need_is_missed_before_anything_is_signed() {
    for (name, harm) in damages() {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let good = damage(&path, harm);
        let report = verified(&path);
        let [fault, ..] = report.faults.as_slice() else {
            panic!("{name}: intact");
        };
        assert_eq!(fault.class, FaultClass::Content, "{name}: {fault}");
        assert!(fault.detail.contains("no signed erasure"), "{fault}");
        let unread = subjects(&path);
        assert!(matches!(unread, Err(LogError::Damaged { .. })), "{name}");
        let before = content(&path);
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        let is_refused = matches!(refused, LogError::KeysLost { .. });
        assert!(is_refused, "{name}: {refused}");
        assert!(refused.to_string().contains("from a backup"), "{refused}");
        assert!(
            content(&path) == before,
            "{name}: the opening changed files"
        );
        fs::write(path.join(SLOTS), good).unwrap();
        assert_eq!(verified(&path).faults, [], "{name}");
        let log = Log::open(&path, &root(), options()).unwrap();
        append(&log, "dora");
        log.close().unwrap();
        assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl", "dora"]);
        assert_eq!(verified(&path).faults, [], "{name}");
    }
}

/// The number of a lost slot went to the next subject, so that two subjects had one number, in two
/// copies of the file. An accepted loss is recorded for good, and the number stays without a
/// subject. But verification reported damage each time all the same, and entries with an
/// idempotency key were refused for ever.
#[test]
fn an_accepted_loss_of_a_key_is_signed_and_its_slot_is_given_to_nobody() {
    for (name, harm) in damages() {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        damage(&path, harm);
        let damaged = fs::read(path.join(SLOTS)).unwrap();
        let options = Options {
            accept_loss: true,
            ..options()
        };
        let log = Log::open(&path, &root(), options).unwrap();
        let said: Vec<String> = log.repairs().iter().map(Repair::line).collect();
        assert!(
            said.iter().any(|it| it.starts_with("closed default ")),
            "{name}: {said:?}"
        );
        append(&log, "dora");
        append(&log, "carl");
        log.close().unwrap();
        // The loss is recorded for good, and is no fault: readers leave the entry out, and are told of it.
        let report = verified(&path);
        assert_eq!(report.losses.len(), 1, "{name}");
        assert_eq!(report.faults, [], "{name}");
        let left = subjects(&path).unwrap();
        let (left, new) = left.split_at(left.len() - 2);
        assert_eq!(new, ["dora", "carl"], "{name}");
        let whole = left == ["anna", "bert"];
        assert!(whole || left == ["anna"], "{name}: {left:?}");
        let reader = Reader::open(&path, &root()).unwrap();
        let losses: Vec<Repair> = reader.losses().cloned().collect();
        assert_eq!(losses, report.losses, "{name}");
        let damage = reader.read_damaged(&Filter::default(), &mut |_| Ok::<_, LogError>(()));
        assert!(damage.unwrap().is_none(), "{name}");
        let slots = fs::read(path.join(SLOTS)).unwrap();
        let third = slots.chunks_exact(SLOT_BYTES).nth(2).unwrap();
        assert!(third.iter().all(|byte| *byte == 0), "{name}: given away");
        if name == "a flipped bit" {
            let kept = format!("set-aside/subjects-slots-{}-0", 2 * SLOT_BYTES);
            let kept = fs::read(path.join(kept)).unwrap();
            assert_eq!(kept, damaged.split_at(2 * SLOT_BYTES).1);
        }
        let log = Log::open(&path, &root(), crate::options()).unwrap();
        assert_eq!(log.repairs(), [], "{name}");
        append_once(&log, "erik");
        log.close().unwrap();
    }
}

/// A slot that the journal did not count, with a later one behind it, was damage that nobody could
/// accept: the log opened no more.
#[test]
fn the_loss_of_any_uncounted_key_can_be_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |slots| {
        *slots.get_mut(SLOT_BYTES + 60).unwrap() ^= 1;
    });
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(refused.to_string().contains("from a backup"), "{refused}");
    accept(&path).close().unwrap();
    assert_eq!(verified(&path).faults, []);
    assert_eq!(subjects(&path).unwrap(), ["anna", "carl"]);
    fs::write(path.join(SLOTS), good).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl"]);
}

fn accept(path: &Path) -> Log {
    let options = Options {
        accept_loss: true,
        ..options()
    };
    Log::open(path, &root(), options).unwrap()
}

/// A proof of an entry whose loss was accepted failed as if the log were damaged, and advised to
/// put an earlier copy of the keys back. That stopped every writer for good.
#[test]
fn an_entry_that_was_given_up_is_called_so_by_a_proof() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |slots| slots.truncate(2 * SLOT_BYTES));
    let stream = StreamName::default();
    let prove = |index| {
        let reader = Reader::open(&path, &root()).unwrap();
        let proved = reader.prove(&stream, index, None);
        proved.map(|proof| proof.proved.index)
    };
    accept(&path).close().unwrap();
    assert_eq!(verified(&path).faults, []);
    assert_eq!(prove(1).unwrap(), 1);
    let refused = prove(2).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("given up"), "{text}");
    assert!(text.contains("accepted at 20"), "{text}");
    assert!(!text.contains("backup"), "{text}");
    // Put back behind a later subject, the earlier copy is refused. The advice spares the keys made
    // since.
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, "dora");
    log.close().unwrap();
    let newest = fs::read(path.join(SLOTS)).unwrap();
    fs::write(path.join(SLOTS), good).unwrap();
    for text in [
        Log::open(&path, &root(), options())
            .unwrap_err()
            .to_string(),
        format!("{:?}", verified(&path).faults),
    ] {
        assert!(text.contains("before a loss was accepted"), "{text}");
        assert!(text.contains("copy the present folder aside"), "{text}");
        assert!(!text.contains("from a backup"), "{text}");
    }
    fs::write(path.join(SLOTS), newest).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(verified(&path).faults, []);
}

/// Keys that were given up are taken back as long as they are the only ones of their subjects: a
/// key that was made since is never exchanged for an earlier one.
#[test]
fn keys_given_up_are_taken_back_unless_a_subject_was_added_since() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |slots| slots.truncate(2 * SLOT_BYTES));
    accept(&path).close().unwrap();
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert"]);
    // Nobody else was added. An erasure since is not undone.
    let later = folder.path().join("later");
    copy(&path, &later);
    copy(
        &folder.path().join("killed.heads"),
        &folder.path().join("later.heads"),
    );
    let log = Log::open(&later, &root(), options()).unwrap();
    log.erase("bert").unwrap();
    log.close().unwrap();
    fs::write(later.join(SLOTS), &good).unwrap();
    let told = format!("{:?}", verified(&later).faults);
    assert!(told.contains("an opening for writing takes"), "{told}");
    let log = Log::open(&later, &root(), options()).unwrap();
    append(&log, "carl");
    log.close().unwrap();
    assert_eq!(verified(&later).faults, []);
    let read = subjects(&later).unwrap();
    assert_eq!(
        read.iter().filter(|it| *it == "carl").count(),
        2,
        "{read:?}"
    );
    assert!(!read.iter().any(|it| it == "bert"), "{read:?}");
    // Carl has another key by now, in a slot that the journal names, or does not name yet.
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, "carl");
    let unnamed = folder.path().join("unnamed");
    copy(&path, &unnamed);
    copy(
        &folder.path().join("killed.heads"),
        &folder.path().join("unnamed.heads"),
    );
    log.close().unwrap();
    for path in [path, unnamed] {
        let newest = fs::read(path.join(SLOTS)).unwrap();
        let mut both = newest.clone();
        both.get_mut(..good.len()).unwrap().copy_from_slice(&good);
        for slots in [&good, &both] {
            fs::write(path.join(SLOTS), slots).unwrap();
            let before = content(&path);
            // Verification said that no subject was added since, and that an opening would take
            // them back.
            let told = format!("{:?}", verified(&path).faults);
            assert!(told.contains("copy the present folder aside"), "{told}");
            for accept_loss in [false, true] {
                let options = Options {
                    accept_loss,
                    ..options()
                };
                let refused = Log::open(&path, &root(), options).unwrap_err().to_string();
                assert!(
                    refused.contains("copy the present folder aside"),
                    "{refused}"
                );
                assert!(content(&path) == before, "the opening changed files");
            }
        }
        fs::write(path.join(SLOTS), newest).unwrap();
        Log::open(&path, &root(), options())
            .unwrap()
            .close()
            .unwrap();
        assert_eq!(verified(&path).faults, []);
        assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl"]);
    }
}

/// Nothing said that an index without an entry may be of a frame whose loss was accepted.
#[test]
fn a_proof_of_an_entry_behind_the_last_names_the_frames_that_were_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let segment = path.join("streams/default/segments/00000000000000000000.seg");
    let whole = fs::read(&segment).unwrap();
    fs::write(&segment, whole.split_at(whole.len() - 9).0).unwrap();
    accept(&path).close().unwrap();
    let reader = Reader::open(&path, &root()).unwrap();
    let refused = reader.prove(&StreamName::default(), 2, None).err().unwrap();
    assert!(matches!(refused, ProveError::NoEntry { .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("1 frame that had been durable lost, from frame 2 on"),
        "{text}"
    );
    assert!(text.contains("accepted at 20"), "{text}");
}

/// The copy of a subject whose key was there was given up with that of the other subject.
#[test]
fn who_has_a_key_is_read_beside_those_whose_keys_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed_with(folder.path(), &["anna\ncarl", "carl"]);
    let mut slots = fs::read(path.join(SLOTS)).unwrap();
    slots.truncate(SLOT_BYTES);
    fs::write(path.join(SLOTS), slots).unwrap();
    let seen = |subject: Option<&str>| {
        let reader = Reader::open(&path, &root()).unwrap();
        let filter = Filter {
            subject: subject.map(str::to_owned),
            ..Filter::default()
        };
        let mut found = Vec::new();
        let damage = reader.read_damaged::<LogError>(&filter, &mut |entry| {
            let names = entry.entry.subjects.as_joined().to_owned();
            found.push((
                entry.index,
                names,
                entry.closed.subjects,
                entry.missing.subjects,
            ));
            Ok(())
        });
        (found, damage.unwrap())
    };
    let annas = [(0, "anna".to_owned(), 0, 0), (1, "anna".to_owned(), 0, 1)];
    // Damage, as long as nobody accepted it.
    assert!(matches!(subjects(&path), Err(LogError::Damaged { .. })));
    let (found, damage) = seen(Some("anna"));
    assert_eq!(found, annas);
    let (found, damage_of_all) = seen(None);
    assert_eq!(found, annas);
    // All of hers are read, and one lacks somebody.
    let gaps: Vec<u64> = damage.gaps.iter().map(|it| it.missing.entries).collect();
    assert_eq!(gaps, [0], "{damage:?}");
    assert!(!damage_of_all.is_none());
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    let LogError::KeysLost { subjects: 1, .. } = refused else {
        panic!("{refused}");
    };
    accept(&path).close().unwrap();
    assert_eq!(verified(&path).faults, []);
    assert_eq!(subjects(&path).unwrap(), ["anna", "anna"]);
    for subject in [None, Some("anna")] {
        let (found, damage) = seen(subject);
        assert_eq!(found, annas);
        assert!(damage.is_none());
    }
    let reader = Reader::open(&path, &root()).unwrap();
    let proof = reader.prove(&StreamName::default(), 1, None).unwrap();
    assert_eq!((proof.proved.closed.subjects, proof.missing), (1, 1));
    let refused = reader.prove(&StreamName::default(), 2, None).err().unwrap();
    assert!(refused.to_string().contains("given up"), "{refused}");
}

/// A long file of slots, made of holes, cost its maker nothing and delayed every command by its
/// length: a tebibyte of holes by half an hour.
#[test]
fn a_file_of_slots_without_end_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    log.close().unwrap();
    let slots = fs::OpenOptions::new().write(true).open(path.join(SLOTS));
    let slots = slots.unwrap();
    let whole = slots.metadata().unwrap().len();
    slots.set_len(1 << 40).unwrap();
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let faults = verify(&path, &options).unwrap().faults;
        let places = faults.iter().map(|fault| (fault.class, &*fault.place));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [(FaultClass::Content, SLOTS)],
            "{faults:?}"
        );
    }
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl"]);
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(refused.to_string().contains("no writer"), "{refused}");
    slots.set_len(whole).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert!(verified(&path).is_intact());
}

/// The journal names the slots from time to time, whatever is published, so that a file with
/// foreign slots can be detected.
#[test]
fn the_journal_names_slots_before_they_are_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    let log = Log::create(&path, "example.com/log", &root(), config, options()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let many = (1 << 16) + 10;
    for number in 0..many {
        let subject = number.to_string();
        let entry = Entry {
            subjects: Subjects::joined(&subject),
            ..Entry::new(time, "read", b"key")
        };
        appender.append(&entry).unwrap();
    }
    appender.flush().unwrap();
    let mut named = Vec::new();
    let journal = Filter {
        stream: Some(StreamName::journal()),
        ..Filter::default()
    };
    let reader = Reader::open(&path, &root()).unwrap();
    reader
        .read::<LogError>(&journal, &mut |found| {
            if found.entry.action == "subjects" {
                let count = String::from_utf8(found.entry.key.to_vec()).unwrap();
                named.push(count.parse::<u64>().unwrap());
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named.iter().all(|count| *count >= 1 << 16), "{named:?}");
    log.close().unwrap();
    assert!(verified(&path).is_intact());
}
