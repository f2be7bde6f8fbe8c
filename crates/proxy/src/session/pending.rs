//! A command on its way: what to record and what to change when its reply comes.

use std::fmt::Write as _;
use std::sync::Arc;

use super::effect::Effect;
use super::mark::{Mark, facts_of, is_script, marks_of, put_if};
use super::quoted::is_command;
use super::text::Digests;
use crate::audit::Key;
use crate::command::{Access, CommandFacts, Deadline, Flags, KeyUse, Rule};
use crate::resp::{Arguments, parse_canonical};

/// The keys of a pending command, in one piece: a command may have millions.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    places: Vec<KeyPlace>,
    digests: Vec<(usize, [u8; 32])>,
}

#[derive(Debug, Clone, Copy)]
struct KeyPlace {
    start: u32,
    end: u32,
    access: Access,
    /// The database, where the command itself names one.
    db: Option<u32>,
}

/// One key of a pending command.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingKey<'a> {
    pub(super) key: Key<'a>,
    pub(super) access: Access,
    pub(super) db: Option<u64>,
}

impl Keys {
    fn of(facts: Option<&CommandFacts>, arguments: &Arguments, uses: &[KeyUse]) -> Self {
        let bounded = |access| facts.map_or(access, |facts| facts.bounded(access));
        let mut keys = Self {
            places: Vec::with_capacity(uses.len()),
            ..Self::default()
        };
        for used in uses {
            let access = bounded(used.access.logical());
            keys.push(arguments, used.argument, access, None);
        }
        match facts.map_or("", |facts| &*facts.name) {
            "copy" => keys.set_last_db(copy_db(arguments)),
            "move" => {
                if let Some(db) = number(arguments, 2) {
                    keys.push(arguments, 1, Access::INSERT, Some(db));
                }
            }
            _ => {}
        }
        keys
    }

    fn push(&mut self, arguments: &Arguments, index: usize, access: Access, db: Option<u32>) {
        let Some(argument) = arguments.at(index) else {
            return;
        };
        // What is kept of a command has 64 MiB at most.
        let place = |keys: &Self| u32::try_from(keys.bytes.len()).unwrap_or(u32::MAX);
        let start = place(self);
        self.bytes.extend_from_slice(argument.kept);
        if let Some(digest) = argument.digest {
            self.digests.push((self.places.len(), digest));
        }
        self.places.push(KeyPlace {
            start,
            end: place(self),
            access,
            db,
        });
    }

    fn set_last_db(&mut self, db: Option<u32>) {
        if let Some(last) = self.places.last_mut() {
            last.db = db;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn at(&self, index: usize) -> Option<PendingKey<'_>> {
        let place = self.places.get(index)?;
        let kept = self.bytes.get(place.start as usize..place.end as usize)?;
        let digest = self.digests.binary_search_by_key(&index, |(at, _)| *at);
        let digest = digest.ok().and_then(|at| self.digests.get(at));
        Some(PendingKey {
            key: Key {
                kept,
                digest: digest.map(|(_, digest)| *digest),
            },
            access: place.access,
            db: place.db.map(u64::from),
        })
    }

    /// The key that takes data from the others, if the command has one that it only writes.
    pub(super) fn destination(&self) -> Option<PendingKey<'_>> {
        let reads = |place: &KeyPlace| place.access.contains(Access::ACCESS);
        if self.places.len() < 2 || !self.places.iter().any(reads) {
            return None;
        }
        let only_written = |place: &KeyPlace| {
            let writes =
                place.access.contains(Access::UPDATE) || place.access.contains(Access::INSERT);
            writes && !reads(place)
        };
        self.at(self.places.iter().position(only_written)?)
    }

    fn bytes(&self) -> usize {
        self.bytes.capacity()
            + self.places.capacity() * size_of::<KeyPlace>()
            + self.digests.capacity() * size_of::<(usize, [u8; 32])>()
    }
}

/// The author of a reply's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Servers,
    /// A script or function of a client.
    Scripts,
    /// The client itself, in the command.
    Clients,
}

impl Words {
    fn of(name: &str, arguments: &Arguments) -> Self {
        if is_script(name) {
            Self::Scripts
        } else if name == "debug" && arguments.is_word(1, "error") {
            Self::Clients
        } else {
            Self::Servers
        }
    }
}

/// A command whose reply is awaited.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the command"
)]
pub(super) struct Pending {
    pub(super) name: Arc<str>,
    pub(super) keys: Keys,
    pub(super) marks: Vec<Mark>,
    /// More facts for the payload of every entry, each a JSON member with a leading comma.
    pub(super) facts: Box<str>,
    pub(super) rule: Rule,
    pub(super) words: Words,
    /// True if it may touch keys that are not known.
    is_open: bool,
    /// True if its treatment of its keys is a guess.
    pub(super) is_guessed: bool,
    pub(super) deadline: Deadline,
    /// The server's time before the command went there, in milliseconds since 1970, if it was
    /// asked.
    pub(super) time_before: Option<i64>,
    pub(super) effect: Effect,
    /// True if the command may wait on the server for other clients.
    pub(super) blocks: bool,
    /// True if the proxy itself asks, so that the client does not see the reply.
    pub(super) own: bool,
    /// True if a command without words followed, which ends a skip.
    pub(super) blank_after: bool,
    /// Confirmations still to come, once the first of them tells how many there are.
    pub(super) confirmations: Option<usize>,
    /// Bytes that it occupies.
    pub(super) cost: usize,
}

impl Pending {
    pub(super) fn new(
        facts: Option<&CommandFacts>,
        arguments: &Arguments,
        uses: &[KeyUse],
    ) -> Self {
        let name: Arc<str> = facts.map_or("unknown", |facts| &facts.name).into();
        let keys = Keys::of(facts, arguments, uses);
        let effect = Effect::of(&name, arguments);
        let deadline = Deadline::of(&name, arguments);
        let mut more = facts_of(&name, arguments, &keys);
        if let Deadline::At(at) = deadline {
            let _infallible = write!(more, ",\"until\":{at}");
        }
        let mut pending = Self {
            marks: marks_of(&name, facts, arguments),
            facts: Box::default(),
            deadline,
            time_before: None,
            rule: facts.map_or(Rule::Unknown, |facts| Rule::of(facts, arguments)),
            words: Words::of(&name, arguments),
            is_open: false,
            is_guessed: false,
            blocks: facts.is_some_and(|facts| blocks(facts, arguments)),
            name,
            keys,
            effect,
            own: false,
            blank_after: false,
            confirmations: None,
            cost: 0,
        };
        let is_unknown = facts.is_some_and(|facts| facts.is_of_unknown_subcommand(arguments));
        // Of these the word may be a password, whatever it looks like.
        if is_unknown && !matches!(&*pending.name, "acl" | "config") {
            put_if(&mut more, "subcommand", arguments, 1, is_command);
        }
        pending.facts = more.into();
        if is_unknown || facts.is_some_and(CommandFacts::is_open) {
            pending.touches_unknown();
        }
        pending.cost = pending.bytes();
        pending
    }

    /// A question of the proxy's own, on the client's connection.
    pub(super) fn own(name: &'static str, effect: Effect) -> Self {
        Self {
            name: name.into(),
            keys: Keys::default(),
            marks: Vec::new(),
            facts: Box::default(),
            rule: Rule::Unknown,
            words: Words::Servers,
            is_open: false,
            is_guessed: false,
            deadline: Deadline::Ahead,
            time_before: None,
            effect,
            blocks: false,
            own: true,
            blank_after: false,
            confirmations: None,
            cost: size_of::<Self>(),
        }
    }

    /// Nobody can say which keys it touches, or which besides those that are known: then an entry
    /// says that.
    pub(super) fn touches_unknown(&mut self) {
        if std::mem::replace(&mut self.is_open, true) {
            return;
        }
        let known = if self.keys.len() > 0 {
            "perhaps more"
        } else {
            "unknown"
        };
        self.marks.push(Mark::plain("run", b""));
        self.facts = format!("{},\"keys\":\"{known}\"", self.facts).into();
    }

    /// The server has, or may have, carried out a command that it said it did not have.
    pub(super) fn ran_unknown(&mut self) {
        self.facts = format!("{},\"keys\":\"unknown\"", self.facts).into();
    }

    fn bytes(&self) -> usize {
        let marks = self.marks.iter().map(Mark::bytes).sum::<usize>();
        size_of::<Self>()
            + self.name.len()
            + self.keys.bytes()
            + marks
            + self.facts.len()
            + self.effect.bytes()
    }

    /// Returns the texts of the reply that are compared as a whole.
    pub(super) const fn digests(&self) -> Digests {
        let names = matches!(self.rule, Rule::Named | Rule::NamedEach | Rule::Delivers(_));
        if names || self.own {
            Digests::All
        } else {
            Digests::None
        }
    }

    pub(super) fn elements_wanted(&self) -> usize {
        self.rule.elements_wanted(self.keys.len())
    }
}

/// Returns whether the command's arguments may hold a secret.
pub(super) fn is_secret(name: &str) -> bool {
    matches!(
        name,
        "auth" | "hello" | "acl|setuser" | "config|set" | "migrate"
    )
}

fn blocks(facts: &CommandFacts, arguments: &Arguments) -> bool {
    let asked = || (1..arguments.len()).any(|index| arguments.is_word(index, "block"));
    let only_if_asked = matches!(&*facts.name, "xread" | "xreadgroup");
    facts.flags.contains(Flags::BLOCKING) && (!only_if_asked || asked())
}

fn number(arguments: &Arguments, index: usize) -> Option<u32> {
    arguments
        .whole(index)
        .and_then(parse_canonical)
        .and_then(|number| u32::try_from(number).ok())
}

/// The database of `COPY source destination [DB number] [REPLACE]`, where the last one counts.
fn copy_db(arguments: &Arguments) -> Option<u32> {
    let named = (3..arguments.len())
        .rev()
        .find(|index| arguments.is_word(*index, "db"))?;
    number(arguments, named + 1)
}
