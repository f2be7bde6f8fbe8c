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
