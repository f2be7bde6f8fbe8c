//! A real Redis server on a free port, and a log that remembers.
#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail loudly"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use probity_format::{Claimed, Entry, Outcome};
use probity_proxy::{
    Backend, EntrySink, Listen, OnLogFailure, Proxy, ProxyConfig, SinkError, SinkSource, Upstream,
};

/// Servers that the proxy stands before; `./test` installs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Redis7,
    Redis6,
    Valkey,
}

impl Kind {
    fn program(self) -> PathBuf {
        let name = match self {
            Self::Redis7 => return "redis-server".into(),
            Self::Redis6 => "redis-server-6.2",
            Self::Valkey => "valkey-server",
        };
        // Beside what cargo builds, in the target folder.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        target.expect("a target folder").join("servers").join(name)
    }

    /// Arguments that allow DEBUG.
    pub const fn debug_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Redis6 => &[],
            Self::Redis7 | Self::Valkey => &["--enable-debug-command", "yes"],
        }
    }
}

pub struct Redis {
    child: Child,
    kind: Kind,
    pub port: u16,
    directory: tempfile::TempDir,
}

impl Redis {
    /// Starts a server, again on another port if the first was taken meanwhile.
    pub fn start(extra: &[&str]) -> Self {
        Self::start_of(Kind::Redis7, extra)
    }

    pub fn start_of(kind: Kind, extra: &[&str]) -> Self {
        Self::start_in(kind, extra, &[])
    }

    /// A server with more in its environment.
    pub fn start_in(kind: Kind, extra: &[&str], environment: &[(&str, &str)]) -> Self {
        let started = (0..5).find_map(|_| Self::try_start(kind, extra, environment));
        started.expect("the server answers")
    }

    fn try_start(kind: Kind, extra: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(kind, port, directory.path(), extra, environment);
        let mut redis = Self {
            child,
            kind,
            port,
            directory,
        };
        redis.answers().then_some(redis)
    }

    /// Ends the server and starts one of its kind on the same port, once nobody else has it.
    pub fn start_again(&mut self, extra: &[&str]) {
        let answers = (0..50).any(|attempt| {
            self.kill();
            wait(20 * attempt);
            let folder = self.directory.path();
            self.child = spawn(self.kind, self.port, folder, extra, &[]);
            self.answers()
        });
        assert!(answers, "the server answers again");
    }

    /// Waits until the server answers; whether it does.
    fn answers(&mut self) -> bool {
        for _ in 0..500 {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(mut socket) = TcpStream::connect(self.address()) {
                socket.write_all(b"PING\r\n").unwrap();
                let mut reply = [0; 5];
                if socket.read_exact(&mut reply).is_ok()
                    && (&reply == b"+PONG" || &reply == b"-NOAU")
                {
                    // Another server may have answered, which kept this one from the port.
                    wait(5);
                    return self.child.try_wait().unwrap().is_none();
                }
            }
            wait(10);
        }
        false
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn spawn(
    kind: Kind,
    port: u16,
    folder: &Path,
    extra: &[&str],
    environment: &[(&str, &str)],
) -> Child {
    let port = port.to_string();
    let own = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
    ];
    Command::new(kind.program())
        .args(own)
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

pub fn wait(milliseconds: u64) {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _elapsed = receiver.recv_timeout(Duration::from_millis(milliseconds));
}

/// An entry as remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub action: String,
    pub key: String,
    pub subjects: String,
    pub actor: String,
    pub controller: String,
    pub processor: String,
    pub purpose: String,
    pub basis: String,
    pub outcome: Outcome,
    pub payload: String,
    pub submitter: String,
    pub claimed: Claimed,
    pub policy: Option<[u8; 32]>,
    pub rule: String,
}

/// A log in memory that becomes durable when it is told to.
#[derive(Default)]
pub struct Recorder {
    pub seen: Mutex<Vec<Seen>>,
    pub durable: AtomicU64,
    pub manual: AtomicBool,
    pub full: AtomicBool,
    pub failed: AtomicBool,
    /// The missing entries that the proxy reports.
    pub missed: Mutex<Vec<(u64, OnLogFailure)>>,
    callback: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Recorder {
    pub fn commit(&self) {
        self.durable
            .store(self.seen.lock().unwrap().len() as u64, Ordering::SeqCst);
        if let Some(callback) = &*self.callback.lock().unwrap() {
            callback();
        }
    }

    pub fn entries(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn wait_for(&self, count: usize) -> Vec<Seen> {
        for _ in 0..300 {
            if self.seen.lock().unwrap().len() >= count {
                break;
            }
            wait(5);
        }
        self.entries()
    }
}

pub struct Source(pub Arc<Recorder>);
pub struct Sink(Arc<Recorder>);

impl SinkSource for Source {
    type Sink = Sink;
    fn open(&self) -> Result<Sink, SinkError> {
        Ok(Sink(Arc::clone(&self.0)))
    }
    fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        *self.0.callback.lock().unwrap() = Some(callback);
    }
    fn flush(&self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl EntrySink for Sink {
    type Ticket = u64;
    fn append(&mut self, entries: &[Entry<'_>]) -> Result<Option<u64>, (usize, SinkError)> {
        if self.0.full.load(Ordering::SeqCst) {
            return Err((0, SinkError::Full));
        }
        if self.0.failed.load(Ordering::SeqCst) {
            return Err((0, SinkError::Failed("broken disk".into())));
        }
        let mut seen = self.0.seen.lock().unwrap();
        for entry in entries {
            entry.check().unwrap();
            seen.push(Seen {
                action: entry.action.into(),
                key: String::from_utf8_lossy(entry.key).into_owned(),
                subjects: entry.subjects.as_joined().into(),
                actor: entry.actor.into(),
                controller: entry.controller.into(),
                processor: entry.processor.into(),
                purpose: entry.purpose.into(),
                basis: entry.basis.into(),
                outcome: entry.outcome,
                payload: String::from_utf8_lossy(entry.payload).into_owned(),
                submitter: entry.submitter.into(),
                claimed: entry.claimed,
                policy: entry.policy.copied(),
                rule: entry.rule.into(),
            });
        }
        Ok(Some(seen.len() as u64))
    }
    fn is_durable(&mut self, ticket: u64) -> Result<bool, SinkError> {
        Ok(
            !self.0.manual.load(Ordering::SeqCst)
                || self.0.durable.load(Ordering::SeqCst) >= ticket,
        )
    }
    fn push(&mut self) {}
    fn miss(&mut self, entries: u64, replies: OnLogFailure) {
        self.0.missed.lock().unwrap().push((entries, replies));
    }
    fn is_failed(&self) -> bool {
        self.0.failed.load(Ordering::SeqCst)
    }
}

pub fn config(redis: &Redis) -> ProxyConfig {
    let upstream = Upstream::parse(&format!("redis://127.0.0.1:{}", redis.port)).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    ProxyConfig::new(any_port, Backend::Upstream(upstream))
}

pub fn start(config: &ProxyConfig) -> (Proxy, SocketAddr, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let proxy = Proxy::start(config, &Arc::new(Source(Arc::clone(&recorder)))).unwrap();
    let address = proxy.addresses()[0];
    (proxy, address, recorder)
}

/// Sends `bytes` in the given pieces, then a QUIT, and gives all that comes back.
pub fn talk(address: SocketAddr, bytes: &[u8], piece: usize) -> Vec<u8> {
    let bytes = [bytes, b"*1\r\n$4\r\nQUIT\r\n"].concat();
    talk_only(address, &bytes, piece)
}

/// Sends `bytes` in the given pieces and gives all that comes back until the other side closes.
pub fn talk_only(address: SocketAddr, bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut reader = socket.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    for part in bytes.chunks(piece.max(1)) {
        if socket.write_all(part).is_err() {
            break;
        }
    }
    reading.join().unwrap().unwrap()
}

pub fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    out
}

pub fn script(lines: &str) -> Vec<u8> {
    lines
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .flat_map(|line| command(&line.split(' ').collect::<Vec<_>>()))
        .collect()
}

/// Entries in short: actor, action, key and outcome.
pub fn told(entries: &[Seen]) -> Vec<String> {
    let told = |seen: &Seen| {
        let outcome = seen.outcome.as_str();
        format!("{} {} {} {outcome}", seen.actor, seen.action, seen.key)
    };
    entries.iter().map(told).collect()
}

/// Returns the replies to a client, which must be the same directly and through the proxy, and the
/// entries.
pub fn both(lines: &str, arguments: &[&str]) -> (String, Vec<Seen>) {
    let bytes = script(lines);
    let direct = {
        let redis = Redis::start(arguments);
        talk_only(
            redis.address(),
            &[&bytes[..], b"QUIT\r\n"].concat(),
            usize::MAX,
        )
    };
    let redis = Redis::start(arguments);
    let (proxy, address, recorder) = start(&config(&redis));
    let through = talk_only(address, &[&bytes[..], b"QUIT\r\n"].concat(), usize::MAX);
    proxy.stop();
    let through = String::from_utf8_lossy(&through).into_owned();
    assert_eq!(through, String::from_utf8_lossy(&direct), "{lines}");
    (through, recorder.entries())
}
