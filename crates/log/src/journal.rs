//! The words of the journal: what the log records about itself, as entries whose payloads are lines of text.
//!
//! `docs/format.md`, "Journal". The journal is in clear, so that everybody can check it; it names
//! streams, keys and slots but no person.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use probity_format::certificate::{Certificate, Link};
use probity_format::checkpoint::Checkpoint;
use probity_format::column::Columns;
use probity_format::content::PSEUDONYM_BYTES;
use probity_format::note::{
    NoteError, Signature, SignedNote, Signer as _, SigningKey, VerifierKey,
};
use probity_format::slot::SlotsDigest;
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::tree::Hash;
use probity_format::{DecodeError, Entry, Timestamp};

/// Actions of journal entries.
pub(crate) mod action {
    /// The log came into being; the key is its origin.
    pub(crate) const LOG_CREATE: &str = "log.create";
    /// A stream came into being; the key is its name, the payload its configuration.
    pub(crate) const STREAM_CREATE: &str = "stream.create";
    /// A new signing key; the payload is its certificate.
    pub(crate) const KEY_CERTIFY: &str = "key.certify";
    /// Checkpoints of other streams were published; the payload has a line for each.
    pub(crate) const HEADS: &str = "heads";
    /// The first of a frame: which one before was the last that says more than heads; the key is its number.
    pub(crate) const BEFORE: &str = "before";
    /// Recovery repaired something; the payload has a line for each repair.
    pub(crate) const RECOVER: &str = "recover";
    /// How many slots of subjects are durable; the key is their number, the payload the digest over their labels.
    pub(crate) const SUBJECTS: &str = "subjects";
    /// A subject is erased; the key is the number of its slot, the payload its pseudonym.
    pub(crate) const SUBJECT_ERASE: &str = "subject.erase";
}

/// Bytes of payload at which a list of heads or repairs goes on in another entry.
const PAYLOAD_BYTES: usize = 256 << 10;

/// One entry the log writes about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalEntry {
    pub(crate) action: &'static str,
    pub(crate) key: String,
    pub(crate) payload: String,
}

impl JournalEntry {
    pub(crate) fn log_create(origin: &str) -> Self {
        Self {
            action: action::LOG_CREATE,
            key: origin.to_owned(),
            payload: String::new(),
        }
    }

    pub(crate) fn stream_create(name: &StreamName, config: StreamConfig) -> Self {
        Self {
            action: action::STREAM_CREATE,
            key: name.to_string(),
            payload: config.to_string(),
        }
    }

    /// What every frame begins with, once frame `telling` says more than heads.
    pub(crate) fn before(telling: u64) -> Self {
        Self {
            action: action::BEFORE,
            key: telling.to_string(),
            payload: String::new(),
        }
    }

    /// The heads of streams, in as many entries as it takes.
    pub(crate) fn heads(heads: &[Checkpoint]) -> Vec<Self> {
        Self::portions(action::HEADS, heads.iter().map(Checkpoint::encode))
    }

    /// What recovery did, a line for each repair, in as many entries as it takes.
    pub(crate) fn recover(repairs: &[String]) -> Vec<Self> {
        let lines = repairs.iter().map(|repair| format!("{repair}\n"));
        Self::portions(action::RECOVER, lines)
    }

    /// The durable slots, which every frame names once there are any.
    pub(crate) fn subjects(slots: &SignedSlots) -> Self {
        Self {
            action: action::SUBJECTS,
            key: slots.count.to_string(),
            payload: hexadecimal(slots.digest.as_bytes()),
        }
    }

    /// The erasure of the subject with `pseudonym` in slot `slot`.
    pub(crate) fn subject_erase(slot: u64, pseudonym: &[u8; PSEUDONYM_BYTES]) -> Self {
        Self {
            action: action::SUBJECT_ERASE,
            key: slot.to_string(),
            payload: hexadecimal(pseudonym),
        }
    }

    fn portions(action: &'static str, parts: impl Iterator<Item = String>) -> Vec<Self> {
        let mut entries: Vec<Self> = Vec::new();
        for part in parts {
            match entries.last_mut() {
                Some(entry) if entry.payload.len().saturating_add(part.len()) <= PAYLOAD_BYTES => {
                    entry.payload.push_str(&part);
                }
                _ => entries.push(Self {
                    action,
                    key: String::new(),
                    payload: part,
                }),
            }
        }
        entries
    }

    /// The certificate of `successor` by `signer`, binding the journal as it is: `size` frames with `root`.
    pub(crate) fn certificate(
        signer: &SigningKey,
        successor: &VerifierKey,
        size: u64,
        root: &Hash,
    ) -> Result<Self, NoteError> {
        Ok(Self {
            action: action::KEY_CERTIFY,
            key: signer.verifier_key().encode(),
            payload: Certificate::new(successor.clone(), size, *root).sign(signer)?,
        })
    }

    pub(crate) fn entry(&self, time: Timestamp) -> Entry<'_> {
        Entry {
            payload: self.payload.as_bytes(),
            actor: "probity",
            taken: Some(time),
            ..Entry::new(time, self.action, self.key.as_bytes())
        }
    }
}

/// The frame that `entry` names as the last before its own that says more than heads.
pub(crate) fn telling_before(entry: &Entry<'_>) -> Option<u64> {
    let number = std::str::from_utf8(entry.key).ok()?.parse().ok()?;
    let is_canonical = JournalEntry::before(number).key.as_bytes() == entry.key;
    (entry.action == action::BEFORE && is_canonical).then_some(number)
}

/// The heads that an entry anchors.
pub(crate) fn heads_of(entry: &Entry<'_>) -> Result<Vec<Checkpoint>, DecodeError> {
    let text = std::str::from_utf8(entry.payload)
        .map_err(|_not_utf8| DecodeError::new("journal entry", 0, "is not text"))?;
    let lines: Vec<&str> = text.lines().collect();
    let heads = lines.chunks(3);
    heads
        .map(|head| Checkpoint::parse(&(head.join("\n") + "\n")))
        .collect()
}

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

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that [`hexadecimal`] writes as `text`; nothing for any other text.
fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
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
fn number(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|number: &u64| number.to_string() == text)
}

/// Whether `entry` says more than what every frame repeats and heads.
pub(crate) fn is_telling(entry: &Entry<'_>) -> bool {
    ![action::HEADS, action::SUBJECTS].contains(&entry.action)
}

/// What the journal says, in order.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// The chain of signing keys, the anchor first, with the journal frame each was certified in.
    pub(crate) keys: Vec<(VerifierKey, u64)>,
    /// Each certificate with the journal frame it stands in.
    pub(crate) certificates: Vec<(Link, u64)>,
    /// Streams in order of creation.
    pub(crate) streams: Vec<(StreamName, StreamConfig)>,
    /// Heads of other streams as anchored, with the journal frame; there are more with every second, and whoever adds frames
    /// takes them away.
    pub(crate) heads: Vec<(Checkpoint, u64)>,
    /// The last frame that says more than heads.
    pub(crate) telling: Option<u64>,
    /// The slots that were durable when the last frame was written.
    pub(crate) slots: SignedSlots,
    /// Erasures by the number of the slot.
    pub(crate) erasures: BTreeMap<u64, Erasure>,
    /// The frame that would be next.
    next: u64,
}

impl History {
    /// The history that begins with the key `anchor`.
    pub(crate) fn new(anchor: VerifierKey) -> Self {
        Self {
            keys: vec![(anchor, 0)],
            certificates: Vec::new(),
            streams: vec![(StreamName::journal(), StreamConfig::JOURNAL)],
            heads: Vec::new(),
            telling: None,
            slots: SignedSlots::default(),
            erasures: BTreeMap::new(),
            next: 0,
        }
    }

    /// The number of the frame that would be next.
    pub(crate) const fn frames(&self) -> u64 {
        self.next
    }

    /// Adds the entries of journal frame `frame`.
    ///
    /// Frames may be left out, as damage leaves them out; what the next says of those before it is then believed.
    ///
    /// # Errors
    /// When an entry is not one the log writes, a certificate does not follow the chain, or the frame does not name the one
    /// before that it must.
    pub(crate) fn add(&mut self, columns: &Columns<'_>, frame: u64) -> Result<(), DecodeError> {
        let is_next = self.next == frame;
        self.next = frame.saturating_add(1);
        for index in 0..columns.len() {
            let entry = columns.entry(index)?;
            let named = (index == 0).then(|| telling_before(&entry)).flatten();
            if index == 0 && is_next && named != self.telling {
                let reason = "does not name the frame before that says more than heads";
                return Err(DecodeError::new("journal entry", 0, reason));
            }
            match named {
                Some(_) => self.telling = named,
                None => self.add_entry(&entry, frame)?,
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &Entry<'_>, frame: u64) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_not_utf8| error("is not text"));
        if is_telling(entry) {
            self.telling = Some(frame);
        }
        match entry.action {
            action::STREAM_CREATE => {
                let name = StreamName::new(text(entry.key)?)
                    .map_err(|_bad_name| error("creates a stream with a bad name"))?;
                let config = StreamConfig::from_text(text(entry.payload)?)
                    .ok_or_else(|| error("creates a stream with an unknown configuration"))?;
                if self.streams.iter().any(|(known, _)| *known == name) {
                    return Err(error("creates a stream that exists"));
                }
                self.streams.push((name, config));
            }
            action::KEY_CERTIFY => {
                let link = Link::from_note(entry.payload, self.last_key())?;
                let successor = VerifierKey::new(self.last_key().name(), link.successor)?;
                self.keys.push((successor, frame));
                self.certificates.push((link, frame));
            }
            action::HEADS => {
                let heads = heads_of(entry)?;
                self.heads
                    .extend(heads.into_iter().map(|head| (head, frame)));
            }
            action::SUBJECTS => self.add_slots(text(entry.key)?, text(entry.payload)?)?,
            action::SUBJECT_ERASE => {
                self.add_erasure(text(entry.key)?, text(entry.payload)?, frame)?;
            }
            action::LOG_CREATE | action::RECOVER => {}
            _ => return Err(error("has an unknown action")),
        }
        Ok(())
    }

    fn add_slots(&mut self, key: &str, payload: &str) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let malformed = || error("does not say how many slots of subjects there are");
        let slots = SignedSlots {
            count: number(key).ok_or_else(malformed)?,
            digest: SlotsDigest::from_bytes(from_hexadecimal(payload).ok_or_else(malformed)?),
        };
        let is_same = slots.count == self.slots.count && slots != self.slots;
        if slots.count < self.slots.count || is_same {
            return Err(error("takes slots of subjects back"));
        }
        self.slots = slots;
        Ok(())
    }

    fn add_erasure(&mut self, key: &str, payload: &str, frame: u64) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let malformed = || error("does not say which slot of subjects is erased");
        let slot = number(key).ok_or_else(malformed)?;
        let pseudonym = from_hexadecimal(payload).ok_or_else(malformed)?;
        let erasure = Erasure { pseudonym, frame };
        if slot >= self.slots.count || self.erasures.insert(slot, erasure).is_some() {
            return Err(error("erases a slot that is none, or is erased already"));
        }
        Ok(())
    }

    /// The key certified last.
    #[expect(
        clippy::expect_used,
        reason = "the chain begins with the anchor and only grows"
    )]
    pub(crate) fn last_key(&self) -> &VerifierKey {
        &self.keys.last().expect("the chain is never empty").0
    }

    /// The checkpoint in `note`, and the place, in the chain from 0, of the latest key that signed it under the name `origin`.
    ///
    /// Looks for the key from the newest back, which is the one that signed most of what is asked for.
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

    /// Whether `key` is one of the chain.
    pub(crate) fn has_key(&self, key: &VerifierKey) -> bool {
        self.keys.iter().any(|(known, _)| known.key() == key.key())
    }
}
