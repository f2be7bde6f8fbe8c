//! New passwords, tokens, shares and keys.

use serde::Deserialize;
use utoipa::ToSchema;

use super::Operation;
use super::people::{RegisteredForm, cautions};
use crate::credential::{CredentialForm, GivenForm, protection, suite};
use crate::problem::{Kind, Problem};
use crate::request_context::RequestContext;
use crate::secret::Secret;

/// A replacement of a user's password, recovery token and shares; nothing that is disguised is touched. Where one of them was learned by others it takes `new_key`: an old copy of the database and the old password or token still give the old private key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rekey {
    /// Id of the user, as in the users table.
    user: String,
    /// Their proof until now: a credential.
    credential: CredentialForm,
    /// Make a new private key too: everything that the old one opens is encrypted anew.
    #[serde(default)]
    #[schema(required = false)]
    new_key: bool,
    /// The kind of the private key, such as x-wing, which no quantum computer of the future opens; that of the old key when absent; only with `new_key`.
    #[serde(default)]
    suite: Option<String>,
    /// A new password; then the answer holds a new recovery token.
    #[serde(default)]
    password: Option<Secret>,
    /// The answer holds three shares of the new recovery token instead of the whole.
    #[serde(default)]
    #[schema(required = false)]
    shares: bool,
}

impl Operation for Rekey {
    const NAME: &'static str = "rekey";
    const SUMMARY: &'static str = "Replaces a user's password, recovery token and shares, and the private key where that is asked for";
    const IS_KEPT: bool = true;
    type Answer = RegisteredForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<RegisteredForm, Problem> {
        if !self.new_key && self.password.is_none() && !self.shares {
            let detail = "name a new password, shares, or new_key";
            return Err(Problem::new(Kind::BadRequest, detail));
        }
        if self.suite.is_some() && !self.new_key {
            let detail = "a suite is one of a private key; name new_key with it";
            return Err(Problem::new(Kind::BadRequest, detail));
        }
        let suite = self.suite.as_deref().map(suite).transpose()?;
        let protection = protection(self.password.as_ref(), self.shares)?;
        let brought = self.credential.brought()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let credential = brought.credential();
        session.engine.options().suite = suite;
        context.once_in_secret(&mut session, self.shares, |engine, entries| {
            let made = if self.new_key {
                engine
                    .people()
                    .change_key(&user, &credential, protection, context.time)?
            } else {
                engine
                    .people()
                    .change_password(&user, &credential, protection, context.time)?
            };
            Ok(RegisteredForm {
                user: self.user.clone(),
                credential: GivenForm::new(&made, self.shares)?,
                cautions: cautions(self.password.as_ref()),
                entry: entries.entry(),
            })
        })
    }
}
