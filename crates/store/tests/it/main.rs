//! The store, as its users call it. Tests that watch the memory of their process are programs of their own.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

mod backups;
mod damage;
mod marks;
mod numbers;
mod place;
mod remains;
mod rewriting;
mod runs;
mod sealing;
mod subjects;
mod turns;
