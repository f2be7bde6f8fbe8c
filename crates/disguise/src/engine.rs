//! The engine: one connection, one description of the application, and the operations on them.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::{Outcome, Timestamp};

use crate::apply::{self, Applied, ApplyRequest};
use crate::audit::{Event, Sink, counts, tell, written};
use crate::credential::{self, Credential, KeyCost};
use crate::crypto::random;
use crate::database::{Catalog, Database};
use crate::error::{Doing as _, Error};
use crate::plan::{Aim, PlannedStep, SCOPE, Step};
use crate::principal::{self, Registration, needed_by_others, reach, stored_for_others};
use crate::reveal::{self, RevealRequest, Revealed};
use crate::schema::{Live, Pseudo, Schema};
use crate::spec::Spec;
use crate::store::{self, DisguiseId, Stored};
use crate::table::{insert_all, select};
use crate::value::Value;

/// Applies and reveals disguises over one connection.
///
/// Every operation is one serialisable transaction; on any error it is rolled back and nothing has changed.
pub struct Engine<D: Database> {
    database: D,
    schema: Schema,
    pseudo: Pseudo,
    cost: KeyCost,
    sink: Option<Box<dyn Sink>>,
    live: Option<(i64, Catalog, Live)>,
}

impl<D: Database> Engine<D> {
    /// An engine for the application that `schema` and `pseudo` describe.
    pub const fn new(database: D, schema: Schema, pseudo: Pseudo) -> Self {
        Self {
            database,
            schema,
            pseudo,
            cost: KeyCost::DEFAULT,
            sink: None,
            live: None,
        }
    }

    /// Sets what a password costs; it must be the same for registering and for opening.
    pub const fn set_key_cost(&mut self, cost: KeyCost) {
        self.cost = cost;
    }

    /// Tells `sink` of every operation, before it is committed.
    pub fn set_sink(&mut self, sink: Box<dyn Sink>) {
        self.sink = Some(sink);
    }

    /// The connection, for the application's own statements.
    pub const fn database(&mut self) -> &mut D {
        &mut self.database
    }

    /// Creates the engine's own tables where they are missing; nothing existing is changed.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub fn install(&mut self) -> Result<(), Error> {
        self.transaction(|engine| store::install(&mut engine.database))
    }

    /// Registers `user`, who gets a private key, and with a password also a recovery token.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`], [`Error::NotInstalled`], [`Error::Database`], [`Error::Crypto`].
    pub fn register(
        &mut self,
        user: &Value,
        password: Option<&str>,
    ) -> Result<Registration, Error> {
        self.transaction(|engine| {
            principal::register(&mut engine.database, user, password, engine.cost)
        })
    }

    /// Replaces one password of `user` by another; disguised data need no change, for only the wrapping does.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] and those of [`Engine::register`].
    pub fn change_password(
        &mut self,
        user: &Value,
        current: &Credential<'_>,
        old: Option<&str>,
        new: &str,
    ) -> Result<(), Error> {
        self.transaction(|engine| {
            let cost = engine.cost;
            let database = &mut engine.database;
            let salt = store::salt(database)?;
            let key = credential::recover(database, &salt, user, current, cost)?;
            if let Some(old) = old {
                credential::remove(database, &salt, user, &Credential::Password(old), cost)?;
            }
            credential::put(
                database,
                &salt,
                user,
                &key,
                &Credential::Password(new),
                cost,
            )
        })
    }

    /// Checks `spec` against the live schema without changing anything.
    ///
    /// # Errors
    /// [`Error::Spec`] with the place of the first fault.
    pub fn check(&mut self, spec: &Spec, named: &BTreeMap<String, Value>) -> Result<(), Error> {
        self.refresh()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        Aim {
            dialect,
            catalog,
            live,
            named,
            owners: None,
        }
        .plan(spec)?;
        Ok(())
    }

    /// Shows the steps that `spec` would take, with the rows each would touch now; changes nothing.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::Database`].
    pub fn plan(
        &mut self,
        spec: &Spec,
        user: Option<&Value>,
        named: &BTreeMap<String, Value>,
    ) -> Result<Vec<PlannedStep>, Error> {
        self.refresh()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        let owners = user.map(std::slice::from_ref);
        let steps = Aim {
            dialect,
            catalog,
            live,
            named,
            owners,
        }
        .plan(spec)?;
        let mut planned = Vec::with_capacity(steps.len());
        for step in steps {
            let table = dialect.quote(&step.table);
            let statement = format!("SELECT COUNT(*) FROM {table} WHERE {}", step.chosen.sql);
            let counted = self
                .database
                .query(&statement, &step.chosen.parameters)
                .doing("counting rows")?;
            let rows = match counted.first().and_then(|row| row.first()) {
                Some(Value::Int(rows)) => rows.unsigned_abs(),
                _ => 0,
            };
            let action = step.action();
            planned.push(PlannedStep {
                table: step.table,
                action,
                statement,
                rows,
            });
        }
        Ok(planned)
    }

    /// Applies a disguise.
    ///
    /// # Errors
    /// See [`Error`]; nothing has changed then.
    pub fn apply(&mut self, request: &ApplyRequest<'_>) -> Result<Applied, Error> {
        let outcome = self.transaction(|engine| engine.applied(request));
        self.tell_refusal(
            "disguise.apply",
            request.user.as_ref(),
            request.time,
            &outcome,
        )?;
        outcome
    }

    /// Reveals a disguise as far as that is safe; what stays disguised can be tried again.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::NoSuchDisguise`], [`Error::Database`]; nothing has changed then.
    pub fn reveal(&mut self, request: &RevealRequest<'_>) -> Result<Revealed, Error> {
        let outcome = self.transaction(|engine| engine.revealed(request));
        self.tell_refusal(
            "disguise.reveal",
            Some(&request.user),
            request.time,
            &outcome,
        )?;
        outcome
    }

    /// The pseudoprincipals that the holder of `credential` may act as, along chains of any length.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`].
    pub fn speaks_for(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
    ) -> Result<Vec<Value>, Error> {
        self.transaction(|engine| {
            let database = &mut engine.database;
            let salt = store::salt(database)?;
            let key = credential::recover(database, &salt, user, credential, engine.cost)?;
            Ok(reach(database, &salt, &key)?.present())
        })
    }

    /// The disguises that hide something of the holder of `credential`.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`].
    pub fn list(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
    ) -> Result<Vec<DisguiseId>, Error> {
        self.transaction(|engine| {
            let database = &mut engine.database;
            let salt = store::salt(database)?;
            let key = credential::recover(database, &salt, user, credential, engine.cost)?;
            let reach = reach(database, &salt, &key)?;
            let ids: BTreeSet<DisguiseId> = reach
                .bags
                .iter()
                .filter(|it| it.found.locator.changes)
                .map(|it| DisguiseId(it.found.locator.origin.disguise))
                .collect();
            Ok(ids.into_iter().collect())
        })
    }

    /// Destroys the records of a disguise, so that nobody can ever reveal it; links that others need stay.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::NoSuchDisguise`], [`Error::Database`], [`Error::Audit`].
    pub fn forget(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        id: DisguiseId,
        time: Timestamp,
    ) -> Result<(), Error> {
        let outcome = self.transaction(|engine| {
            let cost = engine.cost;
            let database = &mut engine.database;
            let salt = store::salt(database)?;
            let key = credential::recover(database, &salt, user, credential, cost)?;
            let reach = reach(database, &salt, &key)?;
            let meant: Vec<_> = reach
                .bags
                .iter()
                .filter(|it| it.found.locator.origin.disguise == id.0)
                .collect();
            if !meant.iter().any(|it| it.found.locator.changes) {
                return Err(Error::NoSuchDisguise);
            }
            let others = reach
                .bags
                .iter()
                .any(|it| it.found.locator.origin.disguise != id.0);
            let kept = if others {
                needed_by_others(database, &meant)?
            } else {
                Vec::new()
            };
            let gone: Vec<_> = meant.iter().map(|it| &it.found).collect();
            store::remove_bags(database, &gone)?;
            let stored: Vec<Stored<'_>> = kept
                .iter()
                .map(|(bag, it)| stored_for_others(bag, it))
                .collect();
            store::put_bags(database, &salt, &stored)?;
            let bags = u64::try_from(gone.len()).unwrap_or(u64::MAX);
            engine.done(
                "disguise.forget",
                id,
                Some(user),
                time,
                format!("{{\"bags\":{bags}}}"),
            )
        });
        self.tell_refusal("disguise.forget", Some(user), time, &outcome)?;
        outcome
    }

    fn applied(&mut self, request: &ApplyRequest<'_>) -> Result<Applied, Error> {
        let salt = store::salt(&mut self.database)?;
        let owners = self.owners(&salt, request)?;
        let steps = self.steps(request, owners.as_deref())?;
        let id = DisguiseId(u64::from_le_bytes(random()?));
        let now = written(request.time);
        let Some((_, catalog, live)) = &self.live else {
            return Err(Error::NotInstalled);
        };
        let mut work = apply::Work {
            database: &mut self.database,
            live,
            catalog,
            salt: &salt,
            now: &now,
            user: request.user.as_ref(),
            own: owners.iter().flatten().map(Value::principal).collect(),
            bags: BTreeMap::new(),
            known: BTreeMap::new(),
            made: BTreeSet::new(),
            applied: Applied {
                id,
                rows: BTreeMap::new(),
                pseudoprincipals: 0,
            },
        };
        if let Some(user) = &request.user {
            let name = user.principal();
            work.known = store::principals(work.database, std::slice::from_ref(&name))?;
            if !work.known.contains_key(&name) {
                return Err(Error::Unregistered {
                    table: live.pseudo.table.clone(),
                    rows: 1,
                });
            }
        }
        for (number, step) in steps.iter().enumerate() {
            work.run(u32::try_from(number).unwrap_or(u32::MAX), step)?;
        }
        let applied = work.finish(request.time.nanoseconds())?;
        let payload = counts(
            &applied.rows,
            &[("pseudoprincipals", applied.pseudoprincipals)],
        );
        self.done(
            "disguise.apply",
            id,
            request.user.as_ref(),
            request.time,
            payload,
        )?;
        Ok(applied)
    }

    /// The user and, with a credential, every pseudoprincipal behind which the user stands.
    fn owners(
        &mut self,
        salt: &[u8],
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
            let key = credential::recover(&mut self.database, salt, user, over, self.cost)?;
            let registered = store::principals(&mut self.database, &[user.principal()])?;
            let public = key.public()?;
            if registered.values().all(|(known, _)| *known != public) {
                return Err(Error::WrongCredential);
            }
            owners.append(&mut reach(&mut self.database, salt, &key)?.present());
        }
        Ok(Some(owners))
    }

    fn steps(
        &mut self,
        request: &ApplyRequest<'_>,
        owners: Option<&[Value]>,
    ) -> Result<Vec<Step>, Error> {
        self.refresh()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        let aim = Aim {
            dialect,
            catalog,
            live,
            named: &request.parameters,
            owners,
        };
        let many = aim.needs_scope_table();
        let steps = aim.plan(request.spec)?;
        if many {
            self.scope(owners.unwrap_or_default())?;
        }
        Ok(steps)
    }

    fn scope(&mut self, owners: &[Value]) -> Result<(), Error> {
        let pseudo = &self.pseudo;
        let of = self
            .described()?
            .1
            .table(&pseudo.table)
            .and_then(|table| table.catalog.column(&pseudo.id))
            .map(|column| column.declared.clone())
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

    fn revealed(&mut self, request: &RevealRequest<'_>) -> Result<Revealed, Error> {
        self.refresh()?;
        let salt = store::salt(&mut self.database)?;
        let cost = self.cost;
        let key = credential::recover(
            &mut self.database,
            &salt,
            &request.user,
            &request.credential,
            cost,
        )?;
        let reach = reach(&mut self.database, &salt, &key)?;
        let Some((_, _, live)) = &self.live else {
            return Err(Error::NotInstalled);
        };
        let mut work = reveal::Work {
            database: &mut self.database,
            live,
            salt: &salt,
            reach: &reach,
            references: request.references,
            rows: request.rows,
            revealed: Revealed::default(),
            needed: BTreeSet::new(),
            settle: false,
            cleared: BTreeSet::new(),
            returned: BTreeSet::new(),
        };
        work.run(request.id)?;
        let revealed = work.revealed;
        let kept = u64::try_from(revealed.kept.len()).unwrap_or(u64::MAX);
        let payload = counts(&revealed.restored, &[("kept", kept)]);
        self.done(
            "disguise.reveal",
            request.id,
            Some(&request.user),
            request.time,
            payload,
        )?;
        Ok(revealed)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        let version = self
            .database
            .catalog_version()
            .doing("reading the schema")?;
        if self
            .live
            .as_ref()
            .is_none_or(|(known, _, _)| *known != version)
        {
            let catalog = self.database.catalog().doing("reading the schema")?;
            let own = |name: &String| !name.starts_with("probity_");
            let catalog: Catalog = catalog.into_iter().filter(|(name, _)| own(name)).collect();
            let live = Live::new(catalog.clone(), &self.schema, &self.pseudo)?;
            self.live = Some((version, catalog, live));
        }
        Ok(())
    }

    fn described(&self) -> Result<(&Catalog, &Live), Error> {
        self.live
            .as_ref()
            .map(|(_, catalog, live)| (catalog, live))
            .ok_or(Error::NotInstalled)
    }

    fn done(
        &mut self,
        action: &'static str,
        id: DisguiseId,
        user: Option<&Value>,
        time: Timestamp,
        payload: String,
    ) -> Result<(), Error> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let salt = store::salt(&mut self.database)?;
        let event = Event {
            action,
            key: id.to_string(),
            user,
            outcome: Outcome::Ok,
            payload,
        };
        tell(sink.as_mut(), &salt, time, &event)
    }

    /// A refusal is an entry too; it is told after the rollback, for nothing else of the operation is left.
    fn tell_refusal<T>(
        &mut self,
        action: &'static str,
        user: Option<&Value>,
        time: Timestamp,
        outcome: &Result<T, Error>,
    ) -> Result<(), Error> {
        let (Some(sink), Err(error)) = (&mut self.sink, outcome) else {
            return Ok(());
        };
        let Ok(salt) = store::salt(&mut self.database) else {
            return Ok(());
        };
        let denied = matches!(error, Error::WrongCredential | Error::NoSuchDisguise);
        let outcome = if denied {
            Outcome::Denied
        } else {
            Outcome::Failed
        };
        let event = Event {
            action,
            key: String::new(),
            user,
            outcome,
            payload: String::new(),
        };
        tell(sink.as_mut(), &salt, time, &event)
    }

    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.database.begin().doing("beginning")?;
        match work(self) {
            Ok(done) => {
                self.database.commit().doing("committing")?;
                Ok(done)
            }
            Err(error) => {
                // The first error is the one to report; a connection that cannot roll back is lost anyway.
                self.database.rollback().unwrap_or_default();
                Err(error)
            }
        }
    }
}

impl<D: Database> Engine<D> {
    /// The rows of `table` as they are now, by all columns.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn rows(&mut self, table: &str) -> Result<Vec<Vec<Value>>, Error> {
        self.refresh()?;
        let columns: Vec<String> = match self.described()?.1.table(table) {
            Some(table) => table
                .catalog
                .columns
                .iter()
                .map(|it| it.name.clone())
                .collect(),
            None => {
                return Err(Error::Value {
                    what: format!("there is no table {table}"),
                });
            }
        };
        let all = crate::predicate::Fragment {
            sql: "1=1".to_owned(),
            parameters: Vec::new(),
        };
        select(&mut self.database, table, &columns, &all)
    }
}
