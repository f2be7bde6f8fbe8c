//! The actions by which entries are chosen: a word that no entry has may be a slip.

use std::collections::BTreeSet;

use probity_log::LogError;
use probity_log::reader::{Filter, Found, Reader};

use super::OnDamage;
use crate::args::Export;
use crate::failure::Failure;
use crate::output::note;

/// The actions of entries that this program writes. An application may use any other word.
const OWN: [&str; 47] = [
    "administer",
    "authenticate",
    "create",
    "delete",
    "disguise.apply",
    "disguise.begin",
    "disguise.begin-log",
    "disguise.cancel",
    "disguise.decay",
    "disguise.dismiss",
    "disguise.expire",
    "disguise.export",
    "disguise.forget",
    "disguise.hold",
    "disguise.key",
    "disguise.lift",
    "disguise.list",
    "disguise.password",
    "disguise.register",
    "disguise.replay",
    "disguise.reveal",
    "disguise.schedule",
    "disguise.separate",
    "disguise.speaks-for",
    "disguise.subject-name",
    "disguise.unregister",
    "disguise.update",
    "gap",
    "heads",
    "index.root",
    "key.certify",
    "key.newest",
    "list",
    "log.continue",
    "log.create",
    "look",
    "mismatch",
    "publish",
    "read",
    "recover",
    "run",
    "stream.create",
    "subject.erase",
    "subject.erased",
    "subjects",
    "subscribe",
    "update",
];

/// The most actions of a log that are named.
const NAMED_MAX: usize = 32;

/// The end of a search.
enum Stop {
    /// An entry has the action.
    Found,
    Failed(LogError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Failed(error)
    }
}

/// Tells of an action that this program does not write and no entry has that can be read: the word
/// may be mistyped. Reads the streams again, which is only worth it where no entry was found.
///
/// # Errors
/// Those of reading.
pub(super) fn tell_unknown(action: &str, args: &Export, reader: &Reader) -> Result<(), Failure> {
    if OWN.contains(&action) {
        return Ok(());
    }
    let filter = Filter {
        stream: args.filter.stream.clone(),
        ..Filter::default()
    };
    let mut held = BTreeSet::new();
    let mut visit = |found: &Found<'_>| {
        if found.entry.action == action {
            return Err(Stop::Found);
        }
        if held.len() < NAMED_MAX {
            held.insert(found.entry.action.to_owned());
        }
        Ok(())
    };
    let searched = match OnDamage::of(args.damaged_too) {
        OnDamage::Refuse => reader.read(&filter, &mut visit),
        OnDamage::ReadOn => reader.read_damaged(&filter, &mut visit).map(drop),
    };
    match searched {
        Err(Stop::Found) => Ok(()),
        Err(Stop::Failed(error)) => Err(error.into()),
        Ok(()) => {
            note(&unknown(action, &held));
            Ok(())
        }
    }
}

fn unknown(action: &str, held: &BTreeSet<String>) -> String {
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    let held = if held.is_empty() {
        "no entry is there".to_owned()
    } else {
        format!("the entries there have {}", held.join(", "))
    };
    format!("no entry has the action {action}: {held}")
}
