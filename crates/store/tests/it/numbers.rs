//! Numbers and ranges far beyond what is stored, of what is nobody's and of what is sealed for a subject.

use std::collections::BTreeMap;
use std::path::Path;

use probity_store::SubjectOf;

use crate::place::{BOUND, Place, VALUE};

/// The greatest and the least number of a command.
const MOST: &str = "9223372036854775807";
const LEAST: &str = "-9223372036854775808";

/// A store whose values are nobody's and one whose values are sealed for a subject, each with a few of every kind.
fn nobodys_and_a_subjects(folder: &Path) -> [Place; 2] {
    let somebody = SubjectOf::new(|_key| Some(b"7".to_vec()));
    let mut places = [("nobody", SubjectOf::default()), ("somebody", somebody)]
        .map(|(name, subject_of)| Place::open(&folder.join(name), subject_of));
    for place in &mut places {
        for words in [
            "SET s abc",
            "RPUSH l a b c",
            "SADD set a b c",
            "HSET h a 1 b 2 c 3",
            "ZADD z 1 a 1 b 1 c",
            "SET sparse x",
        ] {
            assert!(!place.says(words).starts_with(b"-"), "{words}");
        }
    }
    places
}

/// Counts and ranges beyond every number that is meant: of what belongs to nobody, and of what is sealed for a subject.
#[test]
fn no_count_and_no_range_reaches_beyond_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for mut place in nobodys_and_a_subjects(folder.path()) {
        let all = [
            (format!("GETRANGE s {LEAST} {MOST}"), "$3\r\nabc\r\n"),
            (format!("GETRANGE s {MOST} {LEAST}"), "$0\r\n\r\n"),
            (
                format!("LRANGE l {LEAST} {MOST}"),
                "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
            ),
            (format!("LRANGE l {MOST} {LEAST}"), "*0\r\n"),
            (format!("LINDEX l {LEAST}"), "$-1\r\n"),
            (
                format!("ZRANGE z {LEAST} {MOST}"),
                "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
            ),
            (
                format!("ZREVRANGE z {LEAST} {MOST}"),
                "*3\r\n$1\r\nc\r\n$1\r\nb\r\n$1\r\na\r\n",
            ),
            (
                format!("ZRANGEBYSCORE z -inf +inf LIMIT {MOST} {MOST}"),
                "*0\r\n",
            ),
            (
                format!("ZRANGEBYSCORE z -inf +inf LIMIT {LEAST} {MOST}"),
                "*0\r\n",
            ),
            (
                format!("ZRANGEBYLEX z (a + LIMIT 1 {MOST}"),
                "*1\r\n$1\r\nc\r\n",
            ),
            (
                format!("ZREVRANGEBYLEX z (c [a LIMIT 0 {MOST}"),
                "*2\r\n$1\r\nb\r\n$1\r\na\r\n",
            ),
            ("ZLEXCOUNT z [b +".to_owned(), ":2\r\n"),
            ("ZRANK z c".to_owned(), ":2\r\n"),
            (format!("LPOS l c COUNT 0 MAXLEN {MOST}"), "*1\r\n:2\r\n"),
            (
                format!("SETRANGE sparse {MOST} x"),
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
            ),
            (
                "SETRANGE sparse 536870912 x".to_owned(),
                "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n",
            ),
            (
                "SETBIT sparse 4294967296 1".to_owned(),
                "-ERR bit offset is not an integer or out of range\r\n",
            ),
            ("LREM l 2147483648 a".to_owned(), ":1\r\n"),
            (
                "LPOP l 2147483648".to_owned(),
                "*2\r\n$1\r\nb\r\n$1\r\nc\r\n",
            ),
            (
                "SINTERCARD 2147483648 set".to_owned(),
                "-ERR Number of keys can't be greater than number of args\r\n",
            ),
            (
                "ZPOPMIN z 2147483648".to_owned(),
                "*6\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n1\r\n$1\r\nc\r\n$1\r\n1\r\n",
            ),
        ];
        for (words, expected) in all {
            let reply = String::from_utf8(place.says(&words)).unwrap();
            assert_eq!(reply, expected, "{words}");
        }
    }
}

#[test]
fn no_number_of_draws_reaches_beyond_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for mut place in nobodys_and_a_subjects(folder.path()) {
        for words in [
            format!("SRANDMEMBER set {LEAST}"),
            format!("HRANDFIELD h {LEAST} WITHVALUES"),
            "SRANDMEMBER set -2147483648".to_owned(),
            "HRANDFIELD h -2147483648 WITHVALUES".to_owned(),
            format!("HRANDFIELD h {MOST} WITHVALUES"),
            format!("ZRANDMEMBER z {MOST} WITHSCORES"),
            "SPOP set -1".to_owned(),
        ] {
            let reply = place.says(&words);
            assert!(reply.starts_with(b"-ERR") && reply.len() < 200, "{words}");
        }
        let scanned = place.says(&format!("SSCAN set 0 COUNT {MOST}"));
        assert!(scanned.starts_with(b"*2\r\n$1\r\n0\r\n*3\r\n"));
        assert_eq!(place.says("SPOP set 2147483648").len(), 4 + 3 * 7);
        // A transaction within a transaction is refused, and the outer one is not carried out.
        let nested: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"INCR", b"n"], &[b"MULTI"], &[b"EXEC"]];
        let reply = String::from_utf8(place.ask(&nested)).unwrap();
        assert!(reply.starts_with("+OK\r\n+QUEUED\r\n-ERR MULTI calls can not be nested\r\n"));
    }
}

/// A draw that may repeat looked into the file for each: a million of them held the store for seconds.
#[test]
fn a_draw_that_may_repeat_takes_every_element_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    for mut place in nobodys_and_a_subjects(folder.path()) {
        let reply = String::from_utf8(place.says("SRANDMEMBER set -200000")).unwrap();
        let (count, drawn) = reply.split_once("\r\n").unwrap();
        assert_eq!(count, "*200000");
        let drawn: Vec<&str> = drawn.split("\r\n").skip(1).step_by(2).collect();
        let mut times = BTreeMap::new();
        for (member, next) in drawn.iter().zip(drawn.iter().skip(1)) {
            *times.entry((*member, *next)).or_insert(0) += 1;
        }
        // Each of nine pairs has a ninth of them.
        assert_eq!(times.len(), 9, "{times:?}");
        assert!(
            times.values().all(|it| (20_000..24_500).contains(it)),
            "{times:?}"
        );
    }
}

/// Many members of one score are read together where they are sealed, and so they have a bound.
#[test]
fn sealed_members_of_one_score_are_bounded_like_a_reply() {
    let folder = tempfile::tempdir().unwrap();
    let somebody = SubjectOf::new(|_key| Some(b"7".to_vec()));
    let mut place = Place::open(&folder.path().join("data"), somebody);
    for number in 0..70_u8 {
        let mut member = vec![b'x'; VALUE];
        member.push(number);
        let reply = place.ask(&[&[b"ZADD", b"z", b"1", &member]]);
        assert_eq!(reply, b":1\r\n");
    }
    let reply = String::from_utf8(place.says("ZRANGE z 0 0")).unwrap();
    assert!(
        reply.starts_with("-ERR the command gathers more than"),
        "{reply:.80}"
    );
    const { assert!(70 * VALUE > 8 * BOUND, "more than the store reads at once") };
    assert_eq!(place.says("ZCARD z"), b":70\r\n");
}
