//! A fixed buffer of bytes whose disjoint parts two threads may use at the same time.

#![expect(
    unsafe_code,
    reason = "a producer writes one part while a reader reads another"
)]

use std::ptr::NonNull;

#[cfg(loom)]
use crate::sync::UnsafeCell;

/// A buffer of initialised bytes at a fixed address. The owner coordinates access to its parts; see
/// `chunk`.
pub(crate) struct Memory {
    /// Pointer from `Box::into_raw` of a slice of `bytes` bytes, freed in `drop`.
    start: NonNull<u8>,
    bytes: usize,
    /// One cell per byte, with which loom detects conflicting accesses.
    #[cfg(loom)]
    watched: Vec<UnsafeCell<()>>,
}

// SAFETY: it owns plain bytes, which have no thread affinity.
unsafe impl Send for Memory {}
// SAFETY: the bytes are reached only through unsafe functions, whose callers prevent conflicting
// accesses.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates zeroed bytes; the operating system maps the pages when they are first touched.
    pub(crate) fn zeroed(bytes: usize) -> Self {
        let boxed = vec![0_u8; bytes].into_boxed_slice();
        Self {
            start: NonNull::from(Box::leak(boxed)).cast(),
            bytes,
            #[cfg(loom)]
            watched: (0..bytes).map(|_| UnsafeCell::new(())).collect(),
        }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls `write` with the `len` bytes from `from` on.
    ///
    /// # Safety
    /// `from + len` must be at most [`Memory::bytes`], and until this returns nothing else may
    /// access those bytes.
    #[inline]
    pub(crate) unsafe fn write(&self, from: usize, len: usize, write: impl FnOnce(&mut [u8])) {
        debug_assert!(from.checked_add(len).is_some_and(|end| end <= self.bytes));
        #[cfg(loom)]
        let _watch: Vec<_> = self.watched[from..from + len]
            .iter()
            .map(UnsafeCell::get_mut)
            .collect();
        // SAFETY: in bounds: the caller keeps `from` within the allocation of `bytes` bytes.
        let part = unsafe { self.start.add(from) };
        // SAFETY: in bounds, from one allocation and exclusive: the caller's duties. Initialised:
        // zeroed at first and since then written only through such slices. Alive: the borrow ends
        // before `self` can.
        let slice = unsafe { std::slice::from_raw_parts_mut(part.as_ptr(), len) };
        write(slice);
    }

    /// Returns the first `len` bytes.
    ///
    /// # Safety
    /// `len` must be at most [`Memory::bytes`], and while the slice lives nothing may write those
    /// bytes.
    pub(crate) unsafe fn prefix(&self, len: usize) -> &[u8] {
        debug_assert!(len <= self.bytes);
        #[cfg(loom)]
        let _watch: Vec<_> = self.watched[..len].iter().map(UnsafeCell::get).collect();
        // SAFETY: in bounds, from one allocation and not written: the caller's duties. Initialised:
        // see `write`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes);
        // SAFETY: pointer and length are those of the box leaked in `zeroed`, freed once: `self` is
        // gone.
        drop(unsafe { Box::from_raw(slice) });
    }
}
