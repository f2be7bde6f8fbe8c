//! Certificates as proofs and chain files hold them: what follows from the key before is left out.

use alloc::vec::Vec;

use crate::certificate::{Link, SIGNATURE_BYTES};
use crate::error::DecodeError;
use crate::tree::Hash;
use crate::wire::Reader;

/// Appends `links`, each in [`LINK_BYTES`].
pub(super) fn encode_links(links: &[Link], out: &mut Vec<u8>) {
    for link in links {
        out.extend_from_slice(&link.successor);
        out.extend_from_slice(&link.size.to_le_bytes());
        out.extend_from_slice(link.root.as_bytes());
        out.extend_from_slice(&link.signature);
    }
}

/// The next `count` links; the caller has bounded their number.
pub(super) fn decode_links(
    count: usize,
    reader: &mut Reader<'_>,
) -> Result<Vec<Link>, DecodeError> {
    (0..count)
        .map(|_| {
            let successor = reader.array()?;
            let size = reader.u64()?;
            let root = Hash::new(reader.array()?);
            let signature = reader.array::<SIGNATURE_BYTES>()?;
            Ok(Link::new(successor, size, root, signature))
        })
        .collect()
}
