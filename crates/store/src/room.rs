//! The bound of the memory that a command may fill before it answers or writes.

use std::cell::Cell;

use crate::fail::Fail;
use crate::limits::ELEMENT_BYTES;

/// Bytes that the command under way may still gather.
#[derive(Debug, Default)]
pub(crate) struct Room {
    bytes_max: usize,
    left: Cell<usize>,
}

impl Room {
    /// Room for another command.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            left: Cell::new(bytes_max),
        }
    }

    /// Makes all of it free again.
    pub(crate) fn begin(&self) {
        self.left.set(self.bytes_max);
    }

    /// Takes room for an element; one that begins within the bound is taken whole.
    ///
    /// # Errors
    /// When there is none left.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Fail> {
        let left = self.left.get();
        if left == 0 {
            let most = self.bytes_max;
            let text =
                format!("ERR the command gathers more than {most} bytes, ask for less at once");
            return Err(Fail::Said(text.into_bytes()));
        }
        let taken = bytes.saturating_add(ELEMENT_BYTES);
        self.left.set(left.saturating_sub(taken));
        Ok(())
    }
}
