//! Losses that the caller of an opening accepted, as the journal records them.

use std::fmt;

use probity_format::stream::StreamName;
use probity_format::time::format_time;
use probity_format::{DecodeError, Entry, Timestamp};

use crate::journal::History;
use crate::repairs::{Repair, RepairKind};

/// A loss that an opening accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceptedLoss {
    /// The frames and the part of them that is lost.
    pub loss: Repair,
    /// The time at which it was accepted.
    pub time: Timestamp,
    /// The journal frame that records it.
    pub(crate) frame: u64,
}

impl AcceptedLoss {
    pub(crate) const fn new(loss: Repair, frame: u64, time: Timestamp) -> Self {
        Self { loss, time, frame }
    }

    /// Returns whether sections of frame `number` of `stream` were given up.
    pub(crate) fn closes(&self, stream: &StreamName, number: u64) -> bool {
        let loss = &self.loss;
        loss.kind == RepairKind::Closed
            && loss.stream == *stream
            && (loss.from..loss.to).contains(&number)
    }
}

impl fmt::Display for AcceptedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, accepted at {}", self.loss, format_time(self.time))
    }
}

impl History {
    /// Returns whether a loss of keys was accepted.
    pub(crate) fn has_closed(&self) -> bool {
        let mut kinds = self.losses.iter().map(|accepted| accepted.loss.kind);
        kinds.any(|kind| kind == RepairKind::Closed)
    }

    /// Adds the repairs that `entry` of journal frame `frame` records.
    pub(crate) fn add_repairs(&mut self, entry: &Entry<'_>, frame: u64) -> Result<(), DecodeError> {
        let text = std::str::from_utf8(entry.payload)
            .map_err(|_not_utf8| DecodeError::new("journal entry", 0, "is not text"))?;
        for repair in text.lines().filter_map(Repair::parse) {
            self.has_lost_slots |= repair.kind.is_of_slots();
            if repair.kind.is_loss() {
                let loss = AcceptedLoss::new(repair.clone(), frame, entry.time);
                self.losses.push(loss);
            }
            self.repaired.push((repair, frame));
        }
        Ok(())
    }
}
