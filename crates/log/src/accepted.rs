//! Losses that the caller of an opening accepted, as the journal records them.

use std::fmt;
use std::ops::Range;

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
        loss.kind == RepairKind::Closed && loss.stream == *stream && loss.has(number)
    }
}

impl fmt::Display for AcceptedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, accepted at {}", self.loss, format_time(self.time))
    }
}

/// Returns whether one of `losses` is of keys.
pub(crate) fn has_closed(losses: &[AcceptedLoss]) -> bool {
    let mut kinds = losses.iter().map(|accepted| accepted.loss.kind);
    kinds.any(|kind| kind == RepairKind::Closed)
}

/// The last acceptance of a loss of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// The journal frame with the certificate of the opening that accepted it.
    opening: Option<u64>,
    /// The first journal frame that records it.
    pub(crate) frame: u64,
    /// The number of slots that the journal named with it.
    slots: u64,
    /// Those of them that are void.
    void: Vec<Range<u64>>,
}

impl History {
    /// The slots that the last acceptance left void, where it recorded them and no subject was named
    /// since. Without a later subject the keys of these slots are the only ones of their subjects.
    pub(crate) fn void_slots(&self) -> &[Range<u64>] {
        let given_up = self.given_up.as_ref();
        let last = given_up.filter(|it| it.slots == self.slots.count);
        last.map_or(&[], |it| &it.void)
    }

    /// Takes over `repair` of journal frame `frame`, which is of an acceptance of a loss of keys.
    fn give_up(&mut self, repair: &Repair, frame: u64) {
        let opening = self.newest_certificate();
        // A long list of one opening goes on in another frame.
        let known = self.given_up.take().filter(|it| it.opening == opening);
        let given_up = self.given_up.insert(known.unwrap_or(GivenUp {
            opening,
            frame,
            slots: self.slots.count,
            void: Vec::new(),
        }));
        if repair.kind == RepairKind::Void {
            given_up.void.push(repair.from..repair.to);
        }
    }

    /// Returns whether a loss of keys was accepted.
    pub(crate) fn has_closed(&self) -> bool {
        has_closed(&self.losses)
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
            if matches!(repair.kind, RepairKind::Closed | RepairKind::Void) {
                self.give_up(&repair, frame);
            }
            self.repaired.push((repair, frame));
        }
        Ok(())
    }
}
