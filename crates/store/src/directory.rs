//! The store's directory: its files, its format, and the lock that keeps other processes out.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, Secret};
use redb::backends::FileBackend;
use redb::{Database, DatabaseError};

use crate::contents::check_files;
use crate::fail::Fail;
use crate::generation::{self, Name, Old, UNSEALED_FILE, create_anew, half};
use crate::key_file;
use crate::mark::{self, Found, MARK_FILE, Mark};
use crate::open_error::OpenError;
use crate::overlay::Overlay;
use crate::rewrite::{self, Source};
use crate::seal::{BLOCK_BYTES, Sealer};
use crate::sealed_file::{Recovery, SealedFile};
use crate::slots::{DamagedSubjects, Slots};
use crate::store::Options;
use crate::subject::{Slot, SubjectOf};

const DIRECTORY_MODE: u32 = 0o700;

/// A directory that this process alone has open.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) root: Root,
    key_file: PathBuf,
    /// True while the key lies in no file; the first mark writes it.
    is_key_unwritten: bool,
    pub(crate) generation: u64,
    /// True while the mark may name another file than the one that is open.
    is_unsure: bool,
    /// Files of before that lost their name here alone, because they are links or have other names.
    kept_elsewhere: Vec<PathBuf>,
    /// Blocks of an older file that did not open while it was repaired.
    unopened_blocks: usize,
    cache_bytes: usize,
    subject_of: SubjectOf,
    pub(crate) damaged: DamagedSubjects,
    /// The lock on the directory itself, which nobody can exchange unseen for another file. Fields
    /// are dropped in their order, so it stands last: nothing may use a file after it.
    _lock: HeldLock,
}

/// The lock on the directory, which ends when this is dropped.
#[derive(Debug)]
struct HeldLock(File);

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was forked and has not yet executed.
        // An error changes nothing: then closing releases it.
        let _closing_releases_it_too = self.0.unlock();
    }
}

/// An open file of the store.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) database: Database,
    /// The file under the database.
    pub(crate) file: SealedFile,
    pub(crate) slots: Slots,
}

/// The fate of changes to an open file.
#[derive(Clone, Copy)]
pub(crate) enum Changes {
    /// They are written to the file.
    Written,
    /// They stay in memory: the file is converted, and may be a backup's too.
    Forgotten,
}

/// A database and the file below it.
pub(crate) type Opened = (Database, SealedFile);

/// The key of the key file.
pub(crate) struct Root(pub(crate) RootKey);

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Root")
    }
}

/// Opens the data in `directory`. A store of an older format is converted first. Its rows are
/// copied into another file, and the mark is replaced once that is durable. Then the old file is
/// overwritten and removed. After a kill at any moment the store is the old or the new one. The
/// mark is proven before anything is written, removed or renamed.
pub(crate) fn open(path: &Path, options: &Options) -> Result<(Directory, Data), OpenError> {
    let (mut directory, found, is_key_there) = entered(path, options)?;
    let data = match found {
        Some(Found::Sealed(mark)) => {
            let (database, file) = directory.existing(&mark, Changes::Written)?;
            let next = rewrite::next_slot(&database);
            let next = next.map_err(OpenError::of_file(&mark.data_path(path)))?;
            let slots = directory.slots(&mark, next)?;
            Data {
                database,
                file,
                slots,
            }
        }
        Some(Found::Unbound(mark) | Found::Uncounted(mark)) => {
            let (before, _) = directory.existing(&mark, Changes::Forgotten)?;
            let slots = directory.slots(&mark, Slot::NOBODY)?;
            let file = mark.data_path(path);
            directory.advance(Some(Source::new(&before, Some(&slots), file)))?
        }
        Some(Found::Unowned(mark)) => {
            let before = directory.unowned(&mark)?;
            let file = mark.data_path(path);
            directory.advance(Some(Source::new(&before, None, file)))?
        }
        Some(Found::Unsealed) => {
            let before = directory.unsealed()?;
            // Without a key there was no sealed store: half-made files are copies of this one.
            if is_key_there {
                directory.keep_halves()?;
            }
            let file = path.join(UNSEALED_FILE);
            directory.advance(before.as_ref().map(|it| Source::new(it, None, file)))?
        }
        Some(Found::Begun) | None => {
            directory.keep_halves()?;
            directory.advance(None)?
        }
    };
    directory.wipe()?;
    Ok((directory, data))
}

/// Locks `directory` and reads its mark and its key; whether a key file was there. Nothing that is
/// stored is changed.
pub(crate) fn entered(
    path: &Path,
    options: &Options,
) -> Result<(Directory, Option<Found>, bool), OpenError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    builder.create(path).map_err(at(path))?;
    let lock = lock(path)?;
    let found = mark::read(path)?;
    let key_file = options.key_file.clone();
    let key_file = key_file.unwrap_or_else(|| key_file::beside(path));
    let is_key_there = key_file.try_exists().map_err(at(&key_file))?;
    check_files(path, found.as_ref(), is_key_there)?;
    let root = key(path, options, (&key_file, is_key_there), found.as_ref())?;
    let is_proven = found.as_ref().is_some_and(|it| it.generation() > 0);
    let directory = Directory {
        path: path.to_owned(),
        root: Root(root),
        key_file,
        is_key_unwritten: !is_proven && !is_key_there,
        generation: 0,
        is_unsure: false,
        kept_elsewhere: Vec::new(),
        unopened_blocks: 0,
        cache_bytes: options.cache_bytes,
        subject_of: options.subject_of.clone(),
        damaged: DamagedSubjects::default(),
        _lock: lock,
    };
    Ok((directory, found, is_key_there))
}

/// The key of a store that is there, or one for a store that is to be begun.
fn key(
    path: &Path,
    options: &Options,
    (key_file, is_there): (&Path, bool),
    found: Option<&Found>,
) -> Result<RootKey, OpenError> {
    if found.is_some_and(|found| found.generation() > 0) {
        let place = key_file::place_of(key_file).map_err(at(key_file))?;
        return key_file::read(&place);
    }
    if !is_there {
        return key_file::fresh(key_file);
    }
    let (directory, key) = (path.to_owned(), key_file.to_owned());
    match found {
        Some(Found::Unsealed) if !options.is_clear_trusted => {
            Err(OpenError::Clear { directory, key })
        }
        // A key of the store's own name was made with a store; one that the caller names may be older than its store.
        None | Some(Found::Begun) if options.key_file.is_none() => {
            Err(OpenError::NoStore { key, directory })
        }
        _ => key_file::read(key_file),
    }
}

impl Directory {
    /// The sealed file that the mark names, once the mark is proven.
    fn existing(&mut self, mark: &Mark, changes: Changes) -> Result<Opened, OpenError> {
        let Some(key) = mark.file_key(&self.root.0) else {
            return Err(self.not_opened(mark)?);
        };
        self.generation = mark.generation;
        self.settle(mark)?;
        let path = mark.data_path(&self.path);
        let mut opening = OpenOptions::new();
        let file = opening.read(true).write(true).open(&path);
        let file = file.map_err(|error| OpenError::of_file(&path)(redb::Error::Io(error)))?;
        let gone = || {
            let text = "what every store holds is gone from it".to_owned();
            OpenError::of_file(&path)(redb::Error::Corrupted(text))
        };
        // The database would take a file of no length for one that is to be begun.
        if file.metadata().map_err(at(&path))?.len() <= BLOCK_BYTES as u64 {
            return Err(gone());
        }
        let (opened, unopened_blocks) = self.sealed(file, &path, key, changes)?;
        self.unopened_blocks = unopened_blocks;
        let is_begun = rewrite::is_begun(&opened.0).map_err(OpenError::of_file(&path))?;
        is_begun.then_some(opened).ok_or_else(gone)
    }

    /// Opens the sealed file of a store of version 2, which had no subjects. A mark of version 2
    /// would also open a file of version 3, and its rows would be misread.
    fn unowned(&mut self, mark: &Mark) -> Result<Database, OpenError> {
        let slots = mark.slots_path(&self.path);
        if slots.try_exists().map_err(at(&slots))? {
            return Err(self.changed());
        }
        let (database, _) = self.existing(mark, Changes::Forgotten)?;
        let path = mark.data_path(&self.path);
        if rewrite::knows_subjects(&database).map_err(OpenError::of_file(&path))? {
            return Err(self.changed());
        }
        Ok(database)
    }

    /// Why the key in a mark does not open: slots of subjects tell whether the key file is the right one.
    pub(crate) fn not_opened(&self, mark: &Mark) -> Result<OpenError, OpenError> {
        let wrapping = mark.slots_key(&self.root.0);
        let files = generation::files(&self.path).map_err(at(&self.path))?;
        let mut paths = files.iter().map(|(_, path)| path);
        Ok(if paths.any(|path| Slots::is_of(path, &wrapping)) {
            self.changed()
        } else {
            OpenError::WrongKey(self.key_file.clone())
        })
    }

    fn changed(&self) -> OpenError {
        OpenError::Mark {
            path: self.path.join(MARK_FILE),
            problem: "was changed: its version, its generation or its key is not what the store was written with",
        }
    }

    /// The keys of subjects that belong to the file that the mark names, which has given out those below `next`.
    fn slots(&self, mark: &Mark, next: Slot) -> Result<Slots, OpenError> {
        let path = mark.slots_path(&self.path);
        let opened = Slots::open(&path, mark.slots_key(&self.root.0), self.whom(), next);
        opened.map_err(|source| OpenError::Subjects { path, source })
    }

    /// The file of a store in which nothing is sealed; none where it never had one.
    fn unsealed(&self) -> Result<Option<Database>, OpenError> {
        let path = self.path.join(UNSEALED_FILE);
        if !path.try_exists().map_err(at(&path))? {
            return Ok(None);
        }
        let file = generation::open_plain_to_lock(&path).map_err(at(&path))?;
        // The database would take a file of no length for one that is to be begun.
        if file.metadata().map_err(at(&path))?.len() == 0 {
            let text = "it is empty".to_owned();
            return Err(OpenError::of_file(&path)(redb::Error::Corrupted(text)));
        }
        let refused = |error: DatabaseError| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.path.clone()),
            error => OpenError::of_file(&path)(error.into()),
        };
        let backend = FileBackend::new(file).map_err(refused)?;
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let opened = builder.create_with_backend(Overlay::new(backend).map_err(at(&path))?);
        opened.map(Some).map_err(refused)
    }

    /// Copies the content into a file with a new key, and makes that file the store's. Until the
    /// mark names them, the new files and a new key have names of their own. So a crash leaves
    /// nothing that could pass for data, and no data is ever begun anew. The old file is left for
    /// [`Self::wipe`], once it is closed.
    pub(crate) fn advance(&mut self, before: Option<Source<'_>>) -> Result<Data, OpenError> {
        let generation = self.generation + 1;
        let (mark, key) = Mark::fresh(generation, &self.root.0).map_err(at(&self.path))?;
        let source = before.as_ref().map(|it| it.path.clone());
        let path = half(&mark.data_path(&self.path));
        let file = create_anew(&path).map_err(at(&path))?;
        let ((database, file), _) = self.sealed(file, &path, key, Changes::Written)?;
        let slots_path = half(&mark.slots_path(&self.path));
        let slots = Slots::create(
            &slots_path,
            mark.slots_key(&self.root.0),
            before.as_ref().and_then(|it| it.slots).map(Slots::names),
            self.whom(),
        );
        let slots = slots.map_err(at(&slots_path))?;
        let made = match before {
            Some(before) => rewrite::copy(before, (&database, &slots)),
            None => rewrite::begin(&database).map_err(Fail::Store),
        };
        made.map_err(|fail| OpenError::of_copy(source.as_deref(), &path, fail))?;
        if self.is_key_unwritten {
            key_file::write(&self.key_file, &self.root.0).map_err(at(&self.key_file))?;
        }
        self.is_unsure = true;
        if !mark::replace(&self.path, &mark).map_err(at(&self.path))? {
            self.kept_elsewhere.push(self.path.join(MARK_FILE));
        }
        self.settle(&mark)?;
        self.is_unsure = false;
        self.is_key_unwritten = false;
        self.generation = generation;
        Ok(Data {
            database,
            file,
            slots,
        })
    }

    /// Returns who tells subjects, and where damaged ones are noted.
    pub(crate) fn whom(&self) -> (SubjectOf, DamagedSubjects) {
        (self.subject_of.clone(), self.damaged.clone())
    }

    /// Takes the files of before that lost their name here alone: their content stays elsewhere.
    pub(crate) fn take_kept_elsewhere(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.kept_elsewhere)
    }

    /// Returns the number of blocks of an older file that did not open while it was repaired: torn by a power cut, or
    /// damaged.
    pub(crate) const fn unopened_blocks(&self) -> usize {
        self.unopened_blocks
    }

    /// Returns whether nothing more may be written, because an opening could take the other file.
    pub(crate) const fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Gives the files that a proven mark names, and the key that it was proven with, their own names.
    pub(crate) fn settle(&self, mark: &Mark) -> Result<(), OpenError> {
        let paths = [
            mark.data_path(&self.path),
            mark.slots_path(&self.path),
            self.key_file.clone(),
        ];
        for path in paths {
            generation::settle(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Keeps files that are half made from being begun anew, where no mark was proven: nothing says that they are not a store's.
    fn keep_halves(&self) -> Result<(), OpenError> {
        for (name, path) in generation::files(&self.path).map_err(at(&self.path))? {
            if matches!(name, Name::Half(_)) {
                generation::keep(&path).map_err(at(&path))?;
            }
        }
        let key = half(&self.key_file);
        generation::keep(&key).map_err(at(&key))
    }

    /// Returns the mark and the open files, which a rewriting is to overwrite. Returns the path of
    /// a file that is gone, is a link or has another name: it cannot be overwritten.
    pub(crate) fn old(
        &self,
        (data, slots): (&SealedFile, &Slots),
    ) -> Result<Result<Vec<Old>, PathBuf>, OpenError> {
        let mark_path = self.path.join(MARK_FILE);
        let data_path = mark::data_path(&self.path, self.generation);
        let slots_path = mark::slots_path(&self.path, self.generation);
        let opened = |path: &Path, file: io::Result<File>| Old::of(path.to_owned(), file?);
        let found = [
            (Old::at(mark_path.clone()), mark_path),
            (opened(&data_path, data.handle()), data_path),
            (opened(&slots_path, slots.handle()), slots_path),
        ];
        let mut files = Vec::new();
        for (old, path) in found {
            match old.map_err(at(&path))? {
                Some(old) => files.push(old),
                None => return Ok(Err(path)),
            }
        }
        Ok(Ok(files))
    }

    /// Overwrites the files before a rewriting. A failure at one does not keep it from the others.
    pub(crate) fn wipe_old(&mut self, files: &[Old]) -> Result<(), OpenError> {
        let wiped = |old: &Old| old.wipe().map_err(at(old.path()));
        let ends: Vec<Result<(), OpenError>> = files.iter().map(wiped).collect();
        ends.into_iter().collect::<Result<(), _>>()?;
        self.wipe()
    }

    /// Overwrites and removes older files of the store, and files that a killed process had half
    /// made.
    pub(crate) fn wipe(&mut self) -> Result<(), OpenError> {
        for (name, path) in generation::files(&self.path).map_err(at(&self.path))? {
            let is_old = match name {
                Name::Whole(generation) => generation < self.generation,
                Name::Half(_) | Name::Unsealed => true,
                Name::Kept => false,
            };
            if is_old && !generation::wipe(&path).map_err(at(&path))? {
                self.kept_elsewhere.push(path);
            }
        }
        Ok(())
    }

    /// Overwrites and removes new files that came to nothing, where the mark names none of them. The
    /// next opening does it where the disk refuses.
    pub(crate) fn clear_halves(&mut self) {
        if !self.is_unsure {
            let _left = self.wipe();
        }
    }

    /// Opens a database in a file; returns also how many blocks did not open while it was repaired.
    pub(crate) fn sealed(
        &self,
        file: File,
        path: &Path,
        key: Secret,
        changes: Changes,
    ) -> Result<(Opened, usize), OpenError> {
        let sealer = Sealer::new(key)
            .map_err(|_refused| at(path)(io::Error::other("the system gives no random bytes")))?;
        let recovery = match changes {
            // A commit counts once all its blocks were synced: none that counts is ever torn.
            Changes::Written => Recovery::default(),
            Changes::Forgotten => Recovery::of(&file).map_err(at(path))?,
        };
        let file = SealedFile::new(file, sealer, recovery.clone()).map_err(at(path))?;
        let mut builder = Database::builder();
        builder.set_cache_size(self.cache_bytes);
        let opened = match changes {
            Changes::Written => builder.create_with_backend(file.clone()),
            Changes::Forgotten => {
                builder.create_with_backend(Overlay::new(file.clone()).map_err(at(path))?)
            }
        };
        let database = opened.map_err(|error| OpenError::of_file(path)(error.into()))?;
        let unopened_blocks = recovery.end();
        Ok(((database, file), unopened_blocks))
    }
}

/// Returns whether a directory has a mark, or a file whose name only a store gives.
pub(crate) fn is_there(directory: &Path) -> bool {
    let is_data = |(name, _): &(Name, PathBuf)| matches!(name, Name::Whole(_));
    directory.join(MARK_FILE).symlink_metadata().is_ok()
        || generation::files(directory).is_ok_and(|files| files.iter().any(is_data))
}

pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        path: path.clone(),
        source,
    }
}

/// Keeps other processes out.
fn lock(path: &Path) -> Result<HeldLock, OpenError> {
    let directory = File::open(path).map_err(at(path))?;
    match directory.try_lock() {
        Ok(()) => Ok(HeldLock(directory)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(at(path)(source)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test puts older files back")]
pub(crate) mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::commands::{Command, Commands};
    use crate::seal::SEALED_BYTES;
    use crate::store::Store;

    const SECRET: &[u8] = b"secret-of-user-7";

    /// A child process has a copy of every descriptor until it executes its program. A store that
    /// was closed meanwhile could not be opened until then.
    #[test]
    fn the_lock_ends_with_the_store_though_a_child_has_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let _of_child = held.0.try_clone().unwrap();
        assert!(matches!(lock(folder.path()), Err(OpenError::InUse(_))));
        drop(held);
        drop(lock(folder.path()).unwrap());
    }

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

    /// Returns whether a page of a file of the store holds `words`, for a reader with the key.
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

    /// Freed pages kept removed data until they were needed again. A rewriting leaves nothing of
    /// it, not even for a reader with the key.
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
