//! The entry that every operation leaves in a log, without personal data in clear.

use probity_format::{Entry, Outcome, Timestamp};

use crate::database::value::Value;
use crate::error::Error;
use crate::records::subject::Naming;

/// Takes entries, durably, before their operation is committed.
///
/// Implementers may not return before the entry is durable; when they fail, the operation is undone.
pub trait Sink {
    /// Takes `entry`.
    ///
    /// # Errors
    /// Whatever kept the entry from becoming durable.
    fn append(&mut self, entry: &Entry<'_>)
    -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

impl<F> Sink for F
where
    F: FnMut(&Entry<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>>,
{
    fn append(
        &mut self,
        entry: &Entry<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self(entry)
    }
}

/// The operations that delete what nobody may read any more.
const REMOVING: [&str; 9] = [
    "apply", "cancel", "decay", "expire", "forget", "key", "password", "replay", "reveal",
];

/// The actions that change nothing.
const READING: [&str; 4] = [
    "disguise.export",
    "disguise.list",
    "disguise.speaks-for",
    "disguise.subject-name",
];

/// An operation as it was asked for: what its entry says whether it was done or refused.
pub(crate) struct OperationRequest<'a> {
    pub(crate) action: &'static str,
    /// The disguise or the hold, when it is about one.
    pub(crate) key: String,
    pub(crate) user: Option<&'a Value>,
    pub(crate) time: Timestamp,
    /// The actor, if it is not the person whose data it is.
    pub(crate) actor: &'a str,
    pub(crate) basis: &'a str,
}

impl<'a> OperationRequest<'a> {
    pub(crate) const fn new(
        action: &'static str,
        key: String,
        user: Option<&'a Value>,
        time: Timestamp,
    ) -> Self {
        Self {
            action,
            key,
            user,
            time,
            actor: "",
            basis: "",
        }
    }

    /// Returns whether it changes something of disguises or people.
    pub(crate) fn changes(&self) -> bool {
        !READING.contains(&self.action)
    }

    /// Returns whether it deletes something that must not be readable any more: rows of people,
    /// records, or their keys.
    pub(crate) fn removes(&self) -> bool {
        let action = self.action.strip_prefix("disguise.");
        action.is_some_and(|action| REMOVING.contains(&action))
    }
}

/// Sends the outcome of `asked` to the sink; the user appears only under a name that `naming` makes
/// with the salt.
pub(crate) fn tell(
    sink: &mut dyn Sink,
    (naming, salt): (&Naming, &[u8]),
    asked: &OperationRequest<'_>,
    outcome: Outcome,
    payload: &str,
) -> Result<(), Error> {
    let subject = asked.user.map(|user| naming.of(salt, &user.principal()));
    let subject = subject.transpose()?;
    let mut entry = Entry::new(asked.time, asked.action, asked.key.as_bytes());
    if let Some(subject) = &subject {
        entry.subjects = probity_format::Subjects::joined(subject);
    }
    entry.actor = asked.actor;
    entry.basis = asked.basis;
    entry.outcome = outcome;
    entry.payload = payload.as_bytes();
    sink.append(&entry).map_err(Error::Audit)
}

/// Returns the time as databases write it: UTC, whole seconds.
pub(crate) fn written(time: Timestamp) -> String {
    let seconds = time.nanoseconds().div_euclid(1_000_000_000);
    // All of these seconds are in the years that it writes, so there is always a text.
    jiff::Timestamp::from_second(seconds)
        .map(|it| it.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .unwrap_or_default()
}
