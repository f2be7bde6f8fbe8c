//! A pool of connections to one database: bounded in number, each used for a share of the time, and
//! reused while it answers.

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

/// The idle time after which a connection is closed: the network between here and the server may
/// have forgotten it.
const IDLE_TIME: Duration = Duration::from_mins(5);

/// The beginning of an address of a database in a file.
const FILE_SCHEME: &str = "sqlite:";

/// A connection that can move between threads.
type Connection = Box<dyn Database + Send>;

/// The pool of connections to a database.
pub(crate) struct Pool {
    url: Secret,
    permits: Arc<Semaphore>,
    /// The paces of the free permits, each of which says how long its permit must rest.
    paces: Arc<Paces>,
    /// Idle connections, the last one used at the end.
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    connection: Connection,
    since: Timestamp,
}

/// The admissions of the free permits, each of which says how long to rest after work.
type Paces = Mutex<Vec<Arc<Admission>>>;

/// A permit for one connection.
pub(crate) struct ConnectionPermit {
    pace: Arc<Admission>,
    paces: Arc<Paces>,
    /// Released after the pace was put back.
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Creates a pool of at most `size` connections to the database at `url`, none of them open
    /// yet. Each is used for `share` of the time.
    pub(crate) fn new(url: Secret, size: usize, share: Share) -> Self {
        let pace = || Arc::new(Admission::new(NonZero::<u32>::MIN).with_share(share));
        Self {
            url,
            paces: Arc::new(Mutex::new((0..size).map(|_permit| pace()).collect())),
            permits: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
        }
    }

    /// Acquires a permit for a connection, once one is free and has rested.
    pub(crate) async fn acquire(&self) -> Option<ConnectionPermit> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let acquired = ConnectionPermit {
            pace: self.rested()?,
            paces: Arc::clone(&self.paces),
            _permit: permit,
        };
        sleep(acquired.pace.rest()).await;
        Some(acquired)
    }

    /// Takes the pace that has rested longest.
    fn rested(&self) -> Option<Arc<Admission>> {
        let mut paces = list(&self.paces);
        let first = (0..paces.len()).min_by_key(|index| paces.get(*index).map(|it| it.rest()))?;
        Some(paces.swap_remove(first))
    }

    /// Returns why a database in a file cannot be opened. A server may come later, and asking it
    /// would take one of its connections.
    pub(crate) fn absence(&self) -> Option<DatabaseError> {
        let is_file = self.url.starts_with(FILE_SCHEME);
        is_file.then(|| connect(&self.url).err()).flatten()
    }

    /// Returns a connection that answers; the caller must hold a permit.
    pub(crate) fn connection(&self, now: Timestamp) -> Result<PooledConnection, DatabaseError> {
        let used = std::iter::from_fn(|| list(&self.idle).pop());
        let mut young = used.filter(|it| !it.is_old(now));
        let again = young.find_map(|mut it| answers(&mut it.connection).then_some(it.connection));
        let connection = match again {
            Some(connection) => connection,
            None => connect(&self.url)?,
        };
        Ok(PooledConnection {
            // The name of a file may stand for another one at any time, and opening it costs
            // nothing.
            idle: (connection.dialect() != Dialect::Sqlite).then(|| Arc::clone(&self.idle)),
            connection: Some(connection),
            since: now,
        })
    }
}

impl ConnectionPermit {
    /// Returns the admission that lets in each transaction over the connection.
    pub(crate) const fn pace(&self) -> &Arc<Admission> {
        &self.pace
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        list(&self.paces).push(Arc::clone(&self.pace));
    }
}

/// A connection that returns to the pool when it is dropped.
pub(crate) struct PooledConnection {
    connection: Option<Connection>,
    idle: Option<Arc<Mutex<Vec<Idle>>>>,
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
        if let (Some(connection), Some(idle), false) =
            (self.connection.take(), &self.idle, panicking())
        {
            let since = self.since;
            list(idle).push(Idle { connection, since });
        }
    }
}

/// Returns whether a connection answers, with no transaction open in it.
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
