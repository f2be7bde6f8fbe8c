//! The arguments of what a person asks for with a credential.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use probity_disguise::{DisguiseId, Suite};

use super::disguise::DatabaseChoice;
use super::entry::EntryChoice;

/// The user who asks, with their credential.
#[derive(ClapArgs)]
pub struct Holder {
    /// Id of the user, as in the users table
    #[arg(long, value_name = "U")]
    pub user: String,
    /// File with the private key, the recovery token or the password; or twice, each with a share of the token
    #[arg(long, value_name = "FILE", required = true)]
    pub credential: Vec<PathBuf>,
}

/// Lists the placeholders that a user may act as, one id a line.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise speaks-for --db sqlite:app.db --user 19 --credential 19.key")]
pub struct SpeaksFor {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The user and their credential.
    #[command(flatten)]
    pub holder: Holder,
    /// The log that takes an entry of a refusal, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Lists the disguises that hide something of a user, the oldest first.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise list --db sqlite:app.db --user 19 --credential 19.key --json")]
pub struct List {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The user and their credential.
    #[command(flatten)]
    pub holder: Holder,
    /// The log that takes an entry of a refusal, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Hands a user everything that disguises hide of them, decrypted with their credential; nothing is changed.
///
/// Numbers are numbers, and what JSON has no form for is an object: {"base64": ...} binary, {"real": ...} infinities.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise export --db sqlite:app.db --user 19 --credential 19.key \\
      --log audit -o 19.json
  probity disguise export --db sqlite:app.db --user 19 --credential 19.key \\
      --id 5a0c91b2d3e4f506")]
pub struct ExportHidden {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The user and their credential.
    #[command(flatten)]
    pub holder: Holder,
    /// One disguise, as apply named it [default: all of them]
    #[arg(long, value_name = "DISGUISE")]
    pub id: Option<DisguiseId>,
    /// New file for the JSON document, for its owner alone [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Prints the names by which the log speaks of a user, one a line, for `probity export --subject`.
///
/// The first is that of entries made now; older entries may have the second. A name comes from the key of the log, the salt of
/// the database and the id together. With a credential it must be the user's, and a refusal is an entry.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise subject-name --db sqlite:app.db --user 19 --log audit
  probity export audit --format jsonl \\
      --subject \"$(probity disguise subject-name --db sqlite:app.db --user 19 \\
      --log audit | head -n 1)\"
  probity disguise subject-name --db sqlite:app.db --user 19 \\
      --credential 19.key --log audit")]
pub struct SubjectName {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Id of the user, as in the users table
    #[arg(long, value_name = "U")]
    pub user: String,
    /// Credential of the user, or twice a share of it: the names are given to nobody else then
    #[arg(long, value_name = "FILE")]
    pub credential: Vec<PathBuf>,
    /// The log whose names are meant, and the attribution of an entry of a refusal.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Ends the registration of a user whose row is gone from the users table; records and credentials stay the person's.
///
/// An application does it when it deletes an account: until then whoever gets the id cannot register, and what is hidden of theirs is
/// sealed to the person before.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise unregister --db sqlite:app.db --user 19 --log audit
  probity disguise unregister --db sqlite:app.db --user 19 --credential 19.key \\
      --log audit")]
pub struct Unregister {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// Id of the user, as in the users table
    #[arg(long, value_name = "U")]
    pub user: String,
    /// Credential of the user, or twice a share of it: needed while the row is there
    #[arg(long, value_name = "FILE")]
    pub credential: Vec<PathBuf>,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Destroys records for good: nobody can ever reveal what they hid.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise forget --db sqlite:app.db --user 19 --credential 19.key \\
      --id 5a0c91b2d3e4f506 --log audit
  probity disguise forget --db sqlite:app.db --user 19 --credential 19.key \\
      --everything --log audit
  probity disguise forget --db sqlite:app.db --user 19 --credential 19.key \\
      --everything --receipt 19.receipt --receipt-key receipts.key --log audit")]
#[command(group(ArgGroup::new("what").required(true).args(["id", "everything"])))]
pub struct Forget {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The user and their credential.
    #[command(flatten)]
    pub holder: Holder,
    /// The disguise, as apply named it
    #[arg(long, value_name = "DISGUISE")]
    pub id: Option<DisguiseId>,
    /// All records of the user, every credential and the registration
    #[arg(long)]
    pub everything: bool,
    /// New file for a signed receipt
    #[arg(long, value_name = "FILE", requires = "receipt_key")]
    pub receipt: Option<PathBuf>,
    /// Key file that signs it, as receipt-key made it
    #[arg(long, value_name = "FILE")]
    pub receipt_key: Option<PathBuf>,
    /// The log that takes the entry, and its attribution.
    #[command(flatten)]
    pub entry: EntryChoice,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Replaces a user's password, recovery token and shares, or with --new-key the private key too.
///
/// With --new-key everything that the old key opens is encrypted anew. After a password, token or share leaked it takes --new-key: without it the private key
/// stays, and whoever has an old copy of the database and the old password or token has the key.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity disguise rekey --db sqlite:app.db --user 19 --credential old.pw \\
      --password-file new.pw --credential-out 19.token --log audit
  probity disguise rekey --db sqlite:app.db --user 19 --credential 19.key \\
      --new-key --credential-out 19-new.key --log audit")]
pub struct Rekey {
    /// The database.
    #[command(flatten)]
    pub database: DatabaseChoice,
    /// The user and their credential.
    #[command(flatten)]
    pub holder: Holder,
    /// Make a new private key: earlier keys, passwords, tokens and shares of the user no longer work then
    #[arg(long)]
    pub new_key: bool,
    /// Suite of the new key: x25519 or x-wing [default: that of the old key]
    #[arg(long, value_name = "SUITE", requires = "new_key")]
    pub suite: Option<Suite>,
    /// File with the new password on its first line
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
