//! Operations about one person: registration, and everything that the credential opens.

use probity_disguise::Listed;
use probity_format::time::format_time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::credential::{CredentialForm, GivenForm, caution_of_password, protection, suite};
use crate::problem::Problem;
use crate::request_context::{EntryForm, RequestContext};
use crate::secret::Secret;

/// A user who gets a credential, without which nothing that is hidden from them can come back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Register {
    /// Id of the user, as in the users table.
    user: String,
    /// The specification that says who the users are, by its name in the server's configuration; what the database holds
    /// when absent.
    #[serde(default)]
    spec: Option<String>,
    /// A password of the user's own; then the answer holds a recovery token, and else a private key.
    #[serde(default)]
    password: Option<Secret>,
    /// The kind of the private key, such as x-wing, which no quantum computer of the future opens; x25519 when absent.
    #[serde(default)]
    suite: Option<String>,
    /// The answer holds three shares of a recovery token, for three people or places, instead of the whole.
    #[serde(default)]
    #[schema(required = false)]
    shares: bool,
}

/// A registered user, whose new credential the server does not keep.
#[derive(Serialize, ToSchema)]
pub(super) struct RegisteredForm {
    /// Id of the user.
    pub(super) user: String,
    /// The credential for the user to keep.
    pub(super) credential: GivenForm,
    /// A caution where the new password is short.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) cautions: Vec<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entry: Option<EntryForm>,
}

/// Returns what to know of a new password.
pub(super) fn cautions(password: Option<&Secret>) -> Vec<String> {
    let caution = password.and_then(|password| caution_of_password(password));
    caution.into_iter().collect()
}

impl Operation for Register {
    const NAME: &'static str = "register";
    const SUMMARY: &'static str = "Gives a user a credential";
    const IS_KEPT: bool = true;
    type Answer = RegisteredForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<RegisteredForm, Problem> {
        let protection = protection(self.password.as_ref(), self.shares)?;
        let suite = self.suite.as_deref().map(suite).transpose()?;
        let spec = self.spec.as_ref().map(|name| context.database.spec(name));
        let spec = spec.transpose()?;
        let mut session = spec.map_or_else(|| context.stored(), |spec| context.described(spec))?;
        let user = session.user(&self.user)?;
        context.database.install(&mut session.engine, spec)?;
        session.engine.options().suite = suite;
        context.once_in_secret(&mut session, self.shares, |engine, entries| {
            let made = engine.people().register(&user, protection, context.time)?;
            Ok(RegisteredForm {
                user: self.user.clone(),
                credential: GivenForm::new(&made, self.shares)?,
                cautions: cautions(self.password.as_ref()),
                entry: entries.entry(),
            })
        })
    }
}

/// The user who asks, with their credential.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Id of the user, as in the users table.
    user: String,
    /// Their proof: a credential.
    credential: CredentialForm,
}

/// The disguises that hide something of a user, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct ListedForms {
    /// The disguises.
    disguises: Vec<ListedForm>,
}

/// A disguise that hides something of a user.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one disguise"
)]
#[derive(Serialize, ToSchema)]
struct ListedForm {
    /// The disguise, as apply named it.
    id: String,
    /// When it was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// A reveal was asked for and left something disguised.
    pending: bool,
    /// Some of the chunks in which it is done are left to do.
    unfinished: bool,
    /// When it can no longer be revealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// A record of it cannot be read, because a part of it is missing or damaged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
}

impl From<&Listed> for ListedForm {
    fn from(it: &Listed) -> Self {
        Self {
            id: it.id.to_string(),
            time: it.time.map(format_time),
            pending: it.pending,
            unfinished: it.unfinished,
            expires: it.expires.map(format_time),
            unreadable: it.unreadable,
        }
    }
}

impl Operation for List {
    const NAME: &'static str = "list";
    const SUMMARY: &'static str = "Lists the disguises that hide something of a user";
    type Answer = ListedForms;

    fn run(&self, context: &RequestContext<'_>) -> Result<ListedForms, Problem> {
        let brought = self.credential.brought()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let listed = session
            .engine
            .list(&user, &brought.credential(), context.time)?;
        Ok(ListedForms {
            disguises: listed.iter().map(ListedForm::from).collect(),
        })
    }
}

/// The user who asks, with their credential.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
pub(super) struct SpeaksFor(List);

/// The placeholders that a user may act as.
#[derive(Serialize, ToSchema)]
pub(super) struct PlaceholderForms {
    /// Their ids, as in the users table.
    placeholders: Vec<String>,
}

impl Operation for SpeaksFor {
    const NAME: &'static str = "speaks-for";
    const SUMMARY: &'static str = "Lists the placeholders that a user may act as";
    type Answer = PlaceholderForms;

    fn run(&self, context: &RequestContext<'_>) -> Result<PlaceholderForms, Problem> {
        let Self(asks) = self;
        let brought = asks.credential.brought()?;
        let mut session = context.stored()?;
        let user = session.user(&asks.user)?;
        let ids = session
            .engine
            .speaks_for(&user, &brought.credential(), context.time)?;
        Ok(PlaceholderForms {
            placeholders: ids.iter().map(probity_disguise::Value::written).collect(),
        })
    }
}
