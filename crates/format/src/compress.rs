//! The compressor of sections: Zstandard or none. Sections of version 2 may be in LZ4 as well.

use alloc::vec::Vec;
use core::fmt;

use zstd_safe::{CCtx, CParameter, DCtx};

use crate::error::DecodeError;
use crate::version::Version;

/// The compression that a writer uses for sections. Each section names its own compressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Zstandard at this level, 1..=19.
    Zstd(u8),
    /// None.
    None,
}

impl Compression {
    /// The default: Zstandard level 1.
    pub const DEFAULT: Self = Self::Zstd(1);
    /// The highest Zstandard level.
    pub const ZSTD_LEVEL_MAX: u8 = 19;

    /// Returns the compressor named `word`: `zstd:N` or `none`. A bare level 0..=19 means
    /// Zstandard, 0 none.
    pub fn from_word(word: &str) -> Option<Self> {
        if word == "none" {
            return Some(Self::None);
        }
        match word.strip_prefix("zstd:").unwrap_or(word).parse().ok()? {
            0 => Some(Self::None),
            level => (level <= Self::ZSTD_LEVEL_MAX).then_some(Self::Zstd(level)),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Compresses sections; keeps its contexts from section to section.
pub struct Compressor {
    zstd: Option<CCtx<'static>>,
}

impl Compressor {
    /// Creates a compressor for `compression`.
    ///
    /// # Errors
    /// When the Zstandard library refuses the level.
    pub fn new(compression: Compression) -> Result<Self, DecodeError> {
        let zstd = if let Compression::Zstd(level) = compression {
            let mut context = CCtx::create();
            context
                .set_parameter(CParameter::CompressionLevel(i32::from(level)))
                .map_err(|_refused| DecodeError::new("compressor", 0, "refuses the level"))?;
            Some(context)
        } else {
            None
        };
        Ok(Self { zstd })
    }

    /// Returns the code of the compressor in a section body.
    pub const fn code(&self) -> u8 {
        if self.zstd.is_some() { 1 } else { 0 }
    }

    /// Returns the greatest length, in bytes, to which `plain_bytes` bytes can be compressed.
    pub fn bound(&self, plain_bytes: usize) -> usize {
        match self.zstd {
            Some(_) => zstd_safe::compress_bound(plain_bytes),
            None => plain_bytes,
        }
    }

    /// Compresses `plain` into the beginning of `out`; returns the compressed length in bytes.
    ///
    /// # Errors
    /// When `out` is shorter than [`Compressor::bound`] returns.
    pub fn compress(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
        let error = DecodeError::new("compressor", 0, "fails");
        if plain.is_empty() {
            return Ok(0);
        }
        if let Some(context) = &mut self.zstd {
            return context.compress2(out, plain).map_err(|_code| error);
        }
        out.get_mut(..plain.len())
            .ok_or(error)?
            .copy_from_slice(plain);
        Ok(plain.len())
    }
}

/// Decompresses the output of any [`Compressor`]; keeps its context from section to section, once
/// one needed it.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Decompresses `bytes` of compressor `code` in a log of `version` into exactly `plain_bytes`
    /// bytes.
    ///
    /// The caller bounds `plain_bytes`; nothing beyond it is ever written or allocated.
    ///
    /// # Errors
    /// When the bytes are damaged or do not have that length.
    pub fn decompress(
        &mut self,
        version: Version,
        code: u8,
        bytes: &[u8],
        plain_bytes: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let error = |reason| DecodeError::new("compressed section", 0, reason);
        let mut plain = alloc::vec![0; plain_bytes];
        let length = match code {
            0 => {
                if bytes.len() == plain_bytes {
                    plain.copy_from_slice(bytes);
                }
                bytes.len()
            }
            // Empty input is compressed to empty output.
            1 if plain_bytes == 0 => bytes.len(),
            1 => self
                .zstd
                .get_or_insert_with(DCtx::create)
                .decompress(plain.as_mut_slice(), bytes)
                .map_err(|_code| error("does not decompress"))?,
            2 if version == Version::V2 && plain_bytes == 0 => bytes.len(),
            2 if version == Version::V2 => lz4_flex::block::decompress_into(bytes, &mut plain)
                .map_err(|_damaged| error("does not decompress"))?,
            _ => return Err(error("names an unknown compressor")),
        };
        if length == plain_bytes {
            Ok(plain)
        } else {
            Err(error("has another length than it says"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Vec<u8> {
        (0..10_000u32).map(|i| (i * i / 7 % 13) as u8).collect()
    }

    #[test]
    fn every_compressor_round_trips_and_lies_about_length_are_found() {
        let plain = plain();
        for compression in [
            Compression::None,
            Compression::Zstd(1),
            Compression::Zstd(19),
        ] {
            let mut compressor = Compressor::new(compression).unwrap();
            let mut decompressor = Decompressor::default();
            let mut open = |code, bytes: &[u8], plain_bytes| {
                decompressor.decompress(Version::V3, code, bytes, plain_bytes)
            };
            for plain in [&plain[..], &[], &[1]] {
                let mut out = alloc::vec![0; compressor.bound(plain.len())];
                let length = compressor.compress(plain, &mut out).unwrap();
                let code = compressor.code();
                assert_eq!(open(code, &out[..length], plain.len()).unwrap(), plain);
                assert!(open(code, &out[..length], plain.len() + 1).is_err());
            }
        }
        for (word, compression) in [
            ("0", Some(Compression::None)),
            ("none", Some(Compression::None)),
            ("7", Some(Compression::Zstd(7))),
            ("zstd:19", Some(Compression::Zstd(19))),
            ("zstd:20", None),
            ("lz4", None),
        ] {
            assert_eq!(Compression::from_word(word), compression, "{word}");
        }
    }

    #[test]
    fn only_sections_of_version_2_are_in_lz4() {
        let plain = plain();
        let packed = lz4_flex::block::compress(&plain);
        let mut decompressor = Decompressor::default();
        let mut open =
            |version, bytes: &[u8], length| decompressor.decompress(version, 2, bytes, length);
        assert_eq!(open(Version::V2, &packed, plain.len()).unwrap(), plain);
        assert!(open(Version::V2, &packed, plain.len() + 1).is_err());
        assert!(open(Version::V3, &packed, plain.len()).is_err());
        assert!(open(Version::V3, &[], 0).is_err());
    }
}
