//! The arguments of `store`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// Works on an embedded store that no proxy serves.
#[derive(ClapArgs)]
pub struct Store {
    /// The command to run.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// The commands for a store.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum StoreCommand {
    Rewrite(StoreRewrite),
}

/// Copies what the store holds into a file with a new key, and overwrites and removes the old one.
///
/// Whatever was removed from the store cannot be read from its folder afterwards, not even with the key file. It needs as
/// much room as the store holds, and may be interrupted at any time. Each subject gets a new key. Backups are not reached:
/// remove older ones.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity store rewrite data
  probity store rewrite data --damaged-too")]
pub struct StoreRewrite {
    /// Folder of the store
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Key file of the store [default: DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Policy that says whom a key is about, for keys that were nobody's [default: user:{subject} and user:{subject}:* name subjects]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Convert a store of version 1, which is in clear, though its key file is there already: nothing proves such a store, and
    /// somebody could have put it in the place of a sealed one
    #[arg(long)]
    pub from_clear: bool,
    /// Rewrite what is left of a damaged store too, in twice the room, and say what is missing; it ends with status 3 then. What
    /// does not open is gone afterwards: copy the folder and the key file first
    #[arg(long, conflicts_with = "from_clear")]
    pub damaged_too: bool,
}
