//! Key encapsulations that seal envelopes to a person, and the public keys of each.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::crypto::KEY_BYTES;
use crate::error::Error;

/// Bytes of a public key of X-Wing as it is stored, with its suite.
pub(crate) const XWING_STORED_BYTES: usize = 1 + XWING_PUBLIC_BYTES;
/// Bytes of a public key of X-Wing.
pub(crate) const XWING_PUBLIC_BYTES: usize = 1_216;

/// A suite that seals envelopes to a person (RFC 9180), with HKDF-SHA256 and AES-256-GCM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Suite {
    /// DHKEM(X25519, HKDF-SHA256): short, and opened by a large quantum computer.
    #[default]
    X25519,
    /// X-Wing (draft-connolly-cfrg-xwing-kem), ML-KEM-768 (FIPS 203) and X25519 together: nothing opens it unless both
    /// are broken.
    XWing,
}

impl Suite {
    const ALL: [Self; 2] = [Self::X25519, Self::XWing];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::XWing => "x-wing",
        }
    }

    /// Its number in what is stored.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::X25519 => 0,
            Self::XWing => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|it| it.code() == code);
        known.ok_or_else(|| Error::Suite {
            name: code.to_string(),
        })
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Suite {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|it| it.as_str() == text);
        known.ok_or_else(|| Error::Suite {
            name: text.to_owned(),
        })
    }
}

/// The public key of a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PublicKey {
    X25519([u8; KEY_BYTES]),
    XWing(Arc<[u8; XWING_PUBLIC_BYTES]>),
}

impl PublicKey {
    pub(crate) const fn suite(&self) -> Suite {
        match self {
            Self::X25519(_) => Suite::X25519,
            Self::XWing(_) => Suite::XWing,
        }
    }

    /// The key alone.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::X25519(bytes) => bytes,
            Self::XWing(bytes) => bytes.as_slice(),
        }
    }

    /// The key with its suite before it, which is left out for X25519.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::X25519(bytes) => bytes.to_vec(),
            Self::XWing(bytes) => [&[Suite::XWing.code()], bytes.as_slice()].concat(),
        }
    }

    /// The key that [`encode`](Self::encode) wrote; what has another length than its suite's keys is refused.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Ok(bytes) = <[u8; KEY_BYTES]>::try_from(bytes) {
            return Ok(Self::X25519(bytes));
        }
        let (code, key) = bytes.split_first().ok_or(Error::Forged)?;
        match Suite::from_code(*code)? {
            Suite::X25519 => Err(Error::Forged),
            Suite::XWing => <[u8; XWING_PUBLIC_BYTES]>::try_from(key)
                .map(|key| Self::XWing(Arc::new(key)))
                .map_err(|_length| Error::Forged),
        }
    }
}
