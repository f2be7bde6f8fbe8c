//! The files of the generations of a store: half made under names of their own, and those that only a proven mark lets go.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::mark::NEW_MARK_FILE;

/// The file of a store in which nothing is sealed.
pub(crate) const UNSEALED_FILE: &str = "store.redb";
/// Behind the name of a file that no mark names yet. It is no data beside a proven mark alone: where the mark is gone, it may be
/// all that is left of a store.
const HALF: &str = ".new";
/// Behind the name of one that was there before a store was begun, with a number behind it.
const KEPT: &str = ".kept.";
/// Most files that are kept of one name.
const KEPT_MAX: u32 = 10_000;
const FILE_MODE: u32 = 0o600;

/// A file of the store that a rewriting is to overwrite, open from before it on.
#[derive(Debug)]
pub(crate) struct Old {
    path: PathBuf,
    file: File,
}

impl Old {
    /// Takes the open `file`; none if it does not lie at `path`, or has another name beside.
    pub(crate) fn of(path: PathBuf, file: File) -> io::Result<Option<Self>> {
        let opened = file.metadata()?;
        let is_there = match fs::symlink_metadata(&path) {
            Ok(found) => is_same(&opened, &found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        Ok((is_there && is_own(&opened)).then_some(Self { path, file }))
    }

    /// Takes the file at `path`; none as with [`Self::of`], or if nothing lies there.
    pub(crate) fn at(path: PathBuf) -> io::Result<Option<Self>> {
        match open_own(&path) {
            Ok(Some(file)) => Self::of(path, file),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Overwrites the file under whatever names it was given since. Removes its own name, unless
    /// another file has it now.
    pub(crate) fn wipe(&self) -> io::Result<()> {
        overwrite(&self.file)?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if is_same(&self.file.metadata()?, &found) => fs::remove_file(&self.path),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The kind of a store's file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The data or the keys of subjects of a generation.
    Whole(u64),
    /// One of a generation that no mark names yet; 0 for a mark.
    Half(u64),
    /// A half-made file that was there before a store was begun. It is left alone.
    Kept,
    /// The data of a store in which nothing is sealed.
    Unsealed,
}

impl Name {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if name == UNSEALED_FILE {
            return Some(Self::Unsealed);
        }
        if let Some((name, number)) = name.rsplit_once(KEPT) {
            let half = Self::of(Path::new(name));
            let is_kept = matches!(half, Some(Self::Half(_))) && number.parse::<u32>().is_ok();
            return is_kept.then_some(Self::Kept);
        }
        if name == NEW_MARK_FILE {
            return Some(Self::Half(0));
        }
        let (whole, is_half) = match name.strip_suffix(HALF) {
            Some(whole) => (whole, true),
            None => (name, false),
        };
        let (generation, kind) = whole.strip_prefix("store.")?.split_once('.')?;
        let generation = generation.parse().ok()?;
        let is_known = ["sealed", "subjects"].contains(&kind);
        let found = if is_half {
            Self::Half(generation)
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

/// Returns the name under which the file for `path` is made.
pub(crate) fn half(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(HALF);
    PathBuf::from(name)
}

/// Renames the file at `path`, if there is one, so that nothing is begun anew there.
#[expect(
    clippy::disallowed_methods,
    reason = "the store keeps its own directory"
)]
pub(crate) fn keep(path: &Path) -> io::Result<()> {
    let is_there = |path: &Path| match fs::symlink_metadata(path) {
        Ok(_found) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    if !is_there(path)? {
        return Ok(());
    }
    for number in 1..=KEPT_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("{KEPT}{number}"));
        let kept = PathBuf::from(name);
        if !is_there(&kept)? {
            fs::rename(path, kept)?;
            return sync_folder(path);
        }
    }
    Err(io::Error::other(
        "there are too many kept files of this name",
    ))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Creates a file. A file at its place is removed by name alone, so that no link there leads to a
/// file that is written.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut opening = OpenOptions::new();
    opening.read(true).write(true).create_new(true);
    opening.mode(FILE_MODE).open(path)
}

/// Gives the file of a proven mark its own name, if a crash came between.
#[expect(
    clippy::disallowed_methods,
    reason = "the store keeps its own directory"
)]
pub(crate) fn settle(path: &Path) -> io::Result<()> {
    let half = half(path);
    if !path.try_exists()? && half.try_exists()? {
        fs::rename(&half, path)?;
        sync_folder(path)?;
    }
    Ok(())
}

/// Opens the plain file at `path`, or the one that a link there leads to. Opening a pipe could wait
/// for ever.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        let text = "it is no plain file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    File::open(path)
}

/// Opens as [`open_plain`] does, for writing too, without which no lock excludes a writer.
pub(crate) fn open_plain_to_lock(path: &Path) -> io::Result<File> {
    drop(open_plain(path)?);
    OpenOptions::new().read(true).write(true).open(path)
}

/// Returns whether this is a plain file without another name.
fn is_own(found: &Metadata) -> bool {
    found.is_file() && found.nlink() == 1
}

/// Opens the file at `path` to overwrite it; none if it is no plain file, or has another name.
pub(crate) fn open_own(path: &Path) -> io::Result<Option<File>> {
    let found = fs::symlink_metadata(path)?;
    if !is_own(&found) {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    Ok(is_same(&file.metadata()?, &found).then_some(file))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Overwrites and removes the file at `path`; of a file that [`open_own`] does not open, it removes
/// the name alone. Returns whether the content was overwritten.
pub(crate) fn wipe(path: &Path) -> io::Result<bool> {
    let own = open_own(path)?;
    if let Some(file) = &own {
        overwrite(file)?;
    }
    fs::remove_file(path)?;
    Ok(own.is_some())
}

/// Overwrites a file with zeros, durably; holes, which hold nothing, stay holes, and take neither room nor time.
pub(crate) fn overwrite(file: &File) -> io::Result<()> {
    const ZEROS: [u8; 8192] = [0; 8192];
    let mut at = 0;
    while let Some(Range { start, end }) = next_data(file, at)? {
        at = start;
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let (zeros, _) = ZEROS.split_at(left.min(ZEROS.len()));
            file.write_all_at(zeros, at)?;
            at += zeros.len() as u64;
        }
    }
    file.sync_all()
}

/// Returns the next range of data from `at` on; none if only a hole is left.
fn next_data(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    let length = file.metadata()?.len();
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // A file system without holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((at < length).then_some(at..length)),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one large hole was written out in its whole length, until the disk was full. Only
    /// data is overwritten, and holes stay holes.
    #[test]
    fn holes_of_a_file_that_is_overwritten_take_no_room() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        for place in [0, 500 << 20, (1 << 30) - 9] {
            file.write_all_at(b"something", place).unwrap();
        }
        overwrite(&file).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!(found.len(), 1 << 30);
        assert!(found.blocks() * 512 < 1 << 20, "{}", found.blocks());
        for place in [0, 500 << 20, (1 << 30) - 9] {
            let mut read = [1; 9];
            file.read_exact_at(&mut read, place).unwrap();
            assert_eq!(read, [0; 9]);
        }
    }
}
