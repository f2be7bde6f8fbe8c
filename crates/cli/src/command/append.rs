//! `probity append`: lines of JSON into entries, and receipts out once they are durable.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use probity_log::clock::{Clock as _, SystemClock};
use probity_log::{Appender, Durability, Options, Ticket};
use serde::Serialize;

use super::open_log_with;
use crate::args::Append;
use crate::config::Environment;
use crate::entry_json::{LINE_BYTES_MAX, Line, Lines, parse_exported_line, parse_line};
use crate::failure::{Failure, Status};
use crate::output::{Output, counted, note};

/// Receipts waited for at most before the oldest is; far fewer than the library remembers.
const RECEIPTS_AHEAD: usize = 4096;
const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Serialize)]
struct ReceiptLine<'a> {
    line: u64,
    stream: &'a str,
    index: u64,
}

#[derive(Serialize)]
struct Summary<'a> {
    stream: &'a str,
    appended: u64,
    refused: u64,
}

pub(crate) fn run(args: &Append, environment: &Environment) -> Result<Status, Failure> {
    let input = open_input(&args.file)?;
    let options = Options {
        durability: args.durability.into(),
        accept_loss: args.accept_loss,
        ..environment.log_options()
    };
    let log = open_log_with(&args.dir, args.key.as_deref(), environment, options)?;
    let mut run = Run {
        args,
        appender: log.appender(&args.stream)?,
        output: Output::new(),
        clock: SystemClock::new(),
        pending: VecDeque::new(),
        appended: 0,
        refused: 0,
    };
    let read = run.append_all(Lines::new(BufReader::with_capacity(BUFFER_BYTES, input)));
    // Whatever ended the reading, what was taken before becomes durable and is accounted for.
    let settled = run.finish();
    let closed = log.close().map_err(Failure::from);
    let before = counted(run.appended, "entry appended", "entries appended");
    settled
        .and(closed)
        .map_err(|failure| failure.after(&format!("{before} at most")))?;
    read.map_err(|failure| failure.after(&before))?;
    run.summarize()
}

fn open_input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).map_err(|error| Failure::file("read", path, error))?;
    Ok(Box::new(file))
}

struct Run<'a> {
    args: &'a Append,
    appender: Appender,
    output: Output,
    clock: SystemClock,
    /// Line numbers and tickets of entries whose receipts are still to be printed.
    pending: VecDeque<(u64, Ticket)>,
    appended: u64,
    refused: u64,
}

impl Run<'_> {
    fn append_all(&mut self, mut lines: Lines<impl io::BufRead>) -> Result<(), Failure> {
        loop {
            // The other end may wait for its receipts before it writes on.
            if lines.may_block() {
                self.settle(0)?;
            }
            let next = lines.next_line().map(|line| {
                line.as_ref()
                    .map(|line| LineFound::new(line, self.args.exported))
            });
            let number = lines.number();
            match next.map_err(|error| Failure::file("read", &self.args.file, error))? {
                None => return Ok(()),
                Some(LineFound::Blank) => {}
                Some(LineFound::Entry(entry)) => {
                    let ticket = self.appender.append(&entry.entry(self.clock.now()));
                    let ticket = ticket
                        .map_err(|error| Failure::from(error).after(&format!("line {number}")))?;
                    self.appended = self.appended.saturating_add(1);
                    self.take(number, ticket)?;
                }
                Some(LineFound::Refused(failure)) => self.refuse(number, &failure)?,
            }
        }
    }

    fn take(&mut self, number: u64, ticket: Ticket) -> Result<(), Failure> {
        if self.args.receipts {
            self.pending.push_back((number, ticket));
            self.settle(RECEIPTS_AHEAD)?;
        }
        if Durability::from(self.args.durability) == Durability::Strict {
            self.appender.wait(ticket)?;
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64, refused: &Refused) -> Result<(), Failure> {
        self.refused = self.refused.saturating_add(1);
        let failure =
            Failure::new(format!("line {number}: {}", refused.reason)).remedy(refused.remedy);
        if self.args.skip_invalid {
            note(&failure.to_string());
            return Ok(());
        }
        Err(failure)
    }

    /// Prints receipts of entries that are durable, and waits for those beyond `ahead`.
    fn settle(&mut self, ahead: usize) -> Result<(), Failure> {
        let must_wait = self.pending.len() > ahead;
        while let Some((line, ticket)) = self.pending.front().copied() {
            let receipt = if self.pending.len() > ahead {
                Some(self.appender.wait(ticket)?)
            } else {
                self.appender.receipt(ticket)?
            };
            let Some(receipt) = receipt else { break };
            let stream = self.args.stream.as_str();
            self.output.json(&ReceiptLine {
                line,
                stream,
                index: receipt.index,
            })?;
            self.pending.pop_front();
        }
        if must_wait {
            self.output.flush()
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.appender.flush()?;
        self.settle(0)
    }

    fn summarize(&mut self) -> Result<Status, Failure> {
        let summary = Summary {
            stream: self.args.stream.as_str(),
            appended: self.appended,
            refused: self.refused,
        };
        if self.args.json {
            self.output.json(&summary)?;
        } else if !self.args.receipts {
            let appended = counted(self.appended, "entry", "entries");
            let stream = summary.stream;
            self.output
                .line(&format!("{appended} appended to stream {stream}"))?;
        }
        self.output.flush()?;
        if self.refused == 0 {
            return Ok(Status::Done);
        }
        note(&format!(
            "{} refused",
            counted(self.refused, "line", "lines")
        ));
        Ok(Status::Failed)
    }
}

/// A line, apart from the reader's buffer.
enum LineFound {
    Blank,
    Entry(Box<crate::entry_json::ParsedEntry>),
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
                remedy: "put each entry on a line of its own; write long payloads as payload_base64",
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
