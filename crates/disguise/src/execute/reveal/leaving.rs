//! Placeholders that leave the users table, each with its successor, and those that cannot go yet.

use std::collections::{BTreeMap, BTreeSet};

use super::meanwhile::{Going, Placeholders};
use super::{Due, Open};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::succession::{Fingerprint, fingerprint};
use crate::records::{placeholder_succession, registry};

impl Placeholders<'_, '_> {
    /// Returns the placeholders that missing rows of others may need, and whose accounts lie in
    /// records that can still be revealed.
    pub(super) fn away(&mut self, opened: &[Open<'_>]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let links = opened.iter().flat_map(|it| &it.bag.speaks_for);
        let needed = links
            .filter(|link| !link.gone && self.work.notes.taken.contains(&link.new.principal()));
        let needed: Vec<Value> = needed.map(|link| link.new.clone()).collect();
        let there = self.work.people.users(self.work.database, &needed)?;
        let mut absent: BTreeSet<Vec<u8>> = needed.iter().map(Value::principal).collect();
        absent.retain(|name| !there.contains(name));
        if absent.is_empty() {
            return Ok(absent);
        }
        let own = |bag: &Bag| -> Vec<Vec<u8>> {
            let ids = bag.principals.iter();
            ids.map(|(id, _, _)| id.principal()).collect()
        };
        let mut held: BTreeSet<Vec<u8>> = opened.iter().flat_map(|it| own(&it.bag)).collect();
        let rows: BTreeSet<&[u8]> = opened.iter().map(|it| &*it.reached.found.row).collect();
        let reach = self.work.reach;
        for reached in &reach.bags {
            let row = reached.found.row.as_slice();
            if reached.found.locator.changes
                && !rows.contains(row)
                && !self.work.ended.contains(row)
            {
                let Some(open) = self.work.open(reached, Due::Nothing)? else {
                    // It may hold any of them.
                    return Ok(absent);
                };
                held.extend(own(&open.bag));
            }
        }
        absent.retain(|name| held.contains(name));
        Ok(absent)
    }

    /// Returns the placeholders of a revealed disguise that may leave the users table, each with
    /// its successor, and whether another one could not go yet. Those who are `away` come back with
    /// another disguise.
    pub(super) fn leaving(
        &mut self,
        bag: &mut Bag,
        away: &BTreeSet<Vec<u8>>,
    ) -> Result<(Vec<Going>, bool), Error> {
        let all: Vec<Value> = bag.speaks_for.iter().map(|link| link.new.clone()).collect();
        let there = self.work.people.users(self.work.database, &all)?;
        let nearest = {
            let owners: Vec<Value> = bag.speaks_for.iter().map(|link| link.old.clone()).collect();
            self.work.people.nearest(self.work.database, &owners)?
        };
        let mut waiting = false;
        let mut going = Vec::new();
        for link in &mut bag.speaks_for {
            let name = link.new.principal();
            let target = nearest.get(&link.old.principal());
            match target {
                _ if away.contains(&name) => waiting = true,
                _ if !there.contains(&name) => {
                    link.gone = true;
                    self.work.people.cleared.insert(name);
                }
                _ if link.retained => {}
                Some(target) if !self.work.notes.needed.contains(&name) => {
                    going.push((link.new.clone(), target.clone()));
                }
                _ => {
                    link.gone = false;
                    waiting = true;
                }
            }
        }
        Ok((going, waiting))
    }

    /// Removes the placeholders of a revealed disguise from the users table, under the reference
    /// policy. Returns whether one of them could not go yet.
    pub(super) fn clear_placeholders(
        &mut self,
        bag: &mut Bag,
        away: &BTreeSet<Vec<u8>>,
    ) -> Result<bool, Error> {
        let (mut going, waiting) = self.leaving(bag, away)?;
        if going.is_empty() {
            return Ok(waiting);
        }
        let stays = self.let_go(&mut going)?;
        let names: Vec<Vec<u8>> = going.iter().map(|(id, _)| id.principal()).collect();
        self.note_successors(&going)?;
        registry::unregister(self.work.database, &names)?;
        let gone: BTreeSet<Vec<u8>> = names.into_iter().collect();
        self.work.people.cleared.extend(gone.iter().cloned());
        for link in &mut bag.speaks_for {
            let name = link.new.principal();
            link.gone |= gone.contains(&name);
            link.retained |= stays.retained.contains(&name);
        }
        Ok(waiting || !stays.waiting.is_empty())
    }

    /// Notes who takes the place of placeholders, for hidden rows of others that name these.
    fn note_successors(&mut self, going: &[Going]) -> Result<(), Error> {
        let noted = going.iter().filter_map(|(id, target)| {
            let is_placeholder = target.principal() != self.work.people.person.0;
            let successor = (self.key(target)?, target.clone());
            Some((self.key(id)?, (successor, is_placeholder)))
        });
        let noted: BTreeMap<_, _> = noted.collect();
        placeholder_succession::put(self.work.database, &noted)
    }

    /// Returns the fingerprint of the key of the person or of a placeholder of theirs.
    fn key(&self, id: &Value) -> Option<Fingerprint> {
        let public = self.work.people.key_of(&id.principal())?;
        Some(fingerprint(self.work.salt, &public))
    }
}
