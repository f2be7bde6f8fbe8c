//! Queries: conditions, matching rows, and their projection.

pub(crate) mod aggregate;
pub(crate) mod chunk;
pub(crate) mod condition;
pub(crate) mod pipeline;
pub(crate) mod rows;
pub(crate) mod select;
mod sieve;
pub(crate) mod sql;
pub(crate) mod stream;
