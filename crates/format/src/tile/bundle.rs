//! Entry bundles of tlog-tiles: up to 256 leaves, each with its length.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{IndexAndWidth, TILE_WIDTH_FULL, Tile, parse_index_and_width};
use crate::error::DecodeError;
use crate::wire::Reader;

/// The coordinates of an entry bundle: leaves 256 `index` to 256 `index` + `width` - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundle {
    index: u64,
    width: u16,
}

impl Bundle {
    /// Creates the bundle with these coordinates; `None` as for a [`Tile`] of level 0.
    pub fn new(index: u64, width: u16) -> Option<Self> {
        Tile::new(0, index, width).map(Self::beside)
    }

    /// Returns the bundle at `index` in a tree of `size` leaves; `None` if it has none.
    pub fn of_tree(index: u64, size: u64) -> Option<Self> {
        Tile::of_tree(0, index, size).map(Self::beside)
    }

    /// Parses the path `tile/entries/N` or `tile/entries/N.p/W`.
    ///
    /// # Errors
    /// When `path` is not exactly what [`Bundle::path`] writes for some bundle.
    pub fn parse(path: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("entry bundle path", 0, reason);
        let rest = path
            .strip_prefix("tile/entries/")
            .ok_or_else(|| error("does not begin with tile/entries/"))?;
        let (index, width) = parse_index_and_width(rest).map_err(error)?;
        Self::new(index, width).ok_or_else(|| error("names a bundle no tree has"))
    }

    /// Returns the index of the bundle, from 0.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Returns the number of leaves, 1..=256.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Returns whether the bundle holds 256 leaves and so never changes again.
    pub const fn is_full(self) -> bool {
        self.width == TILE_WIDTH_FULL
    }

    /// Returns the full bundle at the same index.
    #[must_use]
    pub const fn filled(self) -> Self {
        Self {
            width: TILE_WIDTH_FULL,
            ..self
        }
    }

    /// Returns the path below the log's root: `tile/entries/N` or `tile/entries/N.p/W`.
    pub fn path(self) -> String {
        format!("tile/entries/{}", IndexAndWidth(self.index, self.width))
    }

    const fn beside(tile: Tile) -> Self {
        Self {
            index: tile.index,
            width: tile.width,
        }
    }
}

impl fmt::Display for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// Encodes the file of a bundle with these leaves: each after its length as a big-endian u16.
///
/// # Errors
/// When a leaf is longer than [`LEAF_BYTES_MAX`](crate::limits::LEAF_BYTES_MAX); the offset counts
/// leaves.
pub fn encode_bundle<'a>(
    leaves: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    for (place, leaf) in leaves.into_iter().enumerate() {
        put_leaf(&mut bytes, leaf).ok_or_else(|| {
            DecodeError::new("entry bundle", place, "holds a leaf above the limit")
        })?;
    }
    Ok(bytes)
}

/// Appends `leaf` with its length to a bundle; `None` if it is too long.
pub(super) fn put_leaf(bytes: &mut Vec<u8>, leaf: &[u8]) -> Option<()> {
    let length = u16::try_from(leaf.len()).ok()?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(leaf);
    Some(())
}

/// Decodes a bundle's file into its leaves.
///
/// # Errors
/// When the file does not hold exactly `width` leaves.
pub fn decode_bundle(bytes: &[u8], width: u16) -> Result<Vec<&[u8]>, DecodeError> {
    let mut reader = Reader::new(bytes, "entry bundle");
    let mut leaves = Vec::with_capacity(usize::from(width));
    for _ in 0..width {
        let length = u16::from_be_bytes(reader.array()?);
        leaves.push(reader.take(usize::from(length))?);
    }
    reader.finish()?;
    Ok(leaves)
}
