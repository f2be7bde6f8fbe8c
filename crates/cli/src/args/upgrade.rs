//! The arguments of `upgrade`.

#![expect(
    clippy::doc_markdown,
    reason = "the comments are the help text, which knows no markup"
)]

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Continues a log of an older version as a new one, which names what was signed last of it.
///
/// The older log is verified first and left unchanged; keep it, because its entries stay there. The new log has
/// the same streams and no entries, and a root key and verifier key of its own. After a crash, or to be sure, run it again.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity upgrade audit audit-3
  probity upgrade audit audit-3 --key audit.vkey
  probity verify audit-3 --continues audit")]
pub struct Upgrade {
    /// Folder of the older log
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// Folder of the new log
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Verifier key or root key of the older log, to verify it with
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder of the second copy of the older log's signed heads [default: OLD.heads]
    #[arg(long, value_name = "DIR")]
    pub heads: Option<PathBuf>,
    /// Root key file of the new log; made if it does not exist [default: PROBITY_KEY_FILE, else NEW.key]
    #[arg(long, value_name = "FILE")]
    pub new_key: Option<PathBuf>,
    /// Name of the new log in its checkpoints [default: that of the older log]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub origin: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
