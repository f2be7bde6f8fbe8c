//! Reads entries back, in order, in bounded memory, with or without a filter.

use std::path::Path;

use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::record::Record;
use probity_format::stream::{StreamId, StreamName};
use probity_format::{DecodeError, Entry, Outcome};

use crate::config::Options;
use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{read_geometry, read_history};
use crate::journal::History;
use crate::opener::{Opener, Opening};
use crate::places::Places;
use crate::scan::{Position, scan_believed};

/// Which entries are wanted; everything given must match.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Filter {
    /// Only this stream; otherwise every stream but the journal.
    pub stream: Option<StreamName>,
    /// Only entries that concern this subject.
    pub subject: Option<String>,
    /// Only entries with exactly this key.
    pub key: Option<Vec<u8>>,
    /// Only this action.
    pub action: Option<String>,
    /// Only this actor.
    pub actor: Option<String>,
    /// Only this purpose.
    pub purpose: Option<String>,
    /// Only this outcome.
    pub outcome: Option<Outcome>,
    /// Only at or after this time, in nanoseconds since 1970.
    pub from: Option<i64>,
    /// Only before this time, in nanoseconds since 1970.
    pub to: Option<i64>,
}

impl Filter {
    /// Whether `entry` is wanted; the stream is not looked at.
    pub fn matches(&self, entry: &Entry<'_>) -> bool {
        let time = entry.time.nanoseconds();
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        self.from.is_none_or(|from| time >= from)
            && self.to.is_none_or(|to| time < to)
            && is(&self.action, entry.action)
            && is(&self.actor, entry.actor)
            && is(&self.purpose, entry.purpose)
            && self.outcome.is_none_or(|outcome| outcome == entry.outcome)
            && self.key.as_ref().is_none_or(|key| key == entry.key)
            && self
                .subject
                .as_ref()
                .is_none_or(|subject| entry.subjects.iter().any(|found| found == subject))
    }

    /// Whether a frame with entries between these times can hold one that is wanted.
    fn reaches(&self, time_min: i64, time_max: i64) -> bool {
        self.from.is_none_or(|from| time_max >= from) && self.to.is_none_or(|to| time_min < to)
    }
}

/// An entry with its place.
#[non_exhaustive]
pub struct Found<'a> {
    /// The stream.
    pub stream: &'a StreamName,
    /// Index in the stream.
    pub index: u64,
    /// The entry; key, subjects and payload are empty where erased.
    pub entry: Entry<'a>,
    /// Whether the subject's key was destroyed.
    pub erased: bool,
}

/// A log open for reading. It sees what is durable, published or not, and disturbs no writer.
pub struct Reader {
    pub(crate) files: Files,
    pub(crate) geometry: Geometry,
    pub(crate) history: History,
    pub(crate) opener: Opener,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("origin", &self.geometry.origin())
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the log at `path` for reading.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path, root: &RootKey) -> Result<Self, LogError> {
        Self::open_at(&Places::new(path, None), root)
    }

    /// As [`Reader::open`], wherever the log is.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_at(places: &Places, root: &RootKey) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let opener = Opener::new(&files, root, &geometry)?;
        let history = read_history(&files, &geometry, &opener.master)?;
        Ok(Self {
            files,
            geometry,
            history,
            opener,
        })
    }

    /// The streams and their configurations, in order of creation.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamName, &crate::StreamConfig)> {
        self.history
            .streams
            .iter()
            .map(|(name, config)| (name, config))
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        self.geometry.origin()
    }

    /// Calls `visit` for each entry that `filter` wants, stream by stream, in order of index.
    ///
    /// Memory is bounded by one frame. What follows a torn tail is not read.
    ///
    /// # Errors
    /// [`LogError::NoStream`]; [`LogError::Broken`] where a frame does not open; what `visit` gives, which ends the reading.
    pub fn read<E: From<LogError>>(
        &self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(wanted) = &filter.stream
            && !self.history.streams.iter().any(|(name, _)| name == wanted)
        {
            return Err(E::from(LogError::NoStream {
                name: wanted.to_string(),
            }));
        }
        for (name, config) in &self.history.streams {
            let wanted = match &filter.stream {
                Some(wanted) => wanted == name,
                None => name.as_str() != StreamName::JOURNAL,
            };
            if wanted {
                let id = StreamId::new(&self.geometry.fingerprint(), name, config);
                self.read_stream(name, id, filter, visit)?;
            }
        }
        Ok(())
    }

    fn read_stream<E: From<LogError>>(
        &self,
        name: &StreamName,
        id: StreamId,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut opening = Opening::new(&self.opener, id);
        let mut position =
            Position::start(self.geometry.version(), id, self.geometry.fingerprint());
        let mut epochs = Epochs::new(&self.opener.master, id);
        // Behind what is signed anybody can have written: only what was sealed with the log's keys is read.
        let mut believe = |_: &Record, frame: &Frame<'_>| epochs.authenticate(frame);
        let mut read = |record: &Record, frame: &Frame<'_>| {
            if !filter.reaches(record.time_min, record.time_max) {
                return Ok(());
            }
            let broken = |error: DecodeError| LogError::Broken {
                place: format!("stream {name}, frame {}", record.frame),
                reason: error.to_string(),
            };
            let opened = opening.open(frame).map_err(broken)?;
            let result = opened.for_each(&mut |visited| {
                if !filter.matches(&visited.entry) {
                    return Ok(());
                }
                let offset = u64::try_from(visited.index).unwrap_or_default();
                let found = Found {
                    stream: name,
                    index: record.first_entry.saturating_add(offset),
                    entry: visited.entry,
                    erased: visited.erased,
                };
                visit(&found).map_err(Stopped::Visit)
            });
            result.map_err(|stopped| match stopped {
                Stopped::Frame(error) => E::from(broken(error)),
                Stopped::Visit(error) => error,
            })
        };
        scan_believed(&self.files, name, &mut position, &mut believe, &mut read).map(drop)
    }
}

/// What ended the reading of a frame.
enum Stopped<E> {
    /// The frame holds what none may.
    Frame(DecodeError),
    /// Whoever reads wants no more.
    Visit(E),
}

impl<E> From<DecodeError> for Stopped<E> {
    fn from(error: DecodeError) -> Self {
        Self::Frame(error)
    }
}
