//! Grace periods and ends: `schedule`, `scheduled`, `cancel`, `sweep`, and `resume` of interrupted
//! disguises.

use probity_disguise::{ApplyRequest, CHUNK_ROWS, DisguiseId, Error, Swept};
use probity_format::time::format_time;
use probity_log::clock::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::apply::{AppliedForm, Parameters, applying, values};
use super::reveal::disguise;
use crate::credential::CredentialForm;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};
use crate::time::Time;

applying! {
    /// A disguise to apply to a user later, unless it is cancelled before.
    Schedule {
        /// Id of the user, as in the users table.
        user: String,
        /// When the grace period is over, as of RFC 3339; the next sweep after it applies the disguise.
        #[schema(value_type = String, format = DateTime)]
        due: Time,
    }
}

/// A disguise that is scheduled.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct ScheduledForm {
    /// The disguise, the same before and after it is applied.
    id: String,
    /// When it is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Schedule {
    const NAME: &'static str = "schedule";
    const SUMMARY: &'static str =
        "Hides a user after a grace period, unless it is cancelled before";
    const IS_KEPT: bool = true;
    type Answer = ScheduledForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ScheduledForm, Problem> {
        let spec = context.database.spec(&self.spec)?;
        let mut session = context.described(spec)?;
        let Time(due) = self.due;
        let request = ApplyRequest {
            spec: &spec.file.spec,
            user: Some(session.user(&self.user)?),
            over: None,
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            time: context.time,
        };
        context.database.install(&mut session.engine, Some(spec))?;
        context.once(&mut session, |engine, entries| {
            let id = engine.schedule().add(&request, due)?;
            Ok(ScheduledForm {
                id: id.to_string(),
                due: Some(format_time(due)),
                entry: entries.entry(),
            })
        })
    }
}

/// A filter of the scheduled disguises; all of them when nobody is named.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheduled {
    /// Id of the user, as in the users table.
    #[serde(default)]
    user: Option<String>,
}

/// The scheduled disguises, the next first.
#[derive(Serialize, ToSchema)]
pub(super) struct ScheduledForms {
    /// The disguises.
    disguises: Vec<ScheduledForm>,
}

impl Operation for Scheduled {
    const NAME: &'static str = "scheduled";
    const SUMMARY: &'static str = "Lists the disguises that wait for the end of a grace period";
    type Answer = ScheduledForms;

    fn run(&self, context: &RequestContext<'_>) -> Result<ScheduledForms, Problem> {
        let mut session = context.stored()?;
        let user = self.user.as_deref().map(|user| session.user(user));
        let found = session.engine.schedule().list(user.transpose()?.as_ref())?;
        let form = |it: &probity_disguise::Scheduled| ScheduledForm {
            id: it.id.to_string(),
            due: it.due.map(format_time),
            entry: None,
        };
        Ok(ScheduledForms {
            disguises: found.iter().map(form).collect(),
        })
    }
}

/// The scheduled disguise to cancel.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancel {
    /// The disguise, as schedule named it.
    id: String,
}

/// A disguise that is cancelled.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct CancelledForm {
    /// The disguise.
    cancelled: String,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Cancel {
    const NAME: &'static str = "cancel";
    const SUMMARY: &'static str = "Stops a scheduled disguise";
    const IS_KEPT: bool = true;
    type Answer = CancelledForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<CancelledForm, Problem> {
        let id = disguise(&self.id)?;
        let mut session = context.stored()?;
        context.once(&mut session, |engine, entries| {
            let cancelled = engine.schedule().cancel(id, context.time);
            cancelled.map_err(not_cancelled)?;
            Ok(CancelledForm {
                cancelled: id.to_string(),
                entry: entries.entry(),
            })
        })
    }
}

/// Names what can be cancelled, which no credential shows.
fn not_cancelled(error: Error) -> Problem {
    match error {
        Error::NoSuchDisguise => Problem::new(
            Kind::NoSuchDisguise,
            "no such disguise is scheduled or going on in chunks",
        )
        .advised(Kind::NoSuchDisguise, "see what is with scheduled"),
        error => error.into(),
    }
}

/// A sweep that applies what is due, or only reports it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// Change nothing, and say what is due.
    #[serde(default)]
    #[schema(required = false)]
    dry_run: bool,
}

/// The result of a sweep, real or dry.
#[derive(Serialize, ToSchema)]
pub(super) struct SweptForm {
    /// Disguises that were due.
    applied: Vec<String>,
    /// Those that waited for the same as one that was applied, and ended with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    /// Those that were refused, and stay scheduled.
    refused: Vec<RefusedForm>,
    /// Records destroyed, because their disguise had ended.
    records: u64,
    /// Records that have ended and are held.
    held: u64,
    /// Cautions: who is registered and has no row in the users table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    /// The last entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

/// A disguise that was refused.
#[derive(Serialize, ToSchema)]
struct RefusedForm {
    /// The disguise.
    id: String,
    /// Why.
    reason: String,
}

impl SweptForm {
    fn new(swept: &Swept, entry: Option<EntryForm>) -> Self {
        let applied = swept.applied.iter().map(|it| it.id.to_string());
        let due = swept.due.iter().map(DisguiseId::to_string);
        let refused = |(id, error): &(DisguiseId, Error)| RefusedForm {
            id: id.to_string(),
            reason: error.with_cause(),
        };
        let ended = swept.applied.iter().flat_map(|it| &it.ended);
        Self {
            applied: applied.chain(due).collect(),
            ended: ended.map(ToString::to_string).collect(),
            refused: swept.refused.iter().map(refused).collect(),
            records: swept.records,
            held: swept.held,
            cautions: swept.rowless.caution().into_iter().collect(),
            entry,
        }
    }
}

impl Operation for Sweep {
    const NAME: &'static str = "sweep";
    const SUMMARY: &'static str =
        "Applies scheduled disguises that are due, and destroys records of those that have ended";
    type Answer = SweptForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<SweptForm, Problem> {
        let mut session = context.stored()?;
        let swept = if self.dry_run {
            session.engine.schedule().due(context.time)?
        } else {
            session.engine.schedule().sweep(context.time)?
        };
        Ok(SweptForm::new(&swept, session.entry()))
    }
}

/// The disguises in chunks to go on with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resume {
    /// One of them; all when absent.
    #[serde(default)]
    id: Option<String>,
    /// Credential with which that one was begun, if any: it is not kept.
    #[serde(default)]
    over: Option<CredentialForm>,
    /// Rows of a chunk.
    #[serde(default)]
    #[schema(minimum = 1)]
    chunk_rows: Option<u32>,
}

/// Disguises that were cut short and are done now.
#[derive(Serialize, ToSchema)]
pub(super) struct ResumedForm {
    /// The disguises.
    disguises: Vec<AppliedForm>,
    /// Those that were not gone on with, where all were asked for: one that was begun with a
    /// credential needs its id and that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    refused: Vec<RefusedForm>,
}

impl Operation for Resume {
    const NAME: &'static str = "resume";
    const SUMMARY: &'static str = "Goes on with disguises in chunks that were cut short";
    type Answer = ResumedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ResumedForm, Problem> {
        let rows = self.chunk_rows.unwrap_or(CHUNK_ROWS);
        if rows == 0 {
            return Err(Problem::new(Kind::BadRequest, "chunk_rows is 0"));
        }
        if self.over.is_some() && self.id.is_none() {
            return Err(Problem::new(Kind::BadRequest, "over needs an id"));
        }
        let over = self.over.as_ref();
        let over = over.map(CredentialForm::brought).transpose()?;
        let over = over.as_ref().map(|it| it.credential());
        let mut session = context.stored()?;
        let ids = match self.id.as_deref() {
            Some(id) => vec![disguise(id)?],
            None => session.engine.chunks().unfinished()?,
        };
        let clock = SystemClock::new();
        let mut resumed = ResumedForm {
            disguises: Vec::with_capacity(ids.len()),
            refused: Vec::new(),
        };
        for id in ids {
            let mut chunks = session.engine.chunks();
            let applied = chunks.finish_over(id, over.as_ref(), rows, || clock.now());
            match applied.map_err(Problem::from) {
                Ok(applied) => {
                    let form = AppliedForm::new(applied, session.entry());
                    resumed.disguises.push(form);
                }
                // One that is refused does not hold up the others.
                Err(problem) if self.id.is_none() && problem.is_refusal() => {
                    resumed.refused.push(RefusedForm {
                        id: id.to_string(),
                        reason: problem.detail().to_owned(),
                    });
                }
                Err(problem) => return Err(problem.begun(id)),
            }
        }
        Ok(resumed)
    }
}
