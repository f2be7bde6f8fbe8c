//! The tokens of a statement.

use alloc::string::String;

use crate::error::{Error, Result};
use crate::limits::STATEMENT_BYTES_MAX;
use crate::pager::bytes::{small, take};

/// Opens a text, in the copy of a statement, whose doubled quotes were replaced by single ones. Two
/// bytes with its length follow, so that it may have any character.
const COUNTED: char = '\u{1}';
/// Stands in the copy for a [`COUNTED`] of the statement itself, which means nothing there.
const STRAY: char = '\u{2}';
/// Bytes of a counted text before its first character.
const COUNTED_AT: usize = 3;
/// Bits of the length of a counted text in each of its two bytes, which are characters too.
const LENGTH_BITS: usize = 7;
const _: () = assert!(STATEMENT_BYTES_MAX < 1 << (2 * LENGTH_BITS));

/// The digits of the lowest 64-bit number.
const LOWEST: &str = "9223372036854775808";
/// The reason why a number is refused.
pub(crate) const TOO_LONG: &str = "the number exceeds 64 bits";
/// The words for a number that would become 0.
pub(crate) const TOO_SMALL: &str = "the number is nearer to 0 than any that can be stored";

/// A token of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    /// A quoted name, which is never a word of the language.
    Name(&'a str),
    /// Digits without a sign; the digits of the lowest number have its value.
    Integer(i64),
    Real(f64),
    Text(&'a str),
    /// An operator or punctuation mark.
    Symbol(&'a str),
    /// A question mark.
    Parameter,
    #[default]
    End,
}

/// A tokenizer of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens<'a> {
    text: &'a str,
    /// Byte offset at which the search for the next token begins.
    next: usize,
    /// Byte offset of the current token.
    pub(crate) at: usize,
    pub(crate) token: Token<'a>,
}

/// Replaces doubled quotes in texts by single ones; all other bytes keep their offsets.
///
/// Returns `None` if there are no doubled quotes, so that most statements need no copy. A text
/// without an end is left as it is, to be refused.
pub(crate) fn without_doubled_quotes(text: &str) -> Option<String> {
    if !text.contains("''") && !text.contains(COUNTED) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"', '-', COUNTED]) {
        let (before, found) = rest.split_at(start);
        out.push_str(before);
        let (end, body) = match found.chars().next() {
            Some(COUNTED) => (1, None),
            Some(quote @ ('\'' | '"')) => match closing_quote(found, quote) {
                Some(end) if quote == '\'' => (end, found.get(1..end - 1)),
                Some(end) => (end, None),
                None => (found.len(), None),
            },
            _ if found.starts_with("--") => (found.find('\n').unwrap_or(found.len()), None),
            _ => (1, None),
        };
        let (inside, after) = found.split_at(end);
        match body.filter(|body| body.contains("''")) {
            Some(body) => push_counted(&mut out, body),
            None if inside.starts_with(COUNTED) => out.push(STRAY),
            None => out.push_str(inside),
        }
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// Adds a text between quotes, `body` with its doubled ones, as a counted text of the same length:
/// each doubled quote leaves a byte, and the first of them has room for the length.
fn push_counted(out: &mut String, body: &str) {
    let end = out.len() + body.len() + 2;
    let length = body.len() - body.matches("''").count();
    out.push(COUNTED);
    for byte in [length, length >> LENGTH_BITS] {
        out.push(char::from(small(byte & ((1 << LENGTH_BITS) - 1))));
    }
    for (number, piece) in body.split("''").enumerate() {
        if number > 0 {
            out.push('\'');
        }
        out.push_str(piece);
    }
    while out.len() < end {
        out.push(' ');
    }
}

/// Returns the length of the quoted part at the beginning of `text`, with its delimiters and
/// doubled quotes; `None` if it has no end.
pub(crate) fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut at = 1;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find(quote)) {
        at += found + 1;
        if !text.get(at..).is_some_and(|rest| rest.starts_with(quote)) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Returns the length of blanks and comments at the beginning of `text`.
pub(crate) fn skip_blank(text: &str) -> usize {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if !rest.starts_with("--") {
            return text.len() - rest.len();
        }
        let end = rest.find('\n').unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or("");
    }
}

impl<'a> Tokens<'a> {
    /// Creates a tokenizer at the first token of `text`.
    pub(crate) fn new(text: &'a str) -> Result<Self> {
        let mut tokens = Self {
            text,
            next: 0,
            at: 0,
            token: Token::End,
        };
        tokens.advance()?;
        Ok(tokens)
    }

    /// Creates an error at the current token.
    pub(crate) fn error(&self, what: impl Into<String>) -> Error {
        Error::Sql {
            at: self.at,
            what: what.into(),
        }
    }

    /// Advances to the next token and returns the one before.
    pub(crate) fn advance(&mut self) -> Result<Token<'a>> {
        let left = self.token;
        self.next += skip_blank(self.remaining());
        self.at = self.next;
        self.token = self.read()?;
        Ok(left)
    }

    /// Returns the text from byte `from` up to the current token, without trailing blanks.
    pub(crate) fn text_from(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or("").trim_end()
    }

    fn remaining(&self) -> &'a str {
        self.text.get(self.next..).unwrap_or("")
    }

    fn read(&mut self) -> Result<Token<'a>> {
        let rest = self.remaining();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '\'' => self.read_quoted('\'').map(Token::Text),
            COUNTED => self.read_counted().map(Token::Text),
            '"' => self.read_quoted('"').map(Token::Name),
            '?' => {
                self.next += 1;
                Ok(Token::Parameter)
            }
            '0'..='9' => self.read_number(),
            '.' if rest
                .chars()
                .nth(1)
                .is_some_and(|next| next.is_ascii_digit()) =>
            {
                self.read_number()
            }
            first if first.is_ascii_alphabetic() || first == '_' => {
                let end =
                    rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                Ok(Token::Word(self.take(end.unwrap_or(rest.len()))))
            }
            _ => {
                let two = ["<=", ">=", "<>", "!=", "=="];
                if two.iter().any(|symbol| rest.starts_with(symbol)) {
                    return Ok(Token::Symbol(self.take(2)));
                }
                if "()=<>,.;*-+".contains(first) {
                    return Ok(Token::Symbol(self.take(1)));
                }
                if first.is_control() {
                    return Err(self.error("a control character means nothing"));
                }
                Err(self.error(alloc::format!("{first:?} means nothing")))
            }
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = self.remaining().get(..bytes).unwrap_or("");
        self.next += bytes;
        taken
    }

    fn read_quoted(&mut self, quote: char) -> Result<&'a str> {
        let rest = self.remaining();
        let Some(end) = closing_quote(rest, quote) else {
            return Err(self.error("a quote has no end"));
        };
        let inside = rest.get(1..end - 1).unwrap_or("");
        if inside.contains(quote) {
            return Err(self.error("a doubled quote cannot stand here"));
        }
        self.next += end;
        Ok(inside)
    }

    /// Reads a text of the copy that [`without_doubled_quotes`] made.
    fn read_counted(&mut self) -> Result<&'a str> {
        let rest = self.remaining();
        let [low, high] = take(rest.as_bytes(), COUNTED.len_utf8());
        let end = COUNTED_AT + (usize::from(low) | usize::from(high) << LENGTH_BITS);
        let inside = rest.get(COUNTED_AT..end);
        let inside = inside.ok_or(Error::Defect("a counted text is as long as it says"))?;
        self.next += end;
        Ok(inside)
    }

    fn read_number(&mut self) -> Result<Token<'a>> {
        let rest = self.remaining();
        let mut end = 0;
        let mut before = ' ';
        for letter in rest.chars() {
            let exponent_sign = (letter == '-' || letter == '+') && matches!(before, 'e' | 'E');
            if !(letter.is_ascii_alphanumeric() || letter == '.' || exponent_sign) {
                break;
            }
            before = letter;
            end += 1;
        }
        let text = rest.get(..end).unwrap_or("");
        let token = match text.parse::<i64>() {
            Ok(number) => Token::Integer(number),
            // Valid only after a minus sign, for which the parser checks.
            Err(_) if text.trim_start_matches('0') == LOWEST => Token::Integer(i64::MIN),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(self.error(TOO_LONG));
            }
            Err(_) => match text.parse::<f64>() {
                Ok(0.0) if is_lost(text) => return Err(self.error(TOO_SMALL)),
                Ok(number) if number.is_finite() => Token::Real(number),
                _ => return Err(self.error("this is not a number")),
            },
        };
        self.next += end;
        Ok(token)
    }
}

/// Returns whether a text that reads as 0 is the text of another number.
fn is_lost(text: &str) -> bool {
    let mut digits = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    digits.any(|byte| matches!(byte, b'1'..=b'9'))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn all(text: &str) -> Result<Vec<Token<'_>>> {
        let mut tokens = Tokens::new(text)?;
        let mut found = Vec::new();
        while tokens.token != Token::End {
            found.push(tokens.advance()?);
        }
        Ok(found)
    }

    #[test]
    fn words_numbers_texts_and_symbols_are_told_apart() {
        let found = all("Select a1, -2.5e3 <= 'x y' -- rest\n ? \"b c\"").unwrap();
        let expected = [
            Token::Word("Select"),
            Token::Word("a1"),
            Token::Symbol(","),
            Token::Symbol("-"),
            Token::Real(2500.0),
            Token::Symbol("<="),
            Token::Text("x y"),
            Token::Parameter,
            Token::Name("b c"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_place() {
        let at = |text: &str| match all(text) {
            Err(Error::Sql { at, .. }) => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(at("a # b"), 2);
        assert_eq!(at("a 'b"), 2);
        assert_eq!(at("  99999999999999999999"), 2);
        assert_eq!(at("12ab"), 0);
    }

    #[test]
    fn doubled_quotes_become_single_and_nothing_moves() {
        let text = "a = 'O''Brien' -- it''s\n and b = 'x' or \"q''q\" = ''''";
        let copy = without_doubled_quotes(text).unwrap();
        assert_eq!(copy.len(), text.len());
        let found = all(&copy).unwrap();
        assert_eq!(found[2], Token::Text("O'Brien"));
        assert_eq!(found[6], Token::Text("x"));
        assert_eq!(found[8], Token::Name("q''q"));
        assert_eq!(found[10], Token::Text("'"));
        assert_eq!(without_doubled_quotes("a = 'b'"), None);
    }
}
