//! After the rows: registrations return, placeholders go, and what is left of the records is stored again.

use std::collections::BTreeSet;

use super::meanwhile::Going;
use super::{Due, Open, Revealer, named_row};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::deadline::Cohorts;
use crate::records::section::{Change, Origin};
use crate::records::stored::{Found, Stage, Stored};
use crate::records::{registry, store};

impl Revealer<'_> {
    /// Registers principals whose rows are back.
    pub(super) fn principals(&mut self, bag: &mut Bag) -> Result<(), Error> {
        let ids: Vec<Value> = bag.principals.iter().map(|(id, _, _)| id.clone()).collect();
        let there = self.users(&ids)?;
        let names: Vec<Vec<u8>> = ids.iter().map(Value::principal).collect();
        let registered = registry::principals(self.database, &names)?;
        let mut back = Vec::new();
        for (id, public, standing) in std::mem::take(&mut bag.principals) {
            let name = id.principal();
            if self.is_gone(&id) {
                continue;
            }
            if there.contains(&name) {
                back.push((name, public, standing));
            } else {
                bag.principals.push((id, public, standing));
            }
        }
        // Whoever had such an id meanwhile is gone from the users table, and what they registered goes too.
        registry::register_anew(self.database, &registered, back)
    }

    /// The placeholders that rows of others may need which are not there, and whose accounts lie in records that can still be
    /// revealed.
    pub(super) fn away(&mut self, opened: &[Open<'_>]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let links = opened.iter().flat_map(|it| &it.bag.speaks_for);
        let needed = links.filter(|link| !link.gone && self.taken.contains(&link.new.principal()));
        let needed: Vec<Value> = needed.map(|link| link.new.clone()).collect();
        let there = self.users(&needed)?;
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
        let reach = self.reach;
        for reached in &reach.bags {
            let row = reached.found.row.as_slice();
            if reached.found.locator.changes && !rows.contains(row) && !self.ended.contains(row) {
                held.extend(own(&self.open(reached, Due::Nothing)?.bag));
            }
        }
        absent.retain(|name| held.contains(name));
        Ok(absent)
    }

    /// Notes the rows that records speak of which stay, those of disguises that are not revealed among them: such a row is from
    /// before, whatever placeholder of the person it names by now.
    pub(super) fn note_recorded(&mut self, opened: &[Open<'_>]) -> Result<(), Error> {
        let mut recorded = BTreeSet::new();
        let names = |bag: &Bag, all: &mut BTreeSet<Vec<u8>>| {
            for section in &bag.sections {
                let (Change::Modified { rows, .. } | Change::Decorrelated { rows, .. }) =
                    &section.change
                else {
                    continue;
                };
                all.extend(
                    rows.iter()
                        .map(|row| named_row(&section.table, &row.identity)),
                );
            }
        };
        for open in opened {
            names(&open.bag, &mut recorded);
        }
        let rows: BTreeSet<&[u8]> = opened.iter().map(|it| &*it.reached.found.row).collect();
        let reach = self.reach;
        for reached in &reach.bags {
            let row = reached.found.row.as_slice();
            if reached.found.locator.changes && !rows.contains(row) && !self.ended.contains(row) {
                names(&self.open(reached, Due::Nothing)?.bag, &mut recorded);
            }
        }
        self.recorded = recorded;
        Ok(())
    }

    /// The placeholders of a revealed disguise that may leave the users table, each with whoever takes its place, and whether another
    /// one could not go yet. Those who are `away` come back with another disguise.
    pub(super) fn leaving(
        &mut self,
        bag: &mut Bag,
        away: &BTreeSet<Vec<u8>>,
    ) -> Result<(Vec<Going>, bool), Error> {
        let all: Vec<Value> = bag.speaks_for.iter().map(|link| link.new.clone()).collect();
        let there = self.users(&all)?;
        let nearest = {
            let owners: Vec<Value> = bag.speaks_for.iter().map(|link| link.old.clone()).collect();
            self.nearest(&owners)?
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
                    self.cleared.insert(name);
                }
                _ if link.retained => {}
                Some(target) if !self.needed.contains(&name) => {
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

    /// Takes the placeholders of a revealed disguise out of the users table, under the reference policy; tells whether one of them
    /// could not go yet.
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
        registry::unregister(self.database, &names)?;
        let gone: BTreeSet<Vec<u8>> = names.into_iter().collect();
        self.cleared.extend(gone.iter().cloned());
        for link in &mut bag.speaks_for {
            let name = link.new.principal();
            link.gone |= gone.contains(&name);
            link.retained |= stays.retained.contains(&name);
        }
        Ok(waiting || !stays.waiting.is_empty())
    }

    /// Stores what is left of the bags, and forgets links that nothing hangs behind any more.
    pub(super) fn put_away(&mut self, mut opened: Vec<Open<'_>>) -> Result<(), Error> {
        opened.retain(|it| it.due != Due::Nothing || it.changed);
        let rows: BTreeSet<&[u8]> = opened
            .iter()
            .map(|it| it.reached.found.row.as_slice())
            .collect();
        let untouched = self
            .reach
            .bags
            .iter()
            .filter(|it| !rows.contains(it.found.row.as_slice()));
        let holds = |bag: &Bag| !bag.sections.is_empty() || !bag.principals.is_empty();
        let more = opened.iter().any(|it| it.waiting || holds(&it.bag));
        let linked = |bag: &Bag| bag.speaks_for.iter().any(|link| !link.gone);
        let hanging = more
            || opened.iter().any(|it| linked(&it.bag))
            || untouched
                .clone()
                .any(|it| it.found.locator.changes || it.bag.as_ref().is_some_and(linked));
        let mut gone: Vec<&Found> = opened.iter().map(|it| &it.reached.found).collect();
        let cohorts = Cohorts::of(self.database, &gone)?;
        let mut stored = Vec::new();
        for Open {
            reached,
            bag,
            due,
            waiting,
            ..
        } in &opened
        {
            if holds(bag) || (hanging && !bag.speaks_for.is_empty()) {
                stored.push(Stored {
                    bag,
                    public: reached.public.clone(),
                    owner: match &reached.placeholder {
                        Some(placeholder) => placeholder.principal(),
                        None => self.person.0.clone(),
                    },
                    person: reached.placeholder.is_none(),
                    origin: Origin {
                        updates: crate::execute::update::count(self.updates.recorded),
                        ..reached.found.locator.origin
                    },
                    cohorts: cohorts.beside(&reached.found),
                    stage: match due {
                        Due::Copies | Due::Nothing => Stage::Disguised,
                        _ if *waiting => Stage::Waiting,
                        _ => Stage::Pending,
                    },
                });
            }
        }
        if !hanging {
            // With no change left anywhere, neither links nor copies lead to anything.
            let useless = untouched.filter(|it| match &it.bag {
                Some(bag) => bag.speaks_for.iter().all(|link| link.gone),
                None => it.found.locator.copies,
            });
            gone.extend(useless.map(|it| &it.found));
        }
        self.destroyed = store::record_ids(&gone)?;
        store::remove_bags(self.database, self.salt, &gone)?;
        store::put_bags(self.database, self.salt, &stored)
    }
}
