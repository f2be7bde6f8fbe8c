//! Files that a command reads: a pipe that nobody writes into keeps no signal from being noticed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::interruption;

/// Longest time between a signal and its being noticed, in nanoseconds.
const LOOK_NANOSECONDS: i64 = 50_000_000;

/// A file, pipe or terminal. Waiting for its bytes ends once a signal asked the program to end.
pub(crate) struct InputFile {
    file: File,
}

impl InputFile {
    /// Opens the file at `path`. A pipe is open at once; reading waits for the first who writes into it.
    ///
    /// # Errors
    /// Those of opening a file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let is_file = fs::metadata(path)?.is_file();
        let mut options = OpenOptions::new();
        options.read(true);
        if !is_file {
            options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        }
        let file = options.open(path)?;
        if !is_file {
            // Somebody else may take the bytes that were announced: reading waits for the next then.
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
                // What is wrong with it, reading says.
                Ok(_) | Err(_) => return self.file.read(buffer),
            }
            if interruption::is_stopped() {
                return Err(stopped());
            }
        }
    }
}

/// What reading ends with after a signal.
pub(crate) fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "a signal asked to stop")
}
