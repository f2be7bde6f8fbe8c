//! The people whom rows name: the returning person, a placeholder of theirs, or somebody else.

use std::collections::{BTreeMap, BTreeSet};

use super::report::KeptReason;
use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::principal::Reach;
use crate::records::registry;
use crate::records::section::Modified;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::at;
use crate::statements::table::found;

/// People as far as a reveal has met them.
pub(super) struct People<'a> {
    pub(super) live: &'a ResolvedSchema,
    pub(super) reach: &'a Reach,
    /// The person who asks, and their public key.
    pub(super) person: (Vec<u8>, PublicKey),
    /// True if the key is the one registered under their id.
    pub(super) is_registered: bool,
    /// Placeholders removed in this reveal.
    pub(super) cleared: BTreeSet<Vec<u8>>,
    /// Accounts of the principals that the credential reaches, found or put back in this reveal.
    pub(super) rightful: BTreeSet<Vec<u8>>,
    /// Accounts that have the id of such a principal and belong to somebody else.
    pub(super) replaced: BTreeSet<Vec<u8>>,
    /// Ids in the spelling of the users table, by the names that rows have for them.
    pub(super) spellings: BTreeMap<Vec<u8>, Value>,
}

impl<'a> People<'a> {
    pub(super) const fn new(
        live: &'a ResolvedSchema,
        reach: &'a Reach,
        person: (Vec<u8>, PublicKey),
        is_registered: bool,
    ) -> Self {
        Self {
            live,
            reach,
            person,
            is_registered,
            cleared: BTreeSet::new(),
            rightful: BTreeSet::new(),
            replaced: BTreeSet::new(),
            spellings: BTreeMap::new(),
        }
    }

    /// Returns those of these users that exist. An account with the id of a principal of this
    /// person does not count if somebody else has it: they came to the id while its owner was away
    /// and must not get the owner's rows.
    pub(super) fn users(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[Value],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut seen = BTreeSet::new();
        let ids: Vec<Value> = ids
            .iter()
            .filter(|id| seen.insert(id.principal()))
            .cloned()
            .collect();
        // Rows may have gone with a placeholder by the database's own rules, so the database is
        // asked.
        let is_sure = self.cleared.is_empty();
        let (sure, ids): (Vec<Value>, Vec<Value>) = ids
            .into_iter()
            .partition(|id| is_sure && self.rightful.contains(&id.principal()));
        let pseudo = &self.live.pseudo;
        let found = found(database, &pseudo.table, &pseudo.id, &ids)?;
        let mut there: BTreeSet<Vec<u8>> = sure.iter().map(Value::principal).collect();
        for (name, held) in found {
            if self.key_of(&name).is_none() && held.principal() != name {
                self.spellings.insert(name.clone(), held);
            }
            there.insert(name);
        }
        let meant: BTreeSet<Vec<u8>> = there.iter().map(|name| self.meant(name)).collect();
        let (person, _) = &self.person;
        if self.is_registered && meant.contains(person) {
            self.rightful.insert(person.clone());
        }
        let in_doubt = meant.into_iter();
        let in_doubt: Vec<Vec<u8>> = in_doubt
            .filter(|name| self.key_of(name).is_some() && !self.rightful.contains(name))
            .collect();
        if in_doubt.is_empty() {
            return Ok(there);
        }
        let registered = registry::principals(database, &in_doubt)?;
        let mut others = BTreeSet::new();
        for name in in_doubt {
            let public = registered.get(&name).map(|(public, _)| public.clone());
            if public.is_some() && public == self.key_of(&name) {
                self.rightful.insert(name);
            } else {
                self.replaced.insert(name.clone());
                others.insert(name);
            }
        }
        there.retain(|name| !others.contains(&self.meant(name)));
        Ok(there)
    }

    /// Check C4 for many owners: each itself, or the nearest principal behind it when placeholders on the way are
    /// gone for good. A placeholder that another disguise took away is waited for, so that nobody behind it shows.
    pub(super) fn nearest(
        &mut self,
        database: &mut dyn TenantConnection,
        owners: &[Value],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut wanted = owners.to_vec();
        for owner in owners {
            wanted.extend(self.reach.behind(owner).cloned());
        }
        let there = self.users(database, &wanted)?;
        let mut nearest = BTreeMap::new();
        for owner in owners {
            let chain = std::iter::once(owner).chain(self.reach.behind(owner));
            for candidate in chain {
                if there.contains(&candidate.principal()) {
                    nearest.insert(owner.principal(), candidate.clone());
                    break;
                }
                if !self.is_gone(candidate) {
                    break;
                }
            }
        }
        Ok(nearest)
    }

    /// Finds out which of `people` are the person or placeholders of theirs, and who has these ids
    /// now. Nobody else has the id of a registered person.
    pub(super) fn meet<'v>(
        &mut self,
        database: &mut dyn TenantConnection,
        people: impl Iterator<Item = &'v Value>,
    ) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let met = people.filter(|it| {
            let name = it.principal();
            let is_sure = self.is_registered && name == self.person.0;
            let is_strange = it.has_spellings() && !it.is_nobody();
            let matters = !is_sure && (self.is_own(&name) || is_strange);
            matters && seen.insert(name)
        });
        let met: Vec<Value> = met.cloned().collect();
        if !met.is_empty() {
            self.users(database, &met)?;
        }
        Ok(())
    }

    /// Returns the name of the person whom a row names so.
    pub(super) fn meant(&self, name: &[u8]) -> Vec<u8> {
        let spelled = self.spellings.get(name);
        spelled.map_or_else(|| name.to_vec(), Value::principal)
    }

    /// Returns the name of the person whom each of `ids` means.
    pub(super) fn meant_of(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.meet(database, ids.iter().copied())?;
        let meant = ids.iter().map(|id| self.meant(&id.principal()));
        Ok(meant.collect())
    }

    /// Returns whether two values of a column of people mean the same person: the column may hold
    /// an id in another form than the users table.
    pub(super) fn is_one_person(&self, one: &Value, other: &Value) -> bool {
        let is_null = one.is_null() || other.is_null();
        !is_null && self.meant(&one.principal()) == self.meant(&other.principal())
    }

    /// Returns the principals behind the one that `id` means, nearest first.
    pub(super) fn behind(&self, id: &Value) -> Vec<&Value> {
        let spelled = self.spellings.get(&id.principal());
        self.reach.behind(spelled.unwrap_or(id)).collect()
    }

    /// Returns whether `id`, which the records have for the returning person or a placeholder of
    /// theirs, means somebody else: it is spelled like a later user of the id.
    pub(super) fn means_another(&self, id: &Value) -> bool {
        id.has_spellings() && self.key_of(&self.meant(&id.principal())).is_none()
    }

    /// Returns the public key that the person or one of their placeholders must have.
    pub(super) fn key_of(&self, name: &[u8]) -> Option<PublicKey> {
        let (person, public) = &self.person;
        if name == person {
            return Some(public.clone());
        }
        self.reach.publics.get(name).cloned()
    }

    /// Returns whether `placeholder` was made because its owner left a shared row.
    pub(super) fn is_left(&self, placeholder: &Value) -> bool {
        self.reach
            .links
            .get(&self.meant(&placeholder.principal()))
            .is_some_and(|link| link.left)
    }

    /// Returns whether a row means the person by `id`, or a placeholder that they speak for.
    pub(super) fn means_own(&self, id: &Value) -> bool {
        self.is_own(&self.meant(&id.principal()))
    }

    /// Returns whether `name` is the person's, or that of a placeholder that they speak for.
    pub(super) fn is_own(&self, name: &[u8]) -> bool {
        name == self.person.0 || self.reach.links.contains_key(name)
    }

    /// Returns whether `id` is a placeholder whose own disguise was revealed, so that it does not come back.
    pub(super) fn is_gone(&self, id: &Value) -> bool {
        let name = id.principal();
        let link = self.reach.links.get(&name);
        link.is_some_and(|link| link.gone) || self.cleared.contains(&name)
    }

    /// Returns whether a row belonged to one in the users table that was a placeholder which does
    /// not come back.
    pub(super) fn is_of_gone(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        row: &[Value],
    ) -> bool {
        let mut people = table.people().filter_map(|it| at(columns, row, it));
        people.any(|id| self.is_gone(id))
    }

    /// Returns whether a record concerns the account of a placeholder that is gone because its own
    /// disguise was revealed: nothing is left to bring back.
    pub(super) fn is_of_gone_account(&self, table: &ResolvedTable, row: &Modified) -> bool {
        let pseudo = &self.live.pseudo;
        let id = at(&table.identity, &row.identity, &pseudo.id);
        table.name == pseudo.table && id.is_some_and(|id| self.is_gone(id))
    }

    /// Returns the reason why a row cannot go back to `owner`.
    pub(super) fn ownerless(&self, owner: &Value) -> KeptReason {
        let replaced = |id: &Value| self.replaced.contains(&self.meant(&id.principal()));
        if replaced(owner) || self.reach.behind(owner).any(replaced) {
            KeptReason::OwnerReplaced
        } else {
            KeptReason::OwnerMissing
        }
    }

    /// Returns the reason why none of `people` is the person or one of their placeholders.
    pub(super) fn stranger(&self, people: &[Value]) -> Option<KeptReason> {
        let reason = |it: &Value| {
            let name = self.meant(&it.principal());
            match (self.is_own(&name), self.replaced.contains(&name)) {
                (true, false) => None,
                (true, true) => Some(KeptReason::OwnerReplaced),
                (false, _) => Some(KeptReason::OtherOwner),
            }
        };
        let mut reasons = people.iter().map(reason);
        // One of them is enough.
        reasons.try_fold(KeptReason::OwnerMissing, |all, it| {
            Some(match it? {
                KeptReason::OwnerReplaced => KeptReason::OwnerReplaced,
                _ if all == KeptReason::OwnerReplaced => all,
                other => other,
            })
        })
    }

    /// Notes the accounts that are back, by their rows.
    pub(super) fn accounts_back<'r>(
        &mut self,
        columns: &[String],
        rows: impl IntoIterator<Item = &'r [Value]>,
    ) {
        let id = &self.live.pseudo.id;
        let ids = rows.into_iter().filter_map(|row| at(columns, row, id));
        for back in ids.map(Value::principal) {
            self.replaced.remove(&back);
            self.rightful.insert(back);
        }
    }
}
