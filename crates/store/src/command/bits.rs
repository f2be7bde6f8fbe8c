//! Commands on the bits of strings: SETBIT, GETBIT, BITCOUNT.

use super::string::{byte_range, empty};
use super::{Call, Spec};
use crate::fail::Fail;
use crate::limits::VALUE_BYTES_MAX;
use crate::number::parse_integer;
use crate::text::text_len;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("setbit", 4, setbit),
    Spec::new("getbit", 3, getbit),
    Spec::new("bitcount", -2, bitcount),
];

/// The byte that holds a bit, and the bit's place from the right.
fn place(text: &[u8]) -> Result<(u64, u32), Fail> {
    let wrong = || Fail::said("ERR bit offset is not an integer or out of range");
    let offset = parse_integer(text).ok_or_else(wrong)?;
    let offset = u64::try_from(offset).map_err(|_negative| wrong())?;
    if offset / 8 >= VALUE_BYTES_MAX {
        return Err(wrong());
    }
    let right = u32::try_from(7 - offset % 8).unwrap_or_default();
    Ok((offset / 8, right))
}

fn setbit(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (byte_place, bit_place) = place(call.arg(2))?;
    let bit = match parse_integer(call.arg(3)) {
        Some(0) => 0,
        Some(1) => 1_u8,
        _ => return Err(Fail::said("ERR bit is not an integer or out of range")),
    };
    let key = call.arg(1);
    let old = call.space.find_text(key)?.unwrap_or_else(empty);
    let mut byte = 0;
    let is_within = byte_place < text_len(&old.value);
    if is_within {
        let part = call
            .space
            .text_part(&old.value, byte_place, byte_place + 1)?;
        byte = part.first().copied().unwrap_or_default();
    }
    let before = byte >> bit_place & 1;
    let byte = byte & !(1 << bit_place) | bit << bit_place;
    let mut record = old.clone();
    call.space
        .write_text(key, &mut record.value, byte_place, &[byte])?;
    if is_within && before == bit {
        // As in Redis, its form may change all the same.
        call.space.put_untold(key, Some(&old), &record)?;
    } else {
        call.space.put_over(key, Some(&old), &record)?;
    }
    call.reply.flag(before == 1);
    Ok(())
}

fn getbit(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let (byte_place, bit_place) = place(call.arg(2))?;
    let found = call.space.look_up_text(call.arg(1))?;
    let mut bit = false;
    if let Some(record) = found
        && byte_place < text_len(&record.value)
    {
        let part = call
            .space
            .text_part(&record.value, byte_place, byte_place + 1)?;
        bit = part.first().is_some_and(|byte| byte >> bit_place & 1 == 1);
    }
    call.reply.flag(bit);
    Ok(())
}

fn bitcount(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let Some(record) = call.space.look_up_text(call.arg(1))? else {
        call.reply.integer(0);
        return Ok(());
    };
    let length = text_len(&record.value);
    let bounds = match call.args.len() {
        2 => None,
        4 | 5 => Some((call.integer(2)?, call.integer(3)?)),
        _ => return Err(Fail::syntax()),
    };
    // Redis looks at these before it looks at the unit.
    if bounds.is_some_and(|(start, end)| start < 0 && end < 0 && start > end) {
        call.reply.integer(0);
        return Ok(());
    }
    let in_bits = match call.args.get(4) {
        Some(_) if call.is_word(4, "bit") => true,
        Some(_) if !call.is_word(4, "byte") => return Err(Fail::syntax()),
        _ => false,
    };
    let range = match bounds {
        None => byte_range(0, -1, length),
        Some((start, end)) if in_bits => byte_range(start, end, length * 8),
        Some((start, end)) => byte_range(start, end, length),
    };
    let count = match range {
        None => 0,
        Some((start, end)) if in_bits => {
            let bytes = (start / 8, (end - 1) / 8 + 1);
            let byte = |at| call.space.text_part(&record.value, at, at + 1);
            let ends = [byte(bytes.0)?, byte(bytes.1 - 1)?].concat();
            let all = call.space.ones(&record.value, bytes.0, bytes.1)?;
            all - ones_outside(&ends, start, end)
        }
        Some((start, end)) => call.space.ones(&record.value, start, end)?,
    };
    call.reply.count(count);
    Ok(())
}

/// Ones of the first and last byte that lie before bit `start` or from bit `end` on.
fn ones_outside(ends: &[u8], start: u64, end: u64) -> u64 {
    let first = ends.first().copied().unwrap_or_default();
    let last = ends.last().copied().unwrap_or_default();
    let before = u8::try_from(!(0xff_u16 >> (start % 8)) & 0xff).unwrap_or_default();
    let after = match end % 8 {
        0 => 0,
        used => 0xff_u8 >> used,
    };
    u64::from((first & before).count_ones()) + u64::from((last & after).count_ones())
}
