//! Tables: the catalogue, rows, indexes, changes and reorganised parts. Nothing here knows SQL.

pub(crate) mod base;
pub(crate) mod catalogue;
pub(crate) mod change;
pub(crate) mod deferred;
pub(crate) mod hashes;
pub(crate) mod id;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod pair;
pub(crate) mod part;
pub(crate) mod recovery;
pub(crate) mod reorganize;
pub(crate) mod rows;
pub(crate) mod store;
pub(crate) mod stretch;
pub(crate) mod summary;
pub(crate) mod unit;
pub(crate) mod value;
