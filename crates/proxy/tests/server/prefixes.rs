//! The kept beginning of a long text is never taken for the whole.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::collections::BTreeSet;
use std::sync::Arc;

use probity_policy::Policy;
use probity_proxy::ProxyConfig;

use crate::support::{Redis, Seen, command, config, start, talk};

/// Entries of what the words say to a server on which `setup` was done, under a policy that names subjects behind `data:`.
fn record(setup: &[&[&str]], lines: &[&[&str]]) -> (String, Vec<Seen>) {
    let redis = Redis::start(&[]);
    let policy = "version = 1\n[defaults]\npersonal = false\n[[key]]\npattern = 'data:*:{subject}'\npersonal = true\n[[key]]\npattern = 'user:*'\npersonal = true";
    let (proxy, address, recorder) = start(&ProxyConfig {
        policy: Arc::new(Policy::parse(policy).unwrap()),
        ..config(&redis)
    });
    let said =
        |lines: &[&[&str]]| -> Vec<u8> { lines.iter().flat_map(|line| command(line)).collect() };
    talk(redis.address(), &said(setup), usize::MAX);
    let heard = talk(address, &said(lines), usize::MAX);
    proxy.stop();
    (
        String::from_utf8_lossy(&heard).into_owned(),
        recorder.entries(),
    )
}

/// Returns the fate of each key, by the end of its name.
fn ends(entries: &[Seen]) -> Vec<String> {
    let end = |seen: &Seen| {
        let key = seen.key.rsplit(':').next().unwrap_or_default();
        format!("{} {key} {}", seen.action, seen.outcome.as_str())
    };
    entries.iter().map(end).collect()
}

/// Of a name in a reply the first 1,024 bytes were compared, and of one in a list any beginning: `BLPOP PRE:alice PRE:bob` with a long
/// PRE was recorded as a deletion of alice's key, which had never existed. All of a name is compared, by its digest where it is long.
#[test]
fn the_key_that_a_reply_names_is_told_from_all_others() {
    for length in [3, 1000, 1023, 1030, 70_000] {
        let key = |end: &str| format!("data:{}:{end}", "z".repeat(length));
        let (alice, bob, longer) = (&*key("alice"), &*key("bob"), &*key("bobby"));
        let setup: &[&[&str]] = &[
            &["RPUSH", bob, "1", "2", "3"],
            &["XADD", "s", "1-1", "f", "v"],
        ];
        let (heard, entries) = record(
            setup,
            &[
                &["BLPOP", alice, bob, longer, "1"],
                &["LMPOP", "3", longer, alice, bob, "LEFT"],
                &["RPOPLPUSH", bob, bob],
                &["LMPOP", "2", bob, longer, "RIGHT"],
            ],
        );
        assert!(heard.contains("$1\r\n1\r\n"), "{heard}");
        let told = ends(&entries);
        let short = |end: &str, action: &str, outcome: &str| {
            told.iter()
                .filter(|told| **told == format!("{action} {end} {outcome}"))
                .count()
        };
        if length < 70_000 {
            assert_eq!(short("alice", "delete", "absent"), 2, "{told:?}");
            assert_eq!(short("bobby", "delete", "absent"), 3, "{told:?}");
            assert_eq!(short("bob", "delete", "ok"), 4, "{told:?}");
        } else {
            let oks: Vec<_> = entries
                .iter()
                .filter(|seen| seen.action == "delete")
                .collect();
            let outcomes: Vec<_> = oks.iter().map(|seen| seen.outcome.as_str()).collect();
            assert_eq!(
                outcomes,
                [
                    "absent", "ok", "absent", "absent", "absent", "ok", "ok", "ok", "absent"
                ]
            );
        }
    }
}

/// Names of streams were compared with beginnings of keys, whatever their length, so that `XREAD STREAMS x xy` told of data in a stream
/// that was never there. In RESP3 the id of a message passed for the name of a stream.
#[test]
fn a_stream_is_not_taken_for_one_with_a_longer_name() {
    for version in ["2", "3"] {
        let (_, entries) = record(
            &[&["XADD", "user:x", "7-7", "user:m", "v"]],
            &[
                &["HELLO", version],
                &["XREAD", "STREAMS", "user:x", "7-7"],
                &["XREAD", "STREAMS", "user:x", "user:xy", "0", "0"],
                &[
                    "XREAD", "COUNT", "1", "STREAMS", "user:xy", "user:x", "user:m", "0", "0", "0",
                ],
            ],
        );
        assert_eq!(
            ends(&entries),
            [
                "read x absent",
                "read x ok",
                "read xy absent",
                "read xy absent",
                "read x ok",
                "read m absent"
            ]
        );
    }
}

/// The entries of a long reply are made from its beginning, and keys of which only its end told were recorded as absent although their
/// data went to the client. Where the beginning does not tell, a key counts as read.
#[test]
fn what_the_beginning_of_a_long_reply_does_not_tell_counts_as_done() {
    let long = "v".repeat(400 << 10);
    let fields: Vec<String> = (0..80_000).map(|number| number.to_string()).collect();
    let mut wanted: Vec<&str> = vec!["HMGET", "user:h"];
    wanted.extend(fields.iter().map(String::as_str));
    let (_, entries) = record(
        &[
            &["XADD", "user:a", "1-1", "f", &long],
            &["XADD", "user:b", "1-1", "f", "v"],
            &["HSET", "user:h", "79999", "v"],
        ],
        &[&["XREAD", "STREAMS", "user:a", "user:b", "0", "0"], &wanted],
    );
    assert_eq!(ends(&entries), ["read a ok", "read b ok", "read h ok"]);
    let is_cut = entries
        .iter()
        .map(|it| it.payload.contains("\"reply\":\"cut\""));
    assert_eq!(is_cut.collect::<Vec<_>>(), [false, true, true]);
}

/// A script's reply of 8 MB that begins like the confirmation of the `UNSUBSCRIBE` behind it was taken for that confirmation at its end,
/// and every outcome after it was that of the command before: a refused login was recorded as done. The class of a long value is decided
/// once. The reply of `LRANGE` before a pipelined `SUBSCRIBE` ended an honest connection.
#[test]
fn a_long_reply_is_no_confirmation_of_the_next_command() {
    for length in ["300000", "8000000"] {
        let script = format!("return {{'unsubscribe','ch',0,string.rep('x',{length})}}");
        let (_, entries) = record(
            &[&["SET", "user:secret", "v"], &["SET", "user:victim", "v"]],
            &[
                &["EVAL", &script, "0"],
                &["UNSUBSCRIBE", "ch"],
                &["GET", "user:none"],
                &["GET", "user:secret"],
                &["GET", "user:none2"],
                &["DEL", "user:victim"],
                &["AUTH", "admin", "wrong"],
                &["SETNX", "user:new", "1"],
                &["SETNX", "user:new", "2"],
            ],
        );
        assert_eq!(
            ends(&entries)[1..],
            [
                "read none absent",
                "read secret ok",
                "read none2 absent",
                "delete victim ok",
                "authenticate  denied",
                "create new ok",
                "update new failed",
            ],
            "{length}"
        );
        let last = entries.last().unwrap();
        assert_eq!((&*last.actor, &*last.submitter), ("default", ""));
    }
    let long = "v".repeat(400 << 10);
    let (heard, entries) = record(
        &[&["RPUSH", "user:list", "subscribe", &long, "1"]],
        &[
            &["LRANGE", "user:list", "0", "-1"],
            &["SUBSCRIBE", "news"],
            &["UNSUBSCRIBE", "news"],
            &["GET", "user:list"],
        ],
    );
    assert!(heard.contains("WRONGTYPE"), "{}", heard.len());
    assert_eq!(
        ends(&entries),
        ["read list ok", "subscribe news ok", "read list failed"]
    );
}

/// The number at the end of a confirmation counts, however long the name of the channel is.
#[test]
fn the_longest_channels_are_confirmed() {
    for length in [262_000, 262_112, 262_113, 262_114] {
        let name = "c".repeat(length);
        let (_, entries) = record(
            &[],
            &[
                &["SUBSCRIBE", &name],
                &["UNSUBSCRIBE", &name],
                &["GET", "user:1"],
            ],
        );
        let actions: Vec<_> = entries.iter().map(|it| &*it.action).collect();
        assert_eq!(actions, ["subscribe", "read"], "{length}");
    }
}

/// A star was looked for in the first 1,024 bytes of a pattern of SORT above 64 KiB, and a personal key was read without an entry. What
/// is not kept whole counts as having one.
#[test]
fn the_star_of_a_long_pattern_of_sort_is_not_missed() {
    for length in [500, 1500, 70_000] {
        let prefix = format!("user:{}", "z".repeat(length));
        let (pattern, key) = (&*format!("{prefix}*"), &*format!("{prefix}1"));
        let (heard, entries) = record(
            &[&["SET", key, "secret"], &["RPUSH", "l", "1"]],
            &[
                &["SORT", "l", "BY", "nosort", "GET", pattern],
                &["SORT_RO", "l", "BY", pattern],
                &["SORT_RO", "l", "BY", "nosort", "GET", pattern],
            ],
        );
        assert_eq!(heard.matches("secret").count(), 2);
        let reads = entries.iter().filter(|seen| seen.action == "read").count();
        assert_eq!(reads, 3, "{:?}", ends(&entries));
    }
}

/// A user name longer than 1,024 bytes that the server told after a refused HELLO was recorded under the digest of its beginning, which
/// is another name than AUTH gives. All of it counts.
#[test]
fn a_long_user_has_one_name_whoever_tells_it() {
    let user = &*"u".repeat(1500);
    let acl: &[&str] = &["ACL", "SETUSER", user, "on", ">p", "~*", "+@all"];
    let (_, entries) = record(
        &[acl],
        &[
            &["HELLO", "3", "AUTH", user, "p", "SETNAME", "a b"],
            &["GET", "user:1"],
            &["AUTH", user, "p"],
            &["GET", "user:2"],
        ],
    );
    let gets: Vec<_> = entries
        .iter()
        .filter(|seen| seen.action == "read")
        .collect();
    assert_eq!(gets.len(), 2);
    assert!(gets[0].actor.starts_with("sha256:"));
    assert_eq!(gets[0].actor, gets[1].actor);
    assert_eq!(gets[0].submitter, gets[1].submitter);
}

/// A user could have the digest of a long name as its name, and both were one in entries.
#[test]
fn no_user_is_named_as_the_digest_of_another() {
    let long = "u".repeat(300);
    let digest = crate::touched::sha256(long.as_bytes());
    let alike = format!("sha256:{digest}");
    let [first, second] =
        [&*long, &*alike].map(|user| ["ACL", "SETUSER", user, "on", ">p", "~*", "+@all"]);
    let (_, entries) = record(
        &[&first, &second],
        &[
            &["AUTH", &long, "p"],
            &["GET", "user:1"],
            &["HELLO", "3", "AUTH", &alike, "p"],
            &["GET", "user:2"],
        ],
    );
    let actors = |key: &str| {
        let found = entries.iter().find(|seen| seen.key == key).unwrap();
        (found.actor.clone(), found.submitter.clone())
    };
    let escaped = format!("sha256%3A{digest}");
    assert_eq!(actors("user:1"), (alike.clone(), alike));
    assert_eq!(actors("user:2"), (escaped.clone(), escaped));
}

/// Of a word that nobody knows after the name of a container the first 64 bytes were recorded as all of it. A long one stands as its digest.
#[test]
fn a_long_subcommand_is_not_recorded_by_its_beginning_alone() {
    let long = |length: usize, end: &str| format!("{}{end}", "s".repeat(length));
    let words = [
        long(1100, "a"),
        long(1100, "b"),
        long(70_000, "a"),
        long(70_000, "b"),
    ];
    let lines: Vec<[&str; 2]> = words.iter().map(|word| ["OBJECT", word]).collect();
    let lines: Vec<&[&str]> = lines.iter().map(<[&str; 2]>::as_slice).collect();
    let (_, entries) = record(&[], &lines);
    let told: BTreeSet<_> = entries.iter().map(|seen| &seen.payload).collect();
    assert_eq!(told.len(), 4);
    assert!(
        told.iter()
            .all(|told| told.contains("\"subcommand\":\"sha256:"))
    );
}

/// The destination was looked for among at most 1,024 keys, so that a longer command moved personal data to a key that no entry named.
/// It is found among any number.
#[test]
fn the_destination_of_any_number_of_keys_is_named() {
    let mut words = vec!["SUNIONSTORE", "tmp:b", "user:bob"];
    words.extend(std::iter::repeat_n("tmp:n", 1100));
    let (_, entries) = record(&[&["SADD", "user:bob", "1"]], &[&words]);
    assert_eq!(ends(&entries), ["read bob ok"]);
    assert!(entries[0].payload.contains("\"to\":\"tmp:b\""));
}
