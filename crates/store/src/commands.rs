//! Commands on their way to the store: arguments in one buffer.

use std::collections::VecDeque;

use crate::command::NAME_BYTES_MAX;
use crate::memory::{ALLOCATION_BYTES, NoMemory, Share};

/// Bytes that one command's place in a queue takes. Queues grow by doubling, so that up to half of
/// their places are empty.
const PLACE_BYTES: usize = 2 * size_of::<Command>();
/// Least room of a text and of the places of its arguments, in elements, as vectors take it.
const TEXT_ROOM_MIN: usize = 8;
const ENDS_ROOM_MIN: usize = 4;

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
    /// Creates a command without arguments, with room for `arguments` arguments of `bytes` bytes
    /// together.
    pub fn with_room(arguments: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(arguments),
            ..Self::default()
        }
    }

    /// In the place of a command for which there is no memory: its client is told so. Its name says what becomes of a
    /// transaction; one that is no command's is not kept.
    pub fn refused(reason: NoMemory, name: &[u8]) -> Self {
        let mut command = Self {
            refusal: Some(reason),
            ..Self::default()
        };
        if name.len() <= NAME_BYTES_MAX {
            command.push(name);
        }
        command
    }

    /// Keeps a part of the memory for as long as the command is there.
    pub fn keep(&mut self, share: Share) {
        self.share = Some(share);
    }

    /// Bytes that it takes while it waits: its place in the queue, and both of its buffers as they are.
    pub(crate) fn cost(&self) -> usize {
        let text = self.bytes.capacity().max(TEXT_ROOM_MIN);
        let ends = self.ends.capacity().max(ENDS_ROOM_MIN);
        let ends = ends.saturating_mul(size_of::<usize>());
        let fixed = PLACE_BYTES + 2 * ALLOCATION_BYTES;
        text.saturating_add(ends).saturating_add(fixed)
    }

    /// Adds an argument; the first is the command's name.
    pub fn push(&mut self, argument: &[u8]) {
        self.bytes.extend_from_slice(argument);
        self.ends.push(self.bytes.len());
    }

    fn name(&self) -> Option<&[u8]> {
        self.bytes.get(..*self.ends.first()?)
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
}

impl Commands {
    /// Adds a command at the end.
    pub fn push(&mut self, command: Command) {
        self.bytes = self.bytes.saturating_add(command.cost());
        self.queue.push_back(command);
    }

    /// Moves all of `other` to the end.
    pub fn append(&mut self, other: &mut Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
        self.queue.append(&mut other.queue);
    }

    /// Returns the number of commands.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether there is no command.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns whether the first command has this name.
    pub fn begin_with(&self, name: &[u8]) -> bool {
        let first = self.queue.front().and_then(Command::name);
        first.is_some_and(|first| first.eq_ignore_ascii_case(name))
    }

    /// The bytes of memory that all of them take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pop(&mut self) -> Option<Command> {
        let command = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(command.cost());
        Some(command)
    }
}
