//! Owners and readers of rows: the people whom rows name, as the open bags and the database tell.

use std::collections::{BTreeMap, BTreeSet};

use super::current_owner::Now;
use super::moved_key::MovedKeys;
use super::others::Others;
use super::people::People;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::row::{at, put};

/// The people whom rows name, looked up in the database as they are met.
pub(super) struct Owners<'w, 'a> {
    pub(super) database: &'w mut dyn TenantConnection,
    pub(super) people: &'w mut People<'a>,
    pub(super) others: &'w mut Others,
    pub(super) salt: &'w [u8],
}

impl<'a> Owners<'_, 'a> {
    /// Begins to follow rows whose keys may have changed.
    pub(super) fn moved_keys(&mut self) -> MovedKeys<'_, 'a> {
        MovedKeys {
            database: &mut *self.database,
            people: &*self.people,
        }
    }

    /// Returns each row with owners that exist, or nothing when an owner is missing (C4). A missing
    /// reader does not keep the row from its owner: the column becomes empty if it may. Those who
    /// are `awaited` are about to come back. Whoever was nobody already when the row went, as the
    /// bag with number `index` says, is named again and not waited for.
    pub(super) fn owners_back(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: &[Vec<Value>],
        awaited: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Option<Vec<Value>>>, Error> {
        let live = self.people.live;
        let owners: Vec<Value> = rows
            .iter()
            .flat_map(|row| live.others(table).filter_map(|it| at(columns, row, it)))
            .filter(|owner| !owner.is_nobody())
            .cloned()
            .collect();
        if owners.is_empty() {
            return Ok(rows.iter().cloned().map(Some).collect());
        }
        let nearest = self.nearest(index, &owners)?;
        let nobody = self.others.nobody(index)?;
        let owned = |row: &Vec<Value>| {
            let mut row = row.clone();
            for column in live.others(table) {
                let owner = at(columns, &row, column)
                    .filter(|it| !it.is_nobody())
                    .cloned();
                let Some(owner) = owner else { continue };
                let name = owner.principal();
                let nearest = nearest.get(&name).cloned();
                let was_nobody = live.is_free(table, column)
                    && nobody.contains(&name)
                    && !self.people.is_own(&name);
                let value = nearest.or_else(|| was_nobody.then(|| owner.clone()));
                let value = value.or_else(|| table.may_lack(column).then_some(Value::Null));
                let is_awaited = |it: &&Value| {
                    let name = it.principal();
                    awaited.contains(&name) && !self.people.replaced.contains(&name)
                };
                // A placeholder whose own disguise is revealed does not come back: whoever is behind
                // it does.
                let mut chain = std::iter::once(&owner).chain(self.people.behind(&owner));
                let value = value.or_else(|| chain.find(is_awaited).cloned());
                put(columns, &mut row, column, value?);
            }
            Some(row)
        };
        Ok(rows.iter().map(owned).collect())
    }

    /// Returns for each owner of the records who stands for them now.
    pub(super) fn nearest_owners(
        &mut self,
        index: usize,
        current: &BTreeMap<Vec<u8>, Now>,
        rows: &[Modified],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let owners: Vec<Value> = rows.iter().map(|row| row.before.clone()).collect();
        let now = current.values().flat_map(|now| &now.values);
        let all = now.chain(rows.iter().map(|row| &row.after));
        self.people.meet(self.database, all)?;
        self.nearest(index, &owners)
    }

    /// Looks up the people whom rows spell differently than the users table.
    pub(super) fn spell(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<(), Error> {
        let is_strange = |id: &&Value| {
            id.has_spellings() && !id.is_nobody() && !self.people.is_own(&id.principal())
        };
        let people = rows
            .iter()
            .flat_map(|row| table.people().filter_map(|it| at(columns, row, it)));
        let strange: Vec<Value> = people.filter(is_strange).cloned().collect();
        if !strange.is_empty() {
            self.people.users(self.database, &strange)?;
        }
        Ok(())
    }

    /// Returns whether a removed row belongs to the returning person, or to a placeholder that they
    /// speak for. So does one that named nobody when it went along with theirs, as the bag with
    /// number `index` says. Some rows do not name an owner, but refer to one that does: see
    /// [`Self::drop_strangers`].
    pub(super) fn is_theirs(
        &self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        row: &[Value],
    ) -> Result<bool, Error> {
        let is_own = |id: &Value| self.people.means_own(id);
        if table.name == self.people.live.pseudo.table {
            return Ok(at(columns, row, &self.people.live.pseudo.id).is_some_and(is_own));
        }
        if table.path.is_some() {
            return Ok(true);
        }
        let people = table.people().filter_map(|it| at(columns, row, it));
        let nobody = self.others.nobody(index)?;
        let was_nobody = |it: &Value| nobody.contains(&it.principal());
        let people = people.filter(|it| !it.is_nobody() && (is_own(it) || !was_nobody(it)));
        let mut people = people.peekable();
        Ok(people.peek().is_none() || people.any(is_own))
    }
}
