//! The count of what a long command has done, on a terminal.

use indicatif::ProgressBar;

/// Things between two updates.
const STEP: u64 = 1024;

/// A count of things, shown while the command works; nothing is shown where standard error is no
/// terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The things that are counted, in the plural.
    things: &'static str,
    count: u64,
}

impl Progress {
    pub(crate) fn new(things: &'static str) -> Self {
        Self {
            bar: ProgressBar::new_spinner(),
            things,
            count: 0,
        }
    }

    pub(crate) fn add_one(&mut self) {
        // The number is for the eye alone.
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(STEP) {
            self.bar
                .set_message(format!("{} {}", self.count, self.things));
            self.bar.tick();
        }
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
