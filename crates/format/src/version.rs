//! The versions of the format: one for a whole log, fixed in its geometry.
//!
//! `docs/format.md`, "Versions".

use crate::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC};
use crate::v2;

/// The format version of a log, the same in all its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// Read, verified and exported; never written.
    V2,
    /// The version that is written. Frames have a keyed authenticator and fresh random bytes.
    V3,
}

impl Version {
    /// The version that this build writes.
    pub const NEWEST: Self = Self::V3;
    /// Every version that this build reads, oldest first.
    pub const ALL: [Self; 2] = [Self::V2, Self::V3];

    /// Returns the number of the version on disk.
    pub const fn number(self) -> u16 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Returns the first bytes of a frame.
    pub const fn frame_magic(self) -> &'static [u8; 4] {
        match self {
            Self::V2 => v2::FRAME_MAGIC,
            Self::V3 => FRAME_MAGIC,
        }
    }

    /// Returns the length of a frame's header, in bytes.
    pub const fn frame_header_bytes(self) -> usize {
        match self {
            Self::V2 => v2::FRAME_HEADER_BYTES,
            Self::V3 => FRAME_HEADER_BYTES,
        }
    }

    /// Returns the version with `number`, if this build reads it.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_one_number_each() {
        for version in Version::ALL {
            assert_eq!(Version::from_number(version.number()), Some(version));
        }
        for unknown in [0, 1, 4, u16::MAX] {
            assert_eq!(Version::from_number(unknown), None);
        }
    }
}
