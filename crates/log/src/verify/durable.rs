//! The writer's notes of durable frames: with the root key, they show the loss of frames that are
//! not signed for yet.

use probity_format::Version;

use super::subject::{KnownHead, Subject};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason, Verifier};
use crate::durable::{BEYOND, DURABLE, DurableNotes, Noted, NotesFound};
use crate::error::LogError;
use crate::opener::Opener;

/// The name of a stream's note in reports.
pub(super) const NOTED: &str = "the writer's note of what is durable";

/// Most streams that are looked for in damaged frames of the journal.
const STREAMS_PASSED_MAX: usize = 1_024;

impl Verifier<'_> {
    /// Adds the notes to the known heads of the streams, which are in the order in which the
    /// journal created them.
    ///
    /// The notes are read before the streams, and were true then.
    pub(super) fn add_notes(
        &self,
        subjects: &mut [Subject],
        opener: &Opener,
        is_passed: bool,
        faults: &mut Faults,
        unchecked: &mut Names,
    ) -> Result<(), LogError> {
        if self.geometry.version() == Version::V2 {
            return Ok(());
        }
        let notes = NotesFound::read(&self.files, DurableNotes::new(&opener.master, None))?;
        // Streams that a damaged frame created have slots among those of the others.
        let more = if is_passed { STREAMS_PASSED_MAX } else { 1 };
        for (ordinal, subject) in (0_u64..).zip(subjects) {
            let (stream, floor) = ((&subject.name, &subject.id), subject.floor());
            let said = (ordinal..)
                .take(more)
                .map(|ordinal| notes.of_stream(stream, ordinal, (opener, floor)))
                .find(|said| *said != Noted::Nothing);
            let place = || format!("{DURABLE}, stream {}", subject.name);
            let noted = match said {
                Some(Noted::Durable(noted)) => noted,
                // A damaged frame may have the certificate.
                Some(Noted::Beyond(noted)) if is_passed => noted,
                Some(Noted::Beyond(_)) => {
                    let class = FaultClass::Rollback;
                    let fault = Fault::new(class, &subject.name, place(), BEYOND);
                    faults.push(fault.of_older_journal());
                    continue;
                }
                // Every stream has a note from its creation on, signed for or not.
                Some(Noted::Nothing) | None => {
                    unchecked.push(place(), UncheckedReason::SaysNothing);
                    continue;
                }
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
