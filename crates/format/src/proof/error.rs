//! Errors of entry proofs: the proof is invalid, or the recipient's trust is not sufficient to
//! accept it.

use alloc::string::String;
use core::fmt;

use super::ProofError;
use crate::error::DecodeError;
use crate::note::NoteError;

/// The reason why an entry proof is not accepted, by the step that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryProofError {
    /// The text is no entry proof.
    Form(DecodeError),
    /// The recipient's key does not have the log's name.
    OtherName {
        /// The name of the recipient's key.
        known: String,
        /// The name of the log.
        log: String,
    },
    /// No certificate in the proof leads from the recipient's key to the key that signed.
    UnknownKey,
    /// The recipient's key is the witness key, which needs a cosignature or a remembered head as
    /// well.
    NotVouched,
    /// The recipient's key is named as the witness key, but the journal in the proof has the
    /// signature line of another one.
    OtherWitnessKey,
    /// The proof has version 1 and holds no journal, which one of the recipient's conditions is
    /// compared with.
    NoJournal {
        /// The condition, as a noun.
        asked: &'static str,
    },
    /// The requested witness has not cosigned the head of the journal in the proof.
    NotCosigned {
        /// The name of the witness.
        witness: String,
    },
    /// The requested witness cosigned the head of the journal in the proof too early.
    CosignedEarlier {
        /// The name of the witness.
        witness: String,
        /// Time of the cosignature, in seconds since 1970.
        time: u64,
        /// Earliest time requested, in seconds since 1970.
        since: u64,
    },
    /// The remembered head of the journal has another size than the proof's, and the proof holds no
    /// consistency proof for it.
    NotCompared {
        /// Size of the remembered head.
        kept: u64,
        /// Size of the head in the proof.
        size: u64,
    },
    /// The journal in the proof grew from the remembered head, and the proof, of version 2, does not
    /// show which key was the newest under that.
    OlderKeyNotShown {
        /// Size of the remembered head.
        kept: u64,
    },
    /// Nothing leads from the key that was the newest under the remembered head to the key that
    /// signed.
    NotFromKept {
        /// Size of the remembered head.
        kept: u64,
    },
    /// The chain of keys shows that a key in the proof was replaced by one that is not the proof's.
    Replaced,
    /// The chain of keys holds no key of the proof, so it shows of none whether it was replaced.
    OtherKeys,
    /// The remembered head of a stream is of another stream than the proof's.
    OtherStream {
        /// The origin of the remembered head.
        kept: String,
        /// The origin of the proof's checkpoint.
        shown: String,
    },
    /// The remembered head of the stream has another size than the checkpoint in the proof.
    NotUnder {
        /// Size of the remembered head.
        kept: u64,
        /// Size of the checkpoint in the proof.
        size: u64,
        /// True if the remembered head covers the entry's frame.
        is_covered: bool,
    },
    /// The remembered head of the stream has the size of the checkpoint in the proof and another
    /// root: the log signed two histories.
    OtherRoot {
        /// Size of both.
        size: u64,
    },
    /// The remembered head is of the journal of another log.
    OtherHead {
        /// The origin of the remembered head.
        kept: String,
        /// The name of the proof's log.
        log: String,
    },
    /// The journal in the proof is inconsistent with the remembered head: the log signed two
    /// histories.
    OtherHistory {
        /// Size of the remembered head.
        kept: u64,
    },
    /// The chain of keys is invalid after the recipient's key or a key of the proof.
    Chain(DecodeError),
    /// The chain of keys ends before the first key of the proof.
    ChainTooShort,
    /// A key certificate is invalid.
    Certificate {
        /// Number of the certificate, from 1; 0 for the first key itself.
        link: usize,
        /// The reason.
        error: DecodeError,
    },
    /// The journal in the proof does not prove the certificate of the key that signed.
    Journal(DecodeError),
    /// The checkpoint is malformed or not signed by the last key of the chain.
    Checkpoint(NoteError),
    /// The record is not in the tree of the checkpoint.
    Tree(ProofError),
    /// The record does not belong to this log and stream.
    Record(DecodeError),
    /// The entry is not in the frame of the record.
    Entry(DecodeError),
}

impl EntryProofError {
    /// Returns whether the proof may be valid, but the recipient's trust is not sufficient to
    /// decide.
    pub const fn leaves_open(&self) -> bool {
        matches!(
            self,
            Self::UnknownKey
                | Self::NotVouched
                | Self::NoJournal { .. }
                | Self::NotCosigned { .. }
                | Self::CosignedEarlier { .. }
                | Self::NotCompared { .. }
                | Self::OlderKeyNotShown { .. }
                | Self::NotFromKept { .. }
                | Self::Replaced
                | Self::OtherKeys
                | Self::OtherStream { .. }
                | Self::NotUnder { .. }
                | Self::OtherHead { .. }
                | Self::Chain(_)
                | Self::ChainTooShort
        )
    }

    /// Returns the part of the proof that failed, as one word.
    pub const fn part(&self) -> &'static str {
        match self {
            Self::Form(_) => "form",
            Self::OtherName { .. }
            | Self::UnknownKey
            | Self::NotVouched
            | Self::OtherWitnessKey
            | Self::NoJournal { .. }
            | Self::NotCosigned { .. }
            | Self::CosignedEarlier { .. }
            | Self::NotCompared { .. }
            | Self::OlderKeyNotShown { .. }
            | Self::NotFromKept { .. }
            | Self::Replaced
            | Self::OtherKeys
            | Self::OtherHead { .. }
            | Self::Chain(_)
            | Self::ChainTooShort
            | Self::Certificate { .. }
            | Self::Journal(_) => "key-chain",
            Self::Checkpoint(_)
            | Self::OtherHistory { .. }
            | Self::OtherStream { .. }
            | Self::NotUnder { .. }
            | Self::OtherRoot { .. } => "checkpoint",
            Self::Tree(_) => "tree",
            Self::Record(_) => "record",
            Self::Entry(_) => "entry",
        }
    }
}

impl EntryProofError {
    /// Writes the errors about a head that the recipient remembers.
    fn fmt_of_kept(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCompared { kept, size } => write!(
                f,
                "the proof stands on a journal of {size} frames and does not show how that and the one of {kept} frames that you keep belong together"
            ),
            Self::OlderKeyNotShown { kept } => write!(
                f,
                "the journal in the proof grew from the head of {kept} frames that you keep, and the proof does not show which key was the newest there: a key replaced before could have continued it"
            ),
            Self::NotFromKept { kept } => write!(
                f,
                "nothing leads from the newest key under the head of {kept} frames that you keep to the key that signed: a key replaced before could have continued the journal"
            ),
            Self::OtherStream { kept, shown } => write!(
                f,
                "the head that you keep is one of {kept}, and the proof is of {shown}"
            ),
            Self::NotUnder { kept, size, .. } => write!(
                f,
                "the proof stands under a head of size {size}, the one that you keep has size {kept}: they cannot be compared"
            ),
            Self::OtherRoot { size } => write!(
                f,
                "another history was signed: the head of the stream that you keep has the same size {size} and another root"
            ),
            Self::OtherHead { kept, log } => write!(
                f,
                "the head that you keep is one of {kept}, and the proof is of the log {log:?}"
            ),
            Self::OtherHistory { kept } => write!(
                f,
                "another history was signed: the journal did not grow from the head of {kept} frames that you keep"
            ),
            other => f.write_str(other.part()),
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
            Self::UnknownKey => f.write_str("nothing in the proof leads from the key given to the one that signed"),
            Self::NotVouched => f.write_str(
                "the key given is the log's witness key or bears its name, and neither a witness nor a remembered head vouches for the journal",
            ),
            Self::OtherWitnessKey => f.write_str(
                "the journal in the proof has another witness key than the one given",
            ),
            Self::NoJournal { asked } => write!(
                f,
                "the proof is of version 1, which shows no journal, so {asked} says nothing about it"
            ),
            Self::NotCosigned { witness } => {
                write!(f, "the journal's head in the proof bears no cosignature of {witness:?}")
            }
            Self::CosignedEarlier { witness, time, since } => write!(
                f,
                "{witness:?} cosigned the journal's head in the proof {time} seconds after the beginning of 1970, before second {since}, the earliest that was asked for"
            ),
            Self::Replaced => f.write_str(
                "the chain of keys shows that the key that signed, or one that leads to it, was replaced by another",
            ),
            Self::OtherKeys => f.write_str(
                "the chain of keys holds no key of the proof, so it does not show whether the one that signed was replaced",
            ),
            Self::NotCompared { .. }
            | Self::OlderKeyNotShown { .. }
            | Self::NotFromKept { .. }
            | Self::OtherStream { .. }
            | Self::NotUnder { .. }
            | Self::OtherRoot { .. }
            | Self::OtherHead { .. }
            | Self::OtherHistory { .. } => self.fmt_of_kept(f),
            Self::Chain(_) => f.write_str("the chain of keys does not lead on from the key given or from a key of the proof"),
            Self::ChainTooShort => f.write_str(
                "the chain of keys ends before the key that signed: the proof is newer than the chain",
            ),
            Self::Journal(_) => {
                f.write_str("the journal in the proof does not show the certificate of the key that signed")
            }
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
            Self::Form(error)
            | Self::Record(error)
            | Self::Entry(error)
            | Self::Chain(error)
            | Self::Journal(error) => Some(error),
            Self::Certificate { error, .. } => Some(error),
            Self::Checkpoint(error) => Some(error),
            Self::Tree(error) => Some(error),
            Self::OtherName { .. }
            | Self::UnknownKey
            | Self::NotVouched
            | Self::OtherWitnessKey
            | Self::NoJournal { .. }
            | Self::NotCosigned { .. }
            | Self::CosignedEarlier { .. }
            | Self::NotCompared { .. }
            | Self::OlderKeyNotShown { .. }
            | Self::NotFromKept { .. }
            | Self::Replaced
            | Self::OtherKeys
            | Self::OtherStream { .. }
            | Self::NotUnder { .. }
            | Self::OtherRoot { .. }
            | Self::OtherHead { .. }
            | Self::OtherHistory { .. }
            | Self::ChainTooShort => None,
        }
    }
}
