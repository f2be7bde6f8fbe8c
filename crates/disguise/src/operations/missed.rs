//! Missed operations, after a backup was restored: what the log says was done since is done again, as far as that needs no secret.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::decay::note_state;
use super::disguiser::Disguiser;
use super::missing_operation::{MissingOperation, Replayability};
use super::options::Options;
use super::replay_action::{Leaver, ReplayAction};
use super::replay_decision::Replay;
use super::replay_lives::waits_for;
use super::replay_obstacles::{Ending, Ground, end, ending};
use super::separate::{
    SEPARATE, database_names, had_of, is_of_other_tenant, is_unsaid, note_log_of,
};
use crate::crypto::suite::PublicKey;
use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::PreviousChunks;
use crate::records::hold::{self, Authority, HoldId, Holding, cohort};
use crate::records::name::digits;
use crate::records::registry::KeyedPrincipal;
use crate::records::section::PrincipalKind;
use crate::records::{chunk_note, forgotten, name, registry, settings};
use crate::spec::Spec;
use crate::transaction::audit::OperationRequest;
use crate::transaction::history::lacked_by_tenants;
use crate::transaction::operation::{self, LoggedOperation};
use crate::transaction::payload::Payload;
use crate::transaction::scheduled::{self, Order};
use crate::transaction::settled::{Settled, SettledBy};
use crate::transaction::transactions::Transactions;
use crate::transaction::{intent, once, record_names};

/// A request of [`Missed::replay`].
pub struct ReplayRequest<'a> {
    /// The operations of the log, in its order.
    pub told: &'a [LoggedOperation],
    /// The specifications that were applied; each operation finds its own by hash.
    pub specs: &'a [Spec],
    /// Values of their parameters; an operation with other ones is not replayed.
    pub parameters: BTreeMap<String, Value>,
    /// The time of the entries.
    pub time: Timestamp,
}

/// Returns whether the log tells of anything in the database with these names.
fn has_any(told: &[LoggedOperation], names: [&str; 2]) -> bool {
    told.iter()
        .any(|it| names.iter().any(|name| it.is_of(name)))
}

/// Returns whether the log tells of what was done in the database with these names under another one:
/// after it was made another one, of which this is a backup, or in another copy that was made one.
fn has_other_life(told: &[LoggedOperation], names: [&str; 2]) -> bool {
    let is_own = |it: &LoggedOperation| !it.is_of_another(names);
    let separations = || told.iter().filter(|it| it.action == SEPARATE);
    let of_own = separations().filter(|it| is_own(it));
    let mut before: Vec<&str> = of_own.filter_map(|it| it.former()).collect();
    before.extend(names);
    let others = separations().filter(|it| !is_own(it));
    let others = others.filter(|it| it.former().is_some_and(|it| before.contains(&it)));
    let others: Vec<&LoggedOperation> = others.collect();
    // A separation that was not committed, or after which nothing was done, hides nothing.
    let is_there = |it: &LoggedOperation| {
        let has_name = others.iter().any(|other| it.is_of(other.database()));
        it.action != SEPARATE && (has_name || it.is_of_tenant() && !is_own(it))
    };
    !others.is_empty() && told.iter().any(is_there)
}

/// The operations that the database has missed since its backup, from
/// [`Engine::missed`](crate::Engine::missed).
pub struct Missed<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> Missed<'_, D> {
    /// Returns the operations of the log that the database has missed, oldest first; changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Spec`]; [`Error::DamagedRow`] where the log has operations that the
    /// database remembers under a name that is not its own.
    pub fn list(&mut self, request: &ReplayRequest<'_>) -> Result<Vec<MissingOperation>, Error> {
        self.transactions.refresh()?;
        self.transactions.transaction(|open| {
            let replay = Replay::new(open, request)?;
            let subjects = replay.missing.iter().filter_map(|it| it.subject.as_ref());
            let people = subjects.filter_map(|it| replay.people.get(it));
            let pseudo = open.application.pseudo();
            let users = (pseudo.table.as_str(), pseudo.id.as_str());
            let mut ground = Ground::of(&mut open.database, people, &replay.changed, users)?;
            let (mut all, mut undone) = (Vec::new(), BTreeSet::new());
            for told in &replay.missing {
                if replay.is_dismissed(told) {
                    all.push(None);
                    continue;
                }
                let outlook = match replay.deed(told) {
                    Ok(_) if replay.waits(told, &undone) => {
                        Replayability::Not(waits_for(told).to_owned())
                    }
                    Ok(deed) => match looked(open, &mut ground, &deed)? {
                        Ok(Ending { rest: None, .. }) => Replayability::Possible,
                        Ok(Ending {
                            rest: Some(why), ..
                        })
                        | Err(why) => Replayability::Not(why),
                    },
                    Err(why) => Replayability::Not(why),
                };
                if outlook.is_left() {
                    undone.insert(told.id);
                }
                all.push(Some(outlook));
            }
            Ok(all_missed(&replay, all))
        })
    }

    /// Returns the number of operations that are of other databases, if none is of this one, or none
    /// since it was made another one: it is not the one that the log tells of, or its backup is from
    /// before its preparation or its separation. The number is 0 where the log tells of nothing at all
    /// and nothing says that it is the log of this database.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn strangers(&mut self, told: &[LoggedOperation]) -> Result<Option<usize>, Error> {
        self.transactions.refresh()?;
        self.transactions.transaction(|open| {
            let [whole, own] = database_names(open)?;
            let is_own = |it: &LoggedOperation| !it.is_of_another([&whole, &own]);
            let others = told.iter().filter(|it| !is_own(it)).count();
            // The separation itself is told of under the new name.
            let is_told = told.iter().any(|it| is_own(it) && it.action != SEPARATE);
            let is_left = has_other_life(told, [&whole, &own]);
            // A log that tells of what another tenant did here is this database's.
            let had = had_of(open, told)?;
            let is_strange = !is_told && had.iter().all(|it| it.action == SEPARATE);
            let may_be_another = others > 0 || is_unsaid(open)?;
            Ok((may_be_another && (is_strange || is_left)).then_some(others))
        })
    }

    /// Returns the number of operations of the database of which the log tells nothing although some
    /// log does: a replay from this one cannot know what the database lacks.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn untold(&mut self, told: &[LoggedOperation]) -> Result<usize, Error> {
        self.transactions.refresh()?;
        self.transactions.transaction(|open| {
            let [whole, own] = database_names(open)?;
            operation::untold(&mut open.database, told, [&whole, &own])
        })
    }

    /// Returns the number of operations that other tenants of the database have missed: each has a replay of its own.
    ///
    /// # Errors
    /// Those of [`Missed::list`].
    pub fn of_other_tenants(&mut self, told: &[LoggedOperation]) -> Result<usize, Error> {
        self.transactions.refresh()?;
        self.transactions.transaction(|open| {
            let had = had_of(open, told)?.into_iter().map(|it| it.id).collect();
            let shared = open.application.shared_tables()?;
            let is_meant = is_of_other_tenant(open)?;
            Ok(lacked_by_tenants(told, is_meant, &had, &shared))
        })
    }

    /// Does again what the database has missed, oldest first, each operation in a transaction of its own: what is cut
    /// short anywhere is finished by the next replay.
    ///
    /// Disguises keep their handles and are encrypted to the keys that their people had then, so that those reveal them as
    /// if nothing had happened. Nothing is hidden under a key that is not registered: its password or token may have gone with
    /// the database. Nobody is registered for a row that stands, which may be that of whoever had the id before. Of what was
    /// forgotten since, no record is made.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Audit`]; what was done before stays done. What is
    /// refused for one operation is in the answer.
    pub fn replay(&mut self, request: &ReplayRequest<'_>) -> Result<Vec<MissingOperation>, Error> {
        self.transactions.refresh()?;
        let told = request.told;
        self.transactions.tried_in_one(|open| {
            note_log_of(open, |names: [&str; 2]| {
                has_any(told, names) && !has_other_life(told, names)
            })
        })?;
        let replay = self
            .transactions
            .transaction(|open| Replay::new(open, request))?;
        for settled in replay.settled.iter().filter(|it| !it.is_noted) {
            self.note_settled(settled, request.time)?;
        }
        let (mut all, mut undone) = (Vec::new(), BTreeSet::new());
        let given = self.in_force();
        for told in &replay.missing {
            if replay.is_dismissed(told) {
                all.push(None);
                continue;
            }
            let outlook = match replay.deed(told) {
                Err(why) => Replayability::Not(why),
                Ok(_) if replay.waits(told, &undone) => {
                    Replayability::Not(waits_for(told).to_owned())
                }
                Ok(deed) => match self.describe((told, &deed), (&given, request.specs))? {
                    Ok(()) => self.done_again(&replay, (told, &deed), request.time)?,
                    Err(why) => Replayability::Not(why),
                },
            };
            if outlook.is_left() {
                undone.insert(told.id);
            }
            all.push(Some(outlook));
        }
        Ok(all_missed(&replay, all))
    }

    /// Notes that nothing is left to do of an operation, whatever this database does next.
    fn note_settled(&mut self, settled: &Settled<'_>, time: Timestamp) -> Result<(), Error> {
        let told = settled.told;
        let asked = OperationRequest::new(operation::REPLAY, told.key.clone(), None, time);
        self.transactions.operation(&asked, |open| {
            operation::remember(&mut open.database, told.id)?;
            let payload = Payload::new().with("again", digits(&told.id));
            open.done(&asked, payload.with("settled", settled.by.as_str()))
        })
    }

    fn done_again(
        &mut self,
        replay: &Replay<'_>,
        (told, deed): (&LoggedOperation, &ReplayAction<'_>),
        time: Timestamp,
    ) -> Result<Replayability, Error> {
        let ending = match self
            .transactions
            .transaction(|open| stands(open, replay, deed))?
        {
            Ok(ending) => ending,
            Err(why) => return Ok(Replayability::Not(why)),
        };
        if let Some(rest) = ending.rest
            && ending.chunks.is_empty()
            && !replay.is_there(deed)
        {
            return Ok(Replayability::Not(rest));
        }
        match self.again(replay, (told, deed), time) {
            Ok(outlook) => Ok(outlook),
            Err(error) if error.ends_a_run(|| self.transactions.answers()) => Err(error),
            Err(error) => Ok(Replayability::Not(error.with_cause())),
        }
    }

    /// Does a deed, and gives its outcome: with a part that cannot be done it stays missing.
    fn again(
        &mut self,
        replay: &Replay<'_>,
        (told, deed): (&LoggedOperation, &ReplayAction<'_>),
        time: Timestamp,
    ) -> Result<Replayability, Error> {
        let key = told.key.clone();
        let asked = OperationRequest::new(operation::REPLAY, key, deed.person(), time);
        let options = self.options;
        self.transactions.operation(&asked, |open| {
            // Somebody may have changed a key or placed a hold since it was looked at.
            let ending = stands(open, replay, deed)?;
            let ending = ending.map_err(|what| Error::Value { what })?;
            if ending.rest.is_none() {
                operation::remember(&mut open.database, told.id)?;
            }
            if let Some(ends) = deed.ends() {
                end(&mut open.database, &ending, (ends, deed.person()))?;
            }
            match deed {
                ReplayAction::Apply { .. } => {
                    let hidden = apply_again((open, options), (told, deed), &asked)?;
                    return Ok(replay.compared(told, hidden.as_ref()));
                }
                ReplayAction::Schedule {
                    id,
                    request,
                    key,
                    due,
                } => {
                    unschedule(&mut open.database, *id)?;
                    let order = Order::of(request).bound_to(key.clone());
                    scheduled::put(&mut open.database, *id, *due, &order)?;
                }
                ReplayAction::Cancel(ends) => {
                    if let Some(id) = ends.id {
                        unschedule(&mut open.database, id)?;
                    }
                }
                ReplayAction::Unschedule { ids, .. } => {
                    for id in ids {
                        unschedule(&mut open.database, *id)?;
                    }
                }
                ReplayAction::Register(user, key) => {
                    give_key(&mut open.database, user, key.clone())?;
                }
                ReplayAction::Unregister(key, _) => unregister_again(&mut open.database, key)?,
                ReplayAction::HoldPerson(id, user) => {
                    hold_again(&mut open.database, told, *id, Holding::Person(user))?;
                }
                ReplayAction::HoldDisguise(id, disguise) => {
                    hold_again(&mut open.database, told, *id, Holding::Disguise(*disguise))?;
                }
                ReplayAction::Lift(id) => match hold::lift(&mut open.database, *id) {
                    Ok(()) | Err(Error::NoSuchHold) => {}
                    Err(error) => return Err(error),
                },
                ReplayAction::Forget {
                    person,
                    leaver,
                    records,
                    ..
                } => {
                    destroy(&mut open.database, records)?;
                    // Those that it ended then, also of somebody who has no row here.
                    for ended in told.facts.scheduled.iter().flatten() {
                        unschedule(&mut open.database, ended.parse()?)?;
                    }
                    forget_answers(&mut open.database, person.as_ref())?;
                    unregister_leaver(&mut open.database, leaver.as_ref())?;
                }
                ReplayAction::Reveal(_) | ReplayAction::Nothing => {}
            }
            open.done(&asked, Payload::new().with("again", digits(&told.id)))?;
            Ok(ending.rest.map_or(Replayability::Done, Replayability::Not))
        })
    }
}

/// Returns the disguises that end with an action, or why it may not be done in the database as
/// it is.
fn stands<D: Database>(
    open: &mut Transactions<D>,
    replay: &Replay<'_>,
    deed: &ReplayAction<'_>,
) -> Result<Result<Ending, String>, Error> {
    let pseudo = open.application.pseudo();
    let (person, users) = (deed.person(), (&*pseudo.table, &*pseudo.id));
    let mut ground = Ground::of(&mut open.database, person, &replay.changed, users)?;
    looked(open, &mut ground, deed)
}

fn looked<D: Database>(
    open: &mut Transactions<D>,
    ground: &mut Ground<'_>,
    deed: &ReplayAction<'_>,
) -> Result<Result<Ending, String>, Error> {
    if let Err(why) = ground.follow(deed) {
        return Ok(Err(why));
    }
    if let ReplayAction::Apply { request, .. } = deed
        && let Some(user) = &request.user
        && request.spec.removes(&open.application.pseudo().table)
    {
        ground.leaves(user);
    }
    match deed {
        ReplayAction::Unschedule { rest, .. } => Ok(Ok(Ending {
            rest: rest.clone(),
            ..Ending::default()
        })),
        _ => match deed.ends() {
            Some(ends) => ending(&mut open.database, ends, deed.person()),
            None => Ok(Ok(Ending::default())),
        },
    }
}

/// Makes a disguise again, and returns the numbers of rows that it hid, by the table.
fn apply_again<D: Database>(
    (open, options): (&mut Transactions<D>, &Options),
    (told, deed): (&LoggedOperation, &ReplayAction<'_>),
    asked: &OperationRequest<'_>,
) -> Result<Option<BTreeMap<String, u64>>, Error> {
    let ReplayAction::Apply {
        id,
        request,
        forgotten,
        is_decay,
        ..
    } = deed
    else {
        return Ok(None);
    };
    unschedule(&mut open.database, *id)?;
    // Those alone that ended with it by the log: another one may have been asked for since.
    for ended in told.facts.scheduled.iter().flatten() {
        unschedule(&mut open.database, ended.parse()?)?;
    }
    let begun = intent::find(&mut open.database, *id)?;
    let earlier = begun.as_ref().map(|_begun| PreviousChunks::default());
    let mut disguiser = Disguiser { open, options };
    let context = disguiser.context(request.user.as_ref())?;
    let parts = (forgotten, earlier);
    let (applied, payload) = disguiser.applied_on(&context, (*id, request), parts)?;
    let chunk_ids = begun.iter().map(|begun| (*id, &begun.chunk_ids));
    let payload = payload.chunked(chunk_ids).with("again", digits(&told.id));
    open.done(asked, payload)?;
    if let Some(user) = request.user.as_ref().filter(|_user| *is_decay) {
        note_state(open, request.spec, user)?;
    }
    intent::remove(&mut open.database, *id)?;
    // Of one that went on here a part was hidden before.
    Ok(begun.is_none().then_some(applied.rows))
}

/// Destroys what is called so, and notes that it is none any more.
fn destroy(database: &mut dyn TenantConnection, records: &BTreeSet<String>) -> Result<(), Error> {
    let salt = settings::salt(database)?;
    let meant = |id: &[u8]| records.contains(&name::record(&salt, id));
    record_names::remove_records(database, meant)?;
    let names = records.iter().filter_map(|name| forgotten::told(name));
    let names: Vec<_> = names.collect();
    forgotten::put(database, &names)
}

fn forget_answers(
    database: &mut dyn TenantConnection,
    person: Option<&Value>,
) -> Result<(), Error> {
    let Some(person) = person else {
        return Ok(());
    };
    let salt = settings::salt(database)?;
    let cohort = cohort(&salt, &person.principal());
    once::forget(database, &salt, cohort).map(drop)
}

/// Takes the registration away of who left, unless it is one that they made since.
fn unregister_leaver(
    database: &mut dyn TenantConnection,
    leaver: Option<&Leaver>,
) -> Result<(), Error> {
    let Some(Leaver { user, key }) = leaver else {
        return Ok(());
    };
    let name = [user.principal()];
    let known = registry::principals(database, &name)?;
    let is_theirs =
        |(public, _): &(PublicKey, PrincipalKind)| key.as_ref().is_none_or(|it| it == public);
    if known.values().all(is_theirs) {
        registry::unregister(database, &name)?;
    }
    if let Some(key) = key {
        scheduled::end(database, key, None)?;
    }
    Ok(())
}

/// Ends what is registered, scheduled and going on in chunks under a key.
fn unregister_again(database: &mut dyn TenantConnection, key: &PublicKey) -> Result<(), Error> {
    for name in chunk_note::registered(database, key)? {
        registry::unregister_named(database, name)?;
    }
    scheduled::end(database, key, None)?;
    for (id, _) in intent::of_person(database, key)? {
        intent::remove(database, id)?;
    }
    Ok(())
}

fn hold_again(
    database: &mut dyn TenantConnection,
    told: &LoggedOperation,
    id: HoldId,
    what: Holding<'_>,
) -> Result<(), Error> {
    let salt = settings::salt(database)?;
    let authority = Authority {
        actor: &told.actor,
        basis: &told.basis,
        time: told.time,
    };
    hold::place(database, id, what.name(&salt), &authority)
}

fn unschedule(database: &mut dyn TenantConnection, id: DisguiseId) -> Result<(), Error> {
    match scheduled::take(database, id) {
        Ok(()) | Err(Error::NoSuchDisguise) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Registers the key that a person keeps.
fn give_key(
    database: &mut dyn TenantConnection,
    user: &Value,
    key: PublicKey,
) -> Result<(), Error> {
    let name = user.principal();
    let known = registry::principals(database, std::slice::from_ref(&name))?;
    let registration = KeyedPrincipal {
        name,
        public: key,
        standing: PrincipalKind::Person,
    };
    registry::register_anew(database, &known, vec![registration])
}

/// Returns what was missed, without what is settled by an operation after it that is done. What has no outlook was
/// dismissed.
fn all_missed(replay: &Replay<'_>, outlooks: Vec<Option<Replayability>>) -> Vec<MissingOperation> {
    let mut all = Vec::with_capacity(outlooks.len());
    let mut done: Vec<&LoggedOperation> = Vec::new();
    let missing = replay.missing.iter().zip(outlooks);
    let listed = missing.filter_map(|(told, outlook)| Some((told, outlook?)));
    for (told, outlook) in listed.rev() {
        let is_settled = done.iter().any(|it| Replay::is_settled(told, it));
        if !outlook.is_left() {
            done.push(told);
        } else if is_settled {
            continue;
        }
        all.push(MissingOperation::of(told, outlook));
    }
    let settled = replay.settled.iter().filter(|it| !it.is_noted);
    all.extend(settled.rev().map(|it| {
        let outlook = match it.by {
            SettledBy::Reveal => Replayability::TakenBack,
            SettledBy::Repetition => Replayability::AskedAgain,
        };
        MissingOperation::of(it.told, outlook)
    }));
    all.reverse();
    all.sort_by_key(|it| it.time.nanoseconds());
    all
}
