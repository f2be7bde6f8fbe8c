//! The configuration of a stream, fixed when it is created, and its only text form.
//!
//! `docs/format.md`, "Stream identity".

use core::fmt;

use crate::v2;
use crate::version::Version;

/// Longest retention of a stream's entries, in days.
pub const RETENTION_DAYS_MAX: u16 = 36_500;
/// Longest tenant, module or tag, in bytes.
const LABEL_BYTES_MAX: usize = 64;

/// The leaves of the Merkle tree inside a frame. They decide what can be proved and at which cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Proofs {
    /// One leaf per entry, in a second tree: a single entry can be proved alone.
    Entry,
    /// One leaf per sealed section: a subject's section of a frame can be proved alone.
    #[default]
    Section,
    /// One leaf per frame. Only in version 2.
    Frame,
}

impl Proofs {
    /// Every mode of version 3.
    pub const ALL: [Self; 2] = [Self::Entry, Self::Section];

    /// Returns the word used on the command line, in the configuration and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Section => "section",
            Self::Frame => "frame",
        }
    }

    /// Returns the mode of version 3 named `word`, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proofs| proofs.as_str() == word)
    }
}

/// The cipher of a stream's sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256-GCM under a key derived for each section.
    #[default]
    Aes256Gcm,
    /// No encryption: for measurements, and for the journal, which holds no personal data.
    DangerNone,
}

impl Cipher {
    /// Every cipher.
    pub const ALL: [Self; 2] = [Self::Aes256Gcm, Self::DangerNone];

    /// Returns the word used on the command line, in the configuration and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::DangerNone => "danger-none",
        }
    }

    /// Returns the cipher named `word`, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.as_str() == word)
    }
}

/// A tenant, module or tag: 1 to 64 bytes of lower-case ASCII letters, digits, `.`, `_` and `-`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label {
    bytes: [u8; LABEL_BYTES_MAX],
    length: u8,
}

impl Label {
    /// Creates the label `text`, if it is one.
    pub fn new(text: &str) -> Option<Self> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if text.is_empty() || !text.bytes().all(allowed) {
            return None;
        }
        let mut bytes = [0; LABEL_BYTES_MAX];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(Self {
            bytes,
            length: u8::try_from(text.len()).ok()?,
        })
    }

    /// Returns the label as text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length));
        core::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The configuration of a stream, fixed when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct StreamConfig {
    /// The leaves of each frame's tree, which decide what can be proved.
    pub proofs: Proofs,
    /// The cipher of the sections.
    pub cipher: Cipher,
    /// `true` if keys and payloads are sealed under the keys of their subjects, so that a subject
    /// can be erased.
    pub erasable: bool,
    /// The tenant whose data the entries are about.
    pub tenant: Option<Label>,
    /// The part of an application that writes the entries.
    pub module: Option<Label>,
    /// The retention of the entries in days, 1 to [`RETENTION_DAYS_MAX`].
    pub retention: Option<u16>,
    /// A free label that distinguishes streams.
    pub tag: Option<Label>,
    /// The compressor of a stream of version 2; `None` in version 3, where each section names its
    /// own.
    pub v2: Option<v2::Compression>,
}

impl StreamConfig {
    /// The configuration of the built-in streams: without encryption, because everybody must be
    /// able to check them.
    pub const JOURNAL: Self = Self {
        proofs: Proofs::Section,
        cipher: Cipher::DangerNone,
        erasable: false,
        tenant: None,
        module: None,
        retention: None,
        tag: None,
        v2: None,
    };

    /// Returns the configuration of the built-in streams of a log of `version`.
    pub const fn journal(version: Version) -> Self {
        Self {
            v2: match version {
                Version::V2 => Some(v2::Compression::None),
                Version::V3 => None,
            },
            ..Self::JOURNAL
        }
    }

    /// Reads the configuration of a stream of `version` from `text`. Returns `None` unless `text`
    /// is exactly what [`fmt::Display`] writes.
    pub fn from_text(version: Version, text: &str) -> Option<Self> {
        let config = match version {
            Version::V2 => v2::config(text),
            Version::V3 => parse(text),
        };
        config.filter(|config| alloc::format!("{config}") == text)
    }
}

/// Reads the parts of `text`. The caller checks the canonical form by writing it again.
fn parse(text: &str) -> Option<StreamConfig> {
    let mut parts = text.split(' ').peekable();
    let mut value = |name: &str| {
        let part = parts.next_if(|part| part.split('=').next() == Some(name))?;
        part.get(name.len().checked_add(1)?..)
    };
    let label = |text: Option<&str>| text.map(|text| Label::new(text).ok_or(())).transpose();
    Some(StreamConfig {
        proofs: Proofs::from_word(value("proofs")?)?,
        cipher: Cipher::from_word(value("cipher")?)?,
        erasable: value("erasable")? == "yes",
        tenant: label(value("tenant")).ok()?,
        module: label(value("module")).ok()?,
        retention: match value("retention") {
            Some(days) => Some(retention(days)?),
            None => None,
        },
        tag: label(value("tag")).ok()?,
        v2: None,
    })
}

fn retention(days: &str) -> Option<u16> {
    let days = days.parse().ok()?;
    (1..=RETENTION_DAYS_MAX).contains(&days).then_some(days)
}

impl fmt::Display for StreamConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(compression) = self.v2 {
            return f.write_str(&v2::config_text(self, compression));
        }
        write!(
            f,
            "proofs={} cipher={} erasable={}",
            self.proofs.as_str(),
            self.cipher.as_str(),
            if self.erasable { "yes" } else { "no" }
        )?;
        let mut label = |name, label: &Option<Label>| match label {
            Some(label) => write!(f, " {name}={label}"),
            None => Ok(()),
        };
        label("tenant", &self.tenant)?;
        label("module", &self.module)?;
        if let Some(days) = self.retention {
            write!(f, " retention={days}")?;
        }
        match &self.tag {
            Some(tag) => write!(f, " tag={tag}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::ToString as _;
    use std::vec::Vec;

    use super::*;

    fn configs() -> Vec<StreamConfig> {
        let mut configs = Vec::new();
        for proofs in Proofs::ALL {
            for cipher in Cipher::ALL {
                for bits in 0..32_u8 {
                    let label = |bit: u8, text| Label::new(text).filter(|_| bits & bit != 0);
                    configs.push(StreamConfig {
                        proofs,
                        cipher,
                        erasable: bits & 1 != 0,
                        tenant: label(2, "acme"),
                        module: label(4, "crm-2.web_front"),
                        retention: (bits & 8 != 0).then_some(RETENTION_DAYS_MAX),
                        tag: label(16, "x"),
                        v2: None,
                    });
                }
            }
        }
        configs
    }

    #[test]
    fn configurations_have_one_text_each() {
        for config in configs() {
            let text = config.to_string();
            assert_eq!(StreamConfig::from_text(Version::V3, &text), Some(config));
            assert_eq!(StreamConfig::from_text(Version::V2, &text), None);
            for bad in [
                format!("{text} "),
                format!(" {text}"),
                text.replace(' ', "  "),
            ] {
                assert_eq!(StreamConfig::from_text(Version::V3, &bad), None, "{bad}");
            }
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let long = "x".repeat(65);
        let begin = "proofs=section cipher=aes-256-gcm erasable=yes";
        for end in [
            " tenant=",
            " tenant=A",
            " tenant=a/b",
            &format!(" tenant={long}"),
            " module=m tenant=t",
            " tenant=t tenant=t",
            " retention=0",
            " retention=07",
            " retention=+7",
            " retention=36501",
            " retention=1 retention=1",
            " tag=a b",
            " other=x",
            " compression=none",
        ] {
            let text = format!("{begin}{end}");
            assert_eq!(StreamConfig::from_text(Version::V3, &text), None, "{text}");
        }
        for text in [
            "",
            "proofs=frame cipher=aes-256-gcm erasable=yes",
            "proofs=section cipher=aes-256-gcm erasable=maybe",
            "cipher=aes-256-gcm proofs=section erasable=yes",
            "proofs=section cipher=aes-256-gcm",
        ] {
            assert_eq!(StreamConfig::from_text(Version::V3, text), None, "{text}");
        }
        let begin = StreamConfig::from_text(Version::V3, begin);
        assert!(begin.is_some_and(|config| config.erasable));
    }

    #[test]
    fn a_stream_of_version_2_names_its_compressor() {
        for text in [
            "proofs=frame cipher=danger-none compression=lz4 erasable=no",
            "proofs=section cipher=aes-256-gcm compression=zstd:19 erasable=yes",
            "proofs=entry cipher=aes-256-gcm compression=none erasable=no",
        ] {
            let config = StreamConfig::from_text(Version::V2, text).unwrap();
            assert_eq!(config.to_string(), text);
            assert_eq!(StreamConfig::from_text(Version::V3, text), None);
        }
        for text in [
            "proofs=section cipher=aes-256-gcm erasable=yes",
            "proofs=section cipher=aes-256-gcm compression=zstd:20 erasable=yes",
            "proofs=section cipher=aes-256-gcm compression=zstd:01 erasable=yes",
        ] {
            assert_eq!(StreamConfig::from_text(Version::V2, text), None, "{text}");
        }
    }
}
