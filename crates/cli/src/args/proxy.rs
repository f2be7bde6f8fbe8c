//! The arguments of `proxy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use probity_log::StreamName;
use probity_proxy::ProxyConfig;
use probity_store::Sync;
use probity_store::limits::FREE_BYTES;

use super::{DurabilityChoice, KeyInterval};

/// Records every operation of Redis clients on their way to the server, or to a store of its own.
///
/// Clients connect here instead of to a server and notice nothing. SIGINT, SIGTERM or SIGHUP stops
/// gracefully: replies under way are finished and everything is durable.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity proxy --log audit --init --store data
  probity proxy --log audit --init --upstream redis://127.0.0.1:6379
  probity proxy --log audit --init --listen 0.0.0.0:6380 \\
      --upstream unix:/run/redis.sock
  PROBITY_UPSTREAM=redis://app:secret@cache:6379 probity proxy --log audit \\
      --policy policy.toml

A policy is a TOML file, like this one:
  version = 1
  [[key]]
  pattern = \"user:{subject}:*\"
  purpose = \"service\"
  basis = \"contract\"")]
pub struct Proxy {
    /// Folder of the log
    #[arg(long, value_name = "DIR")]
    pub log: PathBuf,
    /// Create the log if there is none
    #[arg(long)]
    pub init: bool,
    /// Address that clients connect to: ADDRESS:PORT (port 0: any free one) or unix:/PATH; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6380")]
    pub listen: Vec<String>,
    /// Server behind the proxy: redis://HOST:PORT or unix:/PATH [default: PROBITY_UPSTREAM]
    #[arg(long, value_name = "URL")]
    pub upstream: Option<String>,
    /// Folder of an embedded store that answers instead of a server; made if there is none
    #[arg(long, value_name = "DIR", conflicts_with_all = ["upstream", "upstream_password_file"])]
    pub store: Option<PathBuf>,
    /// Key file of the store, made with it [default: the store's DIR.key]
    #[arg(long, value_name = "FILE", requires = "store")]
    pub store_key: Option<PathBuf>,
    /// When a change to the store is on the disk [default: always with --durability strict, else second]
    #[arg(long, value_enum, value_name = "WHEN", requires = "store")]
    pub store_sync: Option<SyncChoice>,
    /// Memory for transactions, long commands, watched keys and unread replies of all clients of the store, in bytes [default: 1 GiB]
    #[arg(long, value_name = "BYTES", requires = "store", value_parser = bytes)]
    pub store_waiting_bytes_max: Option<usize>,
    /// File that holds the server's password, for the proxy's own questions; clients log in for themselves
    #[arg(long, value_name = "FILE")]
    pub upstream_password_file: Option<PathBuf>,
    /// Policy on what is recorded about which keys and actors [default: every key is recorded; user:{subject} and user:{subject}:* name subjects]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// When a reply goes out: strict once its entries are durable, group and relaxed before
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub durability: DurabilityChoice,
    /// Stream that takes the entries
    #[arg(long, value_name = "S", value_parser = StreamName::new, default_value = StreamName::DEFAULT)]
    pub stream: StreamName,
    /// Most clients at once; more are told so
    #[arg(long, value_name = "N", default_value_t = ProxyConfig::CLIENTS_MAX)]
    pub clients_max: usize,
    /// Longest time that connecting to the server may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub connect_timeout: Duration,
    /// Silence of both sides after which a client is let go [default: none]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub idle_timeout: Option<Duration>,
    /// Let replies out when the log fails, and record later how many entries are missing
    #[arg(long)]
    pub forward_on_log_failure: bool,
    /// The time for which one key signs.
    #[command(flatten)]
    pub key_interval: KeyInterval,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// When a change to the embedded store is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SyncChoice {
    /// Before it is answered; changes that arrive together share the wait
    Always,
    /// At most a second after it is answered
    Second,
}

impl From<SyncChoice> for Sync {
    fn from(choice: SyncChoice) -> Self {
        match choice {
            SyncChoice::Always => Self::Always,
            SyncChoice::Second => Self::EverySecond,
        }
    }
}

/// Parses a whole number of bytes, at least those that a command has in any case.
fn bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| *bytes >= FREE_BYTES);
    bytes.ok_or_else(|| format!("write a whole number of bytes, at least {FREE_BYTES}"))
}

/// The longest wait that can be said: a year.
const SECONDS_MAX: u64 = 31_536_000;

/// Parses a whole number of seconds, at least one.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    let wrong = || format!("write a whole number of seconds from 1 to {SECONDS_MAX}");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}
