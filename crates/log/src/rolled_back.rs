//! The error for a stream with fewer frames than were signed for: it tells a log that was put back
//! as a whole from one in which the segments of a stream alone are older or gone.

use probity_format::checkpoint::Checkpoint;
use probity_format::note::SignedNote;
use probity_format::stream::StreamName;

use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::heads::Heads;
use crate::history::claimed_size;
use crate::journal::History;

/// The error for `stream`, of which `found` frames are there and `signed` were signed for.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn rolled_back(
    (files, heads): (&Files, &Heads),
    history: &History,
    stream: &StreamName,
    (found, signed): (u64, u64),
) -> Result<LogError, LogError> {
    // The checkpoint beside the segments is as new as the rest of the folder.
    let mut is_alone = claimed_size(files, stream)? > found;
    if !is_alone {
        is_alone = true;
        for (other, _) in history.streams.iter().filter(|(name, _)| name != stream) {
            is_alone &= copied_size(heads, other)? <= claimed_size(files, other)?;
        }
    }
    Ok(LogError::RolledBack {
        stream: stream.to_string(),
        found,
        signed,
        is_alone,
    })
}

/// The size in the second copy of the head of `stream`, by any signer; nothing is 0.
fn copied_size(heads: &Heads, stream: &StreamName) -> Result<u64, LogError> {
    let note = unless_strange(heads.load(stream))?;
    let note = note.and_then(|note| SignedNote::parse(&note).ok());
    let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
    Ok(head.map_or(0, |head| head.size()))
}
