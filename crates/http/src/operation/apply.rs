//! Applying disguises: to one person, and to everybody whom a specification means.

use std::collections::BTreeMap;

use probity_disguise::{Applied, ApplyRequest, Value};
use probity_log::clock::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::credential::CredentialForm;
use crate::desk::{Desk, EntryForm, Session};
use crate::problem::{Kind, Problem};
use crate::time::Time;

/// Values of a specification's parameters: texts, numbers and null.
pub(super) type Parameters = BTreeMap<String, serde_json::Value>;

/// What is applied to a user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Apply {
    /// The specification, by its name in the server's configuration.
    spec: String,
    /// Id of the user, as in the users table.
    user: String,
    /// Values of the specification's parameters: texts, numbers and null.
    #[serde(default)]
    #[schema(value_type = Object, required = false)]
    parameters: Parameters,
    /// Credential of the user: rows under placeholders that the user speaks for are meant too.
    #[serde(default)]
    over: Option<CredentialForm>,
    /// When it can no longer be revealed, as of RFC 3339, to the next midnight UTC; for good when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires: Option<Time>,
    /// Rows of a chunk: many rows are hidden in several transactions of at most so many; resume goes on with one that was
    /// cut short, and reveal takes it back. All in one transaction when absent.
    #[serde(default)]
    #[schema(minimum = 1)]
    chunk_rows: Option<u32>,
}

/// What is applied to everybody whom the specification means.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyEverybody {
    /// The specification, by its name in the server's configuration.
    spec: String,
    /// Values of the specification's parameters: texts, numbers and null.
    #[serde(default)]
    #[schema(value_type = Object, required = false)]
    parameters: Parameters,
    /// When it can no longer be revealed, as of RFC 3339, to the next midnight UTC; for good when absent.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires: Option<Time>,
    /// Rows of a chunk: all rows are hidden in several transactions of at most so many; resume goes on with one that was
    /// cut short, without whoever reveals it meanwhile. All in one transaction when absent.
    #[serde(default)]
    #[schema(minimum = 1)]
    chunk_rows: Option<u32>,
}

/// What a disguise did.
#[derive(Serialize, ToSchema)]
pub(super) struct AppliedForm {
    /// The disguise, needed to reveal it.
    id: String,
    /// Rows touched in each table.
    rows: BTreeMap<String, u64>,
    /// Placeholder users made.
    placeholders: u64,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl AppliedForm {
    pub(super) fn new(applied: Applied, entry: Option<EntryForm>) -> Self {
        Self {
            id: applied.id.to_string(),
            rows: applied.rows,
            placeholders: applied.pseudoprincipals,
            entry,
        }
    }
}

impl Operation for Apply {
    const NAME: &'static str = "apply";
    const SUMMARY: &'static str = "Hides a user as a specification says: all of it, or nothing";
    type Answer = AppliedForm;

    fn run(&self, desk: &Desk<'_>) -> Result<AppliedForm, Problem> {
        let spec = desk.place.spec(&self.spec)?;
        let over = self
            .over
            .as_ref()
            .map(CredentialForm::brought)
            .transpose()?;
        let mut session = desk.described(spec)?;
        let request = ApplyRequest {
            spec: &spec.file.spec,
            user: Some(session.user(&self.user)?),
            over: over.as_ref().map(|it| it.credential()),
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            time: desk.time,
        };
        desk.place.install(&mut session.engine, Some(spec))?;
        applied(session, &request, self.chunk_rows)
    }
}

impl Operation for ApplyEverybody {
    const NAME: &'static str = "apply-everybody";
    const SUMMARY: &'static str =
        "Hides everybody whom a specification means: all of it, or nothing";
    type Answer = AppliedForm;

    fn run(&self, desk: &Desk<'_>) -> Result<AppliedForm, Problem> {
        let spec = desk.place.spec(&self.spec)?;
        let mut session = desk.described(spec)?;
        desk.place.install(&mut session.engine, Some(spec))?;
        let request = ApplyRequest {
            spec: &spec.file.spec,
            user: None,
            over: None,
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            time: desk.time,
        };
        applied(session, &request, self.chunk_rows)
    }
}

fn applied(
    mut session: Session,
    request: &ApplyRequest<'_>,
    chunk_rows: Option<u32>,
) -> Result<AppliedForm, Problem> {
    match chunk_rows {
        None => {
            let applied = session.engine.apply(request)?;
            Ok(AppliedForm::new(applied, session.entry()))
        }
        Some(0) => Err(Problem::new(Kind::BadRequest, "chunk_rows is 0")),
        Some(rows) => in_chunks(session, request, rows),
    }
}

fn in_chunks(
    mut session: Session,
    request: &ApplyRequest<'_>,
    rows: u32,
) -> Result<AppliedForm, Problem> {
    let clock = SystemClock::new();
    let id = session.engine.begin(request)?;
    let over = request.over.as_ref();
    let applied = session.engine.finish_over(id, over, rows, || clock.now());
    // The disguise was begun: to begin another would not be to try the same again.
    let applied = applied.map_err(|error| Problem::from(error).begun(id))?;
    Ok(AppliedForm::new(applied, session.entry()))
}

/// The values of parameters, typed as the database takes them.
pub(super) fn values(parameters: &Parameters) -> Result<BTreeMap<String, Value>, Problem> {
    let value = |(name, json): (&String, &serde_json::Value)| {
        let value = parameter(json).ok_or_else(|| {
            let detail = format!("the parameter {name} is no text, no number and not null");
            Problem::new(Kind::BadRequest, detail)
        })?;
        Ok((name.clone(), value))
    };
    parameters.iter().map(value).collect()
}

fn parameter(json: &serde_json::Value) -> Option<Value> {
    match json {
        serde_json::Value::Null => Some(Value::Null),
        serde_json::Value::String(text) => Some(Value::Text(text.clone())),
        serde_json::Value::Number(number) => {
            let signed = number.as_i64().map(Value::Int);
            let unsigned = || number.as_u64().map(Value::UInt);
            signed
                .or_else(unsigned)
                .or_else(|| number.as_f64().map(Value::Real))
        }
        _ => None,
    }
}
