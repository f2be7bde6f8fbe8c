//! The native form of a specification, TOML, with parameters.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Kind, Spec, SpecError, Transformation, condition, joined};
use crate::generate::Generator;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Parameter name to its default; the empty text means that the caller must give it.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<Remove>,
    #[serde(default)]
    modify: Vec<Modify>,
    #[serde(default)]
    decorrelate: Vec<Decorrelate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    table: String,
    #[serde(default)]
    r#where: String,
    #[serde(default)]
    from: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Modify {
    table: String,
    column: String,
    value: Generator,
    #[serde(default)]
    r#where: String,
    #[serde(default)]
    from: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decorrelate {
    table: String,
    owners: Vec<String>,
    #[serde(default)]
    group_by: Vec<String>,
    #[serde(default)]
    r#where: String,
    #[serde(default)]
    from: String,
}

pub(super) fn spec(text: &str) -> Result<Spec, SpecError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .and_then(|span| text.get(..span.start))
            .map_or(1, |before| before.matches('\n').count().saturating_add(1));
        SpecError::new(format!("line {line}"), error.message().to_owned())
    })?;
    let mut spec = Spec::default();
    let mut push = |word: &str, index: usize, table: String, texts: [&str; 2], kind: Kind| {
        spec.transformations.push(Transformation {
            place: format!("{word} {}, table {table}", index.saturating_add(1)),
            table,
            predicate: condition(texts[0]),
            from: joined(texts[1]),
            kind,
        });
    };
    for (index, it) in file.remove.into_iter().enumerate() {
        push(
            "remove",
            index,
            it.table,
            [&it.r#where, &it.from],
            Kind::Remove,
        );
    }
    for (index, it) in file.modify.into_iter().enumerate() {
        let kind = Kind::Modify {
            column: it.column,
            generator: it.value,
        };
        push("modify", index, it.table, [&it.r#where, &it.from], kind);
    }
    for (index, it) in file.decorrelate.into_iter().enumerate() {
        let kind = Kind::Decorrelate {
            group_by: it.group_by,
            owners: it.owners,
        };
        push(
            "decorrelate",
            index,
            it.table,
            [&it.r#where, &it.from],
            kind,
        );
    }
    spec.parameters = file
        .parameters
        .into_iter()
        .map(|(name, default)| (name, (!default.is_empty()).then_some(default)))
        .collect();
    Ok(spec)
}
