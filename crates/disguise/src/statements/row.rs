//! Values of a row, found and replaced by the names of its columns.

use crate::database::value::Value;
use crate::schema::ResolvedTable;

/// Returns the value of `column` in `row`.
pub(crate) fn at<'r>(columns: &[String], row: &'r [Value], column: &str) -> Option<&'r Value> {
    columns
        .iter()
        .position(|known| known == column)
        .and_then(|index| row.get(index))
}

/// Replaces the value of `column` in `row`.
pub(crate) fn put(columns: &[String], row: &mut [Value], column: &str, value: Value) {
    if let Some(place) = columns
        .iter()
        .position(|known| known == column)
        .and_then(|index| row.get_mut(index))
    {
        *place = value;
    }
}

/// Returns the values of `wanted` in `row`.
pub(crate) fn picked(columns: &[String], row: &[Value], wanted: &[String]) -> Vec<Value> {
    wanted
        .iter()
        .filter_map(|column| at(columns, row, column).cloned())
        .collect()
}

/// Returns the values of `wanted` in `row`, if each has one that is not NULL: others refer to no row.
pub(crate) fn whole_key(
    columns: &[String],
    row: &[Value],
    wanted: &[String],
) -> Option<Vec<Value>> {
    let key = picked(columns, row, wanted);
    let is_whole = key.len() == wanted.len() && !key.iter().any(Value::is_null);
    is_whole.then_some(key)
}

/// Returns the identity of a row after `column` got `value`.
pub(crate) fn moved(
    table: &ResolvedTable,
    identity: &[Value],
    column: &str,
    value: &Value,
) -> Vec<Value> {
    let mut identity = identity.to_vec();
    put(&table.identity, &mut identity, column, value.clone());
    identity
}

/// Values as bytes, to compare and sort them.
pub(crate) fn encoded(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        value.encode(&mut out);
    }
    out
}
