//! The log beside a disguise: an entry is durable in it before anything is committed.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use probity_format::Entry;
use probity_format::limits::NAME_BYTES_MAX;
use probity_log::{Durability, Log};
use serde::Serialize;

use super::AnyEngine;
use crate::args::{Attribution, EntryChoice};
use crate::command::databases::subject_key;
use crate::command::open_log;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::login;
use crate::output::note;

/// An open log that takes one entry per operation.
pub(super) struct Recorder {
    log: Log,
    path: String,
    stream: String,
    last: Rc<Cell<Option<u64>>>,
}

/// The attribution of entries where the operation gives none.
struct Said {
    actor: String,
    purpose: String,
    basis: String,
}

impl Said {
    fn of(said: &Attribution) -> Result<Self, Failure> {
        let word = |option: &str, text: &Option<String>| {
            let Some(text) = text else {
                return Ok(String::new());
            };
            let fits = text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
            if text.is_empty() || !fits {
                return Err(Failure::usage(format!(
                    "{option} takes 1 to {NAME_BYTES_MAX} bytes without control characters"
                )));
            }
            Ok(text.clone())
        };
        let actor = word("--actor", &said.actor)?;
        Ok(Self {
            actor: if actor.is_empty() {
                login::name()
            } else {
                actor
            },
            purpose: word("--purpose", &said.purpose)?,
            basis: word("--basis", &said.basis)?,
        })
    }

    fn of_entry<'e>(&'e self, entry: &Entry<'e>) -> Entry<'e> {
        let mut entry = *entry;
        for (field, said) in [
            (&mut entry.actor, self.actor.as_str()),
            (&mut entry.purpose, &self.purpose),
            (&mut entry.basis, &self.basis),
        ] {
            if field.is_empty() {
                *field = said;
            }
        }
        entry
    }
}

/// The position of an operation's entry, for `probity prove`.
#[derive(Serialize)]
pub(super) struct Recorded {
    pub(super) log: String,
    pub(super) stream: String,
    pub(super) index: u64,
}

impl Recorder {
    /// Opens the log, if one is named, and has the engine record every operation in it.
    pub(super) fn open(
        said: &EntryChoice,
        environment: &Environment,
        engine: &mut AnyEngine,
    ) -> Result<Option<Self>, Failure> {
        if said.log.log.is_none() {
            note(
                "warning: this operation leaves no entry; name the log that takes one with --log DIR",
            );
        }
        Self::open_to_look(said, environment, engine)
    }

    /// Opens the log, if one is named, for a command that may only look.
    pub(super) fn open_unless(
        looks: bool,
        said: &EntryChoice,
        environment: &Environment,
        engine: &mut AnyEngine,
    ) -> Result<Option<Self>, Failure> {
        if looks {
            Self::open_to_look(said, environment, engine)
        } else {
            Self::open(said, environment, engine)
        }
    }

    /// Opens the log, if one is named, for a command that changes nothing and hands nothing out: only
    /// its refusal is recorded.
    pub(super) fn open_to_look(
        said: &EntryChoice,
        environment: &Environment,
        engine: &mut AnyEngine,
    ) -> Result<Option<Self>, Failure> {
        let (choice, said) = (&said.log, Said::of(&said.attribution)?);
        engine.set_notice(Box::new(|left| note(&format!("warning: {left}"))));
        let Some(dir) = choice.log.as_deref() else {
            return Ok(None);
        };
        engine.set_subject_key(subject_key(dir, choice.key.as_deref(), environment)?);
        let durability = Durability::default();
        let log = open_log(dir, choice.key.as_deref(), environment, durability)?;
        let mut appender = log.appender(&choice.stream)?;
        let last = Rc::new(Cell::new(None));
        let seen = Rc::clone(&last);
        engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            let receipt = appender.append_durable(&said.of_entry(entry))?;
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

    /// Publishes what was recorded, which is durable whether or not the log can be closed; the engine
    /// must be dropped before.
    pub(super) fn close(self) -> (Option<Recorded>, LogEnd) {
        let recorded = self.last.get().map(|index| Recorded {
            log: self.path,
            stream: self.stream,
            index,
        });
        let failure = self.log.close().err().map(Failure::from);
        (recorded, LogEnd(failure))
    }
}

/// The end of the log after an operation.
#[must_use = "a log that was not closed is told of"]
#[derive(Default)]
pub(super) struct LogEnd(Option<Failure>);

impl LogEnd {
    /// Returns the status of an operation that was told of, or that the log was not closed after it.
    pub(super) fn after(self, status: Status) -> Result<Status, Failure> {
        match self.0 {
            None => Ok(status),
            Some(failure) => {
                Err(failure.after("it was done, as told above, and its entry is in the log"))
            }
        }
    }
}

fn shown(dir: &Path) -> String {
    dir.display().to_string()
}
