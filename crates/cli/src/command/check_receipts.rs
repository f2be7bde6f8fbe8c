//! `probity check-receipts`: compares a copy of the log with receipts.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use probity_format::tree::Hash;
use probity_log::verify::{VerifyOptions, verify_at};
use probity_log::{LogLocation, RepairKind, StoredLeaf, StoredLeaves, StreamName};
use serde::Serialize;

use super::copies::{absent as absent_heads, check_is_folder};
use super::receipt_line::ReceiptLine;
use super::verify::said_of_key;
use crate::args::CheckReceipts;
use crate::config::Environment;
use crate::entry_json::{Line, Lines};
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{Output, counted};

/// The most receipts of entries not signed for that are named.
const UNSIGNED_SHOWN_MAX: usize = 10;

#[derive(Serialize)]
struct Document<'a> {
    verdict: &'static str,
    status: u8,
    receipts: u64,
    held: u64,
    /// Held receipts of frames of which the log gave sections up.
    given_up: u64,
    /// Number of the given key among the log's signing keys, from 1.
    key_given: Option<u64>,
    /// Receipts of entries that are recorded and not signed for yet.
    unsigned: &'a [Finding],
    faults: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Serialize)]
struct Finding {
    /// Line of the file of receipts; `None` where the log itself is broken.
    line: Option<u64>,
    detail: String,
}

/// The result of the comparison.
#[derive(Default)]
struct Compared {
    receipts: u64,
    held: u64,
    given_up: u64,
    key_given: Option<u64>,
    /// Number of the log's signing keys.
    keys: u64,
    /// True when the newest of them vouches for all heads.
    newest_holds: bool,
    unsigned: Vec<Finding>,
    faults: Vec<Finding>,
}

/// The outcome of looking for one receipt in the log.
enum Has {
    /// The entry is there, under a signed head.
    Held,
    /// The entry is held, in a frame of which sections were given up: its content may not open.
    GivenUp,
    /// The entry is there, after all signed heads.
    Unsigned(String),
    /// Another entry is there, or none.
    Other(String),
}

pub(crate) fn run(args: &CheckReceipts, environment: &Environment) -> Result<Status, Failure> {
    let key = key_file::read_verifier(&args.key, "--key FILE")?;
    let named = args.heads.as_ref().or(environment.heads.as_ref());
    named.map_or(Ok(()), |named| check_is_folder(named))?;
    let places = LogLocation::new(&args.log, named);
    places.check_apart()?;
    let leaves = StoredLeaves::open(&places)?;
    let mut compared = compare_all(args, &leaves)?;
    // A record that is still there commits to bytes that may be gone.
    let options = VerifyOptions {
        known_key: Some(key),
        ..VerifyOptions::default()
    };
    let report = verify_at(&places, &options)?;
    let of_log = report.faults.iter().map(|fault| Finding {
        line: None,
        detail: format!("the log: {fault}"),
    });
    compared.faults.extend(of_log);
    (compared.key_given, compared.keys) = (report.known_key, report.keys);
    compared.newest_holds = report.newest_holds;
    let undecided = if compared.faults.is_empty() {
        let absent = named.is_some() && report.heads.streams == 0;
        let absent = absent.then(|| absent_heads(places.heads_path()));
        absent.or_else(|| unsigned(&compared))
    } else {
        None
    };
    tell(args, &compared, undecided.as_ref())?;
    match undecided {
        Some(undecided) => Err(undecided),
        None if compared.faults.is_empty() => Ok(Status::Done),
        None => Ok(Status::Broken),
    }
}

/// Explains why faultless receipts are not held yet. An older copy of a log to which somebody added
/// newer frames looks the same.
fn unsigned(compared: &Compared) -> Option<Failure> {
    let count = u64::try_from(compared.unsigned.len()).unwrap_or(u64::MAX);
    let entries = counted(count, "receipt names an entry", "receipts name entries");
    (count > 0).then(|| {
        Failure::new(format!("{entries} for which no head of this log is signed yet")).remedy(
            "check a copy that was made a second later; where nobody writes to the log, its writer was killed, and the next opening signs for them or says \
             that they are not the log's own, as verification with the root key does before",
        )
    })
}

fn tell(
    args: &CheckReceipts,
    compared: &Compared,
    undecided: Option<&Failure>,
) -> Result<(), Failure> {
    let mut output = Output::new();
    let verdict = match undecided {
        None if compared.faults.is_empty() => "held",
        None => "broken",
        Some(_) if compared.unsigned.is_empty() => "no-heads",
        Some(_) => "unsigned",
    };
    if args.json {
        let status = match undecided {
            Some(undecided) => undecided.status(),
            None if compared.faults.is_empty() => Status::Done,
            None => Status::Broken,
        };
        output.json(&Document {
            verdict,
            status: status.code(),
            receipts: compared.receipts,
            held: compared.held,
            given_up: compared.given_up,
            key_given: compared.key_given,
            unsigned: &compared.unsigned,
            faults: &compared.faults,
            help: undecided.and_then(Failure::help),
        })?;
        return output.flush();
    }
    for line in said_of(compared) {
        output.line(&line)?;
    }
    if undecided.is_none() && compared.faults.is_empty() {
        let receipts = counted(compared.receipts, "receipt", "receipts");
        let given_up = match compared.given_up {
            0 => String::new(),
            some => format!(
                "; {} of frames of which sections were given up, so that the content may not open",
                counted(some, "is", "are")
            ),
        };
        output.line(&format!(
            "held: {receipts}, all as the log has them{given_up}"
        ))?;
        if let Some(given) = said_of_key(compared.key_given, (compared.keys, compared.newest_holds))
        {
            output.line(&given)?;
        }
    }
    output.flush()
}

/// Describes the faults, and the first of the entries that are not signed for: after a writer was
/// killed there may be thousands of them, which say the same.
fn said_of(compared: &Compared) -> Vec<String> {
    let faults = compared.faults.iter().map(|it| ("broken", it));
    let unsigned = compared.unsigned.iter().take(UNSIGNED_SHOWN_MAX);
    let each = faults.chain(unsigned.map(|it| ("unsigned", it)));
    let mut said: Vec<String> = each
        .map(|(word, Finding { line, detail })| {
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            format!("{word}, {place}{detail}")
        })
        .collect();
    let others = compared.unsigned.get(UNSIGNED_SHOWN_MAX..);
    if let Some(last) = others.and_then(<[Finding]>::last) {
        let more = compared.unsigned.len().saturating_sub(UNSIGNED_SHOWN_MAX);
        let more = counted(
            u64::try_from(more).unwrap_or(u64::MAX),
            "receipt",
            "receipts",
        );
        let last = last
            .line
            .map_or_else(String::new, |line| format!(", the last in line {line}"));
        said.push(format!("unsigned, and {more} more{last}; --json lists all"));
    }
    said
}

/// Compares every receipt with the log.
fn compare_all(args: &CheckReceipts, leaves: &StoredLeaves) -> Result<Compared, Failure> {
    let fail = |error| Failure::file("read the receipts", &args.file, error);
    let mut lines = Lines::new(BufReader::new(open(&args.file).map_err(fail)?));
    let mut compared = Compared::default();
    loop {
        let next = lines.next_line().map_err(fail)?;
        let text = match next {
            None => break,
            Some(Line::Text(text)) if text.trim_ascii().is_empty() => continue,
            Some(Line::Text(text)) => text.to_vec(),
            Some(Line::TooLong) => Vec::new(),
        };
        let number = lines.number();
        let receipt: ReceiptLine<'_> = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(format!(
                "{}, line {number} is no receipt",
                args.file.display()
            ))
            .because(error)
            .remedy("give the lines that `probity append --receipts` printed; where the last one was cut off, leave it out: the others are whole")
        })?;
        compared.receipts = compared.receipts.saturating_add(1);
        let line = Some(number);
        match receipt.look(leaves)? {
            Has::Held => compared.held = compared.held.saturating_add(1),
            Has::GivenUp => {
                compared.held = compared.held.saturating_add(1);
                compared.given_up = compared.given_up.saturating_add(1);
            }
            Has::Unsigned(detail) => compared.unsigned.push(Finding { line, detail }),
            Has::Other(detail) => compared.faults.push(Finding { line, detail }),
        }
    }
    if compared.receipts == 0 {
        return Err(
            Failure::new(format!("{} holds no receipt", args.file.display()))
                .remedy("give the lines that `probity append --receipts` printed"),
        );
    }
    Ok(compared)
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path)?))
}

impl ReceiptLine<'_> {
    /// Looks for the receipt's entry in the log.
    fn look(&self, leaves: &StoredLeaves) -> Result<Has, Failure> {
        let place = format!(
            "entry {} of stream {}, from line {}",
            self.index, self.stream, self.line
        );
        if self.log != leaves.origin() {
            return Ok(Has::Other(format!(
                "{place}: it is of the log {}, not {}",
                self.log,
                leaves.origin()
            )));
        }
        let wanted = Hash::from_base64(&self.record, "record of a receipt");
        let (Ok(wanted), Ok(stream)) = (wanted, StreamName::new(&self.stream)) else {
            return Err(Failure::new(format!("{place}: the receipt is damaged"))
                .remedy("take an undamaged copy of it"));
        };
        let stored = leaves.of_entry(&stream, self.index)?;
        let loss = |kind| leaves.accepted_loss(kind, &stream, self.frame);
        let is_given_up = loss(RepairKind::Closed).is_some();
        let said = loss(RepairKind::Lost).map_or_else(String::new, |loss| format!("; {loss}"));
        let Some(stored) = stored else {
            return Ok(Has::Other(format!("{place}: it is not there{said}")));
        };
        let leaf = stored.leaf();
        if leaf.hash != wanted {
            return Ok(Has::Other(format!(
                "{place}: its frame {} is not the one that was receipted: record {}, not {wanted}{said}",
                leaf.frame, leaf.hash
            )));
        }
        if leaf.frame != self.frame {
            return Ok(Has::Other(format!(
                "{place}: the record is there as frame {}, and the receipt says frame {}",
                leaf.frame, self.frame
            )));
        }
        Ok(match stored {
            StoredLeaf::Published(_) if is_given_up => Has::GivenUp,
            StoredLeaf::Published(_) => Has::Held,
            _ => Has::Unsigned(format!("{place}: it is there, and not signed for yet")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M10: after a full disk thousands of lines said the same, and then came what mattered.
    #[test]
    fn receipts_not_signed_for_are_named_up_to_a_number_and_counted() {
        let unsigned = |count: u64| Compared {
            unsigned: (1..=count)
                .map(|line| Finding {
                    line: Some(line),
                    detail: "d".into(),
                })
                .collect(),
            ..Compared::default()
        };
        assert_eq!(said_of(&unsigned(10)).len(), 10);
        let many = said_of(&unsigned(2358));
        assert_eq!(many.len(), 11);
        assert_eq!(
            many.last().unwrap(),
            "unsigned, and 2348 receipts more, the last in line 2358; --json lists all"
        );
    }
}
