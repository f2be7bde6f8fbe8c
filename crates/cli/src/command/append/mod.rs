//! `probity append`: turns lines of JSON into entries, and prints receipts once they are durable.

mod account;
mod advice;
mod place;
mod proofs;
mod series;

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufReader, IsTerminal as _};
use std::path::Path;

use indicatif::ProgressBar;
use probity_format::row::row_bytes;
use probity_log::clock::{Clock as _, SystemClock};
use probity_log::{
    AppendError, Appender, Durability, Leaf, Log, LogLocation, Options, Receipt, StoredLeaves,
    Ticket,
};
use serde::Serialize;

use self::place::Lines as Taken;
use self::proofs::ProofFolder;
use self::series::Series;
use super::input::Input;
use super::receipt_line::ReceiptLine;
use super::{check_is_log, open_log_with, open_reader};
use crate::args::Append;
use crate::config::Environment;
use crate::entry_json::{
    LINE_BYTES_MAX, Line, Lines, ParsedEntry, REMEDY_SET_BY_LOG, parse_exported_line, parse_line,
};
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::output::{Output, counted, note};

/// The most receipts outstanding before the oldest is waited for; far fewer than the library
/// remembers.
const RECEIPTS_AHEAD: usize = 4096;
const REMEDY_KEY_USED: &str =
    "give each entry an idempotency key of its own; if it is another entry, give it another key";
const REMEDY_NAME_USED: &str = "if this line was changed since, append it by itself, without --idempotency-key; if this is another input than the one that \
    had the name of --idempotency-key before, give it another name, and begin with its first line";
const TWO_KEYS: &str =
    "it has an idempotency key of its own, and --idempotency-key gives each line one";
const REMEDY_TWO_KEYS: &str = "give either: remove the key of the line, or append the lines that have keys of their own without --idempotency-key";
const BUFFER_BYTES: usize = 256 * 1024;
/// Entries between two updates of the progress on a terminal.
const PROGRESS_ENTRIES: u64 = 1024;

#[derive(Serialize)]
struct Summary<'a> {
    status: u8,
    stream: &'a str,
    appended: u64,
    refused: u64,
    already_recorded: u64,
    /// Index of the first entry that was recorded already.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_recorded: Option<u64>,
}

pub(crate) fn run(args: &Append, environment: &Environment) -> Result<Status, Failure> {
    interruption::end_gracefully()?;
    let input = Input::open(&args.file)?;
    if args.file == Path::new("-") && io::stdin().is_terminal() {
        note("reading entries from standard input, one JSON object a line; Ctrl-D ends them");
    }
    let options = Options {
        durability: args.durability.into(),
        accept_loss: args.accept_loss,
        accept_missing_copies: args.without_copies,
        compression: args.compression,
        ..args.key_interval.applied(environment.log_options())
    };
    // Before a folder of proofs is made for nothing.
    check_is_log(&args.dir)?;
    let proofs = args.proofs.as_deref().map(ProofFolder::begin).transpose()?;
    let log = open_log_with(&args.dir, args.key.as_deref(), environment, options)?;
    let folder = fs::File::open(&args.dir).ok();
    let first_index = log.next_index(&args.stream)?;
    check_place(args, environment, first_index)?;
    let appender = log.appender(&args.stream)?;
    let name = args.idempotency_key.as_deref();
    let series = name.map(|name| Series::new(name, &appender)).transpose()?;
    let mut run = Run {
        args,
        folder,
        appender,
        log: &log,
        environment,
        proofs,
        output: Output::new(),
        clock: SystemClock::new(),
        progress: ProgressBar::new_spinner(),
        pending: VecDeque::new(),
        taken: Taken::new(first_index, args.from_line),
        bytes: 0,
        receipts: Receipts::default(),
        refused: 0,
        conflict: None,
        is_export: false,
        repeats: Repeats::default(),
        series,
        is_unsure: false,
        stored: None,
    };
    let read = run.append_all(Lines::new(BufReader::with_capacity(BUFFER_BYTES, input)));
    // Whatever ended the reading, everything taken before becomes durable, is published and is
    // accounted for.
    let settled = run.finish();
    let closed = close(&log);
    run.progress.finish_and_clear();
    match read.and(settled).and(closed) {
        Ok(()) => run.summarize(),
        Err(failure) => {
            // Receipts are counted as they left. An error is no news: they count as missing then.
            drop(run.output.flush());
            Err(run.account(failure, environment))
        }
    }
}

fn close(log: &Log) -> Result<(), Failure> {
    log.close().map_err(Failure::from)
}

/// Refuses to resume at another index than the advice named, so that no entry is repeated or left
/// out.
fn check_place(args: &Append, environment: &Environment, next: u64) -> Result<(), Failure> {
    let Some(expected) = args.at_index.filter(|expected| *expected != next) else {
        return Ok(());
    };
    let stream = &args.stream;
    let more = next.checked_sub(expected);
    let found = match more {
        Some(more) => format!("{} more", counted(more, "entry", "entries")),
        None => format!(
            "{} fewer",
            counted(expected.saturating_sub(next), "entry", "entries")
        ),
    };
    Err(Failure::new(format!(
        "stream {stream} has {found} than expected: its next entry gets index {next}, not {expected}"
    ))
    .remedy(format!(
        "see which lines of the input are there: {}; go on behind the last of them with --from-line LINE --at-index {next}",
        advice::look(args, environment, &args.dir)
    )))
}

struct Run<'a> {
    args: &'a Append,
    /// The folder of the log, as it was when the log was opened.
    folder: Option<fs::File>,
    appender: Appender,
    log: &'a Log,
    environment: &'a Environment,
    proofs: Option<ProofFolder>,
    output: Output,
    clock: SystemClock,
    progress: ProgressBar,
    /// Line numbers and tickets of entries whose receipts are still to be printed.
    pending: VecDeque<(u64, Ticket)>,
    taken: Taken,
    /// Bytes of the entries of all lines so far.
    bytes: u64,
    /// The receipts of this command's entries.
    receipts: Receipts,
    refused: u64,
    /// The line that ended the command because its idempotency key belongs to another entry; a
    /// repetition would be refused again.
    conflict: Option<u64>,
    /// True once a line was refused that only an export has: the same command would refuse it again.
    is_export: bool,
    repeats: Repeats,
    /// The keys of lines under the name of `--idempotency-key`.
    series: Option<Series>,
    /// True when the command ended because nobody here knows which lines are in the log.
    is_unsure: bool,
    /// The log's files, opened for receipts of entries that were recorded earlier.
    stored: Option<StoredLeaves>,
}

/// The receipts of entries that the command recorded, in order of their lines.
#[derive(Default)]
struct Receipts {
    /// Those known to have left the program.
    left: u64,
    /// The ends of the others in the output: they may still be in its buffer.
    ends: VecDeque<u64>,
}

impl Receipts {
    /// Notes that one more was given to `output`, and forgets those that have left.
    fn print(&mut self, output: &Output) {
        self.ends.push_back(output.given());
        while self
            .ends
            .pop_front_if(|end| *end <= output.left())
            .is_some()
        {
            self.left = self.left.saturating_add(1);
        }
    }

    /// Returns how many have left the program.
    fn left(&self, output: &Output) -> u64 {
        let left = self.ends.iter().take_while(|end| **end <= output.left());
        let more = u64::try_from(left.count()).unwrap_or(u64::MAX);
        self.left.saturating_add(more)
    }
}

/// Lines that the log held already, under their idempotency keys.
#[derive(Default)]
struct Repeats {
    lines: u64,
    /// Index of the entry of the first of them.
    first: Option<u64>,
    /// Lines without a key, which a repetition would record again.
    without_key: u64,
}

impl Run<'_> {
    fn append_all(&mut self, mut lines: Lines<impl io::BufRead>) -> Result<(), Failure> {
        loop {
            // The writer of the input may wait for its receipts before it goes on.
            if lines.may_block() {
                self.settle(0)?;
                self.prove()?;
            }
            let next = lines.next_line().map(|line| {
                line.as_ref()
                    .map(|line| LineFound::new(line, self.args.exported))
            });
            if interruption::is_stopped() {
                return Err(Failure::new("a signal asked to stop"));
            }
            let number = lines.number();
            match next.map_err(|error| Failure::file("read", &self.args.file, error))? {
                None => return self.check_reached(number),
                Some(_) if number < self.args.from_line => {}
                Some(LineFound::Blank) => {}
                Some(LineFound::Entry(entry)) if self.has_two_keys(&entry) => {
                    let reason = TWO_KEYS.to_owned();
                    let remedy = REMEDY_TWO_KEYS;
                    self.refuse(number, &Refused { reason, remedy })?;
                }
                Some(LineFound::Entry(entry)) => match self.append(number, &entry)? {
                    Ok(ticket) => self.take(number, ticket)?,
                    Err(error @ AppendError::KeyUsed { .. }) => {
                        let reason = error.to_string();
                        let remedy = self.key_remedy();
                        self.conflict = (!self.args.skip_invalid).then_some(number);
                        self.refuse(number, &Refused { reason, remedy })?;
                    }
                    // A log that stopped says nothing about the line at hand.
                    Err(error @ (AppendError::Poisoned(_) | AppendError::Closed)) => {
                        return Err(error.into());
                    }
                    Err(error) => return Err(Failure::from(error).so(&format!("line {number}"))),
                },
                Some(LineFound::Refused(failure)) => self.refuse(number, &failure)?,
            }
        }
    }

    /// Refuses an input of `lines` lines that ends before the line at which to begin could follow.
    fn check_reached(&mut self, lines: u64) -> Result<(), Failure> {
        let first = self.args.from_line;
        if first <= lines.saturating_add(1) {
            return Ok(());
        }
        self.is_unsure = true;
        let lines = counted(lines, "line", "lines");
        Err(Failure::new(format!(
            "the input has {lines}, and --from-line {first} begins behind the next"
        )))
    }

    /// Returns whether both the line and the name in the arguments give an entry a key. The keys of the name
    /// tell which lines are recorded as long as no others come between them.
    fn has_two_keys(&self, parsed: &ParsedEntry) -> bool {
        self.series.is_some() && parsed.has_idempotency_key()
    }

    /// Appends the entry of line `number`, under the key of the line or one of the name in the
    /// arguments.
    ///
    /// # Errors
    /// Refuses a line that may be recorded already.
    fn append(
        &mut self,
        number: u64,
        parsed: &ParsedEntry,
    ) -> Result<Result<Ticket, AppendError>, Failure> {
        let mut entry = parsed.entry(self.clock.now());
        let of_name = match &self.series {
            None => None,
            Some(series) => {
                let key = series.key(number);
                let checked = series.check(number, &key, &self.appender);
                self.is_unsure = checked.is_err();
                checked?;
                Some(key)
            }
        };
        entry.idempotency = entry.idempotency.or(of_name.as_ref());
        let bytes = u64::try_from(row_bytes(&entry)).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        if entry.idempotency.is_none() {
            self.repeats.without_key = self.repeats.without_key.saturating_add(1);
        }
        Ok(match parsed.time {
            Some(_) => self.appender.append(&entry),
            None => self.appender.append_now(&entry),
        })
    }

    /// Returns the remedy for a used key, which the arguments gave or the line.
    const fn key_remedy(&self) -> &'static str {
        match self.series {
            Some(_) => REMEDY_NAME_USED,
            None => REMEDY_KEY_USED,
        }
    }

    fn take(&mut self, number: u64, ticket: Ticket) -> Result<(), Failure> {
        if self.appender.is_repeat(ticket) {
            self.repeats.lines = self.repeats.lines.saturating_add(1);
            if self.repeats.first.is_none() {
                self.repeats.first = Some(self.appender.wait(ticket)?.index);
            }
        } else {
            self.taken.push(number);
        }
        if self.taken.is_full() {
            self.appender.flush()?;
            self.taken.forget();
        }
        if self.taken.count().is_multiple_of(PROGRESS_ENTRIES) {
            self.progress
                .set_message(format!("{} entries, line {number}", self.taken.count()));
            self.progress.tick();
        }
        if self.args.receipts || self.proofs.is_some() {
            self.pending.push_back((number, ticket));
            self.settle(RECEIPTS_AHEAD)?;
        }
        if self.proofs.as_ref().is_some_and(ProofFolder::is_full) {
            self.prove()?;
        }
        if Durability::from(self.args.durability) == Durability::Strict {
            self.appender.wait(ticket)?;
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64, refused: &Refused) -> Result<(), Failure> {
        self.refused = self.refused.saturating_add(1);
        self.is_export |= refused.remedy == REMEDY_SET_BY_LOG;
        let failure =
            Failure::new(format!("line {number}: {}", refused.reason)).remedy(refused.remedy);
        if self.args.skip_invalid {
            note(&failure.to_string());
            return Ok(());
        }
        Err(failure)
    }

    /// Prints the receipts of durable entries, and waits for those beyond `ahead`.
    fn settle(&mut self, ahead: usize) -> Result<(), Failure> {
        let must_wait = self.pending.len() > ahead;
        while let Some((line, ticket)) = self.pending.front().copied() {
            let receipt = if self.pending.len() > ahead {
                Some(self.appender.wait(ticket)?)
            } else {
                self.appender.receipt(ticket)?
            };
            let Some(receipt) = receipt else { break };
            if self.args.receipts {
                self.print_receipt(line, receipt)?;
                if !receipt.is_repeat {
                    self.receipts.print(&self.output);
                }
            }
            if let Some(proofs) = &mut self.proofs {
                proofs.push(receipt.index);
            }
            self.pending.pop_front();
        }
        if must_wait {
            self.output.flush()
        } else {
            Ok(())
        }
    }

    /// Publishes a checkpoint over the durable entries, and writes their proofs.
    fn prove(&mut self) -> Result<(), Failure> {
        let Some(proofs) = self.proofs.as_mut().filter(|proofs| !proofs.is_empty()) else {
            return Ok(());
        };
        self.log.publish()?;
        let dir = self.args.dir.as_path();
        let reader = open_reader(dir, self.args.key.as_deref(), self.environment)?;
        proofs.write(&reader, dir, &self.args.stream)
    }

    fn print_receipt(&mut self, line: u64, receipt: Receipt) -> Result<(), Failure> {
        let index = receipt.index;
        let leaf = match self.appender.leaf_of(index) {
            None if receipt.is_repeat => self.stored_leaf(index)?,
            leaf => leaf,
        };
        let leaf = leaf.ok_or_else(|| {
            Failure::new(format!(
                "entry {index} is durable, but its frame was forgotten"
            ))
            .remedy("read its place with: probity prove")
        })?;
        self.output.json_line(&ReceiptLine {
            line,
            stream: self.args.stream.as_str().into(),
            index,
            log: self.log.origin().into(),
            frame: leaf.frame,
            record: leaf.hash.to_string(),
            already_recorded: receipt.is_repeat,
        })
    }

    /// Reads the leaf of an entry that was recorded before this command from the log's files.
    fn stored_leaf(&mut self, index: u64) -> Result<Option<Leaf>, Failure> {
        let stored = if let Some(stored) = self.stored.take() {
            stored
        } else {
            let heads = self.environment.heads.as_ref();
            StoredLeaves::open(&LogLocation::new(&self.args.dir, heads))?
        };
        let leaf = stored.of_entry(&self.args.stream, index)?;
        let leaf = leaf.map(|stored| *stored.leaf());
        self.stored = Some(stored);
        Ok(leaf)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.appender.flush()?;
        self.settle(0)?;
        self.output.flush()?;
        self.prove()
    }

    fn summarize(&mut self) -> Result<Status, Failure> {
        let status = match self.refused {
            0 => Status::Done,
            _ => Status::Failed,
        };
        let summary = Summary {
            status: status.code(),
            stream: self.args.stream.as_str(),
            appended: self.taken.count(),
            refused: self.refused,
            already_recorded: self.repeats.lines,
            first_recorded: self.repeats.first,
        };
        let appended = counted(summary.appended, "entry was", "entries were");
        self.output.set_done(format!("{appended} appended"));
        if self.args.json {
            self.output.json(&summary)?;
        } else if !self.args.receipts {
            let appended = counted(summary.appended, "entry", "entries");
            let stream = summary.stream;
            let mut line = format!("{appended} appended to stream {stream}");
            if let Some(first) = self.repeats.first {
                let lines = counted(self.repeats.lines, "line was", "lines were");
                line = format!("{line}; {lines} already recorded, the first as entry {first}");
            }
            self.output.line(&line)?;
        }
        self.output.flush()?;
        if status != Status::Done {
            note(&format!(
                "{} refused",
                counted(self.refused, "line", "lines")
            ));
        }
        Ok(status)
    }
}

/// A parsed line, independent of the reader's buffer.
enum LineFound {
    Blank,
    Entry(Box<ParsedEntry>),
    Refused(Refused),
}

struct Refused {
    reason: String,
    remedy: &'static str,
}

impl LineFound {
    fn new(line: &Line<'_>, exported: bool) -> Self {
        let parse = if exported {
            parse_exported_line
        } else {
            parse_line
        };
        match line {
            Line::TooLong => Self::Refused(Refused {
                reason: format!("longer than {LINE_BYTES_MAX} bytes"),
                remedy: "put each entry on a line of its own; spread a longer payload over several entries, or keep it elsewhere and record its hash",
            }),
            Line::Text(text) if text.trim_ascii().is_empty() => Self::Blank,
            Line::Text(text) => match parse(text) {
                Ok(entry) => Self::Entry(Box::new(entry)),
                Err(error) => Self::Refused(Refused {
                    reason: error.to_string(),
                    remedy: error.remedy,
                }),
            },
        }
    }
}
