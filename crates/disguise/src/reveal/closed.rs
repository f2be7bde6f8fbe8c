//! Bags that a reveal has no room for: a person's rows may be millions, and those that were removed are read again when
//! it is their turn.

use super::Open;
use crate::error::Error;
use crate::principal::Reached;
use crate::record::{Bag, Change, Section};
use crate::tenant::Session;
use crate::value::Value;

/// Time and number of a disguise.
pub(super) type Age = (i64, u64);
/// When a section is undone: that of the newest disguise, and of its last step, comes first.
pub(super) type Turn = (Option<Age>, u32);

/// Bags whose rows wait in the database.
pub(super) struct Closed<'a> {
    /// Bytes of removed rows that may still be held.
    room: usize,
    /// How many updates are recorded.
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
}

impl<'a> Closed<'a> {
    /// None so far; about `room` bytes of removed rows are held before one is closed.
    pub(super) const fn new(room: usize, updates: u32) -> Self {
        Self {
            room,
            updates,
            waiting: Vec::new(),
        }
    }

    /// Takes the rows out of the bag that has number `index`, where there is no room for them and nothing but they are in
    /// question: values lie in layers, copies and placeholders concern other bags, and updates change more than the bag.
    pub(super) fn take_rows(&mut self, open: &mut Open<'a>, index: usize) {
        let reached = open.reached;
        let locator = &reached.found.locator;
        let alone = !locator.values && !locator.copies && !locator.speaks_for;
        let [section] = open.bag.sections.as_slice() else {
            return;
        };
        let Change::Removed { rows, .. } = &section.change else {
            return;
        };
        let bytes = rows.iter().flatten().map(held_bytes).sum();
        if let Some(room) = self.room.checked_sub(bytes) {
            self.room = room;
        } else if alone && locator.origin.updates == self.updates {
            self.waiting.push(Waiting {
                index,
                reached,
                turn: (Some(age(reached)), section.step),
                rows: rows.len(),
            });
            open.bag.sections.clear();
        }
    }

    /// Puts them in order.
    pub(super) fn sort(&mut self) {
        self.waiting.sort_by_key(|it| it.turn);
    }

    /// The turn of the next one.
    pub(super) fn turn(&self) -> Option<Turn> {
        self.waiting.last().map(|it| it.turn)
    }

    /// How many rows wait.
    pub(super) fn rows(&self) -> usize {
        self.waiting.iter().map(|it| it.rows).sum()
    }

    /// Reads the next one, if there is one.
    pub(super) fn open(
        &mut self,
        database: &mut dyn Session,
    ) -> Result<Option<(usize, Section)>, Error> {
        let Some(Waiting { index, reached, .. }) = self.waiting.pop() else {
            return Ok(None);
        };
        let Bag { mut sections, .. } = reached.read(database)?;
        Ok(sections.pop().map(|section| (index, section)))
    }
}

/// How old a bag's disguise is.
pub(super) const fn age(reached: &Reached) -> Age {
    let origin = &reached.found.locator.origin;
    (origin.time, origin.disguise)
}

/// About how many bytes of memory a value takes.
fn held_bytes(value: &Value) -> usize {
    let own = match value {
        Value::Text(text) => text.capacity(),
        Value::Bytes(bytes) => bytes.capacity(),
        _ => 0,
    };
    size_of::<Value>().saturating_add(own)
}
