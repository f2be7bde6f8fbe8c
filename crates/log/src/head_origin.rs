//! The name of the log in a head, as the head says it: by any signer.

use probity_format::checkpoint::Checkpoint;
use probity_format::note::SignedNote;

/// The separator between the names of log and stream in the origin of a head; no stream's name
/// contains it.
const STREAMS: &str = "/streams/";

/// The name of the log whose head `note` says it is, by any signer; none where it is no head of a
/// stream.
pub(crate) fn log_of(note: &[u8]) -> Option<String> {
    let note = SignedNote::parse(note).ok()?;
    let head = Checkpoint::parse(note.text()).ok()?;
    named_in(head.origin()).map(str::to_owned)
}

/// The name of the log in the origin of a stream's heads.
pub(crate) fn named_in(origin: &str) -> Option<&str> {
    origin.rsplit_once(STREAMS).map(|(log, _stream)| log)
}
