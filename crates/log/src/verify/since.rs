//! What of a log is not read: a checkpoint that the verifier kept vouches for it, or it is of another time than is asked for.

use probity_format::Version;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use super::heads::note_origin;
use super::report::Faults;
use super::{Fault, FaultClass, Skipped, SkippedReason, Subject, Verifier};

/// What a checkpoint that the verifier knew before is called in reports.
pub(super) const SINCE: &str = "the checkpoint given with --since";

impl Verifier<'_> {
    /// The stream whose checkpoint was given. One that is compared with nothing would be a promise that nobody keeps.
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

    /// Whether the frame of `record` is to be read.
    pub(super) fn wants(&self, subject: &Subject, record: &Record) -> bool {
        self.leaves_out(subject, record).is_none()
    }

    /// Why the frame of `record` is not to be read. Those of journal and heads are at all times: what they say is believed of all streams.
    pub(super) fn leaves_out(&self, subject: &Subject, record: &Record) -> Option<SkippedReason> {
        if record.frame < since_size(subject) {
            Some(SkippedReason::BeforeCheckpoint)
        } else if !self.is_due(record) && !is_built_in(subject) {
            Some(SkippedReason::OtherTime)
        } else {
            None
        }
    }

    /// Whether the frame of `record` may hold entries of the time that is asked for.
    fn is_due(&self, record: &Record) -> bool {
        self.options.from.is_none_or(|from| record.time_max >= from)
            && self.options.to.is_none_or(|to| record.time_min < to)
    }
}

/// Whether the log itself writes the stream. In version 2 there is none for heads.
fn is_built_in(subject: &Subject) -> bool {
    match subject.name.as_str() {
        StreamName::JOURNAL => true,
        StreamName::HEADS => subject.version != Version::V2,
        _ => false,
    }
}

/// The size below which frames are taken as read, for `subject`.
fn since_size(subject: &Subject) -> u64 {
    let mut since = subject.known.iter().filter(|known| known.source == SINCE);
    since.next().map_or(0, |known| known.size)
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
    /// The frame of `record` is not read, and `why`.
    pub(super) fn add(&mut self, record: &Record, why: SkippedReason) {
        let count = match why {
            SkippedReason::BeforeCheckpoint => &mut self.before,
            SkippedReason::OtherTime => &mut self.other,
        };
        count.frames = count.frames.saturating_add(1);
        count.bytes = count.bytes.saturating_add(u64::from(record.length));
    }

    /// What was counted.
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
