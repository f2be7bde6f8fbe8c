//! Operations: each happens once, in its turn, with an entry in the log.

pub(crate) mod admission;
pub(crate) mod application;
pub(crate) mod audit;
pub(crate) mod chunk_ids;
pub(crate) mod context;
pub(crate) mod history;
pub(crate) mod intent;
mod latest;
mod line;
mod lineage;
mod logged_facts;
pub(crate) mod once;
pub(crate) mod operation;
mod overtaken;
pub(crate) mod pace;
pub(crate) mod payload;
mod pending_entry;
pub(crate) mod record_names;
pub(crate) mod request;
pub(crate) mod scheduled;
pub(crate) mod settled;
pub(crate) mod transactions;
