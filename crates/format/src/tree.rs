//! The Merkle tree of RFC 6962 over SHA-256: hashes, roots, the compact range, in-memory paths.

use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::error::DecodeError;

/// Length of a [struct@Hash] in bytes.
pub const HASH_BYTES: usize = 32;

/// The root of the tree without leaves: SHA-256 of nothing (RFC 6962 section 2.1).
pub const EMPTY_ROOT: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// Domain separation of leaves and nodes (RFC 6962 section 2.1).
const LEAF_PREFIX: u8 = 0x00;
const NODE_PREFIX: u8 = 0x01;

/// A SHA-256 hash of a leaf, of a node or of a whole tree.
///
/// `Display` writes standard base64 (the form in checkpoints and proofs), `Debug` lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; HASH_BYTES]);

impl Hash {
    /// Creates a hash from its bytes.
    pub const fn new(bytes: [u8; HASH_BYTES]) -> Self {
        Self(bytes)
    }

    /// Creates a hash from `bytes`; `None` unless there are [`HASH_BYTES`].
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        <[u8; HASH_BYTES]>::try_from(bytes).ok().map(Self)
    }

    /// Reads a hash in standard base64 with padding, in its one canonical form.
    ///
    /// # Errors
    /// When `text` has any other form; offsets count from the start of `text`.
    pub fn from_base64(text: &str, what: &'static str) -> Result<Self, DecodeError> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|_detail| DecodeError::new(what, 0, "is not canonical base64 with padding"))?;
        Self::from_slice(&bytes)
            .ok_or_else(|| DecodeError::new(what, 0, "is not a hash of 32 bytes"))
    }

    /// Returns the hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; HASH_BYTES] {
        &self.0
    }
}

impl From<[u8; HASH_BYTES]> for Hash {
    fn from(bytes: [u8; HASH_BYTES]) -> Self {
        Self(bytes)
    }
}

impl From<Hash> for [u8; HASH_BYTES] {
    fn from(hash: Hash) -> Self {
        hash.0
    }
}

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Computes the hash of a leaf: SHA-256 of 0x00 and its bytes (RFC 6962 section 2.1).
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    leaf_hash_parts([leaf])
}

/// Computes the hash of the leaf whose bytes are the concatenated `parts`.
pub fn leaf_hash_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hasher = Sha256::new_with_prefix([LEAF_PREFIX]);
    for part in parts {
        hasher.update(part);
    }
    Hash(hasher.finalize().into())
}

/// Computes the hash of the node over `left` and `right`: SHA-256 of 0x01 and both (RFC 6962
/// section 2.1).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut input = [NODE_PREFIX; 2 * HASH_BYTES + 1];
    if let Some((first, second)) = input
        .get_mut(1..)
        .and_then(|rest| rest.split_at_mut_checked(32))
    {
        first.copy_from_slice(&left.0);
        second.copy_from_slice(&right.0);
    }
    Hash(Sha256::digest(input).into())
}

/// Computes the root over `leaves` (leaf hashes), as RFC 6962 section 2.1 defines it.
///
/// Works level by level with one allocation of half the input. A node without a sibling moves up
/// unchanged, which gives the same tree as a split at the largest power of two.
pub fn root_of(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => EMPTY_ROOT,
        [only] => *only,
        _ => {
            let mut level: Vec<Hash> = leaves.chunks(2).map(parent).collect();
            root_in_place(&mut level)
        }
    }
}

/// Returns the path from the leaf at `index` to the root over `leaves`, sibling of the leaf first
/// (RFC 6962 section 2.1.1). `None` if there is no such leaf.
///
/// For trees in memory; see [`proof`](crate::proof) for trees in tiles.
pub fn inclusion_path_of(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    leaves.get(index)?;
    let mut path = Vec::new();
    let mut index = index;
    let mut level: Vec<Hash> = leaves.to_vec();
    while level.len() > 1 {
        path.extend(level.get(index ^ 1));
        index /= 2;
        level = level.chunks(2).map(parent).collect();
    }
    Some(path)
}

/// Computes the root over `level` in place, overwriting it.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "places are below the length of a slice of 32-byte hashes, so twice them fits"
)]
fn root_in_place(level: &mut [Hash]) -> Hash {
    let mut width = level.len();
    while width > 1 {
        let mut pair = 0;
        while let Some(above) = level.get(2 * pair..width.min(2 * pair + 2)).map(parent) {
            let Some(slot) = level.get_mut(pair) else {
                break;
            };
            *slot = above;
            pair += 1;
            if 2 * pair >= width {
                break;
            }
        }
        width = width.div_ceil(2);
    }
    level.first().copied().unwrap_or(EMPTY_ROOT)
}

/// Returns the node over a pair, or the last node of a level without a sibling.
fn parent(pair: &[Hash]) -> Hash {
    match pair {
        [left, right] => node_hash(left, right),
        [lone, ..] => *lone,
        [] => EMPTY_ROOT,
    }
}

/// A compact range from leaf 0: the part of a tree that appending and the root need.
///
/// The frontier holds the roots of the tree's perfect subtrees, largest first: one for each bit set
/// in the size, so at most 64.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    hashes: Vec<Hash>,
}

impl Frontier {
    /// Creates the frontier of the empty tree.
    pub const fn new() -> Self {
        Self {
            size: 0,
            hashes: Vec::new(),
        }
    }

    /// Creates the frontier of a tree of `size` leaves from [`Frontier::hashes`]. `None` unless
    /// there is one hash for each bit set in `size`.
    ///
    /// The hashes themselves cannot be checked here: compare [`Frontier::root`] with a signed one.
    pub fn from_parts(size: u64, hashes: Vec<Hash>) -> Option<Self> {
        let fits = u32::try_from(hashes.len()).is_ok_and(|count| count == size.count_ones());
        fits.then_some(Self { size, hashes })
    }

    /// Appends the leaf with hash `leaf`.
    ///
    /// A tree of 2^64 - 1 leaves is full and does not change.
    pub fn push(&mut self, leaf: Hash) {
        let Some(size) = self.size.checked_add(1) else {
            return;
        };
        let mut hash = leaf;
        // Each trailing one bit of the size is a perfect subtree that the new leaf completes.
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.hashes.pop() else { break };
            hash = node_hash(&left, &hash);
        }
        self.hashes.push(hash);
        self.size = size;
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the perfect subtrees, largest first.
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// Computes the root of the tree.
    pub fn root(&self) -> Hash {
        fold_right(&self.hashes)
    }
}

/// Computes the root over perfect subtrees, given largest first; joins the smallest two first.
pub(crate) fn fold_right(hashes: &[Hash]) -> Hash {
    hashes
        .iter()
        .copied()
        .rev()
        .reduce(|right, left| node_hash(&left, &right))
        .unwrap_or(EMPTY_ROOT)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use std::string::ToString as _;

    use super::*;

    fn leaves(count: usize) -> Vec<Hash> {
        (0..count)
            .map(|index| leaf_hash(format!("leaf {index}").as_bytes()))
            .collect()
    }

    #[test]
    fn empty_root_is_the_hash_of_nothing() {
        assert_eq!(EMPTY_ROOT, Hash(Sha256::digest([]).into()));
        assert_eq!(root_of(&[]), EMPTY_ROOT);
        assert_eq!(Frontier::new().root(), EMPTY_ROOT);
    }

    #[test]
    fn leaves_and_nodes_are_kept_apart_by_their_prefix() {
        let (left, right) = (leaf_hash(b"left"), leaf_hash(b"right"));
        let mut joined = left.as_bytes().to_vec();
        joined.extend(right.as_bytes());
        assert_ne!(node_hash(&left, &right), leaf_hash(&joined));
        joined.insert(0, 1);
        assert_eq!(
            node_hash(&left, &right),
            Hash(Sha256::digest(&joined).into())
        );
        assert_eq!(leaf_hash(b"left"), Hash(Sha256::digest(b"\0left").into()));
    }

    #[test]
    fn parts_hash_like_the_whole() {
        assert_eq!(leaf_hash_parts([&b"a"[..], b"", b"bc"]), leaf_hash(b"abc"));
        assert_eq!(leaf_hash_parts([]), leaf_hash(b""));
    }

    #[test]
    fn frontier_and_root_of_agree_at_every_size() {
        let leaves = leaves(600);
        let mut frontier = Frontier::new();
        for (count, leaf) in leaves.iter().enumerate() {
            assert_eq!(frontier.root(), root_of(&leaves[..count]), "{count}");
            let again = Frontier::from_parts(frontier.size(), frontier.hashes().to_vec());
            assert_eq!(again.as_ref(), Some(&frontier));
            frontier.push(*leaf);
        }
    }

    #[test]
    fn a_frontier_with_too_few_or_too_many_hashes_is_refused() {
        let hashes = leaves(3);
        assert!(Frontier::from_parts(7, hashes.clone()).is_some());
        assert!(Frontier::from_parts(6, hashes.clone()).is_none());
        assert!(Frontier::from_parts(0, hashes).is_none());
        assert!(Frontier::from_parts(1, Vec::new()).is_none());
    }

    #[test]
    fn a_full_frontier_takes_no_leaf() {
        let mut full = Frontier::from_parts(u64::MAX, leaves(64)).unwrap();
        let before = full.clone();
        full.push(EMPTY_ROOT);
        assert_eq!(full, before);
    }

    #[test]
    fn text_forms_are_base64_and_hex() {
        assert_eq!(
            EMPTY_ROOT.to_string(),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
        assert!(format!("{EMPTY_ROOT:?}").starts_with("e3b0c442"));
        let text = EMPTY_ROOT.to_string();
        assert_eq!(Hash::from_base64(&text, "hash"), Ok(EMPTY_ROOT));
        // The last letter before the padding carries two bits that must be zero.
        let bent = text.replace("U=", "V=");
        for bad in [
            bent.as_str(),
            &text[..43],
            "",
            "47DEQpj8",
            "47DEQpj8HBSa-_TImW",
        ] {
            assert!(Hash::from_base64(bad, "hash").is_err(), "{bad}");
        }
    }
}
