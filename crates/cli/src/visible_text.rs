//! Text from logs and databases as people see it, with escapes for what would mislead them.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};

/// The readers of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A person at a terminal.
    People,
    /// A file or a program, which gets every character as it is.
    Programs,
}

impl Audience {
    /// Returns who reads standard output.
    pub(crate) fn of_stdout() -> Self {
        if io::stdout().is_terminal() {
            Self::People
        } else {
            Self::Programs
        }
    }

    /// Returns a cell of comma-separated values, which may have several lines.
    pub(crate) fn cell(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::People => visible_lines(text),
            Self::Programs => Cow::Borrowed(text),
        }
    }
}

/// Returns `text` with escapes for the characters that would begin another line, command the
/// terminal or reorder what is read: control characters (C0, DEL and C1), the separators of lines
/// and paragraphs, and marks of direction. Texts from logs may hold all but those of C0.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if misleads(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Returns text of several lines with the same escapes in each.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| letter != '\n' && misleads(letter)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<Cow<'_, str>> = text.split('\n').map(visible).collect();
    Cow::Owned(lines.join("\n"))
}

fn misleads(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A claimed actor could write a line of its own into a report, or a command to the terminal.
    #[test]
    fn no_text_begins_a_line_or_commands_the_terminal() {
        for (text, shown) in [
            ("J\u{f6}rg \u{5d0} \u{1f600}", "J\u{f6}rg \u{5d0} \u{1f600}"),
            ("x\u{85}actor      root", r"x\u{85}actor      root"),
            ("x\u{9b}2Jy\u{1b}[0m\u{7f}", r"x\u{9b}2Jy\u{1b}[0m\u{7f}"),
            (
                "a\u{2028}b\u{2029}c\u{202e}d",
                r"a\u{2028}b\u{2029}c\u{202e}d",
            ),
            ("\u{2067}e\u{2069}\u{200f}", r"\u{2067}e\u{2069}\u{200f}"),
            ("a\nb\tc", r"a\nb\tc"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(
            visible_lines("error: a\u{85}b\nhelp"),
            "error: a\\u{85}b\nhelp"
        );
        assert_eq!(visible_lines("error\nhelp"), "error\nhelp");
        assert_eq!(Audience::People.cell("a\n\u{9b}\r"), "a\n\\u{9b}\\r");
        assert_eq!(Audience::Programs.cell("a\n\u{9b}\r"), "a\n\u{9b}\r");
    }
}
