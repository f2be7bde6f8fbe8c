//! The number of entries that are missing from the log, and the entry `gap` that records it.

use probity_format::entry::idempotency_digest;
use probity_format::{Digest, Entry, Outcome, Timestamp};
use probity_log::{AppendError, Appender, Log, StreamName};

use crate::config::OnLogFailure;
use crate::server::now;
use crate::sink::SinkError;

/// The number of missing entries, by the fate of their replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Missed {
    /// Entries of operations whose replies went out.
    pub let_go: u64,
    /// Entries of operations whose replies did not.
    pub withheld: u64,
}

/// The result of recording a `gap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Now,
    /// The `gap` was recorded before under the same number.
    Before,
}

impl Missed {
    /// `count` entries of operations whose replies were treated as `replies` says.
    pub(crate) const fn of(replies: OnLogFailure, count: u64) -> Self {
        match replies {
            OnLogFailure::Forward => Self {
                let_go: count,
                withheld: 0,
            },
            OnLogFailure::Refuse => Self {
                let_go: 0,
                withheld: count,
            },
        }
    }

    /// Both counts together.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            let_go: self.let_go.saturating_add(more.let_go),
            withheld: self.withheld.saturating_add(more.withheld),
        }
    }

    /// All of them.
    pub const fn total(self) -> u64 {
        self.let_go.saturating_add(self.withheld)
    }

    /// Those with one kind of reply, of which there are any.
    pub(crate) const fn first_kind(self) -> Self {
        match self.let_go {
            0 => self,
            let_go => Self {
                let_go,
                withheld: 0,
            },
        }
    }

    /// The others of a [kind](Self::first_kind).
    pub(crate) const fn other_kind(self) -> Self {
        match self.let_go {
            0 => Self {
                let_go: 0,
                withheld: 0,
            },
            _ => Self { let_go: 0, ..self },
        }
    }

    /// Records them, which are of one [kind](Self::first_kind), in `stream` of `log`, once however often it is called with the same `number`:
    /// durable when this returns.
    pub(crate) fn record(
        self,
        number: u128,
        log: &Log,
        stream: &StreamName,
    ) -> Result<Recorded, SinkError> {
        let (replies, missed) = match self.let_go {
            0 => ("withheld", self.withheld),
            let_go => ("let go", let_go),
        };
        let mut appender = log.appender(stream).map_err(failed)?;
        let payload = format!("{{\"command\":\"\",\"missed\":{missed},\"replies\":\"{replies}\"}}");
        let digest = idempotency_digest(&format!("gap {number:032x}")).map_err(failed)?;
        append(&mut appender, payload.as_bytes(), &digest)
    }
}

/// Records in `stream` of `log` that entries are missing and that nobody knows how many: durable when this returns.
pub(crate) fn record_unknown(log: &Log, stream: &StreamName) -> Result<(), SinkError> {
    let mut appender = log.appender(stream).map_err(failed)?;
    let payload = br#"{"command":"","missed":null,"replies":"unknown"}"#;
    appender
        .append_durable(&gap(now(), payload))
        .map_err(failed)?;
    Ok(())
}

fn append(appender: &mut Appender, payload: &[u8], digest: &Digest) -> Result<Recorded, SinkError> {
    let plain = gap(now(), payload);
    let keyed = Entry {
        idempotency: Some(digest),
        ..plain
    };
    match appender.append_durable(&keyed) {
        Ok(_) => Ok(Recorded::Now),
        Err(AppendError::KeyUsed { .. }) => Ok(Recorded::Before),
        // Of a stream that cannot be read back: told twice is better than not at all.
        Err(AppendError::KeysUnread(_)) => {
            appender.append_durable(&plain).map_err(failed)?;
            Ok(Recorded::Now)
        }
        Err(error) => Err(failed(error)),
    }
}

fn gap(time: Timestamp, payload: &[u8]) -> Entry<'_> {
    Entry {
        outcome: Outcome::Failed,
        payload,
        ..Entry::new(time, "gap", b"")
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> SinkError {
    SinkError::Failed(Box::new(error))
}
