//! Proves one entry to the holder of a verifier key: collects its path to a published checkpoint.
//!
//! `docs/format.md`, "Entry proof". Only the head of an idle stream is signed, anew. Each proof is
//! checked here in the way its recipient will check it.

use std::time::Duration;

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::note::{PUBLIC_KEY_BYTES, VerifierKey};
use probity_format::proof::{self, EntryProof, EntryProofError, Evidence, Proved, Signers};
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::{Proofs, StreamConfig, StreamName};
use probity_format::width::to_usize;
use probity_format::{DecodeError, Version};

use crate::accepted::AcceptedLoss;
use crate::certified::{Certifying, tree_path};
use crate::copies::UNSIGNED;
use crate::error::LogError;
use crate::evidence::{Found, alone, sections, whole_frame};
use crate::filtering::parted;
use crate::head_signer::HeadSigner;
use crate::history::read_checkpoint;
use crate::journal::History;
use crate::lost::Lost;
use crate::opening::Opening;
pub use crate::prove_error::ProveError;
use crate::reader::Reader;
use crate::records::Records;
use crate::repairs::RepairKind;
use crate::scan::read_there;
use crate::scan::{Position, scan_believed};
use crate::segments::{self, Identity};
use crate::verify::Verifier;

/// Times that the keys are read again when the newest moved on, and the wait before each.
const KEY_READS_MAX: u32 = 5;
const KEY_WAIT: Duration = Duration::from_millis(50);

/// The reason why no proof can use a head that the recipient keeps.
const UNANCHORED: &str = "is signed by a key that was replaced before the log anchored a head of so many frames: wait for its writer, or open it for writing once";

/// A proof and its content as the recipient will read it.
#[non_exhaustive]
pub struct Proof {
    /// The proof, to be encoded.
    pub proof: EntryProof,
    /// The content of the proof.
    pub proved: Proved,
    /// The number of the entry's subjects whose keys are missing though nobody erased them, which
    /// was accepted. The recipient cannot tell them from those who were erased.
    pub missing: usize,
    /// The number of those who were erased.
    pub erased: usize,
}

/// The recipient's knowledge of the log.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct Recipient {
    /// A verifier key of the log; by default any of its last ones, as many as a proof leads from.
    pub key: Option<VerifierKey>,
    /// A signed head of the entry's stream that the recipient keeps; by default the newest.
    pub stream: Option<String>,
    /// A head of the journal that the recipient keeps; the proof uses it or grew from it.
    pub journal: Option<String>,
}

impl Recipient {
    /// The head of the journal that the recipient keeps. For the journal's own entries that of
    /// their stream is one, and the recipient's check compares it as both.
    fn journal_of(&self, stream: &StreamName) -> Option<&str> {
        let own = self.stream.as_deref();
        let own = own.filter(|_| stream.as_str() == StreamName::JOURNAL);
        self.journal.as_deref().or(own)
    }
}

/// Proves entries of one stream; shared data is read once.
pub struct Prover<'a> {
    reader: &'a Reader,
    stream: &'a StreamName,
    config: StreamConfig,
    identity: Identity,
    /// The checkpoint that proofs use, if one was published.
    covered: Option<Covered>,
    /// The records that it covers.
    records: Option<Records<'a>>,
    /// True if the recipient gave the head.
    is_kept: bool,
    /// The journal's checkpoint behind which the keys that are read were erased.
    journal: Option<String>,
}

struct Covered {
    note: String,
    checkpoint: Checkpoint,
    signers: Signers,
    /// The key that is known to lead to the signer; each proof is checked with it.
    known: VerifierKey,
}

impl Reader {
    /// Proves the entry at `index` of `stream` to a recipient who knows a key of the log, by default
    /// to those who know any of its last keys.
    ///
    /// # Errors
    /// See [`ProveError`].
    pub fn prove(
        &self,
        stream: &StreamName,
        index: u64,
        recipient: Option<&VerifierKey>,
    ) -> Result<Proof, ProveError> {
        let recipient = Recipient {
            key: recipient.cloned(),
            ..Recipient::default()
        };
        self.prover(stream, &recipient)?.prove(index)
    }

    /// Proves entries of `stream` to `recipient`.
    ///
    /// # Errors
    /// See [`ProveError`]; [`ProveError::NotGrown`] where the recipient's head shows a rollback.
    pub fn prover<'a>(
        &'a self,
        stream: &'a StreamName,
        recipient: &Recipient,
    ) -> Result<Prover<'a>, ProveError> {
        // Read before the erasures, which the comparison takes over.
        let journal = read_checkpoint(&self.files, &StreamName::journal())?;
        self.compare_copies(stream)?;
        let mut proved = self.prover_of(stream, recipient);
        for _ in 0..KEY_READS_MAX {
            if !matches!(proved, Err(ProveError::KeyMoved | ProveError::HeadMoved)) {
                break;
            }
            // A writer certifies a key a moment before it publishes the certificate.
            std::thread::park_timeout(KEY_WAIT);
            proved = self.prover_of(stream, recipient);
        }
        let proved = proved.map(|prover| Prover { journal, ..prover });
        self.unless_damaged(stream, proved)
    }

    /// Reports an entry as missing only if the stream is undamaged: damage could be the cause.
    fn unless_damaged<T>(
        &self,
        stream: &StreamName,
        proved: Result<T, ProveError>,
    ) -> Result<T, ProveError> {
        if let Err(
            ProveError::NoEntry { .. }
            | ProveError::Unpublished { .. }
            | ProveError::BehindHead { .. }
            | ProveError::Unsigned { .. }
            | ProveError::Gone { .. }
            | ProveError::Log(LogError::NoStream { .. }),
        ) = &proved
        {
            self.check(Some(stream))?;
        }
        proved
    }

    fn prover_of<'a>(
        &'a self,
        stream: &'a StreamName,
        recipient: &Recipient,
    ) -> Result<Prover<'a>, ProveError> {
        let note = match &recipient.stream {
            Some(note) => Some(note.clone()),
            None => read_checkpoint(&self.files, stream)?,
        };
        // Read after the checkpoint, so that it knows the key that signed it.
        let read;
        let history = if self.knows(stream, note.as_deref())? {
            &self.history
        } else {
            read = self.read_history()?;
            &read
        };
        let config = config_of(history, stream)?;
        let identity = Identity::new(&self.geometry, stream, &config);
        let covered = note.map(|note| self.covered(note, stream, history, recipient));
        let covered = covered.transpose()?;
        let records = covered
            .as_ref()
            .map(|covered| Records::new(&self.files, stream, identity, covered.checkpoint.size()));
        Ok(Prover {
            reader: self,
            stream,
            config,
            identity,
            covered,
            records,
            is_kept: recipient.stream.is_some(),
            journal: None,
        })
    }

    /// Returns whether the journal read at the opening has `stream` and the keys of both notes.
    fn knows(&self, stream: &StreamName, note: Option<&str>) -> Result<bool, LogError> {
        let journal = StreamName::journal();
        let head = read_checkpoint(&self.files, &journal)?;
        let is_known = |name: &StreamName, note: Option<&str>| {
            let origin = self.geometry.stream_origin(name.as_str());
            note.is_none_or(|note| self.history.open(note.as_bytes(), &origin).is_ok())
        };
        Ok(config_of(&self.history, stream).is_ok()
            && is_known(stream, note)
            && is_known(&journal, head.as_deref()))
    }

    fn covered(
        &self,
        note: String,
        stream: &StreamName,
        history: &History,
        recipient: &Recipient,
    ) -> Result<Covered, ProveError> {
        let origin = self.geometry.stream_origin(stream.as_str());
        let (reader, journal) = (self, StreamName::journal());
        let signing = HeadSigner { reader, history };
        let kept = [(stream, &recipient.stream), (&journal, &recipient.journal)];
        for (name, note) in kept {
            if let Some(note) = note {
                self.check_kept(&signing, name, note)?;
            }
        }
        let (signer, mut checkpoint) = match signer_of(&note, history, &origin) {
            Err(_) if recipient.stream.is_some() => {
                return Err(ProveError::of_head(stream, UNSIGNED));
            }
            opened => opened?,
        };
        let (note, signers, first) = if self.geometry.witness().is_none() {
            let (signers, first) = listed(history, signer, recipient.key.as_ref())?;
            (note, signers, first)
        } else {
            let certifying = Certifying {
                files: &self.files,
                geometry: &self.geometry,
                history,
            };
            let (head, grown) = certifying.head(signer, recipient.journal_of(stream))?;
            let note = match history.keys.get(head.signer) {
                Some((newest, _)) if head.signer != signer => {
                    if let Some(anchored) = signing.anchored_before(stream, &checkpoint)? {
                        if recipient.stream.is_some() {
                            return Err(ProveError::of_head(stream, UNANCHORED));
                        }
                        checkpoint = anchored;
                    }
                    signing.sign(stream, &checkpoint, newest)?
                }
                _ => note,
            };
            let shown = certifying.show(&head, grown, recipient.key.as_ref())?;
            let first = shown.first_key;
            (note, Signers::Certified(Box::new(shown)), first)
        };
        let known = VerifierKey::new(self.geometry.origin(), first);
        Ok(Covered {
            note,
            checkpoint,
            signers,
            known: known.map_err(|error| LogError::Broken {
                place: "the log's first key".into(),
                reason: error.to_string(),
            })?,
        })
    }
}

impl Prover<'_> {
    /// Proves the entry at `index`.
    ///
    /// # Errors
    /// See [`ProveError`].
    pub fn prove(&mut self, index: u64) -> Result<Proof, ProveError> {
        self.take_erasures()?;
        let mut records = self.records.take();
        let proved = self.proof_of(index, records.as_mut());
        self.records = records;
        self.reader.unless_damaged(self.stream, proved)
    }

    /// Drops the keys of subjects that were erased since the last proof. An erasure counts once the
    /// journal is published with it.
    fn take_erasures(&mut self) -> Result<(), LogError> {
        let journal = read_checkpoint(&self.reader.files, &StreamName::journal())?;
        if journal != self.journal {
            let history = self.reader.read_history()?;
            self.reader.opener.take_erasures(&history.erasures);
            self.journal = journal;
        }
        Ok(())
    }

    fn proof_of(&self, index: u64, records: Option<&mut Records<'_>>) -> Result<Proof, ProveError> {
        let (files, stream) = (&self.reader.files, self.stream);
        let (Some(covered), Some(records)) = (&self.covered, records) else {
            return Err(self.not_covered(index, None)?);
        };
        let size = covered.checkpoint.size();
        let Some(record) = records.of_entry(index)? else {
            return Err(self.not_covered(index, Some(records))?);
        };
        let stands = records.place(&record)?;
        let (place, evidence, missing) = self.evidence(index, &record, stands)?;
        let is_alone = matches!(evidence, Evidence::Entry { .. });
        let is_listed = matches!(covered.signers, Signers::Listed { .. });
        let geometry = &self.reader.geometry;
        let proof = EntryProof {
            identity: (is_listed || !is_alone).then(|| proof::Identity {
                log_id: *geometry.id(),
                anchor: *geometry.anchor().key(),
                config: self.config,
            }),
            signers: covered.signers.clone(),
            record,
            place,
            evidence,
            path: tree_path(files, stream, record.frame, size)?,
            checkpoint: covered.note.clone(),
        };
        let proved = proof
            .check(&covered.known)
            .map_err(|error| self.broken(index, &error))?;
        let (erased, _) = parted(proved.closed, missing)?;
        Ok(Proof {
            proof,
            proved,
            missing,
            erased: erased.subjects,
        })
    }
}

impl Reader {
    /// Number of whole entries in `stream`; in a log of version 2 of published ones only.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn entries(&self, stream: &StreamName) -> Result<u64, LogError> {
        let checkpoint = read_checkpoint(&self.files, stream)?;
        let history = self.read_history()?;
        let config = config_of(&history, stream)?;
        let identity = Identity::new(&self.geometry, stream, &config);
        let origin = self.geometry.stream_origin(stream.as_str());
        let mut records = match checkpoint {
            None => None,
            Some(note) => {
                let (_, checkpoint) = signer_of(&note, &history, &origin)?;
                let size = checkpoint.size();
                Some(Records::new(&self.files, stream, identity, size))
            }
        };
        let (covered, entries) = entries_behind(self, stream, identity, records.as_mut())?;
        Ok(match identity.version {
            Version::V2 => covered,
            _ => entries,
        })
    }
}

/// Returns the number of entries that a checkpoint with these `records` covers, and of all that
/// are stored. In a log of version 2 the latter counts entries of any writer.
fn entries_behind(
    reader: &Reader,
    stream: &StreamName,
    identity: Identity,
    mut records: Option<&mut Records<'_>>,
) -> Result<(u64, u64), LogError> {
    let last = match &mut records {
        None => None,
        Some(records) => records.last()?,
    };
    let position = match (records, &last) {
        (Some(records), Some(last)) => records.behind(last)?,
        _ => Some(Position::start(identity)),
    };
    let covered = last.as_ref().map_or(0, Record::next_entry);
    let mut entries = covered;
    let floors = Verifier::openings(&reader.places)?.floors;
    let epochs = reader.opener.epochs(stream, identity.id);
    let mut epochs = epochs.above(floors.get(stream).copied());
    let is_older = identity.version == Version::V2;
    let mut believe = |_: &Record, frame: &Frame<'_>| is_older || epochs.authenticate(frame);
    let mut count = |record: &Record, _: &Frame<'_>| {
        entries = record.next_entry();
        Ok::<(), LogError>(())
    };
    if let Some(mut position) = position {
        let _end = scan_believed(
            &reader.files,
            stream,
            &mut position,
            &mut believe,
            &mut count,
        )?;
    }
    Ok((covered, entries))
}

/// The place, from the log's first, of the key that signed `note`, and the checkpoint in it.
fn signer_of(note: &str, history: &History, origin: &str) -> Result<(usize, Checkpoint), LogError> {
    history
        .open(note.as_bytes(), origin)
        .map_err(|_refused| LogError::Broken {
            place: format!("the checkpoint of {origin}"),
            reason: "is signed by no key of the log".into(),
        })
}

pub(crate) fn config_of(history: &History, stream: &StreamName) -> Result<StreamConfig, LogError> {
    let found = history.streams.iter().find(|(name, _)| name == stream);
    found
        .map(|(_, config)| *config)
        .ok_or_else(|| LogError::NoStream {
            name: stream.to_string(),
        })
}

/// In a log of version 2: every certificate from the recipient's key to the one at `signer`, and
/// the key that they begin with.
fn listed(
    history: &History,
    signer: usize,
    recipient: Option<&VerifierKey>,
) -> Result<(Signers, [u8; PUBLIC_KEY_BYTES]), ProveError> {
    let key = |reason| ProveError::Key { reason };
    let place = |known: &VerifierKey| {
        let mut keys = history.keys.iter();
        keys.position(|(key, _)| key.key() == known.key())
            .ok_or_else(|| key("is none of this log's"))
    };
    let first = recipient.map_or(Ok(0), place)?;
    let links = history.certificates.get(first..signer).ok_or_else(|| {
        key("is a later one than the key that signed the checkpoint, and leads to later ones only")
    })?;
    let begins = history.keys.get(first);
    let (begins, _) = begins.ok_or_else(|| key("is none of this log's"))?;
    let first_key = *begins.key();
    let links = links.iter().map(|(link, _)| *link).collect();
    Ok((Signers::Listed { first_key, links }, first_key))
}

impl Prover<'_> {
    fn broken(&self, index: u64, error: &EntryProofError) -> LogError {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        LogError::Broken {
            place: format!("stream {}, entry {index}", self.stream),
            reason: format!("{error}{}", cause.unwrap_or_default()),
        }
    }

    /// The error for an entry without a record: it does not exist, or is behind the last one.
    fn not_covered(
        &self,
        index: u64,
        records: Option<&mut Records<'_>>,
    ) -> Result<ProveError, LogError> {
        let (covered, entries) = entries_behind(self.reader, self.stream, self.identity, records)?;
        let stream = self.stream.to_string();
        let is_older = self.identity.version == Version::V2;
        Ok(if index < entries && self.is_kept {
            ProveError::BehindHead {
                stream,
                index,
                covered,
            }
        } else if index < entries && is_older {
            ProveError::Unsigned {
                stream,
                index,
                covered,
            }
        } else if index < entries {
            ProveError::Unpublished {
                stream,
                index,
                covered,
            }
        } else {
            ProveError::NoEntry {
                stream,
                index,
                entries: if is_older { covered } else { entries },
                lost: self.lost_frames(),
            }
        })
    }

    /// The accepted losses of frames of the stream.
    fn lost_frames(&self) -> Vec<AcceptedLoss> {
        let losses = self.reader.accepted_losses().filter(|accepted| {
            accepted.loss.kind == RepairKind::Lost && accepted.loss.stream == *self.stream
        });
        losses.cloned().collect()
    }

    /// The entry's place in the frame of `record`, and the evidence that links them.
    fn evidence(
        &self,
        index: u64,
        record: &Record,
        stands: Place,
    ) -> Result<(u32, Evidence, usize), ProveError> {
        let bytes = self.frame_bytes(index, record, stands)?;
        let place = format!("{}, frame {}", self.segment(stands), record.frame);
        let broken = |reason: String| LogError::Broken {
            place: place.clone(),
            reason,
        };
        let refused = |error: DecodeError| broken(error.to_string());
        let frame = Frame::parse(&bytes).map_err(refused)?;
        if frame.record(stands) != *record {
            return Err(broken("is not what its record says".into()).into());
        }
        let mut opening = Opening::new(
            &self.reader.opener,
            self.stream,
            self.identity.id,
            self.config,
        );
        let opened = opening.open_what_opens(&frame).map_err(refused)?;
        let lost = opening.take_lost();
        let place = index.checked_sub(record.first_entry);
        let place = place.and_then(|place| u32::try_from(place).ok());
        let place = place.ok_or(LogError::Defect {
            what: "an entry was looked for in a frame that does not hold it",
        })?;
        let found = Found::read(&opened, place).map_err(refused)?;
        let lost = lost.iter().find(|lost| lost.section == found.section);
        // Those with a key are proved without those whose loss was accepted.
        let is_left = |lost: &&Lost| lost.is_partly && lost.accepted.is_some();
        let missing = lost.filter(is_left).map_or(0, |lost| lost.tokens.len());
        if let Some(lost) = lost.filter(|lost| !is_left(lost)) {
            return Err(match lost.accepted {
                None => broken(lost.to_string()).into(),
                Some(time) => ProveError::GivenUp {
                    stream: self.stream.to_string(),
                    index,
                    time,
                },
            });
        }
        if found.erased {
            return Err(ProveError::Erased {
                stream: self.stream.to_string(),
                index,
            });
        }
        let evidence = match self.config.proofs {
            Proofs::Frame => whole_frame(&frame, &opened, found.section, self.config.cipher),
            // An entry without a key has no leaf any more, and the paths beside it are gone too.
            Proofs::Entry if found.leaves.iter().all(Option::is_some) => {
                alone(found, place, record, |reason| broken(reason.into()))?
            }
            _ => sections(&frame, &opened, found.section)?,
        };
        Ok((place, evidence, missing))
    }

    fn segment(&self, stands: Place) -> String {
        segments::path(self.identity.version, self.stream, stands.segment)
    }

    fn frame_bytes(
        &self,
        index: u64,
        record: &Record,
        stands: Place,
    ) -> Result<Vec<u8>, ProveError> {
        let name = self.segment(stands);
        let files = &self.reader.files;
        let Some(file) = files.open_read(&name)? else {
            return Err(ProveError::Gone {
                index,
                segment: name,
            });
        };
        let mut buffer = vec![0; to_usize(record.length)];
        if read_there(files, &name, &*file, &mut buffer, stands.offset).map_err(ProveError::Log)? {
            return Ok(buffer);
        }
        Err(ProveError::Log(LogError::Broken {
            place: name,
            reason: format!("ends within frame {}", record.frame),
        }))
    }
}
