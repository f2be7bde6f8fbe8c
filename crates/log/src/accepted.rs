//! Losses that the caller of an opening accepted, as the journal records them.

use std::fmt;
use std::ops::Range;

use probity_format::stream::StreamName;
use probity_format::time::format_time;
use probity_format::{DecodeError, Entry, Timestamp};

use crate::advice;
use crate::journal::History;
use crate::repairs::{Repair, RepairKind};
use crate::slot_ranges::SlotRanges;

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
    /// The first frame of the stream that was lost after it, which another frame may replace.
    lost_from: u64,
}

impl AcceptedLoss {
    pub(crate) const fn new(loss: Repair, frame: u64, time: Timestamp) -> Self {
        Self {
            loss,
            time,
            frame,
            lost_from: u64::MAX,
        }
    }

    /// Returns whether sections of frame `number` of `stream` were given up.
    pub(crate) fn closes(&self, stream: &StreamName, number: u64) -> bool {
        self.closed_of(stream)
            .is_some_and(|frames| frames.contains(&number))
    }

    /// The frames of `stream` of which it gave up sections, without those that were lost since: a
    /// later frame of such a number is another one.
    pub(crate) fn closed_of(&self, stream: &StreamName) -> Option<Range<u64>> {
        let loss = &self.loss;
        let is_closed = loss.kind == RepairKind::Closed && loss.stream == *stream;
        is_closed.then(|| loss.from..loss.to.min(self.lost_from))
    }

    /// The fault of an unsigned end of the journal that calls frames lost which are there.
    pub(crate) fn refused(&self) -> String {
        format!(
            "says that frames of stream {} are lost from frame {} on, and they are there: it is of another copy of the log, or another hand \
             with the log's keys sealed it; {}",
            self.loss.stream,
            self.loss.from,
            advice::JOURNAL_END
        )
    }

    /// Describes that an opening began to accept the loss, where what is in the place of the frames may
    /// be they.
    pub(crate) fn begun(&self) -> String {
        format!(
            "an opening that was broken off accepts the loss of stream {} from frame {} on: the next opening finishes that only where a loss is \
             accepted (--accept-loss), and sets aside what is there; export its entries before (--damaged-too)",
            self.loss.stream, self.loss.from
        )
    }

    /// The fault of frames that are there again after an opening began to accept their loss.
    pub(crate) fn returned(&self) -> String {
        format!(
            "an opening that was broken off accepts the loss of stream {} from frame {} on, and the frames are there again: the next opening \
             finishes that only where a loss is accepted (--accept-loss), and sets them aside; export their entries before",
            self.loss.stream, self.loss.from
        )
    }

    /// Takes over that the frames of the stream from `later.from` on were lost.
    fn lose(&mut self, later: &Repair) {
        if later.kind == RepairKind::Lost && later.stream == self.loss.stream {
            self.lost_from = self.lost_from.min(later.from);
        }
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
    void: SlotRanges,
}

impl History {
    /// The slots that the last acceptance left void, where it recorded them and no subject was named
    /// since. Without a later subject the keys of these slots are the only ones of their subjects.
    pub(crate) fn void_slots(&self) -> Option<&SlotRanges> {
        let given_up = self.given_up.as_ref();
        let last = given_up.filter(|it| it.slots == self.slots.count);
        last.map(|it| &it.void).filter(|void| !void.is_empty())
    }

    /// The first loss of frames of `stream` in the journal's unsigned end. It is that of an opening
    /// which ended early, and no frame was written since.
    pub(crate) fn unsigned_loss(&self, stream: &StreamName) -> Option<&AcceptedLoss> {
        let signed = self.signed.unwrap_or(u64::MAX);
        let unsigned = self.losses.iter().filter(|lost| lost.frame >= signed);
        let of_stream = unsigned
            .filter(|lost| lost.loss.kind == RepairKind::Lost && lost.loss.stream == *stream);
        of_stream.min_by_key(|lost| lost.loss.from)
    }

    /// The first loss of frames of `stream` that an opening accepted and for which it was signing, or
    /// about to, when it ended: no checkpoint covers it yet.
    pub(crate) fn begun_loss(&self, stream: &StreamName) -> Option<&AcceptedLoss> {
        let begun = self.covered.unwrap_or(u64::MAX)..self.signed?;
        let losses = self.losses.iter();
        let of_stream = losses.filter(|lost| {
            let loss = &lost.loss;
            loss.kind == RepairKind::Lost && loss.stream == *stream && begun.contains(&lost.frame)
        });
        of_stream.min_by_key(|lost| lost.loss.from)
    }

    /// Takes over `repair` of journal frame `frame`, which is of an acceptance of a loss of keys.
    fn give_up(&mut self, repair: &Repair, frame: u64) {
        let opening = self.newest_certificate();
        // A long list of one opening goes on in another frame.
        let known = self.given_up.take().filter(|it| it.opening == opening);
        let given_up = self.given_up.insert(known.unwrap_or_else(|| GivenUp {
            opening,
            frame,
            slots: self.slots.count,
            void: SlotRanges::default(),
        }));
        if repair.kind == RepairKind::Void {
            given_up.void.add(repair.from..repair.to);
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
                for earlier in &mut self.losses {
                    earlier.lose(&repair);
                }
                let loss = AcceptedLoss::new(repair.clone(), frame, entry.time);
                self.losses.push(loss);
            }
            match repair.kind {
                RepairKind::Void => self.void.add(repair.from..repair.to),
                RepairKind::Returned => self.void.remove(repair.from..repair.to),
                _ => {}
            }
            if matches!(repair.kind, RepairKind::Closed | RepairKind::Void) {
                self.give_up(&repair, frame);
            }
            self.repaired.push((repair, frame));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(kind: RepairKind, frames: Range<u64>) -> AcceptedLoss {
        let loss = Repair::new(kind, &StreamName::default(), frames);
        AcceptedLoss::new(loss, 1, Timestamp::from_nanoseconds(1).unwrap())
    }

    /// A frame that was given the number of a lost one counted as given up with it, so that a key
    /// of it that was destroyed later passed for an accepted loss.
    #[test]
    fn a_frame_that_replaces_a_lost_one_is_not_given_up_with_it() {
        let stream = StreamName::default();
        let mut closed = accepted(RepairKind::Closed, 3..9);
        assert!(closed.closes(&stream, 3) && closed.closes(&stream, 8));
        let other = StreamName::new("other").unwrap();
        closed.lose(&Repair::new(RepairKind::Lost, &other, 0..9));
        closed.lose(&Repair::new(RepairKind::Torn, &stream, 0..9));
        assert!(closed.closes(&stream, 8));
        closed.lose(&Repair::new(RepairKind::Lost, &stream, 5..7));
        assert!(closed.closes(&stream, 4));
        assert!((5..10).all(|number| !closed.closes(&stream, number)));
    }
}
