//! The progress of the frames of a log, counted over all streams that others append to.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::signal::Signal;
use crate::stream::lock;

/// The progress of an open log, and who is told of it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    marks: Mutex<Marks>,
    /// Raised after every commit, and after every publication that was asked for.
    changed: Signal,
    callbacks: RwLock<Vec<Callback>>,
}

/// Frames of this opening that came as far as each stage. Each mark covers those of the stages
/// behind it.
#[derive(Debug, Default)]
struct Marks {
    /// Written to their segments, in turn.
    written: Watermark,
    /// Integrated into their trees, and durable where the durability mode says so.
    integrated: Watermark,
    /// Offered to a publication.
    offered: Watermark,
}

/// A count of frames that never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Watermark(u64);

impl Watermark {
    /// Rises to `mark`, which is no higher than that of the stage before.
    ///
    /// # Panics
    /// If frames would be taken back, or would pass a stage that they never reached. The log ends
    /// then: a head signed for such frames would be wrong.
    fn rise(&mut self, mark: Self, before: Self) {
        assert!(*self <= mark, "frames never go back a stage");
        assert!(mark <= before, "frames pass each stage in turn");
        *self = mark;
    }

    /// The mark `frames` further.
    fn after(self, frames: u64) -> Self {
        let room = u64::MAX.saturating_sub(self.0);
        assert!(
            frames <= room,
            "fewer frames are written than a count holds"
        );
        Self(self.0.saturating_add(frames))
    }
}

/// Called after every commit.
struct Callback(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl Progress {
    /// Counts a frame that is written. The caller holds its stream's writer: a commit that finds
    /// the frame finds it counted, and one that finds it counted finds the frame.
    pub(crate) fn write_one(&self) {
        let mut marks = self.marks();
        marks.written = marks.written.after(1);
    }

    /// Returns whether a frame is written and not integrated yet.
    pub(crate) fn needs_commit(&self) -> bool {
        let marks = self.marks();
        marks.written > marks.integrated
    }

    /// Counts frames that a commit integrated. Returns whether they are the first since the last
    /// publication began.
    pub(crate) fn integrate(&self, frames: u64) -> bool {
        let mut marks = self.marks();
        let (written, before) = (marks.written, marks.integrated);
        marks.integrated.rise(before.after(frames), written);
        frames > 0 && marks.offered == before
    }

    /// Returns whether a frame was integrated since the last publication began.
    pub(crate) fn needs_publication(&self) -> bool {
        let marks = self.marks();
        marks.integrated > marks.offered
    }

    /// Begins a publication: all frames integrated so far become part of it. Those committed
    /// meanwhile may not, and need another.
    pub(crate) fn offer(&self) {
        let mut marks = self.marks();
        let integrated = marks.integrated;
        marks.offered.rise(integrated, integrated);
    }

    pub(crate) const fn changed(&self) -> &Signal {
        &self.changed
    }

    pub(crate) fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        let mut callbacks = self
            .callbacks
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        callbacks.push(Callback(callback));
    }

    /// Calls every callback.
    pub(crate) fn call_back(&self) {
        let callbacks = self
            .callbacks
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for callback in callbacks.iter() {
            (callback.0)();
        }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        lock(&self.marks)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use probity_format::keys::{RootKey, Secret};
    use probity_format::stream::{StreamConfig, StreamName};
    use probity_format::{Entry, Timestamp};

    use super::*;
    use crate::clock::SystemClock;
    use crate::error::LogError;
    use crate::storage::Memory;
    use crate::{Log, LogLocation, Options};

    #[test]
    fn a_frame_needs_a_commit_until_it_is_integrated_and_then_a_publication() {
        let progress = Progress::default();
        assert!(!progress.needs_commit() && !progress.needs_publication());
        progress.write_one();
        progress.write_one();
        assert!(progress.needs_commit() && !progress.needs_publication());
        assert!(progress.integrate(1));
        assert!(progress.needs_commit() && progress.needs_publication());
        // The publishing thread was woken for the first.
        assert!(!progress.integrate(1));
        assert!(!progress.needs_commit());
        progress.offer();
        assert!(!progress.needs_publication());
        assert!(!progress.integrate(0));
    }

    #[test]
    fn a_frame_integrated_during_a_publication_needs_another() {
        let progress = Progress::default();
        progress.write_one();
        progress.write_one();
        progress.integrate(1);
        progress.offer();
        assert!(progress.integrate(1));
        assert!(progress.needs_publication());
    }

    #[test]
    #[should_panic(expected = "frames pass each stage in turn")]
    fn a_frame_that_was_never_written_is_not_integrated() {
        let progress = Progress::default();
        progress.write_one();
        progress.integrate(2);
    }

    #[test]
    #[should_panic(expected = "frames never go back a stage")]
    fn a_watermark_never_goes_back() {
        let mut mark = Watermark(2);
        mark.rise(Watermark(1), Watermark(2));
    }

    /// Frames that were integrated and never written would have been signed for.
    #[test]
    fn a_log_with_a_mark_that_passed_the_stage_before_stops_and_signs_nothing() {
        let places = LogLocation::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "the log");
        let root = RootKey::new(Secret::new([7; 32]));
        let options = Options {
            checkpoint_interval: Duration::from_hours(1),
            ..Options::default()
        };
        let config = StreamConfig::default();
        let origin = "example.com/audit";
        let log = Log::create_at(
            &places,
            origin,
            &root,
            config,
            options,
            Arc::new(SystemClock::new()),
        )
        .unwrap();
        log.core().progress.marks().integrated = Watermark(1);
        let stream = StreamName::default();
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
        let mut appender = log.appender(&stream).unwrap();
        appender.append(&Entry::new(time, "read", b"key")).unwrap();
        drop(appender);
        assert!(matches!(log.publish(), Err(LogError::Poisoned(_))));
        let head = log.core().streams.find(&stream).unwrap().published_head();
        assert_eq!(head.map(|head| head.size()), Some(0));
        assert!(log.close().is_err());
    }
}
