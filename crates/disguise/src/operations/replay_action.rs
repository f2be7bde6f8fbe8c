//! Actions that do a missing operation again.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use crate::crypto::suite::PublicKey;
use crate::database::value::Value;
use crate::error::DisguiseId;
use crate::execute::apply::{ApplyRequest, Forgotten};
use crate::records::hold::HoldId;

/// The action for one missing operation.
pub(super) enum ReplayAction<'a> {
    Apply {
        id: DisguiseId,
        request: ApplyRequest<'a>,
        /// The key that the person had then.
        key: Option<PublicKey>,
        forgotten: Forgotten,
        /// The operation came from decay, which also stores the state of the person's row.
        is_decay: bool,
    },
    Schedule {
        id: DisguiseId,
        request: ApplyRequest<'a>,
        /// The key that the person had then.
        key: Option<PublicKey>,
        due: Timestamp,
    },
    Cancel(Ends),
    /// A disguise is not made again; these do not wait any more either.
    Unschedule {
        ids: BTreeSet<DisguiseId>,
        /// The reason for which it stays missing, where something of it was hidden at the end.
        rest: Option<String>,
    },
    /// Ends the disguises in chunks that a reveal ended. The rest of the reveal needs the
    /// credential.
    Reveal(Ends),
    Register(Value, PublicKey),
    /// Ends the registration under this key, whichever id it has.
    Unregister(PublicKey, Ends),
    HoldPerson(HoldId, Value),
    HoldDisguise(HoldId, DisguiseId),
    Lift(HoldId),
    Forget {
        person: Option<Value>,
        /// The person whose registration ends, too.
        leaver: Option<Leaver>,
        records: BTreeSet<String>,
        /// The holds that refuse it.
        bound: Bound,
        ends: Option<Ends>,
    },
    /// Later operations made it irrelevant.
    Nothing,
}

impl ReplayAction<'_> {
    /// Returns the person it concerns, if it concerns one person.
    pub(super) fn person(&self) -> Option<&Value> {
        match self {
            Self::Apply { request, .. } | Self::Schedule { request, .. } => request.user.as_ref(),
            Self::Register(user, _) | Self::HoldPerson(_, user) => Some(user),
            Self::Forget { person, .. } => person.as_ref(),
            _ => None,
        }
    }

    /// Returns the disguises in chunks that it ends.
    pub(super) const fn ends(&self) -> Option<&Ends> {
        match self {
            Self::Cancel(ends) | Self::Reveal(ends) | Self::Unregister(_, ends) => Some(ends),
            Self::Forget { ends, .. } => ends.as_ref(),
            _ => None,
        }
    }
}

/// The person who had everything forgotten, and their key if the entry has it. Somebody who
/// registered since has another key.
pub(super) struct Leaver {
    pub(super) user: Value,
    pub(super) key: Option<PublicKey>,
}

/// The holds that may keep records from being destroyed again.
pub(super) enum Bound {
    /// None: others are in the place of these records.
    Free,
    /// Those on the person and on these disguises.
    Disguises(Vec<DisguiseId>),
    /// Those on the person and on any disguise, for the entry does not say which ones the records are of.
    AnyDisguise,
}

/// The disguises in chunks that an operation ended, or that went on without its person.
pub(super) struct Ends {
    /// The one that it was about; all those of its person where it was about everything.
    pub(super) id: Option<DisguiseId>,
    /// Those of them that went on then, where the entry says it.
    pub(super) went_on: Option<Vec<DisguiseId>>,
    /// Everybody's goes on without the person, and not for the operation as a whole.
    pub(super) leaves_out: bool,
    /// The person spoke for no placeholders.
    pub(super) is_alone: bool,
    /// The key of the person.
    pub(super) key: Option<PublicKey>,
    /// The number of hidden rows, if the entry has it and the beginning is not missing, too.
    pub(super) hidden: Option<u64>,
    /// The part of the operation that needs the credential.
    pub(super) rest: Option<&'static str>,
}
