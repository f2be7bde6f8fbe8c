//! The configuration of a stream of version 2, whose text names the compressor.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::stream::{Cipher, Proofs, StreamConfig};

/// The compressor in the configuration of a stream of version 2. Each section names its own as
/// well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Zstandard at this level, 1..=19.
    Zstd(u8),
    /// LZ4.
    Lz4,
    /// None.
    None,
}

impl Compression {
    /// The highest Zstandard level.
    const ZSTD_LEVEL_MAX: u8 = 19;

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "lz4" => Some(Self::Lz4),
            "none" => Some(Self::None),
            _ => {
                let level = word.strip_prefix("zstd:")?.parse().ok()?;
                (1..=Self::ZSTD_LEVEL_MAX)
                    .contains(&level)
                    .then_some(Self::Zstd(level))
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Lz4 => f.write_str("lz4"),
            Self::None => f.write_str("none"),
        }
    }
}

/// Parses the configuration of a stream of version 2; the caller compares `text` with its encoding.
pub(crate) fn config(text: &str) -> Option<StreamConfig> {
    let mut parts = text.split(' ');
    let mut value = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
    Some(StreamConfig {
        proofs: match value("proofs")? {
            "frame" => Proofs::Frame,
            word => Proofs::from_word(word)?,
        },
        cipher: Cipher::from_word(value("cipher")?)?,
        v2: Some(Compression::from_word(value("compression")?)?),
        erasable: value("erasable")? == "yes",
        ..StreamConfig::default()
    })
}

/// Returns the text of `config` with `compression`.
pub(crate) fn config_text(config: &StreamConfig, compression: Compression) -> String {
    format!(
        "proofs={} cipher={} compression={compression} erasable={}",
        config.proofs.as_str(),
        config.cipher.as_str(),
        if config.erasable { "yes" } else { "no" }
    )
}
