//! Inclusion and consistency proofs: made from tree nodes, verified, and written as `.tlog-proof`.

mod certified;
mod chain;
mod entry;
mod error;
mod evidence;
mod links;
mod tlog;
mod trust;

use alloc::vec::Vec;
use core::fmt;

pub use certified::{Certified, Grown, JournalFrame, Newest};
pub use chain::KeyChain;
pub use entry::{EntryProof, Identity, Proved, Signers};
pub use error::EntryProofError;
pub use evidence::{Evidence, Opens, ShownKey, ShownSection};
pub use tlog::TlogProof;
pub use trust::{Trust, Witness};

use crate::tree::{EMPTY_ROOT, Hash, fold_right, node_hash};

/// Most hashes in an inclusion proof: the height of a tree of 2^64 - 1 leaves.
pub const PROOF_HASHES_MAX: usize = 64;

/// The reason why a proof is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofError {
    /// The leaf index is not below the tree size, or the sizes are not in order.
    OutOfRange,
    /// The number of hashes is not the one that index and sizes require.
    WrongLength,
    /// The proof leads to another root than the given one.
    WrongRoot,
    /// The proof leads to another root of the older tree than the given one.
    WrongOldRoot,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the tree is too small for this proof",
            Self::WrongLength => "the proof has the wrong number of hashes",
            Self::WrongRoot => "the proof leads to another root",
            Self::WrongOldRoot => "the proof leads to another root of the older tree",
        })
    }
}

impl core::error::Error for ProofError {}

/// The reason why a proof could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProveError<E> {
    /// The leaf index is not below the tree size, or the sizes are not in order.
    OutOfRange,
    /// A node could not be read.
    Node(E),
}

impl<E> fmt::Display for ProveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the tree is too small for this proof",
            Self::Node(_) => "a node of the tree could not be read",
        })
    }
}

impl<E: core::error::Error + 'static> core::error::Error for ProveError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OutOfRange => None,
            Self::Node(error) => Some(error),
        }
    }
}

/// Returns the inclusion proof of the leaf at `index` in the tree of `size` leaves, the leaf's
/// sibling first (RFC 9162 section 2.1.3.1).
///
/// `node(level, index)` returns the root over the 2^`level` leaves from `index` 2^`level` on. It is
/// called only for nodes whose leaves are all within the tree.
///
/// # Errors
/// When `index >= size`, or with the error of `node`.
pub fn inclusion_proof<E>(
    index: u64,
    size: u64,
    mut node: impl FnMut(u8, u64) -> Result<Hash, E>,
) -> Result<Vec<Hash>, ProveError<E>> {
    if index >= size {
        return Err(ProveError::OutOfRange);
    }
    let mut path = Vec::new();
    let (mut start, mut end) = (0, size);
    while let Some(middle) = split(start, end) {
        let (kept, sibling) = if index < middle {
            ((start, middle), (middle, end))
        } else {
            ((middle, end), (start, middle))
        };
        path.push(range_root(sibling, &mut node).map_err(ProveError::Node)?);
        (start, end) = kept;
    }
    path.reverse();
    Ok(path)
}

/// Returns the consistency proof between the trees of `old` and `new` leaves (RFC 9162 section
/// 2.1.4.1). It is empty when `old` is 0 or equals `new`.
///
/// # Errors
/// When `old > new`, or with the error of `node` (see [`inclusion_proof`]).
pub fn consistency_proof<E>(
    old: u64,
    new: u64,
    mut node: impl FnMut(u8, u64) -> Result<Hash, E>,
) -> Result<Vec<Hash>, ProveError<E>> {
    if old > new {
        return Err(ProveError::OutOfRange);
    }
    let mut path = Vec::new();
    if old == 0 || old == new {
        return Ok(path);
    }
    let (mut start, mut end) = (0, new);
    // Descends to the subtree whose right end is the end of the old tree.
    while old < end {
        let Some(middle) = split(start, end) else {
            break;
        };
        let (kept, sibling) = if old <= middle {
            ((start, middle), (middle, end))
        } else {
            ((middle, end), (start, middle))
        };
        path.push(range_root(sibling, &mut node).map_err(ProveError::Node)?);
        (start, end) = kept;
    }
    // If nothing lies to the left of that subtree, it is the whole old tree, whose root is known.
    if start > 0 {
        path.push(range_root((start, end), &mut node).map_err(ProveError::Node)?);
    }
    path.reverse();
    Ok(path)
}

/// Returns the split of the leaves `start..end` in RFC 9162 section 2.1.1: the largest power of two
/// below their number. `None` for one leaf.
fn split(start: u64, end: u64) -> Option<u64> {
    let count = end.checked_sub(start)?;
    let left = count.checked_sub(1)?.checked_ilog2()?;
    start.checked_add(1_u64.checked_shl(left)?)
}

/// Computes the root over the leaves `start..end`; `start` is a multiple of the largest power of
/// two not above their number.
fn range_root<E>(
    (start, end): (u64, u64),
    node: &mut impl FnMut(u8, u64) -> Result<Hash, E>,
) -> Result<Hash, E> {
    let mut hashes = Vec::new();
    let mut position = start;
    while let Some(level) = end.saturating_sub(position).checked_ilog2() {
        let index = position.checked_shr(level).unwrap_or(0);
        hashes.push(node(u8::try_from(level).unwrap_or(u8::MAX), index)?);
        position = position.saturating_add(1_u64.checked_shl(level).unwrap_or(0));
    }
    Ok(fold_right(&hashes))
}

/// Computes the root from a leaf hash and its inclusion path, for `index` in a tree of `size`
/// leaves (RFC 9162 section 2.1.3.2).
///
/// # Errors
/// [`ProofError::OutOfRange`], [`ProofError::WrongLength`].
pub fn root_from_inclusion(
    leaf: Hash,
    index: u64,
    size: u64,
    path: &[Hash],
) -> Result<Hash, ProofError> {
    let mut last = size
        .checked_sub(1)
        .filter(|last| index <= *last)
        .ok_or(ProofError::OutOfRange)?;
    let (mut place, mut root) = (index, leaf);
    for hash in path {
        if last == 0 {
            return Err(ProofError::WrongLength);
        }
        if place & 1 == 1 || place == last {
            root = node_hash(hash, &root);
            // A last node without a sibling moves up until it is a right child.
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            root = node_hash(&root, hash);
        }
        place >>= 1;
        last >>= 1;
    }
    if last == 0 {
        Ok(root)
    } else {
        Err(ProofError::WrongLength)
    }
}

/// Verifies that the leaf with hash `leaf` is at `index` in the tree of `size` leaves with `root`
/// (RFC 9162 section 2.1.3.2).
///
/// # Errors
/// See [`ProofError`]; a proof with too many or too few hashes is refused.
pub fn verify_inclusion(
    leaf: Hash,
    index: u64,
    size: u64,
    path: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    if root_from_inclusion(leaf, index, size, path)? == *root {
        Ok(())
    } else {
        Err(ProofError::WrongRoot)
    }
}

/// Verifies that the tree of `new` leaves with `new_root` extends the tree of `old` leaves with
/// `old_root` (RFC 9162 section 2.1.4.2).
///
/// Every tree extends the empty tree, whose root must be [`EMPTY_ROOT`].
///
/// # Errors
/// See [`ProofError`]; a proof with too many or too few hashes is refused.
pub fn verify_consistency(
    old: u64,
    new: u64,
    old_root: &Hash,
    new_root: &Hash,
    path: &[Hash],
) -> Result<(), ProofError> {
    if old > new {
        return Err(ProofError::OutOfRange);
    }
    if old == 0 || old == new {
        return verify_trivial_consistency(old, new, old_root, new_root, path);
    }
    // The path does not contain the old root if the old tree is one perfect subtree.
    let (seed, rest) = match path {
        _ if old.is_power_of_two() => (old_root, path),
        [seed, rest @ ..] => (seed, rest),
        [] => return Err(ProofError::WrongLength),
    };
    let (mut place, mut last) = (old.saturating_sub(1), new.saturating_sub(1));
    while place & 1 == 1 {
        place >>= 1;
        last >>= 1;
    }
    let (mut old_found, mut new_found) = (*seed, *seed);
    for hash in rest {
        if last == 0 {
            return Err(ProofError::WrongLength);
        }
        if place & 1 == 1 || place == last {
            old_found = node_hash(hash, &old_found);
            new_found = node_hash(hash, &new_found);
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            new_found = node_hash(&new_found, hash);
        }
        place >>= 1;
        last >>= 1;
    }
    match (last == 0, old_found == *old_root, new_found == *new_root) {
        (false, _, _) => Err(ProofError::WrongLength),
        (true, false, _) => Err(ProofError::WrongOldRoot),
        (true, true, false) => Err(ProofError::WrongRoot),
        (true, true, true) => Ok(()),
    }
}

fn verify_trivial_consistency(
    old: u64,
    new: u64,
    old_root: &Hash,
    new_root: &Hash,
    path: &[Hash],
) -> Result<(), ProofError> {
    if !path.is_empty() {
        return Err(ProofError::WrongLength);
    }
    if old == 0 && *old_root != EMPTY_ROOT {
        return Err(ProofError::WrongOldRoot);
    }
    if old == new && old_root != new_root {
        return Err(ProofError::WrongRoot);
    }
    Ok(())
}
