//! The schedule: disguises whose grace period is over, and records that have ended.

use probity_format::Timestamp;

use super::disguiser::Disguiser;
use super::options::Options;
use super::unregister::{Rowless, rowless};
use crate::crypto::random;
use crate::crypto::suite::PublicKey;
use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::{Applied, ApplyRequest, Forgotten};
use crate::records::deadline::{self, Kept, Over};
use crate::records::refusal;
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::scheduled::{self, Order, Scheduled};
use crate::transaction::transactions::Transactions;
use crate::transaction::{intent, once, operation};

/// The most records that one transaction of a sweep destroys.
pub const SWEEP_RECORDS: u32 = 1_000;

/// The outcome of a sweep, or of its dry run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Disguises whose grace period was over.
    pub applied: Vec<Applied>,
    /// Disguises that are due, where nothing was to be changed.
    pub due: Vec<DisguiseId>,
    /// Disguises that were refused; they stay scheduled.
    pub refused: Vec<(DisguiseId, Error)>,
    /// Records destroyed, because their disguise had ended.
    pub records: u64,
    /// Records that have ended and are held, or may lead to what is.
    pub held: u64,
    /// People who are registered and have no row in the users table.
    pub rowless: Rowless,
}

/// The disguises that are to come and the records that end, from [`Engine::schedule`](crate::Engine::schedule).
pub struct Schedule<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> Schedule<'_, D> {
    /// Schedules a disguise for `due`. Until [`Schedule::sweep`] applies it, [`Schedule::cancel`] stops
    /// it. Specification and user lie in the database in clear until then, as the rows do. The
    /// schedule belongs to the person alone: a later holder of the same id is left alone.
    ///
    /// # Errors
    /// Those of [`Engine::apply`](crate::Engine::apply) now, and [`Error::Value`] with a credential, which is not stored, and
    /// while another one waits or goes on that hides the same: [`Schedule::like`], [`Chunks::unfinished_like`](crate::Chunks::unfinished_like).
    pub fn add(&mut self, request: &ApplyRequest<'_>, due: Timestamp) -> Result<DisguiseId, Error> {
        let id = DisguiseId(u64::from_le_bytes(random()?));
        let user = request.user.as_ref();
        let asked = OperationRequest::new("disguise.schedule", id.to_string(), user, request.time);
        let options = self.options;
        self.transactions.operation(&asked, |open| {
            if request.over.is_some() {
                return Err(Error::Value {
                    what: "a credential is not kept for a disguise that comes later".to_owned(),
                });
            }
            request.end_after(due.max(request.time))?;
            let mut disguiser = Disguiser { open, options };
            request.spec.refuse_empty()?;
            let mut planner = disguiser.planner();
            planner.check(request.spec, &request.parameters)?;
            let context = disguiser.context(user)?;
            disguiser.refuse_absent(&context, request)?;
            let key = disguiser.may_be_hidden(&context, user)?;
            let owners = disguiser.owners(&context, request)?;
            let steps = disguiser.steps(request, owners.as_deref())?;
            disguiser.planner().refuse_left_behind(&steps, user)?;
            disguiser.refuse_stakes(&context, (id, request), owners.as_deref())?;
            refuse_like(&mut open.database, request, key.as_ref())?;
            let payload = Payload::new().with("due", due.nanoseconds());
            let described = open.application.description_name()?;
            let salt = (&*context.salt, &*described);
            let payload = payload.described(salt, request, key.as_ref());
            let order = Order::of(request).bound_to(key);
            scheduled::put(&mut open.database, id, due, &order)?;
            open.done(&asked, payload)
        })?;
        Ok(id)
    }

    /// The disguises that wait for the same person with the same specification and parameters: another one is not scheduled,
    /// and they end when one is applied or begun.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn like(&mut self, request: &ApplyRequest<'_>) -> Result<Vec<DisguiseId>, Error> {
        let user = request.user.as_ref();
        let options = self.options;
        self.transactions.transaction(|open| {
            let context = Disguiser { open, options }.context(user)?;
            let key = user.and_then(|user| context.key_of(user));
            scheduled::like(&mut open.database, request, key)
        })
    }

    /// Stops a scheduled disguise, or one in chunks: what is done of that stays hidden, and can be revealed as if it were all.
    ///
    /// # Errors
    /// [`Error::NoSuchDisguise`] when it was applied or cancelled already; [`Error::Unrecorded`] when it was begun in chunks
    /// with a sink and there is none; [`Error::Database`], [`Error::Audit`].
    pub fn cancel(&mut self, id: DisguiseId, time: Timestamp) -> Result<(), Error> {
        let asked = OperationRequest::new("disguise.cancel", id.to_string(), None, time);
        self.transactions.operation(&asked, |open| {
            let is_told = open.has_sink();
            let database = &mut open.database;
            let Some(intent) = intent::find(database, id)? else {
                scheduled::take(database, id)?;
                return open.done(&asked, Payload::new());
            };
            intent.refuse_unrecorded(id, is_told)?;
            intent::remove(database, id)?;
            open.done(&asked, Payload::new().with("hidden", intent.hidden()))
        })
    }

    /// The scheduled disguises, or those of `user`, the next first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn list(&mut self, user: Option<&Value>) -> Result<Vec<Scheduled>, Error> {
        self.transactions
            .transaction(|open| scheduled::list(&mut open.database, user))
    }

    /// Applies what is due and destroys the records of disguises that have ended, in transactions of at most
    /// [`SWEEP_RECORDS`] records: a sweep that is stopped anywhere is finished by the next. Answers that were kept for
    /// requests asked again go, too, once their time is over.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Audit`]; what was committed before stays done.
    pub fn sweep(&mut self, time: Timestamp) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        for due in self.list(None)? {
            if due.is_due(time) {
                match self.apply_scheduled(due.id, time) {
                    Ok(applied) => swept.applied.push(applied),
                    // Somebody cancelled it, or another sweep was first.
                    Err(Error::NoSuchDisguise) => {}
                    Err(error) if error.ends_a_run(|| self.transactions.answers()) => {
                        return Err(error);
                    }
                    Err(error) => swept.refused.push((due.id, error)),
                }
            }
        }
        let mut kept = None;
        loop {
            let destroyed = self.destroy_over(time, &mut kept)?;
            swept.records = swept.records.saturating_add(destroyed);
            if destroyed == 0 {
                break;
            }
        }
        self.transactions.tried_in_one(|open| {
            once::remove_over(&mut open.database, time)?;
            operation::remove_over(&mut open.database, time)?;
            refusal::remove_over(&mut open.database, time)
        })?;
        swept.rowless = rowless(self.transactions)?;
        swept.held = self
            .transactions
            .transaction(|open| deadline::count_over(&mut open.database, time))?;
        Ok(swept)
    }

    /// Returns the expected outcome of [`Schedule::sweep`], as far as it is known without doing it.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn due(&mut self, time: Timestamp) -> Result<Swept, Error> {
        let scheduled = self.list(None)?;
        let due = scheduled.iter().filter(|it| it.is_due(time));
        let due = due.map(|it| it.id).collect();
        let rowless = rowless(self.transactions)?;
        self.transactions.transaction(|open| {
            let database = &mut open.database;
            let kept = Kept::find(database, time, None)?;
            let records = Over::find(database, &kept, time, u32::MAX)?.count();
            let all = deadline::count_over(database, time)?;
            Ok(Swept {
                due,
                records,
                held: all.saturating_sub(records),
                rowless: rowless.clone(),
                ..Swept::default()
            })
        })
    }

    fn apply_scheduled(&mut self, id: DisguiseId, time: Timestamp) -> Result<Applied, Error> {
        let order = self
            .transactions
            .transaction(|open| scheduled::read(&mut open.database, id))?;
        let file = order.parsed()?;
        let request = order.request(&file, time);
        let user = request.user.as_ref();
        let asked = OperationRequest::new("disguise.apply", id.to_string(), user, time);
        let options = self.options;
        self.transactions.operation(&asked, |open| {
            scheduled::take(&mut open.database, id)?;
            let mut disguiser = Disguiser { open, options };
            let context = disguiser.context(user)?;
            context.refuse_other_person(user, order.key())?;
            disguiser.applied(id, &request, &asked, (&Forgotten::default(), None))
        })
    }

    fn destroy_over(&mut self, time: Timestamp, kept: &mut Option<Kept>) -> Result<u64, Error> {
        let asked = OperationRequest::new("disguise.expire", String::new(), None, time);
        self.transactions.operation(&asked, |open| {
            let database = &mut open.database;
            let now = Kept::find(database, time, kept.take())?;
            let over = Over::find(database, &now, time, SWEEP_RECORDS)?;
            *kept = Some(now);
            if over.count() > 0 {
                over.destroy(database)?;
                let payload = Payload::new().with("records", over.count());
                open.done(&asked, payload.with("disguises", over.disguises))?;
            }
            Ok(over.count())
        })
    }
}

/// Refuses a second disguise of the same while one waits or goes on: it would hide a person again who came
/// back after the first.
fn refuse_like(
    database: &mut dyn TenantConnection,
    request: &ApplyRequest<'_>,
    key: Option<&PublicKey>,
) -> Result<(), Error> {
    let waiting = scheduled::like(database, request, key)?;
    let state = match waiting.first() {
        Some(id) => Some((*id, "is scheduled")),
        None => intent::like(database, request)?.map(|id| (id, "goes on in chunks")),
    };
    match state {
        None => Ok(()),
        Some((id, state)) => Err(Error::Value {
            what: format!(
                "disguise {id}, with the same specification for the same, {state} already, and a second one would hide again who came back after it: cancel that one first, if this is to take its place"
            ),
        }),
    }
}
