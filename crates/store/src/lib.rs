//! How a key-value store lives inside the process.

mod extended;
mod fail;
mod glob;
pub mod limits;
mod natural;
mod number;
mod record;
mod reply;
mod rows;
mod siphash;
