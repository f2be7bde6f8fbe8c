//! Applying a disguise, in one transaction.

use super::disguiser::Disguiser;
use super::engine::Engine;
use crate::crypto::random;
use crate::database::Database;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::{Applied, ApplyRequest, Forgotten};
use crate::transaction::audit::OperationRequest;

impl<D: Database> Engine<D> {
    /// Applies a disguise.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed then.
    pub fn apply(&mut self, request: &ApplyRequest<'_>) -> Result<Applied, Error> {
        let id = DisguiseId(u64::from_le_bytes(random()?));
        let user = request.user.as_ref();
        let asked = OperationRequest::new("disguise.apply", id.to_string(), user, request.time);
        let options = &self.options;
        self.transactions.operation(&asked, |open| {
            request.spec.refuse_empty()?;
            request.spec.refuse_unknown(&request.parameters, None)?;
            Disguiser { open, options }.applied(id, request, &asked, (&Forgotten::default(), None))
        })
    }
}
