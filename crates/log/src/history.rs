//! Reads what a log says of itself: its geometry, and its journal from the first frame on.

use probity_format::DecodeError;
use probity_format::column::Columns;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::{GEOMETRY_BYTES_MAX, Geometry, GeometryError};
use probity_format::limits::{CHECKPOINT_BYTES_MAX, FORMAT_VERSION};
use probity_format::stream::{StreamConfig, StreamId, StreamName};

use crate::error::LogError;
use crate::files::Files;
use crate::journal::History;
use crate::scan::{End, Position, scan};

/// The geometry's file: a folder without it is no log.
pub(crate) const GEOMETRY: &str = "probity.toml";

/// Reads the geometry of the log at `path`.
pub(crate) fn read_geometry(files: &Files, path: &str) -> Result<Geometry, LogError> {
    let not_a_log = || LogError::NotALog {
        path: path.to_owned(),
    };
    let max = u64::try_from(GEOMETRY_BYTES_MAX).unwrap_or(u64::MAX);
    let content = files.read(GEOMETRY, max)?.ok_or_else(not_a_log)?;
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
    let Some(note) = files.read(&place, max)? else {
        return Ok(None);
    };
    String::from_utf8(note)
        .map(Some)
        .map_err(|_not_utf8| LogError::Broken {
            place,
            reason: "is not text".into(),
        })
}

/// Reads the whole journal as far as it is whole, without the heads that it anchors: there are more with every
/// second, and only whoever verifies asks for them.
pub(crate) fn read_history(files: &Files, geometry: &Geometry) -> Result<History, LogError> {
    let fingerprint = geometry.fingerprint();
    let name = StreamName::journal();
    let id = StreamId::new(&fingerprint, &name, &StreamConfig::JOURNAL);
    let mut history = History::new(geometry.anchor().clone());
    let mut decompressor = Decompressor::default();
    let mut position = Position::start(id, fingerprint);
    let _end: End = scan(files, &name, &mut position, &mut |record, frame| {
        add_to_history(&mut history, record.frame, frame, &mut decompressor).map_err(|error| {
            LogError::Broken {
                place: "the journal".into(),
                reason: error.to_string(),
            }
        })?;
        history.heads.clear();
        Ok(())
    })?;
    Ok(history)
}

/// Adds the entries of one journal frame to `history`.
pub(crate) fn add_to_history(
    history: &mut History,
    number: u64,
    frame: &Frame<'_>,
    decompressor: &mut Decompressor,
) -> Result<(), DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = Columns::decode(&body.packed, &body.plain)?;
    for index in 0..columns.len() {
        history.add(&columns.entry(index)?, number)?;
    }
    Ok(())
}
