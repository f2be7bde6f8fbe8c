//! Pages: flash, the secure store, sealing, page frames, space, logs of pages and commits.

pub(crate) mod arena;
pub(crate) mod blocks;
pub(crate) mod buffer;
pub(crate) mod bytes;
pub(crate) mod directory;
pub mod flash;
pub(crate) mod list;
pub(crate) mod log;
#[cfg(feature = "std")]
pub(crate) mod medium;
pub(crate) mod ring;
pub mod root;
pub(crate) mod run;
pub(crate) mod scratch;
pub(crate) mod seal;
#[cfg(feature = "std")]
pub mod secure;
pub(crate) mod series;
pub(crate) mod sort;
pub(crate) mod usage;
pub(crate) mod window;
