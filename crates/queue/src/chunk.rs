//! Memory in which one producer lays down records that another thread will read.
//!
//! A chunk in use is shared by up to three kinds of owners: the [`ChunkWriter`] that appends, any number of
//! [`Chunk`] handles that watch and close, and, once closed, the [`SealedChunk`] that reads. One word
//! (see `state`) decides every race between them:
//!
//! - The committed prefix is written by nobody; the reader sees only that. The writer writes only behind it.
//! - The memory goes back to the pool when the reader is done and the writer is not within an append. Whoever
//!   of the two is last sees the other's flag and gives it back. A writer that comes later finds the word closed
//!   and never looks at the memory, so it may stay around for as long as it likes.

#![expect(
    unsafe_code,
    reason = "a producer and a reader share memory without a lock"
)]

use std::fmt;
use std::mem::ManuallyDrop;

use crate::error::AppendRefused;
use crate::memory::Memory;
use crate::pool::Shelf;
use crate::state::{CLOSED, READ, State, WRITING};
use crate::sync::{Arc, AtomicU64, Ordering, UnsafeCell};

/// The exclusive right to append to a chunk; made by [`Pool::take`](crate::Pool::take).
///
/// After a refusal it is of no more use: drop it and take another. Dropping it closes nothing.
pub struct ChunkWriter {
    chunk: Chunk,
}

/// Records on their way into a chunk; made by [`ChunkWriter::burst`]. Dropped without [`Burst::commit`] they are forgotten.
pub struct Burst<'a> {
    writing: Writing<'a>,
    /// The chunk as it was found.
    before: State,
    /// As it will be.
    after: State,
}

/// A handle that watches a chunk and may close it. Clones share it.
///
/// When every handle, the writer and the reader are gone the chunk is too; a chunk never closed then loses its records.
#[derive(Clone)]
pub struct Chunk {
    shared: Arc<Shared>,
}

/// The right to read a closed chunk; the one call that closed it got it. Dropping it gives the memory back.
pub struct SealedChunk {
    shared: Arc<Shared>,
    /// As it was when the chunk was closed.
    state: State,
}

struct Shared {
    /// A [`State`]. Length and count are changed by the writer alone, [`CLOSED`] is set once by anyone,
    /// [`WRITING`] is set and cleared by the writer, [`READ`] set once by the reader.
    word: AtomicU64,
    bytes: usize,
    /// Filled until given back. Read by the writer between setting and clearing [`WRITING`] and by the reader
    /// before setting [`READ`]; emptied by whoever of them is last, or by `drop`.
    memory: UnsafeCell<Option<Memory>>,
    /// Where the memory goes afterwards.
    shelf: Arc<Shelf>,
}

// SAFETY: all parts but the cell may be shared by themselves; the cell is accessed as its comment says, which the
// word enforces, and what is in it may be moved to and used from any thread.
unsafe impl Sync for Shared {}

impl ChunkWriter {
    pub(crate) fn new(memory: Memory, shelf: Arc<Shelf>) -> Self {
        let shared = Shared {
            word: AtomicU64::new(0),
            bytes: memory.bytes(),
            memory: UnsafeCell::new(Some(memory)),
            shelf,
        };
        Self {
            chunk: Chunk {
                shared: Arc::new(shared),
            },
        }
    }

    /// Appends a record of `len` bytes that `write` fills in; gives its number in the chunk, from 0.
    ///
    /// As a [`Burst`] of one.
    ///
    /// # Errors
    /// See [`AppendRefused`]. After [`AppendRefused::Closed`] `write` may have run in vain.
    #[inline]
    pub fn append(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<u32, AppendRefused> {
        let mut burst = self.burst()?;
        burst.push(len, write)?;
        burst.commit()
    }

    /// Begins records that become visible together, which costs as much as one of them does alone.
    ///
    /// Whoever closes the chunk meanwhile does not wait: the burst is then refused as a whole when it commits.
    ///
    /// # Errors
    /// [`AppendRefused::Closed`].
    #[inline]
    pub fn burst(&mut self) -> Result<Burst<'_>, AppendRefused> {
        let shared = &*self.chunk.shared;
        // Relaxed: of what can have changed only `CLOSED` and `READ` are another's, and the exchange checks them.
        let before = State(shared.word.load(Ordering::Relaxed));
        if before.is_closed() {
            return Err(AppendRefused::Closed);
        }
        Ok(Burst {
            writing: Writing::begin(shared, before)?,
            before,
            after: before,
        })
    }

    /// The handle through which others watch and close this chunk.
    pub const fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

impl Burst<'_> {
    /// Adds a record of `len` bytes that `write` fills in.
    ///
    /// The slice given to `write` holds bytes of earlier uses; what is not overwritten becomes part of the record.
    /// If `write` panics nothing of the burst is appended. Neither locks nor allocates nor calls the system.
    ///
    /// # Errors
    /// [`AppendRefused::NoRoom`]; the records before it are still part of the burst.
    #[inline]
    pub fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> Result<(), AppendRefused> {
        let shared = self.writing.shared;
        let after = self
            .after
            .with_record(len, shared.bytes)
            .ok_or(AppendRefused::NoRoom)?;
        // Exact: a length is at most the chunk's size.
        let from = self.after.len() as usize;
        // SAFETY: the flag `WRITING`, which `writing` holds, keeps the memory from being given back.
        let memory = unsafe { shared.memory() };
        // SAFETY: in bounds: `with_record` checked the end. Alone: there is one writer, borrowed exclusively by the
        // burst, and readers see only the committed prefix, which ends at `before` and so not behind `from`.
        unsafe { memory.write(from, len, write) };
        self.after = after;
        Ok(())
    }

    /// Records in the burst so far.
    #[inline]
    pub const fn records(&self) -> u32 {
        self.after.records().saturating_sub(self.before.records())
    }

    /// Makes the records visible to whoever closes the chunk from now on; gives the number of the first in the chunk.
    ///
    /// Neither locks nor allocates nor calls the system, except when the reader of a chunk closed meanwhile
    /// was done first: then it gives the memory back in its stead.
    ///
    /// # Errors
    /// [`AppendRefused::Closed`]: the chunk was closed, and none of them is in it.
    #[inline]
    pub fn commit(self) -> Result<u32, AppendRefused> {
        self.writing.commit(self.before, self.after)?;
        Ok(self.before.records())
    }
}

impl Chunk {
    /// Closes the chunk: what is committed by now is all it will ever hold. The one call that did it gets the right to read.
    pub fn close(&self) -> Option<SealedChunk> {
        // Acquire: the bytes of every record committed before were written before; pairs with `commit`.
        let state = State(self.shared.word.fetch_or(CLOSED, Ordering::Acquire));
        if state.is_closed() {
            return None;
        }
        Some(SealedChunk {
            shared: Arc::clone(&self.shared),
            state,
        })
    }

    /// Whether the chunk takes no more records.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed()
    }

    /// Bytes committed so far.
    pub fn len(&self) -> u32 {
        self.state().len()
    }

    /// Whether no byte is committed so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records committed so far.
    pub fn records(&self) -> u32 {
        self.state().records()
    }

    /// The size of the chunk, in bytes.
    pub fn capacity(&self) -> usize {
        self.shared.bytes
    }

    fn state(&self) -> State {
        // Acquire: what the producer did before the commits counted here happened before.
        State(self.shared.word.load(Ordering::Acquire))
    }
}

impl SealedChunk {
    /// The committed records, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `READ` is set only by dropping `self`, and until then the memory is not given back.
        let memory = unsafe { self.shared.memory() };
        // SAFETY: in bounds: committed lengths are. Unwritten: the writer writes behind the committed prefix, which
        // ends here since the chunk was closed; the acquire of `close` came after the writing of it.
        unsafe { memory.prefix(self.state.len() as usize) }
    }

    /// The number of records.
    pub const fn records(&self) -> u32 {
        self.state.records()
    }

    /// The number of bytes.
    pub const fn len(&self) -> u32 {
        self.state.len()
    }

    /// Whether there is no byte in it; there may still be empty records.
    pub const fn is_empty(&self) -> bool {
        self.state.len() == 0
    }
}

/// The writer's turn: while it lives the memory stays.
struct Writing<'a> {
    shared: &'a Shared,
}

impl<'a> Writing<'a> {
    #[inline]
    fn begin(shared: &'a Shared, before: State) -> Result<Self, AppendRefused> {
        debug_assert!(!before.is_writing() && !before.is_closed());
        // Relaxed: all that matters is the order within the word: the reader's `READ` comes either before, then
        // the chunk was closed before too and this fails, or after, then it sees the flag.
        shared
            .word
            .compare_exchange(
                before.0,
                before.0 | WRITING,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .map(|_| Self { shared })
            .map_err(|_closed| AppendRefused::Closed)
    }

    #[inline]
    fn commit(self, before: State, after: State) -> Result<(), AppendRefused> {
        // Release: publishes the record's bytes to whoever sees it counted.
        let committed = self.shared.word.compare_exchange(
            before.0 | WRITING,
            after.0,
            Ordering::Release,
            Ordering::Relaxed,
        );
        match committed {
            Ok(_) => {
                // The exchange has cleared the flag already.
                let _ended = ManuallyDrop::new(self);
                Ok(())
            }
            Err(_closed) => Err(AppendRefused::Closed),
        }
    }
}

/// The turn ends without a commit: the chunk was closed, or `write` panicked.
impl Drop for Writing<'_> {
    #[cold]
    fn drop(&mut self) {
        // AcqRel: our last access happened before the reader gives the memory back, or the reader's before we do.
        let state = State(self.shared.word.fetch_and(!WRITING, Ordering::AcqRel));
        if state.is_read() {
            // SAFETY: the reader is done and saw `WRITING`, so it left this to us; no append follows, the chunk is closed.
            unsafe { self.shared.give_back() };
        }
    }
}

impl Drop for SealedChunk {
    fn drop(&mut self) {
        // AcqRel: as in `Writing::drop`, the other way round.
        let state = State(self.shared.word.fetch_or(READ, Ordering::AcqRel));
        debug_assert!(state.is_closed() && !state.is_read());
        if !state.is_writing() {
            // SAFETY: the writer is in no append and will begin none, the chunk being closed; we read no more.
            unsafe { self.shared.give_back() };
        }
    }
}

impl Shared {
    /// The memory.
    ///
    /// # Safety
    /// While the reference lives the memory is not given back.
    #[inline]
    unsafe fn memory(&self) -> &Memory {
        self.memory.with(|memory| {
            // SAFETY: valid: the cell is part of `self`. Not written meanwhile: the caller's duty.
            let memory = unsafe { &*memory };
            debug_assert!(memory.is_some(), "memory is used before it is given back");
            // SAFETY: filled by `new` and emptied only by giving back.
            unsafe { memory.as_ref().unwrap_unchecked() }
        })
    }

    /// Puts the memory back on the shelf.
    ///
    /// # Safety
    /// Nobody uses the memory any more or ever again.
    #[cold]
    unsafe fn give_back(&self) {
        // SAFETY: valid: the cell is part of `self`. Exclusive: the caller's duty.
        let memory = self.memory.with_mut(|memory| unsafe { (*memory).take() });
        debug_assert!(memory.is_some(), "memory is given back once");
        if let Some(memory) = memory {
            self.shelf.put_back(memory);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Relaxed: the last owner is here, everything happened before.
        let state = State(self.word.load(Ordering::Relaxed));
        if !state.is_read() {
            // SAFETY: writer and reader own the chunk too, so both are gone, and neither has given it back:
            // that takes `READ`.
            unsafe { self.give_back() };
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: shown for orientation only.
        let state = State(self.word.load(Ordering::Relaxed));
        f.debug_struct("Shared")
            .field("state", &state)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Burst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst")
            .field("before", &self.before)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ChunkWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChunkWriter")
            .field(&self.chunk.shared)
            .finish()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chunk").field(&self.shared).finish()
    }
}

// The records are secret: only their state is shown.
impl fmt::Debug for SealedChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedChunk")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
