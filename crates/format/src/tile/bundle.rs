//! Entry bundles: up to 256 leaves with their lengths, as tlog-tiles stores them.

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
    /// The bundle at these coordinates; `None` as for a [`Tile`] of level 0.
    pub fn new(index: u64, width: u16) -> Option<Self> {
        Tile::new(0, index, width).map(Self::beside)
    }

    /// The bundle at `index` as a tree of `size` leaves has it; `None` when it has none.
    pub fn of_tree(index: u64, size: u64) -> Option<Self> {
        Tile::of_tree(0, index, size).map(Self::beside)
    }

    /// The bundle at the path `tile/entries/N` or `tile/entries/N.p/W`.
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

    /// The place among the bundles, from 0.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Number of leaves, 1..=256.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Whether the bundle holds 256 leaves and so never changes any more.
    pub const fn is_full(self) -> bool {
        self.width == TILE_WIDTH_FULL
    }

    /// The full bundle at the same place.
    #[must_use]
    pub const fn filled(self) -> Self {
        Self {
            width: TILE_WIDTH_FULL,
            ..self
        }
    }

    /// The path below the log's root: `tile/entries/N` or `tile/entries/N.p/W`.
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

/// The file of a bundle with these leaves: each behind its length as a big-endian u16.
///
/// # Errors
/// When a leaf is longer than [`LEAF_BYTES_MAX`](crate::limits::LEAF_BYTES_MAX); the offset counts leaves.
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

/// Appends `leaf` with its length to a bundle; `None` when it is too long.
pub(super) fn put_leaf(bytes: &mut Vec<u8>, leaf: &[u8]) -> Option<()> {
    let length = u16::try_from(leaf.len()).ok()?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(leaf);
    Some(())
}

/// The leaves of a bundle's file.
///
/// # Errors
/// When the file does not hold exactly `width` leaves and nothing else.
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
