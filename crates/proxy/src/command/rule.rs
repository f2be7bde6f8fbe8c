//! How the reply to a command tells what became of its keys.

use super::table::CommandFacts;
use crate::resp::Arguments;

/// How to read the outcome from a reply that is no error. Nil means absent unless the rule says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "matched in this crate alone")]
pub enum Rule {
    /// Any other reply means that it was done.
    #[default]
    Plain,
    /// Zero means that there was nothing.
    ZeroAbsent,
    /// The number of keys that were there.
    Count,
    /// Zero means that it was not done; anything else that the written key is new.
    CreatesOrFails,
    /// Zero means that it was not done.
    ZeroFailed,
    /// Nil means that it was not done because the key exists; else it is new.
    NilFailed,
    /// One element for each key; nil elements are absent.
    PerKey,
    /// The first element names the one key that had something.
    Named,
    /// Each element names a key that had something.
    NamedEach,
    /// The key is new when the reply is this number.
    LengthTells(u64),
    /// Minus two means that there was nothing.
    MinusTwoAbsent,
    /// The word `none` means that there was nothing.
    NoneAbsent,
    /// An empty reply means that there was nothing.
    EmptyAbsent,
    /// The reply is what was there before; nil means that the key is new.
    PreviousTells,
}

impl Rule {
    /// The rule for the command in `arguments`.
    pub fn of(facts: &CommandFacts, arguments: &Arguments) -> Self {
        match &*facts.name {
            "set" => of_set(arguments),
            "getset" => Self::PreviousTells,
            "del" | "unlink" | "exists" | "touch" => Self::Count,
            "setnx" | "msetnx" | "renamenx" | "copy" | "restore-asking" => Self::CreatesOrFails,
            "hsetnx" | "move" => Self::ZeroFailed,
            "mget" => Self::PerKey,
            "blpop" | "brpop" | "bzpopmin" | "bzpopmax" | "lmpop" | "blmpop" | "zmpop"
            | "bzmpop" => Self::Named,
            "xread" | "xreadgroup" => Self::NamedEach,
            "lpush" | "rpush" => Self::LengthTells(arguments.len().saturating_sub(2) as u64),
            "append" => Self::LengthTells(arguments.at(2).map_or(0, |value| value.length)),
            "ttl" | "pttl" | "expiretime" | "pexpiretime" => Self::MinusTwoAbsent,
            "type" => Self::NoneAbsent,
            "hgetall" | "hkeys" | "hvals" | "smembers" => Self::EmptyAbsent,
            "expire" | "pexpire" | "expireat" | "pexpireat" | "persist" | "hdel" | "hexists"
            | "hlen" | "llen" | "lpushx" | "rpushx" | "lrem" | "linsert" | "scard"
            | "sismember" | "smove" | "srem" | "strlen" | "hstrlen" | "xlen" | "xdel" | "zcard"
            | "zrem" | "pfcount" => Self::ZeroAbsent,
            _ => Self::Plain,
        }
    }

    /// How many elements of the reply the rule looks at, for a command with `keys` keys.
    pub const fn elements_wanted(self, keys: usize) -> usize {
        match self {
            Self::PerKey => keys,
            Self::Named => 1,
            Self::NamedEach => keys.saturating_mul(2),
            _ => 0,
        }
    }
}

fn of_set(arguments: &Arguments) -> Rule {
    let has = |word: &[u8]| {
        (3..arguments.len()).any(|index| arguments.text(index).eq_ignore_ascii_case(word))
    };
    match (has(b"get"), has(b"nx")) {
        (true, false) => Rule::PreviousTells,
        (false, true) => Rule::NilFailed,
        _ => Rule::Plain,
    }
}
