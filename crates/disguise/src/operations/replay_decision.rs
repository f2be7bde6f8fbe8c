//! Decides how each operation that a database has missed is done again, from its entries in the
//! log.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::accounts;
use super::dismissal::{OTHER_VALUES, WITHOUT_SPECIFICATION};
use super::missed::ReplayRequest;
use super::replay_action::{Ends, ReplayAction};
use super::replay_begun::FateOfBegun;
use super::replay_forget::is_making;
use super::replay_keys::Changed;
use super::replay_lives::{Going, HOLDS_NOTHING, STRAYED, going, waits_for};
use super::replay_order::{Remade, out_of_order, why_listed};
use super::replay_strangers::strangers;
use super::separate::{BEGIN_LOG, database_names, had_of, has_log};
use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::apply::{ApplyRequest, Forgotten};
use crate::records::hold::{self, HoldId};
use crate::records::settings;
use crate::records::subject::Naming;
use crate::spec::Spec;
use crate::transaction::history::{History, Presence, history};
use crate::transaction::operation::{self, CommitOutcome, LoggedOperation, OperationId, Unread};
use crate::transaction::record_names::{self, RecordNames};
use crate::transaction::scheduled;
use crate::transaction::settled::Settled;
use crate::transaction::transactions::Transactions;

const OF_NOBODY: &str = "the id of its person means nobody where rows say whose they are, so that it would reach none of them: give the account another id, and do it again";

const OF_OTHER_FORM: &str = "its entry has a form that this program does not know: read it in the log, by its time, and do the operation again where it is missing, or use the program that wrote it";

const ERASED: &str = "its entry was erased from the log, so that nobody but its person can tell whether this database has missed it: with the credential of that time they see what is there, and do it again where it is missing";

const UNKNOWN: &str = "the database was lost at its commit and does not have it now: whether it ever had is not known, so do it again where it is wanted";

const AWAY: &str = "nobody whom it could be about is in the users table of this database: where a disguise has the account, its person reveals that one first, and what is left is listed again";

const HELD_AWAY: &str = "nobody whom it could be about is in the users table of this database: hold the absent person (`--away`) with the actor and the basis of its entry, before the next sweep, and it is not listed any more";

const UNBOUND: &str = "its entry does not name the key of its person, so that somebody else may have the id by now: schedule it again";

const OVERTAKEN: &str = "the database has later operations and not this one: the machine stopped before it was committed, or it was lost and somebody worked on without it, so do it again where it is wanted";

const MAKING_OVERTAKEN: &str = "the database has later operations and not this one: the machine stopped before it was committed, or it was lost and somebody worked on without it. Do it again with the same specification, and it is not listed any more; where it is not wanted, take the new one back";

const HOLD_OVERTAKEN: &str = "the database has later operations and not this one: the machine stopped before it was committed, or it was lost and somebody worked on without it. Place it again, with the actor and the basis of its entry, and it is not listed any more; where it is not wanted, lift the new one";

const HOLD_UNKNOWN: &str = "the database was lost at its commit and does not have it now: whether it ever had is not known. Place it again, with the actor and the basis of its entry, and it is not listed any more; where it is not wanted, lift the new one";

const NO_KEY: &str = "its entry does not name the public key";

const AFTER_UPDATE: &str = "an update before it is missing, which would meet the records again: record that one first, and replay again";

const STRANGERS: &str = "the log does not say that the key of its credential was that of its person: a writer of the database may have put it there, and what its entry and receipt say is not the person's word";

const STRANGE_CHANGE: &str = "the log does not say that the key of its credential was that of its person: a writer of the database may have put it there, or its person did it in another life of the database. Once they have done the same again here, with a key that came from that one, it is not listed any more";

/// The missing operations, and the state needed to do them again.
pub(super) struct Replay<'a> {
    pub(super) request: &'a ReplayRequest<'a>,
    salt: Vec<u8>,
    /// All operations done in this database, present or missing.
    pub(super) done: Vec<(&'a LoggedOperation, Presence)>,
    pub(super) missing: Vec<LoggedOperation>,
    /// Those that leave nothing to do; they are neither present nor missing.
    pub(super) settled: Vec<Settled<'a>>,
    /// Those of the missing ones that somebody dismissed here.
    pub(super) dismissed: BTreeSet<OperationId>,
    pub(super) remade: Remade<'a>,
    /// The tables whose rows name several people.
    pub(super) shared_tables: BTreeSet<String>,
    pub(super) people: BTreeMap<String, Value>,
    /// Keys that are older than those in the log.
    pub(super) changed: Changed,
    /// Operations under a key that, by the log, was not its user's at that time.
    strange: BTreeSet<OperationId>,
    /// Disguises that are here from another life, and are to be revealed.
    strayed: BTreeSet<OperationId>,
    /// The names of the records in the database.
    pub(super) there: RecordNames,
    /// Disguises that a replay did again before a reveal that the log has earlier.
    out_of_order: BTreeSet<OperationId>,
    /// Disguises that would hide rows which another one held then.
    pub(super) meeting_more: BTreeSet<OperationId>,
    /// The log in which the database is told of is noted.
    has_log: bool,
    /// The holds in force.
    holds: BTreeSet<HoldId>,
    /// The disguises in chunks that go on here.
    pub(super) going: BTreeMap<DisguiseId, Going>,
    /// The disguises that wait for the end of a grace period here.
    waiting: BTreeSet<DisguiseId>,
    naming: Naming,
    /// The specifications by hash.
    specs: BTreeMap<String, &'a Spec>,
}

impl<'a> Replay<'a> {
    pub(super) fn new<D: Database>(
        open: &mut Transactions<D>,
        request: &'a ReplayRequest<'a>,
    ) -> Result<Self, Error> {
        let salt = settings::salt(&mut open.database)?;
        let names = database_names(open)?;
        had_of(open, request.told)?;
        let has_log = has_log(open)?;
        let shared_tables = open.application.shared_tables()?;
        let database = &mut open.database;
        let holds = hold::names(database)?.into_keys().collect();
        let there = if request.told.iter().any(LoggedOperation::names_records) {
            record_names::record_names(database, &salt)?
        } else {
            RecordNames::default()
        };
        let History {
            done,
            mut missing,
            settled,
            strayed,
            dismissed,
        } = history(database, &names, request.told, &there.all, &shared_tables)?;
        let (strange, out_of_order) = (strangers(&done), out_of_order(&done));
        let listed: BTreeSet<_> = missing.iter().map(|it| it.id).collect();
        let is_new = |(it, presence): &&(&LoggedOperation, Presence)| {
            // Its person did it again here, with a key that came from the same one.
            let is_repeated = *presence == Presence::Missing && changes_credential(it);
            let is_strange = strange.contains(&it.id) && !is_repeated;
            let is_told = out_of_order.contains(&it.id) || strayed.contains(&it.id);
            (is_strange || is_told) && !listed.contains(&it.id)
        };
        let new = done.iter().filter(is_new);
        missing.extend(new.map(|(it, _)| (*it).clone()));
        missing.retain(LoggedOperation::leaves_to_do);
        let people = if missing.is_empty() {
            BTreeMap::new()
        } else {
            accounts::by_name(open, &salt)?
        };
        let specs = request.specs.iter();
        let mut replay = Self {
            request,
            salt,
            remade: Remade::of(&done),
            shared_tables,
            done,
            changed: Changed::of(&missing, &people),
            going: if missing.is_empty() {
                BTreeMap::new()
            } else {
                going(&mut open.database)?
            },
            waiting: waiting(&mut open.database)?,
            missing,
            settled,
            dismissed,
            people,
            there,
            has_log,
            holds,
            strange,
            strayed,
            out_of_order,
            meeting_more: BTreeSet::new(),
            naming: open.naming().clone(),
            specs: specs
                .map(|spec| (operation::specification(&spec.text), spec))
                .collect(),
        };
        replay.meeting_more = replay.meeting_more();
        Ok(replay)
    }

    /// Returns whether something is there that a deed destroys, or that waits no longer after it.
    pub(super) fn is_there(&self, deed: &ReplayAction<'_>) -> bool {
        match deed {
            ReplayAction::Forget { records, .. } => {
                records.iter().any(|name| self.there.all.contains(name))
            }
            ReplayAction::Unschedule { ids, .. } => !self.waiting.is_disjoint(ids),
            _ => false,
        }
    }

    /// Returns the action that does an operation again, or why it cannot be done.
    pub(super) fn deed(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        let no = |why: &str| Err(why.to_owned());
        match told.unread {
            Some(Unread::OtherForm) => return no(OF_OTHER_FORM),
            Some(Unread::Erased) => return no(ERASED),
            None if self.strange.contains(&told.id) => {
                let is_here = self
                    .done
                    .iter()
                    .any(|(it, presence)| it.id == told.id && *presence != Presence::Missing);
                let why = if is_here || !changes_credential(told) {
                    STRANGERS
                } else {
                    STRANGE_CHANGE
                };
                return no(why);
            }
            None if self.out_of_order.contains(&told.id) => return no(why_listed(told)),
            None if self.strayed.contains(&told.id) => return no(STRAYED),
            None => {}
        }
        if told.is_put_back {
            return self.forget_again(told);
        }
        if let Some(deed) = self.taken_back(told) {
            return deed;
        }
        if let Some(why) = self.passed(told) {
            return no(why);
        }
        if let Some(why) = self.meets_more(told) {
            return no(why);
        }
        if let Some(why) = self.may_keep_of_others(told).filter(|_| is_making(told)) {
            return no(why);
        }
        if self.is_after_update(told) {
            return no(AFTER_UPDATE);
        }
        if self.awaits_more(told) {
            return no(waits_for(told));
        }
        self.done_again(told)
    }

    /// Returns whether nothing but what the caller can give is needed to make a disguise again.
    pub(super) fn can_make(&self, told: &LoggedOperation) -> bool {
        !self.is_after_update(told) && self.apply(told).is_ok()
    }

    /// Returns whether this replay is not to make a disguise again, whatever it is given.
    pub(super) fn is_not_to_be_made(&self, told: &LoggedOperation) -> bool {
        let is_begun = told.action == "disguise.begin";
        told.unread.is_some()
            || self.is_dismissed(told)
            || self.strange.contains(&told.id)
            || self.out_of_order.contains(&told.id)
            || self.strayed.contains(&told.id)
            || self.meeting_more.contains(&told.id)
            || self.taken_back(told).is_some()
            || self.passed(told).is_some()
            || is_begun && !matches!(self.fate_of_begun(told), FateOfBegun::GoesOn)
    }

    /// Returns why an operation is not done again, whatever it was: others were done since, or nobody knows
    /// whether it was committed. Some leave nothing to do in any case.
    fn passed(&self, told: &LoggedOperation) -> Option<&'static str> {
        if self.is_settled_here(told) {
            return None;
        }
        let is_hold = told.action == "disguise.hold";
        if told.is_overtaken {
            return Some(match told.action.as_str() {
                "disguise.hold" => HOLD_OVERTAKEN,
                "disguise.apply" | "disguise.begin" | "disguise.schedule"
                    if told.subject.is_some() =>
                {
                    MAKING_OVERTAKEN
                }
                _ => OVERTAKEN,
            });
        }
        let is_unknown = told.fate == CommitOutcome::Unknown;
        is_unknown.then_some(if is_hold { HOLD_UNKNOWN } else { UNKNOWN })
    }

    /// Returns whether nothing is left to do of an operation after which the database went on, or of
    /// which nobody knows whether it was committed.
    fn is_settled_here(&self, told: &LoggedOperation) -> bool {
        let is_passed = told.is_overtaken || told.fate == CommitOutcome::Unknown;
        let is_lift = |it: &LoggedOperation| it.action == "disguise.lift" && it.key == told.key;
        is_passed
            && match told.action.as_str() {
                // A sweep destroys what has ended in any case.
                "disguise.expire" => true,
                BEGIN_LOG => self.has_log,
                "disguise.schedule" => self.ends_later(told),
                "disguise.reveal" => self.is_nowhere(&told.key),
                "disguise.cancel" => {
                    let is_here = |id| self.waiting.contains(&id) || self.going.contains_key(&id);
                    told.key.parse().is_ok_and(|id| !is_here(id))
                }
                "disguise.hold" => {
                    let mut since = self.all().skip_while(|it| it.id != told.id);
                    since.any(is_lift)
                }
                "disguise.lift" => !told.key.parse().is_ok_and(|id| self.holds.contains(&id)),
                _ => false,
            }
    }

    /// Returns whether it hid rows after an update that is missing.
    pub(super) fn is_after_update(&self, told: &LoggedOperation) -> bool {
        let mut before = self.missing.iter().take_while(|it| it.id != told.id);
        is_making(told) && before.any(|it| it.action == "disguise.update")
    }

    /// Returns the action for the kind of operation.
    fn done_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        let no = |why: &str| Err(why.to_owned());
        match told.action.as_str() {
            "disguise.apply" | "disguise.decay" => self.apply_again(told),
            "disguise.begin" => self.begin_again(told),
            "disguise.schedule" => {
                let id = disguise(told)?;
                if self.ends_later(told) {
                    return Ok(ReplayAction::Nothing);
                }
                let due = told.facts.due.map(Timestamp::from_nanoseconds);
                let Some(Ok(due)) = due else {
                    return no("its entry does not say when it is due");
                };
                let request = self.apply(told)?;
                let key = told.public_key();
                if request.user.is_some() && key.is_none() {
                    return no(UNBOUND);
                }
                Ok(ReplayAction::Schedule {
                    id,
                    request,
                    key,
                    due,
                })
            }
            "disguise.cancel" => Ok(ReplayAction::Cancel(self.ends(told, None)?)),
            // What a password or token wrapped went with the backup.
            "disguise.register" if !told.facts.key_alone => no(
                "its entry does not say that the person keeps the private key alone, and passwords and tokens are not in the log: register the person again",
            ),
            "disguise.register" => match (self.person(told)?, told.public_key()) {
                (Some(user), Some(key)) => Ok(ReplayAction::Register(user, key)),
                _ => no(NO_KEY),
            },
            "disguise.unregister" => self.unregister(told),
            "disguise.hold" | "disguise.lift" => self.hold_again(told),
            "disguise.forget" => self.forget(told),
            "disguise.reveal" => self.reveal_again(told),
            "disguise.key" => no(
                "it takes the person's credential: rekey again with the one from before it, which is all that opens what this database has",
            ),
            "disguise.password" => no(
                "passwords are not in the log: rekey again with the key, password or token from before it, for the old ones open what is here, and nothing else does",
            ),
            "disguise.update" => no(
                "its mapping is not in the log: record it again after its migration, and replay then what came after it",
            ),
            // The next sweep destroys what has ended, whatever the log says, and the replay notes the log.
            "disguise.expire" | BEGIN_LOG => Ok(ReplayAction::Nothing),
            _ => no("nothing is known of such an operation"),
        }
    }

    /// Returns the action for a hold, or for the end of one.
    fn hold_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        if self.is_settled_here(told) {
            return Ok(ReplayAction::Nothing);
        }
        let id = told.key.parse().map_err(|error: Error| error.to_string())?;
        if told.action == "disguise.lift" {
            return Ok(ReplayAction::Lift(id));
        }
        if let Some(disguise) = &told.facts.disguise {
            let disguise = disguise.parse();
            let disguise = disguise.map_err(|error: Error| error.to_string())?;
            if self.holds_nothing(told) {
                return Err(HOLDS_NOTHING.to_owned());
            }
            return Ok(ReplayAction::HoldDisguise(id, disguise));
        }
        match self.person(told)? {
            Some(person) => Ok(ReplayAction::HoldPerson(id, person)),
            None => Err("its entry does not say what is held".to_owned()),
        }
    }

    pub(super) fn apply_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        Ok(ReplayAction::Apply {
            id: disguise(told)?,
            request: self.apply(told)?,
            key: told.public_key(),
            forgotten: self.forgotten(told),
            is_decay: told.action == "disguise.decay",
        })
    }

    /// Returns the action for a reveal. Bringing rows back needs the credential, unless they were
    /// never hidden here, and are not by this replay.
    fn reveal_again(&self, told: &LoggedOperation) -> Result<ReplayAction<'a>, String> {
        let is_without_rows = told.reveals_no_row() && !self.may_end(told);
        if is_without_rows || self.is_nowhere(&told.key) {
            return Ok(ReplayAction::Nothing);
        }
        let is_begun_here = !self.lacks_beginning(told);
        let is_hidden = is_begun_here || self.is_whole(&told.key) || self.is_made(&told.key);
        if !is_hidden && told.facts.kept == Some(0) {
            return Ok(ReplayAction::Nothing);
        }
        let rest = self.rest_of_reveal(told);
        Ok(ReplayAction::Reveal(self.ends(told, rest)?))
    }

    /// Returns whether the database has missed, too, that a disguise in chunks was begun.
    fn lacks_beginning(&self, told: &LoggedOperation) -> bool {
        let mut begun = self
            .missing
            .iter()
            .filter(|it| it.action == "disguise.begin" && !self.out_of_order.contains(&it.id));
        begun.any(|it| {
            if told.key.is_empty() {
                it.subject == told.subject
            } else {
                it.key == told.key
            }
        })
    }

    /// Returns the disguises in chunks that an operation ended.
    pub(super) fn ends(
        &self,
        told: &LoggedOperation,
        rest: Option<&'static str>,
    ) -> Result<Ends, String> {
        let facts = &told.facts;
        let id = (!told.key.is_empty()).then(|| disguise(told)).transpose()?;
        let went_on = facts.chunks.as_deref().map(disguises).transpose()?;
        // What is whole here has all rows hidden.
        let is_ended_here = !self.lacks_beginning(told) && !self.is_whole(&told.key);
        Ok(Ends {
            id,
            went_on,
            leaves_out: told.action != "disguise.cancel",
            is_alone: facts.placeholders == Some(0),
            key: told.public_key(),
            hidden: facts.hidden.filter(|_rows| is_ended_here),
            rest,
        })
    }

    /// Returns whether the caller has given the specification of a disguise.
    pub(super) fn is_given(&self, told: &LoggedOperation) -> bool {
        let specification = told.facts.specification.as_ref();
        specification.is_none_or(|it| self.specs.contains_key(it))
    }

    /// The request as it was, as far as the entry and the caller say it.
    fn apply(&self, told: &LoggedOperation) -> Result<ApplyRequest<'a>, String> {
        let facts = &told.facts;
        let Some(specification) = &facts.specification else {
            return Err("its entry does not name the specification".to_owned());
        };
        let Some(spec) = self.specs.get(specification) else {
            return Err(format!(
                "{WITHOUT_SPECIFICATION}: the one with SHA-256 {specification}"
            ));
        };
        if facts.over {
            return Err(
                "it reached rows behind placeholders, which takes the person's credential: apply it again"
                    .to_owned(),
            );
        }
        let expires = facts.expires.map(Timestamp::from_nanoseconds).transpose();
        let expires = expires.map_err(|error| error.to_string())?;
        let mut request = ApplyRequest {
            spec,
            user: self.person(told)?,
            over: None,
            parameters: BTreeMap::new(),
            expires,
            time: told.time,
        };
        if let Some(expected) = &facts.parameters {
            request.parameters.clone_from(&self.request.parameters);
            if operation::parameters(&self.salt, &request) != *expected {
                return Err(OTHER_VALUES.to_owned());
            }
        }
        Ok(request)
    }

    /// The person of an entry, if it is about one who is in the users table.
    pub(super) fn whose(&self, told: &LoggedOperation) -> Option<&Value> {
        told.subject.as_ref().and_then(|it| self.people.get(it))
    }

    /// The person of an entry, if it is about one.
    fn person(&self, told: &LoggedOperation) -> Result<Option<Value>, String> {
        let Some(subject) = &told.subject else {
            return Ok(None);
        };
        let person = self.people.get(subject).cloned();
        if person.as_ref().is_some_and(Value::is_nobody) {
            return Err(OF_NOBODY.to_owned());
        }
        person.map(Some).ok_or_else(|| {
            let is_hold = told.action == "disguise.hold";
            if is_hold { HELD_AWAY } else { AWAY }.to_owned()
        })
    }

    /// Returns the people who had the records of a disguise destroyed since it was applied, as far
    /// as a replay does that again. Destruction that it leaves to the person's credential must find
    /// records.
    fn forgotten(&self, told: &LoggedOperation) -> Forgotten {
        let mut forgotten = Forgotten {
            naming: self.naming.clone(),
            ..Forgotten::default()
        };
        // While chunks went on, people could have records destroyed that are told of as applied only when all were done.
        let since = self
            .all()
            .skip_while(|it| it.id != told.id && it.key != told.key);
        let is_other = |it: &LoggedOperation| match (&told.subject, &told.facts.public_key) {
            (Some(_), Some(key)) => it.facts.public_key.as_ref() != Some(key),
            _ => false,
        };
        for it in since.filter(|it| it.action == "disguise.forget" && !is_other(it)) {
            let all = if it.key.is_empty() {
                &mut forgotten.everything
            } else if it.key == told.key {
                &mut forgotten.disguise
            } else {
                continue;
            };
            if self.is_carried_out(it) {
                let all = if self.met(it, told) {
                    all
                } else {
                    &mut forgotten.unmet
                };
                all.extend(it.subject.clone().zip(it.public_key()));
            }
        }
        forgotten
    }

    /// Returns whether this replay does what was forgotten again, or one before has done it.
    fn is_carried_out(&self, told: &LoggedOperation) -> bool {
        let missing = self.missing.iter().find(|it| it.id == told.id);
        missing.is_none_or(|it| self.deed(it).is_ok())
    }

    /// Returns all operations done in this database, in the order of the log.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a LoggedOperation> {
        self.done.iter().map(|(it, _)| *it)
    }

    /// Returns whether the database lacks an operation before `told` that `is_meant`, whatever was
    /// repeated since. What it lacked already when it went on was never done.
    pub(super) fn lacks_before(
        &self,
        told: &LoggedOperation,
        is_meant: impl Fn(&LoggedOperation) -> bool,
    ) -> bool {
        let before = self.done.iter().take_while(|(it, _)| it.id != told.id);
        let mut lacks = false;
        for (it, presence) in before.filter(|(it, _)| it.action != operation::REPLAY) {
            match presence {
                Presence::Here | Presence::Followed => lacks = false,
                Presence::Missing => lacks |= is_meant(it),
                Presence::Replayed => {}
            }
        }
        lacks
    }
}

fn changes_credential(it: &LoggedOperation) -> bool {
    matches!(&*it.action, "disguise.key" | "disguise.password")
}

pub(super) fn disguises(ids: &[String]) -> Result<Vec<DisguiseId>, String> {
    let ids = ids.iter().map(|id| id.parse());
    let ids: Result<_, Error> = ids.collect();
    ids.map_err(|error| error.to_string())
}

/// Returns the disguises that wait for the end of a grace period here.
fn waiting(database: &mut dyn TenantConnection) -> Result<BTreeSet<DisguiseId>, Error> {
    let all = scheduled::list(database, None)?;
    Ok(all.into_iter().map(|it| it.id).collect())
}

pub(super) fn disguise(told: &LoggedOperation) -> Result<DisguiseId, String> {
    told.key.parse().map_err(|error: Error| error.to_string())
}
