//! How do rows become hidden, and visible again?

pub(crate) mod apply;
pub(crate) mod reveal;
pub(crate) mod update;
