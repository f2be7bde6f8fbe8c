//! Checks of receipts of forgetting, which need nothing of the server but a public key.

use probity_disguise::{Receipt, Value};
use probity_format::note::VerifierKey;
use probity_format::time::format_time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Operation;
use crate::problem::{Kind, Problem};
use crate::request_context::RequestContext;

/// A receipt, and what it must prove.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckReceipt {
    /// The receipt, as forget gave it.
    receipt: String,
    /// The public key that must have signed it; the one that the checker trusts, not the one beside the receipt.
    key: String,
    /// Id of the user whom it must be about.
    #[serde(default)]
    user: Option<String>,
}

/// The facts that a receipt proves.
#[derive(Serialize, ToSchema)]
pub(super) struct ProvenForm {
    /// True if the receipt is signed by the key and about the user.
    proves: bool,
    /// The disguise that was forgotten, or everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The number of sealed bags of records that were destroyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    bags: Option<u64>,
}

impl ProvenForm {
    fn new(receipt: Option<&Receipt>) -> Self {
        let forgotten = |it: &Receipt| {
            let id = it.disguise.map(|id| id.to_string());
            id.unwrap_or_else(|| "everything".to_owned())
        };
        Self {
            proves: receipt.is_some(),
            forgotten: receipt.map(forgotten),
            time: receipt.map(|it| format_time(it.time)),
            bags: receipt.map(|it| it.bags),
        }
    }
}

impl Operation for CheckReceipt {
    const NAME: &'static str = "check-receipt";
    const SUMMARY: &'static str = "Checks a receipt of forgetting";
    const CONNECTS: bool = false;
    type Answer = ProvenForm;

    fn run(&self, context: &RequestContext<'_>) -> Result<ProvenForm, Problem> {
        let key = VerifierKey::parse(self.key.trim()).map_err(|_form| {
            Problem::new(Kind::BadRequest, "the key is no public key of a signer")
        })?;
        let receipt = Receipt::verified(self.receipt.as_bytes(), &[key]).ok();
        let users = self.user.as_deref().map(Value::meant);
        let tenant = context.database.tenant.as_deref().map(Value::from);
        let is_about = |it: &Receipt, user| it.is_about(tenant.as_ref(), user);
        let is_meant = |it: &Receipt| {
            let users = users.as_ref();
            users.is_none_or(|users| users.iter().any(|user| is_about(it, user)))
        };
        Ok(ProvenForm::new(receipt.filter(is_meant).as_ref()))
    }
}
