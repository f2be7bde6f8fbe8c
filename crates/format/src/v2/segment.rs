//! Segment files of version 2: a header, frames, and a footer once closed. Header and footer can be
//! computed from the records.

use alloc::vec::Vec;

use sha2::{Digest as _, Sha256};

use crate::error::DecodeError;
use crate::stream::StreamId;
use crate::version::Version;
use crate::wire::Reader;

/// Bytes of a segment header of version 2.
pub const SEGMENT_HEADER_BYTES: usize = 128;
/// Bytes of a segment footer of version 2.
pub const SEGMENT_FOOTER_BYTES: usize = 72;
/// The first bytes of a segment file.
const SEGMENT_MAGIC: &[u8; 8] = b"PROBSEG1";
/// The first bytes of a segment footer.
const FOOTER_MAGIC: &[u8; 8] = b"PROBEND1";

/// The header of a segment of version 2, which says where it begins in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "scan and verifier build it field by field"
)]
pub struct SegmentHeader {
    /// Number of the segment in its stream, from 0.
    pub number: u32,
    /// The stream.
    pub stream: StreamId,
    /// The fingerprint of the log's geometry.
    pub fingerprint: [u8; 32],
    /// Index of the first frame.
    pub first_frame: u64,
    /// Index of the first entry.
    pub first_entry: u64,
}

impl SegmentHeader {
    /// Returns the encoded header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        out.extend_from_slice(SEGMENT_MAGIC);
        out.extend_from_slice(&Version::V2.number().to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(&self.fingerprint);
        out.extend_from_slice(&self.first_frame.to_le_bytes());
        out.extend_from_slice(&self.first_entry.to_le_bytes());
        let digest = Sha256::digest(&out);
        out.extend_from_slice(&digest);
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When `bytes` is not a header of version 2, or its digest is wrong.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "segment header");
        reader.take(12)?;
        let header = Self {
            number: reader.u32()?,
            stream: StreamId::from_bytes(reader.array()?),
            fingerprint: reader.array()?,
            first_frame: reader.u64()?,
            first_entry: reader.u64()?,
        };
        header.check(bytes)?;
        Ok(header)
    }

    /// Checks that `bytes` is this header.
    ///
    /// # Errors
    /// With the offset of the first byte that differs.
    pub fn check(&self, bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<(), DecodeError> {
        let expected = self.encode();
        if *bytes == expected {
            return Ok(());
        }
        let place = bytes
            .iter()
            .zip(&expected)
            .position(|(found, wanted)| found != wanted);
        Err(DecodeError::new(
            "segment header",
            place.unwrap_or_default(),
            "is not what the stream's records call for",
        ))
    }
}

/// Returns the path, within its stream's folder, of segment `number` of a stream of version 2.
pub fn segment_file_name(number: u64) -> alloc::string::String {
    alloc::format!("segments/{number:08}.seg")
}

/// Returns the number of the segment file `name` of a stream of version 2; `None` if that is no
/// segment's name.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let is_number = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Encodes the footer of a segment of `frames` frames and `bytes` bytes (header and frames).
/// `next_entry` is the index of the entry after its last.
pub fn encode_footer(
    header: &SegmentHeader,
    frames: u64,
    next_entry: u64,
    bytes: u64,
) -> [u8; SEGMENT_FOOTER_BYTES] {
    let mut out = Vec::with_capacity(SEGMENT_FOOTER_BYTES);
    out.extend_from_slice(FOOTER_MAGIC);
    out.extend_from_slice(&header.number.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&frames.to_le_bytes());
    out.extend_from_slice(&next_entry.to_le_bytes());
    out.extend_from_slice(&bytes.to_le_bytes());
    let mut hash = Sha256::new();
    hash.update(header.encode());
    hash.update(&out);
    out.extend_from_slice(&hash.finalize());
    let mut footer = [0; SEGMENT_FOOTER_BYTES];
    footer.copy_from_slice(&out);
    footer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_knows_itself() {
        let header = SegmentHeader {
            number: 3,
            stream: StreamId::from_bytes([1; 32]),
            fingerprint: [2; 32],
            first_frame: 9,
            first_entry: 100,
        };
        let mut bytes = header.encode();
        assert_eq!(header.check(&bytes), Ok(()));
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            assert_eq!(header.check(&bytes).unwrap_err().offset, place);
            assert!(SegmentHeader::decode(&bytes).is_err());
            bytes[place] ^= 1;
        }
        assert_ne!(
            encode_footer(&header, 1, 2, 3),
            encode_footer(&header, 1, 2, 4)
        );
    }
}
