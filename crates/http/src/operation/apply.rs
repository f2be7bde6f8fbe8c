//! Applying disguises: to one person, or to everybody whom a specification means.

use std::collections::BTreeMap;

use probity_disguise::{Applied, ApplyRequest, Error, Value};
use probity_log::clock::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::reveal::disguise;
use crate::credential::CredentialForm;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext, Session};
use crate::time::Time;

/// Values of a specification's parameters: texts, numbers and null.
pub(super) type Parameters = BTreeMap<String, serde_json::Value>;

/// Defines a request that applies a specification: its own fields follow those that all of them
/// have. A flattened common form would not refuse unknown fields.
macro_rules! applying {
    ($(#[$of:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$of])*
        #[derive(Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// The specification, by its name in the server's configuration.
            spec: String,
            /// Values of the specification's parameters: texts, numbers and null.
            #[serde(default)]
            #[schema(value_type = Object, required = false)]
            parameters: Parameters,
            /// When what is hidden can no longer be revealed, as of RFC 3339, to the next midnight UTC; for good when
            /// absent.
            #[serde(default)]
            #[schema(value_type = Option<String>, format = DateTime)]
            expires: Option<Time>,
            $($(#[$about])* $field: $type,)*
        }
    };
}
pub(super) use applying;

applying! {
    /// A disguise to apply to a user.
    Apply {
        /// Id of the user, as in the users table.
        user: String,
        /// Credential of the user: rows under placeholders that the user speaks for are meant too.
        #[serde(default)]
        over: Option<CredentialForm>,
        /// Rows of a chunk: many rows are hidden in several transactions of at most so many; resume goes on with one that was
        /// cut short, and reveal takes it back. All in one transaction when absent.
        #[serde(default)]
        #[schema(minimum = 1)]
        chunk_rows: Option<u32>,
    }
}

applying! {
    /// A disguise to apply to everybody whom the specification means.
    ApplyEverybody {
        /// Rows of a chunk: all rows are hidden in several transactions of at most so many; resume goes on with one that was
        /// cut short, without whoever reveals it meanwhile. All in one transaction when absent.
        #[serde(default)]
        #[schema(minimum = 1)]
        chunk_rows: Option<u32>,
    }
}

/// The effects of a disguise.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct AppliedForm {
    /// The disguise, needed to reveal it.
    id: String,
    /// Rows touched in each table.
    rows: BTreeMap<String, u64>,
    /// Placeholder users made.
    placeholders: u64,
    /// Rows and values in each table, of a disguise of everybody, that lay under placeholders of other disguises: only
    /// whoever is behind a placeholder brings them back, and nobody where that person had everything forgotten.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    under_placeholders: BTreeMap<String, u64>,
    /// Rows and values in each table, of a disguise of everybody, that stay as they are: nobody whom they name is
    /// registered or has an account, so that nobody could bring them back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    of_nobody: BTreeMap<String, u64>,
    /// Disguises that waited for the same user with the same specification: they ended with this one, and are not applied
    /// any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
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
            under_placeholders: applied.under_placeholders,
            of_nobody: applied.of_nobody,
            ended: applied.ended.iter().map(ToString::to_string).collect(),
            entry,
        }
    }
}

impl Operation for Apply {
    const NAME: &'static str = "apply";
    const SUMMARY: &'static str = "Hides a user as a specification says: all of it, or nothing";
    const IS_KEPT: bool = true;
    type Answer = AppliedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<AppliedForm, Problem> {
        let spec = context.database.spec(&self.spec)?;
        let over = self
            .over
            .as_ref()
            .map(CredentialForm::brought)
            .transpose()?;
        let mut session = context.described(spec)?;
        let request = ApplyRequest {
            spec: &spec.file.spec,
            user: Some(session.user(&self.user)?),
            over: over.as_ref().map(|it| it.credential()),
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            time: context.time,
        };
        context.database.install(&mut session.engine, Some(spec))?;
        applied(context, session, &request, self.chunk_rows)
    }
}

impl Operation for ApplyEverybody {
    const NAME: &'static str = "apply-everybody";
    const SUMMARY: &'static str =
        "Hides everybody whom a specification means: all of it, or nothing";
    const IS_KEPT: bool = true;
    type Answer = AppliedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<AppliedForm, Problem> {
        let spec = context.database.spec(&self.spec)?;
        let mut session = context.described(spec)?;
        context.database.install(&mut session.engine, Some(spec))?;
        let request = ApplyRequest {
            spec: &spec.file.spec,
            user: None,
            over: None,
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            time: context.time,
        };
        applied(context, session, &request, self.chunk_rows)
    }
}

fn applied(
    context: &RequestContext<'_>,
    mut session: Session,
    request: &ApplyRequest<'_>,
    chunk_rows: Option<u32>,
) -> Result<AppliedForm, Problem> {
    match chunk_rows {
        None => context.once(&mut session, |engine, entries| {
            let applied = engine.apply(request)?;
            Ok(AppliedForm::new(applied, entries.entry()))
        }),
        Some(0) => Err(Problem::new(Kind::BadRequest, "chunk_rows is 0")),
        Some(rows) => in_chunks(context, session, request, rows),
    }
}

/// The stored state of a request for a disguise in chunks.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum InChunks {
    /// The disguise is done, and this is the answer.
    Done(AppliedForm),
    /// The disguise was begun.
    Begun { id: String },
}

fn in_chunks(
    context: &RequestContext<'_>,
    mut session: Session,
    request: &ApplyRequest<'_>,
    rows: u32,
) -> Result<AppliedForm, Problem> {
    let clock = SystemClock::new();
    let Some(once) = context.asked_once() else {
        let engine = &mut session.engine;
        let applied = engine.chunks().apply(request, rows, || clock.now());
        let applied = applied.map_err(|halted| {
            let is_undone = halted.cause.is_undone();
            let problem = Problem::from(halted.cause);
            match halted.begun {
                Some(id) if is_undone => problem.begun(id),
                Some(id) => problem.begun_unless_undone(id),
                None => problem,
            }
        })?;
        return Ok(AppliedForm::new(applied, session.entry()));
    };
    // A repetition goes on with the disguise that was begun.
    let kept = context.once(&mut session, |engine, _| {
        let id = engine.chunks().begin(request)?.to_string();
        Ok(InChunks::Begun { id })
    })?;
    let id = match kept {
        InChunks::Done(answer) => return Ok(answer),
        InChunks::Begun { id } => disguise(&id)?,
    };
    let (of, now) = ((id, request.over.as_ref()), || clock.now());
    let Session { engine, entries } = &mut session;
    let applied = engine
        .chunks()
        .finish_once(of, rows, now, &once, |applied| {
            let answer = AppliedForm::new(applied.clone(), entries.entry());
            // A value of texts and numbers alone can always be written.
            serde_json::to_vec(&InChunks::Done(answer)).unwrap_or_default()
        });
    let applied = applied.map_err(|error| match error {
        Error::NoSuchDisguise => {
            let detail =
                format!("disguise {id} was ended or finished by another request; look with `list`");
            Problem::new(Kind::AnswerWithheld, detail)
        }
        // The disguise was begun, and a retry would begin another one.
        error => Problem::from(error).begun(id),
    })?;
    Ok(AppliedForm::new(applied, session.entry()))
}

/// Returns the values of parameters, typed as the database takes them.
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
