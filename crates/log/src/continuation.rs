//! A log that continues one of an older version: its journal names the heads that the older log
//! signed last.
//!
//! `docs/format.md`, "Journal". Nothing of the older log is copied or changed. A reader who has
//! both logs checks that they belong together.

use std::fmt::Write as _;

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::Geometry;
use probity_format::limits::PAYLOAD_BYTES_MAX;
use probity_format::note::{SignedNote, VerifierKey};
use probity_format::{DecodeError, Version};

use crate::config::Options;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{read_checkpoint, read_geometry, read_history};
use crate::journal::{JournalEntry, action, from_hexadecimal, hexadecimal};
use crate::log_location::LogLocation;
use crate::{StreamConfig, StreamName};

/// The final signed state of a log that another one continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continued {
    origin: String,
    fingerprint: [u8; 32],
    last_key: VerifierKey,
    heads: Vec<Checkpoint>,
}

/// A log of an older version: its final signed state and its streams.
#[derive(Debug)]
#[non_exhaustive]
pub struct Older {
    /// The final signed state.
    pub continued: Continued,
    /// Its streams in order of creation, without the journal.
    pub streams: Vec<(StreamName, StreamConfig)>,
}

impl Older {
    /// Reads the log at `places`, which must be of an older version. It must be verified before:
    /// its content is believed here.
    ///
    /// # Errors
    /// [`LogError::Option`] where the log is of the newest version, or has more streams than one
    /// entry can name; errors of reading.
    pub fn read(places: &LogLocation) -> Result<Self, LogError> {
        let (files, geometry) = open(places)?;
        let refused = |reason: &str| LogError::Option {
            name: "the older log",
            reason: reason.to_owned(),
        };
        if geometry.version() == Version::NEWEST {
            return Err(refused(
                "is of the newest version: it is written on as it is",
            ));
        }
        let history = read_history(&files, &geometry, None)?;
        let mut heads = Vec::new();
        for (name, _) in &history.streams {
            heads.extend(head_of(&files, name)?);
        }
        let continued = Continued {
            origin: geometry.origin().to_owned(),
            fingerprint: geometry.fingerprint(),
            last_key: history.last_key().clone(),
            heads,
        };
        if continued.payload().len() > PAYLOAD_BYTES_MAX {
            return Err(refused("has more streams than one entry can name"));
        }
        let streams = history.streams.into_iter();
        let streams = streams.filter(|(name, _)| !name.is_built_in(geometry.version()));
        Ok(Self {
            continued,
            streams: streams.collect(),
        })
    }
}

impl Continued {
    /// Returns the log that the journal at `places` names as continued, as far as its checkpoint
    /// covers it; nothing where it names none.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn named_by(places: &LogLocation) -> Result<Option<Self>, LogError> {
        let (files, geometry) = open(places)?;
        Ok(read_history(&files, &geometry, None)?.continues)
    }

    /// The name of the older log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The heads of its streams, in order of creation.
    pub fn heads(&self) -> &[Checkpoint] {
        &self.heads
    }

    pub(crate) fn entry(&self) -> JournalEntry {
        JournalEntry {
            action: action::LOG_CONTINUE,
            key: self.origin.clone(),
            payload: self.payload(),
        }
    }

    fn payload(&self) -> String {
        let mut text = hexadecimal(&self.fingerprint);
        // Writing to a string cannot fail.
        let _infallible = write!(text, "\n{}\n", self.last_key.encode());
        for head in &self.heads {
            text.push_str(&head.encode());
        }
        text
    }

    /// Parses the continued log from an entry with this key and payload.
    pub(crate) fn parse(key: &str, payload: &str) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let malformed = || error("does not say which log is continued");
        let (fingerprint, rest) = payload.split_once('\n').ok_or_else(malformed)?;
        let (last_key, rest) = rest.split_once('\n').ok_or_else(malformed)?;
        let lines: Vec<&str> = rest.split_inclusive('\n').collect();
        let heads = lines.chunks(3);
        let heads: Result<_, _> = heads
            .map(|head| Checkpoint::parse(&head.concat()))
            .collect();
        let continued = Self {
            origin: key.to_owned(),
            fingerprint: from_hexadecimal(fingerprint).ok_or_else(malformed)?,
            last_key: VerifierKey::parse(last_key)?,
            heads: heads?,
        };
        if continued.last_key.name() != key || continued.payload() != payload {
            return Err(malformed());
        }
        Ok(continued)
    }
}

fn open(places: &LogLocation) -> Result<(Files, Geometry), LogError> {
    let files = Files::of_log(places, &Options::default());
    let geometry = read_geometry(&files, &places.path)?;
    Ok((files, geometry))
}

fn head_of(files: &Files, stream: &StreamName) -> Result<Option<Checkpoint>, LogError> {
    let Some(note) = read_checkpoint(files, stream)? else {
        return Ok(None);
    };
    let head = SignedNote::parse(note.as_bytes()).and_then(|note| Checkpoint::parse(note.text()));
    head.map(Some).map_err(|error| LogError::Broken {
        place: format!("streams/{stream}/checkpoint"),
        reason: error.to_string(),
    })
}
