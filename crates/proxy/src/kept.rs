//! The account of missing entries as one process keeps it in the file.

use std::io;

use crate::missed_file::{Account, Content, MissedFile};

/// Most numbers that another process needs to record an account.
const NUMBERS_MAX: u128 = 1 << 32;

/// The file, its content, and the number of the account that is kept now.
#[derive(Debug)]
pub(crate) struct KeptAccount {
    file: MissedFile,
    number: u128,
    said: Option<Account>,
}

impl KeptAccount {
    /// Accounts from `number` on.
    pub(crate) const fn new(file: MissedFile, number: u128) -> Self {
        Self {
            file,
            number,
            said: None,
        }
    }

    /// Of the account that is kept now.
    pub(crate) const fn number(&self) -> u128 {
        self.number
    }

    /// Makes the file say `account`. Where another process opened the log meanwhile and recorded what the file said, that is given instead, and
    /// another account begins.
    pub(crate) fn say(&mut self, account: &Account) -> io::Result<Option<Account>> {
        let _lock = self.file.lock()?;
        if let Some(said) = &self.said
            && let Content::Settled(number) = self.file.read()?
            && number.wrapping_sub(said.number) <= NUMBERS_MAX
        {
            self.number = number.wrapping_add(1);
            return Ok(self.said.take());
        }
        if self.said.as_ref() != Some(account) {
            self.file.say(account)?;
            self.said = Some(account.clone());
        }
        Ok(None)
    }

    /// The `gap` of this number was attempted: the next has another.
    pub(crate) const fn renumber(&mut self) {
        self.number = self.number.wrapping_add(1);
    }

    /// Nothing is missing.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        let _lock = self.file.lock()?;
        self.said = None;
        self.file.clear()
    }
}
