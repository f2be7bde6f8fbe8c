//! Notes of the number and root of each stream's durable frames, which tell a torn tail from a
//! damaged one.
//!
//! `docs/format.md`, "Durable lengths". A note is written after each sync and not synced itself.
//! After a crash it may be behind the durable frames, and never ahead of them. That of a new stream
//! is synced, so that every stream has one.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use probity_format::keys::{MasterKey, NoteKey};
use probity_format::note::PUBLIC_KEY_BYTES;
use probity_format::stream::{StreamId, StreamName};
use probity_format::tree::{EMPTY_ROOT, HASH_BYTES, Hash};
use probity_format::width::to_u64;

use crate::advice::newer_journal;
use crate::epochs::{Certificates, Certifies, Epoch, Floor};
use crate::error::LogError;
use crate::files::{Files, unless_strange};
use crate::storage::File;

/// The file of notes: a slot for each stream, in the order in which the journal creates them.
pub(crate) const DURABLE: &str = "durable";
/// Bytes of a slot's content: number and key of the epoch in which it was written, number of
/// frames, root of the tree over them.
const SAID_BYTES: usize = 4 + PUBLIC_KEY_BYTES + 8 + HASH_BYTES;
/// Bytes of a slot: content, authenticator.
const SLOT_BYTES: usize = SAID_BYTES + 32;
/// [`SLOT_BYTES`] as a length of a file.
const SLOT_LENGTH: u64 = to_u64(SLOT_BYTES);
/// Most slots read: more streams than any log has.
const SLOTS_MAX: u64 = 1 << 20;

/// The frames of a stream that are known to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Durable {
    pub(crate) frames: u64,
    /// Root of the tree over them.
    pub(crate) root: Hash,
}

impl Durable {
    /// Nothing.
    pub(crate) const NOTHING: Self = Self {
        frames: 0,
        root: EMPTY_ROOT,
    };

    fn encode(&self, epoch: &Epoch) -> [u8; SAID_BYTES] {
        let mut said = [0; SAID_BYTES];
        let (number, rest) = said.split_at_mut(4);
        let (key, rest) = rest.split_at_mut(PUBLIC_KEY_BYTES);
        let (frames, root) = rest.split_at_mut(8);
        number.copy_from_slice(&epoch.number.to_le_bytes());
        key.copy_from_slice(&epoch.key);
        frames.copy_from_slice(&self.frames.to_le_bytes());
        root.copy_from_slice(self.root.as_bytes());
        said
    }

    /// The epoch, and the frames that were durable in it.
    fn decode(said: &[u8; SAID_BYTES]) -> Option<(Epoch, Self)> {
        let (number, rest) = said.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_first_chunk::<PUBLIC_KEY_BYTES>()?;
        let (frames, root) = rest.split_first_chunk::<8>()?;
        let epoch = Epoch {
            number: u32::from_le_bytes(*number),
            key: *key,
        };
        let durable = Self {
            frames: u64::from_le_bytes(*frames),
            root: Hash::new(root.try_into().ok()?),
        };
        Some((epoch, durable))
    }
}

/// The content of a stream's note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// Nothing that counts.
    Nothing,
    Durable(Durable),
    /// Something of an opening that the journal does not reach.
    Beyond(Durable),
}

/// Returns whether `files` hold a note, by any writer, that counts durable frames of some stream. A
/// creation writes none before the journal has its first frame.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn speak_of_frames(files: &Files) -> Result<bool, LogError> {
    let max = SLOT_LENGTH.saturating_mul(SLOTS_MAX);
    let notes = unless_strange(files.read(DURABLE, max))?.unwrap_or_default();
    let mut slots = notes.as_chunks::<SLOT_BYTES>().0.iter();
    Ok(slots.any(|slot| {
        let said = slot.first_chunk().and_then(Durable::decode);
        said.is_some_and(|(_, durable)| durable.frames > 0)
    }))
}

/// The fault of a note [beyond](Noted::Beyond) the journal.
pub(crate) const BEYOND: &str = newer_journal!(
    "is of an opening of the log that the journal does not have: the journal is an older one, or the note is of another copy of the log; \
     where it is older, ",
    "; where it is the newest there is, move the file aside"
);

/// Writes and reads the notes of one log.
#[derive(Debug, Clone)]
pub(crate) struct DurableNotes {
    key: Arc<NoteKey>,
    /// The epoch in which they are written; there is none until a new log has its journal.
    epoch: Arc<RwLock<Option<Epoch>>>,
    /// Open from the first note on: one is written with every sync.
    file: Arc<OnceLock<Arc<dyn File>>>,
}

impl DurableNotes {
    /// Creates notes in the epoch `newest`, the last that the journal has, until another is
    /// [entered](DurableNote::enter).
    pub(crate) fn new(master: &MasterKey, newest: Option<Epoch>) -> Self {
        Self {
            key: Arc::new(master.note_key()),
            epoch: Arc::new(RwLock::new(newest)),
            file: Arc::default(),
        }
    }

    /// Notes the durable frames of `stream`, which the journal created as number `ordinal`.
    fn write(
        &self,
        files: &Files,
        stream: &StreamId,
        ordinal: u64,
        durable: &Durable,
    ) -> Result<(), LogError> {
        let epoch = *self.epoch.read().unwrap_or_else(PoisonError::into_inner);
        let epoch = epoch.unwrap_or(NO_EPOCH);
        let said = durable.encode(&epoch);
        let mut slot = [0; SLOT_BYTES];
        let (content, tag) = slot.split_at_mut(SAID_BYTES);
        content.copy_from_slice(&said);
        tag.copy_from_slice(&self.key.tag(&tagged(stream, &said)));
        let file = self.open(files)?;
        let offset = ordinal.saturating_mul(SLOT_LENGTH);
        files.attempt("write to", DURABLE, |_| file.write_at(&slot, offset))
    }

    fn sync(&self, files: &Files) -> Result<(), LogError> {
        let file = self.open(files)?;
        files.sync_opened(DURABLE, &*file)
    }

    fn open(&self, files: &Files) -> Result<Arc<dyn File>, LogError> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        let opened = files.attempt("open", DURABLE, |storage| storage.open(DURABLE, true))?;
        Ok(Arc::clone(self.file.get_or_init(|| opened)))
    }

    /// Returns the note of a stream in the content of [`DURABLE`]. A note counts if the journal has
    /// the opening that wrote it. It does not count if a later opening went on without its frames,
    /// or an accepted loss left them behind.
    fn of_stream(
        &self,
        notes: &[u8],
        (name, id): (&StreamName, &StreamId),
        ordinal: u64,
        (certificates, floor): (&dyn Certificates, Option<Floor>),
    ) -> Noted {
        let Some((epoch, durable)) = self.whole(notes, id, ordinal) else {
            return Noted::Nothing;
        };
        let Some(last) = durable.frames.checked_sub(1) else {
            return Noted::Durable(durable);
        };
        let is_later = floor.is_none_or(|floor| floor.admits(last, epoch.number));
        if !is_later || certificates.is_left_behind(name, last, epoch.number) {
            return Noted::Nothing;
        }
        match certificates.certifies(epoch.number) {
            Certifies::Key(key) if key == epoch.key => Noted::Durable(durable),
            Certifies::Key(_) | Certifies::Nothing => Noted::Nothing,
            Certifies::Unknown => Noted::Beyond(durable),
        }
    }

    /// Returns the content of slot `ordinal` for the stream `id`, where it is whole.
    fn whole(&self, notes: &[u8], id: &StreamId, ordinal: u64) -> Option<(Epoch, Durable)> {
        let place = usize::try_from(ordinal.saturating_mul(SLOT_LENGTH)).ok()?;
        let slot = notes.get(place..)?.first_chunk::<SLOT_BYTES>()?;
        let (said, tag) = slot.split_first_chunk::<SAID_BYTES>()?;
        let is_whole = self.key.matches(&tagged(id, said), tag);
        is_whole.then(|| Durable::decode(said)).flatten()
    }
}

/// Stands for the epoch of a log that is being created, whose journal is empty.
const NO_EPOCH: Epoch = Epoch {
    number: 0,
    key: [0; PUBLIC_KEY_BYTES],
};

fn tagged(stream: &StreamId, said: &[u8; SAID_BYTES]) -> Vec<u8> {
    [stream.as_bytes().as_slice(), said].concat()
}

/// The place of one stream's note.
#[derive(Debug)]
pub(crate) struct DurableNote {
    notes: DurableNotes,
    ordinal: u64,
}

impl DurableNote {
    /// The note of the stream that the journal created as number `ordinal`.
    pub(crate) fn new(notes: &DurableNotes, ordinal: u64) -> Self {
        Self {
            notes: notes.clone(),
            ordinal,
        }
    }

    /// The note, in the same file, of the stream that the journal created as number `ordinal`.
    pub(crate) fn of_other(&self, ordinal: u64) -> Self {
        Self::new(&self.notes, ordinal)
    }

    /// Notes the durable frames of `stream`.
    pub(crate) fn write(
        &self,
        files: &Files,
        stream: &StreamId,
        durable: &Durable,
    ) -> Result<(), LogError> {
        self.notes.write(files, stream, self.ordinal, durable)
    }

    /// All notes of the file that are written from now on are of `epoch`.
    pub(crate) fn enter(&self, epoch: Epoch) {
        let mut entered = self
            .notes
            .epoch
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *entered = Some(epoch);
    }

    /// Makes all notes of the file durable.
    pub(crate) fn sync(&self, files: &Files) -> Result<(), LogError> {
        self.notes.sync(files)
    }
}

/// The notes as they are stored.
pub(crate) struct NotesFound {
    notes: DurableNotes,
    content: Vec<u8>,
}

impl NotesFound {
    pub(crate) fn read(files: &Files, notes: DurableNotes) -> Result<Self, LogError> {
        let read = files.read(DURABLE, SLOTS_MAX.saturating_mul(SLOT_LENGTH));
        let content = unless_strange(read)?;
        Ok(Self {
            notes,
            content: content.unwrap_or_default(),
        })
    }

    /// Makes the notes of `streams` streams durable, and cuts off the bytes behind them.
    pub(crate) fn settle(&self, files: &Files, streams: usize) -> Result<(), LogError> {
        let length = u64::try_from(streams)
            .unwrap_or(u64::MAX)
            .saturating_mul(SLOT_LENGTH);
        let file = self.notes.open(files)?;
        files.attempt("cut", DURABLE, |_| file.set_length(length))?;
        files.sync_opened(DURABLE, &*file)?;
        files.sync_folder("")
    }

    /// The writer of further notes.
    pub(crate) const fn notes(&self) -> &DurableNotes {
        &self.notes
    }

    /// Returns what is known to have been durable of `stream`, number `ordinal`. Notes that the
    /// journal or the floor of the stream contradict do not count.
    pub(crate) fn of_stream(
        &self,
        stream: (&StreamName, &StreamId),
        ordinal: u64,
        journal: (&dyn Certificates, Option<Floor>),
    ) -> Noted {
        self.notes
            .of_stream(&self.content, stream, ordinal, journal)
    }
}
