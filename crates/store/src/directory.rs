//! The store's directory: whose it is, which format, and that no other process has it.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, Secret};
use redb::{Database, DatabaseError};

use crate::key_file;
use crate::limits::FORMAT_VERSION;
use crate::mark::{self, Found, Mark};
use crate::rewrite::{self, Source};
use crate::seal::Sealer;
use crate::sealed_file::{Recovery, SealedFile};
use crate::slots::Slots;
use crate::store::Options;
use crate::subject::SubjectOf;

/// The file of a store in which nothing is sealed.
const UNSEALED_FILE: &str = "store.redb";
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory holds something else.
    #[error("{} is no store, and not empty; choose an empty or a new directory", .0.display())]
    NotAStore(PathBuf),
    /// A newer version wrote it.
    #[error("the store in {} has format version {found}, this program knows {FORMAT_VERSION}; use the newer program", .path.display())]
    Version {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// Another process uses it.
    #[error("the store in {} is in use by another process; stop that one or choose another directory", .0.display())]
    InUse(PathBuf),
    /// The key of a store that is there cannot be read.
    #[error("the key of the store cannot be read from {}; put its key file there, without which nobody can read the store", .path.display())]
    NoKey {
        /// The key file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The key file is another's, or damaged.
    #[error("the key in {} does not open the store; put the key file there that was made with it", .0.display())]
    WrongKey(PathBuf),
    /// The keys of the subjects are missing or damaged.
    #[error("the keys of subjects in {} cannot be read; put the file there that belongs to the store's other files", .path.display())]
    Subjects {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot use {}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The data is damaged.
    #[error("the data in {} cannot be opened", .path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: redb::Error,
    },
    /// Its thread could not be started.
    #[error("cannot start the store's thread")]
    Thread(#[source] io::Error),
}

/// A directory that this process alone has open.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Held as long as the store is open: the directory itself, which nobody can exchange unseen for another file.
    _lock: File,
    root: Root,
    generation: u64,
    /// Whether the mark may name another file than the one that is open.
    is_unsure: bool,
    cache_bytes: usize,
    subject_of: SubjectOf,
}

/// An open file of the store.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) database: Database,
    /// The same file below the database.
    pub(crate) file: SealedFile,
    pub(crate) slots: Slots,
}

/// A database and the file below it.
type Opened = (Database, SealedFile);

/// The key of the key file.
struct Root(RootKey);

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root")
    }
}

/// Opens the data in `directory`. A store of an older format is converted first: its rows are copied into another
/// file, the mark is replaced once that is durable, and then the old file is overwritten and removed. Killed at any moment,
/// it is one or the other.
pub(crate) fn open(path: &Path, options: &Options) -> Result<(Directory, Data), OpenError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    builder.create(path).map_err(at(path))?;
    let lock = lock(path)?;
    let key_file = options.key_file.clone();
    let key_file = key_file.unwrap_or_else(|| key_file::beside(path));
    let found = if let Some(found) = mark::read(path)? {
        found
    } else {
        check_empty(path)?;
        mark::replace(path, None).map_err(at(path))?;
        Found::Begun
    };
    let root = match found {
        Found::Sealed(_) | Found::Unowned(_) => key_file::read(&key_file)?,
        Found::Begun | Found::Unsealed => key_file::read_or_create(&key_file)?,
    };
    let mut directory = Directory {
        path: path.to_owned(),
        _lock: lock,
        root: Root(root),
        generation: 0,
        is_unsure: false,
        cache_bytes: options.cache_bytes,
        subject_of: options.subject_of.clone(),
    };
    let data = match found {
        Found::Sealed(mark) => {
            let (database, file) = directory.existing(&mark, key_file)?;
            let slots = directory.slots(&mark)?;
            Data {
                database,
                file,
                slots,
            }
        }
        Found::Unowned(mark) => {
            let (before, _) = directory.existing(&mark, key_file)?;
            directory.advance(Some((&before, None)))?
        }
        Found::Begun => directory.advance(None)?,
        Found::Unsealed => {
            let before = directory.unsealed()?;
            directory.advance(before.as_ref().map(|before| (before, None)))?
        }
    };
    directory.wipe()?;
    Ok((directory, data))
}

impl Directory {
    /// The sealed file that the mark names.
    fn existing(&mut self, mark: &Mark, key_file: PathBuf) -> Result<Opened, OpenError> {
        let key = mark.file_key(&self.root.0);
        let key = key.ok_or(OpenError::WrongKey(key_file))?;
        self.generation = mark.generation;
        let path = mark::data_path(&self.path, mark);
        let mut opening = OpenOptions::new();
        let file = opening.read(true).write(true).open(&path);
        self.sealed(file.map_err(at(&path))?, &path, key)
    }

    /// The keys of subjects that belong to the file that the mark names.
    fn slots(&self, mark: &Mark) -> Result<Slots, OpenError> {
        let path = self.path.join(mark.slots_name());
        let opened = Slots::open(&path, mark.slots_key(&self.root.0), self.subject_of.clone());
        opened.map_err(|source| OpenError::Subjects { path, source })
    }

    /// The file of a store in which nothing is sealed; none where it never had one.
    fn unsealed(&self) -> Result<Option<Database>, OpenError> {
        let path = self.path.join(UNSEALED_FILE);
        if !path.try_exists().map_err(at(&path))? {
            return Ok(None);
        }
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let opened = builder.open(&path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.path.clone()),
            error => data(&path)(error.into()),
        });
        opened.map(Some)
    }

    /// Copies what is there into a file with a key of its own, and makes that the store's. The file before is left for
    /// [`Self::wipe`], once it is closed.
    pub(crate) fn advance(&mut self, before: Option<Source<'_>>) -> Result<Data, OpenError> {
        let generation = self.generation + 1;
        let (mark, key) = Mark::fresh(generation, &self.root.0).map_err(at(&self.path))?;
        let path = mark::data_path(&self.path, &mark);
        let mut opening = OpenOptions::new();
        opening.read(true).write(true).create(true).truncate(true);
        let file = opening.mode(FILE_MODE).open(&path);
        let (database, file) = self.sealed(file.map_err(at(&path))?, &path, key)?;
        let slots_path = self.path.join(mark.slots_name());
        let slots = Slots::create(
            &slots_path,
            mark.slots_key(&self.root.0),
            before.and_then(|(_, slots)| slots).map(Slots::names),
            self.subject_of.clone(),
        );
        let slots = slots.map_err(at(&slots_path))?;
        if let Some(before) = before {
            rewrite::copy(before, (&database, &slots)).map_err(data(&path))?;
        }
        self.is_unsure = true;
        mark::replace(&self.path, Some(&mark)).map_err(at(&self.path))?;
        self.is_unsure = false;
        self.generation = generation;
        Ok(Data {
            database,
            file,
            slots,
        })
    }

    /// Whether nothing more may be written: an opening would perhaps take the other file.
    pub(crate) const fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Overwrites and removes files of earlier generations.
    pub(crate) fn wipe(&self) -> Result<(), OpenError> {
        let kept = ["sealed", "subjects"].map(|it| format!("store.{}.{it}", self.generation));
        for entry in fs::read_dir(&self.path).map_err(at(&self.path))? {
            let path = entry.map_err(at(&self.path))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.unwrap_or_default();
            let is_own = name.ends_with(".sealed") || name.ends_with(".subjects");
            let is_own = is_own && name.starts_with("store.");
            let is_kept = kept.iter().any(|kept| kept == name);
            if name != UNSEALED_FILE && (is_kept || !is_own) {
                continue;
            }
            let wiped = OpenOptions::new().write(true).open(&path);
            let wiped = wiped.and_then(|file| mark::overwrite(&file));
            wiped
                .and_then(|()| fs::remove_file(&path))
                .map_err(at(&path))?;
        }
        Ok(())
    }

    fn sealed(&self, file: File, path: &Path, key: Secret) -> Result<Opened, OpenError> {
        let sealer = Sealer::new(key)
            .map_err(|_refused| at(path)(io::Error::other("the system gives no random bytes")))?;
        let recovery = Recovery::of(&file).map_err(at(path))?;
        let file = SealedFile::new(file, sealer, recovery.clone()).map_err(at(path))?;
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let opened = builder.create_with_backend(file.clone());
        let database = opened.map_err(|error| data(path)(error.into()))?;
        recovery.end();
        Ok((database, file))
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        path: path.clone(),
        source,
    }
}

fn data(path: &Path) -> impl Fn(redb::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Data {
        path: path.clone(),
        source,
    }
}

/// Keeps other processes out.
fn lock(path: &Path) -> Result<File, OpenError> {
    let directory = File::open(path).map_err(at(path))?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(at(path)(source)),
    }
}

/// Whether there is nothing but a mark that was not finished.
fn check_empty(path: &Path) -> Result<(), OpenError> {
    for entry in fs::read_dir(path).map_err(at(path))? {
        if entry.map_err(at(path))?.file_name() != mark::NEW_MARK_FILE {
            return Err(OpenError::NotAStore(path.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test puts older files back")]
pub(crate) mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::commands::{Command, Commands};
    use crate::seal::{BLOCK_BYTES, SEALED_BYTES};
    use crate::store::Store;

    const SECRET: &[u8] = b"secret-of-user-7";

    pub(crate) fn ask(store: &Store, words: &[&[u8]]) -> Vec<u8> {
        let (mut commands, mut command) = (Commands::default(), Command::default());
        for word in words {
            command.push(word);
        }
        commands.push(command);
        let (sender, receiver) = channel();
        store.ask(store.client(), commands, move |answer| {
            drop(sender.send(answer));
        });
        receiver.recv().unwrap().unwrap().bytes
    }

    /// Whether any page of any file of the store holds `words`, for somebody who has the key.
    pub(crate) fn is_there(path: &Path, words: &[u8]) -> bool {
        let root = key_file::read(&key_file::beside(path)).unwrap();
        let Some(Found::Sealed(mark)) = mark::read(path).unwrap() else {
            panic!("no store");
        };
        let sealer = Sealer::new(mark.file_key(&root).unwrap()).unwrap();
        let mut found = false;
        for entry in fs::read_dir(path).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let blocks = bytes.get(BLOCK_BYTES..).unwrap_or_default();
            for (number, block) in (0..).zip(blocks.chunks_exact(SEALED_BYTES)) {
                let mut page = vec![0; BLOCK_BYTES];
                let opened = sealer.open(number, block, &mut page);
                let holds = |it: &[u8]| it.windows(words.len()).any(|part| part == words);
                found |= (opened.is_ok() && holds(&page)) || holds(block);
            }
        }
        found
    }

    /// Freed pages kept what was removed until something else needed them. An erasure rewrites the store, and then nothing
    /// of it is left, not even for somebody who has the key.
    #[test]
    fn what_was_removed_is_gone_from_the_disk_after_a_rewriting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let store = Store::open(&path, Options::default()).unwrap();
        ask(&store, &[b"SET", b"user:7:ssn", SECRET]);
        ask(&store, &[b"SET", b"user:8:ssn", b"other"]);
        ask(&store, &[b"SET", b"user:7:ssn", b"removed"]);
        assert!(
            is_there(&path, SECRET),
            "freed pages are not overwritten by themselves"
        );
        let before = fs::read(path.join("store.1.sealed")).unwrap();
        let mark = fs::read(path.join("probity-store.toml")).unwrap();
        store.rewrite().unwrap();
        assert!(!is_there(&path, SECRET));
        assert!(!path.join("store.1.sealed").exists());
        ask(&store, &[b"SET", b"user:8:name", b"goes on"]);
        store.close().unwrap();
        assert!(!is_there(&path, SECRET));
        // The new mark has no key of the old file, which lies in backups perhaps.
        fs::write(path.join("store.1.sealed"), before).unwrap();
        assert!(!is_there(&path, SECRET));
        fs::write(path.join("probity-store.toml"), mark).unwrap();
        assert!(is_there(&path, SECRET));
    }
}
