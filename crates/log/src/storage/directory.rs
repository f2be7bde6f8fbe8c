//! Files of the operating system below one folder; the only place that opens any.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the one file through which the log reaches the file system"
)]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};

use super::{File, Lock, Storage};

/// What temporary files begin with; a crash may leave some, and they mean nothing.
const TEMPORARY: &str = ".tmp-";
/// Permissions of files.
const FILE_MODE: u32 = 0o640;
/// Permissions of folders.
const FOLDER_MODE: u32 = 0o750;
/// Permissions of files and folders of keys.
const KEY_FILE_MODE: u32 = 0o600;

/// A [`Storage`] in a folder of the file system.
#[derive(Debug)]
pub struct Directory {
    root: PathBuf,
    /// Makes temporary names unique within the process; the process id does so across processes.
    temporary: AtomicU64,
}

impl Directory {
    /// The storage in the folder `root`, which is created when the first file is.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            temporary: AtomicU64::new(0),
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        let sound =
            |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
        if name.split('/').all(sound) {
            Ok(self.root.join(name))
        } else {
            Err(io::Error::new(
                ErrorKind::InvalidInput,
                "the name would leave the log's folder",
            ))
        }
    }

    fn folder(&self, folder: &str) -> io::Result<PathBuf> {
        if folder.is_empty() {
            Ok(self.root.clone())
        } else {
            self.path(folder)
        }
    }

    /// Creates the folders above `path` and makes each new one durable in its parent.
    fn create_parents(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        let mut missing = Vec::new();
        let mut at = parent;
        while !at.exists() {
            missing.push(at.to_owned());
            match at.parent() {
                Some(above) if at != self.root => at = above,
                above => {
                    at = above
                        .filter(|a| !a.as_os_str().is_empty())
                        .unwrap_or_else(|| Path::new("."));
                    break;
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(parent)?;
        sync_path(at)?;
        missing.iter().try_for_each(|folder| sync_path(folder))
    }

    /// Writes a temporary file beside `path`, syncs it if asked to, and renames it into place.
    fn put(&self, name: &str, content: &[u8], durable: bool) -> io::Result<PathBuf> {
        let path = self.path(name)?;
        self.create_parents(&path)?;
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let file_name = format!("{TEMPORARY}{}-{number}", std::process::id());
        let temporary = path.with_file_name(file_name);
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(mode_of(name))
            .custom_flags(no_follow());
        let written = options.open(&temporary).and_then(|file| {
            file.write_all_at(content, 0)?;
            if durable { file.sync_all() } else { Ok(()) }
        });
        let placed = written.and_then(|()| fs::rename(&temporary, &path));
        if placed.is_err() && temporary.exists() {
            // The first error is the one to report; the leftover means nothing.
            drop(fs::remove_file(&temporary));
        }
        placed.map(|()| path)
    }
}

impl Storage for Directory {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        let path = self.path(name)?;
        if create {
            self.create_parents(&path)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .mode(mode_of(name))
            .custom_flags(no_follow())
            .open(path)?;
        Ok(Arc::new(OpenFile { file }))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(no_follow())
            .open(self.path(name)?)?;
        Ok(Arc::new(OpenFile { file }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_read(name)?;
        let length = file.length()?;
        if length > bytes_max {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the file is longer than it may be",
            ));
        }
        let mut content = vec![0; usize::try_from(length).unwrap_or_default()];
        file.read_at(&mut content, 0)?;
        Ok(content)
    }

    /// `openat`, `pwrite`, `fsync`, `rename`, `fsync` of the folder: in that order a crash leaves
    /// the old content or the new, and after the last call only the new.
    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.put(name, content, true)?;
        path.parent().map_or(Ok(()), sync_path)
    }

    fn place(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.put(name, content, false).map(drop)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)?)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.folder(folder)?) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with(TEMPORARY) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        sync_path(&self.folder(folder)?)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let path = self.path(name)?;
        self.create_parents(&path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .custom_flags(no_follow())
            .open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(HeldLock { file }))),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The kernel releases it when the process ends, however it does.
#[derive(Debug)]
struct HeldLock {
    file: fs::File,
}

impl Lock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was forked and has not yet executed.
        // An error changes nothing: then closing releases it.
        let _closing_releases_it_too = flock(&self.file, FlockOperation::Unlock);
    }
}

#[derive(Debug)]
struct OpenFile {
    file: fs::File,
}

impl File for OpenFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn sync_path(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

fn mode_of(name: &str) -> u32 {
    if name.starts_with("keys/") || name.starts_with("subjects/") {
        KEY_FILE_MODE
    } else {
        FILE_MODE
    }
}

/// A link planted in a log must not redirect what is read or written.
#[expect(
    clippy::cast_possible_wrap,
    reason = "the flag is far below the sign bit"
)]
const fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}
