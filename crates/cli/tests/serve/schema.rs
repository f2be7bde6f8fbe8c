//! A check that a value fits a schema of the server's own description, as far as that description
//! goes.

use serde_json::Value;

/// Stops the test when `value` is not what `schema` says.
pub(crate) fn expect(document: &Value, schema: &Value, value: &Value) {
    if let Err(what) = fits(document, schema, value, "") {
        panic!("{what}\n{value}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/components/schemas/").unwrap();
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name} is not described");
        return fits(document, schema, value, place);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = |it: &&Value| fits(document, it, value, place).is_ok();
        let count = choices.iter().filter(fitting).count();
        return match count {
            1 => Ok(()),
            _ => Err(format!("{place} fits {count} of {schema}")),
        };
    }
    if !is_typed(&schema["type"], value) {
        return Err(format!("{place} is not of the type of {schema}"));
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        return Err(format!("{place} is none of {choices:?}"));
    }
    if let Some(items) = value.as_array() {
        for (index, item) in items.iter().enumerate() {
            fits(
                document,
                &schema["items"],
                item,
                &format!("{place}/{index}"),
            )?;
        }
    }
    members(document, schema, value, place)
}

fn is_typed(said: &Value, value: &Value) -> bool {
    match said {
        Value::Null => true,
        Value::Array(all) => all.iter().any(|it| is_typed(it, value)),
        Value::String(name) => match name.as_str() {
            "null" => value.is_null(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other} is not used by the server"),
        },
        other => panic!("{other} is no type"),
    }
}

fn members(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Some(members) = value.as_object() else {
        return Ok(());
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            return Err(format!("{place} lacks {name}"));
        }
    }
    let others = &schema["additionalProperties"];
    for (name, member) in members {
        let place = format!("{place}/{name}");
        match (&schema["properties"][name], others) {
            (Value::Object(_), _) => {
                fits(document, &schema["properties"][name], member, &place)?;
            }
            (_, Value::Object(_)) => fits(document, others, member, &place)?,
            // An object of which nothing is said may hold anything.
            _ if schema["properties"].is_null() => {}
            _ => return Err(format!("{place} is not described")),
        }
    }
    Ok(())
}
