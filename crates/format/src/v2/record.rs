//! The frame record of version 2, which repeats the frame's header and holds the frame's place.

use alloc::vec::Vec;

use super::frame::Sealing;
use crate::error::DecodeError;
use crate::record::Record;
use crate::segment::Place;
use crate::stream::StreamId;
use crate::tree::Hash;
use crate::version::Version;
use crate::wire::Reader;

/// Bytes of a record of version 2.
pub const RECORD_BYTES: usize = 192;

/// The fields of records of version 2 that version 3 does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a record is built field by field"
)]
pub struct RecordRest {
    /// Proofs and cipher.
    pub sealing: Sealing,
    /// Number of the key epoch.
    pub epoch: u32,
    /// The stream.
    pub stream: StreamId,
    /// The commitment to the key of the epoch, as in the frame's header.
    pub commitment: [u8; 32],
    /// The place of the frame in the segment files.
    pub place: Place,
}

/// Reads a record of version 2.
pub(crate) fn decode_record(reader: &mut Reader<'_>) -> Result<Record, DecodeError> {
    if reader.u16()? != Version::V2.number() {
        return Err(DecodeError::new("frame record", 0, "is of another version"));
    }
    let sealing = Sealing::read(reader)?;
    let (length, frame, first_entry) = (reader.u32()?, reader.u64()?, reader.u64()?);
    let (entries, epoch) = (reader.u32()?, reader.u32()?);
    let (time_min, time_max) = (reader.i64()?, reader.i64()?);
    let stream = StreamId::from_bytes(reader.array()?);
    let sealed_root = Hash::new(reader.array()?);
    let (entry_root, commitment) = (reader.array()?, reader.array()?);
    let segment = u64::from(reader.u32()?);
    if reader.array::<4>()? != [0; 4] {
        return Err(reader.error("has reserved bytes set"));
    }
    let offset = reader.u64()?;
    Ok(Record {
        frame,
        first_entry,
        entries,
        length,
        time_min,
        time_max,
        sealed_root,
        entry_root,
        v2: Some(RecordRest {
            sealing,
            epoch,
            stream,
            commitment,
            place: Place { segment, offset },
        }),
    })
}

/// Encodes a record of version 2.
pub(crate) fn encode_record(record: &Record, rest: &RecordRest) -> Vec<u8> {
    let mut out = Vec::with_capacity(RECORD_BYTES);
    // A record that was decoded from version 2 has a segment number of 32 bits.
    let segment = u32::try_from(rest.place.segment).unwrap_or(u32::MAX);
    out.extend_from_slice(&Version::V2.number().to_le_bytes());
    out.extend_from_slice(&rest.sealing.codes());
    out.extend_from_slice(&record.length.to_le_bytes());
    out.extend_from_slice(&record.frame.to_le_bytes());
    out.extend_from_slice(&record.first_entry.to_le_bytes());
    out.extend_from_slice(&record.entries.to_le_bytes());
    out.extend_from_slice(&rest.epoch.to_le_bytes());
    out.extend_from_slice(&record.time_min.to_le_bytes());
    out.extend_from_slice(&record.time_max.to_le_bytes());
    out.extend_from_slice(rest.stream.as_bytes());
    out.extend_from_slice(record.sealed_root.as_bytes());
    out.extend_from_slice(&record.entry_root);
    out.extend_from_slice(&rest.commitment);
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&rest.place.offset.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Cipher, Proofs};

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
            v2: Some(RecordRest {
                sealing: Sealing {
                    proofs: Proofs::Frame,
                    cipher: Cipher::Aes256Gcm,
                },
                epoch: 5,
                stream: StreamId::from_bytes([8; 32]),
                commitment: [11; 32],
                place: Place {
                    segment: 12,
                    offset: 13,
                },
            }),
        };
        let bytes = record.encode();
        assert_eq!(bytes.len(), RECORD_BYTES);
        assert_eq!(Record::decode(Version::V2, &bytes), Ok(record));
        assert!(Record::decode(Version::V3, &bytes).is_err());
        for place in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[place] ^= 0x40;
            assert_ne!(
                Record::decode(Version::V2, &bad),
                Ok(record),
                "byte {place}"
            );
            assert!(Record::decode(Version::V2, &bytes[..place]).is_err());
        }
    }
}
