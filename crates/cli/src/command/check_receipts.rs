//! `probity check-receipts`: whether a copy of the log still holds what was receipted.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use probity_format::tree::Hash;
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{StoredLeaves, StreamName};
use serde::{Deserialize, Serialize};

use crate::args::CheckReceipts;
use crate::entry_json::{Line, Lines};
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{Output, counted};

/// A receipt, as `append --receipts` prints it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipt {
    line: u64,
    stream: String,
    index: u64,
    log: String,
    frame: u64,
    record: String,
}

#[derive(Serialize)]
struct Document<'a> {
    verdict: &'static str,
    status: u8,
    receipts: u64,
    held: u64,
    faults: &'a [Fault],
}

#[derive(Serialize)]
struct Fault {
    /// Line of the file of receipts; none where the log itself is broken.
    line: Option<u64>,
    detail: String,
}

pub(crate) fn run(args: &CheckReceipts) -> Result<Status, Failure> {
    let key = key_file::read_verifier(&args.key, "--key FILE")?;
    let leaves = StoredLeaves::open(&args.log)?;
    let (receipts, mut faults) = compare_all(args, &leaves)?;
    let held = receipts.saturating_sub(u64::try_from(faults.len()).unwrap_or(u64::MAX));
    // A record that is still there commits to bytes that may not be.
    let options = VerifyOptions {
        anchor: Some(key),
        ..VerifyOptions::default()
    };
    let report = verify(&args.log, &options)?;
    faults.extend(report.faults.iter().map(|fault| Fault {
        line: None,
        detail: format!("the log: {fault}"),
    }));
    let status = if faults.is_empty() {
        Status::Done
    } else {
        Status::Broken
    };
    let mut output = Output::new();
    if args.json {
        output.json(&Document {
            verdict: if faults.is_empty() { "held" } else { "broken" },
            status: status.code(),
            receipts,
            held,
            faults: &faults,
        })?;
    } else {
        print(receipts, &faults, &mut output)?;
    }
    output.flush()?;
    Ok(status)
}

fn print(receipts: u64, faults: &[Fault], output: &mut Output) -> Result<(), Failure> {
    for fault in faults {
        let place = fault
            .line
            .map_or_else(String::new, |line| format!("line {line}: "));
        output.line(&format!("broken, {place}{}", fault.detail))?;
    }
    if faults.is_empty() {
        let receipts = counted(receipts, "receipt", "receipts");
        output.line(&format!("held: {receipts}, all as the log has them"))?;
    }
    Ok(())
}

/// Compares every receipt with the log; gives their number and what is not held.
fn compare_all(args: &CheckReceipts, leaves: &StoredLeaves) -> Result<(u64, Vec<Fault>), Failure> {
    let fail = |error| Failure::file("read the receipts", &args.file, error);
    let mut lines = Lines::new(BufReader::new(open(&args.file).map_err(fail)?));
    let (mut receipts, mut faults) = (0_u64, Vec::new());
    loop {
        let next = lines.next_line().map_err(fail)?;
        let text = match next {
            None => break,
            Some(Line::Text(text)) if text.trim_ascii().is_empty() => continue,
            Some(Line::Text(text)) => text.to_vec(),
            Some(Line::TooLong) => Vec::new(),
        };
        let number = lines.number();
        let receipt: Receipt = serde_json::from_slice(&text).map_err(|error| {
            Failure::new(format!(
                "{}, line {number} is no receipt",
                args.file.display()
            ))
            .because(error)
            .remedy("give the lines that `probity append --receipts` printed")
        })?;
        receipts = receipts.saturating_add(1);
        if let Some(detail) = receipt.fault(leaves)? {
            let line = Some(number);
            faults.push(Fault { line, detail });
        }
    }
    if receipts == 0 {
        return Err(
            Failure::new(format!("{} holds no receipt", args.file.display()))
                .remedy("give the lines that `probity append --receipts` printed"),
        );
    }
    Ok((receipts, faults))
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path)?))
}

impl Receipt {
    /// What the log has instead of what the receipt names.
    fn fault(&self, leaves: &StoredLeaves) -> Result<Option<String>, Failure> {
        let place = format!(
            "entry {} of stream {}, from line {}",
            self.index, self.stream, self.line
        );
        if self.log != leaves.origin() {
            return Ok(Some(format!(
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
        Ok(match leaves.of_entry(&stream, self.index)? {
            None => Some(format!("{place}: it is not there")),
            Some(leaf) if leaf.frame != self.frame || leaf.hash != wanted => Some(format!(
                "{place}: its frame {} is not the one that was receipted: record {}, not {wanted}",
                leaf.frame, leaf.hash
            )),
            Some(_) => None,
        })
    }
}
