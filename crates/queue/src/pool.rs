//! A fixed budget of chunk memory, handed out and taken back.

use std::fmt;
use std::time::Duration;

use crate::chunk::ChunkWriter;
use crate::deadline::{Deadline, TimeLeft};
use crate::error::ChunkSizeError;
use crate::memory::Memory;
use crate::sync::{Arc, Condvar, Mutex, lock, wait};

/// Largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Up to a fixed number of chunks of one size. Clones share it.
///
/// A chunk's memory is allocated when it is first needed, is never more than `count * bytes` for all together,
/// and is used again as soon as its reader is done; what was used last is used first, being warm. A lock guards it:
/// it is asked once a chunk, not once a record.
#[derive(Clone)]
pub struct Pool {
    shelf: Arc<Shelf>,
}

/// What the chunks in use give their memory back to.
pub(crate) struct Shelf {
    count: usize,
    bytes: usize,
    stock: Mutex<Stock>,
    returned: Condvar,
}

/// Guarded by the lock of [`Shelf`].
#[derive(Default)]
struct Stock {
    idle: Vec<Memory>,
    /// Memory that exists, idle or in use.
    allocated: usize,
    /// Threads that wait for memory to come back.
    waiting: usize,
}

impl Pool {
    /// A pool of up to `count` chunks (0 counts as 1) of `bytes` bytes each.
    ///
    /// # Errors
    /// [`ChunkSizeError`] when `bytes` is 0 or more than [`CHUNK_BYTES_MAX`].
    pub fn new(count: usize, bytes: usize) -> Result<Self, ChunkSizeError> {
        if bytes == 0 || bytes > CHUNK_BYTES_MAX {
            return Err(ChunkSizeError { bytes });
        }
        let shelf = Shelf {
            count: count.max(1),
            bytes,
            stock: Mutex::new(Stock::default()),
            returned: Condvar::new(),
        };
        Ok(Self {
            shelf: Arc::new(shelf),
        })
    }

    /// An empty chunk to append to, if one is free now.
    pub fn try_take(&self) -> Option<ChunkWriter> {
        self.take(Duration::ZERO)
    }

    /// An empty chunk to append to, waiting for one up to `timeout`.
    pub fn take(&self, timeout: Duration) -> Option<ChunkWriter> {
        let memory = self.shelf.take(timeout)?;
        Some(ChunkWriter::new(memory, Arc::clone(&self.shelf)))
    }

    /// The most chunks in use at a time.
    pub fn count(&self) -> usize {
        self.shelf.count
    }

    /// The size of each chunk, in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.shelf.bytes
    }

    /// Bytes allocated by now, for chunks in use and idle ones.
    pub fn allocated_bytes(&self) -> usize {
        lock(&self.shelf.stock).allocated * self.shelf.bytes
    }

    /// Chunks that could be taken at this moment.
    pub fn available(&self) -> usize {
        let stock = lock(&self.shelf.stock);
        stock.idle.len() + (self.shelf.count - stock.allocated)
    }
}

impl Shelf {
    fn take(&self, timeout: Duration) -> Option<Memory> {
        // The clock is asked only when there is nothing at once.
        let mut deadline = None;
        let mut stock = lock(&self.stock);
        loop {
            if let Some(memory) = stock.idle.pop() {
                return Some(memory);
            }
            if stock.allocated < self.count {
                stock.allocated += 1;
                drop(stock);
                return Some(Memory::zeroed(self.bytes));
            }
            let deadline = deadline.get_or_insert_with(|| Deadline::after(timeout));
            let TimeLeft::Some(limit) = deadline.time_left() else {
                return None;
            };
            stock.waiting += 1;
            stock = wait(&self.returned, stock, limit);
            stock.waiting -= 1;
        }
    }

    pub(crate) fn put_back(&self, memory: Memory) {
        let mut stock = lock(&self.stock);
        stock.idle.push(memory);
        debug_assert!(
            stock.idle.len() <= stock.allocated,
            "only what was taken comes back"
        );
        let waiting = stock.waiting;
        drop(stock);
        if waiting > 0 {
            self.returned.notify_one();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("count", &self.shelf.count)
            .field("chunk_bytes", &self.shelf.bytes)
            .finish_non_exhaustive()
    }
}
