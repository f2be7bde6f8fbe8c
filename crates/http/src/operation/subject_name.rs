//! The names by which the log speaks of a user.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::credential::CredentialForm;
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The user whose names are asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectName {
    /// Id of the user, as in the users table.
    user: String,
    /// Their proof, a credential; with it the names are given to nobody else.
    #[serde(default)]
    credential: Option<CredentialForm>,
}

/// The subjects of the entries about a user.
#[derive(Serialize, ToSchema)]
pub(super) struct NamesForm {
    /// The name in entries made now, and then the one in older entries, if it is another.
    names: Vec<String>,
}

impl Operation for SubjectName {
    const NAME: &'static str = "subject-name";
    const SUMMARY: &'static str = "Gives the names by which the log speaks of a user";
    type Answer = NamesForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<NamesForm, Problem> {
        let brought = self.credential.as_ref().map(CredentialForm::brought);
        let brought = brought.transpose()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let credential = brought.as_ref().map(|it| it.credential());
        let engine = &mut session.engine;
        Ok(NamesForm {
            names: engine
                .people()
                .subject_names(&user, credential.as_ref(), context.time)?,
        })
    }
}
