//! The proxy and a real Redis server.

mod keys;
mod support;
mod transparency;
