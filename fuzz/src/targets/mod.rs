//! The targets by the room they feed. A new target is one entry in its room's list.

mod disguise;
mod entry;
mod frame;
mod geometry;
mod http;
mod json;
mod pocketdb;
mod policy;
mod proof;
mod resp;
mod tlog;
mod wire;

use crate::Target;

/// Every room's targets.
pub(crate) const ALL: &[&[Target]] = &[
    wire::TARGETS,
    entry::TARGETS,
    json::TARGETS,
    frame::TARGETS,
    geometry::TARGETS,
    tlog::TARGETS,
    policy::TARGETS,
    proof::TARGETS,
    resp::TARGETS,
    disguise::TARGETS,
    pocketdb::TARGETS,
    http::TARGETS,
];

/// The input as text, nothing when it is not UTF-8.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// Returns whether an input was accepted; an error must be one that can be shown.
fn is_accepted<T, E: std::fmt::Display>(parsed: &Result<T, E>) -> bool {
    if let Err(error) = parsed {
        assert!(!error.to_string().is_empty());
    }
    parsed.is_ok()
}
