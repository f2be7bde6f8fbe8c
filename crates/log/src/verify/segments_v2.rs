//! Checks the headers and footers of the segments of a stream of version 2, which follow from the
//! records.

use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::v2::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer,
};
use probity_format::width::to_u64;

use super::stored::open;
use super::{Fault, FaultClass, Faults, Subject, Verifier};
use crate::error::LogError;
use crate::scan::read;
use crate::segments as layout;

/// Follows the records of a stream from segment to segment.
pub(super) struct Segments<'a> {
    pub(super) verifier: &'a Verifier<'a>,
    pub(super) subject: &'a Subject,
    /// Frames up to here are known one by one.
    next: u64,
    under_way: Option<Span>,
}

/// The records of one segment.
struct Span {
    first: Record,
    first_at: Place,
    last: Record,
    last_at: Place,
    /// True when no frame is unknown before the first.
    is_whole: bool,
}

impl<'a> Segments<'a> {
    pub(super) const fn new(verifier: &'a Verifier<'a>, subject: &'a Subject) -> Self {
        Self {
            verifier,
            subject,
            next: 0,
            under_way: None,
        }
    }

    /// Adds the next known record.
    pub(super) fn add(
        &mut self,
        record: &Record,
        place: Place,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let is_next = record.frame == self.next;
        self.next = record.frame.saturating_add(1);
        match &mut self.under_way {
            Some(span) if span.first_at.segment == place.segment => {
                (span.last, span.last_at) = (*record, place);
            }
            _ => {
                let span = self.under_way.replace(Span {
                    first: *record,
                    first_at: place,
                    last: *record,
                    last_at: place,
                    is_whole: is_next,
                });
                if let Some(span) = span {
                    self.check(&span, is_next, faults)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the last segment, which need not be closed.
    pub(super) fn finish(mut self, faults: &mut Faults) -> Result<(), LogError> {
        match self.under_way.take() {
            Some(span) => self.check(&span, false, faults),
            None => Ok(()),
        }
    }

    /// Checks one segment, its footer where it is closed and its last record known.
    fn check(&self, span: &Span, is_closed: bool, faults: &mut Faults) -> Result<(), LogError> {
        let path = layout::path(
            self.subject.version,
            &self.subject.name,
            span.first_at.segment,
        );
        let mut fault =
            |class, detail: &str| faults.push(Fault::new(class, &self.subject.name, &path, detail));
        let files = &self.verifier.files;
        let Some(file) = open(files, &path)? else {
            fault(FaultClass::Missing, "the segment is missing or no file");
            return Ok(());
        };
        let length = files.attempt("measure", &path, |_| file.length())?;
        if !span.is_whole {
            return Ok(());
        }
        if length < to_u64(SEGMENT_HEADER_BYTES) {
            fault(FaultClass::Segment, "the header is cut off");
            return Ok(());
        }
        let header = self.header(span);
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        read(files, &path, &*file, &mut bytes, 0)?;
        if let Err(error) = header.check(&bytes) {
            fault(FaultClass::Segment, &error.to_string());
        }
        if !is_closed {
            return Ok(());
        }
        let end = layout::behind(span.last_at, span.last.length).offset;
        let behind = usize::try_from(length.saturating_sub(end)).ok();
        if behind != Some(SEGMENT_FOOTER_BYTES) {
            fault(FaultClass::Segment, "does not end with its footer");
            return Ok(());
        }
        let mut footer = [0; SEGMENT_FOOTER_BYTES];
        read(files, &path, &*file, &mut footer, end)?;
        let frames = span.last.frame.saturating_sub(span.first.frame);
        let frames = frames.saturating_add(1);
        if footer != encode_footer(&header, frames, span.last.next_entry(), end) {
            let detail = "the footer is not what the records call for";
            fault(FaultClass::Segment, detail);
        }
        Ok(())
    }

    fn header(&self, span: &Span) -> SegmentHeader {
        SegmentHeader {
            number: u32::try_from(span.first_at.segment).unwrap_or(u32::MAX),
            stream: self.subject.id,
            fingerprint: self.subject.fingerprint,
            first_frame: span.first.frame,
            first_entry: span.first.first_entry,
        }
    }
}
