//! Lines of bounded length from a stream of unbounded length, in memory that does not grow with it.

use std::io::{self, BufRead};

use super::LINE_BYTES_MAX;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line without its line end (`\n` or `\r\n`).
    Text(&'a [u8]),
    /// A line longer than [`LINE_BYTES_MAX`]; it was skipped without being kept.
    TooLong,
}

/// Splits a reader into lines and counts them.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
    buffered: usize,
}

impl<R: BufRead> Lines<R> {
    /// Splits `reader` into lines.
    pub const fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
            number: 0,
            buffered: 0,
        }
    }

    /// Returns the number of the last line returned, from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the next read may have to wait for the writer.
    pub const fn may_block(&self) -> bool {
        self.buffered == 0
    }

    /// Returns the next line, or `None` at the end. A last line without a line end counts.
    ///
    /// # Errors
    /// The reader's.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut length: usize = 0;
        let mut ended = false;
        while !ended {
            let chunk = match self.reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                self.buffered = 0;
                break;
            }
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let (text, _) = chunk.split_at(newline.unwrap_or(chunk.len()));
            length = length.saturating_add(text.len());
            // One byte of room more than the limit, for the `\r` of a longest line.
            if length <= LINE_BYTES_MAX.saturating_add(1) {
                self.line.extend_from_slice(text);
            }
            let used = text.len().saturating_add(usize::from(newline.is_some()));
            self.buffered = chunk.len().saturating_sub(used);
            self.reader.consume(used);
            ended = newline.is_some();
        }
        if length == 0 && !ended {
            return Ok(None);
        }
        self.number = self.number.saturating_add(1);
        Ok(Some(self.finish(length)))
    }

    fn finish(&self, length: usize) -> Line<'_> {
        if length > self.line.len() {
            return Line::TooLong;
        }
        let mut text = self.line.as_slice();
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.number == 1 {
            // Windows editors put a byte-order mark in front of UTF-8 text.
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        if text.len() > LINE_BYTES_MAX {
            Line::TooLong
        } else {
            Line::Text(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _};

    use super::*;

    fn lines_of(input: &[u8], buffer: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, input));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.number(), found.len() as u64);
        found
    }

    #[test]
    fn line_ends_of_both_kinds_and_a_missing_last_one_are_taken() {
        for buffer in [1, 2, 3, 64] {
            let found = lines_of(b"\xEF\xBB\xBFa\r\nb\n\n\r\nc", buffer);
            let texts: Vec<&[u8]> = found.iter().map(|l| l.as_deref().unwrap()).collect();
            assert_eq!(texts, [&b"a"[..], b"b", b"", b"", b"c"]);
        }
        assert!(lines_of(b"", 8).is_empty());
        assert_eq!(lines_of(b"\n", 8), [Some(Vec::new())]);
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_the_next_is_read() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let mut input = longest.clone();
        input.extend_from_slice(b"\r\n");
        input.extend_from_slice(&longest);
        input.extend_from_slice(b"y\nz\n");
        let found = lines_of(&input, 4096);
        assert_eq!(found, [Some(longest), None, Some(b"z".to_vec())]);
    }

    #[test]
    fn memory_stays_at_the_limit_for_a_line_of_any_length() {
        let endless = io::repeat(b'x').take(64 << 20).chain(&b"\nend"[..]);
        let mut lines = Lines::new(BufReader::new(endless));
        assert_eq!(lines.next_line().unwrap(), Some(Line::TooLong));
        assert!(lines.line.capacity() <= 4 * LINE_BYTES_MAX);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Text(b"end")));
    }
}
