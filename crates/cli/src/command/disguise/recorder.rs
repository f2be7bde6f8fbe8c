//! The log beside a disguise: an entry is durable in it before anything is committed.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use probity_format::Entry;
use probity_log::{Durability, Log};
use serde::Serialize;

use super::AnyEngine;
use crate::args::LogChoice;
use crate::command::open_log;
use crate::config::Environment;
use crate::failure::Failure;

/// An open log that takes an entry of each operation.
pub(super) struct Recorder {
    log: Log,
    path: String,
    stream: String,
    last: Rc<Cell<Option<u64>>>,
}

/// Where the entry of an operation stands, for `probity prove`.
#[derive(Serialize)]
pub(super) struct Recorded {
    pub(super) log: String,
    pub(super) stream: String,
    pub(super) index: u64,
}

impl Recorder {
    /// Opens the log, if one is named, and lets the engine tell it of every operation.
    pub(super) fn open(
        choice: &LogChoice,
        environment: &Environment,
        engine: &mut AnyEngine,
    ) -> Result<Option<Self>, Failure> {
        let Some(dir) = choice.log.as_deref() else {
            return Ok(None);
        };
        let durability = Durability::default();
        let log = open_log(dir, choice.key.as_deref(), environment, durability)?;
        let mut appender = log.appender(&choice.stream)?;
        let last = Rc::new(Cell::new(None));
        let seen = Rc::clone(&last);
        engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            let receipt = appender.append_durable(entry)?;
            seen.set(Some(receipt.index));
            Ok(())
        }));
        Ok(Some(Self {
            log,
            path: shown(dir),
            stream: choice.stream.to_string(),
            last,
        }))
    }

    /// Publishes what was recorded; the engine must be gone before.
    pub(super) fn close(self) -> Result<Option<Recorded>, Failure> {
        let recorded = self.last.get().map(|index| Recorded {
            log: self.path,
            stream: self.stream,
            index,
        });
        self.log.close()?;
        Ok(recorded)
    }
}

fn shown(dir: &Path) -> String {
    dir.display().to_string()
}
