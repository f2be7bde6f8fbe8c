//! The compressors, behind one face: Zstandard, LZ4 or none.

use alloc::vec::Vec;

use zstd_safe::{CCtx, CParameter, DCtx};

use crate::error::DecodeError;
use crate::stream::Compression;

/// Compresses sections; keeps its contexts from section to section.
pub struct Compressor {
    compression: Compression,
    zstd: Option<CCtx<'static>>,
}

impl Compressor {
    /// A compressor for streams with `compression`.
    ///
    /// # Errors
    /// When the library refuses the level.
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
        Ok(Self { compression, zstd })
    }

    /// The byte that stands for the compressor in a section body.
    pub const fn code(&self) -> u8 {
        match self.compression {
            Compression::None => 0,
            Compression::Zstd(_) => 1,
            Compression::Lz4 => 2,
        }
    }

    /// Most bytes that `plain_bytes` can become.
    pub fn bound(&self, plain_bytes: usize) -> usize {
        match self.compression {
            Compression::None => plain_bytes,
            Compression::Zstd(_) => zstd_safe::compress_bound(plain_bytes),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(plain_bytes),
        }
    }

    /// Compresses `plain` into the beginning of `out`; gives the length.
    ///
    /// # Errors
    /// When `out` is shorter than [`Compressor::bound`] asks for.
    pub fn compress(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, DecodeError> {
        let error = DecodeError::new("compressor", 0, "fails");
        if plain.is_empty() {
            return Ok(0);
        }
        match &mut self.zstd {
            Some(context) => context.compress2(out, plain).map_err(|_code| error),
            None if self.compression == Compression::Lz4 => {
                lz4_flex::block::compress_into(plain, out).map_err(|_too_small| error)
            }
            None => {
                out.get_mut(..plain.len())
                    .ok_or(error)?
                    .copy_from_slice(plain);
                Ok(plain.len())
            }
        }
    }
}

/// Opens what any [`Compressor`] wrote; keeps its context from section to section.
pub struct Decompressor {
    zstd: DCtx<'static>,
}

impl Default for Decompressor {
    fn default() -> Self {
        Self {
            zstd: DCtx::create(),
        }
    }
}

impl Decompressor {
    /// Decompresses `bytes` of compressor `code` into exactly `plain_bytes` bytes.
    ///
    /// The caller bounds `plain_bytes`; nothing beyond it is ever written or allocated.
    ///
    /// # Errors
    /// When the bytes are damaged or do not have that length.
    pub fn decompress(
        &mut self,
        code: u8,
        bytes: &[u8],
        plain_bytes: usize,
    ) -> Result<Vec<u8>, DecodeError> {
        let error = |reason| DecodeError::new("compressed section", 0, reason);
        let mut plain = alloc::vec![0; plain_bytes];
        let length = match code {
            _ if plain_bytes == 0 => bytes.len(),
            0 => {
                if bytes.len() == plain_bytes {
                    plain.copy_from_slice(bytes);
                }
                bytes.len()
            }
            1 => self
                .zstd
                .decompress(plain.as_mut_slice(), bytes)
                .map_err(|_code| error("does not decompress"))?,
            2 => lz4_flex::block::decompress_into(bytes, &mut plain)
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

    #[test]
    fn every_compressor_round_trips_and_lies_about_length_are_found() {
        let plain: Vec<u8> = (0..10_000u32).map(|i| (i * i / 7 % 13) as u8).collect();
        for compression in [
            Compression::None,
            Compression::Lz4,
            Compression::Zstd(1),
            Compression::Zstd(19),
        ] {
            let mut compressor = Compressor::new(compression).unwrap();
            let mut decompressor = Decompressor::default();
            for plain in [&plain[..], &[], &[1]] {
                let mut out = alloc::vec![0; compressor.bound(plain.len())];
                let length = compressor.compress(plain, &mut out).unwrap();
                let code = compressor.code();
                let back = decompressor
                    .decompress(code, &out[..length], plain.len())
                    .unwrap();
                assert_eq!(back, plain);
                assert!(
                    decompressor
                        .decompress(code, &out[..length], plain.len() + 1)
                        .is_err()
                );
            }
        }
    }
}
