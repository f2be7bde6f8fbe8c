//! Serving until a signal asks the process to stop.

use std::thread::sleep;
use std::time::Duration;

use crate::failure::Failure;
use crate::interruption;

/// The interval between two checks whether to go on serving.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Calls `announce` once signals are noticed, and returns when asked to stop or when `is_over`. The
/// next signal ends the program, for what is under way may wait for others as long as they like.
pub(super) fn until_stopped_or(
    is_over: impl Fn() -> bool,
    announce: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    interruption::end_gracefully()?;
    announce()?;
    while !interruption::is_stopped() && !is_over() {
        #[expect(clippy::disallowed_methods, reason = "the process serves meanwhile")]
        sleep(LOOK_INTERVAL);
    }
    Ok(())
}
