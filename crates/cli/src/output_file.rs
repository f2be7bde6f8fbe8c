//! Files that a command makes: complete or absent, and never in place of what cannot be made again.

#![expect(
    clippy::disallowed_methods,
    reason = "what a command hands out is no part of the log"
)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Seek as _, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::interruption;
use crate::output_guard::{Refusal, check_name, check_new, check_replaced, folder_of};

const BUFFER_BYTES: usize = 256 * 1024;
/// The suffix of a file under way, before the process id.
const PART: &str = ".part-";
/// Contents of a log are personal data: for the owner alone.
const FILE_MODE: u32 = 0o600;
/// Verifier keys and certificates are no secret.
const PUBLIC_MODE: u32 = 0o644;

/// The treatment of a file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The file stays, and the command is refused.
    Keep,
    /// The file stays; the command that is refused has an option to replace it.
    KeepUnasked,
    /// The file is replaced, unless it is a key, a head, a database or part of a log.
    Replace,
}

impl Existing {
    /// Returns the treatment for the switch `--overwrite`.
    pub(crate) const fn of(overwrite: bool) -> Self {
        if overwrite {
            Self::Replace
        } else {
            Self::KeepUnasked
        }
    }
}

/// A file under way, beside its place or in it. Dropping it, or a signal that ends the program,
/// removes it.
pub(crate) struct OutputFile {
    out: Option<BufWriter<File>>,
    /// The path that is written to; the same as `path` where the place itself was reserved.
    part: PathBuf,
    path: PathBuf,
    existing: Existing,
    /// True where room was taken that may not be used up.
    holds_room: bool,
}

impl OutputFile {
    /// Begins a new file at `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, Existing::Keep)
    }

    /// Begins the file at `path`.
    pub(crate) fn begin(path: &Path, existing: Existing) -> io::Result<Self> {
        check_name(path)?;
        Self::begin_part(path, existing)
    }

    /// Begins a new file that belongs to a log, with the name that only such a file may have.
    pub(crate) fn create_of_log(path: &Path) -> io::Result<Self> {
        Self::begin_part(path, Existing::Keep)
    }

    fn begin_part(path: &Path, existing: Existing) -> io::Result<Self> {
        check(path, existing)?;
        Self::open(part_of(path), path, existing)
    }

    /// Makes a new, empty file at `path` at once, so that its later contents cannot be lost for
    /// lack of a place.
    pub(crate) fn reserve(path: &Path) -> io::Result<Self> {
        check_name(path)?;
        check(path, Existing::Keep)?;
        Self::open(path.to_owned(), path, Existing::Keep)
    }

    fn open(part: PathBuf, path: &Path, existing: Existing) -> io::Result<Self> {
        interruption::remove_when_ended(&part)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(FILE_MODE);
        let file = options
            .open(&part)
            .inspect_err(|_error| interruption::keep(&part))?;
        Ok(Self {
            out: Some(BufWriter::with_capacity(BUFFER_BYTES, file)),
            part,
            path: path.to_owned(),
            existing,
            holds_room: false,
        })
    }

    /// Lets everybody read the file, which holds nothing secret and is handed out.
    pub(crate) fn for_everyone(self) -> io::Result<Self> {
        let file = self.out.as_ref().map(BufWriter::get_ref);
        let allowed = file.map(|file| file.set_permissions(Permissions::from_mode(PUBLIC_MODE)));
        allowed.transpose().map(|_set| self)
    }

    /// Writes a secret past the buffer, where copies would stay in memory.
    pub(crate) fn write_secret(&mut self, secret: &[u8]) -> io::Result<()> {
        let Some(out) = self.out.as_mut() else {
            return Ok(());
        };
        out.flush()?;
        out.get_mut().write_all(secret)
    }

    /// Takes room for `bytes` bytes on the disk, so that writing as many later does not fail for lack
    /// of it. [`OutputFile::finish`] gives back what is not used.
    pub(crate) fn hold_room(&mut self, bytes: usize) -> io::Result<()> {
        let Some(out) = self.out.as_mut() else {
            return Ok(());
        };
        out.write_all(&vec![0; bytes])?;
        out.flush()?;
        out.get_ref().sync_all()?;
        self.holds_room = true;
        out.rewind()
    }

    /// Writes what is left, makes it durable and puts the complete file in its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let reserved = self.part == self.path;
        if reserved {
            // Its contents may exist nowhere else by now.
            interruption::keep(&self.part);
        }
        if let Some(out) = self.out.take() {
            let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            if self.holds_room {
                let end = file.stream_position()?;
                file.set_len(end)?;
            }
            file.sync_all()?;
        }
        if !reserved {
            self.put_in_place()?;
            interruption::keep(&self.part);
        }
        // Leaves nothing for dropping to remove.
        self.part = PathBuf::new();
        sync_folder_of(&self.path)
    }

    fn put_in_place(&self) -> io::Result<()> {
        if self.existing == Existing::Replace && self.path.symlink_metadata().is_ok() {
            // Checked again, because writing the file may have taken hours.
            check_replaced(&self.path)?;
            return fs::rename(&self.part, &self.path);
        }
        put_new(&self.part, &self.path)
    }
}

/// Returns the path beside `path` that is written to until the file is complete.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(format!("{PART}{}", std::process::id()));
    PathBuf::from(part)
}

/// Returns whether `path` has the name of a file under way, as a killed process leaves it.
pub(crate) fn is_part(path: &Path) -> bool {
    part_ending(path).is_some()
}

/// Returns the suffix of a file under way; `None` where `path` has no such name.
pub(crate) fn part_ending(path: &Path) -> Option<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (_, process) = name.rsplit_once(PART)?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{PART}{process}"))
}

/// Returns the parts of `path` that killed commands left; those locked by a running command are
/// under way.
pub(crate) fn left_over(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder_of(path))? {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        // Keeps the folder as `path` names it.
        let entry = path.with_file_name(entry.file_name());
        let is_of_path = entry
            .file_name()
            .zip(path.file_name())
            .is_some_and(|(part, whole)| {
                let part = part.as_encoded_bytes();
                part.strip_prefix(whole.as_encoded_bytes())
                    .is_some_and(|ending| ending.starts_with(PART.as_bytes()))
            });
        if !is_file || !is_of_path || !is_part(&entry) {
            continue;
        }
        let is_under_way = File::open(&entry).is_ok_and(|file| file.try_lock().is_err());
        if !is_under_way {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

/// Renames the file at `part` to `path`, where nothing may be.
pub(crate) fn put_new(part: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(Refusal::Exists.into()),
        // The file system cannot rename without replacing; a hard link never replaces anything
        // either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(part, path)?;
            fs::remove_file(part)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes the names in the folder of `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Refuses what [`OutputFile::begin`] would refuse, before anything is written.
pub(crate) fn check_output(path: &Path, existing: Existing) -> io::Result<()> {
    check_name(path)?;
    check(path, existing)
}

fn check(path: &Path, existing: Existing) -> io::Result<()> {
    check_new(path)?;
    match (path.symlink_metadata(), existing) {
        (Ok(_), Existing::Keep) => Err(Refusal::Exists.into()),
        (Ok(_), Existing::KeepUnasked) => Err(Refusal::Replaceable.into()),
        (Ok(_), Existing::Replace) => check_replaced(path),
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (Err(error), _) => Err(error),
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or(Ok(0), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.part.as_os_str().is_empty() {
            return;
        }
        // The error that ended the writing is the one to report.
        drop(fs::remove_file(&self.part));
        interruption::keep(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        fs::write(&path, "before").unwrap();
        assert!(OutputFile::create(&path).is_err());
        let mut given_up = OutputFile::begin(&path, Existing::Replace).unwrap();
        given_up.write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        let mut made = OutputFile::begin(&path, Existing::Replace).unwrap();
        made.write_all(b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        made.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// L2: what appeared at the place while the file was being written was replaced.
    #[test]
    fn what_came_to_the_place_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        let mut late = OutputFile::create(&path).unwrap();
        late.write_all(b"late").unwrap();
        fs::write(&path, "early").unwrap();
        let refused = late.finish().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"early");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_reserved_file_is_there_at_once_and_gone_when_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        let reserved = OutputFile::reserve(&path).unwrap();
        assert!(path.exists());
        assert!(OutputFile::reserve(&path).is_err());
        drop(reserved);
        assert!(!path.exists());
        let mut reserved = OutputFile::reserve(&path).unwrap();
        reserved.write_all(b"kept").unwrap();
        reserved.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
