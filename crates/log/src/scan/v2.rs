//! Segments of version 2, frame by frame: headers that count, and footers.

use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::v2::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer,
};
use probity_format::width::to_u64;

use super::{Position, read_there};
use crate::error::LogError;
use crate::files::Files;
use crate::segments;
use crate::storage::File;

/// [`SEGMENT_HEADER_BYTES`] as an offset.
const HEADER_END: u64 = to_u64(SEGMENT_HEADER_BYTES);

/// The first frame and entry of a segment of version 2.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Begin {
    frame: u64,
    entry: u64,
}

/// The first frame and entry of the segment at `place`, from its header; nothing where that is gone
/// or not whole.
pub(super) fn begin_of(
    files: &Files,
    stream: &StreamName,
    place: Place,
) -> Result<Option<Begin>, LogError> {
    let path = segments::path(probity_format::Version::V2, stream, place.segment);
    let Some(file) = files.open_read(&path)? else {
        return Ok(None);
    };
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    if files.attempt("measure", &path, |_| file.length())? < HEADER_END {
        return Ok(None);
    }
    if !read_there(files, &path, &*file, &mut bytes, 0)? {
        return Ok(None);
    }
    let header = SegmentHeader::decode(&bytes).ok();
    Ok(header.map(|header| Begin {
        frame: header.first_frame,
        entry: header.first_entry,
    }))
}

/// The header that the segment at `position` must have.
fn header(position: &Position) -> SegmentHeader {
    SegmentHeader {
        number: u32::try_from(position.segment).unwrap_or(u32::MAX),
        stream: position.identity.id,
        fingerprint: position.identity.fingerprint,
        first_frame: position.begin.frame,
        first_entry: position.begin.entry,
    }
}

/// Reads the header of a segment that must begin at `position`; false when it is not whole.
pub(super) fn begin(
    files: &Files,
    name: &str,
    file: &dyn File,
    length: u64,
    position: &mut Position,
) -> Result<bool, LogError> {
    position.begin = Begin {
        frame: position.next_frame,
        entry: position.next_entry,
    };
    if length < HEADER_END {
        return Ok(false);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    if !read_there(files, name, file, &mut bytes, 0)? {
        return Ok(false);
    }
    if header(position).check(&bytes).is_err() {
        return Ok(false);
    }
    position.begun = true;
    position.offset = HEADER_END;
    Ok(true)
}

/// Returns whether the last `left` bytes of a segment are its footer.
pub(super) fn is_footer(
    files: &Files,
    name: &str,
    file: &dyn File,
    position: &Position,
    left: u64,
) -> Result<bool, LogError> {
    if usize::try_from(left).ok() != Some(SEGMENT_FOOTER_BYTES) {
        return Ok(false);
    }
    let mut footer = [0; SEGMENT_FOOTER_BYTES];
    if !read_there(files, name, file, &mut footer, position.offset)? {
        return Ok(false);
    }
    let frames = position.next_frame.saturating_sub(position.begin.frame);
    let expected = encode_footer(
        &header(position),
        frames,
        position.next_entry,
        position.offset,
    );
    Ok(footer == expected)
}
