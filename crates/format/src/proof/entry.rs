//! The stand-alone proof of one entry and of its inclusion in the log.
//!
//! `docs/format.md`, "Entry proof". It is a tlog-proof of the record of the entry's frame, for any
//! verifier of that format. Its extra data holds the record and the path from the entry to the
//! record. It also holds the certificates from a key that the recipient knows to the key that
//! signed the checkpoint.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::certified::{Certified, journal_origin};
use super::error::EntryProofError;
use super::evidence::{Binding, Evidence, Shown};
use super::links::{decode_links, encode_links};
use super::trust::{Offer, Trust, Vouched};
use super::{TlogProof, verify_inclusion};
use crate::certificate::Link;
use crate::checkpoint::Checkpoint;
use crate::content::Closed;
use crate::entry::Entry;
use crate::error::DecodeError;
use crate::geometry::{Geometry, STREAMS, is_named_as_stream};
use crate::limits::{PROOF_EXTRA_BYTES_MAX, PROOF_LINKS_MAX, PROOF_V1_LINKS_MAX};
use crate::note::{NoteError, PUBLIC_KEY_BYTES, SignedNote, VerifierKey};
use crate::record::{RECORD_BYTES, Record};
use crate::row::decode_row;
use crate::stream::{StreamConfig, StreamId, StreamName};
use crate::tree::{Hash, leaf_hash};
use crate::v2;
use crate::version::Version;
use crate::width::to_usize;
use crate::wire::Reader;

const MAGIC: &[u8; 4] = b"PBEP";
/// Version of proofs with a record of version 2, and of version 3.
const VERSIONS: [(u16, Version); 3] =
    [(1, Version::V2), (2, Version::V3), (OLDER_KEY, Version::V3)];
/// Version of proofs that show the newest key under an older head of the journal.
const OLDER_KEY: u16 = 3;

/// The proof of one entry. It contains the entry, so it is personal data: the type has no `Debug`.
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct EntryProof {
    /// The inputs of the stream's identity; in version 3 only if the evidence shows sections.
    pub identity: Option<Identity>,
    /// The certificates that lead to the key that signed the checkpoint.
    pub signers: Signers,
    /// The record of the entry's frame.
    pub record: Record,
    /// Place of the entry in its frame, from 0.
    pub place: u32,
    /// The proof from the entry to the record.
    pub evidence: Evidence,
    /// The path from the record to the root in the checkpoint, sibling of the record first.
    pub path: Vec<Hash>,
    /// The signed checkpoint, verbatim.
    pub checkpoint: String,
}

/// The inputs of a stream's identity, besides the names in its checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes a proof builds it field by field"
)]
pub struct Identity {
    /// The log's random bytes, as in its geometry.
    pub log_id: [u8; 16],
    /// The log's first public key, as in its geometry.
    pub anchor: [u8; PUBLIC_KEY_BYTES],
    /// The stream's configuration.
    pub config: StreamConfig,
}

/// The certificates that lead from a key of the log to the key that signed a stream's checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever makes a proof chooses by the log's version"
)]
pub enum Signers {
    /// Every certificate from `first_key` to the key that signed the checkpoint, in a log of
    /// version 2.
    Listed {
        /// The first public key of the chain.
        first_key: [u8; PUBLIC_KEY_BYTES],
        /// The certificates from that key to the key that signed the checkpoint.
        links: Vec<Link>,
    },
    /// The certificate of the key that signed the checkpoint, proved in the journal.
    Certified(Box<Certified>),
}

impl EntryProof {
    /// Returns the text of a `.tlog-proof` file.
    ///
    /// # Errors
    /// When it has more certificates or extra data than the format allows, or mixes parts of both
    /// versions.
    pub fn encode(&self) -> Result<String, DecodeError> {
        let error = |reason| DecodeError::new("entry proof", 0, reason);
        let (links, links_max, suits) = match &self.signers {
            Signers::Listed { links, .. } => {
                let suits = self.record.version() == Version::V2 && self.identity.is_some();
                (links, PROOF_V1_LINKS_MAX, suits)
            }
            Signers::Certified(certified) => {
                let suits = match self.evidence {
                    Evidence::Entry { .. } => self.identity.is_none(),
                    Evidence::Sections { .. } => self.identity.is_some(),
                    Evidence::Frame { .. } => false,
                };
                let suits = suits && self.record.version() == Version::V3;
                (&certified.links, PROOF_LINKS_MAX, suits)
            }
        };
        if !suits {
            return Err(error("has parts of another version"));
        }
        if links.len() > links_max {
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
        let mut versions = VERSIONS.into_iter();
        let version = versions.find(|(_, of_log)| *of_log == self.record.version());
        let version = match &self.signers {
            Signers::Certified(certified) if certified.shows_older_key() => OLDER_KEY,
            _ => version.map_or(0, |(version, _)| version),
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[self.evidence.code(), 0]);
        out.extend_from_slice(&self.record.encode());
        out.extend_from_slice(&self.place.to_le_bytes());
        match &self.signers {
            Signers::Listed { first_key, links } => {
                if let Some(identity) = &self.identity {
                    identity.encode_log(&mut out);
                }
                out.extend_from_slice(first_key);
                let count = u32::try_from(links.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&count.to_le_bytes());
                encode_links(links, &mut out);
            }
            Signers::Certified(certified) => {
                certified.encode(&mut out);
                if let Some(identity) = &self.identity {
                    identity.encode_log(&mut out);
                }
            }
        }
        if let Some(identity) = &self.identity {
            identity.encode_config(&mut out);
        }
        self.evidence.encode(&mut out);
        out
    }

    /// Parses the text of a `.tlog-proof` file; verifies nothing.
    ///
    /// # Errors
    /// [`EntryProofError::Form`] if `text` is not exactly what [`EntryProof::encode`] writes.
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
        let found = reader.u16()?;
        let mut versions = VERSIONS.into_iter();
        let version = versions.find(|(version, _)| *version == found);
        let (_, version) = version.ok_or_else(|| reader.error("is of another version"))?;
        let [code, reserved] = reader.array()?;
        if reserved != 0 {
            return Err(reader.error("has reserved bytes set"));
        }
        let record_bytes = match version {
            Version::V2 => v2::RECORD_BYTES,
            Version::V3 => RECORD_BYTES,
        };
        let record = Record::decode(version, reader.take(record_bytes)?)?;
        let place = reader.u32()?;
        let (identity, signers) = match version {
            Version::V2 => decode_listed(&mut reader)?,
            Version::V3 => {
                let certified = Box::new(Certified::decode(&mut reader, found == OLDER_KEY)?);
                let is_named = code != Evidence::ENTRY;
                let identity = is_named.then(|| Identity::decode(version, &mut reader));
                (identity.transpose()?, Signers::Certified(certified))
            }
        };
        let evidence = Evidence::decode(version, code, &mut reader)?;
        reader.finish()?;
        Ok(Self {
            identity,
            signers,
            record,
            place,
            evidence,
            path,
            checkpoint,
        })
    }

    /// Checks the proof from the key that the recipient knows to the entry, and returns the proved
    /// facts.
    ///
    /// # Errors
    /// See [`EntryProofError`]: the first check that fails.
    pub fn check(&self, known: &VerifierKey) -> Result<Proved, EntryProofError> {
        self.check_with(&Trust::key(known))
    }

    /// Checks the proof as [`EntryProof::check`] does, with further conditions than a key.
    ///
    /// # Errors
    /// See [`EntryProofError`]: the first check that fails.
    pub fn check_with(&self, trust: &Trust<'_>) -> Result<Proved, EntryProofError> {
        let note = SignedNote::parse(self.checkpoint.as_bytes());
        let note = note.map_err(|error| EntryProofError::Checkpoint(NoteError::Decode(error)))?;
        let (log, stream) = names(&note)?;
        let origin = format!("{log}{STREAMS}{stream}");
        let known = trust.key.name();
        if known != log && known != origin && known != journal_origin(&log) {
            return Err(EntryProofError::OtherName {
                known: known.into(),
                log,
            });
        }
        let (keys, told) = match &self.signers {
            Signers::Listed { first_key, links } => (follow_all(*first_key, links, &log)?, None),
            Signers::Certified(shown) => {
                let (keys, told) = shown.check(&log).map_err(EntryProofError::Journal)?;
                (keys, Some((told, &**shown)))
            }
        };
        let signer = keys.last().ok_or(EntryProofError::UnknownKey)?;
        let signer = VerifierKey::new(&origin, *signer.key()).map_err(EntryProofError::Record)?;
        let checkpoint = open_checkpoint(&note, &signer)?;
        let vouched = trust.accept(&Offer {
            log: &log,
            checkpoint: &checkpoint,
            frame: self.record.frame,
            keys: &keys,
            journal: told.as_ref().map(|(told, shown)| (told, *shown)),
        });
        // Insufficient trust is reported last: a proof that is invalid in itself is invalid for
        // every recipient.
        let (vouched, lacks) = match vouched {
            Ok(vouched) => (vouched, None),
            Err(error) if error.leaves_open() => (Vouched::default(), Some(error)),
            Err(error) => return Err(error),
        };
        verify_inclusion(
            leaf_hash(&self.record.encode()),
            self.record.frame,
            checkpoint.size(),
            &self.path,
            checkpoint.root(),
        )
        .map_err(EntryProofError::Tree)?;
        let stream_id = self.check_record(&log, &stream)?;
        let shown = self.check_evidence(stream_id)?;
        if let Some(error) = lacks {
            return Err(error);
        }
        let index = self.record.first_entry;
        Ok(Proved {
            log,
            stream,
            index: index.saturating_add(u64::from(self.place)),
            record: self.record,
            checkpoint,
            signer,
            journal: told.map(|(told, _)| told.head),
            cosigned: vouched.cosigned,
            kept: vouched.kept,
            row: shown.row,
            entries_whole: shown.whole,
            entries_partly: shown.partly,
            closed: shown.closed,
        })
    }

    /// Computes the identity of the stream, if the proof has its inputs; a record of version 2 must
    /// hold it.
    fn check_record(
        &self,
        log: &str,
        stream: &StreamName,
    ) -> Result<Option<StreamId>, EntryProofError> {
        let Some(identity) = &self.identity else {
            // The checkpoint's origin names the stream, and without sections nothing else is bound
            // to its identity.
            return Ok(None);
        };
        let anchor = VerifierKey::new(log, identity.anchor).map_err(EntryProofError::Record)?;
        let geometry = match &self.signers {
            Signers::Listed { .. } => Geometry::v2(log, identity.log_id, anchor),
            Signers::Certified(certified) => {
                Geometry::new(log, identity.log_id, anchor, certified.witness)
            }
        };
        let geometry = geometry.map_err(EntryProofError::Record)?;
        let id = StreamId::new(&geometry.fingerprint(), stream, &identity.config);
        let fits = self.record.v2.is_none_or(|rest| {
            rest.stream == id
                && rest.sealing.proofs == identity.config.proofs
                && rest.sealing.cipher == identity.config.cipher
        });
        if fits {
            Ok(Some(id))
        } else {
            Err(EntryProofError::Record(DecodeError::new(
                "frame record",
                0,
                "is of another log, stream or configuration",
            )))
        }
    }

    fn check_evidence(&self, stream: Option<StreamId>) -> Result<Shown, EntryProofError> {
        let refused = |reason| EntryProofError::Entry(DecodeError::new("entry", 0, reason));
        let named = stream.zip(self.identity.as_ref());
        let bound = named.map(|(stream, identity)| Binding {
            record: &self.record,
            stream,
            config: &identity.config,
        });
        let shown = self
            .evidence
            .entry(&self.record, bound.as_ref(), self.place);
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

impl Identity {
    fn encode_log(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.log_id);
        out.extend_from_slice(&self.anchor);
    }

    fn encode_config(&self, out: &mut Vec<u8>) {
        let config = format!("{}", self.config);
        out.push(u8::try_from(config.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(config.as_bytes());
    }

    fn decode(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            log_id: reader.array()?,
            anchor: reader.array()?,
            config: decode_config(version, reader)?,
        })
    }
}

fn decode_config(version: Version, reader: &mut Reader<'_>) -> Result<StreamConfig, DecodeError> {
    let bytes = usize::from(reader.u8()?);
    core::str::from_utf8(reader.take(bytes)?)
        .ok()
        .and_then(|text| StreamConfig::from_text(version, text))
        .ok_or_else(|| reader.error("has no stream configuration"))
}

/// Reads identity and certificates of a proof in a log of version 2.
fn decode_listed(reader: &mut Reader<'_>) -> Result<(Option<Identity>, Signers), DecodeError> {
    let (log_id, anchor, first_key) = (reader.array()?, reader.array()?, reader.array()?);
    let count = to_usize(reader.u32()?);
    if count > PROOF_V1_LINKS_MAX {
        return Err(reader.error("has more key certificates than the limit"));
    }
    let links = decode_links(count, Version::V2, reader)?;
    let config = decode_config(Version::V2, reader)?;
    let identity = Identity {
        log_id,
        anchor,
        config,
    };
    Ok((Some(identity), Signers::Listed { first_key, links }))
}

/// Follows all certificates from `first`; returns the keys on the way, the newest last.
fn follow_all(
    first: [u8; PUBLIC_KEY_BYTES],
    links: &[Link],
    log: &str,
) -> Result<Vec<VerifierKey>, EntryProofError> {
    let broken = |link, error: DecodeError| EntryProofError::Certificate { link, error };
    let mut key = VerifierKey::new(log, first).map_err(|error| broken(0, error))?;
    let mut keys = Vec::from([key.clone()]);
    for (link, number) in links.iter().zip(1..) {
        key = link.follow(&key).map_err(|error| broken(number, error))?;
        keys.push(key.clone());
    }
    Ok(keys)
}

/// Returns the names of log and stream from the first line of the checkpoint.
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
    // A log with the name of another log's stream has keys that could be taken for that log's.
    if is_named_as_stream(log) {
        return Err(error(
            "is of a log that is named as a stream of another one",
        ));
    }
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

/// The facts that a valid proof proves.
#[non_exhaustive]
pub struct Proved {
    /// The log's name.
    pub log: String,
    /// The stream.
    pub stream: StreamName,
    /// Index of the entry in the stream.
    pub index: u64,
    /// The record of the entry's frame.
    pub record: Record,
    /// The checkpoint whose tree contains the record.
    pub checkpoint: Checkpoint,
    /// The key that signed the checkpoint.
    pub signer: VerifierKey,
    /// The head of the journal in which that key is the newest; `None` in a log of version 2.
    pub journal: Option<Checkpoint>,
    /// Time at which the requested witness cosigned that head, in seconds since 1970. The witness
    /// vouches for the journal as of that time.
    pub cosigned: Option<u64>,
    /// Size in frames of the remembered head, which the journal's head equals or extends. A key
    /// replaced after that size could have signed a false head.
    pub kept: Option<u64>,
    /// Number of entries of the frame that the proof discloses completely, including this one.
    pub entries_whole: u32,
    /// Number of entries of the frame that the proof discloses without key, subjects and payload.
    pub entries_partly: u32,
    /// The people of the entry that the proof does not disclose.
    pub closed: Closed,
    row: Vec<u8>,
}

impl Proved {
    /// Returns the entry.
    ///
    /// # Errors
    /// Never: the row was decoded when the proof was checked.
    pub fn entry(&self) -> Result<Entry<'_>, DecodeError> {
        decode_row(&self.row)?.entry()
    }
}
