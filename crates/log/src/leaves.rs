//! The leaves of frames in their stream's tree: of the frames written last, for receipts that name
//! them, and of a stored log, to compare.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::tree::{Hash, leaf_hash};

use crate::accepted::AcceptedLoss;
use crate::config::Options;
use crate::epochs::Openings;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{read_checkpoint, read_geometry, read_history};
use crate::log_location::LogLocation;
use crate::records::Records;
use crate::repairs::{Repair, RepairKind};
use crate::scan::{Position, scan_believed};
use crate::segments::Identity;
use crate::verify::Verifier;

/// Frames remembered; more than wait for their receipts at once.
const FRAMES_REMEMBERED: usize = 8_192;

/// A frame as its stream's tree holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf {
    /// Index of the frame in its stream, and of its leaf in the tree.
    pub frame: u64,
    /// Hash of the leaf: of the frame's record, which commits to every sealed byte of the frame.
    pub hash: Hash,
}

/// The leaves of the last frames, by the entries they hold.
#[derive(Debug, Default)]
pub(crate) struct RecentLeaves {
    /// Index of a frame's first entry, of the one behind its last, and the leaf; in order.
    known: Mutex<VecDeque<(u64, u64, Leaf)>>,
}

impl RecentLeaves {
    /// Remembers the frame of `record`, which follows the one before.
    pub(crate) fn remember(&self, record: &Record) {
        let leaf = Leaf::of(record);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FRAMES_REMEMBERED {
            known.pop_front();
        }
        known.push_back((record.first_entry, record.next_entry(), leaf));
    }

    /// The leaf of the frame that holds entry `index`.
    pub(crate) fn of_entry(&self, index: u64) -> Option<Leaf> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.partition_point(|(_, end, _)| *end <= index);
        let (first, _, leaf) = known.get(place)?;
        (*first <= index).then_some(*leaf)
    }
}

impl Leaf {
    fn of(record: &Record) -> Self {
        Self {
            frame: record.frame,
            hash: leaf_hash(&record.encode()),
        }
    }
}

/// A leaf as a stored log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredLeaf {
    /// A head that was published covers it.
    Published(Leaf),
    /// Its frame stands behind all heads, and an opening of the journal could have written it; only
    /// the root key can tell. A crash leaves such frames, and a writer has them for a moment. An
    /// older copy of a log has them where somebody added them.
    Unpublished(Leaf),
}

impl StoredLeaf {
    /// The leaf, published or not.
    pub const fn leaf(&self) -> &Leaf {
        match self {
            Self::Published(leaf) | Self::Unpublished(leaf) => leaf,
        }
    }
}

/// The leaves of a stored log, as its files have them: read without a key, and not trusted.
///
/// [`verify`](crate::verify::verify) checks that the files are what was signed.
pub struct StoredLeaves {
    places: LogLocation,
    files: Files,
    geometry: Geometry,
    /// The content of the journal when it was read last.
    told: RefCell<Told>,
}

/// The content of a journal for a reader without keys.
struct Told {
    /// Frames of the journal that a head covered before it was read.
    journal_size: u64,
    streams: Vec<(StreamName, StreamConfig)>,
    /// Losses that were accepted.
    losses: Vec<AcceptedLoss>,
    /// Read for the first frame that is looked up behind a checkpoint.
    openings: OnceCell<Openings>,
}

impl std::fmt::Debug for StoredLeaves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLeaves")
            .field("origin", &self.geometry.origin())
            .finish_non_exhaustive()
    }
}

impl StoredLeaves {
    /// Opens the log at `places`.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(places: &LogLocation) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let told = Told::read(places, &files, &geometry)?;
        Ok(Self {
            places: places.clone(),
            files,
            geometry,
            told: RefCell::new(told),
        })
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        self.geometry.origin()
    }

    /// Returns the leaf of the frame that holds entry `index` of `stream`, if there is one. A frame
    /// that an opening went on without, that an accepted loss left behind, or that no opening of
    /// the journal wrote does not count.
    ///
    /// # Errors
    /// When the files on the way to it are damaged, or cannot be read.
    pub fn of_entry(
        &self,
        stream: &StreamName,
        index: u64,
    ) -> Result<Option<StoredLeaf>, LogError> {
        let found = self.told.borrow().find(self, stream, index)?;
        if found.is_some() {
            return Ok(found);
        }
        // Somebody may have opened the log for writing since.
        let size = Verifier::covered(&self.places, &StreamName::journal())?;
        if size == self.told.borrow().journal_size {
            return Ok(None);
        }
        let told = Told::read(&self.places, &self.files, &self.geometry)?;
        let found = told.find(self, stream, index);
        self.told.replace(told);
        found
    }

    /// The accepted loss of that `kind` which frame `frame` of `stream` is in, where the journal's
    /// checkpoint covers one. A frame that was written since may have the number of one that is
    /// lost.
    pub fn accepted_loss(
        &self,
        kind: RepairKind,
        stream: &StreamName,
        frame: u64,
    ) -> Option<AcceptedLoss> {
        let told = self.told.borrow();
        let mut losses = told.losses.iter().rev();
        let is_in = |loss: &Repair| loss.kind == kind && loss.stream == *stream && loss.has(frame);
        losses.find(|it| is_in(&it.loss)).cloned()
    }

    /// Frames that the published checkpoint covers.
    fn published(&self, stream: &StreamName) -> Result<u64, LogError> {
        let Some(note) = read_checkpoint(&self.files, stream)? else {
            return Ok(0);
        };
        SignedNote::parse(note.as_bytes())
            .and_then(|note| Checkpoint::parse(note.text()))
            .map(|checkpoint| checkpoint.size())
            .map_err(|error| LogError::Broken {
                place: format!("streams/{stream}/checkpoint"),
                reason: error.to_string(),
            })
    }
}

impl Told {
    fn read(places: &LogLocation, files: &Files, geometry: &Geometry) -> Result<Self, LogError> {
        let journal_size = Verifier::covered(places, &StreamName::journal())?;
        let history = read_history(files, geometry, None)?;
        Ok(Self {
            journal_size,
            streams: history.streams,
            losses: history.losses,
            openings: OnceCell::new(),
        })
    }

    fn find(
        &self,
        log: &StoredLeaves,
        stream: &StreamName,
        index: u64,
    ) -> Result<Option<StoredLeaf>, LogError> {
        let mut streams = self.streams.iter();
        let Some((_, config)) = streams.find(|(name, _)| name == stream) else {
            return Ok(None);
        };
        let identity = Identity::new(&log.geometry, stream, config);
        let size = log.published(stream)?;
        let mut records = Records::new(&log.files, stream, identity, size);
        if let Some(record) = records.of_entry(index)? {
            return Ok(Some(StoredLeaf::Published(Leaf::of(&record))));
        }
        let behind = match records.last()? {
            None => Some(Position::start(identity)),
            Some(record) => records.behind(&record)?,
        };
        let Some(mut position) = behind else {
            return Ok(None);
        };
        let mut found = None;
        let openings = self.openings(&log.places)?;
        let mut believe = |_: &Record, frame: &Frame<'_>| openings.admit(stream, frame);
        let mut look = |record: &Record, _: &Frame<'_>| {
            if (record.first_entry..record.next_entry()).contains(&index) {
                found = Some(Leaf::of(record));
            }
            Ok::<(), LogError>(())
        };
        let files = &log.files;
        let _end = scan_believed(files, stream, &mut position, &mut believe, &mut look)?;
        let Some(leaf) = found else {
            return Ok(None);
        };
        // A crash leaves the second copy of a head ahead of it.
        let is_covered = leaf.frame < Verifier::covered(&log.places, stream)?;
        Ok(Some(if is_covered {
            StoredLeaf::Published(leaf)
        } else {
            StoredLeaf::Unpublished(leaf)
        }))
    }

    fn openings(&self, places: &LogLocation) -> Result<&Openings, LogError> {
        if let Some(openings) = self.openings.get() {
            return Ok(openings);
        }
        let openings = Verifier::openings(places)?;
        Ok(self.openings.get_or_init(|| openings))
    }
}
