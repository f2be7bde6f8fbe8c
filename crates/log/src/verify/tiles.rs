//! Compares the stored tiles and bundles of a stream with those that its records determine.

use std::collections::BTreeSet;

use probity_format::limits::TILE_WIDTH;
use probity_format::tile::{Bundle, Tile, TileFile};
use probity_format::tree::HASH_BYTES;

use super::stored::{Stored, names};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, Subject, UncheckedReason, Verifier};
use crate::error::LogError;
use crate::files::TILE_FILE_BYTES_MAX;

/// Compares tiles and bundles of one stream.
pub(super) struct Tiles<'a> {
    pub(super) verifier: &'a Verifier<'a>,
    pub(super) subject: &'a Subject,
}

impl Tiles<'_> {
    /// Compares `file` with the stored one, and with the partial forms of earlier sizes beside it,
    /// which readers with an older checkpoint still request. Files among `reported` are left out.
    pub(super) fn compare(
        &self,
        file: &TileFile,
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let full = full_path(&file.path);
        let (path, full_place) = (self.path(&file.path), self.path(full));
        if reported.contains(&path) || reported.contains(&full_place) {
            return Ok(());
        }
        match self.read(&path)? {
            Some(bytes) if bytes == file.bytes => {}
            Some(_) => self.wrong(path, faults),
            // A live log may have replaced a partial file by its full form meanwhile, which begins
            // with it.
            None if !file.full && self.is_full_form(&full_place, file)? => {}
            None => self.fault(FaultClass::Missing, path, "is missing", faults),
        }
        if !file.full
            && self
                .read(&full_place)?
                .is_some_and(|full| !full.starts_with(&file.bytes))
        {
            self.wrong(full_place, faults);
        }
        self.compare_partial(file, full, reported, faults)
    }

    fn compare_partial(
        &self,
        file: &TileFile,
        full: &str,
        reported: &BTreeSet<String>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let folder = format!("{full}.p");
        // Something other than a folder is reported where all files are listed.
        let widths = names(&self.verifier.files, &self.path(&folder))?;
        for width in widths.unwrap_or_default() {
            let path = format!("{folder}/{width}");
            let Some(part) = Part::parse(&path).filter(|_| path != file.path) else {
                continue;
            };
            let path = self.path(&path);
            let stored = self.read(&path)?.filter(|_| !reported.contains(&path));
            // A wider one is there before the checkpoint that covers it: it begins with the signed
            // part.
            let is_right = |stored: Vec<u8>| match part.of(&file.bytes) {
                Some(expected) => stored == expected,
                None => stored.starts_with(&file.bytes),
            };
            if stored.is_some_and(|stored| !is_right(stored)) {
                // No current signed tree has it.
                let detail = "is not what the stored records call for";
                let fault = Fault::new(FaultClass::Tile, &self.subject.name, path, detail);
                faults.push_aside(fault);
            }
        }
        Ok(())
    }

    /// Reports files that are no tiles, bundles or folders of them, and those beyond the signed
    /// `size`.
    pub(super) fn find_others(
        &self,
        size: u64,
        faults: &mut Faults,
        unchecked: &mut Names,
    ) -> Result<(), LogError> {
        // A live log has published more meanwhile.
        let now = self.verifier.claimed_most(&self.subject.name)?;
        let size = size.max(now);
        let mut folders = vec!["tile".to_owned()];
        while let Some(folder) = folders.pop() {
            let Some(names) = names(&self.verifier.files, &self.path(&folder))? else {
                let detail = "is neither a tile nor a folder of tiles";
                self.fault(FaultClass::Unknown, self.path(&folder), detail, faults);
                continue;
            };
            for name in names {
                let path = format!("{folder}/{name}");
                if is_folder(&path) {
                    folders.push(path);
                    continue;
                }
                match Part::parse(&path) {
                    None => {
                        let detail = "is neither a tile nor a bundle";
                        self.fault(FaultClass::Unknown, self.path(&path), detail, faults);
                    }
                    Some(part) if part.leaves > size => {
                        unchecked.push(self.path(&path), UncheckedReason::Beyond);
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Returns whether the file at `path` is the full form of the expected partial one.
    fn is_full_form(&self, path: &str, expected: &TileFile) -> Result<bool, LogError> {
        let Some(stored) = self.read(path)? else {
            return Ok(false);
        };
        let full = Part::parse(full_path(&expected.path));
        let is_whole = full.is_some_and(|full| full.of(&stored) == Some(stored.as_slice()));
        Ok(is_whole && stored.starts_with(&expected.bytes))
    }

    /// The content of a tile or bundle; something that is no file reads as empty and then differs.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, LogError> {
        Ok(Stored::read(&self.verifier.files, path, TILE_FILE_BYTES_MAX)?.content())
    }

    fn path(&self, path: &str) -> String {
        format!("streams/{}/{path}", self.subject.name)
    }

    fn wrong(&self, path: String, faults: &mut Faults) {
        let detail = "is not what the stored records call for";
        self.fault(FaultClass::Tile, path, detail, faults);
    }

    fn fault(&self, class: FaultClass, path: String, detail: &str, faults: &mut Faults) {
        faults.push(Fault::new(class, &self.subject.name, path, detail));
    }
}

/// The path of the full form of the tile or bundle at `path`.
fn full_path(path: &str) -> &str {
    path.split(".p/").next().unwrap_or_default()
}

/// Returns whether `path` leads to tiles rather than to one: a level, a group of digits, or the
/// folder of partial forms.
fn is_folder(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    path.matches('/').count() == 1 || last.starts_with('x') || last.strip_suffix(".p").is_some()
}

/// A tile or bundle of the width in its path.
struct Part {
    width: usize,
    is_bundle: bool,
    /// Leaves of the smallest tree that has it.
    leaves: u64,
}

impl Part {
    fn parse(path: &str) -> Option<Self> {
        let (width, index, level) = match (Tile::parse(path), Bundle::parse(path)) {
            (Ok(tile), _) => (tile.width(), tile.index(), Some(tile.level())),
            (_, Ok(bundle)) => (bundle.width(), bundle.index(), None),
            _ => return None,
        };
        let hashes = index
            .saturating_mul(TILE_WIDTH)
            .saturating_add(u64::from(width));
        let of_each = TILE_WIDTH.saturating_pow(u32::from(level.unwrap_or_default()));
        Some(Self {
            width: usize::from(width),
            is_bundle: level.is_none(),
            leaves: hashes.saturating_mul(of_each),
        })
    }

    /// Its bytes within those of a wider form; `None` where that is not wide enough.
    fn of<'a>(&self, wider: &'a [u8]) -> Option<&'a [u8]> {
        if !self.is_bundle {
            return wider.get(..self.width.checked_mul(HASH_BYTES)?);
        }
        let mut rest = wider;
        for _ in 0..self.width {
            let (length, after) = rest.split_first_chunk::<2>()?;
            rest = after.get(usize::from(u16::from_be_bytes(*length))..)?;
        }
        wider.get(..wider.len().checked_sub(rest.len())?)
    }
}
