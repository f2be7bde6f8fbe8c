//! Why an entry proof proves nothing, or nothing yet to whoever checks it.

use alloc::string::String;
use core::fmt;

use super::ProofError;
use crate::error::DecodeError;
use crate::note::NoteError;

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
    /// The proof shows nothing that leads from the key given to the one that signed.
    UnknownKey,
    /// The key given is the witness key, which proves nothing without a witness's cosignature or a remembered head.
    NotVouched,
    /// The key given is named as the witness key, and the journal in the proof bears the line of another one.
    OtherWitnessKey,
    /// The proof is of version 1, which shows no journal, and the recipient asked for something that is compared with one.
    NoJournal {
        /// What was to be compared, as a noun.
        asked: &'static str,
    },
    /// The witness given has not cosigned the head of the journal in the proof.
    NotCosigned {
        /// Its name.
        witness: String,
    },
    /// The witness given cosigned the head of the journal in the proof earlier than the recipient asks for.
    CosignedEarlier {
        /// Its name.
        witness: String,
        /// When it cosigned, in seconds since 1970.
        time: u64,
        /// The earliest time asked for, in seconds since 1970.
        since: u64,
    },
    /// The head of the journal that was remembered has another size than the proof's, and the proof does not show that one grew from
    /// the other.
    NotCompared {
        /// Size of the head that was remembered.
        kept: u64,
        /// Size of the proof's.
        size: u64,
    },
    /// The head that was remembered is not one of the journal of the proof's log.
    OtherHead {
        /// Its origin.
        kept: String,
        /// The name of the proof's log.
        log: String,
    },
    /// The journal in the proof is not the one that was remembered: another history was signed.
    OtherHistory {
        /// Size of the head that was remembered.
        kept: u64,
    },
    /// The chain of keys does not hold together from the key given on.
    Chain(DecodeError),
    /// The chain of keys ends before the keys that the proof begins with.
    ChainTooShort,
    /// A key certificate does not lead on.
    Certificate {
        /// Which, from 1; 0 for the first key itself.
        link: usize,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The journal in the proof does not show the certificate of the key that signed.
    Journal(DecodeError),
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
    /// Whether the proof may well hold, and what the recipient gave does not suffice to say so.
    pub const fn leaves_open(&self) -> bool {
        matches!(
            self,
            Self::UnknownKey
                | Self::NotVouched
                | Self::NoJournal { .. }
                | Self::NotCosigned { .. }
                | Self::CosignedEarlier { .. }
                | Self::NotCompared { .. }
                | Self::OtherHead { .. }
                | Self::ChainTooShort
        )
    }

    /// The part of the proof that broke, as one word.
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
            | Self::OtherHead { .. }
            | Self::Chain(_)
            | Self::ChainTooShort
            | Self::Certificate { .. }
            | Self::Journal(_) => "key-chain",
            Self::Checkpoint(_) | Self::OtherHistory { .. } => "checkpoint",
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
            Self::NotCompared { kept, size } => write!(
                f,
                "the proof stands on a journal of {size} frames and does not show how that and the one of {kept} frames that you keep belong together"
            ),
            Self::OtherHead { kept, log } => write!(
                f,
                "the head that you keep is one of {kept}, and the proof is of the log {log:?}"
            ),
            Self::OtherHistory { kept } => write!(
                f,
                "another history was signed: the journal did not grow from the head of {kept} frames that you keep"
            ),
            Self::Chain(_) => f.write_str("the chain of keys does not lead on from the key given"),
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
            | Self::OtherHead { .. }
            | Self::OtherHistory { .. }
            | Self::ChainTooShort => None,
        }
    }
}
