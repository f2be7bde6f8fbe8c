//! Appends leaves to a tree of tiles, and returns the files to write for publishing it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::bundle::put_leaf;
use super::reader::{TileReadError, read_tile};
use super::{
    Bundle, TILE_LEVEL_REACHED_MAX, TILE_WIDTH_FULL, Tile, bundles_grown, decode_bundle,
    encode_tile, hashes_at, tiles_grown,
};
use crate::error::DecodeError;
use crate::limits::{LEAF_BYTES_MAX, TILE_WIDTH};
use crate::tree::{EMPTY_ROOT, Hash, leaf_hash, root_of};

/// A file to be written below the log's root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TileFile {
    /// The path relative to the log's root.
    pub path: String,
    /// The whole content.
    pub bytes: Vec<u8>,
    /// `true` for a full tile or bundle, which never changes once written.
    pub full: bool,
}

/// The file changes that publish a tree, without its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TreeFiles {
    /// Files to write; all of them before the checkpoint.
    pub write: Vec<TileFile>,
    /// Folders of partial tiles and bundles whose full form is among `write`. They may be removed
    /// with their contents once the checkpoint is published. A crash in between leaves them behind
    /// harmlessly.
    pub obsolete: Vec<String>,
}

/// The right edge of a tree of tiles: the part that appending, the root and the files need. Between
/// publications it keeps at most 256 hashes per level and one bundle.
///
/// The writer does no input or output itself; see [`TreeWriter::take_files`] for the order of
/// writes.
#[derive(Debug, Clone)]
pub struct TreeWriter {
    size: u64,
    /// Size at the last [`TreeWriter::take_files`].
    taken: u64,
    /// The hashes of the unfinished tile of each level, lowest first.
    edge: Vec<Vec<Hash>>,
    /// The unfinished bundle, encoded.
    bundle: Vec<u8>,
    /// Full tiles and bundles since the last [`TreeWriter::take_files`].
    finished: Vec<TileFile>,
}

impl Default for TreeWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl TreeWriter {
    /// Creates the writer of an empty tree.
    pub const fn new() -> Self {
        Self {
            size: 0,
            taken: 0,
            edge: Vec::new(),
            bundle: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Restores the writer of a tree of `size` leaves from its files.
    ///
    /// `read` returns the content of a path, or `None` if there is no such file. Only the
    /// unfinished tiles and the unfinished bundle are read. The leaves in the bundle are checked
    /// against their hashes. **The caller must compare [`TreeWriter::root`] with the
    /// checkpoint's**, which then covers every hash read here.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub fn restore<E>(
        size: u64,
        mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Self, RestoreError<E>> {
        let mut writer = Self {
            size,
            taken: size,
            ..Self::new()
        };
        for level in 0..=TILE_LEVEL_REACHED_MAX {
            let index = hashes_at(level, size) / TILE_WIDTH;
            let hashes = match Tile::of_tree(level, index, size) {
                Some(tile) => read_tile(tile, &mut read).map_err(RestoreError::Tile)?,
                None => Vec::new(),
            };
            writer.edge.push(hashes);
        }
        if let Some(bundle) = Bundle::of_tree(size / TILE_WIDTH, size) {
            writer.restore_bundle(bundle, &mut read)?;
        }
        Ok(writer)
    }

    /// Appends a leaf and returns its index.
    ///
    /// # Errors
    /// When the leaf is longer than [`LEAF_BYTES_MAX`] or the tree is full; the tree is then
    /// unchanged.
    pub fn append(&mut self, leaf: &[u8]) -> Result<u64, DecodeError> {
        let index = self.size;
        let error = |reason| DecodeError::new("leaf", LEAF_BYTES_MAX, reason);
        self.size = index
            .checked_add(1)
            .ok_or_else(|| error("does not fit a full tree"))?;
        if put_leaf(&mut self.bundle, leaf).is_none() {
            self.size = index;
            return Err(error("is longer than the limit"));
        }
        self.push(0, leaf_hash(leaf));
        if self.size.is_multiple_of(TILE_WIDTH) {
            self.finish_bundle(index / TILE_WIDTH);
            self.finish_tiles(index / TILE_WIDTH);
        }
        Ok(index)
    }

    /// Returns the files that publish the tree at its present size, without those returned before.
    ///
    /// Write them, make them durable, and only then write a checkpoint of [`TreeWriter::size`] and
    /// [`TreeWriter::root`]. Then every checkpoint that a reader sees has its tiles. Full files
    /// never change. Partial files have their width in their path and do not change either.
    pub fn take_files(&mut self) -> TreeFiles {
        let mut write = core::mem::take(&mut self.finished);
        let partial_tiles = tiles_grown(self.taken, self.size).filter(|tile| !tile.is_full());
        for tile in partial_tiles {
            let hashes = self
                .edge
                .get(usize::from(tile.level()))
                .map_or(&[][..], Vec::as_slice);
            debug_assert_eq!(
                hashes.len(),
                usize::from(tile.width()),
                "the edge is the tile"
            );
            write.push(TileFile {
                path: tile.path(),
                bytes: encode_tile(hashes),
                full: false,
            });
        }
        for bundle in bundles_grown(self.taken, self.size).filter(|bundle| !bundle.is_full()) {
            let bytes = self.bundle.clone();
            write.push(TileFile {
                path: bundle.path(),
                bytes,
                full: false,
            });
        }
        let obsolete = self.obsolete();
        self.taken = self.size;
        TreeFiles { write, obsolete }
    }

    /// Returns the full tiles and bundles that were not returned before; [`TreeWriter::take_files`]
    /// then returns only the others.
    ///
    /// A caller that builds a large tree at once needs no more memory than its right edge this way.
    pub fn take_full(&mut self) -> Vec<TileFile> {
        core::mem::take(&mut self.finished)
    }

    /// Returns the number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Computes the root over all leaves.
    pub fn root(&self) -> Hash {
        // The hashes of a level and the root over all leaves to their right are the leaves of a
        // tree of the same shape. That last subtree is smaller than any of the others.
        let mut root = None;
        for hashes in &self.edge {
            if hashes.is_empty() {
                continue;
            }
            let mut level = hashes.clone();
            level.extend(root);
            root = Some(root_of(&level));
        }
        root.unwrap_or(EMPTY_ROOT)
    }

    fn push(&mut self, level: usize, hash: Hash) {
        while self.edge.len() <= level {
            self.edge
                .push(Vec::with_capacity(usize::from(TILE_WIDTH_FULL)));
        }
        if let Some(hashes) = self.edge.get_mut(level) {
            hashes.push(hash);
        }
    }

    fn finish_bundle(&mut self, index: u64) {
        let bytes = core::mem::take(&mut self.bundle);
        if let Some(bundle) = Bundle::new(index, TILE_WIDTH_FULL) {
            self.finished.push(TileFile {
                path: bundle.path(),
                bytes,
                full: true,
            });
        }
    }

    /// Finishes the level-0 tile at `index` and every tile above that it completes.
    fn finish_tiles(&mut self, mut index: u64) {
        for level in 0..=TILE_LEVEL_REACHED_MAX {
            let above = usize::from(level).saturating_add(1);
            let Some(hashes) = self.edge.get_mut(usize::from(level)) else {
                return;
            };
            if hashes.len() < usize::from(TILE_WIDTH_FULL) {
                return;
            }
            let (root, bytes) = (root_of(hashes), encode_tile(hashes));
            hashes.clear();
            if let Some(tile) = Tile::new(level, index, TILE_WIDTH_FULL) {
                self.finished.push(TileFile {
                    path: tile.path(),
                    bytes,
                    full: true,
                });
            }
            self.push(above, root);
            index /= TILE_WIDTH;
        }
    }

    /// Returns the folders of partials that existed at `taken` and are full now.
    fn obsolete(&self) -> Vec<String> {
        let was_partial = |before: u64| !before.is_multiple_of(TILE_WIDTH);
        let tiles = (0..=TILE_LEVEL_REACHED_MAX).filter_map(|level| {
            let before = hashes_at(level, self.taken);
            Tile::of_tree(level, before / TILE_WIDTH, self.size)
                .filter(|tile| was_partial(before) && tile.is_full())
                .map(|tile| format!("{}.p", tile.path()))
        });
        let bundle = Bundle::of_tree(self.taken / TILE_WIDTH, self.size)
            .filter(|bundle| was_partial(self.taken) && bundle.is_full())
            .map(|bundle| format!("{}.p", bundle.path()));
        tiles.chain(bundle).collect()
    }

    fn restore_bundle<E>(
        &mut self,
        bundle: Bundle,
        mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), RestoreError<E>> {
        let mut stored = bundle;
        let mut content = read(&bundle.path()).map_err(RestoreError::Read)?;
        if content.is_none() {
            stored = bundle.filled();
            content = read(&stored.path()).map_err(RestoreError::Read)?;
        }
        let path = stored.path();
        let Some(bytes) = content else {
            return Err(RestoreError::Missing {
                path: bundle.path(),
            });
        };
        let damaged = |error| RestoreError::Bundle {
            path: path.clone(),
            error,
        };
        let leaves = decode_bundle(&bytes, stored.width()).map_err(damaged)?;
        let hashes = self.edge.first().map_or(&[][..], Vec::as_slice);
        for (place, (leaf, hash)) in leaves.iter().zip(hashes).enumerate() {
            if leaf_hash(leaf) != *hash {
                let reason = "holds a leaf that is not the one in the tile";
                return Err(damaged(DecodeError::new("entry bundle", place, reason)));
            }
            if put_leaf(&mut self.bundle, leaf).is_none() {
                return Err(damaged(DecodeError::new(
                    "entry bundle",
                    place,
                    "is too long",
                )));
            }
        }
        Ok(())
    }
}

/// The reason why a [`TreeWriter`] could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError<E> {
    /// A file could not be read.
    Read(E),
    /// A tile could not be read or is damaged.
    Tile(TileReadError<E>),
    /// Neither the partial bundle of this path nor its full form exists.
    Missing {
        /// The path that was tried first.
        path: String,
    },
    /// The bundle is damaged or contradicts its tile.
    Bundle {
        /// The path of the bundle.
        path: String,
        /// The reason; the offset counts leaves if a leaf is wrong.
        error: DecodeError,
    },
}

impl<E> fmt::Display for RestoreError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(_) => f.write_str("an entry bundle could not be read"),
            Self::Tile(_) => f.write_str("the right edge of the tree could not be read"),
            Self::Missing { path } => write!(f, "{path} is missing"),
            Self::Bundle { path, .. } => write!(f, "{path} is damaged"),
        }
    }
}

impl<E: core::error::Error + 'static> core::error::Error for RestoreError<E> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Tile(error) => Some(error),
            Self::Bundle { error, .. } => Some(error),
            Self::Missing { .. } => None,
        }
    }
}
