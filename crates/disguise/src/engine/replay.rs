//! After a backup was restored: what the log says was done since is done again, as far as that needs no secret.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::Engine;
use super::deed::{Deed, Leaver};
use super::replay_keys::Keys;
use crate::apply::{ApplyRequest, Earlier, Forgotten};
use crate::audit::Asked;
use crate::called;
use crate::database::Database;
use crate::error::Error;
use crate::forgotten;
use crate::hold::{self, Authority, HoldId, Holding, cohort};
use crate::intent;
use crate::once;
use crate::operation::{self, Fate, Told};
use crate::record::Standing;
use crate::scheduled::{self, Order};
use crate::spec::Spec;
use crate::store::{self, DisguiseId};
use crate::subject::Naming;
use crate::suite::PublicKey;
use crate::value::Value;

/// What is asked of [`Engine::replay`].
pub struct ReplayRequest<'a> {
    /// The operations of the log, in its order.
    pub told: &'a [Told],
    /// The specifications that were applied; each operation finds its own by hash.
    pub specs: &'a [Spec],
    /// Values of their parameters; an operation with other ones is not replayed.
    pub parameters: BTreeMap<String, Value>,
    /// The time of the entries.
    pub time: Timestamp,
}

/// An operation that the database has missed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missed {
    /// The action of its entry.
    pub action: String,
    /// The disguise or hold that it was about.
    pub key: String,
    /// When it was done.
    pub time: Timestamp,
    /// What becomes of it.
    pub outlook: Outlook,
}

/// What becomes of an operation that was missed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outlook {
    /// Nothing stands in its way, as far as that can be told without doing it.
    Possible,
    /// It was done again.
    Done,
    /// It cannot be done again, and why.
    Not(String),
}

impl Outlook {
    /// In a word or two.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Done => "done",
            Self::Not(_) => "not done",
        }
    }

    /// Why it cannot be done again, where that is so.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Not(why) => Some(why),
            Self::Possible | Self::Done => None,
        }
    }
}

const TOO_MANY: &str = "its records were too many for an entry, which takes the person's credential of that time: forget it again with it";

impl<D: Database> Engine<D> {
    /// What the log tells of and the database has missed, oldest first; changes nothing.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Spec`].
    pub fn missed(&mut self, request: &ReplayRequest<'_>) -> Result<Vec<Missed>, Error> {
        self.refresh()?;
        self.transaction(|engine| {
            let replay = Replay::new(engine, request)?;
            let subjects = replay.missing.iter().filter_map(|it| it.subject.as_ref());
            let people = subjects.filter_map(|it| replay.people.get(it));
            let mut keys = Keys::of(&mut engine.database, people)?;
            let mut all = Vec::with_capacity(replay.missing.len());
            for told in &replay.missing {
                let deed = replay.deed(told);
                let outlook = match deed.and_then(|deed| keys.follow(&deed)) {
                    Ok(()) => Outlook::Possible,
                    Err(why) => Outlook::Not(why),
                };
                all.push(missed(told, outlook));
            }
            Ok(all)
        })
    }

    /// Does again what the database has missed, oldest first, each operation in a transaction of its own: what is cut
    /// short anywhere is finished by the next replay.
    ///
    /// Disguises keep their handles and are encrypted to the keys that their people had then, so that those reveal them as
    /// if nothing had happened. Nothing is hidden under a key that is not registered: its password or token may have gone with
    /// the database. Of what was forgotten since, no record is made.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`], [`Error::Audit`]; what was done before stays done. What is
    /// refused for one operation is in the answer.
    pub fn replay(&mut self, request: &ReplayRequest<'_>) -> Result<Vec<Missed>, Error> {
        self.refresh()?;
        let replay = self.transaction(|engine| Replay::new(engine, request))?;
        let mut all = Vec::with_capacity(replay.missing.len());
        for told in &replay.missing {
            let deed = match replay.deed(told) {
                Ok(deed) => self
                    .transaction(|engine| engine.allowed(&deed))?
                    .map(|()| deed),
                Err(why) => Err(why),
            };
            let outlook = match deed {
                Err(why) => Outlook::Not(why),
                Ok(deed) => match self.again(told, &deed, request.time) {
                    Ok(()) => Outlook::Done,
                    Err(error) if error.ends_a_run() => return Err(error),
                    Err(error) => Outlook::Not(error.to_string()),
                },
            };
            all.push(missed(told, outlook));
        }
        Ok(all)
    }

    /// Why the keys that are registered now stand in the way of a deed, if they do.
    fn allowed(&mut self, deed: &Deed<'_>) -> Result<Result<(), String>, Error> {
        let mut keys = Keys::of(&mut self.database, deed.person())?;
        Ok(keys.follow(deed))
    }

    fn again(&mut self, told: &Told, deed: &Deed<'_>, time: Timestamp) -> Result<(), Error> {
        let key = told.key.clone();
        let asked = Asked::new("disguise.replay", key, deed.person(), time);
        self.operation(&asked, |engine| {
            // Somebody may have changed a key since it was looked at.
            engine
                .allowed(deed)?
                .map_err(|what| Error::Value { what })?;
            operation::remember(&mut engine.database, told.id)?;
            match deed {
                Deed::Apply {
                    id,
                    request,
                    forgotten,
                    ..
                } => {
                    engine.unschedule(*id)?;
                    let earlier = engine.going_on(*id)?.map(|_whose| Earlier::default());
                    let footing = engine.footing(request.user.as_ref())?;
                    let meant = (*id, request);
                    engine.applied_on(&footing, meant, &asked, (forgotten, earlier))?;
                    return intent::remove(&mut engine.database, *id);
                }
                Deed::Schedule { id, request, due } => {
                    engine.unschedule(*id)?;
                    scheduled::put(&mut engine.database, *id, *due, &Order::of(request))?;
                }
                Deed::Cancel(id) => {
                    engine.unschedule(*id)?;
                    intent::remove(&mut engine.database, *id)?;
                }
                Deed::Register(user, key) => engine.give_key(user, key.clone())?,
                Deed::HoldPerson(id, user) => {
                    engine.hold_again(told, *id, Holding::Person(user))?;
                }
                Deed::HoldDisguise(id, disguise) => {
                    engine.hold_again(told, *id, Holding::Disguise(*disguise))?;
                }
                Deed::Lift(id) => match hold::lift(&mut engine.database, *id) {
                    Ok(()) | Err(Error::NoSuchHold) => {}
                    Err(error) => return Err(error),
                },
                Deed::Forget {
                    person,
                    leaver,
                    records,
                } => {
                    engine.destroy(records)?;
                    engine.forget_answers(person.as_ref())?;
                    engine.unregister_leaver(leaver.as_ref())?;
                }
                Deed::Nothing => {}
            }
            engine.done(&asked, "{}")
        })
    }

    /// Destroys what is called so, and notes that it is none any more.
    fn destroy(&mut self, records: &BTreeSet<String>) -> Result<(), Error> {
        let salt = store::salt(&mut self.database)?;
        let meant = |id: &[u8]| records.contains(&operation::record(&salt, id));
        called::remove_records(&mut self.database, meant)?;
        let names = records.iter().filter_map(|name| forgotten::told(name));
        let names: Vec<_> = names.collect();
        forgotten::put(&mut self.database, &names)
    }

    fn forget_answers(&mut self, person: Option<&Value>) -> Result<(), Error> {
        let Some(person) = person else {
            return Ok(());
        };
        let salt = store::salt(&mut self.database)?;
        once::forget(&mut self.database, cohort(&salt, &person.principal()))
    }

    /// Takes the registration away of who left, unless it is one that they made since.
    fn unregister_leaver(&mut self, leaver: Option<&Leaver>) -> Result<(), Error> {
        let Some(Leaver { user, key }) = leaver else {
            return Ok(());
        };
        let name = [user.principal()];
        let known = store::principals(&mut self.database, &name)?;
        let is_theirs =
            |(public, _): &(PublicKey, Standing)| key.as_ref().is_none_or(|it| it == public);
        if known.values().all(is_theirs) {
            store::unregister(&mut self.database, &name)?;
        }
        Ok(())
    }

    fn hold_again(&mut self, told: &Told, id: HoldId, what: Holding<'_>) -> Result<(), Error> {
        let salt = store::salt(&mut self.database)?;
        let authority = Authority {
            actor: &told.actor,
            basis: &told.basis,
            time: told.time,
        };
        hold::place(&mut self.database, id, what.name(&salt), &authority)
    }

    fn unschedule(&mut self, id: DisguiseId) -> Result<(), Error> {
        match scheduled::take(&mut self.database, id) {
            Ok(()) | Err(Error::NoSuchDisguise) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Registers the key that a person keeps.
    fn give_key(&mut self, user: &Value, key: PublicKey) -> Result<(), Error> {
        let name = user.principal();
        let known = store::principals(&mut self.database, std::slice::from_ref(&name))?;
        let registration = (name, key, Standing::Person);
        store::register_anew(&mut self.database, &known, vec![registration])
    }

    /// Everybody in the users table, by all names that entries may have for them.
    fn people(&mut self, salt: &[u8]) -> Result<BTreeMap<String, Value>, Error> {
        let mut people = BTreeMap::new();
        for id in self.user_ids()? {
            for name in self.naming.all(salt, &id.principal())? {
                people.insert(name, id.clone());
            }
        }
        Ok(people)
    }
}

fn missed(told: &Told, outlook: Outlook) -> Missed {
    Missed {
        action: told.action.clone(),
        key: told.key.clone(),
        time: told.time,
        outlook,
    }
}

/// What is missing, and what is needed to do it again.
struct Replay<'a> {
    request: &'a ReplayRequest<'a>,
    salt: Vec<u8>,
    missing: Vec<Told>,
    people: BTreeMap<String, Value>,
    naming: Naming,
    /// The specifications by hash.
    specs: BTreeMap<String, &'a Spec>,
}

impl<'a> Replay<'a> {
    fn new<D: Database>(
        engine: &mut Engine<D>,
        request: &'a ReplayRequest<'a>,
    ) -> Result<Self, Error> {
        let salt = store::salt(&mut engine.database)?;
        let database = &mut engine.database;
        let there = if request.told.iter().any(Told::names_records) {
            called::record_names(database, &salt)?
        } else {
            BTreeSet::new()
        };
        let mut missing = operation::missing(database, &salt, request.told, &there)?;
        // Replays did what others tell of, and what was only read leaves nothing to do.
        let changes = |it: &Told| !matches!(&*it.action, "disguise.replay" | "disguise.export");
        missing.retain(changes);
        let people = if missing.is_empty() {
            BTreeMap::new()
        } else {
            engine.people(&salt)?
        };
        let specs = request.specs.iter();
        Ok(Self {
            request,
            salt,
            missing,
            people,
            naming: engine.naming.clone(),
            specs: specs
                .map(|spec| (operation::specification(&spec.text), spec))
                .collect(),
        })
    }

    /// What it takes to do an operation again, or why it cannot be done.
    fn deed(&self, told: &Told) -> Result<Deed<'a>, String> {
        let no = |why: &str| Err(why.to_owned());
        if told.is_erased {
            return no(
                "its entry was erased from the log, so that nobody but its person can tell whether this database has missed it: with the credential of that time they see what is there, and do it again where it is missing",
            );
        }
        if told.is_put_back {
            return self.forget_again(told);
        }
        if told.fate == Fate::Unknown {
            return no(
                "the database was lost at its commit and does not have it now: whether it ever had is not known, so do it again where it is wanted",
            );
        }
        self.done_again(told)
    }

    /// What it takes, going by the action.
    fn done_again(&self, told: &Told) -> Result<Deed<'a>, String> {
        let no = |why: &str| Err(why.to_owned());
        match told.action.as_str() {
            "disguise.apply" | "disguise.decay" => self.apply_again(told),
            // What was begun is either done, told of as an apply, or ended, or was still going on.
            "disguise.begin" => {
                let ends = |it: &Told| match told.subject {
                    Some(_) => it.action != told.action,
                    // It goes on without whoever reveals or forgets it.
                    None => matches!(&*it.action, "disguise.apply" | "disguise.cancel"),
                };
                if self.missing.iter().any(|it| it.key == told.key && ends(it)) {
                    return Ok(Deed::Nothing);
                }
                self.apply_again(told)
            }
            "disguise.schedule" => {
                let id = disguise(told)?;
                let ends = |it: &&Told| {
                    it.key == told.key
                        && matches!(&*it.action, "disguise.apply" | "disguise.cancel")
                };
                if self.missing.iter().any(|it| ends(&it)) {
                    return Ok(Deed::Nothing);
                }
                let due = told.facts.due.map(Timestamp::from_nanoseconds);
                let Some(Ok(due)) = due else {
                    return no("its entry does not say when it is due");
                };
                let request = self.apply(told)?;
                Ok(Deed::Schedule { id, request, due })
            }
            "disguise.cancel" => Ok(Deed::Cancel(disguise(told)?)),
            // What a password or token wrapped went with the backup.
            "disguise.register" if !told.facts.key_alone => no(
                "its entry does not say that the person keeps the private key alone, and passwords and tokens are not in the log: register the person again",
            ),
            "disguise.register" => match (self.person(told)?, told.public_key()) {
                (Some(user), Some(key)) => Ok(Deed::Register(user, key)),
                _ => no("its entry does not name the public key"),
            },
            "disguise.hold" => {
                let id = told.key.parse().map_err(|error: Error| error.to_string())?;
                match &told.facts.disguise {
                    Some(disguise) => {
                        let disguise = disguise.parse();
                        let disguise = disguise.map_err(|error: Error| error.to_string())?;
                        Ok(Deed::HoldDisguise(id, disguise))
                    }
                    None => match self.person(told)? {
                        Some(person) => Ok(Deed::HoldPerson(id, person)),
                        None => no("its entry does not say what is held"),
                    },
                }
            }
            "disguise.lift" => {
                let id = told.key.parse().map_err(|error: Error| error.to_string())?;
                Ok(Deed::Lift(id))
            }
            "disguise.forget" => self.forget(told),
            "disguise.reveal" => no("it takes the person's credential: reveal it again"),
            "disguise.key" => no("it takes the person's credential: rekey again"),
            "disguise.password" => no(
                "passwords are not in the log: rekey again, for the old ones open what they opened until then",
            ),
            "disguise.update" => no("its mapping is not in the log: record it again"),
            // The next sweep destroys what has ended, whatever the log says.
            "disguise.expire" => Ok(Deed::Nothing),
            _ => no("nothing is known of such an operation"),
        }
    }

    fn apply_again(&self, told: &Told) -> Result<Deed<'a>, String> {
        Ok(Deed::Apply {
            id: disguise(told)?,
            request: self.apply(told)?,
            key: told.public_key(),
            forgotten: self.forgotten(told),
        })
    }

    /// The request as it was, as far as the entry and the caller say it.
    fn apply(&self, told: &Told) -> Result<ApplyRequest<'a>, String> {
        let facts = &told.facts;
        let Some(specification) = &facts.specification else {
            return Err("its entry does not name the specification".to_owned());
        };
        let Some(spec) = self.specs.get(specification) else {
            return Err(format!(
                "its specification is not given: the one with SHA-256 {specification}"
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
                return Err("the values of its parameters are not given, or are others".to_owned());
            }
        }
        Ok(request)
    }

    /// The person of an entry, if it is about one.
    fn person(&self, told: &Told) -> Result<Option<Value>, String> {
        let Some(subject) = &told.subject else {
            return Ok(None);
        };
        let person = self.people.get(subject).cloned();
        person.map(Some).ok_or_else(|| {
            "nobody whom it could be about is in the users table of this database".to_owned()
        })
    }

    /// Who had the records of a disguise destroyed since it was applied.
    fn forgotten(&self, told: &Told) -> Forgotten {
        let mut forgotten = Forgotten {
            naming: self.naming.clone(),
            ..Forgotten::default()
        };
        // While chunks went on, people could have records destroyed that are told of as applied only when all were done.
        let since = self.missing.iter();
        let since = since.skip_while(|it| it.id != told.id && it.key != told.key);
        for it in since.filter(|it| it.action == "disguise.forget") {
            let all = if it.key.is_empty() {
                &mut forgotten.everything
            } else if it.key == told.key {
                &mut forgotten.disguise
            } else {
                continue;
            };
            all.extend(it.subject.clone());
        }
        forgotten
    }

    /// What was forgotten is destroyed by the names of its records; a reveal or a new key since the backup gave them
    /// others, which only their owner can follow.
    fn forget(&self, told: &Told) -> Result<Deed<'a>, String> {
        let before = self.missing.iter().take_while(|it| it.id != told.id);
        let renamed = |it: &Told| matches!(&*it.action, "disguise.reveal" | "disguise.key");
        if before.clone().any(renamed) {
            return Err(
                "records may have been written anew before by a reveal or a new key, which takes the person's credential of that time to follow: forget it again with it"
                    .to_owned(),
            );
        }
        if told.facts.links_kept {
            return Err(
                "other disguises need links of its records, which takes the person's credential of that time: forget it again with it"
                    .to_owned(),
            );
        }
        if told.facts.destroyed_cut {
            return Err(TOO_MANY.to_owned());
        }
        self.forget_again(told)
    }

    /// Destroys what an entry names, whatever the operation.
    fn forget_again(&self, told: &Told) -> Result<Deed<'a>, String> {
        let Some(records) = &told.facts.destroyed else {
            return Err(TOO_MANY.to_owned());
        };
        let person = told.subject.as_ref().and_then(|it| self.people.get(it));
        Ok(Deed::Forget {
            person: person.cloned(),
            leaver: self.leaver(told, person),
            records: records.iter().cloned().collect(),
        })
    }

    /// Who is not registered any more since everything of theirs was forgotten. Older entries do not name the key: they count
    /// for nobody who registered later.
    fn leaver(&self, told: &Told, person: Option<&Value>) -> Option<Leaver> {
        if told.action != "disguise.forget" || !told.key.is_empty() {
            return None;
        }
        let key = told.public_key();
        let later = self.request.told.iter().skip_while(|it| it.id != told.id);
        let whose = |it: &Told| it.subject.as_ref().and_then(|it| self.people.get(it));
        let mut later = later.filter(|it| it.action == "disguise.register");
        if key.is_none() && later.any(|it| whose(it) == person) {
            return None;
        }
        person.cloned().map(|user| Leaver { user, key })
    }
}

fn disguise(told: &Told) -> Result<DisguiseId, String> {
    told.key.parse().map_err(|error: Error| error.to_string())
}
