//! The sockets: a limited number of connections, each with its own limits, and a shutdown that
//! finishes running requests.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use probity_disguise::SubjectKey;
use probity_format::note::SigningKey;
use probity_log::reader::Reader;
use probity_log::{Log, LogError};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::app_state::{AppState, router};
use crate::attempts::Attempts;
use crate::config::Config;
use crate::connections::Connections;
use crate::database_entry::{DatabaseEntry, PlaceError};
use crate::gate::Gate;
use crate::socket::Socket;

/// Threads that read and write sockets; databases have threads of their own.
const SOCKET_THREADS: usize = 2;
/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The age from which a connection takes no further request.
const CONNECTION_AGE: Duration = Duration::from_hours(1);
/// The longest time for a client to fetch its last answer.
const FAREWELL: Duration = Duration::from_secs(30);
/// The time without new connections after the system refused one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A database of the configuration cannot be used.
    #[error("the database {name} cannot be used")]
    DatabaseEntry {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: PlaceError,
    },
    /// The log has no such stream.
    #[error("the log takes no entries")]
    Log(#[source] LogError),
    /// The address is taken, or is not one of this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The system gives no threads.
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
}

/// A running server.
pub struct Server {
    runtime: Runtime,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    state: Arc<AppState>,
}

impl Server {
    /// Starts a server that answers requests as `config` says. Every operation is recorded in
    /// `log`, which `reader` reads, and receipts are signed with `signer`. Faults that an operator
    /// must know of go to `complain`, without personal data.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        config: Config,
        (log, reader, names): (Log, Reader, Arc<SubjectKey>),
        signer: Option<SigningKey>,
        complain: fn(&str),
    ) -> Result<Self, StartError> {
        for stream in config.streams() {
            log.appender(stream).map_err(StartError::Log)?;
        }
        let open = |(name, place): (&String, _)| match DatabaseEntry::open(place) {
            Ok(place) => Ok((name.clone(), place)),
            Err(source) => Err(StartError::DatabaseEntry {
                name: name.clone(),
                source,
            }),
        };
        let databases = config
            .databases
            .iter()
            .map(open)
            .collect::<Result<BTreeMap<String, DatabaseEntry>, StartError>>()?;
        warn_of_absent(&databases, complain);
        // Beside the requests at work, others open their connections.
        let opening = config.databases.values().map(|it| it.connections);
        let opening = opening.fold(0, usize::saturating_add);
        let runtime = Builder::new_multi_thread()
            .worker_threads(SOCKET_THREADS)
            .max_blocking_threads(config.limits.parallel.saturating_add(opening))
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let refused = |source| StartError::Listen {
            address: config.listen,
            source,
        };
        let listener = runtime.block_on(TcpListener::bind(config.listen));
        let listener = listener.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let state = Arc::new(AppState {
            log,
            reader,
            names,
            signer,
            databases,
            grants: config.grants,
            limits: config.limits,
            attempts: Attempts::new(config.limits.wrong_tokens),
            permits: Arc::new(Semaphore::new(config.limits.parallel)),
            complain,
        });
        let (stop, stopped) = watch::channel(false);
        let accepting = runtime.spawn(accept(listener, Arc::clone(&state), stopped));
        Ok(Self {
            runtime,
            address,
            stop,
            accepting,
            state,
        })
    }

    /// Returns the address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, finishes those that run, and ends.
    pub fn stop(self) {
        self.stop.send_replace(true);
        self.runtime.block_on(async {
            // The task ends by itself, and nobody could act upon a defect in it here.
            drop(self.accepting.await);
            // Work whose client has gone is finished too.
            let all = u32::try_from(self.state.limits.parallel).unwrap_or(u32::MAX);
            drop(self.state.permits.acquire_many(all).await);
        });
    }
}

/// Warns of databases in files that are not there: a slip would show with the first request only.
fn warn_of_absent(databases: &BTreeMap<String, DatabaseEntry>, complain: fn(&str)) {
    for (name, database) in databases {
        if let Some(error) = database.pool.absence() {
            complain(&format!(
                "warning: the database {name} cannot be opened, and requests for it fail until it can: {error}"
            ));
        }
    }
}

/// Accepts connections until the server stops, and waits for those that are open.
async fn accept(listener: TcpListener, state: Arc<AppState>, mut stopped: watch::Receiver<bool>) {
    let connections = Connections::new(state.limits.connections, state.limits.unauthenticated);
    let router = router(Arc::clone(&state));
    let mut open = JoinSet::new();
    let all = state.limits.all_connections();
    loop {
        let taken = tokio::select! {
            // More connections would take the files of the log.
            taken = listener.accept(), if open.len() < all => taken,
            _ended = open.join_next(), if open.len() >= all => continue,
            _ = stopped.changed() => break,
        };
        while open.try_join_next().is_some() {}
        match taken {
            Ok((socket, peer)) => {
                let gate = Arc::new(Gate {
                    state: Arc::clone(&state),
                    paths: TowerToHyperService::new(router.clone()),
                    connection: connections.enter(peer.ip()),
                });
                open.spawn(connection(socket, gate, stopped.clone()));
            }
            Err(_refused) => sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Answers the requests of one client until it leaves, is too slow or old, must make room for
/// others, or the server stops.
async fn connection(socket: TcpStream, gate: Arc<Gate>, mut stopped: watch::Receiver<bool>) {
    let limits = gate.state.limits;
    let answering = Arc::clone(&gate);
    let service = service_fn(move |request| {
        let gate = Arc::clone(&answering);
        async move { gate.answer(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_time())
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Socket::new(socket, limits.patience())),
            service,
        );
    let mut served = pin!(served);
    tokio::select! {
        // A client that breaks off is nobody's fault here.
        _gone = served.as_mut() => return,
        () = gate.connection.closed() => return,
        _ = stopped.changed() => {}
        () = sleep(CONNECTION_AGE) => {}
    }
    served.as_mut().graceful_shutdown();
    drop(timeout(FAREWELL, served).await);
}
