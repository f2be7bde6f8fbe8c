//! The configuration of the proxy: its places, its backend, its policy and its bounds.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use probity_policy::Policy;
use probity_store::Store;
use zeroize::Zeroizing;

use crate::password::Password;

/// A place where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of sockets there are")]
pub enum Listen {
    /// A TCP address; port 0 lets the system choose.
    Tcp(SocketAddr),
    /// A Unix socket. One of this user that nobody listens on any more is replaced, no other file is.
    Unix(PathBuf),
}

/// The answering side of the proxy: one path of code leads to either kind.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_enums, reason = "there is no third kind")]
pub enum Backend {
    /// A server.
    Upstream(Upstream),
    /// A store in this process.
    Store(Arc<Store>),
}

impl Backend {
    /// Returns its place, for errors.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Upstream(upstream) => upstream.place.to_string(),
            Self::Store(_) => "the embedded store".to_owned(),
        }
    }
}

/// The server behind the proxy.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Upstream {
    /// Its place.
    pub place: Place,
    /// The user that the proxy's own questions are asked as. Clients log in for themselves.
    pub user: Option<String>,
    /// Its password. All clones share one copy.
    pub password: Option<Arc<Password>>,
    /// The database to begin with.
    pub db: u64,
}

/// The place of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of sockets there are")]
pub enum Place {
    /// Host and port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The moment from which a reply may go to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Release {
    /// Once its entries are durable (strict durability).
    Durable,
    /// Once its entries are appended (group and relaxed durability).
    #[default]
    Appended,
}

/// The treatment of replies whose entries the log does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum OnLogFailure {
    /// The client gets an error in place of the reply, and its connection ends.
    #[default]
    Refuse,
    /// The reply goes out; how many entries are missing is recorded when the log recovers.
    Forward,
}

/// Everything `serve` needs but the log.
#[derive(Debug, Clone)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over the default"
)]
pub struct ProxyConfig {
    /// The places where clients connect.
    pub listen: Vec<Listen>,
    /// The backend.
    pub backend: Backend,
    /// The policy, which decides what is recorded and how.
    pub policy: Arc<Policy>,
    /// When a reply may go out.
    pub release: Release,
    /// The treatment of replies when the log fails.
    pub on_log_failure: OnLogFailure,
    /// Threads that serve clients.
    pub workers: usize,
    /// Most clients at once; more are refused with an error.
    pub clients_max: usize,
    /// Open files that are not for clients: those of the log, of the store, of threads and of the proxy's own connections. As many
    /// clients are served as the process may have files open beside them, two for each where a server stands behind.
    pub descriptors_reserved: usize,
    /// Silence of both sides after which a client is let go; none by default.
    pub idle_timeout: Option<Duration>,
    /// Longest time for connecting to the server and logging in.
    pub connect_timeout: Duration,
    /// Longest time that the server may take to answer the proxy's own questions, and the commands
    /// of a client that has gone.
    pub answer_timeout: Duration,
    /// Longest time, in all, that a client may leave replies unread while others wait behind them.
    pub reading_timeout: Duration,
    /// Longest time that a reply waits for room in the log.
    pub log_timeout: Duration,
    /// Longest time that a stop waits for replies under way.
    pub stop_timeout: Duration,
}

impl ProxyConfig {
    /// Default most clients at once.
    pub const CLIENTS_MAX: usize = 10_000;
    /// Default open files that are not for clients; the log has up to [`probity_log::Options::open_files_max`] of them.
    pub const DESCRIPTORS_RESERVED: usize = 256;
    /// Default time that connecting to the server may take.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Default time the server may take to answer the proxy's own questions.
    pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
    /// Default time that a client may leave replies unread while others wait behind them.
    pub const READING_TIMEOUT: Duration = Duration::from_mins(1);
    /// Default time a reply waits for room in the log.
    pub const LOG_TIMEOUT: Duration = Duration::from_secs(10);
    /// Default time that stopping waits for replies.
    pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);

    /// A proxy at `listen` before `backend`, everything else by default.
    pub fn new(listen: Listen, backend: Backend) -> Self {
        Self {
            listen: vec![listen],
            backend,
            policy: Arc::new(Policy::builtin()),
            release: Release::default(),
            on_log_failure: OnLogFailure::default(),
            workers: 2,
            clients_max: Self::CLIENTS_MAX,
            descriptors_reserved: Self::DESCRIPTORS_RESERVED,
            idle_timeout: None,
            connect_timeout: Self::CONNECT_TIMEOUT,
            answer_timeout: Self::ANSWER_TIMEOUT,
            reading_timeout: Self::READING_TIMEOUT,
            log_timeout: Self::LOG_TIMEOUT,
            stop_timeout: Self::STOP_TIMEOUT,
        }
    }
}

/// A text that is no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the upstream is refused: {reason}; {remedy}")]
#[non_exhaustive]
pub struct UpstreamError {
    /// The problem, in one clause.
    pub reason: &'static str,
    /// The remedy, in one clause.
    pub remedy: &'static str,
}

impl Upstream {
    /// Reads `redis://[user[:password]@]host[:port][/db]`, `redis+unix://[user:password@]/path[?db=N]` or `unix:/path`.
    ///
    /// # Errors
    /// What is wrong and what to write; the text is never repeated because it may hold a password.
    pub fn parse(url: &str) -> Result<Self, UpstreamError> {
        let error = |reason, remedy| Err(UpstreamError { reason, remedy });
        if url.starts_with("rediss://") {
            return error(
                "TLS (rediss://) is not supported",
                "use redis:// over a private network",
            );
        }
        let (rest, unix) = if let Some(rest) = url.strip_prefix("redis://") {
            (rest, false)
        } else if let Some(rest) = url.strip_prefix("redis+unix://") {
            (rest, true)
        } else if let Some(rest) = url.strip_prefix("unix:") {
            (rest.strip_prefix("//").unwrap_or(rest), true)
        } else {
            return error(
                "its scheme is not known",
                "write redis://HOST:PORT or unix:/PATH",
            );
        };
        let (login, rest) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (user, password) = match login.map(|login| login.split_once(':')) {
            None => (None, None),
            Some(None) => (login, None),
            Some(Some(("", password))) => (None, Some(password)),
            Some(Some((user, password))) => (Some(user), Some(password)),
        };
        let user = user.map(|user| String::from_utf8_lossy(&decoded(user)).into_owned());
        let password = password.map(|password| Arc::new(Password::new(decoded(password))));
        let (place, db) = if unix {
            unix_place(rest)?
        } else {
            tcp_place(rest)?
        };
        Ok(Self {
            place,
            user,
            password,
            db,
        })
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("place", &self.place)
            .field("user", &self.user)
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

fn unix_place(rest: &str) -> Result<(Place, u64), UpstreamError> {
    let (path, db) = rest.split_once("?db=").unwrap_or((rest, "0"));
    if !path.starts_with('/') {
        let remedy = "write unix:/PATH";
        return Err(UpstreamError {
            reason: "the socket's path is not absolute",
            remedy,
        });
    }
    Ok((Place::Unix(path.into()), parse_db(db)?))
}

fn tcp_place(rest: &str) -> Result<(Place, u64), UpstreamError> {
    let (address, db) = rest.split_once('/').unwrap_or((rest, ""));
    let db = if db.is_empty() { 0 } else { parse_db(db)? };
    let wrong = UpstreamError {
        reason: "its port is no number",
        remedy: "write redis://HOST:PORT",
    };
    let bracketed = address
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => address
            .split_once(':')
            .map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let port = port
        .map_or(Ok(6379), str::parse)
        .map_err(|_not_a_number| wrong)?;
    if host.is_empty() {
        let remedy = "write redis://HOST:PORT";
        return Err(UpstreamError {
            reason: "it names no host",
            remedy,
        });
    }
    Ok((Place::Tcp(host.to_owned(), port), db))
}

fn parse_db(text: &str) -> Result<u64, UpstreamError> {
    let remedy = "write a number like 0";
    text.parse().map_err(|_not_a_number| UpstreamError {
        reason: "its database is no number",
        remedy,
    })
}

/// Undoes `%XX`.
fn decoded(text: &str) -> Zeroizing<Vec<u8>> {
    // Its content does not move in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'%').then(|| tail.get(..2)).flatten();
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let Some(byte) = hex {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_who_and_which_database() {
        let upstream = Upstream::parse("redis://al:p%40ss@[::1]:7000/3").unwrap();
        assert_eq!(upstream.place, Place::Tcp("::1".into(), 7000));
        let password = upstream.password.as_ref().map(|it| it.expose());
        assert_eq!(
            (upstream.user.as_deref(), password),
            (Some("al"), Some(&b"p@ss"[..]))
        );
        assert_eq!(upstream.db, 3);
        assert!(!format!("{upstream:?}").contains("p@ss"));
        let upstream = Upstream::parse("redis+unix:///run/redis.sock?db=2").unwrap();
        assert_eq!(
            (upstream.place, upstream.db),
            (Place::Unix("/run/redis.sock".into()), 2)
        );
        let upstream = Upstream::parse("redis://al@h").unwrap();
        assert_eq!(upstream.user.as_deref(), Some("al"));
        assert!(upstream.password.is_none());
        assert_eq!(
            Upstream::parse("redis://h").unwrap().place,
            Place::Tcp("h".into(), 6379)
        );
        for bad in [
            "rediss://h",
            "http://h",
            "redis://",
            "redis://h:x",
            "redis://h/x",
            "unix:rel",
        ] {
            assert!(Upstream::parse(bad).is_err(), "{bad}");
        }
    }
}
