//! What a crash leaves torn, half done or missing is repaired by the next opening, which says what it did.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, NoteKey, RootKey, Secret};
use probity_format::segment::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer,
};
use probity_format::slot::SLOT_BYTES;
use probity_format::wrap::WrappedKind;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName};

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
    let count = files(&path.join("streams/default/segments")).len();
    path.join(format!("streams/default/segments/{count:08}.seg"))
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

/// The header of the last segment, and what closes it.
fn footer(path: &Path) -> (SegmentHeader, Vec<u8>) {
    let content = fs::read(last_segment(path)).unwrap();
    let header = content.first_chunk::<SEGMENT_HEADER_BYTES>().unwrap();
    let header = SegmentHeader::decode(header).unwrap();
    let length = u64::try_from(content.len()).unwrap();
    let footer = encode_footer(&header, ENTRIES - header.first_frame, ENTRIES, length);
    (header, footer.to_vec())
}

/// The header of the segment that follows the last one.
fn next_header(path: &Path) -> Vec<u8> {
    let header = SegmentHeader {
        number: footer(path).0.number + 1,
        first_frame: ENTRIES,
        first_entry: ENTRIES,
        ..footer(path).0
    };
    header.encode().to_vec()
}

fn is_intact(path: &Path) -> bool {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    verify(path, &options).unwrap().is_intact()
}

/// What the journal says that recovery did.
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

/// Whether what was done raises an alarm before it is repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// It is what a crash leaves.
    Intact,
    /// No crash leaves it: it is damage.
    Alarm,
}

/// Does `damage` to a log, opens it, and expects it to say each of `sentences`, to go on and to be intact.
fn repairs(before: Before, damage: impl Fn(&Path), sentences: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    damage(&path);
    assert_eq!(is_intact(&path), before == Before::Intact);
    let log = open(&path).unwrap();
    let said = log.repairs().to_vec();
    assert_eq!(said.len(), sentences.len(), "{said:?}");
    for (said, sentence) in said.iter().zip(sentences) {
        assert!(said.contains(sentence), "{said:?} instead of {sentence:?}");
    }
    let in_journal = journal(&path);
    assert!(
        said.iter().all(|said| in_journal.contains(said)),
        "{in_journal}"
    );
    assert!(is_intact(&path), "while it is open");
    assert_eq!(append(&log, ENTRIES), ENTRIES);
    log.close().unwrap();
    assert!(is_intact(&path), "afterwards");
    let log = open(&path).unwrap();
    assert_eq!(log.repairs(), &[] as &[String]);
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
    repairs(
        Before::Intact,
        half_a_frame,
        &["cut off 200 bytes of a torn frame"],
    );
    let length_alone = |path: &Path| add(&last_segment(path), &[0; 700]);
    repairs(
        Before::Intact,
        length_alone,
        &["700 bytes, which are no whole frame, set aside in set-aside/"],
    );
}

#[test]
fn a_half_rotated_segment_is_finished_or_taken_back() {
    let half = SEGMENT_FOOTER_BYTES / 2;
    let torn_footer = |path: &Path| add(&last_segment(path), footer(path).1.split_at(half).0);
    let said = format!("cut off {half} bytes of a torn frame");
    repairs(Before::Intact, torn_footer, &[&said]);
    let footer_alone = |path: &Path| add(&last_segment(path), &footer(path).1);
    repairs(Before::Intact, footer_alone, &[]);
    let empty = |path: &Path| {
        let next = next_segment(path);
        add(&last_segment(path), &footer(path).1);
        fs::write(next, b"").unwrap();
    };
    repairs(
        Before::Intact,
        empty,
        &["cut off 0 bytes of a torn segment header"],
    );
    let torn_header = |path: &Path| {
        let (next, header) = (next_segment(path), next_header(path));
        add(&last_segment(path), &footer(path).1);
        fs::write(next, header.split_at(40).0).unwrap();
    };
    repairs(
        Before::Intact,
        torn_header,
        &["cut off 40 bytes of a torn segment header"],
    );
    let header_alone = |path: &Path| {
        let (next, header) = (next_segment(path), next_header(path));
        add(&last_segment(path), &footer(path).1);
        fs::write(next, header).unwrap();
    };
    repairs(Before::Intact, header_alone, &[]);
    // The new segment reached the disk, the footer of the old one did not.
    let footer_lost = |path: &Path| {
        let (next, header) = (next_segment(path), next_header(path));
        fs::write(next, header).unwrap();
    };
    repairs(Before::Intact, footer_lost, &["removed, it holds no frame"]);
}

#[test]
fn a_torn_or_missing_tile_is_rebuilt() {
    let rebuilt = "does not fit the signed root; the tree is rebuilt from the segments";
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
    repairs(Before::Alarm, torn, &["is unreadable"]);
    let missing = |path: &Path| fs::remove_file(file(path)).unwrap();
    repairs(Before::Alarm, missing, &["the checkpoint is missing"]);
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
    let said = "stream default: the checkpoint covers 30 frames, its second copy 31";
    assert_eq!(log.repairs().len(), 1, "{:?}", log.repairs());
    assert!(log.repairs().iter().all(|repair| repair.starts_with(said)));
    assert!(is_intact(&path));
    log.close().unwrap();
    assert!(is_intact(&path));
}

#[test]
fn a_missing_second_copy_is_written_anew_at_once() {
    let heads = |path: &Path| path.with_file_name("log.heads");
    let of = |stream| format!("stream {stream}: the second copy of the head is missing");
    let one = |path: &Path| fs::remove_file(heads(path).join("default")).unwrap();
    repairs(Before::Intact, one, &[&of("default")]);
    let all = |path: &Path| fs::remove_dir_all(heads(path)).unwrap();
    repairs(
        Before::Intact,
        all,
        &[&of("journal"), &of("heads"), &of("default")],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    fs::remove_dir_all(heads(&path)).unwrap();
    open(&path).unwrap().close().unwrap();
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
    repairs(
        Before::Intact,
        half,
        &["subjects/slots: set aside 50 bytes at byte 10440"],
    );
    let several = |path: &Path| add(&slots(path), &[9; 3 * SLOT_BYTES + 50]);
    repairs(
        Before::Intact,
        several,
        &["subjects/slots: set aside 1094 bytes at byte 10440 that do not open"],
    );
    let zeros = |path: &Path| add(&slots(path), &[0; 2 * SLOT_BYTES]);
    repairs(
        Before::Intact,
        zeros,
        &["subjects/slots: 696 bytes of zeros at byte 10440 are no slots"],
    );
}

/// The key under which the writer notes things for itself.
fn note_key(path: &Path) -> NoteKey {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let wrapped = fs::read(path.join("keys/master.key")).unwrap();
    let master = wrapping.unwrap(WrappedKind::Master, b"master", &wrapped);
    MasterKey::new(master.unwrap()).note_key()
}

#[test]
fn what_an_opening_did_and_could_not_report_is_reported_by_the_next() {
    let pending = |path: &Path| {
        let text = "something was cut off\n";
        let mut content = note_key(path)
            .tag(&[b"probity/repairs/v3\n", text.as_bytes()].concat())
            .to_vec();
        content.extend_from_slice(text.as_bytes());
        fs::write(path.join("repairs"), content).unwrap();
    };
    repairs(Before::Intact, pending, &["something was cut off"]);
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    pending(&path);
    open(&path).unwrap().close().unwrap();
    assert!(!path.join("repairs").exists());
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
