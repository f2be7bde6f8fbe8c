//! The real program against real databases: a person leaves, comes back, and the log tells of it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

mod advised;
mod binary;
mod credentials;
mod crowd;
mod duties;
mod exact;
mod later;
mod person;
mod place;
mod record;
mod redescribed;
mod restored;
mod rows;
mod tenants;
mod tutorial;

use probity_testing::{mariadb, postgres};
