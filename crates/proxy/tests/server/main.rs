//! The proxy and a real Redis server.

mod differential;
mod embedded;
mod gone;
mod keys;
mod modes;
mod pressure;
mod support;
mod transparency;
