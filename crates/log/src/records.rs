//! Finds records of a stream in its bundles, without reading the others.

use probity_format::DecodeError;
use probity_format::limits::TILE_WIDTH;
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tile::{Bundle, decode_bundle};

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX};

/// The records that a checkpoint of `size` frames covers. Keeps the bundle read last.
pub(crate) struct Records<'a> {
    files: &'a Files,
    stream: &'a StreamName,
    size: u64,
    bundle: Option<(u64, Vec<Record>)>,
}

impl<'a> Records<'a> {
    pub(crate) const fn new(files: &'a Files, stream: &'a StreamName, size: u64) -> Self {
        Self {
            files,
            stream,
            size,
            bundle: None,
        }
    }

    /// The record of the frame that holds entry `index`, if the checkpoint covers it.
    ///
    /// # Errors
    /// When a bundle on the way is missing or damaged.
    pub(crate) fn of_entry(&mut self, index: u64) -> Result<Option<Record>, LogError> {
        let (mut low, mut high) = (0, self.size);
        while low < high {
            let middle = low.midpoint(high);
            let record = self.record(middle)?;
            if index < record.first_entry {
                high = middle;
            } else if index < record.next_entry() {
                return Ok(Some(record));
            } else {
                low = middle.saturating_add(1);
            }
        }
        Ok(None)
    }

    /// The record of `frame`, if the checkpoint covers it.
    ///
    /// # Errors
    /// When its bundle is missing or damaged.
    pub(crate) fn of_frame(&mut self, frame: u64) -> Result<Option<Record>, LogError> {
        if frame < self.size {
            self.record(frame).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The last record, if there is any.
    ///
    /// # Errors
    /// When its bundle is missing or damaged.
    pub(crate) fn last(&mut self) -> Result<Option<Record>, LogError> {
        match self.size.checked_sub(1) {
            Some(last) => self.of_frame(last),
            None => Ok(None),
        }
    }

    fn record(&mut self, frame: u64) -> Result<Record, LogError> {
        let index = frame / TILE_WIDTH;
        let place = usize::try_from(frame % TILE_WIDTH).unwrap_or_default();
        let records = match self.bundle.take() {
            Some((known, records)) if known == index => records,
            _ => self.read(index)?,
        };
        let record = records.get(place).copied();
        self.bundle = Some((index, records));
        record.ok_or_else(|| broken(self.stream, index, "ends before its last record"))
    }

    fn read(&self, index: u64) -> Result<Vec<Record>, LogError> {
        let missing = || broken(self.stream, index, "is missing");
        let wanted = Bundle::of_tree(index, self.size).ok_or_else(missing)?;
        for bundle in [wanted, wanted.filled()] {
            let path = format!("streams/{}/{}", self.stream, bundle.path());
            let Some(bytes) = self.files.read(&path, TILE_FILE_BYTES_MAX)? else {
                continue;
            };
            let damaged = |error: DecodeError| broken(self.stream, index, error.reason);
            let leaves = decode_bundle(&bytes, bundle.width()).map_err(damaged)?;
            let records = leaves.into_iter().map(Record::decode);
            return records.collect::<Result<_, _>>().map_err(damaged);
        }
        Err(missing())
    }
}

fn broken(stream: &StreamName, bundle: u64, reason: &str) -> LogError {
    LogError::Broken {
        place: format!("streams/{stream}, bundle {bundle} of records"),
        reason: reason.to_owned(),
    }
}
