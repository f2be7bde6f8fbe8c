//! The arguments of `disguise`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use probity_disguise::{CHUNK_ROWS, DisguiseId, References, Share, Suite};

use super::custody::{
    BeginLog, Cancel, Decay, Dismiss, Hold, Holds, Lift, Replay, Scheduled, Separate, Span, Sweep,
    parse_span,
};
use super::entry::EntryChoice;
use super::person::{ExportHidden, Forget, List, Rekey, SpeaksFor, SubjectName, Unregister};

/// Hides people in a SQL database and brings them back.
///
/// A database is sqlite:FILE, mysql://user@host:port/database (MariaDB too) or postgres://user@host:port/database. An address
/// with a password, as user:password@host, comes from a file or from PROBITY_DB. A file with a credential holds a private key or a recovery token, as
/// register writes them, or a password on its first line; - is standard input.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise draft --db sqlite:app.db -o leave.toml
  probity disguise register --db sqlite:app.db --spec leave.toml --user 19 \\
      --credential-out 19.key --log audit
  probity disguise apply --db sqlite:app.db --spec leave.toml --user 19 \\
      --log audit
  probity disguise reveal --db sqlite:app.db --id 5a0c91b2d3e4f506 --user 19 \\
      --credential 19.key --log audit")]
pub struct Disguise {
    /// The command to run.
    #[command(subcommand)]
    pub command: DisguiseCommand,
}

/// The commands for disguises.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum DisguiseCommand {
    Draft(Draft),
    Check(Check),
    Plan(Plan),
    Register(Register),
    Apply(Apply),
    Resume(Resume),
    Reveal(Reveal),
    SpeaksFor(SpeaksFor),
    List(List),
    Export(ExportHidden),
    SubjectName(SubjectName),
    Forget(Forget),
    Rekey(Rekey),
    Unregister(Unregister),
    ReceiptKey(ReceiptKey),
    CheckReceipt(CheckReceipt),
    Hold(Hold),
    Lift(Lift),
    Holds(Holds),
    Scheduled(Scheduled),
    Cancel(Cancel),
    #[command(visible_alias = "expire")]
    Sweep(Sweep),
    Decay(Decay),
    Replay(Replay),
    Dismiss(Dismiss),
    Separate(Separate),
    BeginLog(BeginLog),
    Update(Update),
}

/// The choice of a database.
#[derive(ClapArgs)]
pub struct DatabaseChoice {
    /// The application's database, without a password [default: PROBITY_DB]
    #[arg(long = "db", value_name = "URL")]
    pub url: Option<String>,
    /// File with the address of the database on its first line, which may hold a password
    #[arg(long = "db-file", value_name = "FILE", conflicts_with = "url")]
    pub url_file: Option<PathBuf>,
    /// Tenant whose people and rows are meant, as the tenant columns hold it; where the specification names some it is needed
    #[arg(long, value_name = "T")]
    pub tenant: Option<String>,
}

/// The share of the time to work.
#[derive(ClapArgs)]
pub struct ShareChoice {
    /// Fraction of the time to work, such as 0.25: pauses between transactions leave the rest to other clients [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub share: Option<Share>,
}

/// Descriptions of the application, beyond what the database itself says.
#[derive(ClapArgs, Default)]
pub struct Description {
    /// Tables, owners and references, in Edna's form [default: what the specification or the database holds]
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// Rules for placeholder users, in Edna's form [default: what the specification or the database holds]
    #[arg(long, value_name = "FILE")]
    pub pseudo: Option<PathBuf>,
}

/// A specification and the values of its parameters.
#[derive(ClapArgs)]
pub struct SpecChoice {
    /// Specification of what is hidden: TOML, JSON, or Edna's JSON
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
    /// The description of the application.
    #[command(flatten)]
    pub description: Description,
    /// Value of a parameter of the specification; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
}

/// Proposes a first specification from the live schema; read every line before it is used.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise draft --db sqlite:app.db
  probity disguise draft --db postgres://app@localhost/app --users accounts \\
      -o leave.toml")]
pub struct Draft {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The users table, when it cannot be guessed
    #[arg(long, value_name = "TABLE")]
    pub users: Option<String>,
    /// New file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long, requires = "output")]
    pub overwrite: bool,
}

/// Checks a specification against the live schema, changing nothing.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise check --db sqlite:app.db --spec leave.toml
  probity disguise check --db sqlite:app.db --spec edna.json \\
      --schema tables.json --pseudo users.json")]
pub struct Check {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specification.
    #[command(flatten)]
    pub spec: SpecChoice,
    /// Id of the user whose rows are meant [default: everybody]
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// Insert two placeholder users and roll back
    #[arg(long = "try")]
    pub attempt: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Shows what a disguise would do: statements, rows and placeholders, and how rows are found.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise plan --db sqlite:app.db --spec leave.toml --user 19
  probity disguise plan --db sqlite:app.db --spec topic.toml --set topic=cats \\
      --json
  probity disguise plan --db sqlite:saas.db --spec leave.toml --tenant acme \\
      --user 19")]
pub struct Plan {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specification.
    #[command(flatten)]
    pub spec: SpecChoice,
    /// Id of the user whose rows are meant [default: everybody]
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Gives a user a credential, without which nothing that is hidden from them can come back.
///
/// Without a password that is a private key. With one, the user keeps the password and a recovery token. With three
/// files for shares, the token is given out in shares instead, for three people or places: any two of them open what
/// the token opens, and one alone tells nothing.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise register --db sqlite:app.db --spec leave.toml --user 19 \\
      --credential-out 19.key --log audit
  probity disguise register --db sqlite:app.db --user 20 --password-file 20.pw \\
      --credential-out 20.token --log audit
  probity disguise register --db sqlite:app.db --user 21 --share-out home \\
      --share-out bank --share-out friend --log audit
  probity disguise register --db sqlite:app.db --user 22 --suite x-wing \\
      --credential-out 22.key --log audit")]
pub struct Register {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// A specification that says who the users are [default: what the database holds, or a guess]
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// The description of the application.
    #[command(flatten)]
    pub description: Description,
    /// Id of the user, as in the users table
    #[arg(long, value_name = "U")]
    pub user: String,
    /// Suite of envelopes to the user: x25519, or x-wing, which a quantum computer does not open either, with records
    /// that are some ten times as long [default: x25519]
    #[arg(long, value_name = "SUITE")]
    pub suite: Option<Suite>,
    /// File with a password on its first line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// New file for the private key, or the recovery token, for its owner alone [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub credential_out: Option<PathBuf>,
    /// New file for a share of the recovery token, three times: any two of them open what the token opens
    #[arg(long, value_name = "FILE", conflicts_with = "credential_out")]
    pub share_out: Vec<PathBuf>,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Applies a disguise, in one transaction: all of it happens, or nothing.
#[derive(ClapArgs)]
#[command(group(clap::ArgGroup::new("whose").required(true).args(["user", "everybody"])))]
#[command(after_help = "Examples:
  probity disguise apply --db sqlite:app.db --spec leave.toml --user 19 \\
      --log audit
  probity disguise apply --db sqlite:app.db --spec leave.toml --user 19 \\
      --over 19.key --json --log audit
  probity disguise apply --db sqlite:app.db --spec leave.toml --user 19 \\
      --grace 30d --expires 10y --log audit
  probity disguise apply --db sqlite:app.db --spec class.toml --set class=2026 \\
      --everybody --log audit --actor 'registrar' --purpose 'end of term'")]
pub struct Apply {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specification.
    #[command(flatten)]
    pub spec: SpecChoice,
    /// Id of the user whose rows are meant
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// The rows of everybody are meant
    #[arg(long)]
    pub everybody: bool,
    /// Credential of the user, or twice a share of it: rows under placeholders that the user speaks for are meant too
    #[arg(long, value_name = "CREDENTIAL", requires = "user")]
    pub over: Vec<PathBuf>,
    /// Time for which it can be revealed, like 90d or 10y, to the next midnight UTC; then a sweep destroys its records [default: for good]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub expires: Option<Span>,
    /// Grace period, like 30d: until then cancel stops it, after it a sweep applies it
    #[arg(long, value_name = "SPAN", value_parser = parse_span, conflicts_with = "over")]
    pub grace: Option<Span>,
    /// Rows of a chunk: many rows, of a user or of everybody, are hidden in several transactions of at most so many;
    /// resume goes on with one that was killed, and reveal takes it back
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "grace")]
    pub chunk_rows: Option<u32>,
    /// Fraction of the time to work, such as 0.25: pauses between chunks leave the rest to other clients [default: 1]
    #[arg(long, value_name = "SHARE", requires = "chunk_rows")]
    pub share: Option<Share>,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Goes on with disguises in chunks that were cut short.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise resume --db sqlite:app.db --log audit
  probity disguise resume --db sqlite:app.db --id 5a0c91b2d3e4f506 \\
      --chunk-rows 200 --share 0.25 --log audit
  probity disguise resume --db sqlite:app.db --id 5a0c91b2d3e4f506 \\
      --over 19.key --log audit")]
pub struct Resume {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// One of them [default: all]
    #[arg(long, value_name = "DISGUISE")]
    pub id: Option<DisguiseId>,
    /// The credential that it was begun with, which is not kept (the option twice for two shares)
    #[arg(long, value_name = "CREDENTIAL", requires = "id")]
    pub over: Vec<PathBuf>,
    /// Rows of a chunk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), default_value_t = CHUNK_ROWS)]
    pub chunk_rows: u32,
    /// The share of the time to work.
    #[command(flatten)]
    pub pace: ShareChoice,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Reveals a disguise as far as that is safe, and names every row that stays, with the reason.
///
/// The exit status is 4 when something stays; the same command tries again later.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise reveal --db sqlite:app.db --id 5a0c91b2d3e4f506 --user 19 \\
      --credential 19.key --log audit
  probity disguise reveal --db sqlite:app.db --id 5a0c91b2d3e4f506 --user 19 \\
      --credential - --references retain --json --log audit")]
pub struct Reveal {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The disguise, as apply named it
    #[arg(long, value_name = "DISGUISE")]
    pub id: DisguiseId,
    /// Id of the user, as in the users table; a private key needs none
    #[arg(long, value_name = "U", default_value = "")]
    pub user: String,
    /// File with the private key, the recovery token or the password; or twice, each with a share of the token
    #[arg(long, value_name = "FILE", required = true)]
    pub credential: Vec<PathBuf>,
    /// Treatment of rows made while a placeholder owned things
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub references: ReferencesChoice,
    /// Leave a row disguised whole when one of its columns was changed
    #[arg(long)]
    pub whole_rows: bool,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The treatment of rows made while a placeholder owned things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ReferencesChoice {
    /// They go to the returning owner
    #[default]
    Recorrelate,
    /// They are deleted
    Delete,
    /// They and the placeholder stay
    Retain,
}

impl From<ReferencesChoice> for References {
    fn from(choice: ReferencesChoice) -> Self {
        match choice {
            ReferencesChoice::Recorrelate => Self::Recorrelate,
            ReferencesChoice::Delete => Self::Delete,
            ReferencesChoice::Retain => Self::Retain,
        }
    }
}

/// Makes a key that signs receipts, and prints the public key that checks them.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise receipt-key receipts.key --name example.com/receipts \\
      > receipts.pub")]
pub struct ReceiptKey {
    /// New key file, for its owner alone; an existing one is read and its public key printed again
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the signer, like example.com/receipts
    #[arg(long, value_name = "NAME")]
    pub name: String,
}

/// Checks a receipt of forgetting with nothing but a public key.
///
/// The exit status is 3 when it proves nothing: not signed by that key, changed, or about somebody else.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise check-receipt 19.receipt --key receipts.pub --user 19")]
pub struct CheckReceipt {
    /// The receipt
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// File with the public key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Id of the user whom it must be about
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// Tenant whose user it must be about, in a database with tenants
    #[arg(long, value_name = "T", requires = "user")]
    pub tenant: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Records a schema migration, to be applied to hidden rows when they are revealed.
///
/// To be run after the migration, before anybody disguises anything again. Prints the names of all updates, the oldest
/// first; without a file it only does that.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise update --db sqlite:app.db --file 0042.toml --log audit
  probity disguise update --db sqlite:app.db --file 0043.toml \\
      --spec new-names.toml
  probity disguise update --db sqlite:app.db")]
pub struct Update {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Mappings of rows, TOML or JSON; may be repeated, in order
    #[arg(long, value_name = "MAPPING")]
    pub file: Vec<PathBuf>,
    /// Put the mappings in the place of recorded ones of the same names, which do not fit
    #[arg(long, requires = "file")]
    pub replace: bool,
    /// Specification that says who users and owners are since the migration [default: what the database holds]
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// The description of the application.
    #[command(flatten)]
    pub description: Description,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

pub(super) fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a parameter is written NAME=VALUE".to_owned()),
    }
}
