//! Serving until a signal asks the process to stop.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::failure::Failure;
use crate::interruption::{self, received, unwatched, watched};

/// The interval between two checks whether anything is left to serve.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Calls `announce` once signals are noticed, and returns when asked to stop or when `is_over`.
pub(super) fn until_stopped_or(
    is_over: impl Fn() -> bool,
    announce: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unwatched)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unwatched)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(unwatched)?;
        // Comes when a terminal is closed; by default it would end the program like a kill.
        let mut hangup = watched(SignalKind::hangup()).map_err(unwatched)?;
        interruption::leave_signals();
        announce()?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = received(&mut hangup) => {}
            () = over(is_over) => {}
        }
        Ok(())
    })
}

async fn over(is_over: impl Fn() -> bool) {
    while !is_over() {
        sleep(LOOK_INTERVAL).await;
    }
}
