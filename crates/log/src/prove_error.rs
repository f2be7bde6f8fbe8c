//! The reasons why an entry could not be proved.

use probity_format::Timestamp;
use probity_format::stream::StreamName;
use probity_format::time::format_time;

use crate::accepted::AcceptedLoss;
use crate::advice;
use crate::error::LogError;

/// The reason why an entry could not be proved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// There is no entry with that index.
    #[error("stream {stream} has {entries} entries, none with index {index}{}", lost_before(.lost))]
    NoEntry {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
        /// Entries there are, counted from index 0.
        entries: u64,
        /// The accepted losses of frames, any of which may have held the entry.
        lost: Vec<AcceptedLoss>,
    },
    /// The entry is durable, but no published checkpoint covers it yet.
    #[error(
        "entry {index} of stream {stream} is not covered by a checkpoint yet, which ends before entry {covered}"
    )]
    Unpublished {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
        /// Entries that the checkpoint covers.
        covered: u64,
    },
    /// The head that the recipient keeps is older than the entry.
    #[error(
        "the head that the recipient keeps ends before entry {covered} of stream {stream}, and entry {index} is behind it"
    )]
    BehindHead {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
        /// Entries that the head covers.
        covered: u64,
    },
    /// The entry is behind the signed part of a version 2 log: nothing shows who wrote it.
    #[error(
        "entry {index} of stream {stream} stands behind the checkpoint, which ends before entry {covered}: nobody signed it, and anybody may have written it"
    )]
    Unsigned {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
        /// Entries that the checkpoint covers.
        covered: u64,
    },
    /// The key of the entry's subject was destroyed, so the entry cannot be shown.
    #[error("entry {index} of stream {stream} is erased: the key of its subject was destroyed")]
    Erased {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
    },
    /// The key of the entry's subject is gone without an erasure, and the loss was accepted.
    #[error(
        "entry {index} of stream {stream} was given up: the key of its subject is lost, and the loss was accepted at {}",
        format_time(*.time)
    )]
    GivenUp {
        /// The stream.
        stream: String,
        /// The index asked for.
        index: u64,
        /// The time at which the loss was accepted.
        time: Timestamp,
    },
    /// The segment that held the entry is not there.
    #[error("entry {index} is gone: {segment} was pruned or is lost")]
    Gone {
        /// The index asked for.
        index: u64,
        /// The segment.
        segment: String,
    },
    /// The head that the recipient keeps does not fit any proof.
    #[error("the head that the recipient keeps {reason}")]
    Head {
        /// The stream of which a head was wanted.
        stream: String,
        /// The reason, one clause.
        reason: &'static str,
    },
    /// The log signed the head that the recipient keeps, and has not grown from it.
    #[error("the head that the recipient keeps {reason}")]
    NotGrown {
        /// The stream of the head.
        stream: String,
        /// The reason, one clause.
        reason: &'static str,
    },
    /// The recipient's key does not lead to the checkpoint.
    #[error("the recipient's key {reason}")]
    Key {
        /// The reason, one clause.
        reason: &'static str,
    },
    /// The head of the stream is to be signed again, and the key that signs now is not in `keys/`.
    #[error(
        "keys/signing.key is not the key that signed the journal last, which must sign the head of the stream again: {}",
        advice::SIGNING_KEY
    )]
    KeyMoved,
    /// The head of the journal has the signature of its witness key, and of a key that the journal
    /// as it was read does not certify.
    #[error(
        "the journal's checkpoint is signed by a key that the journal does not certify: a writer may have changed its key meanwhile, so try again; if it stays so, verify the log"
    )]
    HeadMoved,
    /// The log could not be read, or is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// The clauses for losses that may have taken the entry.
fn lost_before(losses: &[AcceptedLoss]) -> String {
    let clauses = losses
        .iter()
        .map(|loss| format!("; entries lost earlier may have had that index: {loss}"));
    clauses.collect()
}

impl ProveError {
    /// The error for a kept head of `stream`.
    pub(crate) fn of_head(stream: &StreamName, reason: &'static str) -> Self {
        let stream = stream.to_string();
        Self::Head { stream, reason }
    }
}
