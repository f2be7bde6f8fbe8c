//! Pending entries: the log records an operation before its commit, and afterwards any failure.

use std::mem;

use probity_format::{Outcome, Timestamp};

use super::audit::{OperationRequest, tell};
use super::latest::{self, Latest};
use super::operation::{self, CommitOutcome, OperationId};
use super::payload::Payload;
use super::transactions::Transactions;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::day::Day;
use crate::records::identity::Identity;
use crate::records::name::digits;
use crate::records::{refusal, registry, settings};

/// The action of a registration, after which the first log may be named still: nothing is hidden yet.
const REGISTER: &str = "disguise.register";
/// The remark where a log was noted because it was named, after registrations without any.
const NOTED: &str = "people were registered in this database without a log, and this one is noted as its log because it was named; \
     where the database is a restored backup of one that is recorded in another log, restore it again and replay that log first";

/// An operation that the transaction at hand notes, and that the log, if there is one, was told of
/// as done before it was.
pub(super) struct PendingEntry {
    pub(super) id: OperationId,
    /// The key by which the database remembers it.
    pub(super) key: Value,
    /// The salt of the database.
    pub(super) whole: Vec<u8>,
    /// The salt of its tenant.
    pub(super) salt: Vec<u8>,
    /// The name of the database in its entries.
    pub(super) database: String,
    pub(super) action: &'static str,
    pub(super) about: String,
    pub(super) user: Option<Value>,
    pub(super) time: Timestamp,
    pub(super) actor: String,
    pub(super) basis: String,
}

/// A credential that was refused for a person in a request.
pub(super) struct Guess {
    /// The name that it is counted under.
    pub(super) name: String,
    pub(super) salt: Vec<u8>,
    pub(super) action: &'static str,
    pub(super) about: String,
    pub(super) user: Value,
    pub(super) time: Timestamp,
    pub(super) actor: String,
    pub(super) basis: String,
}

impl PendingEntry {
    /// Returns the request that the entry concerns.
    fn asked(&self) -> OperationRequest<'_> {
        OperationRequest {
            actor: &self.actor,
            basis: &self.basis,
            ..OperationRequest::new(
                self.action,
                self.about.clone(),
                self.user.as_ref(),
                self.time,
            )
        }
    }
}

impl<D: Database> Transactions<D> {
    /// Notes an operation that is about to be committed, once nothing refuses it any more, and tells
    /// of it. Several operations of one request are checked together.
    pub(crate) fn done(
        &mut self,
        asked: &OperationRequest<'_>,
        payload: Payload,
    ) -> Result<(), Error> {
        self.check_put_off()?;
        // Of what was only read nobody asks whether it was committed.
        if self.sink.is_none() && !asked.changes() {
            return Ok(());
        }
        let told = Identity::read(&mut self.database)?;
        let whole = told.salt.clone();
        let salt = self.database.tenancy.salt(whole.clone());
        if self.sink.is_some() {
            let log = self.naming.log()?;
            told.refuse_other_log(log.as_ref())?;
            if asked.changes() {
                told.refuse_unsaid_log(log.as_ref())?;
            }
            let has_logged = told.may_have_log() && operation::has_logged(&mut self.database)?;
            if log.is_some() && !has_logged && self.is_noted_unsaid(asked, &told)? {
                self.remark = Some(NOTED);
            }
            told.put_log(&mut self.database, log.as_ref(), has_logged)?;
        } else if told.has_log() {
            return Err(Error::LogNeeded);
        } else if asked.action != REGISTER && told.may_have_log() {
            let has_logged = operation::has_logged(&mut self.database)?;
            told.put_untold(&mut self.database, has_logged)?;
        }
        let name = told.name(&salt);
        let day = self.sink.is_none().then(|| Day::of(asked.time));
        let (id, key) = operation::begin(&mut self.database, day)?;
        let payload = if self.sink.is_some() {
            self.following(payload, id)?
        } else {
            payload
        };
        let payload = operation::named(payload, &self.database.tenancy, &name, id);
        let promise = PendingEntry {
            id,
            key,
            whole,
            salt: salt.clone(),
            database: name,
            action: asked.action,
            about: asked.key.clone(),
            user: asked.user.cloned(),
            time: asked.time,
            actor: asked.actor.to_owned(),
            basis: asked.basis.to_owned(),
        };
        // Whatever the log says, the entry may be in it.
        self.promises.push(promise);
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let names = (&self.naming, salt.as_slice());
        tell(sink.as_mut(), names, asked, Outcome::Ok, &payload)
    }

    /// Returns the payload with the operations after which this one came, where they are known, and notes this one
    /// as the latest.
    fn following(&mut self, payload: Payload, id: OperationId) -> Result<Payload, Error> {
        let after = match mem::replace(&mut self.latest, Latest::Known(vec![id])) {
            Latest::Unkept => {
                self.latest = Latest::Unkept;
                return Ok(payload);
            }
            Latest::Unknown => None,
            Latest::Known(after) => Some(after),
        };
        let before = after.as_deref().unwrap_or_default();
        latest::put(&mut self.database, id, before)?;
        Ok(match after {
            None => payload,
            Some(after) => {
                let after: Vec<String> = after.iter().map(|id| digits(id)).collect();
                payload.with("after", after)
            }
        })
    }

    /// Returns whether the log at hand is noted as the first one although somebody was registered without
    /// any: the database may be a backup of one in which another log was named since. A replay has found
    /// the database in its log, and whoever separated it has said which log it has.
    fn is_noted_unsaid(
        &mut self,
        asked: &OperationRequest<'_>,
        told: &Identity,
    ) -> Result<bool, Error> {
        if !told.may_have_log() || told.has_history() || asked.action == operation::REPLAY {
            return Ok(false);
        }
        let registered = asked.user.filter(|_user| asked.action == REGISTER);
        registry::has_others(&mut self.database, registered)
    }

    /// Tells of what was refused: that an operation which was told of as done was not, or else that `asked` was not done.
    pub(crate) fn told<T>(
        &mut self,
        asked: &OperationRequest<'_>,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        let Err(error) = &outcome else {
            return outcome;
        };
        let told = if self.promises.is_empty() {
            self.tell_refused(asked, error)
        } else {
            self.retract(error)
        };
        match (told, error) {
            // That the log has failed, too, matters less than what may have been done.
            (Ok(()), _) | (_, Error::Unsettled(_)) => outcome,
            (Err(unrecorded), _) => Err(unrecorded),
        }
    }

    fn tell_refused(&mut self, asked: &OperationRequest<'_>, error: &Error) -> Result<(), Error> {
        if self.sink.is_none() {
            return Ok(());
        }
        let outcome = outcome_of(error);
        // In a transaction that is broken nothing can be read.
        let known = self.request.as_ref().map(|it| it.salt.clone());
        let salt = known.map_or_else(|| settings::salt(&mut self.database), Ok);
        let guess = match (&salt, error) {
            (Ok(salt), Error::WrongCredential) => self.guess(salt, asked)?,
            _ => None,
        };
        let refusals = match (guess, &mut self.request) {
            // It counts once the transaction is over, and is told of then.
            (Some(guess), Some(request)) => {
                request.guesses.push(guess);
                return Ok(());
            }
            (Some(guess), None) => self.count_refusal(&guess.name, asked.time),
            (None, _) => None,
        };
        let payload = operation::refused(&self.database.tenancy, refusals, error);
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        match salt {
            Ok(salt) => tell(
                sink.as_mut(),
                (&self.naming, &salt),
                asked,
                outcome,
                &payload,
            ),
            Err(Error::NotInstalled) => Ok(()),
            // The database that knows the salt is lost; without it nobody may be named.
            Err(_) => {
                let nobody = OperationRequest {
                    user: None,
                    key: asked.key.clone(),
                    ..*asked
                };
                tell(
                    sink.as_mut(),
                    (&self.naming, &[]),
                    &nobody,
                    outcome,
                    &payload,
                )
            }
        }
    }

    /// A credential that was refused for the person of `asked`, if it is to be counted.
    fn guess(&self, salt: &[u8], asked: &OperationRequest<'_>) -> Result<Option<Guess>, Error> {
        // A name that whoever has the database can make would tell who is away and asks.
        let (Some(user), Some(_)) = (asked.user, &self.naming.0) else {
            return Ok(None);
        };
        Ok(Some(Guess {
            name: self.naming.of(salt, &user.principal())?,
            salt: salt.to_vec(),
            action: asked.action,
            about: asked.key.clone(),
            user: user.clone(),
            time: asked.time,
            actor: asked.actor.to_owned(),
            basis: asked.basis.to_owned(),
        }))
    }

    /// Counts credentials that were refused in a request, and tells of each with the count.
    pub(super) fn tell_guesses(&mut self, guesses: Vec<Guess>) -> Result<(), Error> {
        for it in guesses {
            let refusals = self.count_refusal(&it.name, it.time);
            let payload =
                operation::refused(&self.database.tenancy, refusals, &Error::WrongCredential);
            let Some(sink) = &mut self.sink else {
                return Ok(());
            };
            let asked = OperationRequest {
                actor: &it.actor,
                basis: &it.basis,
                ..OperationRequest::new(it.action, it.about.clone(), Some(&it.user), it.time)
            };
            let names = (&self.naming, it.salt.as_slice());
            tell(sink.as_mut(), names, &asked, Outcome::Denied, &payload)?;
        }
        Ok(())
    }

    /// Counts in a transaction of its own, or that of the request at hand. What cannot be counted is told of all the same.
    fn count_refusal(&mut self, name: &str, time: Timestamp) -> Option<u64> {
        let count = |open: &mut Self| refusal::count(&mut open.database, name, time);
        self.tried_of_all(count).ok()
    }

    /// Tells that what was told of as done in the transaction that ended with `error` was not.
    pub(super) fn retract(&mut self, error: &Error) -> Result<(), Error> {
        let fate = match error {
            Error::Unsettled(_) => CommitOutcome::Unknown,
            _ => CommitOutcome::Undone,
        };
        self.take_back(fate, outcome_of(error), Some(error))
    }

    pub(super) fn take_back(
        &mut self,
        fate: CommitOutcome,
        outcome: Outcome,
        reason: Option<&Error>,
    ) -> Result<(), Error> {
        for it in mem::take(&mut self.promises) {
            let Some(sink) = &mut self.sink else {
                break;
            };
            let tenancy = &self.database.tenancy;
            let payload = operation::taken_back(tenancy, &it.database, (it.id, fate), reason);
            let asked = it.asked();
            let names = (&self.naming, it.salt.as_slice());
            tell(sink.as_mut(), names, &asked, outcome, &payload)?;
        }
        Ok(())
    }
}

const fn outcome_of(error: &Error) -> Outcome {
    if error.is_denial() {
        Outcome::Denied
    } else {
        Outcome::Failed
    }
}
