//! The password for the proxy's own questions.

use zeroize::Zeroizing;

/// A password: never shown, and overwritten when the last holder drops it.
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Takes the bytes of a password.
    #[must_use]
    pub const fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// The bytes, for the server alone.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}
