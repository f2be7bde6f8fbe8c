//! The tables of the file, and the rows in them.

use std::cell::OnceCell;

use redb::{
    AccessGuard, ReadableTable as _, ReadableTableMetadata as _, StorageError, Table,
    TableDefinition, TableHandle as _, WriteTransaction,
};

use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::record::{Body, Kind, Record, number};
use crate::siphash::siphash;

type Bytes = &'static [u8];
type BytesTable<'txn> = Table<'txn, Bytes, Bytes>;
type Guards<'a> = (AccessGuard<'a, Bytes>, AccessGuard<'a, Bytes>);

/// The keys of each database: hash and key, to the key's record.
const KEYS: [TableDefinition<'_, Bytes, Bytes>; DATABASES] = [
    TableDefinition::new("keys.0"),
    TableDefinition::new("keys.1"),
    TableDefinition::new("keys.2"),
    TableDefinition::new("keys.3"),
    TableDefinition::new("keys.4"),
    TableDefinition::new("keys.5"),
    TableDefinition::new("keys.6"),
    TableDefinition::new("keys.7"),
    TableDefinition::new("keys.8"),
    TableDefinition::new("keys.9"),
    TableDefinition::new("keys.10"),
    TableDefinition::new("keys.11"),
    TableDefinition::new("keys.12"),
    TableDefinition::new("keys.13"),
    TableDefinition::new("keys.14"),
    TableDefinition::new("keys.15"),
];
/// Id, hash and member, to the field's value or the member's score.
const ELEMENTS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("elements");
/// Id, score and member of sorted sets; the value marks a score of minus zero.
const SCORES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("scores");
/// Id and place, to the element of a list or the chunk of a string.
const ITEMS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("items");
/// Deadline, database, hash and key of the keys that expire.
const DEADLINES: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("deadlines");
/// Id of a removed value, to its kind: rows that are still to be removed.
const REMOVED: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("removed");
/// Facts about the store itself.
const FACTS: TableDefinition<'_, &'static str, u64> = TableDefinition::new("facts");

/// Ids that are taken out of the file at once.
const IDS_AT_ONCE: u64 = 1024;
const ID_FACT: &str = "next id";
const SECRET_FACTS: [&str; 2] = ["secret 0", "secret 1"];

/// What outlives a transaction.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Under which rows are placed.
    pub(crate) secret: [u64; 2],
    next_id: u64,
    ids_end: u64,
}

/// The tables within one transaction.
pub(crate) struct Rows<'txn> {
    transaction: &'txn WriteTransaction,
    keys: [OnceCell<BytesTable<'txn>>; DATABASES],
    elements: BytesTable<'txn>,
    scores: BytesTable<'txn>,
    items: BytesTable<'txn>,
    deadlines: BytesTable<'txn>,
    removed: BytesTable<'txn>,
    facts: &'txn mut Facts,
    changed: bool,
}

/// A row of a value, without the id and the hash or score before what it is called.
pub(crate) struct Row<'a> {
    key: AccessGuard<'a, Bytes>,
    value: AccessGuard<'a, Bytes>,
}

/// What the id, and the hash, score or place behind it take of a row's key, in bytes.
const PREFIX_BYTES: usize = 16;
const ID_BYTES: usize = 8;

impl Row<'_> {
    /// Member, field, or nothing for an item.
    pub(crate) fn name(&self) -> &[u8] {
        self.key.value().get(PREFIX_BYTES..).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.value.value()
    }

    /// The hash, score or place as a number.
    pub(crate) fn place(&self) -> u64 {
        let place = self.key.value().get(ID_BYTES..PREFIX_BYTES);
        place.and_then(number).unwrap_or_default()
    }

    /// The score, of a row of scores.
    pub(crate) fn score(&self) -> f64 {
        if self.value().is_empty() {
            score_of_place(self.place())
        } else {
            -0.0
        }
    }
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
        })
    }
}

impl<'txn> Rows<'txn> {
    pub(crate) fn open(
        transaction: &'txn WriteTransaction,
        facts: &'txn mut Facts,
    ) -> Result<Self, Fail> {
        Ok(Self {
            transaction,
            keys: Default::default(),
            elements: transaction.open_table(ELEMENTS)?,
            scores: transaction.open_table(SCORES)?,
            items: transaction.open_table(ITEMS)?,
            deadlines: transaction.open_table(DEADLINES)?,
            removed: transaction.open_table(REMOVED)?,
            facts,
            changed: false,
        })
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

    pub(crate) fn put_record(&mut self, db: usize, key: &[u8], record: &Record) -> Result<(), Fail> {
        let name = self.named(None, key);
        let mut value = Vec::with_capacity(64);
        record.encode(&mut value);
        self.keys_mut(db)?.insert(name.as_slice(), value.as_slice())?;
        Ok(())
    }

    pub(crate) fn remove_record(&mut self, db: usize, key: &[u8]) -> Result<(), Fail> {
        let name = self.named(None, key);
        self.keys_mut(db)?.remove(name.as_slice())?;
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
        Ok(range.map(|row| {
            let (key, value) = row?;
            Ok(KeyRow { key, value })
        }))
    }

    /// Forgets all keys of a database; their values' rows stay.
    pub(crate) fn clear_keys(&mut self, db: usize) -> Result<(), Fail> {
        self.changed = true;
        if let Some(cell) = self.keys.get_mut(db) {
            drop(cell.take());
        }
        if let Some(definition) = KEYS.get(db) {
            self.transaction.delete_table(*definition)?;
        }
        Ok(())
    }

    /// Forgets everything in every database.
    pub(crate) fn clear_all(&mut self) -> Result<(), Fail> {
        for db in 0..DATABASES {
            self.clear_keys(db)?;
        }
        for table in [
            &mut self.elements,
            &mut self.scores,
            &mut self.items,
            &mut self.deadlines,
            &mut self.removed,
        ] {
            table.retain(|_, _| false)?;
        }
        Ok(())
    }

    // Deadlines.

    pub(crate) fn put_deadline(&mut self, deadline: u64, db: usize, key: &[u8]) -> Result<(), Fail> {
        let row = self.deadline_row(deadline, db, key);
        self.changed = true;
        self.deadlines.insert(row.as_slice(), &[][..])?;
        Ok(())
    }

    pub(crate) fn remove_deadline(
        &mut self,
        deadline: u64,
        db: usize,
        key: &[u8],
    ) -> Result<(), Fail> {
        let row = self.deadline_row(deadline, db, key);
        self.changed = true;
        self.deadlines.remove(row.as_slice())?;
        Ok(())
    }

    /// The earliest keys whose deadline has come, at most `most` of them.
    pub(crate) fn due(&self, now: u64, most: usize) -> Result<Vec<(usize, Vec<u8>)>, Fail> {
        let end = now.saturating_add(1).to_be_bytes();
        let mut due = Vec::new();
        for row in self.deadlines.range::<&[u8]>(..end.as_slice())?.take(most) {
            let (row, _) = row?;
            let row = row.value();
            let db = row.get(ID_BYTES).copied().map(usize::from);
            if let (Some(db), Some(key)) = (db, row.get(ID_BYTES + 1..)) {
                due.push((db, key.to_vec()));
            }
        }
        Ok(due)
    }

    /// How many keys of a database have a deadline.
    pub(crate) fn deadlines_of(&self, db: usize) -> Result<u64, Fail> {
        let mut count = 0;
        for row in self.deadlines.range::<&[u8]>(..)? {
            let (row, _) = row?;
            count += u64::from(row.value().get(ID_BYTES).map(|byte| usize::from(*byte)) == Some(db));
        }
        Ok(count)
    }

    // Fields of hashes, members of sets and sorted sets.

    pub(crate) fn element(&self, id: u64, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let row = self.named(Some(id), name);
        Ok(self
            .elements
            .get(row.as_slice())?
            .map(|value| value.value().to_vec()))
    }

    pub(crate) fn has_element(&self, id: u64, name: &[u8]) -> Result<bool, Fail> {
        let row = self.named(Some(id), name);
        Ok(self.elements.get(row.as_slice())?.is_some())
    }

    /// Whether the element is new.
    pub(crate) fn put_element(&mut self, id: u64, name: &[u8], value: &[u8]) -> Result<bool, Fail> {
        let row = self.named(Some(id), name);
        self.changed = true;
        Ok(self.elements.insert(row.as_slice(), value)?.is_none())
    }

    /// The value it had.
    pub(crate) fn remove_element(&mut self, id: u64, name: &[u8]) -> Result<Option<Vec<u8>>, Fail> {
        let row = self.named(Some(id), name);
        let removed = self.elements.remove(row.as_slice())?;
        let removed = removed.map(|value| value.value().to_vec());
        self.changed |= removed.is_some();
        Ok(removed)
    }

    /// The elements of a value from a place in the order of hashes on.
    pub(crate) fn elements(
        &self,
        id: u64,
        hash: u64,
    ) -> Result<impl Iterator<Item = Result<Row<'_>, Fail>>, Fail> {
        rows(&self.elements, placed(id, hash, &[]), id)
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
        self.scores.insert(row.as_slice(), mark)?;
        Ok(())
    }

    pub(crate) fn remove_score(&mut self, id: u64, score: f64, name: &[u8]) -> Result<(), Fail> {
        let row = placed(id, place_of_score(score), name);
        self.changed = true;
        self.scores.remove(row.as_slice())?;
        Ok(())
    }

    /// The members of a sorted set in order, from `start` on; from both ends.
    pub(crate) fn scores(
        &self,
        id: u64,
        start: Option<(f64, &[u8])>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let start = start.map_or_else(
            || id.to_be_bytes().to_vec(),
            |(score, name)| placed(id, place_of_score(score), name),
        );
        rows(&self.scores, start, id)
    }

    /// The members of a sorted set before `end`, for going backwards.
    pub(crate) fn scores_before(
        &self,
        id: u64,
        end: (f64, &[u8]),
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let start = id.to_be_bytes();
        let end = placed(id, place_of_score(end.0), end.1);
        let range = self.scores.range::<&[u8]>(start.as_slice()..end.as_slice())?;
        Ok(range.map(row))
    }

    // Items of lists, chunks of strings.

    pub(crate) fn item(&self, id: u64, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let row = placed(id, place, &[]);
        Ok(self
            .items
            .get(row.as_slice())?
            .map(|value| value.value().to_vec()))
    }

    pub(crate) fn put_item(&mut self, id: u64, place: u64, value: &[u8]) -> Result<(), Fail> {
        let row = placed(id, place, &[]);
        self.changed = true;
        self.items.insert(row.as_slice(), value)?;
        Ok(())
    }

    pub(crate) fn remove_item(&mut self, id: u64, place: u64) -> Result<Option<Vec<u8>>, Fail> {
        let row = placed(id, place, &[]);
        self.changed = true;
        let removed = self.items.remove(row.as_slice())?;
        Ok(removed.map(|value| value.value().to_vec()))
    }

    /// The items of a value from a place on; from both ends.
    pub(crate) fn items(
        &self,
        id: u64,
        place: u64,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        rows(&self.items, placed(id, place, &[]), id)
    }

    // Removing whole values.

    /// Leaves the rows of a value to the sweep.
    pub(crate) fn remove_later(&mut self, body: &Body) -> Result<(), Fail> {
        self.changed = true;
        let id = body.id.to_be_bytes();
        self.removed.insert(id.as_slice(), &[body.kind.code()][..])?;
        Ok(())
    }

    /// Removes at most `most` rows of the values left to the sweep; how many were removed.
    pub(crate) fn sweep_removed(&mut self, most: usize) -> Result<usize, Fail> {
        let Some((id, kind)) = self.first_removed()? else {
            return Ok(0);
        };
        let count = self.remove_rows(id, kind, most)?;
        if count < most {
            self.removed.remove(id.to_be_bytes().as_slice())?;
        }
        self.changed = true;
        Ok(count.max(1))
    }

    /// Removes at most `most` rows of a value; how many were removed.
    pub(crate) fn remove_rows(&mut self, id: u64, kind: Kind, most: usize) -> Result<usize, Fail> {
        self.changed = true;
        Ok(match kind {
            Kind::Text | Kind::List => drain(&mut self.items, id, most)?,
            Kind::Hash | Kind::Set => drain(&mut self.elements, id, most)?,
            Kind::SortedSet => {
                let count = drain(&mut self.elements, id, most)?;
                count.max(drain(&mut self.scores, id, most)?)
            }
        })
    }

    fn first_removed(&self) -> Result<Option<(u64, Kind)>, Fail> {
        let Some((id, kind)) = self.removed.first()? else {
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

    fn deadline_row(&self, deadline: u64, db: usize, key: &[u8]) -> Vec<u8> {
        let db = u8::try_from(db).unwrap_or_default();
        [&deadline.to_be_bytes()[..], &[db], key].concat()
    }

    fn keys(&self, db: usize) -> Result<&BytesTable<'txn>, Fail> {
        let missing = || Fail::broken("the number of a database");
        let cell = self.keys.get(db).ok_or_else(missing)?;
        if let Some(table) = cell.get() {
            return Ok(table);
        }
        let definition = KEYS.get(db).ok_or_else(missing)?;
        let table = self.transaction.open_table(*definition)?;
        Ok(cell.get_or_init(|| table))
    }

    fn keys_mut(&mut self, db: usize) -> Result<&mut BytesTable<'txn>, Fail> {
        self.keys(db)?;
        self.changed = true;
        let cell = self.keys.get_mut(db).and_then(OnceCell::get_mut);
        cell.ok_or_else(|| Fail::broken("the number of a database"))
    }
}

/// A key of a database and its record.
pub(crate) struct KeyRow<'a> {
    key: AccessGuard<'a, Bytes>,
    value: AccessGuard<'a, Bytes>,
}

impl KeyRow<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        self.key.value().get(ID_BYTES..).unwrap_or_default()
    }

    pub(crate) fn hash(&self) -> u64 {
        let hash = self.key.value().get(..ID_BYTES);
        hash.and_then(number).unwrap_or_default()
    }

    pub(crate) fn record(&self) -> Result<Record, Fail> {
        Record::decode(self.value.value())
    }
}

/// A score as a number whose order is that of the scores; both zeros are one.
pub(crate) fn place_of_score(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    }
}

fn score_of_place(place: u64) -> f64 {
    f64::from_bits(if place >> 63 == 1 {
        place & !(1 << 63)
    } else {
        !place
    })
}

fn placed(id: u64, place: u64, name: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(PREFIX_BYTES + name.len());
    row.extend_from_slice(&id.to_be_bytes());
    row.extend_from_slice(&place.to_be_bytes());
    row.extend_from_slice(name);
    row
}

fn rows<'a>(
    table: &'a BytesTable<'_>,
    start: Vec<u8>,
    id: u64,
) -> Result<impl DoubleEndedIterator<Item = Result<Row<'a>, Fail>>, Fail> {
    let end = id.saturating_add(1).to_be_bytes();
    let range = table.range::<&[u8]>(start.as_slice()..end.as_slice())?;
    Ok(range.map(row))
}

fn row(guards: Result<Guards<'_>, StorageError>) -> Result<Row<'_>, Fail> {
    let (key, value) = guards?;
    Ok(Row { key, value })
}

/// Removes at most `most` rows that begin with `id`; how many were removed.
fn drain(table: &mut BytesTable<'_>, id: u64, most: usize) -> Result<usize, Fail> {
    let (start, end) = (id.to_be_bytes(), id.saturating_add(1).to_be_bytes());
    let range = start.as_slice()..end.as_slice();
    let mut count = 0;
    let removed = table.extract_from_if::<&[u8], _>(range, |_, _| true)?;
    for row in removed.take(most) {
        row?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_as_scores_are() {
        let scores = [
            f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::INFINITY,
        ];
        for pair in scores.windows(2) {
            assert!(place_of_score(pair[0]) < place_of_score(pair[1]));
        }
        for score in scores {
            assert_eq!(score_of_place(place_of_score(score)), score);
        }
        assert_eq!(place_of_score(-0.0), place_of_score(0.0));
    }
}
