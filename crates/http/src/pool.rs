//! Connections to one database: never more than so many at once, and used again where they still answer.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::panicking;
use std::time::Duration;

use probity_disguise::database::connect;
use probity_disguise::{Database, DatabaseError, Dialect};
use probity_format::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::secret::Secret;

/// A connection that was idle for longer than this is closed: what is between here and the server may have forgotten it.
const IDLE_TIME: Duration = Duration::from_mins(5);

/// A connection that any thread may have.
type Connection = Box<dyn Database + Send>;

/// The connections to a database.
pub(crate) struct Pool {
    url: Secret,
    seats: Arc<Semaphore>,
    /// Those that nobody uses, the last one used at the end.
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    connection: Connection,
    since: Timestamp,
}

/// The right to one connection at a time.
pub(crate) type Seat = OwnedSemaphorePermit;

impl Pool {
    /// At most `size` connections to the database at `url`, none of them open yet.
    pub(crate) fn new(url: Secret, size: usize) -> Self {
        Self {
            url,
            seats: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
        }
    }

    /// The right to a connection, once one is free.
    pub(crate) async fn seat(&self) -> Option<Seat> {
        Arc::clone(&self.seats).acquire_owned().await.ok()
    }

    /// A connection that answers, for whoever has a seat.
    pub(crate) fn connection(&self, now: Timestamp) -> Result<Lent, DatabaseError> {
        let used = std::iter::from_fn(|| list(&self.idle).pop());
        let mut young = used.filter(|it| !it.is_old(now));
        let again = young.find_map(|mut it| answers(&mut it.connection).then_some(it.connection));
        let connection = match again {
            Some(connection) => connection,
            None => connect(&self.url)?,
        };
        Ok(Lent {
            // Under the name of a file there may be another one at any time, and to open it costs nothing.
            home: (connection.dialect() != Dialect::Sqlite).then(|| Arc::clone(&self.idle)),
            connection: Some(connection),
            since: now,
        })
    }
}

/// A connection that goes back when it is no longer needed.
pub(crate) struct Lent {
    connection: Option<Connection>,
    home: Option<Arc<Mutex<Vec<Idle>>>>,
    since: Timestamp,
}

impl Deref for Lent {
    type Target = dyn Database + Send;

    #[expect(clippy::expect_used, reason = "only the end of it takes it away")]
    fn deref(&self) -> &Self::Target {
        self.connection.as_deref().expect("a connection")
    }
}

impl DerefMut for Lent {
    #[expect(clippy::expect_used, reason = "only the end of it takes it away")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_deref_mut().expect("a connection")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(connection), Some(home), false) =
            (self.connection.take(), &self.home, panicking())
        {
            let since = self.since;
            list(home).push(Idle { connection, since });
        }
    }
}

/// Whether a connection is still one, with no transaction open in it.
fn answers(connection: &mut Connection) -> bool {
    connection.rollback().is_ok() && connection.query("SELECT 1", &[]).is_ok()
}

fn list(idle: &Mutex<Vec<Idle>>) -> MutexGuard<'_, Vec<Idle>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    fn is_old(&self, now: Timestamp) -> bool {
        let idle = now.nanoseconds().saturating_sub(self.since.nanoseconds());
        u128::try_from(idle).map_or(true, |idle| idle > IDLE_TIME.as_nanos())
    }
}
