//! One client of the store: what the connection remembers between commands.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::command::Spec;
use crate::commands::Commands;
use crate::memory::{Memory, Share};
use crate::reply::Protocol;

/// What a connection remembers between commands.
#[derive(Debug, Default)]
pub struct Client {
    pub(crate) id: u64,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// Memory of all clients, for what this one says.
    pub(crate) memory: Memory,
    pub(crate) name: Vec<u8>,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) watch: Watch,
    pub(crate) answers: Answers,
    /// Whether the connection ends after what was answered.
    pub(crate) closing: bool,
    pub(crate) last_command: &'static str,
    pub(crate) connected: u64,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) specs: Vec<&'static Spec>,
    pub(crate) commands: Commands,
    /// Whether a command was refused, so that EXEC will be.
    pub(crate) broken: bool,
}

/// The keys a client watches.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) touched: Arc<AtomicBool>,
    /// Database and key of those that had not expired when the watching began.
    pub(crate) keys: Vec<(usize, Vec<u8>)>,
    pub(crate) bytes: usize,
    /// What the keys take of the memory of all clients.
    pub(crate) share: Option<Share>,
}

/// Whether replies are wanted, as CLIENT REPLY said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Answers {
    #[default]
    On,
    Off,
    /// The command under way asked to skip the next one.
    SkipNext,
    /// The command under way is the one to skip.
    Skip,
}

impl Client {
    /// The client as it was when it came.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            id: self.id,
            connected: self.connected,
            last_command: self.last_command,
            memory: self.memory.clone(),
            ..Self::default()
        };
    }

    /// Forgets the watched keys.
    pub(crate) fn unwatch(&mut self) {
        self.watch = Watch::default();
    }
}
