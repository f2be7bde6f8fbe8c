//! Reads entries back, in order, in bounded memory, with or without a filter.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use probity_format::content::Closed;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::VerifierKey;
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::{Entry, Outcome, Version};

use crate::accepted::AcceptedLoss;
use crate::config::Options;
use crate::entries::CheckedStream;
pub use crate::entries::{Entries, OwnedEntry};
use crate::error::{LogError, Missing};
use crate::files::{Files, is_there, shown};
use crate::filtering::{Past, Reading};
use crate::heads::Heads;
use crate::history::{read_geometry, read_history};
use crate::journal::History;
use crate::keystore::{SigningKeyState, WITNESS, Witness};
use crate::log_location::LogLocation;
use crate::opener::Opener;
use crate::repairs::Repair;
use crate::slots::SLOTS;
use crate::verify::{Fault, FaultClass, Subject, Verifier, VerifyOptions};
pub use crate::verify::{Gap, Unsigned};

/// The conditions of a search; an entry must meet all of them.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Filter {
    /// Only this stream; otherwise every stream but the log's own.
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
    /// Returns whether `entry` matches; the stream is not checked.
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

    /// Returns whether `entry` is about the requested subject.
    pub(crate) fn names_subject(&self, entry: &Entry<'_>) -> bool {
        let wanted = self.subject.as_ref();
        wanted.is_some_and(|wanted| entry.subjects.iter().any(|found| found == wanted))
    }

    /// Returns whether a frame with entries between these times can hold a matching one.
    pub(crate) fn reaches(&self, time_min: i64, time_max: i64) -> bool {
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
    /// True when only the parts that outlive its subjects can be read: all of them were erased.
    pub erased: bool,
    /// The subjects that were erased.
    pub closed: Closed,
    /// The subjects whose keys are missing though nobody erased them. An actor or submitter that
    /// cannot be read is among them where there are such subjects.
    pub missing: Closed,
}

/// A log open for reading. It sees durable frames, published or not, and does not disturb a writer.
pub struct Reader {
    pub(crate) places: LogLocation,
    pub(crate) files: Files,
    pub(crate) geometry: Geometry,
    pub(crate) history: History,
    pub(crate) opener: Opener,
    /// The accepted losses, by their place in the journal, for which something was left out.
    met: Mutex<BTreeSet<usize>>,
}

/// The gaps of a read past damage, and the faults of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The faults that verification found in the journal and in the streams that were read.
    pub faults: Vec<Fault>,
    /// Faults that are not listed because there are too many.
    pub faults_unlisted: u64,
    /// The frames that could not be read, stream by stream.
    pub gaps: Vec<Gap>,
}

impl Damage {
    /// Returns whether nothing was left out, and no fault was found in what was read.
    pub fn is_none(&self) -> bool {
        let mut faults = self.faults.iter();
        self.gaps.is_empty()
            && self.faults_unlisted == 0
            && faults.all(|fault| fault.class == FaultClass::Unknown)
    }

    /// The number of entries that were left out.
    pub fn missing(&self) -> Missing {
        let mut sum = Missing::default();
        for gap in &self.gaps {
            sum.entries = sum.entries.saturating_add(gap.missing.entries);
            sum.is_least |= gap.missing.is_least;
        }
        // A damaged journal does not show which streams there were. Where nothing has the signed
        // root, the number of entries is unknown.
        let is_vague = |fault: &Fault| match fault.class {
            FaultClass::Checkpoint
            | FaultClass::Fork
            | FaultClass::KeyChain
            | FaultClass::Rollback
            | FaultClass::Tree => true,
            // The sections that need a damaged slot are known.
            _ => fault.stream == StreamName::JOURNAL && !fault.place.starts_with(SLOTS),
        };
        sum.is_least |= self.faults.iter().any(is_vague);
        sum
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("origin", &self.geometry.origin())
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the log at `path` for reading, with the second copies of its heads in `path` with
    /// `.heads` appended.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path, root: &RootKey) -> Result<Self, LogError> {
        Self::open_at(&LogLocation::new(path, None), root)
    }

    /// Opens a log like [`Reader::open`], at any places of the log and of the second copies of its
    /// heads.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_at(places: &LogLocation, root: &RootKey) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let opener = Opener::new(&files, root, &geometry)?;
        let history = read_history(&files, &geometry, Some(&opener.master))?;
        let opener = opener.with_history(&history);
        Ok(Self {
            places: places.clone(),
            files,
            geometry,
            history,
            opener,
            met: Mutex::default(),
        })
    }

    /// Opens a log like [`Reader::open_at`], also where the journal is damaged: for
    /// [`Reader::read_damaged`], which reports it.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_damaged(places: &LogLocation, root: &RootKey) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let opener = Opener::new_past_damage(&files, root, &geometry)?;
        let history = match read_history(&files, &geometry, Some(&opener.master)) {
            Err(LogError::Broken { .. }) => History::new(&geometry, files.checked_certificates()),
            history => history?,
        };
        let opener = opener.with_history(&history);
        Ok(Self {
            places: places.clone(),
            files,
            geometry,
            history,
            opener,
            met: Mutex::default(),
        })
    }

    /// The streams and their configurations, in order of creation.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamName, &StreamConfig)> {
        self.history
            .streams
            .iter()
            .map(|(name, config)| (name, config))
    }

    /// The log's first verifier key.
    pub const fn anchor(&self) -> &VerifierKey {
        self.geometry.anchor()
    }

    /// Accepted losses of frames that were durable and not signed for; the content of these frames
    /// is gone.
    pub fn losses(&self) -> impl Iterator<Item = &Repair> {
        self.accepted_losses().map(|accepted| &accepted.loss)
    }

    /// The losses like [`Reader::losses`], with the time at which each was accepted.
    pub fn accepted_losses(&self) -> impl Iterator<Item = &AcceptedLoss> {
        self.history.losses.iter()
    }

    /// Accepted losses of keys for which a reading of this reader has left entries out so far.
    pub fn losses_met(&self) -> Vec<&AcceptedLoss> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let losses = met
            .iter()
            .filter_map(|place| self.history.losses.get(*place));
        losses.collect()
    }

    /// Notes that sections of frame `frame` of `stream` were left out.
    pub(crate) fn meet_loss(&self, stream: &StreamName, frame: u64) {
        let losses = self.history.losses.iter();
        if let Some(place) = losses.clone().position(|it| it.closes(stream, frame)) {
            let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
            met.insert(place);
        }
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        self.geometry.origin()
    }

    /// Verifies the journal, and `stream` where one is named, without opening anything.
    ///
    /// # Errors
    /// [`LogError::Broken`] with the first fault; errors of the storage.
    pub fn check(&self, stream: Option<&StreamName>) -> Result<(), LogError> {
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let checked = verifier.check_for_reading(&self.opener, &|name| Some(name) == stream)?;
        checked.damage.map_or(Ok(()), |fault| {
            Err(LogError::Broken {
                place: format!("stream {}, {}", fault.stream, fault.place),
                reason: fault.detail,
            })
        })
    }

    /// Names in the folder of streams that belong to no stream which the journal created, control
    /// characters escaped.
    ///
    /// # Errors
    /// Errors of the storage; [`LogError::Broken`] where the journal is damaged.
    pub fn unknown_streams(&self) -> Result<Vec<String>, LogError> {
        let mut names = self.files.list("streams")?;
        // Read after the names: a stream is created in the journal before anything of it is
        // written.
        let history = self.read_history()?;
        names.retain(|name| {
            let mut streams = history.streams.iter();
            !streams.any(|(known, _)| known.as_str() == name)
        });
        Ok(names.iter().map(|name| shown(name)).collect())
    }

    /// The key in the folder of keys that signs, as the journal knows it.
    ///
    /// # Errors
    /// Errors of the storage; [`LogError::Broken`] where the journal is damaged.
    pub fn signing_key(&self) -> Result<SigningKeyState, LogError> {
        let heads = Heads::new(Files::of_heads(&self.places, &Options::default())?);
        let (state, _) = self.opener.signing_key(&self.geometry, &heads)?;
        Ok(state)
    }

    /// The fault of the file `keys/witness.key`, with its meaning and remedy, if it is not the key
    /// that the log's geometry names.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn witness_fault(&self) -> Result<Option<String>, LogError> {
        let witness = self.opener.witness(&self.geometry)?;
        Ok(witness.and_then(|witness| witness.reason()))
    }

    /// The fault of that file as far as it shows without the root key: where it is missing.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn witness_missing(places: &LogLocation) -> Result<Option<String>, LogError> {
        let is_there = is_there(&Files::of_log(places, &Options::default()), WITNESS)?;
        Ok(Witness::Missing.reason().filter(|_| !is_there))
    }

    /// Calls `visit` for each entry that matches `filter`, stream by stream, in order of index.
    ///
    /// The journal and the requested streams are verified first, without opening anything.
    /// Verification goes up to the newest signed head in checkpoint, journal and second copy.
    /// Nothing is read where it finds a fault. Memory is bounded by one frame and the needs of
    /// verification. Bytes behind a torn tail are not read.
    ///
    /// # Errors
    /// [`LogError::NoStream`]; [`LogError::Damaged`] where signed content is missing or a frame
    /// does not open; errors of `visit`, which end the reading.
    pub fn read<E: From<LogError>>(
        &self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for subject in self.checked(filter)? {
            let mut stream = CheckedStream::new(self, &subject, filter)?;
            while stream.read_frame(filter, visit)? {}
        }
        Ok(())
    }

    /// Iterates over the entries that match `filter`, like [`Reader::read`]: each is a copy that
    /// outlives the next.
    ///
    /// The first call of `next` verifies the journal and the requested streams. The iterator ends
    /// silently only behind the last entry: where one is damaged or missing, the error comes in its
    /// place, and nothing after it. No entry of a frame is given before all of the frame opened.
    /// Memory is bounded as for [`Reader::read`], and by the entries of one frame.
    ///
    /// ```no_run
    /// # use probity_log::reader::{Filter, Reader};
    /// # fn read(reader: &Reader) -> Result<(), probity_log::LogError> {
    /// for entry in reader.iter(&Filter::default()) {
    ///     let entry = entry?;
    ///     println!("{} of {}: {}", entry.index(), entry.stream(), entry.entry().action);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn iter(&self, filter: &Filter) -> Entries<'_> {
        Entries::new(self, filter.clone())
    }

    /// Verifies the journal and the requested streams, and returns the latter, each with the head
    /// that bounds its reading.
    pub(crate) fn checked(&self, filter: &Filter) -> Result<Vec<Subject>, LogError> {
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let version = self.geometry.version();
        let is_wanted = |name: &StreamName| filter.wants(name, version);
        let checked = verifier.check_for_reading(&self.opener, &is_wanted)?;
        if let Some(fault) = &checked.damage {
            let place = format!("stream {}, {}", fault.stream, fault.place);
            return Err(self.damaged(filter, place, fault.detail.clone())?);
        }
        filter.check_exists(&checked.subjects)?;
        let mut subjects = checked.subjects;
        subjects.retain(|subject| is_wanted(&subject.name));
        for subject in &mut subjects {
            subject.head = verifier.head_to_read(subject);
        }
        Ok(subjects)
    }

    /// The frames of a version 2 log that reading with `filter` leaves out: those of the journal
    /// and the requested streams that no checkpoint covers. In newer logs frames say who sealed
    /// them, and every frame that the log's keys sealed is read.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn unsigned(&self, filter: &Filter) -> Result<Vec<Unsigned>, LogError> {
        let version = self.geometry.version();
        if version != Version::V2 {
            return Ok(Vec::new());
        }
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let is_wanted = |name: &StreamName| filter.wants(name, version);
        let checked = verifier.check_for_reading(&self.opener, &is_wanted)?;
        let mut reports = checked.reports;
        reports.retain(|stream| stream.unpublished_frames > 0);
        let unsigned = reports.into_iter().map(|stream| Unsigned {
            frames: stream.unpublished_frames,
            bytes: stream.unsigned_bytes.saturating_sub(stream.tail_bytes),
            stream: stream.name,
        });
        Ok(unsigned.collect())
    }

    /// Reads entries like [`Reader::read`], but continues past damage. Returns the gaps and the
    /// faults.
    ///
    /// Entries whose records are damaged too come from frames that nothing signed confirms.
    ///
    /// # Errors
    /// [`LogError::NoStream`]; errors of the storage; errors of `visit`, which end the reading.
    pub fn read_damaged<E: From<LogError>>(
        &self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<Damage, E> {
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let version = self.geometry.version();
        let is_wanted = |name: &StreamName| filter.wants(name, version);
        let checked = verifier.check_for_reading(&self.opener, &is_wanted)?;
        if checked.damage.is_none() {
            filter.check_exists(&checked.subjects)?;
        }
        let slots = self.opener.damaged_slots();
        let mut faults: Vec<Fault> = slots.into_iter().map(Fault::of_slot).collect();
        faults.extend(checked.faults);
        let mut damage = Damage {
            faults,
            faults_unlisted: checked.faults_unlisted,
            gaps: Vec::new(),
        };
        for mut subject in checked.subjects {
            if !filter.wants(&subject.name, version) {
                continue;
            }
            let (name, id) = (subject.name.clone(), subject.id);
            let sealed = (id, subject.config);
            let mut reading = Reading::new(self, &name, sealed, filter, Past::Damage);
            let mut epochs = self.opener.epochs(&name, id).above(subject.floor());
            let gaps = verifier.read_damaged(&mut subject, &mut epochs, &mut |record, frame| {
                reading.frame(record, frame, visit)
            })?;
            damage.gaps.extend(gaps);
        }
        Ok(damage)
    }

    /// Reads the journal as it is now.
    pub(crate) fn read_history(&self) -> Result<History, LogError> {
        read_history(&self.files, &self.geometry, Some(&self.opener.master))
    }

    /// The error for damage at `place`, with the entries that this and other damage make
    /// unreadable.
    pub(crate) fn damaged(
        &self,
        filter: &Filter,
        place: String,
        reason: String,
    ) -> Result<LogError, LogError> {
        // Frames that no wanted entry can be in count too: their entries are unknown.
        let all = Filter {
            stream: filter.stream.clone(),
            ..Filter::default()
        };
        let damage = self.read_damaged::<LogError>(&all, &mut |_| Ok(()))?;
        Ok(LogError::Damaged {
            place,
            reason,
            missing: damage.missing(),
        })
    }
}

impl Filter {
    /// Returns whether entries of stream `name` match.
    fn wants(&self, name: &StreamName, version: Version) -> bool {
        match &self.stream {
            Some(wanted) => wanted == name,
            None => !name.is_built_in(version),
        }
    }

    fn check_exists(&self, subjects: &[Subject]) -> Result<(), LogError> {
        let exists = |wanted: &StreamName| subjects.iter().any(|found| found.name == *wanted);
        match &self.stream {
            Some(wanted) if !exists(wanted) => Err(LogError::NoStream {
                name: wanted.to_string(),
            }),
            _ => Ok(()),
        }
    }
}
