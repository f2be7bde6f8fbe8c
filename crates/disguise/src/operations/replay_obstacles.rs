//! Obstacles to a replay: keys, holds and disguises in chunks, in the database and after each step.

use std::collections::BTreeMap;

use super::left_out::{Whose, leave_out};
use super::replay_action::{Bound, Ends, ReplayAction};
use super::replay_keys::{Changed, Keys};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::chunk_note::{ChunkNote, Marked};
use crate::records::hold::{self, Held, HoldId, Holding};
use crate::records::{registry, settings};
use crate::transaction::intent;

const HELD_PERHAPS: &str = "somebody is held, and the entry does not say of whom or of which disguise the records are: do it again with the person's credential, or once the holds are lifted";
const BEHIND: &str = "a disguise of everybody goes on here, and only the person's credential shows which placeholders it must leave out: forget it again with it";

/// The keys and holds that may refuse an action.
pub(super) struct Ground<'a> {
    keys: Keys<'a>,
    holds: BTreeMap<HoldId, Vec<u8>>,
    salt: Vec<u8>,
}

impl<'a> Ground<'a> {
    /// Reads the state for `people`. `users` is the table of accounts and its column with the ids.
    pub(super) fn of<'p>(
        database: &mut dyn TenantConnection,
        people: impl IntoIterator<Item = &'p Value>,
        changed: &'a Changed,
        users: (&str, &str),
    ) -> Result<Self, Error> {
        Ok(Self {
            salt: settings::salt(database)?,
            holds: hold::names(database)?,
            keys: Keys::of(database, people, changed, users)?,
        })
    }

    /// Updates the state as `deed` would, or returns why it may not be done.
    pub(super) fn follow(&mut self, deed: &ReplayAction<'_>) -> Result<(), String> {
        let held = Held::of(self.holds.values().cloned().collect());
        match deed {
            ReplayAction::Apply { .. } | ReplayAction::Schedule { .. } => {
                if let Some(user) = deed.person() {
                    let free = held.refuse_person(&self.salt, user);
                    free.map_err(|error| error.to_string())?;
                }
                // Without the records of whoever forgot it, it destroys what is held.
                if let ReplayAction::Apply { id, forgotten, .. } = deed
                    && !forgotten.is_empty()
                {
                    let free = held.refuse_disguise(&self.salt, *id);
                    free.map_err(|error| error.to_string())?;
                }
            }
            ReplayAction::Forget { person, bound, .. } => {
                self.free(&held, person.as_ref(), bound)?;
            }
            ReplayAction::HoldPerson(id, user) => {
                let name = Holding::Person(user).name(&self.salt);
                self.holds.insert(*id, name);
            }
            ReplayAction::HoldDisguise(id, disguise) => {
                let name = Holding::Disguise(*disguise).name(&self.salt);
                self.holds.insert(*id, name);
            }
            ReplayAction::Lift(id) => drop(self.holds.remove(id)),
            _ => {}
        }
        self.keys.follow(deed)
    }

    /// Takes away the account of somebody, and its registration.
    pub(super) fn leaves(&mut self, user: &Value) {
        self.keys.leaves(user);
    }

    /// Checks that no hold keeps these records from being destroyed. Holds name nobody, so any hold
    /// on a person may be that of an unknown person.
    fn free(&self, held: &Held, person: Option<&Value>, bound: &Bound) -> Result<(), String> {
        let disguises = match bound {
            Bound::Free => return Ok(()),
            Bound::Disguises(disguises) => disguises.as_slice(),
            Bound::AnyDisguise if held.has_disguises() => return Err(HELD_PERHAPS.to_owned()),
            Bound::AnyDisguise => &[],
        };
        let told = |free: Result<(), Error>| free.map_err(|error| error.to_string());
        match person {
            Some(person) => told(held.refuse_person(&self.salt, person))?,
            None if held.cohorts().is_empty() => {}
            None => return Err(HELD_PERHAPS.to_owned()),
        }
        let mut disguises = disguises.iter();
        disguises.try_for_each(|id| told(held.refuse_disguise(&self.salt, *id)))
    }
}

/// The disguises in chunks that end, and the part that cannot be done again.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) chunks: Vec<(DisguiseId, Whose)>,
    pub(super) rest: Option<String>,
}

/// Returns what `ends` ends in this database, or why it cannot be determined.
pub(super) fn ending(
    database: &mut dyn TenantConnection,
    ends: &Ends,
    person: Option<&Value>,
) -> Result<Result<Ending, String>, Error> {
    let ids = match ends.id {
        Some(id) => vec![id],
        None => intent::list(database)?,
    };
    let (mut ending, mut hidden) = (Ending::default(), 0_u64);
    for id in ids {
        let Some(intent) = intent::find(database, id)? else {
            continue;
        };
        let whose = Whose::of(&intent);
        let is_meant = match &whose {
            _ if ends.id.is_some() && !ends.leaves_out => true,
            Whose::User(_) if ends.id.is_some() => true,
            Whose::User(user) => match &ends.key {
                Some(key) => intent.public_key.as_ref() == Some(key),
                None => person.is_some_and(|it| it.principal() == user.principal()),
            },
            // Who revealed it reveals it again.
            Whose::Everybody if ends.rest.is_some() => false,
            Whose::Everybody if ends.went_on.as_ref().is_some_and(|it| !it.contains(&id)) => false,
            Whose::Everybody if person.is_some() && ends.is_alone => true,
            Whose::Everybody => return Ok(Err(BEHIND.to_owned())),
        };
        if is_meant {
            hidden = hidden.saturating_add(intent.hidden());
            ending.chunks.push((id, whose));
        }
    }
    // An entry that does not say how many were hidden was not made in the middle of chunks.
    let lacking = ends.hidden.unwrap_or_default().saturating_sub(hidden);
    ending.rest = match ends.rest {
        Some(rest) => Some(rest.to_owned()),
        None if lacking == 0 => None,
        // A replay before may have ended it, and then how many were hidden here is not known any more.
        None => Some(in_clear((!ending.chunks.is_empty()).then_some(lacking))),
    };
    Ok(Ok(ending))
}

/// Ends what goes on in chunks, or leaves the person out of it.
pub(super) fn end(
    database: &mut dyn TenantConnection,
    ending: &Ending,
    (ends, person): (&Ends, Option<&Value>),
) -> Result<(), Error> {
    let marked: Vec<Marked> = person
        .map(|it| Marked {
            name: registry::named(database.tenancy(), &it.principal()).principal(),
            public: ends.key.clone(),
        })
        .into_iter()
        .collect();
    for (id, whose) in &ending.chunks {
        if ends.leaves_out {
            leave_out(database, *id, Some(whose), &marked, ChunkNote::Forgotten)?;
        } else {
            intent::remove(database, *id)?;
        }
    }
    Ok(())
}

/// Rows of a disguise in chunks are in clear that were hidden when it was ended.
pub(super) fn in_clear(rows: Option<u64>) -> String {
    let rows = rows.map_or_else(String::new, |rows| format!(", {rows} of them"));
    format!(
        "rows that it had hidden when it was ended are in clear here{rows}, and the log does not say which: a person who is to be hidden takes another disguise"
    )
}
