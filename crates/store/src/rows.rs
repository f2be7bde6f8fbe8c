//! The rows of values: elements, scores and items, and the sweep of those that were removed.

use std::cell::Cell;

use redb::{ReadableTable as _, WriteTransaction};

use crate::facts::Ids;
use crate::fail::Fail;
use crate::record::{Body, Kind, number};
use crate::siphash::siphash;
use crate::slots::{Slots, keys_of};
use crate::sorted_set::Order;
use crate::subject::{Id, Slot};
use crate::table::{
    Definition, LazyTable, Part, Row, Seal, copy, drain, place_of_score, placed, rows,
};
use crate::tied::in_order;

/// Id, hash and member, to the field's value or the member's score.
const ELEMENTS: Definition = Definition::new("elements");
/// Id, score and member of sorted sets; the value marks a score of minus zero.
const SCORES: Definition = Definition::new("scores");
/// Id and place, to the element of a list or the chunk of a string.
const ITEMS: Definition = Definition::new("items");
/// Id of a removed value, to its kind: rows that are still to be removed.
const REMOVED: Definition = Definition::new("removed");
/// The tables that only [`Rows`] opens.
pub(crate) const DEFINITIONS: [Definition; 4] = [ELEMENTS, SCORES, ITEMS, REMOVED];

/// The rows of values within one transaction.
pub(crate) struct Rows<'txn> {
    transaction: &'txn WriteTransaction,
    /// The keys of subjects; none in a file of an older format, which knows no subjects.
    slots: Option<&'txn Slots>,
    /// Under which rows are placed.
    secret: [u64; 2],
    elements: LazyTable<'txn>,
    scores: LazyTable<'txn>,
    items: LazyTable<'txn>,
    removed: LazyTable<'txn>,
    ids: &'txn mut Ids,
    is_removing: &'txn Cell<bool>,
    /// Number of writes.
    changes: u64,
}

impl<'txn> Rows<'txn> {
    pub(crate) const fn new(
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
        secret: [u64; 2],
        ids: &'txn mut Ids,
        is_removing: &'txn Cell<bool>,
    ) -> Self {
        Self {
            transaction,
            slots,
            secret,
            elements: LazyTable::new(transaction, ELEMENTS),
            scores: LazyTable::new(transaction, SCORES),
            items: LazyTable::new(transaction, ITEMS),
            removed: LazyTable::new(transaction, REMOVED),
            ids,
            is_removing,
            changes: 0,
        }
    }

    /// Returns how often something was written.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// A new id for a value of `owner`.
    pub(crate) fn id_of(&mut self, owner: Slot) -> Result<Id, Fail> {
        if self.ids.is_spent() {
            self.changes += 1;
            self.ids.reserve(self.transaction)?;
        }
        let number = self.ids.take();
        Ok(Id { number, owner })
    }

    /// Forgets the rows of every value.
    pub(crate) fn clear(&mut self) -> Result<(), Fail> {
        self.changes += 1;
        self.is_removing.set(true);
        self.elements.clear()?;
        self.scores.clear()?;
        self.items.clear()?;
        self.removed.clear()
    }

    // Fields of hashes, members of sets and sorted sets.

    pub(crate) fn element(&self, id: Id, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let (seal, row) = self.element_row(id, name)?;
        let value = self.elements.table()?.get(row.as_slice())?;
        value
            .map(|value| seal.open_value(value.value()))
            .transpose()
    }

    pub(crate) fn has_element(&self, id: Id, name: &[u8]) -> Result<bool, Fail> {
        let (_, row) = self.element_row(id, name)?;
        Ok(self.elements.table()?.get(row.as_slice())?.is_some())
    }

    /// Stores an element; returns whether it is new.
    pub(crate) fn put_element(&mut self, id: Id, name: &[u8], value: &[u8]) -> Result<bool, Fail> {
        let (seal, row) = self.element_row(id, name)?;
        self.changes += 1;
        let value = seal.value(value)?;
        let table = self.elements.table_mut()?;
        Ok(table.insert(row.as_slice(), value.as_slice())?.is_none())
    }

    /// The value it had.
    pub(crate) fn remove_element(&mut self, id: Id, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let (seal, row) = self.element_row(id, name)?;
        let removed = self.elements.table_mut()?.remove(row.as_slice())?;
        let removed = removed.map(|value| seal.open_value(value.value()));
        if removed.is_some() {
            self.changes += 1;
            self.is_removing.set(true);
        }
        removed.transpose()
    }

    /// The elements of a value from a place in the order of hashes on.
    pub(crate) fn elements(
        &self,
        id: Id,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let (start, end) = (placed(id.number, hash, &[]), end_row(id));
        let seal = self.seal(id, Part::Element)?;
        rows(self.elements.table()?, seal, start, end)
    }

    // The order of sorted sets.

    pub(crate) fn put_score(&mut self, id: Id, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = self.seal(id, Part::Score)?;
        let row = row.row(place_of_score(score), name)?;
        let mark: &[u8] = if score == 0.0 && score.is_sign_negative() {
            b"-"
        } else {
            b""
        };
        self.changes += 1;
        self.scores.table_mut()?.insert(row.as_slice(), mark)?;
        Ok(())
    }

    pub(crate) fn remove_score(&mut self, id: Id, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = self.seal(id, Part::Score)?;
        let row = row.row(place_of_score(score), name)?;
        self.changes += 1;
        self.scores.table_mut()?.remove(row.as_slice())?;
        Ok(())
    }

    /// The members of a sorted set from `start` on and before `end`, in an order.
    pub(crate) fn scores<'a>(
        &'a self,
        id: Id,
        start: Option<(f64, &'a [u8])>,
        end: Option<(f64, &'a [u8])>,
        order: Order,
    ) -> Result<Box<dyn Iterator<Item = Result<Row<'a>, Fail>> + 'a>, Fail> {
        let seal = self.seal(id, Part::Score)?;
        if seal.keys.is_some() {
            // Sealed members of one score lie in no order.
            let first = start.map_or(0, |(score, _)| place_of_score(score));
            let first = placed(id.number, first, &[]);
            let last = end.map(|(score, _)| place_of_score(score).checked_add(1));
            let last = last.flatten().map(|place| placed(id.number, place, &[]));
            let last = last.unwrap_or_else(|| end_row(id));
            let rows = rows(self.scores.table()?, seal, first, last)?;
            return Ok(in_order(rows, start, end, order));
        }
        let row = |(score, name): (f64, &[u8])| placed(id.number, place_of_score(score), name);
        let start = start.map_or_else(|| id_row(id), row);
        let end = end.map_or_else(|| end_row(id), row);
        let rows = rows(self.scores.table()?, seal, start, end)?;
        Ok(match order {
            Order::Ascending => Box::new(rows),
            Order::Descending => Box::new(rows.rev()),
        })
    }

    // Items of lists, chunks of strings.

    pub(crate) fn item(&self, id: Id, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let seal = self.seal(id, Part::Item)?;
        let row = seal.row(place, &[])?;
        let value = self.items.table()?.get(row.as_slice())?;
        value
            .map(|value| seal.open_value(value.value()))
            .transpose()
    }

    pub(crate) fn put_item(&mut self, id: Id, place: u64, value: &[u8]) -> Result<(), Fail> {
        let seal = self.seal(id, Part::Item)?;
        let (row, value) = (seal.row(place, &[])?, seal.value(value)?);
        self.changes += 1;
        let table = self.items.table_mut()?;
        table.insert(row.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove_item(&mut self, id: Id, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let seal = self.seal(id, Part::Item)?;
        let row = seal.row(place, &[])?;
        self.changes += 1;
        self.is_removing.set(true);
        let removed = self.items.table_mut()?.remove(row.as_slice())?;
        removed
            .map(|value| seal.open_value(value.value()))
            .transpose()
    }

    /// The items of a value from a place on; from both ends.
    pub(crate) fn items(
        &self,
        id: Id,
        place: u64,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let (start, end) = (placed(id.number, place, &[]), end_row(id));
        let seal = self.seal(id, Part::Item)?;
        rows(self.items.table()?, seal, start, end)
    }

    // Removing whole values.

    /// Leaves the rows of a value to the sweep.
    pub(crate) fn remove_later(&mut self, body: &Body) -> Result<(), Fail> {
        self.changes += 1;
        let id = body.id.number.to_be_bytes();
        self.removed
            .table_mut()?
            .insert(id.as_slice(), &[body.kind.code()][..])?;
        Ok(())
    }

    /// Removes at most `most` rows of the values left to the sweep; how many were removed.
    pub(crate) fn sweep_removed(&mut self, most: usize) -> Result<usize, Fail> {
        let Some((id, kind)) = self.first_removed()? else {
            return Ok(0);
        };
        let count = self.remove_rows(id, kind, most)?;
        if count < most {
            self.removed
                .table_mut()?
                .remove(id.to_be_bytes().as_slice())?;
        }
        self.changes += 1;
        Ok(count.max(1))
    }

    /// Removes at most `most` rows of a value; how many were removed.
    pub(crate) fn remove_rows(&mut self, id: u64, kind: Kind, most: usize) -> Result<usize, Fail> {
        self.changes += 1;
        self.is_removing.set(true);
        Ok(match kind {
            Kind::Text | Kind::List => drain(self.items.table_mut()?, id, most)?,
            Kind::Hash | Kind::Set => drain(self.elements.table_mut()?, id, most)?,
            Kind::SortedSet => {
                let count = drain(self.elements.table_mut()?, id, most)?;
                count.max(drain(self.scores.table_mut()?, id, most)?)
            }
        })
    }

    /// Copies the rows of a value under another id, which may be another subject's.
    pub(crate) fn copy_rows(&mut self, body: &Body, id: Id) -> Result<(), Fail> {
        self.changes += 1;
        let seals = |part| Ok::<_, Fail>((self.seal(body.id, part)?, self.seal(id, part)?));
        let (elements, scores) = (seals(Part::Element)?, seals(Part::Score)?);
        let items = seals(Part::Item)?;
        let secret = match &elements.1.keys {
            Some(keys) => keys.places,
            None => self.secret,
        };
        let hash = |row: &Row<'_>| siphash(secret, row.name());
        if matches!(body.kind, Kind::Text | Kind::List) {
            return copy(self.items.table_mut()?, (&items.0, &items.1), |row| {
                row.place()
            });
        }
        copy(self.elements.table_mut()?, (&elements.0, &elements.1), hash)?;
        if body.kind == Kind::SortedSet {
            copy(self.scores.table_mut()?, (&scores.0, &scores.1), |row| {
                row.place()
            })?;
        }
        Ok(())
    }

    fn first_removed(&self) -> Result<Option<(u64, Kind)>, Fail> {
        let Some((id, kind)) = self.removed.table()?.first()? else {
            return Ok(None);
        };
        let id = number(id.value());
        let kind = kind.value().first().copied().and_then(Kind::of_code);
        id.zip(kind)
            .map(Some)
            .ok_or_else(|| Fail::broken("a removed value"))
    }

    /// Returns the sealing of a value's rows, and the row of one of its elements.
    fn element_row(&self, id: Id, name: &[u8]) -> Result<(Seal, Vec<u8>), Fail> {
        let seal = self.seal(id, Part::Element)?;
        let hash = match &seal.keys {
            Some(keys) => siphash(keys.places, name),
            None => siphash(self.secret, name),
        };
        let row = seal.row(hash, name)?;
        Ok((seal, row))
    }

    fn seal(&self, id: Id, part: Part) -> Result<Seal, Fail> {
        Ok(Seal {
            id: id.number,
            part,
            keys: keys_of(self.slots, id.owner)?,
        })
    }
}

fn id_row(id: Id) -> Vec<u8> {
    id.number.to_be_bytes().to_vec()
}

/// Returns the key behind the rows of a value.
fn end_row(id: Id) -> Vec<u8> {
    id.number.saturating_add(1).to_be_bytes().to_vec()
}
