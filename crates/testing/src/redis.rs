//! Servers of the Redis protocol, on a port or on a socket.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::listener::listens;
use crate::server::{Server, start};
use crate::{free_port, wait};

/// Servers that a proxy stands before; `./test` installs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "tests try all of them")]
pub enum Kind {
    /// `redis-server` of the system.
    Redis7,
    /// Redis 6.2, in the folder of servers.
    Redis6,
    /// Valkey, in the folder of servers.
    Valkey,
}

impl Kind {
    fn program(self) -> PathBuf {
        let name = match self {
            Self::Redis7 => return "redis-server".into(),
            Self::Redis6 => "redis-server-6.2",
            Self::Valkey => "valkey-server",
        };
        // In the target folder, which this test is in too.
        let test = std::env::current_exe().unwrap();
        let mut folders = test.ancestors().map(|folder| folder.join("servers"));
        let folder = folders.find(|folder| folder.is_dir());
        folder
            .unwrap_or_else(|| Path::new("servers").into())
            .join(name)
    }

    /// Arguments that allow DEBUG.
    pub const fn debug_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Redis6 => &[],
            Self::Redis7 | Self::Valkey => &["--enable-debug-command", "yes"],
        }
    }
}

/// A server on a free port; it and its folder end with the value.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    kind: Kind,
    port: u16,
    folder: tempfile::TempDir,
}

impl Redis {
    /// Starts a server with `extra` arguments.
    pub fn start(extra: &[&str]) -> Self {
        Self::start_of(Kind::Redis7, extra)
    }

    /// Starts a server of this kind.
    pub fn start_of(kind: Kind, extra: &[&str]) -> Self {
        Self::start_in(kind, extra, &[])
    }

    /// Starts a server with more in its environment, again on another port if the first was taken
    /// meanwhile.
    pub fn start_in(kind: Kind, extra: &[&str], environment: &[(&str, &str)]) -> Self {
        let started = (0..5).find_map(|_| Self::try_start(kind, extra, environment));
        started.expect("the server answers")
    }

    fn try_start(kind: Kind, extra: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
        let mut redis = Self {
            child: spawn(kind, (port, folder.path()), extra, environment),
            kind,
            port,
            folder,
        };
        redis.comes_up().then_some(redis)
    }

    /// Ends it and starts one of its kind on the same port, once nobody else has it.
    pub fn start_again(&mut self, extra: &[&str]) {
        let is_up = (0..50).any(|attempt| {
            self.kill();
            wait(20 * attempt);
            self.child = spawn(self.kind, (self.port, self.folder.path()), extra, &[]);
            self.comes_up()
        });
        assert!(is_up, "the server answers again");
    }

    /// Waits until it answers. Returns whether it does.
    fn comes_up(&mut self) -> bool {
        for _ in 0..500 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            // Another server may have the port, and would answer.
            if listens(self.child.id(), self.port) && self.answers() {
                return true;
            }
            wait(10);
        }
        false
    }

    fn answers(&self) -> bool {
        let Ok(mut socket) = TcpStream::connect(self.address()) else {
            return false;
        };
        socket.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 5];
        let is_read = socket.read_exact(&mut reply).is_ok();
        is_read && (&reply == b"+PONG" || &reply == b"-NOAU")
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The address in the form that a proxy takes.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Stops it where it is: neither dead nor alive until it goes on.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on after [`Redis::pause`].
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it without a chance to save anything.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn spawn(
    kind: Kind,
    (port, folder): (u16, &Path),
    extra: &[&str],
    environment: &[(&str, &str)],
) -> Child {
    Command::new(kind.program())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--dir"])
        .arg(folder)
        .args(extra)
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{kind:?} is not installed ({error}): run ./test debug"))
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// A Redis server that listens on a socket alone, and the socket.
pub fn on_socket() -> (Server, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let mut command = Command::new(Kind::Redis7.program());
    command
        .args(["--port", "0", "--save", "", "--unixsocket", "redis.sock"])
        .stdout(Stdio::null());
    let server = start(command, folder, "KILL", || {
        UnixStream::connect(&socket).is_ok()
    });
    (server, socket)
}
