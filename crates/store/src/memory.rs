//! Memory of waiting commands and unread replies, with one bound for all clients of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fail::Fail;
use crate::limits::WAITING_BYTES_MAX;

/// Bytes that each allocation takes beside its own, for its bookkeeping and rounding.
pub(crate) const ALLOCATION_BYTES: usize = 16;

/// The memory that transactions, long commands, watched keys and unread replies may take together.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Bound>);

#[derive(Debug)]
struct Bound {
    taken: AtomicUsize,
    most: usize,
}

/// A part of the memory, which is free again when this is dropped.
#[derive(Debug)]
pub struct Share {
    memory: Memory,
    bytes: usize,
}

/// There is no memory left for a command or its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the transactions, long commands, watched keys and unread replies of all clients take more than {0} bytes, try it later"
)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to tell")]
pub struct NoMemory(pub usize);

impl Memory {
    /// Creates memory of `most` bytes.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Bound {
            taken: AtomicUsize::new(0),
            most,
        }))
    }

    /// Returns the free bytes.
    pub(crate) fn free(&self) -> usize {
        let Bound { taken, most } = &*self.0;
        most.saturating_sub(taken.load(Ordering::Relaxed))
    }

    /// Why something has no room.
    pub(crate) fn full(&self) -> NoMemory {
        NoMemory(self.0.most)
    }

    /// Takes a part of `bytes` bytes for data that exists already, even beyond the bound.
    pub(crate) fn taken(&self, bytes: usize) -> Share {
        self.0.taken.fetch_add(bytes, Ordering::Relaxed);
        Share {
            memory: self.clone(),
            bytes,
        }
    }

    /// A part of no bytes.
    pub fn share(&self) -> Share {
        Share {
            memory: self.clone(),
            bytes: 0,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(WAITING_BYTES_MAX)
    }
}

impl Share {
    /// Changes the length of this part to `bytes` bytes.
    ///
    /// # Errors
    /// When no such part is free; then it stays as it was.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NoMemory> {
        let Bound { taken, most } = &*self.memory.0;
        let next = |taken: usize| {
            let next = taken.saturating_sub(self.bytes).saturating_add(bytes);
            (next <= *most || bytes <= self.bytes).then_some(next)
        };
        let moved = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        moved.map_err(|_full| NoMemory(*most))?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.0.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl From<NoMemory> for Fail {
    fn from(full: NoMemory) -> Self {
        Self::said(&format!("ERR {full}"))
    }
}
