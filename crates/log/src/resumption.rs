//! The stored tree of a stream at a known head, and the position behind its last frame, from which
//! an opening continues.
//!
//! Stored data is trusted only once it has the root of that head.

use probity_format::limits::TILE_WIDTH;
use probity_format::proof::{ProveError, consistency_proof, verify_consistency};
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tile::{
    Bundle, RestoreError, Tile, TileReadError, TileReader, TreeWriter, decode_bundle, encode_bundle,
};
use probity_format::tree::{HASH_BYTES, Hash};

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX, unless_strange};
use crate::known::KnownHead;
use crate::records::Records;
use crate::scan::Position;
use crate::segments::Identity;

/// The tiles, bundles and segments of one stream.
pub(crate) struct Resumption<'a> {
    pub(crate) files: &'a Files,
    pub(crate) name: &'a StreamName,
    pub(crate) identity: Identity,
    /// The size of the largest published tree. Its tiles are there, even if those of smaller trees
    /// are gone.
    pub(crate) published: u64,
    /// Its root, which confirms records on the way.
    pub(crate) published_root: Hash,
}

impl Resumption<'_> {
    /// The tree of `size` frames with `root`, and the position behind its last frame, which must be
    /// there.
    pub(crate) fn end(
        &self,
        size: u64,
        root: &Hash,
    ) -> Result<Option<(TreeWriter, Position)>, LogError> {
        let Some((tree, leaf)) = self.tree(size, root)? else {
            return Ok(None);
        };
        let Ok(record) = Record::decode(self.identity.version, &leaf) else {
            return Ok(None);
        };
        let position = self.position_behind(&record, size, root)?;
        Ok(position.map(|position| (tree, position)))
    }

    /// The tree of `size` frames with `root`, and its last leaf.
    pub(crate) fn tree(
        &self,
        size: u64,
        root: &Hash,
    ) -> Result<Option<(TreeWriter, Vec<u8>)>, LogError> {
        let last = size.saturating_sub(1);
        // A full bundle is not read when the tree behind it is restored, so the tree before it is
        // restored.
        let is_full = size.is_multiple_of(TILE_WIDTH);
        let restored = if is_full { last } else { size };
        let mut tree = match TreeWriter::restore(restored, |path| self.read(path)) {
            Ok(tree) => tree,
            Err(RestoreError::Read(error) | RestoreError::Tile(TileReadError::Read(error))) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        let Some(leaf) = self.last_leaf(size)? else {
            return Ok(None);
        };
        // The root confirms that the leaf is the signed one.
        if is_full && tree.append(&leaf).is_err() || tree.root() != *root {
            return Ok(None);
        }
        Ok(Some((tree, leaf)))
    }

    /// Returns whether the stored tree of `size` frames with `root` has grown from that of `known`.
    /// A damaged tree cannot show it.
    pub(crate) fn has_grown_from(
        &self,
        known: &KnownHead,
        size: u64,
        root: &Hash,
    ) -> Result<bool, LogError> {
        let mut tiles = TileReader::new(size, |path: &str| self.read(path));
        let path = consistency_proof(known.size, size, |level, index| tiles.node(level, index));
        match path {
            Ok(path) => Ok(verify_consistency(known.size, size, &known.root, root, &path).is_ok()),
            Err(ProveError::Node(TileReadError::Read(error))) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The position behind the frame of `record`, the last of `size` with `root`, if the frame is
    /// stored and matches the record.
    fn position_behind(
        &self,
        record: &Record,
        size: u64,
        root: &Hash,
    ) -> Result<Option<Position>, LogError> {
        let (size, root) = if size > self.published {
            (size, *root)
        } else {
            (self.published, self.published_root)
        };
        let mut records = Records::of_tree(self.files, self.name, self.identity, size, root);
        let found = match records.stored(record) {
            Ok(Some(_)) => records.behind(record),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match found {
            // The records before it do not lead there.
            Err(LogError::Broken { .. }) => Ok(None),
            found => found,
        }
    }

    /// The last leaf of a tree of `size` frames.
    fn last_leaf(&self, size: u64) -> Result<Option<Vec<u8>>, LogError> {
        let last = size.saturating_sub(1);
        let Some(bundle) = Bundle::of_tree(last / TILE_WIDTH, size) else {
            return Ok(None);
        };
        let width = usize::from(bundle.width());
        for bundle in [bundle, bundle.filled()] {
            if let Some(bytes) = self.read(&bundle.path())? {
                // A damaged bundle is worth as much as a missing one.
                let Ok(leaves) = decode_bundle(&bytes, bundle.width()) else {
                    continue;
                };
                let leaf = leaves.get(..width).and_then(<[_]>::last);
                return Ok(leaf.map(|leaf| leaf.to_vec()));
            }
        }
        Ok(None)
    }

    /// The content of a tile or bundle. A partial form is never written if no checkpoint had its
    /// size. It is then a prefix of the form that the published tree has in its place.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, LogError> {
        let read = |path: &str| {
            let path = format!("streams/{}/{path}", self.name);
            unless_strange(self.files.read(&path, TILE_FILE_BYTES_MAX))
        };
        if let Some(content) = read(path)? {
            return Ok(Some(content));
        }
        if let Ok(tile) = Tile::parse(path) {
            let larger = Tile::of_tree(tile.level(), tile.index(), self.published);
            let Some(larger) = larger.filter(|larger| larger.width() > tile.width()) else {
                return Ok(None);
            };
            let content = read(&larger.path())?;
            let length = usize::from(tile.width()).saturating_mul(HASH_BYTES);
            return Ok(content.and_then(|bytes| bytes.get(..length).map(<[u8]>::to_vec)));
        }
        let Ok(bundle) = Bundle::parse(path) else {
            return Ok(None);
        };
        let larger = Bundle::of_tree(bundle.index(), self.published);
        let Some(larger) = larger.filter(|larger| larger.width() > bundle.width()) else {
            return Ok(None);
        };
        let Some(content) = read(&larger.path())? else {
            return Ok(None);
        };
        // A damaged one holds no leaf that counts.
        let Ok(leaves) = decode_bundle(&content, larger.width()) else {
            return Ok(None);
        };
        let leaves = leaves.get(..usize::from(bundle.width()));
        Ok(leaves.and_then(|leaves| encode_bundle(leaves.iter().copied()).ok()))
    }
}
