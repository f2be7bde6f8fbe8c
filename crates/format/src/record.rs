//! The frame record: the leaf of one sealed frame in its stream's tree.
//!
//! `docs/format.md`, "Frame record". Records are the leaves in `tile/entries`. Any verifier of C2SP
//! tlog-tiles can check a stream without knowledge of frames.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::limits::{FRAME_BYTES_MAX, FRAME_ENTRIES_MAX};
use crate::segment::Place;
use crate::tree::Hash;
use crate::v2;
use crate::version::Version;
use crate::wire::Reader;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 104;

/// The signed metadata of a sealed frame. The sealed root binds the frame's header, and thereby the
/// stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "sealer, recovery and verifier build it field by field"
)]
pub struct Record {
    /// Index of the frame in its stream, from 0; also this record's index in the tree.
    pub frame: u64,
    /// Index of the frame's first entry in its stream.
    pub first_entry: u64,
    /// Number of entries.
    pub entries: u32,
    /// Length of the sealed frame, in bytes.
    pub length: u32,
    /// Earliest time of an entry, in nanoseconds since 1970.
    pub time_min: i64,
    /// Latest time of an entry, in nanoseconds since 1970.
    pub time_max: i64,
    /// Root over the sealed bytes: see [`frame`](crate::frame).
    pub sealed_root: Hash,
    /// Root over the entries' leaves; zeros if the stream has no entry proofs.
    pub entry_root: [u8; 32],
    /// Further fields of a record of version 2; `None` in version 3.
    pub v2: Option<v2::RecordRest>,
}

impl Record {
    /// Returns the version of the log that the record belongs to.
    pub const fn version(&self) -> Version {
        match self.v2 {
            Some(_) => Version::V2,
            None => Version::V3,
        }
    }

    /// Returns the index of the entry after the frame's last.
    pub fn next_entry(&self) -> u64 {
        self.first_entry.saturating_add(u64::from(self.entries))
    }

    /// Returns the frame's place in the segment files, which records of version 2 hold. `None` in
    /// version 3, where it follows from the lengths of the records before.
    pub fn place(&self) -> Option<Place> {
        self.v2.map(|rest| rest.place)
    }

    /// Returns the encoded record.
    pub fn encode(&self) -> Vec<u8> {
        if let Some(rest) = &self.v2 {
            return v2::encode_record(self, rest);
        }
        let mut out = Vec::with_capacity(RECORD_BYTES);
        out.extend_from_slice(&self.frame.to_le_bytes());
        out.extend_from_slice(&self.first_entry.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(self.sealed_root.as_bytes());
        out.extend_from_slice(&self.entry_root);
        out
    }

    /// Reads a record of a log of `version`.
    ///
    /// # Errors
    /// When `bytes` is not exactly one record of that version, or a value is out of range.
    pub fn decode(version: Version, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "frame record");
        let record = match version {
            Version::V2 => v2::decode_record(&mut reader)?,
            Version::V3 => Self {
                frame: reader.u64()?,
                first_entry: reader.u64()?,
                entries: reader.u32()?,
                length: reader.u32()?,
                time_min: reader.i64()?,
                time_max: reader.i64()?,
                sealed_root: Hash::new(reader.array()?),
                entry_root: reader.array()?,
                v2: None,
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
            frame: 2,
            first_entry: 3,
            entries: 4,
            length: 1000,
            time_min: 6,
            time_max: 7,
            sealed_root: Hash::new([9; 32]),
            entry_root: [10; 32],
            v2: None,
        };
        let bytes = record.encode();
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(Record::decode(Version::V3, &bytes), Ok(record));
        assert!(Record::decode(Version::V2, &bytes).is_err());
        for place in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[place] ^= 0x40;
            assert_ne!(
                Record::decode(Version::V3, &bad),
                Ok(record),
                "byte {place}"
            );
            assert!(Record::decode(Version::V3, &bytes[..place]).is_err());
        }
    }
}
