//! Background load on the processor during a measurement.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that compute until this value is dropped.
pub(crate) struct Busy {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn start(threads: usize) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let one = |_| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                let mut number = 1_u64;
                // Relaxed: the flag publishes no other data.
                while !ends.load(Ordering::Relaxed) {
                    number = black_box(number.wrapping_mul(6_364_136_223_846_793_005) | 1);
                }
            })
        };
        let threads = (0..threads).map(one).collect();
        Self { ends, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread only computes, so it has no result.
            drop(thread.join());
        }
    }
}
