//! Tiles and entry bundles of C2SP tlog-tiles: coordinates, paths, and the tiles of a tree.

mod bundle;
mod reader;
mod writer;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use bundle::{Bundle, decode_bundle, encode_bundle};
pub use reader::{TileReadError, TileReader};
pub use writer::{RestoreError, TileFile, TreeFiles, TreeWriter};

use crate::error::DecodeError;
use crate::limits::TILE_WIDTH;
use crate::tree::{HASH_BYTES, Hash};

/// Hashes in a full tile, as a `u16`.
pub const TILE_WIDTH_FULL: u16 = 256;
/// Bytes of a full tile.
pub const TILE_BYTES_FULL: usize = 8_192;
/// Highest tile level a path may name (tlog-tiles, Merkle tree).
pub const TILE_LEVEL_MAX: u8 = 63;
/// Highest tile level at which a tree of less than 2^64 leaves has hashes.
pub(crate) const TILE_LEVEL_REACHED_MAX: u8 = 7;

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "small constants, compared when compiled"
)]
const _: () = assert!(
    TILE_WIDTH_FULL as u64 == TILE_WIDTH && TILE_WIDTH as usize * HASH_BYTES == TILE_BYTES_FULL,
    "a full tile is 256 hashes"
);

/// The coordinates of a tile: `width` hashes of adjacent tree nodes.
///
/// Hash `i` of the tile at level `l` and index `n` is the root over 256^l leaves. The first of them
/// is leaf (256 n + i) 256^l. A tile with fewer than 256 hashes is partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    level: u8,
    index: u64,
    width: u16,
}

impl Tile {
    /// Creates the tile with these coordinates. `None` if the level exceeds [`TILE_LEVEL_MAX`], the
    /// width is not within 1..=256, or the index refers to leaves beyond 2^64.
    pub fn new(level: u8, index: u64, width: u16) -> Option<Self> {
        let in_range = level <= TILE_LEVEL_MAX && (1..=TILE_WIDTH_FULL).contains(&width);
        // The index of the first hash must fit 64 bits; higher levels have only index 0.
        let first = index.checked_mul(TILE_WIDTH)?;
        let bits = u32::from(level).saturating_mul(8);
        let reachable = first == 0 || (bits < 64 && first <= u64::MAX >> bits);
        (in_range && reachable).then_some(Self {
            level,
            index,
            width,
        })
    }

    /// Returns the tile at `level` and `index` in a tree of `size` leaves; `None` if it has none.
    pub fn of_tree(level: u8, index: u64, size: u64) -> Option<Self> {
        let hashes = hashes_at(level, size);
        let before = index.checked_mul(TILE_WIDTH)?;
        let width = hashes.checked_sub(before)?.min(TILE_WIDTH);
        Self::new(level, index, u16::try_from(width).ok()?)
    }

    /// Parses the path `tile/L/N` or `tile/L/N.p/W`.
    ///
    /// # Errors
    /// When `path` is not exactly what [`Tile::path`] writes for some tile.
    pub fn parse(path: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("tile path", 0, reason);
        let rest = path
            .strip_prefix("tile/")
            .ok_or_else(|| error("does not begin with tile/"))?;
        let (level, rest) = rest
            .split_once('/')
            .ok_or_else(|| error("ends after its level"))?;
        let level = canonical_number(level).ok_or_else(|| error("has no decimal level"))?;
        let level =
            u8::try_from(level).map_err(|_too_large| error("names a level above the highest"))?;
        let (index, width) = parse_index_and_width(rest).map_err(error)?;
        Self::new(level, index, width).ok_or_else(|| error("names a tile no tree has"))
    }

    /// Returns the level; level 0 holds leaf hashes.
    pub const fn level(self) -> u8 {
        self.level
    }

    /// Returns the index of the tile in its level, from 0.
    pub const fn index(self) -> u64 {
        self.index
    }

    /// Returns the number of hashes, 1..=256.
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Returns whether the tile holds 256 hashes and so never changes again.
    pub const fn is_full(self) -> bool {
        self.width == TILE_WIDTH_FULL
    }

    /// Returns the full tile at the same place.
    #[must_use]
    pub const fn filled(self) -> Self {
        Self {
            width: TILE_WIDTH_FULL,
            ..self
        }
    }

    /// Returns the path below the log's root: `tile/L/N` or `tile/L/N.p/W`.
    pub fn path(self) -> String {
        format!(
            "tile/{}/{}",
            self.level,
            IndexAndWidth(self.index, self.width)
        )
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// Decodes a tile's file into its hashes.
///
/// # Errors
/// When the file is not exactly `width` hashes long.
pub fn decode_tile(bytes: &[u8], width: u16) -> Result<Vec<Hash>, DecodeError> {
    let hashes: Vec<Hash> = bytes
        .chunks_exact(HASH_BYTES)
        .filter_map(Hash::from_slice)
        .collect();
    if hashes.len() != usize::from(width) || !bytes.len().is_multiple_of(HASH_BYTES) {
        return Err(DecodeError::new(
            "tile",
            bytes.len(),
            "is not as long as its width says",
        ));
    }
    Ok(hashes)
}

/// Encodes the file of a tile with these hashes.
pub fn encode_tile(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(Hash::as_bytes).copied().collect()
}

/// Returns the tiles that are new or wider in a tree of `new` leaves than in one of `old`, lowest
/// level first.
///
/// Partial tiles are listed with their width at `new` only. Empty unless `old < new`.
pub fn tiles_grown(old: u64, new: u64) -> impl Iterator<Item = Tile> {
    (0..=TILE_LEVEL_REACHED_MAX).flat_map(move |level| {
        grown_indices(hashes_at(level, old), hashes_at(level, new))
            .filter_map(move |index| Tile::of_tree(level, index, new))
    })
}

/// Returns the entry bundles that are new or wider in a tree of `new` leaves than in one of `old`.
pub fn bundles_grown(old: u64, new: u64) -> impl Iterator<Item = Bundle> {
    grown_indices(old, new).filter_map(move |index| Bundle::of_tree(index, new))
}

/// Returns the indices of the groups of 256 that hold the elements `old..new`.
fn grown_indices(old: u64, new: u64) -> core::ops::Range<u64> {
    if old < new {
        old / TILE_WIDTH..new.div_ceil(TILE_WIDTH)
    } else {
        0..0
    }
}

/// Returns the number of hashes of a tree of `size` leaves at tile level `level`.
pub(crate) fn hashes_at(level: u8, size: u64) -> u64 {
    size.checked_shr(u32::from(level).saturating_mul(8))
        .unwrap_or(0)
}

/// The rest of a path after the level: index in groups of three digits, then the width if partial.
struct IndexAndWidth(u64, u16);

impl fmt::Display for IndexAndWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:03}", self.0);
        let padded = digits.len().next_multiple_of(3);
        let digits = format!("{digits:0>padded$}");
        let last = digits.len().saturating_sub(3);
        for (place, digit) in digits.chars().enumerate() {
            if place % 3 == 0 {
                f.write_str(if place == 0 { "" } else { "/" })?;
                f.write_str(if place < last { "x" } else { "" })?;
            }
            write!(f, "{digit}")?;
        }
        if self.1 < TILE_WIDTH_FULL {
            write!(f, ".p/{}", self.1)
        } else {
            Ok(())
        }
    }
}

fn parse_index_and_width(text: &str) -> Result<(u64, u16), &'static str> {
    let (groups, width) = match text.split_once(".p/") {
        None => (text, TILE_WIDTH_FULL),
        Some((groups, width)) => {
            let width = canonical_number(width).and_then(|width| u16::try_from(width).ok());
            let partial = width.filter(|width| (1..TILE_WIDTH_FULL).contains(width));
            (
                groups,
                partial.ok_or("has a partial width outside 1..=255")?,
            )
        }
    };
    Ok((
        parse_index(groups).ok_or("has no index in groups of three digits")?,
        width,
    ))
}

fn parse_index(text: &str) -> Option<u64> {
    let mut index: u64 = 0;
    let mut groups = text.split('/').peekable();
    while let Some(group) = groups.next() {
        let digits = if groups.peek().is_some() {
            group.strip_prefix('x')?
        } else {
            group
        };
        if digits.len() != 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    }
    // A leading group of zeros would be a second encoding of the same index.
    (!text.starts_with("x000")).then_some(index)
}

/// Parses a decimal number in its one canonical form: no sign, no leading zero.
pub(crate) fn canonical_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if digits && !leading_zero {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
