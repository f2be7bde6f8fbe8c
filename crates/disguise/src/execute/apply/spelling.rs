//! Ids of people as rows spell them, if the database treats several spellings as equal.

use std::collections::BTreeMap;

use super::principals::Principals;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::statements::table::found;

impl Principals<'_> {
    /// Looks up the users table's spelling of those of `ids` that were not met so far. Returns
    /// their names.
    pub(super) fn spell(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut doubtful: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for id in ids.iter().filter(|id| self.is_doubtful(id)) {
            doubtful.insert(id.principal(), (*id).clone());
        }
        let ids: Vec<Value> = doubtful.values().cloned().collect();
        let pseudo = &self.live.pseudo;
        let mut held = found(database, &pseudo.table, &pseudo.id, &ids)?;
        let mut names = Vec::new();
        for (name, id) in doubtful {
            let held = held.remove(&name).unwrap_or(id);
            let spelled = held.principal();
            if spelled != name {
                names.push(spelled);
            }
            self.spellings.insert(name, held);
        }
        Ok(names)
    }

    fn is_doubtful(&self, id: &Value) -> bool {
        let name = id.principal();
        let is_met = self.known.contains_key(&name) || self.own.contains(&name);
        id.has_spellings() && !id.is_nobody() && !is_met && !self.spellings.contains_key(&name)
    }

    /// Looks up the registrations of the owners of rows, if rows may belong to others than the
    /// user, or spell the user in another way.
    pub(super) fn meet_owners(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<(), Error> {
        let is_only = self.user.is_some() && self.own.len() == 1;
        if is_only && !ids.iter().any(|id| self.is_doubtful(id)) {
            return Ok(());
        }
        self.meet(database, ids)
    }

    /// Returns the id as the users table spells it, as far as it was met.
    pub(super) fn spelled<'v>(&'v self, id: &'v Value) -> &'v Value {
        if id.has_spellings() {
            self.spellings.get(&id.principal()).unwrap_or(id)
        } else {
            id
        }
    }

    /// Returns the name of the principal that a row names by `id`.
    pub(super) fn name(&self, id: &Value) -> Vec<u8> {
        self.spelled(id).principal()
    }
}
