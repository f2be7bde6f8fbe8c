//! Operations already logged, and refusals still to be logged, while a transaction is open.

use probity_format::Timestamp;

use super::audit::OperationRequest;
use super::operation::OperationId;
use crate::database::value::Value;

/// An operation that the log was told of as done, before it was.
pub(crate) struct PendingEntry {
    pub(crate) id: OperationId,
    /// The key by which the database remembers it.
    pub(crate) key: Value,
    /// The salt of the database.
    pub(crate) whole: Vec<u8>,
    /// The salt of its tenant.
    pub(crate) salt: Vec<u8>,
    pub(crate) action: &'static str,
    pub(crate) about: String,
    pub(crate) user: Option<Value>,
    pub(crate) time: Timestamp,
    pub(crate) actor: String,
    pub(crate) basis: String,
}

/// A credential that was refused for a person in a request.
pub(crate) struct Guess {
    /// The name that it is counted under.
    pub(crate) name: String,
    pub(crate) salt: Vec<u8>,
    pub(crate) action: &'static str,
    pub(crate) about: String,
    pub(crate) user: Value,
    pub(crate) time: Timestamp,
    pub(crate) actor: String,
    pub(crate) basis: String,
}

impl PendingEntry {
    /// Returns the request that the entry concerns.
    pub(crate) fn asked(&self) -> OperationRequest<'_> {
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

/// The request whose transaction is at hand.
pub(crate) struct Request {
    /// The salt of the current tenant, for entries that are written after the transaction failed.
    pub(crate) salt: Vec<u8>,
    /// Another transaction was in the way of an operation.
    pub(crate) is_in_conflict: bool,
    /// Refused credentials: they are counted and logged once the transaction is over.
    pub(crate) guesses: Vec<Guess>,
    /// A byte that stands for the person whom its operations were about, if one.
    pub(crate) cohort: Option<u8>,
}
