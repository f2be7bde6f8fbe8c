//! Files in memory with their state after a power loss: for tests and examples.
//!
//! Durable is only what the contract of [`Storage`] promises, so that code which relies on the
//! behaviour of one file system fails here.

mod crash;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probity_format::width::to_u64;
use rustix::io::Errno;

use super::name::{components, join, split};
use super::{File, Lock, Storage};

/// Longest file: writes beyond are refused as `FileTooLarge`.
pub(super) const FILE_BYTES_MAX: usize = 1 << 30;

/// A [`Storage`] in memory. Clones share the files.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    image: Arc<Mutex<Image>>,
}

impl Memory {
    /// An empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a separate storage with the current content of this one: the view of a new process
    /// when the old one was killed and the system lives on.
    ///
    /// Changes that were not durable are there and still not durable. Nothing is locked.
    #[must_use]
    pub fn clone_live(&self) -> Self {
        let image = self.lock_image();
        let copy = |content: &Shared| Arc::new(Mutex::new(lock_content(content).clone()));
        let names = image.names.iter().map(|(name, versions)| {
            let versions = Versions {
                durable: versions.durable.as_ref().map(copy),
                later: versions
                    .later
                    .iter()
                    .map(|(moment, content)| (*moment, content.as_ref().map(copy)))
                    .collect(),
            };
            (name.clone(), versions)
        });
        Self::from(Image {
            moment: image.moment,
            names: names.collect(),
            folders: image.folders.clone(),
            locks: BTreeSet::new(),
        })
    }

    /// Simulates the effect of a failed sync on `name`: its bytes are there for every reader, and
    /// no later sync writes those that were not durable. Bytes written after it behave normally.
    ///
    /// Systems do that, because memory that cannot be written would otherwise fill up.
    pub fn forget_unsynced(&self, name: &str) {
        let image = self.lock_image();
        if let Some(content) = image.names.get(name).and_then(Versions::live) {
            lock_content(content).later.clear();
        }
    }

    /// Returns a digest of everything that a later process or a loss of power can find: names, bytes
    /// and folders, and what of them is durable. Storages with the same digest behave the same.
    pub fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lock_image().hash_state(&mut hasher);
        hasher.finish()
    }

    fn lock_image(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, content: Shared, writable: bool) -> Arc<dyn File> {
        Arc::new(OpenFile {
            image: Arc::clone(&self.image),
            content,
            writable,
        })
    }
}

impl From<Image> for Memory {
    fn from(image: Image) -> Self {
        Self {
            image: Arc::new(Mutex::new(image)),
        }
    }
}

impl Storage for Memory {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        let content = self.lock_image().open(name, create)?;
        Ok(self.handle(content, true))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let content = self.lock_image().open(name, false)?;
        Ok(self.handle(content, false))
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut image = self.lock_image();
        let content = image.open(name, false)?;
        let content = lock_content(&content);
        if length_of(&content.live) > bytes_max {
            return Err(super::too_long());
        }
        Ok(content.live.clone())
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut image = self.lock_image();
        let (folder, _) = split(name)?;
        image.create_folder(folder)?;
        image.put(name, Content::durable(content.to_vec()))?;
        image.anchor(folder);
        image.settle(name);
        Ok(())
    }

    fn place(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut image = self.lock_image();
        let (folder, _) = split(name)?;
        image.create_folder(folder)?;
        let mut placed = Content::default();
        placed.change(
            image.next_moment(),
            Change::Write {
                offset: 0,
                bytes: content.to_vec(),
            },
        );
        image.put(name, placed)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut image = self.lock_image();
        image.open(name, false)?;
        image.push(name, None);
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let image = self.lock_image();
        match image.check_folder(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            checked => checked?,
        }
        let first = match folder {
            "" => String::new(),
            _ => format!("{folder}/"),
        };
        let is_below = |name: &&String| name.starts_with(&first);
        let names = image.names.range(first.clone()..);
        let names = names.take_while(|(name, _)| is_below(name));
        let live = names.filter(|(_, versions)| versions.live().is_some());
        let folders = image.folders.range(first.clone()..).map(|(name, _)| name);
        let names = live
            .map(|(name, _)| name)
            .chain(folders.take_while(is_below));
        let inside: BTreeSet<&str> = names.filter_map(|name| part_in(folder, name)).collect();
        Ok(inside.into_iter().map(str::to_owned).collect())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut image = self.lock_image();
        image.check_folder(folder)?;
        image.anchor(folder);
        let inside = |name: &&String| part_in(folder, name).is_some();
        let names: Vec<String> = image.names.keys().filter(inside).cloned().collect();
        for name in &names {
            image.settle(name);
        }
        Ok(())
    }

    /// No call is ever left half done.
    fn leftovers(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// No call is ever left half done here.
    fn sweep(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let mut image = self.lock_image();
        let file = image.open(name, true)?;
        if !image.locks.insert(name.to_owned()) {
            return Ok(None);
        }
        let mut content = lock_content(&file);
        content.change(image.next_moment(), Change::Length(0));
        let change = Change::Write {
            offset: 0,
            bytes: format!("{}\n", std::process::id()).into_bytes(),
        };
        content.change(image.next_moment(), change);
        Ok(Some(Box::new(HeldLock {
            image: Arc::clone(&self.image),
            name: name.to_owned(),
        })))
    }
}

/// One lock guards everything, so that a copy shows all files at one moment.
#[derive(Debug, Default)]
struct Image {
    /// Counts changes of names and bytes.
    moment: u64,
    names: BTreeMap<String, Versions>,
    /// The folders below the root, with the moment of creation until they are durable.
    folders: BTreeMap<String, Option<u64>>,
    locks: BTreeSet<String>,
}

impl Image {
    /// The moments of changes count by their order alone.
    fn hash_state(&self, hasher: &mut DefaultHasher) {
        let content = |content: Option<&Shared>, hasher: &mut DefaultHasher| {
            let content = content.map(lock_content);
            content.is_some().hash(hasher);
            if let Some(content) = content {
                (&content.live, &content.durable).hash(hasher);
                let changes = content.later.iter().map(|(_, change)| change);
                changes.collect::<Vec<_>>().hash(hasher);
            }
        };
        for (name, versions) in &self.names {
            (name, versions.later.len()).hash(hasher);
            content(versions.durable.as_ref(), hasher);
            for (_, version) in &versions.later {
                content(version.as_ref(), hasher);
            }
        }
        for (folder, created) in &self.folders {
            (folder, created.is_some()).hash(hasher);
        }
    }

    fn next_moment(&mut self) -> u64 {
        self.moment = self.moment.saturating_add(1);
        self.moment
    }

    fn open(&mut self, name: &str, create: bool) -> io::Result<Shared> {
        let (folder, _) = split(name)?;
        if create {
            self.create_folder(folder)?;
        }
        self.check_folder(folder)?;
        if self.folders.contains_key(name) {
            return Err(Errno::ISDIR.into());
        }
        match self.names.get(name).and_then(Versions::live) {
            Some(content) => Ok(Arc::clone(content)),
            None if create => {
                let content = Shared::default();
                self.push(name, Some(Arc::clone(&content)));
                Ok(content)
            }
            None => Err(Errno::NOENT.into()),
        }
    }

    /// Gives `name` a new content; open handles keep the old one.
    fn put(&mut self, name: &str, content: Content) -> io::Result<()> {
        if self.folders.contains_key(name) {
            return Err(Errno::ISDIR.into());
        }
        self.push(name, Some(Arc::new(Mutex::new(content))));
        Ok(())
    }

    fn push(&mut self, name: &str, content: Option<Shared>) {
        let moment = self.next_moment();
        let versions = self.names.entry(name.to_owned()).or_default();
        versions.later.push((moment, content));
    }

    fn create_folder(&mut self, folder: &str) -> io::Result<()> {
        let mut path = String::new();
        for part in components(folder)? {
            path = join(&path, part);
            if self.is_file(&path) {
                return Err(Errno::NOTDIR.into());
            }
            if !self.folders.contains_key(&path) {
                let moment = self.next_moment();
                self.folders.insert(path.clone(), Some(moment));
            }
        }
        Ok(())
    }

    fn check_folder(&self, folder: &str) -> io::Result<()> {
        let mut path = String::new();
        for part in components(folder)? {
            path = join(&path, part);
            if self.is_file(&path) {
                return Err(Errno::NOTDIR.into());
            }
            if !self.folders.contains_key(&path) {
                return Err(Errno::NOENT.into());
            }
        }
        Ok(())
    }

    fn is_file(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|v| v.live().is_some())
    }

    /// Makes `folder` and those above it durable.
    fn anchor(&mut self, folder: &str) {
        let mut path = folder;
        while !path.is_empty() {
            self.folders.insert(path.to_owned(), None);
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    /// Makes the present target of `name` durable, but not its bytes.
    fn settle(&mut self, name: &str) {
        let Some(versions) = self.names.get_mut(name) else {
            return;
        };
        if let Some((_, live)) = versions.later.pop() {
            versions.durable = live;
            versions.later.clear();
        }
        if versions.durable.is_none() {
            self.names.remove(name);
        }
    }
}

/// The versions of a name since it was durable last, with the moments of the changes.
#[derive(Debug, Default)]
struct Versions {
    durable: Option<Shared>,
    later: Vec<(u64, Option<Shared>)>,
}

impl Versions {
    fn live(&self) -> Option<&Shared> {
        let latest = self.later.last().map(|(_, content)| content);
        latest.unwrap_or(&self.durable).as_ref()
    }
}

/// A file shared by its name and its handles; locked only while the image is.
type Shared = Arc<Mutex<Content>>;

fn lock_content(content: &Shared) -> MutexGuard<'_, Content> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone, Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// The changes from the durable bytes to the live ones, except for those that a failed sync
    /// forgot.
    later: Vec<(u64, Change)>,
}

impl Content {
    fn durable(bytes: Vec<u8>) -> Self {
        Self {
            live: bytes.clone(),
            durable: bytes,
            later: Vec::new(),
        }
    }

    fn change(&mut self, moment: u64, change: Change) {
        change.apply(&mut self.live);
        self.later.push((moment, change));
    }

    fn sync(&mut self) {
        for (_, change) in self.later.drain(..) {
            change.apply(&mut self.durable);
        }
    }
}

#[derive(Debug, Clone, Hash)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => overwrite(file, *offset, bytes),
            Self::Length(length) => file.resize(*length, 0),
        }
    }
}

/// Writes `bytes` at `offset`; a gap before it is filled with zeros.
fn overwrite(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset.saturating_add(bytes.len());
    if file.len() < end {
        file.resize(end, 0);
    }
    if let Some(place) = file.get_mut(offset..end) {
        place.copy_from_slice(bytes);
    }
}

#[derive(Debug)]
struct OpenFile {
    /// Locked before the content in every call.
    image: Arc<Mutex<Image>>,
    content: Shared,
    writable: bool,
}

impl OpenFile {
    fn change(&self, refused: Errno, change: Change) -> io::Result<()> {
        if !self.writable {
            return Err(refused.into());
        }
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        lock_content(&self.content).change(image.next_moment(), change);
        Ok(())
    }

    fn with<T>(&self, call: impl FnOnce(&mut Content) -> T) -> T {
        let _one_moment = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut lock_content(&self.content))
    }
}

impl File for OpenFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.with(|content| length_of(&content.live)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = offset.saturating_add(buffer.len());
        self.with(|content| match content.live.get(offset..end) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(ErrorKind::UnexpectedEof.into()),
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        if offset.saturating_add(bytes.len()) > FILE_BYTES_MAX {
            return Err(Errno::FBIG.into());
        }
        let bytes = bytes.to_vec();
        self.change(Errno::BADF, Change::Write { offset, bytes })
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        match usize::try_from(length) {
            Ok(length) if length <= FILE_BYTES_MAX => {
                self.change(Errno::INVAL, Change::Length(length))
            }
            _ => Err(Errno::FBIG.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.with(Content::sync);
        Ok(())
    }
}

#[derive(Debug)]
struct HeldLock {
    image: Arc<Mutex<Image>>,
    name: String,
}

impl Lock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        image.locks.remove(&self.name);
    }
}

/// The component that follows `folder` when `name` is directly in it.
fn part_in<'a>(folder: &str, name: &'a str) -> Option<&'a str> {
    let inside = match folder {
        "" => name,
        _ => name.strip_prefix(folder)?.strip_prefix('/')?,
    };
    (!inside.contains('/')).then_some(inside)
}

fn length_of(bytes: &[u8]) -> u64 {
    to_u64(bytes.len())
}
