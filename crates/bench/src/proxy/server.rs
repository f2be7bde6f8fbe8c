//! The server that the proxy is compared with: a given one, or one started for the benchmark.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use probity_proxy::Upstream;
use probity_proxy::config::Place;

use crate::command::BenchError;

/// Number of connection attempts to a new server, and the pause between them.
const ATTEMPTS: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// A server that can be connected to.
pub(super) struct Server {
    pub(super) upstream: Upstream,
    pub(super) address: SocketAddr,
    /// Process and folder of a server that was started here.
    started: Option<(Child, tempfile::TempDir)>,
}

impl Server {
    /// Returns the server at `url`, or starts one.
    pub(super) fn start(url: Option<&str>) -> Result<Self, BenchError> {
        match url {
            Some(url) => Self::named(url),
            None => Self::new(),
        }
    }

    fn named(url: &str) -> Result<Self, BenchError> {
        let failed =
            |reason: &str| BenchError::Failed(format!("the upstream is refused: {reason}"));
        let upstream = Upstream::parse(url).map_err(|error| failed(error.reason))?;
        if upstream.password.is_some() || upstream.db != 0 {
            return Err(failed(
                "the clients of the benchmark do not log in or select",
            ));
        }
        let Place::Tcp(host, port) = &upstream.place else {
            return Err(failed("the clients of the benchmark speak TCP"));
        };
        let address = (host.as_str(), *port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| failed("its host has no address"))?;
        Ok(Self {
            upstream,
            address,
            started: None,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a server that starts cannot be waited for otherwise"
    )]
    fn new() -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let folder = tempfile::tempdir()?;
        let port = free.port().to_string();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                BenchError::Failed(format!(
                    "redis-server does not start ({error}); install it, or name a server with --upstream"
                ))
            })?;
        let server = Self {
            upstream: Upstream::parse(&format!("redis://{free}"))
                .map_err(|error| BenchError::Failed(error.reason.to_owned()))?,
            address: free,
            started: Some((child, folder)),
        };
        for _ in 0..ATTEMPTS {
            if TcpStream::connect(free).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(PAUSE);
        }
        Err(BenchError::Failed("redis-server does not answer".into()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((child, _folder)) = &mut self.started {
            // The server may have exited by itself.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}
