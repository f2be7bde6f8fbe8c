//! What an operation that was missed comes to.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use crate::crypto::suite::PublicKey;
use crate::database::value::Value;
use crate::error::DisguiseId;
use crate::execute::apply::{ApplyRequest, Forgotten};
use crate::records::hold::HoldId;

/// What one missing operation comes to.
pub(super) enum ReplayAction<'a> {
    Apply {
        id: DisguiseId,
        request: ApplyRequest<'a>,
        /// The key that the person had then.
        key: Option<PublicKey>,
        forgotten: Forgotten,
        /// It was one of decay, which notes how the row of the person is.
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
    /// A reveal ended what went on in chunks. Whatever else it did takes the credential.
    Reveal(Ends),
    Register(Value, PublicKey),
    /// The registration under this key ends, whosever id it was.
    Unregister(PublicKey),
    HoldPerson(HoldId, Value),
    HoldDisguise(HoldId, DisguiseId),
    Lift(HoldId),
    Forget {
        person: Option<Value>,
        /// Whose registration goes along.
        leaver: Option<Leaver>,
        records: BTreeSet<String>,
        /// The holds that stand in its way.
        bound: Bound,
        ends: Option<Ends>,
    },
    /// Later operations made it count for nothing.
    Nothing,
}

impl ReplayAction<'_> {
    /// Returns whom it is about, if it is about one person.
    pub(super) fn person(&self) -> Option<&Value> {
        match self {
            Self::Apply { request, .. } | Self::Schedule { request, .. } => request.user.as_ref(),
            Self::Register(user, _) | Self::HoldPerson(_, user) => Some(user),
            Self::Forget { person, .. } => person.as_ref(),
            _ => None,
        }
    }

    /// Returns which disguises in chunks it ends.
    pub(super) const fn ends(&self) -> Option<&Ends> {
        match self {
            Self::Cancel(ends) | Self::Reveal(ends) => Some(ends),
            Self::Forget { ends, .. } => ends.as_ref(),
            _ => None,
        }
    }
}

/// Who had everything forgotten, and with which key, where the entry says it: whoever registered since has another.
pub(super) struct Leaver {
    pub(super) user: Value,
    pub(super) key: Option<PublicKey>,
}

/// The holds that stand in the way of destroying records again.
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
    /// How many rows were hidden, where the entry says it and its beginning is not missing, too.
    pub(super) hidden: Option<u64>,
    /// What takes the credential.
    pub(super) rest: Option<&'static str>,
}
