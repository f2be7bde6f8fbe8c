//! Errors of checks, disguises and reveals.

mod disguise_id;
mod spec;
mod update;

use probity_format::DecodeError;

use crate::database::{DatabaseError, DatabaseErrorKind};
pub use disguise_id::DisguiseId;
pub use spec::SpecError;
pub use update::UpdateError;

/// The cause of a failed operation; its transaction was rolled back, so nothing changed, but for
/// [`Error::Unsettled`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The specification, the annotation or the generator is wrong, or does not fit the database.
    #[error("the specification is refused")]
    Spec(#[from] SpecError),
    /// The database refused or failed.
    #[error("the database failed while {doing}")]
    Database {
        /// The action that failed.
        doing: &'static str,
        /// The database's own error.
        #[source]
        source: DatabaseError,
    },
    /// The connection was lost at the commit and the database could not be asked what became of it: everything was done,
    /// or nothing. A credential that was handed over may be the one that fits.
    #[error("the database was lost at the commit, so that it is not known whether it was done")]
    Unsettled(#[source] DatabaseError),
    /// The cryptographic suite of a key is not among those that this program has.
    #[error("suite {name} is not known here, x25519 and x-wing are")]
    Suite {
        /// Its name, or its number in what is stored.
        name: String,
    },
    /// The tenant that was said does not fit the database. It has none, or one must be said, or it
    /// writes that tenant in another form.
    #[error("{what}")]
    Tenant {
        /// The fault, one clause.
        what: String,
    },
    /// The database was never prepared by [`Engine::install`](crate::Engine::install).
    #[error("the database has no tables of disguises")]
    NotInstalled,
    /// A table of the engine was there and is gone. Nothing is done without it, because what it held would be missing unnoticed.
    #[error("the database has lost table {table}, which holds what disguises need")]
    RecordsLost {
        /// The table.
        table: &'static str,
    },
    /// A row of a table of the engine is damaged, and the operation needs it.
    #[error("the row {row} of table {table} is damaged")]
    DamagedRow {
        /// The table.
        table: &'static str,
        /// The key of the row, as hexadecimal digits or a name.
        row: String,
    },
    /// A part of a record in `probity_bags` is missing or damaged, and the operation needs it.
    #[error(
        "a record of disguise {disguise} cannot be read: a row of table probity_bags is missing or damaged"
    )]
    Unreadable {
        /// The disguise.
        disguise: DisguiseId,
    },
    /// A disguise in chunks was begun with a sink, and there is none that could be told of its end.
    #[error("disguise {disguise} was begun with a log, and its end would be missing there")]
    Unrecorded {
        /// The disguise.
        disguise: DisguiseId,
    },
    /// A person is registered already.
    #[error("the user is registered already")]
    AlreadyRegistered,
    /// The users table has no row of the person who is meant: the id is nobody's, or its person is away.
    #[error("table {table} has no row of this user")]
    NoSuchUser {
        /// The users table.
        table: String,
    },
    /// The person has been disguised, account and all, as the credential tells.
    #[error("the user is away already by disguise {by}")]
    AlreadyDisguised {
        /// The disguise that took the account.
        by: DisguiseId,
    },
    /// The person who is meant has no key, so that nobody could ever bring them back.
    #[error("the user has a row in table {table} and is not registered")]
    NotRegistered {
        /// The users table.
        table: String,
    },
    /// Rows belong to someone without a registered key, so that nobody could ever bring them back.
    #[error("table {table}: {} to nobody who is registered", belonging(*rows))]
    Unregistered {
        /// The table.
        table: String,
        /// The number of rows.
        rows: u64,
    },
    /// Neither the key nor the password nor the token opens anything here; which one is not said.
    #[error("the credential does not fit")]
    WrongCredential,
    /// The disguise is not among those that the credential opens.
    #[error("there is no such disguise for this credential")]
    NoSuchDisguise,
    /// Another run went on with a disguise in chunks beside this one, and ended it: it did the rest, or the disguise was
    /// cancelled or taken back.
    #[error(
        "another run went on with disguise {disguise} and ended it: it did the rest, or cancelled or revealed it"
    )]
    EndedByAnother {
        /// The disguise.
        disguise: DisguiseId,
    },
    /// A legal hold stands in the way until it is lifted.
    #[error("a legal hold on {held} forbids it until it is lifted")]
    Held {
        /// The thing held: "the person", "the disguise" or "a person among them".
        held: &'static str,
    },
    /// The disguise was applied for a time that is over.
    #[error("the disguise has ended and cannot be revealed any more")]
    Ended,
    /// There is no such hold, or it was lifted already.
    #[error("there is no such hold")]
    NoSuchHold,
    /// Rows refer to a row about to be removed and the database would remove or empty them too.
    #[error(
        "removing rows of {table} would change {rows} rows of {child} by foreign key {columns}, which the specification leaves alone"
    )]
    WouldCascade {
        /// The table that loses rows.
        table: String,
        /// The table that refers to it.
        child: String,
        /// The columns of the foreign key.
        columns: String,
        /// The number of rows that refer to it.
        rows: u64,
    },
    /// Rows refer to rows about to be removed, and the database would refuse that.
    #[error(
        "removing rows of {table} is refused while {rows} rows of {child} refer to them by foreign key {columns}, which the specification leaves alone"
    )]
    WouldOrphan {
        /// The table that would lose rows.
        table: String,
        /// The table that refers to it.
        child: String,
        /// The columns of the foreign key.
        columns: String,
        /// The number of rows that refer to it.
        rows: u64,
    },
    /// Rows refer to a key about to change and the database would empty the reference.
    #[error(
        "changing the key of rows of {table} would empty references in rows of {child} by foreign key {columns}, ON UPDATE SET NULL or SET DEFAULT"
    )]
    WouldEmpty {
        /// The table whose rows would get another key.
        table: String,
        /// The table that refers to it.
        child: String,
        /// The columns of the foreign key.
        columns: String,
    },
    /// Rows of several people refer to each other in a circle, and none of them could come back
    /// without the others: whoever returned first would wait for good.
    #[error(
        "{rows} rows of several people refer to each other in a circle by {}, and none may be without its reference: no order of reveals could bring them back", keys.join(", ")
    )]
    Circle {
        /// The number of these rows.
        rows: u64,
        /// Their references, each as `TABLE.COLUMN`, several columns joined by `+`.
        keys: Vec<String>,
    },
    /// A generator could not produce an id that is not in use.
    #[error(
        "the generator of column {column} of {table} found no unused id in {tries} tries; give it more values than there are people"
    )]
    NoFreeId {
        /// The users table.
        table: String,
        /// Its column of ids.
        column: String,
        /// The number of tries.
        tries: u32,
    },
    /// The database refuses a placeholder: the specification makes it otherwise than its table takes it.
    #[error("a placeholder row of {table} is refused: {said}")]
    Placeholder {
        /// The users table.
        table: String,
        /// The words of the database, without values.
        said: String,
    },
    /// The key of a request that may be asked again stands for another request.
    #[error("the key was used for another request")]
    OtherRequest,
    /// A disguise in chunks was begun with a credential, which each chunk takes.
    #[error(
        "the disguise reaches rows behind placeholders, and the credential for that is not kept: give it again"
    )]
    OverNeeded,
    /// Operations of the database are told of in another log than the one at hand.
    #[error(
        "this database is already recorded in another log, and a replay needs all its operations in one"
    )]
    OtherLog,
    /// Operations of this database are told of in a log, and there is no sink that could tell of this
    /// one: a replay would not know of it.
    #[error(
        "this database is recorded in a log, and this operation would be missing there; a replay after a restore would bring back what it hides or forgets"
    )]
    LogNeeded,
    /// Operations of the database were done without a log, and nothing says that the one at hand is its
    /// first: the database may be a backup of one that another log tells of since.
    #[error(
        "operations were done on this database without a log, and nothing shows that this log is its first: the database may be a backup of one whose operations another log records"
    )]
    UnsaidLog,
    /// A database is to be made another one in the log that tells of it.
    #[error(
        "the log records the operations on this database already, and could not distinguish the new one from a backup of it"
    )]
    SameLog,
    /// A database is to be made another one in a log that may be the one that tells of it, or of what
    /// it was before: an earlier program noted that log by its key alone, which this log has.
    #[error(
        "a log of this database is noted by its key alone, as an earlier program did, and this log has the same key: it may be that one, and would not distinguish the new database from a backup"
    )]
    UnclearLog,
    /// A stored record is not what was written.
    #[error("a stored record is damaged")]
    Damaged(#[source] DecodeError),
    /// A stored record does not authenticate, or a part of it is missing.
    #[error("a stored record does not authenticate")]
    Forged,
    /// The cryptographic library failed; randomness or memory is missing.
    #[error("cryptography failed while {doing}")]
    Crypto {
        /// The action that failed.
        doing: &'static str,
    },
    /// An update recorded since cannot be applied to what is hidden.
    #[error("update {name} does not fit what is hidden")]
    Update {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: UpdateError,
    },
    /// The log did not take the entry, so the operation was rolled back.
    #[error("the log did not take the entry")]
    Audit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The new credential could not be handed over, so that nothing was committed under it.
    #[error("the new credential could not be handed over")]
    HandOver(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An invariant of the engine does not hold: going on could leave rows in clear that it would call hidden.
    #[error("a defect of probity, nothing was changed: {what}")]
    Defect {
        /// The invariant that does not hold, one clause.
        what: &'static str,
    },
    /// A value cannot be handled.
    #[error("{what}")]
    Value {
        /// The fault, one clause.
        what: String,
    },
}

fn belonging(rows: u64) -> String {
    let verb = if rows == 1 {
        "row belongs"
    } else {
        "rows belong"
    };
    format!("{rows} {verb}")
}

impl Error {
    /// Returns the error with its cause, for one of several in an answer. It quotes no value.
    pub fn with_cause(&self) -> String {
        match self {
            Self::Database { source, .. } | Self::Unsettled(source) => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }

    /// Returns the reason for a log: no person, no value.
    pub(crate) fn reason(&self) -> String {
        match self {
            // What is wrong may be a part of a condition, which may name somebody.
            Self::Spec(error) => format!("the specification is refused at {}", error.place),
            other => other.with_cause(),
        }
    }

    /// Returns whether another transaction was in the way, so that the same operation may be tried again.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Database { source, .. }
                if matches!(source.kind, DatabaseErrorKind::Busy | DatabaseErrorKind::Conflict)
        )
    }

    /// Returns whether nothing was changed for certain. A credential made for an operation may be
    /// thrown away only then: each kind of error says so for itself.
    pub const fn is_undone(&self) -> bool {
        match self {
            Self::Unsettled(_) => false,
            Self::Spec(_)
            | Self::Database { .. }
            | Self::Suite { .. }
            | Self::Tenant { .. }
            | Self::NotInstalled
            | Self::RecordsLost { .. }
            | Self::DamagedRow { .. }
            | Self::Unreadable { .. }
            | Self::Unrecorded { .. }
            | Self::AlreadyRegistered
            | Self::NoSuchUser { .. }
            | Self::AlreadyDisguised { .. }
            | Self::NotRegistered { .. }
            | Self::Unregistered { .. }
            | Self::WrongCredential
            | Self::NoSuchDisguise
            | Self::EndedByAnother { .. }
            | Self::Held { .. }
            | Self::Ended
            | Self::NoSuchHold
            | Self::WouldCascade { .. }
            | Self::WouldOrphan { .. }
            | Self::WouldEmpty { .. }
            | Self::Circle { .. }
            | Self::NoFreeId { .. }
            | Self::Placeholder { .. }
            | Self::OtherRequest
            | Self::OtherLog
            | Self::LogNeeded
            | Self::SameLog
            | Self::UnclearLog
            | Self::UnsaidLog
            | Self::OverNeeded
            | Self::Damaged(_)
            | Self::Forged
            | Self::Crypto { .. }
            | Self::Update { .. }
            | Self::Audit(_)
            | Self::HandOver(_)
            | Self::Defect { .. }
            | Self::Value { .. } => true,
        }
    }

    /// Returns whether it may be tried again at once.
    pub(crate) const fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Database { source, .. } if matches!(source.kind, DatabaseErrorKind::Conflict)
        )
    }

    /// Returns whether what is done for many people ends with it, because it would be the same for the
    /// next. What the database refuses of one person's rows says nothing of the next; of errors without
    /// a meaning of their own, as a trigger may raise them, that it still `answers` tells.
    pub(crate) fn ends_a_run(&self, answers: impl FnOnce() -> bool) -> bool {
        use DatabaseErrorKind::{
            Absent, Busy, Conflict, Constraint, NotUtf8, Other, Silent, Unique,
        };
        match self {
            Self::Database { source, .. } => match source.kind {
                Constraint | NotUtf8 | Unique => false,
                Other => !answers(),
                Absent | Busy | Conflict | Silent => true,
            },
            Self::Unsettled(_) | Self::NotInstalled | Self::RecordsLost { .. } | Self::Audit(_) => {
                true
            }
            _ => false,
        }
    }

    /// Returns whether somebody was denied what they asked for, in the sense of an entry's outcome.
    pub(crate) const fn is_denial(&self) -> bool {
        matches!(
            self,
            Self::WrongCredential | Self::NoSuchDisguise | Self::Ended | Self::Held { .. }
        )
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// Adds the current action to an error of the database.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, DatabaseError> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Database { doing, source })
    }
}
