//! Pending entries: the log records an operation before its commit, and afterwards any failure.

use std::mem;

use probity_format::{Outcome, Timestamp};

use super::engine::Engine;
use crate::database::Database;
use crate::error::{Doing as _, Error};
use crate::records::refusal;
use crate::records::settings;
use crate::transaction::audit::{OperationRequest, tell};
use crate::transaction::operation::{self, CommitOutcome};
use crate::transaction::payload::Payload;
use crate::transaction::pending_entry::{Guess, PendingEntry};

impl<D: Database> Engine<D> {
    /// Tells of an operation that is about to be committed, once nothing refuses it any more. Several
    /// operations of one request are checked together.
    pub(super) fn done(
        &mut self,
        asked: &OperationRequest<'_>,
        payload: Payload,
    ) -> Result<(), Error> {
        if self.request.is_none() {
            self.check_deferred()?;
        }
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let whole = settings::own_salt(&mut self.database)?;
        let salt = self.database.tenancy.salt(whole.clone());
        let (id, payload) = operation::begin(&mut self.database, &salt, payload)?;
        let promise = PendingEntry {
            id,
            key: self.database.tenancy.key(&id),
            whole,
            salt,
            action: asked.action,
            about: asked.key.clone(),
            user: asked.user.cloned(),
            time: asked.time,
            actor: asked.actor.to_owned(),
            basis: asked.basis.to_owned(),
        };
        // Whatever the log says, the entry may be in it.
        self.promises.push(promise);
        let salt = self.promises.last().map(|it| it.salt.clone());
        let salt = salt.unwrap_or_default();
        let names = (&self.naming, salt.as_slice());
        tell(sink.as_mut(), names, asked, Outcome::Ok, &payload)
    }

    /// Has everything checked that the database puts off to the commit.
    pub(super) fn check_deferred(&mut self) -> Result<(), Error> {
        self.database
            .check_deferred()
            .doing("checking what is checked at the commit")
    }

    /// Commits, and where the database refuses or is lost asks it what became of the transaction.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        let Err(refused) = self.database.commit() else {
            self.promises.clear();
            self.clear_away();
            return Ok(());
        };
        // A commit that was refused may have left the transaction open.
        let is_over = self.database.rollback().is_ok();
        let Some(promise) = self.promises.first() else {
            return Err(refused).doing("committing");
        };
        let (salt, key) = (&promise.whole, &promise.key);
        let own = is_over.then(|| operation::fate(&mut self.database.database, salt, key, false));
        let fate = own.flatten().or_else(|| {
            let mut another = self.database.another().ok()?;
            operation::fate(&mut *another, salt, key, true)
        });
        match fate {
            Some(CommitOutcome::Done) => {
                self.promises.clear();
                self.clear_away();
                Ok(())
            }
            Some(CommitOutcome::Undone) => Err(refused).doing("committing"),
            Some(CommitOutcome::Unknown) | None => Err(Error::Unsettled(refused)),
        }
    }

    /// Takes out of the files what was removed. It is done whatever becomes of this: what is left is told.
    fn clear_away(&mut self) {
        if !mem::take(&mut self.has_removed) {
            return;
        }
        let left = self.database.clear_away().unwrap_or_else(|error| {
            Some(format!(
                "what was removed may still be read in the files of the database, which could not be cleared: {error}"
            ))
        });
        if let (Some(left), Some(notice)) = (left, &mut self.notice) {
            notice(&left);
        }
    }

    /// Tells of what was refused: that an operation which was told of as done was not, or else that `asked` was not done.
    pub(super) fn told<T>(
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
        let count = |engine: &mut Self| refusal::count(&mut engine.database, name, time);
        let counted = self.tried(|engine, work| engine.transaction_of_all(work), count);
        counted.ok()
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
            let payload = operation::taken_back(tenancy, &it.salt, (it.id, fate), reason);
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
