//! Standard output as lines, tables and JSON documents; a reader that goes away fails the command.

use std::io::{self, BufWriter, StdoutLock, Write as _};

use rustix::fs::{FileType, fstat, stat};
use serde::Serialize;

use crate::envelope::enveloped;
use crate::failure::Failure;
use crate::visible_text::{visible, visible_lines};

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

    /// Writes one line of text for people, with the characters escaped that [`visible`] names.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        writeln!(self.out, "{}", visible(text)).map_err(Failure::output)
    }

    /// Writes text of several lines for people, each like [`Output::line`].
    pub(crate) fn lines(&mut self, text: &str) -> Result<(), Failure> {
        text.split('\n').try_for_each(|line| self.line(line))
    }

    /// Writes text that programs read, as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(Failure::output)
    }

    /// Writes the JSON document of the command on one line, with version and name of the command.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        self.json_line(&enveloped(document))
    }

    /// Writes one of many JSON objects, each on a line of its own, as it is.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, object)
            .map_err(|error| Failure::output(error.into()))?;
        self.out.write_all(b"\n").map_err(Failure::output)
    }

    /// Writes rows below a heading, each column as wide as its widest cell.
    ///
    /// Numbers are aligned to the right.
    pub(crate) fn table<const N: usize>(
        &mut self,
        heading: [&str; N],
        rows: &[[String; N]],
    ) -> Result<(), Failure> {
        let rows = rows.iter().map(<[String; N]>::as_slice);
        self.wide_table(&heading.map(str::to_owned), rows)
    }

    /// Writes a table with any number of columns.
    pub(crate) fn wide_table<'a>(
        &mut self,
        heading: &'a [String],
        rows: impl Iterator<Item = &'a [String]> + Clone,
    ) -> Result<(), Failure> {
        let mut widths = vec![0; heading.len()];
        let all = std::iter::once(heading).chain(rows);
        for row in all.clone() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(visible(cell).chars().count());
            }
        }
        for row in all {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| {
                let cell = visible(cell);
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

/// Returns whether standard output leads nowhere: to the null device, which the runtime also puts in
/// the place of one that was closed.
pub(crate) fn is_discarded() -> bool {
    let null = stat("/dev/null").map(|null| null.st_rdev);
    let out = fstat(io::stdout());
    matches!((null, out), (Ok(null), Ok(out)) if FileType::from_raw_mode(out.st_mode) == FileType::CharacterDevice && out.st_rdev == null)
}

/// Prints a message that is no result to standard error.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(io::stderr(), "{}", visible_lines(text)));
}

/// Returns `count` with its noun in singular or plural.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Converts a failure to write rows, and keeps the kind of the system's error.
pub(crate) fn rows_failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
