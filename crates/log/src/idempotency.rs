//! Finds an entry that was appended before under the same idempotency key, so that it is not
//! written twice.
//!
//! `docs/durability.md`, "Idempotency keys".

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probity_format::entry::KeySeries;
use probity_format::frame::Frame;
use probity_format::row::{encode_row, row_bytes};
use probity_format::tree::{Hash, leaf_hash};
use probity_format::width::to_u64;
use probity_format::{Claimed, DecodeError, Digest, Entry, Subjects, Timestamp};

use crate::error::LogError;
use crate::history::read_history;
use crate::log_state::LogState;
use crate::opened::Opened;
use crate::opener::Opener;
use crate::opening::Opening;
use crate::records::Records;
use crate::run::Run;
use crate::segments::Identity;
use crate::stream::Stream;
use crate::tickets::Place;

/// Replaces the time, which is compared on its own.
const EPOCH: Timestamp = match Timestamp::from_nanoseconds(0) {
    Ok(epoch) => epoch,
    Err(_) => panic!("1970 is a time"),
};

/// The keyed entries of one stream. An entry without a key never looks at it.
#[derive(Debug)]
pub(crate) struct Once {
    /// Frames that the opening found. Until the window is read, no frame behind them holds a keyed
    /// entry.
    found: u64,
    /// The root of the tree over them.
    root: Hash,
    window: Mutex<Window>,
}

/// The caller's part of an entry, without its idempotency key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    /// Over everything but the time.
    hash: Hash,
    time: Timestamp,
    /// True when the log gave the time, because the caller did not.
    is_log_time: bool,
}

/// The last keyed entries of a stream, up to a number of them.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// True when it holds the stream's earlier entries; the first keyed append reads them.
    is_read: bool,
    /// True when entries are older than those that are there, and may have keys.
    has_older: bool,
    keys_max: usize,
    entries: HashMap<Digest, Known>,
    /// Their keys, oldest first.
    order: VecDeque<Digest>,
    /// Hashes names of subjects.
    names: RandomState,
}

/// An entry that has a key.
#[derive(Debug)]
pub(crate) struct Known {
    /// Nothing once one of its subjects was erased, since the entry is no longer complete.
    content: Option<Content>,
    place: Place,
    /// Hashes of the names of its subjects who are not erased, in an erasable stream.
    subjects: Vec<u64>,
}

impl Content {
    /// The caller's part of `entry`, as the log records it.
    pub(crate) fn of(entry: &Entry<'_>) -> Self {
        let said = Entry {
            time: EPOCH,
            taken: None,
            claimed: Claimed::NONE,
            idempotency: None,
            ..*entry
        };
        let mut row = vec![0; row_bytes(&said)];
        encode_row(&said, &mut row);
        Self {
            hash: leaf_hash(&row),
            time: entry.time,
            is_log_time: entry.taken == Some(entry.time),
        }
    }

    /// Returns whether both are the same; times that the log gave are not compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let both = self.is_log_time && other.is_log_time;
        self.hash == other.hash && (both || self.time == other.time)
    }
}

impl Known {
    /// Returns whether the entry has the same content as `content`.
    pub(crate) fn is_same(&self, content: &Content) -> bool {
        self.content.is_some_and(|said| said.is_same(content))
    }

    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }
}

impl Window {
    /// The entry with this key.
    pub(crate) fn find(&self, key: &Digest) -> Option<&Known> {
        self.entries.get(key)
    }

    /// Adds the newest entry, whose key is not there yet; drops the oldest when there are too many.
    pub(crate) fn add(
        &mut self,
        key: &Digest,
        content: Content,
        place: Place,
        subjects: Names<'_>,
    ) {
        let subjects = subjects.hashes(&self.names);
        let known = Known {
            content: Some(content),
            place,
            subjects,
        };
        let before = self.entries.insert(*key, known);
        debug_assert!(before.is_none(), "a key that is there stands for one entry");
        self.order.push_back(*key);
        while self.order.len() > self.keys_max {
            if let Some(oldest) = self.order.pop_front() {
                self.has_older = true;
                self.entries.remove(&oldest);
            }
        }
    }

    /// Returns whether entries are older than those that are there, and may have keys.
    pub(crate) const fn has_older(&self) -> bool {
        self.has_older
    }

    /// The greatest number of a key of `series` that is there.
    pub(crate) fn last_of(&self, series: &KeySeries) -> Option<u64> {
        self.order.iter().filter_map(|key| series.number(key)).max()
    }

    /// Adds an entry that is older than all others, unless a newer one has its key.
    fn add_older(&mut self, key: Digest, known: Known) {
        if self.entries.contains_key(&key) {
            return;
        }
        if self.is_full() {
            self.has_older = true;
            return;
        }
        self.entries.insert(key, known);
        self.order.push_front(key);
    }

    fn is_full(&self) -> bool {
        self.order.len() >= self.keys_max
    }
}

/// The subjects that an erasure makes the window forget an entry for.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a>(Subjects<'a>);

impl<'a> Names<'a> {
    /// The subjects of `entry` in `stream`: none, where nothing can be erased.
    pub(crate) const fn of(entry: &Entry<'a>, stream: &Stream) -> Self {
        Self(if stream.config.erasable {
            entry.subjects
        } else {
            Subjects::NONE
        })
    }

    fn hashes(self, names: &RandomState) -> Vec<u64> {
        self.0.iter().map(|name| names.hash_one(name)).collect()
    }
}

impl Once {
    /// Creates the entries of a stream with `found` frames, whose tree has `root`.
    pub(crate) fn new(found: u64, root: Hash) -> Self {
        Self {
            found,
            root,
            window: Mutex::default(),
        }
    }

    /// Makes the window forget the erased entries about `subject` before index `end`. For an entry
    /// about other subjects as well the key is kept. No new entry can be equal to it then.
    pub(crate) fn forget(&self, subject: &str, end: u64) {
        let mut window = self.lock();
        let name = window.names.hash_one(subject);
        window.entries.retain(|_, known| {
            let is_earlier = known.place.index().is_some_and(|at| at < end);
            if !is_earlier || !known.subjects.contains(&name) {
                return true;
            }
            known.content = None;
            known.subjects.retain(|other| *other != name);
            !known.subjects.is_empty()
        });
        let Window { entries, order, .. } = &mut *window;
        order.retain(|key| entries.contains_key(key));
    }

    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    /// The window of `stream`, locked; the first call reads it.
    ///
    /// # Errors
    /// When the end of the stream cannot be read: the keys are unknown then.
    pub(crate) fn window<'a>(
        &self,
        stream: &'a Stream,
    ) -> Result<MutexGuard<'a, Window>, LogError> {
        let mut window = stream.once.lock();
        if !window.is_read {
            *window = self.read_window(stream)?;
        }
        Ok(window)
    }

    /// Reads the frames that the opening found, from the last one back.
    fn read_window(&self, stream: &Stream) -> Result<Window, LogError> {
        let mut window = Window {
            is_read: true,
            keys_max: self.options.idempotency_keys_max,
            ..Window::default()
        };
        if stream.once.found == 0 {
            return Ok(window);
        }
        let files = self.files.for_reading();
        let wrapping = {
            let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(&keys.wrapping)
        };
        let opener = Opener::of_writer(&files, wrapping, &self.geometry)?;
        // After the slots: a key is destroyed after its erasure is signed.
        let history = read_history(&files, &self.geometry, Some(&opener.master))?;
        let opener = opener.with_history(&history);
        let mut opening = Opening::new(&opener, &stream.name, stream.id, stream.config);
        let identity = Identity::new(&self.geometry, &stream.name, &stream.config);
        // A record in the place of another would hide the keys of that frame.
        let Once { found, root, .. } = stream.once;
        let mut records = Records::of_tree(&files, &stream.name, identity, found, root);
        let mut bytes: u64 = 0;
        for number in (0..found).rev() {
            if window.is_full() || bytes >= self.options.idempotency_bytes_max {
                window.has_older = true;
                break;
            }
            let broken = |reason: String| LogError::Broken {
                place: format!("stream {}, frame {number}", stream.name),
                reason,
            };
            let record = records.of_frame(number)?;
            let record = record.ok_or_else(|| broken("has no record".into()))?;
            let stored = records.stored(&record)?;
            let stored = stored.ok_or_else(|| broken("is not what its record says".into()))?;
            bytes = bytes.saturating_add(u64::from(record.length));
            let opened = Frame::parse(&stored).and_then(|frame| opening.open(&frame));
            let opened = opened.map_err(|error| broken(error.to_string()))?;
            let known = keyed_entries(&opened, record.first_entry, stream, &window.names);
            for (key, known) in known
                .map_err(|error| broken(error.to_string()))?
                .into_iter()
                .rev()
            {
                window.add_older(key, known);
            }
        }
        Ok(window)
    }
}

/// The entries of a frame that have a key, in order; those of erased subjects show none.
fn keyed_entries(
    opened: &Opened,
    first_entry: u64,
    stream: &Stream,
    names: &RandomState,
) -> Result<Vec<(Digest, Known)>, DecodeError> {
    let run = Arc::new(Run::at(first_entry));
    let mut keyed = Vec::new();
    opened.for_each(&mut |visited| {
        if let Some(key) = visited.entry.idempotency {
            let place = Place {
                run: Arc::clone(&run),
                number: to_u64(visited.index),
            };
            let known = Known {
                content: Some(Content::of(&visited.entry)),
                place,
                subjects: Names::of(&visited.entry, stream).hashes(names),
            };
            keyed.push((*key, known));
        }
        Ok::<(), DecodeError>(())
    })?;
    Ok(keyed)
}
