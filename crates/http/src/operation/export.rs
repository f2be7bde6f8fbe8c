//! Export of everything that disguises hide of a person, for that person.

use probity_disguise::Exported;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::reveal::disguise;
use crate::credential::CredentialForm;
use crate::hidden::{PersonForm, row_json};
use crate::problem::Problem;
use crate::request_context::{EntryForm, RequestContext};

/// A user who asks for everything hidden of them, decrypted with their credential; nothing is changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Export {
    /// Id of the user, as in the users table.
    user: String,
    /// Their proof: a credential.
    credential: CredentialForm,
    /// One disguise, as apply named it; all of them when absent.
    #[serde(default)]
    id: Option<String>,
}

/// Everything that disguises hide of a person, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ExportedForm {
    /// The form of the answer: 2, which names the person.
    form: u32,
    /// The person, so that a copy of somebody else takes none of these rows.
    person: PersonForm,
    /// The rows, each an object with the members disguise, time, table, row (its identifying values), change (removed,
    /// left, modified, decorrelated), values (what is hidden) and, for what was changed, since (what stands there now).
    #[schema(value_type = Vec<Object>)]
    rows: Vec<serde_json::Value>,
    /// The disguises of which a record cannot be read, because a part of it is missing or damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Export {
    const NAME: &'static str = "export";
    const SUMMARY: &'static str = "Hands a user everything that disguises hide of them";
    type Answer = ExportedForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ExportedForm, Problem> {
        let brought = self.credential.brought()?;
        let id = self.id.as_deref().map(disguise).transpose()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let credential = brought.credential();
        let exported = session
            .engine
            .export(&user, &credential, id, context.time)?;
        Ok(ExportedForm {
            form: Exported::FORM,
            person: exported.person.into(),
            rows: exported.hidden.iter().map(row_json).collect(),
            unreadable: exported
                .unreadable
                .iter()
                .map(ToString::to_string)
                .collect(),
            entry: session.entry(),
        })
    }
}
