//! Disguises for inactive people, a page of them with each request.

use std::collections::BTreeSet;

use probity_disguise::{DecayRequest, Decayed, Error, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::apply::{Parameters, applying, values};
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};
use crate::time::Time;

/// People per page by default.
const PAGE: u32 = 100;
/// The most people per page.
const PAGE_MAX: u32 = 10_000;

applying! {
    /// Disguises people who have been inactive, as the specification's inactive says; the rate is the client's, who
    /// asks for one page after the other.
    Decay {
        /// The next of the answer before, to go on; the first page when absent.
        #[serde(default)]
        after: Option<String>,
        /// People that are looked at.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 10000)]
        page: Option<u32>,
        /// Change nothing, and say how many people it would be.
        #[serde(default)]
        #[schema(required = false)]
        dry_run: bool,
    }
}

/// The result for a page of inactive people.
#[derive(Serialize, ToSchema)]
pub(super) struct DecayedForm {
    /// The applied disguises, one per person.
    disguises: Vec<String>,
    /// People to whom it applies.
    people: u64,
    /// People left out because nobody could ever bring them back: they have no key.
    unregistered: u64,
    /// People left out because they are held.
    held: u64,
    /// People left out because they were disguised before and not active since.
    before: u64,
    /// For how many it was refused.
    refused: u64,
    /// Why, each reason once.
    reasons: BTreeSet<String>,
    /// The value to send as after for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// The last entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl DecayedForm {
    fn new(page: &Decayed, entry: Option<EntryForm>) -> Self {
        Self {
            disguises: page.applied.iter().map(|it| it.id.to_string()).collect(),
            people: page.people,
            unregistered: page.unregistered,
            held: page.held,
            before: page.before,
            refused: u64::try_from(page.refused.len()).unwrap_or(u64::MAX),
            reasons: page.refused.iter().map(Error::with_cause).collect(),
            next: page.next.as_ref().map(Value::written),
            entry,
        }
    }
}

impl Operation for Decay {
    const NAME: &'static str = "decay";
    const SUMMARY: &'static str = "Hides a page of people who have been inactive";
    type Answer = DecayedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<DecayedForm, Problem> {
        let page = self.page.unwrap_or(PAGE);
        if page == 0 || page > PAGE_MAX {
            let detail = format!("a page has 1 to {PAGE_MAX} people");
            return Err(Problem::new(Kind::BadRequest, detail));
        }
        let spec = context.database.spec(&self.spec)?;
        let inactive = spec.file.inactive.as_deref().ok_or_else(|| {
            Problem::new(
                Kind::Unfit,
                "the specification does not say who is inactive",
            )
        })?;
        let mut session = context.described(spec)?;
        context.database.install(&mut session.engine, Some(spec))?;
        let after = self.after.as_deref().map(|user| session.user(user));
        let request = DecayRequest {
            spec: &spec.file.spec,
            inactive,
            parameters: values(&self.parameters)?,
            expires: self.expires.map(|Time(time)| time),
            after: after.transpose()?,
            page,
            time: context.time,
        };
        let page = if self.dry_run {
            session.engine.decay().inactive(&request)?
        } else {
            session.engine.decay().apply(&request)?
        };
        Ok(DecayedForm::new(&page, session.entry()))
    }
}
