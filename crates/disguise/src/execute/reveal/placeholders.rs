//! The end of a reveal: registrations return, placeholders go, and the rest of the records is
//! stored again.

use std::collections::BTreeSet;

use super::{Due, Open, Revealer, named_row};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::deadline::Cohorts;
use crate::records::registry::KeyedPrincipal;
use crate::records::section::{Change, Origin};
use crate::records::stored::{Found, Stage, Stored};
use crate::records::{registry, store};

impl Revealer<'_> {
    /// Registers principals whose rows are back.
    pub(super) fn principals(&mut self, bag: &mut Bag) -> Result<(), Error> {
        let ids: Vec<Value> = bag.principals.iter().map(|(id, _, _)| id.clone()).collect();
        let there = self.people.users(self.database, &ids)?;
        let names: Vec<Vec<u8>> = ids.iter().map(Value::principal).collect();
        let registered = registry::principals(self.database, &names)?;
        let mut back = Vec::new();
        for (id, public, standing) in std::mem::take(&mut bag.principals) {
            let name = id.principal();
            if self.people.is_gone(&id) {
                continue;
            }
            if there.contains(&name) {
                back.push(KeyedPrincipal {
                    name,
                    public,
                    standing,
                });
            } else {
                bag.principals.push((id, public, standing));
            }
        }
        // People who had such an id meanwhile are gone from the users table; their registration
        // goes too.
        registry::register_anew(self.database, &registered, back)
    }

    /// Notes the rows that records describe and that stay, including those of disguises that are
    /// not revealed. Such a row is older, whatever placeholder of the person it names by now.
    /// Returns false if a record cannot be read: then any row may be older.
    pub(super) fn note_recorded(&mut self, opened: &[Open<'_>]) -> Result<bool, Error> {
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
                let open = self.open(reached, Due::Nothing)?;
                if let Some(open) = open {
                    names(&open.bag, &mut recorded);
                }
            }
        }
        self.recorded = recorded;
        Ok(self.unreadable.is_empty())
    }

    /// Stores the rest of the bags, and removes links that nothing depends on any more.
    pub(super) fn put_away(&mut self, mut opened: Vec<Open<'_>>) -> Result<(), Error> {
        opened.retain(|it| it.due != Due::Nothing || it.changed);
        for open in &mut opened {
            open.bag.drop_notes();
        }
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
                        None => self.people.person.0.clone(),
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
        self.destroyed = store::record_ids(self.database, &gone)?;
        store::remove_bags(self.database, self.salt, &gone)?;
        store::put_bags(self.database, self.salt, &stored)
    }
}
