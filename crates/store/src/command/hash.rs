//! Commands on hashes.

use super::draws::Draw;
use super::scan::{Walk, cursor, options};
use super::{Call, Spec};
use crate::extended::Extended;
use crate::fail::Fail;
use crate::number::parse_integer;
use crate::record::Kind;
use crate::reply::Protocol;
use crate::space::Held;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("hset", -4, hset),
    Spec::new("hmset", -4, hset),
    Spec::new("hsetnx", 4, hsetnx),
    Spec::new("hget", 3, hget),
    Spec::new("hmget", -3, hmget),
    Spec::new("hgetall", 2, hgetall),
    Spec::new("hkeys", 2, hkeys),
    Spec::new("hvals", 2, hvals),
    Spec::new("hdel", -3, hdel),
    Spec::new("hexists", 3, hexists),
    Spec::new("hlen", 2, hlen),
    Spec::new("hstrlen", 3, hstrlen),
    Spec::new("hincrby", 4, hincrby),
    Spec::new("hincrbyfloat", 4, hincrbyfloat),
    Spec::new("hrandfield", -2, hrandfield),
    Spec::new("hscan", -3, hscan),
];

fn held(call: &mut Call<'_, '_>) -> Result<Option<Held>, Fail> {
    call.space.look_up_held(call.arg(1), Kind::Hash)
}

fn value(call: &mut Call<'_, '_>) -> Result<Option<Vec<u8>>, Fail> {
    match held(call)? {
        Some(held) => call.space.rows.element(held.id(), call.arg(2)),
        None => Ok(None),
    }
}

fn hset(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (pairs, odd) = call.rest(2).as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Fail::arity(call.name()));
    }
    let mut hash = call.space.held_or_new(call.arg(1), Kind::Hash)?;
    let mut new = 0;
    for [field, value] in pairs {
        new += i64::from(call.space.put_element(&mut hash, field, value)?);
    }
    call.space.save(&hash)?;
    if call.name() == "hset" {
        call.reply.integer(new);
    } else {
        call.reply.ok();
    }
    Ok(())
}

fn hsetnx(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (field, value) = (call.arg(2), call.arg(3));
    let mut hash = call.space.held_or_new(call.arg(1), Kind::Hash)?;
    let absent = !call.space.rows.has_element(hash.id(), field)?;
    if absent {
        call.space.put_element(&mut hash, field, value)?;
        call.space.save(&hash)?;
    }
    call.reply.flag(absent);
    Ok(())
}

fn hget(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let value = value(call)?;
    call.reply.bulk_or_null(value.as_deref());
    Ok(())
}

fn hmget(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let hash = held(call)?;
    let fields = call.rest(2);
    call.reply.array(fields.len());
    for field in fields {
        let value = match &hash {
            Some(hash) => call.space.rows.element(hash.id(), field)?,
            None => None,
        };
        call.reply.bulk_or_null(value.as_deref());
        call.reply.check_whole()?;
    }
    Ok(())
}

fn hgetall(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let hash = held(call)?;
    call.reply.map(length(hash.as_ref()));
    each(call, hash.as_ref(), Parts::Both)
}

fn hkeys(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let hash = held(call)?;
    call.reply.array(length(hash.as_ref()));
    each(call, hash.as_ref(), Parts::Fields)
}

fn hvals(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let hash = held(call)?;
    call.reply.array(length(hash.as_ref()));
    each(call, hash.as_ref(), Parts::Values)
}

fn length(hash: Option<&Held>) -> usize {
    hash.map_or(0, |hash| usize::try_from(hash.len()).unwrap_or(usize::MAX))
}

/// The parts of each element that a reply has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    Both,
    Fields,
    Values,
}

fn each(call: &mut Call<'_, '_>, hash: Option<&Held>, parts: Parts) -> Result<(), Fail> {
    let Some(hash) = hash else { return Ok(()) };
    for row in call.space.elements(hash)? {
        let row = row?;
        if parts != Parts::Values {
            call.reply.bulk(row.name());
        }
        if parts != Parts::Fields {
            call.reply.bulk(row.value());
        }
        call.reply.check_whole()?;
    }
    Ok(())
}

fn hdel(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let mut count = 0;
    if let Some(mut hash) = call.space.held(call.arg(1), Kind::Hash)? {
        for field in call.rest(2) {
            let removed = call.space.remove_element(&mut hash, field)?;
            count += i64::from(removed.is_some());
        }
        call.space.save(&hash)?;
    }
    call.reply.integer(count);
    Ok(())
}

fn hexists(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let found = value(call)?.is_some();
    call.reply.flag(found);
    Ok(())
}

fn hlen(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let hash = held(call)?;
    call.reply.count(hash.map_or(0, |hash| hash.len()));
    Ok(())
}

fn hstrlen(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let length = value(call)?.map_or(0, |value| value.len());
    call.reply.count(length as u64);
    Ok(())
}

fn hincrby(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let by = call.integer(3)?;
    let field = call.arg(2);
    let mut hash = call.space.held_or_new(call.arg(1), Kind::Hash)?;
    let number = match call.space.rows.element(hash.id(), field)? {
        Some(text) => {
            parse_integer(&text).ok_or_else(|| Fail::said("ERR hash value is not an integer"))?
        }
        None => 0,
    };
    let sum = number
        .checked_add(by)
        .ok_or_else(|| Fail::said("ERR increment or decrement would overflow"))?;
    let text = sum.to_string();
    call.space.put_element(&mut hash, field, text.as_bytes())?;
    call.space.save(&hash)?;
    call.reply.integer(sum);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let by = Extended::parse(call.arg(3)).ok_or_else(Fail::not_float)?;
    if matches!(by, Extended::Infinite { .. }) {
        return Err(Fail::said("ERR value is NaN or Infinity"));
    }
    let field = call.arg(2);
    let mut hash = call.space.held_or_new(call.arg(1), Kind::Hash)?;
    let number = match call.space.rows.element(hash.id(), field)? {
        Some(text) => {
            Extended::parse(&text).ok_or_else(|| Fail::said("ERR hash value is not a float"))?
        }
        None => Extended::ZERO,
    };
    let sum = number
        .add(by)
        .ok_or_else(|| Fail::said("ERR increment would produce NaN or Infinity"))?;
    let text = sum.format();
    call.space.put_element(&mut hash, field, text.as_bytes())?;
    call.space.save(&hash)?;
    call.reply.bulk(text.as_bytes());
    Ok(())
}

fn hrandfield(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    if call.args.len() == 2 {
        let drawn = match held(call)? {
            Some(hash) => call.space.draw_element(&hash)?,
            None => None,
        };
        let field = drawn.map(|element| element.name);
        call.reply.bulk_or_null(field.as_deref());
        return Ok(());
    }
    let mut draw = Draw::parse(call.arg(2))?;
    let with_values = call.args.len() == 4;
    if call.args.len() > 4 || (with_values && !call.is_word(3, "withvalues")) {
        return Err(Fail::syntax());
    }
    if with_values {
        draw = draw.in_pairs()?;
    }
    let Some(hash) = held(call)? else {
        call.reply.array(0);
        return Ok(());
    };
    let drawn = draw.draw(call, &hash)?;
    let nested = with_values && call.client.protocol == Protocol::Resp3;
    let flat = with_values && !nested;
    call.reply.array(drawn.len() * if flat { 2 } else { 1 });
    for element in drawn {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(&element.name);
        if with_values {
            call.reply.bulk(&element.value);
        }
    }
    Ok(())
}

fn hscan(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    scan_elements(call, Kind::Hash, |_, row, found| {
        found.push(row.name().to_vec());
        found.push(row.value().to_vec());
        Ok(())
    })
}

/// Carries out HSCAN, SSCAN and ZSCAN; `take` puts an element's parts into the reply.
pub(super) fn scan_elements(
    call: &mut Call<'_, '_>,
    kind: Kind,
    take: impl Fn(&Held, &crate::table::Row<'_>, &mut Vec<Vec<u8>>) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let place = cursor(call.arg(2))?;
    let collection = call.space.look_up_held(call.arg(1), kind)?;
    let mut found = Vec::new();
    let mut next = 0;
    if let Some(collection) = collection {
        let scan = options(call, place, 3, false)?;
        let mut walk = Walk::new(scan.count);
        for row in call.space.rows.elements(collection.id(), scan.place)? {
            let row = row?;
            if !walk.goes_on(row.place()) {
                break;
            }
            if scan.wants(row.name()) {
                let bytes = row.name().len() + row.value().len();
                call.space.room.take(bytes)?;
                take(&collection, &row, &mut found)?;
            }
        }
        next = walk.next();
    }
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    for text in found {
        call.reply.bulk(&text);
    }
    Ok(())
}
