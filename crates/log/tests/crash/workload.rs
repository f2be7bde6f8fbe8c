//! A writer's life, step by step, so that every run makes the same storage calls in the same order.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probity_format::entry::idempotency_digest;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::clock::SystemClock;
use probity_log::{
    AppendError, Appender, Cipher, Durability, Log, LogError, LogLocation, Options, Proofs,
    Receipt, StreamConfig, StreamName, Ticket,
};

use crate::ledger::{Ledger, Promise, Receipted};
use crate::world::root;

/// Longer than any run: timed work does not happen.
const NEVER: Duration = Duration::from_hours(1);
/// Different subjects.
pub(crate) const SUBJECTS: u64 = 11;
/// Longest wait for a receipt without a request for a sync.
const PATIENCE: Duration = Duration::from_secs(20);

/// The error that ended a run early.
pub(crate) type Stopped = Box<dyn Error + Send + Sync>;

pub(crate) fn options(durability: Durability) -> Options {
    Options {
        durability,
        group_interval: match durability {
            // Nothing asks for an early sync here, or receipts would mean more than they must.
            Durability::Relaxed => Duration::from_millis(1),
            _ => NEVER,
        },
        sealers: 1,
        frame_entries_max: 8,
        batch_age_max: NEVER,
        queue_bytes: 2 << 20,
        append_timeout: Duration::from_secs(5),
        segment_bytes_max: 4096,
        checkpoint_interval: NEVER,
        // The signing key moves on in the middle of a life too.
        key_publications_max: 2,
        // Keys are recorded in a life, and looked for by the check after it.
        idempotency_keys_max: 0,
        open_files_max: 2,
        retries: 3,
        retry_wait: Duration::from_micros(100),
        ..Options::default()
    }
}

/// The amount of a writer's work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// The number of streams, of the three, that are written to.
    pub(crate) streams: usize,
    /// Entries of each stream that are waited for one by one.
    pub(crate) singles: u32,
    /// Rounds of six entries each, in one frame.
    pub(crate) rounds: u32,
    /// Rounds of one entry each without a sync.
    pub(crate) relaxed: u32,
    /// One in so many calls is tried, beside the first and the last of each kind.
    pub(crate) step: usize,
}

impl Size {
    /// Every kind of call, most of them a few times.
    pub(crate) const SHORT: Self = Self {
        streams: 2,
        singles: 2,
        rounds: 2,
        relaxed: 1,
        step: 12,
    };
    /// A short life of which every call is tried.
    pub(crate) const SHORT_WHOLE: Self = Self {
        step: 1,
        ..Self::SHORT
    };
    /// Several rotations and key epochs, three streams.
    pub(crate) const LONG: Self = Self {
        streams: 3,
        singles: 5,
        rounds: 4,
        relaxed: 3,
        step: 1,
    };
}

/// The streams, each of its own kind.
pub(crate) fn streams() -> [(StreamName, StreamConfig); 3] {
    let name = |name: &str| StreamName::new(name).unwrap();
    let base = StreamConfig::default();
    [
        (
            StreamName::default(),
            StreamConfig {
                erasable: true,
                ..base
            },
        ),
        (
            name("entries"),
            StreamConfig {
                proofs: Proofs::Entry,
                ..base
            },
        ),
        (
            name("plain"),
            StreamConfig {
                cipher: Cipher::DangerNone,
                ..base
            },
        ),
    ]
}

/// The payload of entry `id`: it identifies the entry, and does not compress.
pub(crate) fn payload(id: u64) -> Vec<u8> {
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    id.to_le_bytes()
        .into_iter()
        .chain(noise)
        .take(200)
        .collect()
}

/// The subject of entry `id`: the keys of those in a frame fill more than a sector of a disk.
pub(crate) fn subject(id: u64) -> String {
    format!("subject-{}", id % SUBJECTS)
}

/// Hands entry `id` to `appender`.
pub(crate) fn append(appender: &mut Appender, id: u64) -> Result<Ticket, AppendError> {
    let subject = subject(id);
    let key = format!("key-{id}");
    let payload = payload(id);
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let digest = idempotency_digest(&format!("id-{id}"))?;
    appender.append(&Entry {
        subjects: Subjects::joined(&subject),
        payload: &payload,
        idempotency: Some(&digest),
        ..Entry::new(time, "write", key.as_bytes())
    })
}

/// Waits for a receipt without asking for a sync.
fn unhurried(appender: &Appender, ticket: Ticket) -> Result<Receipt, AppendError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(receipt) = appender.receipt(ticket)? {
            return Ok(receipt);
        }
        assert!(Instant::now() < deadline, "no receipt in {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// One writer with its ledger.
pub(crate) struct Writer<'a> {
    pub(crate) places: &'a LogLocation,
    pub(crate) ledger: &'a Ledger,
    pub(crate) size: Size,
    pub(crate) next: u64,
}

impl Writer<'_> {
    /// The whole life.
    pub(crate) fn run(&mut self) -> Result<(), Stopped> {
        self.create()?;
        self.strict()?;
        self.group()?;
        self.relaxed()
    }

    fn streams(&self) -> impl Iterator<Item = (StreamName, StreamConfig)> + use<> {
        streams().into_iter().take(self.size.streams)
    }

    fn create(&self) -> Result<(), LogError> {
        let [(_, config), ..] = streams();
        let options = options(Durability::Strict);
        let clock = Arc::new(SystemClock::new());
        Log::create_at(
            self.places,
            "example.com/crash",
            &root(),
            config,
            options,
            clock,
        )?
        .close()?;
        self.ledger.write(|facts| {
            facts.created = true;
            facts.streams.push(StreamName::default());
        });
        Ok(())
    }

    fn open(&self, durability: Durability) -> Result<Log, LogError> {
        let clock = Arc::new(SystemClock::new());
        Log::open_at(self.places, &root(), options(durability), clock)
    }

    /// Waits for a receipt of each entry, through rotations and key epochs.
    fn strict(&mut self) -> Result<(), Stopped> {
        let log = self.open(Durability::Strict)?;
        self.within(&log, |writer, log| {
            for (name, config) in writer.streams() {
                log.create_stream(&name, config)?;
                writer.ledger.write(|facts| facts.streams.push(name));
            }
            for (name, _) in writer.streams() {
                let mut appender = log.appender(&name)?;
                for _ in 0..writer.size.singles {
                    let ticket = writer.append(&mut appender, &name)?;
                    let index = appender.wait(ticket.1)?.index;
                    writer.receipt(&name, index, ticket.0, Promise::Durable);
                }
            }
            log.publish()?;
            Ok(())
        })
    }

    /// Waits for the receipts of several entries in a frame, several times between checkpoints.
    fn group(&mut self) -> Result<(), Stopped> {
        let log = self.open(Durability::Group)?;
        self.within(&log, |writer, log| {
            for round in 0..writer.size.rounds {
                for (name, _) in writer.streams() {
                    let mut appender = log.appender(&name)?;
                    let mut tickets = Vec::new();
                    for _ in 0..6 {
                        tickets.push(writer.append(&mut appender, &name)?);
                    }
                    appender.flush()?;
                    for (id, ticket) in tickets {
                        let index = appender.wait(ticket)?.index;
                        writer.receipt(&name, index, id, Promise::Durable);
                    }
                }
                if round % 2 == 0 {
                    log.publish()?;
                }
            }
            Ok(())
        })
    }

    /// Takes receipts as they come, flushes in between, and lets closing do the rest.
    fn relaxed(&mut self) -> Result<(), Stopped> {
        let log = self.open(Durability::Relaxed)?;
        self.within(&log, |writer, log| {
            for round in 0..writer.size.relaxed {
                for (name, _) in writer.streams() {
                    let mut appender = log.appender(&name)?;
                    let (id, ticket) = writer.append(&mut appender, &name)?;
                    appender.push();
                    let receipt = unhurried(&appender, ticket)?;
                    writer.receipt(&name, receipt.index, id, Promise::Written);
                }
                if round % 2 == 0 {
                    log.flush()?;
                    writer.ledger.all_durable();
                }
            }
            Ok(())
        })
    }

    /// Does `work` with an open log and closes it. When the work fails, the log must report the
    /// error from then on, unless only the creation of a stream failed.
    fn within(
        &mut self,
        log: &Log,
        work: impl FnOnce(&mut Self, &Log) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let worked = work(self, log);
        let usable = worked.is_err() && self.is_usable(log, worked.as_ref().unwrap_err())?;
        let closed = log.close();
        assert!(
            closed.is_err() || worked.is_ok() || usable,
            "closing says nothing of {worked:?}"
        );
        if closed.is_ok() {
            self.ledger.all_durable();
        }
        worked?;
        Ok(closed?)
    }

    /// Returns whether the log still takes entries after `error`.
    fn is_usable(&mut self, log: &Log, error: &Stopped) -> Result<bool, Stopped> {
        let name = StreamName::default();
        let mut appender = match log.appender(&name) {
            Ok(appender) => appender,
            Err(LogError::Poisoned(_)) => {
                assert!(matches!(log.flush(), Err(LogError::Poisoned(_))));
                return Ok(false);
            }
            Err(other) => panic!("{other:?}"),
        };
        assert!(
            matches!(error.downcast_ref(), Some(LogError::Storage { .. })),
            "after {error:?} the log still takes entries"
        );
        let (id, ticket) = self.append(&mut appender, &name)?;
        let index = appender.wait(ticket)?.index;
        self.receipt(&name, index, id, Promise::Durable);
        Ok(true)
    }

    fn append(
        &mut self,
        appender: &mut Appender,
        stream: &StreamName,
    ) -> Result<(u64, Ticket), AppendError> {
        let id = self.next;
        self.next += 1;
        self.ledger
            .write(|facts| drop(facts.attempted.insert(id, stream.clone())));
        Ok((id, append(appender, id)?))
    }

    fn receipt(&self, stream: &StreamName, index: u64, id: u64, promise: Promise) {
        self.ledger.write(|facts| {
            facts.receipts.push(Receipted {
                stream: stream.clone(),
                index,
                id,
                promise,
            });
        });
    }
}
