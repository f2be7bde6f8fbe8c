//! What the writer noted as durable: with the root key, frames that nobody signed for yet are missed where they are gone.

use probity_format::Version;

use super::heads::{KnownHead, Subject};
use super::unchecked::Names;
use super::{FaultClass, UncheckedReason, Verifier};
use crate::durable::{DURABLE, DurableNotes, NotesFound};
use crate::error::LogError;
use crate::opener::Opener;

/// What the note of a stream is called in reports.
pub(super) const NOTED: &str = "the writer's note of what is durable";

/// Most streams that are looked for in damaged frames of the journal.
const STREAMS_PASSED_MAX: usize = 1_024;

impl Verifier<'_> {
    /// Adds the notes to what is known of the streams, which are in the order in which the journal created them.
    ///
    /// The notes are read before the streams are, and what they say was true then.
    pub(super) fn add_notes(
        &self,
        subjects: &mut [Subject],
        opener: &Opener,
        is_passed: bool,
        unchecked: &mut Names,
    ) -> Result<(), LogError> {
        if self.geometry.version() == Version::V2 {
            return Ok(());
        }
        let notes = NotesFound::read(&self.files, DurableNotes::new(&opener.master, None))?;
        // Streams that a damaged frame created have slots among those of the others.
        let more = if is_passed { STREAMS_PASSED_MAX } else { 1 };
        for (ordinal, subject) in (0_u64..).zip(subjects) {
            let mut ordinals = (ordinal..).take(more);
            let noted = ordinals
                .find_map(|ordinal| notes.of_stream((&subject.name, &subject.id), ordinal, opener));
            let Some(noted) = noted else {
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
