//! The frames of a log that are not read: a checkpoint that the verifier kept covers them, or they
//! are of another time.

use probity_format::Version;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use super::heads::note_origin;
use super::report::Faults;
use super::{Fault, FaultClass, Skipped, SkippedReason, Subject, Verifier};

/// The name in reports of a checkpoint that the verifier knew before.
pub(super) const SINCE: &str = "the checkpoint given with --since";

impl Verifier<'_> {
    /// The stream of the given checkpoint. Reports a fault where there is none: the checkpoint
    /// would not be compared with anything.
    pub(super) fn stream_of_since(
        &self,
        subjects: &[Subject],
        faults: &mut Faults,
    ) -> Option<String> {
        let origin = note_origin(self.options.since.as_ref()?);
        let is_of = |subject: &&Subject| {
            origin == Some(self.geometry.stream_origin(subject.name.as_str()).as_str())
        };
        let Some(subject) = subjects.iter().find(is_of) else {
            faults.push(Fault::new(
                FaultClass::Checkpoint,
                &StreamName::journal(),
                SINCE,
                "is of no stream of this log",
            ));
            return None;
        };
        Some(subject.name.to_string())
    }

    /// The given checkpoint, if it is of the stream `name`.
    pub(super) fn since_of(&self, name: &StreamName) -> Option<Vec<u8>> {
        let origin = self.geometry.stream_origin(name.as_str());
        let since = self.options.since.as_ref();
        let since = since.filter(|note| note_origin(note) == Some(origin.as_str()));
        since.cloned()
    }

    /// Returns whether the frame of `record` is to be read.
    pub(super) fn wants(&self, subject: &Subject, record: &Record) -> bool {
        self.leaves_out(subject, record).is_none()
    }

    /// The reason why the frame of `record` is not to be read. Frames of journal and heads of all
    /// times are read, because all streams depend on them.
    pub(super) fn leaves_out(&self, subject: &Subject, record: &Record) -> Option<SkippedReason> {
        if record.frame < subject.since {
            Some(SkippedReason::BeforeCheckpoint)
        } else if !self.is_due(record) && !is_built_in(subject) {
            Some(SkippedReason::OtherTime)
        } else {
            None
        }
    }

    /// Returns whether the frame of `record` may hold entries of the requested time.
    fn is_due(&self, record: &Record) -> bool {
        self.options.from.is_none_or(|from| record.time_max >= from)
            && self.options.to.is_none_or(|to| record.time_min < to)
    }
}

/// Returns whether the log itself writes the stream. In version 2 there is none for heads.
fn is_built_in(subject: &Subject) -> bool {
    match subject.name.as_str() {
        StreamName::JOURNAL => true,
        StreamName::HEADS => subject.version != Version::V2,
        _ => false,
    }
}

/// Counts the frames of one stream that are not read, for each reason.
#[derive(Default)]
pub(super) struct Skipping {
    before: Count,
    other: Count,
}

#[derive(Default)]
struct Count {
    frames: u64,
    bytes: u64,
}

impl Skipping {
    /// Counts the frame of `record`, which is not read, under `why`.
    pub(super) fn add(&mut self, record: &Record, why: SkippedReason) {
        let count = match why {
            SkippedReason::BeforeCheckpoint => &mut self.before,
            SkippedReason::OtherTime => &mut self.other,
        };
        count.frames = count.frames.saturating_add(1);
        count.bytes = count.bytes.saturating_add(u64::from(record.length));
    }

    /// The counts by reason.
    pub(super) fn finish(self) -> Vec<Skipped> {
        [
            (SkippedReason::BeforeCheckpoint, self.before),
            (SkippedReason::OtherTime, self.other),
        ]
        .into_iter()
        .filter(|(_, count)| count.frames > 0)
        .map(|(why, Count { frames, bytes })| Skipped { frames, bytes, why })
        .collect()
    }
}
