//! What the recipient of a proof goes by: a key, and what binds the log to it over the years.

use super::chain::KeyChain;
use crate::checkpoint::Checkpoint;
use crate::cosignature::WitnessKey;
use crate::note::VerifierKey;

/// What a proof is checked with.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over `Trust::key`"
)]
pub struct Trust<'a> {
    /// A key of the log: any signing key, or its witness key.
    pub key: &'a VerifierKey,
    /// The certificates behind that key, where the proof begins with a later one.
    pub chain: Option<&'a KeyChain>,
    /// A witness whose cosignature vouches for a journal that the witness key signed.
    pub witness: Option<&'a WitnessKey>,
    /// A head of the journal that the recipient remembers, which vouches as well. It needs no signature.
    pub journal: Option<&'a Checkpoint>,
}

impl<'a> Trust<'a> {
    /// Trusts `key` alone.
    pub const fn key(key: &'a VerifierKey) -> Self {
        Self {
            key,
            chain: None,
            witness: None,
            journal: None,
        }
    }
}
