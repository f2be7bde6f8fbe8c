//! Connections to one database: never more than so many at once, each for a share of the time, and used again where
//! they still answer.

use std::num::NonZero;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::panicking;
use std::time::Duration;

use probity_disguise::database::connect;
use probity_disguise::{Admission, Database, DatabaseError, Dialect, Share};
use probity_format::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use crate::secret::Secret;

/// A connection that was idle for longer than this is closed: what is between here and the server may have forgotten it.
const IDLE_TIME: Duration = Duration::from_mins(5);

/// A connection that any thread may have.
type Connection = Box<dyn Database + Send>;

/// The connections to a database.
pub(crate) struct Pool {
    url: Secret,
    seats: Arc<Semaphore>,
    /// By which clock each seat rests that nobody has.
    paces: Arc<Paces>,
    /// Those that nobody uses, the last one used at the end.
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    connection: Connection,
    since: Timestamp,
}

/// Of each seat that nobody has, how long it is left alone after it was worked on.
type Paces = Mutex<Vec<Arc<Admission>>>;

/// The right to one connection at a time.
pub(crate) struct ConnectionPermit {
    pace: Arc<Admission>,
    home: Arc<Paces>,
    /// Given back after the pace was.
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// At most `size` connections to the database at `url`, none of them open yet, each worked over for `share` of the
    /// time.
    pub(crate) fn new(url: Secret, size: usize, share: Share) -> Self {
        let pace = || Arc::new(Admission::new(NonZero::<u32>::MIN).with_share(share));
        Self {
            url,
            paces: Arc::new(Mutex::new((0..size).map(|_seat| pace()).collect())),
            seats: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
        }
    }

    /// The right to a connection, once one is free and has rested.
    pub(crate) async fn seat(&self) -> Option<ConnectionPermit> {
        let permit = Arc::clone(&self.seats).acquire_owned().await.ok()?;
        let seat = ConnectionPermit {
            pace: self.rested()?,
            home: Arc::clone(&self.paces),
            _permit: permit,
        };
        sleep(seat.pace.rest()).await;
        Some(seat)
    }

    /// Takes the pace that has rested longest.
    fn rested(&self) -> Option<Arc<Admission>> {
        let mut paces = list(&self.paces);
        let first = (0..paces.len()).min_by_key(|seat| paces.get(*seat).map(|it| it.rest()))?;
        Some(paces.swap_remove(first))
    }

    /// A connection that answers, for whoever has a seat.
    pub(crate) fn connection(&self, now: Timestamp) -> Result<PooledConnection, DatabaseError> {
        let used = std::iter::from_fn(|| list(&self.idle).pop());
        let mut young = used.filter(|it| !it.is_old(now));
        let again = young.find_map(|mut it| answers(&mut it.connection).then_some(it.connection));
        let connection = match again {
            Some(connection) => connection,
            None => connect(&self.url)?,
        };
        Ok(PooledConnection {
            // Under the name of a file there may be another one at any time, and to open it costs nothing.
            home: (connection.dialect() != Dialect::Sqlite).then(|| Arc::clone(&self.idle)),
            connection: Some(connection),
            since: now,
        })
    }
}

impl ConnectionPermit {
    /// What lets in each transaction over the connection.
    pub(crate) const fn pace(&self) -> &Arc<Admission> {
        &self.pace
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        list(&self.home).push(Arc::clone(&self.pace));
    }
}

/// A connection that goes back when it is no longer needed.
pub(crate) struct PooledConnection {
    connection: Option<Connection>,
    home: Option<Arc<Mutex<Vec<Idle>>>>,
    since: Timestamp,
}

impl Deref for PooledConnection {
    type Target = dyn Database + Send;

    #[expect(clippy::expect_used, reason = "only the end of it takes it away")]
    fn deref(&self) -> &Self::Target {
        self.connection.as_deref().expect("a connection")
    }
}

impl DerefMut for PooledConnection {
    #[expect(clippy::expect_used, reason = "only the end of it takes it away")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_deref_mut().expect("a connection")
    }
}

impl Drop for PooledConnection {
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

fn list<T>(all: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    fn is_old(&self, now: Timestamp) -> bool {
        let idle = now.nanoseconds().saturating_sub(self.since.nanoseconds());
        u128::try_from(idle).map_or(true, |idle| idle > IDLE_TIME.as_nanos())
    }
}
