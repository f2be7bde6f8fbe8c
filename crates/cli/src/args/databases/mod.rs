//! The commands about people in databases: what hides them, what they carry, and the server for it.

mod custody;
mod disguise;
mod entry;
mod person;
mod pocket;
mod serve;
mod subject;

use clap::Subcommand;

pub use self::custody::{
    AppliedChoice, AuthorityChoice, BeginLog, Cancel, Decay, Dismiss, HeldChoice, Hold, Holds,
    Lift, Replay, Scheduled, Separate, Span, Sweep,
};
pub use self::disguise::{
    Apply, Check, CheckReceipt, DatabaseChoice, Description, Disguise, DisguiseCommand, Draft,
    Plan, ReceiptKey, ReferencesChoice, Register, Resume, Reveal, ShareChoice, SpecChoice, Update,
};
pub use self::entry::{Attribution, EntryChoice, LogChoice};
pub use self::person::{
    ExportHidden, Forget, Holder, List, Rekey, SpeaksFor, SubjectName, Unregister,
};
pub use self::pocket::{
    Pocket, PocketCheck, PocketChoice, PocketCommand, PocketCreate, PocketExec, PocketExtent,
    PocketExtract, PocketImport, PocketQuery, PocketReorganize, PocketSchema, PocketSign,
    PocketSimulate, PocketStats, PocketVerify, RowsFormat, ShownFormat,
};
pub use self::serve::Serve;
pub use self::subject::{Subject, SubjectCommand, SubjectExport};

/// The commands about people in databases.
#[derive(Subcommand)]
#[expect(
    missing_docs,
    reason = "each command's description stands at its arguments"
)]
pub enum DatabasesCommand {
    Disguise(Box<Disguise>),
    Pocket(Box<Pocket>),
    Subject(Box<Subject>),
    Serve(Serve),
}
