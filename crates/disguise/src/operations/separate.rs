//! The database as a log knows it: its first log, and copies that are others.

use probity_format::Timestamp;

use super::engine::Engine;
use crate::database::Database;
use crate::database::tenant::{TAG_BYTES, salt_of};
use crate::error::Error;
use crate::records::identity::{self, Identity};
use crate::records::subject::LogNames;
use crate::transaction::audit::OperationRequest;
use crate::transaction::operation::{self, LoggedOperation};
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;

/// The action of an entry that tells that a log is the first one of a database.
pub(super) const BEGIN_LOG: &str = "disguise.begin-log";
/// The action of an entry that tells of a separation.
pub(super) const SEPARATE: &str = "disguise.separate";

impl<D: Database> Engine<D> {
    /// Notes the log of the sink at hand as the one in which this database is told of, where operations
    /// were done without any: somebody says so, for a backup of that time does not tell which log told of
    /// it since. Where the log tells of it, [`Missed::replay`](crate::Missed::replay) notes it by
    /// itself.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Database`], [`Error::Audit`]; [`Error::LogNeeded`] without a
    /// sink, [`Error::OtherLog`] where another log is noted.
    pub fn begin_log(&mut self, time: Timestamp) -> Result<(), Error> {
        let asked = OperationRequest::new(BEGIN_LOG, String::new(), None, time);
        self.transactions.operation_of_all(&asked, |open| {
            let (told, log) = known(open)?;
            if !open.has_sink() || log.is_none() {
                return Err(Error::LogNeeded);
            }
            if told.has_several_logs() {
                return Err(Error::OtherLog);
            }
            put_said_log(open, &told, log.as_ref())?;
            open.done(&asked, Payload::new())
        })
    }

    /// Makes another database of this one for every log: what entries tell of the one before is not
    /// this one's from then on. It is for a copy that goes on beside its original, and for a
    /// database whose log is gone; the sink at hand is that of its log from then on, and is another
    /// one, since one log would not tell the copy from a backup. People, records and credentials
    /// stay as they are.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Database`], [`Error::Audit`]; [`Error::LogNeeded`],
    /// [`Error::SameLog`] and [`Error::UnclearLog`] where a log is noted.
    pub fn separate(&mut self, time: Timestamp) -> Result<(), Error> {
        let asked = OperationRequest::new(SEPARATE, String::new(), None, time);
        self.transactions.operation_of_all(&asked, |open| {
            let (told, log) = known(open)?;
            if !open.has_sink() {
                let is_told = told.has_log() || operation::has_logged(&mut open.database)?;
                if is_told {
                    return Err(Error::LogNeeded);
                }
            } else if let Some(log) = &log {
                told.refuse_same_log(log)?;
            }
            told.put_former_log(&mut open.database)?;
            let former = told.name(&told.salt);
            told.put_history(&mut open.database)?;
            open.forget_operations()?;
            open.done(&asked, Payload::new().with("former", former))
        })
    }
}

/// Returns the database as a log knows it, and the names of the log at hand.
fn known<D: Database>(open: &mut Transactions<D>) -> Result<(Identity, Option<LogNames>), Error> {
    let told = Identity::read(&mut open.database)?;
    Ok((told, open.naming().log()?))
}

/// Notes the log of which somebody, or what it tells, says that it is the one.
fn put_said_log<D: Database>(
    open: &mut Transactions<D>,
    told: &Identity,
    log: Option<&LogNames>,
) -> Result<(), Error> {
    let has_logged = operation::has_logged(&mut open.database)?;
    told.put_said_log(&mut open.database, log, has_logged)
}

/// Notes the log at hand as that of the database, where none is noted and this one tells of it.
pub(super) fn note_log_of<D: Database>(
    open: &mut Transactions<D>,
    is_told: impl Fn([&str; 2]) -> bool,
) -> Result<(), Error> {
    let [whole, own] = database_names(open)?;
    if open.has_sink() && is_told([&whole, &own]) {
        let (told, log) = known(open)?;
        put_said_log(open, &told, log.as_ref())?;
    }
    Ok(())
}

/// Returns whether the log is noted in which the database is told of.
pub(super) fn has_log<D: Database>(open: &mut Transactions<D>) -> Result<bool, Error> {
    let (told, _log) = known(open)?;
    Ok(told.has_log())
}

/// Returns whether nothing says which log tells of the database.
pub(super) fn is_unsaid<D: Database>(open: &mut Transactions<D>) -> Result<bool, Error> {
    let (told, _log) = known(open)?;
    Ok(told.is_unsaid())
}

/// Returns whether operations of a log are of other tenants of the database than the present one, each by
/// its tag.
pub(super) fn is_of_other_tenant<D: Database>(
    open: &mut Transactions<D>,
) -> Result<impl Fn(&LoggedOperation) -> bool + use<D>, Error> {
    let (told, _log) = known(open)?;
    let own = open.database.tenancy.tag().to_vec();
    Ok(move |it: &LoggedOperation| {
        let name = |tag: [u8; TAG_BYTES]| told.name(&salt_of(&told.salt, &tag));
        let tag = it.tag().filter(|tag| tag.as_slice() != own);
        tag.is_some_and(|tag| it.is_of(&name(tag)))
    })
}

/// Returns the operations of a log that the database has, of all tenants. Refuses a database that has some which the log tells
/// of under another name: what gives it its name was changed, and nothing says what it lacks.
pub(super) fn had_of<'t, D: Database>(
    open: &mut Transactions<D>,
    told: &'t [LoggedOperation],
) -> Result<Vec<&'t LoggedOperation>, Error> {
    let (own, _log) = known(open)?;
    let had = operation::had_of(&mut open.database, told)?;
    let whole = own.name(&own.salt);
    let is_own = |it: &LoggedOperation| {
        let tenant = || Some(own.name(&salt_of(&own.salt, &it.tag()?)));
        it.is_of(&whole) || tenant().is_some_and(|name| it.is_of(&name))
    };
    if had.iter().all(|it| is_own(it)) {
        Ok(had)
    } else {
        Err(identity::damaged_history())
    }
}

/// Returns the names in entries of the database and of its tenant; refuses another log than the one
/// that tells of it.
pub(super) fn database_names<D: Database>(
    open: &mut Transactions<D>,
) -> Result<[String; 2], Error> {
    let (told, log) = known(open)?;
    told.refuse_other_log(log.as_ref())?;
    let own = open.database.tenancy.salt(told.salt.clone());
    Ok([told.name(&told.salt), told.name(&own)])
}
