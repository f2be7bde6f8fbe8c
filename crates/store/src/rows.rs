//! The tables of the file, and the rows in them.

use std::collections::BTreeSet;

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::owners::{ERASED, SLOTS, SUBJECTS};
use crate::record::{Body, Kind, number};
use crate::siphash::siphash;
use crate::slots::Slots;
use crate::sorted_set::Order;
use crate::subject::{Id, Slot};
use crate::table::{
    Definition, LazyTable, Part, Row, Seal, copy, drain, place_of_score, placed, rows,
};
use crate::tied::in_order;

/// The keys of each database: hash and key, to the key's record.
const KEYS: [Definition; DATABASES] = [
    Definition::new("keys.0"),
    Definition::new("keys.1"),
    Definition::new("keys.2"),
    Definition::new("keys.3"),
    Definition::new("keys.4"),
    Definition::new("keys.5"),
    Definition::new("keys.6"),
    Definition::new("keys.7"),
    Definition::new("keys.8"),
    Definition::new("keys.9"),
    Definition::new("keys.10"),
    Definition::new("keys.11"),
    Definition::new("keys.12"),
    Definition::new("keys.13"),
    Definition::new("keys.14"),
    Definition::new("keys.15"),
];
/// The keys that expire of each database: deadline and key.
const DEADLINES: [Definition; DATABASES] = [
    Definition::new("deadlines.0"),
    Definition::new("deadlines.1"),
    Definition::new("deadlines.2"),
    Definition::new("deadlines.3"),
    Definition::new("deadlines.4"),
    Definition::new("deadlines.5"),
    Definition::new("deadlines.6"),
    Definition::new("deadlines.7"),
    Definition::new("deadlines.8"),
    Definition::new("deadlines.9"),
    Definition::new("deadlines.10"),
    Definition::new("deadlines.11"),
    Definition::new("deadlines.12"),
    Definition::new("deadlines.13"),
    Definition::new("deadlines.14"),
    Definition::new("deadlines.15"),
];
/// Id, hash and member, to the field's value or the member's score.
const ELEMENTS: Definition = Definition::new("elements");
/// Id, score and member of sorted sets; the value marks a score of minus zero.
const SCORES: Definition = Definition::new("scores");
/// Id and place, to the element of a list or the chunk of a string.
const ITEMS: Definition = Definition::new("items");
/// Id of a removed value, to its kind: rows that are still to be removed.
const REMOVED: Definition = Definition::new("removed");
/// Facts about the store itself.
pub(crate) const FACTS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("facts");

/// Ids that are taken out of the file at once.
const IDS_AT_ONCE: u64 = 1024;
const ID_FACT: &str = "next id";
const SECRET_FACTS: [&str; 2] = ["secret 0", "secret 1"];

/// Every table but the facts.
pub(crate) fn definitions() -> impl Iterator<Item = Definition> {
    let others = [ELEMENTS, SCORES, ITEMS, REMOVED, SUBJECTS, SLOTS, ERASED];
    KEYS.into_iter().chain(DEADLINES).chain(others)
}

/// Facts of the store that outlive a transaction.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Under which rows are placed.
    pub(crate) secret: [u64; 2],
    next_id: u64,
    ids_end: u64,
    /// True if removed data may still lie in free blocks of the file.
    pub(crate) is_removing: bool,
    /// Subjects that had no key left at some moment of the transaction.
    pub(crate) erasing: BTreeSet<Slot>,
    /// Slots that were destroyed, of which the file still says that they are to be.
    pub(crate) destroyed: Vec<Slot>,
}

/// The tables within one transaction.
pub(crate) struct Rows<'txn> {
    transaction: &'txn WriteTransaction,
    /// The keys of subjects; none in a file of an older format, which knows no subjects.
    pub(crate) slots: Option<&'txn Slots>,
    pub(crate) keys: [LazyTable<'txn>; DATABASES],
    pub(crate) deadlines: [LazyTable<'txn>; DATABASES],
    elements: LazyTable<'txn>,
    scores: LazyTable<'txn>,
    items: LazyTable<'txn>,
    removed: LazyTable<'txn>,
    pub(crate) subjects: LazyTable<'txn>,
    pub(crate) slots_table: LazyTable<'txn>,
    pub(crate) erased: LazyTable<'txn>,
    pub(crate) facts: &'txn mut Facts,
    pub(crate) changed: bool,
}

impl Facts {
    /// Reads the store's facts, or makes those of a new store from unpredictable numbers.
    pub(crate) fn load(transaction: &WriteTransaction, guess: [u64; 2]) -> Result<Self, Fail> {
        let mut table = transaction.open_table(FACTS)?;
        let mut secret = guess;
        for (name, part) in SECRET_FACTS.into_iter().zip(&mut secret) {
            let known = table.get(name)?.map(|value| value.value());
            match known {
                Some(known) => *part = known,
                None => drop(table.insert(name, *part)?),
            }
        }
        let next_id = table.get(ID_FACT)?.map_or(1, |value| value.value());
        Ok(Self {
            secret,
            next_id,
            ids_end: next_id,
            is_removing: false,
            erasing: BTreeSet::new(),
            destroyed: Vec::new(),
        })
    }
}

impl<'txn> Rows<'txn> {
    pub(crate) fn new(
        transaction: &'txn WriteTransaction,
        slots: Option<&'txn Slots>,
        facts: &'txn mut Facts,
    ) -> Self {
        let lazy = |definition| LazyTable::new(transaction, definition);
        Self {
            transaction,
            slots,
            keys: KEYS.map(lazy),
            deadlines: DEADLINES.map(lazy),
            elements: lazy(ELEMENTS),
            scores: lazy(SCORES),
            items: lazy(ITEMS),
            removed: lazy(REMOVED),
            subjects: lazy(SUBJECTS),
            slots_table: lazy(SLOTS),
            erased: lazy(ERASED),
            facts,
            changed: false,
        }
    }

    /// Returns whether anything was written.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
    }

    /// A number that no value ever had.
    pub(crate) fn new_number(&mut self) -> Result<u64, Fail> {
        if self.facts.next_id == self.facts.ids_end {
            let end = self.facts.ids_end.saturating_add(IDS_AT_ONCE);
            self.changed = true;
            let mut table = self.transaction.open_table(FACTS)?;
            table.insert(ID_FACT, end)?;
            self.facts.ids_end = end;
        }
        let id = self.facts.next_id;
        self.facts.next_id += 1;
        Ok(id)
    }

    /// Forgets everything in every database.
    pub(crate) fn clear_all(&mut self) -> Result<(), Fail> {
        for db in 0..DATABASES {
            self.clear_keys(db)?;
        }
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
        self.changed = true;
        let value = seal.value(value)?;
        let table = self.elements.table_mut()?;
        Ok(table.insert(row.as_slice(), value.as_slice())?.is_none())
    }

    /// The value it had.
    pub(crate) fn remove_element(&mut self, id: Id, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let (seal, row) = self.element_row(id, name)?;
        let removed = self.elements.table_mut()?.remove(row.as_slice())?;
        let removed = removed.map(|value| seal.open_value(value.value()));
        self.changed |= removed.is_some();
        self.facts.is_removing |= removed.is_some();
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
        self.changed = true;
        self.scores.table_mut()?.insert(row.as_slice(), mark)?;
        Ok(())
    }

    pub(crate) fn remove_score(&mut self, id: Id, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = self.seal(id, Part::Score)?;
        let row = row.row(place_of_score(score), name)?;
        self.changed = true;
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
        self.changed = true;
        let table = self.items.table_mut()?;
        table.insert(row.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove_item(&mut self, id: Id, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let seal = self.seal(id, Part::Item)?;
        let row = seal.row(place, &[])?;
        self.changed = true;
        self.facts.is_removing = true;
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
        self.changed = true;
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
        self.changed = true;
        Ok(count.max(1))
    }

    /// Removes at most `most` rows of a value; how many were removed.
    pub(crate) fn remove_rows(&mut self, id: u64, kind: Kind, most: usize) -> Result<usize, Fail> {
        self.changed = true;
        self.facts.is_removing = true;
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
        self.changed = true;
        let seals = |part| Ok::<_, Fail>((self.seal(body.id, part)?, self.seal(id, part)?));
        let (elements, scores) = (seals(Part::Element)?, seals(Part::Score)?);
        let items = seals(Part::Item)?;
        let secret = match &elements.1.keys {
            Some(keys) => keys.places,
            None => self.facts.secret,
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

    /// The hash that places a name.
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        siphash(self.facts.secret, name)
    }

    /// Returns the sealing of a value's rows, and the row of one of its elements.
    fn element_row(&self, id: Id, name: &[u8]) -> Result<(Seal, Vec<u8>), Fail> {
        let seal = self.seal(id, Part::Element)?;
        let hash = match &seal.keys {
            Some(keys) => siphash(keys.places, name),
            None => self.hash(name),
        };
        let row = seal.row(hash, name)?;
        Ok((seal, row))
    }

    fn seal(&self, id: Id, part: Part) -> Result<Seal, Fail> {
        Ok(Seal {
            id: id.number,
            part,
            keys: self.subject_keys(id.owner)?,
        })
    }
}

pub(crate) fn of_database<T>(tables: &[T; DATABASES], db: usize) -> Result<&T, Fail> {
    tables
        .get(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

pub(crate) fn of_database_mut<T>(tables: &mut [T; DATABASES], db: usize) -> Result<&mut T, Fail> {
    tables
        .get_mut(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

fn id_row(id: Id) -> Vec<u8> {
    id.number.to_be_bytes().to_vec()
}

/// Returns the key behind the rows of a value.
fn end_row(id: Id) -> Vec<u8> {
    id.number.saturating_add(1).to_be_bytes().to_vec()
}
