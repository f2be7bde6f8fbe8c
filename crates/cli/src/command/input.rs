//! Input of entries and rows; its end and a signal are noticed while waiting for more.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::Path;

use crate::failure::Failure;
use crate::input_file::{InputFile, stopped};
use crate::interruption;

/// A file, pipe or terminal whose reads fail once a signal has asked the program to end.
pub(super) struct Input {
    file: InputFile,
}

impl Input {
    /// Opens the file at `path`, or standard input for `-`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |error| Failure::file("read", path, error);
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned().map_err(fail)?).into()
        } else {
            InputFile::open(path).map_err(fail)?
        };
        Ok(Self { file })
    }
}

impl Read for Input {
    /// Fails with [`io::ErrorKind::ConnectionAborted`] after a signal, so that half a line is not
    /// taken for a whole one.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if interruption::is_stopped() {
            return Err(stopped());
        }
        self.file.read(buffer)
    }
}
