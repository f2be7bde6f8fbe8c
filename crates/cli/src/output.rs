//! Standard output as lines, tables and JSON documents; a reader that goes away fails the command.

use std::io::{self, BufWriter, StdoutLock, Write};

use rustix::fs::{FileType, fstat, stat};
use serde::Serialize;

use crate::envelope::enveloped;
use crate::failure::Failure;
use crate::visible_text::{visible, visible_lines};

/// Standard output, buffered.
pub(crate) struct Output {
    out: BufWriter<Counted>,
    /// Bytes that were given to it, left or not.
    given: u64,
    /// Work that is done, and stays done if nobody hears of it.
    done: Option<String>,
}

/// Standard output without the buffer of its own, which would hold lines that count as written.
struct Counted {
    out: StdoutLock<'static>,
    /// Bytes that the system took.
    left: u64,
}

impl Counted {
    fn new() -> Self {
        Self {
            out: io::stdout().lock(),
            left: 0,
        }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = rustix::io::write(&self.out, bytes)?;
        self.left = self
            .left
            .saturating_add(length(bytes.get(..taken).unwrap_or_default()));
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Advice where work is done and nobody heard of it.
const NO_REPETITION: &str = "do not repeat the command for that";

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            out: BufWriter::with_capacity(64 * 1024, Counted::new()),
            given: 0,
            done: None,
        }
    }

    /// Begins the report of work that is `done`: an error of the report says so.
    pub(crate) fn after(done: impl Into<String>) -> Self {
        let mut output = Self::new();
        output.set_done(done);
        output
    }

    /// Notes work that is `done`: from now on an error says so.
    pub(crate) fn set_done(&mut self, done: impl Into<String>) {
        self.done = Some(done.into());
    }

    fn failed(&self, error: io::Error) -> Failure {
        let failure = Failure::output(error);
        match &self.done {
            Some(done) => failure.after(done).remedy(NO_REPETITION),
            None => failure,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.out.write_all(bytes);
        written.map_err(|error| self.failed(error))?;
        self.given = self.given.saturating_add(length(bytes));
        Ok(())
    }

    /// The bytes that were given to standard output so far.
    pub(crate) const fn given(&self) -> u64 {
        self.given
    }

    /// The bytes that have left the program.
    pub(crate) fn left(&self) -> u64 {
        self.out.get_ref().left
    }

    /// Writes one line of text for people, with the characters escaped that [`visible`] names.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(format!("{}\n", visible(text)).as_bytes())
    }

    /// Writes text of several lines for people, each like [`Output::line`].
    pub(crate) fn lines(&mut self, text: &str) -> Result<(), Failure> {
        text.split('\n').try_for_each(|line| self.line(line))
    }

    /// Writes text that programs read, as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write(text.as_bytes())
    }

    /// Writes the JSON document of the command on one line, with version and name of the command.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        self.json_line(&enveloped(document))
    }

    /// Writes one of many JSON objects, each on a line of its own, as it is.
    pub(crate) fn json_line(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_vec(object);
        let mut line = line.map_err(|error| self.failed(error.into()))?;
        line.push(b'\n');
        // At once: a line that is written again after an error must not follow a part of itself.
        self.write(&line)
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
        let flushed = self.out.flush();
        flushed.map_err(|error| self.failed(error))
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
