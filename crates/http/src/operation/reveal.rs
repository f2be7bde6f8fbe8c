//! Revealing a disguise, with a report of every row that stays.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use probity_disguise::{DisguiseId, Kept, References, RevealRequest, Revealed, Rows, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::credential::{Brought, CredentialForm};
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};

/// A disguise to reveal, and the user to whom.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reveal {
    /// The disguise, as apply named it.
    id: String,
    /// Id of the user, as in the users table; a private key needs none.
    #[serde(default)]
    user: Option<String>,
    /// Their proof: a credential.
    credential: CredentialForm,
    /// The treatment of rows made while a placeholder owned things.
    #[serde(default)]
    #[schema(required = false)]
    references: ReferencesForm,
    /// Leave a row disguised whole when one of its columns was changed.
    #[serde(default)]
    #[schema(required = false)]
    whole_rows: bool,
}

/// The treatment of rows made while a placeholder owned things.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ReferencesForm {
    /// They go to the returning owner.
    #[default]
    Recorrelate,
    /// They are deleted.
    Delete,
    /// They and the placeholder stay.
    Retain,
}

impl From<ReferencesForm> for References {
    fn from(form: ReferencesForm) -> Self {
        match form {
            ReferencesForm::Recorrelate => Self::Recorrelate,
            ReferencesForm::Delete => Self::Delete,
            ReferencesForm::Retain => Self::Retain,
        }
    }
}

/// The rows that came back, and every row that did not.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct RevealedForm {
    /// True if everything came back; the same request tries the rest again later.
    complete: bool,
    /// True if the disguise hid anything of the person: false when it was revealed before, or hid nothing of theirs.
    #[serde(default = "found")]
    found: bool,
    /// Removed rows put back in each table.
    restored: BTreeMap<String, u64>,
    /// Overwritten values put back in each table, owners among them.
    #[serde(default)]
    values: BTreeMap<String, u64>,
    /// Rows made while placeholders owned them that were deleted from each table, as the policy says.
    #[serde(default)]
    deleted: BTreeMap<String, u64>,
    /// Rows in each table that stay under placeholders for good, as the policy says, and these placeholders' accounts.
    #[serde(default)]
    retained: BTreeMap<String, u64>,
    /// The rows, values and placeholders that stayed as they were.
    kept: Vec<KeptForm>,
    /// Disguises that were due while the account was away: it is back, and they are not applied any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

/// A row, a value or a placeholder that stayed.
#[derive(Serialize, Deserialize, ToSchema)]
struct KeptForm {
    /// Its table.
    table: String,
    /// Its identifying values.
    identity: String,
    /// The column, when it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<String>,
    /// Why.
    reason: String,
    /// The database's words about it, without values, where it refuses it, or what refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<String>,
}

/// Returns the default for answers kept by older programs: their disguises hid something.
const fn found() -> bool {
    true
}

impl From<Kept> for KeptForm {
    fn from(it: Kept) -> Self {
        Self {
            table: it.table,
            identity: it.identity,
            column: it.column,
            reason: it.reason.as_str().to_owned(),
            said: it.said,
        }
    }
}

impl RevealedForm {
    fn new(revealed: Revealed, entry: Option<EntryForm>) -> Self {
        Self {
            complete: revealed.is_complete(),
            found: revealed.found,
            restored: revealed.restored,
            values: revealed.values,
            deleted: revealed.deleted,
            retained: revealed.retained,
            kept: revealed.kept.into_iter().map(KeptForm::from).collect(),
            ended: revealed.ended.iter().map(ToString::to_string).collect(),
            entry,
        }
    }
}

impl Operation for Reveal {
    const NAME: &'static str = "reveal";
    const SUMMARY: &'static str =
        "Reveals a disguise as far as that is safe, and names every row that stays";
    const IS_KEPT: bool = true;
    type Answer = RevealedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<RevealedForm, Problem> {
        let brought = self.credential.brought()?;
        let mut session = context.stored()?;
        let user = match (&self.user, &brought) {
            (Some(user), _) => session.user(user)?,
            (None, Brought::Key(_)) => Value::Null,
            (None, _) => {
                let detail = "a password or a token needs its user";
                return Err(Problem::new(Kind::BadRequest, detail));
            }
        };
        let request = RevealRequest {
            user,
            credential: brought.credential(),
            id: disguise(&self.id)?,
            references: self.references.into(),
            rows: if self.whole_rows {
                Rows::Whole
            } else {
                Rows::PerColumn
            },
            time: context.time,
        };
        context.once(&mut session, |engine, entries| {
            let revealed = engine.reveal(&request)?;
            Ok(RevealedForm::new(revealed, entries.entry()))
        })
    }
}

/// Parses the disguise of a request.
pub(super) fn disguise(id: &str) -> Result<DisguiseId, Problem> {
    DisguiseId::from_str(id).map_err(|error| Problem::new(Kind::BadRequest, error.to_string()))
}
