//! Replies as bytes, in both versions of the protocol.

use crate::fail::Fail;
use crate::memory::NoMemory;
use crate::number::format_double;

/// Most bytes around a text.
const BULK_BYTES: usize = 32;

/// The version of the protocol a client chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Replies under construction.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    pub(crate) protocol: Protocol,
    /// Bytes of one reply after which no text is taken.
    bytes_max: usize,
    /// The place at which the reply under way begins.
    begin: usize,
    /// Why something was not taken.
    cut: Option<Cut>,
    /// Bytes of the reply under way for which there is memory, and the error beyond them.
    memory: Option<(usize, NoMemory)>,
}

/// Why something was left out of a reply.
#[derive(Debug, Clone, Copy)]
enum Cut {
    Length,
    Memory(NoMemory),
}

/// A place where an aggregate will begin once its length is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

impl Reply {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Begins the reply to another request.
    pub(crate) const fn begin(&mut self) {
        self.begin = self.bytes.len();
        self.cut = None;
    }

    /// Says for how many bytes of the next reply there is memory.
    pub(crate) const fn limit(&mut self, bytes: usize, otherwise: NoMemory) {
        self.memory = Some((bytes, otherwise));
    }

    /// Returns the reason why `bytes` more bytes are not taken.
    fn cut_of(&self, bytes: usize) -> Option<Cut> {
        if self.is_full() {
            return Some(Cut::Length);
        }
        let (most, lack) = self.memory?;
        let whole = self.bytes.len().saturating_sub(self.begin);
        (whole.saturating_add(bytes) > most).then_some(Cut::Memory(lack))
    }

    /// Refuses a reply that has become too long: a change without an answer must not be made.
    ///
    /// # Errors
    /// When nothing more is taken.
    pub(crate) fn check(&self) -> Result<(), Fail> {
        self.check_for(0)
    }

    /// Refuses as [`Self::check`] does, counting `bytes` more bytes.
    ///
    /// # Errors
    /// When they have none.
    pub(crate) fn check_for(&self, bytes: usize) -> Result<(), Fail> {
        match self.cut.or_else(|| self.cut_of(bytes)) {
            None => Ok(()),
            Some(Cut::Memory(lack)) => Err(lack.into()),
            Some(Cut::Length) => {
                let most = self.bytes_max;
                let text =
                    format!("ERR the reply is longer than {most} bytes, ask for less at once");
                Err(Fail::Said(text.into_bytes()))
            }
        }
    }

    /// Refuses a reply of which something was left out.
    ///
    /// # Errors
    /// When it was.
    pub(crate) fn check_whole(&self) -> Result<(), Fail> {
        if self.cut.is_some() {
            self.check()
        } else {
            Ok(())
        }
    }

    const fn is_full(&self) -> bool {
        self.bytes.len().saturating_sub(self.begin) > self.bytes_max
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Forgets everything after the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.cut = None;
    }

    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; line ends in it become spaces.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.bytes.push(b'-');
        self.bytes.extend(text.iter().map(|byte| {
            if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            }
        }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A number. There may be many: where there is no memory for more, the reply is refused as with texts.
    pub(crate) fn integer(&mut self, value: i64) {
        self.number(b':', value);
        self.cut = self.cut.or_else(|| match self.cut_of(0) {
            // A reply is refused for its texts alone where it is long.
            Some(Cut::Length) | None => None,
            memory => memory,
        });
    }

    pub(crate) fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// One or zero.
    pub(crate) fn flag(&mut self, value: bool) {
        self.integer(i64::from(value));
    }

    /// A text, unless the reply is too long already, or there is no memory for it.
    pub(crate) fn bulk(&mut self, text: &[u8]) {
        if let Some(cut) = self.cut_of(text.len()) {
            self.cut = self.cut.or(Some(cut));
            return;
        }
        // Growing twice would take twice the room.
        self.bytes.reserve(text.len() + BULK_BYTES);
        self.length(b'$', text.len());
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn bulk_or_null(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.bulk(text),
            None => self.null(),
        }
    }

    pub(crate) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    pub(crate) fn null(&mut self) {
        let text = self.choose(&b"$-1\r\n"[..], b"_\r\n");
        self.bytes.extend_from_slice(text);
    }

    pub(crate) fn null_array(&mut self) {
        let text = self.choose(&b"*-1\r\n"[..], b"_\r\n");
        self.bytes.extend_from_slice(text);
    }

    pub(crate) fn double(&mut self, value: f64) {
        let text = format_double(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    pub(crate) fn array(&mut self, length: usize) {
        self.length(b'*', length);
    }

    pub(crate) fn set(&mut self, length: usize) {
        let kind = self.choose(b'*', b'~');
        self.length(kind, length);
    }

    /// A map of `pairs` names and values.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', pairs.saturating_mul(2)),
            Protocol::Resp3 => self.length(b'%', pairs),
        }
    }

    /// Returns the place of an aggregate whose length is still unknown.
    pub(crate) const fn mark(&self) -> Mark {
        Mark(self.bytes.len())
    }

    /// Begins an array at `mark`.
    pub(crate) fn array_at(&mut self, mark: Mark, length: usize) {
        let end = self.bytes.len();
        self.array(length);
        let header = self.bytes.split_off(end);
        self.bytes.splice(mark.0..mark.0, header);
    }

    fn choose<T>(&self, resp2: T, resp3: T) -> T {
        match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn length(&mut self, kind: u8, length: usize) {
        self.number(kind, i64::try_from(length).unwrap_or(i64::MAX));
    }

    /// Digits without an allocation: every reply has some.
    fn number(&mut self, kind: u8, value: i64) {
        self.bytes.push(kind);
        if value < 0 {
            self.bytes.push(b'-');
        }
        let mut rest = value.unsigned_abs();
        let start = self.bytes.len();
        loop {
            let digit = u8::try_from(rest % 10).unwrap_or_default();
            self.bytes.push(b'0' + digit);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if let Some(digits) = self.bytes.get_mut(start..) {
            digits.reverse();
        }
        self.bytes.extend_from_slice(b"\r\n");
    }
}
