//! A producer's handle: one copy into memory it owns, and a ticket that becomes a receipt.

use probity_format::Entry;

use crate::error::AppendError;

/// The promise of an append: redeem it at the appender that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Where an entry is, durably: its index in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Index of the entry in its stream, from 0.
    pub index: u64,
}

/// One producer of one stream. Entries of one appender keep their order.
///
/// Cheap to make; give each thread its own. It holds memory of the queue only while entries wait in it.
#[derive(Debug)]
pub struct Appender;

impl Appender {
    /// Hands in one entry, waiting for room up to [`Options::append_timeout`](crate::Options).
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    pub fn append(&mut self, _entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        todo!()
    }

    /// As [`Appender::append`], but fails at once when there is no room.
    ///
    /// # Errors
    /// See [`AppendError`]; the entry was then not appended.
    pub fn try_append(&mut self, _entry: &Entry<'_>) -> Result<Ticket, AppendError> {
        todo!()
    }

    /// Hands in entries in order; gives the ticket of the last, which covers those before.
    ///
    /// # Errors
    /// The number of entries taken and why the next one was not.
    pub fn append_batch(
        &mut self,
        _entries: &[Entry<'_>],
    ) -> Result<Option<Ticket>, (usize, AppendError)> {
        todo!()
    }

    /// Appends and waits until the entry is durable.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn append_durable(&mut self, _entry: &Entry<'_>) -> Result<Receipt, AppendError> {
        todo!()
    }

    /// Hands what was appended so far to the sealers at once instead of waiting for a full batch.
    pub fn push(&mut self) {
        todo!()
    }

    /// The receipt of `ticket`, or `None` while its entry is not durable.
    ///
    /// # Errors
    /// [`AppendError::Poisoned`] when it never will be; [`AppendError::TicketExpired`].
    pub fn receipt(&mut self, _ticket: Ticket) -> Result<Option<Receipt>, AppendError> {
        todo!()
    }

    /// Waits until `ticket`'s entry is durable, hurrying it along.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn wait(&mut self, _ticket: Ticket) -> Result<Receipt, AppendError> {
        todo!()
    }

    /// Waits until everything appended here is durable.
    ///
    /// # Errors
    /// As [`Appender::receipt`].
    pub fn flush(&mut self) -> Result<(), AppendError> {
        todo!()
    }
}
