//! Applying a disguise, in one transaction.

use std::collections::BTreeSet;

use super::engine::Engine;
use crate::crypto::random;
use crate::crypto::suite::PublicKey;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::execute::apply::principals::Principals;
use crate::execute::apply::{
    self, Applied, ApplyRequest, Forgotten, Notes, PreviousChunks, StepCursor,
};
use crate::plan::likeness::declared;
use crate::plan::step::{SCOPE, Step};
use crate::records::chunk_note::ChunkNotes;
use crate::records::credential::Credential;
use crate::records::holder::{Claim, Holder};
use crate::records::section::PrincipalKind;
use crate::statements::table::{found, insert_all};
use crate::transaction::audit::{OperationRequest, written};
use crate::transaction::context::ApplyContext;
use crate::transaction::payload::Payload;

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

impl<D: Database> Engine<D> {
    /// Applies a disguise.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed then.
    pub fn apply(&mut self, request: &ApplyRequest<'_>) -> Result<Applied, Error> {
        let id = DisguiseId(u64::from_le_bytes(random()?));
        let user = request.user.as_ref();
        let asked = OperationRequest::new("disguise.apply", id.to_string(), user, request.time);
        self.operation(&asked, |engine| {
            request.spec.refuse_unknown(&request.parameters, None)?;
            engine.applied(id, request, &asked, (&Forgotten::default(), None))
        })
    }

    pub(super) fn applied(
        &mut self,
        id: DisguiseId,
        request: &ApplyRequest<'_>,
        asked: &OperationRequest<'_>,
        (forgotten, earlier): (&Forgotten, Option<PreviousChunks>),
    ) -> Result<Applied, Error> {
        let context = self.context(request.user.as_ref())?;
        self.refuse_absent(&context, request)?;
        self.applied_on(&context, (id, request), asked, (forgotten, earlier))
    }

    /// Applies the disguise in a known context, whether or not the user has a row.
    pub(super) fn applied_on(
        &mut self,
        context: &ApplyContext,
        (id, request): (DisguiseId, &ApplyRequest<'_>),
        asked: &OperationRequest<'_>,
        (forgotten, earlier): (&Forgotten, Option<PreviousChunks>),
    ) -> Result<Applied, Error> {
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
        let payload = payload.described(&context.salt, request, public_key.as_ref());
        self.done(asked, payload)?;
        Ok(applied)
    }

    /// Returns the context of a disguise, by the present schema.
    pub(super) fn context(&mut self, user: Option<&Value>) -> Result<ApplyContext, Error> {
        self.refresh()?;
        ApplyContext::read(&mut self.database, user, &self.pseudo)
    }

    /// Refuses a disguise of a user who has no row, or whom nobody could bring back. Without a
    /// credential, a person who is away looks like one who never was there.
    pub(super) fn refuse_absent(
        &mut self,
        context: &ApplyContext,
        request: &ApplyRequest<'_>,
    ) -> Result<(), Error> {
        self.refuse_namesakes(request.user.as_ref())?;
        let Some(user) = &request.user else {
            return Ok(());
        };
        let is_registered = context.key_of(user).is_some();
        if context.has_row && is_registered && !user.has_spellings() {
            return Ok(());
        }
        if context.has_row && is_registered {
            return self.refuse_without_row(user);
        }
        if let Some(over) = &request.over {
            let holder = self.holder_on(context, user, over)?;
            if let Some(by) = holder.taken_by(&mut self.database)? {
                return Err(Error::AlreadyDisguised { by });
            }
        }
        self.refuse_without_row(user)?;
        Err(Error::NotRegistered {
            table: self.pseudo.table.clone(),
        })
    }

    /// Refuses a user who has no row in the users table, or has one in another spelling: principals
    /// are compared letter by letter.
    pub(super) fn refuse_without_row(&mut self, user: &Value) -> Result<(), Error> {
        self.refuse_namesakes(Some(user))?;
        let (table, id) = (&self.pseudo.table, &self.pseudo.id);
        let there = found(&mut self.database, table, id, std::slice::from_ref(user))?;
        match there.values().next() {
            Some(held) if held.principal() == user.principal() => Ok(()),
            Some(_) => Err(Error::Value {
                what: format!(
                    "table {table} has this user in another spelling, like capitals, accents or spaces in it; name them as it does"
                ),
            }),
            None => Err(Error::NoSuchUser {
                table: table.clone(),
            }),
        }
    }

    /// Refuses a user who is named as away and has a row in the users table.
    pub(super) fn refuse_with_row(&mut self, user: &Value) -> Result<(), Error> {
        match self.refuse_without_row(user) {
            Err(Error::NoSuchUser { .. }) => Ok(()),
            Ok(()) => Err(Error::Value {
                what: format!("table {} has a row of this user", self.pseudo.table),
            }),
            Err(error) => Err(error),
        }
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
            .map(|_| self.apply_rows.get());
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
            ChunkNotes::remove(&mut self.database, all.id)?;
        }
        Ok((all, public_key))
    }

    /// Runs `take` on the steps of a disguise, and stores its records. Returns the key of its user,
    /// too.
    pub(super) fn disguise(
        &mut self,
        context: &ApplyContext,
        disguise: Disguise<'_>,
        take: impl FnOnce(&mut apply::Applier<'_>) -> Result<(), Error>,
    ) -> Result<(Applied, Option<PublicKey>), Error> {
        let request = disguise.request;
        let end = request.end()?;
        let ApplyContext { salt, held, .. } = context;
        if let Some(user) = &request.user {
            held.refuse_person(salt, user)?;
        }
        let now = written(request.time);
        let Some((_, catalog, live)) = &self.live else {
            return Err(Error::NotInstalled);
        };
        live.defer_foreign_keys(&mut self.database)?;
        let user = request.user.as_ref();
        let notes = ChunkNotes {
            id: disguise.id,
            salt,
        };
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
        let mut work = apply::Applier {
            database: &mut self.database,
            live,
            catalog,
            salt,
            updates: context.updates,
            now: &now,
            redactors: &self.redactors,
            user,
            principals,
            notes: Notes::default(),
            applied: Applied::none(disguise.id),
            most: disguise.most,
            removals: Vec::new(),
            at_stake: held.has_people().then(BTreeSet::new),
        };
        take(&mut work)?;
        if request.user.is_none() {
            held.refuse_any(salt, work.principals.known.keys())?;
        }
        held.refuse_any(salt, work.at_stake.iter().flatten())?;
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
            owners.append(&mut self.acts_as(&holder, holder.reach().present())?);
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
            cost: self.cost,
            registered: context.key_of(user).cloned(),
        };
        Holder::find(&mut self.database, &context.salt, &claim)?.undisplaced()
    }

    /// The steps of a disguise, by the schema as it was last read.
    pub(super) fn steps(
        &mut self,
        request: &ApplyRequest<'_>,
        owners: Option<&[Value]>,
    ) -> Result<Vec<Step>, Error> {
        self.planned(request.spec, &request.parameters, owners)
    }

    /// Lists the owners in a temporary table, where they are too many for a statement.
    pub(super) fn scope(&mut self, owners: &[Value]) -> Result<(), Error> {
        let pseudo = &self.pseudo;
        let of = self
            .described()?
            .1
            .table(&pseudo.table)
            .and_then(|table| table.catalog.column(&pseudo.id))
            .map(|column| declared(self.database.dialect(), column))
            .unwrap_or_default();
        let statements = [
            format!("CREATE TEMPORARY TABLE IF NOT EXISTS {SCOPE} (id {of})"),
            format!("DELETE FROM {SCOPE}"),
        ];
        for statement in statements {
            self.database
                .execute(&statement, &[])
                .doing("listing the owners")?;
        }
        let rows: Vec<Vec<Value>> = owners.iter().map(|id| vec![id.clone()]).collect();
        insert_all(&mut self.database, SCOPE, &["id"], &rows)
    }
}
