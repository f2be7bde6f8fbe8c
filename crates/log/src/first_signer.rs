//! The rule about the signer of a head, for writers and for verification.

use probity_format::stream::StreamName;

use crate::journal::History;

/// Returns the number, in the chain from 0, of the first key that may have signed a head of `size`
/// frames of the stream `name`.
///
/// Another head of the log shows the root over the first `shown` frames. The caller compares the
/// roots, and equal ones say the same, whoever signed: an expired key gives nothing to its thief
/// there. A head of more frames is signed after all of `heads` that was read before it, behind
/// `read` certificates.
///
/// The journal's head is signed by the key certified last within it. That of `heads` is signed by
/// one that was certified when there were fewer frames.
pub(crate) fn first_signer(
    history: &History,
    name: &StreamName,
    (size, shown): (u64, u64),
    read: usize,
) -> usize {
    if size <= shown {
        return 0;
    }
    match name.as_str() {
        StreamName::JOURNAL => history.certificates_within(size),
        StreamName::HEADS if history.v2.is_none() => history.certificates_before_heads(size),
        _ => read,
    }
}

/// The fault of a head by the key at `signer` of the chain, from 0, where that at `due` was certified.
pub(crate) fn signed_too_late(signer: usize, due: usize) -> String {
    let [signer, due] = [signer, due].map(|place| place.saturating_add(1));
    format!(
        "is signed by key number {signer} of the chain, though key number {due} was certified before"
    )
}
