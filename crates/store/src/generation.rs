//! The files of the generations of a store: half made under names of their own, and those that only a proven mark lets go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::mark::NEW_MARK_FILE;

/// The file of a store in which nothing is sealed.
pub(crate) const UNSEALED_FILE: &str = "store.redb";
/// Behind the name of a file that no mark names yet. Such a file is never data: whoever finds one may begin it anew.
const HALF: &str = ".new";
const FILE_MODE: u32 = 0o600;

/// Which of a store's files a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The data or the keys of subjects of a generation.
    Whole(u64),
    /// What a crash left of one that was being made.
    Half,
    /// The data of a store in which nothing is sealed.
    Unsealed,
}

impl Name {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name == UNSEALED_FILE {
            return Some(Self::Unsealed);
        }
        if name == NEW_MARK_FILE {
            return Some(Self::Half);
        }
        let (whole, is_half) = match name.strip_suffix(HALF) {
            Some(whole) => (whole, true),
            None => (name, false),
        };
        let (generation, kind) = whole.strip_prefix("store.")?.split_once('.')?;
        let generation = generation.parse().ok()?;
        let is_known = ["sealed", "subjects"].contains(&kind);
        let found = if is_half {
            Self::Half
        } else {
            Self::Whole(generation)
        };
        is_known.then_some(found)
    }
}

/// The files of a directory that are a store's.
pub(crate) fn files(directory: &Path) -> io::Result<Vec<(Name, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if let Some(name) = Name::of(&path) {
            files.push((name, path));
        }
    }
    files.sort_by(|one, other| one.1.cmp(&other.1));
    Ok(files)
}

/// Under which name a file is made.
pub(crate) fn half(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(HALF);
    PathBuf::from(name)
}

/// A file that is begun anew. What lies at its place goes by its name alone: a link there leads to nothing that is written.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut opening = OpenOptions::new();
    opening.read(true).write(true).create_new(true);
    opening.mode(FILE_MODE).open(path)
}

/// Gives the files of a mark that is in force their names, where a crash came between.
#[expect(
    clippy::disallowed_methods,
    reason = "the store keeps its own directory"
)]
pub(crate) fn settle(path: &Path) -> io::Result<()> {
    let half = half(path);
    if !path.try_exists()? && half.try_exists()? {
        fs::rename(&half, path)?;
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Overwrites and removes what lies at `path`; of what is no plain file, or has another name that somebody gave it, the name alone.
pub(crate) fn wipe(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() && found.nlink() == 1 {
        overwrite(&OpenOptions::new().write(true).open(path)?)?;
    }
    fs::remove_file(path)
}

/// Overwrites a file with zeros, durably.
pub(crate) fn overwrite(mut file: &File) -> io::Result<()> {
    const ZEROS: [u8; 8192] = [0; 8192];
    let mut left = file.metadata()?.len();
    while left > 0 {
        let count = left.min(ZEROS.len() as u64);
        let zeros = usize::try_from(count).ok().and_then(|it| ZEROS.get(..it));
        file.write_all(zeros.unwrap_or_default())?;
        left -= count;
    }
    file.sync_all()
}
