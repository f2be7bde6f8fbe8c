//! Random calls find no difference between the disk and memory, watched or not.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::Config;

use crate::storage::{Directory, FaultPlan, Faulty, File, Lock, Memory, Storage};

const NAMES: [&str; 9] = [
    "a",
    "b",
    "f",
    "f/a",
    "f/g",
    "f/g/b",
    "keys/k",
    "a/x",
    "lock/never",
];
const FOLDERS: [&str; 6] = ["", "a", "f", "f/g", "keys", "none/at/all"];

#[derive(Debug, Clone)]
enum Step {
    Open {
        name: usize,
        create: bool,
    },
    OpenRead {
        name: usize,
    },
    Read {
        name: usize,
        bytes_max: u64,
    },
    Replace {
        name: usize,
        content: Vec<u8>,
    },
    Place {
        name: usize,
        content: Vec<u8>,
    },
    Remove {
        name: usize,
    },
    List {
        folder: usize,
    },
    SyncFolder {
        folder: usize,
    },
    Sweep,
    Lock,
    Unlock,
    Length {
        handle: usize,
    },
    ReadAt {
        handle: usize,
        offset: u64,
        length: usize,
    },
    WriteAt {
        handle: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetLength {
        handle: usize,
        length: u64,
    },
    Sync {
        handle: usize,
    },
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..1_500)
}

fn steps() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let folder = || 0..FOLDERS.len();
    let handle = || 0..8_usize;
    prop_oneof![
        3 => (name(), any::<bool>()).prop_map(|(name, create)| Step::Open { name, create }),
        1 => name().prop_map(|name| Step::OpenRead { name }),
        2 => (name(), 0..3_000_u64).prop_map(|(name, bytes_max)| Step::Read { name, bytes_max }),
        2 => (name(), bytes()).prop_map(|(name, content)| Step::Replace { name, content }),
        1 => (name(), bytes()).prop_map(|(name, content)| Step::Place { name, content }),
        1 => name().prop_map(|name| Step::Remove { name }),
        1 => folder().prop_map(|folder| Step::List { folder }),
        1 => folder().prop_map(|folder| Step::SyncFolder { folder }),
        1 => Just(Step::Sweep),
        1 => Just(Step::Lock),
        1 => Just(Step::Unlock),
        1 => handle().prop_map(|handle| Step::Length { handle }),
        3 => (handle(), 0..2_000_u64, 0..1_000_usize)
            .prop_map(|(handle, offset, length)| Step::ReadAt { handle, offset, length }),
        4 => (handle(), 0..2_000_u64, bytes())
            .prop_map(|(handle, offset, bytes)| Step::WriteAt { handle, offset, bytes }),
        1 => (handle(), 0..3_000_u64)
            .prop_map(|(handle, length)| Step::SetLength { handle, length }),
        1 => handle().prop_map(|handle| Step::Sync { handle }),
    ]
}

/// The comparable result of a step.
#[derive(Debug, PartialEq)]
enum Seen {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
    Names(Vec<String>),
    Failed(ErrorKind),
}

/// A storage with the handles and the lock opened so far.
struct Side<'a> {
    storage: &'a dyn Storage,
    handles: Vec<Arc<dyn File>>,
    held: Option<Box<dyn Lock>>,
}

impl<'a> Side<'a> {
    fn new(storage: &'a dyn Storage) -> Self {
        Self {
            storage,
            handles: Vec::new(),
            held: None,
        }
    }

    fn run(&mut self, step: &Step) -> Seen {
        self.attempt(step)
            .unwrap_or_else(|error| Seen::Failed(error.kind()))
    }

    fn attempt(&mut self, step: &Step) -> io::Result<Seen> {
        let storage = self.storage;
        let handle = |at: &usize| self.handles.iter().rev().nth(*at);
        match step {
            Step::Open { name, create } => self.handles.push(storage.open(NAMES[*name], *create)?),
            Step::OpenRead { name } => self.handles.push(storage.open_read(NAMES[*name])?),
            Step::Read { name, bytes_max } => {
                return storage.read(NAMES[*name], *bytes_max).map(Seen::Bytes);
            }
            Step::Replace { name, content } => storage.replace(NAMES[*name], content)?,
            Step::Place { name, content } => storage.place(NAMES[*name], content)?,
            Step::Remove { name } => storage.remove(NAMES[*name])?,
            Step::List { folder } => return storage.list(FOLDERS[*folder]).map(Seen::Names),
            Step::SyncFolder { folder } => storage.sync_folder(FOLDERS[*folder])?,
            Step::Sweep => return storage.sweep().map(Seen::Number),
            Step::Lock => {
                let taken = storage.lock("lock-file")?;
                let seen = Seen::Number(u64::from(taken.is_some()));
                self.held = taken.or_else(|| self.held.take());
                return Ok(seen);
            }
            Step::Unlock => drop(self.held.take()),
            Step::Length { handle: at } => {
                if let Some(file) = handle(at) {
                    return file.length().map(Seen::Number);
                }
            }
            Step::ReadAt {
                handle: at,
                offset,
                length,
            } => {
                if let Some(file) = handle(at) {
                    let mut buffer = vec![0; *length];
                    file.read_at(&mut buffer, *offset)?;
                    return Ok(Seen::Bytes(buffer));
                }
            }
            Step::WriteAt {
                handle: at,
                offset,
                bytes,
            } => {
                if let Some(file) = handle(at) {
                    file.write_at(bytes, *offset)?;
                }
            }
            Step::SetLength { handle: at, length } => {
                if let Some(file) = handle(at) {
                    file.set_length(*length)?;
                }
            }
            Step::Sync { handle: at } => {
                if let Some(file) = handle(at) {
                    file.sync()?;
                }
            }
        }
        Ok(Seen::Nothing)
    }
}

proptest::proptest! {
    #![proptest_config(Config { cases: 96, failure_persistence: None, ..Config::default() })]

    #[test]
    fn memory_does_what_the_disk_does(steps in proptest::collection::vec(steps(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Directory::new(folder.path());
        let memory = Faulty::new(Memory::new(), FaultPlan::none());
        let (mut left, mut right) = (Side::new(&disk), Side::new(&memory));
        for step in &steps {
            assert_eq!(left.run(step), right.run(step), "{step:?}");
        }
        for folder in FOLDERS {
            let step = || (disk.list(folder).ok(), memory.list(folder).ok());
            let (on_disk, in_memory) = step();
            assert_eq!(on_disk, in_memory);
        }
        for name in NAMES {
            let contents = (disk.read(name, 1 << 20).ok(), memory.read(name, 1 << 20).ok());
            assert_eq!(contents.0, contents.1, "{name}");
        }
        assert_eq!(memory.faults(), 0);
    }
}
