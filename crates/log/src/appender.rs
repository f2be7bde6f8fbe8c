//! A producer's handle: one copy into memory it owns, and a ticket that becomes a receipt.

use std::slice;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use probity_format::entry::KeySeries;
use probity_format::row::{encode_row, row_bytes};
use probity_format::{Claimed, Digest, Entry, EntryError, Timestamp};
use probity_queue::ChunkWriter;

use crate::config::Durability;
use crate::error::{AppendError, LogError};
use crate::idempotency::{Content, Names, Window};
use crate::leaves::Leaf;
use crate::log_state::LogState;
use crate::origin::Origin;
use crate::queue::OpenChunk;
use crate::run::Run;
use crate::stream::Stream;
use crate::ticker::Slot;
use crate::tickets::{Expired, Place, Receipt, Ticket, Tickets};

/// Entries of a batch that become visible together; the sealers' view is behind by no more.
const BURST_ENTRIES: usize = 64;
/// Most entries of a chunk of an erasable stream. An entry about 64 people has a share of 81 bytes
/// for each, 33 times its row: a whole chunk of such rows would become a frame beyond
/// [`FRAME_BYTES_MAX`](probity_format::limits::FRAME_BYTES_MAX).
const ERASABLE_CHUNK_ENTRIES_MAX: u32 = 6_000;
/// The highest age, in microseconds, of the cached time taken for an entry with a time of its own.
/// Entries with one time taken store it once.
const TAKEN_AGE_MAX: i64 = 1_000_000;
/// The longest sleep between looks while waiting for durability; every commit wakes it earlier.
const COMMIT_WAIT: Duration = Duration::from_millis(100);

/// The longest sleep between looks at the state of the log while waiting for room.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// One producer of one stream. Entries of one appender keep their order.
///
/// Cheap to make; give each thread its own. It holds memory of the queue only while entries wait in
/// it. Dropping it hands over what it still holds; nothing is lost, but errors are not reported
/// then.
#[derive(Debug)]
pub struct Appender {
    core: Arc<LogState>,
    stream: Arc<Stream>,
    slot: Arc<Slot>,
    origin: Origin,
    writer: Option<ChunkWriter>,
    /// Most entries of a chunk, so that one alone never becomes more than a frame may hold.
    chunk_entries_max: u32,
    /// Entries in the open chunk.
    in_chunk: u32,
    /// The time at which the log took the newest entry.
    taken: Timestamp,
    /// The runs of the entries in the open chunk, and in the last chunk before it that had any.
    run: Option<Arc<Run>>,
    last_run: Option<Arc<Run>>,
    tickets: Tickets,
    /// True when entries with an idempotency key are looked up before they are written.
    looks_for_keys: bool,
}

/// The behaviour of an append that finds no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Wait,
    Refuse,
}

/// The source of an entry's time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeFrom {
    Caller,
    Log,
}

impl Appender {
    pub(crate) fn new(core: Arc<LogState>, stream: Arc<Stream>) -> Self {
        let slot = Arc::new(Slot::default());
        core.ticker.watch(&slot);
        let (most, taken) = (core.options.frame_entries_max, core.clock.now());
        let chunk_entries_max = if stream.config.erasable {
            most.min(ERASABLE_CHUNK_ENTRIES_MAX)
        } else {
            most
        };
        Self {
            looks_for_keys: core.options.idempotency_keys_max > 0,
            chunk_entries_max,
            core,
            stream,
            slot,
            origin: Origin::default(),
            writer: None,
            in_chunk: 0,
            taken,
            run: None,
            last_run: None,
            tickets: Tickets::default(),
        }
    }

    /// Records `submitter`, who must have been authenticated, with the entries appended from now
    /// on. At first there is no submitter.
    ///
    /// # Errors
    /// When it breaks the rules of a name; the one before then stays.
    pub fn set_submitter(&mut self, submitter: &str) -> Result<(), EntryError> {
        self.origin.set_submitter(submitter)
    }

    /// Sets which fields of the entries appended from now on are only the caller's claim, where
    /// they are not empty. At first both are. An actor who is the submitter is never only claimed.
    pub const fn set_claimed(&mut self, claimed: Claimed) {
        self.origin.set_claimed(claimed);
    }

    /// Hands in one entry, waiting for room up to [`Options::append_timeout`](crate::Options).
    ///
    /// An entry with an idempotency key that is among the last
    /// [`Options::idempotency_keys_max`](crate::Options) of the stream and has the same content is
    /// not written again. Its ticket becomes the receipt of the first one. The first entry with a
    /// key after an opening reads the end of the stream.
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    #[inline]
    pub fn append(&mut self, entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        self.append_one(entry, Patience::Wait, TimeFrom::Caller)
    }

    /// Appends an entry like [`Appender::append`], with the time at which the log takes it.
    ///
    /// With an idempotency key it is the same entry whenever it is handed in again in this way.
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    pub fn append_now(&mut self, entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        self.append_one(entry, Patience::Wait, TimeFrom::Log)
    }

    /// Appends like [`Appender::append`], but fails at once when there is no room.
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    #[inline]
    pub fn try_append(&mut self, entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        self.append_one(entry, Patience::Refuse, TimeFrom::Caller)
    }

    /// Appends entries in order; returns the ticket of the last, which covers those before.
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
                .append_some(rest, Patience::Wait, TimeFrom::Caller)
                .map_err(|error| (taken, error))?;
            taken = taken.saturating_add(more);
        }
        Ok(self.tickets.last().filter(|_| taken > 0))
    }

    /// Appends and waits until the entry is durable, in any mode.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_durable(&mut self, entry: &Entry<'_>) -> Result<Receipt, AppendError> {
        let ticket = self.append(entry)?;
        let receipt = self.wait(ticket)?;
        self.sync()?;
        Ok(receipt)
    }

    /// Hands all entries so far to the sealers at once instead of waiting for a full batch.
    pub fn push(&mut self) {
        self.writer = None;
        let run = self.run.take();
        if std::mem::take(&mut self.in_chunk) > 0 {
            self.last_run = run;
        }
        let mut open = self
            .slot
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.core.queue.hand_over(&mut open);
    }

    /// The receipt of `ticket`, or `None` while its entry is not durable.
    ///
    /// # Errors
    /// [`AppendError::Poisoned`] when it never will be; [`AppendError::TicketExpired`].
    pub fn receipt(&self, ticket: Ticket) -> Result<Option<Receipt>, AppendError> {
        let receipt = self.tickets.receipt(ticket);
        if let Some(receipt) = receipt.map_err(|Expired| AppendError::TicketExpired)? {
            return Ok(Some(receipt));
        }
        self.check_poison()?;
        Ok(None)
    }

    /// Returns whether the entry of `ticket` was appended before under its idempotency key, so that
    /// this append wrote nothing.
    pub fn is_repeat(&self, ticket: Ticket) -> bool {
        self.tickets.is_repeat(ticket)
    }

    /// Returns the leaf of the stream's tree for the frame of the entry at `index`, which has a
    /// receipt.
    ///
    /// `None` when thousands of frames were written since. A caller who keeps the leaf can tell if
    /// the frame is changed or removed later.
    pub fn leaf_of(&self, index: u64) -> Option<Leaf> {
        self.stream.leaf_of(index)
    }

    /// Waits for the receipt of `ticket`, hurrying it along.
    ///
    /// The durability mode decides what a receipt promises. Under [`Durability::Relaxed`] the entry
    /// may be written and not yet durable.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<Receipt, AppendError> {
        if let Some(receipt) = self.receipt(ticket)? {
            return Ok(receipt);
        }
        self.push();
        if self.tickets.waits_for_others() {
            // Another appender's open chunk may hold the entry of this ticket.
            self.core.close_old_chunks(Duration::ZERO);
        }
        loop {
            let generation = self.core.progress.changed().generation();
            if let Some(receipt) = self.receipt(ticket)? {
                return Ok(receipt);
            }
            self.core.committer.hurry_up();
            self.core
                .progress
                .changed()
                .wait_after(generation, COMMIT_WAIT);
        }
    }

    /// Returns whether the stream remembers an entry with the key of `digest`.
    ///
    /// # Errors
    /// [`AppendError::KeysUnread`].
    pub fn remembers(&self, digest: &Digest) -> Result<bool, AppendError> {
        Ok(self.window()?.find(digest).is_some())
    }

    /// Returns whether the stream remembers all keys that it ever had, so that one that is not found is
    /// new. Otherwise it may have been forgotten.
    ///
    /// # Errors
    /// [`AppendError::KeysUnread`].
    pub fn remembers_all(&self) -> Result<bool, AppendError> {
        Ok(!self.window()?.has_older())
    }

    /// The greatest number of a key of `series` that the stream remembers.
    ///
    /// # Errors
    /// [`AppendError::KeysUnread`].
    pub fn last_of(&self, series: &KeySeries) -> Result<Option<u64>, AppendError> {
        Ok(self.window()?.last_of(series))
    }

    fn window(&self) -> Result<MutexGuard<'_, Window>, AppendError> {
        let window = self.core.window(&self.stream);
        window.map_err(|error| AppendError::KeysUnread(Arc::new(error)))
    }

    /// Waits until everything appended here is durable, in any mode.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn flush(&mut self) -> Result<(), AppendError> {
        let Some(last) = self.tickets.last() else {
            return Ok(());
        };
        self.wait(last)?;
        self.sync()
    }

    /// Makes entries with receipts durable, where receipts do not imply it.
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
    fn append_one(
        &mut self,
        entry: &Entry<'_>,
        patience: Patience,
        time: TimeFrom,
    ) -> Result<Ticket, AppendError> {
        loop {
            let taken = self.append_some(slice::from_ref(entry), patience, time)?;
            if let Some(ticket) = self.tickets.last().filter(|_| taken > 0) {
                return Ok(ticket);
            }
        }
    }

    /// Appends the first few of `entries`, which become visible together. Appends none when the
    /// chunk was full, and makes room for them.
    #[inline]
    fn append_some(
        &mut self,
        entries: &[Entry<'_>],
        patience: Patience,
        time: TimeFrom,
    ) -> Result<usize, AppendError> {
        let room = self.room();
        // Once for all that become visible together: the clock costs as much as a short entry.
        let taken = self.take_time(time);
        let (origin, looks_for_keys) = (&self.origin, self.looks_for_keys);
        if let Some(writer) = &mut self.writer
            && room > 0
            && let Ok(mut burst) = writer.burst()
        {
            for entry in entries.iter().take(BURST_ENTRIES) {
                let entry = origin.stamp(entry, time.of(entry, taken), taken);
                let is_plain = entry.idempotency.is_none() || !looks_for_keys;
                let fits = is_plain
                    && burst.records() < room
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
                self.tickets.give(taken);
                self.in_chunk = self.in_chunk.saturating_add(taken);
                return Ok(usize::try_from(taken).unwrap_or_default());
            }
        }
        // The first entry was not taken: it is invalid, its key is looked up, or the chunk is full
        // or closed.
        let Some(first) = entries.first() else {
            return Ok(0);
        };
        if looks_for_keys && let Some(key) = first.idempotency {
            return self.append_keyed(first, key, patience, time);
        }
        origin.stamp(first, first.time, taken).check()?;
        self.next_chunk(patience)?;
        Ok(0)
    }

    /// The time taken of the next entries: now, or shortly before for entries with a time of their
    /// own.
    #[inline]
    fn take_time(&mut self, time: TimeFrom) -> Timestamp {
        let now = self.core.clock.now();
        let age = now.nanoseconds().wrapping_sub(self.taken.nanoseconds());
        let is_recent = (0..TAKEN_AGE_MAX).contains(&age);
        if !(is_recent && matches!(time, TimeFrom::Caller)) {
            self.taken = now;
        }
        self.taken
    }

    /// The number of entries that the open chunk still takes.
    #[inline]
    fn room(&self) -> u32 {
        self.chunk_entries_max.saturating_sub(self.in_chunk)
    }

    /// Appends one entry with an idempotency key, like [`Appender::append_some`].
    ///
    /// Looks it up and writes it under one lock: of concurrent appenders with the same key, one
    /// writes. The lock is never held while waiting for room.
    #[cold]
    fn append_keyed(
        &mut self,
        entry: &Entry<'_>,
        key: &Digest,
        patience: Patience,
        time: TimeFrom,
    ) -> Result<usize, AppendError> {
        let (room, taken) = (self.room(), self.take_time(time));
        let entry = self.origin.stamp(entry, time.of(entry, taken), taken);
        entry.check()?;
        self.check_open()?;
        let content = Content::of(&entry);
        let stream = Arc::clone(&self.stream);
        let mut window = self
            .core
            .window(&stream)
            .map_err(|error| AppendError::KeysUnread(Arc::new(error)))?;
        if let Some(known) = window.find(key) {
            let place = known.place().clone();
            if !known.is_same(&content) {
                let index = place.index();
                return Err(AppendError::KeyUsed { index });
            }
            drop(window);
            self.repeat(place);
            return Ok(1);
        }
        let writer = self.writer.as_mut().filter(|_| room > 0);
        if let Some(run) = &self.run
            && writer.is_some_and(|writer| write_one(writer, &entry))
        {
            let place = Place {
                run: Arc::clone(run),
                number: u64::from(self.in_chunk),
            };
            window.add(key, content, place, Names::of(&entry, &stream));
            self.tickets.give(1);
            self.in_chunk = self.in_chunk.saturating_add(1);
            return Ok(1);
        }
        drop(window);
        self.next_chunk(patience)?;
        Ok(0)
    }

    /// Returns a ticket for the entry at `place`, which was written before.
    fn repeat(&mut self, place: Place) {
        let own = self.run.as_ref().filter(|_| self.in_chunk > 0);
        self.tickets.repeat(place, own.or(self.last_run.as_ref()));
        if let Some(run) = &self.run {
            let number = u64::from(self.in_chunk);
            let run = Arc::clone(run);
            self.tickets.begin(Place { run, number });
        }
    }

    /// Hands over the chunk in use and takes an empty one.
    #[cold]
    fn next_chunk(&mut self, patience: Patience) -> Result<(), AppendError> {
        self.push();
        self.check_open()?;
        let writer = self.take_chunk(patience)?;
        let run = Arc::new(Run::default());
        self.tickets.begin(Place {
            run: Arc::clone(&run),
            number: 0,
        });
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
            run: Arc::clone(&run),
            stream: Arc::clone(&self.stream),
            since: self.core.clock.elapsed(),
        });
        drop(open);
        self.writer = Some(writer);
        self.run = Some(run);
        self.core.ticker.opened();
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
            // In portions: chunks are not returned once the log is poisoned or closed.
            if let Some(writer) = self.core.queue.pool.take(left.min(ROOM_WAIT)) {
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

    fn check_open(&self) -> Result<(), AppendError> {
        self.check_poison()?;
        if self.core.is_closing() {
            return Err(AppendError::Closed);
        }
        Ok(())
    }

    fn check_poison(&self) -> Result<(), AppendError> {
        self.core.poison().map_or(Ok(()), |error| {
            Err(AppendError::Poisoned(Arc::clone(error)))
        })
    }
}

impl TimeFrom {
    /// The time of `entry`, which the log took at `taken`.
    #[inline]
    const fn of(self, entry: &Entry<'_>, taken: Timestamp) -> Timestamp {
        match self {
            Self::Caller => entry.time,
            Self::Log => taken,
        }
    }
}

/// Writes `entry` into the chunk of `writer`; false when it is full or closed.
fn write_one(writer: &mut ChunkWriter, entry: &Entry<'_>) -> bool {
    let Ok(mut burst) = writer.burst() else {
        return false;
    };
    let pushed = burst.push(row_bytes(entry), |room| encode_row(entry, room));
    pushed.is_ok() && burst.commit().is_ok()
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.push();
    }
}
