//! The line of the witness key in a checkpoint of the journal.

use probity_format::note::{NoteError, SignedNote, VerifierKey};

/// Returns the fault of the witness key's line in a checkpoint of the journal; `witness` is the key
/// that should have signed it.
pub(crate) fn unwitnessed(note: &[u8], witness: Option<&VerifierKey>) -> Option<&'static str> {
    let note = SignedNote::parse(note).ok()?;
    match note.verify(std::slice::from_ref(witness?)) {
        Ok(_) => None,
        Err(NoteError::NoKnownSignature) => Some("lacks the signature of the log's witness key"),
        Err(_) => Some("has a wrong signature of the log's witness key"),
    }
}
