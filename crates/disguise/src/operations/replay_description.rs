//! Descriptions of the application while a replay goes on: a disguise is made again by the one by which it was made.

use super::install::install;
use super::missed::Missed;
use super::replay_action::ReplayAction;
use crate::database::Database;
use crate::error::Error;
use crate::schema::{Pseudo, Schema};
use crate::spec::{Spec, SpecFile};
use crate::transaction::application::Application;
use crate::transaction::operation::LoggedOperation;

const OTHER: &str = "the tables and users were described otherwise when it was done, which decides whose rows are hidden: give that description, in a specification or with --schema and --pseudo";

/// A description of the tables and, where it has one, of the users.
pub(super) type Described = (Schema, Option<Pseudo>);

impl<D: Database> Missed<'_, D> {
    /// Returns the description in force, which may be the caller's.
    pub(super) fn in_force(&self) -> Described {
        let application = &self.transactions.application;
        let pseudo = application.said().clone();
        (application.schema().clone(), Some(pseudo))
    }

    /// Brings the description into force by which a disguise was made: of an entry that names it the one of
    /// that name among those given, and of others the one in its specification, as when it is applied. Returns the
    /// reason why it cannot be.
    pub(super) fn describe(
        &mut self,
        (told, deed): (&LoggedOperation, &ReplayAction<'_>),
        (given, specs): (&Described, &[Spec]),
    ) -> Result<Result<(), String>, Error> {
        let (ReplayAction::Apply { request, .. } | ReplayAction::Schedule { request, .. }) = deed
        else {
            return Ok(Ok(()));
        };
        let then = told.facts.description.as_deref();
        let Some(then) = then else {
            return match own(request.spec)? {
                Some(own) => self.take(own, None),
                None => Ok(Ok(())),
            };
        };
        if self.transactions.application.description_name()? == then {
            return Ok(Ok(install(self.transactions)?));
        }
        let mut candidates = vec![given.clone()];
        for spec in [request.spec].into_iter().chain(specs) {
            candidates.extend(own(spec)?);
        }
        let mut refused = OTHER.to_owned();
        for candidate in candidates {
            match self.take(candidate, Some(then))? {
                Ok(()) => return Ok(Ok(())),
                Err(why) => refused = why,
            }
        }
        Ok(Err(refused))
    }

    /// Takes a description, if it is the one of this name and fits; otherwise the one before stays in force.
    fn take(
        &mut self,
        (schema, pseudo): Described,
        then: Option<&str>,
    ) -> Result<Result<(), String>, Error> {
        let transactions = &mut *self.transactions;
        let pseudo = pseudo.unwrap_or_else(|| transactions.application.said().clone());
        let anew = Application::new(schema, pseudo);
        let before = std::mem::replace(&mut transactions.application, anew);
        let taken = transactions.refresh().and_then(|()| {
            let name = transactions.application.description_name()?;
            if then.is_some_and(|then| then != name) {
                return Ok(false);
            }
            install(transactions).map(|()| true)
        });
        let refused = match taken {
            Ok(true) => return Ok(Ok(())),
            Ok(false) => OTHER.to_owned(),
            Err(error) if error.ends_a_run(|| transactions.answers()) => {
                transactions.application = before;
                return Err(error);
            }
            Err(error) => error.with_cause(),
        };
        transactions.application = before;
        transactions.refresh()?;
        Ok(Err(refused))
    }
}

/// Returns the description in the file of a specification, if it has one.
fn own(spec: &Spec) -> Result<Option<Described>, Error> {
    let file = SpecFile::parse(&spec.text)?;
    let has_own = file.pseudo.is_some() || !file.schema.is_empty();
    Ok(has_own.then_some((file.schema, file.pseudo)))
}
