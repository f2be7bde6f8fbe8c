//! How many entries are missing from the log, kept in a file of the log's folder until a `gap` says it.
//!
//! The file has its whole length from the start of the proxy on, so that a full disk does not keep the count from being written. It is no
//! evidence: whoever can write to the log's folder can change it, until the entry is in the log.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::str::FromStr as _;

use probity_format::{Entry, Outcome, Timestamp};
use probity_log::{Log, StreamName};
use rustix::fs::OFlags;

use crate::config::OnLogFailure;
use crate::server::now;
use crate::sink::SinkError;

/// Its name in the log's folder.
const NAME: &str = "missed";
/// Its length in bytes: what is said, then line ends.
const LENGTH: usize = 1024;
/// Its first line.
const FIRST: &str = "probity missed 1";
/// The line behind the last one that says something.
const LAST: &str = "end";

/// How many entries are missing, by what became of the replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Missed {
    /// Entries of operations whose replies went out.
    pub let_go: u64,
    /// Entries of operations whose replies did not.
    pub withheld: u64,
}

impl Missed {
    /// `count` entries of operations whose replies were treated as `replies` says.
    pub(crate) const fn of(replies: OnLogFailure, count: u64) -> Self {
        match replies {
            OnLogFailure::Forward => Self {
                let_go: count,
                withheld: 0,
            },
            OnLogFailure::Refuse => Self {
                let_go: 0,
                withheld: count,
            },
        }
    }

    /// Both counts together.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            let_go: self.let_go.saturating_add(more.let_go),
            withheld: self.withheld.saturating_add(more.withheld),
        }
    }

    /// All of them.
    pub const fn total(self) -> u64 {
        self.let_go.saturating_add(self.withheld)
    }

    /// Records them in `stream` of `log`: durable when this returns.
    pub(crate) fn record(self, log: &Log, stream: &StreamName) -> Result<(), SinkError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| SinkError::Failed(error);
        let mut appender = log.appender(stream).map_err(|error| failed(error.into()))?;
        for (replies, missed) in [("let go", self.let_go), ("withheld", self.withheld)] {
            if missed > 0 {
                let payload = payload(replies, missed);
                let entry = gap(now(), payload.as_bytes());
                let recorded = appender.append_durable(&entry);
                recorded.map_err(|error| failed(error.into()))?;
            }
        }
        Ok(())
    }
}

fn payload(replies: &str, missed: u64) -> String {
    format!("{{\"command\":\"\",\"missed\":{missed},\"replies\":\"{replies}\"}}")
}

fn gap(time: Timestamp, payload: &[u8]) -> Entry<'_> {
    Entry {
        outcome: Outcome::Failed,
        payload,
        ..Entry::new(time, "gap", b"")
    }
}

/// What the file says: what a log that failed would hold if it had taken everything, and what it did not even take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) stream: StreamName,
    /// Next index of the stream if all entries that were handed in are there; 0 where the log has not failed.
    pub(crate) expected: u64,
    /// What became of the replies of those.
    pub(crate) replies: OnLogFailure,
    /// Entries that were not handed in.
    pub(crate) missed: Missed,
}

impl Account {
    /// Entries that were handed in and are not there, where the stream goes on at `next`.
    pub(crate) const fn lost(&self, next: u64) -> Missed {
        Missed::of(self.replies, self.expected.saturating_sub(next))
    }

    /// All that is missing where the stream goes on at `next`.
    pub(crate) const fn missing(&self, next: u64) -> Missed {
        self.missed.plus(self.lost(next))
    }

    fn encode(&self) -> String {
        let replies = match self.replies {
            OnLogFailure::Forward => "let-go",
            OnLogFailure::Refuse => "withheld",
        };
        let (stream, expected) = (&self.stream, self.expected);
        let Missed { let_go, withheld } = self.missed;
        format!("{FIRST}\n{stream}\n{expected}\n{replies}\n{let_go}\n{withheld}\n{LAST}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = || lines.next();
        let first = next()?;
        let account = Self {
            stream: StreamName::new(next()?).ok()?,
            expected: u64::from_str(next()?).ok()?,
            replies: match next()? {
                "let-go" => OnLogFailure::Forward,
                "withheld" => OnLogFailure::Refuse,
                _ => return None,
            },
            missed: Missed {
                let_go: u64::from_str(next()?).ok()?,
                withheld: u64::from_str(next()?).ok()?,
            },
        };
        (first == FIRST && next()? == LAST).then_some(account)
    }
}

/// The file, open for writing and of its whole length.
#[derive(Debug)]
pub struct MissedFile {
    file: File,
}

impl MissedFile {
    /// Makes the file in the log's folder `folder`, or opens the one that is there; its room is taken when this returns.
    ///
    /// # Errors
    /// The system's error.
    pub fn prepare(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(0o640).custom_flags(no_follow());
        let file = options.open(folder.join(NAME))?;
        let this = Self { file };
        if usize::try_from(this.file.metadata()?.len()).ok() != Some(LENGTH) {
            this.file.set_len(0)?;
            this.clear()?;
        }
        Ok(this)
    }

    /// Says nothing any more.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.write("")
    }

    /// Whether it says nothing: where it said something, another process has recorded that.
    pub(crate) fn is_clear(&self) -> io::Result<bool> {
        let mut first = [0];
        self.file.read_exact_at(&mut first, 0)?;
        Ok(first == *b"\n")
    }

    pub(crate) fn say(&self, account: &Account) -> io::Result<()> {
        self.write(&account.encode())
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(LENGTH, b'\n');
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_all()
    }
}

/// Records what an earlier process counted and could not record, in a `gap` of `log`, which is in `folder`; gives the counts, or nothing
/// where there is nothing to tell. A crash between the entry and the end of this call makes the next opening record it again.
///
/// # Errors
/// When the file does not say what one writes there, which it then says no more; when the log does not take the entry.
pub fn settle(log: &Log, folder: &Path) -> Result<Option<Missed>, SinkError> {
    let failed = |error: io::Error| SinkError::Failed(error.into());
    let Some(text) = read(folder).map_err(failed)? else {
        return Ok(None);
    };
    let file = MissedFile::prepare(folder).map_err(failed)?;
    let Some(account) = Account::parse(&text) else {
        file.clear().map_err(failed)?;
        let said = "it does not say how many entries are missing, and is emptied";
        return Err(failed(io::Error::new(ErrorKind::InvalidData, said)));
    };
    let next = log.next_index(&account.stream);
    let next = next.map_err(|error| SinkError::Failed(error.into()))?;
    let missing = account.missing(next);
    missing.record(log, &account.stream)?;
    file.clear().map_err(failed)?;
    Ok(Some(missing).filter(|missing| missing.total() > 0))
}

/// What the file in `folder` says, where it says anything.
fn read(folder: &Path) -> io::Result<Option<String>> {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(no_follow());
    let file = match opened.open(folder.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    let most = u64::try_from(LENGTH).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let said = text.trim_end_matches('\n');
    Ok((!said.is_empty()).then(|| said.to_owned()))
}

/// Neither follows a link nor waits for a pipe.
fn no_follow() -> i32 {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags.bits().cast_signed()
}
