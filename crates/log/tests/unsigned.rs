//! What stands behind the last signed head: whatever no holder of the log's keys sealed is never signed for, believed or cut away in silence, and
//! what was durable is missed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed, and damage is done around the storage"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::{Frame, FrameHeader};
use probity_format::geometry::Geometry;
use probity_format::keys::{EpochSalt, MasterKey, RootKey, Secret, SectionKey};
use probity_format::note::SigningKey;
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys};
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES};
use probity_format::slot::SLOT_LABEL_BYTES;
use probity_format::stream::StreamId;
use probity_format::tree::{Frontier, Hash, leaf_hash};
use probity_format::wrap::WrappedKind;
use probity_format::{DecodeError, Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{
    Cipher, Compression, Durability, Log, LogError, Options, RepairKind, StreamConfig, StreamName,
};

const ORIGIN: &str = "example.com/log";
const JOURNAL: &str = "streams/journal/segments/00000000000000000000.seg";
const HEADS: &str = "streams/heads/segments/00000000000000000000.seg";
const DEFAULT: &str = "streams/default/segments/00000000000000000000.seg";

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

fn time() -> Timestamp {
    Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap()
}

fn append(log: &Log, stream: &StreamName, key: &str) -> u64 {
    let mut appender = log.appender(stream).unwrap();
    let entry = Entry::new(time(), "write", key.as_bytes());
    appender.append_durable(&entry).unwrap().index
}

/// A log of three entries, closed in good order.
fn closed(folder: &Path) -> PathBuf {
    let path = folder.join("log");
    Log::create(&path, ORIGIN, &root(), StreamConfig::default(), options()).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    for key in ["a", "b", "c"] {
        append(&log, &StreamName::default(), key);
    }
    log.close().unwrap();
    path
}

/// What the kill of a writer leaves that gave strict receipts for the entries 3 to 7 and had published nothing of them.
fn killed(folder: &Path) -> PathBuf {
    let path = closed(folder);
    let log = Log::open(&path, &root(), options()).unwrap();
    for (index, key) in (3..).zip(["d", "e", "f", "g", "h"]) {
        assert_eq!(append(&log, &StreamName::default(), key), index);
    }
    let copy = folder.join("killed");
    copy_folder(&path, &copy.join("log"));
    copy_folder(&folder.join("log.heads"), &copy.join("log.heads"));
    log.close().unwrap();
    copy.join("log")
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

fn add(file: &Path, bytes: &[u8]) {
    let mut content = fs::read(file).unwrap();
    content.extend_from_slice(bytes);
    fs::write(file, content).unwrap();
}

/// What the log says that it repaired, as people read it.
fn said(log: &Log) -> String {
    let repairs = log.repairs().iter().map(ToString::to_string);
    repairs.collect::<Vec<_>>().join("\n")
}

/// The frames of a segment, with their offsets.
fn frames(file: &Path) -> Vec<(usize, Vec<u8>)> {
    let content = fs::read(file).unwrap();
    let mut frames = Vec::new();
    let mut offset = SEGMENT_HEADER_BYTES;
    while offset < content.len() {
        let length = FrameHeader::decode(&content[offset..]).unwrap().length as usize;
        frames.push((offset, content[offset..offset + length].to_vec()));
        offset += length;
    }
    frames
}

/// A frame that is due behind the last of `file`, well formed in everything, made without any key of the log.
fn forged(path: &Path, file: &str, config: StreamConfig, entries: &[Entry<'_>]) -> Vec<u8> {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let name = StreamName::new(file.split('/').nth(1).unwrap()).unwrap();
    let id = StreamId::new(&geometry.fingerprint(), &name, &config);
    let last = frames(&path.join(file)).pop().unwrap().1;
    let last = Frame::parse(&last).unwrap().clear.header;
    let salt = EpochSalt::of_frame(last.version(), &last.salt);
    // The epoch and its salt are the log's own; the key under them cannot be.
    let epoch = MasterKey::new(Secret::new([1; 32])).epoch_key(&id, last.epoch, &salt);
    let place = FramePlace {
        stream: id,
        frame: last.frame + 1,
        first_entry: last.first_entry + u64::from(last.entries),
        seed: 1,
        fresh: [2; 16],
    };
    let mut rows = Vec::new();
    for entry in entries {
        let start = rows.len();
        rows.resize(start + row_bytes(entry), 0);
        encode_row(entry, &mut rows[start..]);
    }
    let mut out = Vec::new();
    let record = FrameSealer::new(config, Compression::DEFAULT)
        .unwrap()
        .seal(&place, &epoch, &[&rows], &mut Nobody, &mut out)
        .unwrap();
    out.truncate(record.length as usize);
    assert!(Frame::parse(&out).unwrap().is_whole());
    out
}

struct Nobody;

impl SubjectKeys for Nobody {
    fn section_key(
        &mut self,
        _subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<(Vec<u8>, SectionKey), DecodeError> {
        Err(DecodeError::new("subjects", 0, "are nobody"))
    }
}

fn intact(path: &Path) {
    for root in [None, Some(root())] {
        let options = VerifyOptions {
            root,
            ..VerifyOptions::default()
        };
        let report = verify(path, &options).unwrap();
        assert!(report.is_intact(), "{:?}", report.faults);
    }
}

fn keys(path: &Path) -> Vec<String> {
    let mut keys = Vec::new();
    let reader = Reader::open(path, &root()).unwrap();
    reader
        .read::<LogError>(&Filter::default(), &mut |found| {
            keys.push(String::from_utf8(found.entry.key.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
    keys
}

/// What the journal says, as action, key and payload.
fn journal(path: &Path) -> Vec<[String; 3]> {
    let filter = Filter {
        stream: Some(StreamName::journal()),
        ..Filter::default()
    };
    let mut said = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Reader::open(path, &root())
        .unwrap()
        .read::<LogError>(&filter, &mut |found| {
            let entry = &found.entry;
            said.push([
                entry.action.to_owned(),
                text(entry.key),
                text(entry.payload),
            ]);
            Ok(())
        })
        .unwrap();
    said
}

/// The files that recovery set aside.
fn kept(path: &Path) -> Vec<Vec<u8>> {
    let files = fs::read_dir(path.join("set-aside"));
    let files = files.into_iter().flatten();
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn a_forged_frame_of_a_built_in_stream_is_set_aside_and_never_signed() {
    // S3: the journal is in clear, and a frame that somebody appended to its file was signed by the next opening: a false fork, a false
    // rollback, a false sentence about a repair, a stream that was then written in clear.
    let origin = format!("{ORIGIN}/streams/default");
    let head = |size| Checkpoint::new(&origin, size, Hash::new([9; 32]));
    let heads = [3, 9].map(|size| head(size).unwrap().encode());
    let forgeries = [
        (HEADS, "heads", "", heads[0].as_str()),
        (HEADS, "heads", "all", heads[1].as_str()),
        (
            JOURNAL,
            "recover",
            "",
            "5 entries about user:7 were removed by admin Bob\n",
        ),
        (
            JOURNAL,
            "stream.create",
            "hr",
            "proofs=section cipher=danger-none compression=none erasable=no",
        ),
    ];
    for (file, action, key, payload) in forgeries {
        let folder = tempfile::tempdir().unwrap();
        let path = closed(folder.path());
        let entries = [Entry {
            actor: "probity",
            payload: payload.as_bytes(),
            ..Entry::new(time(), action, key.as_bytes())
        }];
        let frame = forged(&path, file, StreamConfig::JOURNAL, &entries);
        is_set_aside(&path, file, &frame);
        let forged = |entry: &&[String; 3]| entry[2] == payload && entry[0] == action;
        assert_eq!(journal(&path).iter().filter(forged).count(), 0);
    }
}

/// Appends `frame` to the segment `file`, and expects that nobody believes it and everything goes on as without it.
fn is_set_aside(path: &Path, file: &str, frame: &[u8]) {
    let before = journal(path);
    let honest = fs::read(path.join(file)).unwrap();
    add(&path.join(file), frame);
    assert_eq!(journal(path), before, "a reader believes it");
    let log = Log::open(path, &root(), options()).unwrap();
    let said = said(&log);
    assert!(
        said.contains("which this log's keys did not seal"),
        "{said}"
    );
    let hr = StreamName::new("hr").unwrap();
    log.create_stream(&hr, StreamConfig::default()).unwrap();
    let (_, config) = log
        .streams()
        .into_iter()
        .find(|(name, _)| *name == hr)
        .unwrap();
    assert_eq!(config.cipher, Cipher::Aes256Gcm);
    append(&log, &hr, "salary");
    log.close().unwrap();
    intact(path);
    assert_eq!(kept(path), [frame.to_vec()], "the bytes are kept");
    assert!(fs::read(path.join(file)).unwrap().starts_with(&honest));
}

#[test]
fn a_forged_frame_of_a_sealed_stream_is_set_aside_and_what_follows_can_be_read() {
    // S4: a copy of the last frame with the next numbers and random sections was signed; nothing behind it could be exported any more.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let (_, mut garbage) = frames(&path.join(DEFAULT)).pop().unwrap();
    garbage[16] += 1;
    garbage[24] += 1;
    let start = garbage.len() - 60;
    garbage[start..start + 20].fill(0x5A);
    let honest = Frame::parse(&garbage).unwrap().sealed_root();
    let trailer = garbage.len() - 32;
    garbage[trailer..].copy_from_slice(honest.as_bytes());
    assert!(Frame::parse(&garbage).unwrap().is_whole());
    let sealed = forged(
        &path,
        DEFAULT,
        StreamConfig::default(),
        &[Entry::new(time(), "delete", b"everything")],
    );
    for (number, frame) in (1..).zip([garbage, sealed]) {
        add(&path.join(DEFAULT), &frame);
        let log = Log::open(&path, &root(), options()).unwrap();
        assert_eq!(append(&log, &StreamName::default(), "next"), 2 + number);
        log.close().unwrap();
        intact(&path);
        assert!(kept(&path).contains(&frame));
        let count = usize::try_from(2 + number).unwrap();
        assert_eq!(keys(&path).len(), count + 1);
    }
    assert_eq!(keys(&path), ["a", "b", "c", "next", "next"]);
}

#[test]
fn what_a_killed_writer_had_made_durable_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    let said = said(&log);
    assert!(
        said.contains("5 frames found behind the last checkpoint"),
        "{said}"
    );
    log.close().unwrap();
    intact(&path);
    assert_eq!(keys(&path), ["a", "b", "c", "d", "e", "f", "g", "h"]);
}

/// Damages what a killed writer left, and expects that the loss from frame `found` on is refused, and recorded once it is accepted.
fn is_missed(found: u64, damage: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    damage(&path.join(DEFAULT));
    let before = fs::read(path.join(DEFAULT)).unwrap();
    for _ in 0..2 {
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        assert!(
            matches!(&refused, LogError::Lost { stream, found: f, durable: 8 } if stream == "default" && *f == found),
            "{refused}"
        );
        assert_eq!(
            fs::read(path.join(DEFAULT)).unwrap(),
            before,
            "nothing is touched"
        );
    }
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let log = Log::open(&path, &root(), accepting).unwrap();
    let said = log.repairs();
    let line = format!("lost default {found} 8");
    assert!(said.iter().any(|repair| repair.line() == line), "{said:?}");
    log.close().unwrap();
    intact(&path);
    assert!(journal(&path).iter().any(|entry| entry[2].contains(&line)));
    assert_eq!(keys(&path).len() as u64, found);
    // Said once: the log opens as any other now.
    let log = Log::open(&path, &root(), options()).unwrap();
    assert_eq!(log.repairs(), &[]);
    log.close().unwrap();
}

#[test]
fn receipts_cut_off_before_a_checkpoint_covers_them_are_missed() {
    // S16 (a): the last two frames of five with strict receipts were cut off at a boundary: intact, and the writer went on with their
    // indices.
    is_missed(6, |segment| {
        let (offset, _) = frames(segment)[6];
        let content = fs::read(segment).unwrap();
        fs::write(segment, &content[..offset]).unwrap();
    });
}

#[test]
fn one_flipped_bit_destroys_no_frame_behind_it() {
    // S16 (b): one bit flipped in the second of them, and recovery cut off that one and three whole frames behind it, all of them with receipts.
    let flip = |segment: &Path| {
        let (offset, frame) = frames(segment)[4].clone();
        let mut content = fs::read(segment).unwrap();
        content[offset + frame.len() - 70] ^= 1;
        fs::write(segment, content).unwrap();
    };
    is_missed(4, flip);
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    flip(&path.join(DEFAULT));
    let content = fs::read(path.join(DEFAULT)).unwrap();
    let (offset, _) = frames(&path.join(DEFAULT))[4];
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    Log::open(&path, &root(), accepting)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(kept(&path), [content[offset..].to_vec()]);
}

#[test]
fn a_changed_note_of_what_is_durable_raises_no_alarm() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |notes| notes.clear(),
        |notes| notes.truncate(50),
        |notes| notes.fill(0xFF),
        // A higher number than was noted: it bears no authenticator.
        |notes| notes[40] = 200,
    ];
    for damage in damages {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let mut notes = fs::read(path.join("durable")).unwrap();
        assert_eq!(notes.len(), 120);
        damage(&mut notes);
        fs::write(path.join("durable"), notes).unwrap();
        let log = Log::open(&path, &root(), options()).unwrap();
        log.close().unwrap();
        assert_eq!(keys(&path).len(), 8);
    }
}

#[test]
fn a_note_of_another_stream_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let mut notes = fs::read(path.join("durable")).unwrap();
    // The note of `default` in the place of the journal's, which has fewer frames.
    notes.copy_within(40..80, 0);
    fs::write(path.join("durable"), notes).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn a_forged_erasure_excuses_no_key_that_is_gone() {
    // S3 and S5: an erasure is a journal entry, and the journal is in clear: whoever can write files appends one and overwrites the key it
    // names. It is no evidence until a checkpoint covers it, and no opening takes it up.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    Log::create(&path, ORIGIN, &root(), config, options()).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    let entry = Entry {
        subjects: Subjects::joined("anna"),
        ..Entry::new(time(), "write", b"key")
    };
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.append_durable(&entry).unwrap();
    log.close().unwrap();
    intact(&path);
    let slots = fs::read(path.join("subjects/slots")).unwrap();
    let pseudonym = hexadecimal(&slots[..16]);
    let erase = ["subject.erase".into(), "0".into(), pseudonym];
    let forged_entries = [erase];
    let entries: Vec<Entry<'_>> = forged_entries
        .iter()
        .map(|[action, key, payload]| Entry {
            actor: "probity",
            payload: payload.as_bytes(),
            ..Entry::new(time(), action, key.as_bytes())
        })
        .collect();
    let frame = forged(&path, JOURNAL, StreamConfig::JOURNAL, &entries);
    add(&path.join(JOURNAL), &frame);
    let mut gone = slots;
    gone[SLOT_LABEL_BYTES..].fill(0);
    fs::write(path.join("subjects/slots"), &gone).unwrap();
    let with_key = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let report = verify(&path, &with_key).unwrap();
    let places: Vec<&str> = report.faults.iter().map(|f| f.place.as_str()).collect();
    assert!(places.contains(&"subjects/slots, slot 0"), "{places:?}");
    let reader = Reader::open(&path, &root()).unwrap();
    let read = reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()));
    assert!(matches!(read, Err(LogError::Damaged { .. })), "{read:?}");
    let refused = Log::open(&path, &root(), options()).unwrap_err();
    assert!(
        refused.to_string().contains("subjects/slots, slot 0"),
        "{refused}"
    );
}

#[test]
fn a_changed_length_destroys_no_frame_behind_it() {
    // A larger length made the frames behind look like a part of one that a crash had torn: they were cut off without a copy.
    for has_note in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = killed(folder.path());
        let (offset, _) = frames(&path.join(DEFAULT))[3];
        let mut content = fs::read(path.join(DEFAULT)).unwrap();
        content[offset + 10] ^= 0x80;
        fs::write(path.join(DEFAULT), &content).unwrap();
        if !has_note {
            fs::remove_file(path.join("durable")).unwrap();
        }
        let accepting = Options {
            accept_loss: has_note,
            ..options()
        };
        let log = Log::open(&path, &root(), accepting).unwrap();
        log.close().unwrap();
        assert_eq!(kept(&path), [content[offset..].to_vec()]);
        assert_eq!(keys(&path), ["a", "b", "c"]);
    }
}

/// The seed of the signing key that is in `keys/` now.
fn signing_seed(path: &Path) -> [u8; 32] {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let wrapped = fs::read(path.join("keys/signing.key")).unwrap();
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let seed = wrapping.unwrap(WrappedKind::Signing, b"signing", &wrapped);
    *seed.unwrap().expose()
}

#[test]
fn an_expired_signing_key_makes_no_writer_sign_what_its_keys_did_not_seal() {
    // A larger checkpoint by an expired key vouched for a forged frame: the next opening signed for it anew.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let stolen = signing_seed(&path);
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    log.close().unwrap();
    let config = StreamConfig::default();
    let entry = Entry::new(time(), "sell", b"everything");
    let frame = forged(&path, DEFAULT, config, &[entry]);
    add(&path.join(DEFAULT), &frame);
    let mut tree = Frontier::new();
    for (_, bytes) in frames(&path.join(DEFAULT)) {
        let record = Frame::parse(&bytes).unwrap().record(Place::default());
        tree.push(leaf_hash(&record.encode()));
    }
    let origin = format!("{ORIGIN}/streams/default");
    let head = Checkpoint::new(&origin, tree.size(), tree.root()).unwrap();
    let key = SigningKey::from_seed(&origin, &stolen).unwrap();
    let honest = fs::read(path.join("streams/default/checkpoint")).unwrap();
    fs::write(
        path.join("streams/default/checkpoint"),
        head.sign(&[&key]).unwrap(),
    )
    .unwrap();
    let copies = folder.path().join("log.heads");
    for heads in ["kept", "gone"] {
        if heads == "gone" {
            fs::rename(&copies, folder.path().join("elsewhere")).unwrap();
        }
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        assert!(
            matches!(refused, LogError::Broken { .. }),
            "{heads}: {refused}"
        );
    }
    fs::write(path.join("streams/default/checkpoint"), honest).unwrap();
    fs::rename(folder.path().join("elsewhere"), &copies).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    intact(&path);
    assert_eq!(keys(&path), ["a", "b", "c", "d"]);
    assert_eq!(kept(&path), [frame]);
}

#[test]
fn an_older_journal_under_a_newer_stream_is_refused_and_touches_nothing() {
    // All but one stream was put back from an older copy: its newer checkpoint was called unreadable and written anew, and verification found
    // nothing any more. With the newer note of what was durable the advice was to accept the loss.
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let older = folder.path().join("older");
    copy_folder(&path, &older);
    copy_folder(
        &folder.path().join("log.heads"),
        &folder.path().join("older.heads"),
    );
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    log.close().unwrap();
    let checkpoint = fs::read(path.join("streams/default/checkpoint")).unwrap();
    fs::remove_dir_all(older.join("streams/default")).unwrap();
    copy_folder(
        &path.join("streams/default"),
        &older.join("streams/default"),
    );
    let refused = Log::open(&older, &root(), options()).unwrap_err();
    assert!(matches!(refused, LogError::Broken { .. }), "{refused}");
    assert_eq!(
        fs::read(older.join("streams/default/checkpoint")).unwrap(),
        checkpoint
    );
    fs::copy(path.join("durable"), older.join("durable")).unwrap();
    let accepting = Options {
        accept_loss: true,
        ..options()
    };
    let refused = Log::open(&older, &root(), accepting).unwrap_err();
    assert!(
        matches!(&refused, LogError::Lost { stream, .. } if stream == "journal"),
        "{refused}"
    );
}

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
        assert_eq!(fs::metadata(path.join("durable")).unwrap().len(), 120);
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
    assert!(matches!(refused, LogError::WrongKey), "{refused}");
}
