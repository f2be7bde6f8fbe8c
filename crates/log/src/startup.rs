//! Opens a log for writing: repairs the leftovers of a crash, moves the signing key on, starts the
//! threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use probity_format::Version;
use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, RootKey};
use probity_format::limits::{ENTRY_BYTES_MAX, FRAME_ENTRIES_MAX};
use probity_format::note::SigningKey;
use probity_format::stream::StreamName;
use probity_format::wrap::WrappingKey;

use crate::anchored::{Anchored, AnchoredHeads, bound_heads, read_anchored};
use crate::clock::{Clock, SystemClock};
use crate::config::Options;
use crate::continuation::Continued;
use crate::creation::First;
use crate::durable::{BEYOND, DURABLE, DurableNote, DurableNotes, Noted, NotesFound};
use crate::epochs::{Certificates, CertifiedEpochs, Epochs};
use crate::error::LogError;
use crate::files::Files;
use crate::found_slots::FoundSlots;
use crate::given_up::GivenUpSubjects;
use crate::heads::Heads;
use crate::heads_writer::HeadsWriter;
use crate::history::{read_geometry, read_history_to_write};
use crate::journal::History;
use crate::journal_entry::JournalEntry;
use crate::journal_writer::JournalWriter;
use crate::keys_missed::KeysMissed;
use crate::keystore::{KeyStore, SigningKeyState, signer_of_key};
use crate::log::{Log, Threads};
use crate::log_location::LogLocation;
use crate::log_state::LogState;
use crate::opener::Opener;
use crate::opening::Opening;
use crate::publisher::Publisher;
use crate::queue::Queue;
use crate::recovery::Recovery;
use crate::repairs::{self, RecoveryReport, Repair};
use crate::segments::Identity;
use crate::settling::{FoundStream, check_copies, refuse_losses};
use crate::storage::Lock;
use crate::stream::Stream;
use crate::streams::Streams;
use crate::subjects::SubjectStore;
use crate::{committer, publisher, sealer, ticker};

/// Most keyed entries that a stream may remember: 3 GB or so.
const IDEMPOTENCY_KEYS_LIMIT: usize = 1 << 24;

/// Entries of repairs in the frame with the certificate, of 256 KiB at most each; together with the
/// rest of the frame they fit.
const REPAIRS_WITH_CERTIFICATE: usize = 8;

/// The file that the one writer holds locked.
pub(crate) const LOCK: &str = "lock";

impl Log {
    /// Opens the log at `path` for writing, and repairs the leftovers of a crash.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(path: &Path, root: &RootKey, options: Options) -> Result<Self, LogError> {
        let places = LogLocation::new(path, options.heads.as_ref());
        Self::open_at(&places, root, options, Arc::new(SystemClock::new()))
    }

    /// Opens a log like [`Log::open`], at any places and with any clock.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_at(
        places: &LogLocation,
        root: &RootKey,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LogError> {
        check_options(&options)?;
        let files = Files::of_log(places, &options);
        // Before the lock, which would be a file of ours in somebody else's folder.
        read_geometry(&files, &places.path)?;
        let lock = lock(places, &files)?;
        open_locked(places, lock, root, options, clock, None)
    }
}

/// Opens the log at `places`, which is locked; `first` is the initial content of a new log.
pub(crate) fn open_locked(
    places: &LogLocation,
    lock: Box<dyn Lock>,
    root: &RootKey,
    options: Options,
    clock: Arc<dyn Clock>,
    first: Option<&First<'_>>,
) -> Result<Log, LogError> {
    let files = Files::of_log(places, &options);
    let geometry = read_geometry(&files, &places.path)?;
    let copies = Files::of_heads(places, &options)?;
    files.sweep()?;
    // Before the version is trusted: the keys are bound to the geometry, so that an edited one
    // shows as another log's.
    let mut keys = KeyStore::open(&files, root, &geometry)?;
    if geometry.version() != Version::NEWEST {
        return Err(LogError::OlderVersion {
            found: geometry.version(),
        });
    }
    let witness = keys.witness(&files, &geometry)?;
    // Before anything is removed there: another log may be writing it.
    places.check_heads(&geometry)?;
    let heads = Heads::swept(copies)?;
    let history = read_history_to_write(&files, &heads, &geometry, (&keys.master, &keys.wrapping))?;
    let certified = CertifiedEpochs::of(&history);
    let mut repairs = RecoveryReport::resume(&files, keys.master.note_key(), &history)?;
    let notes = NotesFound::read(&files, DurableNotes::new(&keys.master, certified.newest()))?;
    let anchored = read_anchored(
        &files,
        &heads,
        &geometry,
        &history,
        (&keys.master, &certified),
        &mut repairs,
    )?;
    let recovering = Recovering {
        files: &files,
        heads: &heads,
        geometry: &geometry,
        history: &history,
        anchored: &with_bound_heads(anchored.heads.clone(), &geometry, &history)?,
        named: &anchored,
        master: &keys.master,
        notes: &notes,
        certified: &certified,
        wrapping: &keys.wrapping,
        witness: &witness,
        accept_loss: options.accept_loss,
        needs_copies: !options.accept_missing_copies,
    };
    let mut successor = None;
    let (streams, subjects) = recovering.recover(&mut repairs, || {
        // If no key can sign, nothing is changed. A log without a journal does not exist yet.
        if history.frames() > 0 || keys.is_stand_in() {
            successor = keys.certified_successor(&files, geometry.origin(), &history)?;
        }
        Ok(())
    })?;
    let own = |name: StreamName| built_in(&streams, &name, places);
    let (journal, heads_stream) = (own(StreamName::journal())?, own(StreamName::heads())?);
    let first = first_of(&journal, first, places)?;
    if let Some(successor) = successor {
        keys.promote(&files, successor)?;
    }
    let subjects = SubjectStore::open(&files, subjects, &history, &mut repairs)?;
    let queue = Queue::new(&options)?;
    let journal = JournalWriter::new(journal, &history)?;
    let anchors = HeadsWriter::new(heads_stream, anchored.heads)?;
    let core = Arc::new(LogState::new(
        options,
        geometry,
        files,
        keys,
        subjects,
        clock,
        queue,
        Streams::new(streams, journal, anchors),
        Publisher::new(heads, witness, lock),
    ));
    begin(core, first, repairs)
}

/// Begins the opening in the journal and starts the threads.
fn begin(
    core: Arc<LogState>,
    first: Option<&First<'_>>,
    mut repairs: RecoveryReport,
) -> Result<Log, LogError> {
    let repaired = repairs.distinct();
    begin_journal(&core, first, &repaired, &mut repairs)?;
    repairs.reported(&core.files)?;
    // The threads that were started end when they see the poison.
    let threads = start(&core).map_err(|error| core.fail(error))?;
    Ok(Log::new(core, threads, repaired))
}

/// A stream that the log itself writes.
fn built_in(
    streams: &BTreeMap<StreamName, Arc<Stream>>,
    name: &StreamName,
    places: &LogLocation,
) -> Result<Arc<Stream>, LogError> {
    let stream = streams.get(name).map(Arc::clone);
    stream.ok_or_else(|| LogError::NotALog {
        path: places.path.clone(),
    })
}

/// The initial content of the log, where it has none yet.
fn first_of<'a>(
    journal: &Stream,
    first: Option<&'a First<'a>>,
    places: &LogLocation,
) -> Result<Option<&'a First<'a>>, LogError> {
    let is_new = journal.head().0 == 0;
    if is_new && first.is_none() {
        return Err(LogError::Unfinished {
            path: places.path.clone(),
        });
    }
    Ok(first.filter(|_| is_new))
}

pub(crate) fn lock(places: &LogLocation, files: &Files) -> Result<Box<dyn Lock>, LogError> {
    files
        .attempt("lock", LOCK, |storage| storage.lock(LOCK))?
        .ok_or_else(|| LogError::Locked {
            path: places.path.clone(),
        })
}

/// Returns `anchored`, with the head of the stream `heads` itself that the last certificate binds.
fn with_bound_heads(
    mut anchored: Anchored,
    geometry: &Geometry,
    history: &History,
) -> Result<Anchored, LogError> {
    if let Some(head) = bound_heads(geometry, history)? {
        anchored.insert(head.origin().to_owned(), head);
    }
    Ok(anchored)
}

/// Checks that the journal was read to its end: otherwise streams and erasures would be unknown.
fn check_read(history: &History, frames: u64) -> Result<(), LogError> {
    let read = history.frames();
    if read == frames {
        return Ok(());
    }
    Err(LogError::Broken {
        place: "segments of stream journal".into(),
        reason: format!("frame {read} is damaged, {frames} were signed for"),
    })
}

/// The inputs for the recovery of a log's streams.
struct Recovering<'a> {
    files: &'a Files,
    heads: &'a Heads,
    geometry: &'a Geometry,
    history: &'a History,
    anchored: &'a Anchored,
    /// The content of `heads`.
    named: &'a AnchoredHeads,
    master: &'a MasterKey,
    notes: &'a NotesFound,
    certified: &'a CertifiedEpochs,
    wrapping: &'a Arc<WrappingKey>,
    witness: &'a SigningKey,
    accept_loss: bool,
    /// True when a loss is accepted only with the second copies there.
    needs_copies: bool,
}

impl Recovering<'_> {
    /// Finds all streams and the slots of subjects before anything of them is changed; `may_change`
    /// is then asked last.
    fn recover(
        &self,
        report: &mut RecoveryReport,
        may_change: impl FnOnce() -> Result<(), LogError>,
    ) -> Result<(BTreeMap<StreamName, Arc<Stream>>, FoundSlots), LogError> {
        let mut slots = FoundSlots::read(self.files, self.wrapping, self.history)?;
        let (opener, again);
        opener = self.opener(&slots)?;
        let (mut found, mut missed) = self.find(&opener)?;
        if self.history.short_of.is_some() {
            return Err(LogError::Broken {
                place: repairs::PENDING.into(),
                reason: repairs::BEYOND.into(),
            });
        }
        let mut is_back = false;
        if let Err(refused) = slots.check(self.history, self.accept_loss) {
            let Some(back) = self.put_back(&mut found)? else {
                return Err(refused);
            };
            slots = back;
            again = self.opener(&slots)?;
            (found, missed) = self.find(&again)?;
            // Without the keys made since, they are not the slots of this log.
            if missed.subjects() > 0 {
                return Err(refused);
            }
            is_back = true;
        }
        if !self.accept_loss {
            refuse_losses(&found, &missed, self.history)?;
        }
        if self.needs_copies {
            check_copies(&found, &missed)?;
        }
        may_change()?;
        missed.accept(self.files, report)?;
        slots.leave_out(missed.subjects());
        if is_back || missed.subjects() > 0 {
            slots.note(self.history, report);
        }
        let mut streams = BTreeMap::new();
        for (ordinal, ((name, config), found)) in (0..).zip(self.history.streams.iter().zip(found))
        {
            let (id, origin) = (found.recovery.identity.id, found.recovery.origin.clone());
            let is_lossless = found.is_lossless;
            let signed_size = found.signed_size;
            let found = found.settle(self.witness, report)?;
            let note = DurableNote::new(self.notes.notes(), ordinal);
            let stream = Stream::new(name.clone(), *config, id, origin, note, found);
            if name.as_str() == StreamName::JOURNAL {
                self.finish_begun(&stream, signed_size)?;
            }
            // Until the journal records the loss, only the note shows it. Should this opening end
            // before, the next one must miss the frames too.
            if is_lossless {
                stream.note_durable(self.files)?;
            }
            streams.insert(name.clone(), Arc::new(stream));
        }
        self.notes.settle(self.files, self.history.streams.len())?;
        Ok((streams, slots))
    }

    /// Publishes the journal where an earlier opening was about to, and neither checkpoint nor
    /// second copy covers more than `signed` frames: somebody may hold the head that it signed.
    ///
    /// As with a second copy ahead of the checkpoint, no note of durable frames is written before.
    fn finish_begun(&self, journal: &Stream, signed: u64) -> Result<(), LogError> {
        let (size, _) = journal.head();
        if self.history.begun.is_none_or(|begun| begun <= signed) {
            return Ok(());
        }
        // The key of the last certificate within these frames signs for them.
        let place = self.history.certificates_within(size);
        let key = self.history.keys.get(place).map(|(key, _)| key);
        let key = key.unwrap_or_else(|| self.history.last_key());
        let signer = signer_of_key(self.files, self.wrapping, &journal.origin, key)?;
        let Some(signer) = signer else {
            let (files, name) = (self.files, &journal.origin);
            let state = SigningKeyState::read(files, self.wrapping, name, self.history)?;
            return Err(state.error());
        };
        journal.withhold_notes();
        let witness = Some(self.witness);
        journal.publish(self.files, self.heads, &signer, witness, &|| Ok(()))?;
        journal.release_notes();
        Ok(())
    }

    /// Checks that the frames which the journal's unsigned end calls lost are gone.
    fn check_losses(&self, name: &StreamName, frames: u64) -> Result<(), LogError> {
        match self.history.unsigned_loss(name) {
            Some(lost) if lost.loss.from < frames => Err(LogError::Broken {
                place: format!("stream journal, frame {}", lost.frame),
                reason: lost.refused(),
            }),
            _ => Ok(()),
        }
    }

    /// The frame of stream `name` from which on no log writes what is there, if it is known.
    fn end_of(&self, name: &StreamName) -> Option<u64> {
        match name.as_str() {
            StreamName::JOURNAL => Some(self.history.frames()),
            StreamName::HEADS => self.named.end,
            _ => None,
        }
    }

    /// The keys of the subjects as the opening keeps them.
    fn opener(&self, slots: &FoundSlots) -> Result<Opener, LogError> {
        let opener = Opener::of_writer(self.files, Arc::clone(self.wrapping), self.geometry)?;
        Ok(opener.with_history(self.history).without(&slots.unkept))
    }

    /// The slots with keys that were put back, if that is all that changed.
    fn put_back(&self, found: &mut [FoundStream<'_>]) -> Result<Option<FoundSlots>, LogError> {
        let mut subjects = GivenUpSubjects::default();
        for stream in found {
            stream.given_up(&mut subjects)?;
        }
        let lost = (subjects, self.accept_loss);
        FoundSlots::put_back(self.files, self.wrapping, self.history, lost)
    }

    /// The streams as they are, in the order in which the journal created them, and the keys that
    /// their unsigned frames lack.
    fn find<'b>(
        &'b self,
        opener: &'b Opener,
    ) -> Result<(Vec<FoundStream<'b>>, KeysMissed), LogError> {
        let mut all = Vec::new();
        let mut missed = KeysMissed::default();
        for (ordinal, (name, config)) in (0..).zip(&self.history.streams) {
            let identity = Identity::new(self.geometry, name, config);
            let id = identity.id;
            let origin = self.geometry.stream_origin(name.as_str());
            let floor = self.named.floors.get(&origin).copied();
            let uncovered = self.named.uncovered.get(&origin);
            let is_journal = name.as_str() == StreamName::JOURNAL;
            let journal = (self.certified as &dyn Certificates, floor);
            let noted = self.notes.of_stream((name, &id), ordinal, journal);
            let durable = match noted {
                Noted::Durable(durable) => Some(durable),
                Noted::Nothing | Noted::Beyond(_) => None,
            };
            let recovery = Recovery {
                files: self.files,
                heads: self.heads,
                name,
                identity,
                history: self.history,
                witness: self.geometry.witness().filter(|key| key.name() == origin),
                anchored: self.anchored.get(&origin),
                uncovered: uncovered.map_or(&[], Vec::as_slice),
                heads_read: self.named.read,
                origin,
                end: self.end_of(name),
                epochs: Epochs::new(self.master, self.certified, name, id).above(floor),
                durable,
                opening: config
                    .erasable
                    .then(|| Opening::new(opener, name, id, *config)),
                noted: Vec::new(),
            };
            let found = recovery.find(&mut missed)?;
            if is_journal {
                check_read(self.history, found.size())?;
            }
            // Of the journal only after it is known to be whole: a damaged frame may hold the
            // opening.
            if let Noted::Beyond(_) = noted {
                return Err(LogError::Broken {
                    place: format!("{DURABLE}, stream {name}"),
                    reason: BEYOND.into(),
                });
            }
            self.check_losses(name, found.size())?;
            if !self.accept_loss {
                found.check_returned(self.master, floor)?;
            }
            all.push(found);
        }
        Ok((all, missed))
    }
}

/// Moves the signing key on and records the repairs, and the creation of a log that begins with the
/// stream `default`.
fn begin_journal(
    core: &LogState,
    first: Option<&First<'_>>,
    repaired: &[Repair],
    repairs: &mut RecoveryReport,
) -> Result<(), LogError> {
    let mut journal = core.streams.journal();
    let mut entries = Vec::new();
    let mut default = None;
    if let Some(First { config, continued }) = first {
        let (name, config) = (StreamName::default(), *config);
        entries.push(JournalEntry::log_create(core.geometry.origin()));
        entries.extend(continued.map(Continued::entry));
        entries.push(JournalEntry::stream_create(&name, config));
        let stream = core.empty_stream(&name, config)?;
        stream.note_created(&core.files)?;
        default = Some(stream);
        // Before the journal has any entry: from then on, a stream `heads` without a checkpoint
        // counts as a missing one.
        core.anchor_heads()?;
        core.publish_stream(journal.stream())?;
    }
    core.finish_erasures(&journal)?;
    // Losses first, with the slots that they leave void: they are in the frame of the certificate, or nowhere.
    let (losses, others): (Vec<_>, Vec<_>) = repaired
        .iter()
        .cloned()
        .partition(|repair| repair.kind.is_of_loss());
    let repaired = [losses, others].concat();
    let mut now = JournalEntry::recover(&repaired);
    let later = now.split_off(now.len().min(REPAIRS_WITH_CERTIFICATE));
    let said = now.iter().map(|entry| entry.payload.lines().count()).sum();
    let unsaid = repaired.get(said..).unwrap_or_default();
    let is_all_named = core.certify_successor(&mut journal, (entries, now), &mut |journal| {
        repairs.begin_publication(&core.files, journal, unsaid)
    })?;
    core.streams.note_durable(&core.files)?;
    if !later.is_empty() {
        // Readers trust only the frame with the certificate before it is signed for.
        journal.append(core, later)?;
        core.publish_stream(journal.stream())?;
    }
    if let Some(stream) = default {
        core.streams.insert(stream);
    }
    drop(journal);
    core.publish_streams()?;
    if !is_all_named {
        // A crash left heads that no frame of `heads` named. An expired key signed them, and could
        // sign others in their place, until a certificate binds the frame that names them.
        core.move_key_on()?;
    }
    Ok(())
}

fn start(core: &Arc<LogState>) -> Result<Threads, LogError> {
    let mut sealers = Vec::new();
    for number in 0..core.options.sealers {
        sealers.push(spawn(format!("sealer-{number}"), core, sealer::run)?);
    }
    Ok(Threads {
        sealers,
        committer: Some(spawn("committer".into(), core, committer::run)?),
        publisher: Some(spawn("publisher".into(), core, publisher::run)?),
        ticker: Some(spawn("ticker".into(), core, ticker::run)?),
    })
}

fn spawn(
    name: String,
    core: &Arc<LogState>,
    body: fn(&LogState),
) -> Result<JoinHandle<()>, LogError> {
    let core = Arc::clone(core);
    std::thread::Builder::new()
        .name(name.clone())
        .spawn(move || {
            // A waiter would wait for ever for a thread that ended by a defect.
            if catch_unwind(AssertUnwindSafe(|| body(&core))).is_err() {
                core.set_poison(LogError::Broken {
                    place: "a thread of the log".into(),
                    reason: "ended by a defect".into(),
                });
            }
        })
        .map_err(|source| LogError::Storage {
            action: "start thread",
            name,
            source,
        })
}

pub(crate) fn check_options(options: &Options) -> Result<(), LogError> {
    let refuse = |name, reason: &str| {
        Err(LogError::Option {
            name,
            reason: reason.to_owned(),
        })
    };
    if options.sealers == 0 || options.sealers > 1024 {
        return refuse("sealers", "must be 1 to 1024");
    }
    if options.frame_entries_max == 0 || options.frame_entries_max > FRAME_ENTRIES_MAX {
        return refuse("frame_entries_max", "must be 1 to 65536");
    }
    if options.frame_rows_bytes == 0
        || options.frame_rows_bytes > probity_format::limits::FRAME_ROWS_BYTES_MAX
    {
        return refuse("frame_rows_bytes", "must be 1 to 8388608");
    }
    if options.queue_bytes < 2 * ENTRY_BYTES_MAX {
        return refuse("queue_bytes", "must be at least 2 MiB");
    }
    if options.key_interval.is_zero() {
        return refuse("key_interval", "must be more than nothing");
    }
    if options.idempotency_keys_max > IDEMPOTENCY_KEYS_LIMIT {
        return refuse("idempotency_keys_max", "must be 0 to 16777216");
    }
    if options.segment_bytes_max < 4096 {
        return refuse("segment_bytes_max", "must be at least 4096");
    }
    Ok(())
}
