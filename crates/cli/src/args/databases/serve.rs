//! The arguments of `serve`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::KeyInterval;

/// Answers HTTP requests, so that applications in any language hide people and bring them back.
///
/// Prints its address once it answers, and ends at SIGINT, SIGTERM or SIGHUP after what runs is finished. Everything else about
/// it stands in one file: where it listens, the log, databases, specifications, and the tokens with their rights.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity serve --config probity.toml

  # probity.toml
  listen = \"127.0.0.1:8480\"
  log.folder = \"audit\"
  [database.app]
  url = \"sqlite:app.db\"
  spec.leave.file = \"leave.toml\"
  [[token]]
  name = \"shop\"
  sha256 = \"...\"   # head -c 32 /dev/urandom | base64 | tr -d '\\n' | tee shop.token | sha256sum
  databases = [\"app\"]
  operations = [\"register\", \"apply\", \"reveal\", \"list\"]")]
pub struct Serve {
    /// Configuration of the server, TOML; its relative paths begin in the file's folder
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The time for which one key signs.
    #[command(flatten)]
    pub key_interval: KeyInterval,
}
