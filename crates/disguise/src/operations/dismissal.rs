//! Dismissals: missed operations that nobody wants done again are recorded as such, and end on the list.

use super::holds::asked;
use super::missed::{Missed, ReplayRequest};
use super::missing_operation::{MissingOperation, Replayability};
use super::replay_decision::Replay;
use crate::database::Database;
use crate::error::Error;
use crate::records::hold::Authority;
use crate::transaction::operation::{DISMISS, LoggedOperation};
use crate::transaction::payload::Payload;

/// The reasons that end with what a request has: they are none to dismiss an operation.
pub(super) const WITHOUT_SPECIFICATION: &str = "its specification is not given";
pub(super) const OTHER_VALUES: &str = "the values of its parameters are not given, or are others";

impl Replay<'_> {
    /// Returns whether somebody recorded here that the operation is not wanted any more.
    pub(super) fn is_dismissed(&self, told: &LoggedOperation) -> bool {
        told.unread.is_none() && self.dismissed.contains(&told.id)
    }
}

impl<D: Database> Missed<'_, D> {
    /// Records that missed operations are not wanted any more: replays of this database do not list them from then on.
    /// What was missed stays missed, and whatever else depends on it is decided as before. Each is named by
    /// [`MissingOperation::operation`]; where one is not as it must be, none is dismissed.
    ///
    /// A database that is restored from a backup before the dismissal lists the operations again: they may be done there.
    ///
    /// # Errors
    /// [`Error::Value`] for an operation that is not listed as one that cannot be done, or that lacks a specification or
    /// values, which the request must have, and when actor or basis cannot be recorded; [`Error::LogNeeded`] without a sink;
    /// those of [`Missed::list`]; [`Error::Audit`].
    pub fn dismiss(
        &mut self,
        request: &ReplayRequest<'_>,
        operations: &[String],
        authority: &Authority<'_>,
    ) -> Result<(), Error> {
        authority.check()?;
        let listed = self.list(request)?;
        let mut meant = Vec::with_capacity(operations.len());
        for operation in operations {
            let found = listed
                .iter()
                .find(|it| it.operation.as_ref() == Some(operation));
            meant.push(dismissible(operation, found)?);
        }
        for it in meant {
            self.dismiss_one(it, authority)?;
        }
        Ok(())
    }

    fn dismiss_one(
        &mut self,
        it: &MissingOperation,
        authority: &Authority<'_>,
    ) -> Result<(), Error> {
        let operation = it.operation.clone().unwrap_or_default();
        let asked = asked(DISMISS, operation, authority);
        self.transactions.operation(&asked, |open| {
            if !open.has_sink() {
                return Err(Error::LogNeeded);
            }
            let payload = Payload::new().with("dismissed", it.action.clone());
            open.done(&asked, payload.with("about", it.key.clone()))
        })
    }
}

/// Returns the listed operation, if nothing but a person or another state of the database could do it.
fn dismissible<'l>(
    operation: &str,
    listed: Option<&'l MissingOperation>,
) -> Result<&'l MissingOperation, Error> {
    let refused = |what: String| Err(Error::Value { what });
    let Some(listed) = listed else {
        return refused(format!(
            "operation {operation} is not on the list of a replay of this database"
        ));
    };
    match &listed.outlook {
        Replayability::Not(why)
            if why.starts_with(WITHOUT_SPECIFICATION) || why == OTHER_VALUES =>
        {
            refused(format!(
                "operation {operation} can be dismissed once its specification is given, with the values of its parameters: {why}"
            ))
        }
        Replayability::Not(_) => Ok(listed),
        _ => refused(format!(
            "operation {operation} is not dismissed, because a replay does it, or finds nothing left to do"
        )),
    }
}
