//! Shares: any one of the people that a section is about can open it, and erased people are removed
//! from it.
//!
//! `docs/format.md`, "Several people in one entry". A section's content key is random. Each person
//! has a share of the section: the content key and the person's name, sealed under that person's
//! key.

use alloc::string::String;
use alloc::vec::Vec;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

use crate::compress::Decompressor;
use crate::error::DecodeError;
use crate::frame::{Body, Clear, Frame, TAG_BYTES, section_nonce};
use crate::keys::{SECRET_BYTES, Secret, SectionKey, SubjectKey, aead_key, expand};
use crate::limits::{NAME_BYTES_MAX, SUBJECTS_MAX};
use crate::short::has_control;
use crate::stream::StreamId;
use crate::version::Version;
use crate::width::to_usize;

/// Fewest people of a section with shares; a section about one person is sealed under a key derived
/// from that person's.
pub const PEOPLE_MIN: usize = 2;
/// Granularity of the length of a share, in bytes, so that it discloses little about the name's
/// length.
const BLOCK_BYTES: usize = 32;
/// Bytes before the name: content key and length of the name.
const HEAD_BYTES: usize = SECRET_BYTES + 1;
/// Fewest blocks of a share; the most are below.
const BLOCKS_MIN: usize = (HEAD_BYTES + 1).div_ceil(BLOCK_BYTES);
const BLOCKS_MAX: usize = (HEAD_BYTES + NAME_BYTES_MAX).div_ceil(BLOCK_BYTES);

/// The key of one person's share of one section; it opens no other share.
pub struct PersonKey(Secret);

impl PersonKey {
    /// Derives the key of the share at `place`, from 0, of section `section` of frame `frame` of
    /// `stream`, whose header has `salt`.
    pub fn new(
        subject: &SubjectKey,
        stream: &StreamId,
        salt: &[u8; 32],
        frame: u64,
        section: u32,
        place: u8,
    ) -> Self {
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(subject.secret().expose());
        let (frame, section) = (frame.to_le_bytes(), section.to_le_bytes());
        let info: [&[u8]; 5] = [
            b"probity/share/v3",
            stream.as_bytes(),
            &frame,
            &section,
            &[place],
        ];
        let mut key = Secret::zeros();
        expand(&prk, &info, key.bytes_mut());
        Self(key)
    }

    /// Creates a person key from `bytes` of a proof.
    pub fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(Secret::copy_of(bytes))
    }

    /// Returns the key's bytes, for a proof that shows this person's share.
    pub const fn expose(&self) -> &[u8; SECRET_BYTES] {
        self.0.expose()
    }

    fn aead(&self) -> Result<LessSafeKey, DecodeError> {
        aead_key(self.expose())
    }
}

/// Creates the key of a section about several people. The salts of its entries depend on the keys
/// of all people, in order.
///
/// Without one of the keys nobody can compute an entry's leaf hash, and so cannot test guessed
/// names against it.
pub fn section_key<'k>(
    content: &[u8; SECRET_BYTES],
    people: impl IntoIterator<Item = &'k PersonKey>,
) -> SectionKey {
    let mut joined = Zeroizing::new(Vec::with_capacity(SUBJECTS_MAX * SECRET_BYTES));
    for person in people.into_iter().take(SUBJECTS_MAX) {
        joined.extend_from_slice(person.expose());
    }
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"").extract(&joined);
    SectionKey::with_salts(content, &prk)
}

/// Returns the length of the share of a person whose name has `length` bytes.
pub(crate) const fn share_bytes(length: usize) -> usize {
    let blocks = HEAD_BYTES.saturating_add(length).div_ceil(BLOCK_BYTES);
    blocks
        .saturating_mul(BLOCK_BYTES)
        .saturating_add(1 + TAG_BYTES)
}

/// Writes the plaintext of a share into `share`, which must have [`share_bytes`]; [`seal_share`]
/// then encrypts it in place.
pub(crate) fn put_share(
    content: &[u8; SECRET_BYTES],
    name: &str,
    share: &mut [u8],
) -> Result<(), DecodeError> {
    let error = DecodeError::new("share", 0, "has no room for a name of this length");
    let body = share.len().checked_sub(1 + TAG_BYTES).ok_or(error)?;
    let length = u8::try_from(name.len()).map_err(|_too_long| error)?;
    let blocks = u8::try_from(body / BLOCK_BYTES).map_err(|_too_long| error)?;
    share.fill(0);
    let (head, rest) = share.split_at_mut_checked(1 + HEAD_BYTES).ok_or(error)?;
    if let [first, key @ .., last] = head {
        *first = blocks;
        key.copy_from_slice(content);
        *last = length;
    }
    rest.get_mut(..name.len())
        .ok_or(error)?
        .copy_from_slice(name.as_bytes());
    Ok(())
}

/// Encrypts a share in place.
pub(crate) fn seal_share(
    key: &PersonKey,
    nonce: [u8; 12],
    associated: &[u8],
    share: &mut [u8],
) -> Result<(), DecodeError> {
    let error = DecodeError::new("share", 0, "cannot be sealed");
    let (_, sealed) = share.split_first_mut().ok_or(error)?;
    let body = sealed.len().checked_sub(TAG_BYTES).ok_or(error)?;
    let (body, tag_place) = sealed.split_at_mut(body);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key
        .aead()?
        .seal_in_place_separate_tag(nonce, Aad::from(associated), body)
        .map_err(|_refused| error)?;
    tag_place.copy_from_slice(tag.as_ref());
    Ok(())
}

/// Splits the first share from the bytes after it, for encryption.
pub(crate) fn split_share(sealed: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let blocks = usize::from(*sealed.first()?);
    let length = blocks.saturating_mul(BLOCK_BYTES);
    sealed.split_at_mut_checked(length.saturating_add(1 + TAG_BYTES))
}

/// Splits the shares of `count` people from the bytes after them.
///
/// # Errors
/// When a section about `count` people has no shares, or a share is cut off or has an invalid
/// length.
pub fn split_shares(count: usize, sealed: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), DecodeError> {
    let error = |reason| DecodeError::new("shares", 0, reason);
    if !(PEOPLE_MIN..=SUBJECTS_MAX).contains(&count) {
        return Err(error(
            "are of fewer or more people than a section with shares has",
        ));
    }
    let mut shares = Vec::with_capacity(count);
    let mut rest = sealed;
    for _ in 0..count {
        let (blocks, after) = rest.split_first().ok_or_else(|| error("end too early"))?;
        let blocks = usize::from(*blocks);
        if !(BLOCKS_MIN..=BLOCKS_MAX).contains(&blocks) {
            return Err(error("have one of a length that none has"));
        }
        let length = blocks.saturating_mul(BLOCK_BYTES).saturating_add(TAG_BYTES);
        let (share, behind) = after
            .split_at_checked(length)
            .ok_or_else(|| error("end too early"))?;
        shares.push(share);
        rest = behind;
    }
    Ok((shares, rest))
}

/// The content of an opened share.
pub(crate) struct OpenShare {
    pub(crate) content: Secret,
    pub(crate) name: String,
}

/// Opens the share `sealed`, as returned by [`split_shares`].
pub(crate) fn open_share(
    key: &PersonKey,
    nonce: [u8; 12],
    associated: &[u8],
    sealed: &[u8],
) -> Result<OpenShare, DecodeError> {
    let error = |reason| DecodeError::new("share", 0, reason);
    let mut bytes = Zeroizing::new(Vec::from(sealed));
    let nonce = Nonce::assume_unique_for_key(nonce);
    let opened = key
        .aead()?
        .open_in_place(nonce, Aad::from(associated), bytes.as_mut_slice())
        .map_err(|_refused| error("does not open under the key of its person"))?;
    let malformed = || error("holds no key and name");
    let blocks = opened.len() / BLOCK_BYTES;
    let (content, rest) = opened.split_first_chunk().ok_or_else(malformed)?;
    let (length, room) = rest.split_first().ok_or_else(malformed)?;
    let (name, padding) = room
        .split_at_checked(usize::from(*length))
        .ok_or_else(malformed)?;
    let is_shortest = HEAD_BYTES.saturating_add(name.len()).div_ceil(BLOCK_BYTES) == blocks;
    if name.is_empty() || has_control(name) || !is_shortest || padding.iter().any(|byte| *byte != 0)
    {
        return Err(malformed());
    }
    let name = core::str::from_utf8(name).map_err(|_not_utf8| malformed())?;
    Ok(OpenShare {
        content: Secret::copy_of(content),
        name: name.into(),
    })
}

/// The people of a section about several; the names come from the opened shares.
pub struct People {
    names: Vec<Option<String>>,
    living: String,
}

impl People {
    pub(crate) fn new(names: Vec<Option<String>>) -> Self {
        let living: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let living = living.join("\n");
        Self { names, living }
    }

    /// Returns the known names, joined by line feeds.
    pub fn as_joined(&self) -> &str {
        &self.living
    }

    /// Returns the name of the person at `place`, if it is known.
    pub fn name(&self, place: usize) -> Option<&str> {
        self.names.get(place)?.as_deref()
    }

    /// Returns the number of people whose name is not known.
    pub fn closed(&self) -> usize {
        self.names.iter().filter(|name| name.is_none()).count()
    }
}

/// An opened section about several people.
#[non_exhaustive]
pub struct SharedBody {
    /// The body of the section.
    pub body: Body,
    /// The key of the section. Its entry salts are right only if all people are known.
    pub key: SectionKey,
    /// The people of the section, with the known names.
    pub people: People,
}

impl Clear<'_> {
    /// Returns whether section `number`, which is about `people` people, begins with shares.
    pub fn has_shares(&self, number: u32, people: usize) -> bool {
        let index = to_usize(number);
        let section = self.sections.get(index);
        self.header.version() != Version::V2
            && section.is_some_and(|section| section.key_commitment != [0; 32])
            && people >= PEOPLE_MIN
    }

    /// Opens section `number` about several people with the available person keys, by place.
    ///
    /// # Errors
    /// When no key is given, a share does not open under its person's key, or as [`Clear::open`].
    pub fn open_shared(
        &self,
        number: u32,
        sealed: &[u8],
        people: &[Option<PersonKey>],
        decompressor: &mut Decompressor,
    ) -> Result<SharedBody, DecodeError> {
        let index = to_usize(number);
        let error = |reason| DecodeError::new("frame section", index, reason);
        let section = self.sections.get(index);
        let section = section.ok_or_else(|| error("does not exist"))?;
        if section.length != sealed.len() {
            return Err(error("is not as long as the directory says"));
        }
        let (shares, body) = split_shares(people.len(), sealed)?;
        let associated = self.associated(index);
        let nonce = section_nonce(self.header.frame, number);
        let mut names = Vec::with_capacity(people.len());
        let mut content = None;
        for (share, person) in shares.into_iter().zip(people) {
            let Some(person) = person else {
                names.push(None);
                continue;
            };
            let opened = open_share(person, nonce, &associated, share)?;
            if !SectionKey::from_bytes(opened.content.expose()).matches(&section.key_commitment) {
                return Err(error(
                    "has a share with another key than the one committed to",
                ));
            }
            names.push(Some(opened.name));
            content = Some(opened.content);
        }
        let content = content.ok_or_else(|| error("needs a key"))?;
        let key = section_key(content.expose(), people.iter().flatten());
        let body = self.open_body(number, body, &key, decompressor)?;
        let people = People::new(names);
        Ok(SharedBody { body, key, people })
    }
}

impl Frame<'_> {
    /// Opens section `number` about several people: see [`Clear::open_shared`].
    ///
    /// # Errors
    /// The errors of [`Clear::open_shared`].
    pub fn open_shared(
        &self,
        number: u32,
        people: &[Option<PersonKey>],
        decompressor: &mut Decompressor,
    ) -> Result<SharedBody, DecodeError> {
        let index = to_usize(number);
        let section = self.clear.sections.get(index);
        let sealed = section.map_or(&[][..], |section| self.sealed(section));
        self.clear.open_shared(number, sealed, people, decompressor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(byte: u8) -> PersonKey {
        let subject = SubjectKey::new(Secret::new([byte; 32]));
        PersonKey::new(
            &subject,
            &StreamId::from_bytes([7; 32]),
            &[1; 32],
            2,
            3,
            byte,
        )
    }

    fn share(name: &str) -> Vec<u8> {
        let mut share = alloc::vec![0; share_bytes(name.len())];
        put_share(&[9; 32], name, &mut share).unwrap();
        seal_share(&person(1), [4; 12], b"bound", &mut share).unwrap();
        share
    }

    fn open(share: &[u8]) -> Result<OpenShare, DecodeError> {
        open_share(&person(1), [4; 12], b"bound", &share[1..])
    }

    #[test]
    fn a_share_gives_key_and_name_back_and_no_bit_of_it_can_change() {
        for length in [1, 30, 31, 32, 255] {
            let name = "x".repeat(length);
            let bytes = share(&name);
            let opened = open(&bytes).unwrap();
            assert_eq!(opened.content.expose(), &[9; 32]);
            assert_eq!(opened.name, name);
            for place in 1..bytes.len() {
                let mut bad = bytes.clone();
                bad[place] ^= 1;
                assert!(open(&bad).is_err(), "byte {place}");
            }
            assert!(open_share(&person(2), [4; 12], b"bound", &bytes[1..]).is_err());
            assert!(open_share(&person(1), [5; 12], b"bound", &bytes[1..]).is_err());
            assert!(open_share(&person(1), [4; 12], b"other", &bytes[1..]).is_err());
        }
        assert_eq!(
            share("anna").len(),
            share("somebody with a long name").len()
        );
    }

    /// Seals a share with the plaintext `body` under the right key.
    fn forged(body: &[u8]) -> Vec<u8> {
        let mut share = Vec::from([0]);
        share.extend_from_slice(body);
        share.extend_from_slice(&[0; TAG_BYTES]);
        seal_share(&person(1), [4; 12], b"bound", &mut share).unwrap();
        share
    }

    #[test]
    fn what_no_writer_writes_is_no_share() {
        let body = |length: u8, name: &[u8], bytes: usize| {
            let mut body = alloc::vec![9; 32];
            body.push(length);
            body.extend_from_slice(name);
            body.resize(bytes, 0);
            body
        };
        assert!(open(&forged(&body(4, b"anna", 64))).is_ok());
        for (bytes, why) in [
            (body(0, b"", 64), "no name"),
            (body(4, b"a\nna", 64), "two names"),
            (body(4, b"anna", 96), "more blocks than needed"),
            (body(3, b"anna", 64), "something behind the name"),
            (body(40, b"anna", 64), "a name longer than the share"),
            (body(2, b"\xFF\xFE", 64), "no UTF-8"),
            (body(4, b"anna", 37), "no whole block"),
            (alloc::vec![9; 20], "no whole key"),
        ] {
            assert!(open(&forged(&bytes)).is_err(), "{why}");
        }
    }

    #[test]
    fn lengths_and_numbers_are_checked_before_they_are_believed() {
        let shares = [share("anna"), share(&"x".repeat(255)), share("bert")].concat();
        let sealed = [shares.as_slice(), b"body"].concat();
        let (found, rest) = split_shares(3, &sealed).unwrap();
        assert_eq!((found.len(), rest), (3, &b"body"[..]));
        for count in [0, 1, 65, usize::MAX] {
            assert!(split_shares(count, &sealed).is_err(), "{count}");
        }
        assert!(split_shares(4, &sealed).is_err(), "one more than there are");
        for length in 0..shares.len() {
            assert!(split_shares(3, &sealed[..length]).is_err(), "{length}");
        }
        for blocks in [0, 1, 10, 255] {
            let mut bad = sealed.clone();
            bad[0] = blocks;
            assert!(split_shares(3, &bad).is_err(), "{blocks}");
        }
    }

    #[test]
    fn the_salts_of_entries_need_every_person_in_order() {
        let key = |people: &[u8]| {
            let people: Vec<PersonKey> = people.iter().map(|byte| person(*byte)).collect();
            section_key(&[9; 32], &people)
        };
        let all = key(&[1, 2, 3]);
        for other in [key(&[1, 2]), key(&[2, 1, 3]), key(&[1, 2, 4])] {
            assert_eq!(all.commitment(), other.commitment());
            assert_ne!(all.salt_key(), other.salt_key());
        }
        assert_ne!(all.salt_key(), SectionKey::from_bytes(&[9; 32]).salt_key());
    }
}
