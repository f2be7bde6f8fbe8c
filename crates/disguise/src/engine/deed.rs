//! What an operation that was missed comes to.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use crate::apply::{ApplyRequest, Forgotten};
use crate::hold::HoldId;
use crate::store::DisguiseId;
use crate::suite::PublicKey;
use crate::value::Value;

/// What one missing operation comes to.
pub(super) enum Deed<'a> {
    Apply {
        id: DisguiseId,
        request: ApplyRequest<'a>,
        /// The key that the person had then.
        key: Option<PublicKey>,
        forgotten: Forgotten,
    },
    Schedule {
        id: DisguiseId,
        request: ApplyRequest<'a>,
        due: Timestamp,
    },
    Cancel(DisguiseId),
    Register(Value, PublicKey),
    HoldPerson(HoldId, Value),
    HoldDisguise(HoldId, DisguiseId),
    Lift(HoldId),
    Forget {
        person: Option<Value>,
        /// Whose registration goes along.
        leaver: Option<Leaver>,
        records: BTreeSet<String>,
    },
    /// Later operations made it count for nothing.
    Nothing,
}

impl Deed<'_> {
    /// Whom it is about, if it is about one person.
    pub(super) fn person(&self) -> Option<&Value> {
        match self {
            Self::Apply { request, .. } | Self::Schedule { request, .. } => request.user.as_ref(),
            Self::Register(user, _) | Self::HoldPerson(_, user) => Some(user),
            Self::Forget { person, .. } => person.as_ref(),
            _ => None,
        }
    }
}

/// Who had everything forgotten, and with which key, where the entry says it: whoever registered since has another.
pub(super) struct Leaver {
    pub(super) user: Value,
    pub(super) key: Option<PublicKey>,
}
