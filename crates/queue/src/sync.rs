//! The primitives all other files are written against: std's, or loom's under `cfg(loom)`.

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

/// Std's cell behind the interface of loom's, which watches every access for races.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// A pointer to read through while no one else writes.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// A pointer to write through while no one else reads or writes.
    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Locks `mutex`. No code of this crate panics while it holds a lock, so a poisoned one is as good as new.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses worth making before a thread sleeps. None under loom, where they would only multiply what it explores.
pub(crate) const PAUSES: u32 = if cfg!(loom) { 0 } else { 10 };
/// Of those, how many keep the processor; the others offer it to other threads.
const PAUSES_AWAKE: u32 = 6;

/// Pause `number` of [`PAUSES`], each longer than the one before.
pub(crate) fn pause(number: u32) {
    if number < PAUSES_AWAKE {
        (0..1_u32 << number).for_each(|_| spin_loop());
    } else {
        std::thread::yield_now();
    }
}

/// Waits for a notification, but no longer than `limit`, or without end when there is none. May wake for no reason.
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
