//! One table of the file, opened when it is first looked at, and the rows of one value in it.

use std::cell::OnceCell;
use std::sync::Arc;

use redb::{
    AccessGuard, ReadableTable as _, StorageError, Table, TableDefinition, WriteTransaction,
};

use crate::fail::Fail;
use crate::record::number;
use crate::subject::SubjectKeys;

pub(crate) type Bytes = &'static [u8];
pub(crate) type BytesTable<'txn> = Table<'txn, Bytes, Bytes>;
pub(crate) type Definition = TableDefinition<'static, Bytes, Bytes>;
type Guards<'a> = (AccessGuard<'a, Bytes>, AccessGuard<'a, Bytes>);
type Pair = (Vec<u8>, Vec<u8>);

/// A table that is opened when it is first looked at.
pub(crate) struct LazyTable<'txn> {
    transaction: &'txn WriteTransaction,
    definition: Definition,
    cell: OnceCell<BytesTable<'txn>>,
}

impl<'txn> LazyTable<'txn> {
    pub(crate) const fn new(transaction: &'txn WriteTransaction, definition: Definition) -> Self {
        Self {
            transaction,
            definition,
            cell: OnceCell::new(),
        }
    }

    pub(crate) fn table(&self) -> Result<&BytesTable<'txn>, Fail> {
        if let Some(table) = self.cell.get() {
            return Ok(table);
        }
        let table = self.transaction.open_table(self.definition)?;
        Ok(self.cell.get_or_init(|| table))
    }

    pub(crate) fn table_mut(&mut self) -> Result<&mut BytesTable<'txn>, Fail> {
        self.table()?;
        let table = self.cell.get_mut();
        table.ok_or_else(|| Fail::broken("a table just opened"))
    }

    pub(crate) fn clear(&mut self) -> Result<(), Fail> {
        drop(self.cell.take());
        self.transaction.delete_table(self.definition)?;
        Ok(())
    }
}

/// A row of a value, without the id and the hash or score in front of its name.
pub(crate) struct Row<'a> {
    key: AccessGuard<'a, Bytes>,
    value: AccessGuard<'a, Bytes>,
    /// Name and value of a row that is sealed for a subject.
    opened: Option<Pair>,
}

/// Rows that are copied before the next are read.
const COPIED_AT_ONCE: usize = 256;
/// Bytes of a row's key that the id and the hash, score or place behind it take.
const PREFIX_BYTES: usize = 16;
pub(crate) const ID_BYTES: usize = 8;

impl Row<'_> {
    /// Member, field, or nothing for an item.
    pub(crate) fn name(&self) -> &[u8] {
        // `placed` made every key: it has its prefix.
        match &self.opened {
            Some((name, _)) => name,
            None => self.key.value().get(PREFIX_BYTES..).unwrap_or_default(),
        }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match &self.opened {
            Some((_, value)) => value,
            None => self.value.value(),
        }
    }

    /// The hash, score or place as a number.
    pub(crate) fn place(&self) -> u64 {
        // `placed` made every key: it has its prefix.
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

/// The kind of a value's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its name and value are sealed.
    Element,
    /// Its member is sealed; the score, which orders it, is not.
    Score,
    /// Its value is sealed; it has no name.
    Item,
}

/// The sealing of one value's rows for a subject, if there is one.
pub(crate) struct Seal {
    pub(crate) id: u64,
    pub(crate) part: Part,
    pub(crate) keys: Option<Arc<SubjectKeys>>,
}

impl Seal {
    /// The key of the row of `name` at `place`.
    pub(crate) fn row(&self, place: u64, name: &[u8]) -> Result<Vec<u8>, Fail> {
        Ok(match &self.keys {
            Some(keys) if self.part != Part::Item => {
                placed(self.id, place, &keys.seal_name(self.id, name)?)
            }
            _ => placed(self.id, place, name),
        })
    }

    /// A row's value as it lies in the file.
    pub(crate) fn value(&self, value: &[u8]) -> Result<Vec<u8>, Fail> {
        match &self.keys {
            Some(keys) if self.part != Part::Score => keys.seal_value(self.id, value),
            _ => Ok(value.to_vec()),
        }
    }

    /// A value that lies in the file.
    pub(crate) fn open_value(&self, value: &[u8]) -> Result<Vec<u8>, Fail> {
        match &self.keys {
            Some(keys) if self.part != Part::Score => keys.open_value(self.id, value),
            _ => Ok(value.to_vec()),
        }
    }

    /// A row that lies in the file.
    fn open<'a>(&self, guards: Result<Guards<'a>, StorageError>) -> Result<Row<'a>, Fail> {
        let (key, value) = guards?;
        let opened = match &self.keys {
            None => None,
            Some(keys) => {
                // An empty name does not open.
                let name = key.value().get(PREFIX_BYTES..).unwrap_or_default();
                let name = match self.part {
                    Part::Item => Vec::new(),
                    Part::Element | Part::Score => keys.open_name(self.id, name)?,
                };
                Some((name, self.open_value(value.value())?))
            }
        };
        Ok(Row { key, value, opened })
    }
}

/// Returns a score as a number in the order of scores; both zeros are one.
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

pub(crate) fn placed(id: u64, place: u64, name: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(PREFIX_BYTES + name.len());
    row.extend_from_slice(&id.to_be_bytes());
    row.extend_from_slice(&place.to_be_bytes());
    row.extend_from_slice(name);
    row
}

/// The rows from `start` on and before `end`.
pub(crate) fn rows<'a>(
    table: &'a BytesTable<'_>,
    seal: Seal,
    start: Vec<u8>,
    end: Vec<u8>,
) -> Result<impl DoubleEndedIterator<Item = Result<Row<'a>, Fail>>, Fail> {
    // A range that ends before it begins has no rows; redb would not take it.
    let range = start.min(end.clone())..end;
    let range = table.range::<&[u8]>(range.start.as_slice()..range.end.as_slice())?;
    Ok(range.map(move |guards| seal.open(guards)))
}

/// Removes at most `most` rows that begin with `id`; how many were removed.
pub(crate) fn drain(table: &mut BytesTable<'_>, id: u64, most: usize) -> Result<usize, Fail> {
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

/// Copies the rows of one value to another, a few at a time; `place` says where a row comes to stand there.
pub(crate) fn copy(
    table: &mut BytesTable<'_>,
    (from, to): (&Seal, &Seal),
    place: impl Fn(&Row<'_>) -> u64,
) -> Result<(), Fail> {
    let end = from.id.saturating_add(1).to_be_bytes();
    let mut start = from.id.to_be_bytes().to_vec();
    loop {
        let mut copied: Vec<Pair> = Vec::new();
        let mut last = None;
        let range = table.range::<&[u8]>(start.as_slice()..end.as_slice())?;
        for guards in range.take(COPIED_AT_ONCE) {
            let row = from.open(guards)?;
            copied.push((to.row(place(&row), row.name())?, to.value(row.value())?));
            last = Some(row.key.value().to_vec());
        }
        let Some(last) = last else {
            return Ok(());
        };
        // The next key after the last in the order of bytes.
        start = [last.as_slice(), &[0]].concat();
        for (key, value) in copied {
            table.insert(key.as_slice(), value.as_slice())?;
        }
    }
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
            let again = score_of_place(place_of_score(score));
            assert_eq!(again.to_bits(), score.to_bits());
        }
        assert_eq!(place_of_score(-0.0), place_of_score(0.0));
    }
}
