//! Operations of one request in one transaction with what was answered.

use std::mem;

use probity_format::{Outcome, Timestamp};

use super::chunk::{Progress, Whom};
use super::engine::{Engine, TRIES_MAX, pause};
use crate::database::Database;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::Applied;
use crate::records::credential::Credential;
use crate::records::hold::cohort;
use crate::records::settings;
use crate::transaction::admission::Admission;
use crate::transaction::once::{Answered, Names, Once, RequestState};
use crate::transaction::operation::CommitOutcome;
use crate::transaction::pending_entry::Request;

impl<D: Database> Engine<D> {
    /// Does `work`, unless it was done before under the same key: its operations are one transaction, in which the answer
    /// is kept that `work` gives beside its result; without one, only that it was done. What is refused is not kept.
    ///
    /// The engine must be installed before. Operations that take several transactions, like a sweep, take one here.
    ///
    /// # Errors
    /// [`Error::OtherRequest`] when the key stands for another request, and those of `work`; nothing has changed then, but
    /// for [`Error::Unsettled`].
    pub fn once<T, E: From<Error>>(
        &mut self,
        once: &Once<'_>,
        mut work: impl FnMut(&mut Self) -> Result<(T, Option<Vec<u8>>), E>,
    ) -> Result<Answered<T>, E> {
        let mut tries = 1;
        loop {
            let outcome = self.try_once(once, &mut work);
            let mut request = self.request.take();
            let guesses = request.as_mut().map(|it| mem::take(&mut it.guesses));
            let told = self.tell_guesses(guesses.unwrap_or_default());
            let outcome = match (told, outcome) {
                (Ok(()), outcome) => outcome,
                // That the log has failed, too, matters less than what may have been done.
                (Err(_), outcome @ Err(Tried::Refused(Error::Unsettled(_)))) => outcome,
                (Err(unrecorded), _) => Err(Tried::Refused(unrecorded)),
            };
            let again = match &outcome {
                Err(Tried::Refused(error)) => error.is_conflict(),
                Err(Tried::Work(_)) => request.is_some_and(|it| it.is_in_conflict),
                Ok(_) => false,
            };
            if again && tries < TRIES_MAX {
                pause(tries)?;
                tries = tries.saturating_add(1);
                continue;
            }
            return outcome.map_err(|tried| match tried {
                Tried::Refused(error) => E::from(error),
                Tried::Work(error) => error,
            });
        }
    }

    /// Does all chunks that are left of a disguise, like [`Engine::finish_over`], which was begun by a request that may be asked
    /// again: the last chunk keeps the answer that `answer` gives, in the place of what was kept when it was begun.
    ///
    /// # Errors
    /// Those of [`Engine::finish_over`].
    pub fn finish_once(
        &mut self,
        (id, over): (DisguiseId, Option<&Credential<'_>>),
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
        once: &Once<'_>,
        mut answer: impl FnMut(&Applied) -> Vec<u8>,
    ) -> Result<Applied, Error> {
        let mut keep = |engine: &mut Self, (salt, user): Whom<'_>, applied: &Applied| {
            let names = Names::new(&engine.database, salt, once)?;
            let cohort = user.map(|user| cohort(salt, &user.principal()));
            names.keep(&mut engine.database, cohort, &answer(applied))
        };
        loop {
            let progress = self.advance((id, over), rows, now(), &mut keep)?;
            if let Progress::Done(applied) = progress {
                return Ok(applied);
            }
        }
    }

    fn try_once<T, E>(
        &mut self,
        once: &Once<'_>,
        work: &mut impl FnMut(&mut Self) -> Result<(T, Option<Vec<u8>>), E>,
    ) -> Result<Answered<T>, Tried<E>> {
        let admission = self.admission.clone();
        let _place = admission.as_deref().map(Admission::enter);
        let begun = self.begin_once(once);
        let (names, known) = begun.map_err(|error| self.broken(error))?;
        if !matches!(known, RequestState::New) {
            // Nothing was changed.
            self.database.rollback().unwrap_or_default();
        }
        match known {
            RequestState::New => {}
            RequestState::Before(answer) => return Ok(Answered::Before(answer)),
            RequestState::Withheld => return Ok(Answered::Withheld),
        }
        let (done, answer) = work(self).map_err(|error| {
            self.database.rollback().unwrap_or_default();
            // Operations before the refused one that were told of as done.
            let told = self.take_back(CommitOutcome::Undone, Outcome::Failed, None);
            told.map_or_else(Tried::Refused, |()| Tried::Work(error))
        })?;
        if let Some(answer) = answer {
            let cohort = self.request.as_ref().and_then(|it| it.cohort);
            let kept = names.keep(&mut self.database, cohort, &answer);
            kept.map_err(|error| self.broken(error))?;
        }
        // A refusal that did not keep the rest from being done is counted with it.
        let guesses = self.request.as_mut().map(|it| mem::take(&mut it.guesses));
        let told = self.tell_guesses(guesses.unwrap_or_default());
        told.map_err(|error| self.broken(error))?;
        self.request = None;
        let checked = self.check_deferred();
        checked.map_err(|error| self.broken(error))?;
        self.commit().map_err(|error| self.broken(error))?;
        Ok(Answered::Now(done))
    }

    fn begin_once(&mut self, once: &Once<'_>) -> Result<(Names, RequestState), Error> {
        self.begin_transaction()?;
        if self.tenant_set().is_some() {
            self.enter()?;
        }
        let salt = settings::salt(&mut self.database)?;
        let names = Names::new(&self.database, &salt, once)?;
        self.request = Some(Request {
            salt,
            is_in_conflict: false,
            guesses: Vec::new(),
            cohort: None,
        });
        let known = names.note(&mut self.database, once)?;
        Ok((names, known))
    }

    fn broken<E>(&mut self, error: Error) -> Tried<E> {
        self.database.rollback().unwrap_or_default();
        match self.retract(&error) {
            Ok(()) => Tried::Refused(error),
            Err(_) if matches!(error, Error::Unsettled(_)) => Tried::Refused(error),
            Err(unrecorded) => Tried::Refused(unrecorded),
        }
    }
}

/// The reason why a try failed.
enum Tried<E> {
    /// The stored requests refused it.
    Refused(Error),
    /// The work itself failed.
    Work(E),
}
