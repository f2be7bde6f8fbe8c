//! Section bodies of version 2: read, never written.
//!
//! They differ from those of version 3 in the numbers of the columns' bits, and in the order and
//! forms of the text columns. A column without values is present too.

use super::decode::{Columns, Parts, Text, check_numbers, width_for, words};
use super::{ColumnSet, text_bit};
use crate::error::DecodeError;
use crate::wire::Reader;

/// The columns of a section that holds every column: texts 0 to 7, payload, times and outcomes.
const ALL: u16 = 0x3FF;
const PAYLOAD: u16 = 1 << 8;
const TIME: u16 = 1 << 9;
const KEY: u16 = 1 << 1;
const SUBJECTS: u16 = 1 << 2;

/// The order of the text columns; others may be derived from the first three.
const ORDER: [usize; 8] = [1, 5, 2, 0, 3, 4, 6, 7];
const PARENTS: usize = 3;

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;
const IDENTITY: u8 = 2;
/// Form of numbers in which each is one byte in the plain part.
const BYTES: u8 = 3;
const DERIVED: u8 = 4;

/// Returns the columns that `bits` of version 2 stand for.
pub(super) fn set(bits: u16, reader: &Reader<'_>) -> Result<ColumnSet, DecodeError> {
    let known = [ALL, ALL & !(KEY | PAYLOAD), KEY | SUBJECTS | PAYLOAD];
    if !known.contains(&bits) {
        return Err(reader.error("holds an unknown set of columns"));
    }
    let texts = (0..ORDER.len()).filter(|column| bits >> column & 1 == 1);
    let mut set = texts.fold(0, |set, column| set | text_bit(column));
    if bits & PAYLOAD != 0 {
        set |= ColumnSet::PAYLOAD;
    }
    if bits & TIME != 0 {
        set |= ColumnSet::TIME;
    }
    Ok(ColumnSet(set))
}

/// Decodes the text columns into `columns`.
pub(super) fn texts<'a>(
    columns: &mut Columns<'a>,
    parts: &mut Parts<'_, 'a>,
) -> Result<(), DecodeError> {
    for (place, column) in ORDER.into_iter().enumerate() {
        if columns.set.has_text(column) {
            let text = text(columns, parts, place)?;
            if let Some(slot) = columns.texts.get_mut(column) {
                *slot = text;
            }
        }
    }
    Ok(())
}

fn text<'a>(
    columns: &Columns<'a>,
    parts: &mut Parts<'_, 'a>,
    place: usize,
) -> Result<Text<'a>, DecodeError> {
    let count = columns.count;
    let mut text = Text {
        words: words(parts, count)?,
        ..Text::default()
    };
    let distinct = text.words.len();
    let width = width_for(distinct);
    let reader = &mut parts.packed;
    match reader.u8()? {
        CONSTANT if distinct <= 1 => return Ok(text),
        IDENTITY if distinct == count => {
            text.identity = true;
            return Ok(text);
        }
        PACKED => text.numbers = super::bits::packed(reader, count, width)?,
        BYTES => {
            let bytes = parts.plain.take(count)?.iter();
            text.numbers = bytes.copied().map(u32::from).collect();
        }
        DERIVED => {
            let parent = usize::from(reader.u8()?);
            let before = ORDER.into_iter().take(place.min(PARENTS));
            let parent = before.into_iter().find(|column| *column == parent);
            text.numbers = columns.derived(reader, parent, width)?;
        }
        _ => return Err(reader.error("has a text column of an unknown form")),
    }
    check_numbers(&parts.packed, &text.numbers, distinct)?;
    Ok(text)
}
