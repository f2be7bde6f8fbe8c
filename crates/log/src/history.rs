//! Reads what a log says of itself: its geometry, and its journal.

use std::io::ErrorKind;

use probity_format::DecodeError;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::{GEOMETRY_BYTES_MAX, Geometry, GeometryError};
use probity_format::keys::MasterKey;
use probity_format::limits::{CHECKPOINT_BYTES_MAX, FORMAT_VERSION};
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::journal::History;
use crate::scan::{End, Position, scan_believed};
use crate::segments::Identity;

/// The geometry's file: a folder without it is no log.
pub(crate) const GEOMETRY: &str = "probity.toml";

/// Reads the geometry of the log at `path`.
pub(crate) fn read_geometry(files: &Files, path: &str) -> Result<Geometry, LogError> {
    let not_a_log = || LogError::NotALog {
        path: path.to_owned(),
    };
    let max = u64::try_from(GEOMETRY_BYTES_MAX).unwrap_or(u64::MAX);
    let content = match files.read(GEOMETRY, max) {
        Err(LogError::Storage { source, .. }) if source.kind() == ErrorKind::InvalidData => {
            return Err(LogError::Broken {
                place: GEOMETRY.into(),
                reason: "is longer than any, or no file".into(),
            });
        }
        content => content?.ok_or_else(not_a_log)?,
    };
    let text = String::from_utf8(content).map_err(|_not_utf8| not_a_log())?;
    Geometry::parse(&text).map_err(|error| match error {
        GeometryError::Version { found } => LogError::Version {
            found,
            known: u64::from(FORMAT_VERSION),
        },
        GeometryError::Malformed(reason) => LogError::Broken {
            place: GEOMETRY.into(),
            reason: reason.into(),
        },
        _ => not_a_log(),
    })
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
/// that the checkpoint covers.
pub(crate) fn read_history(
    files: &Files,
    geometry: &Geometry,
    master: Option<&MasterKey>,
) -> Result<History, LogError> {
    let (name, identity) = (StreamName::journal(), Identity::journal(geometry));
    let mut history = History::new(geometry);
    let mut decompressor = Decompressor::default();
    let mut epochs = master.map(|master| Epochs::new(master, identity.id));
    let size = claimed_size(files, &name)?;
    let mut position = Position::start(identity);
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
        Ok::<(), LogError>(())
    };
    let _end: End = scan_believed(files, &name, &mut position, &mut believe, &mut add)?;
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
