//! The arguments of `prove`, `check-proof` and `check-receipts`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use probity_log::StreamName;

/// Writes the proof of one entry: a file that anyone checks with a verifier key and nothing else.
///
/// The stream decides what else the file shows: with proofs of entries the entry alone, otherwise the other
/// entries of its section or frame too; a note says how many. The root key stays here, keys in the file open no more
/// than what it shows. A recipient with the newest key, or one of the 6 before it, needs nothing else. For older keys name one (--recipient-key), or make a chain
/// of keys at the same time: one made after the log's next opening leaves the proof undecided.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity prove audit --index 41 -o entry.tlog-proof
  probity keys chain audit -o entry.chain
  probity prove audit --stream persons --index 0 -o entry.tlog-proof --alone \\
      --json
  probity prove audit --index 41 -o entry.tlog-proof --recipient-key theirs.vkey")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct Prove {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Stream of the entry
    #[arg(long, value_name = "S", value_parser = StreamName::new, default_value = StreamName::DEFAULT)]
    pub stream: StreamName,
    /// Index of the entry in its stream, from 0, as in its receipt
    #[arg(long, value_name = "N")]
    pub index: u64,
    /// New file to write; it appears once it is complete, for its owner alone
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file if it exists; keys, heads of logs, databases and what lies in a log never are
    #[arg(long)]
    pub overwrite: bool,
    /// Write nothing when the proof would show other entries too
    #[arg(long)]
    pub alone: bool,
    /// Verifier key that the recipient has, at most 16 keys older than the newest: the proof leads from there [default: the 6 before the newest, or all while the log has no more than 16]
    #[arg(long, value_name = "FILE")]
    pub recipient_key: Option<PathBuf>,
    /// Signed head that the recipient keeps, of the stream or of the journal, or one of each: the entry is proved under it, or from
    /// an older journal on [default: the newest]
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Vec<PathBuf>,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Checks the proof of an entry, offline, and prints what it proves: who did what when.
///
/// The exit status is 0 when it holds and 3 when it does not; then the part that broke is named. A proof leads over 16 keys at most; with an
/// older key give --chain too, with a chain made with the proof, or the log's witness key with --witness or --checkpoint. Whoever has an old signing key can sign another
/// history from its time on: --checkpoint compares with a head that you keep, which no key can change, and covers keys that were
/// replaced up to that head; --witness covers those that were replaced before it cosigned.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity check-proof entry.tlog-proof --key audit.vkey
  probity check-proof entry.tlog-proof --key audit.vkey --chain audit.chain
  probity check-proof entry.tlog-proof --key witness-key.vkey \\
      --witness witness.vkey
  probity check-proof entry.tlog-proof --key audit.vkey \\
      --checkpoint kept/checkpoint --json")]
pub struct CheckProof {
    /// The proof
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Verifier key of the log, from anybody who is trusted to know it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// A chain made with the proof, by `keys chain`, where the proof begins with a later key than yours
    #[arg(long, value_name = "FILE")]
    pub chain: Option<PathBuf>,
    /// Verifier key of a witness, which must have cosigned the journal's head in the proof
    #[arg(long, value_name = "FILE")]
    pub witness: Option<PathBuf>,
    /// Longest time since that witness cosigned, in seconds [default: any]
    #[arg(long, value_name = "SECONDS", requires = "witness")]
    pub witness_age: Option<u64>,
    /// A checkpoint that you keep: of the stream, under which the proof must stand, or of the journal, which must have grown from it
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Checks receipts against a copy of the log: that every entry with a receipt is still there, unchanged.
///
/// A receipt names the frame of its entry and the hash of the frame's record, which commits to every sealed byte of the
/// frame. The copy is verified as a whole, without any secret, and each receipt compared with it. The exit status is 0
/// when all are held under signed heads, and 3 when one is not there or the copy is broken. It is 1 when one is there and
/// not signed for yet: a second later, or after the next opening of a log whose writer was killed, it is.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  probity append audit entries.jsonl --receipts > receipts.jsonl
  probity check-receipts receipts.jsonl --log copy-of-audit --key audit.vkey")]
pub struct CheckReceipts {
    /// Lines that `probity append --receipts` printed, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folder of the log, or of a copy
    #[arg(long, value_name = "DIR")]
    pub log: PathBuf,
    /// Verifier key of the log, from anybody who is trusted to know it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Folder of the second copy of the signed heads [default: PROBITY_HEADS, else DIR.heads]
    #[arg(long, value_name = "DIR")]
    pub heads: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}
