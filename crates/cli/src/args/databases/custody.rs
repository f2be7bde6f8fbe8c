//! The arguments of what keeps disguises from happening, and of what makes them happen and end by themselves.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use probity_disguise::{DisguiseId, HoldId};

use super::disguise::{DatabaseChoice, Description, ShareChoice, SpecChoice, parse_setting};
use super::entry::{EntryChoice, LogChoice};

/// A person or a disguise.
#[derive(ClapArgs)]
#[group(required = true, multiple = false)]
pub struct HeldChoice {
    /// Id of the user, as in the users table
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// The disguise, as apply named it
    #[arg(long, value_name = "DISGUISE")]
    pub id: Option<DisguiseId>,
}

/// The authority for a decision; both parts are recorded as they are written.
#[derive(ClapArgs)]
pub struct AuthorityChoice {
    /// The decider: an office or an officer, never the person whose data it is
    #[arg(long, value_name = "WHO")]
    pub actor: String,
    /// Legal basis or file number
    #[arg(long, value_name = "WHY")]
    pub basis: String,
    /// Purpose of the decision
    #[arg(long, value_name = "WHAT")]
    pub purpose: Option<String>,
}

/// Holds a person or a disguise: nothing of it is hidden or destroyed until the hold is lifted.
///
/// Prints the id of the hold. Each hold stands until it is lifted itself; a reveal stays possible.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise hold --db sqlite:app.db --user 19 --actor 'legal office' \\
      --basis 'file 12/2026' --log audit
  probity disguise hold --db sqlite:app.db --id 5a0c91b2d3e4f506 --actor court \\
      --basis 'order 7 C 81/26' --log audit")]
pub struct Hold {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The person or the disguise to hold.
    #[command(flatten)]
    pub held: HeldChoice,
    /// The user is away: a disguise took the row from the users table. Give the id exactly as it was spelled
    /// there; it cannot be checked
    #[arg(long, requires = "user")]
    pub away: bool,
    /// The authority that decides.
    #[command(flatten)]
    pub authority: AuthorityChoice,
    /// The log that takes the entry.
    #[command(flatten)]
    pub log: LogChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Lifts a hold.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise lift --db sqlite:app.db --hold 0c2d31f4a5b69788 \\
      --actor 'legal office' --basis 'case closed' --log audit")]
pub struct Lift {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The hold, as hold named it
    #[arg(long, value_name = "HOLD")]
    pub hold: HoldId,
    /// The authority that decides.
    #[command(flatten)]
    pub authority: AuthorityChoice,
    /// The log that takes the entry.
    #[command(flatten)]
    pub log: LogChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Lists the holds in force, the oldest first; whom or what they hold is stored as a hash alone.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise holds --db sqlite:app.db
  probity disguise holds --db sqlite:app.db --user 19 --json")]
pub struct Holds {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Only those on this user
    #[arg(long, value_name = "U", conflicts_with = "id")]
    pub user: Option<String>,
    /// Only those on this disguise
    #[arg(long, value_name = "DISGUISE")]
    pub id: Option<DisguiseId>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Lists disguises in their grace period, the next first.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise scheduled --db sqlite:app.db
  probity disguise scheduled --db sqlite:app.db --user 19 --json")]
pub struct Scheduled {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Only those of this user
    #[arg(long, value_name = "U")]
    pub user: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Stops a disguise in its grace period, or one of everybody in chunks that is not done yet.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise cancel --db sqlite:app.db --id 5a0c91b2d3e4f506 --log audit")]
pub struct Cancel {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The disguise, as apply named it
    #[arg(long, value_name = "DISGUISE")]
    pub id: DisguiseId,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Gives a copied database, or one whose log is lost, an identity of its own.
///
/// From then on entries about the original are not replayed here, nor those about this one there. The log named is this one's, and not the
/// original's. Earlier backups belong to the original: make one afterwards. People, records and credentials stay as they are.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise separate --db sqlite:staging.db --log staging")]
pub struct Separate {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The log that takes the entry, and those of this database from now on, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Notes the log of a database in which something was done without any.
///
/// A backup from before the first log looks the same whether the database has a log since or not. So no command takes the first log that
/// is named. Name it here where the database never had a log; where it has one, replay that one instead.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise begin-log --db sqlite:app.db --log audit")]
pub struct BeginLog {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The log that takes the entry, and those of this database from now on, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Applies disguises whose grace period is over, and destroys the records of those that have ended.
///
/// To be run once a day. Stopped anywhere, the next sweep goes on. The exit status is 4 when a disguise was refused; it stays scheduled.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise sweep --db sqlite:app.db --log audit
  probity disguise sweep --db sqlite:app.db --dry-run --json")]
pub struct Sweep {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Change nothing, and say what is due
    #[arg(long)]
    pub dry_run: bool,
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

/// Disguises people who have been inactive; each can come back with their credential.
///
/// Each person is a transaction: stopped anywhere, the next run takes the rest. Whoever is disguised and stays in the
/// users table is taken again only after their row was changed. The exit status is 4 when it was refused for somebody.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise decay --db sqlite:app.db --spec decay.toml \\
      --inactive 'people.last_seen < :since' --set since=2025-01-01 --dry-run
  probity disguise decay --db sqlite:app.db --spec decay.toml \\
      --set since=2025-01-01 --per-minute 60 --log audit")]
pub struct Decay {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specification.
    #[command(flatten)]
    pub spec: SpecChoice,
    /// Condition on the users table that says who is inactive [default: `inactive` of the specification]
    #[arg(long, value_name = "CONDITION")]
    pub inactive: Option<String>,
    /// Time for which each can be revealed, like 10y [default: for good]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    pub expires: Option<Span>,
    /// People that are looked at at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub page: u32,
    /// People that are disguised in a minute at most [default: as fast as it goes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub per_minute: Option<u32>,
    /// Change nothing, and say how many people it would be
    #[arg(long)]
    pub dry_run: bool,
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

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its length in nanoseconds.
    pub nanoseconds: i64,
}

pub(super) fn parse_span(text: &str) -> Result<Span, String> {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    let unit = |last: char| match last {
        's' => Some(SECOND),
        'm' => Some(60 * SECOND),
        'h' => Some(3_600 * SECOND),
        'd' => Some(DAY),
        'w' => Some(7 * DAY),
        'y' => Some(365 * DAY),
        _ => None,
    };
    let mut letters = text.chars();
    let length = letters.next_back().and_then(unit);
    let count: Option<i64> = letters.as_str().parse().ok().filter(|count| *count >= 0);
    let nanoseconds = length
        .zip(count)
        .and_then(|(length, count)| length.checked_mul(count));
    nanoseconds
        .map(|nanoseconds| Span { nanoseconds })
        .ok_or_else(|| {
            "a span of time is a number with s, m, h, d, w or y (of 365 days)".to_owned()
        })
}

/// Repeats the logged operations that a restored backup lacks, oldest first.
///
/// Disguises keep their ids and the keys of their people. What takes a credential or a file that is not given is listed
/// with the reason, and the exit status is 4; the same command tries again.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise replay --db sqlite:app.db --log audit --spec leave.toml \\
      --dry-run
  probity disguise replay --db sqlite:app.db --log audit --spec leave.toml \\
      --spec class.toml --set class=2026")]
pub struct Replay {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specifications, with the values of their parameters.
    #[command(flatten)]
    pub applied: AppliedChoice,
    /// The description by which disguises were made whose specifications have none.
    #[command(flatten)]
    pub description: Description,
    /// Only list what was missed and what would become of it
    #[arg(long)]
    pub dry_run: bool,
    /// The share of the time to work.
    #[command(flatten)]
    pub pace: ShareChoice,
    /// The log to read the operations from, which takes the entries too, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// The specifications that were applied, and the values of their parameters.
#[derive(ClapArgs)]
pub struct AppliedChoice {
    /// Specification that was applied, as it was then; may be repeated
    #[arg(long, value_name = "FILE")]
    pub spec: Vec<PathBuf>,
    /// Value of a parameter of the specifications; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
}

/// Ends missed operations on the list of replay that nobody wants done again, and records who decided so.
///
/// Nothing is done or undone, and what depends on them is decided as before. An earlier backup of the database lists them again.
/// Take the names from replay, which prints them behind each reason, and give the specifications and values that replay is given.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise dismiss --db sqlite:app.db --log audit --spec leave.toml \\
      --actor 'data protection office' --basis 'ticket 4711' \\
      3f0c2d31f4a5b697")]
pub struct Dismiss {
    /// Operation, as replay names it
    #[arg(required = true, value_name = "OPERATION", value_parser = parse_operation)]
    pub operations: Vec<String>,
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The specifications, with the values of their parameters.
    #[command(flatten)]
    pub applied: AppliedChoice,
    /// The authority that decides.
    #[command(flatten)]
    pub authority: AuthorityChoice,
    /// The log to read the operations from, which takes the entries too.
    #[command(flatten)]
    pub log: LogChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn parse_operation(text: &str) -> Result<String, String> {
    let is_name = text.len() == 16 && text.chars().all(|it| it.is_ascii_hexdigit());
    if is_name {
        return Ok(text.to_ascii_lowercase());
    }
    Err("an operation has 16 hexadecimal digits, as replay prints them".to_owned())
}
