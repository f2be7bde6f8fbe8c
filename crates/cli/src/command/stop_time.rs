//! The time from the signal that stops a proxy to the end of the process, and what each part of the stop may take of it.

use std::cell::OnceCell;
use std::sync::mpsc;
use std::time::Duration;

use probity_proxy::Backend;
use probity_store::Sync;
use tokio::time::Instant;

use super::proxy::close_store;
use crate::failure::Failure;

/// The longest time that a stop may take; `TimeoutStopSec` of a supervisor is to be longer.
pub(super) const STOP_MAX: Duration = Duration::from_secs(25);
/// The part of it that the log has for itself, whatever came before.
const LOG_SHARE: Duration = Duration::from_secs(5);

/// The time of one stop.
#[derive(Default)]
pub(super) struct StopTime {
    begun: OnceCell<Instant>,
}

impl StopTime {
    /// Begins, unless it has begun.
    pub(super) fn begin(&self) -> Instant {
        *self.begun.get_or_init(Instant::now)
    }

    /// The time that is left for the log, the last to be closed.
    pub(super) fn left(&self) -> Duration {
        let end = self.begin() + STOP_MAX;
        end.saturating_duration_since(Instant::now()).max(LOG_SHARE)
    }

    /// Closes the embedded store, if there is one, or gives it up: the process may end, and the store opens as after a kill.
    pub(super) fn close_store(&self, backend: Backend, sync: Sync) -> Result<(), Failure> {
        let most = self.left().saturating_sub(LOG_SHARE);
        within(most, move || close_store(backend, sync))?.unwrap_or_else(|| {
            let lost = match sync {
                Sync::Always => "every change that was answered is on the disk",
                Sync::EverySecond => "changes of the last second may be lost",
            };
            Err(Failure::new("the store was not closed in time").remedy(format!(
                "look whether its disk answers, and start it again, which goes on with what was left; {lost}"
            )))
        })
    }
}

/// The failure of a log that was not closed in time.
pub(super) fn late_log() -> Failure {
    Failure::new("the log was not closed in time").remedy(
        "look whether its disk answers, and start it again, which goes on with what was left",
    )
}

/// Does `work` in a thread, and waits `most` for it: none where it takes longer, and then it goes on until the process ends.
fn within<T: Send + 'static>(
    most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (done, result) = mpsc::channel();
    let thread = std::thread::Builder::new().name("closing".into());
    let thread = thread.spawn(move || {
        let _nobody_waits_any_more = done.send(work());
    });
    thread.map_err(|error| Failure::new("cannot start a thread").because(error))?;
    match result.recv_timeout(most) {
        Ok(done) => Ok(Some(done)),
        Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Failure::new(
            "a thread has ended by a fault of the program; report what it printed",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The store was closed for as long as that took, behind which the log waited. Each has its part of the time, and all of it ends.
    #[test]
    fn what_takes_too_long_is_given_up_and_the_log_has_its_share() {
        let stop = StopTime::default();
        let begun = stop.begin();
        assert!(stop.left() <= STOP_MAX && stop.left() + LOG_SHARE > STOP_MAX);
        let (never, receiver) = mpsc::channel::<()>();
        let short = Duration::from_millis(100);
        let stuck = within(short, move || receiver.recv().is_ok());
        assert!(matches!(stuck, Ok(None)));
        assert!(begun.elapsed() >= short && begun.elapsed() < STOP_MAX);
        let done = within(STOP_MAX, || 7);
        assert!(matches!(done, Ok(Some(7))));
        drop(never);
        let over = StopTime::default();
        let long_ago = begun.checked_sub(STOP_MAX);
        assert_eq!(over.begun.set(long_ago.unwrap_or(begun)), Ok(()));
        assert_eq!(over.left(), LOG_SHARE);
    }
}
