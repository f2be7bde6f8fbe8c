//! Connections to the server behind: one for each client, and one beside them for questions.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::embedded::StoreSocket;
use crate::audit::put_name;
use crate::command::{Access, KeyUse, Table};
use crate::config::{Backend, Place, ProxyConfig, Upstream};
use crate::resp::{Arguments, Frame, FrameReader, Limits, put_command};

/// A socket of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite {}

impl<S: AsyncRead + AsyncWrite> Socket for S {}

/// A socket of either kind, owned.
pub(super) type BoxSocket = Pin<Box<dyn Socket>>;

/// Silence after which a peer is asked for a sign of life, and after how much more it counts as gone.
const KEEP_ALIVE_IDLE: Duration = Duration::from_mins(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(100);
const KEEP_ALIVE_PROBES: u32 = 3;

/// A connection to what answers the commands, logged in, within the connect timeout.
pub(super) async fn connect(config: &ProxyConfig) -> io::Result<BoxSocket> {
    match &config.backend {
        Backend::Upstream(upstream) => {
            in_time(
                config.connect_timeout,
                "not connected and logged in",
                connect_upstream(upstream),
            )
            .await
        }
        Backend::Store(store) => Ok(Box::pin(StoreSocket::new(Arc::clone(store)))),
    }
}

/// What `work` gives, unless that takes longer than `timeout`.
async fn in_time<T>(
    timeout: Duration,
    what: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match tokio::time::timeout(timeout, work).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => {
            let text = format!("{what} within {} ms", timeout.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

/// Lets the system notice a peer that has gone without a word.
pub(super) fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEP_ALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(socket, KEEP_ALIVE_PROBES)?)
}

/// Connects and logs in as the upstream's configuration says.
async fn connect_upstream(upstream: &Upstream) -> io::Result<BoxSocket> {
    let mut socket: BoxSocket = match &upstream.place {
        Place::Tcp(host, port) => {
            let socket = TcpStream::connect((host.as_str(), *port)).await?;
            socket.set_nodelay(true)?;
            keep_alive(&socket)?;
            Box::pin(socket)
        }
        Place::Unix(path) => Box::pin(UnixStream::connect(path).await?),
    };
    let mut reader = FrameReader::new(Limits::SERVER);
    if let Some(password) = &upstream.password {
        let password = password.as_bytes();
        let login = match &upstream.user {
            Some(user) => vec![&b"AUTH"[..], user.as_bytes(), password],
            None => vec![&b"AUTH"[..], password],
        };
        expect_ok(ask(&mut socket, &mut reader, &login).await?)?;
    }
    if upstream.db != 0 {
        let db = upstream.db.to_string();
        expect_ok(ask(&mut socket, &mut reader, &[b"SELECT", db.as_bytes()]).await?)?;
    }
    Ok(socket)
}

fn expect_ok(reply: Frame) -> io::Result<()> {
    match reply {
        Frame::Error(text) => Err(refused(&text)),
        _ => Ok(()),
    }
}

/// What the server said, fit for one line.
fn refused(text: &[u8]) -> io::Error {
    let mut said = String::new();
    put_name(&mut said, text);
    io::Error::other(format!("it says: {said}"))
}

async fn ask(
    socket: &mut BoxSocket,
    reader: &mut FrameReader,
    command: &[&[u8]],
) -> io::Result<Frame> {
    let mut bytes = Vec::new();
    put_command(&mut bytes, command);
    socket.write_all(&bytes).await?;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = socket.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let arrived = buffer.get(..count).unwrap_or_default();
        if let (_, Some(frame)) = reader.read(arrived).map_err(io::Error::other)? {
            return Ok(frame);
        }
    }
}

/// The server's command table; the built-in copy where it does not tell.
pub(super) async fn fetch_table(config: &ProxyConfig) -> io::Result<Table> {
    let mut socket = connect(config).await?;
    let mut reader = FrameReader::new(Limits::SERVER);
    let asking = ask(&mut socket, &mut reader, &[b"COMMAND"]);
    let reply = in_time(config.answer_timeout, "no answer to COMMAND", asking).await?;
    match reply {
        Frame::Error(text) if is_unready(&text) => Err(refused(&text)),
        Frame::Error(_) => Ok(Table::builtin()),
        reply => Table::from_reply(&reply).map_err(io::Error::other),
    }
}

/// Whether a server says that it answers nobody now, or nobody without a login.
fn is_unready(error: &[u8]) -> bool {
    [
        &b"NOAUTH"[..],
        b"LOADING",
        b"MASTERDOWN",
        b"DENIED",
        b"ERR max number of clients",
    ]
    .iter()
    .any(|word| error.starts_with(word))
}

/// The connection beside the clients' connections, shared by the clients of one worker.
pub(super) struct Side {
    config: ProxyConfig,
    table: RefCell<Arc<Table>>,
    socket: tokio::sync::Mutex<Option<(BoxSocket, FrameReader)>>,
}

impl Side {
    pub(super) fn new(config: &ProxyConfig, table: Arc<Table>) -> Rc<Self> {
        Rc::new(Self {
            config: config.clone(),
            table: RefCell::new(table),
            socket: tokio::sync::Mutex::new(None),
        })
    }

    /// The table as it is known now.
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.borrow())
    }

    /// Asks about a command that the table does not have.
    pub(super) async fn learn(&self, name: Vec<u8>) -> io::Result<()> {
        let reply = self.ask(&[b"COMMAND", b"INFO", &name]).await?;
        let learned = Table::from_reply(&reply).unwrap_or_default();
        if learned.iter().next().is_some() {
            let mut table = self.table.borrow_mut();
            Arc::make_mut(&mut table).merge(learned);
        }
        Ok(())
    }

    /// Asks which of `arguments` are keys.
    pub(super) async fn keys(&self, arguments: Vec<Vec<u8>>) -> io::Result<Vec<KeyUse>> {
        let mut command: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYSANDFLAGS"];
        command.extend(arguments.iter().map(Vec::as_slice));
        let reply = self.ask(&command).await?;
        let mut keys: Vec<KeyUse> = Vec::new();
        for pair in reply.elements().unwrap_or_default() {
            let Some([key, flags]) = pair.elements() else {
                continue;
            };
            let words = flags.elements().unwrap_or_default().iter();
            let words = words.filter_map(|word| std::str::from_utf8(word.text()?).ok());
            let access = Access::from_words(words).logical();
            let key = key.text().unwrap_or_default();
            let after = keys.last().map_or(1, |last| last.argument + 1);
            let place = |from: usize| {
                arguments
                    .iter()
                    .skip(from)
                    .position(|word| word == key)
                    .map(|at| at + from)
            };
            if let Some(argument) = place(after).or_else(|| place(1)) {
                keys.push(KeyUse { argument, access });
            }
        }
        Ok(keys)
    }

    async fn ask(&self, command: &[&[u8]]) -> io::Result<Frame> {
        let asking = async {
            let mut place = self.socket.lock().await;
            // A connection that failed once, or is given up, is not used again.
            let (mut socket, mut reader) = match place.take() {
                Some(open) => open,
                None => (
                    connect(&self.config).await?,
                    FrameReader::new(Limits::SERVER),
                ),
            };
            let reply = ask(&mut socket, &mut reader, command).await?;
            *place = Some((socket, reader));
            Ok(reply)
        };
        in_time(self.config.answer_timeout, "no answer", asking).await
    }
}

/// The arguments as kept, for a question.
pub(super) fn owned(arguments: &Arguments) -> Vec<Vec<u8>> {
    (0..arguments.len())
        .map(|index| arguments.text(index).to_vec())
        .collect()
}
