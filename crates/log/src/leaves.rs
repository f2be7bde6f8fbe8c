//! What frames are in their stream's tree: of those written last, for receipts that name it, and of a stored log, to compare.

use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::note::SignedNote;
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tree::{Hash, leaf_hash};

use crate::config::Options;
use crate::epochs::{Floor, is_admitted};
use crate::error::LogError;
use crate::files::Files;
use crate::history::{read_checkpoint, read_geometry, read_history};
use crate::journal::History;
use crate::places::Places;
use crate::records::Records;
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

/// The leaves of a stored log, as its files have them: read without a key, and believed to nobody.
///
/// Whether the files are what was signed, [`verify`](crate::verify::verify) says.
pub struct StoredLeaves {
    places: Places,
    files: Files,
    geometry: Geometry,
    history: History,
    /// Read once a frame is looked for behind a checkpoint.
    floors: OnceCell<BTreeMap<StreamName, Floor>>,
}

impl std::fmt::Debug for StoredLeaves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLeaves")
            .field("origin", &self.geometry.origin())
            .finish_non_exhaustive()
    }
}

impl StoredLeaves {
    /// Opens the log at `path`.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let places = Places::new(path, None);
        let files = Files::of_log(&places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let history = read_history(&files, &geometry, None)?;
        Ok(Self {
            places,
            files,
            geometry,
            history,
            floors: OnceCell::new(),
        })
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        self.geometry.origin()
    }

    /// The leaf of the frame that holds entry `index` of `stream`, if there is one, published or not. One that an opening had gone on without is none.
    ///
    /// # Errors
    /// When what leads there is damaged, or cannot be read.
    pub fn of_entry(&self, stream: &StreamName, index: u64) -> Result<Option<Leaf>, LogError> {
        let mut streams = self.history.streams.iter();
        let Some((_, config)) = streams.find(|(name, _)| name == stream) else {
            return Ok(None);
        };
        let identity = Identity::new(&self.geometry, stream, config);
        let size = self.published(stream)?;
        let mut records = Records::new(&self.files, stream, identity, size);
        if let Some(record) = records.of_entry(index)? {
            return Ok(Some(Leaf::of(&record)));
        }
        let behind = match records.last()? {
            None => Some(Position::start(identity)),
            Some(record) => records.behind(&record)?,
        };
        let mut found = None;
        if let Some(mut position) = behind {
            let floor = self.floor(stream)?;
            let mut believe = |_: &Record, frame: &Frame<'_>| is_admitted(floor, frame);
            let mut look = |record: &Record, _: &Frame<'_>| {
                if (record.first_entry..record.next_entry()).contains(&index) {
                    found = Some(Leaf::of(record));
                }
                Ok::<(), LogError>(())
            };
            let files = &self.files;
            let _end = scan_believed(files, stream, &mut position, &mut believe, &mut look)?;
        }
        Ok(found)
    }

    /// Where what is not older than the last opening that anchored the head of `stream` begins.
    fn floor(&self, stream: &StreamName) -> Result<Option<Floor>, LogError> {
        let floors = if let Some(floors) = self.floors.get() {
            floors
        } else {
            let floors = Verifier::floors(&self.places)?;
            self.floors.get_or_init(|| floors)
        };
        Ok(floors.get(stream).copied())
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
