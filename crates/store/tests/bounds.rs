//! No command makes the process gather more in memory than the bound of a reply and one value.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[path = "it/place/mod.rs"]
mod place;

use std::fs;
use std::sync::mpsc::channel;

use probity_store::{Client, Command, Commands, Options, Store, SubjectOf};

use place::{BOUND, Place, VALUE};

/// Memory that the process may take beyond the bound: a growing reply, one gathered beside it, and
/// pages of the file.
const MEMORY_BYTES_MAX: usize = 12 * BOUND;

/// Expects that a command is refused because of the bound.
fn refused(place: &mut Place, words: &str) {
    let reply = place.says(words);
    let shown = String::from_utf8_lossy(reply.get(..reply.len().min(80)).unwrap()).into_owned();
    assert!(shown.starts_with("-ERR"), "{words}: {shown}");
    assert!(
        shown.contains("8388608 bytes, ask for less"),
        "{words}: {shown}"
    );
}

/// The most memory that the process ever had, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<usize>().unwrap() * 1024
}

/// S19: `MULTI`, forty times `GET` of 8 MB, `EXEC`, or `MGET` of it forty times, made 400 MB; `SRANDMEMBER set -200` with a
/// member of 1 MB made 320 MB. Now a reply ends at its bound, and what cannot be answered is not done.
#[test]
fn a_reply_is_bounded_in_bytes_and_so_is_the_memory_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::open(&folder.path().join("data"), SubjectOf::default());
    let long = vec![b'x'; VALUE];
    place.ask(&[&[b"SET", b"s", &long]]);
    for number in 0..20_u8 {
        let mut member = long.clone();
        member.push(number);
        place.ask(&[
            &[b"RPUSH", b"l", &long],
            &[b"SADD", b"set", &member],
            &[b"HSET", b"h", &[number], &long],
            &[b"ZADD", b"z", b"1", &member],
            &[b"SET", &member, b"v"],
        ]);
    }
    let before = peak();
    let many = " s".repeat(1000);
    refused(&mut place, &format!("MGET{many}"));
    refused(&mut place, "SRANDMEMBER set -1000000");
    refused(&mut place, "HRANDFIELD h -1000000 WITHVALUES");
    refused(&mut place, "ZRANDMEMBER z -1000000 WITHSCORES");
    for words in [
        "LRANGE l 0 -1",
        "SMEMBERS set",
        "HGETALL h",
        "HVALS h",
        "ZRANGE z 0 -1",
        "ZREVRANGE z 0 -1",
        "ZRANGEBYSCORE z 0 2",
        "SUNION set set",
        "SINTER set set",
        "SDIFF set none",
        "SUNIONSTORE other set",
        "ZUNION 1 z",
        "ZUNIONSTORE other 1 z",
        "SRANDMEMBER set 20",
        "KEYS *",
        "SCAN 0 COUNT 1000",
        "SSCAN set 0 COUNT 1000",
        "HSCAN h 0 COUNT 1000",
        "ZSCAN z 0 COUNT 1000",
        "LPOP l 20",
        "RPOP l 20",
        "SPOP set 20",
        "ZPOPMIN z 20",
    ] {
        refused(&mut place, words);
    }
    let used = peak() - before;
    assert!(used < MEMORY_BYTES_MAX, "{used} bytes");
    // Nothing was taken out by a command that could not answer it, and nothing was stored.
    assert_eq!(place.says("LLEN l"), b":20\r\n");
    assert_eq!(place.says("SCARD set"), b":20\r\n");
    assert_eq!(place.says("ZCARD z"), b":20\r\n");
    assert_eq!(place.says("EXISTS other"), b":0\r\n");
}

/// Replies within the bound are returned whole, and so is one value of any length.
#[test]
fn what_is_within_the_bound_is_returned_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::open(&folder.path().join("data"), SubjectOf::default());
    let long = vec![b'x'; VALUE];
    for _ in 0..10 {
        place.ask(&[&[b"RPUSH", b"l", &long]]);
    }
    assert!(place.says("LRANGE l 0 3").starts_with(b"*4\r\n$1048576"));
    assert_eq!(place.says("LRANGE l 0 3").len(), 4 + 4 * (VALUE + 12));
    assert_eq!(place.says("LPOP l 2").len(), 4 + 2 * (VALUE + 12));
    let huge = vec![b'y'; 3 * BOUND];
    place.ask(&[&[b"SET", b"huge", &huge]]);
    assert!(place.says("GET huge").len() > 3 * BOUND);
}

/// A command of a transaction behind the bound gets an error and is not carried out, so that nothing is done of which the
/// reply says that it was refused.
#[test]
fn a_transaction_beyond_the_bound_does_nothing_that_it_cannot_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::open(&folder.path().join("data"), SubjectOf::default());
    let long = vec![b'x'; VALUE];
    place.ask(&[&[b"SET", b"s", &long]]);
    let get: &[&[u8]] = &[b"GET", b"s"];
    let mut commands: Vec<&[&[u8]]> = vec![&[b"MULTI"], &[b"INCR", b"before"]];
    commands.extend(std::iter::repeat_n(get, 40));
    commands.push(&[b"INCR", b"behind"]);
    commands.push(&[b"EXEC"]);
    let reply = place.ask(&commands);
    assert!(reply.len() < BOUND + 2 * VALUE);
    let text = String::from_utf8(reply).unwrap();
    assert!(text.contains("*42\r\n:1\r\n$1048576"));
    assert_eq!(
        text.matches("\r\n-ERR the reply is longer than 8388608 bytes")
            .count(),
        33
    );
    assert_eq!(
        place.says("MGET before behind"),
        b"*2\r\n$1\r\n1\r\n$-1\r\n"
    );
}

/// Says the same command several times and gives all replies.
fn say(store: &Store, client: &mut Option<Client>, words: &str, times: usize) -> String {
    let mut commands = Commands::default();
    for _ in 0..times {
        let mut command = Command::default();
        words
            .split(' ')
            .for_each(|word| command.push(word.as_bytes()));
        commands.push(command);
    }
    let mut replies = Vec::new();
    while !commands.is_empty() {
        let (sender, receiver) = channel();
        store.ask(client.take().unwrap(), commands, move |answer| {
            drop(sender.send(answer));
        });
        let answer = receiver.recv().unwrap().unwrap();
        replies.extend(answer.bytes);
        (*client, commands) = (Some(answer.client), answer.rest);
    }
    String::from_utf8(replies).unwrap()
}

/// At the end of the memory of all clients, a command of a transaction was carried out, and its
/// client and the log were told that it was refused. It is refused before it begins.
#[test]
fn at_the_end_of_the_memory_nothing_is_done_that_is_called_refused() {
    for (change, get, most) in [
        ("INCR n", "GET n", 20_000),
        ("INCRBYFLOAT n 1", "GET n", 10_000),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(
            &folder.path().join("data"),
            Options {
                waiting_bytes_max: 16 << 20,
                ..Options::default()
            },
        );
        let store = store.unwrap();
        let mut client = Some(store.client());
        say(&store, &mut client, "MULTI", 1);
        say(&store, &mut client, change, most);
        let mut others = store.memory().share();
        let left = (0..16 << 20).rev().step_by(4096);
        assert!(left.into_iter().any(|bytes| others.hold(bytes).is_ok()));
        let replies = say(&store, &mut client, "EXEC", 1);
        drop(others);
        let refused = replies.matches("-ERR the transactions").count();
        assert!(
            (1..most).contains(&refused),
            "{change}: {refused} are refused"
        );
        let done = (most - refused).to_string();
        let there = say(&store, &mut client, get, 1);
        assert_eq!(there, format!("${}\r\n{done}\r\n", done.len()), "{change}");
    }
}
