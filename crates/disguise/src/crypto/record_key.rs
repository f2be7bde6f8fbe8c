//! The key of a record, or the seed of the keys in one.

use std::fmt;
use std::ops::Deref;

use zeroize::Zeroize as _;

use super::{KEY_BYTES, random};
use crate::error::Error;

/// Bytes that open a record, or from which keys in it are derived. They are wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RecordKey([u8; KEY_BYTES]);

impl RecordKey {
    pub(crate) const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns a new random one.
    ///
    /// # Errors
    /// [`Error::Crypto`] when the system gives no randomness.
    pub(crate) fn generate() -> Result<Self, Error> {
        random().map(Self)
    }
}

impl Deref for RecordKey {
    type Target = [u8; KEY_BYTES];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordKey(..)")
    }
}

impl Drop for RecordKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_bytes_are_in_no_debug_output() {
        let shown = format!("{:?}", RecordKey::new([0xab; KEY_BYTES]));
        assert_eq!(shown, "RecordKey(..)");
    }
}
