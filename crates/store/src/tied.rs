//! Members of a sorted set that are sealed: in the order of scores, and those of one score by their bytes.

use crate::fail::Fail;
use crate::limits::REPLY_BYTES_MAX;
use crate::room::Room;
use crate::sorted_set::Order;
use crate::table::{Row, place_of_score};

/// Rows that were read ahead, of one score, and the first of the next.
struct Tied<'a, I> {
    rows: I,
    order: Order,
    ahead: Option<Row<'a>>,
    ready: std::vec::IntoIter<Row<'a>>,
}

/// The rows from `start` on and before `end`, of `rows`, which are in the order of scores alone.
pub(crate) fn in_order<'a>(
    rows: impl DoubleEndedIterator<Item = Result<Row<'a>, Fail>> + 'a,
    start: Option<(f64, &'a [u8])>,
    end: Option<(f64, &'a [u8])>,
    order: Order,
) -> Box<dyn Iterator<Item = Result<Row<'a>, Fail>> + 'a> {
    let wanted = move |row: &Result<Row<'a>, Fail>| {
        let Ok(row) = row else { return true };
        let own = (row.place(), row.name());
        let bound = |(score, name): (f64, &'a [u8])| (place_of_score(score), name);
        start.is_none_or(|start| own >= bound(start)) && end.is_none_or(|end| own < bound(end))
    };
    match order {
        Order::Ascending => Box::new(Tied::new(rows, order).filter(wanted)),
        Order::Descending => Box::new(Tied::new(rows.rev(), order).filter(wanted)),
    }
}

impl<'a, I: Iterator<Item = Result<Row<'a>, Fail>>> Tied<'a, I> {
    fn new(rows: I, order: Order) -> Self {
        Self {
            rows,
            order,
            ahead: None,
            ready: Vec::new().into_iter(),
        }
    }

    /// Reads the rows of the next score, which all lie in memory.
    fn read(&mut self) -> Result<(), Fail> {
        let room = Room::new(REPLY_BYTES_MAX);
        let mut tied: Vec<Row<'a>> = self.ahead.take().into_iter().collect();
        for row in self.rows.by_ref() {
            let row = row?;
            if tied.last().is_some_and(|last| last.place() != row.place()) {
                self.ahead = Some(row);
                break;
            }
            room.take(row.name().len())?;
            tied.push(row);
        }
        match self.order {
            Order::Ascending => tied.sort_by(|one, other| one.name().cmp(other.name())),
            Order::Descending => tied.sort_by(|one, other| other.name().cmp(one.name())),
        }
        self.ready = tied.into_iter();
        Ok(())
    }
}

impl<'a, I: Iterator<Item = Result<Row<'a>, Fail>>> Iterator for Tied<'a, I> {
    type Item = Result<Row<'a>, Fail>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.ready.next() {
            return Some(Ok(row));
        }
        match self.read() {
            Ok(()) => self.ready.next().map(Ok),
            Err(fail) => Some(Err(fail)),
        }
    }
}
