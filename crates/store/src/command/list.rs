//! Commands on lists.

use super::set::positive;
use super::{Call, Spec};
use crate::fail::Fail;
use crate::list::{self, End};
use crate::number::parse_integer;
use crate::record::Kind;
use crate::space::Held;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("lpush", -3, |call| push(call, End::Left, true)),
    Spec::new("rpush", -3, |call| push(call, End::Right, true)),
    Spec::new("lpushx", -3, |call| push(call, End::Left, false)),
    Spec::new("rpushx", -3, |call| push(call, End::Right, false)),
    Spec::new("lpop", -2, |call| pop(call, End::Left)),
    Spec::new("rpop", -2, |call| pop(call, End::Right)),
    Spec::new("llen", 2, llen),
    Spec::new("lrange", 4, lrange),
    Spec::new("lindex", 3, lindex),
    Spec::new("lset", 4, lset),
    Spec::new("linsert", 5, linsert),
    Spec::new("lrem", 4, lrem),
    Spec::new("ltrim", 4, ltrim),
    Spec::new("lmove", 5, lmove),
    Spec::new("rpoplpush", 3, rpoplpush),
    Spec::new("lpos", -3, lpos),
];

fn held(call: &mut Call<'_, '_>) -> Result<Option<Held>, Fail> {
    call.space.look_up_held(call.arg(1), Kind::List)
}

fn push(call: &mut Call<'_, '_>, end: End, create: bool) -> Result<(), Fail> {
    let found = call.space.held(call.arg(1), Kind::List)?;
    let mut list = match found {
        Some(list) => list,
        None if create => call.space.new_held(call.arg(1), Kind::List)?,
        None => {
            call.reply.integer(0);
            return Ok(());
        }
    };
    for value in call.rest(2) {
        list::push(&mut call.space.rows, &mut list, end, value)?;
    }
    call.space.save(&list)?;
    call.reply.count(list.len());
    Ok(())
}

fn pop(call: &mut Call<'_, '_>, end: End) -> Result<(), Fail> {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call.arg(2))?),
        _ => return Err(Fail::arity(call.name())),
    };
    let Some(mut list) = call.space.held(call.arg(1), Kind::List)? else {
        match count {
            Some(_) => call.reply.null_array(),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let Some(count) = count else {
        reply_end(call, &list, end)?;
        list::pop(&mut call.space.rows, &mut list, end)?;
        return call.space.save(&list);
    };
    let count = count.min(list.len());
    call.reply
        .array(usize::try_from(count).unwrap_or(usize::MAX));
    reply_ends(call, &list, end, count)?;
    for _ in 0..count {
        list::pop(&mut call.space.rows, &mut list, end)?;
    }
    call.space.save(&list)
}

/// Answers with the element at an end before it is removed: a removal without an answer must not be
/// made.
fn reply_end(call: &mut Call<'_, '_>, list: &Held, end: End) -> Result<(), Fail> {
    let index = match end {
        End::Left => 0,
        End::Right => list.len().saturating_sub(1),
    };
    let value = list::item(&call.space.rows, list, index)?;
    call.reply.bulk_or_null(value.as_deref());
    call.reply.check_whole()
}

/// Answers with the elements at an end, before any of them is removed.
fn reply_ends(call: &mut Call<'_, '_>, list: &Held, end: End, count: u64) -> Result<(), Fail> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let reply = &mut *call.reply;
    let mut reply_with = |row: Result<crate::table::Row<'_>, Fail>| {
        reply.bulk(row?.value());
        reply.check_whole()
    };
    let rows = list::items(&call.space.rows, list, 0)?;
    match end {
        End::Left => rows.take(count).try_for_each(&mut reply_with),
        End::Right => rows.rev().take(count).try_for_each(&mut reply_with),
    }
}

fn llen(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let list = held(call)?;
    call.reply.count(list.map_or(0, |list| list.len()));
    Ok(())
}

/// The indexes from `start` to before `end` that two numbers mean, which count from the end when
/// negative; none if there are none.
pub(super) fn index_range(start: i64, end: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).ok()?;
    let from_end = |index: i64| if index < 0 { length + index } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(length - 1));
    if start > end || start >= length {
        return None;
    }
    Some((u64::try_from(start).ok()?, u64::try_from(end + 1).ok()?))
}

/// The index that a number means; none if there is none.
fn index(number: i64, length: u64) -> Option<u64> {
    let number = if number < 0 {
        i64::try_from(length).ok()?.checked_add(number)?
    } else {
        number
    };
    u64::try_from(number).ok().filter(|index| *index < length)
}

fn lrange(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let list = held(call)?;
    let range = list
        .as_ref()
        .and_then(|list| index_range(start, end, list.len()));
    let (Some(list), Some((start, end))) = (list, range) else {
        call.reply.array(0);
        return Ok(());
    };
    let count = usize::try_from(end - start).unwrap_or(usize::MAX);
    call.reply.array(count);
    for row in list::items(&call.space.rows, &list, start)?.take(count) {
        call.reply.bulk(row?.value());
        call.reply.check_whole()?;
    }
    Ok(())
}

fn lindex(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let list = held(call)?;
    let Some(list) = list else {
        call.reply.null();
        return Ok(());
    };
    let value = match index(call.integer(2)?, list.len()) {
        Some(index) => list::item(&call.space.rows, &list, index)?,
        None => None,
    };
    call.reply.bulk_or_null(value.as_deref());
    Ok(())
}

fn lset(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let list = call.space.held(call.arg(1), Kind::List)?;
    let mut list = list.ok_or_else(Fail::no_such_key)?;
    let index = index(call.integer(2)?, list.len()).ok_or_else(Fail::out_of_range)?;
    let value = call.arg(3);
    list::set_item(&mut call.space.rows, &mut list, index, value)?;
    call.space.save(&list)?;
    call.reply.ok();
    Ok(())
}

fn linsert(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let behind = match super::word(call.arg(2)).as_slice() {
        b"before" => 0,
        b"after" => 1,
        _ => return Err(Fail::syntax()),
    };
    let Some(mut list) = call.space.held(call.arg(1), Kind::List)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let pivot = found(call, &list, call.arg(3), 1, false)?;
    let Some(pivot) = pivot.first() else {
        call.reply.integer(-1);
        return Ok(());
    };
    let (index, value) = (pivot + behind, call.arg(4));
    if index == list.len() {
        list::push(&mut call.space.rows, &mut list, End::Right, value)?;
    } else {
        list::insert_item(&mut call.space.rows, &mut list, index, value)?;
    }
    call.space.save(&list)?;
    call.reply.count(list.len());
    Ok(())
}

/// The indexes of at most `most` elements equal to `value`, from either end, in ascending order.
fn found(
    call: &Call<'_, '_>,
    list: &Held,
    value: &[u8],
    most: u64,
    backwards: bool,
) -> Result<Vec<u64>, Fail> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let rows = list::items(&call.space.rows, list, 0)?;
    let first = list.body.first;
    let equal = |row: Result<crate::table::Row<'_>, Fail>| match row {
        Ok(row) if row.value() == value => {
            let room = call.space.room.take(0);
            Some(room.map(|()| row.place().wrapping_sub(first)))
        }
        Ok(_) => None,
        Err(fail) => Some(Err(fail)),
    };
    if !backwards {
        return rows.filter_map(equal).take(most).collect();
    }
    let mut indexes: Vec<u64> = rows
        .rev()
        .filter_map(equal)
        .take(most)
        .collect::<Result<_, _>>()?;
    indexes.reverse();
    Ok(indexes)
}

fn lrem(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let count = call.integer(2)?;
    let Some(mut list) = call.space.held(call.arg(1), Kind::List)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let most = match count.unsigned_abs() {
        0 => u64::MAX,
        most => most,
    };
    let indexes = found(call, &list, call.arg(3), most, count < 0)?;
    list::remove_items(&mut call.space.rows, &mut list, &indexes)?;
    call.space.save(&list)?;
    call.reply.count(indexes.len() as u64);
    Ok(())
}

fn ltrim(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    if let Some(mut list) = call.space.held(call.arg(1), Kind::List)? {
        list.touch();
        match index_range(start, end, list.len()) {
            None => {
                call.space.remove_body(&list.body)?;
                list.body.count = 0;
            }
            Some((start, end)) => {
                while list.len() > end {
                    list::pop(&mut call.space.rows, &mut list, End::Right)?;
                }
                for _ in 0..start {
                    list::pop(&mut call.space.rows, &mut list, End::Left)?;
                }
            }
        }
        call.space.save(&list)?;
    }
    call.reply.ok();
    Ok(())
}

fn end(word: &[u8]) -> Result<End, Fail> {
    match super::word(word).as_slice() {
        b"left" => Ok(End::Left),
        b"right" => Ok(End::Right),
        _ => Err(Fail::syntax()),
    }
}

fn lmove(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (from, to) = (end(call.arg(3))?, end(call.arg(4))?);
    move_between(call, from, to)
}

fn rpoplpush(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    move_between(call, End::Right, End::Left)
}

fn move_between(call: &mut Call<'_, '_>, from: End, to: End) -> Result<(), Fail> {
    let Some(mut source) = call.space.held(call.arg(1), Kind::List)? else {
        call.reply.null();
        return Ok(());
    };
    let target = call.space.held(call.arg(2), Kind::List)?;
    call.space.check(call.arg(2))?;
    reply_end(call, &source, from)?;
    // No empty list is stored.
    let value = list::pop(&mut call.space.rows, &mut source, from)?;
    let value = value.ok_or_else(|| Fail::broken("a list"))?;
    if call.arg(1) == call.arg(2) {
        list::push(&mut call.space.rows, &mut source, to, &value)?;
    } else {
        let mut target = match target {
            Some(target) => target,
            None => call.space.new_held(call.arg(2), Kind::List)?,
        };
        list::push(&mut call.space.rows, &mut target, to, &value)?;
        call.space.save(&target)?;
    }
    call.space.save(&source)
}

/// The arguments of LPOS.
struct Position {
    /// Matches that are passed over.
    skipped: u64,
    backwards: bool,
    count: Option<u64>,
    /// Elements that are looked at; none is no limit.
    looked_at: u64,
}

fn position(call: &Call<'_, '_>) -> Result<Position, Fail> {
    let mut position = Position {
        skipped: 0,
        backwards: false,
        count: None,
        looked_at: 0,
    };
    let mut index = 3;
    while index < call.args.len() {
        let text = call.arg(index + 1);
        let has_value = index + 1 < call.args.len();
        if call.is_word(index, "rank") && has_value {
            let rank = parse_integer(text).ok_or_else(Fail::not_integer)?;
            let skipped = match rank {
                0 => return Err(rank_is_zero()),
                // Redis turns the sign round, which this number does not bear.
                i64::MIN => 0,
                rank => rank.unsigned_abs() - 1,
            };
            position.skipped = skipped;
            position.backwards = rank < 0;
        } else if call.is_word(index, "count") && has_value {
            let wrong = || Fail::said("ERR COUNT can't be negative");
            position.count = Some(not_negative(text).ok_or_else(wrong)?);
        } else if call.is_word(index, "maxlen") && has_value {
            let wrong = || Fail::said("ERR MAXLEN can't be negative");
            position.looked_at = not_negative(text).ok_or_else(wrong)?;
        } else {
            return Err(Fail::syntax());
        }
        index += 2;
    }
    Ok(position)
}

fn rank_is_zero() -> Fail {
    Fail::said(
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
         or use negative to start from the end of the list",
    )
}

fn not_negative(text: &[u8]) -> Option<u64> {
    u64::try_from(parse_integer(text)?).ok()
}

fn lpos(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let position = position(call)?;
    let indexes = match held(call)? {
        Some(list) => matches(call, &list, &position)?,
        None => Vec::new(),
    };
    if position.count.is_none() {
        match indexes.first() {
            Some(index) => call.reply.count(*index),
            None => call.reply.null(),
        }
        return Ok(());
    }
    call.reply.array(indexes.len());
    for index in indexes {
        call.reply.count(index);
    }
    Ok(())
}

fn matches(call: &Call<'_, '_>, list: &Held, position: &Position) -> Result<Vec<u64>, Fail> {
    let wanted = match position.count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let looked_at = match position.looked_at {
        0 => usize::MAX,
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };
    let skipped = usize::try_from(position.skipped).unwrap_or(usize::MAX);
    let value = call.arg(2);
    let first = list.body.first;
    let mut found = Vec::new();
    let mut take = |row: Result<crate::table::Row<'_>, Fail>| -> Result<(), Fail> {
        let row = row?;
        if row.value() == value {
            call.space.room.take(0)?;
            found.push(row.place().wrapping_sub(first));
        }
        Ok(())
    };
    let rows = list::items(&call.space.rows, list, 0)?;
    if position.backwards {
        rows.rev().take(looked_at).try_for_each(&mut take)?;
    } else {
        rows.take(looked_at).try_for_each(&mut take)?;
    }
    Ok(found.into_iter().skip(skipped).take(wanted).collect())
}
