//! The evidence: the proof from an entry to the record of its frame, as small as the stream's proof
//! mode allows.
//!
//! `docs/format.md`, "Entry proof". With entry proofs it is the entry and its path. Otherwise it is
//! the sealed sections that hold the entry and their keys, which open no other section.

use alloc::vec::Vec;

use super::{PROOF_HASHES_MAX, root_from_inclusion};
use crate::compress::Decompressor;
use crate::content::{
    Closed, Content, Own, PSEUDONYM_BYTES, Placed, check_directory, pseudonyms, subject_section,
};
use crate::error::DecodeError;
use crate::frame::{Body, Clear, entry_leaf};
use crate::keys::{SECRET_BYTES, SectionKey};
use crate::limits::{ENTRY_BYTES_MAX, FRAME_BYTES_MAX, SUBJECTS_MAX};
use crate::record::Record;
use crate::row::{decode_row, encode_row, row_bytes};
use crate::share::{PEOPLE_MIN, People, PersonKey};
use crate::stream::{Cipher, Proofs, StreamConfig, StreamId};
use crate::tree::{HASH_BYTES, Hash, leaf_hash};
use crate::version::Version;
use crate::width::to_usize;
use crate::wire::Reader;

/// Most sections with columns of one entry: the shared section and its subjects'.
const SHOWN_MAX: u8 = 2;

/// The proof from an entry to its frame's record.
#[non_exhaustive]
pub enum Evidence {
    /// The entry, and the path to the frame's entry root.
    Entry {
        /// The salt of the entry's leaf.
        salt: [u8; 16],
        /// The entry as a row.
        row: Vec<u8>,
        /// The path from the entry's leaf to the entry root.
        path: Vec<Hash>,
    },
    /// The sections that hold the entry, with their keys and the paths to the frame's sealed root.
    Sections {
        /// Header and directory of the frame.
        clear: Vec<u8>,
        /// The path from their leaf to the sealed root.
        clear_path: Vec<Hash>,
        /// The shared section, then the section of the entry's subjects, if that is another.
        shown: Vec<ShownSection>,
    },
    /// The whole sealed frame, with the keys of the sections that hold the entry. Only in version
    /// 2.
    Frame {
        /// The frame without its trailer.
        content: Vec<u8>,
        /// Keys of the shared section and of the entry's subjects; empty without a cipher.
        keys: Vec<ShownKey>,
    },
}

/// A section that a proof discloses.
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct ShownSection {
    /// The section's number in the frame.
    pub number: u32,
    /// The key or keys of the section; `None` without a cipher.
    pub key: Option<Opens>,
    /// The sealed bytes of the section.
    pub sealed: Vec<u8>,
    /// The path from its leaf to the sealed root.
    pub path: Vec<Hash>,
}

/// The key or keys that open a disclosed section, and no other.
#[expect(
    clippy::exhaustive_enums,
    reason = "another way is another version of the proof"
)]
pub enum Opens {
    /// The section's key.
    Key(SectionKey),
    /// The keys of the people's shares in a section about several people, by place; `None` for
    /// those who were erased.
    People(Vec<Option<PersonKey>>),
}

/// The key of a section in a frame that a proof discloses completely.
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct ShownKey {
    /// The section's number in the frame.
    pub number: u32,
    /// The section's key.
    pub key: SectionKey,
}

/// An entry that was read from its evidence.
pub(super) struct Shown {
    /// The entry as a row.
    pub(super) row: Vec<u8>,
    /// Number of entries that can be read completely, including this one.
    pub(super) whole: u32,
    /// Number of entries that can be read without key, subjects and payload.
    pub(super) partly: u32,
    /// The people of the entry that are not disclosed.
    pub(super) closed: Closed,
    /// The number of the section of the entry's subjects, if it is not the shared one.
    own: Option<u32>,
}

impl Shown {
    /// Returns the numbers of the sections that hold the entry.
    fn sections(&self) -> impl Iterator<Item = u32> {
        core::iter::once(0).chain(self.own)
    }
}

impl Evidence {
    /// The code of [`Evidence::Entry`].
    pub(super) const ENTRY: u8 = 0;

    pub(super) const fn code(&self) -> u8 {
        match self {
            Self::Entry { .. } => Self::ENTRY,
            Self::Sections { .. } => 1,
            Self::Frame { .. } => 2,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Entry { salt, row, path } => {
                out.extend_from_slice(salt);
                put_bytes(out, row);
                put_path(out, path);
            }
            Self::Sections {
                clear,
                clear_path,
                shown,
            } => {
                put_bytes(out, clear);
                put_path(out, clear_path);
                put_count(out, shown.len());
                for section in shown {
                    out.extend_from_slice(&section.number.to_le_bytes());
                    put_key(out, section.key.as_ref());
                    put_bytes(out, &section.sealed);
                    put_path(out, &section.path);
                }
            }
            Self::Frame { content, keys } => {
                put_bytes(out, content);
                put_count(out, keys.len());
                for shown in keys {
                    out.extend_from_slice(&shown.number.to_le_bytes());
                    out.push(1);
                    out.extend_from_slice(shown.key.expose());
                }
            }
        }
    }

    pub(super) fn decode(
        version: Version,
        code: u8,
        reader: &mut Reader<'_>,
    ) -> Result<Self, DecodeError> {
        match code {
            Self::ENTRY => Ok(Self::Entry {
                salt: reader.array()?,
                row: bytes(reader, ENTRY_BYTES_MAX)?,
                path: path(reader)?,
            }),
            1 => Ok(Self::Sections {
                clear: bytes(reader, FRAME_BYTES_MAX)?,
                clear_path: path(reader)?,
                shown: each(reader, |reader| {
                    Ok(ShownSection {
                        number: reader.u32()?,
                        key: key(reader)?,
                        sealed: bytes(reader, FRAME_BYTES_MAX)?,
                        path: path(reader)?,
                    })
                })?,
            }),
            2 if version == Version::V2 => Ok(Self::Frame {
                content: bytes(reader, FRAME_BYTES_MAX)?,
                keys: each(reader, |reader| {
                    let number = reader.u32()?;
                    match key(reader)? {
                        Some(Opens::Key(key)) => Ok(ShownKey { number, key }),
                        _ => Err(reader.error("has no key")),
                    }
                })?,
            }),
            _ => Err(reader.error("holds evidence of an unknown kind")),
        }
    }

    /// Returns the entry at `place` of the frame with `record`.
    ///
    /// Without `bound` the frame's stream is not checked. Evidence of an entry alone does not need
    /// it, because no frame is opened.
    pub(super) fn entry(
        &self,
        record: &Record,
        bound: Option<&Binding<'_>>,
        place: u32,
    ) -> Result<Shown, DecodeError> {
        let error = |reason| DecodeError::new("evidence", 0, reason);
        let proofs = bound.map(|bound| bound.config.proofs);
        let suits = match self {
            Self::Entry { .. } => proofs.is_none_or(|proofs| proofs == Proofs::Entry),
            Self::Sections { .. } => proofs.is_some_and(|proofs| proofs != Proofs::Frame),
            Self::Frame { .. } => proofs == Some(Proofs::Frame),
        };
        if !suits {
            return Err(error("is not of a kind that the stream's proofs allow"));
        }
        if place >= record.entries {
            return Err(error("is for a place behind the frame's last entry"));
        }
        match (self, bound) {
            (Self::Entry { salt, row, path }, _) => {
                let leaf = entry_leaf(salt, row);
                let root =
                    root_from_inclusion(leaf, u64::from(place), u64::from(record.entries), path)
                        .map_err(|_wrong_length| error("has a path of the wrong length"))?;
                if *root.as_bytes() != record.entry_root {
                    return Err(error("does not lead to the record's entry root"));
                }
                decode_row(row)?;
                Ok(Shown {
                    row: row.clone(),
                    whole: 1,
                    partly: 0,
                    closed: Closed::NONE,
                    own: None,
                })
            }
            (
                Self::Sections {
                    clear,
                    clear_path,
                    shown,
                },
                Some(bound),
            ) => open_sections(bound, place, clear, clear_path, shown),
            (Self::Frame { content, keys }, Some(bound)) => open_frame(bound, place, content, keys),
            (Self::Sections { .. } | Self::Frame { .. }, None) => Err(error("names no stream")),
        }
    }
}

/// The record, stream and configuration that a frame is bound to.
pub(super) struct Binding<'a> {
    pub(super) record: &'a Record,
    pub(super) stream: StreamId,
    pub(super) config: &'a StreamConfig,
}

fn open_sections(
    bound: &Binding<'_>,
    place: u32,
    clear_bytes: &[u8],
    clear_path: &[Hash],
    shown: &[ShownSection],
) -> Result<Shown, DecodeError> {
    let error = |reason| DecodeError::new("evidence", 0, reason);
    let record = bound.record;
    let clear = Clear::parse(clear_bytes)?;
    if clear.bytes().len() != clear_bytes.len() {
        return Err(error("has bytes behind the frame's directory"));
    }
    let leaves = u64::from(clear.header.sections).saturating_add(1);
    let leads = |leaf, index, path: &[Hash]| {
        root_from_inclusion(leaf, index, leaves, path).as_ref() == Ok(&record.sealed_root)
    };
    if !leads(leaf_hash(clear_bytes), 0, clear_path) {
        return Err(error("has a header that does not lead to the sealed root"));
    }
    let mut sections = Vec::with_capacity(shown.len());
    for section in shown {
        let index = u64::from(section.number).saturating_add(1);
        if !leads(leaf_hash(&section.sealed), index, &section.path) {
            return Err(error("has a section that does not lead to the sealed root"));
        }
        sections.push(Shut {
            number: section.number,
            opens: section.key.as_ref().map(|opens| match opens {
                Opens::Key(key) => Opening::Key(key),
                Opens::People(people) => Opening::People(people),
            }),
            sealed: &section.sealed,
        });
    }
    let wanted = |number| sections.iter().find(|section| section.number == number);
    let shown = read(bound, place, &clear, &|number| wanted(number).copied())?;
    let numbers = sections.iter().map(|section| section.number);
    if numbers.eq(shown.sections()) {
        Ok(shown)
    } else {
        Err(error(
            "shows other sections than the ones that hold the entry",
        ))
    }
}

fn open_frame(
    bound: &Binding<'_>,
    place: u32,
    content: &[u8],
    keys: &[ShownKey],
) -> Result<Shown, DecodeError> {
    let error = |reason| DecodeError::new("evidence", 0, reason);
    let record = bound.record;
    if leaf_hash(content) != record.sealed_root {
        return Err(error("is not the frame that the record stands for"));
    }
    let clear = Clear::parse(content)?;
    let wanted = |number: u32| {
        let section = clear.sections.get(usize::try_from(number).ok()?)?;
        let end = section.start.saturating_add(section.length);
        let shown = keys.iter().find(|shown| shown.number == number);
        Some(Shut {
            number,
            opens: shown.map(|shown| Opening::Key(&shown.key)),
            sealed: content.get(section.start..end)?,
        })
    };
    let mut shown = read(bound, place, &clear, &wanted)?;
    let numbers = keys.iter().map(|shown| shown.number);
    let fits = if bound.config.cipher == Cipher::Aes256Gcm {
        numbers.eq(shown.sections())
    } else {
        // All entries of such a frame can be read.
        (shown.whole, shown.partly) = (record.entries, 0);
        keys.is_empty()
    };
    if fits {
        Ok(shown)
    } else {
        Err(error("has other keys than those of the entry's sections"))
    }
}

/// A sealed section whose bytes were checked against the record.
#[derive(Clone, Copy)]
struct Shut<'a> {
    number: u32,
    opens: Option<Opening<'a>>,
    sealed: &'a [u8],
}

#[derive(Clone, Copy)]
enum Opening<'a> {
    Key(&'a SectionKey),
    People(&'a [Option<PersonKey>]),
}

/// Reads the entry at `place` from the sections that `wanted` returns.
fn read<'a>(
    bound: &Binding<'_>,
    place: u32,
    clear: &Clear<'_>,
    wanted: &dyn Fn(u32) -> Option<Shut<'a>>,
) -> Result<Shown, DecodeError> {
    let error = |reason| DecodeError::new("evidence", 0, reason);
    let record = bound.record;
    let stands = record.place().unwrap_or_default();
    if clear.header.record(record.sealed_root, stands) != *record {
        return Err(error("has a header that is not what the record says"));
    }
    if !clear.is_of(&bound.stream, bound.config) {
        return Err(error(
            "has a header of another log, stream or configuration",
        ));
    }
    let find = |number| {
        let section = wanted(number).ok_or_else(|| error("lacks a section of the entry"))?;
        if section.opens.is_some() != (bound.config.cipher == Cipher::Aes256Gcm) {
            return Err(error("has a key where none is called for, or lacks one"));
        }
        Ok(section)
    };
    let index = to_usize(place);
    let shared_body = find(0)?.open(clear, 1)?.body;
    let shared = shared_body.columns()?;
    check_directory(clear, &shared, bound.config.erasable)?;
    if !bound.config.erasable {
        return row_at(&Content::together(shared), record, index, None);
    }
    let number = subject_section(&shared, index);
    let slot = to_usize(number).checked_sub(1);
    let tokens: Vec<&[u8]> = pseudonyms(&shared).collect();
    let people = slot.and_then(|slot| tokens.get(slot));
    let people = people.map_or(0, |tokens| tokens.len() / PSEUDONYM_BYTES);
    let opened = find(number)?.open(clear, people)?;
    let mut subjects: Vec<Option<Own<'_>>> = tokens.iter().map(|_tokens| None).collect();
    if let Some(slot) = slot.and_then(|slot| subjects.get_mut(slot)) {
        *slot = Some(Own {
            columns: opened.body.columns()?,
            people: opened.people.as_ref(),
        });
    }
    let content = Content::by_subject(clear.header.version(), shared, subjects)?;
    row_at(&content, record, index, Some(number))
}

/// A section that was opened.
struct Opened {
    body: Body,
    /// The people of the section, if it has shares.
    people: Option<People>,
}

impl Shut<'_> {
    /// Opens the section, which is about `people` people.
    fn open(&self, clear: &Clear<'_>, people: usize) -> Result<Opened, DecodeError> {
        let (number, sealed) = (self.number, self.sealed);
        let has_shares = clear.has_shares(number, people);
        let mut decompressor = Decompressor::default();
        match self.opens {
            Some(Opening::People(keys)) if has_shares && keys.len() == people => {
                let opened = clear.open_shared(number, sealed, keys, &mut decompressor)?;
                Ok(Opened {
                    body: opened.body,
                    people: Some(opened.people),
                })
            }
            Some(Opening::Key(key)) if !has_shares => Ok(Opened {
                body: clear.open(number, sealed, Some(key), &mut decompressor)?,
                people: None,
            }),
            None => Ok(Opened {
                body: clear.open(number, sealed, None, &mut decompressor)?,
                people: None,
            }),
            _ => Err(DecodeError::new(
                "evidence",
                0,
                "has another kind of key than the section is sealed with",
            )),
        }
    }
}

fn row_at(
    content: &Content<'_>,
    record: &Record,
    index: usize,
    own: Option<u32>,
) -> Result<Shown, DecodeError> {
    let mut shown = Shown {
        row: Vec::new(),
        whole: 0,
        partly: 0,
        closed: Closed::NONE,
        own,
    };
    content.for_each(&mut |placed: &Placed<'_>| -> Result<(), DecodeError> {
        let count = if placed.open {
            &mut shown.whole
        } else {
            &mut shown.partly
        };
        *count = count.saturating_add(1);
        if placed.place == index {
            shown.closed = placed.closed;
            shown.row.resize(row_bytes(&placed.entry), 0);
            encode_row(&placed.entry, &mut shown.row);
        }
        Ok(())
    })?;
    if shown.whole.checked_add(shown.partly) == Some(record.entries) {
        Ok(shown)
    } else {
        Err(DecodeError::new(
            "evidence",
            0,
            "holds another number of entries than the record says",
        ))
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.push(u8::try_from(count).unwrap_or(u8::MAX));
}

pub(super) fn put_path(out: &mut Vec<u8>, path: &[Hash]) {
    put_count(out, path.len());
    for hash in path {
        out.extend_from_slice(hash.as_bytes());
    }
}

fn put_key(out: &mut Vec<u8>, key: Option<&Opens>) {
    match key {
        None => out.push(0),
        Some(Opens::Key(key)) => {
            out.push(1);
            out.extend_from_slice(key.expose());
        }
        Some(Opens::People(people)) => {
            out.push(2);
            put_count(out, people.len());
            for person in people {
                out.push(u8::from(person.is_some()));
                if let Some(key) = person {
                    out.extend_from_slice(key.expose());
                }
            }
        }
    }
}

pub(super) fn bytes(reader: &mut Reader<'_>, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let length = to_usize(reader.u32()?);
    if length > bytes_max {
        return Err(reader.error("exceeds its limit"));
    }
    Ok(reader.take(length)?.to_vec())
}

pub(super) fn path(reader: &mut Reader<'_>) -> Result<Vec<Hash>, DecodeError> {
    let count = usize::from(reader.u8()?);
    if count > PROOF_HASHES_MAX {
        return Err(reader.error("has more hashes than any tree is high"));
    }
    (0..count)
        .map(|_| reader.array::<HASH_BYTES>().map(Hash::new))
        .collect()
}

fn key(reader: &mut Reader<'_>) -> Result<Option<Opens>, DecodeError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(Opens::Key(SectionKey::from_bytes(secret(reader)?)))),
        2 => {
            let count = usize::from(reader.u8()?);
            if !(PEOPLE_MIN..=SUBJECTS_MAX).contains(&count) {
                return Err(reader.error("has keys of fewer or more people than a section has"));
            }
            let people = (0..count)
                .map(|_| person(reader))
                .collect::<Result<_, _>>()?;
            Ok(Some(Opens::People(people)))
        }
        _ => Err(reader.error("has neither a key nor none")),
    }
}

fn person(reader: &mut Reader<'_>) -> Result<Option<PersonKey>, DecodeError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(PersonKey::from_bytes(secret(reader)?))),
        _ => Err(reader.error("has neither a person's key nor none")),
    }
}

fn secret<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8; SECRET_BYTES], DecodeError> {
    let bytes = reader.take(SECRET_BYTES)?.as_array();
    bytes.ok_or_else(|| reader.error("has no key"))
}

fn each<T>(
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = reader.u8()?;
    if count > SHOWN_MAX {
        return Err(reader.error("shows more sections than hold one entry"));
    }
    (0..count).map(|_| read(reader)).collect()
}
