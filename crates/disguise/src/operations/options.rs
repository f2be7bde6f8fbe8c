//! Options: bounds, costs and code that the operations of an engine use.

use std::collections::BTreeMap;
use std::num::NonZero;

use crate::crypto::suite::Suite;
use crate::execute::update::Update;
use crate::records::credential::KeyCost;
use crate::spec::redact::{Redactor, Redactors};

/// The approximate number of rows of a person that a disguise in one go holds in memory, by
/// default.
pub const APPLY_ROWS: NonZero<u32> = NonZero::new(10_000).unwrap();
/// The approximate bytes of removed rows and overwritten values that a reveal holds in memory, by
/// default.
pub const REVEAL_BYTES: usize = 16 << 20;

/// The options of an [`Engine`](crate::Engine), for every later operation.
#[non_exhaustive]
pub struct Options {
    /// The cost of a password; it must be the same for registering and for opening.
    pub key_cost: KeyCost,
    /// The suite of keys that are made from now on. Without one, a registration makes a key of
    /// X25519, and a change of the key one of the same suite.
    pub suite: Option<Suite>,
    /// The approximate number of rows of a person that a disguise in one go holds in memory.
    /// Beyond, it takes them part by part in its one transaction. Each part has records of its own,
    /// like the chunks of a disguise.
    pub apply_rows: NonZero<u32>,
    /// The approximate bytes of removed rows and overwritten values that a reveal holds in memory.
    /// Records beyond, frequent with very many rows, are read twice: once to list their contents,
    /// and again in their turn.
    pub reveal_bytes: usize,
    pub(super) redactors: Redactors,
    /// Updates by code, by name.
    pub(super) updates: BTreeMap<String, Box<dyn Update>>,
}

impl Options {
    /// Gives the engine a redactor by code, which specifications name.
    pub fn set_redactor(&mut self, redactor: Box<dyn Redactor>) {
        self.redactors.insert(redactor.name().to_owned(), redactor);
    }

    /// Gives the engine the code of an update; every program that reveals needs the code of all
    /// updates by code that were recorded.
    pub fn set_update(&mut self, update: Box<dyn Update>) {
        self.updates.insert(update.name().to_owned(), update);
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key_cost: KeyCost::DEFAULT,
            suite: None,
            apply_rows: APPLY_ROWS,
            reveal_bytes: REVEAL_BYTES,
            redactors: Redactors::new(),
            updates: BTreeMap::new(),
        }
    }
}
