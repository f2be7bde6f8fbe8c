//! Runs a plan in the caller's transaction and writes the records that a reveal needs.

mod applier;
pub(crate) mod chunk;
mod circles;
mod co_owned;
mod dependent_rows;
mod goes_along;
mod group;
mod modify;
mod new_accounts;
mod nobody;
mod notes;
mod of_nobody;
mod order;
mod placeholder;
mod previous_chunks;
pub(crate) mod principals;
mod record_owner;
mod removal;
mod request;
mod row_picker;
mod self_reference;
mod spelling;
mod stake;
mod step_cursor;
mod unawaited;
mod under_placeholders;
mod unlink;
mod worked_out;

pub(crate) use applier::{Applier, Inputs};
pub(crate) use notes::Forgotten;
pub(crate) use principals::PreviousChunks;
pub use request::{Applied, ApplyRequest};
pub(crate) use step_cursor::StepCursor;
