//! Reads what a log says of itself: its geometry, and its journal.

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
use probity_format::{DecodeError, Version, v2};

use crate::epochs::{CertifiedEpochs, Epochs};
use crate::error::LogError;
use crate::files::{Files, is_strange, unless_strange};
use crate::journal::History;
use crate::scan::{End, Position, read, scan_believed};
use crate::segments::{Identity, path};

/// The geometry's file: a folder without it is no log.
pub(crate) const GEOMETRY: &str = "probity.toml";

/// Reads the geometry of the log at `path`.
///
/// A folder with `streams` in it holds a log, whatever became of its geometry: that nothing readable says what it is is damage.
///
/// # Errors
/// [`LogError::NotALog`], [`LogError::Version`], [`LogError::Broken`], those of the storage.
pub(crate) fn read_geometry(files: &Files, path: &str) -> Result<Geometry, LogError> {
    let broken = |reason: &str| LogError::Broken {
        place: format!("{path}/{GEOMETRY}"),
        reason: format!("{reason}; put back a copy of it, and verify the log"),
    };
    let max = u64::try_from(GEOMETRY_BYTES_MAX).unwrap_or(u64::MAX);
    let content = match files.read(GEOMETRY, max) {
        Ok(Some(content)) => content,
        Ok(None) if has_streams(files)? => {
            return Err(broken("is missing, though there are streams of a log"));
        }
        Ok(None) => return Err(not_a_log(path)),
        // What is no folder at all holds no log.
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

/// Whether there is anything in the folder of streams, or something else in its place.
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

/// Whether the journal begins with the header and the frame of one log, and `geometry` is of another.
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

/// Fills `bytes` with the beginning of the file at `path`, and gives whether there is one that is long enough.
fn reads(files: &Files, path: &str, bytes: &mut [u8]) -> Result<bool, LogError> {
    let file = match files.open_read(path) {
        Err(error) if is_strange(&error) => None,
        file => file?,
    };
    let Some(file) = file else {
        return Ok(false);
    };
    let length = files.attempt("measure", path, |_| file.length())?;
    if usize::try_from(length).is_ok_and(|length| length < bytes.len()) {
        return Ok(false);
    }
    read(files, path, &*file, bytes, 0)?;
    Ok(true)
}

/// The published checkpoint of `stream`, if there is one.
pub(crate) fn read_checkpoint(
    files: &Files,
    stream: &StreamName,
) -> Result<Option<String>, LogError> {
    let place = format!("streams/{stream}/checkpoint");
    let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    // What is no checkpoint at all becomes an empty one, which is not readable either.
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

/// Reads what the journal says as far as it is whole.
///
/// Only frames that a holder of `master` sealed are believed: the journal is in clear, and anybody can write one that looks whole. Without a key only those are
/// that the checkpoint covers; and in a log of version 2, where no frame says who sealed it, with a key too.
pub(crate) fn read_history(
    files: &Files,
    geometry: &Geometry,
    master: Option<&MasterKey>,
) -> Result<History, LogError> {
    let (name, identity) = (StreamName::journal(), Identity::journal(geometry));
    let mut history = History::new(geometry);
    let mut decompressor = Decompressor::default();
    let master = master.filter(|_| identity.version != Version::V2);
    // The first frame of each opening holds its certificate, which those behind it need.
    let none = CertifiedEpochs::default();
    let mut epochs = master.map(|master| Epochs::new(master, &none, &name, identity.id));
    let size = claimed_size(files, &name)?;
    let mut position = Position::start(identity);
    let mut tree = Frontier::new();
    let mut believe = |record: &Record, frame: &Frame<'_>| match &mut epochs {
        Some(epochs) => epochs.authenticate(frame),
        None => record.frame < size,
    };
    let mut add = |record: &Record, frame: &Frame<'_>| {
        add_to_history(&mut history, record.frame, frame, &mut decompressor)
            .map_err(|error| broken(&error))?;
        if let Some(v2) = &mut history.v2 {
            v2.heads.clear();
        }
        tree.push(leaf_hash(&record.encode()));
        Ok::<(), LogError>(())
    };
    let _end: End = scan_believed(files, &name, &mut position, &mut believe, &mut add)?;
    history.read = Bound {
        size: tree.size(),
        root: tree.root(),
    };
    Ok(history)
}

/// The size in the published checkpoint of `stream`. Whose checkpoint it is shows when the keys are known.
fn claimed_size(files: &Files, stream: &StreamName) -> Result<u64, LogError> {
    let path = format!("streams/{stream}/checkpoint");
    let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    // What is no checkpoint claims nothing; recovery and verification say so.
    let note = unless_strange(files.read(&path, max))?;
    let note = note.and_then(|note| SignedNote::parse(&note).ok());
    let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
    Ok(head.map_or(0, |head| head.size()))
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
