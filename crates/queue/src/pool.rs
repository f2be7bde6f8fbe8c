//! A pool of chunk memory with a fixed upper bound.

use std::fmt;
use std::time::Duration;

use crate::chunk::ChunkWriter;
use crate::deadline::{Deadline, TimeLeft};
use crate::error::ChunkSizeError;
use crate::memory::Memory;
use crate::sync::{Arc, Condvar, Mutex, lock, wait};

/// Largest chunk, in bytes.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A pool of up to a fixed number of chunks of one size. Clones share it.
///
/// A chunk's memory is allocated when it is first needed; all together take at most `count *
/// bytes`. It is reused as soon as its reader is done, last used first, because that is still
/// cached. A lock guards the pool; it is taken once per chunk, not once per record.
#[derive(Clone)]
pub struct Pool {
    shelf: Arc<Shelf>,
}

/// The place to which chunks in use return their memory.
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
    /// Number of chunks allocated, idle or in use.
    allocated: usize,
    /// Number of threads that wait for memory to return.
    waiting: usize,
}

impl Pool {
    /// Creates a pool of up to `count` chunks (0 counts as 1) of `bytes` bytes each.
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

    /// Takes an empty chunk, if one is free now.
    pub fn try_take(&self) -> Option<ChunkWriter> {
        self.take(Duration::ZERO)
    }

    /// Takes an empty chunk; waits for one up to `timeout`. `None` after the timeout.
    pub fn take(&self, timeout: Duration) -> Option<ChunkWriter> {
        let memory = self.shelf.take(timeout)?;
        Some(ChunkWriter::new(memory, Arc::clone(&self.shelf)))
    }

    /// Returns the greatest number of chunks in use at a time.
    pub fn count(&self) -> usize {
        self.shelf.count
    }

    /// Returns the size of each chunk, in bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.shelf.bytes
    }

    /// Returns the number of bytes allocated so far, for idle chunks and chunks in use.
    pub fn allocated_bytes(&self) -> usize {
        lock(&self.shelf.stock).allocated * self.shelf.bytes
    }

    /// Returns the number of chunks that can be taken at this moment.
    pub fn available(&self) -> usize {
        let stock = lock(&self.shelf.stock);
        stock.idle.len() + (self.shelf.count - stock.allocated)
    }
}

impl Shelf {
    fn take(&self, timeout: Duration) -> Option<Memory> {
        // The clock is read only if no chunk is free at once.
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
