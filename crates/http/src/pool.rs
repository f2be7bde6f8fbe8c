//! A pool of connections to one database: bounded in number, each used for a share of the time, and
//! reused while it answers.

use std::num::NonZero;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::panicking;
use std::time::Duration;

use probity_disguise::database::{connect, connect_holding, still_answers};
use probity_disguise::{Admission, Database, DatabaseError, DatabaseErrorKind, Dialect, Share};
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
    /// True if the server did not answer the last time.
    is_silent: AtomicBool,
}

struct Idle {
    connection: Connection,
    since: Timestamp,
}

/// The admissions of the free permits, each of which says how long to rest after work.
type Paces = Mutex<Vec<Arc<Admission>>>;

/// A permit for one connection, or for an attempt at one that a silent server keeps open.
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
            is_silent: AtomicBool::new(false),
        }
    }

    /// Acquires a permit for a connection, once one is free and has rested.
    pub(crate) async fn acquire(&self) -> Option<Arc<ConnectionPermit>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let acquired = ConnectionPermit {
            pace: self.rested()?,
            paces: Arc::clone(&self.paces),
            _permit: permit,
        };
        sleep(acquired.pace.rest()).await;
        Some(Arc::new(acquired))
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

    /// Returns whether the server did not answer when it was asked last.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Returns a connection that answers. The permit is kept until the attempt has ended.
    pub(crate) fn connection(
        &self,
        permit: &Arc<ConnectionPermit>,
        now: Timestamp,
    ) -> Result<PooledConnection, DatabaseError> {
        let opened = match self.used(permit, now) {
            Ok(None) => connect_holding(&self.url, Arc::clone(permit)),
            Ok(Some(connection)) => Ok(connection),
            Err(silent) => Err(silent),
        };
        let is_silent = matches!(&opened, Err(error) if error.kind == DatabaseErrorKind::Silent);
        self.is_silent.store(is_silent, Ordering::Relaxed);
        let connection = opened?;
        Ok(PooledConnection {
            // The name of a file may stand for another one at any time, and opening it costs
            // nothing.
            idle: (connection.dialect() != Dialect::Sqlite).then(|| Arc::clone(&self.idle)),
            connection: Some(connection),
            since: now,
        })
    }

    /// Returns an idle connection that still answers, if there is one. Where one stays silent, the
    /// others are closed: each would be waited for as long.
    fn used(
        &self,
        permit: &Arc<ConnectionPermit>,
        now: Timestamp,
    ) -> Result<Option<Connection>, DatabaseError> {
        loop {
            let last = list(&self.idle).pop();
            let Some(last) = last else {
                return Ok(None);
            };
            if last.is_old(now) {
                continue;
            }
            match still_answers(last.connection, Arc::clone(permit)) {
                Ok(Some(connection)) => return Ok(Some(connection)),
                Ok(None) => {}
                Err(silent) => {
                    let others = std::mem::take(&mut *list(&self.idle));
                    drop(others);
                    return Err(silent);
                }
            }
        }
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

fn list<T>(all: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    fn is_old(&self, now: Timestamp) -> bool {
        let idle = now.nanoseconds().saturating_sub(self.since.nanoseconds());
        u128::try_from(idle).map_or(true, |idle| idle > IDLE_TIME.as_nanos())
    }
}
