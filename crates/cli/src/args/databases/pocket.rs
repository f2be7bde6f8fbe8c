//! The arguments of `pocket`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

/// Memory of the engine where nothing else is said: that of the paper's token.
const MEMORY_BYTES: usize = 65_536;
/// Mebibytes of the flash chip where nothing else is said.
const SIZE_MIB: u32 = 1024;
/// Mebibytes of the largest chip.
const SIZE_MIB_MAX: i64 = 65_536;
/// Rows of one commit where nothing else is said.
const ROWS_PER_COMMIT: u32 = 64;

/// Keeps a database in one file, encrypted and authenticated, in 64 KB of memory.
///
/// FILE is the flash chip, which others may see and keep. FILE.root beside it stands for the inside of a token: it
/// holds the key and what every commit makes final. Whoever has it reads the database; whoever loses it has lost it.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket create vault.pocket --schema vault.sql
  probity pocket import vault.pocket visits visits.csv
  probity pocket query vault.pocket \\
      \"SELECT doctor, COUNT(*) FROM visits GROUP BY doctor\" --format csv
  probity pocket verify vault.pocket")]
pub struct Pocket {
    /// The command to run.
    #[command(subcommand)]
    pub command: PocketCommand,
}

/// The commands for a pocket database.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum PocketCommand {
    Create(Box<PocketCreate>),
    Exec(PocketExec),
    Import(PocketImport),
    Query(PocketQuery),
    Schema(PocketSchema),
    Reorganize(PocketReorganize),
    Verify(PocketVerify),
    Sign(PocketSign),
    Extract(PocketExtract),
    Check(PocketCheck),
    Stats(PocketStats),
    Simulate(PocketSimulate),
}

/// The choice of a pocket database.
#[derive(ClapArgs)]
pub struct PocketChoice {
    /// File of the database
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// File with the key and the state of the last commit [default: PROBITY_POCKET_ROOT, else FILE.root]
    #[arg(long, value_name = "ROOT")]
    pub root: Option<PathBuf>,
}

/// The memory that a new database may use, and the size to which it may grow.
#[derive(ClapArgs)]
pub struct PocketExtent {
    /// Bytes of memory that the engine may use, now and whenever it opens the database
    #[arg(long, value_name = "BYTES", default_value_t = MEMORY_BYTES)]
    pub ram: usize,
    /// Size of the flash chip in MiB; the file grows with use
    #[arg(long, value_name = "MIB", default_value_t = SIZE_MIB, value_parser = clap::value_parser!(u32).range(1..=SIZE_MIB_MAX))]
    pub size: u32,
}

/// Creates a database: empty, from SQL, from another database, or from what is held about a person.
#[derive(ClapArgs)]
#[command(group(clap::ArgGroup::new("source").args(["from", "from_file"])))]
#[command(group(clap::ArgGroup::new("person").multiple(true).args(["log", "store", "disguises", "credentials"])))]
#[command(after_help = "Examples:
  probity pocket create vault.pocket --schema vault.sql
  probity pocket create copy.pocket --from sqlite:app.db --index people.name
  probity pocket create copy.pocket --from sqlite:app.db \\
      --unlinked likes.user_id --index likes.user_id
  probity pocket create mine.pocket --log audit --subject alice
  probity pocket create mine.pocket --subject alice --log audit --store data \\
      --policy policy.toml --credential 19.key
  probity pocket create small.pocket --ram 40960 --size 64")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what clap parses")]
pub struct PocketCreate {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// File of SQL statements to run
    #[arg(long, value_name = "SQLFILE")]
    pub schema: Option<PathBuf>,
    /// Another database, whose tables and rows are taken over: sqlite:FILE, mysql://... or postgres://..., without a password
    #[arg(long, value_name = "URL", conflicts_with = "schema")]
    pub from: Option<String>,
    /// File with the address of that database on its first line, which may hold a password
    #[arg(long, value_name = "FILE", conflicts_with = "schema")]
    pub from_file: Option<PathBuf>,
    /// Take over this table only; may be repeated
    #[arg(long = "table", value_name = "TABLE", requires = "source")]
    pub tables: Vec<String>,
    /// Index this column of a table taken over, as TABLE.COLUMN; may be repeated
    #[arg(long = "index", value_name = "COLUMN", requires = "source")]
    pub indexes: Vec<String>,
    /// Take over this foreign key of one column, TABLE.COLUMN, as a plain column; may be repeated
    #[arg(long = "unlinked", value_name = "COLUMN", requires = "source")]
    pub unlinked: Vec<String>,
    /// Take over this table without what cannot be kept of it: generated columns, unique keys, and numbers beside texts; may be repeated
    #[arg(long = "plain", value_name = "TABLE", requires = "source")]
    pub plain: Vec<String>,
    /// Take over NULL as 0 or as an empty text; without it a NULL is an error
    #[arg(long, requires = "source")]
    pub null_as_empty: bool,
    /// A log whose entries about one subject are taken over, in a fixed schema
    #[arg(long, value_name = "DIR", requires = "subject", conflicts_with_all = ["schema", "source"])]
    pub log: Option<PathBuf>,
    /// Folder of an embedded store whose keys about the subject are taken over with their values
    #[arg(long, value_name = "DIR", requires = "subject", conflicts_with_all = ["schema", "source"])]
    pub store: Option<PathBuf>,
    /// Key file of the store [default: the store's DIR.key]
    #[arg(long, value_name = "FILE", requires = "store")]
    pub store_key: Option<PathBuf>,
    /// Policy that says whose a key is, as for the proxy [default: the built-in one]
    #[arg(long, value_name = "FILE", requires = "store")]
    pub policy: Option<PathBuf>,
    /// JSON of rows that a disguise hid of the subject, as `disguise export` writes it; may be repeated
    #[arg(long, value_name = "FILE", requires = "subject", conflicts_with_all = ["schema", "source"])]
    pub disguises: Vec<PathBuf>,
    /// Id of the subject in the database of these disguises [default: S]; may be repeated
    #[arg(long = "user", value_name = "U", requires = "disguises")]
    pub users: Vec<String>,
    /// Tenant of that id, where the database has several
    #[arg(long, value_name = "T", requires = "disguises")]
    pub tenant: Option<String>,
    /// File of a credential for disguises, which is put into the database; may be repeated
    #[arg(long = "credential", value_name = "FILE", requires = "subject", conflicts_with_all = ["schema", "source"])]
    pub credentials: Vec<PathBuf>,
    /// Person whose entries, keys and rows are meant
    #[arg(long, value_name = "S", requires = "person", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub subject: Option<String>,
    /// Root key file of the log [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE", requires = "log")]
    pub log_key: Option<PathBuf>,
    /// Take over what is left of a damaged log; it ends with status 3 then
    #[arg(long, requires = "log")]
    pub damaged_too: bool,
    /// The memory and the size.
    #[command(flatten)]
    pub extent: PocketExtent,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs SQL statements; each is final when it is done, unless BEGIN and COMMIT say otherwise.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket exec vault.pocket \\
      \"INSERT INTO likes VALUES (9, 4); DELETE FROM visits WHERE id = 4\"
  probity pocket exec vault.pocket --file changes.sql --json")]
pub struct PocketExec {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Statements, with semicolons between them
    #[arg(value_name = "SQL", required_unless_present = "script")]
    pub sql: Option<String>,
    /// File of statements; - is standard input
    #[arg(long = "file", value_name = "SQLFILE", conflicts_with = "sql")]
    pub script: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Inserts the rows of a file: CSV with a heading, or JSON objects.
///
/// The heading, or the names in the objects, say which columns are meant. What was committed before a row that is
/// refused stays; the message says how many rows that are.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket import vault.pocket visits visits.csv
  probity pocket import vault.pocket visits - --format json --rows-per-commit 1")]
pub struct PocketImport {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Table that takes the rows
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// File of rows; - is standard input
    #[arg(value_name = "ROWS")]
    pub rows: PathBuf,
    /// Form of the file [default: json for names that end in json or jsonl, else csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RowsFormat>,
    /// Rows that become final together
    #[arg(long, value_name = "N", default_value_t = ROWS_PER_COMMIT, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows_per_commit: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The form of rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowsFormat {
    /// Comma-separated values with a heading
    Csv,
    /// JSON objects, one after the other or in a list
    Json,
}

/// Shows the rows of a SELECT.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket query vault.pocket \\
      \"SELECT * FROM visits WHERE doctor = 2 ORDER BY day\"
  probity pocket query vault.pocket \"SELECT COUNT(*) FROM visits\" --format json
  probity pocket query vault.pocket \\
      \"SELECT day FROM visits WHERE doctor = 2\" --explain")]
pub struct PocketQuery {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// The statement
    #[arg(value_name = "SELECT")]
    pub sql: String,
    /// Form of the rows: as a table, as CSV, or as one JSON object a line
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: ShownFormat,
    /// Equals --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Tell indexes, sorted runs, passes and transfers instead of the rows
    #[arg(long)]
    pub explain: bool,
}

/// The form of rows on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ShownFormat {
    /// Columns below a heading
    #[default]
    Table,
    /// One object a line
    Json,
    /// Comma-separated values with a heading
    Csv,
}

/// Shows the tables of the database, with the columns, types and keys of each, as CREATE TABLE statements.
///
/// A file of them makes an empty database of the same tables with `probity pocket create FILE --schema`.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket schema vault.pocket
  probity pocket schema vault.pocket --json")]
pub struct PocketSchema {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Writes all rows anew in the order that queries like, without what was deleted.
///
/// The work may be stopped at any time, by --steps, a signal or a loss of power; the same command goes on. Meanwhile the
/// database is used as always.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket reorganize vault.pocket
  probity pocket reorganize vault.pocket --levels
  probity pocket reorganize vault.pocket --steps 5 --json
  probity pocket reorganize vault.pocket --cancel")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what clap parses")]
pub struct PocketReorganize {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Do at most so many steps now
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Leave old parts alone as long as that saves writing; what was deleted is erased by the next one without this
    #[arg(long)]
    pub levels: bool,
    /// Give up a reorganisation under way; what is stored stays as it is
    #[arg(long, conflicts_with_all = ["steps", "levels"])]
    pub cancel: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Reads every page of the database and checks that it is the one that was written.
///
/// With --keyless nothing but the file, its digest and a verifier key is used: the reorganised part is compared with
/// what its owner signed, and changes by whoever holds the root file are found too.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket verify vault.pocket
  probity pocket verify vault.pocket --json
  probity pocket verify copy.pocket --keyless vault.pocket.vkey \\
      --digest vault.pocket.digest")]
pub struct PocketVerify {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Check the reorganised part against its signed digest, with this verifier key alone
    #[arg(long, value_name = "VKEY")]
    pub keyless: Option<PathBuf>,
    /// The digest that `probity pocket sign` made [default: FILE.digest]
    #[arg(long, value_name = "DIGEST", requires = "keyless")]
    pub digest: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Signs the reorganised part, so that others can check it without the key.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket sign vault.pocket
  probity pocket sign vault.pocket -o today.digest --key-out my.vkey --json")]
pub struct PocketSign {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// New file for the digest [default: FILE.digest, where an older digest is replaced]
    #[arg(short, long, value_name = "DIGEST")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long)]
    pub overwrite: bool,
    /// The key that checks it [default: FILE.vkey]
    #[arg(long, value_name = "VKEY")]
    pub key_out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Writes the rows of a SELECT, one JSON object a line, signed for whoever gets them.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket extract vault.pocket \\
      \"SELECT day FROM visits WHERE doctor = 2\" -o days.extract")]
pub struct PocketExtract {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// The statement
    #[arg(value_name = "SELECT")]
    pub sql: String,
    /// New file of rows and their signature
    #[arg(short, long, value_name = "EXTRACT")]
    pub output: PathBuf,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long)]
    pub overwrite: bool,
    /// The key that checks it [default: FILE.vkey]
    #[arg(long, value_name = "VKEY")]
    pub key_out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Checks an extract with a verifier key alone.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket check days.extract --key vault.pocket.vkey")]
pub struct PocketCheck {
    /// File that `probity pocket extract` made
    #[arg(value_name = "EXTRACT")]
    pub file: PathBuf,
    /// The verifier key of the database
    #[arg(long, value_name = "VKEY")]
    pub key: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Tells what the database holds and what it has cost: transfers, cipher operations, memory, wear.
///
/// The rows of a table are those that were ever inserted, deleted ones included, as ids are never used again; how many there
/// are is asked with SELECT COUNT(*).
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket stats vault.pocket
  probity pocket stats vault.pocket --json")]
pub struct PocketStats {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs statements on a copy and tells how long each would take on the token; the database stays as it is.
///
/// The time is that of the flash chip by its data sheet, times the factor that the paper measured between its model
/// and its token. The cipher works beside it and is counted, not timed.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity pocket simulate vault.pocket \\
      \"SELECT day FROM visits WHERE doctor = 2\"
  probity pocket simulate vault.pocket \\
      \"INSERT INTO visits VALUES (NULL, 2, 20260321)\" --json")]
pub struct PocketSimulate {
    /// The database.
    #[command(flatten)]
    pub pocket: PocketChoice,
    /// Statements, with semicolons between them
    #[arg(value_name = "SQL")]
    pub sql: String,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
