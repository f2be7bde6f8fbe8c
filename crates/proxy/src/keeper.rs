//! What is done about a log that failed: it is opened again, and what it did not take is recorded.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use probity_log::{Log, LogError};
use tokio::time::Instant;

use crate::config::OnLogFailure;
use crate::log_sink::{LogAccount, LogSource};
use crate::missed::{Account, Missed, MissedFile};

/// How often the log is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long after a first attempt to open a log that failed the next one follows.
pub const REOPEN_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest time between two attempts: each one waits twice as long as the one before.
pub const REOPEN_INTERVAL_MAX: Duration = Duration::from_secs(8);
/// How often the count is written to its file while it grows.
const SAY_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the log again; the errors are those of an opening.
pub type Reopen = Box<dyn Fn() -> Result<Log, Box<dyn std::error::Error>> + Send>;

/// How a log that failed is treated.
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Keeping {
    /// Opens the log again; `None` leaves it as it is.
    pub reopen: Option<Reopen>,
    /// Keeps the count where the log cannot take it.
    pub file: MissedFile,
    /// What becomes of the replies of entries that were handed in and never became durable.
    pub handed_in: OnLogFailure,
    /// Is told what happens, in one sentence without a full stop.
    pub tell: Box<dyn Fn(&str) + Send>,
}

/// A thread that keeps the account of a [`LogSource`] in order.
pub struct Keeper {
    account: Arc<LogAccount>,
    stop: Arc<Stop>,
    thread: JoinHandle<Keeping>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

/// How a log ended.
#[derive(Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a plain record")]
pub struct Ending {
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
        let keep = Keep {
            account: Arc::clone(&account),
            stop: Arc::clone(&stop),
            keeping,
            said: None,
            said_at: None,
            forgotten: None,
            wait: REOPEN_INTERVAL_MIN,
            reopen_at: None,
        };
        let thread = std::thread::Builder::new().name("probity-keeper".into());
        let thread = thread.spawn(move || keep.run())?;
        Ok(Self {
            account,
            stop,
            thread,
        })
    }

    /// Records what is missing, as far as the log takes it, and closes the log. To be called when the proxy has stopped.
    pub fn finish(self) -> Ending {
        *self
            .stop
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let keeping = self.thread.join();
        self.account.retire();
        let error = self.account.close().err();
        let mut ending = Ending {
            missing: self.account.missed(),
            error,
            forgotten: None,
        };
        let Ok(keeping) = keeping else {
            ending.forgotten = Some(io::Error::other("the thread that counts ended"));
            return ending;
        };
        let mut account = self.account.account(keeping.handed_in);
        if ending.error.is_none() {
            account.expected = 0;
        }
        ending.missing = account.missing(self.account.next_known());
        // A log that failed may hold less or more than it gave receipts for: its next opening tells.
        let said = if ending.error.is_none() && ending.missing.total() == 0 {
            keeping.file.clear()
        } else {
            keeping.file.say(&account)
        };
        ending.forgotten = said.err();
        ending
    }
}

impl LogAccount {
    /// What the file is to say, of a log that failed.
    fn account(&self, replies: OnLogFailure) -> Account {
        Account {
            stream: self.stream.clone(),
            expected: self.opened().start.saturating_add(self.handed()),
            replies,
            missed: self.missed(),
        }
    }

    /// Where the stream goes on, as far as receipts say.
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

struct Keep {
    account: Arc<LogAccount>,
    stop: Arc<Stop>,
    keeping: Keeping,
    /// What the file says.
    said: Option<Account>,
    said_at: Option<Instant>,
    /// Why the file does not say it.
    forgotten: Option<io::ErrorKind>,
    wait: Duration,
    reopen_at: Option<Instant>,
}

impl Keep {
    fn run(mut self) -> Keeping {
        loop {
            let stops = self.pause();
            if self.account.is_failed() {
                self.mend(stops);
            }
            if !self.account.is_failed() {
                self.record();
            }
            if stops {
                return self.keeping;
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
            (self.keeping.tell)("the log takes no entries any more");
            self.say(self.account.account(self.keeping.handed_in));
            if self.keeping.reopen.is_some() {
                // Gives the lock back; that the log failed is known.
                drop(self.account.close());
            }
            self.reopen_at = Some(Instant::now());
        }
        let due = stops || self.reopen_at.is_some_and(|at| at <= Instant::now());
        let account = self.account.account(self.keeping.handed_in);
        let is_old = self.said_at.is_none_or(|at| at.elapsed() >= SAY_INTERVAL);
        if is_old || due {
            self.say(account);
        }
        if due && self.keeping.reopen.is_some() && !self.reopen() {
            self.reopen_at = Some(Instant::now() + self.wait);
            self.wait = (self.wait * 2).min(REOPEN_INTERVAL_MAX);
        }
    }

    /// Whether the log is open again.
    fn reopen(&mut self) -> bool {
        let Some(Ok(log)) = self.keeping.reopen.as_ref().map(|reopen| reopen()) else {
            return false;
        };
        let Ok(next) = log.next_index(&self.account.stream) else {
            return false;
        };
        if let (Some(said), Ok(true)) = (self.said.take(), self.keeping.file.is_clear()) {
            // Another process had the log meanwhile, and recorded what the file said.
            self.account.recorded(said.missed);
        } else {
            let account = self.account.account(self.keeping.handed_in);
            self.account.miss(account.lost(next));
        }
        self.account.renew(log, next);
        (self.keeping.tell)("the log takes entries again");
        self.reopen_at = None;
        true
    }

    /// Records what is missing in a log that takes entries.
    fn record(&mut self) {
        let missed = self.account.missed();
        if missed.total() == 0 {
            return;
        }
        let log = self.account.opened().log.clone();
        // A crash in between leaves the count in the file.
        let account = Account {
            expected: 0,
            ..self.account.account(self.keeping.handed_in)
        };
        self.say(account);
        if missed.record(&log, &self.account.stream).is_err() {
            return;
        }
        self.account.recorded(missed);
        let gaps = u64::from(missed.let_go > 0) + u64::from(missed.withheld > 0);
        self.account.hand(gaps);
        self.wait = REOPEN_INTERVAL_MIN;
        (self.keeping.tell)(&format!(
            "{} entries are missing from the log, and a `gap` in it says so",
            missed.total()
        ));
        if let Err(error) = self.keeping.file.clear() {
            self.cannot_keep(&error);
        }
        self.said = None;
    }

    fn say(&mut self, account: Account) {
        if self.said.as_ref() == Some(&account) {
            return;
        }
        self.said_at = Some(Instant::now());
        match self.keeping.file.say(&account) {
            Ok(()) => (self.said, self.forgotten) = (Some(account), None),
            Err(error) => self.cannot_keep(&error),
        }
    }

    /// Tells once that the count is in memory alone.
    fn cannot_keep(&mut self, error: &io::Error) {
        if self.forgotten.replace(error.kind()) != Some(error.kind()) {
            (self.keeping.tell)(&format!(
                "warning: how many entries are missing is known to this process alone: the file `missed` cannot be written: {error}"
            ));
        }
    }
}
