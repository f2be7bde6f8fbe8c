//! Commands that count: INCR and its kin.

use super::{Call, Spec};
use crate::extended::{Extended, TEXT_BYTES_MAX};
use crate::fail::Fail;
use crate::number::parse_integer;
use crate::record::{Form, Record};

/// Longest text of an integer, in bytes.
const INTEGER_BYTES_MAX: u64 = 20;

pub(super) const SPECS: &[Spec] = &[
    Spec::new("incr", 2, incr),
    Spec::new("decr", 2, decr),
    Spec::new("incrby", 3, incrby),
    Spec::new("decrby", 3, decrby),
    Spec::new("incrbyfloat", 3, incrbyfloat),
];

fn incr(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    add(call, 1)
}

fn decr(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    add(call, -1)
}

fn incrby(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let by = call.integer(2)?;
    add(call, by)
}

fn decrby(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let by = call.integer(2)?.checked_neg();
    let by = by.ok_or_else(|| Fail::said("ERR decrement would overflow"))?;
    add(call, by)
}

fn add(call: &mut Call<'_, '_>, by: i64) -> Result<(), Fail> {
    let key = call.arg(1);
    let old = call.space.find_text(key)?;
    let number = match &old {
        Some(record) => {
            let text = call.space.short_text(&record.value, INTEGER_BYTES_MAX)?;
            let number = text.and_then(|text| parse_integer(&text));
            number.ok_or_else(Fail::not_integer)?
        }
        None => 0,
    };
    let sum = number
        .checked_add(by)
        .ok_or_else(|| Fail::said("ERR increment or decrement would overflow"))?;
    put(call, old.as_ref(), sum.to_string().as_bytes(), Form::Plain)?;
    call.reply.integer(sum);
    Ok(())
}

fn incrbyfloat(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    let old = call.space.find_text(call.arg(1))?;
    let number = match &old {
        Some(record) => {
            let text = call
                .space
                .short_text(&record.value, TEXT_BYTES_MAX as u64)?;
            let number = text.and_then(|text| Extended::parse(&text));
            number.ok_or_else(Fail::not_float)?
        }
        None => Extended::ZERO,
    };
    let by = Extended::parse(call.arg(2)).ok_or_else(Fail::not_float)?;
    let sum = number
        .add(by)
        .ok_or_else(|| Fail::said("ERR increment would produce NaN or Infinity"))?;
    let text = sum.format();
    put(call, old.as_ref(), text.as_bytes(), Form::Text)?;
    call.reply.bulk(text.as_bytes());
    Ok(())
}

/// Puts a string in the place of another, which keeps its deadline.
fn put(call: &mut Call<'_, '_>, old: Option<&Record>, text: &[u8], form: Form) -> Result<(), Fail> {
    let value = call.space.new_text(call.arg(1), text, form)?;
    let deadline = old.and_then(|record| record.deadline);
    let record = Record { deadline, value };
    call.space.put_over(call.arg(1), old, &record)
}
