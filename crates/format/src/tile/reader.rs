//! Reads tree nodes from tiles; each tile is read once.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::{TILE_WIDTH_FULL, Tile, decode_tile};
use crate::error::DecodeError;
use crate::tree::{HASH_BYTES, Hash, root_of};

/// The reason why a node could not be read from tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TileReadError<E> {
    /// The file could not be read.
    Read(E),
    /// Neither the partial file of this path nor its full form exists.
    Missing {
        /// The path that was tried first.
        path: String,
    },
    /// The file's content does not fit its path.
    Decode {
        /// The path.
        path: String,
        /// The reason.
        error: DecodeError,
    },
    /// The tree has no such node.
    NoSuchNode,
}

impl<E> fmt::Display for TileReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => f.write_str("a tile could not be read"),
            Self::Missing { path } => write!(f, "{path} is missing"),
            Self::Decode { path, .. } => write!(f, "{path} is damaged"),
            Self::NoSuchNode => f.write_str("the tree has no such node"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for TileReadError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Decode { error, .. } => Some(error),
            Self::Missing { .. } | Self::NoSuchNode => None,
        }
    }
}

/// The perfect subtrees of a tree of fixed size, read from its tiles and cached.
///
/// Nothing is authenticated here: a proof made from the nodes must be verified against a signed
/// root. Memory grows with the number of distinct tiles read (8 KiB each).
#[derive(Debug)]
pub struct TileReader<R> {
    size: u64,
    read: R,
    tiles: BTreeMap<(u8, u64), Vec<Hash>>,
}

impl<R, E> TileReader<R>
where
    R: FnMut(&str) -> Result<Option<Vec<u8>>, E>,
{
    /// Creates a reader of the tiles of a tree of `size` leaves. `read` returns the content of a
    /// path, or `None` if there is no such file.
    pub const fn new(size: u64, read: R) -> Self {
        Self {
            size,
            read,
            tiles: BTreeMap::new(),
        }
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the root over the 2^`level` leaves from `index` 2^`level` on.
    ///
    /// # Errors
    /// See [`TileReadError`].
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "divisors are constants, not zero"
    )]
    pub fn node(&mut self, level: u8, index: u64) -> Result<Hash, TileReadError<E>> {
        let within = level % 8;
        // Node `index` at height `within` above the tile's hashes covers 2^`within` of them.
        let first = index
            .checked_shl(u32::from(within))
            .ok_or(TileReadError::NoSuchNode)?;
        if first.checked_shr(u32::from(within)) != Some(index) {
            return Err(TileReadError::NoSuchNode);
        }
        let tile = Tile::of_tree(level / 8, first / u64::from(TILE_WIDTH_FULL), self.size)
            .ok_or(TileReadError::NoSuchNode)?;
        let start = usize::from(u8::try_from(first % u64::from(TILE_WIDTH_FULL)).unwrap_or(0));
        let end = start.saturating_add(1_usize.checked_shl(u32::from(within)).unwrap_or(0));
        let hashes = self.tile(tile)?;
        hashes
            .get(start..end)
            .map(root_of)
            .ok_or(TileReadError::NoSuchNode)
    }

    /// Returns the hash of the leaf at `index`.
    ///
    /// # Errors
    /// See [`TileReadError`].
    pub fn leaf(&mut self, index: u64) -> Result<Hash, TileReadError<E>> {
        self.node(0, index)
    }

    fn tile(&mut self, tile: Tile) -> Result<&[Hash], TileReadError<E>> {
        let key = (tile.level(), tile.index());
        if !self.tiles.contains_key(&key) {
            let hashes = read_tile(tile, &mut self.read)?;
            self.tiles.insert(key, hashes);
        }
        Ok(self.tiles.get(&key).map(Vec::as_slice).unwrap_or_default())
    }
}

/// Reads the hashes of `tile` from its own file, or from its full form if only that is left
/// (tlog-tiles, partial tiles).
pub(super) fn read_tile<E>(
    tile: Tile,
    mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
) -> Result<Vec<Hash>, TileReadError<E>> {
    let path = tile.path();
    if let Some(bytes) = read(&path).map_err(TileReadError::Read)? {
        return decode_tile(&bytes, tile.width())
            .map_err(|error| TileReadError::Decode { path, error });
    }
    if tile.is_full() {
        return Err(TileReadError::Missing { path });
    }
    let full = tile.filled();
    let Some(bytes) = read(&full.path()).map_err(TileReadError::Read)? else {
        return Err(TileReadError::Missing { path });
    };
    let mut hashes = decode_tile(&bytes, full.width()).map_err(|error| TileReadError::Decode {
        path: full.path(),
        error,
    })?;
    hashes.truncate(usize::from(tile.width()));
    debug_assert!(
        hashes.len() <= bytes.len() / HASH_BYTES,
        "a part is not longer than the whole"
    );
    Ok(hashes)
}
