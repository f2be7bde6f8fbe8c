//! Collects the evidence for a signing key from the journal: the journal's head, and the frame that
//! certifies the key.

use probity_format::certificate::Link;
use probity_format::checkpoint::Checkpoint;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::limits::{PROOF_LINKS_DEFAULT, PROOF_LINKS_MAX};
use probity_format::note::{PUBLIC_KEY_BYTES, Signature, SignedNote, VerifierKey};
use probity_format::proof::{
    Certified, Grown, JournalFrame, KeyChain, Newest, consistency_proof, inclusion_proof,
};
use probity_format::stream::StreamName;
use probity_format::tile::TileReader;
use probity_format::tree::Hash;

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX};
use crate::history::{read_checkpoint, read_history};
use crate::journal::History;
use crate::log_location::LogLocation;
use crate::prove_error::ProveError;
use crate::records::Records;
use crate::segments::Identity;
use crate::verify::{Verifier, VerifyOptions};
use crate::{Options, history::read_geometry};

/// A log's journal, to show keys in.
pub(crate) struct Certifying<'a> {
    pub(crate) files: &'a Files,
    pub(crate) geometry: &'a Geometry,
    pub(crate) history: &'a History,
}

/// The error for a kept head of the journal.
fn of_journal(reason: &'static str) -> ProveError {
    ProveError::of_head(&StreamName::journal(), reason)
}

/// The reason why no proof uses a head of the journal that the log signed: a crash leaves the
/// checkpoint behind it.
pub(crate) const AHEAD: &str = "covers frames of the journal that its checkpoint here does not cover yet: wait for its writer, or open the log for writing once";

/// The reason why a head of the journal shows no key that signs.
const NO_KEY: &str = "covers no certificate of a signing key yet, so it shows no key to go on from: give a newer head of the journal";

/// A head of the journal.
pub(crate) struct Head {
    note: SignedNote,
    checkpoint: Checkpoint,
    /// The place, in the chain from 0, of the key that signed it: the newest that it certifies.
    pub(crate) signer: usize,
}

impl Certifying<'_> {
    /// Returns the head of the journal for a proof about something that the key at `place` of the
    /// chain signed. Also returns its growth from `kept`, which the recipient remembers. The head
    /// is `kept` itself where that key or the newest one signed it; otherwise it is the newest
    /// head, which can be signed again. The caller has checked that the log has the frames of every
    /// head that it signed.
    pub(crate) fn head(
        &self,
        place: usize,
        kept: Option<&str>,
    ) -> Result<(Head, Option<Grown>), ProveError> {
        let kept = kept.map(|note| self.kept(note)).transpose()?;
        let newest = self.newest()?;
        Ok(match kept {
            Some((Some(head), _)) if head.checkpoint.size() > newest.checkpoint.size() => {
                return Err(of_journal(AHEAD));
            }
            Some((Some(head), _)) if [place, newest.signer].contains(&head.signer) => (head, None),
            Some((_, older)) => {
                let grown = self.growth(&older, &newest.checkpoint)?;
                (newest, grown)
            }
            None => (newest, None),
        })
    }

    /// Shows the key that signed `head` to a recipient who has the key `recipient`, by default to
    /// one who has any of the last keys.
    pub(crate) fn show(
        &self,
        head: &Head,
        grown: Option<Grown>,
        recipient: Option<&VerifierKey>,
    ) -> Result<Certified, ProveError> {
        let size = head.checkpoint.size();
        let older = grown.as_ref();
        let older = older.map(|older| self.history.certificates_within(older.size));
        let (first_key, links) = self.links(recipient, head.signer, older)?;
        let Newest { certificate, last } = self.newest_key(head.signer, size, size)?;
        let origin = head.checkpoint.origin();
        let unnamed = |line: &Signature| match line.name() {
            name if name == origin => Signature::new("", line.id(), line.bytes().to_vec()),
            _ => line.clone(),
        };
        Ok(Certified {
            size,
            signatures: head.note.signatures().iter().map(unnamed).collect(),
            witness: self.geometry.witness().map_or([0; 32], |key| *key.key()),
            certificate,
            last,
            first_key,
            links,
            grown,
        })
    }

    /// Shows that the key at `place` of the chain is the newest in the first `size` of the journal's
    /// `stored` frames.
    fn newest_key(&self, place: usize, size: u64, stored: u64) -> Result<Newest, LogError> {
        let frame = self.certificate_frame(place)?;
        let name = StreamName::journal();
        let identity = Identity::journal(self.geometry);
        let mut records = Records::new(self.files, &name, identity, stored);
        let mut shown = |frame| self.journal_frame(&mut records, frame, size, stored);
        let last = size.saturating_sub(1);
        Ok(Newest {
            certificate: shown(frame)?,
            last: (frame != last).then(|| shown(last)).transpose()?,
        })
    }

    /// Frame `frame` of the journal, which has `records` of its `stored` frames, with the path to
    /// the root over the first `size` of them.
    fn journal_frame(
        &self,
        records: &mut Records<'_>,
        frame: u64,
        size: u64,
        stored: u64,
    ) -> Result<JournalFrame, LogError> {
        let record = records.of_frame(frame)?;
        let record = record.ok_or_else(|| broken("does not cover the key's certificate"))?;
        let bytes = records.stored(&record)?;
        let bytes = bytes.ok_or_else(|| broken("has a damaged frame where a proof needs it"))?;
        let parsed = Frame::parse(&bytes).map_err(|error| broken(&error.to_string()))?;
        let section = parsed.clear.sections.first();
        let leaves = parsed.sealed_leaves();
        let (Some(section), [clear, _]) = (section, leaves.as_slice()) else {
            return Err(broken("has a frame of several sections"));
        };
        // The tiles of an earlier size may be gone. Those of a later one have its nodes.
        let mut tiles = tiles(self.files, &StreamName::journal(), stored);
        let path = inclusion_proof(frame, size, |level, index| tiles.node(level, index));
        Ok(JournalFrame {
            path: path.map_err(|error| broken(&with_cause(&error)))?,
            clear: *clear,
            section: parsed.sealed(section).to_vec(),
            record,
        })
    }

    /// The journal frame that certifies the key at `place` of the chain.
    fn certificate_frame(&self, place: usize) -> Result<u64, LogError> {
        let before = place.checked_sub(1);
        let certificate = before.and_then(|before| self.history.certificates.get(before));
        certificate.map(|(_, frame)| *frame).ok_or_else(|| {
            broken("has no certificate of the log's first key, which signs no entries")
        })
    }

    fn newest(&self) -> Result<Head, ProveError> {
        let note = read_checkpoint(self.files, &StreamName::journal())?;
        let witnessed = note.as_deref().filter(|note| self.is_witnessed(note));
        let note = witnessed
            .ok_or_else(|| broken("has no checkpoint by its signing key and its witness key"))?;
        // A writer may have certified another key since the journal was read.
        self.opened(note).ok_or(ProveError::HeadMoved)
    }

    /// Returns whether the witness key has signed `note`.
    fn is_witnessed(&self, note: &str) -> bool {
        let parsed = SignedNote::parse(note.as_bytes()).ok();
        let both = parsed.zip(self.geometry.witness());
        both.is_some_and(|(note, witness)| note.verify(std::slice::from_ref(witness)).is_ok())
    }

    /// The head in `note`, if a signing key and the witness key have signed it.
    fn opened(&self, note: &str) -> Option<Head> {
        let origin = self.geometry.stream_origin(StreamName::JOURNAL);
        let (signer, checkpoint) = self.history.open(note.as_bytes(), &origin).ok()?;
        if !self.is_witnessed(note) {
            return None;
        }
        let note = SignedNote::parse(note.as_bytes()).ok()?;
        Some(Head {
            note,
            checkpoint,
            signer,
        })
    }

    /// Parses the head that a recipient remembers. Returns it as a head that can be shown, if the
    /// log signed it, and its checkpoint.
    fn kept(&self, note: &str) -> Result<(Option<Head>, Checkpoint), ProveError> {
        let parsed = SignedNote::parse(note.as_bytes()).ok();
        let head = parsed.and_then(|note| Checkpoint::parse(note.text()).ok());
        let head = head.ok_or_else(|| of_journal("is no checkpoint"))?;
        if head.origin() != self.geometry.stream_origin(StreamName::JOURNAL) {
            return Err(of_journal("is of another log"));
        }
        Ok((self.opened(note), head))
    }

    /// The proof that the journal grew from `older` to `head`, and the newest key under `older`;
    /// nothing where they are one.
    fn growth(&self, older: &Checkpoint, head: &Checkpoint) -> Result<Option<Grown>, ProveError> {
        let (old, size) = (older.size(), head.size());
        if old == size && older.root() == head.root() || old == 0 {
            return Ok(None);
        }
        if old >= size {
            return Err(of_journal(
                "is of a longer journal than this log has: an older copy of the log was put back, or it is another history",
            ));
        }
        let name = StreamName::journal();
        let mut tiles = tiles(self.files, &name, size);
        let path = consistency_proof(old, size, |level, index| tiles.node(level, index));
        let path = path.map_err(|error| broken(&with_cause(&error)))?;
        let place = self.history.certificates_within(old);
        if place == 0 {
            return Err(of_journal(NO_KEY));
        }
        Ok(Some(Grown {
            size: old,
            root: *older.root(),
            path,
            newest: Some(self.newest_key(place, old, size)?),
        }))
    }

    /// The links from the recipient's key to the one at `signer`. They also lead from the key at
    /// `older`, the newest under a head that the recipient keeps, where they are few. For an
    /// unknown recipient they are as many as a proof may have.
    fn links(
        &self,
        recipient: Option<&VerifierKey>,
        signer: usize,
        older: Option<usize>,
    ) -> Result<([u8; PUBLIC_KEY_BYTES], Vec<Link>), ProveError> {
        let key = |reason| ProveError::Key { reason };
        let is_witness = |known: &VerifierKey| {
            let witness = self.geometry.witness();
            witness.is_some_and(|witness| witness.key() == known.key())
        };
        let first = match recipient {
            // A young log's first key is the one that most recipients have.
            None if signer <= PROOF_LINKS_MAX => 0,
            None => signer.saturating_sub(PROOF_LINKS_DEFAULT),
            Some(known) if is_witness(known) => signer,
            Some(known) => {
                let mut keys = self.history.keys.iter();
                let found = keys.position(|(key, _)| key.key() == known.key());
                found.ok_or_else(|| key("is none of this log's"))?
            }
        };
        if first > signer {
            return Err(key(
                "is a later one than the key that signed the journal's head, and leads to later ones only",
            ));
        }
        let is_short = |from: &usize| signer.saturating_sub(*from) <= PROOF_LINKS_MAX;
        if !is_short(&first) {
            return Err(key("is too many keys older than the one that signed"));
        }
        let earlier = older.map(|older| older.min(first));
        let from = earlier.filter(is_short).unwrap_or(first);
        let none = || key("is none of this log's");
        let links = self.history.certificates.get(from..signer);
        let links = links.ok_or_else(none)?;
        let (from, _) = self.history.keys.get(from).ok_or_else(none)?;
        Ok((*from.key(), links.iter().map(|(link, _)| *link).collect()))
    }
}

/// The certificates of the log at `places`, from its first key on. Needs no secret. Journal and
/// heads are verified first.
///
/// # Errors
/// [`LogError::Broken`] with the first fault; errors of the storage.
pub fn key_chain(places: &LogLocation) -> Result<KeyChain, LogError> {
    let files = Files::of_log(places, &Options::default());
    let geometry = read_geometry(&files, &places.path)?;
    // A chain that ends where damage begins looks like a whole one.
    Verifier::new(places, &VerifyOptions::default())?.check_built_in()?;
    let history = read_history(&files, &geometry, None)?;
    let links = history.certificates.iter().map(|(link, _)| *link).collect();
    KeyChain::new(geometry.anchor(), links).map_err(|error| broken(&error.to_string()))
}

/// The path from the record of `frame` to the root of the tree of `size` frames of `stream`, out of
/// its tiles.
pub(crate) fn tree_path(
    files: &Files,
    stream: &StreamName,
    frame: u64,
    size: u64,
) -> Result<Vec<Hash>, LogError> {
    let mut tiles = tiles(files, stream, size);
    let path = inclusion_proof(frame, size, |level, index| tiles.node(level, index));
    path.map_err(|error| LogError::Broken {
        place: format!("streams/{stream}"),
        reason: with_cause(&error),
    })
}

/// The tiles of the tree of `size` frames of `stream`.
pub(crate) fn tiles<'a>(
    files: &'a Files,
    stream: &StreamName,
    size: u64,
) -> TileReader<impl FnMut(&str) -> Result<Option<Vec<u8>>, LogError> + use<'a>> {
    let folder = format!("streams/{stream}");
    let read = move |path: &str| files.read(&format!("{folder}/{path}"), TILE_FILE_BYTES_MAX);
    TileReader::new(size, read)
}

fn with_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

fn broken(reason: &str) -> LogError {
    LogError::Broken {
        place: "the journal".into(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
