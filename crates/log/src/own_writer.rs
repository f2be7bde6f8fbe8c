//! Writes a stream that the log itself appends to: each append is sealed, durable and integrated
//! before it returns.

use std::sync::{Arc, PoisonError};

use probity_format::DecodeError;
use probity_format::compress::Compression;
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FrameSealer, SubjectKeys, SubjectSection};

use crate::error::LogError;
use crate::journal_entry::JournalEntry;
use crate::log_state::LogState;
use crate::sealer::{frame_of, sealing_failed};
use crate::stream::Stream;

/// Bytes of payloads at which entries go on in another frame.
pub(crate) const FRAME_PAYLOAD_BYTES: usize = 4 << 20;

/// The one writer of a built-in stream.
pub(crate) struct OwnWriter {
    stream: Arc<Stream>,
    sealer: FrameSealer,
    frame: Vec<u8>,
}

impl std::fmt::Debug for OwnWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnWriter").finish_non_exhaustive()
    }
}

impl OwnWriter {
    pub(crate) fn new(stream: Arc<Stream>) -> Result<Self, LogError> {
        let sealer = FrameSealer::new(stream.config, Compression::None)
            .map_err(|error| sealing_failed(&stream.name, &error))?;
        Ok(Self {
            stream,
            sealer,
            frame: Vec::new(),
        })
    }

    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Appends `entries`, as one frame unless they are too many; durable once it returns. Returns
    /// the index of the first.
    ///
    /// After an error nothing can follow in the stream: the log must be poisoned or not be opened.
    pub(crate) fn append(
        &mut self,
        core: &LogState,
        entries: &[JournalEntry],
    ) -> Result<Option<u64>, LogError> {
        let mut first = None;
        for frame in frames_of(entries) {
            let index = self.append_frame(core, frame)?;
            first = first.or(Some(index));
        }
        Ok(first)
    }

    /// Appends `entries` as one frame; durable once it returns. Returns the index of the first.
    ///
    /// After an error nothing can follow, as with [`OwnWriter::append`].
    pub(crate) fn append_frame(
        &mut self,
        core: &LogState,
        entries: &[JournalEntry],
    ) -> Result<u64, LogError> {
        let failed = |error: &DecodeError| sealing_failed(&self.stream.name, error);
        let time = core.clock.now();
        let mut rows = Vec::new();
        for entry in entries {
            let entry = entry.entry(time);
            entry.check().map_err(|error| LogError::Broken {
                place: format!("entry of stream {}", self.stream.name),
                reason: error.to_string(),
            })?;
            let start = rows.len();
            rows.resize(start.saturating_add(row_bytes(&entry)), 0);
            encode_row(&entry, rows.get_mut(start..).unwrap_or_default());
        }
        let count = u32::try_from(entries.len()).ok().ok_or(LogError::Defect {
            what: "a frame of the log itself was to take more entries than a frame holds",
        })?;
        let (place, epoch) = {
            let keys = core.keys.lock().unwrap_or_else(PoisonError::into_inner);
            self.stream.reserve(count, &keys.master, keys.epoch()?)?
        };
        let record = self
            .sealer
            .seal(&place, &epoch, &[&rows], &mut Nobody, &mut self.frame)
            .map_err(|error| failed(&error))?;
        let first = record.first_entry;
        let frame = frame_of(&self.frame, record.length)?;
        let stop = || core.poison().is_some();
        let segment_bytes_max = core.options.segment_bytes_max;
        self.stream.write(
            &core.files,
            record,
            frame,
            Vec::new(),
            segment_bytes_max,
            &stop,
            // The log's own frames are committed below, and by nobody else.
            &|| (),
        )?;
        // On a poisoned log the write may have been skipped before its turn.
        core.check_poison()?;
        self.stream.commit(&core.files, true)?;
        Ok(first)
    }
}

/// `entries` in portions that fit a frame each.
pub(crate) fn frames_of(entries: &[JournalEntry]) -> impl Iterator<Item = &[JournalEntry]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let mut bytes: usize = 0;
        let fits = |entry: &&JournalEntry| {
            bytes = bytes.saturating_add(entry.payload.len());
            bytes <= FRAME_PAYLOAD_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (frame, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        rest = after;
        (!frame.is_empty()).then_some(frame)
    })
}

/// The log's own entries have no subjects.
struct Nobody;

impl SubjectKeys for Nobody {
    fn section_key(
        &mut self,
        _subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        Err(DecodeError::new("entry of the log", 0, "has no subjects"))
    }
}
