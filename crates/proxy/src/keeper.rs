//! The repair of a failed log: it is opened again, and the number of missing entries is recorded.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use probity_log::{Log, LogError};
use rustix::rand::GetRandomFlags;
use tokio::time::Instant;

use crate::config::OnLogFailure;
use crate::kept::KeptAccount;
use crate::log_sink::{LogAccount, LogSource};
use crate::missed::Missed;
use crate::missed_file::{Account, MissedFile};

/// The interval between two looks at the log.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The wait after a first failed attempt to open the log again.
pub const REOPEN_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest time between two attempts: each one waits twice as long as the one before.
pub const REOPEN_INTERVAL_MAX: Duration = Duration::from_secs(8);
/// The interval at which the count is written to its file while it grows.
const SAY_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the log again; the errors are those of an opening.
pub type Reopen = Box<dyn Fn() -> Result<Log, Box<dyn std::error::Error>> + Send>;

/// The treatment of a failed log.
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Keeping {
    /// Opens the log again; `None` leaves it as it is.
    pub reopen: Option<Reopen>,
    /// Keeps the count where the log cannot take it.
    pub file: MissedFile,
    /// The treatment of replies whose entries were handed in and never became durable.
    pub handed_in: OnLogFailure,
    /// Is told what happens, in one sentence without a full stop.
    pub tell: Box<dyn Fn(&str) + Send>,
}

/// A thread that keeps the account of a [`LogSource`] in order.
pub struct Keeper {
    account: Arc<LogAccount>,
    stop: Arc<Stop>,
    /// Treatment of the replies of entries that were handed in and never became durable.
    replies: OnLogFailure,
    told: Receiver<Told>,
}

/// A message of the thread while it ends.
enum Told {
    /// The file has the count for the case that the log is not closed, or why it does not.
    Noted(Option<io::Error>),
    Ended(Ending),
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

/// The end of a log.
#[derive(Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Ending {
    /// True if the log was not closed in the time that was given; its threads go on until the process ends.
    pub is_late: bool,
    /// Why the log could not be closed in order.
    pub error: Option<LogError>,
    /// Entries that are not known to be in the log and that no `gap` counts: at most, until it is opened again.
    pub missing: Missed,
    /// Why the count could not be kept for the next opening.
    pub forgotten: Option<io::Error>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has none.
    pub fn start(source: &LogSource, keeping: Keeping) -> io::Result<Self> {
        let account = Arc::clone(&source.account);
        let stop = Arc::new(Stop::default());
        let mut number = [0; 16];
        rustix::rand::getrandom(&mut number, GetRandomFlags::empty())?;
        let replies = keeping.handed_in;
        let (tell, told) = mpsc::channel();
        let keep = Keep {
            account: Arc::clone(&account),
            stop: Arc::clone(&stop),
            kept: KeptAccount::new(keeping.file, u128::from_le_bytes(number)),
            reopen: keeping.reopen,
            replies,
            tell: keeping.tell,
            handed_in: HandedIn::Known,
            attempt: Missed::default(),
            said_at: None,
            forgotten: None,
            wait: REOPEN_INTERVAL_MIN,
            reopen_at: None,
        };
        let thread = std::thread::Builder::new().name("probity-keeper".into());
        thread.spawn(move || {
            let ending = keep.run().end(&tell);
            let _nobody_waits_any_more = tell.send(Told::Ended(ending));
        })?;
        Ok(Self {
            account,
            stop,
            replies,
            told,
        })
    }

    /// Records the missing entries, as far as the log takes them, and closes the log, or waits `most` for it in vain. Call it when the
    /// proxy has stopped. Where it is late, the process may end: what the log has not made durable by then is recorded as missing at its
    /// next opening.
    pub fn finish(self, most: Duration) -> Ending {
        let end = Instant::now() + most;
        *self
            .stop
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let mut forgotten = Some(io::Error::new(
            io::ErrorKind::TimedOut,
            "the disk did not answer in time",
        ));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.told.recv_timeout(left) {
                Ok(Told::Noted(noted)) => forgotten = noted,
                Ok(Told::Ended(ending)) => return ending,
                Err(RecvTimeoutError::Timeout) => return self.late(forgotten),
                Err(RecvTimeoutError::Disconnected) => return self.close_alone(left),
            }
        }
    }

    /// The end of a log that is not closed in time.
    fn late(&self, forgotten: Option<io::Error>) -> Ending {
        self.account.retire();
        let expected = self.account.expected();
        let lost = expected.saturating_sub(self.account.next_known());
        let counted = self.account.missed().plus(self.account.attempted());
        Ending {
            is_late: true,
            error: None,
            missing: counted.plus(Missed::of(self.replies, lost)),
            forgotten,
        }
    }

    /// Closes the log once the thread that counts has ended by a fault of the program.
    fn close_alone(&self, most: Duration) -> Ending {
        let fault = || Some(io::Error::other("the thread that counts ended"));
        self.account.retire();
        let (tell, told) = mpsc::channel();
        let account = Arc::clone(&self.account);
        let closing = std::thread::Builder::new().name("probity-closing".into());
        let closing = closing.spawn(move || {
            let _nobody_waits_any_more = tell.send(account.close());
        });
        match closing.ok().and_then(|_| told.recv_timeout(most).ok()) {
            None => self.late(fault()),
            Some(closed) => Ending {
                is_late: false,
                error: closed.err(),
                missing: self.account.missed().plus(self.account.attempted()),
                forgotten: fault(),
            },
        }
    }
}

impl LogAccount {
    /// Next index of the stream if all entries that were handed in are there.
    fn expected(&self) -> u64 {
        self.opened().start.saturating_add(self.handed())
    }

    /// Returns the next index of the stream, as far as receipts show.
    fn next_known(&self) -> u64 {
        let opened = self.opened();
        // The stream was there when the log was opened.
        opened
            .log
            .receipted_index(&self.stream)
            .unwrap_or(opened.start)
    }

    /// Ends the log's threads and gives its lock back.
    fn close(&self) -> Result<(), LogError> {
        let log = self.opened().log.clone();
        log.close()
    }
}

/// Knowledge of entries that were handed in: whether some may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandedIn {
    /// The log failed: the entries by which the stream falls short are missing.
    Uncounted,
    /// None that is not counted.
    Known,
}

struct Keep {
    account: Arc<LogAccount>,
    stop: Arc<Stop>,
    kept: KeptAccount,
    reopen: Option<Reopen>,
    /// Treatment of the replies of entries that were handed in and never became durable.
    replies: OnLogFailure,
    tell: Box<dyn Fn(&str) + Send>,
    handed_in: HandedIn,
    /// Entries of one kind whose `gap` is attempted under the present number.
    attempt: Missed,
    said_at: Option<Instant>,
    /// Reason why the file does not hold the count.
    forgotten: Option<io::Error>,
    wait: Duration,
    reopen_at: Option<Instant>,
}

impl Keep {
    fn run(mut self) -> Self {
        loop {
            let stops = self.pause();
            if self.account.is_failed() {
                self.mend(stops);
            }
            if !self.account.is_failed() {
                self.record();
            }
            if stops {
                return self;
            }
        }
    }

    /// Waits; whether the end was asked for.
    fn pause(&self) -> bool {
        let asked = self.stop.asked.lock();
        let asked = asked.unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .stop
            .changed
            .wait_timeout_while(asked, LOOK_INTERVAL, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Keeps the count of a log that failed, and opens the log again where that is wanted and it is time.
    fn mend(&mut self, stops: bool) {
        if self.reopen_at.is_none() {
            self.account.retire();
            self.handed_in = HandedIn::Uncounted;
            (self.tell)("the log takes no entries any more");
            self.say();
            if self.reopen.is_some() {
                // Gives the lock back; that the log failed is known.
                drop(self.account.close());
            }
            self.reopen_at = Some(Instant::now());
        }
        let due = stops || self.reopen_at.is_some_and(|at| at <= Instant::now());
        if due || self.said_at.is_none_or(|at| at.elapsed() >= SAY_INTERVAL) {
            self.say();
        }
        if due && self.reopen.is_some() && !self.reopen() {
            self.reopen_at = Some(Instant::now() + self.wait);
            self.wait = (self.wait * 2).min(REOPEN_INTERVAL_MAX);
        }
    }

    /// Opens the log again; returns whether that worked.
    fn reopen(&mut self) -> bool {
        let Some(Ok(log)) = self.reopen.as_ref().map(|reopen| reopen()) else {
            return false;
        };
        // Another process had the log meanwhile, recorded the missing entries, and moved the index
        // on.
        let account = self.say();
        let Ok(next) = account.resolve(&log) else {
            return false;
        };
        self.account.miss(account.lost(next));
        self.handed_in = HandedIn::Known;
        self.settle_attempt();
        // Before this process moves the index on.
        self.say();
        let Ok(start) = log.next_index(&self.account.stream) else {
            return false;
        };
        self.account.renew(log, start);
        (self.tell)("the log takes entries again");
        self.reopen_at = None;
        true
    }

    /// Records the missing entries in a log that takes entries.
    fn record(&mut self) {
        let log = self.account.opened().log.clone();
        loop {
            if self.attempt.total() == 0 {
                self.set_attempt(self.account.missed().first_kind());
                self.account.recorded(self.attempt);
            }
            if self.attempt.total() == 0 {
                return;
            }
            // A crash from here on leaves the attempt, under its number, in the file.
            if self.say().resolve(&log).is_err() {
                return;
            }
            self.account.hand(1);
            self.wait = REOPEN_INTERVAL_MIN;
            self.settle_attempt();
            if self.account.missed().total() == 0 {
                let cleared = self.kept.clear();
                self.note(cleared);
            }
        }
    }

    fn set_attempt(&mut self, attempt: Missed) {
        self.attempt = attempt;
        self.account.attempt(attempt);
    }

    /// The log has the `gap` that was attempted.
    fn settle_attempt(&mut self) {
        let recorded = self.attempt;
        self.set_attempt(Missed::default());
        if recorded.total() > 0 {
            self.kept.renumber();
            (self.tell)(&format!(
                "{} entries are missing from the log, and a `gap` in it says so",
                recorded.total()
            ));
        }
    }

    /// Closes the log; the count of entries that are still missing stays in the file.
    fn end(mut self, tell: &Sender<Told>) -> Ending {
        self.account.retire();
        // Before the log is closed, which may fail or take longer than the process is given: what of the entries does not become durable is
        // missing then. Those of a log that failed before are counted.
        if self.reopen_at.is_none() {
            self.handed_in = HandedIn::Uncounted;
        }
        self.say();
        let noted = self.forgotten.as_ref();
        let noted = noted.map(|error| io::Error::new(error.kind(), error.to_string()));
        let _nobody_waits_any_more = tell.send(Told::Noted(noted));
        let error = self.account.close().err();
        if error.is_none() {
            self.handed_in = HandedIn::Known;
        }
        // A log that failed may hold less or more than it gave receipts for: its next opening tells.
        let missing = self.say().missing(self.account.next_known());
        if error.is_none() && missing.total() == 0 {
            self.forgotten = self.kept.clear().err();
        }
        Ending {
            is_late: false,
            error,
            missing,
            forgotten: self.forgotten,
        }
    }

    /// The account as it is now.
    fn counted(&self) -> Account {
        Account {
            number: self.kept.number(),
            stream: self.account.stream.clone(),
            attempt: self.attempt,
            expected: match self.handed_in {
                HandedIn::Uncounted => self.account.expected(),
                HandedIn::Known => 0,
            },
            replies: self.replies,
            missed: self.account.missed(),
        }
    }

    /// Makes the file say the account as it is now, less what another process recorded of it meanwhile; gives it.
    fn say(&mut self) -> Account {
        self.said_at = Some(Instant::now());
        loop {
            let account = self.counted();
            match self.kept.say(&account) {
                Ok(None) => {
                    self.forgotten = None;
                    return account;
                }
                Ok(Some(settled)) => {
                    self.account.recorded(settled.missed);
                    self.set_attempt(Missed::default());
                    self.handed_in = HandedIn::Known;
                }
                Err(error) => {
                    self.note(Err(error));
                    return account;
                }
            }
        }
    }

    /// Tells once that the count is in memory alone.
    fn note(&mut self, written: io::Result<()>) {
        let Err(error) = written else {
            self.forgotten = None;
            return;
        };
        let kind = self.forgotten.as_ref().map(io::Error::kind);
        if kind != Some(error.kind()) {
            (self.tell)(&format!(
                "warning: how many entries are missing is known to this process alone: the file `missed` cannot be written: {error}"
            ));
        }
        self.forgotten = Some(error);
    }
}
