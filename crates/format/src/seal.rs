//! Seals rows into a frame: columns, compression, encryption, and the root over the result.
//!
//! `docs/format.md`, "Frame" and "Sealing". The frame's index is fixed before sealing, because key,
//! nonce and associated data depend on it. The key of a section is used for that section only.

use alloc::vec::Vec;
use core::slice;

use aws_lc_rs::aead::{Aad, Nonce};
use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use crate::column::{ColumnSet, Encoder};
use crate::compress::{Compression, Compressor};
use crate::error::DecodeError;
use crate::frame::{
    BODY_HEAD_BYTES, DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, FrameHeader,
    TAG_BYTES, encode_directory_entry, entry_leaf, section_nonce, without_authenticator,
};
pub use crate::group::sealed_bytes_max;
use crate::group::{check_end, group_by_subjects, shared_row};
use crate::keys::{EpochKey, SECRET_BYTES, SectionKey};
use crate::limits::{FRAME_BYTES_MAX, FRAME_ENTRIES_MAX};
use crate::record::Record;
use crate::row::Rows;
use crate::segment::Place;
use crate::share::{PersonKey, put_share, seal_share, share_bytes, split_share};
use crate::stream::{Cipher, Proofs, StreamConfig, StreamId};
use crate::tree::{Hash, leaf_hash, root_of};
use crate::width::to_usize;

/// Number of rows that are encoded together; they stay in the L1 cache while all columns are
/// encoded.
const ROWS_TOGETHER: usize = 64;

/// Number of bytes of rows that are prefetched at once, see [`warm_up`].
const WARM_BYTES: usize = 8 << 10;

/// The keys of subjects, for streams whose subjects can be erased.
pub trait SubjectKeys {
    /// Returns pseudonyms and keys for the section about `subjects`, which are joined by line
    /// feeds.
    ///
    /// # Errors
    /// When a key can neither be found nor created; the frame is then not sealed.
    fn section_key(
        &mut self,
        subjects: &str,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
    ) -> Result<SubjectSection, DecodeError>;
}

/// The pseudonyms and keys of a section about subjects.
#[expect(
    clippy::exhaustive_structs,
    reason = "the log builds it field by field"
)]
pub struct SubjectSection {
    /// The pseudonyms, 16 bytes each in the order of the subjects.
    pub pseudonyms: Vec<u8>,
    /// The section's key. For one subject it is derived from that subject's key. For several it is
    /// [`share::section_key`](crate::share::section_key) with a random content key.
    pub key: SectionKey,
    /// The keys of the subjects' shares, in the order of the subjects; empty for one subject.
    pub people: Vec<PersonKey>,
}

/// The place in the stream that is reserved for a frame before it is sealed.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the log builds it field by field"
)]
pub struct FramePlace {
    /// The stream.
    pub stream: StreamId,
    /// Index of the frame in its stream.
    pub frame: u64,
    /// Index of the first entry in its stream.
    pub first_entry: u64,
    /// Seed of the dictionaries' hash; unpredictable to those who choose words, so that they cannot
    /// cause collisions.
    pub seed: u64,
    /// Fresh random bytes. No other frame has them, not even one sealed from a copy of this
    /// process's memory.
    pub fresh: [u8; 16],
}

/// Seals the frames of streams with one configuration; reuses its memory from frame to frame.
pub struct FrameSealer {
    config: StreamConfig,
    encoder: Encoder,
    compressor: Compressor,
    parts: Vec<Part>,
    leaves: Vec<Hash>,
}

struct Part {
    entries: u32,
    start: usize,
    length: usize,
    keys: Keys,
}

/// The keys of a section; empty if the stream has no cipher.
#[derive(Default)]
struct Keys {
    section: Option<SectionKey>,
    /// The keys of the shares of a section about several people.
    people: Vec<PersonKey>,
}

impl Keys {
    const fn of(section: Option<SectionKey>) -> Self {
        Self {
            section,
            people: Vec::new(),
        }
    }

    /// Returns the bytes of the shares of `subjects`; 0 for a section without shares.
    fn share_bytes(&self, subjects: &str) -> usize {
        let shares = subjects.split('\n').zip(&self.people);
        shares.fold(0, |sum, (name, _)| {
            sum.saturating_add(share_bytes(name.len()))
        })
    }
}

impl FrameSealer {
    /// Creates a sealer for streams with `config` that compresses sections with `compression`.
    ///
    /// # Errors
    /// When the compressor refuses its level, or `config` is of a stream of an older version.
    pub fn new(config: StreamConfig, compression: Compression) -> Result<Self, DecodeError> {
        if config.v2.is_some() || config.proofs == Proofs::Frame {
            let reason = "is of a version that is not written";
            return Err(DecodeError::new("stream configuration", 0, reason));
        }
        Ok(Self {
            config,
            encoder: Encoder::default(),
            compressor: Compressor::new(compression)?,
            parts: Vec::new(),
            leaves: Vec::new(),
        })
    }

    /// Seals the rows in `chunks` at `place` into the beginning of `out`, which never shrinks.
    ///
    /// The frame is the first bytes of `out`, as many as the returned record's length.
    ///
    /// # Errors
    /// When the rows are malformed, none or too many, a key is refused, or the epoch is not
    /// [certified](EpochKey::certified_by). `out` is then undefined.
    pub fn seal(
        &mut self,
        place: &FramePlace,
        epoch: &EpochKey,
        chunks: &[&[u8]],
        subjects: &mut dyn SubjectKeys,
        out: &mut Vec<u8>,
    ) -> Result<Record, DecodeError> {
        self.parts.clear();
        let span = if self.config.erasable {
            self.seal_by_subject(place, epoch, chunks, subjects, out)?
        } else {
            self.seal_together(place, epoch, chunks, out)?
        };
        let end = self
            .parts
            .last()
            .map_or(0, |part| part.start.saturating_add(part.length));
        let length = end.saturating_add(FRAME_TRAILER_BYTES);
        if length > FRAME_BYTES_MAX {
            return Err(DecodeError::new("frame", length, "exceeds its limit"));
        }
        let entry_root = self.entry_root(chunks)?;
        let mut header = FrameHeader {
            v2: None,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            sections: u32::try_from(self.parts.len()).unwrap_or(u32::MAX),
            frame: place.frame,
            first_entry: place.first_entry,
            entries: span.entries,
            epoch: epoch.epoch(),
            time_min: span.time_min,
            time_max: span.time_max,
            stream: place.stream,
            salt: epoch.frame_salt(&place.fresh),
            authenticator: [0; 32],
            entry_root,
        };
        let sealed_root = self.close(&mut header, epoch, out)?;
        Ok(header.record(sealed_root, Place::default()))
    }

    /// Seals every column of every entry into one section.
    fn seal_together(
        &mut self,
        place: &FramePlace,
        epoch: &EpochKey,
        chunks: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<Span, DecodeError> {
        let mut span = Span::default();
        self.encoder.begin(ColumnSet::ALL, place.seed);
        let mut together = Vec::with_capacity(ROWS_TOGETHER);
        for chunk in chunks {
            let mut rows = Rows::new(chunk);
            let mut warm = 0;
            loop {
                let done = chunk.len().saturating_sub(rows.rest().len());
                if done >= warm {
                    let ahead = chunk.get(warm..).unwrap_or_default();
                    warm_up(ahead);
                    warm = warm.saturating_add(WARM_BYTES).max(done);
                }
                together.clear();
                together.extend(rows.by_ref().take(ROWS_TOGETHER));
                if together.is_empty() {
                    break;
                }
                for row in &together {
                    span.add(row.time);
                }
                self.encoder.extend(&together);
            }
            check_end(&rows)?;
        }
        let start = FRAME_HEADER_BYTES.saturating_add(DIRECTORY_ENTRY_BYTES);
        let key = self.epoch_section_key(epoch, place, 0);
        self.put_body("", span.entries, start, Keys::of(key), out)?;
        span.check()
    }

    /// Seals the shared columns into one section, and the others into one section for each set of
    /// subjects.
    fn seal_by_subject(
        &mut self,
        place: &FramePlace,
        epoch: &EpochKey,
        chunks: &[&[u8]],
        subjects: &mut dyn SubjectKeys,
        out: &mut Vec<u8>,
    ) -> Result<Span, DecodeError> {
        let mut span = Span::default();
        let groups = group_by_subjects(chunks)?;
        let directory = groups
            .in_order
            .len()
            .saturating_add(1)
            .saturating_mul(DIRECTORY_ENTRY_BYTES);
        let mut start = FRAME_HEADER_BYTES.saturating_add(directory);
        let mut keys = Vec::with_capacity(groups.in_order.len());
        let mut number: u32 = 0;
        for group in &groups.in_order {
            number = number.saturating_add(1);
            let name = group.subjects;
            keys.push(if name.is_empty() {
                (None, Keys::of(self.epoch_section_key(epoch, place, number)))
            } else {
                let salt = epoch.frame_salt(&place.fresh);
                let own = subjects.section_key(name, &salt, place.frame, number)?;
                let keys = Keys {
                    section: Some(own.key),
                    people: own.people,
                };
                let is_sealed = self.config.cipher == Cipher::Aes256Gcm;
                let keys = if is_sealed { keys } else { Keys::default() };
                (Some(own.pseudonyms), keys)
            });
        }
        self.encoder.begin(ColumnSet::SHARED, place.seed);
        for (row, group) in &groups.rows {
            span.add(row.time);
            let token = keys.get(*group).and_then(|(token, _)| token.as_ref());
            self.encoder
                .extend(&[shared_row(row, token.map_or(&[], Vec::as_slice))]);
        }
        let key = self.epoch_section_key(epoch, place, 0);
        let key = Keys::of(key);
        start = self.put_body("", span.entries, start, key, out)?;
        for (group, (_, keys)) in groups.in_order.iter().zip(keys) {
            let columns = if keys.people.is_empty() {
                ColumnSet::SUBJECT
            } else {
                ColumnSet::PEOPLE
            };
            self.encoder.begin(columns, place.seed);
            for index in &group.rows {
                if let Some((row, _)) = groups.rows.get(*index) {
                    self.encoder.extend(slice::from_ref(row));
                }
            }
            let entries = u32::try_from(group.rows.len()).unwrap_or(u32::MAX);
            start = self.put_body(group.subjects, entries, start, keys, out)?;
        }
        span.check()
    }

    fn epoch_section_key(
        &self,
        epoch: &EpochKey,
        place: &FramePlace,
        section: u32,
    ) -> Option<SectionKey> {
        let salt = epoch.frame_salt(&place.fresh);
        (self.config.cipher == Cipher::Aes256Gcm)
            .then(|| epoch.section_key(&salt, place.frame, section))
    }

    /// Writes the shares of `subjects` at `start`, if the section has any, then the encoder's
    /// columns as a section body. Returns the offset after the tag.
    fn put_body(
        &mut self,
        subjects: &str,
        entries: u32,
        start: usize,
        keys: Keys,
        out: &mut Vec<u8>,
    ) -> Result<usize, DecodeError> {
        let parts = self.encoder.finish();
        let body = start.saturating_add(keys.share_bytes(subjects));
        let head_end = body.saturating_add(BODY_HEAD_BYTES);
        let packed_end = head_end.saturating_add(parts.packed.len());
        let bound = packed_end
            .saturating_add(self.compressor.bound(parts.plain.len()))
            .saturating_add(TAG_BYTES + FRAME_TRAILER_BYTES);
        if out.len() < bound {
            out.resize(bound, 0);
        }
        let (before, rest) = out.split_at_mut(packed_end);
        let compressed = self.compressor.compress(parts.plain, rest)?;
        let length_of = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(shares) = before.get_mut(start..body) {
            put_shares(&keys, subjects, shares)?;
        }
        if let Some(head) = before.get_mut(body..head_end) {
            let (code, lengths) = head.split_at_mut(1);
            code.fill(self.compressor.code());
            let (packed_length, plain_length) = lengths.split_at_mut(4);
            packed_length.copy_from_slice(&length_of(parts.packed));
            plain_length.copy_from_slice(&length_of(parts.plain));
        }
        if let Some(packed) = before.get_mut(head_end..packed_end) {
            packed.copy_from_slice(parts.packed);
        }
        let tag = if keys.section.is_some() { TAG_BYTES } else { 0 };
        let end = packed_end.saturating_add(compressed).saturating_add(tag);
        self.parts.push(Part {
            entries,
            start,
            length: end.saturating_sub(start),
            keys,
        });
        Ok(end)
    }

    /// Computes the root over the entries' salted leaves; zeros if the stream has no entry proofs.
    fn entry_root(&mut self, chunks: &[&[u8]]) -> Result<[u8; 32], DecodeError> {
        if self.config.proofs != Proofs::Entry {
            return Ok([0; 32]);
        }
        let groups = if self.config.erasable {
            Some(group_by_subjects(chunks)?)
        } else {
            None
        };
        let rows = chunks.iter().flat_map(|chunk| Rows::new(chunk));
        self.leaves.clear();
        if let Some(groups) = groups {
            for (index, (row, group)) in groups.rows.iter().enumerate() {
                let part = self.parts.get(group.saturating_add(1));
                let key = part.and_then(|part| part.keys.section.as_ref());
                let mut salt = [0; 16];
                fill_salts(key.map(SectionKey::salt_key), index, &mut salt)?;
                self.leaves.push(entry_leaf(&salt, row.bytes));
            }
        } else {
            let part = self.parts.first();
            let key = part.and_then(|part| part.keys.section.as_ref());
            let count = rows.clone().count();
            let mut salts = alloc::vec![0; count.saturating_mul(16)];
            fill_salts(key.map(SectionKey::salt_key), 0, &mut salts)?;
            let (salts, _) = salts.as_chunks::<16>();
            self.leaves.extend(
                rows.zip(salts)
                    .map(|(row, salt)| entry_leaf(salt, row.bytes)),
            );
        }
        Ok(*root_of(&self.leaves).as_bytes())
    }

    /// Writes header and directory, encrypts the sections, and appends authenticator and root.
    fn close(
        &mut self,
        header: &mut FrameHeader,
        epoch: &EpochKey,
        out: &mut [u8],
    ) -> Result<Hash, DecodeError> {
        let error = DecodeError::new("frame", 0, "cannot be sealed");
        let clear = self.encrypt(header, out)?;
        let directory = out.get(FRAME_HEADER_BYTES..clear).ok_or(error)?;
        let associated = associated(header);
        let mut parts: Vec<&[u8]> = Vec::with_capacity(self.leaves.len().saturating_add(2));
        parts.push(&associated);
        parts.push(directory);
        parts.extend(self.leaves.iter().map(|leaf| leaf.as_bytes().as_slice()));
        header.authenticator = epoch.authenticator(&parts).ok_or(error)?;
        let head = out.get_mut(..FRAME_HEADER_BYTES).ok_or(error)?;
        head.copy_from_slice(&header.encode());
        let end = to_usize(header.length);
        let content = end.saturating_sub(FRAME_TRAILER_BYTES);
        self.leaves
            .insert(0, leaf_hash(out.get(..clear).ok_or(error)?));
        let root = root_of(&self.leaves);
        out.get_mut(content..end)
            .ok_or(error)?
            .copy_from_slice(root.as_bytes());
        Ok(root)
    }

    /// Writes the directory and encrypts the sections; keeps the leaf hash of each. Returns the
    /// length of header and directory.
    fn encrypt(&mut self, header: &FrameHeader, out: &mut [u8]) -> Result<usize, DecodeError> {
        let error = DecodeError::new("frame", 0, "cannot be sealed");
        let clear = self.parts.first().map_or(0, |part| part.start);
        let mut associated = associated(header);
        self.leaves.clear();
        let (clear_bytes, mut rest) = out.split_at_mut_checked(clear).ok_or(error)?;
        let (_, directory) = clear_bytes
            .split_at_mut_checked(FRAME_HEADER_BYTES)
            .ok_or(error)?;
        let mut entries = directory.chunks_exact_mut(DIRECTORY_ENTRY_BYTES);
        let mut number: u32 = 0;
        for part in &self.parts {
            let length = u32::try_from(part.length).unwrap_or(u32::MAX);
            let key = part.keys.section.as_ref();
            let commitment = key.map_or(&[0; 32], SectionKey::commitment);
            let entry = encode_directory_entry(length, part.entries, commitment);
            entries.next().ok_or(error)?.copy_from_slice(&entry);
            let (sealed, after) = core::mem::take(&mut rest)
                .split_at_mut_checked(part.length)
                .ok_or(error)?;
            rest = after;
            associated.truncate(FRAME_HEADER_BYTES);
            associated.extend_from_slice(&entry);
            associated.extend_from_slice(&number.to_le_bytes());
            let nonce = section_nonce(header.frame, number);
            let mut body = &mut *sealed;
            for person in &part.keys.people {
                let share;
                (share, body) = split_share(body).ok_or(error)?;
                seal_share(person, nonce, &associated, share)?;
            }
            if let Some(key) = key {
                let length = body.len().checked_sub(TAG_BYTES).ok_or(error)?;
                let (body, tag_place) = body.split_at_mut(length);
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key
                    .aead()?
                    .seal_in_place_separate_tag(nonce, Aad::from(associated.as_slice()), body)
                    .map_err(|_refused| error)?;
                tag_place.copy_from_slice(tag.as_ref());
            }
            self.leaves.push(leaf_hash(sealed));
            number = number.saturating_add(1);
        }
        Ok(clear)
    }
}

/// Returns the header as sections and the authenticator bind it.
fn associated(header: &FrameHeader) -> Vec<u8> {
    let mut bytes = header.encode();
    without_authenticator(&mut bytes);
    bytes
}

/// Writes the shares of `subjects` into `out`, concatenated and not yet encrypted.
fn put_shares(keys: &Keys, subjects: &str, out: &mut [u8]) -> Result<(), DecodeError> {
    let error = |reason| DecodeError::new("shares", 0, reason);
    if keys.people.is_empty() {
        return Ok(());
    }
    let key = keys.section.as_ref().ok_or_else(|| error("need a key"))?;
    if subjects.split('\n').count() != keys.people.len() {
        return Err(error("are of another number of people than the subjects"));
    }
    let mut rest = out;
    for name in subjects.split('\n') {
        let (share, after) = rest
            .split_at_mut_checked(share_bytes(name.len()))
            .ok_or_else(|| error("have no room"))?;
        put_share(key.expose(), name, share)?;
        rest = after;
    }
    Ok(())
}

/// Computes the salts of the entries from `first` on: the keystream of AES-256-CTR under the
/// section's salt key.
///
/// Without a key (the stream has no cipher) they are zeros.
///
/// # Errors
/// When the cryptographic provider fails.
pub fn fill_salts(
    key: Option<&[u8; SECRET_BYTES]>,
    first: usize,
    salts: &mut [u8],
) -> Result<(), DecodeError> {
    let Some(key) = key else {
        salts.fill(0);
        return Ok(());
    };
    let error = DecodeError::new("entry salt", first, "cannot be derived");
    let counter = u128::try_from(first).unwrap_or_default();
    let context = EncryptionContext::Iv128(FixedLength::from(counter.to_be_bytes()));
    salts.fill(0);
    UnboundCipherKey::new(&AES_256, key)
        .and_then(EncryptingKey::ctr)
        .and_then(|key| key.less_safe_encrypt(salts, context))
        .map(|_context| ())
        .map_err(|_refused| error)
}

/// Number of entries of a frame, and the range of their times.
struct Span {
    entries: u32,
    time_min: i64,
    time_max: i64,
}

impl Default for Span {
    fn default() -> Self {
        Self {
            entries: 0,
            time_min: i64::MAX,
            time_max: i64::MIN,
        }
    }
}

impl Span {
    #[inline]
    fn add(&mut self, time: i64) {
        self.entries = self.entries.saturating_add(1);
        self.time_min = self.time_min.min(time);
        self.time_max = self.time_max.max(time);
    }

    const fn check(self) -> Result<Self, DecodeError> {
        if self.entries == 0 || self.entries > FRAME_ENTRIES_MAX {
            return Err(DecodeError::new("frame", 0, "has no entries or too many"));
        }
        Ok(self)
    }
}

/// Prefetches the next rows into the cache.
///
/// A row's start is known only from the row before, so each row would wait for memory that another
/// core wrote. Prefetching lines in order costs almost nothing.
fn warm_up(bytes: &[u8]) {
    let lines = bytes.get(..WARM_BYTES).unwrap_or(bytes).iter().step_by(64);
    core::hint::black_box(lines.fold(0, |all, byte| all ^ byte));
}
