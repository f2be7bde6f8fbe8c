//! Checks of the repository that the compiler does not make.
//!
//! Each check is a function from a [`Repository`] to the [`Finding`]s in it. `tests/tidy.rs` runs
//! every check over this repository. The unit tests show that each check finds violations. The
//! crate uses only the standard library.

#![forbid(unsafe_code)]

pub mod claims;
pub mod dependencies;
pub mod documents;
mod finding;
pub mod imports;
pub mod layers;
mod licence;
pub mod manifests;
pub mod names;
mod repository;
pub mod rust;
mod rust_text;
pub mod text;

pub use finding::Finding;
pub use repository::{File, Repository};
