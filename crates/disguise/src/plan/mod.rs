//! Which steps does a specification take in a database, and what will the database do by itself?

pub(crate) mod cascade;
pub(crate) mod caution;
pub(crate) mod step;
