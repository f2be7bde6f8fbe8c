//! The streams of an open log, and the writers of the two that the log itself appends to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use probity_format::Version;
use probity_format::stream::{StreamConfig, StreamId, StreamName};

use crate::durable::DurableNote;
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::heads_writer::HeadsWriter;
use crate::journal_writer::JournalWriter;
use crate::log_state::LogState;
use crate::stream::{Stream, lock};

/// Every stream of a log. Streams are added and never removed.
#[derive(Debug)]
pub(crate) struct Streams {
    all: RwLock<BTreeMap<StreamName, Arc<Stream>>>,
    journal: Mutex<JournalWriter>,
    /// The writer of anchored heads; locked after the journal where both are.
    heads: Mutex<HeadsWriter>,
}

impl Streams {
    pub(crate) fn new(
        all: BTreeMap<StreamName, Arc<Stream>>,
        journal: JournalWriter,
        heads: HeadsWriter,
    ) -> Self {
        Self {
            all: RwLock::new(all),
            journal: Mutex::new(journal),
            heads: Mutex::new(heads),
        }
    }

    /// The writer of the stream `journal`, locked.
    pub(crate) fn journal(&self) -> MutexGuard<'_, JournalWriter> {
        lock(&self.journal)
    }

    /// The writer of the stream `heads`, locked.
    pub(crate) fn heads(&self) -> MutexGuard<'_, HeadsWriter> {
        lock(&self.heads)
    }

    pub(crate) fn find(&self, name: &StreamName) -> Option<Arc<Stream>> {
        self.read().get(name).map(Arc::clone)
    }

    /// Every stream, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<Stream>> {
        self.read().values().map(Arc::clone).collect()
    }

    /// Every stream but those that the log itself appends to.
    pub(crate) fn content(&self) -> Vec<Arc<Stream>> {
        let mut streams = self.all();
        streams.retain(|stream| !stream.name.is_built_in(Version::NEWEST));
        streams
    }

    pub(crate) fn insert(&self, stream: Arc<Stream>) {
        let mut streams = self.all.write().unwrap_or_else(PoisonError::into_inner);
        streams.insert(stream.name.clone(), stream);
    }

    /// Notes the durable frames of every stream, where they are not noted.
    pub(crate) fn note_durable(&self, files: &Files) -> Result<(), LogError> {
        for stream in self.all() {
            stream.note_durable(files)?;
        }
        Ok(())
    }

    /// The note of durable frames of the stream that is created next.
    fn next_note(&self) -> Result<DurableNote, LogError> {
        let streams = self.read();
        // Streams are never removed: their count is the number of the next one.
        let ordinal = u64::try_from(streams.len()).ok();
        let ordinal = ordinal.ok_or(LogError::Defect {
            what: "more streams are open than a count holds",
        })?;
        let journal = streams.get(&StreamName::journal());
        let journal = journal.ok_or_else(|| LogError::NoStream {
            name: StreamName::JOURNAL.into(),
        })?;
        Ok(journal.note_of(ordinal))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<StreamName, Arc<Stream>>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    /// A stream without entries, to be inserted once the journal records its creation.
    pub(crate) fn empty_stream(
        &self,
        name: &StreamName,
        config: StreamConfig,
    ) -> Result<Arc<Stream>, LogError> {
        let id = StreamId::new(&self.geometry.fingerprint(), name, &config);
        let origin = self.geometry.stream_origin(name.as_str());
        self.check_vacant(name)?;
        self.check_no_copy(name, &origin)?;
        let note = self.streams.next_note()?;
        let stream = Stream::new(name.clone(), config, id, origin, note, Stream::empty());
        Ok(Arc::new(stream))
    }

    /// Checks that nothing of a new stream exists. The journal creates a stream before anything of
    /// it is written, so existing files are foreign.
    fn check_vacant(&self, name: &StreamName) -> Result<(), LogError> {
        let place = format!("streams/{name}");
        match self.files.list(&place) {
            Ok(found) if found.is_empty() => Ok(()),
            Err(error) if !is_strange(&error) => Err(error),
            _ => Err(LogError::Broken {
                place,
                reason: "is there already, though the journal never created the stream; move it out of the log, and keep it".into(),
            }),
        }
    }

    /// Checks that no second copy of a new stream exists. One under its own name may be the only
    /// trace of an older journal or of a fork, and is to be kept.
    fn check_no_copy(&self, name: &StreamName, origin: &str) -> Result<(), LogError> {
        self.publisher.heads.check_own(name, origin)?;
        let Some(note) = self.publisher.heads.load(name)? else {
            return Ok(());
        };
        let is_own = note.split(|byte| *byte == b'\n').next() == Some(origin.as_bytes());
        let reason = if is_own {
            "is a head of this stream, though the journal never created it: the journal is an older one, \
             the log was written elsewhere too, or another log has its name; \
             keep the copy, and go on from the newest copy of the whole log"
        } else {
            "is there already, though the journal never created the stream, and is no head of it: \
             verify the log, then move the copy away"
        };
        Err(LogError::Broken {
            place: format!("second copy of the head of stream {name}"),
            reason: reason.into(),
        })
    }
}
