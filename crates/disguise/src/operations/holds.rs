//! Placing and lifting legal holds.

use super::accounts;
use crate::crypto::random;
use crate::database::Database;
use crate::error::Error;
use crate::records::hold::{self, Authority, Hold, HoldId, Holding};
use crate::records::settings;
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;

/// The legal holds on people and disguises, from [`Engine::holds`](crate::Engine::holds).
pub struct Holds<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
}

impl<D: Database> Holds<'_, D> {
    /// Holds a person or a disguise: until it is lifted, nothing of the person is disguised or forgotten, and
    /// nothing of the disguise is forgotten; a reveal stays possible. Each hold stands until it is lifted itself.
    ///
    /// The id must be spelled as in the users table: a hold under another name would hold nothing.
    /// The table has no spelling for a person who is away, so [`Holding::Away`] names them.
    ///
    /// # Errors
    /// [`Error::Value`] when actor or basis cannot be recorded, when the users table has the person
    /// in another spelling, or when it has a person who is named as away; [`Error::NoSuchUser`],
    /// [`Error::Database`], [`Error::Audit`].
    pub fn place(&mut self, what: Holding<'_>, authority: &Authority<'_>) -> Result<HoldId, Error> {
        let id = HoldId(u64::from_le_bytes(random()?));
        let user = match what {
            Holding::Person(user) | Holding::Away(user) => Some(user),
            Holding::Disguise(_) => None,
        };
        let payload = match what {
            Holding::Person(_) | Holding::Away(_) => Payload::new(),
            Holding::Disguise(disguise) => Payload::new().with("disguise", disguise.to_string()),
        };
        let asked = OperationRequest {
            user,
            ..asked("disguise.hold", id.to_string(), authority)
        };
        self.transactions.operation(&asked, |open| {
            authority.check()?;
            match what {
                Holding::Person(user) => {
                    open.refresh()?;
                    accounts::refuse_without(open, user)?;
                }
                Holding::Away(user) => {
                    open.refresh()?;
                    accounts::refuse_nobody(open, user)?;
                    accounts::refuse_with(open, user)?;
                }
                Holding::Disguise(_) => {}
            }
            let salt = settings::salt(&mut open.database)?;
            hold::place(&mut open.database, id, what.name(&salt), authority)?;
            open.done(&asked, payload.clone())
        })?;
        Ok(id)
    }

    /// Lifts a hold.
    ///
    /// # Errors
    /// [`Error::NoSuchHold`], [`Error::Value`] when actor or basis cannot be recorded, [`Error::Database`],
    /// [`Error::Audit`].
    pub fn lift(&mut self, id: HoldId, authority: &Authority<'_>) -> Result<(), Error> {
        let asked = asked("disguise.lift", id.to_string(), authority);
        self.transactions.operation(&asked, |open| {
            authority.check()?;
            hold::lift(&mut open.database, id)?;
            open.done(&asked, Payload::new())
        })
    }

    /// Returns the holds in force on a person or a disguise, or all of them, the oldest first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn list(&mut self, what: Option<Holding<'_>>) -> Result<Vec<Hold>, Error> {
        self.transactions.transaction(|open| {
            let salt = settings::salt(&mut open.database)?;
            let name = what.map(|what| what.name(&salt));
            hold::list(&mut open.database, name.as_deref())
        })
    }
}

/// Returns the request of an operation on `key` that an authority decides.
pub(super) fn asked<'a>(
    action: &'static str,
    key: String,
    authority: &Authority<'a>,
) -> OperationRequest<'a> {
    // An authority that cannot be recorded is refused, and must not keep the refusal from being
    // recorded.
    let fits = authority.check().is_ok();
    let said = |text: &'a str| if fits { text } else { "" };
    OperationRequest {
        actor: said(authority.actor),
        basis: said(authority.basis),
        ..OperationRequest::new(action, key, None, authority.time)
    }
}
