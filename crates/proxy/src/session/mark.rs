//! The records of a command besides its keys: places that are no key, and facts for the payload.

use std::fmt::Write as _;
use std::iter::StepBy;
use std::ops::Range;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::gate::logins;
use super::pending::Keys;
use crate::audit::{Key, hex, put_json};
use crate::command::{CommandFacts, Flags};
use crate::resp::Arguments;

/// One entry that is not about a key of the command.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) action: &'static str,
    place: Box<[u8]>,
    digest: Option<Box<[u8; 32]>>,
}

impl Mark {
    fn at(action: &'static str, arguments: &Arguments, index: usize) -> Self {
        let argument = arguments.at(index);
        Self {
            action,
            place: argument.map_or(&b""[..], |argument| argument.kept).into(),
            digest: argument.and_then(|argument| argument.digest).map(Box::new),
        }
    }

    pub(super) fn plain(action: &'static str, place: &[u8]) -> Self {
        Self {
            action,
            place: place.into(),
            digest: None,
        }
    }

    pub(super) fn place(&self) -> Key<'_> {
        Key {
            kept: &self.place,
            digest: self.digest.as_deref().copied(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.place.len() + self.digest.as_ref().map_or(0, |_| 32)
    }
}

/// The entries of a command that are not about its keys.
pub(super) fn marks_of(
    name: &str,
    facts: Option<&CommandFacts>,
    arguments: &Arguments,
) -> Vec<Mark> {
    let one = |action, index| vec![Mark::at(action, arguments, index)];
    let all = |action| vec![Mark::plain(action, b"*")];
    let nowhere = |action| vec![Mark::plain(action, b"")];
    match name {
        "flushall" | "flushdb" => all("delete"),
        "swapdb" => all("update"),
        "keys" => one("list", 1),
        "scan" => vec![scan_pattern(arguments)],
        "randomkey" | "dbsize" | "cluster|getkeysinslot" | "cluster|countkeysinslot" => all("list"),
        // The reply tells the client the names of keys that others change.
        "client|tracking" => all("list"),
        "publish" | "spublish" => one("publish", 1),
        "subscribe" | "psubscribe" | "ssubscribe" => (1..arguments.len())
            .map(|index| Mark::at("subscribe", arguments, index))
            .collect(),
        "auth" => nowhere("authenticate"),
        "hello" if logins(arguments) > 0 => nowhere("authenticate"),
        "sort" | "sort_ro" => sort_patterns(arguments),
        "debug" => debug(arguments),
        "unknown" => nowhere("run"),
        _ if is_script(name) => nowhere("run"),
        _ if administers(name, facts) => nowhere("administer"),
        _ => Vec::new(),
    }
}

/// Returns whether a client's script writes the reply to the command `name`.
pub(super) fn is_script(name: &str) -> bool {
    matches!(
        name,
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro"
    )
}

fn administers(name: &str, facts: Option<&CommandFacts>) -> bool {
    let container = name
        .split_once('|')
        .map_or(name, |(container, _)| container);
    matches!(container, "function" | "script" | "pubsub")
        || facts.is_some_and(|facts| facts.flags.contains(Flags::ADMIN))
}

/// `DEBUG POPULATE count [prefix]` makes keys with this prefix, or `key`; others have their keys as keys.
fn debug(arguments: &Arguments) -> Vec<Mark> {
    let mut marks = vec![Mark::plain("administer", b"")];
    if arguments.is_word(1, "populate") {
        marks.push(match arguments.whole(3) {
            Some(prefix) => Mark::plain("update", &[prefix, b":*"].concat()),
            None if arguments.len() > 3 => Mark::at("update", arguments, 3),
            None => Mark::plain("update", b"key:*"),
        });
    }
    marks
}

fn scan_pattern(arguments: &Arguments) -> Mark {
    // Each option has a value, and the last one of a name counts.
    let mut options = (2..arguments.len()).step_by(2).rev();
    let found = options
        .find(|index| arguments.is_word(*index, "match"))
        .map(|index| Mark::at("list", arguments, index + 1));
    found.unwrap_or_else(|| Mark::plain("list", b"*"))
}

/// The keys that `SORT` reads by the patterns of `BY` and `GET`: those with a star, which elements replace.
fn sort_patterns(arguments: &Arguments) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut index = 2;
    while index < arguments.len() {
        let option = arguments.word(index);
        match option.as_slice() {
            b"limit" => index += 2,
            b"store" => index += 1,
            b"get" | b"by" => {
                index += 1;
                // Of one that is not kept whole nobody knows whether it has one.
                let pattern = arguments.whole(index);
                if pattern.is_none_or(|pattern| pattern.contains(&b'*')) {
                    marks.push(Mark::at("read", arguments, index));
                }
            }
            _ => {}
        }
        index += 1;
    }
    marks
}

/// Most names of parameters, or of users, that one entry lists.
const NAMES_MAX: usize = 16;

/// Returns further facts for the payload: the script or function, the parameter or user, the
/// destination of data.
pub(super) fn facts_of(name: &str, arguments: &Arguments, keys: &Keys) -> String {
    let mut facts = String::new();
    match name {
        "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro" => {
            let member = if name.starts_with('f') {
                "function"
            } else {
                "script"
            };
            put_script(&mut facts, member, name, arguments);
            let _infallible = write!(facts, ",\"declared\":{}", keys.len());
        }
        "script|load" => put_digest(&mut facts, "script", arguments, 2),
        "function|load" => put_digest(&mut facts, "library", arguments, arguments.len() - 1),
        "unknown" => put_argument(&mut facts, "name", arguments, 0),
        "flushall" => facts.push_str(",\"databases\":\"all\""),
        "swapdb" => {
            let both = (1..3).step_by(1);
            put_names(&mut facts, "databases", arguments, (both, false));
        }
        "config|set" => {
            let names = (2..parameters_end(arguments)).step_by(2);
            let is_cut = parameters_end(arguments) < arguments.len();
            put_names(&mut facts, "parameters", arguments, (names, is_cut));
        }
        "config|get" => {
            let names = (2..arguments.len()).step_by(1);
            put_names(&mut facts, "parameters", arguments, (names, false));
        }
        "acl|deluser" if arguments.len() > 3 => {
            let names = (2..arguments.len()).step_by(1);
            put_names(&mut facts, "users", arguments, (names, false));
        }
        "acl|setuser" | "acl|deluser" | "acl|getuser" | "acl|dryrun" => {
            put_argument(&mut facts, "user", arguments, 2);
        }
        "debug" => put_argument(&mut facts, "subcommand", arguments, 1),
        _ => {
            if let Some(destination) = keys.destination() {
                let key = destination.key;
                put_whole(&mut facts, "to", key.kept, key.digest);
                if let Some(db) = destination.db {
                    let _infallible = write!(facts, ",\"to_db\":{db}");
                }
            }
        }
    }
    facts
}

/// Returns whether the facts of a command name the databases that it is about, which are not the one
/// that its client has selected.
pub(super) fn names_databases(name: &str) -> bool {
    matches!(name, "flushall" | "swapdb")
}

fn put_member(facts: &mut String, member: &str, text: &[u8]) {
    let _infallible = write!(facts, ",\"{member}\":");
    put_json(facts, text);
}

pub(super) fn put_argument(facts: &mut String, member: &str, arguments: &Arguments, index: usize) {
    if let Some(argument) = arguments.at(index) {
        put_whole(facts, member, argument.kept, argument.digest);
    }
}

/// The longest text that stands in the payload as it is, in bytes: each entry of a command has it, and there may be millions.
const FACT_BYTES_MAX: usize = 1024;

/// Puts all of a text: of a long one, the digest of all of it.
fn put_whole(facts: &mut String, member: &str, kept: &[u8], digest: Option<[u8; 32]>) {
    let is_long = kept.len() > FACT_BYTES_MAX;
    match digest.or_else(|| is_long.then(|| Sha256::digest(kept).into())) {
        Some(digest) => put_member(facts, member, format!("sha256:{}", hex(&digest)).as_bytes()),
        None => put_member(facts, member, kept),
    }
}

fn put_script(facts: &mut String, member: &str, name: &str, arguments: &Arguments) {
    if name.starts_with("eval") && !name.starts_with("evalsha") {
        put_digest(facts, member, arguments, 1);
    } else if name.starts_with("evalsha") {
        match arguments.whole(1) {
            Some(digest) => put_whole(facts, member, &digest.to_ascii_lowercase(), None),
            None => put_argument(facts, member, arguments, 1),
        }
    } else {
        put_argument(facts, member, arguments, 1);
    }
}

/// The name that Redis gives a script; of one that was too long to keep, its SHA-256.
fn put_digest(facts: &mut String, member: &str, arguments: &Arguments, index: usize) {
    let digest = match arguments.at(index) {
        Some(script) => match script.digest {
            Some(digest) => format!("sha256:{}", hex(&digest)),
            None => hex(&Sha1::digest(script.kept)),
        },
        None => return,
    };
    put_member(facts, member, digest.as_bytes());
}

/// Returns where the names of parameters end: at one whose value is secret. A password with a blank
/// in it and without quotes is several words, of which none is a name.
fn parameters_end(arguments: &Arguments) -> usize {
    let is_secret = |index: &usize| {
        let word = arguments.beginning(*index).to_ascii_lowercase();
        let has = |part: &[u8]| word.windows(part.len()).any(|it| it == part);
        has(b"pass") || has(b"auth")
    };
    let secret = (2..arguments.len()).find(is_secret);
    secret.map_or(arguments.len(), |index| {
        let value = 2;
        arguments.len().min(index + value)
    })
}

/// The names at these places. There may be more than are listed, and then it says so.
fn put_names(
    facts: &mut String,
    member: &str,
    arguments: &Arguments,
    (indices, is_cut): (StepBy<Range<usize>>, bool),
) {
    let _infallible = write!(facts, ",\"{member}\":[");
    let is_cut = is_cut || indices.len() > NAMES_MAX;
    for (number, index) in indices.take(NAMES_MAX).enumerate() {
        if number > 0 {
            facts.push(',');
        }
        match arguments.at(index).and_then(|argument| argument.digest) {
            Some(digest) => put_json(facts, format!("sha256:{}", hex(&digest)).as_bytes()),
            None => put_json(facts, arguments.beginning(index)),
        }
    }
    facts.push(']');
    if is_cut {
        let _infallible = write!(facts, ",\"{member}_more\":true");
    }
}
