//! Scripts: several statements in one text.

use crate::query::sql::token::{closing_quote, skip_blank};

/// An iterator over the statements of a script, each with its byte offset.
#[derive(Debug, Clone)]
pub struct Statements<'a> {
    script: &'a str,
    next: usize,
}

impl<'a> Statements<'a> {
    /// Creates an iterator over the statements of `script`, separated by semicolons.
    pub fn new(script: &'a str) -> Self {
        Self { script, next: 0 }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self
                .script
                .get(self.next..)
                .filter(|rest| !rest.is_empty())?;
            let end = statement_end(rest);
            let statement = rest.get(..end).unwrap_or(rest);
            let begin = skip_blank(statement);
            let at = self.next + begin;
            self.next += end + 1;
            let text = statement.get(begin..).unwrap_or("").trim_end();
            if !text.is_empty() {
                return Some((at, text));
            }
        }
    }
}

/// Returns the length of the statement at the beginning of `text`, without its semicolon.
fn statement_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let Some(found) = rest.find([';', '\'', '"', '-']) else {
            break;
        };
        let rest = rest.get(found..).unwrap_or("");
        at += found;
        at += match rest.chars().next() {
            Some(';') => return at,
            Some(quote @ ('\'' | '"')) => closing_quote(rest, quote).unwrap_or(rest.len()),
            _ if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_part_statements_but_not_inside_texts_and_comments() {
        let script =
            "SELECT 'a;''b' -- not; here\n, x-1 ; ;-- only a comment;\n INSERT \"a;\" ;\nEND";
        let found: std::vec::Vec<_> = Statements::new(script).collect();
        let texts: std::vec::Vec<&str> = found.iter().map(|(_, text)| *text).collect();
        let expected = ["SELECT 'a;''b' -- not; here\n, x-1", "INSERT \"a;\"", "END"];
        assert_eq!(texts, expected);
        assert!(
            found
                .iter()
                .all(|(at, text)| script.get(*at..).unwrap().starts_with(text))
        );
        assert_eq!(Statements::new(" -- nothing").count(), 0);
        assert_eq!(Statements::new("SELECT 'open; quote").count(), 1);
    }
}
