//! Lists: elements at places without gaps, so that any index is found at once.

use crate::fail::Fail;
use crate::space::{Held, Space};
use crate::table::Row;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

impl Space<'_> {
    pub(crate) fn push(&mut self, list: &mut Held, end: End, value: &[u8]) -> Result<(), Fail> {
        let body = &mut list.body;
        let place = match end {
            End::Left => {
                body.first = body.first.wrapping_sub(1);
                body.first
            }
            End::Right => body.first.wrapping_add(body.count),
        };
        body.count += 1;
        list.touch();
        self.rows.put_item(list.id(), place, value)
    }

    pub(crate) fn pop(&mut self, list: &mut Held, end: End) -> Result<Option<Vec<u8>>, Fail> {
        let body = &mut list.body;
        let Some(last) = body.count.checked_sub(1) else {
            return Ok(None);
        };
        let place = match end {
            End::Left => body.first,
            End::Right => body.first.wrapping_add(last),
        };
        if end == End::Left {
            body.first = body.first.wrapping_add(1);
        }
        body.count = last;
        list.touch();
        self.rows.remove_item(list.id(), place)
    }

    pub(crate) fn item(&self, list: &Held, index: u64) -> Result<Option<Vec<u8>>, Fail> {
        if index >= list.len() {
            return Ok(None);
        }
        let place = list.body.first.wrapping_add(index);
        self.rows.item(list.id(), place)
    }

    pub(crate) fn set_item(
        &mut self,
        list: &mut Held,
        index: u64,
        value: &[u8],
    ) -> Result<(), Fail> {
        list.touch();
        let place = list.body.first.wrapping_add(index);
        self.rows.put_item(list.id(), place, value)
    }

    /// The elements from an index on; from both ends.
    pub(crate) fn items(
        &self,
        list: &Held,
        index: u64,
    ) -> Result<impl DoubleEndedIterator<Item = Result<Row<'_>, Fail>>, Fail> {
        let place = list.body.first.wrapping_add(index);
        self.rows.items(list.id(), place)
    }

    /// Puts a value before the element at `index`, which must be there: those of the shorter side
    /// make room.
    pub(crate) fn insert_item(
        &mut self,
        list: &mut Held,
        index: u64,
        value: &[u8],
    ) -> Result<(), Fail> {
        if index < list.len() / 2 {
            self.push(list, End::Left, b"")?;
            for place in 0..index {
                self.move_item(list, place + 1, place)?;
            }
        } else {
            self.push(list, End::Right, b"")?;
            for place in (index + 1..list.len()).rev() {
                self.move_item(list, place - 1, place)?;
            }
        }
        self.set_item(list, index, value)
    }

    /// Removes the elements at `indexes`, which are in order; those behind close up.
    pub(crate) fn remove_items(&mut self, list: &mut Held, indexes: &[u64]) -> Result<(), Fail> {
        let Some(first) = indexes.first() else {
            return Ok(());
        };
        let mut removed = indexes.iter().copied().peekable();
        let mut to = *first;
        for from in *first..list.len() {
            if removed.next_if_eq(&from).is_none() {
                self.move_item(list, from, to)?;
                to += 1;
            }
        }
        while list.len() > to {
            self.pop(list, End::Right)?;
        }
        Ok(())
    }

    fn move_item(&mut self, list: &mut Held, from: u64, to: u64) -> Result<(), Fail> {
        if from == to {
            return Ok(());
        }
        let value = self.item(list, from)?.unwrap_or_default();
        self.set_item(list, to, &value)
    }
}
