//! Shared rows: the first owner to return puts the row back from a copy, and voids the copies of the others.

use std::collections::BTreeSet;

use super::report::KeptReason;
use super::rewrite::Values;
use super::stored_rows::identities;
use super::{Due, Open, Revealer};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::co_owned::{remove_slots, slot, slots};
use crate::records::principal::Reached;
use crate::records::registry::return_departed;
use crate::records::section::{Copied, Modified};
use crate::schema::ResolvedTable;
use crate::statements::row::{at, encoded, picked};
use crate::statements::table::existing;

/// Copies of shared rows, by what has become of the rows. All others are void.
#[derive(Default)]
pub(super) struct Counted {
    /// Copies that may go back, each with the slot of its row.
    pub(super) good: Vec<(Vec<u8>, Copied)>,
    /// Slots of rows that the application made anew, and wins.
    pub(super) anew: Vec<Vec<u8>>,
}

/// Copies of rows that several people owned.
pub(super) struct Copies<'w, 'a> {
    pub(super) work: &'w mut Revealer<'a>,
}

impl<'a> Copies<'_, 'a> {
    /// Opens the copies behind placeholders of rows whose leaving is about to be undone.
    pub(super) fn open(&mut self, opened: &mut Vec<Open<'a>>) -> Result<(), Error> {
        let reach = self.work.reach;
        if !reach.bags.iter().any(|it| it.found.locator.copies) {
            return Ok(());
        }
        let left: BTreeSet<Vec<u8>> = opened
            .iter()
            .flat_map(|it| &it.bag.speaks_for)
            .filter(|link| link.left)
            .map(|link| link.new.principal())
            .collect();
        let ended = self.work.ended.clone();
        let is_left = |it: &&Reached| it.found.locator.copies && !ended.contains(&it.found.row);
        for reached in reach.bags.iter().filter(is_left) {
            let latest = reached.placeholder.as_ref().and_then(|it| reach.left(it));
            let behind = latest.is_some_and(|name| left.contains(&name));
            if !behind {
                continue;
            }
            let row = &reached.found.row;
            if let Some(open) = opened.iter_mut().find(|it| it.reached.found.row == *row) {
                open.due = Due::All;
                continue;
            }
            opened.extend(self.work.open(reached, Due::Copies)?);
        }
        Ok(())
    }

    /// Inserts shared rows from copies that are not void, of the bag with number `index`. Returns
    /// those that stay.
    pub(super) fn put_back(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        copies: Vec<Copied>,
    ) -> Result<Vec<Copied>, Error> {
        let Counted { good, anew } =
            counted((self.work.database, self.work.salt), table, columns, copies)?;
        remove_slots(self.work.database, &anew)?;
        let rows = good.iter().map(|(_, copy)| copy.row.clone()).collect();
        let kept = self
            .work
            .whole_rows()
            .put_back((table, index), columns, rows)?;
        let still: BTreeSet<Vec<u8>> = kept.iter().map(|row| encoded(row)).collect();
        for row in &kept {
            // The copies of the other owners name these placeholders too.
            let people = table.people().filter_map(|it| at(columns, row, it));
            self.work.notes.needed.extend(people.map(Value::principal));
        }
        let (mut left, mut back) = (Vec::new(), Vec::new());
        for (name, copy) in good {
            if still.contains(&encoded(&copy.row)) {
                left.push(copy);
            } else {
                back.push(name);
            }
        }
        remove_slots(self.work.database, &back)?;
        Ok(left)
    }

    /// Marks placeholders, made while their owner was away, whose owner has returned.
    pub(super) fn return_departed(&mut self) -> Result<(), Error> {
        if self.work.notes.returned.is_empty() {
            return Ok(());
        }
        let back: Vec<Vec<u8>> = self
            .work
            .reach
            .links
            .values()
            .filter(|link| !link.left)
            .filter(|link| {
                let left = self.work.reach.left(&link.new);
                left.is_some_and(|name| self.work.notes.returned.contains(&name))
            })
            .map(|link| link.new.principal())
            .collect();
        return_departed(self.work.database, &back)
    }
}

impl Values<'_, '_> {
    /// Notes placeholders that must stay because missing rows may come back with them.
    pub(super) fn keep_departed(
        &mut self,
        table: &ResolvedTable,
        kept: &[(Modified, KeptReason)],
    ) -> Result<(), Error> {
        let absent: Vec<&Modified> = kept
            .iter()
            .filter(|(row, reason)| {
                *reason == KeptReason::Absent && self.owners.people.is_left(&row.after)
            })
            .map(|(row, _)| row)
            .collect();
        let identities: Vec<&[Value]> = absent.iter().map(|row| row.identity.as_slice()).collect();
        let removed = removed_shared((self.owners.database, self.owners.salt), table, &identities)?;
        for row in absent {
            if removed.contains(&encoded(&row.identity)) {
                let name = self.owners.people.meant(&row.after.principal());
                self.notes.needed.insert(name);
            }
        }
        Ok(())
    }

    /// Notes placeholders that must stay because a missing row may come back with them: somebody
    /// else may have taken it along. If a row still names one, the row exists and only its key has
    /// changed.
    pub(super) fn keep_taken_along(
        &mut self,
        table: &ResolvedTable,
        column: &str,
        kept: &[(Modified, KeptReason)],
    ) -> Result<(), Error> {
        if !table.takes_along() || !table.owners.iter().any(|it| it == column) {
            return Ok(());
        }
        let absent = kept.iter();
        let absent = absent.filter(|(_, reason)| *reason == KeptReason::Absent);
        let absent: Vec<Value> = absent.map(|(row, _)| row.after.clone()).collect();
        let named = existing(self.owners.database, &table.name, column, &absent)?;
        let absent = absent.iter().map(Value::principal);
        for name in absent.filter(|name| !named.contains(name)) {
            let name = self.owners.people.meant(&name);
            self.notes.taken.insert(name.clone());
            self.notes.needed.insert(name);
        }
        Ok(())
    }
}

/// Returns which copies of rows of `table` count: those of the last removal of a row that is
/// still removed.
pub(super) fn counted(
    (database, salt): (&mut dyn TenantConnection, &[u8]),
    table: &ResolvedTable,
    columns: &[String],
    copies: Vec<Copied>,
) -> Result<Counted, Error> {
    let named = |row: &[Value]| picked(columns, row, &table.identity);
    let keys: Vec<Vec<Value>> = copies.iter().map(|it| named(&it.row)).collect();
    let names: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| slot(salt, &table.name, key))
        .collect();
    let there = identities(database, table, &keys)?;
    let removed = slots(database, &names)?;
    let mut counted = Counted::default();
    for ((copy, key), name) in copies.into_iter().zip(&keys).zip(names) {
        if removed.get(&name) != Some(&copy.version) {
            continue;
        }
        if there.contains(&encoded(key)) {
            counted.anew.push(name);
        } else {
            counted.good.push((name, copy));
        }
    }
    Ok(counted)
}

/// Returns the named rows that are removed and may come back with any of their owners.
fn removed_shared(
    (database, salt): (&mut dyn TenantConnection, &[u8]),
    table: &ResolvedTable,
    identities: &[&[Value]],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let names: Vec<Vec<u8>> = identities
        .iter()
        .map(|identity| slot(salt, &table.name, identity))
        .collect();
    let removed = slots(database, &names)?;
    Ok(identities
        .iter()
        .zip(names)
        .filter(|(_, name)| removed.contains_key(name))
        .map(|(identity, _)| encoded(identity))
        .collect())
}
