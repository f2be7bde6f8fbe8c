//! WATCH: what a client does makes a transaction fail on both sides, or on neither.

use super::commands::How;
use super::sides::{Sides, words};
use super::template::Random;
use super::{asked, drawn, seed};
use crate::embedded::Embedded;
use crate::support::Redis;

/// Transactions in the gate; `PROBITY_STORE_TRANSACTIONS` asks for another number.
const TRANSACTIONS: u64 = 1500;
const KEYS: [&str; 11] = [
    "s0", "s1", "h0", "h1", "e0", "e1", "z0", "z1", "l0", "l1", "n0",
];

#[test]
fn transactions_fail_when_what_they_watch_was_touched() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let seed = seed();
    let mut random = Random::new(seed);
    let mut watcher = Sides::new(redis.address(), embedded.address, seed);
    let mut other = Sides::new(redis.address(), embedded.address, seed);
    for _ in 0..asked("PROBITY_STORE_TRANSACTIONS").unwrap_or(TRANSACTIONS) {
        let watch = format!("WATCH {}", random.pick(&KEYS));
        watcher.compare(&[(How::Exactly, words(&watch))]);
        // Some commands change nothing although they could, and must not count.
        for _ in 0..random.below(3) {
            let (how, command) = drawn(&mut random);
            if command[0].eq_ignore_ascii_case(b"multi") {
                continue;
            }
            if random.one_in(4) {
                watcher.compare(&[(how, command)]);
            } else {
                other.compare(&[(how, command.clone())]);
                watcher.said.push(command);
            }
        }
        let transaction = ["MULTI", "PING", "EXEC"].map(|text| (How::Exactly, words(text)));
        watcher.compare(&transaction);
    }
}

/// A SETBIT of the bit that was there made the transactions of those who watched the key fail, which Redis does not. What it leaves
/// as it was it touches for nobody, and what it makes longer it does.
#[test]
fn a_bit_that_is_there_already_touches_nobody() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let mut watcher = Sides::new(redis.address(), embedded.address, 0);
    let mut other = Sides::new(redis.address(), embedded.address, 0);
    for (setup, offset, bit) in [
        ("SET s abc", 0, 0),
        ("SET s abc", 0, 1),
        ("SET s 7", 7, 1),
        ("SETBIT s 600000 1", 600_000, 1),
        ("SETBIT s 600000 1", 600_000, 0),
        ("SET s abc", 30, 0),
        ("DEL s", 0, 0),
        ("SET s abc PX 100000", 0, 0),
    ] {
        watcher.compare(&["DEL s", setup, "WATCH s"].map(|text| (How::Exactly, words(text))));
        let touch = format!("SETBIT s {offset} {bit}");
        other.compare(&[(How::Exactly, words(&touch))]);
        watcher.said.push(words(&touch));
        let rest = ["MULTI", "PING", "EXEC", "OBJECT ENCODING s", "STRLEN s"];
        watcher.compare(&rest.map(|text| (How::Exactly, words(text))));
    }
}
