//! `export`: what disguises hide of a person, for that person.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_disguise::{Cells, DisguiseId, Hidden, HiddenChange, Value};
use probity_log::clock::{Clock as _, SystemClock};
use serde::Serialize;
use serde_json::{Map, Number, json};

use super::change::{print_entry, recorded};
use super::credential::Brought;
use super::recorder::{Recorded, Recorder};
use super::{refused, stored};
use crate::args::ExportHidden;
use crate::config::Environment;
use crate::entry_json::format_time;
use crate::failure::{Failure, Status};
use crate::output::Output;

/// The form that `pocket create --disguises` takes.
#[derive(Serialize)]
struct Exported {
    rows: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<Recorded>,
}

pub(super) fn export(args: &ExportHidden, environment: &Environment) -> Result<Status, Failure> {
    let mut engine = stored(&args.database, environment)?;
    let brought = Brought::read(&args.holder.credential)?;
    let user = engine.user(&args.holder.user).map_err(refused)?;
    let recorder = Recorder::open(&args.log, environment, &mut engine)?;
    let time = SystemClock::new().now();
    let outcome = engine.export(&user, &brought.credential(), args.id, time);
    let (hidden, entry) = recorded(engine, recorder, outcome.map_err(refused))?;
    let mut output = Output::new();
    if args.json {
        let rows = hidden.iter().map(row_json).collect();
        output.json(&Exported { rows, entry })?;
    } else {
        print(&hidden, &mut output)?;
        print_entry(entry.as_ref(), &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn row_json(it: &Hidden) -> serde_json::Value {
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

const fn what(change: &HiddenChange) -> &'static str {
    match change {
        HiddenChange::Removed(_) => "removed",
        HiddenChange::Left(_) => "left",
        HiddenChange::Modified { .. } => "modified",
        HiddenChange::Decorrelated { .. } => "decorrelated",
        _ => "changed",
    }
}

fn cells_json(cells: &Cells) -> serde_json::Value {
    let cells = cells.iter();
    let map: Map<String, serde_json::Value> = cells
        .map(|(name, value)| (name.clone(), value_json(value)))
        .collect();
    serde_json::Value::Object(map)
}

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

fn print(hidden: &[Hidden], output: &mut Output) -> Result<(), Failure> {
    let mut last: Option<DisguiseId> = None;
    for it in hidden {
        if last != Some(it.disguise) {
            last = Some(it.disguise);
            let time = it.time.map_or_else(|| "-".to_owned(), format_time);
            output.line(&format!("disguise {}  {time}", it.disguise))?;
        }
        let change = match &it.change {
            HiddenChange::Removed(row) | HiddenChange::Left(row) => cells_json(row).to_string(),
            HiddenChange::Modified {
                column,
                before,
                after,
            }
            | HiddenChange::Decorrelated {
                column,
                before,
                after,
            } => format!("{column} {} -> {}", value_json(before), value_json(after)),
            _ => String::new(),
        };
        let identity = it
            .identity
            .iter()
            .map(|(_, value)| value_json(value).to_string());
        let identity = identity.collect::<Vec<_>>().join(", ");
        let what = what(&it.change);
        output.line(&format!("  {} {identity} {what}: {change}", it.table))?;
    }
    Ok(())
}
