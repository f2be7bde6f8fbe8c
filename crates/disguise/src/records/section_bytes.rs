//! The bytes of a section of a bag (docs/disguise-format.md, "Bag").

use probity_format::DecodeError;
use probity_format::wire::{Reader, put_varint};

use super::bag::{LIST_MAX, put_names, take_names};
use super::repeat::{Values, Writer};
use super::section::{Change, Copied, Modified, Section};
use super::shape::{ShapeId, ShapeOf};
use crate::database::value::{put_bytes, put_count, take_text};

pub(super) fn encode_section<'v>(section: &'v Section, values: &mut Writer<'v>, out: &mut Vec<u8>) {
    values.begin();
    put_varint(out, u64::from(section.step));
    put_bytes(out, section.table.as_bytes());
    match &section.change {
        Change::Removed { columns, rows } => {
            out.push(0);
            put_names(out, columns);
            put_count(out, rows.len());
            for row in rows {
                values.row(row.iter(), out);
            }
        }
        Change::Copied {
            departed,
            columns,
            rows,
        } => {
            out.push(if *departed { 4 } else { 1 });
            put_names(out, columns);
            put_count(out, rows.len());
            for copy in rows {
                out.extend_from_slice(&copy.version.to_le_bytes());
                values.row(copy.row.iter(), out);
            }
        }
        Change::Modified {
            identity,
            column,
            rows,
        } => {
            out.push(2);
            encode_rows((identity, column), rows, values, out);
        }
        Change::Decorrelated {
            identity,
            column,
            rows,
        } => {
            out.push(3);
            encode_rows((identity, column), rows, values, out);
        }
    }
}

fn encode_rows<'v>(
    (identity, column): (&[String], &str),
    rows: &'v [Modified],
    values: &mut Writer<'v>,
    out: &mut Vec<u8>,
) {
    put_names(out, identity);
    put_bytes(out, column.as_bytes());
    put_count(out, rows.len());
    for row in rows {
        let cells = [&row.before, &row.after];
        values.row(row.identity.iter().chain(cells), out);
    }
}

pub(super) fn decode_section(
    reader: &mut Reader<'_>,
    values: &mut Values,
) -> Result<Section, DecodeError> {
    let step =
        u32::try_from(reader.varint()?).map_err(|_wide| reader.error("has a step past 32 bits"))?;
    let table = take_text(reader)?;
    values.begin();
    let change = match reader.u8()? {
        0 => {
            let columns = take_names(reader)?;
            let count = reader.length(LIST_MAX)?;
            let mut rows = Vec::new();
            for _ in 0..count {
                rows.push(values.row(reader, columns.len())?);
            }
            Change::Removed { columns, rows }
        }
        kind @ (1 | 4) => {
            let columns = take_names(reader)?;
            let count = reader.length(LIST_MAX)?;
            let mut rows = Vec::new();
            for _ in 0..count {
                let version = reader.u64()?;
                let row = values.row(reader, columns.len())?;
                rows.push(Copied { version, row });
            }
            Change::Copied {
                departed: kind == 4,
                columns,
                rows,
            }
        }
        2 => {
            let ColumnRows {
                identity,
                column,
                rows,
            } = decode_rows(reader, values)?;
            Change::Modified {
                identity,
                column,
                rows,
            }
        }
        3 => {
            let ColumnRows {
                identity,
                column,
                rows,
            } = decode_rows(reader, values)?;
            Change::Decorrelated {
                identity,
                column,
                rows,
            }
        }
        _ => return Err(reader.error("has an unknown kind of change")),
    };
    Ok(Section {
        step,
        table,
        change,
        shape: ShapeOf::None,
        held: None,
    })
}

/// Writes a shape as its place in the list `all` of a bag, from 1; 0 is none.
pub(super) fn encode_shape(shape: &ShapeOf, all: &[ShapeId], out: &mut Vec<u8>) {
    let place = shape
        .id()
        .and_then(|id| all.iter().position(|it| *it == id));
    put_count(out, place.map_or(0, |it| it.saturating_add(1)));
}

pub(super) fn take_shape(reader: &mut Reader<'_>, all: &[ShapeId]) -> Result<ShapeOf, DecodeError> {
    let Some(place) = reader.length(LIST_MAX)?.checked_sub(1) else {
        return Ok(ShapeOf::None);
    };
    let id = all.get(place);
    let id = id.ok_or_else(|| reader.error("has a shape that it does not list"))?;
    Ok(ShapeOf::Named(*id))
}

/// Writes how many updates a section met that is held: 0 where it is not, or one more.
pub(super) fn encode_held(held: Option<u32>, out: &mut Vec<u8>) {
    put_varint(out, held.map_or(0, |it| u64::from(it).saturating_add(1)));
}

pub(super) fn take_held(reader: &mut Reader<'_>) -> Result<Option<u32>, DecodeError> {
    let held = reader.varint()?.checked_sub(1);
    let held = held.map(u32::try_from).transpose();
    held.map_err(|_wide| reader.error("has a number of updates past 32 bits"))
}

/// Writes the shapes that a bag names.
pub(super) fn encode_shapes(all: &[ShapeId], out: &mut Vec<u8>) {
    put_count(out, all.len());
    for id in all {
        out.extend_from_slice(id);
    }
}

/// Reads the shapes that a bag names, in rising order.
pub(super) fn take_shapes(reader: &mut Reader<'_>) -> Result<Vec<ShapeId>, DecodeError> {
    let mut all: Vec<ShapeId> = Vec::new();
    for _ in 0..reader.length(LIST_MAX)? {
        let id = reader.array()?;
        if all.last().is_some_and(|last| *last >= id) {
            return Err(reader.error("has shapes out of order"));
        }
        all.push(id);
    }
    Ok(all)
}

/// Rows of which one column was overwritten.
struct ColumnRows {
    identity: Vec<String>,
    column: String,
    rows: Vec<Modified>,
}

fn decode_rows(reader: &mut Reader<'_>, values: &mut Values) -> Result<ColumnRows, DecodeError> {
    let identity = take_names(reader)?;
    let column = take_text(reader)?;
    let count = reader.length(LIST_MAX)?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut row = values.row(reader, identity.len().saturating_add(2))?;
        let (Some(after), Some(before)) = (row.pop(), row.pop()) else {
            return Err(reader.error("has a row without values"));
        };
        rows.push(Modified {
            identity: row,
            before,
            after,
        });
    }
    Ok(ColumnRows {
        identity,
        column,
        rows,
    })
}
