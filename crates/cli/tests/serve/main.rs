//! The real server over real sockets: a person leaves and comes back from any language, and nothing else gets through.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

mod binary;
mod client;
mod ending;
mod operations;
mod person;
mod place;
mod pool;
mod refusal;
mod repeat;
mod replay;
mod schema;
mod share;
mod silent;
mod slow;
mod tenants;

use probity_testing::{mariadb, postgres};
