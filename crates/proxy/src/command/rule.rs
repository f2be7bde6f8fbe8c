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
    /// The reply is what was there before and stays; nil means that the key is new.
    PreviousStays,
    /// One element for each of so many members asked for: nil or zero where there is none.
    Members(usize),
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
            "hmget" | "smismember" | "zmscore" | "geopos" | "geohash" => {
                Self::Members(arguments.len().saturating_sub(2))
            }
            name if EMPTY_ABSENT.contains(&name) => Self::EmptyAbsent,
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
            Self::Members(members) => members,
            _ => 0,
        }
    }
}

fn of_set(arguments: &Arguments) -> Rule {
    let has = |word: &[u8]| {
        (3..arguments.len()).any(|index| arguments.text(index).eq_ignore_ascii_case(word))
    };
    match (has(b"get"), has(b"nx"), has(b"xx")) {
        (true, false, false) => Rule::PreviousTells,
        (true, true, false) => Rule::PreviousStays,
        (false, true, false) => Rule::NilFailed,
        // With both words it is an error; XX alone does nothing where there is nothing.
        _ => Rule::Plain,
    }
}

/// Reads whose reply is empty, or nil, where there is nothing.
const EMPTY_ABSENT: [&str; 42] = [
    "geosearch",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "getrange",
    "hgetall",
    "hkeys",
    "hrandfield",
    "hvals",
    "lpop",
    "lrange",
    "rpop",
    "sdiff",
    "sinter",
    "smembers",
    "sort",
    "sort_ro",
    "spop",
    "srandmember",
    "substr",
    "sunion",
    "xautoclaim",
    "xclaim",
    "xpending",
    "xrange",
    "xrevrange",
    "zdiff",
    "zinter",
    "zpopmax",
    "zpopmin",
    "zrandmember",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zunion",
    "lpos",
    "object|freq",
    "lcs",
];
