//! How many frames of each stream are known to be durable: what tells a torn tail from a damaged one.
//!
//! `docs/format.md`, "Durable lengths". A note is written after each sync and never synced itself: after a crash it may be
//! behind what is durable, and never ahead of it.

use std::sync::Arc;

use probity_format::keys::{MasterKey, NoteKey};
use probity_format::stream::StreamId;

use crate::error::LogError;
use crate::files::{Files, unless_strange};

/// The file of notes: a slot for each stream, in the order in which the journal creates them.
pub(crate) const DURABLE: &str = "durable";
/// Bytes of a slot: number of frames, authenticator.
const SLOT_BYTES: usize = 8 + 32;
/// [`SLOT_BYTES`] as a length of a file.
#[expect(clippy::as_conversions, reason = "a small constant")]
const SLOT_LENGTH: u64 = SLOT_BYTES as u64;
/// Most slots read: more streams than any log has.
const SLOTS_MAX: u64 = 1 << 20;

/// Writes and reads the notes of one log.
#[derive(Debug, Clone)]
pub(crate) struct DurableNotes {
    key: Arc<NoteKey>,
}

impl DurableNotes {
    pub(crate) fn new(master: &MasterKey) -> Self {
        Self {
            key: Arc::new(master.note_key()),
        }
    }

    /// Notes that `frames` frames of `stream`, which the journal created as number `ordinal`, are durable.
    fn write(
        &self,
        files: &Files,
        stream: &StreamId,
        ordinal: u64,
        frames: u64,
    ) -> Result<(), LogError> {
        let mut slot = [0; SLOT_BYTES];
        let (number, tag) = slot.split_at_mut(8);
        number.copy_from_slice(&frames.to_le_bytes());
        tag.copy_from_slice(&self.tag(stream, frames));
        files.segment(DURABLE, true)?;
        files.write_at(DURABLE, &slot, ordinal.saturating_mul(SLOT_LENGTH))
    }

    /// The note of `stream` in the content of [`DURABLE`]; zero where there is none that is whole.
    fn of_stream(&self, notes: &[u8], stream: &StreamId, ordinal: u64) -> u64 {
        let place = usize::try_from(ordinal.saturating_mul(SLOT_LENGTH)).unwrap_or(usize::MAX);
        let slot = notes
            .get(place..)
            .and_then(<[u8]>::first_chunk::<SLOT_BYTES>);
        let Some((number, tag)) = slot.and_then(|slot| slot.split_first_chunk::<8>()) else {
            return 0;
        };
        let frames = u64::from_le_bytes(*number);
        if self.key.matches(&Self::content(stream, frames), tag) {
            frames
        } else {
            0
        }
    }

    fn tag(&self, stream: &StreamId, frames: u64) -> [u8; 32] {
        self.key.tag(&Self::content(stream, frames))
    }

    fn content(stream: &StreamId, frames: u64) -> [u8; 40] {
        let mut content = [0; 40];
        let (first, second) = content.split_at_mut(32);
        first.copy_from_slice(stream.as_bytes());
        second.copy_from_slice(&frames.to_le_bytes());
        content
    }
}

/// Where the note of one stream is written.
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

    /// Notes that `frames` frames of `stream` are durable.
    pub(crate) fn write(
        &self,
        files: &Files,
        stream: &StreamId,
        frames: u64,
    ) -> Result<(), LogError> {
        self.notes.write(files, stream, self.ordinal, frames)
    }
}

/// The notes as a crash left them.
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

    /// Makes the notes of `streams` streams durable, and cuts off what stands behind them.
    pub(crate) fn settle(files: &Files, streams: usize) -> Result<(), LogError> {
        let length = u64::try_from(streams)
            .unwrap_or(u64::MAX)
            .saturating_mul(SLOT_LENGTH);
        let file = files.segment(DURABLE, false)?;
        files.attempt("cut", DURABLE, |_| file.set_length(length))?;
        files.sync(DURABLE)?;
        files.sync_folder("")
    }

    /// What writes them from now on.
    pub(crate) const fn notes(&self) -> &DurableNotes {
        &self.notes
    }

    /// How many frames of `stream`, number `ordinal`, are known to have been durable.
    pub(crate) fn frames(&self, stream: &StreamId, ordinal: u64) -> u64 {
        self.notes.of_stream(&self.content, stream, ordinal)
    }
}
