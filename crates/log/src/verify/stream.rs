//! Checks one stream in one pass over its records, however many there are.

use std::collections::BTreeSet;

use probity_format::limits::TILE_WIDTH;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use super::frames::{Frames, Work};
use super::records::Records;
use super::sealers::Sealers;
use super::segments::Segments;
use super::since::Skipping;
use super::stored::{is_there, open};
use super::tiles::Tiles;
use super::tree::Growth;
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, Skipped, StreamReport, Subject, Verifier};
use crate::error::LogError;

/// The results of the pass over a stream's records, besides faults.
struct Passed {
    entries: u64,
    unpublished_frames: u64,
    unpublished_bytes: u64,
    tail_bytes: u64,
    /// The segment that the stream ends in.
    last_segment: u64,
    /// Files in the place of a segment that hold no frame.
    strange: BTreeSet<u64>,
    /// Frames that were not to be read.
    skipped: Vec<Skipped>,
}

/// Checks `subject` from its checkpoint to every stored byte.
pub(super) fn check(
    verifier: &Verifier<'_>,
    subject: &Subject,
    sealers: Sealers<'_>,
    faults: &mut Faults,
    unchecked: &mut Names,
) -> Result<StreamReport, LogError> {
    // Before the stream is read: a live log begins segments meanwhile.
    let segments = unchecked.of_stream(&verifier.files, subject.name.as_str())?;
    let records = Records::survey(verifier, subject, faults)?;
    let work = Work::new(verifier, subject, sealers.opening(), records.bytes);
    let size = records.size();
    let passed = std::thread::scope(|scope| {
        let mut frames = work.start(scope);
        let frames_of = &mut frames;
        let passed = pass(
            verifier, subject, sealers, records, frames_of, faults, unchecked,
        );
        frames.finish();
        passed
    })?;
    let outcome = work.finish()?;
    faults.append(outcome.faults);
    for path in segments {
        let (version, last) = (subject.version, passed.last_segment);
        // The check of the segments reports those that hold frames.
        if unchecked.segment(version, &path, last, &passed.strange)
            && is_there(&verifier.files, &path)?
            && open(&verifier.files, &path)?.is_none()
        {
            let detail = "something else is in the place of the file";
            faults.push(Fault::new(FaultClass::Unknown, &subject.name, path, detail));
        }
    }
    let head = subject.head.as_ref();
    let is_empty = size.saturating_add(passed.unpublished_frames) == 0;
    if is_empty && subject.name.as_str() == StreamName::JOURNAL {
        let detail = "has no first frame: the log was emptied, or its creation never ended";
        let place = format!("streams/{}", subject.name);
        let missing = Fault::new(FaultClass::Missing, &subject.name, place, detail);
        faults.push(missing);
    }
    Ok(StreamReport {
        name: subject.name.to_string(),
        frames: size,
        entries: passed.entries,
        bytes: outcome.bytes,
        skipped: passed.skipped,
        root: head.map(|head| head.root().to_string()).unwrap_or_default(),
        unpublished_frames: passed.unpublished_frames,
        unpublished_sealed: sealers.telling(subject).is_some() && passed.unpublished_frames > 0,
        unsigned_bytes: passed.unpublished_bytes.saturating_add(passed.tail_bytes),
        tail_bytes: passed.tail_bytes,
        erased_sections: outcome.erased_sections,
        partly_erased_sections: outcome.partly_erased_sections,
    })
}

fn pass(
    verifier: &Verifier<'_>,
    subject: &Subject,
    sealers: Sealers<'_>,
    mut records: Records<'_>,
    frames: &mut Frames<'_>,
    faults: &mut Faults,
    unchecked: &mut Names,
) -> Result<Passed, LogError> {
    let size = records.size();
    let mut growth = Growth::new(verifier, subject, size, faults);
    let mut segments = Segments::new(verifier, subject);
    let mut last: Option<Record> = None;
    let mut last_place = None;
    let mut skipping = Skipping::default();
    for index in 0..size.div_ceil(TILE_WIDTH) {
        for placed in records.read(index, faults)? {
            growth.add(&placed, &records.reported, faults)?;
            segments.add(&placed, faults)?;
            if let Some(record) = &placed.record
                && let Some(why) = verifier.leaves_out(subject, record)
            {
                skipping.add(record, why);
            }
            match (&placed.record, placed.place) {
                (Some(record), Some(place)) => {
                    frames.add(record, place);
                    last_place = Some(place);
                }
                (Some(record), None) => lost(subject, record, faults),
                (None, _) => {}
            }
            last = placed.record.or(last);
        }
    }
    growth.compare_edge(&records.reported, faults)?;
    Tiles { verifier, subject }.find_others(size, faults, unchecked)?;
    segments.finish(faults)?;
    let behind = growth.read_behind(last_place, sealers, faults)?;
    if let Some((behind, to)) = behind
        .as_ref()
        .zip(behind.as_ref().and_then(|it| it.last_filled))
    {
        segments.check_behind(last_place, to, &behind.strange, faults)?;
    }
    let behind = behind.as_ref();
    growth.finish(behind, faults)?;
    Ok(Passed {
        skipped: skipping.finish(),
        entries: last.map_or(0, |record| record.next_entry()),
        unpublished_frames: behind.map_or(0, |behind| behind.frames),
        unpublished_bytes: behind.map_or(0, |behind| behind.frame_bytes),
        tail_bytes: behind.map_or(0, |behind| behind.tail_bytes),
        strange: behind.map(|it| it.strange.clone()).unwrap_or_default(),
        // At a damaged end, the record has the place of the last frame.
        last_segment: behind.map_or_else(
            || last_place.map_or(u64::MAX, |place| place.segment),
            |behind| behind.segment,
        ),
    })
}

/// Reports a frame whose place is unknown.
fn lost(subject: &Subject, record: &Record, faults: &mut Faults) {
    let place = format!("streams/{}/segments, frame {}", subject.name, record.frame);
    let detail = "is not found behind a frame whose record is damaged";
    faults.push(Fault::new(FaultClass::Frame, &subject.name, place, detail));
}
