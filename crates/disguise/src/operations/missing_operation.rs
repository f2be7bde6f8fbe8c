//! Operations of the log that a database has missed, with the prospect of doing them again.

use probity_format::Timestamp;

use crate::records::name::digits;
use crate::transaction::operation::LoggedOperation;
use crate::transaction::settled::SettledBy;

/// An operation that the database has missed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingOperation {
    /// The action of its entry.
    pub action: String,
    /// The disguise or hold that it was about.
    pub key: String,
    /// The name of the operation in the log, by which it can be dismissed; absent where its entry cannot be read.
    pub operation: Option<String>,
    /// The time at which it was done.
    pub time: Timestamp,
    /// The prospect of doing it again.
    pub outlook: Replayability,
}

impl MissingOperation {
    pub(super) fn of(told: &LoggedOperation, outlook: Replayability) -> Self {
        Self {
            action: told.action.clone(),
            key: told.key.clone(),
            operation: told.unread.is_none().then(|| digits(&told.id)),
            time: told.time,
            outlook,
        }
    }
}

/// The prospect, or the outcome, of doing a missing operation again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayability {
    /// No obstacle is known; only doing it again can tell for certain.
    Possible,
    /// The operation was done again.
    Done,
    /// Nothing is left to do: its person took it back whole since.
    TakenBack,
    /// Nothing is left to do: it was cut off before its commit, and the same was asked for again.
    AskedAgain,
    /// The operation was done again, and hid other rows than then.
    Otherwise(String),
    /// The operation cannot be done again, for this reason.
    Not(String),
}

impl Replayability {
    /// Returns one or two words for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Done | Self::Otherwise(_) => "done",
            Self::TakenBack => SettledBy::Reveal.as_str(),
            Self::AskedAgain => SettledBy::Repetition.as_str(),
            Self::Not(_) => "not done",
        }
    }

    /// Returns the reason why it cannot be done again, or how it was done otherwise than then, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Not(why) | Self::Otherwise(why) => Some(why),
            Self::Possible | Self::Done | Self::TakenBack | Self::AskedAgain => None,
        }
    }

    pub(super) const fn is_left(&self) -> bool {
        matches!(self, Self::Not(_))
    }
}
