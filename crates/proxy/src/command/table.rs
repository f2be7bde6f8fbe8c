//! The command table: names, flags and key specifications, from the server or from the built-in copy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::resp::Arguments;

/// Facts about the commands of one server.
#[derive(Debug, Clone, Default)]
pub struct Table {
    commands: HashMap<Box<[u8]>, Arc<CommandFacts>>,
}

/// Facts about one command; a subcommand is a command named `container|subcommand`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a plain record of what COMMAND says"
)]
pub struct CommandFacts {
    /// Its name, in lower case.
    pub name: Box<str>,
    /// Number of arguments with the name; a negative number is a minimum.
    pub arity: i64,
    /// The flags of the command.
    pub flags: Flags,
    /// The places of its keys.
    pub specs: Box<[KeySpec]>,
}

/// The flags of a command that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u8);

impl Flags {
    const NAMES: [(&'static str, Self); 8] = [
        ("write", Self::WRITE),
        ("readonly", Self::READONLY),
        ("admin", Self::ADMIN),
        ("blocking", Self::BLOCKING),
        ("pubsub", Self::PUBSUB),
        ("movablekeys", Self::MOVABLE_KEYS),
        ("container", Self::CONTAINER),
        ("module", Self::MODULE),
    ];
    /// The command may change data.
    pub const WRITE: Self = Self(1);
    /// The command never changes data.
    pub const READONLY: Self = Self(2);
    /// The command administers the server.
    pub const ADMIN: Self = Self(4);
    /// The command may wait for data.
    pub const BLOCKING: Self = Self(8);
    /// The command belongs to publish/subscribe.
    pub const PUBSUB: Self = Self(16);
    /// Its keys are not at fixed places.
    pub const MOVABLE_KEYS: Self = Self(32);
    /// Its second argument names a subcommand.
    pub const CONTAINER: Self = Self(64);
    /// The command is a module's.
    pub const MODULE: Self = Self(128);

    /// Returns whether all of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(super) fn named(self, name: &str) -> Self {
        let found = Self::NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(self, |(_, flag)| self.with(*flag))
    }
}

/// The access of a command to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Access(u8);

impl Access {
    const NAMES: [(&'static str, Self); 7] = [
        ("access", Self::ACCESS),
        ("update", Self::UPDATE),
        ("insert", Self::INSERT),
        ("delete", Self::DELETE),
        ("not_key", Self::NOT_KEY),
        ("incomplete", Self::INCOMPLETE),
        ("variable_flags", Self::VARIABLE),
    ];
    /// Its content is returned, copied or used.
    pub const ACCESS: Self = Self(1);
    /// Its content is changed.
    pub const UPDATE: Self = Self(2);
    /// Something is added to its content.
    pub const INSERT: Self = Self(4);
    /// Some or all of its content is removed.
    pub const DELETE: Self = Self(8);
    /// The argument looks like a key but is none.
    pub const NOT_KEY: Self = Self(16);
    /// The specification does not find all keys.
    pub const INCOMPLETE: Self = Self(32);
    /// The access depends on other arguments.
    pub const VARIABLE: Self = Self(64);

    /// Returns whether all of `other` is set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The access meant by the words of COMMAND; words without a meaning here are passed over.
    pub fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        words.fold(Self::default(), |access, word| {
            let found = Self::NAMES
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(word));
            found.map_or(access, |(_, flag)| access.with(*flag))
        })
    }

    /// Keeps the access alone, without the way in which it was found.
    #[must_use]
    pub const fn logical(self) -> Self {
        Self(self.0 & 15)
    }
}

/// The places of one group of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a plain record of what COMMAND says"
)]
pub struct KeySpec {
    /// The access to the keys.
    pub access: Access,
    /// The beginning of the group.
    pub begin: BeginSearch,
    /// The arguments from there that are keys.
    pub find: FindKeys,
}

/// The beginning of a group of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "fixed by the protocol")]
pub enum BeginSearch {
    /// At this argument.
    Index(i64),
    /// After this word, searched from this argument on, or backwards from the end when negative.
    Keyword(Box<str>, i64),
    /// The server does not say.
    Unknown,
}

/// The arguments from the beginning of a group that are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "fixed by the protocol")]
#[expect(
    missing_docs,
    reason = "the names are those of the protocol's own description"
)]
pub enum FindKeys {
    /// A range with a step.
    Range { last: i64, step: i64, limit: i64 },
    /// As many as an argument says.
    Count { index: i64, first: i64, step: i64 },
    /// The server does not say.
    Unknown,
}

impl Table {
    /// The commands of Redis 7.0.15.
    pub fn builtin() -> Self {
        let mut table = Self::default();
        for line in include_str!("../../data/commands-7.0.15.txt").lines() {
            if let Some(facts) = parse_line(line) {
                table.insert(facts);
            }
        }
        table
    }

    /// The names of its commands, without those of subcommands.
    pub fn names(&self) -> Vec<&[u8]> {
        let names = self.commands.keys().map(AsRef::as_ref);
        names.filter(|name: &&[u8]| !name.contains(&b'|')).collect()
    }

    /// Returns whether the server has an import mode, in which it keeps keys whose time has come.
    pub(crate) fn has_import_mode(&self) -> bool {
        self.commands.contains_key(&b"client|import-source"[..])
    }

    /// The command called `name` and its subcommands.
    pub(crate) fn family(&self, name: &str) -> Self {
        let of = |key: &[u8]| {
            let rest = key.strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"|"))
        };
        let found = self.commands.iter().filter(|(key, _)| of(key));
        Self {
            commands: found
                .map(|(key, facts)| (key.clone(), Arc::clone(facts)))
                .collect(),
        }
    }

    /// The one command of this table, and its subcommands, under the name that the server gave it in its
    /// configuration; its facts keep the name that says what it does.
    #[must_use]
    pub fn renamed(self, alias: &[u8]) -> Self {
        let renamed = |key: &[u8]| {
            let rest = key.iter().position(|byte| *byte == b'|');
            let rest = rest.and_then(|at| key.get(at..)).unwrap_or_default();
            [alias, rest].concat().into()
        };
        let commands = self.commands.into_iter();
        Self {
            commands: commands
                .map(|(key, facts)| (renamed(&key), facts))
                .collect(),
        }
    }

    /// The facts about the command in `arguments`, of its subcommand if it has some.
    pub fn find(&self, arguments: &Arguments) -> Option<&Arc<CommandFacts>> {
        // No server has a command whose name is so long that it is not kept.
        let name = arguments.whole(0)?;
        let facts = self.written(&[name])?;
        if facts.is_of_unknown_subcommand(arguments) {
            let subcommand = arguments.whole(1);
            let whole = subcommand.and_then(|word| self.written(&[name, b"|", word]));
            return whole.or(Some(facts));
        }
        Some(facts)
    }

    /// The facts about the command whose name, in any case, has these parts.
    fn written(&self, parts: &[&[u8]]) -> Option<&Arc<CommandFacts>> {
        let mut name = NameBuffer::default();
        if parts.iter().all(|part| name.push(part).is_some()) {
            return self.commands.get(name.bytes());
        }
        // A server may have been told any name.
        let name = parts.concat().to_ascii_lowercase();
        self.commands.get(name.as_slice())
    }

    /// The facts about the command called `name`, in lower case.
    pub fn named(&self, name: &str) -> Option<&Arc<CommandFacts>> {
        self.commands.get(name.as_bytes())
    }

    /// Adds or replaces facts.
    pub fn merge(&mut self, other: Self) {
        self.commands.extend(other.commands);
    }

    /// Keeps the commands of which `other` has one called the same, with all their subcommands.
    pub(crate) fn keep_families_of(&mut self, other: &Self) {
        let first = |key: &[u8]| key.split(|byte| *byte == b'|').next().map(<[u8]>::to_vec);
        let kept: HashSet<_> = other.commands.keys().filter_map(|key| first(key)).collect();
        self.commands
            .retain(|key, _| first(key).is_some_and(|name| kept.contains(&name)));
    }

    /// Leaves out the commands with one of these flags.
    pub(crate) fn leave_out(&mut self, flags: Flags) {
        self.commands
            .retain(|_, facts| !facts.flags.contains(flags));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// All facts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &CommandFacts> {
        self.commands.values().map(AsRef::as_ref)
    }

    pub(super) fn insert(&mut self, facts: CommandFacts) {
        if let Some((container, _)) = facts.name.split_once('|')
            && let Some(entry) = self.commands.get_mut(container.as_bytes())
        {
            let container = Arc::make_mut(entry);
            container.flags = container.flags.with(Flags::CONTAINER);
        }
        self.commands
            .insert(facts.name.as_bytes().into(), Arc::new(facts));
    }
}

/// A command name in lower case, without an allocation.
#[derive(Default)]
struct NameBuffer {
    bytes: NameBytes,
    length: usize,
}

struct NameBytes([u8; 96]);

impl Default for NameBytes {
    fn default() -> Self {
        Self([0; 96])
    }
}

impl NameBuffer {
    fn push(&mut self, text: &[u8]) -> Option<()> {
        let end = self.length + text.len();
        let place = self.bytes.0.get_mut(self.length..end)?;
        place.copy_from_slice(text);
        place.make_ascii_lowercase();
        self.length = end;
        Some(())
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.0.get(..self.length).unwrap_or_default()
    }
}

/// One line of the built-in copy: name, arity, flags, specifications.
fn parse_line(line: &str) -> Option<CommandFacts> {
    let mut fields = line.split(' ');
    let (name, arity) = (fields.next()?, fields.next()?.parse().ok()?);
    let flags = fields
        .next()?
        .split('+')
        .fold(Flags::default(), Flags::named);
    let specs = match fields.next()? {
        "-" => Box::default(),
        specs => specs.split(';').map(parse_spec).collect::<Option<_>>()?,
    };
    Some(CommandFacts {
        name: name.into(),
        arity,
        flags,
        specs,
    })
}

fn parse_spec(text: &str) -> Option<KeySpec> {
    let mut fields = text.split(':');
    let access = Access::from_words(fields.next()?.split('+'));
    let (begin, find) = (fields.next()?, fields.next()?);
    let begin = match begin.split_at_checked(1)? {
        ("i", index) => BeginSearch::Index(index.parse().ok()?),
        ("k", rest) => {
            let (word, from) = rest.split_once(',')?;
            BeginSearch::Keyword(word.into(), from.parse().ok()?)
        }
        _ => BeginSearch::Unknown,
    };
    let (kind, numbers) = find.split_at_checked(1)?;
    let mut numbers = numbers.split(',').map(|number| number.parse::<i64>().ok());
    let mut next = || numbers.next().flatten();
    let find = match kind {
        "r" => FindKeys::Range {
            last: next()?,
            step: next()?,
            limit: next()?,
        },
        "n" => FindKeys::Count {
            index: next()?,
            first: next()?,
            step: next()?,
        },
        _ => FindKeys::Unknown,
    };
    Some(KeySpec {
        access,
        begin,
        find,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_built_in_copy_is_read() {
        let lines = include_str!("../../data/commands-7.0.15.txt")
            .lines()
            .count();
        assert_eq!(Table::builtin().iter().count(), lines);
    }

    #[test]
    fn names_are_found_in_any_case_and_with_their_subcommand() {
        let table = Table::builtin();
        let mut arguments = Arguments::default();
        arguments.push(b"CoNfIg");
        arguments.push(b"GET");
        assert_eq!(&*table.find(&arguments).unwrap().name, "config|get");
        let mut arguments = Arguments::default();
        arguments.push(&[b'x'; 500]);
        assert!(table.find(&arguments).is_none());
    }
}
