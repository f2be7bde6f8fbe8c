//! The system's own error behind a failure of a file, for whoever handed the file to the engine.

use std::io;
use std::sync::{Arc, OnceLock};

/// Place in which a chip or a secure store in a file notes the first error that the system gave it.
///
/// The engine's errors do not carry it, and an opening that fails gives neither file back: a copy of this
/// that is taken before tells the cause all the same.
#[derive(Debug, Clone, Default)]
pub struct SystemFailure(Arc<OnceLock<io::Error>>);

impl SystemFailure {
    /// The first error; nothing while there was none.
    pub fn first(&self) -> Option<&io::Error> {
        self.0.get()
    }

    /// Notes `error`, unless there is one already: what follows a failure comes of it.
    pub(crate) fn note(&self, error: io::Error) {
        drop(self.0.set(error));
    }
}
