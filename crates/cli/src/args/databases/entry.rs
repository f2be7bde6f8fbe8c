//! The arguments of the entry that a command about people leaves: the log that takes it, and who asked what for.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use probity_log::StreamName;

/// The log that takes an entry, and the attribution of that entry.
#[derive(ClapArgs)]
pub struct EntryChoice {
    /// The log that takes the entry.
    #[command(flatten)]
    pub log: LogChoice,
    /// The attribution of the entry: who asked, and what for.
    #[command(flatten)]
    pub attribution: Attribution,
}

/// The log that takes an entry.
#[derive(ClapArgs, Clone)]
pub struct LogChoice {
    /// Log that takes an entry, without personal data in clear; without it nothing is recorded
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,
    /// Stream that takes the entry
    #[arg(long, value_name = "S", value_parser = StreamName::new, default_value = StreamName::DEFAULT)]
    pub stream: StreamName,
    /// Root key file of the log [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

/// The attribution of an entry: who asked and what for, in their own words.
#[derive(ClapArgs, Default)]
pub struct Attribution {
    /// Actor, for the entry [default: the login name]
    #[arg(long, value_name = "WHO")]
    pub actor: Option<String>,
    /// Purpose, for the entry
    #[arg(long, value_name = "WHAT")]
    pub purpose: Option<String>,
    /// Legal basis or file number, for the entry
    #[arg(long, value_name = "WHY")]
    pub basis: Option<String>,
}
