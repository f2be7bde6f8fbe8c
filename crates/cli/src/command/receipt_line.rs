//! A receipt as one line of JSON, printed by `append --receipts` and read by `check-receipts`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The place at which an entry of the input was recorded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReceiptLine<'a> {
    /// The line of the input.
    pub(super) line: u64,
    #[serde(borrow)]
    pub(super) stream: Cow<'a, str>,
    /// The entry's place in the stream.
    pub(super) index: u64,
    /// The identity of the log.
    #[serde(borrow)]
    pub(super) log: Cow<'a, str>,
    /// The place of its frame in the stream.
    pub(super) frame: u64,
    /// The hash of the frame's leaf, in base64.
    pub(super) record: String,
    /// True if the entry had been recorded before this command; left out otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) already_recorded: bool,
}
