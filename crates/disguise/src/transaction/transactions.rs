//! The transactions of one connection: each begins, is tried again after a conflict, and ends.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::admission::Admission;
use super::application::Application;
use super::audit::{OperationRequest, Sink};
use super::latest::{self, Latest};
use super::operation::{self, CommitOutcome};
use super::pending_entry::PendingEntry;
use super::request::Request;
use crate::crypto::random;
use crate::database::shape::Shapes;
use crate::database::tenant::{Tenant, TenantScope, TenantScoped};
use crate::database::value::Value;
use crate::database::{Database, DatabaseErrorKind, Vocabulary};
use crate::error::{Doing as _, Error};
use crate::records::hold::cohort;
use crate::records::installation::refuse_lost;
use crate::records::subject::{Naming, SubjectKey};
use crate::schema::{Pseudo, Schema};

/// The number of tries of an operation while transactions of others conflict with it.
pub(super) const TRIES_MAX: u32 = 32;
/// The longest pause between two tries, in milliseconds.
const PAUSE_MILLISECONDS_MAX: u64 = 256;

/// A function that receives a sentence about a completed operation.
type Notice = Box<dyn FnMut(&str)>;

/// One connection, bound to a tenant of an application, and the transactions over it.
///
/// It knows nothing of what an operation does: the work that it runs is given itself, with the
/// transaction open.
pub(crate) struct Transactions<D: Database> {
    pub(crate) database: TenantScoped<D>,
    pub(crate) application: Application,
    pub(super) sink: Option<Box<dyn Sink>>,
    pub(super) naming: Naming,
    admission: Option<Arc<Admission>>,
    /// Operations that the current transaction notes.
    pub(super) promises: Vec<PendingEntry>,
    /// The operations that no other one came after when the current transaction began.
    pub(super) latest: Latest,
    /// True while an operation runs, so that a commit may change something.
    changes: bool,
    /// The request that owns the current transaction and ends it, if there is one.
    pub(super) request: Option<Request>,
    /// True if rows were removed since the last checkpoint of the files.
    has_removed: bool,
    /// A sentence about the current transaction, for when it is committed.
    pub(super) remark: Option<&'static str>,
    notice: Option<Notice>,
}

impl<D: Database> Transactions<D> {
    /// Returns the transactions over `database` of the application that is described.
    pub(crate) fn new(database: D, schema: Schema, pseudo: Pseudo) -> Self {
        Self {
            database: TenantScoped {
                database,
                tenancy: TenantScope::none(),
                vocabulary: Vocabulary::default(),
                refusal: None,
                shapes: Shapes::default(),
            },
            application: Application::new(schema, pseudo),
            sink: None,
            naming: Naming(None),
            admission: None,
            promises: Vec::new(),
            latest: Latest::Unkept,
            changes: false,
            request: None,
            has_removed: false,
            remark: None,
            notice: None,
        }
    }

    /// Sends every operation to `sink` before it is committed.
    pub(crate) fn set_sink(&mut self, sink: Box<dyn Sink>) {
        self.sink = Some(sink);
    }

    /// Returns whether operations are sent to a sink.
    pub(crate) const fn has_sink(&self) -> bool {
        self.sink.is_some()
    }

    /// Names people in the entries under this key.
    pub(crate) fn set_subject_key(&mut self, key: Arc<SubjectKey>) {
        self.naming = Naming(Some(key));
    }

    /// Lets every transaction wait for a place in `admission`.
    pub(crate) fn set_admission(&mut self, admission: Arc<Admission>) {
        self.admission = Some(admission);
    }

    /// Lets `notice` take what is to be told of a committed operation.
    pub(crate) fn set_notice(&mut self, notice: Notice) {
        self.notice = Some(notice);
    }

    /// Binds later transactions to a tenant.
    pub(crate) fn set_tenant(&mut self, tenant: Option<Value>) {
        self.database.tenancy.tenant = tenant.map(Tenant::new);
    }

    /// Returns the tenant that was set.
    pub(crate) fn tenant(&self) -> Option<&Value> {
        self.database.tenancy.tenant.as_ref().map(|it| &it.value)
    }

    /// Returns how people are named in the entries.
    pub(crate) const fn naming(&self) -> &Naming {
        &self.naming
    }

    /// Reads the schema if it has changed.
    pub(crate) fn refresh(&mut self) -> Result<(), Error> {
        self.application.refresh(&mut self.database)
    }

    /// Reads the schema whether it has changed or not: creating or dropping a trigger changes no
    /// table.
    pub(crate) fn read_schema(&mut self) -> Result<(), Error> {
        self.application.forget_schema();
        self.refresh()
    }

    /// Refuses a missing tenant, and one in a database without tenants.
    pub(crate) fn need_tenant(&self) -> Result<(), Error> {
        self.application.need_tenant(&self.database.tenancy)
    }

    /// Binds later statements to the tenant that was set; refuses a missing or an unexpected
    /// tenant.
    pub(super) fn enter(&mut self) -> Result<(), Error> {
        self.application.enter(&mut self.database)
    }

    /// Runs an operation in one transaction, and again after a conflict with another one. A refusal
    /// is an entry too, logged after the rollback.
    pub(crate) fn operation<T>(
        &mut self,
        asked: &OperationRequest<'_>,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.has_removed |= asked.removes();
        if let (Some(request), Some(user)) = (&mut self.request, asked.user) {
            request.cohort = Some(cohort(&request.salt, &user.principal()));
        }
        self.changes = asked.changes();
        let outcome = self.tried(|open, work| open.transaction(work), work);
        self.changes = false;
        self.told(asked, outcome)
    }

    /// Runs an operation that concerns all tenants.
    pub(crate) fn operation_of_all<T>(
        &mut self,
        asked: &OperationRequest<'_>,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tenant = self.database.tenancy.tenant.take();
        self.changes = asked.changes();
        let outcome = self.tried_of_all(work);
        self.changes = false;
        let outcome = self.told(asked, outcome);
        self.database.tenancy.tenant = tenant;
        outcome
    }

    /// Runs `work`, of which no entry tells, in transactions until none conflicts with others.
    pub(crate) fn tried_in_one<T>(
        &mut self,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.tried(|open, work| open.transaction(work), work)
    }

    /// Runs `work`, which concerns all tenants and of which no entry tells, in transactions until
    /// none conflicts with others.
    pub(crate) fn tried_of_all<T>(
        &mut self,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.tried(|open, work| open.transaction_of_all(work), work)
    }

    fn tried<T, W: FnMut(&mut Self) -> Result<T, Error>>(
        &mut self,
        transaction: impl Fn(&mut Self, &mut W) -> Result<T, Error>,
        mut work: W,
    ) -> Result<T, Error> {
        if self.request.is_some() {
            let outcome = transaction(self, &mut work);
            if let (Err(error), Some(request)) = (&outcome, &mut self.request) {
                request.is_in_conflict = error.is_conflict();
            }
            return outcome;
        }
        let mut tries = 1;
        loop {
            match transaction(self, &mut work) {
                Err(error) if error.is_conflict() && tries < TRIES_MAX => {
                    self.retract(&error)?;
                    pause(tries)?;
                    tries = tries.saturating_add(1);
                }
                outcome => return outcome,
            }
        }
    }

    /// Returns whether the database still answers.
    pub(crate) fn answers(&mut self) -> bool {
        self.transaction_of_all(|open| {
            let answer = open.database.query("SELECT 1", &[]);
            answer
                .doing("asking whether the database answers")
                .map(drop)
        })
        .is_ok()
    }

    /// Runs `work` in one transaction, once.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction_of_all(|open| {
            open.enter()?;
            work(open)
        })
    }

    /// Runs `work`, which concerns all tenants, in one transaction, once.
    pub(crate) fn transaction_of_all<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.request.is_some() {
            return work(self);
        }
        let admission = self.admission();
        let _place = admission.as_deref().map(Admission::enter);
        self.begin()?;
        let done = match work(self) {
            Ok(done) => done,
            Err(error) => {
                // The first error is the one to report; a connection that cannot roll back is lost anyway.
                self.database.rollback().unwrap_or_default();
                return Err(self.or_lost(error));
            }
        };
        self.commit()?;
        Ok(done)
    }

    /// Returns the error, or where a table was missing, and is one that was there before, that it was
    /// lost.
    fn or_lost(&mut self, error: Error) -> Error {
        let is_absent = match &error {
            Error::NotInstalled => true,
            Error::Database { source, .. } => source.kind == DatabaseErrorKind::Absent,
            _ => false,
        };
        let lost = is_absent.then(|| refuse_lost(&mut self.database.database));
        match lost {
            Some(Err(lost @ Error::RecordsLost { .. })) => lost,
            _ => error,
        }
    }

    /// Returns the admission that every transaction passes, if there is one.
    pub(super) fn admission(&self) -> Option<Arc<Admission>> {
        self.admission.clone()
    }

    /// Begins a transaction.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        // What was to be said of a transaction that was rolled back is not so.
        self.remark = None;
        self.latest = match self.sink {
            Some(_) => latest::read(&mut self.database)?,
            None => Latest::Unkept,
        };
        self.database.begin().doing("beginning")
    }

    /// Forgets the operations that some log tells of: the next one is the first.
    pub(crate) fn forget_operations(&mut self) -> Result<(), Error> {
        operation::remove_logged(&mut self.database)?;
        if !matches!(self.latest, Latest::Unkept) {
            latest::clear(&mut self.database)?;
            self.latest = Latest::Known(Vec::new());
        }
        Ok(())
    }

    /// Has everything checked that the database puts off to the commit, unless the request at hand
    /// does so for all of its operations.
    pub(crate) fn check_put_off(&mut self) -> Result<(), Error> {
        if self.request.is_some() {
            return Ok(());
        }
        self.check_deferred()
    }

    /// Has everything checked that the database puts off to the commit.
    pub(super) fn check_deferred(&mut self) -> Result<(), Error> {
        self.database
            .check_deferred()
            .doing("checking what is checked at the commit")
    }

    /// Commits, and where the database refuses or is lost asks it what became of the transaction.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        let Err(refused) = self.database.commit() else {
            self.committed();
            return Ok(());
        };
        // A commit that was refused may have left the transaction open.
        let is_over = self.database.rollback().is_ok();
        let Some(promise) = self.promises.first() else {
            // A chunk notes no operation: nobody can ask what became of it.
            return match (is_over, self.changes) {
                (false, true) => Err(Error::Unsettled(refused)),
                _ => Err(refused).doing("committing"),
            };
        };
        let (salt, key) = (&promise.whole, &promise.key);
        let own = is_over.then(|| operation::fate(&mut self.database.database, salt, key, false));
        let fate = own.flatten().or_else(|| {
            let mut another = self.database.another().ok()?;
            operation::fate(&mut *another, salt, key, true)
        });
        match fate {
            Some(CommitOutcome::Done) => {
                self.committed();
                Ok(())
            }
            Some(CommitOutcome::Undone) => Err(refused).doing("committing"),
            Some(CommitOutcome::Unknown) | None => Err(Error::Unsettled(refused)),
        }
    }

    /// Ends a transaction that was committed.
    fn committed(&mut self) {
        self.promises.clear();
        self.clear_away();
        if let (Some(remark), Some(notice)) = (self.remark.take(), &mut self.notice) {
            notice(remark);
        }
    }

    /// Takes out of the files what was removed. It is done whatever becomes of this: what is left is told.
    fn clear_away(&mut self) {
        if !mem::take(&mut self.has_removed) {
            return;
        }
        let left = self.database.clear_away().unwrap_or_else(|error| {
            Some(format!(
                "what was removed may still be read in the files of the database, which could not be cleared: {error}"
            ))
        });
        if let (Some(left), Some(notice)) = (left, &mut self.notice) {
            notice(&left);
        }
    }
}

/// Waits before the next try. The pause is random and grows, so that operations that met do not
/// meet again at once. Without it a server that sees a deadlock of many may choose the same victim
/// each time.
pub(super) fn pause(tries: u32) -> Result<(), Error> {
    let longest = 1_u64.checked_shl(tries).unwrap_or(u64::MAX);
    let longest = longest.min(PAUSE_MILLISECONDS_MAX);
    let drawn = u64::from(u16::from_le_bytes(random()?));
    // The longest pause is never nothing.
    let pause = drawn.checked_rem(longest).unwrap_or(0);
    thread::park_timeout(Duration::from_millis(pause));
    Ok(())
}
