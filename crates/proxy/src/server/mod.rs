//! Accepting clients, spreading them over workers, stopping without losing a reply.

mod append;
mod clock;
mod connection;
mod embedded;
mod inbox;
mod outbox;
mod patience;
mod places;
mod side;
mod support;
mod upstream;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::Instant;

use crate::command::Table;
use crate::config::ProxyConfig;
use crate::sink::{EntrySink, SinkError, SinkSource};
pub(crate) use clock::now;
use connection::{Connection, READ_BYTES, Shared};
use places::{bind, clients_max};
use side::Side;
pub use support::Support;
use support::examine;
use upstream::{BoxSocket, connect, keep_alive};

/// Reason why the proxy does not start or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// A listening place could not be had.
    #[error("cannot listen on {place}; choose another or stop what uses it")]
    Listen {
        /// The place.
        place: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server behind does not answer, or not in time.
    #[error("cannot use the server at {place}; check its address, user and password")]
    Upstream {
        /// The place.
        place: String,
        /// The server's reply, or the system's error.
        #[source]
        source: io::Error,
    },
    /// The process may not have enough files open for a single client.
    #[error(
        "this process may have {limit} files open, and {reserved} are needed beside the clients; raise the limit (LimitNOFILE, ulimit -n)"
    )]
    Descriptors {
        /// Most files that it may have open.
        limit: usize,
        /// The number of files that are not for clients.
        reserved: usize,
    },
    /// The log or the stream is not there.
    #[error("cannot open the log's stream")]
    Log(#[source] SinkError),
    /// A thread could not be started.
    #[error("cannot start a worker thread")]
    Thread(#[source] io::Error),
    /// A thread has ended by a fault of the program.
    #[error(
        "a thread of the proxy has ended by a fault of the program; start it again, and report what it printed"
    )]
    ThreadEnded,
}

/// A client handed to a worker.
enum Client {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A proxy that runs until it is stopped.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<SocketAddr>,
    support: Support,
    clients_max: usize,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    /// Kept so that workers outlive a log that drops its callback.
    _commits: Arc<watch::Sender<u64>>,
}

impl Proxy {
    /// Starts the proxy's threads; clients can connect when this returns.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn start<S: SinkSource>(config: &ProxyConfig, source: &Arc<S>) -> Result<Self, ProxyError> {
        let clients_max = clients_max(config)?;
        let runtime = runtime()?;
        let (table, support) =
            runtime
                .block_on(examine(config))
                .map_err(|source| ProxyError::Upstream {
                    place: config.backend.place(),
                    source,
                })?;
        let table = Arc::new(table);
        let (stop, stopped) = watch::channel(false);
        let commits = Arc::new(watch::channel(0_u64).0);
        let sender = Arc::clone(&commits);
        source.on_commit(Box::new(move || {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }));
        let clients = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        let mut workers = Vec::new();
        for number in 0..config.workers.max(1) {
            let (sender, receiver) = mpsc::channel(1024);
            workers.push(sender);
            let worker = Worker {
                config: config.clone(),
                table: Arc::clone(&table),
                support: support.clone(),
                source: Arc::clone(source),
                clients: Arc::clone(&clients),
                receiver,
                stopped: stopped.clone(),
                commits: commits.subscribe(),
            };
            threads.push(worker.start(number)?);
        }
        let listeners = runtime.block_on(bind(&config.listen))?;
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        let acceptor = Acceptor {
            workers,
            clients,
            clients_max,
            stopped,
        };
        let accepting = move || runtime.block_on(acceptor.run(listeners));
        let thread = std::thread::Builder::new().name("probity-accept".into());
        threads.push(thread.spawn(accepting).map_err(ProxyError::Thread)?);
        Ok(Self {
            addresses,
            support,
            clients_max,
            stop,
            threads,
            _commits: commits,
        })
    }

    /// The TCP addresses it listens on, with the ports the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the kind of the server, and the source of its command table.
    pub const fn support(&self) -> &Support {
        &self.support
    }

    /// Returns the most clients at once. They are fewer than configured if the process may not have
    /// that many files open.
    pub const fn clients_max(&self) -> usize {
        self.clients_max
    }

    /// Returns whether a thread has ended that nobody has stopped, with its share of the clients: by a fault of
    /// the program. The proxy is to be stopped then.
    pub fn has_failed(&self) -> bool {
        has_ended(&self.threads)
    }

    /// Stops accepting, lets replies under way finish within the stop timeout, lets the log take their entries within the log timeout, and
    /// ends the threads. What the log has not taken by then is counted as missing.
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            // A worker that panicked has nothing left to finish.
            let _panicked = thread.join();
        }
    }
}

/// Runs the proxy until `shutdown` returns, then stops it and flushes the log.
///
/// # Errors
/// See [`ProxyError`].
pub fn serve<S: SinkSource>(
    config: &ProxyConfig,
    source: &Arc<S>,
    shutdown: impl FnOnce(&Proxy),
) -> Result<(), ProxyError> {
    let proxy = Proxy::start(config, source)?;
    shutdown(&proxy);
    let has_failed = proxy.has_failed();
    proxy.stop();
    source.flush().map_err(ProxyError::Log)?;
    if has_failed {
        return Err(ProxyError::ThreadEnded);
    }
    Ok(())
}

fn has_ended(threads: &[JoinHandle<()>]) -> bool {
    threads.iter().any(JoinHandle::is_finished)
}

/// Threads that look up the names of servers at once, for each worker: each has files open meanwhile.
const LOOKUPS_MAX: usize = 4;

fn runtime() -> Result<Runtime, ProxyError> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(LOOKUPS_MAX)
        .build()
        .map_err(ProxyError::Thread)
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    async fn accept(&self) -> io::Result<Client> {
        match self {
            Self::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                socket.set_nodelay(true)?;
                keep_alive(&socket)?;
                Ok(Client::Tcp(socket.into_std()?))
            }
            Self::Unix(listener) => Ok(Client::Unix(listener.accept().await?.0.into_std()?)),
        }
    }
}

/// The pause after a failed attempt to accept a client, which most likely found no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

struct Acceptor {
    workers: Vec<mpsc::Sender<Client>>,
    clients: Arc<AtomicUsize>,
    clients_max: usize,
    stopped: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run(self, listeners: Vec<Listener>) {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = self.accept_all(&listeners) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    }

    async fn accept_all(&self, listeners: &[Listener]) {
        let mut next: usize = 0;
        loop {
            let accepted = accept_any(listeners).await;
            let Ok(client) = accepted else {
                // Some may be given back meanwhile.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if self.clients.fetch_add(1, Ordering::Relaxed) >= self.clients_max {
                self.clients.fetch_sub(1, Ordering::Relaxed);
                refuse(client, "-ERR max number of clients reached\r\n").await;
                continue;
            }
            next = (next + 1) % self.workers.len().max(1);
            if let Some(worker) = self.workers.get(next)
                && let Err(mpsc::error::SendError(client)) = worker.send(client).await
            {
                self.clients.fetch_sub(1, Ordering::Relaxed);
                refuse(client, "-ERR probity: the proxy ends\r\n").await;
            }
        }
    }
}

async fn accept_any(listeners: &[Listener]) -> io::Result<Client> {
    let mut accepting: Vec<_> = listeners
        .iter()
        .map(|listener| Box::pin(listener.accept()))
        .collect();
    std::future::poll_fn(|context| {
        for accept in &mut accepting {
            if let std::task::Poll::Ready(client) = accept.as_mut().poll(context) {
                return std::task::Poll::Ready(client);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

async fn refuse(client: Client, text: &str) {
    if let Ok(mut socket) = client.into_socket() {
        // The client may be gone already.
        let _best_effort = socket.write_all(text.as_bytes()).await;
    }
}

impl Client {
    fn into_socket(self) -> io::Result<BoxSocket> {
        Ok(match self {
            Self::Tcp(socket) => Box::pin(TcpStream::from_std(socket)?),
            Self::Unix(socket) => Box::pin(UnixStream::from_std(socket)?),
        })
    }
}

struct Worker<S: SinkSource> {
    config: ProxyConfig,
    table: Arc<Table>,
    support: Support,
    source: Arc<S>,
    clients: Arc<AtomicUsize>,
    receiver: mpsc::Receiver<Client>,
    stopped: watch::Receiver<bool>,
    commits: watch::Receiver<u64>,
}

impl<S: SinkSource> Worker<S> {
    fn start(self, number: usize) -> Result<JoinHandle<()>, ProxyError> {
        let runtime = runtime()?;
        let (opened, outcome) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("probity-proxy-{number}"));
        let run = move || {
            let sink = match self.source.open() {
                Ok(sink) => sink,
                Err(error) => {
                    let _starter_waits = opened.send(Err(error));
                    return;
                }
            };
            let _starter_waits = opened.send(Ok(()));
            LocalSet::new().block_on(&runtime, self.run(sink));
            // The resolver of names takes its time, for clients that are gone.
            runtime.shutdown_background();
        };
        let thread = thread.spawn(run).map_err(ProxyError::Thread)?;
        match outcome.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => Err(ProxyError::Log(error)),
            Err(_panicked) => Err(ProxyError::ThreadEnded),
        }
    }

    async fn run(mut self, sink: S::Sink) {
        let shared = Rc::new(Shared {
            side: Side::new(&self.config, Arc::clone(&self.table), &self.support),
            config: self.config.clone(),
            sink: RefCell::new(sink),
            waiting: RefCell::new(Vec::new()),
            stopping: Cell::new(false),
            stop: tokio::sync::Notify::new(),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
        });
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                Some(client) = self.receiver.recv() => {
                    let place = TakenPlace(Arc::clone(&self.clients));
                    tasks.spawn_local(client_task(Rc::clone(&shared), client, place));
                }
                changed = self.commits.changed() => {
                    if changed.is_err() { break; }
                    for waker in shared.waiting.take() { waker.wake(); }
                }
                Some(_ended) = tasks.join_next() => {}
                _ = self.stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        shared.stopping.set(true);
        shared.stop.notify_waiters();
        finish(&shared, &mut tasks, shared.config.stop_timeout).await;
        // Commands without a reply by now are recorded as lost.
        shared.stop.notify_waiters();
        finish(&shared, &mut tasks, shared.config.log_timeout).await;
    }
}

/// The interval at which connections look again while the worker stops.
const STOP_POLL: Duration = Duration::from_millis(5);

/// Waits until every connection has ended, but no longer than `timeout`.
async fn finish<K: EntrySink>(shared: &Shared<K>, tasks: &mut JoinSet<()>, timeout: Duration) {
    let end = Instant::now() + timeout;
    while !tasks.is_empty() && Instant::now() < end {
        // Connections look again several times: a stop is rare and short.
        for waker in shared.waiting.take() {
            waker.wake();
        }
        tokio::select! {
            _ = tasks.join_next() => {}
            () = tokio::time::sleep(STOP_POLL) => {}
        }
    }
}

/// The place of one client among those that the proxy takes; given back however its task ends.
struct TakenPlace(Arc<AtomicUsize>);

impl Drop for TakenPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn client_task<K: EntrySink>(shared: Rc<Shared<K>>, client: Client, _place: TakenPlace) {
    if let Ok(mut socket) = client.into_socket() {
        let connecting = async {
            let server = connect(&shared.config).await?;
            shared.side.meet().await?;
            Ok::<_, io::Error>(server)
        };
        let connected = tokio::select! {
            connected = connecting => connected,
            () = shared.stops() => Err(io::Error::other("the proxy ends")),
        };
        match connected {
            Ok(server) => Connection::new(shared, socket, server).run().await,
            Err(error) => {
                let text = format!("-ERR probity: no connection to the server: {error}\r\n");
                // The client may be gone already.
                let _best_effort = socket.write_all(text.as_bytes()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that had panicked was noticed by nobody: its clients were gone, and so was each new one of its
    /// share, while the proxy served the others.
    #[test]
    fn a_thread_that_panicked_is_noticed() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waits = std::thread::spawn(move || {
            let _until_the_end = receiver.recv();
        });
        let mut threads = vec![waits];
        assert!(!has_ended(&threads));
        threads.push(std::thread::spawn(|| panic!("a fault of the program")));
        while !threads.last().is_some_and(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        assert!(has_ended(&threads));
        drop(sender);
    }
}
