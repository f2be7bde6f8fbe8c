//! Queries: which rows fulfil a condition, and what is shown of them.

pub(crate) mod aggregate;
pub(crate) mod condition;
pub(crate) mod pipeline;
pub(crate) mod rows;
pub(crate) mod select;
mod sieve;
pub(crate) mod stream;
