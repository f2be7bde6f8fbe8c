//! Other lives of the database, which the log tells of, too: a restored backup, or what it is a backup of, that went on by itself
//! with a disguise in chunks.

use std::collections::{BTreeMap, BTreeSet};

use super::replay_decision::Replay;
use super::replay_forget::is_making;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::error::{DisguiseId, Error};
use crate::transaction::chunk_ids::{self, ChunkId};
use crate::transaction::history::Presence;
use crate::transaction::intent;
use crate::transaction::operation::{LoggedOperation, OperationId};

const WAITS_IN_ORDER: &str = "a disguise before it is not done again, and this one would hide its rows, too: do that one first, with what it lacks, or this one anew with the same specification";

pub(super) const HOLDS_NOTHING: &str = "the disguise that it holds is not here, nor made again: place it on the one that was applied in its place, with the same actor and basis, and dismiss this one; where nothing was applied, dismiss it";

pub(super) const STRAYED: &str = "this database hides rows by it, from another life than the one that the log ended with: there its person asked for the same again, and took that back. Where they are back they reveal it here, too; otherwise dismiss this one";

const WAITS: &str = "a disguise before it is not done again, of which it destroyed records or for which its person needs the key: do that one first, with what it lacks, or do this again with the person's credential";

/// A disguise in chunks that goes on here.
pub(super) struct Going {
    /// The key of its person.
    key: Option<PublicKey>,
    last: LastChunk,
}

/// The last chunk of a disguise that was done in this database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastChunk {
    /// No chunk has changed anything.
    None,
    Known(ChunkId),
    /// A program did it that gave chunks no ids.
    Unknown,
}

/// Returns the disguises in chunks that go on.
pub(super) fn going(
    database: &mut dyn TenantConnection,
) -> Result<BTreeMap<DisguiseId, Going>, Error> {
    let mut all = BTreeMap::new();
    for id in intent::list(database)? {
        if let Some(intent) = intent::find(database, id)? {
            let last = match intent.chunk_ids.last() {
                Some(last) => LastChunk::Known(last),
                None if intent.hidden() == 0 => LastChunk::None,
                None => LastChunk::Unknown,
            };
            let key = intent.public_key;
            all.insert(id, Going { key, last });
        }
    }
    Ok(all)
}

impl Replay<'_> {
    /// Returns whether all rows of a disguise were hidden in this database.
    pub(super) fn is_whole(&self, id: &str) -> bool {
        let mut own = self.done.iter().filter(|(it, _)| it.key == id);
        own.any(|(it, presence)| it.makes_whole() && self.is_here(it, *presence))
    }

    /// Returns whether a replay is to make a disguise again.
    pub(super) fn is_made(&self, id: &str) -> bool {
        let mut missing = self.missing.iter();
        missing.any(|it| it.key == id && is_making(it) && !self.is_not_to_be_made(it))
    }

    /// Returns whether no row is hidden here by a disguise of which the log tells, nor will be by this replay.
    pub(super) fn is_nowhere(&self, id: &str) -> bool {
        let own = self.done.iter().filter(|(it, _)| it.key == id);
        let mut made = own.filter(|(it, _)| it.makes_part()).peekable();
        made.peek().is_some()
            && made.all(|(it, presence)| !self.is_here(it, *presence))
            && !self.is_going(id)
            && !self.is_made(id)
    }

    fn is_going(&self, id: &str) -> bool {
        self.goes_on(id).is_some()
    }

    fn goes_on(&self, id: &str) -> Option<&Going> {
        self.going.get(&id.parse().ok()?)
    }

    /// Returns whether a disguise in chunks goes on here, or is to, that a reveal may have ended for its
    /// person.
    pub(super) fn may_end(&self, told: &LoggedOperation) -> bool {
        let is_theirs = |it: &Going| it.key.is_none() || it.key == told.public_key();
        self.goes_on(&told.key).is_some_and(is_theirs) || self.is_made(&told.key)
    }

    fn last_chunk(&self, id: &str) -> LastChunk {
        if let Some(going) = self.goes_on(id) {
            return going.last;
        }
        let own = self.done.iter().rev();
        let mut own = own.filter(|(it, presence)| it.key == id && *presence == Presence::Here);
        let last = own.find_map(|(it, _)| chunk_ids::last(it.facts.chunk_ids.get(id)?));
        last.map_or(LastChunk::None, LastChunk::Known)
    }

    /// Returns whether `told` was done where all chunks of a disguise were known that were done in this
    /// database. Where it was not, records of them have names that it does not name.
    fn knew(&self, told: &LoggedOperation, id: &str) -> bool {
        let last = match self.last_chunk(id) {
            LastChunk::None => return true,
            LastChunk::Unknown => return false,
            LastChunk::Known(last) => last,
        };
        let has = |it: &LoggedOperation| {
            let ids = it.facts.chunk_ids.get(id);
            ids.is_some_and(|ids| chunk_ids::has(ids, last))
        };
        if in_the_middle(told, id) {
            return has(told);
        }
        let before = || self.all().take_while(|it| it.id != told.id);
        let made = || before().filter(|it| it.key == id && it.makes_whole());
        made().next().is_some() && made().all(has)
    }

    /// Returns whether chunks were done in this database alone of a disguise of which `told` destroyed
    /// the records.
    pub(super) fn went_on_alone(&self, told: &LoggedOperation) -> bool {
        if !told.key.is_empty() {
            let is_all = self.finds_all(told) && !in_the_middle(told, &told.key);
            return !is_all && !self.knew(told, &told.key);
        }
        let mut all = destroyed_of(told);
        all.any(|id| !self.knew(told, id))
    }

    /// Returns whether something is hidden here with the key with which everything was forgotten, and
    /// was not where that was done.
    pub(super) fn hides_more(&self, told: &LoggedOperation) -> bool {
        let (Some(key), Some(_), true) = (
            told.public_key(),
            told.facts.disguises(),
            told.key.is_empty(),
        ) else {
            return false;
        };
        let is_known = |id: &str| destroyed_of(told).any(|it| it == id) || self.is_back(told, id);
        let mut going = self.going.iter();
        let is_more = going.any(|(id, going)| {
            let is_theirs = going.key.as_ref() == Some(&key) && going.last != LastChunk::None;
            is_theirs && !is_known(&id.to_string())
        });
        let before = self.done.iter().take_while(|(it, _)| it.id != told.id);
        let mut made = before.filter(|(it, presence)| match presence {
            Presence::Here | Presence::Replayed => it.makes_whole() && self.is_here(it, *presence),
            Presence::Missing => it.makes_part() && self.is_made(&it.key),
            Presence::Followed => false,
        });
        is_more
            || made.any(|(it, _)| {
                let is_theirs = it.facts.public_key == told.facts.public_key;
                it.subject.is_some() && is_theirs && self.has_rows(it) && !self.met(told, it)
            })
    }

    /// Returns whether a disguise hid rows, as far as its entries say it.
    fn has_rows(&self, made: &LoggedOperation) -> bool {
        let is_whole = |it: &LoggedOperation| it.key == made.key && it.makes_whole();
        let is_uncounted = !made.makes_whole() && !self.all().any(is_whole);
        is_uncounted || made.facts.rows.values().any(|rows| *rows > 0)
    }

    /// Returns whether the database in which everything was forgotten had a disguise that was `made` before, or
    /// nothing of it any more. One that lacked it left its records unnamed.
    pub(super) fn met(&self, told: &LoggedOperation, made: &LoggedOperation) -> bool {
        let end = told.time.nanoseconds();
        let is_over = made.facts.expires.is_some_and(|it| it <= end);
        let is_named = || destroyed_of(told).any(|id| id == made.key);
        let says_all = told.key.is_empty() && told.facts.disguises().is_some();
        !says_all || is_over || is_named() || self.is_back(told, &made.key)
    }

    /// Returns whether the person of `told` had a disguise taken back whole, or its records destroyed.
    fn is_back(&self, told: &LoggedOperation, id: &str) -> bool {
        let own = self.all().filter(|it| it.key == id);
        let mut own = own.filter(|it| it.subject == told.subject);
        own.any(|it| match it.action.as_str() {
            "disguise.reveal" => it.facts.kept == Some(0),
            action => action == "disguise.forget",
        })
    }

    /// Returns whether `told` must not be done while one of the operations before it is not, which are
    /// `undone`: their disguises would go on without what they have here, or be sealed to nobody.
    pub(super) fn waits(&self, told: &LoggedOperation, undone: &BTreeSet<OperationId>) -> bool {
        self.awaited(told).any(|it| undone.contains(&it.id))
    }

    /// Returns whether something is lacking for an operation that must be done before `told`.
    pub(super) fn awaits_more(&self, told: &LoggedOperation) -> bool {
        self.awaited(told).any(|it| !self.can_make(it))
    }

    /// Returns the disguises that must be made again before `told` is done.
    fn awaited<'t>(
        &'t self,
        told: &'t LoggedOperation,
    ) -> impl Iterator<Item = &'t LoggedOperation> {
        let before = self.missing.iter().take_while(|it| it.id != told.id);
        let is_done_here = told.is_put_back || told.unread.is_some();
        before.filter(move |it| {
            let is_meant = !is_done_here && is_making(it) && self.concerns(told, it);
            is_meant && !self.is_not_to_be_made(it)
        })
    }

    /// Returns whether a hold was lifted later.
    fn is_lifted(&self, hold: &LoggedOperation) -> bool {
        let mut since = self.all().skip_while(|it| it.id != hold.id);
        since.any(|it| it.action == "disguise.lift" && it.key == hold.key)
    }

    /// Returns whether a hold that stands is on a disguise of which the log tells, which is not here, and which this
    /// replay does not make.
    pub(super) fn holds_nothing(&self, hold: &LoggedOperation) -> bool {
        let id = hold.facts.disguise.as_deref();
        let made = self.done.iter();
        let made = made.filter(|(it, _)| is_making(it) && Some(&*it.key) == id);
        let is_missing = |it: &LoggedOperation| {
            let mut missing = self.missing.iter();
            missing.any(|missing| missing.id == it.id) && !self.is_dismissed(it)
        };
        let mut made = made.peekable();
        made.peek().is_some()
            && !self.is_lifted(hold)
            && made.all(|(it, presence)| !self.is_here(it, *presence) && !is_missing(it))
    }

    fn concerns(&self, told: &LoggedOperation, made: &LoggedOperation) -> bool {
        let key = told.facts.public_key.as_ref();
        let is_theirs = key.is_some() && made.facts.public_key.as_ref() == key;
        match told.action.as_str() {
            "disguise.forget" if !told.key.is_empty() => {
                made.key == told.key && self.is_going(&made.key)
            }
            "disguise.forget" => is_theirs || destroyed_of(told).any(|id| id == made.key),
            "disguise.unregister" => is_theirs,
            "disguise.hold" => {
                let is_held = told.facts.disguise.as_deref() == Some(&*made.key);
                is_held && !self.is_lifted(told)
            }
            _ => is_making(told) && self.precedes(made, told),
        }
    }
}

/// Returns the reason for which `told` waits for a disguise before it.
pub(super) fn waits_for(told: &LoggedOperation) -> &'static str {
    match told.action.as_str() {
        "disguise.hold" => HOLDS_NOTHING,
        _ if is_making(told) => WAITS_IN_ORDER,
        _ => WAITS,
    }
}

/// Returns the disguises of which everything was forgotten, and those in chunks that this ended.
fn destroyed_of(told: &LoggedOperation) -> impl Iterator<Item = &str> {
    let disguises = told.facts.disguises().into_iter().flatten();
    let chunks = told.facts.chunks.iter().flatten();
    disguises.chain(chunks).map(String::as_str)
}

/// Returns whether `told` met a disguise in the middle of its chunks.
fn in_the_middle(told: &LoggedOperation, id: &str) -> bool {
    let mut chunks = told.facts.chunks.iter().flatten();
    chunks.any(|it| it == id)
}
