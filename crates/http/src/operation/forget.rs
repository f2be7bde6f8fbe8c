//! Forgetting for good, with a receipt that the person takes away.

use probity_format::note::Signer as _;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use super::reveal::disguise;
use crate::credential::CredentialForm;
use crate::problem::{Kind, Problem};
use crate::request_context::{EntryForm, RequestContext};

/// Data to destroy for good: nobody can ever reveal it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Forget {
    /// Id of the user, as in the users table.
    user: String,
    /// Their proof: a credential.
    credential: CredentialForm,
    /// One disguise, as apply named it; either this or everything.
    #[serde(default)]
    id: Option<String>,
    /// All records of the user, every credential and the registration.
    #[serde(default)]
    #[schema(required = false)]
    everything: bool,
}

/// The destroyed data.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct ForgottenForm {
    /// The disguise, or everything.
    forgotten: String,
    /// The number of sealed bags of records that were destroyed.
    bags: u64,
    /// A signed note that says so, which anybody can check who has the server's public key; where the server has a key
    /// to sign with.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    /// The public key that checks the receipt.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_key: Option<String>,
    /// Its entry in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<EntryForm>,
}

impl Operation for Forget {
    const NAME: &'static str = "forget";
    const SUMMARY: &'static str =
        "Destroys what a disguise hides, or everything of a user, for good";
    const IS_KEPT: bool = true;
    type Answer = ForgottenForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ForgottenForm, Problem> {
        let brought = self.credential.brought()?;
        let mut session = context.stored()?;
        let user = session.user(&self.user)?;
        let credential = brought.credential();
        let id = self.id.as_deref().map(disguise).transpose()?;
        if id.is_some() == self.everything {
            let detail = "name either the id of a disguise or everything";
            return Err(Problem::new(Kind::BadRequest, detail));
        }
        context.once(&mut session, |engine, entries| {
            let receipt = match id {
                Some(id) => engine.forget(&user, &credential, id, context.time)?,
                None => engine.forget_everything(&user, &credential, context.time)?,
            };
            let signed = context.signer.map(|key| receipt.signed(key)).transpose();
            let signed = signed.map_err(|error| {
                // With an idempotency key the signature belongs to the same transaction.
                let detail = if context.repeat.is_some() {
                    "the receipt was not signed, so that nothing was forgotten"
                } else {
                    "it was forgotten for good, and the receipt was not signed"
                };
                Problem::new(Kind::Defect, detail).because(&error)
            })?;
            Ok(ForgottenForm {
                forgotten: id.map_or_else(|| "everything".to_owned(), |id| id.to_string()),
                bags: receipt.bags,
                receipt: signed,
                receipt_key: context.signer.map(|key| key.verifier_key().encode()),
                entry: entries.entry(),
            })
        })
    }
}
