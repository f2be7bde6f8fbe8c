//! The end of an open log: the stages of its closing, and the error that ended it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::LogError;
use crate::log_state::LogState;

/// The stages of a log, in their order; each includes those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stage {
    /// No more entries are taken.
    Closing = 1,
    /// The sealers ended: no more frames will be written.
    Sealed = 2,
    /// The committing thread ended: no more frames will be integrated.
    Drained = 3,
}

/// The stage of a log between its opening and its end, and the error that ended it.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The number of the stage; 0 while the log is open. It never goes back.
    stage: AtomicU8,
    poison: OnceLock<Arc<LogError>>,
}

impl Ending {
    /// Reaches `stage`, unless the log is there already.
    pub(crate) fn reach(&self, stage: Stage) {
        // Release: a thread that sees the stage sees what was done before it. Max: a second closing
        // begins with the first stage again.
        self.stage.fetch_max(stage as u8, Ordering::Release);
    }

    /// Returns whether the log is at `stage`, or further.
    pub(crate) fn has_reached(&self, stage: Stage) -> bool {
        // Acquire: pairs with `reach`.
        self.stage.load(Ordering::Acquire) >= stage as u8
    }
}

impl LogState {
    /// Runs rounds of work until one returns false because all is done, or the log is poisoned,
    /// also by a round's error.
    pub(crate) fn work_in_rounds(&self, mut round: impl FnMut() -> Result<bool, LogError>) {
        while self.poison().is_none() {
            match round() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.set_poison(error),
            }
        }
    }

    /// The error that ended all writing, if one did.
    pub(crate) fn poison(&self) -> Option<&Arc<LogError>> {
        self.ending.poison.get()
    }

    /// Ends all writing because of `error` and wakes all waiters; only the first error counts.
    pub(crate) fn set_poison(&self, error: LogError) {
        // A second error changes nothing: the first is the cause.
        drop(self.ending.poison.set(Arc::new(error)));
        self.tell_poison();
    }

    fn tell_poison(&self) {
        self.queue.sender.close();
        self.committer.wake();
        self.progress.changed().raise();
        self.publisher.wake();
        self.ticker.wake();
        self.progress.call_back();
    }

    /// Poisons the log like [`LogState::set_poison`], and returns the error for the caller.
    pub(crate) fn fail(&self, error: LogError) -> LogError {
        let error = Arc::clone(self.ending.poison.get_or_init(|| Arc::new(error)));
        self.tell_poison();
        LogError::Poisoned(error)
    }

    pub(crate) fn check_poison(&self) -> Result<(), LogError> {
        self.poison()
            .map_or(Ok(()), |error| Err(LogError::Poisoned(Arc::clone(error))))
    }

    /// Returns whether the log takes no more entries.
    pub(crate) fn is_closing(&self) -> bool {
        self.ending.has_reached(Stage::Closing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_includes_those_before_and_never_goes_back() {
        let ending = Ending::default();
        assert!(!ending.has_reached(Stage::Closing));
        ending.reach(Stage::Sealed);
        assert!(ending.has_reached(Stage::Closing) && ending.has_reached(Stage::Sealed));
        assert!(!ending.has_reached(Stage::Drained));
        ending.reach(Stage::Closing);
        assert!(ending.has_reached(Stage::Sealed));
    }
}
