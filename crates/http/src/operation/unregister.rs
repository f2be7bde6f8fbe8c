//! The end of a registration whose account the application deleted.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::credential::CredentialForm;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};

/// The remedy where the user has a row, or was not registered.
const REMEDY: &str = "look at the id; while the account is there, send the person's credential";

/// A user whose account the application deleted, or whose id it changed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Unregister {
    /// Id that the user had in the users table.
    user: String,
    /// Their proof, a credential; needed while the users table has a row with the id.
    #[serde(default)]
    credential: Option<CredentialForm>,
}

/// A user who is not registered any more.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct UnregisteredForm {
    /// Id of the user.
    user: String,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Unregister {
    const NAME: &'static str = "unregister";
    const SUMMARY: &'static str = "Ends the registration of a user whose account was deleted";
    const IS_KEPT: bool = true;
    type Answer = UnregisteredForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<UnregisteredForm, Problem> {
        let brought = self.credential.as_ref().map(CredentialForm::brought);
        let brought = brought.transpose()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let credential = brought.as_ref().map(|it| it.credential());
        context.once(&mut session, |engine, entries| {
            let ended = engine
                .people()
                .unregister(&user, credential.as_ref(), context.time);
            ended.map_err(|error| Problem::from(error).advised(Kind::Unfit, REMEDY))?;
            Ok(UnregisteredForm {
                user: self.user.clone(),
                entry: entries.entry(),
            })
        })
    }
}
