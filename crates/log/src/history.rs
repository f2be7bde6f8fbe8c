//! Reads the log's own description: its geometry and its journal.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use probity_format::certificate::Bound;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::{FRAME_HEADER_BYTES, Frame, FrameHeader};
use probity_format::geometry::{GEOMETRY_BYTES_MAX, Geometry, GeometryError};
use probity_format::keys::MasterKey;
use probity_format::limits::{CHECKPOINT_BYTES_MAX, FORMAT_VERSION};
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::segment::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC};
use probity_format::stream::StreamName;
use probity_format::tree::{Frontier, leaf_hash};
use probity_format::width::to_u64;
use probity_format::wrap::WrappingKey;
use probity_format::{DecodeError, Version, v2};

use crate::advice;
use crate::epochs::{Epochs, Growing};
use crate::error::LogError;
use crate::files::{Files, is_strange, unless_strange};
use crate::heads::Heads;
use crate::journal::History;
use crate::keystore::signer_of_key;
use crate::repairs::announced;
use crate::scan::{End, Position, read_there, scan_believed};
use crate::segments::{Identity, path};

/// The geometry's file: a folder without it is no log.
pub(crate) const GEOMETRY: &str = "probity.toml";

/// Reads the geometry of the log at `path`.
///
/// A folder with `streams` in it holds a log, even if its geometry is gone. A log without readable
/// geometry is damaged.
///
/// # Errors
/// [`LogError::NotALog`], [`LogError::Version`], [`LogError::Broken`], errors of the storage.
pub(crate) fn read_geometry(files: &Files, path: &str) -> Result<Geometry, LogError> {
    let broken = |reason: &str| LogError::Broken {
        place: format!("{path}/{GEOMETRY}"),
        reason: format!("{reason}; {}, then verify the log", advice::GEOMETRY),
    };
    let max = to_u64(GEOMETRY_BYTES_MAX);
    let content = match files.read(GEOMETRY, max) {
        Ok(Some(content)) => content,
        Ok(None) if has_streams(files)? => {
            return Err(broken("is missing, though there are streams of a log"));
        }
        Ok(None) => return Err(not_a_log(path)),
        // A path that is no folder at all holds no log.
        Err(error) if is_strange(&error) => {
            let is_folder = files.list("").is_ok();
            return Err(if is_folder { error } else { not_a_log(path) });
        }
        Err(error) => return Err(error),
    };
    let text = String::from_utf8(content).map_err(|_not_utf8| broken("is not text"))?;
    let geometry = Geometry::parse(&text);
    let says = match &geometry {
        Ok(geometry) => Some(u64::from(geometry.version().number())),
        Err(GeometryError::Version { found }) => Some(*found),
        Err(_) => None,
    };
    if let (Some(says), Some(version)) = (says, version_of_segments(files)?)
        && says != u64::from(version.number())
    {
        let segments = version.number();
        return Err(broken(&format!(
            "says format {says}, but the segments are of format {segments}: it was edited"
        )));
    }
    geometry.map_err(|error| match error {
        GeometryError::Version { found } => LogError::Version {
            found,
            known: u64::from(FORMAT_VERSION),
        },
        GeometryError::Malformed(reason) => broken(reason),
        _ => broken("is not in the form this build knows"),
    })
}

fn not_a_log(path: &str) -> LogError {
    LogError::NotALog {
        path: path.to_owned(),
    }
}

/// Returns whether there is anything in the folder of streams, or something else in its place.
fn has_streams(files: &Files) -> Result<bool, LogError> {
    match files.list("streams") {
        Err(error) if is_strange(&error) => Ok(true),
        names => names.map(|names| !names.is_empty()),
    }
}

/// The version of the journal's first segment, if its header is of one that this build knows.
fn version_of_segments(files: &Files) -> Result<Option<Version>, LogError> {
    let journal = StreamName::journal();
    let mut magic = [0; SEGMENT_MAGIC.len()];
    if reads(files, &path(Version::V3, &journal, 0), &mut magic)? && magic == *SEGMENT_MAGIC {
        return Ok(Some(Version::V3));
    }
    let mut header = [0; v2::SEGMENT_HEADER_BYTES];
    let is_older = reads(files, &path(Version::V2, &journal, 0), &mut header)?
        && v2::SegmentHeader::decode(&header).is_ok();
    Ok(is_older.then_some(Version::V2))
}

/// Returns whether the journal begins with header and frame of one log while `geometry` is of
/// another.
pub(crate) fn is_of_another_log(files: &Files, geometry: &Geometry) -> bool {
    let mut bytes = [0; SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES];
    let first = path(Version::V3, &StreamName::journal(), 0);
    if !reads(files, &first, &mut bytes).is_ok_and(|read| read) {
        return false;
    }
    let (segment, frame) = bytes.split_at(SEGMENT_HEADER_BYTES);
    let of_segment = segment.strip_prefix(SEGMENT_MAGIC.as_slice());
    let of_frame = FrameHeader::decode(frame).map(|header| header.stream);
    let own = Identity::journal(geometry).id;
    // A header alone may be damaged.
    of_frame.is_ok_and(|id| id != own && of_segment == Some(id.as_bytes().as_slice()))
}

/// Fills `bytes` with the beginning of the file at `path`, and returns whether there is one that is
/// long enough.
fn reads(files: &Files, path: &str, bytes: &mut [u8]) -> Result<bool, LogError> {
    let file = match files.open_read(path) {
        Err(error) if is_strange(&error) => None,
        file => file?,
    };
    let Some(file) = file else {
        return Ok(false);
    };
    read_there(files, path, &*file, bytes, 0)
}

/// The published checkpoint of `stream`, if there is one.
pub(crate) fn read_checkpoint(
    files: &Files,
    stream: &StreamName,
) -> Result<Option<String>, LogError> {
    let place = format!("streams/{stream}/checkpoint");
    let max = to_u64(CHECKPOINT_BYTES_MAX);
    // A file that is too long or no file becomes an empty note, which is not readable either.
    let Some(note) = unless_strange(files.read(&place, max))? else {
        return Ok(None);
    };
    String::from_utf8(note)
        .map(Some)
        .map_err(|_not_utf8| LogError::Broken {
            place,
            reason: "is not text".into(),
        })
}

/// Reads the journal as far as it is whole.
///
/// Only frames that a holder of `master` sealed are believed: the journal is in clear, and anybody
/// can write one that looks whole. No frame of an opening that is not signed for is believed.
/// Without a key, only the frames that the checkpoint covers are. In a log of version 2, where no
/// frame says who sealed it, the same holds with a key.
pub(crate) fn read_history(
    files: &Files,
    geometry: &Geometry,
    master: Option<&MasterKey>,
) -> Result<History, LogError> {
    let Some(master) = master.filter(|_| geometry.version() != Version::V2) else {
        let read = read_journal(files, geometry, None, (u64::MAX, None))?;
        return match read.refused {
            Some((_, error)) => Err(broken(&error)),
            None => Ok(read.history),
        };
    };
    read_signed(files, None, geometry, master, 0)
}

/// Reads the journal like [`read_history`], and its very first frame whether signed for or not: the
/// creation of a log leaves it so where it ends early.
pub(crate) fn read_history_begun(
    files: &Files,
    geometry: &Geometry,
    master: &MasterKey,
) -> Result<History, LogError> {
    if geometry.version() == Version::V2 {
        return read_history(files, geometry, Some(master));
    }
    read_signed(files, None, geometry, master, 1)
}

/// Reads the journal like [`read_history`], for the writer, which checks the second copies of heads
/// too. It also believes the frames for which an earlier opening was about to sign, as `repairs`
/// says: somebody may hold that head. Of an opening that ended before that, only its first frame is
/// left, which is set aside. The log's very first frame stays, because a creation left it.
pub(crate) fn read_history_to_write(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    (master, wrapping): (&MasterKey, &WrappingKey),
) -> Result<History, LogError> {
    if geometry.version() == Version::V2 {
        return read_history(files, geometry, Some(master));
    }
    let writer = Writer { heads, wrapping };
    read_signed(files, Some(&writer), geometry, master, 1)
}

/// The second copies and keys that the writer alone has.
struct Writer<'a> {
    heads: &'a Heads,
    wrapping: &'a WrappingKey,
}

/// Returns whether an opening that accepted a loss of keys was about to sign for that with a key that
/// the log still has, and no checkpoint covers it. The next opening for writing finishes that.
pub(crate) fn is_giving_up(
    files: &Files,
    geometry: &Geometry,
    master: &MasterKey,
    wrapping: &WrappingKey,
) -> Result<bool, LogError> {
    let Some(bound) = announced(files, &master.note_key())? else {
        return Ok(false);
    };
    let JournalRead {
        history,
        has_announced,
        ..
    } = read_journal(files, geometry, Some(master), (u64::MAX, Some(bound)))?;
    let signed = signed_frames(files, None, geometry, &history)?;
    let signed = signed.unwrap_or(u64::MAX);
    let given_up = history.given_up.as_ref();
    let is_uncovered = given_up.is_some_and(|it| it.frame >= signed && it.frame < bound.size);
    if !has_announced || !is_uncovered {
        return Ok(false);
    }
    Ok(begun(files, wrapping, geometry, (&history, bound))?.is_some())
}

/// Returns the number of frames for which an earlier opening was about to sign with a key that the
/// log still has. Without the key, the frames and `repairs` are of a copy of the log that was opened
/// elsewhere.
fn begun(
    files: &Files,
    wrapping: &WrappingKey,
    geometry: &Geometry,
    (history, announced): (&History, Bound),
) -> Result<Option<u64>, LogError> {
    let place = history.certificates_within(announced.size);
    let Some((key, _)) = history.keys.get(place) else {
        return Ok(None);
    };
    let signer = signer_of_key(files, wrapping, geometry.origin(), key)?;
    Ok(signer.map(|_signer| announced.size))
}

/// Reads up to the first frame of an opening that nobody has signed for. The first `taken` frames
/// are believed, signed for or not.
fn read_signed(
    files: &Files,
    writer: Option<&Writer<'_>>,
    geometry: &Geometry,
    master: &MasterKey,
    taken: u64,
) -> Result<History, LogError> {
    let announced = match writer {
        Some(_) => announced(files, &master.note_key())?,
        None => None,
    };
    let mut read = read_journal(files, geometry, Some(master), (u64::MAX, announced))?;
    let begun = match (writer, announced.filter(|_| read.has_announced)) {
        (Some(writer), Some(journal)) => {
            begun(files, writer.wrapping, geometry, (&read.history, journal))?
        }
        _ => None,
    };
    let named = announced.map(|announced| announced.size);
    let short_of = named.filter(|named| *named > read.history.read.size);
    let copies = writer.map(|writer| writer.heads);
    let covered = signed_frames(files, None, geometry, &read.history)?;
    let signed = match copies {
        Some(_) => signed_frames(files, copies, geometry, &read.history)?,
        None => covered,
    };
    let signed = signed.map(|signed| signed.max(begun.unwrap_or_default()));
    let refused = read.refused.as_ref().map(|(frame, _)| *frame);
    let first_of = |signed| read.openings.range(signed..).next().copied();
    let unsigned = signed.and_then(first_of).map(|first| first.max(taken));
    // A frame that is not signed for and does not follow is of another log, or of another copy of
    // this one.
    let is_foreign = |frame: &u64| signed.is_some_and(|signed| *frame >= signed);
    let ends = unsigned.into_iter().chain(refused.filter(is_foreign));
    if let Some(end) = ends.min() {
        read = read_journal(files, geometry, Some(master), (end, None))?;
    }
    if let Some((_, error)) = read.refused {
        return Err(broken(&error));
    }
    read.history.signed = signed;
    read.history.covered = covered;
    read.history.begun = begun;
    read.history.short_of = short_of;
    read.history.unfinished = unsigned.filter(|frame| *frame == read.history.frames());
    Ok(read.history)
}

/// The journal as it was read.
struct JournalRead {
    history: History,
    /// The frames that hold the certificate of their own epoch.
    openings: BTreeSet<u64>,
    /// The frame at which it ends, because no log writes such content.
    refused: Option<(u64, DecodeError)>,
    /// True when the journal has the frames that were sought.
    has_announced: bool,
}

/// Reads the journal up to frame `end`, and looks whether it begins with the frames of `sought`;
/// with `master` only the frames that its holder sealed.
fn read_journal(
    files: &Files,
    geometry: &Geometry,
    master: Option<&MasterKey>,
    (end, sought): (u64, Option<Bound>),
) -> Result<JournalRead, LogError> {
    let (name, identity) = (StreamName::journal(), Identity::journal(geometry));
    let history = RefCell::new(History::new(geometry, files.checked_certificates()));
    let mut openings = BTreeSet::new();
    let mut decompressor = Decompressor::default();
    let growing = Growing(&history);
    let mut epochs =
        master.map(|master| Epochs::new(master, &growing, &name, identity.id).with_unsigned());
    let size = claimed_size(files, &name)?;
    let mut position = Position::start(identity);
    let mut tree = Frontier::new();
    let mut has_announced = false;
    let refused = Cell::new(None);
    let mut believe = |record: &Record, frame: &Frame<'_>| {
        record.frame < end
            && refused.get().is_none()
            && match &mut epochs {
                Some(epochs) => epochs.authenticate(frame),
                None => record.frame < size,
            }
    };
    let mut add = |record: &Record, frame: &Frame<'_>| {
        let mut history = history.borrow_mut();
        let added = add_to_history(&mut history, record.frame, frame, &mut decompressor);
        if let Err(error) = added {
            refused.set(Some((record.frame, error)));
            return Ok(());
        }
        if let Some(v2) = &mut history.v2 {
            v2.heads.clear();
        }
        let epoch = u64::from(frame.clear.header.epoch);
        if epoch == record.frame {
            openings.insert(epoch);
        }
        tree.push(leaf_hash(&record.encode()));
        let at_size = sought.filter(|sought| sought.size == tree.size());
        has_announced |= at_size.is_some_and(|sought| sought.root == tree.root());
        Ok::<(), LogError>(())
    };
    let _end: End = scan_believed(files, &name, &mut position, &mut believe, &mut add)?;
    let mut history = history.into_inner();
    history.read = Bound {
        size: tree.size(),
        root: tree.root(),
    };
    Ok(JournalRead {
        history,
        openings,
        refused: refused.into_inner(),
        has_announced,
    })
}

/// Frames of the journal that are signed for, by the heads of the journal and of `heads`. A key
/// signs for nothing but the journal before the journal covers its certificate. Returns nothing
/// where no head is signed by a key of the chain.
fn signed_frames(
    files: &Files,
    copies: Option<&Heads>,
    geometry: &Geometry,
    history: &History,
) -> Result<Option<u64>, LogError> {
    let max = to_u64(CHECKPOINT_BYTES_MAX);
    let mut signed = None;
    for name in [StreamName::journal(), StreamName::heads()] {
        let published = unless_strange(files.read(&format!("streams/{name}/checkpoint"), max))?;
        let kept = match copies {
            Some(copies) => copies.load(&name)?,
            None => None,
        };
        let notes = published.into_iter().chain(kept);
        let sizes = notes.filter_map(|note| signed_by(history, geometry, &name, &note));
        signed = signed.max(sizes.max());
    }
    Ok(signed)
}

/// Frames of the journal that `note` signs for, a head of the journal or of `heads`. Returns
/// nothing where no key of the chain signed it.
pub(crate) fn signed_by(
    history: &History,
    geometry: &Geometry,
    name: &StreamName,
    note: &[u8],
) -> Option<u64> {
    let origin = geometry.stream_origin(name.as_str());
    let (signer, head) = history.open(note, &origin).ok()?;
    // The first key is the geometry's, and in no certificate.
    let certified = signer.checked_sub(1);
    let certified = certified.and_then(|place| history.certificates_at(place));
    let certified = certified.map_or(0, |frame| frame.saturating_add(1));
    let is_due = signer >= history.certificates_within(head.size());
    let is_journal = name.as_str() == StreamName::JOURNAL;
    let covered = if is_journal && is_due { head.size() } else { 0 };
    Some(certified.max(covered))
}

/// The size in the published checkpoint of `stream`. The signer is checked later, when the keys are
/// known.
pub(crate) fn claimed_size(files: &Files, stream: &StreamName) -> Result<u64, LogError> {
    Ok(claimed_head(files, stream)?.map_or(0, |head| head.size()))
}

/// The head in the published checkpoint of `stream`, by any signer.
pub(crate) fn claimed_head(
    files: &Files,
    stream: &StreamName,
) -> Result<Option<Checkpoint>, LogError> {
    let path = format!("streams/{stream}/checkpoint");
    let max = to_u64(CHECKPOINT_BYTES_MAX);
    // An unreadable checkpoint claims nothing; recovery and verification report it.
    let note = unless_strange(files.read(&path, max))?;
    let note = note.and_then(|note| SignedNote::parse(&note).ok());
    Ok(note.and_then(|note| Checkpoint::parse(note.text()).ok()))
}

fn broken(error: &DecodeError) -> LogError {
    LogError::Broken {
        place: "the journal".into(),
        reason: error.to_string(),
    }
}

/// Adds the entries of one journal frame to `history`.
pub(crate) fn add_to_history(
    history: &mut History,
    number: u64,
    frame: &Frame<'_>,
    decompressor: &mut Decompressor,
) -> Result<(), DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    history.add(&body.columns()?, number)
}
