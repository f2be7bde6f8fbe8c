//! One line for each command that touches keys, or lists them: how its reply tells what became of them.
//!
//! Commands of Redis 7.0, of Valkey 9.1 and some of later ones. A command that is not here is of a module or newer.

use super::rule::{self, Meaning, Rule, Sign};
use crate::resp::Arguments;

/// The way in which the reply to a command is read.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// By this rule.
    Is(Rule),
    /// By the rule that follows from its arguments.
    By(fn(&Arguments) -> Rule),
}

use Reading::{By, Is};

/// Anything but nil means that it was done.
const DONE: Reading = Is(Rule::When(Sign::Nil, Meaning::Absent));
const ZERO_ABSENT: Reading = Is(Rule::When(Sign::Zero, Meaning::Absent));
const ZERO_FAILED: Reading = Is(Rule::When(Sign::Zero, Meaning::Failed));
const ZERO_SAME: Reading = Is(Rule::When(Sign::Zero, Meaning::Same));
const ZERO_UNTOLD: Reading = Is(Rule::When(Sign::Zero, Meaning::Untold));
const EMPTY_ABSENT: Reading = Is(Rule::When(Sign::Empty, Meaning::Absent));

/// Returns the way in which the reply to the command `name` is read.
pub(super) fn reading(name: &str) -> Option<Reading> {
    let place = TABLE.binary_search_by_key(&name, |(known, _)| known);
    TABLE.get(place.ok()?).map(|(_, reading)| *reading)
}

/// In the order of the names.
const TABLE: [(&str, Reading); 213] = [
    ("append", DONE),
    ("bitcount", ZERO_ABSENT),
    ("bitfield", By(rule::bitfield)),
    ("bitfield_ro", By(rule::bitfield)),
    ("bitop", Is(Rule::Stores)),
    ("bitpos", DONE),
    ("blmove", DONE),
    ("blmpop", Is(Rule::Named)),
    ("blpop", Is(Rule::Named)),
    ("brpop", Is(Rule::Named)),
    ("brpoplpush", DONE),
    ("bzmpop", Is(Rule::Named)),
    ("bzpopmax", Is(Rule::Named)),
    ("bzpopmin", Is(Rule::Named)),
    ("cluster|countkeysinslot", ZERO_ABSENT),
    ("cluster|getkeysinslot", EMPTY_ABSENT),
    ("copy", By(rule::copy)),
    ("dbsize", ZERO_ABSENT),
    ("debug", DONE),
    ("decr", DONE),
    ("decrby", DONE),
    ("del", Is(Rule::Count)),
    ("delex", ZERO_FAILED),
    ("delifeq", ZERO_FAILED),
    ("dump", DONE),
    ("eval", Is(Rule::Unknown)),
    ("eval_ro", Is(Rule::Unknown)),
    ("evalsha", Is(Rule::Unknown)),
    ("evalsha_ro", Is(Rule::Unknown)),
    ("exists", Is(Rule::Count)),
    ("expire", By(rule::expire)),
    ("expireat", By(rule::expire)),
    (
        "expiretime",
        Is(Rule::When(Sign::MinusTwo, Meaning::Absent)),
    ),
    ("fcall", Is(Rule::Unknown)),
    ("fcall_ro", Is(Rule::Unknown)),
    ("geoadd", By(rule::zadd)),
    ("geodist", DONE),
    ("geohash", By(rule::members)),
    ("geopos", By(rule::members)),
    ("georadius", By(rule::may_store)),
    ("georadius_ro", EMPTY_ABSENT),
    ("georadiusbymember", By(rule::may_store)),
    ("georadiusbymember_ro", EMPTY_ABSENT),
    ("geosearch", EMPTY_ABSENT),
    ("geosearchstore", Is(Rule::Stores)),
    ("get", DONE),
    ("getbit", DONE),
    ("getdel", DONE),
    ("getex", By(rule::getex)),
    ("getrange", EMPTY_ABSENT),
    ("getset", Is(Rule::PreviousTells)),
    ("hdel", ZERO_ABSENT),
    ("hexists", ZERO_ABSENT),
    ("hexpire", By(rule::field_codes)),
    ("hexpireat", By(rule::field_codes)),
    ("hexpiretime", By(rule::field_times)),
    ("hget", DONE),
    ("hgetall", EMPTY_ABSENT),
    ("hgetdel", By(rule::members)),
    ("hgetex", By(rule::hgetex)),
    ("hincrby", DONE),
    ("hincrbyfloat", DONE),
    ("hkeys", EMPTY_ABSENT),
    ("hlen", ZERO_ABSENT),
    ("hmget", By(rule::members)),
    ("hmset", DONE),
    ("hpersist", By(rule::field_codes)),
    ("hpexpire", By(rule::field_codes)),
    ("hpexpireat", By(rule::field_codes)),
    ("hpexpiretime", By(rule::field_times)),
    ("hpttl", By(rule::field_times)),
    ("hrandfield", EMPTY_ABSENT),
    ("hscan", Is(Rule::When(Sign::EmptyPage, Meaning::Absent))),
    ("hset", DONE),
    ("hsetex", ZERO_FAILED),
    ("hsetnx", ZERO_FAILED),
    ("hstrlen", ZERO_ABSENT),
    ("httl", By(rule::field_times)),
    ("hvals", EMPTY_ABSENT),
    ("incr", DONE),
    ("incrby", DONE),
    ("incrbyfloat", DONE),
    ("keys", EMPTY_ABSENT),
    ("lcs", Is(Rule::When(Sign::ZeroOrEmpty, Meaning::Absent))),
    ("lindex", DONE),
    (
        "linsert",
        Is(Rule::When(Sign::NotPositive, Meaning::Absent)),
    ),
    ("llen", ZERO_ABSENT),
    ("lmove", DONE),
    ("lmpop", Is(Rule::Named)),
    ("lpop", EMPTY_ABSENT),
    ("lpos", EMPTY_ABSENT),
    ("lpush", By(rule::push)),
    ("lpushx", ZERO_ABSENT),
    ("lrange", EMPTY_ABSENT),
    ("lrem", ZERO_ABSENT),
    ("lset", DONE),
    ("ltrim", Is(Rule::Untold)),
    ("memory|usage", DONE),
    ("mget", Is(Rule::PerKey)),
    ("migrate", Is(Rule::Migrates)),
    ("move", Is(Rule::Creates(Sign::Zero))),
    ("mset", DONE),
    ("msetex", ZERO_FAILED),
    ("msetnx", Is(Rule::Creates(Sign::Zero))),
    ("object|encoding", DONE),
    ("object|freq", DONE),
    ("object|idletime", DONE),
    ("object|refcount", DONE),
    ("persist", ZERO_ABSENT),
    ("pexpire", By(rule::expire)),
    ("pexpireat", By(rule::expire)),
    (
        "pexpiretime",
        Is(Rule::When(Sign::MinusTwo, Meaning::Absent)),
    ),
    ("pfadd", ZERO_SAME),
    ("pfcount", ZERO_ABSENT),
    ("pfdebug", DONE),
    ("pfmerge", DONE),
    ("psetex", DONE),
    ("pttl", Is(Rule::When(Sign::MinusTwo, Meaning::Absent))),
    ("randomkey", DONE),
    ("rename", By(rule::rename)),
    ("renamenx", Is(Rule::Creates(Sign::Zero))),
    ("restore", By(rule::restore)),
    ("restore-asking", By(rule::restore)),
    ("rpop", EMPTY_ABSENT),
    ("rpoplpush", DONE),
    ("rpush", By(rule::push)),
    ("rpushx", ZERO_ABSENT),
    ("sadd", ZERO_SAME),
    ("scan", Is(Rule::When(Sign::EmptyPage, Meaning::Absent))),
    ("scard", ZERO_ABSENT),
    ("sdiff", EMPTY_ABSENT),
    ("sdiffstore", Is(Rule::Stores)),
    ("set", By(rule::set)),
    ("setbit", By(rule::setbit)),
    ("setex", DONE),
    ("setnx", Is(Rule::Creates(Sign::Zero))),
    ("setrange", By(rule::setrange)),
    ("sinter", EMPTY_ABSENT),
    ("sintercard", ZERO_ABSENT),
    ("sinterstore", Is(Rule::Stores)),
    ("sismember", ZERO_ABSENT),
    ("smembers", EMPTY_ABSENT),
    ("smismember", By(rule::members)),
    ("smove", By(rule::smove)),
    ("sort", By(rule::may_store)),
    ("sort_ro", EMPTY_ABSENT),
    ("spop", EMPTY_ABSENT),
    ("srandmember", EMPTY_ABSENT),
    ("srem", ZERO_ABSENT),
    ("sscan", Is(Rule::When(Sign::EmptyPage, Meaning::Absent))),
    (
        "stralgo",
        Is(Rule::When(Sign::ZeroOrEmpty, Meaning::Absent)),
    ),
    ("strlen", ZERO_ABSENT),
    ("substr", EMPTY_ABSENT),
    ("sunion", EMPTY_ABSENT),
    ("sunionstore", Is(Rule::Stores)),
    ("touch", Is(Rule::Count)),
    ("ttl", Is(Rule::When(Sign::MinusTwo, Meaning::Absent))),
    ("type", Is(Rule::When(Sign::NoneWord, Meaning::Absent))),
    ("unlink", Is(Rule::Count)),
    ("watch", DONE),
    ("xack", ZERO_ABSENT),
    ("xadd", DONE),
    (
        "xautoclaim",
        Is(Rule::When(Sign::EmptyPage, Meaning::AbsentUntold)),
    ),
    ("xclaim", Is(Rule::When(Sign::Empty, Meaning::AbsentUntold))),
    ("xdel", ZERO_ABSENT),
    ("xgroup|create", DONE),
    ("xgroup|createconsumer", ZERO_FAILED),
    ("xgroup|delconsumer", ZERO_UNTOLD),
    ("xgroup|destroy", ZERO_ABSENT),
    ("xgroup|setid", DONE),
    ("xinfo|consumers", EMPTY_ABSENT),
    ("xinfo|groups", EMPTY_ABSENT),
    ("xinfo|stream", DONE),
    ("xlen", ZERO_ABSENT),
    ("xpending", Is(Rule::When(Sign::ZeroFirst, Meaning::Absent))),
    ("xrange", EMPTY_ABSENT),
    ("xread", Is(Rule::NamedEach)),
    ("xreadgroup", By(rule::xreadgroup)),
    ("xrevrange", EMPTY_ABSENT),
    ("xsetid", DONE),
    ("xtrim", ZERO_ABSENT),
    ("zadd", By(rule::zadd)),
    ("zcard", ZERO_ABSENT),
    ("zcount", ZERO_ABSENT),
    ("zdiff", EMPTY_ABSENT),
    ("zdiffstore", Is(Rule::Stores)),
    ("zincrby", By(rule::zincrby)),
    ("zinter", EMPTY_ABSENT),
    ("zintercard", ZERO_ABSENT),
    ("zinterstore", Is(Rule::Stores)),
    ("zlexcount", ZERO_ABSENT),
    ("zmpop", Is(Rule::Named)),
    ("zmscore", By(rule::members)),
    ("zpopmax", EMPTY_ABSENT),
    ("zpopmin", EMPTY_ABSENT),
    ("zrandmember", EMPTY_ABSENT),
    ("zrange", EMPTY_ABSENT),
    ("zrangebylex", EMPTY_ABSENT),
    ("zrangebyscore", EMPTY_ABSENT),
    ("zrangestore", Is(Rule::Stores)),
    ("zrank", DONE),
    ("zrem", ZERO_ABSENT),
    ("zremrangebylex", ZERO_ABSENT),
    ("zremrangebyrank", ZERO_ABSENT),
    ("zremrangebyscore", ZERO_ABSENT),
    ("zrevrange", EMPTY_ABSENT),
    ("zrevrangebylex", EMPTY_ABSENT),
    ("zrevrangebyscore", EMPTY_ABSENT),
    ("zrevrank", DONE),
    ("zscan", Is(Rule::When(Sign::EmptyPage, Meaning::Absent))),
    ("zscore", DONE),
    ("zunion", EMPTY_ABSENT),
    ("zunionstore", Is(Rule::Stores)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Table;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    /// A command without a line here had a rule by chance: whatever it answered counted as done.
    #[test]
    fn every_command_that_touches_keys_has_its_rule() {
        let table = Table::builtin();
        let missing: Vec<_> = table
            .iter()
            .filter(|facts| facts.names_keys() && reading(&facts.name).is_none())
            .map(|facts| &facts.name)
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
