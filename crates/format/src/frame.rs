//! A frame: a batch of entries in the sealed form that a segment holds.
//!
//! `docs/format.md`, "Frame". Header and directory are in clear and hold no personal data. All
//! other data is in sections, each sealed under its own key. A root over all sealed bytes ends the
//! frame, so that a torn frame is detected without keys.

use alloc::vec::Vec;

use aws_lc_rs::aead::{Aad, Nonce};
use subtle::ConstantTimeEq as _;

use crate::column::Columns;
use crate::compress::Decompressor;
use crate::error::DecodeError;
use crate::keys::{EpochKey, SectionKey};
use crate::limits::{FRAME_BYTES_MAX, FRAME_ENTRIES_MAX, FRAME_ROWS_BYTES_MAX, FRAME_SECTIONS_MAX};
use crate::record::Record;
use crate::segment::Place;
use crate::stream::{Cipher, Proofs, StreamConfig, StreamId};
use crate::tree::{Hash, leaf_hash, leaf_hash_parts, root_of};
use crate::v2;
use crate::version::Version;
use crate::width::to_usize;
use crate::wire::Reader;

/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 180;
/// Bytes of one directory entry.
pub const DIRECTORY_ENTRY_BYTES: usize = 40;
/// Byte range of the authenticator in a header.
const AUTHENTICATOR: core::ops::Range<usize> = 116..148;
/// Bytes of the root that ends a frame.
pub const FRAME_TRAILER_BYTES: usize = 32;
/// The first bytes of a frame.
pub const FRAME_MAGIC: &[u8; 4] = b"PBF3";
/// Bytes of an AES-256-GCM tag.
pub const TAG_BYTES: usize = 16;
/// Bytes before the packed part of a section body.
pub(crate) const BODY_HEAD_BYTES: usize = 9;
/// Longest decompressed body, in bytes: twice the rows, which is more than any encoder writes.
const PLAIN_BYTES_MAX: usize = FRAME_ROWS_BYTES_MAX * 2;

/// The header of a frame, in clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "sealer and reader build it field by field"
)]
pub struct FrameHeader {
    /// Further fields of a header of version 2; `None` in version 3, where the stream's
    /// configuration has them.
    pub v2: Option<v2::Sealing>,
    /// Length of the whole frame, trailer included, in bytes.
    pub length: u32,
    /// Number of sections.
    pub sections: u32,
    /// Number of entries.
    pub entries: u32,
    /// Index of the frame in its stream.
    pub frame: u64,
    /// Index of the first entry in its stream.
    pub first_entry: u64,
    /// Number of the key epoch.
    pub epoch: u32,
    /// Earliest time of an entry, in nanoseconds since 1970.
    pub time_min: i64,
    /// Latest time of an entry, in nanoseconds since 1970.
    pub time_max: i64,
    /// The stream.
    pub stream: StreamId,
    /// Salt of the epoch's key (16 bytes), then the frame's random bytes (16); in version 2 all 32
    /// bytes are the epoch's.
    pub salt: [u8; 32],
    /// The authenticator, which needs the epoch's key: see [`Frame::authenticated`]. In version 2
    /// the commitment to that key.
    pub authenticator: [u8; 32],
    /// Root over the entries' leaves; zeros without entry proofs.
    pub entry_root: [u8; 32],
}

impl FrameHeader {
    /// Returns the version of the log.
    pub const fn version(&self) -> Version {
        match self.v2 {
            Some(_) => Version::V2,
            None => Version::V3,
        }
    }

    /// Returns the encoded header.
    pub fn encode(&self) -> Vec<u8> {
        if let Some(sealing) = self.v2 {
            return v2::encode_header(self, sealing);
        }
        let mut out = Vec::with_capacity(FRAME_HEADER_BYTES);
        out.extend_from_slice(FRAME_MAGIC);
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.sections.to_le_bytes());
        out.extend_from_slice(&self.entries.to_le_bytes());
        out.extend_from_slice(&self.frame.to_le_bytes());
        out.extend_from_slice(&self.first_entry.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(self.stream.as_bytes());
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.authenticator);
        out.extend_from_slice(&self.entry_root);
        out
    }

    /// Returns the record of the frame with this header and `sealed_root`. Records of version 2
    /// also hold `place`.
    pub fn record(&self, sealed_root: Hash, place: Place) -> Record {
        Record {
            frame: self.frame,
            first_entry: self.first_entry,
            entries: self.entries,
            length: self.length,
            time_min: self.time_min,
            time_max: self.time_max,
            sealed_root,
            entry_root: self.entry_root,
            v2: self.v2.map(|sealing| v2::RecordRest {
                sealing,
                epoch: self.epoch,
                stream: self.stream,
                commitment: self.authenticator,
                place,
            }),
        }
    }

    /// Returns whether a frame with this header belongs to the stream with the identity `stream`
    /// and with `config`.
    pub fn is_of(&self, stream: &StreamId, config: &StreamConfig) -> bool {
        let is_sealed_so = match (self.v2, config.v2) {
            (None, None) => true,
            (Some(sealing), Some(_)) => {
                sealing.proofs == config.proofs && sealing.cipher == config.cipher
            }
            _ => false,
        };
        is_sealed_so && self.stream == *stream
    }

    /// Reads a header from the beginning of `bytes`; the magic tells its version.
    ///
    /// # Errors
    /// When the header is malformed or a count is out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes, "frame header");
        let header = match &reader.array::<4>()? {
            FRAME_MAGIC => Self::decode_rest(&mut reader)?,
            v2::FRAME_MAGIC => v2::decode_header(&mut reader)?,
            _ => {
                let reason = "does not begin with the magic of a version that this build reads";
                return Err(DecodeError::new("frame header", 0, reason));
            }
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

    fn decode_rest(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            v2: None,
            length: reader.u32()?,
            sections: reader.u32()?,
            entries: reader.u32()?,
            frame: reader.u64()?,
            first_entry: reader.u64()?,
            epoch: reader.u32()?,
            time_min: reader.i64()?,
            time_max: reader.i64()?,
            stream: StreamId::from_bytes(reader.array()?),
            salt: reader.array()?,
            authenticator: reader.array()?,
            entry_root: reader.array()?,
        })
    }
}

/// Zeroes the authenticator in a header of version 3. Sections and the authenticator itself are
/// bound to this form.
pub(crate) fn without_authenticator(header: &mut [u8]) {
    if let Some(place) = header.get_mut(AUTHENTICATOR) {
        place.fill(0);
    }
}

/// One section as the directory describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// Offset of its sealed bytes in the frame.
    pub start: usize,
    /// Length of its sealed bytes, tag included.
    pub length: usize,
    /// Number of entries it holds columns of.
    pub entries: u32,
    /// The commitment to its key; zeros without a cipher.
    pub key_commitment: [u8; 32],
}

pub(crate) fn encode_directory_entry(
    length: u32,
    entries: u32,
    key_commitment: &[u8; 32],
) -> [u8; DIRECTORY_ENTRY_BYTES] {
    let mut out = [0; DIRECTORY_ENTRY_BYTES];
    let (numbers, commitment) = out.split_at_mut(8);
    let (length_place, entries_place) = numbers.split_at_mut(4);
    length_place.copy_from_slice(&length.to_le_bytes());
    entries_place.copy_from_slice(&entries.to_le_bytes());
    commitment.copy_from_slice(key_commitment);
    out
}

/// Header and directory of a frame, which are in clear, with their structure checked.
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
    /// Reads header and directory from the beginning of `bytes`; ignores what follows.
    ///
    /// # Errors
    /// When header, directory and sections do not have the frame's length.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let header = FrameHeader::decode(bytes)?;
        let mut reader = Reader::new(bytes, "frame directory");
        let header_bytes = header.version().frame_header_bytes();
        reader.take(header_bytes)?;
        let count = to_usize(header.sections);
        let mut start = count
            .saturating_mul(directory_entry_bytes(header.version()))
            .saturating_add(header_bytes);
        let clear = bytes
            .get(..start)
            .ok_or_else(|| reader.error("ends too early"))?;
        let mut sections = Vec::with_capacity(count);
        for index in 0..count {
            let section = match header.v2 {
                Some(_) => v2::decode_directory_entry(&mut reader, index, start)?,
                None => decode_directory_entry(&mut reader, start)?,
            };
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

    /// Returns whether header and directory are those of a frame of the stream with the identity
    /// `stream` and with `config`.
    ///
    /// In version 3 it also checks that commitments to keys exist exactly if there is a cipher. An
    /// entry root must exist exactly if entries have proofs. Only an erasable stream has sections
    /// of subjects.
    pub fn is_of(&self, stream: &StreamId, config: &StreamConfig) -> bool {
        if !self.header.is_of(stream, config) {
            return false;
        }
        if self.header.v2.is_some() {
            return true;
        }
        let is_sealed = |section: &Section| section.key_commitment != [0; 32];
        let has_cipher = config.cipher == Cipher::Aes256Gcm;
        let has_root = self.header.entry_root != [0; 32];
        self.sections
            .iter()
            .map(is_sealed)
            .all(|sealed| sealed == has_cipher)
            && has_root == (config.proofs == Proofs::Entry)
            && config.erasable == (self.sections.len() > 1)
    }

    /// Returns header and directory as stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns header and directory as the authenticator binds them: with zeros in its place. In
    /// version 2 they are unchanged.
    fn bound(&self) -> (Vec<u8>, &'a [u8]) {
        let version = self.header.version();
        let (header, directory) = self
            .bytes
            .split_at_checked(version.frame_header_bytes())
            .unwrap_or_default();
        let mut header = Vec::from(header);
        if version != Version::V2 {
            without_authenticator(&mut header);
        }
        (header, directory)
    }

    /// Opens section `number` from its sealed bytes with `key`, or without a key if the stream has
    /// no cipher.
    ///
    /// # Errors
    /// When there is no such section, the length differs from the directory's, or the bytes were
    /// changed. When the key is missing or does not match the commitment, or the body is malformed.
    pub fn open(
        &self,
        number: u32,
        sealed: &[u8],
        key: Option<&SectionKey>,
        decompressor: &mut Decompressor,
    ) -> Result<Body, DecodeError> {
        let index = to_usize(number);
        let error = |reason| DecodeError::new("frame section", index, reason);
        let section = self
            .sections
            .get(index)
            .ok_or_else(|| error("does not exist"))?;
        if section.length != sealed.len() {
            return Err(error("is not as long as the directory says"));
        }
        if let Some(key) = key {
            return self.open_body(number, sealed, key, decompressor);
        }
        if section.key_commitment != [0; 32] {
            return Err(error("needs a key"));
        }
        Body::decode(self.header.version(), sealed, decompressor)
    }

    /// Opens a section that is sealed directly under the key of section `number`.
    pub(crate) fn open_body(
        &self,
        number: u32,
        sealed: &[u8],
        key: &SectionKey,
        decompressor: &mut Decompressor,
    ) -> Result<Body, DecodeError> {
        let index = to_usize(number);
        let error = |reason| DecodeError::new("frame section", index, reason);
        let section = self.sections.get(index);
        let section = section.ok_or_else(|| error("does not exist"))?;
        if !key.matches(&section.key_commitment) {
            return Err(error("has another key than the one given"));
        }
        let mut bytes = Vec::from(sealed);
        let associated = self.associated(index);
        let nonce = Nonce::assume_unique_for_key(section_nonce(self.header.frame, number));
        let opened = key
            .aead()?
            .open_in_place(nonce, Aad::from(associated.as_slice()), &mut bytes)
            .map_err(|_refused| error("does not authenticate"))?
            .len();
        bytes.truncate(opened);
        Body::decode(self.header.version(), &bytes, decompressor)
    }

    /// Returns the associated data of section `index`.
    pub(crate) fn associated(&self, index: usize) -> Vec<u8> {
        let (mut out, directory) = self.bound();
        let entry_bytes = directory_entry_bytes(self.header.version());
        let entry = index.saturating_mul(entry_bytes);
        let end = entry.saturating_add(entry_bytes);
        out.extend_from_slice(directory.get(entry..end).unwrap_or_default());
        out.extend_from_slice(&u32::try_from(index).unwrap_or(u32::MAX).to_le_bytes());
        out
    }
}

/// A parsed frame, its structure checked; its sections stay sealed.
#[derive(Clone)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// Header and directory.
    pub clear: Clear<'a>,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses `bytes`, which must be exactly one frame. The root is not recomputed here.
    ///
    /// # Errors
    /// When header, directory, sections and trailer do not have the length of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let clear = Clear::parse(bytes)?;
        if usize::try_from(clear.header.length).ok() != Some(bytes.len()) {
            return Err(DecodeError::new(
                "frame header",
                4,
                "has another length than the frame",
            ));
        }
        Ok(Self { clear, bytes })
    }

    /// Recomputes the root over the sealed bytes.
    pub fn sealed_root(&self) -> Hash {
        let sealing = self.clear.header.v2;
        if sealing.is_some_and(|sealing| sealing.proofs == Proofs::Frame) {
            return leaf_hash(self.content());
        }
        root_of(&self.sealed_leaves())
    }

    /// Returns all bytes before the root that ends the frame.
    pub fn content(&self) -> &'a [u8] {
        let end = self.bytes.len().saturating_sub(FRAME_TRAILER_BYTES);
        self.bytes.get(..end).unwrap_or_default()
    }

    /// Returns the leaf hashes of the tree over the sealed bytes: header and directory, then each
    /// section.
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

    /// Returns the root that ends the frame, as stored.
    pub fn trailer(&self) -> Option<Hash> {
        self.bytes
            .last_chunk::<FRAME_TRAILER_BYTES>()
            .map(|root| Hash::new(*root))
    }

    /// Checks that a holder of the key of `epoch` sealed exactly this frame, in the opening of the
    /// epoch's certificate ([`EpochKey::certified_by`]). Returns `false` if the epoch has none.
    ///
    /// The authenticator is HMAC-SHA-256 over the header without it, the directory, and the leaf
    /// hash of each section. A frame of version 2 has none, so this is always `false` for it: see
    /// [`Frame::names`].
    pub fn authenticated(&self, epoch: &EpochKey) -> bool {
        self.clear.header.version() != Version::V2 && self.has_check_of(epoch)
    }

    /// Returns whether this is a frame of version 2 whose header commits to the key of `epoch`.
    ///
    /// This identifies the key that opens it, and not its writer: the commitment is in clear, and
    /// anybody can copy it.
    pub fn names(&self, epoch: &EpochKey) -> bool {
        self.clear.header.version() == Version::V2 && self.has_check_of(epoch)
    }

    fn has_check_of(&self, epoch: &EpochKey) -> bool {
        let (header, directory) = self.clear.bound();
        let mut parts: Vec<&[u8]> = Vec::with_capacity(self.clear.sections.len().saturating_add(2));
        parts.push(&header);
        parts.push(directory);
        let leaves = self.section_leaves();
        parts.extend(leaves.iter().map(|leaf| leaf.as_bytes().as_slice()));
        epoch
            .authenticator(&parts)
            .is_some_and(|expected| expected.ct_eq(&self.clear.header.authenticator).into())
    }

    /// Returns whether the frame is whole: its trailer is the root over its bytes.
    pub fn is_whole(&self) -> bool {
        self.trailer() == Some(self.sealed_root())
    }

    /// Returns the frame's record. Records of version 2 also hold `place`.
    pub fn record(&self, place: Place) -> Record {
        self.clear.header.record(self.sealed_root(), place)
    }

    /// Opens section `number` with `key`, or without a key if the stream has no cipher.
    ///
    /// # Errors
    /// The errors of [`Clear::open`].
    pub fn open(
        &self,
        number: u32,
        key: Option<&SectionKey>,
        decompressor: &mut Decompressor,
    ) -> Result<Body, DecodeError> {
        let index = to_usize(number);
        let section = self.clear.sections.get(index);
        let sealed = section.map_or(&[][..], |section| self.sealed(section));
        self.clear.open(number, sealed, key, decompressor)
    }

    /// Returns the sealed bytes of `section`.
    pub fn sealed(&self, section: &Section) -> &'a [u8] {
        let end = section.start.saturating_add(section.length);
        self.bytes.get(section.start..end).unwrap_or_default()
    }
}

/// Returns the nonce of a section: unique even under one key, though every section has its own.
pub(crate) fn section_nonce(frame: u64, section: u32) -> [u8; 12] {
    let mut nonce = [0; 12];
    let (first, second) = nonce.split_at_mut(8);
    first.copy_from_slice(&frame.to_le_bytes());
    second.copy_from_slice(&section.to_le_bytes());
    nonce
}

/// Returns the leaf hash of one entry in the tree over a frame's entries. Without the salt it
/// discloses nothing about the entry.
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
    /// Decodes the section's columns.
    ///
    /// # Errors
    /// When the encoder of the section's version would not write these bytes.
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
        let packed_bytes = to_usize(reader.u32()?);
        let plain_bytes = to_usize(reader.u32()?);
        if plain_bytes > PLAIN_BYTES_MAX {
            return Err(reader.error("says it decompresses to more than a section may hold"));
        }
        let packed = Vec::from(reader.take(packed_bytes)?);
        let plain = decompressor.decompress(version, code, reader.rest(), plain_bytes)?;
        Ok(Self {
            version,
            packed,
            plain,
        })
    }
}

const fn directory_entry_bytes(version: Version) -> usize {
    match version {
        Version::V2 => v2::DIRECTORY_ENTRY_BYTES,
        Version::V3 => DIRECTORY_ENTRY_BYTES,
    }
}

fn decode_directory_entry(reader: &mut Reader<'_>, start: usize) -> Result<Section, DecodeError> {
    let length = to_usize(reader.u32()?);
    let entries = reader.u32()?;
    let key_commitment = reader.array()?;
    if length > FRAME_BYTES_MAX {
        return Err(reader.error("has a section out of range"));
    }
    Ok(Section {
        start,
        length,
        entries,
        key_commitment,
    })
}
