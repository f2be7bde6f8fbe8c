//! The reports of a verifier about one damage: it names the damaged part, and nothing else.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::slot::slot_bytes;
use probity_format::{Entry, Subjects, Timestamp, Version};
use probity_log::reader::{Filter, OwnedEntry, Reader};
use probity_log::verify::{Fault, FaultClass, Report, VerifyOptions, verify};
use probity_log::{
    Durability, Log, LogError, LogLocation, Options, Proofs, StreamConfig, StreamName, key_chain,
};

/// The offset of a frame's length.
const LENGTH_AT: usize = 4;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn options() -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    }
}

fn create(path: &Path) {
    let config = StreamConfig::default();
    Log::create(path, "example.com/log", &root(), config, options())
        .unwrap()
        .close()
        .unwrap();
}

/// Appends to `stream`, which is created if it is missing, in an opening of its own: with a signing
/// key of its own.
fn session(path: &Path, stream: &str, erased: Option<&str>) {
    let log = Log::open(path, &root(), options()).unwrap();
    let name = StreamName::new(stream).unwrap();
    let config = StreamConfig {
        proofs: Proofs::Entry,
        erasable: stream == "people",
        ..StreamConfig::default()
    };
    if stream != StreamName::default().as_str() {
        log.create_stream(&name, config).unwrap();
    }
    let mut appender = log.appender(&name).unwrap();
    for subject in ["ada", "bob"] {
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
        let entry = Entry {
            subjects: Subjects::joined(subject),
            ..Entry::new(time, "read", b"mail")
        };
        appender.append_durable(&entry).unwrap();
    }
    if let Some(subject) = erased {
        log.erase(subject).unwrap().unwrap();
    }
    drop(appender);
    log.close().unwrap();
}

/// A log of four streams in eight openings, with an erasure in the middle.
fn log(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    create(&path);
    for (stream, erased) in [
        ("default", None),
        ("people", None),
        ("other", None),
        ("people", Some("bob")),
        ("default", None),
        ("late", None),
        ("people", None),
        ("default", None),
    ] {
        session(&path, stream, erased);
    }
    path
}

fn verified(path: &Path, is_keyed: bool) -> Report {
    let options = VerifyOptions {
        root: is_keyed.then(root),
        jobs: 1,
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap()
}

fn faults(path: &Path, is_keyed: bool) -> Vec<Fault> {
    verified(path, is_keyed).faults
}

/// Class and place of each fault.
fn said(path: &Path, is_keyed: bool) -> Vec<(FaultClass, String)> {
    let faults = faults(path, is_keyed).into_iter();
    faults.map(|fault| (fault.class, fault.place)).collect()
}

fn segment(stream: &str) -> String {
    format!("streams/{stream}/segments/00000000000000000000.seg")
}

/// The offsets at which the frames of a segment end.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let (mut place, mut ends) = (SEGMENT_HEADER_BYTES, Vec::new());
    while place < bytes.len() {
        let length = bytes[place + LENGTH_AT..][..4].try_into().unwrap();
        place += usize::try_from(u32::from_le_bytes(length)).unwrap();
        ends.push(place);
    }
    ends
}

/// A damaged frame of the journal hid its streams, keys and erasures as well. Each was reported as
/// a fault of a stream, a key or a checkpoint that is whole.
#[test]
fn a_damaged_frame_of_journal_or_heads_accuses_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    for stream in ["journal", "heads"] {
        let file = path.join(segment(stream));
        let whole = fs::read(&file).unwrap();
        // A bit in a frame's content, and one in its last byte, without which all content can still
        // be read.
        for (frame, back) in (0..ends(&whole).len()).flat_map(|frame| [(frame, 40), (frame, 1)]) {
            let mut bytes = whole.clone();
            bytes[ends(&whole)[frame] - back] ^= 1;
            fs::write(&file, bytes).unwrap();
            for is_keyed in [false, true] {
                let report = verified(&path, is_keyed);
                let faults: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
                assert_eq!(
                    faults.len(),
                    1,
                    "{stream} {frame} {back} {is_keyed}: {faults:#?}"
                );
                let fault = &report.faults[0];
                assert_eq!(
                    (fault.class, fault.stream.as_str()),
                    (FaultClass::Frame, stream)
                );
                let unheard = format!("streams/{stream}, frame {frame}");
                let is_named = report.unchecked.iter().any(|found| found.path == unheard);
                assert_eq!(is_named, back > 1, "{unheard}: {:#?}", report.unchecked);
            }
        }
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(faults(&path, true), []);
}

/// The certificates up to the size claimed by the journal's checkpoint were handed out, for any
/// signer of that size. Recipients took the beginning of the chain for all of it.
#[test]
fn the_chain_of_keys_is_handed_out_by_a_sound_journal_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    let chain = || key_chain(&LogLocation::new(&path, None));
    let whole = chain().unwrap().len();
    assert!(whole >= 9, "{whole}");
    let checkpoint = path.join("streams/journal/checkpoint");
    let note = fs::read_to_string(&checkpoint).unwrap();
    for size in ["3", "99"] {
        let mut lines: Vec<&str> = note.split('\n').collect();
        lines[1] = size;
        fs::write(&checkpoint, lines.join("\n")).unwrap();
        let refused = chain().err().unwrap();
        assert!(
            matches!(refused, LogError::Broken { .. }),
            "{size}: {refused}"
        );
    }
    fs::remove_file(&checkpoint).unwrap();
    assert!(matches!(chain(), Err(LogError::Broken { .. })));
    fs::write(&checkpoint, note).unwrap();
    assert_eq!(chain().unwrap().len(), whole);
    fs::remove_dir_all(path.join("streams")).unwrap();
    assert!(matches!(chain(), Err(LogError::Broken { .. })));
}

fn place_of(refused: &LogError) -> Option<&str> {
    match refused {
        LogError::Broken { place, .. } => Some(place),
        _ => None,
    }
}

/// A geometry or keys of another log of the same root key were reported as a wrong root key. The
/// user then looked for a key that does not exist.
#[test]
fn what_was_exchanged_is_told_from_a_wrong_root_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    let other = folder.path().join("other");
    create(&other);
    let refused = |root: &RootKey| Reader::open(&path, root).err().unwrap();
    let stranger = RootKey::new(Secret::new([8; 32]));
    assert!(matches!(refused(&stranger), LogError::WrongKey));
    let geometry = fs::read(path.join("probity.toml")).unwrap();
    fs::copy(other.join("probity.toml"), path.join("probity.toml")).unwrap();
    assert_eq!(place_of(&refused(&root())), Some("probity.toml"));
    let opened = Log::open(&path, &root(), options()).unwrap_err();
    assert_eq!(place_of(&opened), Some("probity.toml"));
    fs::write(path.join("probity.toml"), geometry).unwrap();
    for key in ["master", "signing", "witness"] {
        let name = format!("keys/{key}.key");
        fs::copy(other.join(&name), path.join(&name)).unwrap();
    }
    assert_eq!(place_of(&refused(&root())), Some("keys"));
    assert!(matches!(refused(&stranger), LogError::WrongKey));
    fs::remove_file(path.join("subjects/slots")).unwrap();
    // Nothing is left that shows which log the keys belong to.
    let refused = refused(&root());
    assert!(matches!(refused, LogError::WrongKey), "{refused}");
    let said = refused.to_string();
    assert!(
        said.contains("another log's key, or keys/ is another"),
        "{said}"
    );
}

/// Verification did not report a signing key that is gone or another log's, with which nothing can
/// be signed. The fault appeared only at the next signature.
#[test]
fn a_signing_key_that_is_gone_or_foreign_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    let other = folder.path().join("other");
    create(&other);
    let key = path.join("keys/signing.key");
    let fault = |class| vec![(class, "keys/signing.key".to_owned())];
    for content in [
        Vec::new(),
        fs::read(other.join("keys/signing.key")).unwrap(),
    ] {
        fs::write(&key, content).unwrap();
        assert_eq!(said(&path, true), fault(FaultClass::KeyChain));
    }
    fs::remove_file(&key).unwrap();
    assert_eq!(said(&path, true), fault(FaultClass::Missing));
    let report = verified(&path, false);
    let is_listed = |path: &str| report.unchecked.iter().any(|found| found.path == path);
    assert!(report.is_intact() && is_listed("keys/signing.key"));
}

/// Any key of the chain was accepted beside a checkpoint. A foreign tool that was given an older
/// one could check nothing with it.
#[test]
fn the_key_beside_a_checkpoint_is_not_older_than_its_signer() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    let key = path.join("streams/default/log.vkey");
    let newest = fs::read(&key).unwrap();
    session(&path, "default", None);
    assert_eq!(faults(&path, false), []);
    fs::write(&key, newest).unwrap();
    let place = "streams/default/log.vkey".to_owned();
    assert_eq!(said(&path, false), [(FaultClass::Checkpoint, place)]);
}

/// A key that was overwritten with zeros looks like an erasure, and only the root key could tell
/// them apart. The journal records the erasures.
#[test]
fn an_emptied_slot_that_nobody_erased_shows_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    let slots = path.join("subjects/slots");
    let mut bytes = fs::read(&slots).unwrap();
    bytes[24..slot_bytes(Version::NEWEST)].fill(0);
    fs::write(&slots, bytes).unwrap();
    let place = "subjects/slots, slot 0".to_owned();
    assert_eq!(said(&path, false), [(FaultClass::Content, place.clone())]);
    assert!(said(&path, true).contains(&(FaultClass::Content, place)));
}

/// An iterator that ended at damage as it does behind the last entry would make a part of the
/// entries pass for all of them.
#[test]
fn an_iterator_ends_with_the_error_of_a_frame_that_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    create(&path);
    for _ in 0..2 {
        session(&path, "people", None);
    }
    let reader = Reader::open(&path, &root()).unwrap();
    let subjects = |found: Result<OwnedEntry, LogError>| {
        let found = found.unwrap();
        assert_eq!(found.stream().as_str(), "people");
        (found.index(), found.entry().subjects.as_joined().to_owned())
    };
    let all: Vec<_> = reader.iter(&Filter::default()).map(subjects).collect();
    let expected = [(0, "ada"), (1, "bob"), (2, "ada"), (3, "bob")];
    assert_eq!(all, expected.map(|(index, name)| (index, name.to_owned())));
    // The key of the second subject: nothing before its first frame needs it.
    let slots = path.join("subjects/slots");
    let mut bytes = fs::read(&slots).unwrap();
    let slot = slot_bytes(Version::NEWEST);
    bytes[slot + 24..2 * slot].fill(0);
    fs::write(&slots, bytes).unwrap();
    let reader = Reader::open(&path, &root()).unwrap();
    let mut found = reader.iter(&Filter::default());
    assert_eq!(subjects(found.next().unwrap()), (0, "ada".to_owned()));
    let error = found.next().unwrap().err().unwrap();
    assert!(matches!(error, LogError::Damaged { .. }), "{error:?}");
    for _ in 0..3 {
        assert!(found.next().is_none());
    }
}

/// Bytes behind the signed part of a tile were neither compared nor listed. They could be anything.
#[test]
fn tiles_that_go_beyond_the_checkpoint_are_named_and_begin_with_what_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path());
    assert_eq!(verified(&path, false).unchecked_paths("tile"), [""; 0]);
    let tiles = path.join("streams/default/tile");
    for (signed, beyond) in [
        ("0/000.p/6", "0/000.p/200"),
        ("0/000.p/6", "0/000"),
        ("entries/000.p/6", "entries/000"),
    ] {
        let mut bytes = fs::read(tiles.join(signed)).unwrap();
        bytes.extend([7; 100]);
        fs::write(tiles.join(beyond), &bytes).unwrap();
        let name = format!("streams/default/tile/{beyond}");
        let report = verified(&path, false);
        assert_eq!(report.faults, []);
        assert_eq!(report.unchecked_paths("tile"), std::slice::from_ref(&name));
        bytes[3] ^= 1;
        fs::write(tiles.join(beyond), bytes).unwrap();
        assert_eq!(said(&path, false), [(FaultClass::Tile, name)]);
        fs::remove_file(tiles.join(beyond)).unwrap();
    }
}

trait Unchecked {
    fn unchecked_paths(&self, part: &str) -> Vec<String>;
}

impl Unchecked for Report {
    /// Unchecked paths that contain `part`.
    fn unchecked_paths(&self, part: &str) -> Vec<String> {
        let paths = self.unchecked.iter().map(|found| found.path.clone());
        paths.filter(|path| path.contains(part)).collect()
    }
}

/// A log with two streams, `new` with its second copies, and an older copy of both, `old`.
fn old_and_new(folder: &Path) -> (PathBuf, PathBuf) {
    let (old, new) = (folder.join("old/log"), folder.join("new/log"));
    fs::create_dir(folder.join("new")).unwrap();
    create(&new);
    session(&new, "people", None);
    session(&new, "default", None);
    copy(&folder.join("new"), &folder.join("old"));
    session(&new, "people", None);
    session(&new, "default", None);
    (old, new)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The results for readers who do not need the stream `default`: whether entries of `people` are
/// read and proved, the streams listed, the keys returned.
fn told(path: &Path) -> [bool; 4] {
    let places = LogLocation::new(path, None);
    let reader = Reader::open(path, &root()).unwrap();
    let people = StreamName::new("people").unwrap();
    let wanted = Filter {
        stream: Some(people.clone()),
        ..Filter::default()
    };
    [
        reader.read::<LogError>(&wanted, &mut |_| Ok(())).is_ok(),
        reader.prove(&people, 0, None).is_ok(),
        reader.check(None).is_ok(),
        key_chain(&places).is_ok(),
    ]
}

/// A second copy or checkpoint of one stream showed that the journal is an older one. Reading
/// another stream, the keys or the list of streams gave no error, so that a part of the entries
/// passed for all of them.
#[test]
fn what_is_later_than_the_journal_is_told_to_every_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = old_and_new(folder.path());
    assert_eq!(told(&old), [true; 4]);
    assert_eq!(told(&new), [true; 4]);
    for (number, part) in ["log.heads/default", "log/streams/default/checkpoint"]
        .into_iter()
        .enumerate()
    {
        let mixed = folder.path().join(number.to_string());
        copy(&folder.path().join("old"), &mixed);
        fs::copy(folder.path().join("new").join(part), mixed.join(part)).unwrap();
        if number > 0 {
            fs::remove_dir_all(mixed.join("log.heads")).unwrap();
        }
        assert_eq!(told(&mixed.join("log")), [false; 4], "{part}");
        let report = verify(&mixed.join("log"), &VerifyOptions::default()).unwrap();
        assert!(report.faults.iter().any(Fault::is_of_journal), "{part}");
    }
}

/// Everything was put back to an older copy except `keys/`. Verification with the root key and the
/// writer reported it; the other readers returned fewer entries without a word.
#[test]
fn an_older_copy_beside_newer_keys_is_told_to_every_reader_with_the_root_key() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = old_and_new(folder.path());
    fs::remove_dir_all(old.join("keys")).unwrap();
    copy(&new.join("keys"), &old.join("keys"));
    let key = (FaultClass::KeyChain, "keys/signing.key".to_owned());
    for has_copies in [true, false] {
        if !has_copies {
            fs::remove_dir_all(old.with_file_name("log.heads")).unwrap();
        }
        assert_eq!(said(&old, true), std::slice::from_ref(&key));
        assert_eq!(said(&old, false), []);
        assert_eq!(told(&old), [false, false, false, true]);
        let reader = Reader::open_damaged(&LogLocation::new(&old, None), &root()).unwrap();
        let all = Filter::default();
        let damage = reader.read_damaged::<LogError>(&all, &mut |_| Ok(()));
        let damage = damage.unwrap();
        let faults = damage.faults.iter();
        let faults = faults.map(|fault| (fault.class, fault.place.clone()));
        assert_eq!(faults.collect::<Vec<_>>(), std::slice::from_ref(&key));
        assert!(!damage.is_none() && damage.missing().is_least);
    }
    fs::remove_file(old.join("keys/signing.key")).unwrap();
    // Nobody can sign with such a copy. Its entries are those of the log.
    assert_eq!(told(&old)[..1], [true]);
    assert_eq!(told(&new), [true; 4]);
}

/// A newer key beside the journal's checkpoint shows that the journal is an older one. `prove`
/// looked at no such key.
#[test]
fn nothing_is_proved_beside_a_key_that_the_journal_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = old_and_new(folder.path());
    for stream in ["journal", "heads", "people"] {
        let mixed = folder.path().join(stream);
        copy(&folder.path().join("old"), &mixed);
        let key = format!("log/streams/{stream}/log.vkey");
        fs::copy(folder.path().join("new").join(&key), mixed.join(&key)).unwrap();
        let [read, proved, ..] = told(&mixed.join("log"));
        assert_eq!([read, proved], [false; 2], "{stream}");
    }
    assert_eq!(told(&old), [true; 4]);
    assert_eq!(told(&new), [true; 4]);
}

/// Without second copies `prove` compared the log with nothing. An older copy of it had proofs
/// beside a newer stream `heads` or a newer file `durable`. The other readers report it as an older
/// copy.
#[test]
fn nothing_is_proved_of_a_log_of_which_more_was_anchored_or_noted() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = old_and_new(folder.path());
    fs::remove_dir_all(old.with_file_name("log.heads")).unwrap();
    assert_eq!(told(&old), [true; 4]);
    for part in ["streams/heads", "durable"] {
        let mixed = folder.path().join(part.replace('/', "-")).join("log");
        copy(&old, &mixed);
        if part == "durable" {
            fs::copy(new.join(part), mixed.join(part)).unwrap();
        } else {
            fs::remove_dir_all(mixed.join(part)).unwrap();
            copy(&new.join(part), &mixed.join(part));
        }
        let [read, proved, ..] = told(&mixed);
        assert_eq!([read, proved], [false; 2], "{part}");
    }
}

/// Also of a copy that is older by entries of the same opening: the keys are the same, and the
/// newer notes or heads count more frames.
#[test]
fn nothing_is_proved_of_an_older_copy_of_the_same_opening() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("log");
    create(&new);
    session(&new, "people", None);
    let log = Log::open(&new, &root(), options()).unwrap();
    let people = StreamName::new("people").unwrap();
    let mut appender = log.appender(&people).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry::new(time, "read", b"mail");
    appender.append_durable(&entry).unwrap();
    log.publish().unwrap();
    let old = folder.path().join("old");
    copy(&new, &old);
    assert_eq!(told(&old), [true; 4]);
    appender.append_durable(&entry).unwrap();
    let noted = folder.path().join("noted");
    copy(&old, &noted);
    fs::copy(new.join("durable"), noted.join("durable")).unwrap();
    assert_eq!(told(&noted)[..2], [false; 2]);
    log.publish().unwrap();
    let anchored = folder.path().join("anchored");
    copy(&old, &anchored);
    fs::remove_dir_all(anchored.join("streams/heads")).unwrap();
    copy(&new.join("streams/heads"), &anchored.join("streams/heads"));
    assert_eq!(told(&anchored)[..2], [false; 2]);
    drop(appender);
    log.close().unwrap();
    assert_eq!(told(&new), [true; 4]);
}

/// With a second copy beside each checkpoint, `prove` did not check the anchored heads. A
/// checkpoint and its copy that were put back together had proofs of an older head, while the other
/// readers ended with status 3. Anchored heads are now checked with and without copies.
#[test]
fn nothing_is_proved_of_a_stream_that_was_put_back_with_its_second_copy() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("new")).unwrap();
    let new = at("new/log");
    create(&new);
    session(&new, "people", None);
    let log = Log::open(&new, &root(), options()).unwrap();
    let people = StreamName::new("people").unwrap();
    let mut appender = log.appender(&people).unwrap();
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry::new(time, "read", b"mail");
    for state in ["old", "mixed"] {
        appender.append_durable(&entry).unwrap();
        log.publish().unwrap();
        copy(&at("new"), &at(state));
    }
    let mixed = at("mixed/log");
    assert_eq!(told(&mixed), [true; 4]);
    fs::remove_dir_all(mixed.join("streams/people")).unwrap();
    for part in ["log/streams/people", "log.heads/people", "log/durable"] {
        let (old, mixed) = (at("old").join(part), at("mixed").join(part));
        if old.is_dir() {
            copy(&old, &mixed);
        } else {
            fs::copy(old, mixed).unwrap();
        }
    }
    assert_eq!(told(&mixed)[..2], [false; 2]);
    drop(appender);
    log.close().unwrap();
}

/// Anchored heads were read from the stream `heads` alone, which names every head but its own: an older `heads` beside a newer journal had proofs. The last
/// certificate of the journal binds its head.
#[test]
fn nothing_is_proved_beside_an_older_stream_of_heads() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = old_and_new(folder.path());
    session(&new, "people", None);
    let mixed = folder.path().join("mixed");
    copy(&new, &mixed);
    fs::remove_file(mixed.join("durable")).unwrap();
    assert_eq!(told(&mixed), [true; 4]);
    fs::remove_dir_all(mixed.join("streams/heads")).unwrap();
    copy(&old.join("streams/heads"), &mixed.join("streams/heads"));
    assert_eq!(told(&mixed)[..2], [false; 2]);
}
