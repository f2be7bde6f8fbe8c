//! Keys that expire while commands go on: at the same time on both sides, as far as clocks allow.

use super::commands::How;
use super::sides::{Sides, words};
use super::template::Random;
use super::{asked, seed};
use crate::embedded::Embedded;
use crate::support::{Redis, wait};

/// Rounds in the gate; `PROBITY_STORE_ROUNDS` asks for another number.
const ROUNDS: u64 = 12;
/// Longer than any lifetime given below, and both servers' rounding.
const WAIT_MILLISECONDS: u64 = 40;

const MAKE: [&str; 6] = [
    "SET s v",
    "HSET h f v",
    "SADD e a b",
    "ZADD z 1 a",
    "RPUSH l a b",
    "SETRANGE s 70000 end",
];
const LIMIT: [&str; 6] = [
    "PEXPIRE {} 1",
    "PEXPIRE {} 20",
    "GETEX {} PX 5",
    "SET {} new PX 7",
    "PSETEX {} 3 x",
    "PEXPIRE {} 15 LT",
];
const LOOK: [&str; 14] = [
    "EXISTS {}",
    "TYPE {}",
    "TTL {}",
    "GET {}",
    "APPEND {} x",
    "HSET {} g 1",
    "SADD {} c",
    "ZADD {} 2 b",
    "LPUSH {} x",
    "RENAME {} other",
    "PERSIST {}",
    "COPY {} other REPLACE",
    "SETNX {} fresh",
    "EXPIRE {} 1000 NX",
];

#[test]
fn keys_whose_time_has_come_are_gone_for_every_command() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let seed = seed();
    for round in 0..asked("PROBITY_STORE_ROUNDS").unwrap_or(ROUNDS) {
        let mut random = Random::new(seed + round);
        let mut sides = Sides::new(redis.address(), embedded.address, seed + round);
        let exactly = |text: &str| (How::Exactly, words(text));
        let mut batch = vec![exactly("FLUSHALL")];
        batch.extend(MAKE.map(exactly));
        for key in ["s", "h", "e", "z", "l"] {
            if !random.one_in(4) {
                batch.push(exactly(&random.pick(&LIMIT).replace("{}", key)));
            }
        }
        sides.compare(&batch);
        wait(WAIT_MILLISECONDS);
        let mut batch = Vec::new();
        for _ in 0..12 {
            let key = random.pick(&["s", "h", "e", "z", "l", "other"]);
            let text = random.pick(&LOOK).replace("{}", key);
            let how = if text.starts_with("TTL") {
                How::Near(2)
            } else {
                How::Exactly
            };
            batch.push((how, words(&text)));
        }
        batch.push((How::Unordered, words("KEYS *")));
        batch.push((How::Scan, words("SCAN 0 COUNT 1000")));
        // Looking at each key makes Redis forget those that it only hides.
        batch.push(exactly("EXISTS s h e z l other"));
        batch.push(exactly("DBSIZE"));
        sides.compare(&batch);
    }
}
