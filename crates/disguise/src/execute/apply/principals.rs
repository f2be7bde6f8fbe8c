//! The people whom rows name: their registrations, and marks of earlier chunks about them.

use std::collections::{BTreeMap, BTreeSet};

use super::record_owner::People;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::chunk_note::ChunkNotes;
use crate::records::registry;
use crate::records::registry::Registered;
use crate::records::section::PrincipalKind;
use crate::schema::ResolvedSchema;

/// Notes of earlier chunks, as far as this one met them.
#[derive(Default)]
pub(crate) struct PreviousChunks {
    /// Principals that were looked up.
    pub(super) asked: BTreeSet<Vec<u8>>,
    /// Principals whose person revealed the disguise since it was begun.
    pub(super) returned: BTreeSet<Vec<u8>>,
    /// Principals whose person had the records of it destroyed.
    pub(super) forgotten: BTreeSet<Vec<u8>>,
    /// Identities that rows got from the current step, not marked yet.
    pub(super) moved: Vec<Vec<u8>>,
    /// Placeholders made before and marked already.
    pub(super) marked: BTreeSet<Vec<u8>>,
    /// True if rows are taken whoever came back, because the rows they refer to go.
    pub(super) whoever: bool,
}

/// Principals as far as a disguise has met them.
pub(crate) struct Principals<'a> {
    pub(super) live: &'a ResolvedSchema,
    /// The names under which chunks leave notes for each other.
    pub(super) notes: ChunkNotes<'a>,
    /// The user and the pseudoprincipals reached, when a user is meant.
    pub(super) user: Option<&'a Value>,
    pub(super) own: BTreeSet<Vec<u8>>,
    /// Registered principals met so far.
    pub(crate) known: Registered,
    /// Placeholders made by this disguise, which it must not touch again.
    pub(super) made: BTreeSet<Vec<u8>>,
    /// Ids in the spelling of the users table, by their names in the spelling of rows.
    pub(super) spellings: BTreeMap<Vec<u8>, Value>,
    /// The state that earlier chunks left, if the disguise comes in several.
    pub(super) earlier: Option<PreviousChunks>,
}

impl<'a> Principals<'a> {
    /// Creates it with the registrations that are known already.
    pub(crate) fn new(
        live: &'a ResolvedSchema,
        notes: ChunkNotes<'a>,
        user: Option<&'a Value>,
        owners: &[Value],
        known: Registered,
    ) -> Self {
        Self {
            live,
            notes,
            user,
            own: owners.iter().map(Value::principal).collect(),
            known,
            made: BTreeSet::new(),
            spellings: BTreeMap::new(),
            earlier: None,
        }
    }

    /// Adds the state that earlier chunks left.
    pub(crate) fn after(self, earlier: Option<PreviousChunks>) -> Self {
        Self { earlier, ..self }
    }

    /// Looks up the registrations of those of `ids` that were not met yet.
    pub(super) fn meet(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<(), Error> {
        self.meet_named(database, ids.iter().map(|id| id.principal()))?;
        let spelled = self.spell(database, ids)?;
        self.meet_named(database, spelled)?;
        self.recall(database, ids)
    }

    fn meet_named(
        &mut self,
        database: &mut dyn TenantConnection,
        names: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), Error> {
        let unmet: BTreeSet<Vec<u8>> = names
            .into_iter()
            .filter(|id| !self.known.contains_key(id))
            .collect();
        let unmet: Vec<Vec<u8>> = unmet.into_iter().collect();
        let mut met = registry::principals(database, &unmet)?;
        self.known.append(&mut met);
        Ok(())
    }

    /// Returns the one of `people` for whom a record is kept: an owner before a reader, and among
    /// these a person before a placeholder, for which perhaps nobody speaks. Somebody who had theirs
    /// destroyed counts only where there is nobody else, who would lose the row with it.
    pub(super) fn keeper(&self, people: &People) -> Option<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for of in [&people.owners, &people.readers] {
            let named = of.iter().map(|it| self.name(it));
            let (persons, others): (Vec<_>, Vec<_>) = named.partition(|name| self.is_person(name));
            names.extend(persons.into_iter().chain(others));
        }
        let keeps = |name: &&Vec<u8>| self.known.contains_key(*name) && !self.has_forgotten(name);
        let keeper = names.iter().find(keeps);
        let forgotten = || names.iter().find(|name| self.has_forgotten(name));
        keeper.or_else(forgotten).cloned()
    }

    /// Returns the registered owner who leaves with a disguise of everybody, if some have come back.
    pub(super) fn leaving_owner(&self, people: &People) -> Option<Vec<u8>> {
        let names = people.owners.iter().map(|it| self.name(it));
        let mut names = names.filter(|name| !self.has_returned(name));
        names.find(|name| self.known.contains_key(name) && !self.has_forgotten(name))
    }

    /// Returns whether a row stays with somebody who has come back while everybody leaves: an owner,
    /// or without owners whoever else would keep its record.
    pub(super) fn stays_with_returned(&self, people: &People) -> bool {
        let mut owners = people.owners.iter().map(|it| self.name(it));
        let keeper = || self.keeper(people);
        owners.any(|name| self.has_returned(&name))
            || keeper().is_some_and(|name| self.has_returned(&name))
    }

    /// Returns whether the person with this name leaves.
    pub(super) fn leaves(&self, name: &[u8]) -> bool {
        match self.user {
            Some(_) => self.own.contains(name),
            None => !self.has_returned(name),
        }
    }

    /// Returns whether a registered person, no placeholder, has this name.
    fn is_person(&self, name: &[u8]) -> bool {
        let known = self.known.get(name);
        known.is_some_and(|(_, standing)| standing.is_person())
    }

    /// Returns whether `owner` is a placeholder of somebody who left the row that it owns.
    pub(super) fn is_departed(&self, owner: &Value) -> bool {
        self.known
            .get(&self.name(owner))
            .is_some_and(|(_, standing)| *standing == PrincipalKind::Departed)
    }

    /// Returns whether a column that names `owner` is re-pointed.
    pub(super) fn is_meant(&self, owner: &Value) -> bool {
        let id = self.name(owner);
        match self.user {
            Some(_) => self.own.contains(&id),
            None => !self.made.contains(&id) && !self.has_returned(&id),
        }
    }
}
