//! The rules by which the reply to a command tells the fate of its keys.

use super::outcome::{self, Reading};
use super::table::CommandFacts;
use crate::resp::{Arguments, parse_canonical};

/// The rule for the outcome of a reply that is no error. Nil means absent unless the rule says
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "matched in this crate alone")]
pub enum Rule {
    /// The command is not in the table: whether it changed anything is not known.
    #[default]
    Unknown,
    /// With this sign the reply means that; any other means that it was done.
    When(Sign, Meaning),
    /// With this sign it was not done; any other reply means that the written key is new.
    Creates(Sign),
    /// The command may have changed something; the reply does not tell.
    Untold,
    /// The command changes nothing, as its arguments say; zero means that there was nothing.
    Idle,
    /// The number of keys that were there.
    Count,
    /// One element for each key; nil elements are absent.
    PerKey,
    /// The first element names the one key that had something.
    Named,
    /// Each element names a key that had something.
    NamedEach,
    /// Each element names a key that had messages, which the group remembers as delivered.
    Delivers(Messages),
    /// The key is new when the reply is this number.
    LengthTells(u64),
    /// The reply is the earlier value; nil means that the key is new.
    PreviousTells,
    /// The reply is the earlier value, which stays; nil means that the key is new.
    PreviousStays,
    /// The reply is the earlier value, which may stay; nil means that the key is new.
    PreviousPerhaps,
    /// A score was raised by this, as the bits of a number, where that is known; the reply is the score, and nil means that a condition
    /// kept it.
    Sums(Option<u64>),
    /// One element for each member, of at most this number: nil or zero for an absent one.
    Members(usize),
    /// Reads like [`Self::Members`]; the reply does not tell whether members that are there changed.
    MembersUntold(usize),
    /// One number for each field, of at most this number: 2 deleted, 1 done, 0 not done, less: not
    /// there.
    FieldCodes(usize),
    /// One number for each field, of at most this number: -2 for an absent one.
    FieldTimes(usize),
    /// One element for each operation, of at most the first number; the second counts those that
    /// write, and nil is one that was not done.
    Bitfield(usize, usize),
    /// Zero or nothing: the source was empty, and the written key is deleted if it was there.
    Stores,
    /// Zero: there was nothing to move. Else it left the source; the destination may have had it before.
    Moves,
    /// A key that was there gets an end: zero means that it was not done, for this reason.
    Expires(Meaning),
    /// The key is restored; whether it is new where it replaces nothing.
    Restores(Replaces),
    /// The word NOKEY: none of them was there.
    Migrates,
}

/// The messages that a consumer of a group asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or no with names")]
pub enum Messages {
    /// Of every stream those that were never delivered.
    New,
    /// Of some stream those that it has been given before.
    Old,
}

/// A sign in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "matched in this crate alone")]
pub enum Sign {
    /// Nil.
    Nil,
    /// The number zero.
    Zero,
    /// A number that is not positive.
    NotPositive,
    /// This number.
    Number(i64),
    /// The number minus two.
    MinusTwo,
    /// The word `none`.
    NoneWord,
    /// An empty text or list.
    Empty,
    /// An empty text or list, or the number zero.
    ZeroOrEmpty,
    /// A list whose second element is empty: a page of a scan.
    EmptyPage,
    /// A list that begins with zero, or is empty.
    ZeroFirst,
}

/// The meaning of a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "matched in this crate alone")]
pub enum Meaning {
    /// The requested part was absent.
    Absent,
    /// Absent, but the command may have changed something that the reply does not show.
    AbsentUntold,
    /// A condition of the command kept it from being done.
    Failed,
    /// Everything was there already as it should be.
    Same,
    /// The command may have changed something; the reply does not tell.
    Untold,
}

/// The treatment of an existing value by a command that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a yes or no with names")]
pub enum Replaces {
    /// The value may be replaced.
    Yes,
    /// An existing value is an error.
    No,
}

impl Rule {
    /// The rule for the command in `arguments`.
    pub fn of(facts: &CommandFacts, arguments: &Arguments) -> Self {
        match outcome::reading(&facts.name) {
            Some(Reading::Is(rule)) => rule,
            Some(Reading::By(read)) => read(arguments),
            None => Self::Unknown,
        }
    }

    /// Returns the number of elements of the reply that the rule looks at, for a command with
    /// `keys` keys.
    pub const fn elements_wanted(self, keys: usize) -> usize {
        match self {
            Self::PerKey => keys,
            Self::Named => 1,
            Self::NamedEach | Self::Delivers(_) => keys.saturating_mul(2),
            Self::When(Sign::EmptyPage | Sign::ZeroFirst, _) => 2,
            Self::Members(members)
            | Self::MembersUntold(members)
            | Self::FieldCodes(members)
            | Self::FieldTimes(members)
            | Self::Bitfield(members, _) => members,
            _ => 0,
        }
    }
}

fn has(arguments: &Arguments, from: usize, words: &[&str]) -> bool {
    (from..arguments.len()).any(|index| is_word(arguments, index, words))
}

fn is_word(arguments: &Arguments, index: usize, words: &[&str]) -> bool {
    words.iter().any(|word| arguments.is_word(index, word))
}

/// The options of a command from `from` on, each once; what follows one of `with_value` is none.
fn options(arguments: &Arguments, from: usize, with_value: &[&str]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut index = from;
    while index < arguments.len() {
        found.push(arguments.word(index));
        index += 1 + usize::from(is_word(arguments, index, with_value));
    }
    found
}

pub(super) fn set(arguments: &Arguments) -> Rule {
    const WITH_VALUE: [&str; 8] = ["ex", "px", "exat", "pxat", "ifeq", "ifne", "ifdeq", "ifdne"];
    let options = options(arguments, 3, &WITH_VALUE);
    let has = |word: &str| options.iter().any(|option| option == word.as_bytes());
    let compares = WITH_VALUE[4..].iter().any(|word| has(word));
    // A key that is not there differs from every value.
    let creates = has("ifne") || has("ifdne");
    match (has("get"), has("nx"), has("xx")) {
        (true, _, _) if creates => Rule::PreviousPerhaps,
        (true, _, _) if compares => Rule::Untold,
        (false, _, _) if compares => Rule::When(Sign::Nil, Meaning::Failed),
        (true, false, false) => Rule::PreviousTells,
        (true, true, false) => Rule::PreviousStays,
        (false, true, false) => Rule::Creates(Sign::Nil),
        // With both words it is an error; XX alone does nothing where there is nothing.
        _ => Rule::When(Sign::Nil, Meaning::Absent),
    }
}

/// `SETBIT` gives the bit that was there; where that is the one it sets, only the length may have changed.
pub(super) fn setbit(arguments: &Arguments) -> Rule {
    let bit = number(arguments, 3).unwrap_or_default();
    Rule::When(Sign::Number(bit), Meaning::Untold)
}

/// `SETRANGE` with no bytes changes nothing.
pub(super) fn setrange(arguments: &Arguments) -> Rule {
    if arguments.at(3).is_some_and(|value| value.length == 0) {
        Rule::Idle
    } else {
        Rule::When(Sign::Nil, Meaning::Absent)
    }
}

/// `GETEX` reads, and may give the key an end or take it away.
pub(super) fn getex(arguments: &Arguments) -> Rule {
    if is_word(arguments, 2, &["persist"]) {
        Rule::Untold
    } else if is_word(arguments, 2, &["exat", "pxat"]) {
        Rule::Expires(Meaning::Absent)
    } else {
        Rule::When(Sign::Nil, Meaning::Absent)
    }
}

pub(super) fn number(arguments: &Arguments, index: usize) -> Option<i64> {
    parse_canonical(arguments.whole(index)?)
}

/// `EXPIRE key seconds` and its relatives, with conditions or without.
pub(super) fn expire(arguments: &Arguments) -> Rule {
    Rule::Expires(condition(arguments))
}

fn condition(arguments: &Arguments) -> Meaning {
    if arguments.len() > 3 {
        Meaning::Failed
    } else {
        Meaning::Absent
    }
}

/// `RESTORE key ttl value [REPLACE] [ABSTTL] [IDLETIME n] [FREQ n]`.
pub(super) fn restore(arguments: &Arguments) -> Rule {
    let replaces = if has(arguments, 4, &["replace"]) {
        Replaces::Yes
    } else {
        Replaces::No
    };
    Rule::Restores(replaces)
}

pub(super) fn copy(arguments: &Arguments) -> Rule {
    if has(arguments, 3, &["replace"]) {
        Rule::When(Sign::Zero, Meaning::Failed)
    } else {
        Rule::Creates(Sign::Zero)
    }
}

/// `RENAME` of a key to itself changes nothing.
pub(super) fn rename(arguments: &Arguments) -> Rule {
    if are_same(arguments) {
        Rule::Idle
    } else {
        Rule::When(Sign::Nil, Meaning::Absent)
    }
}

pub(super) fn smove(arguments: &Arguments) -> Rule {
    if are_same(arguments) {
        Rule::Idle
    } else {
        Rule::Moves
    }
}

fn are_same(arguments: &Arguments) -> bool {
    arguments.at(1) == arguments.at(2)
}

/// Lists and strings are new when they are as long as their added part.
pub(super) fn push(arguments: &Arguments) -> Rule {
    Rule::LengthTells(arguments.len().saturating_sub(2) as u64)
}

/// `ZADD` and `GEOADD key [NX|XX] [GT|LT] [CH] [INCR] ...`: without CH the reply counts only what is new.
pub(super) fn zadd(arguments: &Arguments) -> Rule {
    const OPTIONS: [&str; 6] = ["nx", "xx", "gt", "lt", "ch", "incr"];
    let end = (2..arguments.len()).find(|index| !is_word(arguments, *index, &OPTIONS));
    let end = end.unwrap_or(arguments.len());
    let has = |words: &[&str]| (2..end).any(|index| is_word(arguments, index, words));
    let meaning = match (has(&["nx"]), has(&["xx", "gt", "lt"]), has(&["ch"])) {
        _ if has(&["incr"]) => return sums(arguments, end),
        (true, ..) | (_, true, true) => Meaning::Failed,
        (_, false, true) => Meaning::Same,
        (_, _, false) => Meaning::Untold,
    };
    Rule::When(Sign::Zero, meaning)
}

/// `ZINCRBY key increment member`.
pub(super) fn zincrby(arguments: &Arguments) -> Rule {
    sums(arguments, 2)
}

/// The increment is the argument at `index`.
fn sums(arguments: &Arguments, index: usize) -> Rule {
    let text = arguments
        .whole(index)
        .and_then(|text| std::str::from_utf8(text).ok());
    let by = text.and_then(|text| text.parse::<f64>().ok());
    Rule::Sums(by.map(f64::to_bits))
}

/// `XREADGROUP ... STREAMS key ... id ...`: the sign `>` asks for new messages.
pub(super) fn xreadgroup(arguments: &Arguments) -> Rule {
    let mut streams = None;
    let mut index = 1;
    while index < arguments.len() && streams.is_none() {
        streams = arguments.is_word(index, "streams").then_some(index);
        let values = match arguments.word(index).as_slice() {
            b"group" => 2,
            b"count" | b"block" | b"claim" => 1,
            _ => 0,
        };
        index += 1 + values;
    }
    let words = arguments.len() - streams.map_or(0, |at| at + 1).min(arguments.len());
    let first = arguments.len() - words / 2;
    let is_new = |index: usize| arguments.whole(index) == Some(b">");
    Rule::Delivers(if (first..arguments.len()).all(is_new) {
        Messages::New
    } else {
        Messages::Old
    })
}

pub(super) fn members(arguments: &Arguments) -> Rule {
    Rule::Members(arguments.len().saturating_sub(2))
}

/// `HGETEX key [PERSIST | an end] FIELDS ...`: a field without an end has none to lose.
pub(super) fn hgetex(arguments: &Arguments) -> Rule {
    if is_word(arguments, 2, &["persist"]) {
        Rule::MembersUntold(arguments.len().saturating_sub(2))
    } else {
        members(arguments)
    }
}

pub(super) fn field_codes(arguments: &Arguments) -> Rule {
    Rule::FieldCodes(arguments.len())
}

pub(super) fn field_times(arguments: &Arguments) -> Rule {
    Rule::FieldTimes(arguments.len())
}

pub(super) fn bitfield(arguments: &Arguments) -> Rule {
    let writes = (2..arguments.len())
        .filter(|index| is_word(arguments, *index, &["set", "incrby"]))
        .count();
    Rule::Bitfield(arguments.len(), writes)
}

/// Commands that store their result only if they are asked to.
pub(super) fn may_store(arguments: &Arguments) -> Rule {
    if has(arguments, 2, &["store", "storedist"]) {
        Rule::Stores
    } else {
        Rule::When(Sign::Empty, Meaning::Absent)
    }
}
