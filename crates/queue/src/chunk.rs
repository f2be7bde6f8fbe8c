//! Chunks: memory to which one producer appends records that another thread reads.
//!
//! A chunk in use is shared by up to three kinds of owners. The [`ChunkWriter`] appends. Any number
//! of [`Chunk`] handles can observe and close it. Once closed, the [`SealedChunk`] reads. One
//! atomic word (see `state`) decides every race between them:
//!
//! - The committed prefix is immutable, and the reader sees only that. The writer writes only
//!   beyond it.
//! - The memory returns to the pool when the reader is done and the writer is not within an append.
//!   The last of the two sees the other's flag and returns it. A later append finds the chunk
//!   closed and never accesses the memory, so the writer may live on for any time.

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

/// The exclusive right to append to a chunk; created by [`Pool::take`](crate::Pool::take).
///
/// After a refused append it has no further use: drop it and take another. Dropping it closes
/// nothing.
pub struct ChunkWriter {
    chunk: Chunk,
}

/// Records that are appended together; created by [`ChunkWriter::burst`]. Dropped without
/// [`Burst::commit`], they are discarded.
pub struct Burst<'a> {
    writing: Writing<'a>,
    /// The state of the chunk before the burst.
    before: State,
    /// The state of the chunk after the burst.
    after: State,
}

/// A handle that observes a chunk and may close it. Clones share it.
///
/// When every handle, the writer and the reader are dropped, the chunk is freed. A chunk that was
/// never closed then loses its records.
#[derive(Clone)]
pub struct Chunk {
    shared: Arc<Shared>,
}

/// The right to read a closed chunk, which the call that closed it received. Dropping it returns
/// the memory to the pool.
pub struct SealedChunk {
    shared: Arc<Shared>,
    /// The state of the chunk when it was closed.
    state: State,
}

struct Shared {
    /// A [`State`]. Only the writer changes length and count. Any owner sets [`CLOSED`], once. The
    /// writer sets and clears [`WRITING`]; the reader sets [`READ`], once.
    word: AtomicU64,
    bytes: usize,
    /// `Some` until the memory is returned. The writer accesses it between setting and clearing
    /// [`WRITING`], the reader before setting [`READ`]. The last of the two, or `drop`, takes it.
    memory: UnsafeCell<Option<Memory>>,
    /// The shelf that the memory returns to.
    shelf: Arc<Shelf>,
}

// SAFETY: all fields but the cell are `Sync`. The word enforces the access to the cell that its
// comment describes, and its content may be moved to and used from any thread.
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

    /// Appends a record of `len` bytes that `write` fills in; returns its number in the chunk, from
    /// 0.
    ///
    /// One record costs a [`Burst`] of its own.
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

    /// Begins a burst of records that become visible together, at the cost of appending one record.
    ///
    /// A thread that closes the chunk meanwhile does not wait: the whole burst is then refused on
    /// commit.
    ///
    /// # Errors
    /// [`AppendRefused::Closed`].
    #[inline]
    pub fn burst(&mut self) -> Result<Burst<'_>, AppendRefused> {
        let shared = &*self.chunk.shared;
        // Relaxed: other threads change only `CLOSED` and `READ`, and the compare-exchange checks
        // these.
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

    /// Returns the handle with which others observe and close this chunk.
    pub const fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

impl Burst<'_> {
    /// Appends a record of `len` bytes that `write` fills in to the burst.
    ///
    /// The slice given to `write` holds bytes of earlier uses; bytes not overwritten become part of
    /// the record. If `write` panics, nothing of the burst is appended. It takes no lock, allocates
    /// nothing and makes no system call.
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
        // Lossless: a length is at most the chunk's size.
        let from = self.after.len() as usize;
        // SAFETY: the flag `WRITING`, which `writing` holds, keeps the memory from being returned.
        let memory = unsafe { shared.memory() };
        // SAFETY: in bounds: `with_record` checked the end. Exclusive: there is one writer,
        // borrowed exclusively by the burst. Readers see only the committed prefix, which ends at
        // `before`, so at most at `from`.
        unsafe { memory.write(from, len, write) };
        self.after = after;
        Ok(())
    }

    /// Returns the number of records in the burst.
    #[inline]
    pub const fn records(&self) -> u32 {
        self.after.records().saturating_sub(self.before.records())
    }

    /// Commits the records: a thread that closes the chunk from now on sees them. Returns the
    /// number of the first in the chunk.
    ///
    /// A commit takes no lock, allocates nothing and makes no system call, with one exception. If
    /// the chunk was closed and its reader has finished, it returns the memory in the reader's
    /// place.
    ///
    /// # Errors
    /// [`AppendRefused::Closed`] if the chunk was closed; it then holds none of the records.
    #[inline]
    pub fn commit(self) -> Result<u32, AppendRefused> {
        self.writing.commit(self.before, self.after)?;
        Ok(self.before.records())
    }
}

impl Chunk {
    /// Closes the chunk, so that no more records can be committed. The one call that closed it gets
    /// the right to read.
    pub fn close(&self) -> Option<SealedChunk> {
        // Acquire: pairs with `commit`, so the bytes of every committed record are visible.
        let state = State(self.shared.word.fetch_or(CLOSED, Ordering::Acquire));
        if state.is_closed() {
            return None;
        }
        Some(SealedChunk {
            shared: Arc::clone(&self.shared),
            state,
        })
    }

    /// Returns whether the chunk is closed.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed()
    }

    /// Returns the number of bytes committed so far.
    pub fn len(&self) -> u32 {
        self.state().len()
    }

    /// Returns whether no bytes are committed so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of records committed so far.
    pub fn records(&self) -> u32 {
        self.state().records()
    }

    /// Returns the size of the chunk, in bytes.
    pub fn capacity(&self) -> usize {
        self.shared.bytes
    }

    fn state(&self) -> State {
        // Acquire: the producer's actions before the commits counted here happened before.
        State(self.shared.word.load(Ordering::Acquire))
    }
}

impl SealedChunk {
    /// Returns the committed records, concatenated.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `READ` is set only by dropping `self`, and until then the memory is not returned.
        let memory = unsafe { self.shared.memory() };
        // SAFETY: in bounds: committed lengths are. Immutable: the writer writes beyond the
        // committed prefix, which ends here since the chunk was closed. The acquire in `close` came
        // after these writes.
        unsafe { memory.prefix(self.state.len() as usize) }
    }

    /// Returns the number of records.
    pub const fn records(&self) -> u32 {
        self.state.records()
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> u32 {
        self.state.len()
    }

    /// Returns whether the chunk holds no bytes; it may still hold empty records.
    pub const fn is_empty(&self) -> bool {
        self.state.len() == 0
    }
}

/// A guard of the writer's access: while it exists the memory is not returned.
struct Writing<'a> {
    shared: &'a Shared,
}

impl<'a> Writing<'a> {
    #[inline]
    fn begin(shared: &'a Shared, before: State) -> Result<Self, AppendRefused> {
        debug_assert!(!before.is_writing() && !before.is_closed());
        // Relaxed: only the order within the word matters. If the reader's `READ` comes before, the
        // chunk was closed before too and this fails. If it comes after, the reader sees the flag.
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
        // Release: publishes the record's bytes to a thread that reads the new count.
        let committed = self.shared.word.compare_exchange(
            before.0 | WRITING,
            after.0,
            Ordering::Release,
            Ordering::Relaxed,
        );
        match committed {
            Ok(_) => {
                // The exchange has already cleared the flag.
                let _ended = ManuallyDrop::new(self);
                Ok(())
            }
            Err(_closed) => Err(AppendRefused::Closed),
        }
    }
}

/// Ends the access without a commit: the chunk was closed, or `write` panicked.
impl Drop for Writing<'_> {
    #[cold]
    fn drop(&mut self) {
        // AcqRel: one side's last access happens before the other side returns the memory.
        let state = State(self.shared.word.fetch_and(!WRITING, Ordering::AcqRel));
        if state.is_read() {
            // SAFETY: the reader is done and saw `WRITING`, so it left this to the writer. No
            // append follows, because the chunk is closed.
            unsafe { self.shared.give_back() };
        }
    }
}

impl Drop for SealedChunk {
    fn drop(&mut self) {
        // AcqRel: as in `Writing::drop`, with the roles exchanged.
        let state = State(self.shared.word.fetch_or(READ, Ordering::AcqRel));
        debug_assert!(state.is_closed() && !state.is_read());
        if !state.is_writing() {
            // SAFETY: the writer is in no append and begins none, because the chunk is closed. The
            // reader reads no more.
            unsafe { self.shared.give_back() };
        }
    }
}

impl Shared {
    /// Returns the memory.
    ///
    /// # Safety
    /// The memory must not be returned to the pool while the reference is in use.
    #[inline]
    unsafe fn memory(&self) -> &Memory {
        self.memory.with(|memory| {
            // SAFETY: valid: the cell is part of `self`. Not written meanwhile: the caller's duty.
            let memory = unsafe { &*memory };
            debug_assert!(memory.is_some(), "memory is used before it is given back");
            // SAFETY: filled by `new` and emptied only by `give_back`.
            unsafe { memory.as_ref().unwrap_unchecked() }
        })
    }

    /// Returns the memory to the shelf.
    ///
    /// # Safety
    /// No thread may access the memory now or later.
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
        // Relaxed: this is the last owner, so every other access happened before.
        let state = State(self.word.load(Ordering::Relaxed));
        if !state.is_read() {
            // SAFETY: writer and reader own the chunk too, so both are gone. Neither has returned
            // the memory, because that requires `READ`.
            unsafe { self.give_back() };
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: the value is only informative.
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

// The records are secret, so only their state is shown.
impl fmt::Debug for SealedChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedChunk")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
