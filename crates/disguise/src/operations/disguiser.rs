//! The disguiser: applies a disguise, or a part of one, in an open transaction.

use super::options::Options;
use super::planner::Planner;
use super::{accounts, holders};
use crate::crypto::suite::PublicKey;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::chunk::Chunk;
use crate::execute::apply::principals::Principals;
use crate::execute::apply::{
    Applied, Applier, ApplyRequest, Forgotten, Inputs, PreviousChunks, StepCursor,
};
use crate::plan::place::Place;
use crate::plan::step::Step;
use crate::records::chunk_note::ChunkNotes;
use crate::records::credential::Credential;
use crate::records::holder::{Claim, Holder};
use crate::records::section::PrincipalKind;
use crate::transaction::audit::{OperationRequest, written};
use crate::transaction::context::ApplyContext;
use crate::transaction::payload::Payload;
use crate::transaction::scheduled;
use crate::transaction::transactions::Transactions;

/// The rows that are surveyed together.
const SURVEY_ROWS: usize = 1_000;

/// A disguise, or a chunk of one.
pub(super) struct Disguise<'a> {
    pub(super) id: DisguiseId,
    pub(super) request: &'a ApplyRequest<'a>,
    /// The principals whose rows are meant, if any.
    pub(super) owners: Option<&'a [Value]>,
    pub(super) forgotten: &'a Forgotten,
    /// The state that the earlier chunks left, if this is one of several.
    pub(super) earlier: Option<PreviousChunks>,
    /// The key of the user whose account an earlier chunk removed.
    pub(super) away: Option<PublicKey>,
    /// The approximate limit of rows for this part, if there is one.
    pub(super) most: Option<u32>,
}

/// Applies disguises in an open transaction.
pub(super) struct Disguiser<'w, D: Database> {
    pub(super) open: &'w mut Transactions<D>,
    pub(super) options: &'w Options,
}

impl<D: Database> Disguiser<'_, D> {
    pub(super) fn applied(
        &mut self,
        id: DisguiseId,
        request: &ApplyRequest<'_>,
        asked: &OperationRequest<'_>,
        (forgotten, earlier): (&Forgotten, Option<PreviousChunks>),
    ) -> Result<Applied, Error> {
        let context = self.context(request.user.as_ref())?;
        self.refuse_absent(&context, request)?;
        let parts = (forgotten, earlier);
        let (mut applied, payload) = self.applied_on(&context, (id, request), parts)?;
        if context.has_scheduled {
            let key = request.user.as_ref().and_then(|user| context.key_of(user));
            applied.ended = scheduled::end_like(&mut self.open.database, request, key)?;
        }
        let payload = payload.ending(&applied.ended);
        self.open.done(asked, payload)?;
        Ok(applied)
    }

    /// Applies the disguise in a known context, whether or not the user has a row. Gives what its
    /// entry is to say, too.
    pub(super) fn applied_on(
        &mut self,
        context: &ApplyContext,
        (id, request): (DisguiseId, &ApplyRequest<'_>),
        (forgotten, earlier): (&Forgotten, Option<PreviousChunks>),
    ) -> Result<(Applied, Payload), Error> {
        let owners = self.owners(context, request)?;
        let steps = self.steps(request, owners.as_deref())?;
        let meant = Disguise {
            id,
            request,
            owners: owners.as_deref(),
            forgotten,
            earlier,
            away: None,
            most: None,
        };
        let (applied, public_key) = self.disguise_all(context, meant, &steps)?;
        let payload = Payload::of_applied(&applied);
        let described = self.open.application.description_name()?;
        let salt = (&*context.salt, &*described);
        let payload = payload.described(salt, request, public_key.as_ref());
        Ok((applied, payload))
    }

    /// Returns the context of a disguise, by the present schema.
    pub(super) fn context(&mut self, user: Option<&Value>) -> Result<ApplyContext, Error> {
        self.open.refresh()?;
        ApplyContext::read(
            &mut self.open.database,
            user,
            self.open.application.pseudo(),
        )
    }

    /// Refuses a disguise of a user who has no row, or whom nobody could bring back. Without a
    /// credential, a person who is away looks like one who never was there.
    pub(super) fn refuse_absent(
        &mut self,
        context: &ApplyContext,
        request: &ApplyRequest<'_>,
    ) -> Result<(), Error> {
        accounts::refuse_namesakes(self.open, request.user.as_ref())?;
        let Some(user) = &request.user else {
            return match accounts::nobodys(self.open)? {
                Some(what) => Err(Error::Value { what }),
                None => Ok(()),
            };
        };
        accounts::refuse_nobody(self.open, user)?;
        let is_registered = context.key_of(user).is_some();
        if context.has_row && is_registered && !user.has_spellings() {
            return Ok(());
        }
        if context.has_row && is_registered {
            return accounts::refuse_without(self.open, user);
        }
        if let Some(over) = &request.over {
            let holder = self.holder_on(context, user, over)?;
            if let Some(by) = holder.taken_by(&mut self.open.database)? {
                return Err(Error::AlreadyDisguised { by });
            }
        }
        accounts::refuse_without(self.open, user)?;
        Err(Error::NotRegistered {
            table: self.open.application.pseudo().table.clone(),
        })
    }

    /// Takes all steps of a disguise; a person with very many rows is disguised part by part.
    fn disguise_all(
        &mut self,
        context: &ApplyContext,
        mut disguise: Disguise<'_>,
        steps: &[Step],
    ) -> Result<(Applied, Option<PublicKey>), Error> {
        let most = disguise
            .request
            .user
            .as_ref()
            .map(|_| self.options.apply_rows.get());
        let mut course = StepCursor::new(most);
        let mut all = Applied::none(disguise.id);
        let mut earlier = disguise.earlier.take();
        let public_key = loop {
            let part = Disguise {
                earlier: earlier
                    .take()
                    .or_else(|| course.is_in_pages().then(PreviousChunks::default)),
                away: None,
                most: course.most(),
                ..disguise
            };
            let (applied, public_key) =
                self.disguise(context, part, |work| work.go_on(steps, &mut course))?;
            all.add(&applied);
            if course.is_done(steps) {
                break public_key;
            }
        };
        if course.was_in_pages() {
            ChunkNotes::remove(&mut self.open.database, all.id)?;
        }
        Ok((all, public_key))
    }

    /// Runs `take` on the steps of a disguise, and stores its records. Returns the key of its user,
    /// too.
    pub(super) fn disguise(
        &mut self,
        context: &ApplyContext,
        disguise: Disguise<'_>,
        take: impl FnOnce(&mut Applier<'_>) -> Result<(), Error>,
    ) -> Result<(Applied, Option<PublicKey>), Error> {
        let request = disguise.request;
        let end = request.end()?;
        let ApplyContext { salt, held, .. } = context;
        if let Some(user) = &request.user {
            held.refuse_person(salt, user)?;
        }
        let now = written(request.time);
        let (catalog, live) = self.open.application.described()?;
        live.defer_foreign_keys(&mut self.open.database)?;
        let user = request.user.as_ref();
        let notes = ChunkNotes {
            id: disguise.id,
            salt,
        };
        // Of everybody, nobody in particular is meant.
        let owners = disguise.owners.unwrap_or_default();
        let known = context.registered.clone();
        let principals = Principals::new(live, notes, user, owners, known);
        let mut principals = principals.after(disguise.earlier);
        let mut public_key = None;
        if let Some(user) = user {
            let name = user.principal();
            if let Some(away) = disguise.away {
                let registered = principals.known.entry(name.clone());
                registered.or_insert((away, PrincipalKind::Person));
            }
            public_key = principals
                .known
                .get(&name)
                .map(|(public, _)| public.clone());
            if public_key.is_none() {
                return Err(Error::NotRegistered {
                    table: live.pseudo.table.clone(),
                });
            }
        }
        let mut work = Applier::new(Inputs {
            id: disguise.id,
            database: &mut self.open.database,
            live,
            catalog,
            salt,
            updates: context.updates,
            now: &now,
            redactors: &self.options.redactors,
            user,
            principals,
            most: disguise.most,
            has_holds: held.has_people(),
        });
        take(&mut work)?;
        if request.user.is_none() {
            held.refuse_any(salt, work.met())?;
        }
        held.refuse_any(salt, work.at_stake())?;
        let applied = work.finish((request.time.nanoseconds(), end), disguise.forgotten)?;
        Ok((applied, public_key))
    }

    /// The user and, with a credential, every pseudoprincipal behind which the user stands.
    pub(super) fn owners(
        &mut self,
        context: &ApplyContext,
        request: &ApplyRequest<'_>,
    ) -> Result<Option<Vec<Value>>, Error> {
        let Some(user) = &request.user else {
            return match request.over {
                None => Ok(None),
                Some(_) => Err(Error::Value {
                    what: "a credential needs a user".to_owned(),
                }),
            };
        };
        let mut owners = vec![user.clone()];
        if let Some(over) = &request.over {
            let holder = self.holder_on(context, user, over)?;
            if !holder.is_registered() {
                return Err(Error::WrongCredential);
            }
            owners.append(&mut holders::acts_as(
                self.open,
                &holder,
                holder.reach().present(),
            )?);
        }
        Ok(Some(owners))
    }

    /// The person whom a disguise means, to whom the credential is bound.
    pub(super) fn holder_on(
        &mut self,
        context: &ApplyContext,
        user: &Value,
        credential: &Credential<'_>,
    ) -> Result<Holder, Error> {
        let claim = Claim {
            user,
            credential,
            cost: self.options.key_cost,
            registered: context.key_of(user).cloned(),
        };
        Holder::find(&mut self.open.database, &context.salt, &claim)?.undisplaced()
    }

    /// Returns the planner of the transaction.
    pub(super) fn planner(&mut self) -> Planner<'_, D> {
        Planner {
            open: self.open,
            redactors: &self.options.redactors,
        }
    }

    /// The steps of a disguise, by the schema as it was last read.
    pub(super) fn steps(
        &mut self,
        request: &ApplyRequest<'_>,
        owners: Option<&[Value]>,
    ) -> Result<Vec<Step>, Error> {
        self.planner()
            .planned(request.spec, &request.parameters, owners)
    }

    /// Returns the key of the user, if one is meant; refuses a user who is not registered, or held.
    pub(super) fn may_be_hidden(
        &self,
        context: &ApplyContext,
        user: Option<&Value>,
    ) -> Result<Option<PublicKey>, Error> {
        let Some(user) = user else {
            return Ok(None);
        };
        context.held.refuse_person(&context.salt, user)?;
        let known = context.key_of(user).cloned();
        known.map(Some).ok_or_else(|| Error::NotRegistered {
            table: self.open.application.pseudo().table.clone(),
        })
    }

    /// Refuses held rows of one user, in the current transaction.
    pub(super) fn refuse_stakes(
        &mut self,
        context: &ApplyContext,
        (id, request): (DisguiseId, &ApplyRequest<'_>),
        owners: Option<&[Value]>,
    ) -> Result<(), Error> {
        let mut place = Place::START;
        if request.user.is_none() || !context.held.has_people() {
            return Ok(());
        }
        while self.surveyed(context, (id, request), owners, &mut place)? {}
        Ok(())
    }

    /// Checks the next page of rows. Returns whether there are more.
    pub(super) fn surveyed(
        &mut self,
        context: &ApplyContext,
        (id, request): (DisguiseId, &ApplyRequest<'_>),
        owners: Option<&[Value]>,
        place: &mut Place,
    ) -> Result<bool, Error> {
        let steps = self.steps(request, owners)?;
        let disguise = Disguise {
            id,
            request,
            owners,
            forgotten: &Forgotten::default(),
            earlier: None,
            away: None,
            most: None,
        };
        let mut more = false;
        self.disguise(context, disguise, |work| {
            more = Chunk::new(work, &steps).survey(place, SURVEY_ROWS)?;
            Ok(())
        })?;
        Ok(more)
    }
}
