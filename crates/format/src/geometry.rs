//! The geometry: the parameters of a log that are fixed when it is created, and their fingerprint.
//!
//! `docs/format.md`, "Geometry". The file `probity.toml` has exactly one form. The parser writes
//! the expected text again and compares.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use crate::error::DecodeError;
use crate::note::{PUBLIC_KEY_BYTES, VerifierKey};
use crate::stream::StreamName;
use crate::version::Version;

/// Longest origin, in bytes.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// Longest geometry file, in bytes.
pub const GEOMETRY_BYTES_MAX: usize = 4096;

const SUITE: &str = "sha-256 ed25519 hkdf-sha256 aes-256-gcm";

/// The parameters of a log that are fixed when it is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    version: Version,
    origin: String,
    id: [u8; 16],
    anchor: VerifierKey,
    witness: Option<VerifierKey>,
}

impl Geometry {
    /// Creates the geometry of a new log. `origin` is its name in checkpoints, `id` 16 random
    /// bytes, `anchor` its first verifier key. `witness` is the public half of its witness key,
    /// named as the origin of the journal's checkpoints.
    ///
    /// # Errors
    /// When `origin` cannot be a checkpoint origin, or a key is of another name.
    pub fn new(
        origin: &str,
        id: [u8; 16],
        anchor: VerifierKey,
        witness: [u8; PUBLIC_KEY_BYTES],
    ) -> Result<Self, DecodeError> {
        let log = Self::v2(origin, id, anchor)?;
        let witness = VerifierKey::new(&log.stream_origin(StreamName::JOURNAL), witness)?;
        Ok(Self {
            version: Version::NEWEST,
            witness: Some(witness),
            ..log
        })
    }

    /// Creates the geometry of a log of version 2, which has no witness key.
    ///
    /// # Errors
    /// The errors of [`Geometry::new`].
    pub fn v2(origin: &str, id: [u8; 16], anchor: VerifierKey) -> Result<Self, DecodeError> {
        check_origin(origin)?;
        if anchor.name() != origin {
            return Err(DecodeError::new(
                "geometry",
                0,
                "has an anchor of another name",
            ));
        }
        Ok(Self {
            version: Version::V2,
            origin: origin.to_owned(),
            id,
            anchor,
            witness: None,
        })
    }

    /// Reads the content of `probity.toml`.
    ///
    /// # Errors
    /// When the version differs ([`GeometryError::Version`]), or the text is not in the one form.
    pub fn parse(text: &str) -> Result<Self, GeometryError> {
        let mut lines = text.lines();
        let format = lines.next().and_then(|line| line.strip_prefix("format = "));
        let found = format.and_then(|digits| digits.parse::<u64>().ok());
        let found = found.ok_or(GeometryError::Malformed("has no format line"))?;
        let version = u16::try_from(found).ok().and_then(Version::from_number);
        let version = version.ok_or(GeometryError::Version { found })?;
        let mut value = |name: &str| {
            let rest = lines.next()?.strip_prefix(name)?.strip_prefix(" = \"")?;
            rest.strip_suffix('"')
        };
        let malformed = GeometryError::Malformed("is not in the form this build writes");
        let parts = (
            value("origin"),
            value("id"),
            value("suite"),
            value("anchor"),
        );
        let (Some(origin), Some(id), Some(_suite), Some(anchor)) = parts else {
            return Err(malformed);
        };
        let (Some(id), Ok(anchor)) = (parse_hex(id), VerifierKey::parse(anchor)) else {
            return Err(malformed);
        };
        let geometry = match version {
            Version::V2 => Self::v2(origin, id, anchor),
            Version::V3 => {
                let witness = value("witness").and_then(|key| VerifierKey::parse(key).ok());
                let witness = witness.ok_or(malformed)?;
                Self::new(origin, id, anchor, *witness.key())
            }
        };
        let geometry = geometry.map_err(|error| GeometryError::Malformed(error.reason))?;
        if geometry.encode() == text {
            Ok(geometry)
        } else {
            Err(malformed)
        }
    }

    /// Returns the content of `probity.toml`.
    pub fn encode(&self) -> String {
        let mut id = String::new();
        for byte in self.id {
            // Writing to a string does not fail.
            let _infallible = write!(id, "{byte:02x}");
        }
        let mut text = format!(
            "format = {}\norigin = \"{}\"\nid = \"{id}\"\nsuite = \"{SUITE}\"\nanchor = \"{}\"\n",
            self.version.number(),
            self.origin,
            self.anchor.encode()
        );
        if let Some(witness) = &self.witness {
            let _infallible = writeln!(text, "witness = \"{}\"", witness.encode());
        }
        text
    }

    /// Returns the fingerprint: the SHA-256 of the geometry file, to which every header and key of
    /// the log is bound.
    pub fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(self.encode()).into()
    }

    /// Returns the version of every file of the log.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the log's name.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the origin of the checkpoints of stream `name`.
    pub fn stream_origin(&self, name: &str) -> String {
        format!("{}{STREAMS}{name}", self.origin)
    }

    /// Returns the random bytes that distinguish the log from others of its name.
    pub const fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// Returns the first key in the chain of signing keys.
    pub const fn anchor(&self) -> &VerifierKey {
        &self.anchor
    }

    /// Returns the witness key, with which every checkpoint of the journal is signed beside the
    /// current signing key. It never changes, for witnesses that hold one key per log. `None` in a
    /// log of version 2.
    pub const fn witness(&self) -> Option<&VerifierKey> {
        self.witness.as_ref()
    }
}

/// The reason why a geometry file is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// The log is of another format version.
    Version {
        /// The version number in the file.
        found: u64,
    },
    /// The text is malformed; one clause.
    Malformed(&'static str),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found } => write!(
                f,
                "the geometry is of format {found}, this build reads formats {} to {}",
                Version::V2.number(),
                Version::NEWEST.number()
            ),
            Self::Malformed(reason) => write!(f, "the geometry {reason}"),
        }
    }
}

impl core::error::Error for GeometryError {}

/// The separator between log name and stream name in the origin of a stream's checkpoints.
pub(crate) const STREAMS: &str = "/streams/";

/// Returns whether a log named `origin` could be confused with a stream of another log, and its
/// keys with that log's keys.
///
/// A log with such a name cannot be created, and no proof about one is accepted; an existing one
/// can be read.
pub fn is_named_as_stream(origin: &str) -> bool {
    origin.contains(STREAMS)
}

fn check_origin(origin: &str) -> Result<(), DecodeError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
    if origin.is_empty() || origin.len() > ORIGIN_BYTES_MAX || !origin.bytes().all(allowed) {
        return Err(DecodeError::new(
            "origin",
            0,
            "must be 1 to 255 ASCII letters, digits, '-', '.', '_', '/' and ':'",
        ));
    }
    Ok(())
}

fn parse_hex(text: &str) -> Option<[u8; 16]> {
    let mut out = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_one_form() {
        let anchor = VerifierKey::new("example.com/log", [7; 32]).unwrap();
        let geometry = Geometry::new("example.com/log", [0xAB; 16], anchor, [8; 32]).unwrap();
        let text = geometry.encode();
        assert_eq!(Geometry::parse(&text).as_ref(), Ok(&geometry));
        let (shorter, witness) = text.split_at(text.rfind("witness").unwrap());
        assert!(witness.starts_with("witness = \"example.com/log/streams/journal+"));
        let older = shorter.replace("format = 3", "format = 2");
        let parsed = Geometry::parse(&older).unwrap();
        assert_eq!(parsed.version(), Version::V2);
        assert_eq!(parsed.encode(), older);
        assert_ne!(parsed.fingerprint(), geometry.fingerprint());
        for found in [1, 4] {
            let other = text.replace("format = 3", &format!("format = {found}"));
            assert_eq!(
                Geometry::parse(&other),
                Err(GeometryError::Version { found })
            );
        }
        for bad in [
            &text[1..],
            &text[..text.len() - 1],
            &text.replace("sha-256", "md5"),
            &text.replace("/streams/journal", "/streams/default"),
            &text.replace("format = 3", "format = 2"),
            &older.replace("format = 2", "format = 3"),
            "",
        ] {
            assert!(matches!(
                Geometry::parse(bad),
                Err(GeometryError::Malformed(_))
            ));
        }
        let newer = GeometryError::Version { found: 4 };
        assert_eq!(
            format!("{newer}; {}", Geometry::parse("").unwrap_err()),
            "the geometry is of format 4, this build reads formats 2 to 3; the geometry has no format line"
        );
        let other = VerifierKey::new("x", [7; 32]).unwrap();
        assert!(Geometry::new("a b", [0; 16], other.clone(), [8; 32]).is_err());
        assert!(Geometry::new("y", [0; 16], other, [8; 32]).is_err());
    }

    /// A log whose name is that of another log's stream cannot be created; an existing one is read.
    #[test]
    fn a_log_that_is_named_as_a_stream_is_read() {
        for (origin, is_so) in [("a/streams/journal", true), ("a/streams", false)] {
            let anchor = VerifierKey::new(origin, [7; 32]).unwrap();
            let geometry = Geometry::new(origin, [0; 16], anchor, [8; 32]).unwrap();
            assert_eq!(Geometry::parse(&geometry.encode()), Ok(geometry));
            assert_eq!(is_named_as_stream(origin), is_so, "{origin}");
        }
    }
}
