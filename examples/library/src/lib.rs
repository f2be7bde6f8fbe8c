//! Folder and output of the example programs.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Creates the folder that the first argument names.
///
/// # Errors
/// There is no argument, or the folder cannot be created.
pub fn new_folder() -> Result<PathBuf, Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = PathBuf::from(folder.ok_or("name a folder that does not exist yet")?);
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Writes one line to standard output.
///
/// # Errors
/// Standard output is closed.
pub fn say(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
