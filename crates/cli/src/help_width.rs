//! The least width at which help is laid out: that of its examples, which are copied to a shell.

use std::io;

use clap::Command;
use rustix::termios::tcgetwinsize;

use crate::config::columns_named;

/// Columns of the longest line of an example. The layout breaks no line of them at this width or a
/// larger one. It would break a command in two, and a shell would run each half.
pub const EXAMPLE_COLUMNS: usize = 80;

/// Returns `command`, with help of at least [`EXAMPLE_COLUMNS`] columns: a narrower terminal folds
/// the lines itself, which adds no end of line to what is copied.
pub fn applied(command: Command) -> Command {
    match columns() {
        Some(columns) if columns < EXAMPLE_COLUMNS => command.term_width(EXAMPLE_COLUMNS),
        _ => command,
    }
}

/// The columns of the terminal; without one, those that the environment names.
fn columns() -> Option<usize> {
    let sizes = [
        tcgetwinsize(io::stdout()),
        tcgetwinsize(io::stderr()),
        tcgetwinsize(io::stdin()),
    ];
    let columns = sizes.into_iter().flatten().map(|size| size.ws_col);
    let mut columns = columns.filter(|columns| *columns > 0);
    columns.next().map(usize::from).or_else(columns_named)
}
