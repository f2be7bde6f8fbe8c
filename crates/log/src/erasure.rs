//! Erases a subject: first a signed entry is written, then the only link to the subject is
//! overwritten.
//!
//! `docs/format.md`, "Subject keys"; `docs/durability.md`, "Erasure".

use probity_format::content::PSEUDONYM_BYTES;

use crate::error::LogError;
use crate::journal_entry::JournalEntry;
use crate::journal_writer::JournalWriter;
use crate::log::Log;
use crate::log_state::LogState;
#[cfg(doc)]
use crate::repairs::RepairKind;
use crate::slots::Pseudonym;

/// The evidence that a subject was erased; it names nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasureReceipt {
    /// The number of the slot that held key and name.
    pub slot: u64,
    /// The pseudonym that the subject's entries keep.
    pub pseudonym: [u8; PSEUDONYM_BYTES],
    /// Index of the entry `subject.erase` in the stream `journal`, for an entry proof.
    pub index: u64,
}

impl Log {
    /// Erases the subject called `subject`. Key, subjects and payload of every earlier entry about
    /// it alone become unreadable for everybody. From entries about several subjects its name is
    /// removed, also where it is the actor or submitter. The rest stays readable for the others
    /// until the last of them is erased.
    ///
    /// Returns nothing where the log holds no key of that name. A key that an accepted loss left out
    /// is none: after such keys were put back ([`RepairKind::Returned`]), the caller repeats the erasures
    /// that found nothing since. A subject that appears again gets
    /// another pseudonym and another key. The idempotency keys of the erased entries are forgotten
    /// too. After the return the erasure is signed for and the key is overwritten. After a crash in
    /// between, the next opening finishes it.
    ///
    /// # Errors
    /// [`LogError::Poisoned`]; then the erasure may have been recorded, and the next opening
    /// finishes it.
    pub fn erase(&self, subject: &str) -> Result<Option<ErasureReceipt>, LogError> {
        // Earlier entries must be sealed before their key is gone.
        self.flush()?;
        let core = self.core();
        let mut journal = core.streams.journal();
        core.check_poison()?;
        let found = core.subjects.find(&core.files, subject);
        let Some((slot, pseudonym)) = found.map_err(|error| core.fail(error))? else {
            return Ok(None);
        };
        let sealed = core.streams.content().into_iter().map(|stream| {
            let end = stream.written_entries();
            (stream, end)
        });
        let sealed: Vec<_> = sealed.collect();
        let receipt = core
            .erase(&mut journal, subject, slot, pseudonym)
            .map_err(|error| core.fail(error))?;
        for (stream, end) in sealed {
            stream.once.forget(subject, end);
        }
        Ok(Some(receipt))
    }
}

impl LogState {
    /// Destroys the keys of subjects whose erasure an earlier opening recorded and did not finish.
    ///
    /// A key that is gone without a signed erasure is damage, and so is one that is there though a
    /// frame follows its erasure. So the journal is published as it was found, before this opening
    /// writes a frame. A crash on the way leaves what one in [`Log::erase`] does.
    pub(crate) fn finish_erasures(&self, journal: &JournalWriter) -> Result<(), LogError> {
        if !self.subjects.has_unfinished() {
            return Ok(());
        }
        self.publish_stream(journal.stream())?;
        self.subjects.finish_erasures(&self.files)
    }

    /// The journal stays locked: no frame follows the entry before the key is destroyed.
    fn erase(
        &self,
        journal: &mut JournalWriter,
        subject: &str,
        slot: u64,
        pseudonym: Pseudonym,
    ) -> Result<ErasureReceipt, LogError> {
        let entry = JournalEntry::subject_erase(slot, &pseudonym);
        let index = journal.append(self, vec![entry])?;
        self.publish_stream(journal.stream())?;
        self.subjects.destroy(&self.files, subject, slot)?;
        // A frame behind the entry shows that the key is gone: a slot that holds one again was put
        // back.
        journal.append(self, vec![JournalEntry::subject_erased(slot, &pseudonym)])?;
        self.publish_stream(journal.stream())?;
        Ok(ErasureReceipt {
            slot,
            pseudonym,
            index,
        })
    }
}
