//! Records of a disguise: their contents, their principals, and the keys that open them.

pub(crate) mod bag;
pub(crate) mod chunk_note;
pub(crate) mod co_owned;
pub(crate) mod commitment;
pub(crate) mod concerned;
pub(crate) mod credential;
pub(crate) mod credential_text;
pub(crate) mod day;
pub(crate) mod deadline;
pub(crate) mod forgotten;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub(crate) mod hold;
pub(crate) mod holder;
pub(crate) mod identity;
pub(crate) mod installation;
pub(crate) mod locator;
pub(crate) mod name;
mod named;
pub(crate) mod placeholder_succession;
pub(crate) mod principal;
pub(crate) mod receipt;
pub(crate) mod refusal;
pub(crate) mod registry;
pub(crate) mod repeat;
#[cfg(any(test, feature = "fuzz"))]
mod samples;
pub(crate) mod section;
mod section_bytes;
pub(crate) mod settings;
pub(crate) mod shape;
pub(crate) mod share;
pub(crate) mod store;
pub(crate) mod stored;
pub(crate) mod subject;
pub(crate) mod succession;
pub(crate) mod tables;
pub(crate) mod unawaited;
