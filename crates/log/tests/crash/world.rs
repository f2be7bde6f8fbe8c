//! A log and the second copies of its heads in one storage, so that calls have one order and a
//! crash hits both.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use probity_format::checkpoint::Checkpoint;
use probity_format::keys::{RootKey, Secret};
use probity_format::note::SignedNote;
use probity_log::LogLocation;
use probity_log::storage::{FaultPlan, Faulty, File, Lock, Memory, Storage};

/// The key of every log here.
pub(crate) fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// Every head that was signed: origin, size and root.
pub(crate) type SignedHeads = BTreeSet<(String, u64, String)>;

/// Files in memory behind a storage that fails on command.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) faulty: Arc<Faulty<Memory>>,
    /// The heads in all files that were ever begun, temporary ones and second copies included.
    pub(crate) signed: Arc<Mutex<SignedHeads>>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(Memory::new())
    }

    pub(crate) fn of(memory: Memory) -> Self {
        let faulty = Arc::new(Faulty::new(memory.clone(), FaultPlan::none()));
        let signed = Arc::default();
        Self {
            memory,
            faulty,
            signed,
        }
    }

    /// The current files without the second copies of the heads, as somebody has who got only the
    /// log.
    pub(crate) fn without_copies(&self) -> Self {
        let left = self.memory.clone_live();
        for name in left.list("second").unwrap_or_default() {
            left.remove(&format!("second/{name}")).unwrap();
        }
        Self::of(left)
    }

    /// The frames that the head in a file covers; none where there is no head.
    pub(crate) fn head_size(&self, name: &str) -> Option<u64> {
        let note = self.memory.read(name, u64::MAX).ok()?;
        let note = SignedNote::parse(&note).ok()?;
        Some(Checkpoint::parse(note.text()).ok()?.size())
    }

    pub(crate) fn places(&self) -> LogLocation {
        let part = |folder| {
            Arc::new(Part {
                whole: Arc::clone(&self.faulty),
                signed: Arc::clone(&self.signed),
                folder,
            })
        };
        LogLocation::on(part("log"), part("second"), "the log")
    }
}

/// A folder of a storage as a storage of its own.
#[derive(Debug)]
struct Part {
    whole: Arc<Faulty<Memory>>,
    signed: Arc<Mutex<SignedHeads>>,
    folder: &'static str,
}

impl Part {
    fn name(&self, name: &str) -> String {
        if name.is_empty() {
            return self.folder.to_owned();
        }
        format!("{}/{name}", self.folder)
    }

    /// Records the head in `content`, if it is one.
    fn record(&self, content: &[u8]) {
        let note = SignedNote::parse(content).ok();
        let Some(head) = note.and_then(|note| Checkpoint::parse(note.text()).ok()) else {
            return;
        };
        let root = format!("{:?}", head.root());
        let head = (head.origin().to_owned(), head.size(), root);
        self.signed.lock().unwrap().insert(head);
    }
}

impl Storage for Part {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn File>> {
        self.whole.open(&self.name(name), create)
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.whole.open_read(&self.name(name))
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.whole.read(&self.name(name), bytes_max)
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        // Before it is done: a kill on the way leaves a temporary file.
        self.record(content);
        self.whole.replace(&self.name(name), content)
    }

    fn place(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.record(content);
        self.whole.place(&self.name(name), content)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.whole.remove(&self.name(name))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.whole.list(&self.name(folder))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.whole.sync_folder(&self.name(folder))
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        self.whole.leftovers()
    }

    fn sweep(&self) -> io::Result<u64> {
        self.whole.sweep()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.whole.lock(&self.name(name))
    }
}
