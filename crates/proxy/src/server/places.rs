//! The places where clients connect, and the number of clients that fit beside all other open
//! files.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Resource, geteuid, getrlimit};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{Listener, ProxyError};
use crate::config::{Backend, Listen, ProxyConfig};

/// Returns the most clients at once: the configured number, unless the process may have fewer files
/// open. Files of the log are not for clients.
pub(super) fn clients_max(config: &ProxyConfig) -> Result<usize, ProxyError> {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return Ok(config.clients_max);
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let left = limit.saturating_sub(config.descriptors_reserved);
    let fitting = left / descriptors_per_client(&config.backend);
    if fitting == 0 {
        return Err(ProxyError::Descriptors {
            limit,
            reserved: config.descriptors_reserved,
        });
    }
    Ok(config.clients_max.min(fitting))
}

/// A client of a server has a connection there too.
const fn descriptors_per_client(backend: &Backend) -> usize {
    match backend {
        Backend::Upstream(_) => 2,
        Backend::Store(_) => 1,
    }
}

pub(super) async fn bind(places: &[Listen]) -> Result<Vec<Listener>, ProxyError> {
    let mut bound = Vec::with_capacity(places.len());
    for place in places {
        let listener = bind_one(place).await;
        bound.push(listener.map_err(|source| ProxyError::Listen {
            place: place.to_string(),
            source,
        })?);
    }
    Ok(bound)
}

async fn bind_one(place: &Listen) -> io::Result<Listener> {
    match place {
        Listen::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener).map(Listener::Tcp)
        }
        Listen::Unix(path) => {
            let listener = bind_unix(path).await?;
            tokio::net::UnixListener::from_std(listener).map(Listener::Unix)
        }
    }
}

/// Ending of the file beside a socket that is locked while a process looks for the socket and binds
/// it.
const LOCK: &str = ".lock";
/// Longest time that another process may hold the lock, which only binds meanwhile.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Opens the file of a socket's lock. Only a plain file is opened: a pipe or a device might block,
/// or act.
fn open_lock(path: &Path) -> io::Result<File> {
    let refuse = || {
        let text = format!("{} is no plain file; remove it", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(refuse());
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(refuse())
    }
}

/// Waits, not for ever, until nobody else looks for the socket at `path`. The lock ends with what this gives.
async fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(LOCK);
    let name = PathBuf::from(name);
    let file = open_lock(&name)?;
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(TryLockError::WouldBlock) => {
                let (name, seconds) = (name.display(), LOCK_TIMEOUT.as_secs());
                let text = format!(
                    "{name} is locked by another process, for {seconds} s already; end that process"
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
    }
}

/// Listens on a socket in the file system. The one that a process left that has ended is replaced; no other file is.
async fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    // A file of its own: the store may hold the lock of the folder, and so may anybody who reads it. Until it listens, a
    // socket looks abandoned to a process that starts at the same time.
    let _lock = lock(path).await?;
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Returns whether a socket of this user lies there on which nobody listens.
fn is_abandoned(path: &Path) -> bool {
    let is_ours = fs::symlink_metadata(path)
        .is_ok_and(|found| found.file_type().is_socket() && found.uid() == geteuid().as_raw());
    let refused = || {
        let connected = UnixStream::connect(path);
        connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    is_ours && refused()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Two processes that started at once each found the socket that another had left, and the second removed the one on which the first
    /// had begun to listen. One of them listens, on the socket that is there, and the other is told that the place is taken.
    #[test]
    fn of_those_that_start_at_once_one_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probity.sock");
        for _ in 0..300 {
            drop(fs::remove_file(&path));
            drop(UnixListener::bind(&path).unwrap());
            let together = Barrier::new(4);
            let listeners: Vec<UnixListener> = thread::scope(|scope| {
                let start = || {
                    together.wait();
                    super::super::runtime().unwrap().block_on(bind_unix(&path))
                };
                let started: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                let ended = started.into_iter().map(|it| it.join().unwrap());
                ended.filter_map(Result::ok).collect()
            });
            assert_eq!(listeners.len(), 1);
            UnixStream::connect(&path).unwrap();
        }
    }
}
