//! Hides rows, and makes them visible again.

pub(crate) mod apply;
pub(crate) mod reveal;
pub(crate) mod update;
