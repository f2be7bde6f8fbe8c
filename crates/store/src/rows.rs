//! The tables of the file, and the rows in them.

use redb::{ReadableTable as _, ReadableTableMetadata as _, TableDefinition, WriteTransaction};

use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::record::{Body, Kind, Record, number};
use crate::siphash::siphash;
use crate::table::{
    BytesTable, Definition, ID_BYTES, KeyRow, LazyTable, Row, copy, drain, place_of_score, placed,
    rows,
};

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
    let others = [ELEMENTS, SCORES, ITEMS, REMOVED];
    KEYS.into_iter().chain(DEADLINES).chain(others)
}

/// What outlives a transaction.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Under which rows are placed.
    pub(crate) secret: [u64; 2],
    next_id: u64,
    ids_end: u64,
    /// Whether something was removed that may still lie in free blocks of the file.
    pub(crate) is_removing: bool,
}

/// The tables within one transaction.
pub(crate) struct Rows<'txn> {
    transaction: &'txn WriteTransaction,
    keys: [LazyTable<'txn>; DATABASES],
    deadlines: [LazyTable<'txn>; DATABASES],
    elements: LazyTable<'txn>,
    scores: LazyTable<'txn>,
    items: LazyTable<'txn>,
    removed: LazyTable<'txn>,
    facts: &'txn mut Facts,
    changed: bool,
}

impl Facts {
    /// The store's facts, made when it is new from numbers that nobody can guess.
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
        })
    }
}

impl<'txn> Rows<'txn> {
    pub(crate) fn new(transaction: &'txn WriteTransaction, facts: &'txn mut Facts) -> Self {
        let lazy = |definition| LazyTable::new(transaction, definition);
        Self {
            transaction,
            keys: KEYS.map(lazy),
            deadlines: DEADLINES.map(lazy),
            elements: lazy(ELEMENTS),
            scores: lazy(SCORES),
            items: lazy(ITEMS),
            removed: lazy(REMOVED),
            facts,
            changed: false,
        }
    }

    /// Whether anything was written.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
    }

    /// An id that no value ever had.
    pub(crate) fn new_id(&mut self) -> Result<u64, Fail> {
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

    // The keys of the databases.

    pub(crate) fn record(&self, db: usize, key: &[u8]) -> Result<Option<Record>, Fail> {
        let table = self.keys(db)?;
        let Some(value) = table.get(self.named(None, key).as_slice())? else {
            return Ok(None);
        };
        Record::decode(value.value()).map(Some)
    }

    pub(crate) fn put_record(
        &mut self,
        db: usize,
        key: &[u8],
        record: &Record,
    ) -> Result<(), Fail> {
        let name = self.named(None, key);
        let mut value = Vec::with_capacity(64);
        record.encode(&mut value);
        self.keys_mut(db)?
            .insert(name.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove_record(&mut self, db: usize, key: &[u8]) -> Result<(), Fail> {
        let name = self.named(None, key);
        self.keys_mut(db)?.remove(name.as_slice())?;
        self.facts.is_removing = true;
        Ok(())
    }

    pub(crate) fn keys_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(self.keys(db)?.len()?)
    }

    /// The keys of a database from a place in the order of hashes on.
    pub(crate) fn keys_from(
        &self,
        db: usize,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<KeyRow<'_>, Fail>>, Fail> {
        let start = hash.to_be_bytes();
        let range = self.keys(db)?.range::<&[u8]>(start.as_slice()..)?;
        Ok(range.map(KeyRow::new))
    }

    /// Forgets all keys of a database; their values' rows stay.
    pub(crate) fn clear_keys(&mut self, db: usize) -> Result<(), Fail> {
        self.changed = true;
        self.facts.is_removing = true;
        of_database_mut(&mut self.keys, db)?.clear()?;
        of_database_mut(&mut self.deadlines, db)?.clear()
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

    // Deadlines.

    pub(crate) fn put_deadline(
        &mut self,
        db: usize,
        deadline: u64,
        key: &[u8],
    ) -> Result<(), Fail> {
        self.changed = true;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        table.insert(deadline_row(deadline, key).as_slice(), &[][..])?;
        Ok(())
    }

    pub(crate) fn remove_deadline(
        &mut self,
        db: usize,
        deadline: u64,
        key: &[u8],
    ) -> Result<(), Fail> {
        self.changed = true;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        table.remove(deadline_row(deadline, key).as_slice())?;
        Ok(())
    }

    /// The keys of a database whose deadline has come, at most `most` of them, the earliest first.
    pub(crate) fn due(&self, db: usize, now: u64, most: usize) -> Result<Vec<Vec<u8>>, Fail> {
        let end = now.saturating_add(1).to_be_bytes();
        let table = of_database(&self.deadlines, db)?.table()?;
        let mut due = Vec::new();
        for row in table.range::<&[u8]>(..end.as_slice())?.take(most) {
            let (row, _) = row?;
            due.push(row.value().get(ID_BYTES..).unwrap_or_default().to_vec());
        }
        Ok(due)
    }

    /// How many keys of a database have a deadline.
    pub(crate) fn deadlines_len(&self, db: usize) -> Result<u64, Fail> {
        Ok(of_database(&self.deadlines, db)?.table()?.len()?)
    }

    // Fields of hashes, members of sets and sorted sets.

    pub(crate) fn element(&self, id: u64, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let row = self.named(Some(id), name);
        Ok(self
            .elements
            .table()?
            .get(row.as_slice())?
            .map(|value| value.value().to_vec()))
    }

    pub(crate) fn has_element(&self, id: u64, name: &[u8]) -> Result<bool, Fail> {
        let row = self.named(Some(id), name);
        Ok(self.elements.table()?.get(row.as_slice())?.is_some())
    }

    /// Whether the element is new.
    pub(crate) fn put_element(&mut self, id: u64, name: &[u8], value: &[u8]) -> Result<bool, Fail> {
        let row = self.named(Some(id), name);
        self.changed = true;
        Ok(self
            .elements
            .table_mut()?
            .insert(row.as_slice(), value)?
            .is_none())
    }

    /// The value it had.
    pub(crate) fn remove_element(&mut self, id: u64, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let row = self.named(Some(id), name);
        let removed = self.elements.table_mut()?.remove(row.as_slice())?;
        let removed = removed.map(|value| value.value().to_vec());
        self.changed |= removed.is_some();
        self.facts.is_removing |= removed.is_some();
        Ok(removed)
    }

    /// The elements of a value from a place in the order of hashes on.
    pub(crate) fn elements(
        &self,
        id: u64,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let (start, end) = (placed(id, hash, &[]), id_row(id.saturating_add(1)));
        rows(self.elements.table()?, start, end)
    }

    // The order of sorted sets.

    pub(crate) fn put_score(&mut self, id: u64, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = placed(id, place_of_score(score), name);
        let mark: &[u8] = if score == 0.0 && score.is_sign_negative() {
            b"-"
        } else {
            b""
        };
        self.changed = true;
        self.scores.table_mut()?.insert(row.as_slice(), mark)?;
        Ok(())
    }

    pub(crate) fn remove_score(&mut self, id: u64, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = placed(id, place_of_score(score), name);
        self.changed = true;
        self.scores.table_mut()?.remove(row.as_slice())?;
        Ok(())
    }

    /// The members of a sorted set in order, from `start` on and before `end`; from both ends.
    pub(crate) fn scores(
        &self,
        id: u64,
        start: Option<(f64, &[u8])>,
        end: Option<(f64, &[u8])>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let row = |(score, name): (f64, &[u8])| placed(id, place_of_score(score), name);
        let start = start.map_or_else(|| id_row(id), row);
        let end = end.map_or_else(|| id_row(id.saturating_add(1)), row);
        rows(self.scores.table()?, start, end)
    }

    // Items of lists, chunks of strings.

    pub(crate) fn item(&self, id: u64, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let row = placed(id, place, &[]);
        Ok(self
            .items
            .table()?
            .get(row.as_slice())?
            .map(|value| value.value().to_vec()))
    }

    pub(crate) fn put_item(&mut self, id: u64, place: u64, value: &[u8]) -> Result<(), Fail> {
        let row = placed(id, place, &[]);
        self.changed = true;
        self.items.table_mut()?.insert(row.as_slice(), value)?;
        Ok(())
    }

    pub(crate) fn remove_item(&mut self, id: u64, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let row = placed(id, place, &[]);
        self.changed = true;
        self.facts.is_removing = true;
        let removed = self.items.table_mut()?.remove(row.as_slice())?;
        Ok(removed.map(|value| value.value().to_vec()))
    }

    /// The items of a value from a place on; from both ends.
    pub(crate) fn items(
        &self,
        id: u64,
        place: u64,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let (start, end) = (placed(id, place, &[]), id_row(id.saturating_add(1)));
        rows(self.items.table()?, start, end)
    }

    // Removing whole values.

    /// Leaves the rows of a value to the sweep.
    pub(crate) fn remove_later(&mut self, body: &Body) -> Result<(), Fail> {
        self.changed = true;
        let id = body.id.to_be_bytes();
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

    /// Copies the rows of a value under another id.
    pub(crate) fn copy_rows(&mut self, body: &Body, id: u64) -> Result<(), Fail> {
        self.changed = true;
        match body.kind {
            Kind::Text | Kind::List => copy(self.items.table_mut()?, body.id, id),
            Kind::Hash | Kind::Set => copy(self.elements.table_mut()?, body.id, id),
            Kind::SortedSet => {
                copy(self.elements.table_mut()?, body.id, id)?;
                copy(self.scores.table_mut()?, body.id, id)
            }
        }
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

    fn named(&self, id: Option<u64>, name: &[u8]) -> Vec<u8> {
        let hash = self.hash(name);
        match id {
            Some(id) => placed(id, hash, name),
            None => [&hash.to_be_bytes(), name].concat(),
        }
    }

    fn keys(&self, db: usize) -> Result<&BytesTable<'txn>, Fail> {
        of_database(&self.keys, db)?.table()
    }

    fn keys_mut(&mut self, db: usize) -> Result<&mut BytesTable<'txn>, Fail> {
        self.changed = true;
        of_database_mut(&mut self.keys, db)?.table_mut()
    }
}

fn of_database<T>(tables: &[T; DATABASES], db: usize) -> Result<&T, Fail> {
    tables
        .get(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

fn of_database_mut<T>(tables: &mut [T; DATABASES], db: usize) -> Result<&mut T, Fail> {
    tables
        .get_mut(db)
        .ok_or_else(|| Fail::broken("the number of a database"))
}

fn id_row(id: u64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

fn deadline_row(deadline: u64, key: &[u8]) -> Vec<u8> {
    [&deadline.to_be_bytes(), key].concat()
}
