//! The store against its model: crashes, tampering, bounds and lookups.

mod bounds;
mod crash;
mod lookup;
mod script;
mod tamper;
