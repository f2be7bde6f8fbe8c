//! The arguments: one definition that parser and help are made from.

#![expect(
    clippy::doc_markdown,
    reason = "the comments are the help text, which knows no markup"
)]

mod append;
#[cfg(feature = "databases")]
mod databases;
#[cfg(not(feature = "databases"))]
#[path = "absent.rs"]
mod databases;
mod filter;
mod key_interval;
mod proof;
mod proxy;
mod store;
mod time;
mod upgrade;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use probity_format::Timestamp;
use probity_log::{Compression, Durability, Proofs, StreamConfig, StreamName};

pub use self::append::Append;
pub use self::databases::*;
pub use self::filter::{Base64Bytes, FilterChoice};
pub use self::key_interval::KeyInterval;
pub use self::proof::{CheckProof, CheckReceipts, Prove};
pub use self::proxy::{Proxy, SyncChoice};
pub use self::store::{Store, StoreCommand, StoreRewrite};
pub use self::time::time;
pub use self::upgrade::Upgrade;

const EXIT_STATUS: &str = "Exit status:
  0  done; for verify: nothing is wrong with what was read, and the verdict says what was not
  1  it could not be done (input, storage, key missing)
  2  wrong usage
  3  the evidence is broken; the report names the class, the stream and the place
  4  intact, but parts are lost and the loss accepted, erased, or pruned with proof;
     for disguise reveal: done, but rows stay disguised;
     for disguise sweep and decay: some were refused;
     for disguise replay: some could not be done again

Environment:
  PROBITY_KEY_FILE  root key file, where no argument names one
  PROBITY_HEADS     folder of the second copy of the log's heads, which belongs on another machine's
                    disk [default: DIR.heads beside the log]
  PROBITY_DB        database of an application, where no argument names one; may hold a password
  PROBITY_POCKET_ROOT  root file of a pocket database, where no argument names one
  PROBITY_UPSTREAM  server behind the proxy, where no argument names one; may hold a password

Documents:
  /usr/share/doc/probity/docs in the Debian package, docs/ in the sources.
  policy.md has the form of a policy, disguise.md that of a specification";

/// Records who did what to whose data, so that nobody can alter the record unnoticed.
#[derive(Parser)]
#[command(name = "probity", version, after_help = EXIT_STATUS)]
pub struct Args {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum Command {
    Demo(Demo),
    Init(Init),
    Upgrade(Upgrade),
    Append(Append),
    Proxy(Proxy),
    Verify(Verify),
    Export(Export),
    Prove(Prove),
    CheckProof(CheckProof),
    CheckReceipts(CheckReceipts),
    Stream(Stream),
    Keys(Keys),
    #[command(flatten)]
    Databases(DatabasesCommand),
    Store(Store),
}

/// Shows the main job end to end: records, verifies, tampers with a copy, finds it, exports.
///
/// Everything stays on this machine: the proxy listens on a free port of 127.0.0.1 before an
/// embedded store, and ends with the demo.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity demo
  probity demo --dir shown")]
pub struct Demo {
    /// Folder for everything the demo makes; must not exist or be empty [default: a new temporary one]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Creates a log, its verifier key DIR.vkey to hand out, and a root key for it unless there is one.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity init audit
  probity init /srv/audit --origin example.com/audit \\
      --key /etc/probity/audit.key
  probity init audit --erasable --proofs entry")]
pub struct Init {
    /// Folder of the new log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Name of the log in its checkpoints, like example.com/audit [default: the folder's name]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub origin: Option<String>,
    /// Root key file; made if it does not exist [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// The configuration of the stream `default`.
    #[command(flatten)]
    pub config: StreamChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The properties that are fixed for a stream when it is created.
#[derive(ClapArgs)]
pub struct StreamChoice {
    /// Seal keys and payloads under keys of their subjects, so that a subject can be erased: by a program with the library's Log::erase, for which there is no command yet
    #[arg(long)]
    pub erasable: bool,
    /// Unit that can be proved alone: an entry, or a subject's section of a frame
    #[arg(long, value_name = "WHAT", value_parser = parse_proofs, default_value = "section")]
    pub proofs: Proofs,
}

impl StreamChoice {
    /// Returns the chosen configuration.
    pub fn config(&self) -> StreamConfig {
        StreamConfig {
            proofs: self.proofs,
            erasable: self.erasable,
            ..StreamConfig::default()
        }
    }
}

/// Checks every stored byte against the signatures, without any secret, and says what it did not check.
///
/// Without --key contents stay closed and the log's own first key is believed. With a verifier key
/// that must be one of the log's signing keys, the first or a later one; with the root key contents are opened and checked too. A rollback to
/// an older copy is detected by the second copies of the heads, not by any key.
/// With --since, --from or --to frames are left out: the verdict is of what was read, and they are counted.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity verify audit
  probity verify copy-of-audit --key audit.vkey --json
  probity verify audit --key audit.key
  probity verify audit --since yesterday/streams/default/checkpoint
  probity verify audit-3 --continues audit")]
pub struct Verify {
    /// Folder of the log, or of a copy
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Verifier key or root key
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder of the second copy of the signed heads [default: PROBITY_HEADS, else DIR.heads]
    #[arg(long, value_name = "DIR")]
    pub heads: Option<PathBuf>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// The older log that this one says it continues: it is verified too, with OLD.heads, and must be exactly what is named
    #[arg(long, value_name = "OLD")]
    pub continues: Option<PathBuf>,
    /// An earlier checkpoint: its stream must have grown from it, and of that stream only the growth is read
    #[arg(long, value_name = "CHECKPOINT")]
    pub since: Option<PathBuf>,
    /// Read only frames with entries at or after this time, and what the log says of itself: 2026-01-31, 2026-01-31T12:00:00Z, or -7d for a week ago
    #[arg(long, value_name = "T", value_parser = time, allow_hyphen_values = true)]
    pub from: Option<Timestamp>,
    /// Read only frames with entries before this time, written likewise, and what the log says of itself
    #[arg(long, value_name = "T", value_parser = time, allow_hyphen_values = true)]
    pub to: Option<Timestamp>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Writes entries out, in order, in the form that append takes, or as CSV.
///
/// Subjects of one entry stand on lines of their own within a CSV cell. Cells may begin with = + -
/// or @, which spreadsheets run as formulas: use --spreadsheet-safe for those.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity export audit --format jsonl -o entries.jsonl
  probity export audit --subject 7 --from 2026-01-01 --format csv
  probity export audit --from -7d --format jsonl --with-place
  probity export audit --format jsonl | probity append other-log --exported")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what clap parses")]
pub struct Export {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM")]
    pub format: ExportFormat,
    /// New file to write; it appears once it is complete, for its owner alone [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// The filter of the entries.
    #[command(flatten)]
    pub filter: FilterChoice,
    /// Put an apostrophe before CSV cells that a spreadsheet would run as a formula
    #[arg(long)]
    pub spreadsheet_safe: bool,
    /// Write what is left of a damaged log too, and say what is missing; it ends with status 3 then
    #[arg(long)]
    pub damaged_too: bool,
    /// Say of each entry its stream and its index there, which prove takes; CSV always does
    #[arg(long)]
    pub with_place: bool,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, alias = "key-file", value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// The forms of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One JSON object per line, as append takes them
    Jsonl,
    /// Comma-separated values with a heading
    Csv,
}

/// Shows the log's keys, or hands out their certificates.
#[derive(ClapArgs)]
pub struct Keys {
    /// The command to run.
    #[command(subcommand)]
    pub command: KeysCommand,
}

/// The commands for keys.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum KeysCommand {
    Status(KeysStatus),
    Chain(KeysChain),
}

/// Writes all key certificates of a log to a file, for the holder of an early verifier key: `check-proof --chain` follows them.
///
/// Make it together with a proof: a chain made after the log's next opening, or an hour later while entries arrive, shows the proof's key as
/// replaced and leaves the proof undecided. Needs no secret, and the file holds none. It grows by a certificate an hour at most while the log
/// is written to, and by one with each opening.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity prove audit --index 41 -o entry.tlog-proof
  probity keys chain audit -o audit.chain
  probity check-proof entry.tlog-proof --key audit.vkey --chain audit.chain")]
pub struct KeysChain {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// New file to write; it appears once it is complete
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long)]
    pub overwrite: bool,
}

/// Shows which keys a log has and whether the root key at hand opens it.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity keys status audit
  probity keys status audit --json")]
pub struct KeysStatus {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Root key file; the exit status is 1 where it is named here and does not open the log [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Creates or lists streams.
#[derive(ClapArgs)]
pub struct Stream {
    /// The command to run.
    #[command(subcommand)]
    pub command: StreamCommand,
}

/// The commands for streams.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum StreamCommand {
    Create(StreamCreate),
    List(StreamList),
}

/// Creates a stream; nothing happens when it exists with the same configuration.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity stream create audit acme.crm.365.login
  probity stream create audit persons --erasable --proofs entry")]
pub struct StreamCreate {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Name of the stream: a-z, 0-9, -, _ and .; by convention TENANT.MODULE.RETENTION.TAG
    #[arg(value_name = "NAME", value_parser = StreamName::new)]
    pub name: StreamName,
    /// The configuration.
    #[command(flatten)]
    pub config: StreamChoice,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// Lists the streams and what is fixed for each.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity stream list audit
  probity stream list audit --json")]
pub struct StreamList {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The point at which an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DurabilityChoice {
    /// A receipt comes after a sync that begins at once; nothing with a receipt is lost
    Strict,
    /// A receipt comes after a sync that begins within 10 ms and is shared; nothing with a receipt is lost
    #[default]
    Group,
    /// A receipt may come before the sync: losing the power takes entries since the last, about a second's while entries arrive
    Relaxed,
}

impl From<DurabilityChoice> for Durability {
    fn from(choice: DurabilityChoice) -> Self {
        match choice {
            DurabilityChoice::Strict => Self::Strict,
            DurabilityChoice::Group => Self::Group,
            DurabilityChoice::Relaxed => Self::Relaxed,
        }
    }
}

fn parse_proofs(word: &str) -> Result<Proofs, &'static str> {
    Proofs::from_word(word).ok_or("use entry or section")
}

fn parse_compression(word: &str) -> Result<Compression, &'static str> {
    // The library reads a bare level as well, and level 0 as none: said here is what the help says.
    Compression::from_word(word)
        .filter(|found| found.to_string() == word)
        .ok_or("use zstd:1 to zstd:19 or none")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            if command.get_subcommands().next().is_none() {
                let help = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(help.contains("Examples:\n  "), "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
