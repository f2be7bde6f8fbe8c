//! State of all requests: the database's place, the log, and who is signed in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use probity_disguise::SubjectKey;
use probity_disguise::database::Sqlite;
use probity_format::Entry;
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::{Log, Options, RootKey, StreamName};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::sessions::Sessions;

/// Requests that use the database at the same time; each may spend the 19 MiB that a password costs.
const REQUESTS_MAX: usize = 8;

/// The application.
pub(crate) struct Site {
    database: PathBuf,
    log: Log,
    /// Names students in the log.
    names: Arc<SubjectKey>,
    stream: StreamName,
    clock: SystemClock,
    permits: Semaphore,
    pub(crate) sessions: Sessions,
}

impl Site {
    /// Opens the log, makes the tables where they are missing, and lets the engine make its own.
    pub(crate) fn open(database: PathBuf, log: &Path) -> anyhow::Result<Self> {
        let key = log.with_extension("key");
        let text = fs::read_to_string(&key)
            .map(Zeroizing::new)
            .with_context(|| {
                let (log, key) = (log.display(), key.display());
                format!("cannot read the root key {key}; make the log with: probity init {log}")
            })?;
        let root = RootKey::from_text(&text).context("the root key is damaged")?;
        drop(Sqlite::open(&database)?);
        let site = Self {
            database,
            log: Log::open(log, &root, Options::default())?,
            names: Arc::new(SubjectKey::of_log(root.to_text().as_bytes())),
            stream: StreamName::new("default")?,
            clock: SystemClock::new(),
            permits: Semaphore::new(REQUESTS_MAX),
            sessions: Sessions::default(),
        };
        site.context()?.prepare()?;
        Ok(site)
    }

    /// Publishes what was recorded.
    pub(crate) fn close(&self) -> anyhow::Result<()> {
        Ok(self.log.close()?)
    }

    /// Runs `work` with a connection of its own, beside the threads that answer requests: it waits for the disk and,
    /// where a password is checked, for the processor.
    pub(crate) async fn at<T, W>(self: &Arc<Self>, work: W) -> Result<T, Problem>
    where
        T: Send + 'static,
        W: FnOnce(&mut RequestContext) -> Result<T, Problem> + Send + 'static,
    {
        let _turn = self
            .permits
            .acquire()
            .await
            .map_err(|_closed| Problem::Stopping)?;
        let site = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&mut site.context()?))
            .await
            .map_err(|_cut_short| Problem::Stopping)?
    }

    /// The engine over a new connection, with the log to tell of what it does.
    fn context(&self) -> Result<RequestContext, Problem> {
        let mut context = RequestContext::new(Sqlite::existing(&self.database)?, self.clock.now())?;
        let mut appender = self.log.appender(&self.stream)?;
        context.engine.set_subject_key(Arc::clone(&self.names));
        context.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            appender.append_durable(entry)?;
            Ok(())
        }));
        Ok(context)
    }
}
