//! Where entries come from: input of which the end, and a signal, are noticed while waiting for more.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::interruption;

/// Longest time between a signal and its being noticed, in nanoseconds.
const LOOK_NANOSECONDS: i64 = 50_000_000;

/// A file, pipe or terminal that stops giving bytes once a signal asked the program to end.
pub(super) struct Input {
    file: File,
}

impl Input {
    /// The file at `path`, or standard input for `-`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |error| Failure::file("read", path, error);
        let file = if path == Path::new("-") {
            File::from(io::stdin().as_fd().try_clone_to_owned().map_err(fail)?)
        } else {
            File::open(path).map_err(fail)?
        };
        Ok(Self { file })
    }
}

impl Read for Input {
    /// Fails with [`io::ErrorKind::ConnectionAborted`] once a signal came; half a line is not taken for a whole one then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_NANOSECONDS,
        };
        loop {
            if interruption::is_stopped() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let mut watched = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut watched, Some(&look)) {
                Ok(0) | Err(Errno::INTR) => {}
                // What is wrong with it, reading says.
                Ok(_) | Err(_) => return self.file.read(buffer),
            }
        }
    }
}
