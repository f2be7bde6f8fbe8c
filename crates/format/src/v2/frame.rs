//! Header and directory of a frame of version 2, which hold proofs, cipher and the kinds of
//! sections.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::frame::{FrameHeader, Section};
use crate::limits::FRAME_BYTES_MAX;
use crate::stream::{Cipher, Proofs, StreamId};
use crate::version::Version;
use crate::width::to_usize;
use crate::wire::Reader;

/// The first bytes of a frame of version 2.
pub(crate) const FRAME_MAGIC: &[u8; 4] = b"PBF1";
/// Bytes of a frame header of version 2.
pub const FRAME_HEADER_BYTES: usize = 184;
/// Bytes of one directory entry of version 2.
pub(crate) const DIRECTORY_ENTRY_BYTES: usize = 64;
/// Highest code of a kind of section: shared, subject, nobody.
const KIND_MAX: u8 = 2;

/// The fields of a stream's configuration in headers and records of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "headers and records are built field by field"
)]
pub struct Sealing {
    /// The leaves of the tree inside the frame.
    pub proofs: Proofs,
    /// The cipher of the frame's sections.
    pub cipher: Cipher,
}

impl Sealing {
    pub(super) const fn codes(self) -> [u8; 2] {
        let proofs = match self.proofs {
            Proofs::Entry => 0,
            Proofs::Section => 1,
            Proofs::Frame => 2,
        };
        let cipher = match self.cipher {
            Cipher::DangerNone => 0,
            Cipher::Aes256Gcm => 1,
        };
        [proofs, cipher]
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let proofs = match reader.u8()? {
            0 => Proofs::Entry,
            1 => Proofs::Section,
            2 => Proofs::Frame,
            _ => return Err(reader.error("names an unknown proof mode")),
        };
        let cipher = match reader.u8()? {
            0 => Cipher::DangerNone,
            1 => Cipher::Aes256Gcm,
            _ => return Err(reader.error("names an unknown cipher")),
        };
        Ok(Self { proofs, cipher })
    }
}

/// Reads a header without its magic.
pub(crate) fn decode_header(reader: &mut Reader<'_>) -> Result<FrameHeader, DecodeError> {
    if reader.u16()? != Version::V2.number() {
        return Err(reader.error("is of another version"));
    }
    Ok(FrameHeader {
        v2: Some(Sealing::read(reader)?),
        length: reader.u32()?,
        sections: reader.u32()?,
        frame: reader.u64()?,
        first_entry: reader.u64()?,
        entries: reader.u32()?,
        epoch: reader.u32()?,
        time_min: reader.i64()?,
        time_max: reader.i64()?,
        stream: StreamId::from_bytes(reader.array()?),
        salt: reader.array()?,
        authenticator: reader.array()?,
        entry_root: reader.array()?,
    })
}

/// Encodes a header of version 2.
pub(crate) fn encode_header(header: &FrameHeader, sealing: Sealing) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES);
    out.extend_from_slice(FRAME_MAGIC);
    out.extend_from_slice(&Version::V2.number().to_le_bytes());
    out.extend_from_slice(&sealing.codes());
    out.extend_from_slice(&header.length.to_le_bytes());
    out.extend_from_slice(&header.sections.to_le_bytes());
    out.extend_from_slice(&header.frame.to_le_bytes());
    out.extend_from_slice(&header.first_entry.to_le_bytes());
    out.extend_from_slice(&header.entries.to_le_bytes());
    out.extend_from_slice(&header.epoch.to_le_bytes());
    out.extend_from_slice(&header.time_min.to_le_bytes());
    out.extend_from_slice(&header.time_max.to_le_bytes());
    out.extend_from_slice(header.stream.as_bytes());
    out.extend_from_slice(&header.salt);
    out.extend_from_slice(&header.authenticator);
    out.extend_from_slice(&header.entry_root);
    out
}

/// Reads the directory entry of section `index`, whose sealed bytes begin at `start`.
pub(crate) fn decode_directory_entry(
    reader: &mut Reader<'_>,
    index: usize,
    start: usize,
) -> Result<Section, DecodeError> {
    let kind = reader.u8()?;
    let padding = reader.array::<3>()?;
    let length = to_usize(reader.u32()?);
    let entries = reader.u32()?;
    let reserved = reader.array::<20>()?;
    let key_commitment = reader.array()?;
    if kind > KIND_MAX || (kind == 0) != (index == 0) {
        return Err(reader.error("names another kind of section than its place calls for"));
    }
    if padding != [0; 3] || reserved != [0; 20] || length > FRAME_BYTES_MAX {
        return Err(reader.error("has a section out of range or reserved bytes set"));
    }
    Ok(Section {
        start,
        length,
        entries,
        key_commitment,
    })
}
