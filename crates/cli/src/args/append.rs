//! The arguments of `append`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use probity_format::limits::NAME_BYTES_MAX;
use probity_log::{Compression, StreamName};

use super::{DurabilityChoice, KeyInterval, parse_compression};

/// Bytes of the largest number of a line, and of what stands before it.
const LINE_KEY_BYTES: usize = 21;

/// Appends entries: one JSON object per line in, a receipt per line out if wanted.
///
/// Fields are time (RFC 3339, default now), action, key or key_base64, subject (string or list),
/// controller, processor, actor, purpose, basis, outcome (ok, denied, failed, absent), payload or
/// payload_base64, idempotency_key (only its SHA-256 digest is kept). The log adds when it took the
/// entry and that actor and purpose are claims. An entry whose idempotency key is among the last
/// 65,536 of the stream and in its last 64 MiB, and that says the same, is not recorded again: it gets the first one's receipt. A line that is no entry ends the command, and so do a signal and a full disk; what was appended
/// until then is durable and published, and the command says how to go on behind it.
#[derive(ClapArgs)]
#[command(after_help = "Examples:
  echo '{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\",\"actor\":\"billing\"}' \\
      | probity append audit
  probity append audit entries.jsonl --receipts --proofs proofs
  probity append audit monday.jsonl --idempotency-key monday
  tail -F app.jsonl | probity append audit - --receipts --skip-invalid")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub struct Append {
    /// Folder of the log
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// File of entries, or - for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// Compression of what is appended: zstd:1 to zstd:19 or none
    #[arg(long, value_name = "HOW", value_parser = parse_compression, default_value = "zstd:1")]
    pub compression: Compression,
    /// Stream that takes the entries
    #[arg(long, value_name = "S", value_parser = StreamName::new, default_value = StreamName::DEFAULT)]
    pub stream: StreamName,
    /// Print a receipt for each entry, as JSON on a line, once the entry is durable
    #[arg(long)]
    pub receipts: bool,
    /// New folder for a proof of each entry, STREAM.INDEX.tlog-proof, written once a checkpoint covers it; whenever the input pauses one does
    #[arg(long, value_name = "NEW_DIR")]
    pub proofs: Option<PathBuf>,
    /// Begin with this line of the input; what stopped an earlier run said which
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub from_line: u64,
    /// Append only if the next entry of the stream gets this index, so that nothing is appended twice or left out
    #[arg(long, value_name = "I")]
    pub at_index: Option<u64>,
    /// Report lines that are no entries and go on; the exit status is then 1
    #[arg(long)]
    pub skip_invalid: bool,
    /// Take lines of an export of another log, without what that log said of them: stream, index, taken, submitter, claimed, policy, rule
    #[arg(long)]
    pub exported: bool,
    /// Give each line the key of its number under NAME; none may have a key of its own. A repeated command records no line twice as long as the log remembers the last line of NAME. Keys are looked for among the last 65,536 and in the last 64 MiB of the stream; at a line that may be forgotten the command stops
    #[arg(long, value_name = "NAME", value_parser = idempotency_name)]
    pub idempotency_key: Option<String>,
    /// When an entry counts as durable: strict, group or relaxed
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub durability: DurabilityChoice,
    /// Go on although entries that were durable and not yet signed for are damaged or gone, or keys of subjects made since the journal last counted them, so that entries about them cannot be opened any more: what is left is set aside, and the log says so
    #[arg(long)]
    pub accept_loss: bool,
    /// With --accept-loss: although the second copies of the heads are gone for good, too, which may show that the lost entries were signed for. Where they turn up again, leave them out of their folder: with older or newer ones the log is refused
    #[arg(long, requires = "accept_loss")]
    pub without_copies: bool,
    /// The time for which one key signs.
    #[command(flatten)]
    pub key_interval: KeyInterval,
    /// Root key file [default: PROBITY_KEY_FILE, else DIR.key]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Print one JSON document instead of the closing line
    #[arg(long, conflicts_with = "receipts")]
    pub json: bool,
}

/// Parses a name that precedes line numbers: together they must fit an idempotency key.
fn idempotency_name(text: &str) -> Result<String, String> {
    let bytes_max = NAME_BYTES_MAX.saturating_sub(LINE_KEY_BYTES);
    if text.is_empty() || text.len() > bytes_max {
        return Err(format!("must have 1 to {bytes_max} bytes"));
    }
    Ok(text.to_owned())
}
