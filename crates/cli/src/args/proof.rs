//! The arguments of `prove` and `check-proof`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use probity_log::StreamName;

/// Writes the proof of one entry: a file that anyone checks with a verifier key and nothing else.
///
/// What else the file shows depends on the stream: with proofs of entries the entry alone, otherwise the other
/// entries of its section or frame too; a note says how many. The root key stays here, keys in the file open no more
/// than what it shows.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity prove audit --index 41 -o entry.tlog-proof
  probity prove audit --stream persons --index 0 -o entry.tlog-proof --alone --json
  probity prove audit --index 41 -o entry.tlog-proof --recipient-key theirs.vkey")]
pub struct Prove {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Stream of the entry
    #[arg(long, value_name = "S", value_parser = StreamName::new, default_value = StreamName::DEFAULT)]
    pub stream: StreamName,
    /// Index of the entry in its stream, from 0, as in its receipt
    #[arg(long, value_name = "N")]
    pub index: u64,
    /// New file to write; it appears once it is complete, for its owner alone
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long)]
    pub overwrite: bool,
    /// Write nothing when the proof would show other entries too
    #[arg(long)]
    pub alone: bool,
    /// Verifier key that the recipient has; key certificates before it are left out [default: the log's first]
    #[arg(long, value_name = "FILE")]
    pub recipient_key: Option<PathBuf>,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Checks the proof of an entry, offline, and prints what it proves: who did what when.
///
/// The exit status is 0 when it holds and 3 when it does not; then the part that broke is named.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity check-proof entry.tlog-proof --key audit.vkey
  probity check-proof entry.tlog-proof --key audit.vkey --json")]
pub struct CheckProof {
    /// The proof
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Verifier key of the log, from anybody who is trusted to know it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
