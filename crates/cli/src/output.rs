//! Standard output: lines, tables and JSON documents; a reader that goes away ends the command.

use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Standard output, buffered.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            out: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
        }
    }

    /// One line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(Failure::output)
    }

    /// Text that is no whole line.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(Failure::output)
    }

    /// One JSON document on one line.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, document)
            .map_err(|error| Failure::output(error.into()))?;
        self.out.write_all(b"\n").map_err(Failure::output)
    }

    /// Rows below a heading, each column as wide as its widest cell.
    ///
    /// Cells that are numbers stand to the right.
    pub(crate) fn table<const N: usize>(
        &mut self,
        heading: [&str; N],
        rows: &[[String; N]],
    ) -> Result<(), Failure> {
        let rows = rows.iter().map(<[String; N]>::as_slice);
        self.wide_table(&heading.map(str::to_owned), rows)
    }

    /// The same for any number of columns.
    pub(crate) fn wide_table<'a>(
        &mut self,
        heading: &'a [String],
        rows: impl Iterator<Item = &'a [String]> + Clone,
    ) -> Result<(), Failure> {
        let mut widths = vec![0; heading.len()];
        let all = std::iter::once(heading).chain(rows);
        for row in all.clone() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in all {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| {
                let is_number = cell.starts_with(|first: char| first.is_ascii_digit());
                if is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            let line: Vec<String> = cells.collect();
            self.line(line.join("  ").trim_end())?;
        }
        Ok(())
    }

    /// Makes everything so far visible to the reader.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::output)
    }
}

/// Tells the person at the terminal something that is no result.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(io::stderr(), "{text}"));
}

/// `count` with its noun in the right number.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A path as a shell takes it back, and after it a command: one that begins as an option does is named by its folder. `-` alone stays, which is
/// standard input to a command.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.len() > 1 && text.starts_with('-') {
        return quoted_text(&format!("./{text}"));
    }
    quoted_text(&text)
}

/// A text as a shell takes it back.
pub(crate) fn quoted_text(text: &str) -> String {
    let plain = |symbol: char| symbol.is_alphanumeric() || "/._-+,:@%=".contains(symbol);
    if text.chars().all(plain) && !text.is_empty() {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_path_back_as_it_was() {
        for path in ["/srv/a-b_1.c", "a b", "it's", "$(x)", "a*?;\n"] {
            let shell = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(Path::new(path)))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), path);
        }
    }

    /// The log `-d` was advised to be verified with `probity verify -d`, which is wrong usage.
    #[test]
    fn no_path_is_taken_for_an_option() {
        for (path, typed) in [
            ("-d", "./-d"),
            ("-a b", "'./-a b'"),
            ("-", "-"),
            ("./-d", "./-d"),
        ] {
            assert_eq!(quoted(Path::new(path)), typed);
        }
    }
}
