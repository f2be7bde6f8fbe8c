//! The templates: every command the store knows, how often it is drawn, and how replies are compared.

/// The way in which two replies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Byte for byte.
    Exactly,
    /// As sets.
    Unordered,
    /// As sets of pairs.
    Pairs,
    /// Integers that may differ by so much, because time passes.
    Near(i64),
    /// Kind and length only: what comes is drawn by chance.
    Shape,
    /// A cursor and a set.
    Scan,
    /// A cursor and a set of pairs.
    ScanPairs,
    /// Not at all but for errors: a scan that begins in the middle.
    Loosely,
}

use How::{Exactly, Near, Pairs, Scan, ScanPairs, Shape, Unordered};

pub type Template = (u32, How, &'static str);

pub const STRINGS: &[Template] = &[
    (30, Exactly, "GET {s}"),
    (30, Exactly, "SET {s} {v}"),
    (
        20,
        Exactly,
        "SET {s} {v} ?NX|XX ?GET ?EX+{seconds}|PX+{milliseconds}|EXAT+{at}|PXAT+{atms}|KEEPTTL",
    ),
    (3, Exactly, "SET {s} {v} EX|PX|EXAT|PXAT {wrongtime}"),
    (
        3,
        Exactly,
        "SET {s} {v} ?NX ?XX ?GET ?KEEPTTL ?EX+{seconds} ?PX+{milliseconds} ?PERSIST",
    ),
    (5, Exactly, "SETNX {s} {v}"),
    (5, Exactly, "SETEX {s} {seconds} {v}"),
    (5, Exactly, "PSETEX {s} {milliseconds} {v}"),
    (2, Exactly, "SETEX|PSETEX {s} {wrongtime} {v}"),
    (5, Exactly, "GETSET {s} {v}"),
    (5, Exactly, "GETDEL {s}"),
    (
        8,
        Exactly,
        "GETEX {s} ?EX+{seconds}|PX+{milliseconds}|EXAT+{at}|PXAT+{atms}|PERSIST",
    ),
    (3, Exactly, "GETEX {s} EXAT|PXAT|EX|PX {wrongtime}|1"),
    (8, Exactly, "MGET {k}*"),
    (8, Exactly, "MSET {s}+{v}*"),
    (5, Exactly, "MSETNX {s}+{v}*"),
    (12, Exactly, "APPEND {s} {v}"),
    (5, Exactly, "STRLEN {s}"),
    (10, Exactly, "INCR|DECR {s}"),
    (10, Exactly, "INCRBY|DECRBY {s} {i}"),
    (12, Exactly, "INCRBYFLOAT {s} {f}"),
    (10, Exactly, "GETRANGE|SUBSTR {s} {i} {i}"),
    (8, Exactly, "SETRANGE {s} {n}|{bit}|{i}|2040|33000 {v}"),
    (8, Exactly, "SETBIT {s} {bit}|{i}|20000|600000 0|1|2|x"),
    (5, Exactly, "GETBIT {s} {bit}|{i}|20000"),
    (
        8,
        Exactly,
        "BITCOUNT {s} ?{i}+{i}|{i}+{i}+BIT|{i}+{i}+BYTE|{i}|{n}+{bit}+BIT",
    ),
];

pub const KEYS: &[Template] = &[
    (10, Exactly, "DEL|UNLINK {k}*"),
    (5, Exactly, "EXISTS|TOUCH {k}*"),
    (8, Exactly, "TYPE {k}"),
    (3, Unordered, "KEYS {pattern}"),
    (
        4,
        Scan,
        "SCAN 0 COUNT 1000 ?MATCH+{pattern} ?TYPE+string|TYPE+zset|TYPE+HASH|TYPE+none",
    ),
    (2, Exactly, "SCAN x|1x|-|99999999999999999999"),
    (1, Exactly, "SCAN 0 COUNT 0|-1|x"),
    (6, Exactly, "RENAME|RENAMENX {k} {k}"),
    (6, Exactly, "COPY {k} {k} ?DB+{db} ?REPLACE"),
    (2, Shape, "RANDOMKEY"),
    (3, Exactly, "DBSIZE"),
    (8, Exactly, "EXPIRE {k} {seconds} ?NX|XX|GT|LT"),
    (8, Exactly, "PEXPIRE {k} {milliseconds} ?NX|XX|GT|LT"),
    (8, Exactly, "EXPIREAT {k} {at} ?NX|XX|GT|LT"),
    (8, Exactly, "PEXPIREAT {k} {atms} ?NX|XX|GT|LT"),
    (
        2,
        Exactly,
        "EXPIRE|PEXPIRE|EXPIREAT|PEXPIREAT {k} {past} ?NX|XX|GT|LT",
    ),
    (
        2,
        Exactly,
        "EXPIRE|PEXPIRE|EXPIREAT|PEXPIREAT {k} {seconds}|x|9223372036854775807|-9223372036854775807 NX|GT|LT|XX|YY NX|GT|LT|XX",
    ),
    (8, Near(60), "TTL|EXPIRETIME {k}"),
    (8, Near(60_000), "PTTL|PEXPIRETIME {k}"),
    (6, Exactly, "PERSIST {k}"),
    (8, Exactly, "OBJECT ENCODING {k}"),
    (1, Exactly, "OBJECT {m} {k}"),
];

pub const SERVER: &[Template] = &[
    (2, Exactly, "PING ?{v}"),
    (2, Exactly, "ECHO {v}"),
    (8, Exactly, "SELECT {db}"),
    (1, Exactly, "FLUSHDB ?SYNC|ASYNC|x"),
    (1, Exactly, "FLUSHALL ?SYNC|ASYNC|x"),
    (2, Exactly, "CLIENT SETNAME a|b|bad+name"),
    (2, Exactly, "CLIENT GETNAME"),
    (1, Exactly, "CLIENT NO-EVICT on|off|x"),
    (1, Exactly, "CLIENT SETINFO lib-name x"),
    (1, Exactly, "CLIENT|CONFIG|OBJECT"),
    (1, Exactly, "AUTH x"),
    (1, Exactly, "AUTH default|nobody x"),
    (1, Exactly, "HELLO 4|x|1"),
    (1, Exactly, "HELLO 2 {v}"),
    (2, Exactly, "NOSUCH|X {v}*"),
    (1, Exactly, "UNWATCH"),
    (1, Exactly, "EXEC|DISCARD"),
    (
        1,
        Pairs,
        "CONFIG GET databases|DATABASES|maxmemory|proto-max-bulk-len|nothing|maxmemory-p*",
    ),
];

pub const HASHES: &[Template] = &[
    (25, Exactly, "HSET {h} {field}+{v}*"),
    (5, Exactly, "HMSET {h} {field}+{v}*"),
    (5, Exactly, "HSETNX {h} {field} {v}"),
    (10, Exactly, "HGET {h} {field}"),
    (8, Exactly, "HMGET {h} {field}*"),
    (6, Pairs, "HGETALL {h}"),
    (4, Unordered, "HKEYS|HVALS {h}"),
    (12, Exactly, "HDEL {h} {field}*"),
    (4, Exactly, "HEXISTS|HSTRLEN {h} {field}"),
    (3, Exactly, "HLEN {h}"),
    (10, Exactly, "HINCRBY {h} {field} {i}"),
    (10, Exactly, "HINCRBYFLOAT {h} {field} {f}"),
    (
        3,
        Shape,
        "HRANDFIELD {h} ?{n}|-{n}|{n}+WITHVALUES|-{n}+WITHVALUES",
    ),
    (3, ScanPairs, "HSCAN {h} 0 COUNT 1000 ?MATCH+{pattern}"),
    (1, Exactly, "HSCAN {h} 0|x COUNT|MATCH|TYPE 0|x|string"),
];

pub const SETS: &[Template] = &[
    (25, Exactly, "SADD {e} {m}*"),
    (8, Exactly, "SADD {e} {i}*"),
    (10, Exactly, "SREM {e} {m}*"),
    (5, Unordered, "SMEMBERS {e}"),
    (5, Exactly, "SISMEMBER {e} {m}"),
    (4, Exactly, "SMISMEMBER {e} {m}*"),
    (3, Exactly, "SCARD {e}"),
    (5, Exactly, "SMOVE {e} {e} {m}"),
    (3, Shape, "SRANDMEMBER {e} ?{n}|-{n}"),
    (3, Shape, "SPOP none ?{n}"),
    (2, Unordered, "SPOP {e} 1000"),
    (5, Unordered, "SINTER|SUNION|SDIFF {e}*"),
    (5, Exactly, "SINTERSTORE|SUNIONSTORE|SDIFFSTORE {k} {e}*"),
    (4, Exactly, "SINTERCARD {n} {e}* ?LIMIT+{n}|LIMIT+-1"),
    (3, Scan, "SSCAN {e} 0 COUNT 1000 ?MATCH+{pattern}"),
];

pub const LISTS: &[Template] = &[
    (25, Exactly, "LPUSH|RPUSH {l} {m}*"),
    (4, Exactly, "LPUSHX|RPUSHX {l} {m}*"),
    (10, Exactly, "LPOP|RPOP {l} ?{n}|{i}"),
    (4, Exactly, "LLEN {l}"),
    (10, Exactly, "LRANGE {l} {i}|{n} {i}|-1"),
    (8, Exactly, "LINDEX {l} {i}|{n}"),
    (8, Exactly, "LSET {l} {i}|{n} {v}"),
    (10, Exactly, "LINSERT {l} BEFORE|AFTER|x {m} {m}"),
    (10, Exactly, "LREM {l} {i}|0|1|-1 {m}"),
    (6, Exactly, "LTRIM {l} {i}|0|1 {i}|-1|-2|10"),
    (8, Exactly, "LMOVE {l} {l} LEFT|RIGHT|left LEFT|RIGHT|x"),
    (5, Exactly, "RPOPLPUSH {l} {l}"),
    (
        10,
        Exactly,
        "LPOS {l} {m} ?RANK+{i}|RANK+-1|RANK+2|RANK+0 ?COUNT+{n}|COUNT+-1 ?MAXLEN+{n}|MAXLEN+-1",
    ),
];

pub const SORTED_SETS: &[Template] = &[
    (25, Exactly, "ZADD {z} {f}+{m}*"),
    (25, Exactly, "ZADD {z} {w}+{m}*"),
    (15, Exactly, "ZADD {z} ?NX|XX ?GT|LT ?CH ?INCR {w}+{m}*"),
    (8, Exactly, "ZADD {z} INCR ?NX|XX|GT|LT {f} {m}"),
    (15, Exactly, "ZADD {x} 0+{letter}*"),
    (8, Exactly, "ZINCRBY {z} {f} {m}"),
    (8, Exactly, "ZREM {z} {m}*"),
    (6, Exactly, "ZSCORE {z} {m}"),
    (4, Exactly, "ZMSCORE {z} {m}*"),
    (3, Exactly, "ZCARD {z}"),
    (5, Exactly, "ZCOUNT {z} {score} {score}"),
    (10, Exactly, "ZRANGE {z} {i} {i} ?REV ?WITHSCORES"),
    (
        10,
        Exactly,
        "ZRANGE {z} {score} {score} BYSCORE ?REV ?LIMIT+{n}+{n}|LIMIT+{i}+{i} ?WITHSCORES",
    ),
    (
        8,
        Exactly,
        "ZRANGE {x} {lex} {lex} BYLEX ?REV ?LIMIT+{n}+{n}",
    ),
    (
        3,
        Exactly,
        "ZRANGE {x} {lex}|{i}|{score} {lex}|{i}|{score} ?BYLEX ?BYSCORE ?REV ?LIMIT+{n}+{i} ?WITHSCORES",
    ),
    (
        5,
        Exactly,
        "ZRANGESTORE {x} {x} {lex} {lex} BYLEX ?REV ?LIMIT+{n}+{n}",
    ),
    (
        5,
        Exactly,
        "ZRANGESTORE {z} {z} {score} {score} BYSCORE ?REV ?LIMIT+{n}+{n} ?WITHSCORES",
    ),
    (5, Exactly, "ZRANGESTORE {k} {z} {i} {i} ?REV"),
    (
        6,
        Exactly,
        "ZRANGEBYSCORE|ZREVRANGEBYSCORE {z} {score} {score} ?WITHSCORES ?LIMIT+{n}+{i}",
    ),
    (5, Exactly, "ZREVRANGE {z} {i} {i} ?WITHSCORES"),
    (
        6,
        Exactly,
        "ZRANGEBYLEX|ZREVRANGEBYLEX {x} {lex} {lex} ?LIMIT+{n}+{i}",
    ),
    (4, Exactly, "ZLEXCOUNT {x} {lex} {lex}"),
    (8, Exactly, "ZRANK|ZREVRANK {z} {m}"),
    (5, Exactly, "ZPOPMIN|ZPOPMAX {z} ?{n}|{i}"),
    (3, Exactly, "ZREMRANGEBYRANK {z} {n}|{i} {n}|{i}"),
    (3, Exactly, "ZREMRANGEBYSCORE {z} {score} {score}"),
    (3, Exactly, "ZREMRANGEBYLEX {x} {lex} {lex}"),
    (
        5,
        Exactly,
        "ZUNIONSTORE|ZINTERSTORE {k} 1 {z} ?WEIGHTS+{w} ?AGGREGATE+MIN|AGGREGATE+MAX|AGGREGATE+SUM|AGGREGATE+x",
    ),
    (
        5,
        Exactly,
        "ZUNIONSTORE|ZINTERSTORE {z} 2 {z} {e}|{z} ?WEIGHTS+{w}+{w} ?AGGREGATE+MIN|AGGREGATE+MAX|AGGREGATE+SUM",
    ),
    (
        5,
        Exactly,
        "ZUNION|ZINTER|ZDIFF {n}|2 {z} {e}|{z} ?WITHSCORES ?WEIGHTS+{w}+{w}",
    ),
    (4, Exactly, "ZDIFFSTORE {k} {n}|2 {z} {e}|{z}"),
    (3, Exactly, "ZINTERCARD {n} {z}* ?LIMIT+{n}|LIMIT+-1"),
    (
        3,
        Shape,
        "ZRANDMEMBER {z} ?{n}|-{n}|{n}+WITHSCORES|-{n}+WITHSCORES",
    ),
    (3, ScanPairs, "ZSCAN {z} 0 COUNT 1000 ?MATCH+{pattern}"),
];

/// All families with how much of the whole each makes.
pub const FAMILIES: &[(u32, &[Template])] = &[
    (30, STRINGS),
    (25, KEYS),
    (5, SERVER),
    (20, HASHES),
    (20, SETS),
    (20, LISTS),
    (30, SORTED_SETS),
];
