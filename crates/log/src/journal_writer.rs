//! Writes the journal, and names in it the newest key and the slots of subjects.

use std::sync::Arc;

use probity_format::width::to_u64;

use crate::error::LogError;
use crate::journal::History;
use crate::journal_entry::{JournalEntry, action};
use crate::log_state::LogState;
use crate::own_writer::{OwnWriter, frames_of};
use crate::stream::{Stream, behind};

/// The one writer of the journal.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    own: OwnWriter,
    /// Slots of subjects that a frame named.
    slots: u64,
    /// The frame that certifies the newest key.
    newest: Option<u64>,
}

impl JournalWriter {
    /// Creates the writer, which continues after `history`.
    pub(crate) fn new(stream: Arc<Stream>, history: &History) -> Result<Self, LogError> {
        Ok(Self {
            own: OwnWriter::new(stream)?,
            slots: history.slots.count,
            newest: history.newest_certificate(),
        })
    }

    /// The frame that certifies the newest key.
    pub(crate) const fn newest(&self) -> Option<u64> {
        self.newest
    }

    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        self.own.stream()
    }

    /// Appends `entries`, as one frame unless they are too many; durable once it returns. Returns
    /// the index of the first.
    ///
    /// After an error nothing can follow in the journal: the log must be poisoned or not be opened.
    pub(crate) fn append(
        &mut self,
        core: &LogState,
        entries: Vec<JournalEntry>,
    ) -> Result<u64, LogError> {
        let slots = core.subjects.slots();
        let mut all = Vec::new();
        if slots.count > self.slots {
            all.push(JournalEntry::subjects(&slots));
        }
        let before = to_u64(all.len());
        all.extend(entries);
        let mut first = None;
        for entries in frames_of(&all) {
            let index = self.append_frame(core, entries)?;
            first = first.or(Some(index));
        }
        self.slots = slots.count;
        let first = first.ok_or(LogError::Defect {
            what: "the journal was to take a frame without entries",
        })?;
        behind(first, before)
    }

    /// Appends `entries` as one frame, behind one that names the newest key. Returns the index of
    /// the first of them.
    fn append_frame(&mut self, core: &LogState, entries: &[JournalEntry]) -> Result<u64, LogError> {
        let mut actions = entries.iter().map(|entry| entry.action);
        let certifies = actions.any(|action| action == action::KEY_CERTIFY);
        let newest = self.newest.filter(|_| !certifies);
        let named = newest.map(JournalEntry::key_newest);
        let before = u64::from(named.is_some());
        let all: Vec<JournalEntry> = named.into_iter().chain(entries.iter().cloned()).collect();
        let first = self.own.append_frame(core, &all)?;
        if certifies {
            let (size, _) = self.own.stream().head();
            self.newest = size.checked_sub(1);
        }
        behind(first, before)
    }

    /// Appends a frame that names the slots of subjects, if there are more than the last one named.
    /// Returns whether it did.
    ///
    /// Anything signed for afterwards uses only named slots.
    pub(crate) fn append_slots(&mut self, core: &LogState) -> Result<bool, LogError> {
        let grown = core.subjects.slots().count > self.slots;
        if grown {
            self.append(core, Vec::new())?;
        }
        Ok(grown)
    }
}
