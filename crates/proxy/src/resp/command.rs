//! The scanner of a client's bytes: it keeps the arguments that matter and passes over the rest.

use sha2::{Digest as _, Sha256};

use super::arguments::Arguments;
use super::inline::split_inline;
use super::{Limits, RespError, Scan, parse_canonical};

/// Arguments up to this length are always kept whole, in bytes.
const SHORT_BYTES: u64 = 256;
/// Bytes that are kept of an argument that cannot be a key.
const VALUE_BYTES_KEPT: u64 = 64;
/// Bytes that are kept of a key that is longer than an entry holds.
const LONG_KEY_BYTES_KEPT: u64 = 1024;

/// Scans commands: arrays of bulk strings, and inline commands, exactly as Redis reads them.
///
/// Redis does not look at the bytes after a bulk string or after a carriage return, and neither
/// does this scanner. A proxy that forwards bytes must never understand them differently.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about what is kept"
)]
pub struct CommandScanner {
    limits: Limits,
    /// True if every argument is kept whole.
    whole: bool,
    /// True while nothing more of the command under way is kept.
    skips: bool,
    state: State,
    /// True if the last command stands on a line of its own.
    inline: bool,
    line: Vec<u8>,
    left: u64,
    arguments: Arguments,
    digest: Option<Sha256>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Inline,
    CountLine,
    BulkLine,
    Body { left: u64, keep: u64 },
    BodyEnd { left: u8 },
}

impl CommandScanner {
    /// A scanner between two commands.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            whole: false,
            skips: false,
            state: State::Start,
            inline: false,
            line: Vec::new(),
            left: 0,
            arguments: Arguments::default(),
            digest: None,
        }
    }

    /// Creates a scanner that keeps every argument whole, for a store that carries out the
    /// commands.
    pub fn keeping_all(limits: Limits) -> Self {
        Self {
            whole: true,
            ..Self::new(limits)
        }
    }

    /// Returns the answer of Redis to the line that was refused last, after which it closes the
    /// connection.
    pub fn complaint(&self, error: RespError) -> Vec<u8> {
        let counting = self.state == State::CountLine;
        let reason = match error {
            RespError::LineTooLong(_) => match self.state {
                State::CountLine => "too big mbulk count string".to_owned(),
                State::BulkLine => "too big bulk count string".to_owned(),
                _ => "too big inline request".to_owned(),
            },
            RespError::NotBulk(byte) => return not_bulk(byte),
            RespError::Quotes => "unbalanced quotes in request".to_owned(),
            RespError::Zero => "zero byte in inline request".to_owned(),
            RespError::TooMuchKept(most) => format!("more than {most} bytes of keys"),
            _ if counting => "invalid multibulk length".to_owned(),
            _ => "invalid bulk length".to_owned(),
        };
        format!("ERR Protocol error: {reason}").into_bytes()
    }

    /// The arguments of the command that was completed last.
    pub const fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Forgets the last command, overwriting it when it may hold a secret.
    pub fn forget(&mut self, secret: bool) {
        self.arguments.clear(secret);
    }

    /// Keeps nothing of the command under way, not even how many arguments it has: it only passes by.
    pub fn skip(&mut self) {
        self.skips = true;
        self.arguments.clear(false);
        self.digest = None;
        if let State::Body { keep, .. } = &mut self.state {
            *keep = 0;
        }
    }

    /// Returns whether the scanner stands between two commands.
    pub const fn is_between_commands(&self) -> bool {
        matches!(self.state, State::Start)
    }

    /// Returns whether the name of the command under way is complete, or too long to be one.
    pub fn name_is_known(&self) -> bool {
        let in_name = self.arguments.len() == 1 && matches!(self.state, State::Body { .. });
        match self.state {
            State::Start | State::Inline | State::CountLine => false,
            _ if in_name => self
                .arguments
                .at(0)
                .is_some_and(|name| name.length > SHORT_BYTES),
            _ => !self.arguments.is_empty(),
        }
    }

    /// Returns whether the last command, or the one under way, stands on a line of its own.
    pub const fn is_inline(&self) -> bool {
        self.inline
    }

    /// Takes bytes until one command is complete or the input ends. A command without any words, which
    /// Redis passes over without an answer, is complete too.
    ///
    /// `may_be_key` says of a long argument, by the arguments before it, whether it can be a key.
    ///
    /// # Errors
    /// What Redis would refuse too; neither the line nor anything after it may be forwarded. The count
    /// of bytes up to and including it, or of all of them, comes with the error.
    pub fn scan(
        &mut self,
        input: &[u8],
        may_be_key: &impl Fn(&Arguments) -> bool,
    ) -> Result<Scan, (usize, RespError)> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let Some(&first) = rest.first() else {
                return Ok(Scan {
                    consumed: at,
                    complete: false,
                });
            };
            let complete = match self.state {
                State::Start => {
                    self.skips = false;
                    self.inline = first != b'*';
                    self.state = if self.inline {
                        State::Inline
                    } else {
                        State::CountLine
                    };
                    false
                }
                State::Inline => {
                    let taken = self
                        .line_until(rest, b'\n')
                        .map_err(|error| (input.len(), error))?;
                    at += taken.0;
                    taken.1 && self.inline_line().map_err(|error| (at, error))?
                }
                State::CountLine | State::BulkLine => {
                    let taken = self
                        .line_until(rest, b'\r')
                        .map_err(|error| (input.len(), error))?;
                    at += taken.0;
                    taken.1 && self.header_line(may_be_key).map_err(|error| (at, error))?
                }
                State::Body { left, keep } => {
                    at += self.body(rest, left, keep);
                    false
                }
                State::BodyEnd { left } => {
                    let take = usize::from(left).min(rest.len());
                    at += take;
                    self.body_end(left, take)
                }
            };
            if complete {
                return Ok(Scan {
                    consumed: at,
                    complete: true,
                });
            }
        }
    }

    /// Moves bytes into the line buffer; true once `end` (and for a carriage return the byte after it) is in.
    fn line_until(&mut self, rest: &[u8], end: u8) -> Result<(usize, bool), RespError> {
        let returned = end == b'\r' && self.line.last() == Some(&b'\r');
        let (take, done) = if returned {
            (1, true)
        } else {
            match memchr::memchr(end, rest) {
                Some(at) if end == b'\n' => (at + 1, true),
                Some(at) if at + 1 < rest.len() => (at + 2, true),
                Some(at) => (at + 1, false),
                None => (rest.len(), false),
            }
        };
        if self.line.len() + take > self.limits.line_bytes_max {
            return Err(RespError::LineTooLong(self.limits.line_bytes_max));
        }
        self.line
            .extend_from_slice(rest.get(..take).unwrap_or_default());
        Ok((take, done))
    }

    fn header_line(&mut self, may_be_key: &impl Fn(&Arguments) -> bool) -> Result<bool, RespError> {
        let line = std::mem::take(&mut self.line);
        let text = line.get(..line.len().saturating_sub(2)).unwrap_or_default();
        let outcome = if self.state == State::CountLine {
            self.count_line(text)
        } else {
            self.bulk_line(text, may_be_key)
        };
        self.line = line;
        self.line.clear();
        outcome
    }

    fn count_line(&mut self, text: &[u8]) -> Result<bool, RespError> {
        let count = text
            .get(1..)
            .and_then(parse_canonical)
            .ok_or(RespError::Length)?;
        self.arguments.clear(false);
        // Redis ignores an empty command without an answer.
        let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) else {
            self.state = State::Start;
            return Ok(true);
        };
        if count > self.limits.elements_max {
            return Err(RespError::Length);
        }
        self.left = count;
        self.state = State::BulkLine;
        Ok(false)
    }

    fn bulk_line(
        &mut self,
        text: &[u8],
        may_be_key: &impl Fn(&Arguments) -> bool,
    ) -> Result<bool, RespError> {
        let Some((&first, text)) = text.split_first() else {
            return Err(RespError::NotBulk(b'\r'));
        };
        if first != b'$' {
            return Err(RespError::NotBulk(first));
        }
        let length = parse_canonical(text)
            .and_then(|length| u64::try_from(length).ok())
            .filter(|length| *length <= self.limits.bulk_bytes_max)
            .ok_or(RespError::Length)?;
        if self.skips {
            self.state = if length == 0 {
                State::BodyEnd { left: 2 }
            } else {
                State::Body {
                    left: length,
                    keep: 0,
                }
            };
            return Ok(false);
        }
        let keep = self.bytes_to_keep(length, may_be_key);
        if self.arguments.bytes_kept() as u64 + keep > self.limits.command_bytes_kept_max as u64 {
            return Err(RespError::TooMuchKept(self.limits.command_bytes_kept_max));
        }
        self.arguments.begin(length);
        self.state = if length == 0 {
            State::BodyEnd { left: 2 }
        } else {
            State::Body { left: length, keep }
        };
        Ok(false)
    }

    fn bytes_to_keep(&mut self, length: u64, may_be_key: &impl Fn(&Arguments) -> bool) -> u64 {
        if self.whole || length <= SHORT_BYTES {
            return length;
        }
        if !may_be_key(&self.arguments) {
            return VALUE_BYTES_KEPT;
        }
        if length <= probity_format::limits::KEY_BYTES_MAX as u64 {
            return length;
        }
        self.digest = Some(Sha256::new());
        LONG_KEY_BYTES_KEPT
    }

    fn body(&mut self, rest: &[u8], left: u64, keep: u64) -> usize {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let part = rest.get(..take).unwrap_or_default();
        let kept = usize::try_from(keep).unwrap_or(usize::MAX).min(take);
        self.arguments.keep(part.get(..kept).unwrap_or_default());
        if let Some(digest) = self.digest.as_mut() {
            digest.update(part);
        }
        let left = left.saturating_sub(take as u64);
        self.state = if left == 0 {
            self.argument_ends();
            State::BodyEnd { left: 2 }
        } else {
            State::Body {
                left,
                keep: keep.saturating_sub(kept as u64),
            }
        };
        take
    }

    fn argument_ends(&mut self) {
        let digest = self.digest.take();
        self.arguments
            .end(digest.map(|digest| digest.finalize().into()));
    }

    fn body_end(&mut self, left: u8, take: usize) -> bool {
        if take < usize::from(left) {
            self.state = State::BodyEnd {
                left: left.saturating_sub(1),
            };
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.state = if self.left == 0 {
            State::Start
        } else {
            State::BulkLine
        };
        self.left == 0
    }

    fn inline_line(&mut self) -> Result<bool, RespError> {
        let line = std::mem::take(&mut self.line);
        self.state = State::Start;
        self.arguments.clear(false);
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // Redis looks for the end of the line up to a zero byte only: it would wait for more.
        if text.contains(&0) {
            return Err(RespError::Zero);
        }
        let split = split_inline(text, &mut self.arguments);
        self.line = line;
        self.line.clear();
        if !split {
            return Err(RespError::Quotes);
        }
        Ok(true)
    }
}

/// Repeats the byte itself, whatever it is: an error is bytes, and one line of them.
fn not_bulk(byte: u8) -> Vec<u8> {
    let shown = if matches!(byte, b'\r' | b'\n') {
        b' '
    } else {
        byte
    };
    [
        &b"ERR Protocol error: expected '$', got '"[..],
        &[shown],
        b"'",
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &[u8]) -> Result<Vec<Vec<u8>>, RespError> {
        let mut scanner = CommandScanner::new(Limits::CLIENT);
        let scan = scanner.scan(input, &|_| true).map_err(|(_, error)| error)?;
        assert_eq!(
            scan,
            Scan {
                consumed: input.len(),
                complete: true
            }
        );
        let arguments = scanner.arguments();
        Ok((0..arguments.len())
            .map(|index| arguments.beginning(index).to_vec())
            .collect())
    }

    #[test]
    fn commands_are_read_however_they_are_cut() {
        let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n";
        for cut in 0..input.len() {
            let mut scanner = CommandScanner::new(Limits::CLIENT);
            let (head, tail) = input.split_at(cut);
            assert!(!scanner.scan(head, &|_| true).unwrap().complete);
            assert!(scanner.scan(tail, &|_| true).unwrap().complete);
            assert_eq!(scanner.arguments().beginning(1), b"k");
            assert_eq!(scanner.arguments().len(), 3);
        }
    }

    #[test]
    fn what_is_refused_has_the_words_of_redis() {
        let long = vec![b'1'; (64 << 10) + 1];
        for (input, words) in [
            ([b"", &long[..]].concat(), "too big inline request"),
            ([b"*", &long[..]].concat(), "too big mbulk count string"),
            (
                [b"*1\r\n$", &long[..]].concat(),
                "too big bulk count string",
            ),
            (b"*x\r\n".to_vec(), "invalid multibulk length"),
            (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
            (b"*1\r\n:1\r\n".to_vec(), "expected '$', got ':'"),
            (b"GET \"a\r\n".to_vec(), "unbalanced quotes in request"),
        ] {
            let mut scanner = CommandScanner::keeping_all(Limits::STORE);
            let (_, error) = scanner.scan(&input, &|_| true).unwrap_err();
            let expected = format!("ERR Protocol error: {words}");
            assert_eq!(scanner.complaint(error), expected.as_bytes());
        }
    }

    #[test]
    fn a_scanner_that_keeps_all_keeps_long_arguments_whole() {
        let long = vec![b'v'; 100_000];
        let input = [&b"*2\r\n$1\r\nx\r\n$100000\r\n"[..], &long, b"\r\n"].concat();
        let mut scanner = CommandScanner::keeping_all(Limits::STORE);
        assert!(scanner.scan(&input, &|_| false).unwrap().complete);
        assert_eq!(scanner.arguments().beginning(1), long);
    }

    #[test]
    fn a_command_that_is_skipped_passes_by_and_the_next_is_kept() {
        let input = b"*3\r\n$3\r\nSET\r\n$4\r\nkeys\r\n$0\r\n\r\n";
        for cut in 1..input.len() {
            let mut scanner = CommandScanner::keeping_all(Limits::STORE);
            let (head, tail) = input.split_at(cut);
            assert!(!scanner.scan(head, &|_| true).unwrap().complete);
            scanner.skip();
            assert!(scanner.scan(tail, &|_| true).unwrap().complete, "{cut}");
            assert!(scanner.arguments().is_empty());
            assert!(scanner.scan(input, &|_| true).unwrap().complete);
            assert_eq!(scanner.arguments().beginning(1), b"keys");
        }
    }

    #[test]
    fn inline_commands_follow_the_quoting_of_redis() {
        assert_eq!(
            words(b"SET a \"b c\\x41\\n\"\r\n").unwrap(),
            [&b"SET"[..], b"a", b"b cA\n"]
        );
        assert_eq!(words(b"get 'it\\'s'\n").unwrap(), [&b"get"[..], b"it's"]);
        assert_eq!(words(b"get \"a\"b\r\n"), Err(RespError::Quotes));
        assert_eq!(words(b"get \"a\r\n"), Err(RespError::Quotes));
    }

    #[test]
    fn a_value_is_not_kept_and_a_long_key_is_digested() {
        let mut input = b"*2\r\n$3\r\nGET\r\n$70000\r\n".to_vec();
        input.extend_from_slice(&vec![b'k'; 70_000]);
        input.extend_from_slice(b"\r\n");
        let mut scanner = CommandScanner::new(Limits::CLIENT);
        assert!(scanner.scan(&input, &|_| true).unwrap().complete);
        let key = scanner.arguments().at(1).unwrap();
        assert_eq!((key.kept.len(), key.length), (1024, 70_000));
        assert_eq!(key.digest, Some(Sha256::digest(vec![b'k'; 70_000]).into()));
        let mut scanner = CommandScanner::new(Limits::CLIENT);
        assert!(scanner.scan(&input, &|_| false).unwrap().complete);
        assert_eq!(scanner.arguments().at(1).unwrap().kept.len(), 64);
    }

    #[test]
    fn what_redis_refuses_is_refused() {
        for bad in [
            &b"*1x\r\n"[..],
            b"*2147483648\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$01\r\n",
            b"*1\r\n$600000000\r\n",
            b"*1\r\n\r\n",
        ] {
            let mut scanner = CommandScanner::new(Limits::CLIENT);
            let (consumed, _error) = scanner.scan(bad, &|_| true).unwrap_err();
            assert_eq!(consumed, bad.len(), "{:?}", String::from_utf8_lossy(bad));
        }
        let mut scanner = CommandScanner::new(Limits::CLIENT);
        assert!(scanner.scan(&vec![b'x'; 70_000], &|_| true).is_err());
        for blank in [&b"\r\n"[..], b"*0\r\n", b"*-1\r\n", b"  \n"] {
            let mut scanner = CommandScanner::new(Limits::CLIENT);
            assert!(scanner.scan(blank, &|_| true).unwrap().complete);
            assert!(scanner.arguments().is_empty());
        }
        let mut scanner = CommandScanner::new(Limits::CLIENT);
        let zero = scanner.scan(b"GET a\0b\r\n", &|_| true);
        assert_eq!(zero, Err((9, RespError::Zero)));
    }
}
