//! Bags beyond the memory limit of a reveal. A person may have millions of rows; removed rows and
//! overwritten values are read again in their turn.

use std::collections::{BTreeMap, BTreeSet};

use super::Open;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::execute::update::as_numbers;
use crate::records::bag::Bag;
use crate::records::principal::Reached;
use crate::records::section::{Change, Section};
use crate::records::shape;
use crate::schema::ResolvedSchema;

/// Time and number of a disguise.
pub(super) type Age = (i64, u64);
/// The order in which sections are undone: the newest disguise and its last step come first.
pub(super) type Turn = (Option<Age>, u32);

/// Bags whose rows wait in the database.
pub(super) struct Closed<'a> {
    /// The bytes of rows that may still be held.
    room: usize,
    /// True if each value comes back by itself, so that the values of a row need not be checked
    /// together.
    per_column: bool,
    live: &'a ResolvedSchema,
    /// The number of recorded updates.
    updates: u32,
    /// Sorted, the next one at the end.
    waiting: Vec<Waiting<'a>>,
}

/// A bag with one section.
struct Waiting<'a> {
    /// The number of the open bag that the section comes from.
    index: usize,
    reached: &'a Reached,
    turn: Turn,
    rows: usize,
    /// The table and column whose values the section has.
    values: Option<Column>,
}

/// A table and a column of it.
type Column = (String, String);

impl<'a> Closed<'a> {
    /// Creates it empty; about `room` bytes of rows are held before a bag is closed.
    pub(super) const fn new(
        live: &'a ResolvedSchema,
        room: usize,
        per_column: bool,
        updates: u32,
    ) -> Self {
        Self {
            room,
            per_column,
            live,
            updates,
            waiting: Vec::new(),
        }
    }

    /// Takes the rows out of the bag with number `index`, if they exceed the memory limit and only
    /// they matter: copies and placeholders concern other bags, and updates change more than the
    /// bag. Values lie in layers, so [`Self::reopen_layers`] must follow.
    pub(super) fn take_rows(&mut self, open: &mut Open<'a>, index: usize) {
        let reached = open.reached;
        let locator = &reached.found.locator;
        let [section] = open.bag.sections.as_slice() else {
            return;
        };
        let Some(bytes) = held_bytes(&section.change) else {
            return;
        };
        let values = section.values().map(|(column, _)| column.to_owned());
        let alone = !locator.copies && !locator.speaks_for && !open.was_held;
        let alone = alone && (values.is_none() || self.per_column);
        if let Some(room) = self.room.checked_sub(bytes) {
            self.room = room;
        } else if alone && locator.origin.updates == self.updates {
            self.waiting.push(Waiting {
                index,
                reached,
                turn: (Some(age(reached)), section.step),
                rows: section.change.rows(),
                values: values.map(|column| (section.table.clone(), column)),
            });
            open.bag.sections.clear();
        }
    }

    /// Returns whether values wait.
    pub(super) fn has_values(&self) -> bool {
        self.waiting.iter().any(|it| it.values.is_some())
    }

    /// Returns values to bags if they may be one of several layers: another step or disguise wrote
    /// to the same column. A step meets a row once, so the bags of one step hold different rows.
    pub(super) fn reopen_layers(
        &mut self,
        database: &mut dyn TenantConnection,
        opened: &mut [Open<'a>],
    ) -> Result<(), Error> {
        let mut turns: BTreeMap<Column, BTreeSet<Turn>> = BTreeMap::new();
        for it in &self.waiting {
            if let Some(column) = &it.values {
                turns.entry(column.clone()).or_default().insert(it.turn);
            }
        }
        for open in opened.iter() {
            for section in &open.bag.sections {
                if let Some((column, _)) = section.values()
                    && let Some(turns) = turns.get_mut(&(section.table.clone(), column.to_owned()))
                {
                    turns.insert((Some(age(open.reached)), section.step));
                }
            }
        }
        let lies_alone = |it: &Waiting<'_>| {
            let turns = it.values.as_ref().and_then(|column| turns.get(column));
            turns.is_none_or(|turns| turns.len() == 1)
        };
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (alone, layers): (_, Vec<_>) = waiting.partition(lies_alone);
        self.waiting = alone;
        for Waiting { index, reached, .. } in layers {
            if let Some(open) = opened.get_mut(index) {
                open.bag.sections = again(self.live, reached, database)?.sections;
            }
        }
        Ok(())
    }

    /// Reads the waiting sections one after the other, and leaves them waiting.
    pub(super) fn each(
        &self,
        database: &mut dyn TenantConnection,
        mut work: impl FnMut(&Section),
    ) -> Result<(), Error> {
        for it in &self.waiting {
            let bag = again(self.live, it.reached, database)?;
            bag.sections.iter().for_each(&mut work);
        }
        Ok(())
    }

    /// Sorts the waiting sections.
    pub(super) fn sort(&mut self) {
        self.waiting.sort_by_key(|it| it.turn);
    }

    /// Returns the turn of the next section.
    pub(super) fn turn(&self) -> Option<Turn> {
        self.waiting.last().map(|it| it.turn)
    }

    /// Returns the number of waiting rows.
    pub(super) fn rows(&self) -> usize {
        self.waiting.iter().map(|it| it.rows).sum()
    }

    /// Reads the next section, if there is one.
    pub(super) fn open(
        &mut self,
        database: &mut dyn TenantConnection,
    ) -> Result<Option<(usize, Section)>, Error> {
        let Some(Waiting { index, reached, .. }) = self.waiting.pop() else {
            return Ok(None);
        };
        let Bag { mut sections, .. } = again(self.live, reached, database)?;
        Ok(sections.pop().map(|section| (index, section)))
    }
}

/// Reads a bag that was read before in this transaction.
fn again(
    live: &ResolvedSchema,
    reached: &Reached,
    database: &mut dyn TenantConnection,
) -> Result<Bag, Error> {
    let bag = reached.read(database)?;
    let mut bag = bag.ok_or_else(|| reached.unreadable())?;
    shape::look_up(database, &mut bag)?;
    as_numbers(live, database.dialect(), &mut bag.sections);
    Ok(bag)
}

/// Returns the age of a bag's disguise.
pub(super) const fn age(reached: &Reached) -> Age {
    let origin = &reached.found.locator.origin;
    (origin.time, origin.disguise)
}

/// Returns the approximate bytes of memory of the rows of a change, if they can be read again.
fn held_bytes(change: &Change) -> Option<usize> {
    let value = |value: &Value| {
        let own = match value {
            Value::Text(text) => text.capacity(),
            Value::Bytes(bytes) => bytes.capacity(),
            _ => 0,
        };
        size_of::<Value>().saturating_add(own)
    };
    match change {
        Change::Removed { rows, .. } => Some(rows.iter().flatten().map(value).sum()),
        Change::Modified {
            identity,
            column,
            rows,
        } if !identity.contains(column) => {
            let values = rows.iter().flat_map(|it| {
                let both = [&it.before, &it.after];
                it.identity.iter().chain(both)
            });
            Some(values.map(value).sum())
        }
        _ => None,
    }
}
