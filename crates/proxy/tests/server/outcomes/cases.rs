//! Commands for each outcome: `commands => entries`, or only the command where the server's own word says enough.
//!
//! Before each, [`SETUP`] makes one key of every type, and of what comes before a `;` nothing is judged.

/// The state before each command.
pub(super) const SETUP: &str = "FLUSHALL\nSET s hello\nSET n 10\nSET t x EX 1000\nHSET h f 1 g 2\n\
    RPUSH l a b c\nSADD e a b c\nSADD e2 c d\nZADD z 1 a 2 b 3 c\nZADD z2 1 c 2 d\n\
    GEOADD g 13 38 P 15 37 C\nPFADD p a b\nXADD x 1-1 f v\nXADD x 2-1 f v\nXGROUP CREATE x gr 0\n\
    XREADGROUP GROUP gr c COUNT 1 STREAMS x >\nSET empty x\nSETRANGE empty 0 y";

pub(super) const STRINGS: &str = "
    SET s v => update s ok
    SET no v NX => create no ok
    SET s v NX => update s failed
    SET no v XX => update no absent
    SET s v XX => update s ok
    SET s v GET => update s ok
    SET no v GET => create no ok
    SET s v NX GET => read s ok
    SET no v XX GET => update no absent
    SET l v NX GET => update l failed
    SETNX s v => update s failed
    SETNX no v => create no ok
    MSETNX no v s v => update no failed, update s failed
    MSETNX no v no2 v => create no ok, create no2 ok
    MSET no v s v => update no ok, update s ok
    SETEX s 100 v
    PSETEX no 100000 v
    SETRANGE no 0  => update no absent
    SETRANGE s 0  => update s ok same
    SETRANGE s 2 xx => update s ok
    APPEND s x
    APPEND no x
    GETRANGE s 100 200 => read s absent
    GETRANGE no 0 9 => read no absent
    SUBSTR s 0 1 => read s ok
    GET s => read s ok
    GET no => read no absent
    GETDEL s => delete s ok
    GETDEL no => delete no absent
    GETSET no v => create no ok
    GETSET s v => update s ok
    GETEX s => read s ok
    GETEX s EX 100 => update s ok
    GETEX no EX 100 => update no absent
    GETEX s PERSIST => update s ok perhaps
    GETEX t PERSIST => update t ok perhaps
    GETEX s EXAT 1 => delete s ok
    GETEX s PXAT 1 => delete s ok
    GETEX s PXAT 99999999999999 => update s ok
    SET s v EXAT 1 => delete s ok perhaps
    SET s v GET PXAT 1 => delete s ok perhaps
    SET s v NX PXAT 1 => update s failed
    SET no v NX PXAT 1 => delete no ok perhaps
    SET s v PXAT 99999999999999 => update s ok
    SET no v NX PXAT 99999999999999 => create no ok
    MGET s no => read s ok, read no absent
    STRLEN s
    STRLEN no => look no absent
    INCR n
    DECR no
    INCRBY n 5
    DECRBY n 5
    INCRBYFLOAT n 1.5
    SETBIT s 1 1 => update s ok perhaps
    SETBIT s 1 0 => update s ok
    GETBIT s 1
    BITCOUNT s
    BITCOUNT no => read no absent
    BITPOS s 1
    BITFIELD s GET u8 0 => read s ok
    BITFIELD n SET u8 0 1 => update n ok perhaps
    BITFIELD s SET u8 0 104 => update s ok perhaps
    BITFIELD s INCRBY u8 0 0 => update s ok perhaps
    BITFIELD n OVERFLOW FAIL INCRBY u2 100 5 => update n failed perhaps
    BITFIELD_RO s GET u8 0
    BITOP AND no s no2 => update no ok, read s ok, read no2 ok
    BITOP AND s no no2 => delete s ok perhaps, read no absent, read no2 absent
    LCS s n
    LCS no no2 => read no absent, read no2 absent
    PFADD p a => update p ok same
    PFADD p new => update p ok
    PFADD no
    PFCOUNT p => read p ok
    PFCOUNT no => read no absent
    PFMERGE p no
    PFMERGE no
    PFDEBUG GETREG p
    STRALGO LCS KEYS s n
    ";

pub(super) const KEYS: &str = "
    DEL s no => delete s ok, delete no ok
    DEL no no2 => delete no absent, delete no2 absent
    UNLINK s => delete s ok
    EXISTS s no
    EXISTS no => look no absent
    TOUCH no => look no absent
    TYPE no => look no absent
    TYPE s
    DUMP s
    DUMP no => read no absent
    OBJECT ENCODING s
    OBJECT FREQ s
    OBJECT IDLETIME s
    OBJECT REFCOUNT no => look no absent
    MEMORY USAGE s
    MEMORY USAGE no => look no absent
    WATCH s
    TTL no => read no absent
    PTTL t => read t ok
    EXPIRETIME no => read no absent
    PEXPIRETIME t
    EXPIRE s 100 => update s ok
    EXPIRE no 100 => update no absent
    EXPIRE s -1 => delete s ok
    EXPIRE s 0 => delete s ok
    PEXPIRE s -5 => delete s ok
    EXPIREAT s 1 => delete s ok
    EXPIREAT s 99999999999 => update s ok
    PEXPIREAT s 1 => delete s ok
    PEXPIREAT no 1 => update no absent
    EXPIRE s 100 XX => update s failed
    EXPIRE t 100 NX => update t failed
    EXPIRE t 1 GT => update t failed
    EXPIRE t -1 GT => update t failed
    PERSIST t => update t ok
    PERSIST s => update s absent
    RENAME s no => delete s ok, update no ok
    RENAME no s => delete no failed, update s failed
    RENAME s s => delete s ok same, update s ok same
    RENAMENX s n => delete s failed, update n failed
    RENAMENX s no => delete s ok, create no ok
    RENAMENX s s => delete s failed, update s failed
    COPY s n => read s failed, update n failed
    COPY s no => read s ok, create no ok
    COPY s n REPLACE => read s ok, update n ok
    COPY no n REPLACE => read no failed, update n failed
    COPY s s DB 3 => read s ok, create db3/s ok
    MOVE s 4 => delete s ok, create db4/s ok
    MOVE no 4 => delete no failed, update db4/no failed
    SORT l ALPHA
    SORT no => read no absent
    SORT l ALPHA STORE no => read l ok, update no ok
    SORT l ALPHA STORE by STORE no => read l ok, update no ok
    SORT l ALPHA STORE limit STORE no => read l ok, update no ok
    SORT no ALPHA STORE s => read no absent, delete s ok perhaps
    SORT_RO no => read no absent
    RESTORE no 0 x => update no failed
    RESTORE-ASKING no 0 x => update no failed
    DEBUG OBJECT s => administer  ok, look s ok
    DEBUG SDSLEN s => administer  ok, look s ok
    DEBUG DIGEST-VALUE s no => administer  ok, look s ok, look no ok
    DEBUG LISTPACK h => administer  ok, look h ok
    DEBUG HTSTATS-KEY e => administer  ok, look e ok
    DEBUG OBJECT no => administer  failed, look no failed
    DEBUG POPULATE 1 q => administer  ok, update q:* ok
    KEYS nothing* => list nothing* absent
    KEYS * => list * ok
    SCAN 0 MATCH nothing COUNT 100 => list nothing absent
    DELIFEQ s other
    DELIFEQ s hello
    MSETEX 1 s v NX
    MSETEX 1 no v NX
    ";

pub(super) const HASHES: &str = "
    HSET h f 9
    HMSET h f 9 new 1
    HSETNX h f 9 => update h failed
    HSETNX h new 9 => update h ok
    HGET h f
    HGET h no => read h absent
    HMGET no f g => read no absent
    HMGET h f no => read h ok
    HGETALL no => read no absent
    HKEYS h
    HVALS h
    HLEN h
    HSTRLEN h no => look h absent
    HEXISTS h no => look h absent
    HDEL h no => delete h absent
    HDEL h f => delete h ok
    HINCRBY h f 1
    HINCRBYFLOAT h f 1.5
    HRANDFIELD no 2 => read no absent
    HSCAN h 0 => read h ok
    HSCAN no 0 => read no absent
    HEXPIRE h 100 FIELDS 1 f
    HEXPIRE h 100 FIELDS 1 no
    HEXPIRE h 100 XX FIELDS 1 f
    HEXPIRE h 0 FIELDS 1 f
    HPEXPIRE h 100000 FIELDS 2 f no
    HEXPIREAT h 1 FIELDS 1 f
    HPEXPIREAT h 99999999999999 FIELDS 1 f
    HPERSIST h FIELDS 1 f
    HTTL h FIELDS 1 f
    HPTTL no FIELDS 1 f
    HEXPIRETIME h FIELDS 1 no
    HPEXPIRETIME h FIELDS 1 f
    HGETEX h EX 100 FIELDS 1 f
    HGETEX h FIELDS 1 f
    HGETEX h FIELDS 1 no
    HGETEX h PERSIST FIELDS 1 f
    HGETEX h PERSIST FIELDS 1 no
    HGETDEL h FIELDS 1 f
    HGETDEL h FIELDS 1 no
    HSETEX h FXX FIELDS 1 no v
    HSETEX h FIELDS 1 f v
    ";

pub(super) const LISTS: &str = "
    LPUSH l x => update l ok
    LPUSH no x y => create no ok
    RPUSH no x => create no ok
    LPUSHX no x => update no absent
    RPUSHX l x => update l ok
    LPOP l => delete l ok
    LPOP l 0 => delete l absent
    LPOP no 2 => delete no absent
    RPOP no => delete no absent
    LMPOP 2 no l LEFT COUNT 2 => delete no absent, delete l ok
    LMPOP 1 no LEFT => delete no absent
    LMPOP 1 l LEFT COUNT 0 => delete l failed
    BLMPOP 0.01 1 no LEFT => delete no absent
    BLPOP no l 1 => delete no absent, delete l ok
    BLPOP no 0.01 => delete no absent
    BRPOP l 1 => delete l ok
    LMOVE l no LEFT LEFT => delete l ok, update no ok
    LMOVE no l LEFT LEFT => delete no absent, update l absent
    BLMOVE l l LEFT RIGHT 1
    RPOPLPUSH no l => delete no absent, update l absent
    BRPOPLPUSH l no 1
    LINDEX l 99 => read l absent
    LINSERT l BEFORE b x => update l ok
    LINSERT l BEFORE nowhere x => update l absent
    LINSERT no BEFORE b x => update no absent
    LLEN no => look no absent
    LPOS l b => read l ok
    LPOS l a => read l ok
    LPOS l nowhere => read l absent
    LRANGE l 9 10 => read l absent
    LREM l 0 nowhere => delete l absent
    LREM l 0 a => delete l ok
    LSET l 0 x
    LTRIM no 0 1 => delete no ok perhaps
    LTRIM l 1 1 => delete l ok perhaps
    ";

pub(super) const SETS: &str = "
    SADD e a => update e ok same
    SADD e a new => update e ok
    SADD no a => update no ok
    SCARD no => look no absent
    SISMEMBER e no => look e absent
    SMISMEMBER e no a => read e ok
    SMISMEMBER e no => read e absent
    SMEMBERS no => read no absent
    SMOVE e e2 a => delete e ok, update e2 ok perhaps
    SMOVE e e2 c => delete e ok, update e2 ok perhaps
    SMOVE e e2 nowhere => delete e absent, update e2 absent
    SMOVE e e a => delete e ok same, update e ok same
    SPOP e => delete e ok
    SPOP e 0 => delete e absent
    SPOP no => delete no absent
    SRANDMEMBER e
    SREM e nowhere => delete e absent
    SREM e a => delete e ok
    SSCAN e 0
    SDIFF e e2
    SINTER e e2
    SINTER e no => read e absent, read no absent
    SUNION e e2
    SINTERCARD 2 e e2
    SINTERCARD 2 e no => read e absent, read no absent
    SINTERSTORE e2 e no => delete e2 ok perhaps, read e absent, read no absent
    SINTERSTORE no e e2 => update no ok, read e ok, read e2 ok
    SUNIONSTORE no no2 => delete no ok perhaps, read no2 absent
    SDIFFSTORE e2 e e => delete e2 ok perhaps, read e absent, read e absent
    ";

pub(super) const SORTED_SETS: &str = "
    ZADD z 1 a => update z ok perhaps
    ZADD z 9 a => update z ok perhaps
    ZADD z CH 1 a => update z ok same
    ZADD z CH 9 a => update z ok
    ZADD z XX 9 nowhere => update z ok perhaps
    ZADD z XX 9 a => update z ok perhaps
    ZADD z XX CH 9 nowhere => update z failed
    ZADD z XX CH 9 a => update z ok
    ZADD z NX 9 a => update z failed
    ZADD z NX 9 new => update z ok
    ZADD z GT 0 a => update z ok perhaps
    ZADD z GT CH 0 a => update z failed
    ZADD z LT CH 0 a => update z ok
    ZADD z NX INCR 9 a => update z failed
    ZADD z INCR 9 a => update z ok
    ZADD z XX INCR 9 nowhere => update z failed
    ZINCRBY z 1 a => update z ok
    ZINCRBY z 0 a => update z ok same
    ZINCRBY z -0 a => update z ok same
    ZINCRBY z 0e9 new => update z ok perhaps
    ZINCRBY z 1e-300 a => update z ok perhaps
    ZINCRBY z 1e300 a => update z ok
    ZINCRBY z inf a => update z ok perhaps
    ZADD z INCR 0 a => update z ok same
    ZADD z CH INCR 0 new => update z ok perhaps
    ZADD z GT INCR 0 a => update z failed
    ZCARD z
    ZCOUNT z 5 9 => read z absent
    ZLEXCOUNT z - +
    ZRANGE z 0 -1
    ZRANGE no 0 -1 => read no absent
    ZRANGEBYLEX z - +
    ZRANGEBYSCORE z 9 9 => read z absent
    ZREVRANGE z 0 -1
    ZREVRANGEBYLEX z + -
    ZREVRANGEBYSCORE z 9 0
    ZRANGESTORE no z 5 9 => delete no ok perhaps, read z absent
    ZRANGESTORE no z 0 1 => update no ok, read z ok
    ZRANK z nowhere => read z absent
    ZREVRANK z a
    ZSCORE z nowhere => read z absent
    ZMSCORE z nowhere => read z absent
    ZRANDMEMBER z
    ZSCAN z 0
    ZREM z nowhere => delete z absent
    ZREM z a => delete z ok
    ZREMRANGEBYLEX z [x [y
    ZREMRANGEBYRANK z 9 10 => delete z absent
    ZREMRANGEBYSCORE z 1 1 => delete z ok
    ZPOPMIN z => delete z ok
    ZPOPMIN z 0 => delete z absent
    ZPOPMAX no => delete no absent
    ZMPOP 2 no z MIN => delete no absent, delete z ok
    BZMPOP 0.01 1 no MIN => delete no absent
    BZPOPMIN no z 1 => delete no absent, delete z ok
    BZPOPMAX no 0.01 => delete no absent
    ZDIFF 2 z z2
    ZINTER 2 z z2
    ZINTER 2 z no
    ZUNION 2 z z2
    ZINTERCARD 2 z no => read z absent, read no absent
    ZDIFFSTORE no 2 z z => delete no ok perhaps, read z absent, read z absent
    ZINTERSTORE z2 2 z no => delete z2 ok perhaps, read z absent, read no absent
    ZUNIONSTORE no 2 z z2 => update no ok, read z ok, read z2 ok
    GEOADD g 13 38 P => update g ok perhaps
    GEOADD g NX 1 1 P => update g failed
    GEOADD g CH 1 1 P => update g ok
    GEODIST g P nowhere => read g absent
    GEOHASH g nowhere => read g absent
    GEOPOS g P
    GEORADIUS g 15 37 200 km
    GEORADIUS g 0 0 1 m => read g absent
    GEORADIUS g 0 0 1 m STORE z => read g absent, delete z ok perhaps
    GEORADIUS g 15 37 200 km STORE no => read g ok, update no ok
    GEORADIUS_RO g 0 0 1 m
    GEORADIUSBYMEMBER g P 1 km STOREDIST no
    GEORADIUSBYMEMBER_RO g P 1 km
    GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1 m => read g absent
    GEOSEARCHSTORE z g FROMLONLAT 0 0 BYRADIUS 1 m => delete z ok perhaps, read g absent
    ";

pub(super) const STREAMS: &str = "
    XADD x * f v
    XADD no NOMKSTREAM * f v => update no absent
    XADD no * f v => update no ok
    XDEL x 9-9 => delete x absent
    XDEL x 1-1 => delete x ok
    XLEN no => look no absent
    XRANGE x 9 9 => read x absent
    XREVRANGE x + -
    XTRIM x MAXLEN 100 => delete x absent
    XTRIM x MAXLEN 1 => delete x ok
    XSETID x 9-9
    XREAD STREAMS x no 0 0 => read x ok, read no absent
    XREAD STREAMS x 9-9 => read x absent
    XREADGROUP GROUP gr c STREAMS x >
    XACK x gr 9-9 => update x absent
    XACK x gr 1-1 => update x ok
    XPENDING x gr => read x ok
    XPENDING x gr - + 10 nobody => read x absent
    XCLAIM x gr d 0 1-1 => update x ok
    XCLAIM x gr d 0 9-9 => update x absent perhaps
    XAUTOCLAIM x gr d 0 0 => update x ok
    XAUTOCLAIM x gr d 99999999 0 => update x absent perhaps
    XINFO STREAM x
    XINFO GROUPS x
    XINFO CONSUMERS x gr
    XGROUP CREATE x other 0
    XGROUP CREATE x gr 0 => update x failed
    XGROUP CREATE no gr 0 MKSTREAM => update no ok
    XGROUP CREATECONSUMER x gr new => update x ok
    XGROUP CREATECONSUMER x gr c => update x failed
    XGROUP DELCONSUMER x gr nobody => delete x ok perhaps
    XGROUP DELCONSUMER x gr c => delete x ok
    XGROUP DESTROY x nothing => delete x absent
    XGROUP DESTROY x gr => delete x ok
    XGROUP SETID x gr 0
    EVAL return(1) 1 s => run  ok, update s ok perhaps
    EVAL_RO return(1) 1 s => run  ok, read s ok
    EVALSHA x 1 s => run  failed, update s failed
    EVALSHA_RO x 1 s
    FCALL nothing 1 s
    FCALL_RO nothing 1 s
    MIGRATE 127.0.0.1 1 no 0 10 => delete no absent
    MIGRATE 127.0.0.1 1 no 0 10 COPY => read no absent
    ";
