//! How commands that serve are ended: by the signals that ask a process to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::interruption;

/// Calls `announce` once a signal would be noticed, and returns when the process is asked to stop.
pub(super) fn until_stopped(announce: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let fail = |error| Failure::new("cannot wait for signals").because(error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(fail)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        interruption::leave_signals();
        announce()?;
        received(&mut interrupt, &mut terminate).await;
        Ok(())
    })
}

async fn received(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
