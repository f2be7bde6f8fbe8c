//! The content of the journal, in which the log records its own events as payloads of lines of
//! text.
//!
//! `docs/format.md`, "Journal". The journal is in clear, so that everybody can check it; it names
//! streams, keys and slots but no person.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use probity_format::certificate::{Bound, Link};
use probity_format::checkpoint::Checkpoint;
use probity_format::column::Columns;
use probity_format::content::PSEUDONYM_BYTES;
use probity_format::geometry::Geometry;
use probity_format::note::{NoteError, Signature, SignedNote, VerifierKey};
use probity_format::slot::SlotsDigest;
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::tree::EMPTY_ROOT;
use probity_format::{DecodeError, Entry, Version};

use crate::accepted::{AcceptedLoss, GivenUp};
use crate::checked_certificates::CheckedCertificates;
use crate::continuation::Continued;
use crate::journal_entry::{ALL_NAMED, action};
use crate::journal_v2::JournalV2;
use crate::repairs::Repair;
use crate::slot_ranges::SlotRanges;

/// The slots of subjects that were durable when a frame of the journal was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SignedSlots {
    /// Their number.
    pub(crate) count: u64,
    /// The digest over their labels.
    pub(crate) digest: SlotsDigest,
}

/// An erasure as the journal records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Erasure {
    pub(crate) pseudonym: [u8; PSEUDONYM_BYTES],
    /// The journal frame. The key was destroyed before any later frame was written.
    pub(crate) frame: u64,
}

/// Frames of the stream `heads` that `link` binds.
pub(crate) fn bound_heads(link: &Link) -> u64 {
    link.heads.map_or(0, |heads| heads.size)
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that [`hexadecimal`] writes as `text`; nothing for any other text.
pub(crate) fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    (hexadecimal(&bytes) == text).then_some(bytes)
}

/// The number that is written as `text` in the one form that numbers have.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|number: &u64| number.to_string() == text)
}

/// The content of the journal, in order.
#[derive(Debug, Clone)]
pub(crate) struct History {
    version: Version,
    checked: Arc<CheckedCertificates>,
    /// The chain of signing keys, the anchor first, with the journal frame each was certified in.
    pub(crate) keys: Vec<(VerifierKey, u64)>,
    /// Each certificate with the journal frame it stands in.
    pub(crate) certificates: Vec<(Link, u64)>,
    /// The number of certificates up to the last before which all heads were named: see
    /// [`ALL_NAMED`].
    pub(crate) all_named: usize,
    /// Streams in order of creation.
    pub(crate) streams: Vec<(StreamName, StreamConfig)>,
    /// The final signed state of the log that this one continues.
    pub(crate) continues: Option<Continued>,
    /// The additional content of a journal of version 2.
    pub(crate) v2: Option<JournalV2>,
    /// The slots of subjects that the journal named last.
    pub(crate) slots: SignedSlots,
    /// The frame that names them.
    pub(crate) slots_named_in: u64,
    /// Erasures by the number of the slot.
    pub(crate) erasures: BTreeMap<u64, Erasure>,
    /// Accepted losses.
    pub(crate) losses: Vec<AcceptedLoss>,
    /// The last of them that is of keys.
    pub(crate) given_up: Option<GivenUp>,
    /// The slots that the journal names without a pseudonym.
    pub(crate) void: SlotRanges,
    /// All repairs of recovery, with the journal frame that records each.
    pub(crate) repaired: Vec<(Repair, u64)>,
    /// The frames that were read for it, and the root over them; nothing where they were read past
    /// damage.
    pub(crate) read: Bound,
    /// Frames covered by a head that a key of the chain signed; nothing where none was found, and
    /// all count.
    pub(crate) signed: Option<u64>,
    /// Those of them that the checkpoints of the journal and of `heads` sign for, without second copies
    /// and without `begun`. Openings and losses behind them are under way for every reader.
    pub(crate) covered: Option<u64>,
    /// Frames of the journal for which a writer was about to sign, as `repairs` says.
    pub(crate) begun: Option<u64>,
    /// Frames of the journal that `repairs` names, where there are fewer.
    pub(crate) short_of: Option<u64>,
    /// The frame, at which reading ended, of an opening that ended before anybody had signed for
    /// it.
    pub(crate) unfinished: Option<u64>,
    /// True when a slot was ever found that did not open, so that one name may have stood in two of
    /// them.
    pub(crate) has_lost_slots: bool,
    /// The frame that would be next.
    next: u64,
    /// True when no frame was left out.
    is_whole: bool,
    /// The first frame that was left out since the last certificate that was read.
    left_out: Option<u64>,
}

impl History {
    /// An empty history of the log with `geometry`, whose certificates are looked up in `checked`
    /// before their signatures are checked.
    pub(crate) fn new(geometry: &Geometry, checked: &Arc<CheckedCertificates>) -> Self {
        let version = geometry.version();
        let config = StreamConfig::journal(version);
        let own = [StreamName::journal(), StreamName::heads()].map(|name| (name, config));
        let (streams, v2) = match version {
            Version::V2 => (
                own.into_iter().take(1).collect(),
                Some(JournalV2::default()),
            ),
            _ => (own.into(), None),
        };
        Self {
            version,
            checked: Arc::clone(checked),
            keys: vec![(geometry.anchor().clone(), 0)],
            certificates: Vec::new(),
            all_named: 0,
            streams,
            continues: None,
            v2,
            slots: SignedSlots::default(),
            slots_named_in: 0,
            erasures: BTreeMap::new(),
            losses: Vec::new(),
            given_up: None,
            void: SlotRanges::default(),
            repaired: Vec::new(),
            read: Bound {
                size: 0,
                root: EMPTY_ROOT,
            },
            signed: None,
            covered: None,
            begun: None,
            short_of: None,
            unfinished: None,
            has_lost_slots: false,
            next: 0,
            is_whole: true,
            left_out: None,
        }
    }

    /// The number of the frame that would be next.
    pub(crate) const fn frames(&self) -> u64 {
        self.next
    }

    /// Returns whether no frame was left out.
    pub(crate) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Frames that were read without leaving any out.
    pub(crate) const fn whole_frames(&self) -> u64 {
        if self.is_whole { self.next } else { 0 }
    }

    /// Adds the entries of journal frame `frame`.
    ///
    /// Frames may be left out, as damage does; the next frame's statement about those before it is
    /// then believed.
    ///
    /// # Errors
    /// When an entry is not one the log writes, or a certificate does not follow the chain.
    pub(crate) fn add(&mut self, columns: &Columns<'_>, frame: u64) -> Result<(), DecodeError> {
        let is_next = self.next == frame;
        if !is_next {
            self.is_whole = false;
            self.left_out.get_or_insert(self.next);
        }
        self.next = frame.saturating_add(1);
        let newest = self.newest_certificate();
        let mut named = None;
        for place in 0..columns.len() {
            let entry = columns.entry(place)?;
            let v2 = self.v2.as_mut();
            let is_taken = v2.map(|v2| v2.take(&entry, place, frame, is_next));
            if is_taken.transpose()?.unwrap_or_default() {
                continue;
            }
            if entry.action == action::KEY_NEWEST && self.v2.is_none() {
                let number = str::from_utf8(entry.key).ok().and_then(number);
                if named.replace(number).is_some() || number.is_none() {
                    let reason = "does not name one newest key";
                    return Err(DecodeError::new("journal entry", 0, reason));
                }
            } else {
                self.add_entry(&entry, frame)?;
            }
        }
        self.check_newest(newest, named.flatten(), frame)
    }

    /// The frame of the newest certificate.
    pub(crate) fn newest_certificate(&self) -> Option<u64> {
        self.certificates.last().map(|(_, frame)| *frame)
    }

    /// Checks that journal frame `frame` has `named` the frame of the newest certificate, unless it
    /// certifies a key itself.
    fn check_newest(
        &self,
        newest: Option<u64>,
        named: Option<u64>,
        frame: u64,
    ) -> Result<(), DecodeError> {
        let is_certificate = self.newest_certificate() == Some(frame);
        let expected = newest.filter(|_| !is_certificate && self.v2.is_none());
        // Behind frames that were left out there may be unread certificates.
        if named == expected || !self.is_whole {
            return Ok(());
        }
        let reason = "names another newest key than the journal has";
        Err(DecodeError::new("journal entry", 0, reason))
    }

    fn add_entry(&mut self, entry: &Entry<'_>, frame: u64) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_not_utf8| error("is not text"));
        match entry.action {
            action::STREAM_CREATE => {
                let name = StreamName::new(text(entry.key)?)
                    .map_err(|_bad_name| error("creates a stream with a bad name"))?;
                let config = StreamConfig::from_text(self.version, text(entry.payload)?)
                    .ok_or_else(|| error("creates a stream with an unknown configuration"))?;
                if self.streams.iter().any(|(known, _)| *known == name) {
                    return Err(error("creates a stream that exists"));
                }
                self.streams.push((name, config));
            }
            action::LOG_CONTINUE => {
                if frame > 0 || self.continues.is_some() || self.v2.is_some() {
                    return Err(error("continues another log though this one has begun"));
                }
                let continued = Continued::parse(text(entry.key)?, text(entry.payload)?)?;
                self.continues = Some(continued);
            }
            action::KEY_CERTIFY => {
                self.add_certificate(entry.key, entry.payload, frame)?;
                if entry.purpose == ALL_NAMED {
                    self.all_named = self.certificates.len();
                }
            }
            action::SUBJECTS | action::SUBJECT_ERASE | action::SUBJECT_ERASED
                if self.v2.is_some() =>
            {
                return Err(error("has an action that the log's version does not know"));
            }
            action::SUBJECTS => self.add_slots(text(entry.key)?, text(entry.payload)?, frame)?,
            action::SUBJECT_ERASE => {
                self.add_erasure(text(entry.key)?, text(entry.payload)?, frame)?;
            }
            action::SUBJECT_ERASED => {
                self.check_erased(text(entry.key)?, text(entry.payload)?, frame)?;
            }
            // Version 2 records sentences, which nothing reads back.
            action::RECOVER if self.v2.is_some() => {}
            action::RECOVER => self.add_repairs(entry, frame)?,
            action::LOG_CREATE if frame > 0 && self.v2.is_none() => {
                return Err(error("creates the log though it has begun"));
            }
            action::LOG_CREATE => {}
            _ => return Err(error("has an unknown action")),
        }
        Ok(())
    }

    fn add_certificate(
        &mut self,
        signer: &[u8],
        note: &[u8],
        frame: u64,
    ) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("key certificate", 0, reason);
        let presumed = self.presumed(signer);
        let signer = presumed.as_ref().unwrap_or_else(|| self.last_key());
        let link = self.checked.link(note, signer)?;
        if link.heads.is_some() == self.v2.is_some() {
            return Err(error("is of another version than the log"));
        }
        if link.journal.size > frame {
            return Err(error("binds more of the journal than there was"));
        }
        if let Some((last, _)) = self.certificates.last()
            && (link.journal.size < last.journal.size || bound_heads(&link) < bound_heads(last))
        {
            return Err(error("binds less than the one before"));
        }
        let successor = VerifierKey::new(self.last_key().name(), link.successor)?;
        let left_out = self.left_out.take();
        self.keys.extend(presumed.zip(left_out));
        self.keys.push((successor, frame));
        self.certificates.push((link, frame));
        Ok(())
    }

    /// The key that a certificate names as its `signer`, where a frame that was left out may have
    /// certified it.
    fn presumed(&self, signer: &[u8]) -> Option<VerifierKey> {
        self.left_out?;
        let last = self.last_key();
        let key = VerifierKey::parse(std::str::from_utf8(signer).ok()?).ok()?;
        (key.name() == last.name() && key.key() != last.key()).then_some(key)
    }

    /// Frames of the stream `heads` that the last certificate binds, with their root.
    pub(crate) fn bound_heads(&self) -> Option<Bound> {
        self.certificates.last().and_then(|(link, _)| link.heads)
    }

    /// The number of certificates in the first `size` frames of the journal. It is the place, in
    /// the chain from 0, of the key that signs for them.
    pub(crate) fn certificates_within(&self, size: u64) -> usize {
        let certified = self.certificates.iter();
        certified.filter(|(_, frame)| *frame < size).count()
    }

    /// The number of certificates that bind fewer than `size` frames of the stream `heads`: those
    /// written before the last of these frames.
    pub(crate) fn certificates_before_heads(&self, size: u64) -> usize {
        let certified = self.certificates.iter();
        certified
            .filter(|(link, _)| bound_heads(link) < size)
            .count()
    }

    /// The number of certificates before a head that none of the first `read` frames of `heads`
    /// names. One that binds fewer frames was signed before the last of these. So was one that binds
    /// no more, where it says that all heads were named.
    pub(crate) fn certificates_before_unnamed(&self, read: u64) -> usize {
        let all_named = self.certificates.iter().take(self.all_named);
        let bound = all_named.filter(|(link, _)| bound_heads(link) <= read);
        bound.count().max(self.certificates_before_heads(read))
    }

    /// The journal frame in which the key at `place` of the chain was certified, from 0 behind the
    /// geometry's.
    pub(crate) fn certificates_at(&self, place: usize) -> Option<u64> {
        let key = self.keys.get(place.saturating_add(1));
        key.map(|(_, frame)| *frame)
    }

    /// The key certified last.
    #[expect(
        clippy::expect_used,
        reason = "the chain begins with the anchor and only grows"
    )]
    pub(crate) fn last_key(&self) -> &VerifierKey {
        &self.keys.last().expect("the chain is never empty").0
    }

    /// Returns the checkpoint in `note`, and the place, in the chain from 0, of the latest key that
    /// signed it under the name `origin`.
    ///
    /// Looks for the key from the newest back, because most requested notes are signed by recent
    /// keys.
    pub(crate) fn open(&self, note: &[u8], origin: &str) -> Result<(usize, Checkpoint), NoteError> {
        let parsed = SignedNote::parse(note)?;
        let ids = parsed.signatures().iter();
        let ids: Vec<u32> = ids
            .filter(|line| line.name() == origin)
            .map(Signature::id)
            .collect();
        for (place, (key, _)) in self.keys.iter().enumerate().rev() {
            let key = VerifierKey::new(origin, *key.key())?;
            if ids.contains(&key.id()) {
                return Checkpoint::open(note, &[key]).map(|head| (place, head));
            }
        }
        Err(NoteError::NoKnownSignature)
    }

    /// Returns whether `key` is one of the chain.
    pub(crate) fn has_key(&self, key: &VerifierKey) -> bool {
        self.keys.iter().any(|(known, _)| known.key() == key.key())
    }
}

#[cfg(test)]
mod tests {
    use probity_format::Timestamp;

    use super::*;

    /// A journal of version 2 that told of slots and erasures was believed, though only newer ones
    /// do.
    #[test]
    fn an_older_journal_tells_of_no_slots_and_no_erasures() {
        let geometry = include_str!("../testdata/v2/erasable/probity.toml");
        let geometry = Geometry::parse(geometry).unwrap();
        let digest = "0".repeat(64);
        let pseudonym = "1".repeat(32);
        let told = [
            (action::SUBJECTS, "1000", digest.as_str()),
            (action::SUBJECT_ERASE, "0", &pseudonym),
            (action::SUBJECT_ERASED, "0", &pseudonym),
        ];
        for (action, key, payload) in told {
            let mut history = History::new(&geometry, &Arc::default());
            history.slots.count = 9;
            let entry = Entry {
                payload: payload.as_bytes(),
                ..Entry::new(
                    Timestamp::from_nanoseconds(1).unwrap(),
                    action,
                    key.as_bytes(),
                )
            };
            let refused = history.add_entry(&entry, 3).unwrap_err();
            assert!(refused.reason.contains("version"), "{refused}");
            assert!(history.erasures.is_empty());
        }
    }
}
