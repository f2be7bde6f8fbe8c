//! Segment files: a header, then frames without gaps. The file's name holds the index of its first
//! frame.
//!
//! `docs/format.md`, "Segment". The cuts between segments are not signed: a cut between any two
//! frames is accepted.

use alloc::format;
use alloc::string::String;

use crate::error::DecodeError;
use crate::stream::StreamId;

/// Bytes of a segment header.
pub const SEGMENT_HEADER_BYTES: usize = 40;
/// The first bytes of a segment file.
pub const SEGMENT_MAGIC: &[u8; 8] = b"PROBSEG3";
/// Digits in the name of a segment file.
const NAME_DIGITS: usize = 20;
/// Extension of a segment file.
const NAME_END: &str = ".seg";

/// The place of a frame in its stream's segment files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever follows frames builds it field by field"
)]
pub struct Place {
    /// Number in the segment's name: the index of its first frame. In version 2 the number of the
    /// segment, from 0.
    pub segment: u64,
    /// Offset in the segment, in bytes.
    pub offset: u64,
}

/// Returns the header of every segment of `stream`.
pub fn segment_header(stream: &StreamId) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    let (magic, identity) = bytes.split_at_mut(SEGMENT_MAGIC.len());
    magic.copy_from_slice(SEGMENT_MAGIC);
    identity.copy_from_slice(stream.as_bytes());
    bytes
}

/// Checks that `bytes` is the header of a segment of `stream`.
///
/// # Errors
/// With the offset of the first byte that differs.
pub fn check_segment_header(
    stream: &StreamId,
    bytes: &[u8; SEGMENT_HEADER_BYTES],
) -> Result<(), DecodeError> {
    let expected = segment_header(stream);
    let mut pairs = bytes.iter().zip(&expected);
    match pairs.position(|(found, wanted)| found != wanted) {
        None => Ok(()),
        Some(place) => Err(DecodeError::new(
            "segment header",
            place,
            "is not that of the stream's segments",
        )),
    }
}

/// Returns the path, within its stream's folder, of the segment that begins with `first_frame`.
pub fn segment_file_name(first_frame: u64) -> String {
    format!("segments/{first_frame:020}{NAME_END}")
}

/// Returns the index of the first frame of the segment file `name`; `None` if that is no segment's
/// name.
pub fn segment_first_frame(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(NAME_END)?;
    let is_number = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_of_one_stream() {
        let stream = StreamId::from_bytes([1; 32]);
        let mut bytes = segment_header(&stream);
        assert_eq!(check_segment_header(&stream, &bytes), Ok(()));
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            let error = check_segment_header(&stream, &bytes).unwrap_err();
            assert_eq!(error.offset, place);
            bytes[place] ^= 1;
        }
    }

    #[test]
    fn a_segment_has_one_name() {
        for first in [0, 1, 99, u64::MAX] {
            let name = segment_file_name(first);
            let name = name.strip_prefix("segments/").unwrap();
            assert_eq!(segment_first_frame(name), Some(first));
        }
        for bad in [
            "",
            ".seg",
            "00000000.seg",
            "0000000000000000000.seg",
            "000000000000000000000.seg",
            "+0000000000000000000.seg",
            "99999999999999999999.seg",
            "00000000000000000000",
            "00000000000000000000.seg ",
        ] {
            assert_eq!(segment_first_frame(bad), None, "{bad}");
        }
    }
}
