//! Standard output: lines, tables and JSON documents; a reader that goes away ends the command.

use std::io::{self, BufWriter, StdoutLock, Write as _};

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
        let heading = heading.map(str::to_owned);
        let widths: [usize; N] = std::array::from_fn(|column| {
            let cells = std::iter::once(&heading).chain(rows);
            cells
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        });
        for row in std::iter::once(&heading).chain(rows) {
            let cells = row.iter().zip(widths).map(|(cell, width)| {
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
