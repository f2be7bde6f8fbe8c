//! Where clients connect is free again once a proxy has ended, and taken from nobody.
#![expect(clippy::disallowed_methods, reason = "a test prepares files")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

use probity_proxy::{Listen, Proxy, ProxyConfig, ProxyError};

use crate::support::{Recorder, Redis, Source, config};

/// The socket of a proxy that was killed, or stopped, stayed in the file system, and none started there again before somebody removed
/// it. It is replaced where nobody listens on it; a socket that somebody serves, another kind of file and a link are not.
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
