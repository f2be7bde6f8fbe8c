//! The file of the log's folder that keeps the count of missing entries until a `gap` says it.
//!
//! The file has its whole length from the start of the proxy on, so that a full disk does not keep
//! the count from being written. The log's keys authenticate it. It is no evidence: a process that
//! can write to the log's folder can remove it, until the entry is in the log.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use probity_log::{Authenticator, Log, StreamName};
use rustix::fs::OFlags;

use crate::config::OnLogFailure;
use crate::missed::{Missed, Recorded, record_unknown};
use crate::sink::SinkError;

/// Its name in the log's folder.
const NAME: &str = "missed";
/// Its length in bytes: an authenticator, the count, then line ends.
const LENGTH: usize = 1024;
/// Bytes of the authenticator.
const TAG_BYTES: usize = 32;
/// The purpose of the authenticator, which covers everything behind it.
const DOMAIN: &str = "probity/missed/v2";
/// Times that a lock is tried which another process holds: some five seconds.
const LOCK_TRIES_MAX: u32 = 500;
/// The interval between two looks for such a process.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Entries of a stream that are missing, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// Tells the `gap` that is attempted from every other.
    pub(crate) number: u128,
    pub(crate) stream: StreamName,
    /// Entries of one kind whose `gap` the log has, or not; none where it was not attempted.
    pub(crate) attempt: Missed,
    /// Next index of the stream if all entries that were handed in are there, without that `gap`; 0 where none of them can be missing.
    pub(crate) expected: u64,
    /// Treatment of the replies of those.
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
        self.missed.plus(self.lost(next)).plus(self.attempt)
    }

    /// Records the attempt in `log`, where there is one; gives the index at which the stream went on without it.
    pub(crate) fn resolve(&self, log: &Log) -> Result<u64, SinkError> {
        let next = log.next_index(&self.stream);
        let next = next.map_err(|error| SinkError::Failed(error.into()))?;
        if self.attempt.total() == 0 {
            return Ok(next);
        }
        Ok(match self.attempt.record(self.number, log, &self.stream)? {
            Recorded::Now => next,
            // Its index lies behind the entries that were handed in, and before `next`.
            Recorded::Before => next.saturating_sub(1),
        })
    }

    fn encode(&self) -> String {
        let replies = match self.replies {
            OnLogFailure::Forward => "let-go",
            OnLogFailure::Refuse => "withheld",
        };
        let (number, stream, expected) = (self.number, &self.stream, self.expected);
        let [attempt, missed] = [self.attempt, self.missed].map(written);
        format!("missing {number:032x}\n{stream}\n{attempt}\n{expected}\n{replies}\n{missed}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = || lines.next();
        let number = next()?.strip_prefix("missing ")?;
        Some(Self {
            number: u128::from_str_radix(number, 16).ok()?,
            stream: StreamName::new(next()?).ok()?,
            attempt: parse_missed(next()?)?,
            expected: u64::from_str(next()?).ok()?,
            replies: match next()? {
                "let-go" => OnLogFailure::Forward,
                "withheld" => OnLogFailure::Refuse,
                _ => return None,
            },
            missed: parse_missed(next()?)?,
        })
    }
}

fn written(missed: Missed) -> String {
    format!("{} {}", missed.let_go, missed.withheld)
}

fn parse_missed(text: &str) -> Option<Missed> {
    let (let_go, withheld) = text.split_once(' ')?;
    Some(Missed {
        let_go: u64::from_str(let_go).ok()?,
        withheld: u64::from_str(withheld).ok()?,
    })
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing is missing.
    Nothing,
    Account(Account),
    /// The accounts up to this number are in the log.
    Settled(u128),
    /// Not written with the keys of this log, or not as a whole.
    Foreign,
}

/// The file, open for writing.
#[derive(Debug)]
pub struct MissedFile {
    file: File,
    authenticator: Authenticator,
}

/// Keeps other processes from the file until it is dropped.
pub(crate) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Closing the file, at the latest, gives it back.
        drop(self.0.unlock());
    }
}

impl MissedFile {
    /// Makes the file in `folder`, the log's, or opens the one that is there; its room is taken when this returns.
    ///
    /// # Errors
    /// The system's error.
    pub fn prepare(log: &Log, folder: &Path) -> io::Result<Self> {
        let mut options = options();
        let file = options.create(true).truncate(false).mode(0o640);
        let this = Self::of(log, file.open(folder.join(NAME))?);
        if usize::try_from(this.file.metadata()?.len()).ok() != Some(LENGTH) {
            this.file.set_len(0)?;
            this.clear()?;
        }
        Ok(this)
    }

    /// The file that is there.
    fn existing(log: &Log, folder: &Path) -> io::Result<Self> {
        Ok(Self::of(log, options().open(folder.join(NAME))?))
    }

    fn of(log: &Log, file: File) -> Self {
        let authenticator = log.authenticator(DOMAIN);
        Self {
            file,
            authenticator,
        }
    }

    /// Waits for other processes, but not for ever.
    pub(crate) fn lock(&self) -> io::Result<Locked<'_>> {
        for _ in 0..LOCK_TRIES_MAX {
            match self.file.try_lock() {
                Ok(()) => return Ok(Locked(&self.file)),
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_INTERVAL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let reason = "another process holds the file `missed`";
        Err(io::Error::new(ErrorKind::TimedOut, reason))
    }

    /// Nothing is missing any more.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.write(&[b'\n'; LENGTH])
    }

    pub(crate) fn say(&self, account: &Account) -> io::Result<()> {
        self.write(&self.seal(&account.encode())?)
    }

    /// Says that the accounts up to this number are in the log.
    pub(crate) fn settle(&self, number: u128) -> io::Result<()> {
        self.write(&self.seal(&format!("settled {number:032x}\n"))?)
    }

    pub(crate) fn read(&self) -> io::Result<Content> {
        let mut bytes = Vec::new();
        let most = u64::try_from(LENGTH).map_err(io::Error::other)?;
        let mut file = &self.file;
        io::Seek::rewind(&mut file)?;
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok(self.parse(&bytes))
    }

    fn parse(&self, bytes: &[u8]) -> Content {
        // A crash right after its creation leaves it short, or full of zeros.
        if bytes.iter().all(|byte| matches!(byte, b'\n' | 0)) {
            return Content::Nothing;
        }
        let authentic = (bytes.len() == LENGTH)
            .then(|| bytes.split_at_checked(TAG_BYTES))
            .flatten()
            .filter(|(tag, said)| self.authenticator.matches(said, tag));
        let text = authentic.and_then(|(_, said)| std::str::from_utf8(said).ok());
        let parsed = text.and_then(|text| {
            let settled = text.trim_end_matches('\n').strip_prefix("settled ");
            match settled {
                Some(number) => u128::from_str_radix(number, 16).ok().map(Content::Settled),
                None => Account::parse(text).map(Content::Account),
            }
        });
        parsed.unwrap_or(Content::Foreign)
    }

    fn seal(&self, text: &str) -> io::Result<[u8; LENGTH]> {
        let mut bytes = [b'\n'; LENGTH];
        let (tag, said) = bytes.split_at_mut(TAG_BYTES);
        let place = said.get_mut(..text.len());
        let place = place.ok_or_else(|| io::Error::other("the count does not fit its file"))?;
        place.copy_from_slice(text.as_bytes());
        tag.copy_from_slice(&self.authenticator.tag(said));
        Ok(bytes)
    }

    fn write(&self, bytes: &[u8; LENGTH]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)?;
        self.file.sync_all()
    }
}

/// The result of [`settle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all that can be")]
pub enum Settled {
    /// The number of missing entries.
    Counted(Missed),
    /// An unknown number of entries is missing: the file was not written with the log's keys, or
    /// not as a whole.
    Unknown,
    /// Nothing: something else than a file has its name.
    NoFile,
}

/// Records what an earlier process counted and could not record, in a `gap` of `log`, which is in `folder`; gives it, or nothing where there
/// is nothing to tell. A crash at any moment leaves it to the next opening, which records nothing twice.
///
/// # Errors
/// When the file cannot be read or written; when the log does not take the entry.
pub fn settle(log: &Log, folder: &Path) -> Result<Option<Settled>, SinkError> {
    let failed = |error: io::Error| SinkError::Failed(error.into());
    match fs::symlink_metadata(folder.join(NAME)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found if !found.as_ref().is_ok_and(fs::Metadata::is_file) => {
            return found.map(|_strange| Some(Settled::NoFile)).map_err(failed);
        }
        _ => {}
    }
    let file = MissedFile::existing(log, folder).map_err(failed)?;
    let _lock = file.lock().map_err(failed)?;
    match file.read().map_err(failed)? {
        Content::Nothing | Content::Settled(_) => Ok(None),
        Content::Foreign => {
            record_unknown(log, &any_stream(log)?)?;
            file.clear().map_err(failed)?;
            Ok(Some(Settled::Unknown))
        }
        Content::Account(account) => settle_account(log, &file, account),
    }
}

fn settle_account(
    log: &Log,
    file: &MissedFile,
    found: Account,
) -> Result<Option<Settled>, SinkError> {
    let failed = |error: io::Error| SinkError::Failed(error.into());
    let mut account = found;
    let mut recorded = account.attempt;
    loop {
        let next = account.resolve(log)?;
        let rest = account.missed.plus(account.lost(next));
        if rest.total() == 0 {
            break;
        }
        // Before the entry: it moves the index from which the rest was computed.
        account = Account {
            number: account.number.wrapping_add(1),
            attempt: rest.first_kind(),
            expected: 0,
            missed: rest.other_kind(),
            ..account
        };
        file.say(&account).map_err(failed)?;
        recorded = recorded.plus(account.attempt);
    }
    file.settle(account.number).map_err(failed)?;
    Ok((recorded.total() > 0).then_some(Settled::Counted(recorded)))
}

/// The stream in which a proxy records unless it is told otherwise, or else the first.
fn any_stream(log: &Log) -> Result<StreamName, SinkError> {
    let mut streams = log.streams();
    streams.retain(|(name, _)| log.appender(name).is_ok());
    let usual = streams.iter().find(|(name, _)| name.as_str() == "default");
    let found = usual.or_else(|| streams.first());
    let found = found.map(|(name, _)| name.clone());
    found.ok_or_else(|| SinkError::Failed("the log has no stream to record it in".into()))
}

/// Neither follows a link nor waits for a pipe.
fn options() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(flags.bits().cast_signed());
    options
}

#[cfg(test)]
mod tests;
