//! The frame record: the leaf that stands for one sealed frame in its stream's tree.
//!
//! `docs/format.md`, "Frame record". Records are what `tile/entries` holds, so any verifier of
//! C2SP tlog-tiles checks a stream without knowing what a frame is.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::limits::{FRAME_BYTES_MAX, FRAME_ENTRIES_MAX};
use crate::stream::{Cipher, Proofs, StreamId};
use crate::tree::Hash;
use crate::version::Version;
use crate::wire::Reader;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 192;

/// Everything that is fixed about a sealed frame once it has its place in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "sealer, recovery and verifier build it field by field"
)]
pub struct Record {
    /// The version of the log.
    pub version: Version,
    /// What the leaves inside the frame are.
    pub proofs: Proofs,
    /// How the frame's sections are sealed.
    pub cipher: Cipher,
    /// Length of the sealed frame, in bytes.
    pub length: u32,
    /// Index of the frame in its stream, from 0; also this record's index in the tree.
    pub frame: u64,
    /// Index of the frame's first entry in its stream.
    pub first_entry: u64,
    /// Number of entries.
    pub entries: u32,
    /// Number of the key epoch.
    pub epoch: u32,
    /// Earliest time of an entry, in nanoseconds since 1970.
    pub time_min: i64,
    /// Latest time of an entry, in nanoseconds since 1970.
    pub time_max: i64,
    /// The stream.
    pub stream: StreamId,
    /// Root over the sealed bytes: see `frame`.
    pub sealed_root: Hash,
    /// Root over the entries' leaves, or zeros where the stream has no entry proofs.
    pub entry_root: [u8; 32],
    /// As in the frame's header.
    pub authenticator: [u8; 32],
    /// Number of the segment the frame stands in.
    pub segment: u32,
    /// Offset of the frame in its segment.
    pub offset: u64,
}

impl Record {
    /// Index of the entry after the frame's last.
    pub fn next_entry(&self) -> u64 {
        self.first_entry.saturating_add(u64::from(self.entries))
    }

    /// Offset of the byte after the frame.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length))
    }

    /// The record's bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = Vec::with_capacity(RECORD_BYTES);
        out.extend_from_slice(&self.version.number().to_le_bytes());
        out.extend_from_slice(&[self.proofs.code(), self.cipher.code()]);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.frame.to_le_bytes());
        out.extend_from_slice(&self.first_entry.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(self.sealed_root.as_bytes());
        out.extend_from_slice(&self.entry_root);
        out.extend_from_slice(&self.authenticator);
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.offset.to_le_bytes());
        let mut bytes = [0; RECORD_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When `bytes` is not one record of this version with every value in its range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "frame record");
        let version = Version::from_number(reader.u16()?)
            .ok_or_else(|| DecodeError::new("frame record", 0, "is of another version"))?;
        let proofs = Proofs::from_code(reader.u8()?);
        let cipher = Cipher::from_code(reader.u8()?);
        let (Some(proofs), Some(cipher)) = (proofs, cipher) else {
            return Err(reader.error("names an unknown proof mode or cipher"));
        };
        let record = Self {
            version,
            proofs,
            cipher,
            length: reader.u32()?,
            frame: reader.u64()?,
            first_entry: reader.u64()?,
            entries: reader.u32()?,
            epoch: reader.u32()?,
            time_min: reader.i64()?,
            time_max: reader.i64()?,
            stream: StreamId::from_bytes(reader.array()?),
            sealed_root: Hash::new(reader.array()?),
            entry_root: reader.array()?,
            authenticator: reader.array()?,
            segment: reader.u32()?,
            offset: {
                if reader.array::<4>()? != [0; 4] {
                    return Err(reader.error("has reserved bytes set"));
                }
                reader.u64()?
            },
        };
        reader.finish()?;
        let too_long = usize::try_from(record.length).is_ok_and(|length| length > FRAME_BYTES_MAX);
        if too_long || record.entries == 0 || record.entries > FRAME_ENTRIES_MAX {
            return Err(reader.error("exceeds a limit"));
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_every_byte_matters() {
        let record = Record {
            version: Version::V3,
            proofs: Proofs::Section,
            cipher: Cipher::Aes256Gcm,
            length: 1000,
            frame: 2,
            first_entry: 3,
            entries: 4,
            epoch: 5,
            time_min: 6,
            time_max: 7,
            stream: StreamId::from_bytes([8; 32]),
            sealed_root: Hash::new([9; 32]),
            entry_root: [10; 32],
            authenticator: [11; 32],
            segment: 12,
            offset: 13,
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes), Ok(record));
        for place in 0..bytes.len() {
            let mut bad = bytes;
            bad[place] ^= 0x40;
            assert_ne!(Record::decode(&bad), Ok(record), "byte {place}");
            assert!(Record::decode(&bytes[..place]).is_err());
        }
    }
}
