//! The idempotency keys that lines get from the name of `--idempotency-key`.

use probity_format::entry::{KeySeries, idempotency_digest};
use probity_format::{Digest, EntryError};
use probity_log::{AppendError, Appender, Options};

use crate::failure::Failure;

/// Lines for which keys of an earlier version are tried: it takes about a second.
const EARLIER_LINES_MAX: u64 = 1 << 23;

/// The keys of lines under one name.
pub(super) struct Series {
    name: String,
    keys: KeySeries,
    /// The last line that an earlier run recorded, as far as the log remembers.
    last: Option<u64>,
}

impl Series {
    /// The keys of lines under the name `name`, before any is recorded from line `first` on: none of this
    /// run counts as an earlier one. The next entry of the stream gets index `next`.
    ///
    /// # Errors
    /// [`AppendError::Entry`] for a name that is no key; [`AppendError::KeysUnread`].
    pub(super) fn new(
        name: &str,
        (first, next): (u64, u64),
        appender: &Appender,
    ) -> Result<Self, AppendError> {
        let mut series = Self {
            name: name.to_owned(),
            keys: KeySeries::new(name)?,
            last: None,
        };
        series.last = series.find_last((first, next), appender)?;
        Ok(series)
    }

    /// The key of line `number`; the one that an earlier version of the program gave it, where the log
    /// remembers that.
    ///
    /// # Errors
    /// [`AppendError::KeysUnread`].
    pub(super) fn key(&self, number: u64, appender: &Appender) -> Result<Digest, AppendError> {
        let earlier = self.earlier_key(number)?;
        let is_earlier = appender.remembers(&earlier)?;
        Ok(if is_earlier {
            earlier
        } else {
            self.keys.digest(number)
        })
    }

    fn earlier_key(&self, number: u64) -> Result<Digest, EntryError> {
        idempotency_digest(&format!("{}/{number}", self.name))
    }

    /// Refuses line `number` with the key `key`, its own or one of the name, where it may be recorded
    /// already: the log has a later line of this name, and has forgotten keys.
    pub(super) fn check(
        &self,
        number: u64,
        key: &Digest,
        appender: &Appender,
    ) -> Result<(), Failure> {
        let Some(last) = self.last.filter(|last| *last > number) else {
            return Ok(());
        };
        if appender.remembers(key)? || appender.remembers_all()? {
            return Ok(());
        }
        Err(Failure::new(format!(
            "line {number}: line {last} of this name is in the log, and this one may be: the log looks for keys among the last {} keyed entries and {} MiB of \
             the stream alone",
            Options::IDEMPOTENCY_KEYS_MAX,
            Options::IDEMPOTENCY_BYTES_MAX >> 20
        )))
    }

    /// The last line of this name that the log remembers, in a stream whose next entry gets index `next`.
    ///
    /// The keys of an earlier version do not show their number. They are tried for as many lines as there
    /// are entries, the `first` lines that are passed over besides, up to a bound.
    fn find_last(
        &self,
        (first, next): (u64, u64),
        appender: &Appender,
    ) -> Result<Option<u64>, AppendError> {
        let last = appender.last_of(&self.keys)?;
        if appender.remembers_all()? {
            return Ok(last);
        }
        let lines = next.saturating_add(first).min(EARLIER_LINES_MAX);
        let mut earlier = None;
        for line in 1..=lines {
            if appender.remembers(&self.earlier_key(line)?)? {
                earlier = Some(line);
            }
        }
        Ok(last.max(earlier))
    }
}
