//! The errors of the log, by the party that must act.

use std::io;
use std::sync::Arc;

use probity_format::{EntryError, Version};

use crate::advice;

/// The reason why an entry was not taken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The entry breaks a rule of the format; nothing was appended.
    #[error("the entry is refused")]
    Entry(#[from] EntryError),
    /// No room became free in time; nothing was appended and trying again may succeed.
    #[error("the queue is full: the log takes entries slower than they arrive")]
    Full,
    /// The log was closed; nothing was appended.
    #[error("the log is closed")]
    Closed,
    /// A storage error ended all writing; entries that were not durable by then may be lost.
    #[error("the log is poisoned by an earlier storage error")]
    Poisoned(#[source] Arc<LogError>),
    /// The idempotency key belongs to an entry with other content; nothing was appended.
    #[error("the idempotency key stands for {}, which says something else", shown(*index))]
    KeyUsed {
        /// Index of that entry in the stream, once it is durable.
        index: Option<u64>,
    },
    /// The stream's idempotency keys cannot be read. Nothing was appended, and entries without a
    /// key are still accepted.
    #[error("whether the stream holds an entry with this idempotency key cannot be read")]
    KeysUnread(#[source] Arc<LogError>),
    /// The appender does not remember the ticket any more.
    #[error("the ticket is too old to be redeemed")]
    TicketExpired,
}

fn listed(losses: &[LogError]) -> String {
    let texts: Vec<String> = losses.iter().map(ToString::to_string).collect();
    texts.join("; and ")
}

fn shown(index: Option<u64>) -> String {
    index.map_or_else(
        || "an entry that is being written".into(),
        |index| format!("entry {index} of the stream"),
    )
}

/// The reason why a log could not be created, opened, extended or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no log, or something else, at that place.
    #[error("{path} is not a log")]
    NotALog {
        /// The place.
        path: String,
    },
    /// The creation of the log was cut short before anything was recorded in it.
    #[error("the log at {path} was never completely created")]
    Unfinished {
        /// The place.
        path: String,
    },
    /// A log exists already where one was to be created.
    #[error("{path} holds a log already")]
    Exists {
        /// The place.
        path: String,
    },
    /// The log is of a format this build does not know.
    #[error("the log has format {found}, this build knows format {known}")]
    Version {
        /// The version found.
        found: u64,
        /// The version that this build knows.
        known: u64,
    },
    /// The log is of an earlier format, which is read and verified but never written.
    #[error("the log has format {}, this build writes format {}", found.number(), Version::NEWEST.number())]
    OlderVersion {
        /// The version found.
        found: Version,
    },
    /// Frames that were durable are damaged or gone. They were not signed for yet, so nothing else
    /// would show it.
    #[error("{} of stream {stream} that had been durable damaged or gone, from frame {found} on", frames(durable.saturating_sub(*found)))]
    Lost {
        /// The stream.
        stream: String,
        /// Frames found.
        found: u64,
        /// Frames that were durable.
        durable: u64,
    },
    /// Unsigned entries do not open because their subjects' keys are missing, although the subjects
    /// were not erased.
    #[error(
        "subjects/slots lacks the keys of {subjects} subject(s) of entries that nobody erased, the first in frame {frame} of stream {stream}; {}",
        advice::slots(Version::V3, *.has_closed)
    )]
    KeysLost {
        /// The stream of the first such frame.
        stream: String,
        /// The first such frame.
        frame: u64,
        /// The number of subjects without a key.
        subjects: u64,
        /// True when the journal records an earlier loss of keys that was accepted: a copy of
        /// `subjects/` from before that lacks the keys made since.
        has_closed: bool,
    },
    /// More than one of these losses: of several streams, or of frames and of keys. They are
    /// accepted together or not at all.
    #[error("{}", listed(.0))]
    Losses(Vec<Self>),
    /// An invariant of the log does not hold. It stops rather than sign something wrong.
    #[error("a defect of probity: {what}")]
    Defect {
        /// The invariant that does not hold, one clause.
        what: &'static str,
    },
    /// Another process writes to this log.
    #[error("another process is writing to {path}")]
    Locked {
        /// The place.
        path: String,
    },
    /// The root key does not open the log's keys, and nothing else shows which of them belongs to
    /// another log.
    #[error(
        "the root key does not open the folder keys/: it is another log's key, or keys/ is another log's"
    )]
    WrongKey,
    /// The verifier key given is the log's witness key.
    #[error("the key given is the log's witness key, which vouches for nothing alone")]
    WitnessKey,
    /// The stream does not exist.
    #[error("there is no stream {name}")]
    NoStream {
        /// Its name.
        name: String,
    },
    /// The stream exists with another configuration, or may not be created.
    #[error("stream {name} cannot be created: {reason}")]
    Stream {
        /// Its name.
        name: String,
        /// The reason, one clause.
        reason: &'static str,
    },
    /// The stream is the log's own.
    #[error("stream {name} is the log's own: nobody else creates it or appends to it")]
    Reserved {
        /// Its name.
        name: String,
    },
    /// The second copy of the heads is ahead: an older state of the log was put back.
    #[error(
        "the log was rolled back: stream {stream} has {} here, but {signed} were signed before",
        frames(*found)
    )]
    RolledBack {
        /// The stream.
        stream: String,
        /// Frames found.
        found: u64,
        /// Frames signed for earlier.
        signed: u64,
        /// True where nothing else of the log is older than it was: the segments of the stream are.
        is_alone: bool,
    },
    /// The place of the second copies holds those of another log: one folder belongs to one log.
    #[error("{heads} holds the second copies of the heads of another log, {of}")]
    HeadsOfAnother {
        /// The place of the second copies.
        heads: String,
        /// The name of the log that they say they are of.
        of: String,
    },
    /// The second copies would lie in the log itself: an older copy of the log brings back older
    /// ones.
    #[error(
        "the second copies of the heads in {heads} lie in the folder of the log, {path}, and are put back together with it"
    )]
    HeadsInLog {
        /// The place of the second copies.
        heads: String,
        /// The place of the log.
        path: String,
    },
    /// The place of the second copies is the folder of a log, or lies in one, whose files are nobody else's.
    #[error(
        "{heads} is the folder of a log, or lies in one, and second copies of heads would lie among its files"
    )]
    HeadsAreLog {
        /// The place of the second copies.
        heads: String,
    },
    /// The second copy of a head is gone since this writer wrote or read it.
    #[error(
        "{heads} does not hold the second copy of the head of stream {stream} any more, which this writer left there: the folder was moved, emptied \
         or unmounted"
    )]
    HeadsGone {
        /// The place of the second copies.
        heads: String,
        /// The stream.
        stream: String,
    },
    /// The log did not write the stored bytes.
    #[error("{place}: {reason}")]
    Broken {
        /// File and offset.
        place: String,
        /// The fault, one clause.
        reason: String,
    },
    /// Evidence that a reader needs is damaged or gone.
    #[error("{place}: {reason}; {missing}")]
    Damaged {
        /// Stream, and file or frame.
        place: String,
        /// The fault, one clause.
        reason: String,
        /// The entries that cannot be read from the requested streams.
        missing: Missing,
    },
    /// The storage failed.
    #[error("cannot {action} {name}")]
    Storage {
        /// The action that failed.
        action: &'static str,
        /// The name of the file.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A storage error ended all writing earlier.
    #[error("the log is poisoned by an earlier storage error")]
    Poisoned(#[source] Arc<Self>),
    /// The options contradict each other or the limits.
    #[error("option {name}: {reason}")]
    Option {
        /// Its name.
        name: &'static str,
        /// The fault, one clause.
        reason: String,
    },
}

/// `count` frames in words.
pub(crate) fn frames(count: u64) -> String {
    match count {
        1 => "1 frame".into(),
        many => format!("{many} frames"),
    }
}

/// Describes a checkpoint over `covered` frames whose second copy is over `copied`, although a
/// writer advances the copy before it publishes.
pub(crate) fn ahead(covered: u64, copied: u64) -> String {
    let covered = frames(covered);
    format!(
        "covers {covered}, its second copy {copied}, which normal writing cannot produce: another folder of second copies (PROBITY_HEADS) was \
         used, an older copy was restored, or someone else signed"
    )
}

/// The number of entries that a reader cannot reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Signed entries that cannot be read, as far as records tell.
    pub entries: u64,
    /// True when there are more, of which no record is left.
    pub is_least: bool,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let least = if self.is_least { "at least " } else { "" };
        match self.entries {
            0 if self.is_least => f.write_str("how many entries are missing is unknown"),
            0 => f.write_str("no entry is missing"),
            1 => write!(f, "{least}1 entry is missing"),
            many => write!(f, "{least}{many} entries are missing"),
        }
    }
}
