//! The place where clients connect is free again once a proxy has ended, and is taken from no other
//! process.
#![expect(clippy::disallowed_methods, reason = "a test prepares files")]

use std::error::Error as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use probity_proxy::{Backend, Listen, Proxy, ProxyConfig, ProxyError, SinkError, SinkSource};
use probity_store::{Options, Store};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Recorder, Redis, Source, config};

/// The socket file of a proxy that was killed, or stopped, kept the next one from starting. It is
/// replaced if nobody listens on it; a socket in use, another kind of file and a link are not.
#[test]
fn a_socket_that_nobody_listens_on_is_replaced_and_no_other_file() {
    let redis = Redis::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let start = |name: &str| {
        let listen = vec![Listen::Unix(at(name))];
        let config = ProxyConfig {
            listen,
            ..config(&redis)
        };
        Proxy::start(&config, &Arc::new(Source(Arc::new(Recorder::default()))))
    };
    drop(UnixListener::bind(at("left")).unwrap());
    for _ in 0..2 {
        let proxy = start("left").unwrap();
        let mut client = UnixStream::connect(at("left")).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
        assert!(matches!(start("left"), Err(ProxyError::Listen { .. })));
        proxy.stop();
    }
    let _alive = UnixListener::bind(at("alive")).unwrap();
    fs::write(at("file"), "kept").unwrap();
    drop(UnixListener::bind(at("target")).unwrap());
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    for name in ["alive", "file", "link"] {
        assert!(
            matches!(start(name), Err(ProxyError::Listen { .. })),
            "{name}"
        );
    }
    assert!(UnixStream::connect(at("alive")).is_ok());
    assert_eq!(fs::read(at("file")).unwrap(), b"kept");
    assert!(at("link").is_symlink() && at("target").exists());
}

/// A proxy locked the folder of its socket, and waited for ever where that was the folder of its store or of a log, which are locked
/// for as long as they are open. It locks a file beside the socket.
#[test]
fn a_socket_may_lie_in_a_folder_that_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, Options::default()).unwrap();
    assert!(File::open(&path).unwrap().try_lock().is_err());
    let socket = path.join("probity.sock");
    let listen = Listen::Unix(socket.clone());
    let config = ProxyConfig::new(listen, Backend::Store(Arc::new(store)));
    let source = Arc::new(Source(Arc::new(Recorder::default())));
    for _ in 0..2 {
        let proxy = Proxy::start(&config, &source).unwrap();
        let mut client = UnixStream::connect(&socket).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
        proxy.stop();
    }
}

/// The lock of a socket could be a pipe, or be kept by another process, and the proxy waited for it
/// without a bound. Anything but a plain file is refused, and so is a lock that is not free in
/// time.
#[test]
fn a_socket_whose_lock_cannot_be_had_is_refused_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refused = |name: &str| {
        let store = tempfile::tempdir().unwrap();
        let store = Store::open(&store.path().join("store"), Options::default()).unwrap();
        let config = ProxyConfig::new(Listen::Unix(at(name)), Backend::Store(Arc::new(store)));
        let source = Arc::new(Source(Arc::new(Recorder::default())));
        let error = Proxy::start(&config, &source).unwrap_err();
        assert!(matches!(error, ProxyError::Listen { .. }), "{name}");
        assert!(!at(name).exists(), "{name}");
        error.source().unwrap().to_string()
    };
    mknodat(
        CWD,
        at("pipe.lock"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    std::os::unix::fs::symlink(at("target"), at("link.lock")).unwrap();
    fs::create_dir(at("folder.lock")).unwrap();
    for name in ["pipe", "link", "folder"] {
        let said = refused(name);
        assert!(
            said.ends_with(".lock is no plain file; remove it"),
            "{said}"
        );
    }
    assert!(!at("target").exists());
    let held = File::create(at("held.lock")).unwrap();
    held.lock().unwrap();
    let said = refused("held");
    assert!(
        said.contains("held.lock is locked by another process"),
        "{said}"
    );
}

/// A log whose second sink ends its thread by a fault.
struct Faulty(AtomicUsize, Source);

impl SinkSource for Faulty {
    type Sink = <Source as SinkSource>::Sink;
    fn open(&self) -> Result<Self::Sink, SinkError> {
        assert!(
            self.0.fetch_add(1, Ordering::SeqCst) == 0,
            "a fault of the program"
        );
        self.1.open()
    }
    fn on_commit(&self, callback: Box<dyn Fn() + Send + Sync>) {
        self.1.on_commit(callback);
    }
    fn flush(&self) -> Result<(), SinkError> {
        self.1.flush()
    }
}

/// A worker that ended while it began counted as one that served.
#[test]
fn a_proxy_whose_worker_panics_at_the_start_does_not_start() {
    let redis = Redis::start(&[]);
    let source = Faulty(AtomicUsize::new(0), Source(Arc::default()));
    let error = Proxy::start(&config(&redis), &Arc::new(source)).unwrap_err();
    assert!(matches!(error, ProxyError::ThreadEnded), "{error}");
}
