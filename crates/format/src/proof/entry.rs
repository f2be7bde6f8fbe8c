//! The proof of one entry, as a file that stands alone: who did what when, and that it is in the log.
//!
//! `docs/format.md`, "Entry proof". A tlog-proof of the record of the entry's frame, for any verifier of that format;
//! its extra data holds the record, the way from the entry to the record, and the certificates from a key
//! that the recipient knows to the one that signed the checkpoint.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::evidence::{Evidence, Shown};
use super::{ProofError, TlogProof, verify_inclusion};
use crate::certificate::{Bound, Link, SIGNATURE_BYTES};
use crate::checkpoint::Checkpoint;
use crate::entry::Entry;
use crate::error::DecodeError;
use crate::geometry::Geometry;
use crate::limits::{PROOF_EXTRA_BYTES_MAX, PROOF_LINKS_MAX};
use crate::note::{NoteError, PUBLIC_KEY_BYTES, SignedNote, VerifierKey};
use crate::record::{RECORD_BYTES, Record};
use crate::row::decode_row;
use crate::stream::{StreamConfig, StreamId, StreamName};
use crate::tree::{Hash, leaf_hash};
use crate::version::Version;
use crate::wire::Reader;

const MAGIC: &[u8; 4] = b"PBEP";
const VERSION: u16 = 1;
/// What stands between a log's name and a stream's in a checkpoint's origin.
const STREAMS: &str = "/streams/";

/// The proof of one entry. It shows the entry, so it is personal data: the type has no `Debug`.
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct EntryProof {
    /// The log's random bytes, as in its geometry.
    pub log_id: [u8; 16],
    /// The log's first public key, as in its geometry.
    pub anchor: [u8; PUBLIC_KEY_BYTES],
    /// The public key that the chain of certificates begins with.
    pub first_key: [u8; PUBLIC_KEY_BYTES],
    /// From that key to the one that signed the checkpoint.
    pub links: Vec<Link>,
    /// The stream's configuration.
    pub config: StreamConfig,
    /// The record of the entry's frame.
    pub record: Record,
    /// Place of the entry in its frame, from 0.
    pub place: u32,
    /// From the entry to the record.
    pub evidence: Evidence,
    /// From the record to the root in the checkpoint, sibling of the record first.
    pub path: Vec<Hash>,
    /// The signed checkpoint, verbatim.
    pub checkpoint: String,
}

impl EntryProof {
    /// The text of a `.tlog-proof` file.
    ///
    /// # Errors
    /// When it has more certificates or extra data than the format allows.
    pub fn encode(&self) -> Result<String, DecodeError> {
        let error = |reason| DecodeError::new("entry proof", 0, reason);
        if self.links.len() > PROOF_LINKS_MAX {
            return Err(error("has more key certificates than the limit"));
        }
        let extra = self.encode_extra();
        if extra.len() > PROOF_EXTRA_BYTES_MAX {
            return Err(error("has extra data above the limit"));
        }
        let path = self.path.clone();
        let mut proof = TlogProof::new(self.record.frame, path, self.checkpoint.clone());
        proof.extra = Some(extra);
        Ok(proof.encode())
    }

    fn encode_extra(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.evidence.code(), 0]);
        out.extend_from_slice(&self.record.encode());
        out.extend_from_slice(&self.place.to_le_bytes());
        out.extend_from_slice(&self.log_id);
        out.extend_from_slice(&self.anchor);
        out.extend_from_slice(&self.first_key);
        let links = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&links.to_le_bytes());
        for link in &self.links {
            out.extend_from_slice(&link.successor);
            for bound in [Some(link.journal), link.heads].into_iter().flatten() {
                out.extend_from_slice(&bound.size.to_le_bytes());
                out.extend_from_slice(bound.root.as_bytes());
            }
            out.extend_from_slice(&link.signature);
        }
        let config = format!("{}", self.config);
        out.push(u8::try_from(config.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(config.as_bytes());
        self.evidence.encode(&mut out);
        out
    }

    /// The proof in the text of a `.tlog-proof` file, nothing of it verified yet.
    ///
    /// # Errors
    /// [`EntryProofError::Form`] where `text` is not what [`EntryProof::encode`] writes.
    pub fn parse(text: &str) -> Result<Self, EntryProofError> {
        let proof = TlogProof::parse(text).map_err(EntryProofError::Form)?;
        let form = |reason| EntryProofError::Form(DecodeError::new("entry proof", 0, reason));
        let extra = proof
            .extra
            .ok_or_else(|| form("has no extra line, which would show the entry"))?;
        let decoded = Self::decode_extra(&extra, proof.path, proof.checkpoint);
        let decoded = decoded.map_err(EntryProofError::Form)?;
        if decoded.record.frame == proof.index {
            Ok(decoded)
        } else {
            Err(form("has another index than its record"))
        }
    }

    fn decode_extra(
        extra: &[u8],
        path: Vec<Hash>,
        checkpoint: String,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(extra, "extra data of the entry proof");
        if &reader.array::<4>()? != MAGIC {
            return Err(reader.error("does not begin with its magic"));
        }
        if reader.u16()? != VERSION {
            return Err(reader.error("is of another version"));
        }
        let [code, reserved] = reader.array()?;
        if reserved != 0 {
            return Err(reader.error("has reserved bytes set"));
        }
        let record = Record::decode(reader.take(RECORD_BYTES)?)?;
        let place = reader.u32()?;
        let log_id = reader.array()?;
        let anchor = reader.array()?;
        let first_key = reader.array()?;
        let links = decode_links(&mut reader, record.version)?;
        let config_bytes = usize::from(reader.u8()?);
        let config = core::str::from_utf8(reader.take(config_bytes)?)
            .ok()
            .and_then(StreamConfig::from_text)
            .ok_or_else(|| reader.error("has no stream configuration"))?;
        let evidence = Evidence::decode(code, &mut reader)?;
        reader.finish()?;
        Ok(Self {
            log_id,
            anchor,
            first_key,
            links,
            config,
            record,
            place,
            evidence,
            path,
            checkpoint,
        })
    }

    /// Checks the proof from the key that the recipient knows to the entry, and gives what it proves.
    ///
    /// `known` is any key of the chain from [`EntryProof::first_key`] on, named as the log or as the stream's checkpoints.
    ///
    /// # Errors
    /// See [`EntryProofError`]: the first thing that does not hold.
    pub fn check(&self, known: &VerifierKey) -> Result<Proved, EntryProofError> {
        let note = SignedNote::parse(self.checkpoint.as_bytes());
        let note = note.map_err(|error| EntryProofError::Checkpoint(NoteError::Decode(error)))?;
        let (log, stream) = names(&note)?;
        let signer = self.follow(known, &log, &stream)?;
        let checkpoint = open_checkpoint(&note, &signer)?;
        verify_inclusion(
            leaf_hash(&self.record.encode()),
            self.record.frame,
            checkpoint.size(),
            &self.path,
            checkpoint.root(),
        )
        .map_err(EntryProofError::Tree)?;
        self.check_record(&log, &stream)?;
        let shown = self.check_evidence()?;
        let index = self.record.first_entry;
        Ok(Proved {
            log,
            stream,
            index: index.saturating_add(u64::from(self.place)),
            record: self.record,
            checkpoint,
            signer,
            row: shown.row,
            entries_whole: shown.whole,
            entries_partly: shown.partly,
        })
    }

    /// Follows the certificates; gives the key at their end under the name of the stream's checkpoints.
    fn follow(
        &self,
        known: &VerifierKey,
        log: &str,
        stream: &StreamName,
    ) -> Result<VerifierKey, EntryProofError> {
        let origin = format!("{log}{STREAMS}{stream}");
        let broken = |link, error: DecodeError| EntryProofError::Certificate { link, error };
        if known.name() != log && known.name() != origin {
            return Err(EntryProofError::OtherName {
                known: known.name().into(),
                log: log.into(),
            });
        }
        let mut key = VerifierKey::new(log, self.first_key).map_err(|error| broken(0, error))?;
        let mut met = key.key() == known.key();
        for (link, number) in self.links.iter().zip(1..) {
            key = link.follow(&key).map_err(|error| broken(number, error))?;
            met |= key.key() == known.key();
        }
        if !met {
            return Err(EntryProofError::UnknownKey);
        }
        VerifierKey::new(&origin, *key.key()).map_err(|error| broken(self.links.len(), error))
    }

    fn check_record(&self, log: &str, stream: &StreamName) -> Result<(), EntryProofError> {
        let anchor = VerifierKey::new(log, self.anchor).map_err(EntryProofError::Record)?;
        let version = self.record.version;
        let geometry = Geometry::of_version(version, log, self.log_id, anchor)
            .map_err(EntryProofError::Record)?;
        let id = StreamId::new(&geometry.fingerprint(), stream, &self.config);
        let fits = self.record.stream == id
            && self.record.proofs == self.config.proofs
            && self.record.cipher == self.config.cipher;
        if fits {
            Ok(())
        } else {
            Err(EntryProofError::Record(DecodeError::new(
                "frame record",
                0,
                "is of another log, stream or configuration",
            )))
        }
    }

    fn check_evidence(&self) -> Result<Shown, EntryProofError> {
        let refused = |reason| EntryProofError::Entry(DecodeError::new("entry", 0, reason));
        let shown = self.evidence.entry(&self.record, self.place);
        let shown = shown.map_err(EntryProofError::Entry)?;
        let entry = decode_row(&shown.row).and_then(|row| row.entry());
        let entry = entry.map_err(EntryProofError::Entry)?;
        if entry.check().is_err() {
            return Err(refused("breaks a rule of the format"));
        }
        let times = self.record.time_min..=self.record.time_max;
        if !times.contains(&entry.time.nanoseconds()) {
            return Err(refused("is of another time than the record says"));
        }
        Ok(shown)
    }
}

/// A log of version 2 has no stream `heads` that certificates could bind.
fn decode_links(reader: &mut Reader<'_>, version: Version) -> Result<Vec<Link>, DecodeError> {
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > PROOF_LINKS_MAX {
        return Err(reader.error("has more key certificates than the limit"));
    }
    (0..count)
        .map(|_| {
            let successor = reader.array()?;
            let journal = decode_bound(reader)?;
            let heads = match version {
                Version::V2 => None,
                _ => Some(decode_bound(reader)?),
            };
            let signature = reader.array::<SIGNATURE_BYTES>()?;
            Ok(Link::new(successor, journal, heads, signature))
        })
        .collect()
}

fn decode_bound(reader: &mut Reader<'_>) -> Result<Bound, DecodeError> {
    Ok(Bound {
        size: reader.u64()?,
        root: Hash::new(reader.array()?),
    })
}

/// The names of log and stream in the first line of the checkpoint.
fn names(note: &SignedNote) -> Result<(String, StreamName), EntryProofError> {
    let error = |reason| {
        EntryProofError::Checkpoint(NoteError::Decode(DecodeError::new("checkpoint", 0, reason)))
    };
    let origin = note.text().lines().next().unwrap_or_default();
    let (log, stream) = origin
        .rsplit_once(STREAMS)
        .ok_or_else(|| error("has an origin that names no stream"))?;
    let stream =
        StreamName::new(stream).map_err(|_bad_name| error("has an origin that names no stream"))?;
    Ok((log.into(), stream))
}

fn open_checkpoint(note: &SignedNote, signer: &VerifierKey) -> Result<Checkpoint, EntryProofError> {
    let signatures = note.signatures();
    let repeated = signatures.iter().enumerate().any(|(place, one)| {
        let mut before = signatures.iter().take(place);
        before.any(|other| (other.id(), other.name()) == (one.id(), one.name()))
    });
    if repeated {
        return Err(EntryProofError::Checkpoint(NoteError::Decode(
            DecodeError::new("checkpoint", 0, "has two signatures of one key"),
        )));
    }
    Checkpoint::open(note.encode().as_bytes(), core::slice::from_ref(signer))
        .map_err(EntryProofError::Checkpoint)
}

/// What a proof proves.
#[non_exhaustive]
pub struct Proved {
    /// The log's name.
    pub log: String,
    /// The stream.
    pub stream: StreamName,
    /// Index of the entry in the stream.
    pub index: u64,
    /// The record of its frame.
    pub record: Record,
    /// The checkpoint that covers it.
    pub checkpoint: Checkpoint,
    /// The key that signed the checkpoint.
    pub signer: VerifierKey,
    /// Entries of the frame that the proof shows whole, this one included.
    pub entries_whole: u32,
    /// Entries of the frame that the proof shows without key, subjects and payload.
    pub entries_partly: u32,
    row: Vec<u8>,
}

impl Proved {
    /// The entry.
    ///
    /// # Errors
    /// Never: it was read once when the proof was checked.
    pub fn entry(&self) -> Result<Entry<'_>, DecodeError> {
        decode_row(&self.row)?.entry()
    }
}

/// Why an entry proof proves nothing, by where it breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryProofError {
    /// The text is no entry proof.
    Form(DecodeError),
    /// The key given is of another name than the log.
    OtherName {
        /// The name of the key given.
        known: String,
        /// The name of the log.
        log: String,
    },
    /// No key of the proof's chain is the one given.
    UnknownKey,
    /// A key certificate does not lead on.
    Certificate {
        /// Which, from 1; 0 for the first key itself.
        link: usize,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The checkpoint is malformed or not signed by the last key of the chain.
    Checkpoint(NoteError),
    /// The record is not in the tree of the checkpoint.
    Tree(ProofError),
    /// The record is not one of this log and stream.
    Record(DecodeError),
    /// The entry is not in the frame of the record.
    Entry(DecodeError),
}

impl EntryProofError {
    /// The part of the proof that broke, as one word.
    pub const fn part(&self) -> &'static str {
        match self {
            Self::Form(_) => "form",
            Self::OtherName { .. } | Self::UnknownKey | Self::Certificate { .. } => "key-chain",
            Self::Checkpoint(_) => "checkpoint",
            Self::Tree(_) => "tree",
            Self::Record(_) => "record",
            Self::Entry(_) => "entry",
        }
    }
}

impl fmt::Display for EntryProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(_) => f.write_str("the file is no entry proof"),
            Self::OtherName { known, log } => {
                write!(
                    f,
                    "the key given is {known:?}'s, the proof is of the log {log:?}"
                )
            }
            Self::UnknownKey => f.write_str("the key given is not in the proof's chain of keys"),
            Self::Certificate { link, .. } => write!(f, "key certificate {link} does not lead on"),
            Self::Checkpoint(_) => {
                f.write_str("the checkpoint is not one of the last key of the chain")
            }
            Self::Tree(_) => f.write_str("the frame record is not in the checkpoint's tree"),
            Self::Record(_) => f.write_str("the frame record is not one of this stream"),
            Self::Entry(_) => f.write_str("the entry is not in the frame of its record"),
        }
    }
}

impl core::error::Error for EntryProofError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Form(error) | Self::Record(error) | Self::Entry(error) => Some(error),
            Self::Certificate { error, .. } => Some(error),
            Self::Checkpoint(error) => Some(error),
            Self::Tree(error) => Some(error),
            Self::OtherName { .. } | Self::UnknownKey => None,
        }
    }
}
