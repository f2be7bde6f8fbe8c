//! A log that continues one of an older version: its journal names the heads that the older log
//! signed last.
//!
//! `docs/format.md`, "Journal". Nothing of the older log is copied or changed. A reader who has
//! both logs checks that they belong together.

use std::fmt::Write as _;

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::limits::PAYLOAD_BYTES_MAX;
use probity_format::note::{SignedNote, VerifierKey};
use probity_format::{DecodeError, Version};

use crate::config::Options;
use crate::error::LogError;
use crate::files::Files;
use crate::history::{read_checkpoint, read_geometry, read_history, read_history_begun};
use crate::journal::{from_hexadecimal, hexadecimal};
use crate::journal_entry::{JournalEntry, action};
use crate::keystore::KeyStore;
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

    /// Returns the log that the journal at `places` names as continued, as its writer knows it:
    /// signed for or not in the very first frame, which a creation that ended early leaves. `root`
    /// shows who wrote that frame.
    ///
    /// # Errors
    /// [`LogError::WrongKey`]; errors of reading.
    pub fn named_by_writer(places: &LogLocation, root: &RootKey) -> Result<Option<Self>, LogError> {
        let (files, geometry) = open(places)?;
        let (master, _) = KeyStore::open_for_reading(&files, root, &geometry)?;
        Ok(read_history_begun(&files, &geometry, &master)?.continues)
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
            purpose: "",
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use probity_format::keys::Secret;

    use super::*;
    use crate::clock::SystemClock;
    use crate::creation::{First, create};
    use crate::log::Log;
    use crate::storage::{FaultPlan, Faulty, Memory};

    fn root() -> RootKey {
        RootKey::new(Secret::new([7; 32]))
    }

    fn places(log: Arc<Faulty<Memory>>, heads: Memory) -> LogLocation {
        LogLocation::on(log, Arc::new(heads), "the log")
    }

    fn quiet(memory: Memory) -> Arc<Faulty<Memory>> {
        Arc::new(Faulty::new(memory, FaultPlan::none()))
    }

    /// An upgrade that was killed before the new journal was published could not be gone on with:
    /// its first frame, which names the older log, was believed by the writer alone.
    #[test]
    fn a_creation_that_ended_early_names_the_log_that_it_continues() {
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v2/section");
        let continued = Older::read(&LogLocation::new(&old, None))
            .unwrap()
            .continued;
        let (memory, heads) = (Memory::new(), Memory::new());
        let world = quiet(memory.clone());
        let moments = Arc::new(Mutex::new(Vec::new()));
        for number in 0..400 {
            let (memory, heads, moments) = (memory.clone(), heads.clone(), Arc::clone(&moments));
            world.before(number, move || {
                let image = (number, memory.clone_live(), heads.clone_live());
                moments.lock().unwrap().push(image);
            });
        }
        let first = First {
            config: StreamConfig::default(),
            continued: Some(&continued),
        };
        let new = places(Arc::clone(&world), heads);
        let (options, clock) = (Options::default(), || Arc::new(SystemClock::new()));
        create(&new, "example.com/new", &root(), &first, options, clock())
            .unwrap()
            .close()
            .unwrap();
        let (mut begun, mut keyless) = (0, 0);
        for (number, image, heads) in std::mem::take(&mut *moments.lock().unwrap()) {
            let places = places(quiet(image.clone_live()), heads.clone_live());
            let opened = Log::open_at(&places, &root(), Options::default(), clock());
            let Ok(log) = opened else { continue };
            log.close().unwrap();
            begun += 1;
            let places = self::places(quiet(image), heads);
            let named = Continued::named_by_writer(&places, &root()).unwrap();
            assert_eq!(named.as_ref(), Some(&continued), "before call {number}");
            keyless += usize::from(Continued::named_by(&places).unwrap().is_some());
            let other = RootKey::new(Secret::new([8; 32]));
            let refused = Continued::named_by_writer(&places, &other).unwrap_err();
            assert!(matches!(refused, LogError::WrongKey), "{refused}");
        }
        assert!(keyless > 0 && keyless < begun, "{keyless} of {begun}");
    }
}
