//! Torn, unfinished or missing files after a crash are repaired by the next opening, which reports
//! the repairs.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, NoteKey, RootKey, Secret};
use probity_format::note::SignedNote;
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name, segment_first_frame};
use probity_format::slot::SLOT_BYTES;
use probity_format::tree::Hash;
use probity_format::wrap::WrappedKind;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, Repair, RepairKind, StreamConfig, StreamName};

/// Entries of the sample, each in a frame of its own.
const ENTRIES: u64 = 30;

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn open(path: &Path) -> Result<Log, LogError> {
    let options = Options {
        segment_bytes_max: 8192,
        ..Options::default()
    };
    Log::open(path, &root(), options)
}

fn append(log: &Log, number: u64) -> u64 {
    let key = format!("key-{number}");
    let subject = format!("subject-{number}");
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: Subjects::joined(&subject),
        payload: &[7; 300],
        ..Entry::new(time, "write", key.as_bytes())
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap().index
}

/// A log of several segments, closed in good order.
fn sample(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(
        &path,
        "example.com/log",
        &root(),
        config,
        Options::default(),
    )
    .unwrap()
    .close()
    .unwrap();
    let log = open(&path).unwrap();
    for number in 0..ENTRIES {
        assert_eq!(append(&log, number), number);
    }
    log.close().unwrap();
    path
}

/// The files of `folder`, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn last_segment(path: &Path) -> PathBuf {
    files(&path.join("streams/default/segments")).pop().unwrap()
}

/// The segment behind the last one.
fn next_segment(path: &Path) -> PathBuf {
    let name = segment_file_name(ENTRIES);
    path.join(format!("streams/default/{name}"))
}

fn add(file: &Path, bytes: &[u8]) {
    let mut content = fs::read(file).unwrap_or_default();
    content.extend_from_slice(bytes);
    fs::write(file, content).unwrap();
}

fn shorten(file: &Path) {
    let content = fs::read(file).unwrap();
    fs::write(file, content.split_at(content.len() / 2).0).unwrap();
}

/// The header of each segment of the stream.
fn header(path: &Path) -> Vec<u8> {
    let content = fs::read(last_segment(path)).unwrap();
    content.split_at(SEGMENT_HEADER_BYTES).0.to_vec()
}

fn is_intact(path: &Path) -> bool {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap().is_intact()
}

/// The repairs that the journal records.
fn journal(path: &Path) -> String {
    let filter = Filter {
        stream: Some(StreamName::journal()),
        action: Some("recover".into()),
        ..Filter::default()
    };
    let mut said = String::new();
    Reader::open(path, &root())
        .unwrap()
        .read::<LogError>(&filter, &mut |found| {
            said.push_str(std::str::from_utf8(found.entry.payload).unwrap());
            Ok(())
        })
        .unwrap();
    said
}

/// The result of verification before the repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// No alarm: a crash leaves this state.
    Intact,
    /// An alarm: no crash leaves this state, so it is damage.
    Alarm,
}

/// Does `damage` to a log, opens it, and expects it to report each of `lines`, to go on and to be
/// intact.
fn repairs(before: Before, damage: impl Fn(&Path), lines: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    damage(&path);
    assert_eq!(is_intact(&path), before == Before::Intact);
    let log = open(&path).unwrap();
    let said: Vec<String> = log.repairs().iter().map(Repair::line).collect();
    assert_eq!(said, lines);
    let in_journal: Vec<String> = journal(&path).lines().map(str::to_owned).collect();
    assert_eq!(in_journal, lines);
    assert!(is_intact(&path), "while it is open");
    assert_eq!(append(&log, ENTRIES), ENTRIES);
    log.close().unwrap();
    assert!(is_intact(&path), "afterwards");
    let log = open(&path).unwrap();
    assert_eq!(log.repairs(), &[]);
    log.close().unwrap();
}

#[test]
fn a_torn_frame_is_cut_off() {
    let half_a_frame = |path: &Path| {
        let content = fs::read(last_segment(path)).unwrap();
        // The frame that is due, without most of its sections.
        let mut frame = content.split_at(SEGMENT_HEADER_BYTES).1.to_vec();
        frame[16..24].copy_from_slice(&ENTRIES.to_le_bytes());
        frame[24..32].copy_from_slice(&ENTRIES.to_le_bytes());
        add(&last_segment(path), frame.split_at(200).0);
    };
    let end = {
        let folder = tempfile::tempdir().unwrap();
        fs::metadata(last_segment(&sample(folder.path())))
            .unwrap()
            .len()
    };
    repairs(
        Before::Intact,
        half_a_frame,
        &[&format!("torn default {end} {}", end + 200)],
    );
    let length_alone = |path: &Path| add(&last_segment(path), &[0; 700]);
    repairs(
        Before::Intact,
        length_alone,
        &[&format!("damaged default {end} {}", end + 700)],
    );
}

#[test]
fn a_half_begun_segment_is_taken_back_or_gone_on_with() {
    let begin = |path: &Path, bytes: &[u8]| fs::write(next_segment(path), bytes).unwrap();
    let empty = |path: &Path| begin(path, b"");
    repairs(Before::Intact, empty, &["torn default 0 0"]);
    let torn_header = |path: &Path| begin(path, header(path).split_at(30).0);
    repairs(Before::Intact, torn_header, &["torn default 0 30"]);
    let header_alone = |path: &Path| begin(path, &header(path));
    repairs(Before::Intact, header_alone, &[]);
    // The new segment reached the disk, the last frames before it did not.
    let later = |path: &Path| {
        let name = segment_file_name(ENTRIES + 2);
        fs::write(path.join("streams/default").join(name), header(path)).unwrap();
    };
    repairs(Before::Intact, later, &["empty default 32 32"]);
}

#[test]
fn a_damaged_header_of_the_last_segment_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let first = last_segment(&path);
    let first = segment_first_frame(first.file_name().unwrap().to_str().unwrap()).unwrap();
    let damage = |path: &Path| {
        let mut content = fs::read(last_segment(path)).unwrap();
        content[9] ^= 1;
        fs::write(last_segment(path), content).unwrap();
    };
    repairs(
        Before::Alarm,
        damage,
        &[&format!("header default {first} {first}")],
    );
}

#[test]
fn a_torn_or_missing_tile_is_rebuilt() {
    let rebuilt = "tree default 0 30";
    for tile in ["tile/0/000.p/30", "tile/entries/000.p/30"] {
        let file = |path: &Path| path.join("streams/default").join(tile);
        repairs(Before::Alarm, |path| shorten(&file(path)), &[rebuilt]);
        repairs(
            Before::Alarm,
            |path| fs::remove_file(file(path)).unwrap(),
            &[rebuilt],
        );
    }
}

#[test]
fn a_torn_or_missing_checkpoint_is_written_anew() {
    let file = |path: &Path| path.join("streams/default/checkpoint");
    let torn = |path: &Path| shorten(&file(path));
    repairs(Before::Alarm, torn, &["unreadable default 0 30"]);
    let missing = |path: &Path| fs::remove_file(file(path)).unwrap();
    repairs(Before::Alarm, missing, &["checkpoint default 0 30"]);
}

#[test]
fn a_checkpoint_one_step_behind_its_second_copy_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let checkpoint = path.join("streams/default/checkpoint");
    let older = fs::read(&checkpoint).unwrap();
    let log = open(&path).unwrap();
    append(&log, ENTRIES);
    log.close().unwrap();
    fs::write(&checkpoint, older).unwrap();
    let log = open(&path).unwrap();
    let said: Vec<String> = log.repairs().iter().map(Repair::line).collect();
    assert_eq!(said, ["checkpoint default 30 31"]);
    assert!(is_intact(&path));
    log.close().unwrap();
    assert!(is_intact(&path));
}

#[test]
fn a_missing_second_copy_is_written_anew_at_once() {
    let heads = |path: &Path| path.with_file_name("log.heads");
    let one = |path: &Path| fs::remove_file(heads(path).join("default")).unwrap();
    repairs(Before::Intact, one, &["copy default 0 30"]);
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    fs::remove_dir_all(heads(&path)).unwrap();
    assert!(is_intact(&path));
    let log = open(&path).unwrap();
    let said = log.repairs().iter();
    let said: Vec<_> = said
        .map(|repair| (repair.kind, repair.stream.as_str()))
        .collect();
    let copy = RepairKind::Copy;
    assert_eq!(
        said,
        [(copy, "journal"), (copy, "heads"), (copy, "default")]
    );
    log.close().unwrap();
    let names: Vec<PathBuf> = files(&heads(&path));
    assert_eq!(
        names,
        ["default", "heads", "journal"].map(|name| heads(&path).join(name))
    );
}

#[test]
fn what_is_no_slot_behind_those_that_were_signed_for_is_set_aside() {
    let slots = |path: &Path| path.join("subjects/slots");
    let half = |path: &Path| add(&slots(path), &[9; 50]);
    repairs(Before::Intact, half, &["slots journal 10440 10490"]);
    let several = |path: &Path| add(&slots(path), &[9; 3 * SLOT_BYTES + 50]);
    repairs(Before::Intact, several, &["slots journal 10440 11534"]);
    let zeros = |path: &Path| add(&slots(path), &[0; 2 * SLOT_BYTES]);
    repairs(Before::Intact, zeros, &["zeros journal 10440 11136"]);
}

/// The key of the writer's notes for itself.
fn note_key(path: &Path) -> NoteKey {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let wrapped = fs::read(path.join("keys/master.key")).unwrap();
    let master = wrapping.unwrap(WrappedKind::Master, b"master", &wrapped);
    MasterKey::new(master.unwrap()).note_key()
}

/// The file `repairs` of an opening that did the repair in `line`, behind the journal of `head`.
fn announced(path: &Path, head: &Checkpoint, line: &str) -> Vec<u8> {
    let mut rest = head.size().to_le_bytes().to_vec();
    rest.extend_from_slice(head.root().as_bytes());
    rest.extend_from_slice(line.as_bytes());
    rest.push(b'\n');
    let tag = note_key(path).tag(&[b"probity/repairs/v4\n", rest.as_slice()].concat());
    [tag.as_slice(), &rest].concat()
}

/// The journal's head; of a log that was closed there is nothing behind it.
fn journal_head(path: &Path) -> Checkpoint {
    let note = fs::read(path.join("streams/journal/checkpoint")).unwrap();
    Checkpoint::parse(SignedNote::parse(&note).unwrap().text()).unwrap()
}

#[test]
fn what_an_opening_did_and_could_not_report_is_reported_by_the_next() {
    let pending = |path: &Path| {
        let content = announced(path, &journal_head(path), "torn default 7 9");
        fs::write(path.join("repairs"), content).unwrap();
    };
    repairs(Before::Intact, pending, &["torn default 7 9"]);
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    pending(&path);
    open(&path).unwrap().close().unwrap();
    assert!(!path.join("repairs").exists());
}

/// An older file `repairs` that was put back made the journal record an accepted loss again,
/// although nobody had accepted it. The file is bound to the journal behind which it was written,
/// and repairs that the journal has already are not recorded again.
#[test]
fn an_older_file_of_repairs_makes_the_journal_say_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let (head, line) = (journal_head(&path), "lost default 70000 90000");
    let content = announced(&path, &head, line);
    for said in [&[line][..], &[], &[]] {
        fs::write(path.join("repairs"), &content).unwrap();
        let log = open(&path).unwrap();
        let repairs: Vec<String> = log.repairs().iter().map(Repair::line).collect();
        assert_eq!(repairs, said);
        log.close().unwrap();
        assert!(!path.join("repairs").exists());
        assert_eq!(journal(&path).matches(line).count(), 1);
    }
    // One behind another journal, one without the journal's size, and one behind frames that are not there.
    let other = Checkpoint::new(head.origin(), head.size(), Hash::new([9; 32])).unwrap();
    let longer = Checkpoint::new(head.origin(), head.size() + 99, *head.root()).unwrap();
    let text = format!("{line}\n");
    let tag = note_key(&path).tag(&[b"probity/repairs/v3\n", text.as_bytes()].concat());
    let line = "lost default 1 2";
    for content in [
        announced(&path, &other, line),
        announced(&path, &head, line),
        [tag.as_slice(), text.as_bytes()].concat(),
    ] {
        fs::write(path.join("repairs"), &content).unwrap();
        let log = open(&path).unwrap();
        let repairs: Vec<String> = log.repairs().iter().map(Repair::line).collect();
        assert_eq!(repairs, [format!("notes journal 0 {}", content.len())]);
        log.close().unwrap();
        assert!(!path.join("repairs").exists());
    }
    fs::write(path.join("repairs"), announced(&path, &longer, line)).unwrap();
    let refused = open(&path).unwrap_err();
    let is_named = matches!(&refused, LogError::Broken { place, .. } if place == "repairs");
    assert!(is_named, "{refused}");
    fs::remove_file(path.join("repairs")).unwrap();
    assert_eq!(journal(&path).matches("lost").count(), 1);
}

#[test]
fn signed_frames_that_are_cut_off_are_refused_whatever_the_tiles_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let segment = last_segment(&path);
    let content = fs::read(&segment).unwrap();
    fs::write(&segment, content.split_at(content.len() - 100).0).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(
        matches!(&refused, LogError::Broken { reason, .. } if reason.contains("frame 29 is damaged")),
        "{refused:?}"
    );
    fs::write(&segment, content.split_at(SEGMENT_HEADER_BYTES).0).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(
        matches!(refused, LogError::RolledBack { .. }),
        "{refused:?}"
    );
}
