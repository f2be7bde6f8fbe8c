//! The members that every JSON document of the command line has.
//!
//! A document is one object: `version`, `command`, then the members of the command. A command that
//! fails prints `status`, `error` and, where there is one, the remedy `help` in place of its own
//! members, unless it printed a document with its verdict already.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::failure::Failure;

/// The version of the documents. It rises when a member changes its meaning or goes, not when one
/// is added.
pub const DOCUMENT_VERSION: u32 = 1;

/// The command of this process.
static ASKED: OnceLock<Asked> = OnceLock::new();
/// Set when the document is printed, or its first part.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// The command that was asked for, and whether its results are wanted as JSON.
#[derive(Debug)]
struct Asked {
    command: String,
    json: bool,
}

/// Takes the command and the form of its results from the words behind the name of the program.
///
/// This works for wrong usage too, of which the parser of the arguments returns nothing.
pub fn ask(words: impl Iterator<Item = OsString>, definition: &clap::Command) {
    let words: Vec<OsString> = words.collect();
    let mut command = Vec::new();
    let mut at = definition;
    for word in &words {
        let Some(next) = at.find_subcommand(word) else {
            break;
        };
        command.push(next.get_name());
        at = next;
    }
    let options = words.iter().take_while(|word| *word != "--");
    let asked = Asked {
        command: command.join(" "),
        json: options.into_iter().any(|word| word == "--json"),
    };
    // A process runs one command: a second one would be a fault, and the first name stays.
    debug_assert!(ASKED.get().is_none(), "the command is set once");
    drop(ASKED.set(asked));
}

#[derive(Serialize)]
pub(crate) struct Envelope<'a, T> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'static str>,
    #[serde(flatten)]
    document: &'a T,
}

/// Returns the document with the members that every document has.
pub(crate) fn enveloped<T: Serialize>(document: &T) -> Envelope<'_, T> {
    PRINTED.store(true, Ordering::Release);
    Envelope {
        version: DOCUMENT_VERSION,
        command: ASKED.get().map(|asked| asked.command.as_str()),
        document,
    }
}

/// The members of a document that say why a command failed.
#[derive(Serialize)]
pub(crate) struct Failed {
    status: u8,
    /// The message with all causes.
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

impl Failed {
    pub(crate) fn new(failure: &Failure) -> Self {
        Self {
            status: failure.status().code(),
            error: failure.clause(),
            help: failure.help(),
        }
    }
}

/// Returns the document of a command that failed, if one is wanted and none was printed.
pub fn failed(failure: &Failure) -> Option<String> {
    let is_wanted = ASKED.get().is_some_and(|asked| asked.json);
    if !is_wanted || PRINTED.load(Ordering::Acquire) {
        return None;
    }
    // Texts and a number always have a form in JSON.
    serde_json::to_string(&enveloped(&Failed::new(failure))).ok()
}
