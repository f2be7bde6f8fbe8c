//! The repository checks itself: what the compiler cannot see about its own house.
//!
//! Each check is a function from a [`Repository`] to the [`Finding`]s in it. `tests/tidy.rs` runs
//! every check over this repository; the tests beside each check show that it does find what it
//! is there to find. Nothing outside the standard library is used.

#![forbid(unsafe_code)]

pub mod dependencies;
pub mod documents;
mod finding;
pub mod imports;
mod licence;
pub mod manifests;
pub mod names;
mod repository;
pub mod rust;
mod rust_text;
pub mod text;

pub use finding::Finding;
pub use repository::{File, Repository};
