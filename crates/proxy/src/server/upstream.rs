//! Connections to the server behind: one for each client, and those for the proxy's own questions.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use probity_store::Store;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use zeroize::Zeroizing;

use super::embedded::StoreSocket;
use crate::audit::put_name;
use crate::config::{Backend, Place, ProxyConfig, Upstream};
use crate::resp::{Frame, FrameReader, Limits, put_command};

/// A socket of any kind.
pub(super) trait Socket: AsyncRead + AsyncWrite {
    /// Returns whether the peer has closed its end, even if there are bytes that are not read yet.
    fn has_hung_up(&self) -> bool;

    /// Notes that no client reads further answers, so that commands that were not begun need not
    /// be.
    fn forsake(self: Pin<&mut Self>) {}
}

impl Socket for TcpStream {
    fn has_hung_up(&self) -> bool {
        is_closed_by_peer(self)
    }
}

impl Socket for UnixStream {
    fn has_hung_up(&self) -> bool {
        is_closed_by_peer(self)
    }
}

fn is_closed_by_peer(socket: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    let answered = poll(&mut asked, Some(&Timespec::default()));
    let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    answered.is_ok() && asked.iter().any(|asked| asked.revents().intersects(closed))
}

/// A socket of either kind, owned.
pub(super) type BoxSocket = Pin<Box<dyn Socket>>;

/// Silence after which a peer is asked for a sign of life, and after how much more it counts as gone.
const KEEP_ALIVE_IDLE: Duration = Duration::from_mins(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(100);
const KEEP_ALIVE_PROBES: u32 = 3;

/// A client's connection to what answers the commands.
pub(super) struct Connected {
    pub(super) socket: BoxSocket,
    /// The database it is on.
    pub(super) db: u64,
    /// The database to choose once the client has logged in.
    pub(super) db_owed: Option<u64>,
    /// True if it lets nobody in without a login.
    pub(super) locked: bool,
    /// True if it knows users.
    pub(super) users: bool,
}

/// A connection for a client, within the connect timeout. Nobody is logged in on it: that is the client's
/// own business.
pub(super) async fn connect(config: &ProxyConfig) -> io::Result<Connected> {
    let upstream = match &config.backend {
        Backend::Upstream(upstream) => upstream,
        Backend::Store(store) => return Ok(Connected::to_store(store)),
    };
    let connecting = async {
        let mut socket = open(upstream).await?;
        let db = upstream.db;
        let reply = match db {
            0 => ping(&mut socket).await?,
            db => select(&mut socket, db).await?,
        };
        let locked = match reply {
            Frame::Error(text) if text.starts_with(b"NOAUTH") => true,
            Frame::Error(text) if db != 0 || is_farewell(&text) => return Err(refused(&text)),
            _ => false,
        };
        Ok(Connected {
            socket,
            db: if locked { 0 } else { db },
            db_owed: (locked && db != 0).then_some(db),
            locked,
            users: true,
        })
    };
    in_time(config.connect_timeout, "not connected", connecting).await
}

impl Connected {
    fn to_store(store: &Arc<Store>) -> Self {
        Self {
            socket: Box::pin(StoreSocket::new(Arc::clone(store))),
            db: 0,
            db_owed: None,
            locked: false,
            users: false,
        }
    }
}

/// A connection for the proxy's own questions, logged in as the configuration says.
pub(super) async fn connect_own(config: &ProxyConfig) -> io::Result<BoxSocket> {
    match &config.backend {
        Backend::Upstream(upstream) => {
            let what = "not connected and logged in";
            in_time(config.connect_timeout, what, log_in(upstream)).await
        }
        Backend::Store(store) => Ok(Connected::to_store(store).socket),
    }
}

/// Returns the result of `work`, unless that takes longer than `timeout`.
pub(super) async fn in_time<T>(
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

async fn open(upstream: &Upstream) -> io::Result<BoxSocket> {
    Ok(match &upstream.place {
        Place::Tcp(host, port) => {
            let socket = TcpStream::connect((host.as_str(), *port)).await?;
            socket.set_nodelay(true)?;
            keep_alive(&socket)?;
            Box::pin(socket)
        }
        Place::Unix(path) => Box::pin(UnixStream::connect(path).await?),
    })
}

async fn select(socket: &mut BoxSocket, db: u64) -> io::Result<Frame> {
    let mut reader = FrameReader::new(Limits::SERVER);
    let db = db.to_string();
    ask(socket, &mut reader, &[b"SELECT", db.as_bytes()]).await
}

/// Asks for a sign of life, which a server gives nobody whom it does not let in.
async fn ping(socket: &mut BoxSocket) -> io::Result<Frame> {
    let mut reader = FrameReader::new(Limits::SERVER);
    ask(socket, &mut reader, &[b"PING"]).await
}

/// Returns whether a server says so before it closes a connection that it does not take.
fn is_farewell(error: &[u8]) -> bool {
    error.starts_with(b"ERR max number of clients") || error.starts_with(b"DENIED")
}

async fn log_in(upstream: &Upstream) -> io::Result<BoxSocket> {
    let mut socket = open(upstream).await?;
    if let Some(password) = &upstream.password {
        let password = password.expose();
        let login = match &upstream.user {
            Some(user) => vec![&b"AUTH"[..], user.as_bytes(), password],
            None => vec![&b"AUTH"[..], password],
        };
        let mut reader = FrameReader::new(Limits::SERVER);
        if let Frame::Error(text) = ask(&mut socket, &mut reader, &login).await? {
            return Err(refused_login(&text));
        }
    }
    if upstream.db != 0 {
        expect_ok(select(&mut socket, upstream.db).await?)?;
    }
    Ok(socket)
}

fn expect_ok(reply: Frame) -> io::Result<()> {
    match reply {
        Frame::Error(text) => Err(refused(&text)),
        _ => Ok(()),
    }
}

/// Why the server refused a login. Its words may repeat the password, as those about an unknown command do; these do not.
fn refused_login(text: &[u8]) -> io::Error {
    let codes = [
        &b"WRONGPASS "[..],
        b"NOPERM ",
        b"NOAUTH ",
        b"LOADING ",
        b"DENIED ",
    ];
    if codes.iter().any(|code| text.starts_with(code)) {
        return refused(text);
    }
    let unasked = [
        &b"ERR AUTH <password> called without any password"[..],
        b"ERR Client sent AUTH, but no password is set",
    ];
    if unasked.iter().any(|start| text.starts_with(start)) {
        return io::Error::other("a password was given, and the server has none");
    }
    io::Error::other("it refuses the login with an error that may repeat the password")
}

/// Returns an error with the server's text, made fit for one line.
pub(super) fn refused(text: &[u8]) -> io::Error {
    let mut said = String::new();
    put_name(&mut said, text);
    io::Error::other(format!("it says: {said}"))
}

/// Most bytes around a word of a command.
const COMMAND_WORD_BYTES: usize = 32;

/// Most bytes of an answer as it is sent, of which an element takes more in memory: as many as may be kept of a command, which
/// the names of its keys are taken from.
const ANSWER_BYTES_MAX: usize = Limits::COMMAND_BYTES_KEPT_MAX;

/// A connection for the proxy's own questions.
pub(super) struct Line {
    socket: BoxSocket,
    reader: FrameReader,
}

impl Line {
    pub(super) fn new(socket: BoxSocket) -> Self {
        Self {
            socket,
            reader: FrameReader::new(Limits::SERVER),
        }
    }

    /// Sends a command and gives its reply.
    pub(super) async fn ask(&mut self, command: &[&[u8]]) -> io::Result<Frame> {
        ask(&mut self.socket, &mut self.reader, command).await
    }
}

/// Sends a command and gives its reply.
async fn ask(
    socket: &mut BoxSocket,
    reader: &mut FrameReader,
    command: &[&[u8]],
) -> io::Result<Frame> {
    // The buffer may hold a password, and does not move in memory.
    let room = |words: &[u8]| words.len() + COMMAND_WORD_BYTES;
    let room = COMMAND_WORD_BYTES + command.iter().map(|words| room(words)).sum::<usize>();
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    put_command(&mut bytes, command);
    socket.write_all(&bytes).await?;
    let mut buffer = vec![0; 16 << 10];
    let mut left = ANSWER_BYTES_MAX;
    loop {
        let count = socket.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some(rest) = left.checked_sub(count) else {
            let text = format!("it answers with more than {ANSWER_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        left = rest;
        let arrived = buffer.get(..count).unwrap_or_default();
        if let (_, Some(frame)) = reader.read(arrived).map_err(io::Error::other)? {
            return Ok(frame);
        }
    }
}
