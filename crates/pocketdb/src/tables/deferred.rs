//! An error behind a commit, which somebody has to be told of.

use alloc::boxed::Box;

use crate::error::{Error, Result};

/// An error that was met when the rows of a commit were safe already, until it is told.
///
/// Dropping one that nobody was told of is a fault of the program, and fails its tests.
#[derive(Default)]
pub(crate) struct Deferred {
    error: Option<Box<Error>>,
    is_told: bool,
}

impl Deferred {
    /// Keeps an error for the next operation.
    pub(crate) fn keep(&mut self, error: Error) {
        self.error = Some(Box::new(error));
    }

    /// Returns the error, once: to the next operation.
    pub(crate) fn tell_once(&mut self) -> Result<()> {
        match &self.error {
            Some(error) if !self.is_told => {
                self.is_told = true;
                Err((**error).clone())
            }
            _ => Ok(()),
        }
    }

    /// Returns the error, told before or not: to whoever ends the work.
    pub(crate) fn tell(&mut self) -> Result<()> {
        self.is_told = true;
        match self.error.take() {
            Some(error) => Err(*error),
            None => Ok(()),
        }
    }

    /// Gives it up: the program ends as a loss of power ends it.
    pub(crate) fn lose(&mut self) {
        self.is_told = true;
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        #[cfg(any(feature = "std", test))]
        if std::thread::panicking() {
            return;
        }
        debug_assert!(
            self.is_told || self.error.is_none(),
            "an error behind a commit was told nobody"
        );
    }
}
