//! An expired signing key in the hands of somebody who can write every file: its signatures are
//! found, and no writer goes on from them.

use std::fs;
use std::path::{Path, PathBuf};

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::MasterKey;
use probity_format::note::{Signer as _, SigningKey};
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES};
use probity_format::stream::StreamId;
use probity_format::tile::TreeWriter;
use probity_format::wrap::WrappedKind;
use probity_log::verify::{Fault, FaultClass, VerifyOptions, verify};
use probity_log::{Log, LogError, StreamConfig, StreamName};

use crate::keys::signing_seed;
use crate::sibling::copied;
use crate::{
    DEFAULT, HEADS, ORIGIN, append, closed, copy_folder, frames, intact, journal, keys, killed,
    options, root,
};

const CHECKPOINT: &str = "streams/default/checkpoint";

fn copy(path: &Path) -> PathBuf {
    path.with_file_name("log.heads").join("default")
}

/// The stream `default` as it is being forged.
struct Forgery {
    path: PathBuf,
    frames: Vec<Vec<u8>>,
}

impl Forgery {
    fn new(path: &Path) -> Self {
        let frames = frames(&path.join(DEFAULT)).into_iter();
        Self {
            path: path.to_owned(),
            frames: frames.map(|(_, bytes)| bytes).collect(),
        }
    }

    /// Changes the authenticator of a frame, which needs a key to make, and sets the frame's root
    /// to match.
    fn bend(&mut self, number: usize) {
        let frame = &mut self.frames[number];
        let trailer = frame.len() - 32;
        frame[trailer - 8] ^= 1;
        let root = Frame::parse(frame).unwrap().sealed_root();
        frame[trailer..].copy_from_slice(root.as_bytes());
        assert!(Frame::parse(frame).unwrap().is_whole());
    }

    /// Appends a frame without a valid seal.
    fn push(&mut self) {
        let mut next = self.frames.last().unwrap().clone();
        next[16] += 1;
        next[24] += 1;
        self.frames.push(next);
        self.bend(self.frames.len() - 1);
    }

    fn write_segment(&self) {
        let file = self.path.join(DEFAULT);
        let header = fs::read(&file).unwrap()[..SEGMENT_HEADER_BYTES].to_vec();
        fs::write(file, [header, self.frames.concat()].concat()).unwrap();
    }

    /// Writes tiles and bundles of the tree over the first `size` frames, and returns its head
    /// signed with the key of `seed`.
    fn write_tree(&self, size: usize, seed: &[u8; 32]) -> String {
        let mut tree = TreeWriter::new();
        for bytes in &self.frames[..size] {
            let record = Frame::parse(bytes).unwrap().record(Place::default());
            tree.append(&record.encode()).unwrap();
        }
        let folder = self.path.join("streams/default");
        for file in tree.take_files().write {
            let place = folder.join(&file.path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, file.bytes).unwrap();
        }
        let origin = format!("{ORIGIN}/streams/default");
        let head = Checkpoint::new(&origin, tree.size(), tree.root()).unwrap();
        let key = SigningKey::from_seed(&origin, seed).unwrap();
        head.sign(&[&key]).unwrap()
    }

    /// Writes everything with the checkpoint and its key to match, and returns the checkpoint.
    fn write(&self, seed: &[u8; 32]) -> String {
        self.write_segment();
        let key = SigningKey::from_seed(&format!("{ORIGIN}/streams/default"), seed).unwrap();
        let key = key.verifier_key().encode() + "\n";
        fs::write(self.path.join("streams/default/log.vkey"), key).unwrap();
        let note = self.write_tree(self.frames.len(), seed);
        fs::write(self.path.join(CHECKPOINT), &note).unwrap();
        note
    }
}

/// Opens the log, appends to `stream` and closes it, as many times.
fn openings(path: &Path, stream: &str, count: usize) {
    let name = StreamName::new(stream).unwrap();
    for _ in 0..count {
        let log = Log::open(path, &root(), options()).unwrap();
        log.create_stream(&name, StreamConfig::default()).unwrap();
        append(&log, &name, "later");
        log.close().unwrap();
    }
}

/// The faults of the stream `default` without the root key, with the first key in the log and with
/// the real one.
fn found(path: &Path) -> Vec<Fault> {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let anchor = Geometry::parse(&geometry).unwrap().anchor().clone();
    let with_anchor = VerifyOptions {
        known_key: Some(anchor),
        ..VerifyOptions::default()
    };
    let found = verify(path, &VerifyOptions::default()).unwrap().faults;
    assert_eq!(verify(path, &with_anchor).unwrap().faults, found);
    found
}

fn says(faults: &[Fault], place: &str, words: &str) -> bool {
    faults.iter().any(|it| {
        it.class == FaultClass::Checkpoint
            && it.stream == "default"
            && it.place == place
            && it.detail.contains(words)
    })
}

fn is_refused(path: &Path, what: &str) {
    let checkpoint = fs::read(path.join(CHECKPOINT)).unwrap();
    let refused = Log::open(path, &root(), options());
    let refused = refused.map(|log| log.repairs().to_vec()).unwrap_err();
    let LogError::Broken { place, .. } = &refused else {
        panic!("{what}: {refused}");
    };
    assert!(place.ends_with("of stream default"), "{what}: {refused}");
    let now = fs::read(path.join(CHECKPOINT)).unwrap();
    assert_eq!(now, checkpoint, "{what}: signed anew");
}

const EXPIRED: &str = "of the chain, though key";
const BEYOND: &str = "which normal writing cannot produce";

/// An idle stream was grown with the key that had signed it last, while keys moved on: verification
/// without the root key found no fault. A head beyond the last one in `heads` must be signed by no
/// earlier key than `heads` had when it was read.
#[test]
fn a_resting_stream_that_an_expired_key_grew_is_found_without_any_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let expired = signing_seed(&path);
    openings(&path, "b", 5);
    intact(&path);
    let honest = fs::read(path.join(CHECKPOINT)).unwrap();
    let mut forgery = Forgery::new(&path);
    forgery.push();
    let note = forgery.write(&expired);
    let faults = found(&path);
    assert!(says(&faults, CHECKPOINT, EXPIRED), "{faults:?}");
    assert!(says(&faults, CHECKPOINT, BEYOND), "{faults:?}");
    is_refused(&path, "copy untouched");
    fs::write(copy(&path), &note).unwrap();
    let faults = found(&path);
    assert!(says(&faults, CHECKPOINT, EXPIRED), "{faults:?}");
    let kept = "the second copy of the head";
    assert!(says(&faults, kept, EXPIRED), "{faults:?}");
    is_refused(&path, "with its copy");
    // The copy alone: the checkpoint may be behind it, and not signed by another key.
    fs::write(path.join(CHECKPOINT), &honest).unwrap();
    let faults = found(&path);
    assert!(says(&faults, kept, EXPIRED), "{faults:?}");
    is_refused(&path, "the copy alone");
    fs::write(path.join(CHECKPOINT), &note).unwrap();
    fs::remove_file(copy(&path)).unwrap();
    let faults = found(&path);
    assert!(says(&faults, CHECKPOINT, EXPIRED), "{faults:?}");
    is_refused(&path, "without its copy");
}

/// Replaces a folder of the log `to` by the one of the log `from`.
fn put_back(from: &Path, to: &Path, folder: &str) {
    fs::remove_dir_all(to.join(folder)).unwrap();
    copy_folder(&from.join(folder), &to.join(folder));
}

/// The thief of yesterday's key put back the stream `heads` as the newest certificate binds it, and
/// signed other entries than those of today: `verify` with the newest key said that no holder of
/// older keys can have made the log. A head that no frame of `heads` names must be signed by a key
/// whose certificate says that all heads before it were named.
#[test]
fn the_key_before_the_newest_signs_nothing_that_heads_does_not_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let yesterday = copied(&path, &folder.path().join("yesterday"));
    let expired = signing_seed(&path);
    openings(&path, "default", 1);
    intact(&path);
    put_back(&yesterday, &path, "streams/heads");
    put_back(&yesterday, &path, "streams/default");
    fs::remove_dir_all(path.with_file_name("log.heads")).unwrap();
    let mut forgery = Forgery::new(&path);
    // A rollback to the certificate alone: no copy is there that shows it.
    assert_eq!(found(&path), []);
    forgery.push();
    forgery.write(&expired);
    let faults = found(&path);
    assert!(says(&faults, CHECKPOINT, EXPIRED), "{faults:?}");
    is_refused(&path, "the key before the newest");
}

/// A writer was killed between a checkpoint and the frame of `heads` that names it, and the next
/// opening bound `heads` as they were: whoever had its key could exchange the entries that the key
/// before had signed. An opening that finds such a head certifies another key behind the frame that
/// names it.
#[test]
fn a_head_that_a_crash_left_unnamed_is_bound_before_the_present_key_signs() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let log = Log::open(&path, &root(), options()).unwrap();
    append(&log, &StreamName::default(), "d");
    let before = copied(&path, &folder.path().join("before"));
    log.publish().unwrap();
    let path = copied(&path, &folder.path().join("killed"));
    log.close().unwrap();
    put_back(&before, &path, "streams/heads");
    let heads = |path: &Path| path.with_file_name("log.heads").join("heads");
    fs::copy(heads(&before), heads(&path)).unwrap();
    fs::copy(before.join("durable"), path.join("durable")).unwrap();
    intact(&path);
    assert!(
        verify(&path, &VerifyOptions::default())
            .unwrap()
            .newest_holds
    );
    let log = Log::open(&path, &root(), options()).unwrap();
    let bound = bound_heads(&path);
    log.close().unwrap();
    intact(&path);
    let named = frames(&path.join(HEADS)).len();
    let before = frames(&before.join(HEADS)).len();
    assert!(
        (before + 1..=named).contains(&bound),
        "{before} {bound} {named}"
    );
    // Nothing was left to be named: one key for one opening.
    let certified = |path: &Path| {
        journal(path)
            .iter()
            .filter(|it| it[0] == "key.certify")
            .count()
    };
    let keys = certified(&path);
    let log = Log::open(&path, &root(), options()).unwrap();
    log.close().unwrap();
    assert_eq!(certified(&path), keys + 1);
}

/// Frames of `heads` that the newest certificate binds.
fn bound_heads(path: &Path) -> usize {
    let said = journal(path).into_iter().rev();
    let mut said = said.filter(|it| it[0] == "key.certify");
    let certificate = said.next().unwrap()[2].clone();
    certificate.lines().nth(4).unwrap().parse().unwrap()
}

/// A head that somebody remembers or keeps as the second copy gives nothing to the thief of an expired
/// key. One of frames that the log has signed says nothing new, or shows another root. One of more
/// frames is the thief's own, and its signer is a fault: it would vouch for frames that only the
/// thief has sealed.
#[test]
fn an_expired_key_vouches_for_nothing_new_in_a_head_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let expired = signing_seed(&path);
    openings(&path, "default", 2);
    let (copied, now) = (copy(&path), fs::read(copy(&path)).unwrap());
    let since = |note: &str| {
        let options = VerifyOptions {
            since: Some(note.as_bytes().to_vec()),
            ..VerifyOptions::default()
        };
        verify(&path, &options).unwrap().faults
    };
    let forgery = Forgery::new(&path);
    let same = forgery.write_tree(forgery.frames.len(), &expired);
    assert_eq!(since(&same), [], "it says what the log says");
    fs::write(&copied, &same).unwrap();
    assert_eq!(found(&path), [], "it says what the log says");
    fs::write(&copied, &now).unwrap();
    let mut bent = Forgery::new(&path);
    bent.bend(1);
    let head = |forgery: &Forgery| {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = Forgery {
            path: folder.path().to_owned(),
            frames: forgery.frames.clone(),
        };
        elsewhere.write_tree(forgery.frames.len(), &expired)
    };
    let faults = since(&head(&bent));
    let is_fork = |it: &Fault| it.class == FaultClass::Fork && it.stream == "default";
    assert!(faults.iter().any(is_fork), "{faults:?}");
    let mut grown = Forgery::new(&path);
    grown.push();
    grown.write_segment();
    let note = head(&grown);
    let faults = since(&note);
    let given = "the checkpoint given with --since";
    assert!(says(&faults, given, EXPIRED), "{faults:?}");
    fs::write(&copied, &note).unwrap();
    let faults = found(&path);
    let kept = "the second copy of the head";
    assert!(says(&faults, kept, EXPIRED), "{faults:?}");
    is_refused(&path, "the copy of an expired key");
}

/// A checkpoint beyond its second copy was never reported, though the writer refuses it. Even with
/// the current key, no writer leaves such a state.
#[test]
fn a_checkpoint_beyond_its_second_copy_is_found_without_any_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    openings(&path, "b", 2);
    let mut forgery = Forgery::new(&path);
    forgery.push();
    let note = forgery.write(&signing_seed(&path));
    let faults = found(&path);
    assert!(says(&faults, CHECKPOINT, BEYOND), "{faults:?}");
    assert_eq!(faults.len(), 1, "{faults:?}");
    is_refused(&path, "today's key");
    fs::write(copy(&path), &note).unwrap();
    assert_eq!(found(&path), [], "whoever has today's key signs as the log");
    is_refused(&path, "today's key, with the copy");
}

/// A writer compared the sizes of anchored and signed heads, and not their roots. Over a history
/// that the key of the first day had signed anew it gave a receipt, under the current key. An
/// anchored head is the only one of its size.
#[test]
fn no_writer_opens_over_a_history_that_an_expired_key_signed() {
    for grown in 0..2 {
        for note_is_kept in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = closed(folder.path());
            let expired = signing_seed(&path);
            openings(&path, "default", 2);
            let mut forgery = Forgery::new(&path);
            forgery.bend(1);
            for _ in 0..grown {
                forgery.push();
            }
            let note = forgery.write(&expired);
            fs::write(copy(&path), &note).unwrap();
            if !note_is_kept {
                fs::remove_file(path.join("durable")).unwrap();
            }
            let what = format!("{grown} frames grown, note kept: {note_is_kept}");
            is_refused(&path, &what);
            // Nor is it written on where no head is left but the one that was anchored.
            fs::remove_file(copy(&path)).unwrap();
            is_refused(&path, &what);
        }
    }
}

/// The frames behind the anchored head were read from the segments and the tree from its tiles, so
/// that both could differ: a tree of other frames was signed for. Only the tree of the frames that
/// were read is signed for.
#[test]
fn no_writer_signs_a_tree_of_other_frames_than_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    // Behind the anchored head are frames that the log's keys sealed.
    let path = killed(folder.path());
    let today = signing_seed(&path);
    let mut forgery = Forgery::new(&path);
    forgery.bend(4);
    let note = forgery.write_tree(8, &today);
    fs::write(path.join(CHECKPOINT), &note).unwrap();
    fs::write(copy(&path), &note).unwrap();
    for note_is_kept in [true, false] {
        if !note_is_kept {
            fs::remove_file(path.join("durable")).unwrap();
        }
        is_refused(&path, &format!("note kept: {note_is_kept}"));
    }
}

/// The root in the note of durable frames was checked only behind the signed frames. It is compared
/// wherever the note counts frames that are there.
#[test]
fn frames_that_are_not_those_of_the_note_are_refused_where_they_are_signed_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = closed(folder.path());
    let now = fs::read(path.join("durable")).unwrap();
    // The note of a machine that went on from a copy of this one's memory: two of three frames are
    // the same.
    let mut other = now.clone();
    let slot = &mut other[216..324];
    slot[44] ^= 1;
    let name = StreamName::default();
    let geometry =
        Geometry::parse(&fs::read_to_string(path.join("probity.toml")).unwrap()).unwrap();
    let id = StreamId::new(&geometry.fingerprint(), &name, &StreamConfig::default());
    let wrapped = fs::read(path.join("keys/master.key")).unwrap();
    let wrapping = root().wrapping_key(&geometry.fingerprint());
    let master = wrapping
        .unwrap(WrappedKind::Master, b"master", &wrapped)
        .unwrap();
    let said = [id.as_bytes().as_slice(), &slot[..76]].concat();
    let tag = MasterKey::new(master).note_key().tag(&said);
    slot[76..].copy_from_slice(&tag);
    fs::write(path.join("durable"), &other).unwrap();
    is_refused(&path, "another branch");
    fs::write(path.join("durable"), now).unwrap();
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(keys(&path), ["a", "b", "c"]);
}
