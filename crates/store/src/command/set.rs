//! Commands on sets.

use std::collections::BTreeSet;

use super::draws::Draw;
use super::hash::scan_elements;
use super::{Call, Spec};
use crate::fail::Fail;
use crate::number::parse_integer;
use crate::record::Kind;
use crate::space::Held;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("sadd", -3, sadd),
    Spec::new("srem", -3, srem),
    Spec::new("smembers", 2, smembers),
    Spec::new("sismember", 3, sismember),
    Spec::new("smismember", -3, smismember),
    Spec::new("scard", 2, scard),
    Spec::new("spop", -2, spop),
    Spec::new("srandmember", -2, srandmember),
    Spec::new("smove", 4, smove),
    Spec::new("sinter", -2, |call| combine(call, Way::Inter)),
    Spec::new("sunion", -2, |call| combine(call, Way::Union)),
    Spec::new("sdiff", -2, |call| combine(call, Way::Diff)),
    Spec::new("sinterstore", -3, |call| store(call, Way::Inter)),
    Spec::new("sunionstore", -3, |call| store(call, Way::Union)),
    Spec::new("sdiffstore", -3, |call| store(call, Way::Diff)),
    Spec::new("sintercard", -3, sintercard),
    Spec::new("sscan", -3, sscan),
];

fn held(call: &mut Call<'_, '_>) -> Result<Option<Held>, Fail> {
    call.space.look_up_held(call.arg(1), Kind::Set)
}

fn sadd(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut set = call.space.held_or_new(call.arg(1), Kind::Set)?;
    let mut count = 0;
    for member in call.rest(2) {
        count += i64::from(call.space.add_member(&mut set, member)?);
    }
    call.space.save(&set)?;
    call.reply.integer(count);
    Ok(())
}

fn srem(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut count = 0;
    if let Some(mut set) = call.space.held(call.arg(1), Kind::Set)? {
        for member in call.rest(2) {
            let removed = call.space.remove_element(&mut set, member)?;
            count += i64::from(removed.is_some());
        }
        call.space.save(&set)?;
    }
    call.reply.integer(count);
    Ok(())
}

fn smembers(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let Some(set) = held(call)? else {
        call.reply.set(0);
        return Ok(());
    };
    call.reply
        .set(usize::try_from(set.len()).unwrap_or(usize::MAX));
    for row in call.space.elements(&set)? {
        call.reply.bulk(row?.name());
        call.reply.check_whole()?;
    }
    Ok(())
}

fn sismember(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let found = match held(call)? {
        Some(set) => call.space.rows.has_element(set.id(), call.arg(2))?,
        None => false,
    };
    call.reply.flag(found);
    Ok(())
}

fn smismember(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let set = held(call)?;
    let members = call.rest(2);
    call.reply.array(members.len());
    for member in members {
        let found = match &set {
            Some(set) => call.space.rows.has_element(set.id(), member)?,
            None => false,
        };
        call.reply.flag(found);
    }
    Ok(())
}

fn scard(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let set = held(call)?;
    call.reply.count(set.map_or(0, |set| set.len()));
    Ok(())
}

/// A number that may not be negative.
pub(super) fn positive(text: &[u8]) -> Result<u64, Fail> {
    let number = parse_integer(text).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| Fail::said("ERR value is out of range, must be positive"))
}

fn spop(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call.arg(2))?),
        _ => return Err(Fail::syntax()),
    };
    let Some(mut set) = call.space.held(call.arg(1), Kind::Set)? else {
        match count {
            Some(_) => call.reply.set(0),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let drawn = match count {
        Some(count) => call.space.draw_different(&set, count)?,
        None => call.space.draw_element(&set)?.into_iter().collect(),
    };
    if count.is_some() {
        call.reply.set(drawn.len());
    }
    for element in &drawn {
        call.reply.bulk(&element.name);
    }
    call.reply.check_whole()?;
    for element in drawn {
        call.space.remove_element(&mut set, &element.name)?;
    }
    call.space.save(&set)
}

fn srandmember(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let draw = match call.args.len() {
        2 => {
            let drawn = match held(call)? {
                Some(set) => call.space.draw_element(&set)?,
                None => None,
            };
            let member = drawn.map(|element| element.name);
            call.reply.bulk_or_null(member.as_deref());
            return Ok(());
        }
        3 => Draw::parse(call.arg(2))?,
        _ => return Err(Fail::syntax()),
    };
    let drawn = match held(call)? {
        Some(set) => draw.draw(call, &set)?,
        None => Vec::new(),
    };
    call.reply.array(drawn.len());
    for element in drawn {
        call.reply.bulk(&element.name);
    }
    Ok(())
}

fn smove(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (from, to, member) = (call.arg(1), call.arg(2), call.arg(3));
    let source = call.space.held(from, Kind::Set)?;
    let Some(mut source) = source else {
        call.reply.flag(false);
        return Ok(());
    };
    if from == to {
        let found = call.space.rows.has_element(source.id(), member)?;
        call.reply.flag(found);
        return Ok(());
    }
    // The other key's kind is refused before anything is moved.
    call.space.held(to, Kind::Set)?;
    call.space.check(to)?;
    let moved = call.space.remove_element(&mut source, member)?.is_some();
    call.space.save(&source)?;
    if moved {
        let mut target = call.space.held_or_new(to, Kind::Set)?;
        call.space.add_member(&mut target, member)?;
        target.touch();
        call.space.save(&target)?;
    }
    call.reply.flag(moved);
    Ok(())
}

/// The way in which sets become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Inter,
    Union,
    Diff,
}

type Members = BTreeSet<Vec<u8>>;

/// The members that result; at most `most` of an intersection.
fn members(
    call: &mut Call<'_, '_>,
    keys: &[&[u8]],
    way: Way,
    most: usize,
) -> Result<Members, Fail> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(call.space.look_up_held(key, Kind::Set)?);
    }
    let mut members = Members::new();
    match way {
        Way::Union => {
            for set in sets.iter().flatten() {
                for row in call.space.elements(set)? {
                    let row = row?;
                    if !members.contains(row.name()) {
                        call.space.room.take(row.name().len())?;
                        members.insert(row.name().to_vec());
                    }
                }
            }
        }
        Way::Inter => {
            let there: Option<Vec<Held>> = sets.into_iter().collect();
            let mut there = there.unwrap_or_default();
            // The smallest is walked, the others are asked.
            there.sort_by_key(Held::len);
            let Some((smallest, others)) = there.split_first() else {
                return Ok(members);
            };
            for row in call.space.elements(smallest)? {
                let row = row?;
                if members.len() < most && is_in_all(call, others, row.name())? {
                    call.space.room.take(row.name().len())?;
                    members.insert(row.name().to_vec());
                }
            }
        }
        Way::Diff => {
            let others: Vec<Held> = sets
                .split_off(1.min(sets.len()))
                .into_iter()
                .flatten()
                .collect();
            let Some(Some(first)) = sets.pop() else {
                return Ok(members);
            };
            for row in call.space.elements(&first)? {
                let row = row?;
                if !is_in_any(call, &others, row.name())? {
                    call.space.room.take(row.name().len())?;
                    members.insert(row.name().to_vec());
                }
            }
        }
    }
    Ok(members)
}

fn is_in_all(call: &Call<'_, '_>, sets: &[Held], member: &[u8]) -> Result<bool, Fail> {
    for set in sets {
        if !call.space.rows.has_element(set.id(), member)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_in_any(call: &Call<'_, '_>, sets: &[Held], member: &[u8]) -> Result<bool, Fail> {
    for set in sets {
        if call.space.rows.has_element(set.id(), member)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn combine(call: &mut Call<'_, '_>, way: Way) -> Result<(), Fail> {
    let members = members(call, call.rest(1), way, usize::MAX)?;
    call.reply.set(members.len());
    for member in members {
        call.reply.bulk(&member);
    }
    Ok(())
}

fn store(call: &mut Call<'_, '_>, way: Way) -> Result<(), Fail> {
    let members = members(call, call.rest(2), way, usize::MAX)?;
    let key = call.arg(1);
    call.space.check(key)?;
    if let Some(old) = call.space.find(key)? {
        call.space.remove(key, &old)?;
    }
    if !members.is_empty() {
        let mut set = call.space.new_held(key, Kind::Set)?;
        for member in &members {
            call.space.add_member(&mut set, member)?;
        }
        call.space.save(&set)?;
    }
    call.reply.count(members.len() as u64);
    Ok(())
}

fn sintercard(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let number = parse_integer(call.arg(1)).filter(|number| *number > 0);
    let number = number.ok_or_else(|| Fail::said("ERR numkeys should be greater than 0"))?;
    let wanted = usize::try_from(number).unwrap_or(usize::MAX);
    let Some(keys) = call.rest(2).get(..wanted) else {
        let text = "ERR Number of keys can't be greater than number of args";
        return Err(Fail::said(text));
    };
    let most = limit(call, 2 + wanted)?;
    let members = members(call, keys, Way::Inter, most)?;
    call.reply.count(members.len() as u64);
    Ok(())
}

/// Reads the bound of a count, from `LIMIT` at `index` on; none is no limit.
pub(super) fn limit(call: &Call<'_, '_>, index: usize) -> Result<usize, Fail> {
    let mut most = usize::MAX;
    let mut index = index;
    while index < call.args.len() {
        if !call.is_word(index, "limit") || index + 1 >= call.args.len() {
            return Err(Fail::syntax());
        }
        let number = parse_integer(call.arg(index + 1)).filter(|number| *number >= 0);
        let number = number.ok_or_else(|| Fail::said("ERR LIMIT can't be negative"))?;
        most = match number {
            0 => usize::MAX,
            number => usize::try_from(number).unwrap_or(usize::MAX),
        };
        index += 2;
    }
    Ok(most)
}

fn sscan(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    scan_elements(call, Kind::Set, |_, row, found| {
        found.push(row.name().to_vec());
        Ok(())
    })
}
