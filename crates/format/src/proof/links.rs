//! Certificates in proofs and chain files, without the fields that follow from the key before.

use alloc::vec::Vec;

use crate::certificate::{Bound, Link, SIGNATURE_BYTES};
use crate::error::DecodeError;
use crate::tree::Hash;
use crate::version::Version;
use crate::wire::Reader;

/// Appends `links`.
pub(super) fn encode_links(links: &[Link], out: &mut Vec<u8>) {
    for link in links {
        out.extend_from_slice(&link.successor);
        for bound in [Some(link.journal), link.heads].into_iter().flatten() {
            out.extend_from_slice(&bound.size.to_le_bytes());
            out.extend_from_slice(bound.root.as_bytes());
        }
        out.extend_from_slice(&link.signature);
    }
}

/// Reads the next `count` links of a log of `version`; the caller has checked `count` against its
/// bound.
///
/// In a log of version 2 links do not bind `heads`, which is no built-in stream there.
pub(super) fn decode_links(
    count: usize,
    version: Version,
    reader: &mut Reader<'_>,
) -> Result<Vec<Link>, DecodeError> {
    (0..count)
        .map(|_| {
            let successor = reader.array()?;
            let journal = decode_bound(reader)?;
            let heads = match version {
                Version::V2 => None,
                Version::V3 => Some(decode_bound(reader)?),
            };
            let signature = reader.array::<SIGNATURE_BYTES>()?;
            Ok(Link::new(successor, journal, heads, signature))
        })
        .collect()
}

fn decode_bound(reader: &mut Reader<'_>) -> Result<Bound, DecodeError> {
    Ok(Bound {
        size: reader.u64()?,
        root: Hash::new(reader.array()?),
    })
}
