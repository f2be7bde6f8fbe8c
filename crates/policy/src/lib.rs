//! Policies for operations on personal data.
//!
//! A policy names the keys that hold personal data and their subjects. It also gives the purpose,
//! basis, controller and processor to record with operations on them. This crate reads no file,
//! clock or socket.
//!
//! ```
//! let policy = probity_policy::Policy::parse(r#"
//!     version = 1
//!     [[key]]
//!     pattern = "user:{subject}:*"
//!     purpose = "service"
//! "#).unwrap();
//! let mut subjects = Vec::new();
//! let class = policy.classify(b"user:7:cart", &mut subjects);
//! assert_eq!((class.purpose, subjects), ("service", vec![5..6]));
//! ```

#![forbid(unsafe_code)]

mod error;
mod index;
mod name;
mod parse;
mod pattern;
mod policy;

pub use error::PolicyError;
pub use name::{put_bounded_name, put_name};
pub use pattern::{Pattern, PatternError};
pub use policy::{Actor, Class, Policy, Roles};

/// Limits of a policy; one that exceeds them is refused.
pub mod limits {
    /// Longest policy text, in bytes.
    pub const POLICY_BYTES_MAX: usize = 1 << 20;
    /// Greatest number of key patterns.
    pub const PATTERNS_MAX: usize = 4096;
    /// Greatest number of actors.
    pub const ACTORS_MAX: usize = 4096;
    /// Longest pattern, in bytes.
    pub const PATTERN_BYTES_MAX: usize = 512;
    /// Greatest number of `{subject}` placeholders in one pattern.
    pub const SUBJECTS_MAX: usize = 8;
    /// Greatest number of stars in one pattern.
    pub const STARS_MAX: usize = 4;
    /// Longest purpose, basis, controller, processor or actor, in bytes; as in an entry.
    pub const NAME_BYTES_MAX: usize = 255;
}
