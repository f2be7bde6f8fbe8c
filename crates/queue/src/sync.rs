//! The synchronisation primitives that this crate uses: those of std, or of loom under `cfg(loom)`.

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
#[cfg(loom)]
pub(crate) use loom::hint::spin_loop;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
use std::sync::PoisonError;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The cell of std with the interface of loom's, which checks every access for races.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer that may be read while no other thread writes.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer that may be written while no other thread reads or writes.
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Locks `mutex`. No code of this crate panics while it holds a lock, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of pauses before a thread sleeps. None under loom, where they would only multiply the
/// interleavings.
pub(crate) const PAUSES: u32 = if cfg!(loom) { 0 } else { 10 };
/// Number of pauses that spin; the later ones yield the processor to other threads.
const PAUSES_AWAKE: u32 = 6;

/// Makes pause `number` of [`PAUSES`], each longer than the one before.
pub(crate) fn pause(number: u32) {
    if number < PAUSES_AWAKE {
        (0..1_u32 << number).for_each(|_| spin_loop());
    } else {
        std::thread::yield_now();
    }
}

/// Waits for a notification, at most for `limit`, if there is one. It may wake up spuriously.
pub(crate) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    limit: Option<Duration>,
) -> MutexGuard<'a, T> {
    match limit {
        Some(limit) => {
            condvar
                .wait_timeout(guard, limit)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        }
        None => condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
    }
}
