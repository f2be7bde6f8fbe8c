//! One client of the store: the state that its connection keeps between commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::Spec;
use crate::commands::Commands;
use crate::memory::Memory;
use crate::reply::Protocol;
use crate::watch::Watch;

/// The state of one connection between commands.
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
    /// True once the connection ends after the replies so far.
    pub(crate) closing: bool,
    pub(crate) last_command: &'static str,
    pub(crate) connected: u64,
    /// Its place among those that are there, from its first command on.
    pub(crate) presence: Option<Presence>,
}

/// The number of clients that are there.
#[derive(Debug, Default)]
pub(crate) struct Present(Arc<AtomicU64>);

/// One of those that are there, for as long as this is.
#[derive(Debug)]
pub(crate) struct Presence(Arc<AtomicU64>);

impl Present {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more.
    pub(crate) fn enter(&self) -> Presence {
        self.0.fetch_add(1, Ordering::Relaxed);
        Presence(Arc::clone(&self.0))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) specs: Vec<&'static Spec>,
    pub(crate) commands: Commands,
    /// True once a command was refused, so that EXEC will be refused too.
    pub(crate) broken: bool,
}

/// The choice of CLIENT REPLY: which replies the client wants.
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
            presence: self.presence.take(),
            ..Self::default()
        };
    }

    /// Forgets the watched keys.
    pub(crate) fn unwatch(&mut self) {
        self.watch = Watch::default();
    }
}
