//! The scanner of a server's bytes: events for a visitor, and no copy of the contents.

use super::event::{check_scalar, kind_of};
use super::{Event, Kind, Limits, RespError, Scan, parse_integer};

/// Scans replies, byte range by byte range, without holding more than one line of them.
#[derive(Debug)]
pub struct ReplyScanner {
    limits: Limits,
    state: State,
    line: Vec<u8>,
    /// The last byte of a line that is longer than what is kept of it.
    beyond: Option<u8>,
    open: Vec<OpenAggregate>,
    /// The place in `open` of a push that came in the middle of another value.
    aside: Option<usize>,
    flatten: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Body { left: u64, streamed: bool },
    BodyEnd { seen: u8, streamed: bool },
    ChunkHeader,
}

#[derive(Debug, Clone, Copy)]
struct OpenAggregate {
    left: Option<u64>,
    attribute: bool,
}

impl ReplyScanner {
    /// A scanner at the beginning of a value.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Header,
            line: Vec::new(),
            beyond: None,
            open: Vec::new(),
            aside: None,
            flatten: false,
        }
    }

    /// Lets the next value, if it is an array, end with its header: its elements are then values of their own.
    pub const fn flatten_next(&mut self, flatten: bool) {
        self.flatten = flatten;
    }

    /// Returns whether the scanner stands between two values.
    pub const fn is_between_values(&self) -> bool {
        matches!(self.state, State::Header) && self.line.is_empty() && self.open.is_empty()
    }

    /// The beginning of the line under way and its kind, where it is a text without an end so far.
    pub fn text_under_way(&self) -> Option<(Kind, &[u8])> {
        let (first, text) = self.line.split_first()?;
        let kind = kind_of(*first).ok()?;
        let is_text = matches!(kind, Kind::Simple | Kind::Error | Kind::BigNumber);
        is_text.then_some((kind, text))
    }

    /// Takes bytes until one value is complete or the input ends.
    ///
    /// # Errors
    /// The first byte range that is not RESP; the scanner must then be dropped.
    pub fn scan(
        &mut self,
        input: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<Scan, RespError> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Scan {
                    consumed: at,
                    complete: false,
                });
            }
            let was_aside = self.aside.is_some();
            let (taken, complete) = match self.state {
                State::Header => self.header(rest, visit)?,
                State::ChunkHeader => self.chunk_header(rest, visit)?,
                State::Body { left, streamed } => (self.body(rest, left, streamed, visit), false),
                State::BodyEnd { seen, streamed } => self.body_end(rest, seen, streamed, visit)?,
            };
            if was_aside {
                visit(Event::Aside(rest.get(..taken).unwrap_or_default()));
            }
            at += taken;
            if complete {
                return Ok(Scan {
                    consumed: at,
                    complete: true,
                });
            }
        }
    }

    /// Hands an event to the visitor, except one of a push inside of the value that it follows.
    fn tell(&self, visit: &mut impl FnMut(Event<'_>), event: Event<'_>) {
        if self.aside.is_none() {
            visit(event);
        }
    }

    fn body(
        &mut self,
        rest: &[u8],
        left: u64,
        streamed: bool,
        visit: &mut impl FnMut(Event<'_>),
    ) -> usize {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        self.tell(visit, Event::Part(rest.get(..take).unwrap_or_default()));
        let left = left.saturating_sub(take as u64);
        self.state = if left == 0 {
            State::BodyEnd { seen: 0, streamed }
        } else {
            State::Body { left, streamed }
        };
        take
    }

    fn body_end(
        &mut self,
        rest: &[u8],
        seen: u8,
        streamed: bool,
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<(usize, bool), RespError> {
        let expected = if seen == 0 { b'\r' } else { b'\n' };
        if rest.first() != Some(&expected) {
            return Err(RespError::BulkEnd);
        }
        if seen == 0 {
            self.state = State::BodyEnd { seen: 1, streamed };
            return Ok((1, false));
        }
        if streamed {
            self.state = State::ChunkHeader;
            return Ok((1, false));
        }
        self.state = State::Header;
        self.tell(visit, Event::BulkEnd);
        Ok((1, self.value_ends(visit)))
    }

    /// Takes a line if its end has arrived; else keeps what there is of it.
    fn header(
        &mut self,
        rest: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<(usize, bool), RespError> {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return self.keep_line(rest).map(|taken| (taken, false));
        };
        let taken = end + 1;
        let head = rest.get(..end).unwrap_or_default();
        if self.line.is_empty() && head.len() <= self.limits.line_bytes_max {
            let complete = self.line_of_value(head, visit)?;
            return Ok((taken, complete));
        }
        self.keep_line(head)?;
        let mut line = std::mem::take(&mut self.line);
        if let Some(last) = self.beyond.take() {
            line.push(last);
        }
        let complete = self.line_of_value(&line, visit)?;
        self.line = line;
        self.line.clear();
        Ok((taken, complete))
    }

    fn chunk_header(
        &mut self,
        rest: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<(usize, bool), RespError> {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return self.keep_line(rest).map(|taken| (taken, false));
        };
        self.keep_line(rest.get(..end).unwrap_or_default())?;
        let line = std::mem::take(&mut self.line);
        let Some((b';', text)) = strip_return(&line)?.split_first() else {
            return Err(RespError::Stream);
        };
        let length = parse_length(text, self.limits.bulk_bytes_max)?;
        self.line = line;
        self.line.clear();
        if length > 0 {
            self.state = State::Body {
                left: length,
                streamed: true,
            };
            return Ok((end + 1, false));
        }
        self.state = State::Header;
        self.tell(visit, Event::BulkEnd);
        Ok((end + 1, self.value_ends(visit)))
    }

    /// Keeps a part of a line; of a text that is longer than the bound its beginning and last byte.
    fn keep_line(&mut self, part: &[u8]) -> Result<usize, RespError> {
        // Fail on the first byte, not after a whole line of nonsense.
        if let (true, Some(&byte)) = (self.line.is_empty(), part.first())
            && !b"+-:_#,($!=*%~>|.;".contains(&byte)
        {
            return Err(RespError::Type(byte));
        }
        let room = self.limits.line_bytes_max.saturating_sub(self.line.len());
        let (kept, rest) = part.split_at(room.min(part.len()));
        self.line.extend_from_slice(kept);
        if let Some(last) = rest.last() {
            // A server may send a text of any length on one line.
            if !matches!(self.line.first(), Some(b'+' | b'-' | b'(')) {
                return Err(RespError::LineTooLong(self.limits.line_bytes_max));
            }
            self.beyond = Some(*last);
        }
        Ok(part.len())
    }

    fn line_of_value(
        &mut self,
        line: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, RespError> {
        let line = match strip_return(line) {
            Ok(line) => line,
            Err(error) => {
                return Err(line
                    .first()
                    .map_or(error, |byte| kind_of(*byte).map_or_else(|e| e, |_| error)));
            }
        };
        let Some((&byte, text)) = line.split_first() else {
            return Err(RespError::Type(b'\r'));
        };
        if byte == b'.' {
            return self.stream_ends(text, visit);
        }
        let kind = kind_of(byte)?;
        match kind {
            Kind::Bulk | Kind::BlobError | Kind::Verbatim => self.bulk(kind, text, visit),
            Kind::Array | Kind::Map | Kind::Set | Kind::Push | Kind::Attribute => {
                self.aggregate(kind, text, visit)
            }
            _ => {
                check_scalar(kind, text)?;
                self.tell(visit, Event::Line(kind, text));
                Ok(self.value_ends(visit))
            }
        }
    }

    fn bulk(
        &mut self,
        kind: Kind,
        text: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, RespError> {
        if text == b"-1" && kind == Kind::Bulk {
            self.tell(visit, Event::NullOf(kind));
            return Ok(self.value_ends(visit));
        }
        if text == b"?" && kind == Kind::Bulk {
            self.tell(visit, Event::Bulk(kind, None));
            self.state = State::ChunkHeader;
            return Ok(false);
        }
        let length = parse_length(text, self.limits.bulk_bytes_max)?;
        if kind == Kind::Verbatim && length < 4 {
            return Err(RespError::Scalar("verbatim string"));
        }
        self.tell(visit, Event::Bulk(kind, Some(length)));
        self.state = if length == 0 {
            State::BodyEnd {
                seen: 0,
                streamed: false,
            }
        } else {
            State::Body {
                left: length,
                streamed: false,
            }
        };
        Ok(false)
    }

    fn aggregate(
        &mut self,
        kind: Kind,
        text: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, RespError> {
        if text == b"-1" && kind == Kind::Array {
            self.tell(visit, Event::NullOf(kind));
            return Ok(self.value_ends(visit));
        }
        let count = if text == b"?" && kind != Kind::Attribute && kind != Kind::Push {
            None
        } else {
            Some(parse_length(text, self.limits.elements_max)?)
        };
        // Servers up to Redis 7.0 write a message in the middle of a reply that is half written.
        let is_aside = kind == Kind::Push && !self.open.is_empty();
        if is_aside && self.aside.is_none() {
            let parts = [&b">"[..], text, b"\r\n"];
            for part in parts {
                visit(Event::Aside(part));
            }
        }
        if is_aside && count == Some(0) {
            return Ok(false);
        }
        if is_aside && self.aside.is_none() {
            self.aside = Some(self.open.len());
        }
        self.tell(visit, Event::Open(kind, count));
        if self.open.is_empty() && self.flatten && kind == Kind::Array && count.is_some() {
            return Ok(true);
        }
        if count == Some(0) {
            self.tell(visit, Event::Close);
            // An empty attribute is still followed by the value it belongs to.
            return Ok(kind != Kind::Attribute && self.value_ends(visit));
        }
        if self.open.len() >= self.limits.depth_max {
            return Err(RespError::TooDeep(self.limits.depth_max));
        }
        let pairs = matches!(kind, Kind::Map | Kind::Attribute);
        let left = count.map(|count| {
            if pairs {
                count.saturating_mul(2)
            } else {
                count
            }
        });
        self.open.push(OpenAggregate {
            left,
            attribute: kind == Kind::Attribute,
        });
        Ok(false)
    }

    fn stream_ends(
        &mut self,
        text: &[u8],
        visit: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, RespError> {
        if !text.is_empty() || !matches!(self.open.last(), Some(OpenAggregate { left: None, .. })) {
            return Err(RespError::Stream);
        }
        self.open.pop();
        self.tell(visit, Event::Close);
        Ok(self.value_ends(visit))
    }

    /// Counts one finished value against its aggregates; true when the outermost value ended.
    fn value_ends(&mut self, visit: &mut impl FnMut(Event<'_>)) -> bool {
        loop {
            let Some(last) = self.open.last_mut() else {
                return true;
            };
            let Some(left) = last.left.as_mut() else {
                return false;
            };
            *left = left.saturating_sub(1);
            if *left > 0 {
                return false;
            }
            let attribute = last.attribute;
            self.open.pop();
            if self.aside == Some(self.open.len()) {
                self.aside = None;
                return false;
            }
            self.tell(visit, Event::Close);
            if attribute {
                return false;
            }
        }
    }
}

fn strip_return(line: &[u8]) -> Result<&[u8], RespError> {
    line.strip_suffix(b"\r").ok_or(RespError::BulkEnd)
}

fn parse_length(text: &[u8], max: u64) -> Result<u64, RespError> {
    parse_integer(text)
        .and_then(|length| u64::try_from(length).ok())
        .filter(|length| *length <= max)
        .ok_or(RespError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(input: &[u8]) -> Result<Scan, RespError> {
        ReplyScanner::new(Limits::SERVER).scan(input, &mut |_| ())
    }

    #[test]
    fn every_type_is_one_value() {
        for value in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":-12\r\n",
            b"_\r\n",
            b"#t\r\n",
            b",1.5\r\n",
            b",inf\r\n",
            b"(123456789012345678901234567890\r\n",
            b"$0\r\n\r\n",
            b"$3\r\na\r\n\r\n",
            b"$-1\r\n",
            b"!5\r\nERR x\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"*2\r\n:1\r\n*1\r\n+a\r\n",
            b"%1\r\n+a\r\n:1\r\n",
            b"~1\r\n:1\r\n",
            b">2\r\n+a\r\n:1\r\n",
            b"|1\r\n+ttl\r\n:1\r\n+value\r\n",
            b"|0\r\n+value\r\n",
            b"*1\r\n|1\r\n+a\r\n:1\r\n:2\r\n",
            b"$?\r\n;3\r\nabc\r\n;2\r\nde\r\n;0\r\n",
            b"*?\r\n:1\r\n:2\r\n.\r\n",
            b"%?\r\n+a\r\n:1\r\n.\r\n",
        ] {
            let text = String::from_utf8_lossy(value).into_owned();
            assert_eq!(
                complete(value),
                Ok(Scan {
                    consumed: value.len(),
                    complete: true
                }),
                "{text:?}"
            );
            for cut in 0..value.len() {
                let mut scanner = ReplyScanner::new(Limits::SERVER);
                let (head, tail) = value.split_at(cut);
                let first = scanner.scan(head, &mut |_| ()).unwrap();
                assert_eq!(
                    first,
                    Scan {
                        consumed: cut,
                        complete: false
                    },
                    "{text:?} cut at {cut}"
                );
                let second = scanner.scan(tail, &mut |_| ()).unwrap();
                assert_eq!(
                    second,
                    Scan {
                        consumed: tail.len(),
                        complete: true
                    }
                );
                assert!(scanner.is_between_values());
            }
        }
    }

    /// The events of a value that comes in two parts, and the bytes of the messages in it.
    fn events_and_messages(value: &[u8], cut: usize) -> (Vec<String>, Vec<u8>) {
        let (mut seen, mut messages) = (Vec::new(), Vec::new());
        let mut scanner = ReplyScanner::new(Limits::SERVER);
        let mut visit = |event: Event<'_>| match event {
            Event::Aside(part) => messages.extend_from_slice(part),
            Event::Part(_) => {}
            event => seen.push(format!("{event:?}")),
        };
        let (first, second) = value.split_at(cut);
        assert!(!scanner.scan(first, &mut visit).unwrap().complete);
        let scan = scanner.scan(second, &mut visit).unwrap();
        assert!(scan.complete && scan.consumed == second.len());
        (seen, messages)
    }

    /// A notification in the middle of a reply was counted as an element of it, and each later reply
    /// as that of another command: a refused AUTH was recorded as another user's login.
    #[test]
    fn a_message_in_the_middle_of_a_reply_is_no_element_of_it() {
        let message = b">3\r\n+message\r\n*1\r\n$1\r\na\r\n|1\r\n+a\r\n:1\r\n:2\r\n";
        for (before, after) in [
            (&b"*2\r\n"[..], &b"_\r\n$3\r\nval\r\n"[..]),
            (b"*2\r\n_\r\n", b"$3\r\nval\r\n"),
            (b"*1\r\n%1\r\n+a\r\n", b":1\r\n"),
            (b"*?\r\n:1\r\n", b".\r\n"),
        ] {
            let alone = events_and_messages(&[before, after].concat(), 0);
            for message in [&message[..], b">0\r\n", &message.repeat(2)] {
                let value = [before, message, after].concat();
                for cut in 0..value.len() {
                    let (events, messages) = events_and_messages(&value, cut);
                    assert_eq!((&events, &*messages), (&alone.0, message));
                }
            }
        }
    }

    #[test]
    fn nonsense_is_refused_where_it_stands() {
        for (value, error) in [
            (&b"x"[..], RespError::Type(b'x')),
            (b"$-2\r\n", RespError::Length),
            (b"$99999999999999999999\r\n", RespError::Length),
            (b"*5000000000\r\n", RespError::Length),
            (b":1x\r\n", RespError::Scalar("integer")),
            (b"$1\r\nabc", RespError::BulkEnd),
            (b".\r\n", RespError::Stream),
            (b"*1\r\n.\r\n", RespError::Stream),
            (b"+a\n", RespError::BulkEnd),
            (b"=2\r\nab\r\n", RespError::Scalar("verbatim string")),
        ] {
            assert_eq!(
                complete(value),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(value)
            );
        }
        let depth = Limits::SERVER.depth_max;
        let deep = b"*1\r\n".repeat(depth + 1);
        assert_eq!(complete(&deep), Err(RespError::TooDeep(depth)));
        let long = vec![b'$'; (1 << 20) + 1];
        assert_eq!(complete(&long), Err(RespError::LineTooLong(1 << 20)));
        let whole = [&long[..], b"\r\n"].concat();
        assert_eq!(complete(&whole), Err(RespError::LineTooLong(1 << 20)));
    }

    /// A status line above the bound ended the connection though the server may send one (proxy 19).
    /// It now passes whole, and only its beginning is remembered.
    #[test]
    fn a_text_of_any_length_passes_and_its_beginning_is_kept() {
        let long = [&vec![b'+'; 3 << 20][..], b"\r\n"].concat();
        for cut in [1, 1 << 20, (1 << 20) + 1, long.len() - 1] {
            let mut kept = Vec::new();
            let mut scanner = ReplyScanner::new(Limits::SERVER);
            let (head, tail) = long.split_at(cut);
            let mut visit = |event: Event<'_>| {
                if let Event::Line(kind, text) = event {
                    kept.push((kind, text.len()));
                }
            };
            let first = scanner.scan(head, &mut visit).unwrap();
            assert_eq!(first.consumed, cut);
            if !first.complete {
                assert!(scanner.scan(tail, &mut visit).unwrap().complete);
            }
            assert_eq!(kept, [(Kind::Simple, (1 << 20) - 1)]);
            assert!(scanner.is_between_values());
        }
        assert!(complete(b"(123  123\r\n").unwrap().complete);
        let bare = [&vec![b'+'; 3 << 20][..], b"\n"].concat();
        assert_eq!(complete(&bare), Err(RespError::BulkEnd));
    }

    #[test]
    fn a_flattened_array_ends_with_its_header() {
        let mut scanner = ReplyScanner::new(Limits::SERVER);
        scanner.flatten_next(true);
        let scan = scanner.scan(b"*2\r\n:1\r\n:2\r\n", &mut |_| ()).unwrap();
        assert_eq!(
            scan,
            Scan {
                consumed: 4,
                complete: true
            }
        );
    }
}
