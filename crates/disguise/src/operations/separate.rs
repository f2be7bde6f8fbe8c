//! The database as a log knows it, and copies that are others.

use probity_format::Timestamp;

use super::engine::Engine;
use crate::database::Database;
use crate::error::Error;
use crate::records::settings::{self, Identity};
use crate::transaction::audit::OperationRequest;
use crate::transaction::operation;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;

/// The action of an entry that tells of a separation.
pub(super) const SEPARATE: &str = "disguise.separate";

impl<D: Database> Engine<D> {
    /// Makes another database of this one for every log: what entries tell of the one before is not
    /// this one's from then on. It is for a copy that goes on beside its original, and for a
    /// database whose log is gone; the sink at hand is that of its log from then on, and is another
    /// one, since one log would not tell the copy from a backup. People, records and credentials
    /// stay as they are.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Database`], [`Error::Audit`]; [`Error::LogNeeded`] and
    /// [`Error::SameLog`] where a log is noted.
    pub fn separate(&mut self, time: Timestamp) -> Result<(), Error> {
        let asked = OperationRequest::new(SEPARATE, String::new(), None, time);
        self.transactions.operation_of_all(&asked, |open| {
            let told = Identity::read(&mut open.database)?;
            let log = open.naming().log()?;
            if !open.has_sink() {
                let is_told = told.has_log() || operation::has_logged(&mut open.database)?;
                if is_told {
                    return Err(Error::LogNeeded);
                }
            } else if log.is_some_and(|log| told.is_of(&log) || told.was_of(&log)) {
                return Err(Error::SameLog);
            }
            told.put_former_log(&mut open.database)?;
            let former = told.name(&told.salt);
            settings::put_history(&mut open.database)?;
            operation::remove_logged(&mut open.database)?;
            open.done(&asked, Payload::new().with("former", former))
        })
    }
}

/// Returns the names in entries of the database and of its tenant; refuses another log than the one
/// that tells of it.
pub(super) fn database_names<D: Database>(
    open: &mut Transactions<D>,
) -> Result<[String; 2], Error> {
    let told = Identity::read(&mut open.database)?;
    let log = open.naming().log()?;
    told.refuse_other_log(log.as_ref())?;
    let own = open.database.tenancy.salt(told.salt.clone());
    Ok([told.name(&told.salt), told.name(&own)])
}
