//! Reads entries back, in order, in bounded memory, with or without a filter.

use std::path::Path;

use probity_format::content::Closed;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::VerifierKey;
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::{Entry, Outcome, Version};

use crate::config::Options;
use crate::error::{LogError, Missing};
use crate::files::{Files, shown};
use crate::filtering::{Past, Reading};
use crate::heads::Heads;
use crate::history::{read_geometry, read_history, read_history_with_copies};
use crate::journal::History;
use crate::keystore::SigningKeyState;
use crate::log_location::LogLocation;
use crate::opener::Opener;
use crate::repairs::Repair;
use crate::slots::SLOTS;
use crate::verify::{Fault, FaultClass, Subject, Unread, Verifier, VerifyOptions};
pub use crate::verify::{Gap, Unsigned};

/// Which entries are wanted; everything given must match.
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
    /// Whether nothing of it can be read but what outlives its subjects: all of them were erased.
    pub erased: bool,
    /// Who of its subjects was erased.
    pub closed: Closed,
}

/// A log open for reading. It sees what is durable, published or not, and disturbs no writer.
pub struct Reader {
    pub(crate) places: LogLocation,
    pub(crate) files: Files,
    pub(crate) geometry: Geometry,
    pub(crate) history: History,
    pub(crate) opener: Opener,
}

/// What reading behind damage left out, and what is wrong with the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// What verification says of the journal and of the streams that were read.
    pub faults: Vec<Fault>,
    /// Faults that are not listed because there are too many.
    pub faults_unlisted: u64,
    /// The frames that could not be read, stream by stream.
    pub gaps: Vec<Gap>,
}

impl Damage {
    /// Whether nothing was left out, and nothing is wrong with what was read.
    pub fn is_none(&self) -> bool {
        let mut faults = self.faults.iter();
        self.gaps.is_empty()
            && self.faults_unlisted == 0
            && faults.all(|fault| fault.class == FaultClass::Unknown)
    }

    /// How many entries were left out.
    pub fn missing(&self) -> Missing {
        let mut sum = Missing::default();
        for gap in &self.gaps {
            sum.entries = sum.entries.saturating_add(gap.missing.entries);
            sum.is_least |= gap.missing.is_least;
        }
        // Where the journal is damaged nobody knows which streams there were, and where nothing has the signed root, how many
        // entries.
        let is_vague = |fault: &Fault| match fault.class {
            FaultClass::Checkpoint
            | FaultClass::Fork
            | FaultClass::KeyChain
            | FaultClass::Rollback
            | FaultClass::Tree => true,
            // Of a damaged slot the sections are known that need it.
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
    /// Opens the log at `path` for reading, with the second copies of its heads in `path` with `.heads` behind.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path, root: &RootKey) -> Result<Self, LogError> {
        Self::open_at(&LogLocation::new(path, None), root)
    }

    /// As [`Reader::open`], wherever the log and the second copies of its heads are.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_at(places: &LogLocation, root: &RootKey) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let opener = Opener::new(&files, root, &geometry)?;
        let history = read_history_with_copies(&files, &copies(places), &geometry, &opener.master)?;
        let opener = opener.with_history(&history);
        Ok(Self {
            places: places.clone(),
            files,
            geometry,
            history,
            opener,
        })
    }

    /// As [`Reader::open_at`], also where the journal is damaged: for [`Reader::read_damaged`], which then says so.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_damaged(places: &LogLocation, root: &RootKey) -> Result<Self, LogError> {
        let files = Files::of_log(places, &Options::default());
        let geometry = read_geometry(&files, &places.path)?;
        let opener = Opener::new_past_damage(&files, root, &geometry)?;
        let read = read_history_with_copies(&files, &copies(places), &geometry, &opener.master);
        let history = match read {
            Err(LogError::Broken { .. }) => History::new(&geometry),
            history => history?,
        };
        let opener = opener.with_history(&history);
        Ok(Self {
            places: places.clone(),
            files,
            geometry,
            history,
            opener,
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

    /// Losses of frames that were durable and that nobody had signed for, as far as they were accepted: what these frames held is nowhere.
    pub fn losses(&self) -> impl Iterator<Item = &Repair> {
        self.history.losses.iter().map(|(loss, _)| loss)
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        self.geometry.origin()
    }

    /// Verifies the journal, and `stream` where one is named, without opening anything.
    ///
    /// # Errors
    /// [`LogError::Broken`] with the first fault; those of the storage.
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

    /// Names in the folder of streams that belong to no stream which the journal created, control characters escaped.
    ///
    /// # Errors
    /// Those of the storage; [`LogError::Broken`] where the journal is damaged.
    pub fn unknown_streams(&self) -> Result<Vec<String>, LogError> {
        let mut names = self.files.list("streams")?;
        // Read after the names: a stream is created in the journal before anything of it is written.
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
    /// Those of the storage; [`LogError::Broken`] where the journal is damaged.
    pub fn signing_key(&self) -> Result<SigningKeyState, LogError> {
        let master = &self.opener.master;
        let history = read_history(&self.files, &self.geometry, Some(master))?;
        self.opener.signing_key_state(&self.geometry, &history)
    }

    /// Calls `visit` for each entry that `filter` wants, stream by stream, in order of index.
    ///
    /// The journal and the streams that are wanted are verified first, without opening anything: up to the newest head that
    /// was signed, as the checkpoint, the journal and the second copy of the head say. Nothing is read where anything is
    /// wrong with them. Memory is bounded by one frame and what verification takes. What follows a torn tail is not read.
    ///
    /// # Errors
    /// [`LogError::NoStream`]; [`LogError::Damaged`] where what was signed for is not there or a frame does not open; what
    /// `visit` gives, which ends the reading.
    pub fn read<E: From<LogError>>(
        &self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let options = VerifyOptions::default();
        let verifier = Verifier::new(&self.places, &options)?;
        let version = self.geometry.version();
        let is_wanted = |name: &StreamName| filter.wants(name, version);
        let checked = verifier.check_for_reading(&self.opener, &is_wanted)?;
        if let Some(fault) = &checked.damage {
            let place = format!("stream {}, {}", fault.stream, fault.place);
            let reason = fault.detail.clone();
            return Err(self.damaged(filter, place, reason)?.into());
        }
        filter.check_exists(&checked.subjects)?;
        for subject in &checked.subjects {
            if !filter.wants(&subject.name, version) {
                continue;
            }
            let sealed = (subject.id, subject.config);
            let mut reading = Reading::new(self, &subject.name, sealed, filter, Past::Nothing);
            let mut epochs = self
                .opener
                .epochs(&subject.name, subject.id)
                .above(subject.floor());
            verifier.read_whole(subject, &mut epochs, &mut |record,
                                                             frame|
             -> Result<(), E> {
                let Err(unread) = reading.frame(record, frame, visit)? else {
                    return Ok(());
                };
                let place = format!("stream {}, frame {}", subject.name, record.frame);
                let reason = match unread {
                    Unread::Behind { reason, .. } => reason,
                    Unread::Sections(_) => "sections of the frame do not open".to_owned(),
                };
                Err(self.damaged(filter, place, reason)?.into())
            })?;
        }
        Ok(())
    }

    /// What reading with `filter` leaves out of a log of version 2 that is there: of the journal and the streams that are wanted, the
    /// frames that no checkpoint covers. In newer logs frames say who sealed them, and nothing that the log's keys sealed is left out.
    ///
    /// # Errors
    /// Those of the storage.
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

    /// As [`Reader::read`], but reads on behind damage, and gives what was left out and what is wrong.
    ///
    /// Entries whose records are damaged too come from frames that nothing signed stands behind.
    ///
    /// # Errors
    /// [`LogError::NoStream`]; those of the storage; what `visit` gives, which ends the reading.
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

    /// What the journal says now.
    pub(crate) fn read_history(&self) -> Result<History, LogError> {
        let (files, copies) = (&self.files, &copies(&self.places));
        read_history_with_copies(files, copies, &self.geometry, &self.opener.master)
    }

    /// The error for damage at `place`, with what cannot be read because of it and other damage.
    fn damaged(
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

/// The second copies of heads of the log at `places`.
fn copies(places: &LogLocation) -> Heads {
    Heads::new(Files::of_heads(places, &Options::default()))
}

impl Filter {
    /// Whether entries of stream `name` are wanted.
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
