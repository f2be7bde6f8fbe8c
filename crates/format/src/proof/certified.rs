//! The certificate of a signing key, proved by inclusion in the journal. Its size does not grow
//! with the number of certificates.
//!
//! `docs/format.md`, "Entry proof". A verifier who trusts the journal's checkpoint thereby trusts
//! every key that the journal certifies.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::evidence::{bytes, path, put_bytes, put_count, put_path};
use super::links::{decode_links, encode_links};
use super::{root_from_inclusion, verify_consistency};
use crate::certificate::{Certificate, Link};
use crate::checkpoint::Checkpoint;
use crate::compress::Decompressor;
use crate::entry::Entry;
use crate::error::DecodeError;
use crate::frame::Body;
use crate::limits::{FRAME_BYTES_MAX, PROOF_LINKS_MAX};
use crate::note::{PUBLIC_KEY_BYTES, Signature, SignedNote, VerifierKey};
use crate::record::{RECORD_BYTES, Record};
use crate::tree::{Hash, leaf_hash, node_hash};
use crate::version::Version;
use crate::wire::Reader;

/// Action of the journal's entries that certify a key.
const CERTIFY: &str = "key.certify";
/// Action of the entry that names the frame of the newest certificate. Every later frame has it,
/// unless it certifies a key.
const NEWEST: &str = "key.newest";
/// Suffix of a log's name in the origin of its journal's checkpoints.
const JOURNAL: &str = "/streams/journal";

/// The proof that the journal holds the certificate of the key that signed a checkpoint. It also
/// shows that no later key was certified when the proof was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct Certified {
    /// Number of frames of the journal.
    pub size: u64,
    /// The signature lines of the journal's checkpoint of that size: of its signing key, of the
    /// witness key, then of witnesses.
    pub signatures: Vec<Signature>,
    /// The log's witness key, as in its geometry.
    pub witness: [u8; PUBLIC_KEY_BYTES],
    /// The frame that holds the certificate.
    pub certificate: JournalFrame,
    /// The journal's last frame, which names the certificate's frame as the newest; `None` if the
    /// certificate is in the last frame.
    pub last: Option<JournalFrame>,
    /// The public key from which `links` lead to the key that signed the journal's checkpoint;
    /// without links, that key.
    pub first_key: [u8; PUBLIC_KEY_BYTES],
    /// The certificates that lead from key to key, at most [`PROOF_LINKS_MAX`].
    pub links: Vec<Link>,
    /// An older head of the journal with a consistency proof, for a recipient who remembers that
    /// head.
    pub grown: Option<Grown>,
}

/// A frame of the journal and its inclusion proof.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct JournalFrame {
    /// The record of the frame.
    pub record: Record,
    /// The path from the record to the journal's root, sibling of the record first.
    pub path: Vec<Hash>,
    /// The leaf hash of its header and directory.
    pub clear: Hash,
    /// The frame's only section, which is not encrypted.
    pub section: Vec<u8>,
}

/// An older head of a tree, and the consistency proof from it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct Grown {
    /// Number of leaves of the older tree, not 0.
    pub size: u64,
    /// The root of the older tree.
    pub root: Hash,
    /// The consistency proof (RFC 9162 section 2.1.4).
    pub path: Vec<Hash>,
    /// The newest key under the older root; a proof of version 2 does not show it.
    pub newest: Option<Newest>,
}

/// The frames of a journal that show which key was certified last.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct Newest {
    /// The frame that holds the certificate.
    pub certificate: JournalFrame,
    /// The journal's last frame, which names the certificate's frame as the newest; `None` if the
    /// certificate is in the last frame.
    pub last: Option<JournalFrame>,
}

/// The verified journal head of a proof.
pub(super) struct Told {
    /// The journal's checkpoint with all its signature lines.
    pub(super) note: SignedNote,
    pub(super) head: Checkpoint,
    /// The newest key under the older head, if the proof shows it.
    pub(super) older_key: Option<VerifierKey>,
}

/// Result of comparing a journal with a head that the recipient remembers.
pub(super) enum Compared<'a> {
    /// Equals that head.
    Equal,
    /// Grew from that head, under which this key was the newest; `None` if that is not shown.
    Grown(Option<&'a VerifierKey>),
    /// Is of another history.
    Other,
    /// The proof shows no head of that size.
    Unknown,
}

impl Certified {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.size.to_le_bytes());
        put_count(out, self.signatures.len());
        for line in &self.signatures {
            put_name(out, line.name());
            out.extend_from_slice(&line.id().to_be_bytes());
            put_bytes(out, line.bytes());
        }
        out.extend_from_slice(&self.witness);
        encode_newest(&self.certificate, self.last.as_ref(), out);
        out.extend_from_slice(&self.first_key);
        put_count(out, self.links.len());
        encode_links(&self.links, out);
        let older = self.grown.as_ref().map_or(0, |older| older.size);
        out.extend_from_slice(&older.to_le_bytes());
        if let Some(older) = &self.grown {
            out.extend_from_slice(older.root.as_bytes());
            put_path(out, &older.path);
            if let Some(newest) = &older.newest {
                encode_newest(&newest.certificate, newest.last.as_ref(), out);
            }
        }
    }

    /// Returns whether the proof shows which key was the newest under an older head.
    pub(super) fn shows_older_key(&self) -> bool {
        self.grown
            .as_ref()
            .is_some_and(|older| older.newest.is_some())
    }

    /// Reads the evidence of a proof, which `shows_older_key` by its version.
    pub(super) fn decode(
        reader: &mut Reader<'_>,
        shows_older_key: bool,
    ) -> Result<Self, DecodeError> {
        let size = reader.u64()?;
        let lines = reader.u8()?;
        let signatures = (0..lines)
            .map(|_| signature(reader))
            .collect::<Result<_, _>>()?;
        let witness = reader.array()?;
        let Newest { certificate, last } = Newest::decode(reader)?;
        let first_key = reader.array()?;
        let count = usize::from(reader.u8()?);
        if count > PROOF_LINKS_MAX {
            return Err(reader.error("has more key certificates than the limit"));
        }
        let links = decode_links(count, Version::V3, reader)?;
        let grown = match reader.u64()? {
            0 if shows_older_key => {
                return Err(reader.error("shows no older head, which its version requires"));
            }
            0 => None,
            size => Some(Grown {
                size,
                root: Hash::new(reader.array()?),
                path: path(reader)?,
                newest: shows_older_key
                    .then(|| Newest::decode(reader))
                    .transpose()?,
            }),
        };
        Ok(Self {
            size,
            signatures,
            witness,
            certificate,
            last,
            first_key,
            links,
            grown,
        })
    }

    /// Follows the links, checks both signature lines of the log, and reads the certificate in the
    /// journal. Returns the keys along the links, named as the log. The last of them is the newest
    /// in the journal and signed its checkpoint.
    pub(super) fn check(&self, log: &str) -> Result<(Vec<VerifierKey>, Told), DecodeError> {
        let keys = self.linked_keys(log)?;
        let root = self.certificate.root(self.size)?;
        let (note, head) = self.signed_head(log, root, keys.last())?;
        let older = self.grown.as_ref();
        let older_key = older.map(|older| older.check(log, self.size, &root));
        let older_key = older_key.transpose()?.flatten();
        check_newest(&self.certificate, self.last.as_ref(), self.size, &root)?;
        let certified = self.certificate.certified(log)?;
        if keys.last().is_none_or(|signer| *signer != certified) {
            return Err(error("is not signed by the newest key that it certifies"));
        }
        let told = Told {
            note,
            head,
            older_key,
        };
        Ok((keys, told))
    }

    /// Returns the first key and the keys along the links.
    fn linked_keys(&self, log: &str) -> Result<Vec<VerifierKey>, DecodeError> {
        let mut keys = Vec::from([VerifierKey::new(log, self.first_key)?]);
        for link in &self.links {
            let key = keys.last().ok_or_else(|| error("has no key"))?;
            keys.push(link.follow(key)?);
        }
        Ok(keys)
    }

    /// Builds the journal's checkpoint with this `root`, and checks the signatures of `signer` and
    /// the witness key.
    fn signed_head(
        &self,
        log: &str,
        root: Hash,
        signer: Option<&VerifierKey>,
    ) -> Result<(SignedNote, Checkpoint), DecodeError> {
        let origin = journal_origin(log);
        let head = Checkpoint::new(&origin, self.size, root)?;
        // Lines of the log itself have an empty name here, so that a proof has only one form.
        if self.signatures.iter().any(|line| line.name() == origin) {
            return Err(error("has a line that repeats the journal's name"));
        }
        let note = SignedNote::with_signatures(head.encode(), self.name_lines(&origin))?;
        let signer = signer.ok_or_else(|| error("has no key"))?;
        for key in [*signer.key(), self.witness] {
            let key = VerifierKey::new(&origin, key)?;
            note.verify(core::slice::from_ref(&key))
                .map_err(|_refused| {
                    error("is not signed by its signing key and its witness key")
                })?;
        }
        Ok((note, head))
    }

    /// Returns the signature lines with their names in the note; a line of the log itself has the
    /// journal's origin.
    fn name_lines(&self, origin: &str) -> Vec<Signature> {
        let named = |line: &Signature| match line.name() {
            "" => Signature::new(origin, line.id(), line.bytes().to_vec()),
            _ => line.clone(),
        };
        self.signatures.iter().map(named).collect()
    }
}

impl Newest {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let certificate = JournalFrame::decode(reader)?;
        let last = match reader.u8()? {
            0 => None,
            1 => Some(JournalFrame::decode(reader)?),
            _ => return Err(reader.error("has several last frames of the journal")),
        };
        Ok(Self { certificate, last })
    }
}

impl Grown {
    /// Checks that the tree of `size` leaves with this `root` grew from the older one, and returns
    /// the key that was certified last in the older one, if the proof shows it.
    fn check(&self, log: &str, size: u64, root: &Hash) -> Result<Option<VerifierKey>, DecodeError> {
        verify_consistency(self.size, size, &self.root, root, &self.path)
            .map_err(|_wrong| error("did not grow from the older head that the proof names"))?;
        let Some(Newest { certificate, last }) = &self.newest else {
            return Ok(None);
        };
        if certificate.root(self.size)? != self.root {
            return Err(error("has another older root over the certificate there"));
        }
        check_newest(certificate, last.as_ref(), self.size, &self.root)?;
        certificate.certified(log).map(Some)
    }
}

impl JournalFrame {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.record.encode());
        put_path(out, &self.path);
        out.extend_from_slice(self.clear.as_bytes());
        put_bytes(out, &self.section);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            record: Record::decode(Version::V3, reader.take(RECORD_BYTES)?)?,
            path: path(reader)?,
            clear: Hash::new(reader.array()?),
            section: bytes(reader, FRAME_BYTES_MAX)?,
        })
    }

    /// Computes the root of a journal of `size` frames from the record and its path.
    fn root(&self, size: u64) -> Result<Hash, DecodeError> {
        let leaf = leaf_hash(&self.record.encode());
        root_from_inclusion(leaf, self.record.frame, size, &self.path)
            .map_err(|_wrong| error("has a path that does not fit its size"))
    }

    /// Checks the frame's section against its record, and calls `visit` for each entry.
    fn for_each(
        &self,
        visit: &mut dyn FnMut(&Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if node_hash(&self.clear, &leaf_hash(&self.section)) != self.record.sealed_root {
            return Err(error("has a section that is not the frame's of its record"));
        }
        let body = Body::decode(Version::V3, &self.section, &mut Decompressor::default())?;
        let columns = body.columns()?;
        if u32::try_from(columns.len()) != Ok(self.record.entries) {
            return Err(error("has another number of entries than the record says"));
        }
        (0..columns.len()).try_for_each(|index| visit(&columns.entry(index)?))
    }

    /// Returns the key that the frame certifies. The frame must have exactly one certificate,
    /// signed by the key that its entry names.
    fn certified(&self, log: &str) -> Result<VerifierKey, DecodeError> {
        let mut certified = None;
        self.for_each(&mut |entry| {
            if entry.action != CERTIFY {
                return Ok(());
            }
            let old = str::from_utf8(entry.key).map_err(|_not_utf8| error("names no key"))?;
            let old = VerifierKey::parse(old)?;
            if old.name() != log {
                return Err(error("certifies a key of another log"));
            }
            let certificate = Certificate::open(entry.payload, &old)?;
            match certified.replace(certificate.successor().clone()) {
                None => Ok(()),
                Some(_) => Err(error("certifies two keys in one frame")),
            }
        })?;
        certified.ok_or_else(|| error("certifies no key in the frame shown"))
    }

    /// Returns the index of the frame that this one names as holding the newest certificate.
    fn newest(&self) -> Result<Option<u64>, DecodeError> {
        let mut newest = None;
        self.for_each(&mut |entry| match entry.action {
            CERTIFY => Err(error("certifies a newer key than the one in the proof")),
            NEWEST => {
                let text = str::from_utf8(entry.key).ok();
                let number = text.and_then(|text| text.parse().ok());
                match newest.replace(number) {
                    None => Ok(()),
                    Some(_) => Err(error("names the newest key twice in one frame")),
                }
            }
            _ => Ok(()),
        })?;
        Ok(newest.flatten())
    }
}

/// Checks that the journal of `size` frames with this `root` certifies no key later than in
/// `certificate`: the last frame is the certificate's, or names it as
/// the newest. Otherwise the holder of a replaced key could sign the current head, whose text
/// is public.
fn check_newest(
    certificate: &JournalFrame,
    last: Option<&JournalFrame>,
    size: u64,
    root: &Hash,
) -> Result<(), DecodeError> {
    let frame = certificate.record.frame;
    let Some(last) = last else {
        return if frame.checked_add(1) == Some(size) {
            Ok(())
        } else {
            Err(error(
                "has frames behind the certificate, of which the proof shows none",
            ))
        };
    };
    if last.record.frame.checked_add(1) != Some(size) || last.record.frame == frame {
        return Err(error("has another last frame than the proof shows"));
    }
    if last.root(size)? != *root {
        return Err(error(
            "has another root over its last frame than over the certificate",
        ));
    }
    if last.newest()? == Some(frame) {
        Ok(())
    } else {
        Err(error("certifies a newer key than the one in the proof"))
    }
}

fn encode_newest(certificate: &JournalFrame, last: Option<&JournalFrame>, out: &mut Vec<u8>) {
    certificate.encode(out);
    put_count(out, usize::from(last.is_some()));
    if let Some(last) = last {
        last.encode(out);
    }
}

fn error(reason: &'static str) -> DecodeError {
    DecodeError::new("journal", 0, reason)
}

impl Told {
    /// Compares this head with `kept`, a head of the journal that the recipient remembers.
    pub(super) fn compared(&self, kept: &Checkpoint, grown: Option<&Grown>) -> Compared<'_> {
        if kept.size() == self.head.size() {
            return Compared::of_equal_size(kept, &self.head);
        }
        match grown.filter(|older| older.size == kept.size()) {
            None => Compared::Unknown,
            Some(older) if older.root == *kept.root() => Compared::Grown(self.older_key.as_ref()),
            Some(_) => Compared::Other,
        }
    }
}

impl Compared<'_> {
    pub(super) fn of_equal_size(kept: &Checkpoint, head: &Checkpoint) -> Self {
        if kept.root() == head.root() {
            Self::Equal
        } else {
            Self::Other
        }
    }
}

/// Returns the origin of the checkpoints of the journal of `log`.
pub(super) fn journal_origin(log: &str) -> String {
    format!("{log}{JOURNAL}")
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_count(out, name.len());
    out.extend_from_slice(name.as_bytes());
}

fn signature(reader: &mut Reader<'_>) -> Result<Signature, DecodeError> {
    let length = usize::from(reader.u8()?);
    let name = str::from_utf8(reader.take(length)?)
        .map_err(|_not_utf8| reader.error("has a name that is no text"))?;
    let id = u32::from_be_bytes(reader.array()?);
    let blob = bytes(reader, crate::limits::CHECKPOINT_BYTES_MAX)?;
    Ok(Signature::new(name, id, blob))
}
