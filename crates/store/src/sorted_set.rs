//! Sorted sets: each member with its score, and the scores in order.

use crate::collection::note_element;
use crate::fail::Fail;
use crate::rows::Rows;
use crate::space::{Held, Space};
use crate::table::Row;

/// Two ways in which members are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

/// A member with its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scored {
    pub(crate) member: Vec<u8>,
    pub(crate) score: f64,
}

impl Scored {
    fn of(row: &Row<'_>) -> Self {
        Self {
            member: row.name().to_vec(),
            score: row.score(),
        }
    }
}

/// A range of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScoreRange {
    pub(crate) least: f64,
    pub(crate) least_excluded: bool,
    pub(crate) most: f64,
    pub(crate) most_excluded: bool,
}

/// A bound in the order of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Text<'a> {
    First,
    Last,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

/// A range of members with the same score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextRange<'a> {
    pub(crate) least: Text<'a>,
    pub(crate) most: Text<'a>,
}

/// A range of members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Range<'a> {
    /// By place in the order walked, from the first to before the second.
    Rank(u64, u64),
    Score(ScoreRange),
    Text(TextRange<'a>),
}

impl ScoreRange {
    const fn reaches(&self, score: f64) -> bool {
        if self.least_excluded {
            score > self.least
        } else {
            score >= self.least
        }
    }

    const fn stays(&self, score: f64) -> bool {
        if self.most_excluded {
            score < self.most
        } else {
            score <= self.most
        }
    }
}

impl TextRange<'_> {
    fn reaches(&self, member: &[u8]) -> bool {
        match self.least {
            Text::First => true,
            Text::Last => false,
            Text::Included(least) => member >= least,
            Text::Excluded(least) => member > least,
        }
    }

    fn stays(&self, member: &[u8]) -> bool {
        match self.most {
            Text::First => false,
            Text::Last => true,
            Text::Included(most) => member <= most,
            Text::Excluded(most) => member < most,
        }
    }
}

impl Range<'_> {
    /// Returns whether a member lies behind the lower bound.
    fn reaches(&self, row: &Row<'_>) -> bool {
        match self {
            Self::Rank(..) => true,
            Self::Score(range) => range.reaches(row.score()),
            Self::Text(range) => range.reaches(row.name()),
        }
    }

    /// Returns whether a member lies before the upper bound.
    fn stays(&self, row: &Row<'_>) -> bool {
        match self {
            Self::Rank(..) => true,
            Self::Score(range) => range.stays(row.score()),
            Self::Text(range) => range.stays(row.name()),
        }
    }
}

pub(crate) fn score_of(rows: &Rows<'_>, set: &Held, member: &[u8]) -> Result<Option<f64>, Fail> {
    let value = rows.element(set.id(), member)?;
    value.map(|value| decode(&value)).transpose()
}

/// Gives a member a score; whether it is new.
pub(crate) fn put_score(
    rows: &mut Rows<'_>,
    set: &mut Held,
    member: &[u8],
    score: f64,
) -> Result<bool, Fail> {
    let old = score_of(rows, set, member)?;
    if let Some(old) = old {
        rows.remove_score(set.id(), old, member)?;
    }
    set.body.count += u64::from(old.is_none());
    note_element(&mut set.body, member, b"");
    // In its compact form Redis keeps whole scores as integers, which know one zero only.
    let score = if score == 0.0 && !set.body.large {
        0.0
    } else {
        score
    };
    rows.put_score(set.id(), score, member)?;
    let value = score.to_bits().to_be_bytes();
    rows.put_element(set.id(), member, &value)?;
    set.touch();
    Ok(old.is_none())
}

/// Removes a member; whether it was there.
pub(crate) fn remove_scored(
    rows: &mut Rows<'_>,
    set: &mut Held,
    member: &[u8],
) -> Result<bool, Fail> {
    let Some(value) = rows.remove_element(set.id(), member)? else {
        return Ok(false);
    };
    rows.remove_score(set.id(), decode(&value)?, member)?;
    set.count_removed()?;
    set.touch();
    Ok(true)
}

/// The members of a range in the order wanted, `offset` passed over and at most `most` taken.
pub(crate) fn scored(
    space: &Space<'_>,
    set: &Held,
    range: &Range<'_>,
    order: Order,
    offset: usize,
    most: usize,
) -> Result<Vec<Scored>, Fail> {
    let (mut found, mut room) = (Vec::new(), Ok(()));
    walk(space, set, range, order, offset, most, |row| {
        if room.is_ok() {
            room = space.room.take(row.name().len());
            found.push(Scored::of(row));
        }
    })?;
    room.map(|()| found)
}

/// Returns the number of a range's members.
pub(crate) fn count_scored(space: &Space<'_>, set: &Held, range: &Range<'_>) -> Result<u64, Fail> {
    let mut count = 0;
    walk(space, set, range, Order::Ascending, 0, usize::MAX, |_| {
        count += 1;
    })?;
    Ok(count)
}

/// Returns the number of members before one; none if it is not there.
pub(crate) fn rank(
    rows: &Rows<'_>,
    set: &Held,
    member: &[u8],
    order: Order,
) -> Result<Option<u64>, Fail> {
    let Some(score) = score_of(rows, set, member)? else {
        return Ok(None);
    };
    let own = Some((score, member));
    let mut before = rows.scores(set.id(), None, own, Order::Descending)?;
    let behind = rows.scores(set.id(), own, None, Order::Ascending)?;
    let mut behind = behind.skip(1);
    let mut steps = 0;
    // Both ways at once: the nearer end tells.
    let before = loop {
        if before.next().transpose()?.is_none() {
            break steps;
        }
        if behind.next().transpose()?.is_none() {
            break set.len().saturating_sub(steps + 1);
        }
        steps += 1;
    };
    let rank = match order {
        Order::Ascending => before,
        Order::Descending => set.len().saturating_sub(before + 1),
    };
    Ok(Some(rank))
}

fn walk(
    space: &Space<'_>,
    set: &Held,
    range: &Range<'_>,
    order: Order,
    offset: usize,
    most: usize,
    mut take: impl FnMut(&Row<'_>),
) -> Result<(), Fail> {
    if let Range::Rank(start, end) = *range {
        return walk_ranks(space, set, start, end, order, &mut take);
    }
    let mut skipped = 0;
    let mut left = most;
    let mut visit = |row: &Row<'_>, inside: bool, beyond: bool| {
        if beyond || left == 0 {
            return false;
        }
        if inside {
            if skipped < offset {
                skipped += 1;
            } else {
                take(row);
                left -= 1;
            }
        }
        true
    };
    let rows = rows_of(&space.rows, set, range, order)?;
    match order {
        Order::Ascending => {
            for row in rows {
                let row = row?;
                if !visit(&row, range.reaches(&row), !range.stays(&row)) {
                    break;
                }
            }
        }
        Order::Descending => {
            for row in rows {
                let row = row?;
                if !visit(&row, range.stays(&row), !range.reaches(&row)) {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// The members of a range, perhaps with some beside its bounds.
fn rows_of<'a>(
    rows: &'a Rows<'_>,
    set: &Held,
    range: &Range<'a>,
    order: Order,
) -> Result<impl Iterator<Item = Result<Row<'a>, Fail>>, Fail> {
    let (start, end) = match range {
        Range::Rank(..) => (None, None),
        Range::Score(range) => {
            let end = range.most.next_up();
            let bounded = range.most < f64::INFINITY;
            (
                Some((range.least, &b""[..])),
                bounded.then_some((end, &b""[..])),
            )
        }
        Range::Text(range) => {
            // Members are ordered as texts only where all scores are the same.
            let mut all = rows.scores(set.id(), None, None, Order::Ascending)?;
            let first = all.next().transpose()?;
            let score = first.map_or(0.0, |row| row.score());
            let start = match range.least {
                Text::Included(least) | Text::Excluded(least) => Some((score, least)),
                Text::First | Text::Last => None,
            };
            (start, None)
        }
    };
    rows.scores(set.id(), start, end, order)
}

/// Walks from the end that is nearer.
fn walk_ranks(
    space: &Space<'_>,
    set: &Held,
    start: u64,
    end: u64,
    order: Order,
    take: &mut impl FnMut(&Row<'_>),
) -> Result<(), Fail> {
    let length = set.len();
    let (low, high) = match order {
        Order::Ascending => (start, end),
        Order::Descending => (length.saturating_sub(end), length.saturating_sub(start)),
    };
    let steps = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let count = steps(high.saturating_sub(low));
    let behind = steps(length.saturating_sub(high));
    let from_start = low <= length.saturating_sub(high);
    let (nearer, skipped) = if from_start {
        (Order::Ascending, steps(low))
    } else {
        (Order::Descending, behind)
    };
    let rows = space.rows.scores(set.id(), None, None, nearer)?;
    in_order(space, rows.skip(skipped).take(count), order == nearer, take)
}

/// Takes rows as they come, or the last one first.
fn in_order<'a>(
    space: &Space<'_>,
    rows: impl Iterator<Item = Result<Row<'a>, Fail>>,
    as_they_come: bool,
    take: &mut impl FnMut(&Row<'_>),
) -> Result<(), Fail> {
    if as_they_come {
        for row in rows {
            take(&row?);
        }
        return Ok(());
    }
    let held = rows.map(|row| {
        let row = row?;
        space.room.take(row.name().len())?;
        Ok(row)
    });
    let held: Vec<Row<'_>> = held.collect::<Result<_, Fail>>()?;
    held.iter().rev().for_each(take);
    Ok(())
}

/// The score that a member's row holds.
pub(crate) fn decode(value: &[u8]) -> Result<f64, Fail> {
    let bits = crate::record::number(value);
    bits.map(f64::from_bits)
        .ok_or_else(|| Fail::broken("a score"))
}
