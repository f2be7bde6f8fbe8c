//! Tiles and bundles that no signed tree has.
//!
//! Files beyond the tree are removed before the tree grows past them, and so are narrower ones that
//! are wrong. A publication writes them before its heads, so a crash leaves some. Where their
//! frames are lost, or somebody else wrote the files, they are no part of the tree that goes on
//! from here. Once a checkpoint covers their range, they would be found on the disk as damage.

use std::collections::BTreeMap;

use probity_format::limits::TILE_WIDTH;
use probity_format::stream::StreamName;
use probity_format::tile::{Bundle, Tile, TileFile, TreeFiles, decode_bundle, encode_bundle};
use probity_format::tree::HASH_BYTES;

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX, is_strange, unless_strange};

/// Hashes of a full tile.
const FULL: u64 = TILE_WIDTH;
/// Groups of three digits of the longest index.
const GROUPS_MAX: usize = 7;

/// The tiles and bundles of one stream, when it is opened for writing.
pub(crate) struct Beyond<'a> {
    pub(crate) files: &'a Files,
    pub(crate) name: &'a StreamName,
    /// Frames that the checkpoint covers.
    pub(crate) published: u64,
    /// Frames that the largest head covers.
    pub(crate) signed: u64,
    /// The tree, where the stored one does not have the signed root.
    pub(crate) rebuilt: Rebuilt,
}

/// The files of a tree that was rebuilt from the segments, by the paths of the full forms in their
/// places.
#[derive(Default)]
pub(crate) struct Rebuilt {
    files: BTreeMap<String, (Form, Vec<u8>)>,
    obsolete: Vec<String>,
}

/// A tile or bundle as it was read.
struct Read {
    path: String,
    bytes: Vec<u8>,
}

impl Rebuilt {
    /// Keeps `files`, of a publication that covers the whole tree.
    pub(crate) fn new(files: TreeFiles) -> Self {
        let parsed = files.write.into_iter();
        let parsed = parsed.filter_map(|TileFile { path, bytes, .. }| {
            let form = Form::parse(&path)?;
            Some((form.filled().path(), (form, bytes)))
        });
        Self {
            files: parsed.collect(),
            obsolete: files.obsolete,
        }
    }

    /// The bytes that `form` must have, where the tree is not smaller.
    fn bytes_of(&self, form: &Form) -> Option<Vec<u8>> {
        let (larger, bytes) = self.files.get(&form.filled().path())?;
        form.beginning_of(bytes, larger.width())
    }
}

impl Beyond<'_> {
    /// Removes every file that neither the checkpoint nor the largest head has. The next
    /// publication writes again what follows the anchored head.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn clear(&self) -> Result<(), LogError> {
        let mut folders = vec![("tile".to_owned(), 0)];
        let mut last = None;
        while let Some((folder, depth)) = folders.pop() {
            let place = self.path(&folder);
            let names = match self.files.list(&place) {
                // This is no folder, so it holds no names; the next tile at this path reports it.
                Err(error) if is_strange(&error) => continue,
                names => names?,
            };
            let mut has_removed = false;
            for name in names {
                let path = format!("{folder}/{name}");
                if is_folder(&path) {
                    if depth <= GROUPS_MAX {
                        folders.push((path, depth.saturating_add(1)));
                    }
                } else if let Some(form) = Form::parse(&path)
                    && (!self.keeps(&form) || self.is_wrong(&form, &mut last)?)
                {
                    self.keep_beginning(&form)?;
                    self.remove(&format!("{place}/{name}"))?;
                    has_removed = true;
                }
            }
            if has_removed {
                self.files.sync_folder(&place)?;
            }
        }
        Ok(())
    }

    /// Writes the files of a rebuilt tree that checkpoint, largest head and whole tree need, where
    /// they are not stored so.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn mend(&self) -> Result<(), LogError> {
        for (form, _) in self.rebuilt.files.values() {
            let signed = [self.published, self.signed].map(|size| form.in_tree(size));
            for wanted in signed.iter().flatten().chain([form]) {
                let path = self.path(&wanted.path());
                let Some(bytes) = self.rebuilt.bytes_of(wanted) else {
                    continue;
                };
                if self.stored(wanted)?.as_ref() != Some(&bytes) {
                    self.files.replace(&path, &bytes)?;
                }
            }
        }
        // The full form replaces them, as after a publication.
        for folder in &self.rebuilt.obsolete {
            self.files.discard(&self.path(folder));
        }
        Ok(())
    }

    fn keeps(&self, form: &Form) -> bool {
        form.leaves() <= self.published || form.in_tree(self.signed).as_ref() == Some(form)
    }

    /// Returns whether `form` is not a prefix of the wider form that the published tree has in its
    /// place. The wider form need not be there. Caches it in `last`, because hundreds of narrower
    /// forms share one.
    fn is_wrong(&self, form: &Form, last: &mut Option<Read>) -> Result<bool, LogError> {
        let present = form.in_tree(self.published);
        let signed = form.in_tree(self.signed);
        let Some(present) = present.filter(|it| it.width() > form.width()) else {
            return Ok(false);
        };
        if signed.as_ref() == Some(form) {
            return Ok(false);
        }
        let right = match self.rebuilt.bytes_of(form) {
            None => {
                let path = present.path();
                let read = match last.take().filter(|read| read.path == path) {
                    Some(read) => Some(read),
                    None => self.stored(&present)?.map(|bytes| Read { path, bytes }),
                };
                let right = read.as_ref();
                let right = right.and_then(|read| form.beginning_of(&read.bytes, present.width()));
                *last = read;
                right
            }
            right => right,
        };
        let (Some(right), Some(stored)) = (right, self.stored(form)?) else {
            return Ok(false);
        };
        Ok(right != stored)
    }

    fn stored(&self, form: &Form) -> Result<Option<Vec<u8>>, LogError> {
        let path = self.path(&form.path());
        unless_strange(self.files.read(&path, TILE_FILE_BYTES_MAX))
    }

    /// Writes the partial forms of signed trees where only the full `form` is stored, which stands
    /// in for them.
    fn keep_beginning(&self, form: &Form) -> Result<(), LogError> {
        for size in [self.published, self.signed] {
            let partial = form.in_tree(size).filter(|_| form.width() == FULL);
            let Some(partial) = partial.filter(|partial| partial.width() < FULL) else {
                continue;
            };
            if self.stored(&partial)?.is_some() {
                continue;
            }
            let full = self.stored(form)?;
            if let Some(beginning) = full.and_then(|full| partial.beginning_of(&full, FULL)) {
                self.files
                    .replace(&self.path(&partial.path()), &beginning)?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<(), LogError> {
        let Err(error) = self.files.remove(path) else {
            return Ok(());
        };
        // A folder in the place of a tile.
        if self.files.list(path).is_err() {
            return Err(error);
        }
        self.files.discard(path);
        Ok(())
    }

    fn path(&self, path: &str) -> String {
        format!("streams/{}/{path}", self.name)
    }
}

/// Returns whether `path` leads to tiles rather than to one: a level, a group of digits, or the
/// folder of partial forms.
fn is_folder(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    path.matches('/').count() == 1 || last.starts_with('x') || last.strip_suffix(".p").is_some()
}

/// A tile or a bundle.
#[derive(PartialEq, Eq)]
enum Form {
    Tile(Tile),
    Bundle(Bundle),
}

impl Form {
    fn parse(path: &str) -> Option<Self> {
        let tile = Tile::parse(path).ok().map(Self::Tile);
        tile.or_else(|| Bundle::parse(path).ok().map(Self::Bundle))
    }

    /// Leaves of the smallest tree that has it.
    fn leaves(&self) -> u64 {
        let (index, level) = match self {
            Self::Tile(tile) => (tile.index(), tile.level()),
            Self::Bundle(bundle) => (bundle.index(), 0),
        };
        let hashes = index
            .saturating_mul(TILE_WIDTH)
            .saturating_add(self.width());
        hashes.saturating_mul(TILE_WIDTH.saturating_pow(u32::from(level)))
    }

    fn width(&self) -> u64 {
        u64::from(match self {
            Self::Tile(tile) => tile.width(),
            Self::Bundle(bundle) => bundle.width(),
        })
    }

    /// The full form in its place.
    fn filled(&self) -> Self {
        match self {
            Self::Tile(tile) => Self::Tile(tile.filled()),
            Self::Bundle(bundle) => Self::Bundle(bundle.filled()),
        }
    }

    fn path(&self) -> String {
        match self {
            Self::Tile(tile) => tile.path(),
            Self::Bundle(bundle) => bundle.path(),
        }
    }

    /// The form that the tree of `size` leaves has in its place, if it has any.
    fn in_tree(&self, size: u64) -> Option<Self> {
        match self {
            Self::Tile(tile) => Tile::of_tree(tile.level(), tile.index(), size).map(Self::Tile),
            Self::Bundle(bundle) => Bundle::of_tree(bundle.index(), size).map(Self::Bundle),
        }
    }

    /// Its bytes, as the `larger` form of this width in its place has them.
    fn beginning_of(&self, larger: &[u8], width: u64) -> Option<Vec<u8>> {
        match self {
            Self::Tile(tile) => {
                let length = usize::from(tile.width()).saturating_mul(HASH_BYTES);
                larger.get(..length).map(<[u8]>::to_vec)
            }
            Self::Bundle(bundle) => {
                let width = u16::try_from(width).ok()?;
                let leaves = decode_bundle(larger, width).ok()?;
                let leaves = leaves.get(..usize::from(bundle.width()))?;
                encode_bundle(leaves.iter().copied()).ok()
            }
        }
    }
}
