//! Queries: which rows fulfil a condition, and what is shown of them.

pub(crate) mod condition;
pub(crate) mod stream;
