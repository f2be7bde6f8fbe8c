//! Disguising people who have been inactive, page by page.

use std::collections::BTreeMap;

use probity_format::Timestamp;
use sha2::{Digest as _, Sha256};

use super::disguiser::Disguiser;
use super::options::Options;
use super::planner::Planner;
use crate::crypto::random;
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::database::{Column, Database};
use crate::error::{DisguiseId, Doing as _, Error, SpecError};
use crate::execute::apply::{Applied, ApplyRequest, Forgotten};
use crate::records::hold::Held;
use crate::records::tables::DECAYED;
use crate::records::{registry, settings};
use crate::spec::Spec;
use crate::spec::predicate::Scope;
use crate::statements::deletion::delete_keys;
use crate::statements::row::{at, encoded};
use crate::statements::table::{insert_all, list, select_keys};
use crate::transaction::audit::OperationRequest;
use crate::transaction::transactions::Transactions;

/// Bytes of the mark of a person who decayed.
const MARK_BYTES: usize = 16;
/// Bytes of each half of it.
const HALF_BYTES: usize = 8;

/// A request of [`Decay::apply`].
pub struct DecayRequest<'a> {
    /// The disguise that is applied to each inactive person.
    pub spec: &'a Spec,
    /// A condition on the users table that selects the inactive, like `people.last_seen < :since`.
    pub inactive: &'a str,
    /// Values of the parameters of specification and condition.
    pub parameters: BTreeMap<String, Value>,
    /// The time until which each disguise can be revealed.
    pub expires: Option<Timestamp>,
    /// The last id of the page before.
    pub after: Option<Value>,
    /// The most people that the condition selects in this page.
    pub page: u32,
    /// The time of the entries.
    pub time: Timestamp,
}

/// The outcome for a page of inactive people.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Decayed {
    /// The disguises applied, one for each person; empty from [`Decay::inactive`].
    pub applied: Vec<Applied>,
    /// People to whom it applies.
    pub people: u64,
    /// People left out because nobody could ever bring them back: they have no key.
    pub unregistered: u64,
    /// People left out because they are held.
    pub held: u64,
    /// People left out because it was applied to them and they were not active since.
    pub before: u64,
    /// The errors of the people for whom the disguise was refused.
    pub refused: Vec<Error>,
    /// The id at which the next page begins; absent after the last one.
    pub next: Option<Value>,
}

impl Decayed {
    /// Counts a person who is inactive no longer, or is left out for the reason that `why` counts.
    const fn leave_out(&mut self, why: &Self) {
        self.people = self.people.saturating_sub(1);
        self.unregistered = self.unregistered.saturating_add(why.unregistered);
        self.held = self.held.saturating_add(why.held);
        self.before = self.before.saturating_add(why.before);
    }
}

/// A person of a page, by the state of the transaction that disguises them.
enum Met {
    /// Inactive still, and disguised.
    Inactive(Applied),
    /// Not inactive any more, or left out: the counts say why.
    LeftOut(Decayed),
}

/// The people among whom inactive ones are looked for.
enum Among<'a> {
    /// The next page.
    Page,
    /// The person with this id.
    One(&'a Value),
}

/// The decay of inactive accounts, from [`Engine::decay`](crate::Engine::decay).
pub struct Decay<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> Decay<'_, D> {
    /// Disguises a page of inactive people, each in a transaction of their own. A run that is
    /// stopped loses nothing: finished people stay done, and a new run takes the rest. Each can
    /// come back with their credential. Whoever was active, was held or was disguised since the
    /// page was read is left out.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::Database`], [`Error::Audit`]; committed work stays done. The
    /// refusals for single people are in [`Decayed::refused`].
    pub fn apply(&mut self, request: &DecayRequest<'_>) -> Result<Decayed, Error> {
        let checked = self.refuse_unfit(request);
        let read = |open: &mut Transactions<D>| page(open, request, &Among::Page);
        let page = checked.and_then(|()| self.transactions.tried_in_one(read));
        let nobody = OperationRequest::new("disguise.decay", String::new(), None, request.time);
        let (mut decayed, candidates) = self.transactions.told(&nobody, page)?;
        for id in candidates {
            match self.decay_one(request, id) {
                Ok(Met::Inactive(applied)) => decayed.applied.push(applied),
                Ok(Met::LeftOut(why)) => decayed.leave_out(&why),
                Err(error) if error.ends_a_run(|| self.transactions.answers()) => {
                    return Err(error);
                }
                Err(error) => decayed.refused.push(error),
            }
        }
        Ok(decayed)
    }

    /// Returns the people to whom [`Decay::apply`] would apply, and changes nothing.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::Database`].
    pub fn inactive(&mut self, request: &DecayRequest<'_>) -> Result<Decayed, Error> {
        self.refuse_unfit(request)?;
        Ok(self
            .transactions
            .transaction(|open| page(open, request, &Among::Page))?
            .0)
    }

    fn refuse_unfit(&mut self, request: &DecayRequest<'_>) -> Result<(), Error> {
        let (spec, parameters) = (request.spec, &request.parameters);
        spec.refuse_empty()?;
        spec.refuse_unknown(parameters, Some(request.inactive))?;
        let mut planner = Planner {
            open: self.transactions,
            redactors: &self.options.redactors,
        };
        planner.fits(spec, parameters)
    }

    fn decay_one(&mut self, request: &DecayRequest<'_>, id: Value) -> Result<Met, Error> {
        let disguise = DisguiseId(u64::from_le_bytes(random()?));
        let apply = ApplyRequest {
            spec: request.spec,
            user: Some(id),
            over: None,
            parameters: request.parameters.clone(),
            expires: request.expires,
            time: request.time,
        };
        let user = apply.user.as_ref();
        let asked =
            OperationRequest::new("disguise.decay", disguise.to_string(), user, request.time);
        let options = self.options;
        self.transactions.operation(&asked, |open| {
            let Some(user) = user else {
                return Ok(Met::LeftOut(Decayed::default()));
            };
            // The page is of a transaction before. Since then the person may have been active, held
            // or disguised, and somebody else may have the id.
            let (now, inactive) = page(open, request, &Among::One(user))?;
            if inactive.is_empty() {
                return Ok(Met::LeftOut(now));
            }
            let mut disguiser = Disguiser { open, options };
            let applied =
                disguiser.applied(disguise, &apply, &asked, (&Forgotten::default(), None))?;
            note_state(open, request.spec, user)?;
            Ok(Met::Inactive(applied))
        })
    }
}

/// Notes the state of the row of `user`, if there is one, so that only a change of it makes the
/// person count again.
pub(super) fn note_state<D: Database>(
    open: &mut Transactions<D>,
    spec: &Spec,
    user: &Value,
) -> Result<(), Error> {
    let (salt, rows) = salted_rows(open, user)?;
    for row in rows {
        let mark = [vec![mark(&salt, spec, &row)]];
        delete_keys(&mut open.database, DECAYED, &["mark".to_owned()], &mark)?;
        insert_all(&mut open.database, DECAYED, &["mark"], &mark)?;
    }
    Ok(())
}

/// Forgets the state of the row of `user`, of whom nothing is hidden any more: the person counts as
/// inactive as before, whichever decay it was.
pub(super) fn forget_state<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
) -> Result<(), Error> {
    let (salt, rows) = salted_rows(open, user)?;
    for row in rows {
        let first = of_row(&salt, &row);
        // The marks of a row begin alike.
        let last = [first.as_slice(), &[u8::MAX; MARK_BYTES]].concat();
        let between = [Value::Bytes(first), Value::Bytes(last)];
        let sql = format!("DELETE FROM {DECAYED} WHERE mark > ? AND mark < ?");
        let forgotten = open.database.execute(&sql, &between);
        forgotten.doing("forgetting a decay")?;
    }
    Ok(())
}

/// Returns the salt, and the rows of `user` in the users table: one, or none.
fn salted_rows<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
) -> Result<(Vec<u8>, Vec<Vec<Value>>), Error> {
    let (table, id, all) = users_columns(open)?;
    let salt = settings::salt(&mut open.database)?;
    let key = [vec![user.clone()]];
    let rows = select_keys(&mut open.database, &table, &all, &[id], &key)?;
    Ok((salt, rows))
}

/// Returns the users table, its column with the ids, and all of its columns.
fn users_columns<D: Database>(
    open: &Transactions<D>,
) -> Result<(String, String, Vec<String>), Error> {
    let (_, live) = open.application.described()?;
    let (table, id) = (live.pseudo.table.clone(), live.pseudo.id.clone());
    let what = "the users table is not in the catalog";
    let users = live.table(&table).ok_or(Error::Defect { what })?;
    let names = users
        .catalog
        .columns
        .iter()
        .map(|column: &Column| column.name.clone());
    let all = names.collect();
    Ok((table, id, all))
}

/// Returns the people whom the condition selects, and those among them to whom it applies.
fn page<D: Database>(
    open: &mut Transactions<D>,
    request: &DecayRequest<'_>,
    among: &Among<'_>,
) -> Result<(Decayed, Vec<Value>), Error> {
    open.refresh()?;
    let (columns, rows) = chosen(open, request, among)?;
    let id = open.application.pseudo().id.clone();
    let what = "a row of the users table was read without its id";
    let found = rows.iter().map(|row| at(&columns, row, &id).cloned());
    let found = found.map(|id| id.ok_or(Error::Defect { what }));
    let ids: Vec<Value> = found.collect::<Result<_, Error>>()?;
    let names: Vec<Vec<u8>> = ids.iter().map(Value::principal).collect();
    let database = &mut open.database;
    let salt = settings::salt(database)?;
    let registered = registry::principals(database, &names)?;
    let held = Held::all(database)?;
    let marks: Vec<[Vec<Value>; 2]> = rows
        .iter()
        .map(|row| {
            let marks = [
                mark(&salt, request.spec, row),
                former_mark(&salt, request.spec, row),
            ];
            marks.map(|mark| vec![mark])
        })
        .collect();
    let (column, by) = (["mark".to_owned()], ["mark".to_owned()]);
    let known = select_keys(database, DECAYED, &column, &by, &marks.concat())?;
    let mut decayed = Decayed::default();
    let full = u32::try_from(rows.len()).is_ok_and(|count| count >= request.page);
    decayed.next = ids.last().filter(|_last| full).cloned();
    let mut candidates = Vec::new();
    for ((id, name), mark) in ids.into_iter().zip(&names).zip(&marks) {
        let count = match registered.get(name) {
            None => &mut decayed.unregistered,
            // A placeholder cannot have been active.
            Some((_, standing)) if !standing.is_person() => continue,
            Some(_) if held.refuse_person(&salt, &id).is_err() => &mut decayed.held,
            Some(_) if mark.iter().any(|it| known.contains(it)) => &mut decayed.before,
            Some(_) => {
                candidates.push(id);
                &mut decayed.people
            }
        };
        *count = count.saturating_add(1);
    }
    Ok((decayed, candidates))
}

/// Returns the columns of the users table, and the rows of the page.
fn chosen<D: Database>(
    open: &mut Transactions<D>,
    request: &DecayRequest<'_>,
    among: &Among<'_>,
) -> Result<(Vec<String>, Vec<Vec<Value>>), Error> {
    let dialect = open.database.dialect();
    let (catalog, live) = open.application.described()?;
    let (table, id) = (&live.pseudo.table, &live.pseudo.id);
    let users = live.table(table).ok_or(Error::NotInstalled)?;
    let wrong = |what: String| SpecError::of_inactivity(what);
    let tenancy = &open.database.tenancy;
    let given = request.spec.given(&request.parameters)?;
    let scope = Scope::new(dialect, catalog, (&given, tenancy), table);
    let Fragment {
        sql,
        mut parameters,
    } = scope.condition(request.inactive).map_err(wrong)?;
    let all: Vec<String> = users
        .catalog
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let (from, name) = (dialect.quote(table), dialect.quote(id));
    let mut query = format!("SELECT {} FROM {from} WHERE ({sql})", list(dialect, &all));
    let bound = match among {
        Among::Page => request.after.as_ref().map(|after| ('>', after)),
        Among::One(id) => Some(('=', *id)),
    };
    if let Some((sign, than)) = bound {
        let typed = dialect.typed(users.catalog.column(id));
        query = format!("{query} AND {from}.{name} {sign} {typed}");
        parameters.push(than.clone());
    }
    let mut own = tenancy.and(dialect, table, table);
    query.push_str(&own.sql);
    parameters.append(&mut own.parameters);
    let page = request.page;
    let query = format!("{query} ORDER BY {from}.{name} LIMIT {page}");
    let rows = open
        .database
        .query(&query, &parameters)
        .doing("looking for inactive people")?;
    Ok((all, rows))
}

/// Returns a hash of a row of the users table in its present state, and then one of it and of the
/// specification.
fn mark(salt: &[u8], spec: &Spec, row: &[Value]) -> Value {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise decay of a row\0");
    hash.update(salt);
    hash.update(Sha256::digest(&spec.text));
    hash.update(encoded(row));
    let half = hash.finalize();
    let half = half.iter().copied().take(HALF_BYTES);
    let mut mark = of_row(salt, row);
    mark.extend(half);
    Value::Bytes(mark)
}

/// Returns the first half of the marks of a row.
fn of_row(salt: &[u8], row: &[Value]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise decayed row\0");
    hash.update(salt);
    hash.update(encoded(row));
    hash.finalize().iter().copied().take(HALF_BYTES).collect()
}

/// Returns the mark that programs before stored: a reveal does not find it.
fn former_mark(salt: &[u8], spec: &Spec, row: &[Value]) -> Value {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise decay\0");
    hash.update(salt);
    hash.update(Sha256::digest(&spec.text));
    hash.update(encoded(row));
    Value::Bytes(hash.finalize().iter().copied().take(MARK_BYTES).collect())
}
