//! RESP2 and RESP3 as bytes: an incremental scanner for each direction, and whole frames.
//!
//! Nothing here reads a socket, and nothing here holds more of a message than the caller asks
//! for: a bulk string of any length passes through as parts.

mod arguments;
mod command;
mod event;
mod frame;
mod inline;
mod reply;

pub use arguments::{Argument, Arguments};
pub use command::CommandScanner;
pub use event::{Event, Kind};
pub use frame::{Frame, FrameReader, put_command};
pub use reply::ReplyScanner;

/// Bounds of a peer's input.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Deepest nesting of aggregates in a reply.
    pub depth_max: usize,
    /// Most elements of one aggregate, and most arguments of one command.
    pub elements_max: u64,
    /// Longest bulk string, in bytes.
    pub bulk_bytes_max: u64,
    /// Longest line (header, inline command), in bytes; of a text of a reply so much is kept.
    pub line_bytes_max: usize,
    /// Most bytes of one command that are kept to find its keys.
    pub command_bytes_kept_max: usize,
}

impl Limits {
    /// Default deepest nesting of replies.
    pub const DEPTH_MAX: usize = 128;
    /// Default longest bulk string: what Redis itself accepts.
    pub const BULK_BYTES_MAX: u64 = 512 << 20;
    /// Deepest nesting of a server's reply: a script may nest far deeper than a command.
    pub const DEPTH_MAX_SERVER: usize = 1 << 16;
    /// Default longest line: what Redis itself accepts.
    pub const LINE_BYTES_MAX: usize = 64 << 10;
    /// Default most arguments of a command: what Redis itself accepts.
    pub const ELEMENTS_MAX: u64 = i32::MAX as u64;
    /// Default most bytes of one command that are kept to find its keys.
    pub const COMMAND_BYTES_KEPT_MAX: usize = 64 << 20;

    /// The defaults for a client's input.
    pub const CLIENT: Self = Self {
        depth_max: Self::DEPTH_MAX,
        elements_max: Self::ELEMENTS_MAX,
        bulk_bytes_max: Self::BULK_BYTES_MAX,
        line_bytes_max: Self::LINE_BYTES_MAX,
        command_bytes_kept_max: Self::COMMAND_BYTES_KEPT_MAX,
    };

    /// The defaults for commands that are carried out here, and therefore kept whole.
    pub const STORE: Self = Self {
        command_bytes_kept_max: 1 << 30,
        ..Self::CLIENT
    };

    /// The defaults for a server's replies, which may be longer than a client's commands.
    pub const SERVER: Self = Self {
        depth_max: Self::DEPTH_MAX_SERVER,
        elements_max: u32::MAX as u64,
        bulk_bytes_max: 4 << 30,
        line_bytes_max: 1 << 20,
        ..Self::CLIENT
    };
}

/// Why bytes are not RESP, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RespError {
    /// The first byte of a value names no type.
    #[error("byte {0:#04x} begins no value")]
    Type(u8),
    /// A length or count is not a number within its bounds.
    #[error("a length is not a number within its bounds")]
    Length,
    /// A scalar does not follow its type's grammar.
    #[error("a {0} value does not follow its grammar")]
    Scalar(&'static str),
    /// A line is longer than the limit.
    #[error("a line exceeds {0} bytes")]
    LineTooLong(usize),
    /// Values are nested deeper than the limit.
    #[error("values are nested deeper than {0}")]
    TooDeep(usize),
    /// A bulk string is not followed by its line end.
    #[error("a bulk string is not followed by a line end")]
    BulkEnd,
    /// A streamed part or end stands where none may.
    #[error("a streamed part stands where none may")]
    Stream,
    /// A command's argument is not announced by `$`.
    #[error("expected '$', got byte {0:#04x}")]
    NotBulk(u8),
    /// An inline command holds a zero byte, behind which servers do not agree on what follows.
    #[error("an inline command holds a zero byte")]
    Zero,
    /// An inline command has unbalanced quotes.
    #[error("unbalanced quotes in an inline command")]
    Quotes,
    /// More of one command would have to be kept than the limit allows.
    #[error("a command's keys exceed {0} bytes")]
    TooMuchKept(usize),
}

/// The result of one call of a scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// Bytes of the input that were taken.
    pub consumed: usize,
    /// True if the last byte ends a value; otherwise all input was taken.
    pub complete: bool,
}

/// A decimal number as the protocol writes it: optional minus, digits, nothing else.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        value = value.checked_mul(10)?;
        value = if negative {
            value.checked_sub(digit)?
        } else {
            value.checked_add(digit)?
        };
    }
    Some(value)
}

/// As [`parse_integer`], but only in the one form that Redis accepts in headers and numbers.
pub(crate) fn parse_canonical(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'0', ..] | [b'-', b'0', ..] => None,
        _ => parse_integer(text),
    }
}
