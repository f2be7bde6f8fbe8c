//! The proxy and a real Redis server.

mod differential;
mod embedded;
mod keys;
mod support;
mod transparency;
