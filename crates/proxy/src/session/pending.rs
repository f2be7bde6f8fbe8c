//! A command on its way: what to record and what to change when its reply comes.

use std::sync::Arc;

use crate::command::{Access, CommandFacts, Flags, KeyUse, Rule};
use crate::resp::Arguments;

/// A key of a pending command.
#[derive(Debug, Clone)]
pub(super) struct PendingKey {
    pub(super) kept: Box<[u8]>,
    pub(super) digest: Option<[u8; 32]>,
    pub(super) access: Access,
}

/// What a pending command changes about the session when it succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Effect {
    #[default]
    None,
    Multi,
    Exec,
    Discard,
    Auth {
        user: Vec<u8>,
    },
    Hello {
        user: Option<Vec<u8>>,
        name: Option<Vec<u8>>,
    },
    SetName {
        name: Vec<u8>,
    },
    Select {
        db: u64,
    },
    Reset,
    Monitor,
    Subscribe {
        channels: usize,
    },
    Unsubscribe {
        channels: usize,
    },
}

/// What is recorded besides keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing.
    None,
    /// One entry with this action about this place.
    One(&'static str, Box<[u8]>),
    /// One entry with this action for each of these channels.
    Channels(&'static str, Vec<Box<[u8]>>),
}

/// A command whose reply is awaited.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) name: Arc<str>,
    pub(super) keys: Vec<PendingKey>,
    pub(super) place: Place,
    pub(super) rule: Rule,
    pub(super) effect: Effect,
    /// Whether the server answers it at all (`CLIENT REPLY`).
    pub(super) answered: bool,
    /// Whether it may wait on the server for what others do.
    pub(super) blocks: bool,
    /// Replies still to come, where there is one for each channel.
    pub(super) replies_left: usize,
}

impl Pending {
    pub(super) fn new(
        facts: Option<&CommandFacts>,
        arguments: &Arguments,
        keys: &[KeyUse],
        answered: bool,
    ) -> Self {
        let keys: Vec<PendingKey> = keys
            .iter()
            .filter_map(|key| {
                let argument = arguments.at(key.argument)?;
                let access = key.access.logical();
                Some(PendingKey {
                    kept: argument.kept.into(),
                    digest: argument.digest,
                    access,
                })
            })
            .collect();
        let name: Arc<str> = facts.map_or("unknown", |facts| &facts.name).into();
        let effect = effect_of(&name, arguments);
        let replies_left = match effect {
            Effect::Subscribe { channels } => channels,
            _ => 1,
        };
        Self {
            place: place_of(&name, &effect, keys.is_empty(), facts, arguments),
            rule: facts.map_or(Rule::Plain, |facts| Rule::of(facts, arguments)),
            name,
            keys,
            effect,
            answered,
            blocks: facts.is_some_and(|facts| blocks(facts, arguments)),
            replies_left,
        }
    }

    pub(super) fn elements_wanted(&self) -> usize {
        self.rule.elements_wanted(self.keys.len())
    }
}

/// Whether the command's arguments may hold a secret.
pub(super) fn is_secret(name: &str) -> bool {
    matches!(
        name,
        "auth" | "hello" | "acl|setuser" | "config|set" | "migrate"
    )
}

fn blocks(facts: &CommandFacts, arguments: &Arguments) -> bool {
    let asked =
        || (1..arguments.len()).any(|index| arguments.text(index).eq_ignore_ascii_case(b"block"));
    let only_if_asked = matches!(&*facts.name, "xread" | "xreadgroup");
    facts.flags.contains(Flags::BLOCKING) && (!only_if_asked || asked())
}

fn effect_of(name: &str, arguments: &Arguments) -> Effect {
    let text = |index: usize| arguments.text(index).to_vec();
    match name {
        "multi" => Effect::Multi,
        "exec" => Effect::Exec,
        "discard" => Effect::Discard,
        "auth" if arguments.len() == 3 => Effect::Auth { user: text(1) },
        "auth" => Effect::Auth {
            user: b"default".to_vec(),
        },
        "hello" => hello(arguments),
        "client|setname" => Effect::SetName { name: text(2) },
        "select" => std::str::from_utf8(arguments.text(1))
            .ok()
            .and_then(|text| text.parse().ok())
            .map_or(Effect::None, |db| Effect::Select { db }),
        "reset" => Effect::Reset,
        "monitor" => Effect::Monitor,
        "subscribe" | "psubscribe" | "ssubscribe" if arguments.len() > 1 => Effect::Subscribe {
            channels: arguments.len() - 1,
        },
        "unsubscribe" | "punsubscribe" | "sunsubscribe" => Effect::Unsubscribe {
            channels: arguments.len() - 1,
        },
        _ => Effect::None,
    }
}

fn hello(arguments: &Arguments) -> Effect {
    let (mut user, mut name) = (None, None);
    let mut index = 2;
    while index < arguments.len() {
        let option = arguments.text(index).to_ascii_lowercase();
        if option == b"auth" {
            user = Some(arguments.text(index + 1).to_vec());
            index += 2;
        } else if option == b"setname" {
            name = Some(arguments.text(index + 1).to_vec());
            index += 1;
        }
        index += 1;
    }
    Effect::Hello { user, name }
}

fn place_of(
    name: &str,
    effect: &Effect,
    keyless: bool,
    facts: Option<&CommandFacts>,
    arguments: &Arguments,
) -> Place {
    let one = |action, index: usize| Place::One(action, arguments.text(index).into());
    let channels = || {
        (1..arguments.len())
            .map(|index| arguments.text(index).into())
            .collect()
    };
    match name {
        "flushall" | "flushdb" => Place::One("delete", Box::from(&b"*"[..])),
        "swapdb" => Place::One("update", Box::from(&b"*"[..])),
        "keys" => one("list", 1),
        "scan" => Place::One("list", scan_pattern(arguments)),
        "randomkey" | "dbsize" => Place::One("list", Box::from(&b"*"[..])),
        "publish" | "spublish" => one("publish", 1),
        "subscribe" | "psubscribe" | "ssubscribe" => Place::Channels("subscribe", channels()),
        "auth" => Place::One("authenticate", Box::default()),
        "hello" if matches!(effect, Effect::Hello { user: Some(_), .. }) => {
            Place::One("authenticate", Box::default())
        }
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro" => {
            if keyless {
                Place::One("run", Box::default())
            } else {
                Place::None
            }
        }
        "unknown" => Place::One("run", Box::default()),
        _ if facts.is_some_and(|facts| facts.flags.contains(Flags::ADMIN)) => {
            Place::One("administer", Box::default())
        }
        _ => Place::None,
    }
}

fn scan_pattern(arguments: &Arguments) -> Box<[u8]> {
    let found = (2..arguments.len())
        .find(|index| arguments.text(*index).eq_ignore_ascii_case(b"match"))
        .map(|index| arguments.text(index + 1));
    found.unwrap_or(b"*").into()
}
