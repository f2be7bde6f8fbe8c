//! Lists: elements at places without gaps, so that any index is found at once.

use crate::fail::Fail;
use crate::rows::Rows;
use crate::space::Held;
use crate::table::Row;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

pub(crate) fn push(
    rows: &mut Rows<'_>,
    list: &mut Held,
    end: End,
    value: &[u8],
) -> Result<(), Fail> {
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
    rows.put_item(list.id(), place, value)
}

pub(crate) fn pop(rows: &mut Rows<'_>, list: &mut Held, end: End) -> Result<Option<Vec<u8>>, Fail> {
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
    rows.remove_item(list.id(), place)?
        .map(Some)
        .ok_or_else(lacking)
}

/// The failure for an element that its list counts and no row holds: an empty text in its place would be stored as one.
fn lacking() -> Fail {
    Fail::broken("a list")
}

pub(crate) fn item(rows: &Rows<'_>, list: &Held, index: u64) -> Result<Option<Vec<u8>>, Fail> {
    if index >= list.len() {
        return Ok(None);
    }
    let place = list.body.first.wrapping_add(index);
    rows.item(list.id(), place)?.map(Some).ok_or_else(lacking)
}

pub(crate) fn set_item(
    rows: &mut Rows<'_>,
    list: &mut Held,
    index: u64,
    value: &[u8],
) -> Result<(), Fail> {
    list.touch();
    let place = list.body.first.wrapping_add(index);
    rows.put_item(list.id(), place, value)
}

/// The elements from an index on; from both ends.
pub(crate) fn items<'r>(
    rows: &'r Rows<'_>,
    list: &Held,
    index: u64,
) -> Result<impl DoubleEndedIterator<Item = Result<Row<'r>, Fail>>, Fail> {
    let place = list.body.first.wrapping_add(index);
    rows.items(list.id(), place)
}

/// Puts a value before the element at `index`, which must be there: those of the shorter side
/// make room.
pub(crate) fn insert_item(
    rows: &mut Rows<'_>,
    list: &mut Held,
    index: u64,
    value: &[u8],
) -> Result<(), Fail> {
    if index < list.len() / 2 {
        push(rows, list, End::Left, b"")?;
        for place in 0..index {
            move_item(rows, list, place + 1, place)?;
        }
    } else {
        push(rows, list, End::Right, b"")?;
        for place in (index + 1..list.len()).rev() {
            move_item(rows, list, place - 1, place)?;
        }
    }
    set_item(rows, list, index, value)
}

/// Removes the elements at `indexes`, which are in order; those behind close up.
pub(crate) fn remove_items(
    rows: &mut Rows<'_>,
    list: &mut Held,
    indexes: &[u64],
) -> Result<(), Fail> {
    let Some(first) = indexes.first() else {
        return Ok(());
    };
    let mut removed = indexes.iter().copied().peekable();
    let mut to = *first;
    for from in *first..list.len() {
        if removed.next_if_eq(&from).is_none() {
            move_item(rows, list, from, to)?;
            to += 1;
        }
    }
    while list.len() > to {
        pop(rows, list, End::Right)?;
    }
    Ok(())
}

fn move_item(rows: &mut Rows<'_>, list: &mut Held, from: u64, to: u64) -> Result<(), Fail> {
    if from == to {
        return Ok(());
    }
    let value = item(rows, list, from)?.ok_or_else(lacking)?;
    set_item(rows, list, to, &value)
}

#[cfg(test)]
mod tests {
    use redb::Database;
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::facts::Facts;
    use crate::record::Kind;
    use crate::room::Room;
    use crate::space::{Begun, Shared, Space};

    /// An element that its list counts and no row holds was taken for an empty text, which LINSERT, LREM and LMOVE then stored as one.
    /// Whatever meets it fails, and nothing is stored.
    #[test]
    fn an_element_that_is_gone_is_no_empty_text() {
        let builder = Database::builder();
        let database = builder.create_with_backend(InMemoryBackend::new()).unwrap();
        let write = database.begin_write().unwrap();
        let mut facts = Facts::load(&write, [1, 2]).unwrap();
        let (records, rows) = facts.tables(&write, None);
        let mut space = Space {
            records,
            rows,
            shared: &mut Shared::default(),
            db: 0,
            now: 0,
            room: Room::new(1 << 20),
            begun: Begun::default(),
        };
        let mut list = space.new_held(b"l", Kind::List).unwrap();
        let rows = &mut space.rows;
        for value in [b"a", b"b", b"c", b"d"] {
            push(rows, &mut list, End::Right, value).unwrap();
        }
        assert_eq!(item(rows, &list, 1).unwrap().unwrap(), b"b");
        rows.remove_item(list.id(), list.body.first + 1).unwrap();
        assert!(item(rows, &list, 1).is_err());
        assert!(item(rows, &list, 4).unwrap().is_none());
        assert!(move_item(rows, &mut list, 1, 0).is_err());
        pop(rows, &mut list, End::Left).unwrap();
        assert!(pop(rows, &mut list, End::Left).is_err());
        for _ in 0..2 {
            pop(rows, &mut list, End::Right).unwrap();
        }
        assert!(pop(rows, &mut list, End::Right).unwrap().is_none());
        assert!(list.count_removed().is_err());
    }
}
