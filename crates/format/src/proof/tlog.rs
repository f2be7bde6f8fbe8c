//! The text form of a stand-alone proof: C2SP tlog-proof.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::PROOF_HASHES_MAX;
use crate::error::DecodeError;
use crate::limits::{CHECKPOINT_BYTES_MAX, PROOF_EXTRA_BYTES_MAX};
use crate::tile::canonical_number;
use crate::tree::Hash;

/// A stand-alone proof: C2SP tlog-proof, `c2sp.org/tlog-proof@v1`.
///
/// A proof has one text form; [`TlogProof::parse`] refuses any other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlogProof {
    /// Opaque, unauthenticated data; at most [`PROOF_EXTRA_BYTES_MAX`].
    pub extra: Option<Vec<u8>>,
    /// Index of the leaf in the tree.
    pub index: u64,
    /// The inclusion proof, sibling of the leaf first.
    pub path: Vec<Hash>,
    /// The signed checkpoint, verbatim; not verified here.
    pub checkpoint: String,
}

impl TlogProof {
    const HEADER: &'static str = "c2sp.org/tlog-proof@v1";

    /// Creates a proof without extra data.
    pub const fn new(index: u64, path: Vec<Hash>, checkpoint: String) -> Self {
        Self {
            extra: None,
            index,
            path,
            checkpoint,
        }
    }

    /// Returns the text of a `.tlog-proof` file.
    pub fn encode(&self) -> String {
        let mut text = format!("{}\n", Self::HEADER);
        if let Some(extra) = &self.extra {
            let _infallible = writeln!(text, "extra {}", STANDARD.encode(extra));
        }
        let _infallible = writeln!(text, "index {}", self.index);
        for hash in &self.path {
            let _infallible = writeln!(text, "{hash}");
        }
        text.push('\n');
        text.push_str(&self.checkpoint);
        text
    }

    /// Parses the text of a `.tlog-proof` file.
    ///
    /// # Errors
    /// If `text` is not exactly what [`TlogProof::encode`] writes. The checkpoint is kept verbatim.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let mut lines = Lines {
            rest: text,
            offset: 0,
        };
        if lines.next_line()? != Self::HEADER {
            return Err(DecodeError::new(
                "tlog-proof",
                0,
                "does not begin with its version line",
            ));
        }
        let mut line = lines.next_line()?;
        let mut extra = None;
        if let Some(encoded) = line.strip_prefix("extra ") {
            extra = Some(decode_extra(encoded).map_err(|reason| lines.error(reason))?);
            line = lines.next_line()?;
        }
        let index = line
            .strip_prefix("index ")
            .and_then(canonical_number)
            .ok_or_else(|| lines.error("has no index line with a canonical decimal number"))?;
        let mut path = Vec::new();
        loop {
            let line = lines.next_line()?;
            if line.is_empty() {
                break;
            }
            if path.len() == PROOF_HASHES_MAX {
                return Err(lines.error("has more hashes than any tree is high"));
            }
            let hash =
                Hash::from_base64(line, "tlog-proof").map_err(|error| lines.error(error.reason))?;
            path.push(hash);
        }
        if lines.rest.is_empty() || lines.rest.len() > CHECKPOINT_BYTES_MAX {
            return Err(lines.error("has no checkpoint, or one above the size limit"));
        }
        Ok(Self {
            extra,
            index,
            path,
            checkpoint: lines.rest.into(),
        })
    }
}

fn decode_extra(encoded: &str) -> Result<Vec<u8>, &'static str> {
    if encoded.len() > PROOF_EXTRA_BYTES_MAX.div_ceil(3).saturating_mul(4) {
        return Err("has extra data above the limit");
    }
    STANDARD
        .decode(encoded)
        .map_err(|_detail| "has extra data that is not canonical base64")
}

/// Iterates over lines of text and their offsets.
struct Lines<'a> {
    rest: &'a str,
    offset: usize,
}

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Result<&'a str, DecodeError> {
        let (line, rest) = self
            .rest
            .split_once('\n')
            .ok_or_else(|| self.error("ends within a line"))?;
        self.offset = self.offset.saturating_add(line.len()).saturating_add(1);
        self.rest = rest;
        Ok(line)
    }

    /// Creates an error at the end of the last line read.
    const fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError::new("tlog-proof", self.offset, reason)
    }
}
