//! The record of a writer: its entries, and the receipts it got for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use probity_log::StreamName;

/// The promise of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Promise {
    /// A kill of the process does not take the entry: a receipt of relaxed durability.
    Written,
    /// A loss of power does not take it either.
    Durable,
}

/// One receipt.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Receipted {
    pub(crate) stream: StreamName,
    pub(crate) index: u64,
    pub(crate) id: u64,
    pub(crate) promise: Promise,
}

/// Shared by the writer, which fills it, and by the callback that copies the state at a moment of a
/// crash.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Facts>>);

/// The facts at one moment.
#[derive(Debug, Clone, Default, Hash)]
pub(crate) struct Facts {
    /// True when creating the log succeeded.
    pub(crate) created: bool,
    /// Entries handed in, by their number, with the stream of each.
    pub(crate) attempted: BTreeMap<u64, StreamName>,
    pub(crate) receipts: Vec<Receipted>,
    /// Streams whose creation succeeded.
    pub(crate) streams: Vec<StreamName>,
}

impl Ledger {
    pub(crate) fn now(&self) -> Facts {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn write(&self, fact: impl FnOnce(&mut Facts)) {
        fact(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A flush or a close succeeded: everything that has a receipt is durable.
    pub(crate) fn all_durable(&self) {
        self.write(|facts| {
            for receipted in &mut facts.receipts {
                receipted.promise = Promise::Durable;
            }
        });
    }
}
