//! The backend of the clients: the bare server, the proxy before it, or the proxy before the store.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Durability, Log, Options, StreamConfig, StreamName};
use probity_proxy::{Backend, Listen, LogSource, Proxy, ProxyConfig, Release};
use probity_store::{Options as StoreOptions, Store, Sync};

use super::load::{Load, Pace};
use super::server::Server;
use crate::command::BenchError;
use crate::ingest::{root_key, stored_bytes};

/// The backend of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Direct,
    Proxy(Durability),
    Store(Durability),
}

/// Every stage; the bare server is the first.
pub(super) const STAGES: [Stage; 6] = [
    Stage::Direct,
    Stage::Proxy(Durability::Relaxed),
    Stage::Proxy(Durability::Group),
    Stage::Proxy(Durability::Strict),
    Stage::Store(Durability::Group),
    Stage::Store(Durability::Strict),
];

/// The results of one run.
pub(super) struct Run {
    pub(super) pace: Pace,
    pub(super) entries: u64,
    pub(super) stored_bytes: u64,
}

impl Stage {
    pub(super) fn name(self) -> String {
        match self {
            Self::Direct => "server".to_owned(),
            Self::Proxy(durability) => format!("proxy, {}", durability.as_str()),
            Self::Store(durability) => format!("store, {}", durability.as_str()),
        }
    }

    /// Sets up the stage in `folder`, runs `load` on it, and checks that all commands were
    /// recorded.
    pub(super) fn run(
        self,
        load: &Load,
        server: &Server,
        folder: &Path,
    ) -> Result<Run, BenchError> {
        let folder = tempfile::tempdir_in(folder)?;
        match self {
            Self::Direct => {
                load.fill(server.address)?;
                Ok(Run {
                    pace: load.play(server.address)?,
                    entries: 0,
                    stored_bytes: 0,
                })
            }
            Self::Proxy(durability) => {
                let backend = Backend::Upstream(server.upstream.clone());
                recorded(load, backend, durability, &folder.path().join("log"))
            }
            Self::Store(durability) => {
                let sync = if durability == Durability::Strict {
                    Sync::Always
                } else {
                    Sync::EverySecond
                };
                let options = StoreOptions {
                    sync,
                    ..StoreOptions::default()
                };
                let store = Store::open(&folder.path().join("store"), options);
                let store = store.map_err(|error| BenchError::Failed(error.to_string()))?;
                let backend = Backend::Store(Arc::new(store));
                recorded(load, backend, durability, &folder.path().join("log"))
            }
        }
    }
}

/// Runs `load` on a proxy before `backend`, with a new log at `path`.
fn recorded(
    load: &Load,
    backend: Backend,
    durability: Durability,
    path: &Path,
) -> Result<Run, BenchError> {
    let options = Options {
        durability,
        ..Options::default()
    };
    let config = StreamConfig::default();
    let log = Log::create(path, "bench.example/log", &root_key(), config, options)?;
    let source = Arc::new(LogSource::new(log.clone(), StreamName::default())?);
    let any_port = Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let release = if durability == Durability::Strict {
        Release::Durable
    } else {
        Release::Appended
    };
    let config = ProxyConfig {
        release,
        ..ProxyConfig::new(any_port, backend)
    };
    let proxy = Proxy::start(&config, &source)
        .map_err(|error| BenchError::Failed(format!("the proxy did not start: {error}")))?;
    let played = match proxy.addresses().first() {
        Some(address) => load
            .fill(*address)
            .map_err(BenchError::from)
            .and_then(|()| load.play(*address)),
        None => Err(BenchError::Failed("the proxy listens nowhere".into())),
    };
    proxy.stop();
    log.close()?;
    let pace = played?;
    let entries = entries(path)?;
    let expected = load.keys + load.requests_said();
    if entries != expected {
        return Err(BenchError::Failed(format!(
            "{expected} operations and {entries} entries: not everything was recorded"
        )));
    }
    Ok(Run {
        pace,
        entries,
        stored_bytes: stored_bytes(path)?,
    })
}

/// Verifies the log and returns the number of entries of the default stream.
fn entries(path: &Path) -> Result<u64, BenchError> {
    let report = verify(path, &VerifyOptions::default())?;
    if !report.is_intact() {
        return Err(BenchError::Failed(
            "a log just written does not verify".into(),
        ));
    }
    let stream = report
        .streams
        .iter()
        .find(|stream| stream.name == StreamName::DEFAULT);
    Ok(stream.map_or(0, |stream| stream.entries))
}
