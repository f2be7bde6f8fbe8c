//! Repetition of operations that a restored backup has missed and the log still holds.

use probity_disguise::{LoggedOperation, MissingOperation, Operations, ReplayRequest, Spec};
use probity_format::time::format_time;
use probity_log::Repair;
use probity_log::reader::Filter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::apply::{Parameters, values};
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};

/// A replay that repeats what a restored backup has missed, or only reports it. All specifications of the configuration are known.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Replay {
    /// Values of the specifications' parameters: texts, numbers and null.
    #[serde(default)]
    #[schema(value_type = Object, required = false)]
    parameters: Parameters,
    /// Change nothing, and say what was missed.
    #[serde(default)]
    #[schema(required = false)]
    dry_run: bool,
}

/// The operations that the database had missed, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ReplayedForm {
    /// True if all of it was done, or could be; the rest has its reason, and stays in the list until it is done by other
    /// means.
    complete: bool,
    /// The operations.
    missed: Vec<MissedForm>,
    /// The number of operations of the log, where all are of other databases or tenants: this is
    /// another one, or it was prepared anew after a backup from before the first registration. 0 where the log has none, and
    /// nothing says that it is the log of this database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    of_other_databases: Option<usize>,
    /// The number of operations of the database of which another log tells, and this one nothing: what else the database
    /// lacks is not known, so that the replay is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    untold: Option<usize>,
    /// The number of operations that other tenants of the database have missed: each has a replay of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    of_other_tenants: Option<usize>,
    /// Disguises that go on in chunks. How far they were the log does not say, so that the replay is not complete until they
    /// are done or ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    unfinished: Vec<String>,
    /// Places of the log whose loss was accepted: what they told of is not known, so that the replay is not complete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    lost: Vec<LostForm>,
    /// The last entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

/// Frames of the log whose loss was accepted.
#[derive(Serialize, ToSchema)]
struct LostForm {
    /// Their stream.
    stream: String,
    /// The part that is lost: the `frames`, or `sections` of theirs that nobody can open.
    kind: &'static str,
    /// The first frame.
    from_frame: u64,
    /// The frame behind the last.
    to_frame: u64,
}

impl From<&Repair> for LostForm {
    fn from(loss: &Repair) -> Self {
        Self {
            stream: loss.stream.to_string(),
            kind: loss.lost_part(),
            from_frame: loss.from,
            to_frame: loss.to,
        }
    }
}

/// An operation that the database had missed.
#[derive(Serialize, ToSchema)]
struct MissedForm {
    /// The action of its entry.
    action: String,
    /// The disguise or hold that it was about, where it was about one.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    key: String,
    /// The name of the operation, by which `probity disguise dismiss` ends it on the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    /// When it was done.
    time: String,
    /// The outlook: possible, done, taken back, asked for again, or not done.
    outlook: &'static str,
    /// Why it is not done, or how it was done otherwise than then.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<MissingOperation> for MissedForm {
    fn from(missed: MissingOperation) -> Self {
        Self {
            outlook: missed.outlook.as_str(),
            reason: missed.outlook.reason().map(str::to_owned),
            action: missed.action,
            key: missed.key,
            operation: missed.operation,
            time: format_time(missed.time),
        }
    }
}

impl Operation for Replay {
    const NAME: &'static str = "replay";
    const SUMMARY: &'static str = "Repeats the logged operations that a restored backup lacks, as far as the log and the specifications tell";
    type Answer = ReplayedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ReplayedForm, Problem> {
        // The whole log is read first: an operation left out of it would look as if it had never
        // been.
        let operations = logged_operations(context)?;
        let mut session = context.stored().map_err(Problem::of_early_backup)?;
        let specs: Vec<Spec> = context.database.specs().cloned().collect();
        let request = ReplayRequest {
            told: &operations,
            specs: &specs,
            parameters: values(&self.parameters)?,
            time: context.time,
        };
        let strangers = session.engine.missed().strangers(&operations)?;
        let untold = session.engine.missed().untold(&operations)?;
        let of_others = session.engine.missed().of_other_tenants(&operations)?;
        let missed = if self.dry_run {
            session.engine.missed().list(&request)?
        } else {
            session.engine.missed().replay(&request)?
        };
        let unfinished = session.engine.chunks().unfinished()?.into_iter();
        let unfinished = unfinished.map(|id| id.to_string());
        let is_left = |id: &String| !missed.iter().any(|it| it.key == *id);
        let unfinished: Vec<String> = unfinished.filter(is_left).collect();
        let is_known = strangers.is_none() && untold == 0 && unfinished.is_empty();
        let lost: Vec<LostForm> = context.reader.losses().map(LostForm::from).collect();
        let is_done = missed.iter().all(|it| it.outlook.reason().is_none());
        Ok(ReplayedForm {
            complete: is_done && lost.is_empty() && is_known,
            of_other_databases: strangers,
            untold: (untold > 0).then_some(untold),
            of_other_tenants: (of_others > 0).then_some(of_others),
            unfinished,
            lost,
            missed: missed.into_iter().map(MissedForm::from).collect(),
            entry: session.entry(),
        })
    }
}

/// Reads the operations from every stream of the log; their content says that they are of this
/// database. For an erased entry only the stream says it.
fn logged_operations(context: &RequestContext<'_>) -> Result<Vec<LoggedOperation>, Problem> {
    let mut operations = Operations::default();
    for found in context.reader.iter(&Filter::default()) {
        let found = found.map_err(|error| {
            Problem::new(
                Kind::Defect,
                "the log cannot be read, so nothing was done again",
            )
            .because(&error)
        })?;
        if !found.is_erased() || *found.stream() == context.database.stream {
            operations.add(found.stream().as_str(), &found.entry(), found.is_erased());
        }
    }
    Ok(operations.in_order())
}
