//! Clients take turns: nobody waits for all that another one has said, and a stop waits for nothing that has not begun.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and measures time"
)]

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use probity_store::{Answer, Client, Command, Commands, Options, Store, SubjectOf, Unanswered};

use crate::place::{Place, VALUE};

/// Members of the set that is counted.
const MEMBERS: usize = 20_000;
/// The number of clients that wait beside.
const CLIENTS: usize = 100;

type Answers = Receiver<Result<Answer, Unanswered>>;

/// Hands over the same command several times, and waits for nothing.
fn say(store: &Store, client: Client, words: &str, times: usize) -> Answers {
    let mut commands = Commands::default();
    for _ in 0..times {
        let mut command = Command::default();
        words
            .split(' ')
            .for_each(|word| command.push(word.as_bytes()));
        commands.push(command);
    }
    let (sender, receiver) = channel();
    store.ask(client, commands, move |answer| drop(sender.send(answer)));
    receiver
}

/// A store with a sorted set that takes long to count.
fn counted(path: &std::path::Path) -> Store {
    let store = Store::open(path, Options::default()).unwrap();
    let members: Vec<String> = (0..MEMBERS).map(|it| format!(" 1 {it}")).collect();
    let words = format!("ZADD z{}", members.concat());
    let said = say(&store, store.client(), &words, 1).recv().unwrap();
    assert_eq!(said.unwrap().bytes, format!(":{MEMBERS}\r\n").as_bytes());
    store
}

/// 52 KB of commands from one client, gone since, stopped the store for an hour, for they were carried out one behind the
/// other whatever else waited, and so did a stop wait for them. A turn ends after some milliseconds, and a stop goes first.
#[test]
fn nobody_waits_for_all_that_another_client_has_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = counted(&folder.path().join("data"));
    let long = say(&store, store.client(), "ZCOUNT z 0 2", 2000);
    let short = say(&store, store.client(), "PING", 1);
    assert_eq!(short.recv().unwrap().unwrap().bytes, b"+PONG\r\n");
    let answer = long.recv().unwrap().unwrap();
    assert!(answer.bytes.starts_with(b":20000\r\n"));
    assert!(answer.rest.len() > 1900, "{}", answer.rest.len());
    // The rest goes on where it stopped.
    let again = say(&store, answer.client, "ZCARD z", 2).recv().unwrap();
    assert_eq!(again.unwrap().bytes, b":20000\r\n:20000\r\n");
    let waiting: Vec<Answers> = (0..CLIENTS)
        .map(|_| say(&store, store.client(), "ZCOUNT z 0 2", 50))
        .collect();
    store.close().unwrap();
    let answers = waiting.iter().map(|it| it.recv().unwrap());
    let unanswered = answers.filter(Result::is_err).count();
    assert!(unanswered > 0, "all of them had their turn first");
}

/// Under `always`, what was changed waited for all requests that came meanwhile, 1,024 of them, before it was made durable and
/// answered. It waits for some milliseconds of them.
#[test]
fn a_change_waits_for_a_bounded_time_of_other_requests() {
    let folder = tempfile::tempdir().unwrap();
    let store = counted(&folder.path().join("data"));
    let change = say(&store, store.client(), "SET a 1", 1);
    let waiting: Vec<Answers> = (0..CLIENTS)
        .map(|_| say(&store, store.client(), "ZCOUNT z 0 2", 50))
        .collect();
    assert_eq!(change.recv().unwrap().unwrap().bytes, b"+OK\r\n");
    let last = waiting.last().unwrap();
    assert!(last.try_recv().is_err(), "the others had their turn first");
    store.close().unwrap();
}

/// To count the bits of a long string all of it was built, and each byte looked at, also where it was all zeros that take no
/// room on the disk; `INCR` of it did the same. Only what is there is read, and nothing of what is too long to be a number.
#[test]
fn a_string_of_holes_takes_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::open(&folder.path().join("data"), SubjectOf::default());
    assert_eq!(place.says("SETRANGE s 536870910 a"), b":536870911\r\n");
    let begun = Instant::now();
    for _ in 0..50 {
        assert_eq!(place.says("BITCOUNT s"), b":3\r\n");
        assert_eq!(place.says("BITCOUNT s 1 -1 BIT"), b":3\r\n");
        // A range that ends before it begins is empty before the unit is looked at.
        assert_eq!(place.says("BITCOUNT s -1 -5 x"), b":0\r\n");
        assert_eq!(place.says("BITCOUNT s -5 -1 x"), b"-ERR syntax error\r\n");
        assert!(
            place
                .says("INCR s")
                .starts_with(b"-ERR value is not an integer")
        );
        assert!(
            place
                .says("INCRBYFLOAT s 1")
                .starts_with(b"-ERR value is not a valid float")
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// The ones of any range of a string in chunks are those of its bytes.
#[test]
fn bits_are_counted_over_the_edges_of_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::open(&folder.path().join("data"), SubjectOf::default());
    let bytes: Vec<u8> = (0..100_000_u32)
        .map(|it| it.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let far = VALUE.to_string();
    place.ask(&[
        &[b"SET", b"s", &bytes],
        &[b"SETRANGE", b"s", far.as_bytes(), b"\xff"],
    ]);
    let bit = |at: usize| {
        bytes
            .get(at / 8)
            .is_some_and(|it| it >> (7 - at % 8) & 1 == 1)
    };
    for (start, end) in [
        (0, 799_999),
        (5, 258_050),
        (258_047, 258_049),
        (799_990, 810_000),
        (3, 4),
        (9, 9),
    ] {
        let ones = (start..=end).filter(|at| bit(*at)).count();
        let words = format!("BITCOUNT s {start} {end} BIT");
        assert_eq!(
            place.says(&words),
            format!(":{ones}\r\n").as_bytes(),
            "{words}"
        );
        let ones = (start / 8 * 8..end / 8 * 8 + 8)
            .filter(|at| bit(*at))
            .count();
        let words = format!("BITCOUNT s {} {}", start / 8, end / 8);
        assert_eq!(
            place.says(&words),
            format!(":{ones}\r\n").as_bytes(),
            "{words}"
        );
    }
    assert_eq!(place.says("BITCOUNT s 150000 -1"), b":8\r\n");
}
