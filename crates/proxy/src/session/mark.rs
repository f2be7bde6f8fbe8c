//! The records of a command besides its keys: places that are no key, and facts for the payload.

use std::fmt::Write as _;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::gate::logins;
use super::pending::{Keys, PendingKey};
use super::quoted;
use crate::audit::{Key, hex, put_json, put_json_text};
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
        // All data goes, and another server's comes.
        "cluster|replicate" => erases(),
        "replicaof" | "slaveof" if !is_of_nobody(arguments) => erases(),
        "unknown" => nowhere("run"),
        _ if is_script(name) => nowhere("run"),
        _ if administers(name, facts) => nowhere("administer"),
        _ => Vec::new(),
    }
}

fn erases() -> Vec<Mark> {
    vec![Mark::plain("administer", b""), Mark::plain("delete", b"*")]
}

/// Returns whether `REPLICAOF` ends that the server follows another.
fn is_of_nobody(arguments: &Arguments) -> bool {
    arguments.is_word(1, "no") && arguments.is_word(2, "one")
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
/// Most words that are looked up as names of parameters.
const PARAMETERS_MAX: usize = 256;

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
        "function|restore" => put_digest(&mut facts, "libraries", arguments, 2),
        "function|delete" => put_argument(&mut facts, "library", arguments, 2),
        "unknown" => put_if(&mut facts, "name", arguments, 0, quoted::is_command),
        "migrate" => {
            put_server(&mut facts, "to", arguments, 1);
            put_if(&mut facts, "to_db", arguments, 4, quoted::is_number);
        }
        "failover" if arguments.is_word(1, "to") => put_server(&mut facts, "to", arguments, 2),
        "cluster|replicate" => {
            put_argument(&mut facts, "from_node", arguments, 2);
            facts.push_str(ERASES);
        }
        "replicaof" | "slaveof" if !is_of_nobody(arguments) => {
            put_server(&mut facts, "from", arguments, 1);
            facts.push_str(ERASES);
        }
        "flushall" => facts.push_str(",\"databases\":\"all\""),
        "swapdb" => {
            let numbers = (1..3).map(|index| arguments.beginning(index));
            let numbers = numbers.filter(|word| quoted::is_number(word));
            put_names(&mut facts, "databases", numbers, false);
        }
        "config|set" => put_parameters(&mut facts, arguments, 2),
        "config|get" => put_parameters(&mut facts, arguments, 1),
        "acl|deluser" if arguments.len() > 3 => {
            // Behind a password all may be words of it.
            let may_be = |word: &&[u8]| word.len() <= FACT_BYTES_MAX && quoted::is_user(word);
            let names = (2..arguments.len()).map(|index| arguments.beginning(index));
            let count = names.clone().take_while(may_be).count();
            let is_cut = count < names.len();
            put_names(&mut facts, "users", names.take(count), is_cut);
        }
        "acl|setuser" | "acl|deluser" | "acl|getuser" | "acl|dryrun" => {
            put_if(&mut facts, "user", arguments, 2, quoted::is_user);
        }
        "pfmerge" if keys.len() > 1 => put_destination(&mut facts, keys.at(0)),
        "debug" => put_if(&mut facts, "subcommand", arguments, 1, quoted::is_command),
        _ => put_destination(&mut facts, keys.destination()),
    }
    facts
}

/// The facts of a command that replaces all data of the server, unless it fails meanwhile.
const ERASES: &str = ",\"databases\":\"all\",\"changed\":\"perhaps\"";

fn put_destination(facts: &mut String, destination: Option<PendingKey<'_>>) {
    let Some(destination) = destination else {
        return;
    };
    put_whole(facts, "to", destination.key.kept, destination.key.digest);
    if let Some(db) = destination.db {
        let _infallible = write!(facts, ",\"to_db\":{db}");
    }
}

/// Puts the host and port at `index`.
fn put_server(facts: &mut String, member: &str, arguments: &Arguments, index: usize) {
    let (host, port) = (format!("{member}_host"), format!("{member}_port"));
    put_if(facts, &host, arguments, index, quoted::is_host);
    put_if(facts, &port, arguments, index + 1, quoted::is_number);
}

/// Puts the word at `index`, unless it may be a password in the place of another word.
pub(super) fn put_if(
    facts: &mut String,
    member: &str,
    arguments: &Arguments,
    index: usize,
    is_harmless: fn(&[u8]) -> bool,
) {
    if is_harmless(arguments.beginning(index)) {
        put_argument(facts, member, arguments, index);
    }
}

/// Returns whether the facts of a command name the databases that it is about, which are not the one
/// that its client has selected.
pub(super) fn names_databases(name: &str) -> bool {
    matches!(name, "flushall" | "swapdb")
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
    let digest = digest.or_else(|| is_long.then(|| Sha256::digest(kept).into()));
    if let Some(digest) = digest {
        let _infallible = write!(facts, ",\"{member}\":\"sha256:{}\"", hex(&digest));
        return;
    }
    let _infallible = write!(facts, ",\"{member}\":");
    // Each byte is spelled with three at most.
    put_json_text(facts, kept, 3 * FACT_BYTES_MAX);
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

/// The name that Redis gives a script, its SHA-1, and its SHA-256, which no other text has; of one that was too
/// long to keep, the latter alone.
fn put_digest(facts: &mut String, member: &str, arguments: &Arguments, index: usize) {
    let Some(script) = arguments.at(index) else {
        return;
    };
    let whole = script
        .digest
        .unwrap_or_else(|| Sha256::digest(script.kept).into());
    let name = match script.digest {
        Some(digest) => format!("sha256:{}", hex(&digest)),
        None => hex(&Sha1::digest(script.kept)),
    };
    let whole = hex(&whole);
    let _infallible = write!(
        facts,
        ",\"{member}\":\"{name}\",\"{member}_sha256\":\"{whole}\""
    );
}

/// Puts the names of parameters, each `step`th word. Behind one whose value is secret nothing is a name: a
/// password with a blank in it and without quotes is several words.
fn put_parameters(facts: &mut String, arguments: &Arguments, step: usize) {
    let places = (2..arguments.len()).step_by(step);
    let words = places.map(|index| arguments.beginning(index));
    let secret = words.clone().position(quoted::is_secret_parameter);
    let end = secret.map_or_else(|| words.len(), |place| place + 1);
    // Where a value is missing, or has a blank itself, only the first is a name for certain.
    let is_paired = (arguments.len() - 2).is_multiple_of(step);
    let end = if is_paired { end } else { end.min(1) };
    let words = words.take(end.min(PARAMETERS_MAX));
    let names = words.filter(|word| quoted::is_parameter(word));
    let listed = names.clone().count();
    // The last value of a CONFIG SET has no name behind it.
    let is_cut = 2 + listed * step < arguments.len();
    put_names(facts, "parameters", names, is_cut);
}

/// The first names of a list. Where not all words are listed, it says so.
fn put_names<'a>(
    facts: &mut String,
    member: &str,
    names: impl Iterator<Item = &'a [u8]> + Clone,
    is_cut: bool,
) {
    let _infallible = write!(facts, ",\"{member}\":[");
    let is_cut = is_cut || names.clone().count() > NAMES_MAX;
    for (number, name) in names.take(NAMES_MAX).enumerate() {
        if number > 0 {
            facts.push(',');
        }
        put_json(facts, name);
    }
    facts.push(']');
    if is_cut {
        let _infallible = write!(facts, ",\"{member}_more\":true");
    }
}
