//! The idempotency keys that lines get from the name of `--idempotency-key`.

use probity_format::Digest;
use probity_format::entry::KeySeries;
use probity_log::{AppendError, Appender, Options};

use crate::failure::Failure;

/// The keys of lines under one name.
pub(super) struct Series {
    keys: KeySeries,
    /// The last line that an earlier run recorded, as far as the log remembers.
    last: Option<u64>,
}

impl Series {
    /// The keys of lines under the name `name`, before any is recorded: none of this run counts as an earlier
    /// one.
    ///
    /// # Errors
    /// [`AppendError::Entry`] for a name that is no key; [`AppendError::KeysUnread`].
    pub(super) fn new(name: &str, appender: &Appender) -> Result<Self, AppendError> {
        let keys = KeySeries::new(name)?;
        let last = appender.last_of(&keys)?;
        Ok(Self { keys, last })
    }

    /// The key of line `number`.
    pub(super) fn key(&self, number: u64) -> Digest {
        self.keys.digest(number)
    }

    /// Refuses line `number` with the key `key` where it may be recorded already: the log has a later line of this name, and has forgotten keys.
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
}
