//! What the writer noted as durable: with the root key, frames that nobody signed for yet are missed where they are gone.

use probity_format::Version;
use probity_format::keys::MasterKey;

use super::heads::{KnownHead, Subject};
use super::unchecked::Names;
use super::{FaultClass, UncheckedReason, Verifier};
use crate::durable::{DURABLE, DurableNotes, NotesFound};
use crate::error::LogError;

/// What the note of a stream is called in reports.
pub(super) const NOTED: &str = "the writer's note of what is durable";

impl Verifier<'_> {
    /// Adds the notes to what is known of the streams, which are in the order in which the journal created them.
    ///
    /// The notes are read before the streams are, and what they say was true then.
    pub(super) fn add_notes(
        &self,
        subjects: &mut [Subject],
        master: &MasterKey,
        unchecked: &mut Names,
    ) -> Result<(), LogError> {
        if self.geometry.version() == Version::V2 {
            return Ok(());
        }
        let notes = NotesFound::read(&self.files, DurableNotes::new(master))?;
        for (ordinal, subject) in (0..).zip(subjects) {
            let Some(noted) = notes.of_stream(&subject.id, ordinal) else {
                // Every stream has one from its creation on, whether anything of it was signed for or not.
                let place = format!("{DURABLE}, stream {}", subject.name);
                unchecked.push(place, UncheckedReason::SaysNothing);
                continue;
            };
            subject.known.push(KnownHead {
                size: noted.frames,
                root: noted.root,
                source: NOTED.to_owned(),
                class: FaultClass::Rollback,
            });
            subject.known.sort_by_key(|known| known.size);
        }
        Ok(())
    }
}
