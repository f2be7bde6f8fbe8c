//! The keys of subjects, each in a slot of a file beside the data: a key is destroyed by overwriting its slot in place.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hmac;
use probity_format::keys::{SECRET_BYTES, Secret};
use probity_format::wrap::{WRAPPED_BYTES, WrappedKind, WrappingKey};

use crate::fail::Fail;
use crate::generation::{create_anew, open_plain};
use crate::key_file::{random, random_nonce};
use crate::limits::{SLOTS_AT_ONCE, SUBJECTS_OPEN_MAX};
use crate::subject::{Slot, SubjectKeys, SubjectOf};

/// Bytes of a slot: no two share a sector that could be torn.
const SLOT_BYTES: usize = 128;
const SLOT_LABEL: &[u8] = b"probity/store/subject/";
const ERASED_LABEL: &[u8] = b"probity/store/erased/";
/// The slot of the key under which names of subjects are found.
const NAMES: Slot = Slot::NOBODY;

/// The keys of the subjects of one generation.
pub(crate) struct Slots {
    file: File,
    wrapping: WrappingKey,
    names: Secret,
    /// The next unused slot that this opening made, and the end of those slots.
    fresh: Cell<(u64, u64)>,
    opened: RefCell<HashMap<Slot, Option<Arc<SubjectKeys>>>>,
    subject_of: SubjectOf,
    damaged: DamagedSubjects,
}

impl Slots {
    /// An empty file of slots; durable when it returns. Names of subjects are found under `names`, or under a key of its own.
    pub(crate) fn create(
        path: &Path,
        wrapping: WrappingKey,
        names: Option<&Secret>,
        (subject_of, damaged): (SubjectOf, DamagedSubjects),
    ) -> io::Result<Self> {
        let file = create_anew(path)?;
        let names = match names {
            Some(names) => Secret::new(*names.expose()),
            None => Secret::new(*random()?),
        };
        file.write_all_at(&slot_bytes(&wrapping, SLOT_LABEL, NAMES, &names)?, 0)?;
        file.sync_all()?;
        Ok(Self {
            file,
            wrapping,
            names,
            fresh: Cell::new((1, 1)),
            opened: RefCell::default(),
            subject_of,
            damaged,
        })
    }

    /// Returns whether the file at `path` has slots that were made for this key.
    pub(crate) fn is_of(path: &Path, wrapping: &WrappingKey) -> bool {
        let mut slot = [0; SLOT_BYTES];
        let read = open_plain(path).and_then(|file| file.read_exact_at(&mut slot, 0));
        read.is_ok() && unwrapped(wrapping, SLOT_LABEL, NAMES, &slot).is_some()
    }

    /// The file at `path`, of which the data has given out the keys below `given`.
    pub(crate) fn open(
        path: &Path,
        wrapping: WrappingKey,
        (subject_of, damaged): (SubjectOf, DamagedSubjects),
        given: Slot,
    ) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // Slots that nobody took before a crash are left: which those are, an older copy of the data cannot say.
        let length = file.metadata()?.len();
        let next = length.div_ceil(SLOT_BYTES as u64);
        if length < place(given) {
            return Err(cut(length, given));
        }
        let mut slot = [0; SLOT_BYTES];
        file.read_exact_at(&mut slot, 0)?;
        let names = unwrapped(&wrapping, SLOT_LABEL, NAMES, &slot);
        let names = names.ok_or_else(|| self::damaged(NAMES))?;
        Ok(Self {
            file,
            wrapping,
            names,
            fresh: Cell::new((next, next)),
            opened: RefCell::default(),
            subject_of,
            damaged,
        })
    }

    /// The file at `path`, whose keys may be damaged or gone; whether the one for names of subjects
    /// is. Another is drawn then.
    pub(crate) fn open_damaged(
        path: &Path,
        wrapping: WrappingKey,
        (subject_of, damaged): (SubjectOf, DamagedSubjects),
    ) -> io::Result<(Self, bool)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut slot = [0; SLOT_BYTES];
        let read = file.read_exact_at(&mut slot, 0);
        let names = unwrapped(&wrapping, SLOT_LABEL, NAMES, &slot).filter(|_| read.is_ok());
        let is_lost = names.is_none();
        let names = match names {
            Some(names) => names,
            None => Secret::new(*random()?),
        };
        let slots = Self {
            file,
            wrapping,
            names,
            fresh: Cell::new((1, 1)),
            opened: RefCell::default(),
            subject_of,
            damaged,
        };
        Ok((slots, is_lost))
    }

    /// Returns the file itself, which is overwritten once it is no longer needed.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The key under which names of subjects are found.
    pub(crate) const fn names(&self) -> &Secret {
        &self.names
    }

    /// Returns the digest by which the subject of a key is found; none for a key about nobody.
    pub(crate) fn digest(&self, key: &[u8]) -> Option<Vec<u8>> {
        let name = self.subject_of.ask(key)?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.names.expose());
        Some(hmac::sign(&key, &name).as_ref().to_vec())
    }

    /// The keys of a subject; none if they were destroyed.
    pub(crate) fn keys(&self, slot: Slot) -> Result<Option<Arc<SubjectKeys>>, Fail> {
        if let Some(known) = self.opened.borrow().get(&slot) {
            return Ok(known.clone());
        }
        let keys = match self.read(slot)? {
            Some(secret) => Some(Arc::new(SubjectKeys::new(&secret)?)),
            None => None,
        };
        // A disk may give back what it had refused.
        self.damaged.forget(slot);
        let mut opened = self.opened.borrow_mut();
        if opened.len() >= SUBJECTS_OPEN_MAX {
            opened.clear();
        }
        opened.insert(slot, keys.clone());
        Ok(keys)
    }

    /// Takes a slot with an unused key. The slot is durable before anything is sealed under its
    /// key.
    pub(crate) fn take(&self) -> io::Result<Slot> {
        let (mut next, mut end) = self.fresh.get();
        if next == end {
            end = next + SLOTS_AT_ONCE;
            for number in next..end {
                let slot = Slot(number);
                let secret = Secret::new(*random()?);
                let bytes = slot_bytes(&self.wrapping, SLOT_LABEL, slot, &secret)?;
                self.file.write_all_at(&bytes, place(slot))?;
            }
            self.file.sync_all()?;
        }
        let slot = Slot(next);
        next += 1;
        self.fresh.set((next, end));
        Ok(slot)
    }

    /// Overwrites the keys of subjects, durably. One that was overwritten before stays so.
    pub(crate) fn destroy(&self, slots: &[Slot]) -> io::Result<()> {
        for slot in slots {
            let secret = Secret::new(*random()?);
            let bytes = slot_bytes(&self.wrapping, ERASED_LABEL, *slot, &secret)?;
            self.file.write_all_at(&bytes, place(*slot))?;
            self.opened.borrow_mut().remove(slot);
            self.damaged.forget(*slot);
        }
        if slots.is_empty() {
            return Ok(());
        }
        self.file.sync_data()
    }

    /// Destroys those of `slots` that have a key or anything else, durably: the file may be an older copy.
    pub(crate) fn destroy_left(&self, slots: &[Slot]) -> io::Result<()> {
        let mut left = slots.to_vec();
        left.retain(|slot| !self.is_destroyed(*slot));
        self.destroy(&left)
    }

    fn is_destroyed(&self, slot: Slot) -> bool {
        let mut bytes = [0; SLOT_BYTES];
        let read = self.file.read_exact_at(&mut bytes, place(slot));
        read.is_ok() && unwrapped(&self.wrapping, ERASED_LABEL, slot, &bytes).is_some()
    }

    /// Gives up the slots behind the last that was taken: nothing was ever sealed under their keys, and the next opening
    /// makes others. It is called while the store's directory is locked, for another process would have its keys behind them.
    /// Without it, as after a crash, they stay and cost their room.
    pub(crate) fn give_back(self) -> io::Result<()> {
        let (next, end) = self.fresh.get();
        if next < end {
            self.file.set_len(place(Slot(next)))?;
        }
        Ok(())
    }

    /// Returns the failure of a slot whose key is not the one that the data knows.
    pub(crate) fn is_of_another_time(&self, slot: Slot) -> Fail {
        self.damaged.note(slot);
        Fail::Damaged(format!(
            "the key of subject {} is not the one that the data was sealed under, for the file of keys is of another time",
            slot.0
        ))
    }

    /// Returns the subjects whose keys were met damaged.
    pub(crate) fn damaged(&self) -> Vec<Slot> {
        self.damaged.all()
    }

    fn read(&self, slot: Slot) -> Result<Option<Secret>, Fail> {
        let mut bytes = [0; SLOT_BYTES];
        if let Err(error) = self.file.read_exact_at(&mut bytes, place(slot)) {
            self.damaged.note(slot);
            let text = format!("the key of subject {} cannot be read ({error})", slot.0);
            return Err(Fail::Damaged(text));
        }
        if let Some(secret) = unwrapped(&self.wrapping, SLOT_LABEL, slot, &bytes) {
            return Ok(Some(secret));
        }
        // Only a slot that says so is erased; a key that is merely gone is damage.
        if unwrapped(&self.wrapping, ERASED_LABEL, slot, &bytes).is_some() {
            return Ok(None);
        }
        self.damaged.note(slot);
        Err(Fail::Damaged(damaged(slot).to_string()))
    }
}

/// The subjects whose keys were met damaged, shared with those who tell of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct DamagedSubjects(Arc<Mutex<BTreeSet<Slot>>>);

impl DamagedSubjects {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, slot: Slot) {
        self.lock().insert(slot);
    }

    fn forget(&self, slot: Slot) {
        self.lock().remove(&slot);
    }

    pub(crate) fn all(&self) -> Vec<Slot> {
        self.lock().iter().copied().collect()
    }
}

/// The keys of an owner; none for nobody, and none in a file of an older format, which has no slots.
pub(crate) fn keys_of(
    slots: Option<&Slots>,
    owner: Slot,
) -> Result<Option<Arc<SubjectKeys>>, Fail> {
    let Some(slots) = slots.filter(|_| owner != Slot::NOBODY) else {
        return Ok(None);
    };
    let keys = slots.keys(owner)?;
    keys.map(Some)
        .ok_or_else(|| Fail::broken("a value of a subject whose key is destroyed"))
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}

fn slot_bytes(
    wrapping: &WrappingKey,
    label: &[u8],
    slot: Slot,
    secret: &Secret,
) -> io::Result<[u8; SLOT_BYTES]> {
    let wrapped = wrapping.wrap(
        WrappedKind::Slot,
        &labelled(label, slot),
        secret,
        random_nonce()?,
    );
    let wrapped = wrapped.map_err(io::Error::other)?;
    let mut bytes = [0; SLOT_BYTES];
    // A slot without its key would be one that was destroyed.
    let room = bytes.get_mut(..wrapped.len());
    let room = room.ok_or_else(|| io::Error::other("a slot has no room for its key"))?;
    room.copy_from_slice(&wrapped);
    Ok(bytes)
}

fn unwrapped(
    wrapping: &WrappingKey,
    label: &[u8],
    slot: Slot,
    bytes: &[u8; SLOT_BYTES],
) -> Option<Secret> {
    let (wrapped, rest) = bytes.split_at(WRAPPED_BYTES);
    if rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    let label = labelled(label, slot);
    wrapping.unwrap(WrappedKind::Slot, &label, wrapped).ok()
}

fn labelled(label: &[u8], slot: Slot) -> Vec<u8> {
    [label, &slot.0.to_be_bytes()].concat()
}

/// The file is shorter than the keys that were given out: another subject would be given the key of one that is there.
fn cut(length: u64, given: Slot) -> io::Error {
    let text = format!(
        "it has {length} bytes, and the data has given out keys up to byte {}: it was cut, or is an older copy; put back \
         both files of the store from one backup, of one time; no value was changed or lost, and the file of the data was only \
         written anew, as each opening does",
        place(given)
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

const fn place(slot: Slot) -> u64 {
    slot.0.saturating_mul(SLOT_BYTES as u64)
}

fn damaged(slot: Slot) -> io::Error {
    let text = format!("the key of subject {} was changed or is gone", slot.0);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

const _: () = assert!(WRAPPED_BYTES <= SLOT_BYTES && SECRET_BYTES == 32);
