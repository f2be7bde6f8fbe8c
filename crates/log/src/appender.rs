//! A producer's handle: one copy into memory it owns, and a ticket that becomes a receipt.

use std::collections::VecDeque;
use std::slice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use probity_format::row::{encode_row, row_bytes};
use probity_format::{Claimed, Entry, EntryError};
use probity_queue::ChunkWriter;

use crate::config::Durability;
use crate::core::{Core, OpenChunk, Slot};
use crate::error::{AppendError, LogError};
use crate::leaves::Leaf;
use crate::origin::Origin;
use crate::stream::{Run, Stream};

/// Runs an appender remembers: tickets older than this many batches can no longer be redeemed.
pub const RUNS_REMEMBERED: usize = 65_536;
/// Entries of a batch that become visible together; what the sealers see is behind by no more.
const BURST_ENTRIES: usize = 64;
/// How long a wait for durability sleeps between looks; it is woken earlier by every commit.
const COMMIT_WAIT: Duration = Duration::from_millis(100);

/// How long a wait for room sleeps between looks at the state of the log.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// The promise of an append: redeem it at the appender that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Where an entry is, durably: its index in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Index of the entry in its stream, from 0.
    pub index: u64,
}

/// One producer of one stream. Entries of one appender keep their order.
///
/// Cheap to make; give each thread its own. It holds memory of the queue only while entries wait in it.
/// Dropping it hands over what it still holds; nothing is lost, but errors are not reported then.
#[derive(Debug)]
pub struct Appender {
    core: Arc<Core>,
    stream: Arc<Stream>,
    slot: Arc<Slot>,
    origin: Origin,
    writer: Option<ChunkWriter>,
    /// Entries in the open chunk; a chunk never holds more than a frame may.
    in_chunk: u32,
    /// Number of the next ticket.
    next: u64,
    /// Runs not known to be forgotten: the number of the first ticket, and what became of them.
    runs: VecDeque<(u64, Arc<Run>)>,
}

/// Whether an append may wait for room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    Refuse,
}

impl Appender {
    pub(crate) fn new(core: Arc<Core>, stream: Arc<Stream>) -> Self {
        let slot = Arc::new(Slot::default());
        core.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&slot));
        Self {
            core,
            stream,
            slot,
            origin: Origin::default(),
            writer: None,
            in_chunk: 0,
            next: 0,
            runs: VecDeque::new(),
        }
    }

    /// Records `submitter`, who must have been authenticated, with the entries appended from now on; nobody at first.
    ///
    /// # Errors
    /// When it breaks the rules of a name; the one before then stays.
    pub fn set_submitter(&mut self, submitter: &str) -> Result<(), EntryError> {
        self.origin.set_submitter(submitter)
    }

    /// Says which fields of the entries appended from now on are the caller's word alone, where they are not empty: both at
    /// first. An actor who is the submitter is never only claimed.
    pub const fn set_claimed(&mut self, claimed: Claimed) {
        self.origin.set_claimed(claimed);
    }

    /// Hands in one entry, waiting for room up to [`Options::append_timeout`](crate::Options).
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    #[inline]
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        self.append_one(entry, Patience::Wait)
    }

    /// As [`Appender::append`], but fails at once when there is no room.
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    #[inline]
    pub fn try_append(&mut self, entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        self.append_one(entry, Patience::Refuse)
    }

    /// Hands in entries in order; gives the ticket of the last, which covers those before.
    ///
    /// Cheaper for each entry than [`Appender::append`].
    ///
    /// # Errors
    /// The number of entries taken and why the next one was not.
    pub fn append_batch(
        &mut self,
        entries: &[Entry<'_>],
    ) -> Result<Option<Ticket>, (usize, AppendError)> {
        let mut taken: usize = 0;
        while let Some(rest) = entries.get(taken..).filter(|rest| !rest.is_empty()) {
            let more = self
                .append_some(rest, Patience::Wait)
                .map_err(|error| (taken, error))?;
            taken = taken.saturating_add(more);
        }
        Ok((taken > 0).then(|| Ticket(self.next.saturating_sub(1))))
    }

    /// Appends and waits until the entry is durable, whatever the mode.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_durable(&mut self, entry: &Entry<'_>) -> Result<Receipt, AppendError> {
        let ticket = self.append(entry)?;
        let receipt = self.wait(ticket)?;
        self.sync()?;
        Ok(receipt)
    }

    /// Hands what was appended so far to the sealers at once instead of waiting for a full batch.
    pub fn push(&mut self) {
        self.writer = None;
        self.in_chunk = 0;
        let mut open = self
            .slot
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.core.hand_over(&mut open);
    }

    /// The receipt of `ticket`, or `None` while its entry is not durable.
    ///
    /// # Errors
    /// [`AppendError::Poisoned`] when it never will be; [`AppendError::TicketExpired`].
    pub fn receipt(&self, ticket: Ticket) -> Result<Option<Receipt>, AppendError> {
        let after = self.runs.partition_point(|(first, _)| *first <= ticket.0);
        let run = after.checked_sub(1).and_then(|place| self.runs.get(place));
        let Some((first, run)) = run else {
            return Err(AppendError::TicketExpired);
        };
        if let Some(index) = run.first_index() {
            let index = index.saturating_add(ticket.0.saturating_sub(*first));
            return Ok(Some(Receipt { index }));
        }
        self.check_poison()?;
        Ok(None)
    }

    /// What the stream's tree holds for the frame of the entry at `index`, which has a receipt.
    ///
    /// `None` when thousands of frames were written since. Whoever keeps it finds out if the frame is changed or removed later.
    pub fn leaf_of(&self, index: u64) -> Option<Leaf> {
        self.stream.leaf_of(index)
    }

    /// Waits for the receipt of `ticket`, hurrying it along.
    ///
    /// What a receipt promises says the mode; under [`Durability::Relaxed`] it may be that the entry is
    /// written and not yet durable.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<Receipt, AppendError> {
        if let Some(receipt) = self.receipt(ticket)? {
            return Ok(receipt);
        }
        self.push();
        loop {
            let generation = self.core.committed.generation();
            if let Some(receipt) = self.receipt(ticket)? {
                return Ok(receipt);
            }
            self.core.hurry_up();
            self.core.committed.wait_after(generation, COMMIT_WAIT);
        }
    }

    /// Waits until everything appended here is durable, whatever the mode.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn flush(&mut self) -> Result<(), AppendError> {
        let Some(last) = self.next.checked_sub(1) else {
            return Ok(());
        };
        self.wait(Ticket(last))?;
        self.sync()
    }

    /// Waits until what has receipts is durable too, where receipts do not say so.
    fn sync(&self) -> Result<(), AppendError> {
        if self.core.options.durability != Durability::Relaxed {
            return Ok(());
        }
        self.core.wait_synced().map_err(|error| match error {
            LogError::Poisoned(cause) => AppendError::Poisoned(cause),
            other => AppendError::Poisoned(Arc::new(other)),
        })
    }

    #[inline]
    fn append_one(&mut self, entry: &Entry<'_>, patience: Patience) -> Result<Ticket, AppendError> {
        while self.append_some(slice::from_ref(entry), patience)? == 0 {}
        Ok(Ticket(self.next.saturating_sub(1)))
    }

    /// Appends the first few of `entries`, which become visible together; none, but room for them, when the chunk was full.
    #[inline]
    fn append_some(
        &mut self,
        entries: &[Entry<'_>],
        patience: Patience,
    ) -> Result<usize, AppendError> {
        let room = self
            .core
            .options
            .frame_entries_max
            .saturating_sub(self.in_chunk);
        // Once for all that become visible together: the clock costs as much as a short entry.
        let taken = self.core.clock.now();
        let origin = &self.origin;
        if let Some(writer) = &mut self.writer
            && room > 0
            && let Ok(mut burst) = writer.burst()
        {
            for entry in entries.iter().take(BURST_ENTRIES) {
                let entry = origin.stamp(entry, taken);
                let fits = burst.records() < room
                    && entry.check().is_ok()
                    && burst
                        .push(row_bytes(&entry), |room| encode_row(&entry, room))
                        .is_ok();
                if !fits {
                    break;
                }
            }
            let taken = burst.records();
            if taken > 0 && burst.commit().is_ok() {
                self.next = self.next.saturating_add(u64::from(taken));
                self.in_chunk = self.in_chunk.saturating_add(taken);
                return Ok(usize::try_from(taken).unwrap_or_default());
            }
        }
        // Not even the first was taken: because of itself, or because the chunk is full or closed.
        let first = entries.first();
        first.map_or(Ok(()), |entry| origin.stamp(entry, taken).check())?;
        self.next_chunk(patience)?;
        Ok(0)
    }

    /// Hands over the chunk in use and takes an empty one.
    #[cold]
    fn next_chunk(&mut self, patience: Patience) -> Result<(), AppendError> {
        self.push();
        self.check_poison()?;
        if self.core.is_closing() {
            return Err(AppendError::Closed);
        }
        let writer = self.take_chunk(patience)?;
        let run = Arc::new(Run::default());
        self.remember(Arc::clone(&run));
        let mut open = self
            .slot
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.core.is_closing() {
            return Err(AppendError::Closed);
        }
        *open = Some(OpenChunk {
            chunk: writer.chunk().clone(),
            run,
            stream: Arc::clone(&self.stream),
            since: self.core.clock.elapsed(),
        });
        drop(open);
        self.writer = Some(writer);
        // AcqRel: the chunk was put where the ticking thread looks before; see there.
        if self.core.ticker_idle.swap(false, Ordering::AcqRel) {
            self.core.ticking.raise();
        }
        Ok(())
    }

    fn take_chunk(&self, patience: Patience) -> Result<ChunkWriter, AppendError> {
        let clock = &self.core.clock;
        let end = match patience {
            Patience::Wait => clock
                .elapsed()
                .saturating_add(self.core.options.append_timeout),
            Patience::Refuse => Duration::ZERO,
        };
        loop {
            let left = end.saturating_sub(clock.elapsed());
            // In portions: nobody gives a chunk back once the log is poisoned or closed.
            if let Some(writer) = self.core.pool.take(left.min(ROOM_WAIT)) {
                return Ok(writer);
            }
            self.check_poison()?;
            if self.core.is_closing() {
                return Err(AppendError::Closed);
            }
            if left.is_zero() {
                return Err(AppendError::Full);
            }
        }
    }

    /// Runs that follow each other in the stream too are remembered as one.
    fn remember(&mut self, run: Arc<Run>) {
        while let [.., (before, earlier), (first, later)] = self.runs.make_contiguous() {
            let (Some(start), Some(index)) = (earlier.first_index(), later.first_index()) else {
                break;
            };
            if start.checked_add(first.saturating_sub(*before)) != Some(index) {
                break;
            }
            self.runs.pop_back();
        }
        if self.runs.len() >= RUNS_REMEMBERED {
            self.runs.pop_front();
        }
        // A run without entries, closed by time before the first append, has nothing to redeem.
        if self
            .runs
            .back()
            .is_some_and(|(first, _)| *first == self.next)
        {
            self.runs.pop_back();
        }
        self.runs.push_back((self.next, run));
    }

    fn check_poison(&self) -> Result<(), AppendError> {
        self.core.poison().map_or(Ok(()), |error| {
            Err(AppendError::Poisoned(Arc::clone(error)))
        })
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.push();
    }
}
