//! Reads what a log says of itself: its geometry, and its journal.

use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::{GEOMETRY_BYTES_MAX, Geometry, GeometryError};
use probity_format::keys::MasterKey;
use probity_format::limits::{CHECKPOINT_BYTES_MAX, FORMAT_VERSION};
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::segment::SEGMENT_MAGIC;
use probity_format::stream::StreamName;
use probity_format::{DecodeError, Version, v2};

use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::{Files, is_strange, unless_strange};
use crate::journal::{History, is_telling, telling_before};
use crate::records::Records;
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

/// Reads what the journal says as far as it is whole, without the heads that it anchors.
///
/// Only frames that a holder of `master` sealed are believed: the journal is in clear, and anybody can write one that looks whole. Without a key only those are
/// that the checkpoint covers.
///
/// Each frame names the last one before it that says more than heads, so that those are read alone, from the published
/// checkpoint back to the first, and after them what came behind the checkpoint. Where something on that way is missing or
/// damaged, the whole journal is read.
pub(crate) fn read_history(
    files: &Files,
    geometry: &Geometry,
    master: Option<&MasterKey>,
) -> Result<History, LogError> {
    let journal = Journal {
        files,
        name: StreamName::journal(),
        identity: Identity::journal(geometry),
    };
    let mut history = History::new(geometry);
    let mut decompressor = Decompressor::default();
    let mut epochs = master.map(|master| Epochs::new(master, journal.identity.id));
    let size = journal.claimed_size()?;
    let published = match journal.read_back(size, &mut history, epochs.as_mut(), &mut decompressor)
    {
        Err(LogError::Broken { .. }) => None,
        read => read?,
    };
    let mut position = published.unwrap_or_else(|| {
        history = History::new(geometry);
        Position::start(journal.identity)
    });
    let mut believe = |record: &Record, frame: &Frame<'_>| match &mut epochs {
        Some(epochs) => epochs.authenticate(frame),
        None => record.frame < size,
    };
    let mut add = |record: &Record, frame: &Frame<'_>| {
        add_to_history(&mut history, record.frame, frame, &mut decompressor)
            .map_err(|error| broken(&error))?;
        history.heads.clear();
        Ok::<(), LogError>(())
    };
    let _end: End = scan_believed(files, &journal.name, &mut position, &mut believe, &mut add)?;
    Ok(history)
}

/// The journal of a log, to be read backwards.
struct Journal<'a> {
    files: &'a Files,
    name: StreamName,
    identity: Identity,
}

impl Journal<'_> {
    /// The size in the published checkpoint. Whose checkpoint it is shows when the keys are known; until then it only says where to begin.
    fn claimed_size(&self) -> Result<u64, LogError> {
        let path = format!("streams/{}/checkpoint", self.name);
        let max = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
        // What is no checkpoint claims nothing; recovery and verification say so.
        let note = unless_strange(self.files.read(&path, max))?;
        let note = note.and_then(|note| SignedNote::parse(&note).ok());
        let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
        Ok(head.map_or(0, |head| head.size()))
    }

    /// Adds to `history` what the first `size` frames say, which are published, and gives the position behind it. Nothing where nothing is published, or
    /// the frames do not lead back to the first.
    fn read_back(
        &self,
        size: u64,
        history: &mut History,
        mut epochs: Option<&mut Epochs<'_>>,
        decompressor: &mut Decompressor,
    ) -> Result<Option<Position>, LogError> {
        let mut records = Records::new(self.files, &self.name, self.identity, size);
        let Some(last) = records.last()? else {
            return Ok(None);
        };
        let mut telling = Vec::new();
        let mut record = last;
        loop {
            let Some(bytes) = records.stored(&record)? else {
                return Ok(None);
            };
            let frame = Frame::parse(&bytes).map_err(|error| broken(&error))?;
            if epochs
                .as_mut()
                .is_some_and(|epochs| !epochs.authenticate(&frame))
            {
                return Ok(None);
            }
            let (before, is_telling) =
                leads(&frame, decompressor).map_err(|error| broken(&error))?;
            // The last frame says how many slots of subjects there are, whatever else it says.
            if is_telling || telling.is_empty() {
                telling.push((record.frame, bytes));
            }
            let Some(before) = before else { break };
            match records.of_frame(before)? {
                Some(found) if before < record.frame => record = found,
                _ => return Ok(None),
            }
        }
        if record.frame != 0 {
            return Ok(None);
        }
        for (number, bytes) in telling.iter().rev() {
            let frame = Frame::parse(bytes).map_err(|error| broken(&error))?;
            add_to_history(history, *number, &frame, decompressor)
                .map_err(|error| broken(&error))?;
            history.heads.clear();
        }
        records.behind(&last)
    }
}

/// The frame that a journal frame names before it, and whether it says more than heads itself.
fn leads(
    frame: &Frame<'_>,
    decompressor: &mut Decompressor,
) -> Result<(Option<u64>, bool), DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = body.columns()?;
    let (mut before, mut tells) = (None, false);
    for index in 0..columns.len() {
        let entry = columns.entry(index)?;
        match telling_before(&entry) {
            Some(frame) => before = Some(frame),
            None => tells |= is_telling(&entry),
        }
    }
    Ok((before, tells))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use probity_format::keys::{RootKey, Secret};
    use probity_format::stream::StreamConfig;
    use probity_format::{Entry, Timestamp};

    use super::*;
    use crate::clock::SystemClock;
    use crate::scan::{scan, stored_frame};
    use crate::segments::Walk;
    use crate::storage::Memory;
    use crate::{Log, Options, Places};

    /// The frames of a journal with three heads; before the second, a stream comes into being if `with_stream`.
    fn journal(with_stream: bool) -> (Geometry, Vec<Vec<u8>>) {
        let places = Places::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "the log");
        let root = RootKey::new(Secret::new([7; 32]));
        let options = Options {
            checkpoint_interval: Duration::from_hours(1),
            ..Options::default()
        };
        let config = StreamConfig::default();
        let clock = || Arc::new(SystemClock::new());
        let origin = "example.com/log";
        Log::create_at(&places, origin, &root, config, options.clone(), clock()).unwrap();
        let log = Log::open_at(&places, &root, options, clock()).unwrap();
        for head in 0..3 {
            if head == 1 && with_stream {
                let name = StreamName::new("later").unwrap();
                log.create_stream(&name, config).unwrap();
            } else if head == 1 {
                anchor(&log);
            }
            anchor(&log);
        }
        log.close().unwrap();
        let files = Files::of_log(&places, &Options::default());
        let geometry = read_geometry(&files, "the log").unwrap();
        let name = StreamName::journal();
        let identity = Identity::journal(&geometry);
        let mut position = Position::start(identity);
        let mut frames = Vec::new();
        let mut walk = Walk::default();
        scan(&files, &name, &mut position, &mut |record, _| {
            let place = walk.pass(record.frame, Some(record)).unwrap();
            let stored = stored_frame(&files, &name, &identity, record, place).unwrap();
            frames.push(stored.unwrap());
            Ok::<(), LogError>(())
        })
        .unwrap();
        (geometry, frames)
    }

    fn anchor(log: &Log) {
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
        let mut appender = log.appender(&StreamName::default()).unwrap();
        appender
            .append_durable(&Entry::new(time, "write", b"key"))
            .unwrap();
        log.publish().unwrap();
    }

    fn add(history: &mut History, number: usize, frame: &[u8]) -> Result<(), DecodeError> {
        let frame = Frame::parse(frame).unwrap();
        let number = u64::try_from(number).unwrap();
        add_to_history(history, number, &frame, &mut Decompressor::default())
    }

    #[test]
    fn a_frame_that_names_another_before_it_is_refused() {
        let (geometry, plain) = journal(false);
        let (_, other) = journal(true);
        assert_eq!(plain.len(), other.len());
        let last = plain.len() - 1;
        let begin = || {
            let mut history = History::new(&geometry);
            for (number, frame) in plain.iter().take(last).enumerate() {
                add(&mut history, number, frame).unwrap();
            }
            history
        };
        add(&mut begin(), last, &plain[last]).unwrap();
        // The same heads, but behind a frame that is not there.
        let error = add(&mut begin(), last, &other[last]).unwrap_err();
        assert_eq!(
            error.reason,
            "does not name the frame before that says more than heads"
        );
        // The first of a journal names none.
        let error = add(&mut begin(), last, &plain[0]).unwrap_err();
        assert_eq!(
            error.reason,
            "does not name the frame before that says more than heads"
        );
    }

    #[test]
    fn behind_a_gap_a_frame_is_believed() {
        let (geometry, frames) = journal(true);
        let mut history = History::new(&geometry);
        let last = frames.len() - 1;
        for (number, frame) in frames.iter().enumerate() {
            if number == 0 || number == last {
                add(&mut history, number, frame).unwrap();
            }
        }
        assert!(history.telling > Some(0), "{:?}", history.telling);
    }
}
