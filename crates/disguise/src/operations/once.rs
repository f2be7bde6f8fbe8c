//! Operations of one request in one transaction with what was answered.

use super::engine::Engine;
use crate::database::Database;
use crate::error::Error;
use crate::transaction::once::{Answered, Once};
use crate::transaction::request;

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
        work: impl FnMut(&mut Self) -> Result<(T, Option<Vec<u8>>), E>,
    ) -> Result<Answered<T>, E> {
        request::once(self, |engine| &mut engine.transactions, once, work)
    }
}
