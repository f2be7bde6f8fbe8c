//! Files that a command reads; a signal is noticed even while a pipe has no writer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::interruption;

/// The longest time until a signal is noticed, in nanoseconds.
const LOOK_NANOSECONDS: i64 = 50_000_000;

/// A file, pipe or terminal whose reads end once a signal has asked the program to end.
pub(crate) struct InputFile {
    file: File,
}

impl InputFile {
    /// Opens the file at `path`. A pipe opens at once; reading waits for its first writer.
    ///
    /// # Errors
    /// Those of opening a file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        if found.is_dir() {
            // A folder would open, and fail only when it is read.
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let is_file = found.is_file();
        let mut options = OpenOptions::new();
        options.read(true);
        if !is_file {
            options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        }
        let file = options.open(path)?;
        if !is_file {
            // Another reader may take the announced bytes; reading then waits for the next ones.
            let flags = fcntl_getfl(&file)?;
            fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
        }
        Ok(Self { file })
    }
}

impl From<File> for InputFile {
    fn from(file: File) -> Self {
        Self { file }
    }
}

impl Read for InputFile {
    /// Fails with [`io::ErrorKind::ConnectionAborted`] where there is nothing to read and a signal came.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_NANOSECONDS,
        };
        loop {
            let mut watched = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut watched, Some(&look)) {
                Ok(0) | Err(Errno::INTR) => {}
                // Reading reports any error of the file.
                Ok(_) | Err(_) => return self.file.read(buffer),
            }
            if interruption::is_stopped() {
                return Err(stopped());
            }
        }
    }
}

/// Returns the error of a read after a signal.
pub(crate) fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "a signal asked to stop")
}
