//! Disguises in chunks: many rows of one person, in transactions of a size that does not hold up others.

use std::collections::BTreeMap;

use probity_format::Timestamp;
use sha2::{Digest as _, Sha256};

use super::Engine;
use super::disguise::Disguise;
use crate::apply::{Applied, ApplyRequest, Forgotten};
use crate::audit::{Asked, counts};
use crate::crypto::random;
use crate::database::{Database, Dialect, PARAMETERS_MAX};
use crate::error::{Doing as _, Error};
use crate::hold::Held;
use crate::intent::{self, Intent, PLAN_BYTES};
use crate::operation;
use crate::plan::Step;
use crate::predicate::Fragment;
use crate::scheduled::Order;
use crate::schema::Known;
use crate::spec::Kind;
use crate::store::{self, DisguiseId};
use crate::suite::PublicKey;
use crate::table::{among, list};
use crate::value::Value;

/// The most rows that a chunk touches, unless something else is said.
pub const CHUNK_ROWS: u32 = 1_000;

/// What a chunk came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// More is to be done; so many rows and placeholders so far.
    Going(Applied),
    /// It is done.
    Done(Applied),
}

impl<D: Database> Engine<D> {
    /// Notes that a disguise of one person is to be applied in chunks, and gives its handle; no row is touched yet. What was
    /// asked for, with the user in clear, stays in the database until it is done.
    ///
    /// # Errors
    /// What [`Engine::apply`] would refuse, and [`Error::Value`] for what cannot be done in chunks: everybody's rows, a
    /// credential, placeholders for groups, keys that are overwritten, rows to remove that refer to their own table.
    pub fn begin(&mut self, request: &ApplyRequest<'_>) -> Result<DisguiseId, Error> {
        let id = DisguiseId(u64::from_le_bytes(random()?));
        let user = request.user.as_ref();
        let asked = Asked::new("disguise.begin", id.to_string(), user, request.time);
        self.operation(&asked, |engine| {
            request.end()?;
            let steps = engine.chunked_steps(request)?;
            let salt = store::salt(&mut engine.database)?;
            let public_key = engine.may_be_hidden(&salt, request)?;
            let intent = Intent {
                order: Order::of(request),
                plan: plan(&steps),
                public_key,
                time: request.time.nanoseconds(),
                step: 0,
                seen: Vec::new(),
                rows: BTreeMap::new(),
                pseudoprincipals: 0,
            };
            intent::put(&mut engine.database, id, &intent)?;
            let payload = operation::described("{}", &salt, request, Some(&intent.public_key));
            engine.done(&asked, &payload)
        })?;
        Ok(id)
    }

    /// Does the next chunk of a disguise, in one transaction; whatever is killed, the next call goes on where the last
    /// committed chunk ended. A reveal takes back what is done so far, and ends it.
    ///
    /// # Errors
    /// [`Error::NoSuchDisguise`] when it is done or was ended; those of [`Engine::apply`], and then nothing of this
    /// chunk has changed; [`Error::Value`] when the schema changed since it was begun.
    pub fn proceed(
        &mut self,
        id: DisguiseId,
        rows: u32,
        time: Timestamp,
    ) -> Result<Progress, Error> {
        let intent = self.transaction(|engine| intent::read(&mut engine.database, id))?;
        let file = intent.order.parsed()?;
        let request = intent.order.request(&file, intent.time()?);
        let user = request.user.as_ref();
        let asked = Asked::new("disguise.apply", id.to_string(), user, time);
        self.operation(&asked, |engine| {
            // Read again, now that nobody else can go on with it.
            let mut intent = intent::read(&mut engine.database, id)?;
            let steps = engine.chunked_steps(&request)?;
            if plan(&steps) != intent.plan {
                let what =
                    "the schema changed since the disguise was begun; reveal it, and begin another";
                return Err(Error::Value {
                    what: what.to_owned(),
                });
            }
            let chunk = engine.chunk(&steps, &mut intent, rows)?;
            let salt = store::salt(&mut engine.database)?;
            let mut done = Applied {
                id,
                rows: BTreeMap::new(),
                pseudoprincipals: 0,
            };
            if !chunk.is_empty() {
                let disguise = Disguise {
                    id,
                    request: &request,
                    owners: request.user.as_ref().map(std::slice::from_ref),
                    steps: &chunk,
                    forgotten: &Forgotten::default(),
                };
                (done, _) = engine.disguise(&salt, &disguise)?;
            }
            for (table, count) in done.rows {
                let all = intent.rows.entry(table).or_default();
                *all = all.saturating_add(count);
            }
            intent.pseudoprincipals = intent
                .pseudoprincipals
                .saturating_add(done.pseudoprincipals);
            let so_far = Applied {
                id,
                rows: intent.rows.clone(),
                pseudoprincipals: intent.pseudoprincipals,
            };
            if usize::try_from(intent.step).is_ok_and(|step| step < steps.len()) {
                intent::put(&mut engine.database, id, &intent)?;
                return Ok(Progress::Going(so_far));
            }
            intent::remove(&mut engine.database, id)?;
            let made = [("pseudoprincipals", so_far.pseudoprincipals)];
            let payload = counts(&so_far.rows, &made);
            let key = Some(&intent.public_key);
            let payload = operation::described(&payload, &salt, &request, key);
            engine.done(&asked, &payload)?;
            Ok(Progress::Done(so_far))
        })
    }

    /// Does all chunks that are left of a disguise; `now` gives the time of each.
    ///
    /// # Errors
    /// Those of [`Engine::proceed`]; what was committed before stays done, and is gone on with by the next call.
    pub fn finish(
        &mut self,
        id: DisguiseId,
        rows: u32,
        mut now: impl FnMut() -> Timestamp,
    ) -> Result<Applied, Error> {
        loop {
            if let Progress::Done(applied) = self.proceed(id, rows, now())? {
                return Ok(applied);
            }
        }
    }

    /// The disguises that were begun and are neither done nor ended.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn unfinished(&mut self) -> Result<Vec<DisguiseId>, Error> {
        self.transaction(|engine| intent::list(&mut engine.database))
    }

    /// The key of the user, who is registered and not held.
    fn may_be_hidden(
        &mut self,
        salt: &[u8],
        request: &ApplyRequest<'_>,
    ) -> Result<PublicKey, Error> {
        let user = request.user.as_ref().ok_or(Error::Forged)?;
        Held::all(&mut self.database)?.refuse_person(salt, user)?;
        let registered = store::principals(&mut self.database, &[user.principal()])?;
        let known = registered.values().next();
        known
            .map(|(public, _)| public.clone())
            .ok_or_else(|| Error::Unregistered {
                table: self.pseudo.table.clone(),
                rows: 1,
            })
    }

    /// The steps of a disguise that can be applied in chunks.
    fn chunked_steps(&mut self, request: &ApplyRequest<'_>) -> Result<Vec<Step>, Error> {
        let refuse = |what: &str| {
            Err(Error::Value {
                what: format!("{what} cannot be done in chunks"),
            })
        };
        let Some(user) = &request.user else {
            return refuse("a disguise of everybody");
        };
        if request.over.is_some() {
            return refuse("a disguise over placeholders, for which a credential would be kept,");
        }
        let steps = self.steps(request, Some(std::slice::from_ref(user)))?;
        let (_, live) = self.described()?;
        for step in &steps {
            let Some(table) = live.table(&step.table) else {
                continue;
            };
            let own = table.references.iter().any(|it| it.to_table == table.name);
            match &step.kind {
                Kind::Remove if own => {
                    return refuse(&format!(
                        "removing rows of {}, which refers to itself,",
                        table.name
                    ));
                }
                Kind::Modify { column, .. } if table.identity.contains(column) => {
                    return refuse(&format!("overwriting the key of {}", table.name));
                }
                Kind::Decorrelate { group_by, .. } if !group_by.is_empty() => {
                    return refuse("placeholders for groups");
                }
                _ => {}
            }
        }
        Ok(steps)
    }

    /// The next rows, step by step, each step with its number and a condition that chooses no others.
    fn chunk(
        &mut self,
        steps: &[Step],
        intent: &mut Intent,
        rows: u32,
    ) -> Result<Vec<(u32, Step)>, Error> {
        let mut left = rows.max(1);
        let mut chunk = Vec::new();
        while left > 0 {
            let number = usize::try_from(intent.step).unwrap_or(usize::MAX);
            let Some(step) = steps.get(number) else {
                break;
            };
            let keys = self.next_keys(step, &intent.seen, left)?;
            let Some(last) = keys.last() else {
                intent.step = intent.step.saturating_add(1);
                intent.seen.clear();
                continue;
            };
            intent.seen.clone_from(last);
            left = left.saturating_sub(u32::try_from(keys.len()).unwrap_or(u32::MAX));
            let (_, live) = self.described()?;
            let table = live.table(&step.table).ok_or(Error::NotInstalled)?;
            let dialect = self.database.dialect();
            let chosen = Fragment {
                sql: among(dialect, &table.identity, keys.len()),
                parameters: keys.concat(),
            };
            chunk.push((
                intent.step,
                Step {
                    chosen,
                    ..step.clone()
                },
            ));
        }
        Ok(chunk)
    }

    /// The identities of the next rows of a step, in their order.
    fn next_keys(
        &mut self,
        step: &Step,
        seen: &[Value],
        rows: u32,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let dialect = self.database.dialect();
        let (_, live) = self.described()?;
        let table = live.table(&step.table).ok_or(Error::NotInstalled)?;
        let (name, keys) = (dialect.quote(&table.name), list(dialect, &table.identity));
        let tenancy = &self.database.tenancy;
        let chosen = tenancy.bound(dialect, &table.name, &step.chosen);
        let mut sql = format!("SELECT {keys} FROM {name} WHERE ({})", chosen.sql);
        let mut parameters = chosen.parameters;
        if !seen.is_empty() {
            sql = format!("{sql} AND ({keys}) > ({})", typed(dialect, table));
            parameters.extend_from_slice(seen);
        }
        let width = table.identity.len().max(1);
        let most = PARAMETERS_MAX.checked_div(width).unwrap_or(1);
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(rows);
        let sql = format!("{sql} ORDER BY {keys} LIMIT {most}");
        self.database
            .query(&sql, &parameters)
            .doing("choosing the rows of a chunk")
    }
}

/// A parameter for each column of the identity.
fn typed(dialect: Dialect, table: &Known) -> String {
    let typed = table.identity.iter();
    let typed = typed.map(|key| dialect.typed(table.catalog.column(key)));
    typed.collect::<Vec<_>>().join(",")
}

/// A hash of what the steps do to which tables, in which order.
fn plan(steps: &[Step]) -> [u8; PLAN_BYTES] {
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
    out
}
