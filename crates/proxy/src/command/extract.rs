//! The arguments of a command that are keys, by the key specifications of its table entry.

use super::table::{Access, BeginSearch, CommandFacts, FindKeys, Flags, KeySpec};
use crate::resp::{Arguments, parse_canonical};

/// One key of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a plain pair")]
pub struct KeyUse {
    /// Index of the argument.
    pub argument: usize,
    /// The access to the key.
    pub access: Access,
}

/// The knowledge of a command's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or no with names")]
pub enum Extraction {
    /// All keys were found.
    Complete,
    /// Only the server can tell: ask it with `COMMAND GETKEYSANDFLAGS`.
    Ask,
}

impl CommandFacts {
    /// Finds the keys in `arguments`.
    pub fn extract(&self, arguments: &Arguments, keys: &mut Vec<KeyUse>) -> Extraction {
        keys.clear();
        match &*self.name {
            "set" => set(arguments, keys),
            "bitfield" => bitfield(arguments, keys),
            "sort" => sort(arguments, keys),
            "sort_ro" => push(keys, 1, arguments, Access::ACCESS),
            "migrate" => migrate(arguments, keys),
            "xread" => streams(arguments, keys, Access::ACCESS),
            // The group remembers each delivered message, and its receiver.
            "xreadgroup" => streams(arguments, keys, Access::ACCESS.with(Access::UPDATE)),
            "georadius" => georadius(arguments, 6, keys),
            "georadiusbymember" => georadius(arguments, 5, keys),
            "debug" => debug(arguments, keys),
            // The server's own flags do not say what these do.
            "getex" if arguments.len() == 2 => push(keys, 1, arguments, Access::ACCESS),
            "hgetex" if arguments.is_word(2, "fields") => {
                push(keys, 1, arguments, Access::ACCESS);
            }
            "move" => push(keys, 1, arguments, Access::ACCESS.with(Access::DELETE)),
            "xclaim" | "xautoclaim" => {
                push(keys, 1, arguments, Access::ACCESS.with(Access::UPDATE));
            }
            _ => {
                for spec in &self.specs {
                    if find(spec, arguments, keys) == Extraction::Ask {
                        keys.clear();
                        return Extraction::Ask;
                    }
                }
            }
        }
        Extraction::Complete
    }

    /// Returns whether the command may have keys at all.
    pub fn names_keys(&self) -> bool {
        let is_key = |spec: &KeySpec| !spec.access.contains(Access::NOT_KEY);
        &*self.name == "debug" || self.specs.iter().any(is_key)
    }

    /// Returns whether the command may touch keys that nobody names: a module's does what it likes,
    /// and mostly says of no key, or of an index alone, what it touches.
    pub const fn is_open(&self) -> bool {
        self.flags.contains(Flags::MODULE)
    }

    /// Returns the access to a key as it can be. The server takes every key of a module that names
    /// its places alone for one that is read and written, also of a command that never writes.
    pub const fn bounded(&self, access: Access) -> Access {
        let only_reads = self.flags.contains(Flags::READONLY) && !self.flags.contains(Flags::WRITE);
        if self.flags.contains(Flags::MODULE) && only_reads {
            Access::ACCESS
        } else {
            access
        }
    }

    /// Returns whether the place of a module's keys follows from a word that has a zero byte behind
    /// it. The server takes that for the word; a module, which finds its keys by itself, need not.
    pub fn is_ambiguous(&self, arguments: &Arguments) -> bool {
        let spelled = |spec: &KeySpec| match &spec.begin {
            BeginSearch::Keyword(word, _) => (1..arguments.len())
                .any(|index| arguments.has_zero(index) && arguments.is_word(index, word)),
            _ => false,
        };
        self.flags.contains(Flags::MODULE) && self.specs.iter().any(spelled)
    }

    /// Returns whether `arguments` name an unknown subcommand: then these are the facts of its
    /// container.
    pub fn is_of_unknown_subcommand(&self, arguments: &Arguments) -> bool {
        self.flags.contains(Flags::CONTAINER) && arguments.len() > 1
    }

    /// Returns whether the second word is a subcommand.
    pub fn has_subcommand(&self) -> bool {
        self.flags.contains(Flags::CONTAINER) || self.name.contains('|') || &*self.name == "debug"
    }

    /// Returns whether the argument after those in `arguments` may be a key, or something else that
    /// is recorded whole or by its digest: a channel, a script. In doubt it may.
    pub fn may_be_key(&self, arguments: &Arguments) -> bool {
        if NAMED_IN_ENTRIES.contains(&&*self.name) || self.flags.contains(Flags::PUBSUB) {
            return true;
        }
        // The name of a subcommand that nobody knows stands in the entry.
        if self.flags.contains(Flags::CONTAINER) && arguments.len() == 1 {
            return true;
        }
        let next = i64::try_from(arguments.len()).unwrap_or(i64::MAX);
        self.specs
            .iter()
            .any(|spec| match (&spec.begin, spec.find) {
                (BeginSearch::Index(first), FindKeys::Range { last, step, .. }) => {
                    next >= *first
                        && (last < 0 || next <= first.saturating_add(last))
                        && (next - first) % step.max(1) == 0
                }
                _ => true,
            })
    }
}

/// Commands whose arguments stand in entries though they are no keys.
const NAMED_IN_ENTRIES: [&str; 21] = [
    "acl|deluser",
    "acl|dryrun",
    "acl|getuser",
    "acl|setuser",
    "auth",
    "client|setname",
    "cluster|replicate",
    "config|get",
    "config|set",
    "debug",
    "failover",
    "function|delete",
    "function|load",
    "function|restore",
    "hello",
    "keys",
    "migrate",
    "replicaof",
    "scan",
    "script|load",
    "slaveof",
];

/// Subcommands of `DEBUG` whose arguments are no keys.
const DEBUG_WITHOUT_KEYS: [&str; 35] = [
    "aof-flush-sleep",
    "assert",
    "change-repl-id",
    "client-enforce-reply-list",
    "client-eviction",
    "close-cluster-link-on-packet-drop",
    "config-rewrite-force-all",
    "crash-and-abort",
    "crash-and-recover",
    "delay-rdb-client-free-seconds",
    "dict-resizing",
    "dict-stats",
    "drop-cluster-packet-filter",
    "error",
    "help",
    "htstats",
    "jmap",
    "leak",
    "loadaof",
    "log",
    "mallctl",
    "mallctl-str",
    "oom",
    "panic",
    "pause-cron",
    "populate",
    "protocol",
    "quicklist-packed-threshold",
    "reload",
    "replicate",
    "replybuffer",
    "set-active-expire",
    "set-disable-deny-scripts",
    "sleep",
    "stringmatch-len",
];

/// `DEBUG DIGEST-VALUE key ...`, and `DEBUG OBJECT key` like every subcommand that is not known to have none.
fn debug(arguments: &Arguments, keys: &mut Vec<KeyUse>) {
    let subcommand = String::from_utf8_lossy(&arguments.word(1)).into_owned();
    if DEBUG_WITHOUT_KEYS.contains(&&*subcommand) {
        return;
    }
    let end = if subcommand == "digest-value" {
        arguments.len()
    } else {
        3
    };
    for argument in 2..end {
        push(keys, argument, arguments, Access::default());
    }
}

/// `SET` reads its key only with the option `GET`.
fn set(arguments: &Arguments, keys: &mut Vec<KeyUse>) {
    let reads = has_option(arguments, 3, &["get"]);
    let access = if reads {
        Access::ACCESS.with(Access::UPDATE)
    } else {
        Access::UPDATE
    };
    push(keys, 1, arguments, access);
}

/// `BITFIELD` writes only with `SET` or `INCRBY`.
fn bitfield(arguments: &Arguments, keys: &mut Vec<KeyUse>) {
    let writes = has_option(arguments, 2, &["set", "incrby"]);
    let access = if writes {
        Access::ACCESS.with(Access::UPDATE)
    } else {
        Access::ACCESS
    };
    push(keys, 1, arguments, access);
}

fn has_option(arguments: &Arguments, from: usize, words: &[&str]) -> bool {
    let is_one = |index| words.iter().any(|word| arguments.is_word(index, word));
    (from..arguments.len()).any(is_one)
}

fn push(keys: &mut Vec<KeyUse>, argument: usize, arguments: &Arguments, access: Access) {
    if argument < arguments.len() {
        keys.push(KeyUse { argument, access });
    }
}

/// `SORT key ... [STORE destination]`, where the last `STORE` counts.
fn sort(arguments: &Arguments, keys: &mut Vec<KeyUse>) {
    push(keys, 1, arguments, Access::ACCESS);
    let mut destination = None;
    let mut index = 2;
    while index < arguments.len() {
        let option = arguments.word(index);
        match option.as_slice() {
            b"limit" => index += 2,
            b"get" | b"by" => index += 1,
            b"store" if index + 1 < arguments.len() => {
                // The destination may have the name of an option.
                destination = Some(index + 1);
                index += 1;
            }
            _ => {}
        }
        index += 1;
    }
    if let Some(argument) = destination {
        push(keys, argument, arguments, Access::UPDATE);
    }
}

/// `XREAD [COUNT n] [BLOCK n] STREAMS key ... id ...`, and with `GROUP group consumer`, which may have any name.
fn streams(arguments: &Arguments, keys: &mut Vec<KeyUse>, access: Access) {
    let mut index = 1;
    while index < arguments.len() {
        match arguments.word(index).as_slice() {
            b"count" | b"block" => index += 2,
            b"group" => index += 3,
            b"streams" => {
                let first = index + 1;
                for argument in first..first + (arguments.len() - first) / 2 {
                    push(keys, argument, arguments, access);
                }
                return;
            }
            _ => index += 1,
        }
    }
}

/// `GEORADIUS key ... [STORE destination | STOREDIST destination]`, where the last of both counts.
fn georadius(arguments: &Arguments, options: usize, keys: &mut Vec<KeyUse>) {
    push(keys, 1, arguments, Access::ACCESS);
    let mut destination = None;
    let mut index = options;
    while index < arguments.len() {
        let option = arguments.word(index);
        match option.as_slice() {
            b"count" => index += 1,
            b"store" | b"storedist" => {
                destination = Some(index + 1);
                index += 1;
            }
            _ => {}
        }
        index += 1;
    }
    if let Some(argument) = destination {
        push(keys, argument, arguments, Access::UPDATE);
    }
}

/// `MIGRATE host port key|"" db timeout [COPY] ... [KEYS key ...]`.
fn migrate(arguments: &Arguments, keys: &mut Vec<KeyUse>) {
    let mut copies = false;
    let mut first = None;
    let mut index = 6;
    while index < arguments.len() {
        let option = arguments.word(index);
        match option.as_slice() {
            b"copy" => copies = true,
            b"auth" => index += 1,
            b"auth2" => index += 2,
            b"keys" => {
                first = Some(index + 1);
                break;
            }
            _ => {}
        }
        index += 1;
    }
    let access = if copies {
        Access::ACCESS
    } else {
        Access::ACCESS.with(Access::DELETE)
    };
    match first {
        Some(first) if first < arguments.len() && arguments.is_empty_at(3) => {
            for argument in first..arguments.len() {
                push(keys, argument, arguments, access);
            }
        }
        _ => push(keys, 3, arguments, access),
    }
}

/// Adds the keys of one group. A group that does not fit the arguments is an optional one that was left
/// out, or makes the server answer with an error: the other groups count all the same.
fn find(spec: &KeySpec, arguments: &Arguments, keys: &mut Vec<KeyUse>) -> Extraction {
    if spec.access.contains(Access::NOT_KEY) {
        return Extraction::Complete;
    }
    if spec.access.contains(Access::INCOMPLETE) || spec.access.contains(Access::VARIABLE) {
        return Extraction::Ask;
    }
    let count = i64::try_from(arguments.len()).unwrap_or(i64::MAX);
    let first = match &spec.begin {
        BeginSearch::Index(index) => *index,
        BeginSearch::Keyword(word, from) => match keyword(word, *from, arguments) {
            Some(index) => index,
            None => return Extraction::Complete,
        },
        BeginSearch::Unknown => return Extraction::Ask,
    };
    let (first, last, step) = match spec.find {
        FindKeys::Range { last, step, .. } if last >= 0 => {
            (first, first.saturating_add(last), step)
        }
        FindKeys::Range {
            last,
            step,
            limit: 0,
        } => (first, count.saturating_add(last), step),
        FindKeys::Range { last, step, limit } => (
            first,
            first.saturating_add((count - first) / limit.max(1) + last),
            step,
        ),
        FindKeys::Count {
            index,
            first: offset,
            step,
        } => {
            let at = usize::try_from(first.saturating_add(index)).unwrap_or(usize::MAX);
            match arguments.whole(at).and_then(parse_canonical) {
                Some(0) => return Extraction::Complete,
                Some(keys) if keys > 0 => {
                    let first = first.saturating_add(offset);
                    (
                        first,
                        first.saturating_add((keys - 1).saturating_mul(step)),
                        step,
                    )
                }
                _ => return Extraction::Complete,
            }
        }
        FindKeys::Unknown => return Extraction::Ask,
    };
    if first < 1 || last < first || last >= count {
        return Extraction::Complete;
    }
    // Both lie between one and the number of arguments.
    let range =
        usize::try_from(first).unwrap_or_default()..=usize::try_from(last).unwrap_or_default();
    for argument in range.step_by(usize::try_from(step).unwrap_or(1).max(1)) {
        keys.push(KeyUse {
            argument,
            access: spec.access.logical(),
        });
    }
    Extraction::Complete
}

/// The index after `word`, searched forwards from `from` or backwards from the end.
fn keyword(word: &str, from: i64, arguments: &Arguments) -> Option<i64> {
    let is_word = |index: &usize| arguments.is_word(*index, word);
    let found = if from > 0 {
        (usize::try_from(from).ok()?..arguments.len()).find(is_word)
    } else {
        let back = usize::try_from(from.unsigned_abs()).ok()?;
        let start = arguments.len().checked_sub(back)?;
        (1..=start).rev().find(is_word)
    }?;
    i64::try_from(found + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Table;

    fn keys(line: &str) -> Vec<String> {
        let mut arguments = Arguments::default();
        for word in line.split(' ') {
            arguments.push(word.as_bytes());
        }
        let mut keys = Vec::new();
        let table = Table::builtin();
        assert_eq!(
            table
                .find(&arguments)
                .unwrap()
                .extract(&arguments, &mut keys),
            Extraction::Complete
        );
        keys.iter()
            .map(|key| String::from_utf8_lossy(arguments.beginning(key.argument)).into_owned())
            .collect()
    }

    /// A module compares its words as it likes: where one with a zero byte decides which arguments are keys, nobody can tell.
    #[test]
    fn a_zero_byte_in_a_word_before_the_keys_of_a_module_is_ambiguous() {
        let table = Table::builtin();
        let mut facts = CommandFacts::clone(table.named("xread").unwrap());
        let ambiguous = |facts: &CommandFacts, line: &str| {
            let mut arguments = Arguments::default();
            for word in line.split(' ') {
                arguments.push(word.as_bytes());
            }
            facts.is_ambiguous(&arguments)
        };
        let spelled = "X.READ STREAMS\0z a STREAMS b 0";
        assert!(!ambiguous(&facts, spelled));
        facts.flags = Flags::default().named("MODULE");
        assert!(ambiguous(&facts, spelled));
        assert!(!ambiguous(&facts, "X.READ STREAMS a\0 0"));
    }

    #[test]
    fn keys_are_found_wherever_the_command_puts_them() {
        for (line, expected) in [
            ("GET a", "a"),
            ("mset a 1 b 2", "a b"),
            ("xread count 1 streams a b 0 0", "a b"),
            ("eval s 2 a b c", "a b"),
            ("zunionstore d 2 a b weights 1 1", "d a b"),
            ("sort a by x get y store d limit 0 1", "a d"),
            ("sort a store by store d", "a d"),
            ("sort a store get store d", "a d"),
            ("sort a store limit store d", "a d"),
            ("sort a store store", "a store"),
            ("migrate h p  0 10 copy keys a b", "a b"),
            ("migrate h p a 0 10", "a"),
            ("pfmerge a", "a"),
            ("zunionstore d 9 a b", "d"),
            ("eval s x a", ""),
            ("georadius a 1 1 1 m store b count store storedist d", "a d"),
            ("georadius a 1 1 1 m store d", "a d"),
            ("object encoding a", "a"),
            ("blpop a b 0", "a b"),
            ("eval s 0 a", ""),
            ("ssubscribe c", ""),
            ("debug object a", "a"),
            ("debug sdslen a", "a"),
            ("debug digest-value a b", "a b"),
            ("debug newer a", "a"),
            ("debug sleep 1", ""),
        ] {
            assert_eq!(keys(line).join(" "), expected, "{line}");
        }
    }
}
