//! A frame: entries cut together, in the sealed form that stands in a segment.
//!
//! `docs/format.md`, "Frame". Header and directory are in clear and say nothing about persons;
//! everything else is in sections, each sealed under its own key. A root over all sealed bytes
//! closes the frame, so that a torn one is recognised without any key.

use alloc::vec::Vec;

use aws_lc_rs::aead::{Aad, Nonce};
use subtle::ConstantTimeEq as _;

use crate::column::Columns;
use crate::compress::Decompressor;
use crate::error::DecodeError;
use crate::keys::{EpochKey, SectionKey};
use crate::limits::{FRAME_BYTES_MAX, FRAME_ENTRIES_MAX, FRAME_ROWS_BYTES_MAX, FRAME_SECTIONS_MAX};
use crate::record::Record;
use crate::stream::{Cipher, Proofs, StreamId};
use crate::tree::{Hash, leaf_hash, leaf_hash_parts, root_of};
use crate::version::Version;
use crate::wire::Reader;

/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 184;
/// Bytes of one directory entry.
pub const DIRECTORY_ENTRY_BYTES: usize = 64;
/// Bytes of the root that ends a frame.
pub const FRAME_TRAILER_BYTES: usize = 32;
/// What a frame begins with.
pub const FRAME_MAGIC: &[u8; 4] = b"PBF1";
/// Bytes of an AES-256-GCM tag.
pub const TAG_BYTES: usize = 16;
/// Bytes before the packed part of a section body.
pub(crate) const BODY_HEAD_BYTES: usize = 9;
/// A body may decompress to rows, words and numbers; twice the rows is more than any encoder writes.
const PLAIN_BYTES_MAX: usize = FRAME_ROWS_BYTES_MAX * 2;

/// What a section holds and under which kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SectionKind {
    /// Columns of all entries, under the epoch's key.
    Shared,
    /// Columns of one set of subjects, under those subjects' keys.
    Subject,
    /// Columns of the entries that concern nobody, under the epoch's key.
    Nobody,
}

impl SectionKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Shared => 0,
            Self::Subject => 1,
            Self::Nobody => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Shared),
            1 => Some(Self::Subject),
            2 => Some(Self::Nobody),
            _ => None,
        }
    }
}

/// The clear beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "sealer and reader build it field by field"
)]
pub struct FrameHeader {
    /// The version of the log.
    pub version: Version,
    /// What the leaves inside the frame are.
    pub proofs: Proofs,
    /// How the sections are sealed.
    pub cipher: Cipher,
    /// Length of the whole frame, trailer included, in bytes.
    pub length: u32,
    /// Number of sections.
    pub sections: u32,
    /// Index of the frame in its stream.
    pub frame: u64,
    /// Index of the first entry in its stream.
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
    /// Salt of the epoch's key (16 bytes), then the frame's own random bytes (16); in version 2 all is the epoch's.
    pub salt: [u8; 32],
    /// What only a holder of the epoch's key can make: see [`Frame::authenticated`]. In version 2 what pins that key.
    pub authenticator: [u8; 32],
    /// Root over the entries' leaves, or zeros.
    pub entry_root: [u8; 32],
}

impl FrameHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = Vec::with_capacity(FRAME_HEADER_BYTES);
        out.extend_from_slice(FRAME_MAGIC);
        out.extend_from_slice(&self.version.number().to_le_bytes());
        out.extend_from_slice(&[self.proofs.code(), self.cipher.code()]);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.sections.to_le_bytes());
        out.extend_from_slice(&self.frame.to_le_bytes());
        out.extend_from_slice(&self.first_entry.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.authenticator);
        out.extend_from_slice(&self.entry_root);
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// The header's bytes as sections and the authenticator bind them: without the authenticator, which follows from the sections.
    pub(crate) fn associated(&self) -> [u8; FRAME_HEADER_BYTES] {
        match self.version {
            Version::V2 => self.encode(),
            Version::V3 => Self {
                authenticator: [0; 32],
                ..*self
            }
            .encode(),
        }
    }

    /// The record of the frame with this header and `sealed_root`, were it to stand at `offset` of segment `segment`.
    pub const fn record(&self, sealed_root: Hash, segment: u32, offset: u64) -> Record {
        Record {
            version: self.version,
            proofs: self.proofs,
            cipher: self.cipher,
            length: self.length,
            frame: self.frame,
            first_entry: self.first_entry,
            entries: self.entries,
            epoch: self.epoch,
            time_min: self.time_min,
            time_max: self.time_max,
            stream: self.stream,
            sealed_root,
            entry_root: self.entry_root,
            authenticator: self.authenticator,
            segment,
            offset,
        }
    }

    /// Reads a header from the beginning of `bytes`.
    ///
    /// # Errors
    /// When there is none of this version with every count in its range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "frame header");
        if &reader.array::<4>()? != FRAME_MAGIC {
            return Err(DecodeError::new(
                "frame header",
                0,
                "does not begin with its magic",
            ));
        }
        let version = Version::from_number(reader.u16()?)
            .ok_or_else(|| DecodeError::new("frame header", 4, "is of another version"))?;
        let proofs = Proofs::from_code(reader.u8()?);
        let cipher = Cipher::from_code(reader.u8()?);
        let (Some(proofs), Some(cipher)) = (proofs, cipher) else {
            return Err(reader.error("names an unknown proof mode or cipher"));
        };
        let header = Self {
            version,
            proofs,
            cipher,
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
        };
        let within = |value: u32, max: usize| usize::try_from(value).is_ok_and(|v| v <= max);
        let in_range = within(header.length, FRAME_BYTES_MAX)
            && within(header.sections, FRAME_SECTIONS_MAX)
            && header.sections > 0
            && header.entries > 0
            && header.entries <= FRAME_ENTRIES_MAX;
        if in_range {
            Ok(header)
        } else {
            Err(reader.error("exceeds a limit"))
        }
    }
}

/// One section as the directory describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// Offset of its sealed bytes in the frame.
    pub start: usize,
    /// Length of its sealed bytes, tag included.
    pub length: usize,
    /// Number of entries it holds columns of.
    pub entries: u32,
    /// What pins its key; zeros without a cipher.
    pub key_commitment: [u8; 32],
}

pub(crate) fn encode_directory_entry(
    kind: SectionKind,
    length: u32,
    entries: u32,
    key_commitment: &[u8; 32],
) -> [u8; DIRECTORY_ENTRY_BYTES] {
    let mut out = [0; DIRECTORY_ENTRY_BYTES];
    let (head, commitment) = out.split_at_mut(32);
    head.fill(0);
    if let Some(place) = head.first_chunk_mut::<1>() {
        *place = [kind.code()];
    }
    if let Some(place) = head.get_mut(4..8) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    if let Some(place) = head.get_mut(8..12) {
        place.copy_from_slice(&entries.to_le_bytes());
    }
    commitment.copy_from_slice(key_commitment);
    out
}

/// What of a frame is in clear, its structure checked: header and directory.
#[derive(Clone)]
#[non_exhaustive]
pub struct Clear<'a> {
    /// The header.
    pub header: FrameHeader,
    /// The sections in order.
    pub sections: Vec<Section>,
    bytes: &'a [u8],
}

impl<'a> Clear<'a> {
    /// Reads header and directory from the beginning of `bytes`; what follows is not looked at.
    ///
    /// # Errors
    /// When they do not add up to the length that the header gives the frame.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let header = FrameHeader::decode(bytes)?;
        let mut reader = Reader::new(bytes, "frame directory");
        reader.take(FRAME_HEADER_BYTES)?;
        let count = usize::try_from(header.sections).unwrap_or(usize::MAX);
        let mut start = count
            .saturating_mul(DIRECTORY_ENTRY_BYTES)
            .saturating_add(FRAME_HEADER_BYTES);
        let clear = bytes
            .get(..start)
            .ok_or_else(|| reader.error("ends too early"))?;
        let mut sections = Vec::with_capacity(count);
        for _ in 0..count {
            let section = decode_directory_entry(&mut reader, start)?;
            start = start.saturating_add(section.length);
            sections.push(section);
        }
        let end = start.saturating_add(FRAME_TRAILER_BYTES);
        if usize::try_from(header.length).ok() != Some(end) {
            return Err(reader.error("does not add up to the frame's length"));
        }
        Ok(Self {
            header,
            sections,
            bytes: clear,
        })
    }

    /// Header and directory as they are stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Opens section `number` from its sealed bytes; `key` is not looked at where the frame has no cipher.
    ///
    /// # Errors
    /// When there is no such section, the bytes are not as long as the directory says, the key is not the
    /// one committed to, the bytes were changed, or the body is malformed.
    pub fn open(
        &self,
        number: u32,
        sealed: &[u8],
        key: Option<&SectionKey>,
        decompressor: &mut Decompressor,
    ) -> Result<Body, DecodeError> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let error = |reason| DecodeError::new("frame section", index, reason);
        let section = self
            .sections
            .get(index)
            .ok_or_else(|| error("does not exist"))?;
        if section.length != sealed.len() {
            return Err(error("is not as long as the directory says"));
        }
        let mut bytes = Vec::from(sealed);
        if self.header.cipher == Cipher::Aes256Gcm {
            let key = key.ok_or_else(|| error("needs a key"))?;
            if !key.matches(&section.key_commitment) {
                return Err(error("has another key than the one given"));
            }
            let associated = self.associated(index);
            let nonce = Nonce::assume_unique_for_key(section_nonce(self.header.frame, number));
            let opened = key
                .aead()?
                .open_in_place(nonce, Aad::from(associated.as_slice()), &mut bytes)
                .map_err(|_refused| error("does not authenticate"))?
                .len();
            bytes.truncate(opened);
        }
        Body::decode(self.header.version, &bytes, decompressor)
    }

    fn associated(&self, index: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_HEADER_BYTES.saturating_add(80));
        out.extend_from_slice(&self.header.associated());
        let entry = index
            .saturating_mul(DIRECTORY_ENTRY_BYTES)
            .saturating_add(FRAME_HEADER_BYTES);
        let end = entry.saturating_add(DIRECTORY_ENTRY_BYTES);
        out.extend_from_slice(self.bytes.get(entry..end).unwrap_or_default());
        out.extend_from_slice(&u32::try_from(index).unwrap_or(u32::MAX).to_le_bytes());
        out
    }
}

/// A frame taken apart, its structure checked; sections stay sealed.
#[derive(Clone)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// What is in clear.
    pub clear: Clear<'a>,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes `bytes` apart, which must be exactly one frame. The root is not recomputed here.
    ///
    /// # Errors
    /// When header and directory do not add up to the bytes given.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let clear = Clear::parse(bytes)?;
        if usize::try_from(clear.header.length).ok() != Some(bytes.len()) {
            return Err(DecodeError::new(
                "frame header",
                8,
                "has another length than the frame",
            ));
        }
        Ok(Self { clear, bytes })
    }

    /// The root over the sealed bytes, recomputed.
    pub fn sealed_root(&self) -> Hash {
        if self.clear.header.proofs == Proofs::Frame {
            return leaf_hash(self.content());
        }
        root_of(&self.sealed_leaves())
    }

    /// Everything but the root that ends the frame.
    pub fn content(&self) -> &'a [u8] {
        let end = self.bytes.len().saturating_sub(FRAME_TRAILER_BYTES);
        self.bytes.get(..end).unwrap_or_default()
    }

    /// The leaves of the tree over the sealed bytes: header and directory, then each section.
    pub fn sealed_leaves(&self) -> Vec<Hash> {
        let mut leaves = Vec::with_capacity(self.clear.sections.len().saturating_add(1));
        leaves.push(leaf_hash(self.clear.bytes));
        leaves.extend(self.section_leaves());
        leaves
    }

    fn section_leaves(&self) -> Vec<Hash> {
        let sections = self.clear.sections.iter();
        sections
            .map(|section| leaf_hash(self.sealed(section)))
            .collect()
    }

    /// The root that ends the frame, as stored.
    pub fn trailer(&self) -> Option<Hash> {
        self.bytes
            .last_chunk::<FRAME_TRAILER_BYTES>()
            .map(|root| Hash::new(*root))
    }

    /// Whether a holder of the key of `epoch` sealed exactly this frame.
    ///
    /// The authenticator is HMAC-SHA-256 over the header without it, the directory, and the leaf hash of each section. A frame of version 2
    /// has none; there this says only that its header names the key of `epoch`.
    pub fn authenticated(&self, epoch: &EpochKey) -> bool {
        let header = self.clear.header.associated();
        let directory = self.clear.bytes.get(FRAME_HEADER_BYTES..);
        let mut parts: Vec<&[u8]> = Vec::with_capacity(self.clear.sections.len().saturating_add(2));
        parts.push(&header);
        parts.push(directory.unwrap_or_default());
        let leaves = self.section_leaves();
        parts.extend(leaves.iter().map(|leaf| leaf.as_bytes().as_slice()));
        let expected = epoch.authenticator(&parts);
        expected.ct_eq(&self.clear.header.authenticator).into()
    }

    /// Whether the frame is whole: its bytes have the root that ends it.
    pub fn is_whole(&self) -> bool {
        self.trailer() == Some(self.sealed_root())
    }

    /// The frame's record, were it to stand at `offset` of segment `segment`.
    pub fn record(&self, segment: u32, offset: u64) -> Record {
        self.clear
            .header
            .record(self.sealed_root(), segment, offset)
    }

    /// Opens section `number`; `key` is not looked at where the frame has no cipher.
    ///
    /// # Errors
    /// When there is no such section, the key is not the one committed to, the bytes were changed,
    /// or the body is malformed.
    pub fn open(
        &self,
        number: u32,
        key: Option<&SectionKey>,
        decompressor: &mut Decompressor,
    ) -> Result<Body, DecodeError> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let section = self.clear.sections.get(index);
        let sealed = section.map_or(&[][..], |section| self.sealed(section));
        self.clear.open(number, sealed, key, decompressor)
    }

    /// The sealed bytes of `section`.
    pub fn sealed(&self, section: &Section) -> &'a [u8] {
        let end = section.start.saturating_add(section.length);
        self.bytes.get(section.start..end).unwrap_or_default()
    }
}

/// The nonce of a section: unique even under one key, though every section has its own.
pub(crate) fn section_nonce(frame: u64, section: u32) -> [u8; 12] {
    let mut nonce = [0; 12];
    let (first, second) = nonce.split_at_mut(8);
    first.copy_from_slice(&frame.to_le_bytes());
    second.copy_from_slice(&section.to_le_bytes());
    nonce
}

/// The leaf of one entry in the tree over a frame's entries: nothing about the entry without the salt.
pub fn entry_leaf(salt: &[u8; 16], row: &[u8]) -> Hash {
    leaf_hash_parts([&salt[..], row])
}

/// An opened section.
#[non_exhaustive]
pub struct Body {
    version: Version,
    /// Descriptors and packed numbers.
    pub packed: Vec<u8>,
    /// Words, payloads and skewed numbers.
    pub plain: Vec<u8>,
}

impl Body {
    /// The section's columns.
    ///
    /// # Errors
    /// On anything the encoder of the section's version would not write.
    pub fn columns(&self) -> Result<Columns<'_>, DecodeError> {
        Columns::decode(self.version, &self.packed, &self.plain)
    }

    pub(crate) fn decode(
        version: Version,
        bytes: &[u8],
        decompressor: &mut Decompressor,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "section body");
        let code = reader.u8()?;
        let packed_bytes = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        let plain_bytes = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        if plain_bytes > PLAIN_BYTES_MAX {
            return Err(reader.error("says it decompresses to more than a section may hold"));
        }
        let packed = Vec::from(reader.take(packed_bytes)?);
        let plain = decompressor.decompress(code, reader.rest(), plain_bytes)?;
        Ok(Self {
            version,
            packed,
            plain,
        })
    }
}

fn decode_directory_entry(reader: &mut Reader<'_>, start: usize) -> Result<Section, DecodeError> {
    let kind = SectionKind::from_code(reader.u8()?);
    let padding = reader.array::<3>()?;
    let length = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    let entries = reader.u32()?;
    let reserved = reader.array::<20>()?;
    let key_commitment = reader.array()?;
    let Some(kind) = kind else {
        return Err(reader.error("names an unknown kind of section"));
    };
    if padding != [0; 3] || reserved != [0; 20] || length > FRAME_BYTES_MAX {
        return Err(reader.error("has a section out of range or reserved bytes set"));
    }
    Ok(Section {
        kind,
        start,
        length,
        entries,
        key_commitment,
    })
}
