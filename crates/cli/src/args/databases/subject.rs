//! The arguments of `subject`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::pocket::{PocketChoice, PocketCreate, PocketExtent};

/// Hands a person what is held about them.
#[derive(ClapArgs)]
pub struct Subject {
    /// The command to run.
    #[command(subcommand)]
    pub command: SubjectCommand,
}

/// The commands for a person.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum SubjectCommand {
    Export(SubjectExport),
}

/// Writes what a log holds about a person, and more where it is named, to a pocket database of their own.
///
/// Equals `probity pocket create FILE --subject ID --log DIR`. The person asks it offline with `probity pocket
/// query`, sees its tables with `probity pocket schema`, and hands out signed parts with `probity pocket extract`. The
/// last example shows who read their data, when and for which purpose.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity subject export audit alice --pocket alice.pocket
  probity subject export audit alice --pocket alice.pocket --store data \\
      --policy policy.toml --credential 19.key
  probity pocket query alice.pocket \\
      \"SELECT entries.day, actors.name AS actor, purposes.name AS purpose
       FROM entries JOIN acts ON entries.act = acts.id
       JOIN actors ON acts.actor = actors.id
       JOIN purposes ON acts.purpose = purposes.id
       WHERE entries.action = 'read'\"")]
pub struct SubjectExport {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Person whose entries, keys and rows are meant
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub subject: String,
    /// File of the new database
    #[arg(long, value_name = "FILE")]
    pub pocket: PathBuf,
    /// File for its key and the state of its last commit [default: PROBITY_POCKET_ROOT, else FILE.root]
    #[arg(long, value_name = "ROOT")]
    pub root: Option<PathBuf>,
    /// Root key file of the log [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Folder of an embedded store whose keys about the person are taken over with their values
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Key file of the store [default: the store's DIR.key]
    #[arg(long, value_name = "FILE", requires = "store")]
    pub store_key: Option<PathBuf>,
    /// Policy that says whose a key is, as for the proxy [default: the built-in one]
    #[arg(long, value_name = "FILE", requires = "store")]
    pub policy: Option<PathBuf>,
    /// JSON of rows that a disguise hid of the person, as `disguise export` writes it; may be repeated
    #[arg(long, value_name = "FILE")]
    pub disguises: Vec<PathBuf>,
    /// Id of the person in the database of these disguises [default: ID]; may be repeated
    #[arg(long = "user", value_name = "U", requires = "disguises")]
    pub users: Vec<String>,
    /// Tenant of that id, where the database has several
    #[arg(long, value_name = "T", requires = "disguises")]
    pub tenant: Option<String>,
    /// File of a credential for disguises, which is put into the database; may be repeated
    #[arg(long = "credential", value_name = "FILE")]
    pub credentials: Vec<PathBuf>,
    /// Take over what is left of a damaged log; it ends with status 3 then
    #[arg(long)]
    pub damaged_too: bool,
    /// Memory and size of the database.
    #[command(flatten)]
    pub extent: PocketExtent,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl SubjectExport {
    /// Returns the creation of a pocket database that does the same.
    pub fn creation(self) -> PocketCreate {
        PocketCreate {
            pocket: PocketChoice {
                file: self.pocket,
                root: self.root,
            },
            schema: None,
            from: None,
            from_file: None,
            tables: Vec::new(),
            indexes: Vec::new(),
            unlinked: Vec::new(),
            plain: Vec::new(),
            null_as_empty: false,
            log: Some(self.dir),
            store: self.store,
            store_key: self.store_key,
            policy: self.policy,
            disguises: self.disguises,
            users: self.users,
            tenant: self.tenant,
            credentials: self.credentials,
            subject: Some(self.subject),
            log_key: self.key,
            damaged_too: self.damaged_too,
            extent: self.extent,
            json: self.json,
        }
    }
}
