#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::arithmetic_side_effects, clippy::as_conversions)
)]
#![cfg_attr(
    test,
    expect(
        clippy::string_slice,
        clippy::large_stack_arrays,
        clippy::useless_vec,
        reason = "tests cut texts at known places and hand over large leaves"
    )
)]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod certificate;
pub mod checkpoint;
pub mod column;
pub mod compress;
mod config;
pub mod content;
pub mod cosignature;
pub mod entry;
pub mod error;
pub mod frame;
pub mod geometry;
mod group;
pub mod keys;
pub mod limits;
pub mod note;
pub mod proof;
pub mod record;
pub mod row;
pub mod seal;
pub mod segment;
pub mod share;
mod short;
pub mod slot;
pub mod stream;
pub mod tile;
pub mod time;
pub mod tree;
pub mod v2;
pub mod version;
pub mod width;
pub mod wire;
pub mod wrap;

pub use entry::{Action, Claimed, Digest, Entry, Outcome, Subjects, Timestamp};
pub use error::{DecodeError, EntryError};
pub use version::Version;
