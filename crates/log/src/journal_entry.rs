//! The entries that the log writes into its journal about itself, as lines of text.

use probity_format::certificate::{Bound, Certificate};
use probity_format::content::PSEUDONYM_BYTES;
use probity_format::note::{NoteError, Signer as _, SigningKey, VerifierKey};
use probity_format::stream::{StreamConfig, StreamName};
use probity_format::{Entry, Timestamp};

use crate::journal::{SignedSlots, hexadecimal};
use crate::repairs::Repair;

/// Actions of journal entries.
pub(crate) mod action {
    /// The log came into being; the key is its origin.
    pub(crate) const LOG_CREATE: &str = "log.create";
    /// The log continues an older one; the key is the older log's origin, the payload its final
    /// signed state.
    pub(crate) const LOG_CONTINUE: &str = "log.continue";
    /// A stream came into being; the key is its name, the payload its configuration.
    pub(crate) const STREAM_CREATE: &str = "stream.create";
    /// A new signing key; the payload is its certificate.
    pub(crate) const KEY_CERTIFY: &str = "key.certify";
    /// The number of the frame that certifies the newest key, as the key of the entry.
    pub(crate) const KEY_NEWEST: &str = "key.newest";
    /// Recovery repaired something; the payload has a line for each repair.
    pub(crate) const RECOVER: &str = "recover";
    /// More slots of subjects are durable; the key is their number, the payload the digest over
    /// their labels.
    pub(crate) const SUBJECTS: &str = "subjects";
    /// A subject is erased; the key is the number of its slot, the payload its pseudonym.
    pub(crate) const SUBJECT_ERASE: &str = "subject.erase";
    /// The key of an erased subject is destroyed; key and payload as in its erasure.
    pub(crate) const SUBJECT_ERASED: &str = "subject.erased";
}

/// The purpose of a certificate's entry: the frames of `heads` that the certificate binds name every
/// head of another stream that an earlier key signed.
pub(crate) const ALL_NAMED: &str = "all-named";

/// Bytes of payload at which a list of heads or repairs goes on in another entry.
const PAYLOAD_BYTES: usize = 256 << 10;

/// One entry the log writes about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalEntry {
    pub(crate) action: &'static str,
    pub(crate) key: String,
    pub(crate) payload: String,
    /// [`ALL_NAMED`], or nothing.
    pub(crate) purpose: &'static str,
}

impl JournalEntry {
    pub(crate) fn log_create(origin: &str) -> Self {
        Self {
            action: action::LOG_CREATE,
            key: origin.to_owned(),
            payload: String::new(),
            purpose: "",
        }
    }

    pub(crate) fn stream_create(name: &StreamName, config: StreamConfig) -> Self {
        Self {
            action: action::STREAM_CREATE,
            key: name.to_string(),
            payload: config.to_string(),
            purpose: "",
        }
    }

    /// Names `frame` as the journal frame that certifies the newest key.
    pub(crate) fn key_newest(frame: u64) -> Self {
        Self {
            action: action::KEY_NEWEST,
            key: frame.to_string(),
            payload: String::new(),
            purpose: "",
        }
    }

    /// The repairs of recovery, a line for each, in as many entries as it takes.
    pub(crate) fn recover(repairs: &[Repair]) -> Vec<Self> {
        let lines = repairs.iter().map(|repair| repair.line() + "\n");
        Self::portions(action::RECOVER, lines)
    }

    /// The durable slots; recorded whenever there are more.
    pub(crate) fn subjects(slots: &SignedSlots) -> Self {
        Self {
            action: action::SUBJECTS,
            key: slots.count.to_string(),
            payload: hexadecimal(slots.digest.as_bytes()),
            purpose: "",
        }
    }

    /// The erasure of the subject with `pseudonym` in slot `slot`.
    pub(crate) fn subject_erase(slot: u64, pseudonym: &[u8; PSEUDONYM_BYTES]) -> Self {
        Self {
            action: action::SUBJECT_ERASE,
            key: slot.to_string(),
            payload: hexadecimal(pseudonym),
            purpose: "",
        }
    }

    /// The key of the subject with `pseudonym` in slot `slot` is destroyed.
    pub(crate) fn subject_erased(slot: u64, pseudonym: &[u8; PSEUDONYM_BYTES]) -> Self {
        Self {
            action: action::SUBJECT_ERASED,
            ..Self::subject_erase(slot, pseudonym)
        }
    }

    /// Entries with this action whose payloads are `parts`, several in one as long as they fit.
    pub(crate) fn portions(action: &'static str, parts: impl Iterator<Item = String>) -> Vec<Self> {
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
                    purpose: "",
                }),
            }
        }
        entries
    }

    /// The certificate of `successor` by `signer`; binds the streams `journal` and `heads` as they
    /// are. `heads` names all heads of other streams, where `is_all_named` says so.
    pub(crate) fn certificate(
        signer: &SigningKey,
        successor: &VerifierKey,
        journal: Bound,
        (heads, is_all_named): (Bound, bool),
    ) -> Result<Self, NoteError> {
        Ok(Self {
            action: action::KEY_CERTIFY,
            key: signer.verifier_key().encode(),
            payload: Certificate::new(successor.clone(), journal, Some(heads)).sign(signer)?,
            purpose: if is_all_named { ALL_NAMED } else { "" },
        })
    }

    pub(crate) fn entry(&self, time: Timestamp) -> Entry<'_> {
        Entry {
            payload: self.payload.as_bytes(),
            actor: "probity",
            purpose: self.purpose,
            taken: Some(time),
            ..Entry::new(time, self.action, self.key.as_bytes())
        }
    }
}
