//! The proxy and a real Redis server.

mod adversary;
mod attribution;
mod bounds;
mod deadlines;
mod differential;
mod embedded;
mod failed_store;
mod gone;
mod identity;
mod keys;
mod listening;
mod modes;
mod names;
mod oracle;
mod outcomes;
mod prefixes;
mod pressure;
mod redirects;
mod scripted;
mod silence;
mod smuggling;
mod stalls;
mod support;
mod touched;
mod transparency;
mod zero_bytes;
