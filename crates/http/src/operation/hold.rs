//! Legal holds: `hold`, `lift`, `holds`.

use std::str::FromStr as _;

use probity_disguise::{Authority, HoldId, Holding, Value};
use probity_format::time::format_time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::reveal::disguise;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext, Session};

/// A hold until it is lifted, on everything of a user or on the records of a disguise. The token's name is its actor.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Hold {
    /// Id of the user; either this or a disguise.
    #[serde(default)]
    user: Option<String>,
    /// The disguise, as apply named it.
    #[serde(default)]
    id: Option<String>,
    /// The user is away: a disguise took the row from the users table, so that the id is held as it is written.
    #[serde(default)]
    away: bool,
    /// The legal basis or the file number; it names nobody, for it goes into the log as it is.
    basis: String,
}

/// A hold that was placed or lifted.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct PlacedForm {
    /// The hold.
    hold: String,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Hold {
    const NAME: &'static str = "hold";
    const SUMMARY: &'static str =
        "Keeps a user from being hidden and forgotten, or a disguise from being forgotten";
    const IS_KEPT: bool = true;
    type Answer = PlacedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<PlacedForm, Problem> {
        let mut session = context.stored()?;
        let user = person(&mut session, self.user.as_deref())?;
        let what = holding(user.as_ref(), self.id.as_deref())?.ok_or_else(|| {
            let detail = "name either the user or the id of a disguise";
            Problem::new(Kind::BadRequest, detail)
        })?;
        let what = match what {
            Holding::Person(user) if self.away => Holding::Away(user),
            what => what,
        };
        context.once(&mut session, |engine, entries| {
            let id = engine
                .holds()
                .place(what, &authority(context, &self.basis))?;
            Ok(PlacedForm {
                hold: id.to_string(),
                entry: entries.entry(),
            })
        })
    }
}

/// The hold to lift.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Lift {
    /// The hold, as hold named it.
    hold: String,
    /// The legal basis or the file number; it names nobody, for it goes into the log as it is.
    basis: String,
}

impl Operation for Lift {
    const NAME: &'static str = "lift";
    const SUMMARY: &'static str = "Lifts a hold";
    const IS_KEPT: bool = true;
    type Answer = PlacedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<PlacedForm, Problem> {
        let id = HoldId::from_str(&self.hold)
            .map_err(|error| Problem::new(Kind::BadRequest, error.to_string()))?;
        let mut session = context.stored()?;
        context.once(&mut session, |engine, entries| {
            engine.holds().lift(id, &authority(context, &self.basis))?;
            Ok(PlacedForm {
                hold: id.to_string(),
                entry: entries.entry(),
            })
        })
    }
}

/// A filter of the holds; all of them when neither is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Holds {
    /// Id of the user.
    #[serde(default)]
    user: Option<String>,
    /// The disguise, as apply named it.
    #[serde(default)]
    id: Option<String>,
}

/// The holds in force, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct HoldForms {
    /// The holds.
    holds: Vec<HoldForm>,
}

/// A hold in force.
#[derive(Serialize, ToSchema)]
struct HoldForm {
    /// The hold.
    hold: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The actor who placed it.
    actor: String,
    /// By what right.
    basis: String,
}

impl Operation for Holds {
    const NAME: &'static str = "holds";
    const SUMMARY: &'static str = "Lists the holds in force";
    type Answer = HoldForms;

    fn run(&self, context: &RequestContext<'_>) -> Result<HoldForms, Problem> {
        let mut session = context.stored()?;
        let user = person(&mut session, self.user.as_deref())?;
        let what = holding(user.as_ref(), self.id.as_deref())?;
        let found = session.engine.holds().list(what)?;
        let form = |it: probity_disguise::Hold| HoldForm {
            hold: it.id.to_string(),
            since: it.since.map(format_time),
            actor: it.actor,
            basis: it.basis,
        };
        Ok(HoldForms {
            holds: found.into_iter().map(form).collect(),
        })
    }
}

fn person(session: &mut Session, user: Option<&str>) -> Result<Option<Value>, Problem> {
    user.map(|user| session.user(user)).transpose()
}

fn holding<'a>(user: Option<&'a Value>, id: Option<&str>) -> Result<Option<Holding<'a>>, Problem> {
    match (user, id) {
        (Some(user), None) => Ok(Some(Holding::Person(user))),
        (None, Some(id)) => Ok(Some(Holding::Disguise(disguise(id)?))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let detail = "name the user or the id of a disguise, not both";
            Err(Problem::new(Kind::BadRequest, detail))
        }
    }
}

/// Returns the authority for a hold, in which the bearer of the token decides.
const fn authority<'a>(context: &RequestContext<'a>, basis: &'a str) -> Authority<'a> {
    Authority {
        actor: context.actor,
        basis,
        time: context.time,
    }
}
