//! Hashes and sets: elements put, removed, drawn; and when Redis would leave their compact form.

use crate::draw::draw;
use crate::fail::Fail;
use crate::limits::{
    DRAW_STEPS, INTSET_ENTRIES_MAX, LISTPACK_ENTRIES_MAX, LISTPACK_VALUE_BYTES_MAX,
};
use crate::number::parse_integer;
use crate::record::{Body, Kind};
use crate::space::{Held, Space};
use crate::table::Row;

impl Space<'_> {
    /// Puts a field or member; whether it is new.
    pub(crate) fn put_element(
        &mut self,
        held: &mut Held,
        name: &[u8],
        value: &[u8],
    ) -> Result<bool, Fail> {
        let new = self.rows.put_element(held.id(), name, value)?;
        held.body.count += u64::from(new);
        note_element(&mut held.body, name, value);
        held.touch();
        Ok(new)
    }

    /// Puts a member of a set; whether it is new.
    pub(crate) fn add_member(&mut self, held: &mut Held, name: &[u8]) -> Result<bool, Fail> {
        if self.rows.has_element(held.id(), name)? {
            return Ok(false);
        }
        self.put_element(held, name, b"")
    }

    /// Removes a field or member; its value, if it was there.
    pub(crate) fn remove_element(
        &mut self,
        held: &mut Held,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Fail> {
        let removed = self.rows.remove_element(held.id(), name)?;
        if removed.is_some() {
            held.count_removed()?;
            held.touch();
        }
        Ok(removed)
    }

    /// All elements, in the order of hashes.
    pub(crate) fn elements(
        &self,
        held: &Held,
    ) -> Result<impl Iterator<Item = Result<Row<'_>, Fail>>, Fail> {
        self.rows.elements(held.id(), 0)
    }

    /// One element, as likely as any other.
    pub(crate) fn draw_element(&mut self, held: &Held) -> Result<Option<Element>, Fail> {
        let rows = &self.rows;
        let from = |hash| {
            let elements = rows.elements(held.id(), hash)?;
            Ok(elements)
        };
        let drawn = draw(from, held.len(), &mut self.shared.random)?;
        drawn.map(|row| self.taken(&row)).transpose()
    }

    /// An element in memory, if there is room for it.
    fn taken(&self, row: &Row<'_>) -> Result<Element, Fail> {
        self.room.take(row.name().len() + row.value().len())?;
        Ok(Element::of(row))
    }

    /// `count` elements drawn evenly, each without regard to the others.
    pub(crate) fn draw_again(&mut self, held: &Held, count: u64) -> Result<Vec<Element>, Fail> {
        let length = held.len();
        if count.saturating_mul(DRAW_STEPS) < length {
            let drawn = (0..count).map(|_| self.draw_element(held).transpose());
            return drawn.flatten().collect();
        }
        // One walk over all of them costs less than a look into the file for each.
        let mut places: Vec<(u64, u64)> = (0..count)
            .map(|turn| (self.shared.random.below(length), turn))
            .collect();
        places.sort_unstable();
        let mut places = places.into_iter().peekable();
        let mut drawn = Vec::new();
        for (place, row) in (0_u64..).zip(self.rows.elements(held.id(), 0)?) {
            let row = row?;
            while let Some((_, turn)) = places.next_if(|it| it.0 == place) {
                drawn.push((turn, self.taken(&row)?));
            }
            if places.peek().is_none() {
                break;
            }
        }
        drawn.sort_unstable_by_key(|it| it.0);
        Ok(drawn.into_iter().map(|it| it.1).collect())
    }

    /// `count` different elements drawn evenly, or all if there are not more.
    pub(crate) fn draw_different(&mut self, held: &Held, count: u64) -> Result<Vec<Element>, Fail> {
        let mut left = held.len();
        let mut wanted = count.min(left);
        let mut drawn = Vec::new();
        // Each row is taken with the chance that leaves every choice equally likely.
        for row in self.rows.elements(held.id(), 0)? {
            let row = row?;
            if wanted == 0 {
                break;
            }
            if self.shared.random.below(left) < wanted {
                drawn.push(self.taken(&row)?);
                wanted -= 1;
            }
            left = left.saturating_sub(1);
        }
        Ok(drawn)
    }
}

/// An element on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Element {
    fn of(row: &Row<'_>) -> Self {
        Self {
            name: row.name().to_vec(),
            value: row.value().to_vec(),
        }
    }
}

/// Notes whether an element makes Redis leave the compact form.
pub(crate) fn note_element(body: &mut Body, name: &[u8], value: &[u8]) {
    body.large |= match body.kind {
        Kind::Set => body.count > INTSET_ENTRIES_MAX || parse_integer(name).is_none(),
        _ => {
            body.count > LISTPACK_ENTRIES_MAX
                || name.len() > LISTPACK_VALUE_BYTES_MAX
                || (body.kind == Kind::Hash && value.len() > LISTPACK_VALUE_BYTES_MAX)
        }
    };
}
