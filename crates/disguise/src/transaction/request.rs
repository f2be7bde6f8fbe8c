//! Requests: the operations of one in one transaction, with what was answered.

use std::mem;

use probity_format::Outcome;

use super::admission::Admission;
use super::once::{Answered, Names, Once, RequestState};
use super::operation::CommitOutcome;
use super::pending_entry::Guess;
use super::transactions::{TRIES_MAX, Transactions, pause};
use crate::database::Database;
use crate::error::Error;
use crate::records::settings;

/// The request whose transaction is at hand.
pub(super) struct Request {
    /// The salt of the current tenant, for entries that are written after the transaction failed.
    pub(super) salt: Vec<u8>,
    /// Another transaction was in the way of an operation.
    pub(super) is_in_conflict: bool,
    /// Refused credentials: they are counted and logged once the transaction is over.
    pub(super) guesses: Vec<Guess>,
    /// A byte that stands for the person whom its operations were about, if one.
    pub(super) cohort: Option<u8>,
}

/// Does `work`, unless it was done before under the same key: the operations that `host` does in it
/// are one transaction of those that it has, in which the answer is kept that `work` gives beside
/// its result.
pub(crate) fn once<H, D: Database, T, E: From<Error>>(
    host: &mut H,
    transactions: fn(&mut H) -> &mut Transactions<D>,
    once: &Once<'_>,
    mut work: impl FnMut(&mut H) -> Result<(T, Option<Vec<u8>>), E>,
) -> Result<Answered<T>, E> {
    let mut tries = 1;
    loop {
        let outcome = try_once(host, transactions, once, &mut work);
        let (outcome, again) = transactions(host).leave_request(outcome);
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

fn try_once<H, D: Database, T, E>(
    host: &mut H,
    transactions: fn(&mut H) -> &mut Transactions<D>,
    once: &Once<'_>,
    work: &mut impl FnMut(&mut H) -> Result<(T, Option<Vec<u8>>), E>,
) -> Result<Answered<T>, Tried<E>> {
    let open = transactions(host);
    let admission = open.admission();
    let _place = admission.as_deref().map(Admission::enter);
    let begun = open.begin_request(once);
    let (names, known) = begun.map_err(|error| open.broken(error))?;
    if !matches!(known, RequestState::New) {
        // Nothing was changed.
        open.database.rollback().unwrap_or_default();
    }
    match known {
        RequestState::New => {}
        RequestState::Before(answer) => return Ok(Answered::Before(answer)),
        RequestState::Withheld => return Ok(Answered::Withheld),
    }
    let worked = work(host);
    let open = transactions(host);
    let (done, answer) = worked.map_err(|error| {
        // The first error is the one to report.
        open.database.rollback().unwrap_or_default();
        // Operations before the refused one that were told of as done.
        let told = open.take_back(CommitOutcome::Undone, Outcome::Failed, None);
        told.map_or_else(Tried::Refused, |()| Tried::Work(error))
    })?;
    let ended = open.end_request(&names, answer.as_deref());
    ended.map_err(|error| open.broken(error))?;
    Ok(Answered::Now(done))
}

impl<D: Database> Transactions<D> {
    fn begin_request(&mut self, once: &Once<'_>) -> Result<(Names, RequestState), Error> {
        self.begin()?;
        if self.tenant().is_some() {
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

    /// Keeps the answer, if there is one to keep, and commits.
    fn end_request(&mut self, names: &Names, answer: Option<&[u8]>) -> Result<(), Error> {
        if let Some(answer) = answer {
            let cohort = self.request.as_ref().and_then(|it| it.cohort);
            names.keep(&mut self.database, cohort, answer)?;
        }
        // A refusal that did not keep the rest from being done is counted with it.
        let guesses = self.request.as_mut().map(|it| mem::take(&mut it.guesses));
        self.tell_guesses(guesses.unwrap_or_default())?;
        self.request = None;
        self.check_deferred()?;
        self.commit()
    }

    /// Tells of the credentials that were refused in the request, which is over. Returns whether it
    /// is to be tried again, too.
    fn leave_request<T, E>(&mut self, outcome: Result<T, Tried<E>>) -> (Result<T, Tried<E>>, bool) {
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
        (outcome, again)
    }

    fn broken<E>(&mut self, error: Error) -> Tried<E> {
        // The first error is the one to report; a connection that cannot roll back is lost anyway.
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
