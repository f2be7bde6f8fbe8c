//! The opening of connections to servers: a server that takes a connection and stays silent holds
//! nobody up for longer than a bound.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::{Database, DatabaseError, DatabaseErrorKind, Said};

/// The time in which an address of a server must accept, unless the URL sets another. The opening
/// may take twice as long: greeting, login and settings come after.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const ACCEPT_WAIT: Duration = Duration::from_secs(5);

/// The idle time of a connection after which the system asks whether its peer is still there. A
/// statement may run for as long as it needs, because the system of the server answers meanwhile.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_mins(1);
/// The time between two such questions.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// The number of questions without an answer after which the connection is broken.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) const KEEPALIVE_RETRIES: u32 = 6;

/// The time in which an idle connection must answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Returns the time that an opening may take whose address must accept within `accept`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn opening_wait(accept: Duration, hosts: usize) -> Duration {
    let hosts = u32::try_from(hosts.max(1)).unwrap_or(u32::MAX);
    accept.saturating_mul(2).saturating_mul(hosts)
}

/// Runs `work` and waits for it no longer than `wait`. The drivers bound no part of a login, so that
/// it has a thread of its own. Work that is too late goes on there, keeps `held` until its end, and
/// its result is dropped.
pub(super) fn within<T: Send + 'static>(
    wait: Duration,
    held: impl Send + 'static,
    work: impl FnOnce() -> Result<T, DatabaseError> + Send + 'static,
) -> Result<T, DatabaseError> {
    let (done, result) = sync_channel(1);
    let begun = thread::Builder::new()
        .name("connect".into())
        .spawn(move || {
            // Nobody receives a result that is too late.
            drop(done.send(work()));
            drop(held);
        });
    begun.map_err(|error| failed(format!("the system gives no thread: {error}")))?;
    match result.recv_timeout(wait) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => {
            let (seconds, kind) = (wait.as_secs_f64(), DatabaseErrorKind::Silent);
            let message = format!("the server did not answer within {seconds} s");
            Err(DatabaseError {
                kind,
                ..failed(message)
            })
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(failed("the driver failed within itself".to_owned()))
        }
    }
}

/// Returns an idle connection if it still answers, with no transaction open in it; `None` if it was
/// closed. `held` is kept as by [`super::connect_holding`].
///
/// # Errors
/// [`DatabaseErrorKind::Silent`] when nothing comes within 10 seconds.
pub fn still_answers(
    mut connection: Box<dyn Database + Send>,
    held: impl Send + 'static,
) -> Result<Option<Box<dyn Database + Send>>, DatabaseError> {
    within(ANSWER_WAIT, held, move || {
        let answers = connection.rollback().is_ok() && connection.query("SELECT 1", &[]).is_ok();
        Ok(answers.then_some(connection))
    })
}

fn failed(message: String) -> DatabaseError {
    DatabaseError {
        kind: DatabaseErrorKind::Other,
        message,
        said: Said::default(),
    }
}
