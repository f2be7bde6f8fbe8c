//! Frames behind the anchored head that name subjects whose keys are gone. No signed data shows that
//! there were any.
//!
//! A writer makes the slot of a subject durable before any frame that uses it, and no checkpoint is
//! signed for the frame before the journal counts the slot, so no crash leaves such a frame.

use std::collections::BTreeSet;
use std::ops::Range;

use probity_format::DecodeError;
use probity_format::frame::Frame;
use probity_format::stream::StreamName;
use probity_format::width::to_u64;

use crate::error::LogError;
use crate::journal::History;
use crate::opening::Opening;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::slots::Pseudonym;

/// The missing keys that the recovery of all streams found.
#[derive(Debug, Default)]
pub(crate) struct KeysMissed {
    /// The frames of each stream, in order, with a section that does not open.
    frames: Vec<(StreamName, Range<u64>)>,
    pseudonyms: BTreeSet<Pseudonym>,
}

impl KeysMissed {
    /// Checks a frame that a holder of the log's keys sealed and that is not anchored yet.
    ///
    /// # Errors
    /// When a section that is no subject's does not open.
    pub(crate) fn look(
        &mut self,
        stream: &StreamName,
        frame: &Frame<'_>,
        opening: &mut Opening<'_>,
    ) -> Result<(), DecodeError> {
        let missing = opening.missing_keys(frame)?;
        if missing.is_empty() {
            return Ok(());
        }
        self.pseudonyms.extend(missing);
        let number = frame.clear.header.frame;
        let next = number.saturating_add(1);
        match self.frames.last_mut() {
            Some((name, range)) if name == stream && range.end == number => range.end = next,
            _ => self.frames.push((stream.clone(), number..next)),
        }
        Ok(())
    }

    /// The number of subjects that have lost their keys.
    pub(crate) fn subjects(&self) -> u64 {
        to_u64(self.pseudonyms.len())
    }

    /// Refuses the first of the frames of the log with `history`.
    ///
    /// # Errors
    /// [`LogError::KeysLost`].
    pub(crate) fn refuse(&self, history: &History) -> Result<(), LogError> {
        match self.frames.first() {
            None => Ok(()),
            Some((stream, frames)) => Err(LogError::KeysLost {
                stream: stream.to_string(),
                frame: frames.start,
                subjects: self.subjects(),
                has_closed: history.has_closed(),
            }),
        }
    }

    /// Notes, durably, that the caller accepted it.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn accept(
        &self,
        files: &crate::files::Files,
        repairs: &mut RecoveryReport,
    ) -> Result<(), LogError> {
        let closed = self.frames.iter();
        let closed =
            closed.map(|(stream, frames)| Repair::new(RepairKind::Closed, stream, frames.clone()));
        // At once: each announcement writes all of them.
        repairs.announce_all(files, closed.collect())
    }
}
