//! The types of values, and the events that a scan of them gives.

use super::{RespError, parse_integer};

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of the protocol's own description"
)]
pub enum Kind {
    Simple,
    Error,
    Integer,
    Null,
    Boolean,
    Double,
    BigNumber,
    Bulk,
    BlobError,
    Verbatim,
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

/// One step through a value. Texts borrow the input or the scanner's line buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A value of one line: simple string, error, integer, null, boolean, double, big number.
    Line(Kind, &'a [u8]),
    /// RESP2's null of this kind: `$-1` or `*-1`.
    NullOf(Kind),
    /// A bulk string begins; `None` means that its length is not announced.
    Bulk(Kind, Option<u64>),
    /// Bytes of the current bulk string.
    Part(&'a [u8]),
    /// The current bulk string ends.
    BulkEnd,
    /// An aggregate begins; the count is of elements (pairs for maps and attributes).
    Open(Kind, Option<u64>),
    /// The innermost aggregate ends.
    Close,
    /// Bytes of a push in the middle of the value, which is no part of it.
    Aside(&'a [u8]),
}

/// Returns the type that the first byte of a value says.
pub(super) const fn kind_of(byte: u8) -> Result<Kind, RespError> {
    Ok(match byte {
        b'+' => Kind::Simple,
        b'-' => Kind::Error,
        b':' => Kind::Integer,
        b'_' => Kind::Null,
        b'#' => Kind::Boolean,
        b',' => Kind::Double,
        b'(' => Kind::BigNumber,
        b'$' => Kind::Bulk,
        b'!' => Kind::BlobError,
        b'=' => Kind::Verbatim,
        b'*' => Kind::Array,
        b'%' => Kind::Map,
        b'~' => Kind::Set,
        b'>' => Kind::Push,
        b'|' => Kind::Attribute,
        b';' => return Err(RespError::Stream),
        other => return Err(RespError::Type(other)),
    })
}

/// Checks the text of a value of one line.
pub(super) fn check_scalar(kind: Kind, text: &[u8]) -> Result<(), RespError> {
    let (good, name) = match kind {
        Kind::Integer => (
            parse_integer(text.strip_prefix(b"+").unwrap_or(text)).is_some(),
            "integer",
        ),
        Kind::Null => (text.is_empty(), "null"),
        Kind::Boolean => (matches!(text, b"t" | b"f"), "boolean"),
        Kind::Double => (is_double(text), "double"),
        // A script's big number is whatever text the script gave it.
        _ => (true, "line"),
    };
    if good {
        Ok(())
    } else {
        Err(RespError::Scalar(name))
    }
}

fn is_double(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
}
