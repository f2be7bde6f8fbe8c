//! Rows that disguises hide of a person, and whose they are, as text and as the JSON that `pocket
//! create --disguises` takes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_disguise::{Hidden, PersonCommitment, Value};
use probity_format::time::format_time;
use serde::Serialize;
use serde_json::{Map, Number, json};
use utoipa::ToSchema;

/// The person of an export: SHA-256 of a label, the nonce, the tenant if there is one, and the id.
#[derive(Serialize, ToSchema)]
pub struct PersonForm {
    /// 16 random bytes in hexadecimal digits.
    nonce: String,
    /// The hash in hexadecimal digits.
    hash: String,
}

impl From<PersonCommitment> for PersonForm {
    fn from(person: PersonCommitment) -> Self {
        Self {
            nonce: person.nonce(),
            hash: person.hash(),
        }
    }
}

/// Returns a hidden row or value as JSON.
///
/// Integers are numbers with all their digits, real numbers are numbers with the shortest digits that
/// read back the same. What a server tells as text stays one with its digits: decimals, times, and
/// on `PostgreSQL` real numbers. A value that JSON has no form for is an object: `{"base64": ...}`
/// for binary, `{"real": ...}` for infinities.
pub fn row_json(it: &Hidden) -> serde_json::Value {
    let (values, since) = it.change.difference();
    let mut row = json!({
        "disguise": it.disguise.to_string(),
        "time": it.time.map(format_time),
        "table": it.table,
        "row": cells_json(it.identity.iter().map(|(name, value)| (name.as_str(), value))),
        "change": it.change.as_str(),
        "values": cells_json(values),
    });
    if let (false, Some(members)) = (since.is_empty(), row.as_object_mut()) {
        members.insert("since".to_owned(), cells_json(since));
    }
    row
}

/// Returns a hidden row or value as a line of text, without its disguise.
pub fn row_text(it: &Hidden) -> String {
    let identity = it.identity.iter();
    let identity = identity.map(|(_, value)| value_json(value).to_string());
    let identity = identity.collect::<Vec<_>>().join(", ");
    let (values, since) = it.change.difference();
    let change = match (values.as_slice(), since.as_slice()) {
        ([(column, before)], [(_, after)]) => {
            format!("{column} {} -> {}", value_json(before), value_json(after))
        }
        _ => cells_json(values).to_string(),
    };
    format!("{} {identity} {}: {change}", it.table, it.change.as_str())
}

/// Returns columns and values as an object.
fn cells_json<'a>(cells: impl IntoIterator<Item = (&'a str, &'a Value)>) -> serde_json::Value {
    let cells = cells.into_iter();
    let map: Map<String, serde_json::Value> = cells
        .map(|(name, value)| (name.to_owned(), value_json(value)))
        .collect();
    serde_json::Value::Object(map)
}

/// Returns one value of a database as JSON.
fn value_json(value: &Value) -> serde_json::Value {
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
