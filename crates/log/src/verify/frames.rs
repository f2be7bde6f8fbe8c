//! Checks every stored byte of a stream's segments against its records, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::record::Record;
use probity_format::segment::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer, segment_file_name,
};

use super::stored::open;
use super::{CheckedTree, Fault, FaultClass, StreamReport, Subject, Verifier};
use crate::error::LogError;
use crate::opener::{Opener, Opening};
use crate::storage::File;

/// Bytes of frames read at once by one thread.
const READ_BYTES: u64 = 4 << 20;

/// One thread's next piece: consecutive frames of one segment.
struct Piece {
    segment: u32,
    records: Range<usize>,
}

/// What the threads share.
struct Work<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    records: &'a [Record],
    pieces: &'a [Piece],
    next: AtomicUsize,
    bytes_done: AtomicU64,
    bytes_all: u64,
    erased: AtomicU64,
    found: Mutex<Vec<Fault>>,
    failed: Mutex<Option<LogError>>,
}

/// Recomputes the hash of every frame of `subject` that is to be read.
pub(super) fn check(
    verifier: &Verifier<'_>,
    subject: &Subject,
    checked: &CheckedTree,
    opener: Option<&Opener>,
    faults: &mut Vec<Fault>,
) -> Result<StreamReport, LogError> {
    let records = checked.records.as_slice();
    check_segments(verifier, subject, checked, faults)?;
    let pieces = pieces(verifier, subject, checked);
    let all = pieces
        .iter()
        .flat_map(|piece| records.get(piece.records.clone()).unwrap_or_default());
    let work = Work {
        verifier,
        subject,
        records,
        pieces: &pieces,
        next: AtomicUsize::new(0),
        bytes_done: AtomicU64::new(0),
        bytes_all: all.map(|record| u64::from(record.length)).sum(),
        erased: AtomicU64::new(0),
        found: Mutex::default(),
        failed: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..verifier.jobs().min(pieces.len()) {
            scope.spawn(|| work.run(opener));
        }
        work.run(opener);
    });
    if let Some(error) = work
        .failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        return Err(error);
    }
    faults.extend(
        work.found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    );
    Ok(StreamReport {
        name: subject.name.to_string(),
        frames: subject.head.as_ref().map_or(0, Checkpoint::size),
        entries: records.last().map_or(0, Record::next_entry),
        bytes: work.bytes_done.into_inner(),
        root: subject
            .head
            .as_ref()
            .map(|head| head.root().to_string())
            .unwrap_or_default(),
        unpublished_frames: checked.unpublished_frames,
        erased_sections: work.erased.into_inner(),
    })
}

impl Work<'_> {
    fn run(&self, opener: Option<&Opener>) {
        let mut buffer = Vec::new();
        let mut opening = opener.map(|opener| Opening::new(opener, self.subject.id));
        // Relaxed: the counter only deals out pieces.
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = self.check_piece(piece, &mut buffer, opening.as_mut()) {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
        }
        if let Some(opening) = opening {
            self.erased.fetch_add(opening.erased, Ordering::Relaxed);
        }
    }

    fn check_piece(
        &self,
        piece: &Piece,
        buffer: &mut Vec<u8>,
        mut opening: Option<&mut Opening<'_>>,
    ) -> Result<(), LogError> {
        let records = self.records.get(piece.records.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let path = segment_path(self.subject, piece.segment);
        // A missing segment is reported once, where segments are checked.
        let Some(file) = open(&self.verifier.files, &path)? else {
            return Ok(());
        };
        let length = self
            .verifier
            .files
            .attempt("measure", &path, |_| file.length())?;
        let wanted = last.end().saturating_sub(first.offset);
        let there = length.saturating_sub(first.offset).min(wanted);
        buffer.resize(usize::try_from(there).unwrap_or_default(), 0);
        read(self.verifier, &path, &*file, buffer, first.offset)?;
        let mut rest: &[u8] = buffer;
        for record in records {
            let bytes = usize::try_from(record.length).unwrap_or(usize::MAX);
            let Some((frame, after)) = rest.split_at_checked(bytes) else {
                self.fault(&path, record, FaultClass::Frame, "is cut off");
                break;
            };
            rest = after;
            self.check_frame(&path, record, frame, opening.as_deref_mut());
        }
        // Relaxed: figures only.
        let done = self
            .bytes_done
            .fetch_add(there, Ordering::Relaxed)
            .saturating_add(there);
        if let Some(progress) = &self.verifier.options.progress {
            progress(done, self.bytes_all);
        }
        Ok(())
    }

    fn check_frame(
        &self,
        path: &str,
        record: &Record,
        bytes: &[u8],
        opening: Option<&mut Opening<'_>>,
    ) {
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                self.fault(path, record, FaultClass::Frame, &error.to_string());
                return;
            }
        };
        let stored = frame.record(record.segment, record.offset);
        if stored != *record {
            let detail = if stored.sealed_root == record.sealed_root {
                "its header is not what its record says"
            } else {
                "its bytes are not the ones its record commits to"
            };
            self.fault(path, record, FaultClass::Frame, detail);
        } else if frame.trailer() != Some(stored.sealed_root) {
            self.fault(
                path,
                record,
                FaultClass::Frame,
                "does not end with its own root",
            );
        } else if let Some(opening) = opening
            && let Err(error) = opening.check(&frame)
        {
            self.fault(path, record, FaultClass::Content, &error.to_string());
        }
    }

    fn fault(&self, path: &str, record: &Record, class: FaultClass, detail: &str) {
        let place = format!("{path}, frame {} at byte {}", record.frame, record.offset);
        let fault = Fault::new(class, &self.subject.name, place, detail);
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(fault);
    }
}

/// Consecutive frames of a segment in portions of about [`READ_BYTES`], leaving out what need not be read.
fn pieces(verifier: &Verifier<'_>, subject: &Subject, checked: &CheckedTree) -> Vec<Piece> {
    let since = Verifier::since_size(subject);
    let options = verifier.options;
    let wanted = |record: &Record| {
        record.frame >= since
            && options.from.is_none_or(|from| record.time_max >= from)
            && options.to.is_none_or(|to| record.time_min < to)
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for (segment, range) in &checked.by_segment {
        let mut open: Option<(Range<usize>, u64)> = None;
        for place in range.clone() {
            let Some(record) = checked.records.get(place) else {
                break;
            };
            let length = u64::from(record.length);
            match &mut open {
                _ if !wanted(record) => {
                    pieces.extend(open.take().map(|(records, _)| Piece {
                        segment: *segment,
                        records,
                    }));
                }
                Some((records, bytes)) if bytes.saturating_add(length) <= READ_BYTES => {
                    records.end = place.saturating_add(1);
                    *bytes = bytes.saturating_add(length);
                }
                _ => {
                    pieces.extend(open.take().map(|(records, _)| Piece {
                        segment: *segment,
                        records,
                    }));
                    open = Some((place..place.saturating_add(1), length));
                }
            }
        }
        pieces.extend(open.take().map(|(records, _)| Piece {
            segment: *segment,
            records,
        }));
    }
    pieces
}

/// Headers and footers follow from the records; every segment but the last must be closed.
fn check_segments(
    verifier: &Verifier<'_>,
    subject: &Subject,
    checked: &CheckedTree,
    faults: &mut Vec<Fault>,
) -> Result<(), LogError> {
    for (number, range) in &checked.by_segment {
        let path = segment_path(subject, *number);
        let mut fault =
            |class, detail: &str| faults.push(Fault::new(class, &subject.name, &path, detail));
        let Some(file) = open(&verifier.files, &path)? else {
            fault(FaultClass::Missing, "the segment is missing or no file");
            continue;
        };
        let length = verifier
            .files
            .attempt("measure", &path, |_| file.length())?;
        let Some(segment) = Expected::new(subject, checked, *number, range) else {
            continue;
        };
        if length < u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default() {
            fault(FaultClass::Segment, "the header is cut off");
            continue;
        }
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        read(verifier, &path, &*file, &mut bytes, 0)?;
        if let Err(error) = segment.header.check(&bytes) {
            fault(FaultClass::Segment, &error.to_string());
        }
        let Some((end, expected)) = segment.footer else {
            continue;
        };
        let behind = usize::try_from(length.saturating_sub(end)).ok();
        if behind != Some(SEGMENT_FOOTER_BYTES) {
            fault(FaultClass::Segment, "does not end with its footer");
            continue;
        }
        let mut footer = [0; SEGMENT_FOOTER_BYTES];
        read(verifier, &path, &*file, &mut footer, end)?;
        if footer != expected {
            fault(
                FaultClass::Segment,
                "the footer is not what the records call for",
            );
        }
    }
    Ok(())
}

/// The header and footer that the records of a segment call for.
struct Expected {
    header: SegmentHeader,
    /// Offset and bytes; none where the segment is the last, or its last record is not known.
    footer: Option<(u64, [u8; SEGMENT_FOOTER_BYTES])>,
}

impl Expected {
    /// What segment `number` with the records in `range` is to be; nothing where its first record is not known.
    fn new(
        subject: &Subject,
        checked: &CheckedTree,
        number: u32,
        range: &Range<usize>,
    ) -> Option<Self> {
        let records = checked.records.get(range.clone()).unwrap_or_default();
        let (first, last) = (records.first()?, records.last()?);
        let before = range.start.checked_sub(1);
        let before = before.and_then(|place| checked.records.get(place));
        if first.frame != before.map_or(0, |record| record.frame.saturating_add(1)) {
            return None;
        }
        let header = SegmentHeader {
            number,
            stream: subject.id,
            fingerprint: subject.fingerprint,
            first_frame: first.frame,
            first_entry: first.first_entry,
        };
        let frames = last.frame.saturating_sub(first.frame).saturating_add(1);
        let after = checked.records.get(range.end);
        let footer = after
            .filter(|after| after.frame == last.frame.saturating_add(1))
            .map(|_| {
                let bytes = encode_footer(&header, frames, last.next_entry(), last.end());
                (last.end(), bytes)
            });
        Some(Self { header, footer })
    }
}

fn segment_path(subject: &Subject, number: u32) -> String {
    format!("streams/{}/{}", subject.name, segment_file_name(number))
}

fn read(
    verifier: &Verifier<'_>,
    path: &str,
    file: &dyn File,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), LogError> {
    let buffer = std::cell::RefCell::new(buffer);
    verifier.files.attempt("read", path, |_| {
        file.read_at(&mut buffer.borrow_mut(), offset)
    })
}
