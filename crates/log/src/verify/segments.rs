//! Checks the segments of a stream: their headers, and that the frames fill them without gap or
//! overlap.

use std::collections::BTreeSet;

use probity_format::Version;
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES, check_segment_header};

use super::records::Placed;
use super::segments_v2::Segments as OlderSegments;
use super::stored::{names, open};
use super::{Fault, FaultClass, Faults, Subject, Verifier};
use crate::error::LogError;
use crate::scan::read_there;
use crate::segments as layout;

/// Follows the frames of a stream from segment to segment.
pub(super) struct Segments<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    older: Option<OlderSegments<'a>>,
    under_way: Option<Span>,
}

/// The frames of one segment.
struct Span {
    /// The frame in the segment's name.
    first: u64,
    /// The end of the last frame that was met; nothing behind one whose place or length is unknown.
    end: Option<u64>,
    /// The minimum length of the segment.
    least: u64,
}

impl<'a> Segments<'a> {
    pub(super) fn new(verifier: &'a Verifier<'a>, subject: &'a Subject) -> Self {
        let is_older = subject.version == Version::V2;
        Self {
            verifier,
            subject,
            older: is_older.then(|| OlderSegments::new(verifier, subject)),
            under_way: None,
        }
    }

    /// Adds the next frame.
    pub(super) fn add(&mut self, placed: &Placed, faults: &mut Faults) -> Result<(), LogError> {
        if let Some(older) = &mut self.older {
            return match (&placed.record, placed.place) {
                (Some(record), Some(place)) => older.add(record, place, faults),
                _ => Ok(()),
            };
        }
        if placed.is_first {
            let begun = Span {
                first: placed.frame,
                end: None,
                least: layout::HEADER_END,
            };
            if let Some(span) = self.under_way.replace(begun) {
                self.check(&span, Some(placed.frame), faults)?;
            }
        }
        if let Some(span) = &mut self.under_way {
            let record = placed.record.as_ref();
            span.end = placed
                .place
                .zip(record)
                .map(|(place, record)| layout::behind(place, record.length).offset);
            span.least = span.end.unwrap_or(span.least);
        }
        Ok(())
    }

    /// Checks the last segment, in which unsigned frames may follow.
    pub(super) fn finish(&mut self, faults: &mut Faults) -> Result<(), LogError> {
        if let Some(older) = self.older.take() {
            return older.finish(faults);
        }
        match self.under_way.take() {
            Some(span) => self.check(&span, None, faults),
            None => Ok(()),
        }
    }

    /// Checks the headers of the segments behind the one at `last`, which hold unsigned frames, up
    /// to segment `to`.
    pub(super) fn check_behind(
        &self,
        last: Option<Place>,
        to: u64,
        strange: &BTreeSet<u64>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if self.older.is_some() {
            return Ok(());
        }
        let from = last.map_or(0, |place| place.segment.saturating_add(1));
        let found = names(&self.verifier.files, &layout::folder(&self.subject.name))?;
        let cuts = layout::cuts_among(&found.unwrap_or_default());
        let cuts = cuts.difference(strange);
        for first in cuts.filter(|first| (from..=to).contains(first)) {
            if let Some(detail) = self.wrong_header(*first)? {
                let path = layout::path(self.subject.version, &self.subject.name, *first);
                let name = &self.subject.name;
                faults.push(Fault::new(FaultClass::Segment, name, path, detail));
            }
        }
        Ok(())
    }

    /// Checks one segment; the next begins with frame `next`.
    fn check(&self, span: &Span, next: Option<u64>, faults: &mut Faults) -> Result<(), LogError> {
        let path = layout::path(self.subject.version, &self.subject.name, span.first);
        let mut fault =
            |class, detail: &str| faults.push(Fault::new(class, &self.subject.name, &path, detail));
        let files = &self.verifier.files;
        let Some(file) = open(files, &path)? else {
            fault(FaultClass::Missing, "the segment is missing or no file");
            return Ok(());
        };
        let length = files.attempt("measure", &path, |_| file.length())?;
        if let Some(detail) = self.wrong_header(span.first)? {
            fault(FaultClass::Segment, &detail);
        }
        if length < span.least {
            fault(
                FaultClass::Segment,
                "ends before the frames that it must hold",
            );
        } else if next.is_some() && span.end.is_some_and(|end| length > end) {
            fault(
                FaultClass::Segment,
                "goes on behind the frame with which the next segment begins",
            );
        }
        Ok(())
    }

    /// The fault in the header of the segment that begins with frame `first`.
    fn wrong_header(&self, first: u64) -> Result<Option<String>, LogError> {
        let files = &self.verifier.files;
        let path = layout::path(self.subject.version, &self.subject.name, first);
        let Some(file) = open(files, &path)? else {
            return Ok(None);
        };
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        if !read_there(files, &path, &*file, &mut bytes, 0)? {
            return Ok(Some("the header is cut off".to_owned()));
        }
        let checked = check_segment_header(&self.subject.id, &bytes);
        Ok(checked.err().map(|error| error.to_string()))
    }
}
