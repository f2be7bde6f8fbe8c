//! Reason why a command has no result: an error for the client, or a failure of the store.

use redb::StorageError;

use crate::command::c_string;

/// Reason why a command has no result.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The client gets this error; nothing was changed.
    Said(Vec<u8>),
    /// One record does not open, because its bytes or the key of its subject are damaged. Others are
    /// whole: only commands that need it are refused.
    Damaged(String),
    /// The file failed. Changes that were not durable are undone, and the store carries out nothing
    /// more.
    Store(redb::Error),
}

impl From<StorageError> for Fail {
    fn from(error: StorageError) -> Self {
        Self::Store(error.into())
    }
}

impl From<redb::TableError> for Fail {
    fn from(error: redb::TableError) -> Self {
        Self::Store(error.into())
    }
}

impl Fail {
    pub(crate) fn said(text: &str) -> Self {
        Self::Said(text.as_bytes().to_vec())
    }

    /// Returns an error that repeats an argument, in the form of Redis: as much of it as C would read, and no line ends at the end of
    /// the error.
    pub(crate) fn about(intro: &str, argument: &[u8], end: &str) -> Self {
        let argument = c_string(argument, usize::MAX);
        let text = [intro.as_bytes(), argument, end.as_bytes()].concat();
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let kept = text.iter().rposition(|byte| !is_end(byte));
        let kept = kept.map_or(0, |last| last + 1);
        Self::Said(text.get(..kept).unwrap_or_default().to_vec())
    }

    /// Returns the error that a client gets for a record that does not open.
    pub(crate) fn unread(what: &str) -> Self {
        let text = format!(
            "ERR {what}, so that its data does not open; nothing was done; put back both files of the store from one \
             backup, of one time, or give the data up with DEL"
        );
        Self::said(&text)
    }

    /// Returns the failure for rows that do not fit together, which only damage explains.
    pub(crate) fn broken(what: &str) -> Self {
        let text = format!("{what} is not of the store's form");
        StorageError::Corrupted(text).into()
    }

    pub(crate) fn wrong_type() -> Self {
        Self::said("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    pub(crate) fn syntax() -> Self {
        Self::said("ERR syntax error")
    }

    pub(crate) fn not_integer() -> Self {
        Self::said("ERR value is not an integer or out of range")
    }

    pub(crate) fn out_of_bounds(least: i64, most: i64) -> Self {
        let text = format!("ERR value is out of range, value must between {least} and {most}");
        Self::said(&text)
    }

    pub(crate) fn not_float() -> Self {
        Self::said("ERR value is not a valid float")
    }

    pub(crate) fn no_such_key() -> Self {
        Self::said("ERR no such key")
    }

    pub(crate) fn out_of_range() -> Self {
        Self::said("ERR index out of range")
    }

    pub(crate) fn arity(command: &str) -> Self {
        let text = format!("ERR wrong number of arguments for '{command}' command");
        Self::said(&text)
    }

    pub(crate) fn invalid_expire(command: &str) -> Self {
        let text = format!("ERR invalid expire time in '{command}' command");
        Self::said(&text)
    }
}
