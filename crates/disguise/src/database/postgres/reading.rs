//! The forms in which values of `PostgreSQL` are read.

use postgres::types::Type;
use postgres::{Column, Row, Statement};

use super::refused;
use crate::database::DatabaseError;
use crate::database::value::Value;

/// The first number of a type that is not built in.
const TYPES_OF_OTHERS: u32 = 16_384;

/// The texts of a database, as they are in Unicode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    /// Each of them is another.
    OneToOne,
    /// Several may be one.
    WithTwins,
}

/// A query whose answer is read without loss.
#[derive(Clone)]
pub(super) struct Readable {
    pub(super) statement: Statement,
    /// The columns whose texts were compared with what they are in Unicode: an answer ends with
    /// whether each is the same.
    pub(super) checked: Vec<String>,
}

impl Readable {
    /// Takes a query as it is.
    pub(super) const fn of(statement: Statement) -> Self {
        Self {
            statement,
            checked: Vec::new(),
        }
    }

    /// Returns the values of a row, all of which can be written back.
    pub(super) fn values(&self, row: &Row) -> Result<Vec<Value>, DatabaseError> {
        let width = row.len().saturating_sub(self.checked.len());
        for (index, name) in self.checked.iter().enumerate() {
            let is_same: Option<bool> =
                row.try_get(width.saturating_add(index)).map_err(refused)?;
            if is_same != Some(true) {
                return Err(DatabaseError::of_twin_in(None, name));
            }
        }
        (0..width).map(|index| read(row, index)).collect()
    }
}

/// Returns the query with every column of a type that is not read directly turned into text, and,
/// where texts may have twins, with a check of each text; then also the columns that are
/// checked. Nothing is returned for a query that is read as it is.
pub(super) fn wrapped(
    sql: &str,
    columns: &[Column],
    texts: Texts,
) -> Option<(String, Vec<String>)> {
    let has_twins = texts == Texts::WithTwins;
    if !has_twins && columns.iter().all(|it| is_direct(it.type_())) {
        return None;
    }
    let names: Vec<String> = (0..columns.len()).map(|it| format!("c{it}")).collect();
    let read = columns.iter().zip(&names);
    let mut read: Vec<String> = read.map(|(column, name)| text(column, name)).collect();
    let mut checked = Vec::new();
    let is_text = |it: &Column| !is_number(it.type_()) && *it.type_() != Type::BYTEA;
    for (index, column) in columns.iter().enumerate() {
        if let Some(text) = read.get(index).filter(|_| has_twins && is_text(column)) {
            let check = format!(
                "({text} IS NULL OR convert_from(convert_to({text}, 'UTF8'), 'UTF8') = ({text}) COLLATE \"C\")"
            );
            checked.push(column.name().to_owned());
            read.push(check);
        }
    }
    let sql = format!(
        "WITH q({}) AS ({sql}) SELECT {} FROM q",
        names.join(","),
        read.join(",")
    );
    Some((sql, checked))
}

/// Returns how a column is read, which the query calls `name`. A cast to text may be one of the
/// application's own, and of `bpchar` it cuts off spaces, so such types are read by their output
/// functions; `format` would make an empty text of NULL. Of a built-in type the cast says no less.
fn text(column: &Column, name: &str) -> String {
    let of = column.type_();
    let is_unbounded = *of == Type::BPCHAR && column.type_modifier() < 0;
    if is_direct(of) {
        name.to_owned()
    } else if of.oid() >= TYPES_OF_OTHERS || is_unbounded {
        format!("CASE WHEN num_nulls({name}) = 0 THEN format('%s', {name}) END")
    } else {
        format!("{name}::text")
    }
}

fn is_number(of: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8].contains(of)
}

fn is_direct(of: &Type) -> bool {
    is_number(of) || [Type::TEXT, Type::VARCHAR, Type::BYTEA].contains(of)
}

fn read(row: &Row, index: usize) -> Result<Value, DatabaseError> {
    let of = row
        .columns()
        .get(index)
        .map_or(Type::TEXT, |column| column.type_().clone());
    let value = match of {
        Type::INT2 => row
            .try_get::<_, Option<i16>>(index)
            .map(|it| it.map(|it| Value::Int(it.into()))),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(index)
            .map(|it| it.map(|it| Value::Int(it.into()))),
        Type::INT8 => row
            .try_get::<_, Option<i64>>(index)
            .map(|it| it.map(Value::Int)),
        Type::BYTEA => row
            .try_get::<_, Option<Vec<u8>>>(index)
            .map(|it| it.map(Value::Bytes)),
        _ => row
            .try_get::<_, Option<String>>(index)
            .map(|it| it.map(Value::Text)),
    };
    Ok(value.map_err(refused)?.unwrap_or(Value::Null))
}
