//! What a writer was promised: the entries it handed in, and the receipts it got for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use probity_log::StreamName;

/// What a receipt promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A kill of the process does not take the entry: a receipt of relaxed durability.
    Written,
    /// A loss of power does not take it either.
    Durable,
}

/// One receipt.
#[derive(Debug, Clone)]
pub struct Receipted {
    pub stream: StreamName,
    pub index: u64,
    pub id: u64,
    pub promise: Promise,
}

/// Shared by the writer, which fills it, and by whoever looks in at a moment of a crash.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Facts>>);

/// The facts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Whether creating the log succeeded.
    pub created: bool,
    /// Entries handed in, by their number, with the stream of each.
    pub attempted: BTreeMap<u64, StreamName>,
    pub receipts: Vec<Receipted>,
    /// Streams whose creation succeeded.
    pub streams: Vec<StreamName>,
}

impl Ledger {
    pub fn now(&self) -> Facts {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn write(&self, fact: impl FnOnce(&mut Facts)) {
        fact(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A flush or a close succeeded: everything that has a receipt is durable.
    pub fn all_durable(&self) {
        self.write(|facts| {
            for receipted in &mut facts.receipts {
                receipted.promise = Promise::Durable;
            }
        });
    }
}
