//! Placing and lifting legal holds.

use super::engine::Engine;
use crate::crypto::random;
use crate::database::Database;
use crate::error::Error;
use crate::records::hold::{self, Authority, Hold, HoldId, Holding};
use crate::records::settings;
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;

impl<D: Database> Engine<D> {
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
    pub fn hold(&mut self, what: Holding<'_>, authority: &Authority<'_>) -> Result<HoldId, Error> {
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
            ..asked("disguise.hold", id, authority)
        };
        self.operation(&asked, |engine| {
            authority.check()?;
            match what {
                Holding::Person(user) => {
                    engine.refresh()?;
                    engine.refuse_without_row(user)?;
                }
                Holding::Away(user) => {
                    engine.refresh()?;
                    engine.refuse_with_row(user)?;
                }
                Holding::Disguise(_) => {}
            }
            let salt = settings::salt(&mut engine.database)?;
            hold::place(&mut engine.database, id, what.name(&salt), authority)?;
            engine.done(&asked, payload.clone())
        })?;
        Ok(id)
    }

    /// Lifts a hold.
    ///
    /// # Errors
    /// [`Error::NoSuchHold`], [`Error::Value`] when actor or basis cannot be recorded, [`Error::Database`],
    /// [`Error::Audit`].
    pub fn lift(&mut self, id: HoldId, authority: &Authority<'_>) -> Result<(), Error> {
        let asked = asked("disguise.lift", id, authority);
        self.operation(&asked, |engine| {
            authority.check()?;
            hold::lift(&mut engine.database, id)?;
            engine.done(&asked, Payload::new())
        })
    }

    /// Returns the holds in force on a person or a disguise, or all of them, the oldest first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn holds(&mut self, what: Option<Holding<'_>>) -> Result<Vec<Hold>, Error> {
        self.transaction(|engine| {
            let salt = settings::salt(&mut engine.database)?;
            let name = what.map(|what| what.name(&salt));
            hold::list(&mut engine.database, name.as_deref())
        })
    }
}

fn asked<'a>(action: &'static str, id: HoldId, authority: &Authority<'a>) -> OperationRequest<'a> {
    // An authority that cannot be recorded is refused, and must not keep the refusal from being
    // recorded.
    let fits = authority.check().is_ok();
    let said = |text: &'a str| if fits { text } else { "" };
    OperationRequest {
        actor: said(authority.actor),
        basis: said(authority.basis),
        ..OperationRequest::new(action, id.to_string(), None, authority.time)
    }
}
