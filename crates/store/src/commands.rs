//! Commands on their way to the store: arguments in one buffer.

use std::collections::VecDeque;

use crate::limits::WORD_BYTES;
use crate::memory::{NoMemory, Share};

/// Whole commands in order.
#[derive(Debug, Default)]
pub struct Commands {
    queue: VecDeque<Command>,
    bytes: usize,
}

/// One command: its name and arguments.
#[derive(Debug, Default)]
pub struct Command {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The memory that it takes, where that counts.
    pub(crate) share: Option<Share>,
    /// Why it is not carried out, whatever it was.
    pub(crate) refusal: Option<NoMemory>,
}

impl Command {
    /// In the place of a command for which there is no memory: its client is told so.
    pub fn refused(reason: NoMemory) -> Self {
        Self {
            refusal: Some(reason),
            ..Self::default()
        }
    }

    /// Keeps a part of the memory for as long as the command is there.
    pub fn keep(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// Bytes that it takes while it waits.
    pub(crate) fn cost(&self) -> usize {
        let words = self.ends.len().saturating_add(1);
        self.len().saturating_add(words.saturating_mul(WORD_BYTES))
    }

    /// Adds an argument; the first is the command's name.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn arguments(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let cut = |end: &usize| {
            let argument = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            argument
        };
        self.ends.iter().map(cut).collect()
    }

    const fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Commands {
    /// Adds a command at the end.
    pub fn push(&mut self, command: Command) {
        self.bytes = self.bytes.saturating_add(command.len());
        self.queue.push_back(command);
    }

    /// Moves all of `other` to the end.
    pub fn append(&mut self, other: &mut Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
        self.queue.append(&mut other.queue);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The bytes of all arguments together.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pop(&mut self) -> Option<Command> {
        let command = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(command.len());
        Some(command)
    }
}
