//! The proxy before an embedded store in a temporary folder.
#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test may fail loudly"
)]

use std::net::SocketAddr;
use std::sync::Arc;

use probity_proxy::{Backend, Listen, Proxy, ProxyConfig};
use probity_store::{Options, Store, Sync};

use crate::support::{Recorder, start};

/// A proxy before a store of its own.
pub struct Embedded {
    pub address: SocketAddr,
    pub recorder: Arc<Recorder>,
    _proxy: Proxy,
    _directory: tempfile::TempDir,
}

impl Embedded {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            sync: Sync::EverySecond,
            ..Options::default()
        };
        let store = Store::open(&directory.path().join("store"), options).unwrap();
        let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let config = ProxyConfig::new(any_port, Backend::Store(Arc::new(store)));
        let (proxy, address, recorder) = start(&config);
        Self {
            address,
            recorder,
            _proxy: proxy,
            _directory: directory,
        }
    }
}
