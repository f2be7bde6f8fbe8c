//! What disguises hide of a person, as JSON: the form that `pocket create --disguises` takes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_disguise::{Cells, Hidden, HiddenChange, Value};
use probity_format::time::format_time;
use serde_json::{Map, Number, json};

/// A hidden row or value. Numbers are numbers, and what JSON has no form for is an object: `{"base64": ...}` for binary,
/// `{"real": ...}` for infinities.
pub fn row_json(it: &Hidden) -> serde_json::Value {
    let mut row = json!({
        "disguise": it.disguise.to_string(),
        "time": it.time.map(format_time),
        "table": it.table,
        "row": cells_json(&it.identity),
        "change": what(&it.change),
    });
    let mut put = |name: &str, value: serde_json::Value| {
        if let Some(members) = row.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
    };
    match &it.change {
        HiddenChange::Removed(cells) | HiddenChange::Left(cells) => {
            put("values", cells_json(cells));
        }
        HiddenChange::Modified {
            column,
            before,
            after,
        }
        | HiddenChange::Decorrelated {
            column,
            before,
            after,
        } => {
            put("values", json!({ column: value_json(before) }));
            put("since", json!({ column: value_json(after) }));
        }
        _ => put("values", json!({})),
    }
    row
}

/// What was done to a row, in one word.
pub const fn what(change: &HiddenChange) -> &'static str {
    match change {
        HiddenChange::Removed(_) => "removed",
        HiddenChange::Left(_) => "left",
        HiddenChange::Modified { .. } => "modified",
        HiddenChange::Decorrelated { .. } => "decorrelated",
        _ => "changed",
    }
}

/// Columns and values as an object.
pub fn cells_json(cells: &Cells) -> serde_json::Value {
    let cells = cells.iter();
    let map: Map<String, serde_json::Value> = cells
        .map(|(name, value)| (name.clone(), value_json(value)))
        .collect();
    serde_json::Value::Object(map)
}

/// One value of a database.
pub fn value_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Real(number) => match Number::from_f64(*number) {
            Some(number) => serde_json::Value::Number(number),
            None => json!({"real": number.to_string()}),
        },
        Value::Bytes(bytes) => json!({"base64": STANDARD.encode(bytes)}),
        other => json!(other.to_string()),
    }
}
