//! May this be done to this person's data, now?
//!
//! First form: a policy says which keys hold personal data, whose, and with which purpose, basis,
//! controller and processor operations on them are recorded. Nothing here reads a file, a clock or a socket.
//!
//! ```
//! let policy = probity_policy::Policy::parse(r#"
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
mod parse;
mod pattern;
mod policy;

pub use error::PolicyError;
pub use pattern::{Pattern, PatternError};
pub use policy::{Actor, Class, Policy, Roles};

/// Bounds on a policy; beyond them it is refused.
pub mod limits {
    /// Longest policy text, in bytes.
    pub const POLICY_BYTES_MAX: usize = 1 << 20;
    /// Most key patterns.
    pub const PATTERNS_MAX: usize = 4096;
    /// Most actors.
    pub const ACTORS_MAX: usize = 4096;
    /// Longest pattern, in bytes.
    pub const PATTERN_BYTES_MAX: usize = 512;
    /// Most `{subject}` placeholders in one pattern.
    pub const SUBJECTS_MAX: usize = 8;
    /// Most stars in one pattern.
    pub const STARS_MAX: usize = 4;
    /// Longest purpose, basis, controller, processor or actor, in bytes; as in an entry.
    pub const NAME_BYTES_MAX: usize = 255;
}
