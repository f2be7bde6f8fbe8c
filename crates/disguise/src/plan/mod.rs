//! Which steps does a specification take in a database, and what does the database do by itself?

pub(crate) mod cascade;
pub(crate) mod caution;
mod identity;
pub(crate) mod leaving;
pub(crate) mod place;
pub(crate) mod step;
