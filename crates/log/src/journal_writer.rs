//! Writes the journal: each append is sealed, durable and integrated before it returns.

use std::sync::{Arc, PoisonError};

use probity_format::DecodeError;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Compression;
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FrameSealer, SubjectKeys, SubjectSection};

use crate::anchored::Anchored;
use crate::core::Core;
use crate::error::LogError;
use crate::journal::{History, JournalEntry, is_telling};
use crate::sealer::sealing_failed;
use crate::stream::Stream;

/// Bytes of payloads at which entries go on in another frame.
const FRAME_PAYLOAD_BYTES: usize = 4 << 20;

/// The one writer of the journal.
pub(crate) struct JournalWriter {
    stream: Arc<Stream>,
    sealer: FrameSealer,
    frame: Vec<u8>,
    /// The last frame that says more than heads.
    telling: Option<u64>,
    /// The last head of each stream that is anchored.
    anchored: Anchored,
    /// Slots of subjects that a frame named.
    slots: u64,
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalWriter").finish_non_exhaustive()
    }
}

impl JournalWriter {
    /// The writer behind what `history` says, where `anchored` has the last heads.
    pub(crate) fn new(
        stream: Arc<Stream>,
        history: &History,
        anchored: Anchored,
    ) -> Result<Self, LogError> {
        let sealer = FrameSealer::new(stream.config, Compression::None)
            .map_err(|error| sealing_failed(&stream.name, &error))?;
        Ok(Self {
            stream,
            sealer,
            frame: Vec::new(),
            telling: history.telling,
            slots: history.slots.count,
            anchored,
        })
    }

    /// Anchors `heads`, which were published.
    pub(crate) fn anchor(&mut self, core: &Core, heads: Vec<Checkpoint>) -> Result<(), LogError> {
        self.append(core, &JournalEntry::heads(&heads))?;
        for head in heads {
            self.anchored.insert(head.origin().to_owned(), head);
        }
        Ok(())
    }

    /// The last head of each stream once more, so that whoever opens the log looks no further back.
    pub(crate) fn anchored_again(&self) -> Vec<JournalEntry> {
        let heads: Vec<Checkpoint> = self.anchored.values().cloned().collect();
        JournalEntry::heads(&heads)
    }

    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Appends `entries`, as one frame unless they are too many; durable once it returns.
    ///
    /// After an error nothing can follow in the journal: the log must be poisoned or not be opened.
    pub(crate) fn append(&mut self, core: &Core, entries: &[JournalEntry]) -> Result<(), LogError> {
        let mut rest = entries;
        while !rest.is_empty() {
            let mut bytes: usize = 0;
            let fits = |entry: &&JournalEntry| {
                bytes = bytes.saturating_add(entry.payload.len());
                bytes <= FRAME_PAYLOAD_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (frame, after) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            self.append_frame(core, frame)?;
            rest = after;
        }
        Ok(())
    }

    /// Appends a frame that names the slots of subjects, if there are more than the last one named. Gives whether it did.
    ///
    /// What is signed for afterwards uses no slot that is not named.
    pub(crate) fn append_slots(&mut self, core: &Core) -> Result<bool, LogError> {
        let grown = core.subjects.slots().count > self.slots;
        if grown {
            self.append_frame(core, &[])?;
        }
        Ok(grown)
    }

    /// Appends a frame without anything of its own: those before it are then not the last.
    pub(crate) fn append_nothing(&mut self, core: &Core) -> Result<(), LogError> {
        self.append_frame(core, &[]).map(drop)
    }

    /// Appends one entry in a frame; gives its index.
    pub(crate) fn append_one(&mut self, core: &Core, entry: JournalEntry) -> Result<u64, LogError> {
        self.append_frame(core, &[entry])
    }

    /// Appends `entries` as one frame; gives the index of the first of them.
    fn append_frame(&mut self, core: &Core, entries: &[JournalEntry]) -> Result<u64, LogError> {
        let failed = |error: &DecodeError| sealing_failed(&self.stream.name, error);
        let time = core.clock.now();
        let mut rows = Vec::new();
        let slots = core.subjects.slots();
        let mut repeated: Vec<JournalEntry> = Vec::new();
        repeated.extend(self.telling.map(JournalEntry::before));
        if slots.count > 0 {
            repeated.push(JournalEntry::subjects(&slots));
        }
        for entry in repeated.iter().chain(entries) {
            let entry = entry.entry(time);
            entry.check().map_err(|error| LogError::Broken {
                place: "journal entry".into(),
                reason: error.to_string(),
            })?;
            let start = rows.len();
            rows.resize(start.saturating_add(row_bytes(&entry)), 0);
            encode_row(&entry, rows.get_mut(start..).unwrap_or_default());
        }
        let count = entries.len().saturating_add(repeated.len());
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let (place, epoch) = {
            let keys = core.keys.lock().unwrap_or_else(PoisonError::into_inner);
            self.stream
                .reserve(count, &keys.master, core.options.epoch_frames_max)?
        };
        let record = self
            .sealer
            .seal(&place, &epoch, &[&rows], &mut Nobody, &mut self.frame)
            .map_err(|error| failed(&error))?;
        let number = record.frame;
        let repeated = u64::try_from(repeated.len()).unwrap_or_default();
        let first = record.first_entry.saturating_add(repeated);
        let length = usize::try_from(record.length).unwrap_or_default();
        let frame = self.frame.get(..length).unwrap_or_default();
        let never = || false;
        let segment_bytes_max = core.options.segment_bytes_max;
        self.stream.write(
            &core.files,
            record,
            frame,
            Vec::new(),
            segment_bytes_max,
            &never,
        )?;
        self.stream.commit(&core.files, true)?;
        self.slots = slots.count;
        if entries.iter().any(|entry| is_telling(&entry.entry(time))) {
            self.telling = Some(number);
        }
        Ok(first)
    }
}

/// The journal is about nobody.
struct Nobody;

impl SubjectKeys for Nobody {
    fn section_key(
        &mut self,
        _subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        Err(DecodeError::new("journal", 0, "has no subjects"))
    }
}
