//! Plans: the steps of a specification in a database, and the changes the database makes by itself.

pub(crate) mod cascade;
pub(crate) mod caution;
mod closed_circles;
pub(crate) mod decimal_keys;
mod doubtful_rows;
mod emptied_keys;
mod identity;
pub(crate) mod leaving;
pub(crate) mod likeness;
pub(crate) mod place;
mod removal_order;
pub(crate) mod step;
