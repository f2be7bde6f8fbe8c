//! Disguises in chunks: many rows, in transactions of a size that does not hold up others.

use std::collections::BTreeMap;

use probity_format::Timestamp;
use sha2::{Digest as _, Sha256};

use super::accounts;
use super::disguiser::{Disguise, Disguiser};
use super::holders;
use super::options::Options;
use crate::crypto::random;
use crate::crypto::suite::PublicKey;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::chunk::Chunk;
use crate::execute::apply::{Applied, ApplyRequest, Forgotten, PreviousChunks};
use crate::plan::likeness::Spellings;
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::records::credential::Credential;
use crate::records::hold::cohort;
use crate::records::settings;
use crate::transaction::audit::OperationRequest;
use crate::transaction::chunk_ids::ChunkIds;
use crate::transaction::context::ApplyContext;
use crate::transaction::intent::{self, Intent, PLAN_BYTES};
use crate::transaction::once::{Names, Once};
use crate::transaction::payload::Payload;
use crate::transaction::scheduled::{self, Order};
use crate::transaction::transactions::Transactions;

/// The most rows that a chunk touches, by default.
pub const CHUNK_ROWS: u32 = 1_000;

/// The outcome of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// More chunks are left; the rows and placeholders so far.
    Going(Applied),
    /// The disguise is done.
    Done(Applied),
}

/// A disguise in chunks that stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Halted {
    /// The handle of the disguise, if it has begun, or may have by an [`Error::Unsettled`]; absent
    /// when nothing of it is stored.
    pub begun: Option<DisguiseId>,
    /// The error that stopped it.
    pub cause: Error,
}

/// The salt of the current tenant, and the user whose rows a disguise means, if one.
type Whom<'a> = (&'a [u8], Option<&'a Value>);
/// The work that the last chunk does in addition, in its transaction.
type Last<'a, D> = dyn FnMut(&mut Transactions<D>, Whom<'_>, &Applied) -> Result<(), Error> + 'a;

/// The outcome of beginning a disguise in chunks.
enum Begun {
    Noted,
    /// Nothing was noted: the rows of these owners have to be surveyed first.
    Unsurveyed(Option<Vec<Value>>),
}

/// The owners whose rows one chunk covers.
struct Meant {
    /// The user, and the placeholders that the credential reaches; everybody when absent.
    owners: Option<Vec<Value>>,
    /// The user's key, if an earlier chunk removed the account.
    away: Option<PublicKey>,
}

/// The disguises in chunks, from [`Engine::chunks`](crate::Engine::chunks).
pub struct Chunks<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> Chunks<'_, D> {
    /// Notes that a disguise is to be applied in chunks and returns its handle. No row is touched
    /// yet. The request, with the user in clear, stays in the database until the disguise is done.
    /// A credential is not stored: the caller passes it again with each chunk over placeholders.
    ///
    /// When the disguise covers everybody, or somebody is held, all rows are read first, page by
    /// page. So nothing begins that would have to stop in the middle.
    ///
    /// # Errors
    /// Those of [`Engine::apply`](crate::Engine::apply), except the refusals by constraints of the
    /// database.
    pub fn begin(&mut self, request: &ApplyRequest<'_>) -> Result<DisguiseId, Error> {
        let begun = self.begin_or_say(request);
        begun.map_err(|halted| halted.cause)
    }

    /// Begins a disguise. An error says with which handle it may be begun nevertheless.
    fn begin_or_say(&mut self, request: &ApplyRequest<'_>) -> Result<DisguiseId, Halted> {
        let id = random().map(|it| DisguiseId(u64::from_le_bytes(it)));
        let id = id.map_err(|cause| Halted { begun: None, cause })?;
        let begun = self.begin_as(id, request);
        begun.map_err(|cause| Halted {
            begun: (!cause.is_undone()).then_some(id),
            cause,
        })?;
        Ok(id)
    }

    fn begin_as(&mut self, id: DisguiseId, request: &ApplyRequest<'_>) -> Result<(), Error> {
        let user = request.user.as_ref();
        let asked = OperationRequest::new("disguise.begin", id.to_string(), user, request.time);
        let options = self.options;
        let mut is_surveyed = false;
        if user.is_none() && request.over.is_none() {
            let known = request.spec.refuse_unknown(&request.parameters, None);
            let known = known.map_err(Error::from);
            let surveyed = known.and_then(|()| self.survey(id, request, None));
            self.transactions.told(&asked, surveyed)?;
            is_surveyed = true;
        }
        loop {
            let begun = self.transactions.operation(&asked, |open| {
                Chunks {
                    transactions: open,
                    options,
                }
                .begun(id, request, &asked, is_surveyed)
            })?;
            let Begun::Unsurveyed(owners) = begun else {
                return Ok(());
            };
            let surveyed = self.survey(id, request, owners.as_deref());
            self.transactions.told(&asked, surveyed)?;
            is_surveyed = true;
        }
    }

    /// Notes a disguise in chunks, unless holds exist and those on other people were not checked
    /// yet.
    fn begun(
        &mut self,
        id: DisguiseId,
        request: &ApplyRequest<'_>,
        asked: &OperationRequest<'_>,
        is_surveyed: bool,
    ) -> Result<Begun, Error> {
        let user = request.user.as_ref();
        request.spec.refuse_empty()?;
        request.spec.refuse_unknown(&request.parameters, None)?;
        request.end()?;
        let mut disguiser = self.disguiser();
        let context = disguiser.context(user)?;
        disguiser.refuse_absent(&context, request)?;
        let owners = disguiser.owners(&context, request)?;
        disguiser.steps(request, owners.as_deref())?;
        let public_key = disguiser.may_be_hidden(&context, user)?;
        if context.held.has_people() && !is_surveyed {
            return Ok(Begun::Unsurveyed(owners));
        }
        let intent = Intent {
            order: Order::of(request),
            plan: self.plan_hash(request)?,
            public_key,
            over: request.over.is_some(),
            time: request.time.nanoseconds(),
            place: Place::START,
            rows: BTreeMap::new(),
            pseudoprincipals: 0,
            under_placeholders: BTreeMap::new(),
            of_nobody: BTreeMap::new(),
            is_recorded: self.transactions.has_sink(),
            chunk_ids: ChunkIds::default(),
        };
        intent::put(&mut self.transactions.database, id, &intent)?;
        let key = intent.public_key.as_ref();
        let mut ended = Vec::new();
        if context.has_scheduled {
            ended = scheduled::end_like(&mut self.transactions.database, request, key)?;
        }
        let payload = Payload::new().ending(&ended);
        let described = self.transactions.application.description_name()?;
        let payload = payload.described((&context.salt, &described), request, key);
        self.transactions.done(asked, payload)?;
        Ok(Begun::Noted)
    }

    /// Applies the next chunk of a disguise, in one transaction. If the program is killed, the next
    /// call continues after the last committed chunk. A reveal takes back the chunks so far and
    /// ends the disguise; one of everybody goes on without the people who revealed it.
    ///
    /// # Errors
    /// [`Error::NoSuchDisguise`] when it is done or was ended; [`Error::Unrecorded`] when it was
    /// begun with a sink and there is none; those of
    /// [`Engine::apply`](crate::Engine::apply), and then nothing of this chunk has changed;
    /// [`Error::Value`] when the schema changed since it was begun, when a credential is missing,
    /// and when somebody else has the id of its person by now.
    pub fn proceed(
        &mut self,
        id: DisguiseId,
        rows: u32,
        time: Timestamp,
    ) -> Result<Progress, Error> {
        self.proceed_over(id, None, rows, time)
    }

    /// Applies the next chunk of a disguise over placeholders, with the credential it began with.
    ///
    /// # Errors
    /// Those of [`Chunks::proceed`], and [`Error::WrongCredential`].
    pub fn proceed_over(
        &mut self,
        id: DisguiseId,
        over: Option<&Credential<'_>>,
        rows: u32,
        time: Timestamp,
    ) -> Result<Progress, Error> {
        self.advance((id, over), rows, time, &mut |_, _, _| Ok(()))
    }

    /// Applies the next chunk; `last` runs in the transaction of the last one.
    fn advance(
        &mut self,
        (id, over): (DisguiseId, Option<&Credential<'_>>),
        rows: u32,
        time: Timestamp,
        last: &mut Last<'_, D>,
    ) -> Result<Progress, Error> {
        let read = |open: &mut Transactions<D>| {
            let intent = intent::read(&mut open.database, id)?;
            intent.refuse_unrecorded(id, open.has_sink())?;
            let (file, time) = (intent.order.parsed()?, intent.time()?);
            Ok((intent, file, time))
        };
        let read = self.transactions.tried_in_one(read);
        let unknown = OperationRequest::new("disguise.apply", id.to_string(), None, time);
        let (intent, file, begun) = self.transactions.told(&unknown, read)?;
        let mut request = intent.order.request(&file, begun);
        request.over = over.filter(|_| intent.over).map(Credential::again);
        let user = request.user.as_ref();
        let options = self.options;
        let asked = OperationRequest::new("disguise.apply", id.to_string(), user, time);
        self.transactions.operation(&asked, |open| {
            // Read again, because now no other connection can continue it.
            let mut intent = intent::read(&mut open.database, id)?;
            request.refuse_over(time)?;
            open.refresh()?;
            if request.user.is_none()
                && let Some(what) = accounts::nobodys(open)?
            {
                return Err(Error::Value { what });
            }
            let mut chunks = Chunks {
                transactions: open,
                options,
            };
            let steps = chunks.chunk(id, &request, (&mut intent, rows))?;
            let so_far = intent.so_far(id);
            if usize::try_from(intent.place.step).is_ok_and(|step| step < steps) {
                intent::put(&mut open.database, id, &intent)?;
                open.check_put_off()?;
                return Ok(Progress::Going(so_far));
            }
            intent::remove(&mut open.database, id)?;
            let salt = settings::salt(&mut open.database)?;
            let key = intent.public_key.as_ref();
            let described = open.application.description_name()?;
            let payload = Payload::of_applied(&so_far);
            let payload = payload.described((&salt, &described), &request, key);
            open.done(&asked, payload.chunked([(id, &intent.chunk_ids)]))?;
            last(open, (&salt, user), &so_far)?;
            Ok(Progress::Done(so_far))
        })
    }

    /// Applies all remaining chunks of a disguise; `now` gives the time of each.
    ///
    /// # Errors
    /// Those of [`Chunks::proceed`]; committed chunks stay done, and the next call continues after
    /// them.
    pub fn finish(
        &mut self,
        id: DisguiseId,
        rows: u32,
        now: impl FnMut() -> Timestamp,
    ) -> Result<Applied, Error> {
        self.finish_over(id, None, rows, now)
    }

    /// Applies all chunks of a disguise over placeholders, with the credential it began with.
    ///
    /// # Errors
    /// Those of [`Chunks::proceed_over`].
    pub fn finish_over(
        &mut self,
        id: DisguiseId,
        over: Option<&Credential<'_>>,
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
    ) -> Result<Applied, Error> {
        loop {
            if let Progress::Done(applied) = self.proceed_over(id, over, rows, now())? {
                return Ok(applied);
            }
        }
    }

    /// Does all chunks that are left of a disguise, like [`Chunks::finish_over`], which was begun by a request that may be asked
    /// again: the last chunk keeps the answer that `answer` gives, in the place of what was kept when it was begun.
    ///
    /// # Errors
    /// Those of [`Chunks::finish_over`].
    pub fn finish_once(
        &mut self,
        (id, over): (DisguiseId, Option<&Credential<'_>>),
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
        once: &Once<'_>,
        mut answer: impl FnMut(&Applied) -> Vec<u8>,
    ) -> Result<Applied, Error> {
        let mut keep = |open: &mut Transactions<D>, (salt, user): Whom<'_>, applied: &Applied| {
            let names = Names::new(&open.database, salt, once)?;
            let cohort = user.map(|user| cohort(salt, &user.principal()));
            names.keep(&mut open.database, cohort, &answer(applied))
        };
        loop {
            let progress = self.advance((id, over), rows, now(), &mut keep)?;
            if let Progress::Done(applied) = progress {
                return Ok(applied);
            }
        }
    }

    /// Begins a disguise and applies all of its chunks; `now` gives the time of each. If the first
    /// is refused, the disguise is cancelled, so that no later [`Chunks::unfinished`] finds it.
    ///
    /// # Errors
    /// Those of [`Chunks::begin`] and [`Chunks::proceed_over`]. They carry the handle of a disguise
    /// that is begun still and can be continued, cancelled or revealed. [`Error::EndedByAnother`]
    /// where another run went on with it and ended it.
    pub fn apply(
        &mut self,
        request: &ApplyRequest<'_>,
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
    ) -> Result<Applied, Halted> {
        let (id, progress) = self.start(request, rows, &mut now)?;
        if let Progress::Done(applied) = progress {
            return Ok(applied);
        }
        let begun = Some(id);
        let applied = self.finish_over(id, request.over.as_ref(), rows, now);
        applied.map_err(|cause| match cause {
            Error::NoSuchDisguise => ended(id),
            cause => Halted { begun, cause },
        })
    }

    /// Begins a disguise and applies its first chunk, for callers that may stop between chunks. If
    /// that is refused, the disguise is cancelled as by [`Chunks::apply`].
    ///
    /// # Errors
    /// Those of [`Chunks::apply`].
    pub fn start(
        &mut self,
        request: &ApplyRequest<'_>,
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
    ) -> Result<(DisguiseId, Progress), Halted> {
        let id = self.begin_or_say(request)?;
        match self.proceed_over(id, request.over.as_ref(), rows, now()) {
            Ok(progress) => Ok((id, progress)),
            Err(Error::NoSuchDisguise) => Err(ended(id)),
            Err(cause) => {
                // One that could not be cancelled is named, beside the cause.
                let is_gone = cause.is_undone() && self.withdraw(id, now()).unwrap_or(false);
                let begun = (!is_gone).then_some(id);
                Err(Halted { begun, cause })
            }
        }
    }

    /// Cancels a disguise of which no chunk is done. Returns whether it is gone.
    fn withdraw(&mut self, id: DisguiseId, time: Timestamp) -> Result<bool, Error> {
        let asked = OperationRequest::new("disguise.cancel", id.to_string(), None, time);
        self.transactions.operation(&asked, |open| {
            let Some(intent) = intent::find(&mut open.database, id)? else {
                return Ok(true);
            };
            // Another connection may have continued it meanwhile.
            if intent.place != Place::START || intent.hidden() > 0 {
                return Ok(false);
            }
            intent::remove(&mut open.database, id)?;
            open.done(&asked, Payload::new().with("hidden", 0))?;
            Ok(true)
        })
    }

    /// Returns the disguises that were begun and are neither done nor ended.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn unfinished(&mut self) -> Result<Vec<DisguiseId>, Error> {
        self.transactions
            .transaction(|open| intent::list(&mut open.database))
    }

    /// Returns a disguise that was begun with the same specification and the same person, and is
    /// neither done nor ended: beginning it again would be a second one.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Forged`].
    pub fn unfinished_like(
        &mut self,
        request: &ApplyRequest<'_>,
    ) -> Result<Option<DisguiseId>, Error> {
        self.transactions
            .transaction(|open| intent::like(&mut open.database, request))
    }

    /// Checks, before anything is changed, that records can be kept for everybody who is meant, and
    /// that nobody is held: a page of rows in each transaction. For one user only the holds are
    /// checked, on all people with a stake in the rows.
    fn survey(
        &mut self,
        id: DisguiseId,
        request: &ApplyRequest<'_>,
        owners: Option<&[Value]>,
    ) -> Result<(), Error> {
        let options = self.options;
        let (mut place, mut more) = (Place::START, true);
        while more {
            let from = place.clone();
            let look = |open: &mut Transactions<D>| {
                // The transaction may be tried again.
                place.clone_from(&from);
                let mut disguiser = Disguiser { open, options };
                let context = disguiser.context(request.user.as_ref())?;
                disguiser.surveyed(&context, (id, request), owners, &mut place)
            };
            more = self.transactions.tried_in_one(look)?;
        }
        Ok(())
    }

    /// Disguises the next rows and moves the intent behind them. Returns the number of steps.
    fn chunk(
        &mut self,
        id: DisguiseId,
        request: &ApplyRequest<'_>,
        (intent, rows): (&mut Intent, u32),
    ) -> Result<usize, Error> {
        if self.plan_hash(request)? != intent.plan {
            let what =
                "the schema changed since the disguise was begun; reveal it, and begin another";
            return Err(Error::Value {
                what: what.to_owned(),
            });
        }
        let user = request.user.as_ref();
        let context = self.disguiser().context(user)?;
        context.refuse_other_person(user, intent.public_key.as_ref())?;
        let meant = self.meant(id, &context, request, intent)?;
        let mut disguiser = self.disguiser();
        let steps = disguiser.steps(request, meant.owners.as_deref())?;
        let disguise = Disguise {
            id,
            request,
            owners: meant.owners.as_deref(),
            forgotten: &Forgotten::default(),
            earlier: Some(PreviousChunks::default()),
            away: meant.away,
            most: None,
        };
        let place = &mut intent.place;
        let (done, public_key) = disguiser.disguise(&context, disguise, |work| {
            Chunk::new(work, &steps).advance(place, rows)
        })?;
        intent.public_key = public_key;
        if done.rows.values().any(|rows| *rows > 0) {
            intent.chunk_ids.add()?;
        }
        let mut so_far = intent.so_far(id);
        so_far.add(&done);
        intent.rows = so_far.rows;
        intent.pseudoprincipals = so_far.pseudoprincipals;
        intent.under_placeholders = so_far.under_placeholders;
        intent.of_nobody = so_far.of_nobody;
        Ok(steps.len())
    }

    fn disguiser(&mut self) -> Disguiser<'_, D> {
        Disguiser {
            open: self.transactions,
            options: self.options,
        }
    }

    /// Returns the owners whose rows the next chunk covers.
    fn meant(
        &mut self,
        id: DisguiseId,
        context: &ApplyContext,
        request: &ApplyRequest<'_>,
        intent: &Intent,
    ) -> Result<Meant, Error> {
        let Some(user) = &request.user else {
            return Ok(Meant {
                owners: None,
                away: None,
            });
        };
        let mut owners = vec![user.clone()];
        let mut away = intent.public_key.clone();
        if intent.over {
            let Some(over) = &request.over else {
                return Err(Error::OverNeeded);
            };
            let holder = self.disguiser().holder_on(context, user, over)?;
            let before = holder.reach().present_before(id);
            owners.append(&mut holders::acts_as(self.transactions, &holder, before)?);
            away = Some(holder.public().clone());
        }
        Ok(Meant {
            owners: Some(owners),
            away,
        })
    }

    /// Returns a hash of the changes of a disguise, the tables and their order.
    fn plan_hash(&mut self, request: &ApplyRequest<'_>) -> Result<[u8; PLAN_BYTES], Error> {
        let user = request.user.as_ref().map(std::slice::from_ref);
        self.transactions.refresh()?;
        // Further values that stand for the person change with each chunk, as their rows go.
        let said = (&request.parameters, &Spellings::new());
        let steps: Vec<Step> =
            self.disguiser()
                .planner()
                .planned_by_id(request.spec, said, user)?;
        let mut hash = Sha256::new();
        for step in steps {
            hash.update(format!(
                "{} {:?} {}\n",
                step.table, step.kind, step.chosen.sql
            ));
        }
        let mut out = [0; PLAN_BYTES];
        for (byte, hashed) in out.iter_mut().zip(hash.finalize()) {
            *byte = hashed;
        }
        Ok(out)
    }
}

/// Returns the error for a disguise that this run began, and that is there no more.
const fn ended(disguise: DisguiseId) -> Halted {
    Halted {
        begun: None,
        cause: Error::EndedByAnother { disguise },
    }
}
