//! Files of the operating system below one folder; no other module opens any.
//!
//! Every folder on the way to a file is opened from the one above it, and no link is followed below
//! the root: a link planted in a log redirects neither what is read nor what is written. A file
//! that is no regular file (a pipe, a device) is refused, because opening or reading it may never
//! end.
//!
//! A storage that is locked stays with the folder that it locked, wherever that is moved: a writer
//! would else go on in a second folder at the old place.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use probity_format::width::to_u64;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};

use super::held_lock::{HeldLock, Pinned, cannot_lock_folders, try_lock};
use super::name::{TEMPORARY, components, is_temporary, join, split};
use super::{File, Lock, Storage};

/// Permissions of files.
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
/// Permissions of files that hold keys, wrapped or not.
const KEY_FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// Permissions of folders.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);
/// Folders whose files get [`KEY_FILE_MODE`].
const KEY_FOLDERS: [&str; 3] = ["keys", "subjects", "set-aside"];
/// Names tried for a temporary file before giving up; each one taken is a leftover of a crash.
const TEMPORARY_NAMES_MAX: u32 = 1 << 16;
/// The message for a pipe, a socket or a device.
const NO_REGULAR_FILE: &str = "it is no regular file";
/// Attempts to take a lock whose file is replaced meanwhile.
const LOCK_TRIES_MAX: u32 = 16;

/// A [`Storage`] in a folder of the file system.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    /// Makes temporary names unique within the process; the process id does so across processes.
    temporary: AtomicU64,
    /// Folders known to survive a power loss, the root as the empty name. An existing folder may
    /// not be durable: another thread, or a process that was killed, may just have created it.
    durable: Mutex<BTreeSet<String>>,
    /// The root as long as it is locked.
    pinned: Pinned,
}

impl Directory {
    /// The storage in the folder `root`, which is created when the first file is.
    ///
    /// `root` itself may be reached through links; below it none is followed.
    pub fn new(root: &Path) -> Self {
        let root = if root.as_os_str().is_empty() {
            Path::new(".")
        } else {
            root
        };
        Self {
            root: root.to_owned(),
            temporary: AtomicU64::new(0),
            durable: Mutex::default(),
            pinned: Pinned::default(),
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a folder that exists.
    fn folder(&self, folder: &str) -> io::Result<OwnedFd> {
        let parts = components(folder)?;
        let mut at = self.open_root()?;
        for part in parts {
            at = open_folder(at.as_fd(), part)?;
        }
        Ok(at)
    }

    /// Opens a folder, creating it and those above it where they are missing.
    fn folder_created(&self, folder: &str) -> io::Result<OwnedFd> {
        let parts = components(folder)?;
        let mut at = match self.open_root() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.create_root()?;
                self.open_root()?
            }
            opened => opened?,
        };
        for part in parts {
            at = match open_folder(at.as_fd(), part) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    match retry_on_intr(|| rustix::fs::mkdirat(&at, part, FOLDER_MODE)) {
                        // Another thread may have been faster.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    open_folder(at.as_fd(), part)?
                }
                opened => opened?,
            };
        }
        Ok(at)
    }

    fn open_root(&self) -> io::Result<OwnedFd> {
        if let Some(folder) = self.pinned.open()? {
            return Ok(folder);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(retry_on_intr(|| {
            rustix::fs::open(&self.root, flags, Mode::empty())
        })?)
    }

    fn create_root(&self) -> io::Result<()> {
        let missing: Vec<&Path> = self
            .root
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .collect();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE.bits())
            .create(&self.root)?;
        missing.into_iter().try_for_each(sync_parent)
    }

    /// Makes `folder` itself and the folders above it durable, unless they are known to be.
    fn anchor(&self, folder: &str) -> io::Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.contains(folder) {
            return Ok(());
        }
        if !durable.contains("") {
            match sync_parent(&self.root) {
                // The root may be in a folder that this process cannot open.
                Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
                _ => durable.insert(String::new()),
            };
        }
        let mut at = self.open_root()?;
        let mut path = String::new();
        for part in components(folder)? {
            path = join(&path, part);
            if !durable.contains(&path) {
                sync_opened(&at)?;
                durable.insert(path.clone());
            }
            at = open_folder(at.as_fd(), part)?;
        }
        Ok(())
    }

    /// Writes `content` to a new temporary file in `folder`.
    fn write_temporary<'a>(
        &self,
        folder: BorrowedFd<'a>,
        mode: Mode,
        content: &[u8],
    ) -> io::Result<Temporary<'a>> {
        let flags = file_flags(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        for _ in 0..TEMPORARY_NAMES_MAX {
            let number = self.temporary.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{}-{number}", std::process::id());
            match retry_on_intr(|| rustix::fs::openat(folder, &name, flags, mode)) {
                // A leftover of a crashed process with the same id.
                Err(Errno::EXIST) => {}
                opened => {
                    let file = fs::File::from(opened?);
                    let temporary = Temporary { folder, name, file };
                    temporary.file.write_all_at(content, 0)?;
                    return Ok(temporary);
                }
            }
        }
        Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "every name for a temporary file is taken",
        ))
    }

    /// Folder, name and kind of everything that has the name of a temporary file.
    fn temporary_names(&self) -> io::Result<Vec<(String, String, FileType)>> {
        let mut found = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let opened = match self.folder(&folder) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // An unreadable folder, such as `lost+found`, holds none of the log's files.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => continue,
                opened => opened?,
            };
            for (name, kind) in entries(&opened)? {
                if is_temporary(&name) {
                    found.push((folder.clone(), name, kind));
                } else if kind == FileType::Directory {
                    // A folder with a name that the log cannot use is foreign.
                    folders.extend(Some(join(&folder, &name)).filter(|f| components(f).is_ok()));
                }
            }
        }
        Ok(found)
    }

    fn open_file(&self, name: &str, access: OFlags) -> io::Result<fs::File> {
        let (folder_name, file_name) = split(name)?;
        let folder = if access.contains(OFlags::CREATE) {
            self.folder_created(folder_name)?
        } else {
            self.folder(folder_name)?
        };
        let (flags, mode) = (file_flags(access), mode_of(folder_name));
        let opened = retry_on_intr(|| rustix::fs::openat(&folder, file_name, flags, mode));
        let file = fs::File::from(opened.map_err(not_followed)?);
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(io::Error::new(ErrorKind::InvalidData, NO_REGULAR_FILE)),
        }
    }
}

impl Storage for Directory {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        let create = if create {
            OFlags::CREATE
        } else {
            OFlags::empty()
        };
        let file = self.open_file(name, OFlags::RDWR | create)?;
        Ok(Arc::new(OpenFile { file }))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        Ok(Arc::new(OpenFile { file }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_file(name, OFlags::RDONLY)?;
        let length = file.metadata()?.len();
        let mut content = Vec::new();
        if length <= bytes_max {
            // A file may claim a length that exceeds memory: that is an error, and must not end the
            // process.
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            content.try_reserve_exact(length)?;
            let read_max = bytes_max.saturating_add(1);
            (&file).take(read_max).read_to_end(&mut content)?;
        }
        let read = to_u64(content.len());
        if length.max(read) > bytes_max {
            return Err(super::too_long());
        }
        Ok(content)
    }

    /// The calls, in this order, when every folder is there and known to be durable:
    ///
    /// ```text
    /// openat(AT_FDCWD, ROOT, O_DIRECTORY)                        = 3, then each folder from the one above
    /// openat(FOLDER, ".tmp-PID-N", O_RDWR|O_CREAT|O_EXCL|O_NOFOLLOW) = 4
    /// pwrite64(4, content, ..., 0)      until all of it is written
    /// fsync(4)                          the content is durable, under a name that means nothing
    /// renameat(FOLDER, ".tmp-PID-N", FOLDER, NAME)
    ///                                   readers see the new content; a crash leaves the old or the new
    /// fsync(FOLDER)                     from here on only the new
    /// ```
    ///
    /// A folder used for the first time is synced into the one above it before. When a call up to
    /// the renaming fails, the temporary file is removed again.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (folder_name, file_name) = split(name)?;
        let folder = self.folder_created(folder_name)?;
        self.anchor(folder_name)?;
        let temporary = self.write_temporary(folder.as_fd(), mode_of(folder_name), content)?;
        temporary.file.sync_all()?;
        temporary.rename(file_name)?;
        sync_opened(&folder)
    }

    /// Does the same as [`Directory::replace`] without its two `fsync`.
    fn place(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (folder_name, file_name) = split(name)?;
        let folder = self.folder_created(folder_name)?;
        self.write_temporary(folder.as_fd(), mode_of(folder_name), content)?
            .rename(file_name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (folder_name, file_name) = split(name)?;
        let folder = self.folder(folder_name)?;
        Ok(retry_on_intr(|| {
            rustix::fs::unlinkat(&folder, file_name, AtFlags::empty())
        })?)
    }

    fn carry(&self, name: &str, to: &str) -> io::Result<()> {
        let (from_folder, from_name) = split(name)?;
        let (to_folder, to_name) = split(to)?;
        let from = self.folder(from_folder)?;
        let target = self.folder_created(to_folder)?;
        Ok(retry_on_intr(|| {
            rustix::fs::renameat(&from, from_name, &target, to_name)
        })?)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        for name in self.list(folder)? {
            self.remove(&format!("{folder}/{name}"))?;
        }
        let (above, name) = split(folder)?;
        let above = self.folder(above)?;
        let removed = retry_on_intr(|| rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR));
        // A folder that is created again must be made durable again.
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.remove(folder);
        drop(durable);
        match removed {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = match self.folder(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            opened => entries(&opened?)?,
        }
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !is_temporary(name))
        .collect();
        names.sort();
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let opened = self.folder(folder)?;
        self.anchor(folder)?;
        sync_opened(&opened)
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        let found = self.temporary_names()?.into_iter();
        let mut paths: Vec<String> = found
            .map(|(folder, name, _)| join(&folder, &name))
            .collect();
        paths.sort();
        Ok(paths)
    }

    fn sweep(&self) -> io::Result<u64> {
        let mut removed: u64 = 0;
        for (folder, name, kind) in self.temporary_names()? {
            // A folder with a temporary name is no leftover of a call.
            if kind == FileType::Directory {
                continue;
            }
            match rustix::fs::unlinkat(self.folder(&folder)?, &name, AtFlags::empty()) {
                Ok(()) => removed = removed.saturating_add(1),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }

    /// Locks the file and its folder: a process that unlinks the file makes way for another file,
    /// not for another folder.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let (folder_name, file_name) = split(name)?;
        for _ in 0..LOCK_TRIES_MAX {
            let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
            if !try_lock(file.as_fd())? {
                return Ok(None);
            }
            let folder = self.folder(folder_name)?;
            match try_lock(folder.as_fd()) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // Some network file systems lock only files; the later check of the name remains.
                Err(error) if cannot_lock_folders(&error) => {}
                Err(error) => return Err(error),
            }
            let held = HeldLock {
                path: self.root.join(folder_name),
                file_name: file_name.to_owned(),
                folder,
                file,
                pinned: self.pinned.clone(),
            };
            // Between the opening and the lock, another process may have replaced the file.
            if !held.is_held()? {
                continue;
            }
            if folder_name.is_empty() {
                self.pinned.pin(&held.folder)?;
            }
            // The process id is only for the message of the next process. The lock holds without
            // it, on a full disk too.
            let _for_the_message_only = held.file.set_len(0).and_then(|()| {
                let process = format!("{}\n", std::process::id());
                held.file.write_all_at(process.as_bytes(), 0)
            });
            return Ok(Some(Box::new(held)));
        }
        Err(io::Error::new(
            ErrorKind::ResourceBusy,
            "another file is put in its place again and again",
        ))
    }
}

/// A file that has its content and not yet its name; dropping it removes it.
struct Temporary<'a> {
    folder: BorrowedFd<'a>,
    name: String,
    file: fs::File,
}

impl Temporary<'_> {
    fn rename(mut self, file_name: &str) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::renameat(self.folder, &self.name, self.folder, file_name))?;
        self.name.clear();
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // The first error is the one to report; the file is swept later.
            let _swept_later = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// The standard library writes and reads on after short counts and interruptions.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: fs::File,
}

impl File for OpenFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// The file position that this moves is not used elsewhere.
    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(place) => Ok(Some(place)),
            Err(Errno::NXIO) => Ok(None),
            // A file system without holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok((offset < self.length()?).then_some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// `fdatasync`: it writes the length too, because without it the bytes could not be found.
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn open_folder(at: BorrowedFd<'_>, part: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| rustix::fs::openat(at, part, flags, Mode::empty()));
    opened.map_err(not_followed)
}

/// Names and kinds of the entries of a folder. A name that is not UTF-8 is foreign to the log, and
/// its invalid bytes are replaced.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(String, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not give the kind in the listing.
            FileType::Unknown => {
                match rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            kind => kind,
        };
        names.push((name, kind));
    }
    Ok(names)
}

/// Syncs the parent folder of `path`.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        // The root of the file system has no parent.
        None => return Ok(()),
    };
    fs::File::open(parent)?.sync_all()
}

fn sync_opened(folder: &OwnedFd) -> io::Result<()> {
    Ok(retry_on_intr(|| rustix::fs::fsync(folder))?)
}

fn mode_of(folder: &str) -> Mode {
    let first = folder.split('/').next().unwrap_or_default();
    if KEY_FOLDERS.contains(&first) {
        KEY_FILE_MODE
    } else {
        FILE_MODE
    }
}

/// No link is followed, no child inherits it, and a pipe or terminal planted there does not block.
const fn file_flags(access: OFlags) -> OFlags {
    access
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC)
        .union(OFlags::NONBLOCK)
        .union(OFlags::NOCTTY)
}

/// Returns a clear error for a link or a socket; the system's own errors for them are misleading.
fn not_followed(error: Errno) -> io::Error {
    match error {
        Errno::NXIO => io::Error::new(ErrorKind::InvalidData, NO_REGULAR_FILE),
        Errno::LOOP => io::Error::new(
            ErrorKind::InvalidData,
            "it is a symbolic link, and none is followed in a log",
        ),
        error => error.into(),
    }
}
