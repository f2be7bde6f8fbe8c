//! A secret that a person types on a terminal, which does not show it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::input_file::InputFile;
use crate::interruption;

/// Asks for `what` and returns the line that is typed, with its line feed; at most `bytes_max` bytes.
///
/// # Errors
/// When the terminal cannot be set or read, or a signal asked to stop.
pub(crate) fn secret_line(what: &str, bytes_max: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A signal that ended the program here would leave the terminal without echo.
    let _asked = interruption::ask_meanwhile()?;
    let _silent = Silent::new(terminal.try_clone()?)?;
    let mut prompt = io::stderr().lock();
    write!(prompt, "{what}: ")?;
    prompt.flush()?;
    let mut input = InputFile::from(terminal);
    let mut line = Zeroizing::new(Vec::with_capacity(bytes_max));
    let mut byte = Zeroizing::new([0; 1]);
    while line.len() < bytes_max && line.last() != Some(&b'\n') && input.read(&mut *byte)? == 1 {
        line.extend_from_slice(&*byte);
    }
    Ok(line)
}

/// A terminal that does not show what is typed until this is dropped.
struct Silent {
    terminal: File,
    before: Termios,
}

impl Silent {
    fn new(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        // The end of the line is shown, so that what follows begins on a line of its own.
        silent.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(&terminal, OptionalActions::Now, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // Nothing more can be done about a terminal that went away.
        let _gone = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
