//! HELLO with its options in every order: which of them is refused, and what was done before.

use super::commands::How;
use super::sides::{Sides, words};
use super::template::Random;
use super::{PIPELINE, asked, seed};
use crate::embedded::Embedded;
use crate::support::Redis;

/// HELLOs in the gate; `PROBITY_STORE_COMMANDS` asks for another number.
const HELLOS: usize = 1_500;
const VERSIONS: [&str; 10] = ["2", "3", "2", "3", "1", "4", "x", "", "03", "2\r\n"];
const OPTIONS: [&[&str]; 13] = [
    &["AUTH", "default", "x"],
    &["auth", "default", ""],
    &["AUTH", "nobody", "x"],
    &["AUTH", "Default", "x"],
    &["AUTH", "default"],
    &["AUTH"],
    &["SETNAME", "ann"],
    &["setname", "bob"],
    &["SETNAME", "b d"],
    &["SETNAME", ""],
    &["SETNAME"],
    &["NOSUCH"],
    &["x\r\n"],
];

fn hello(random: &mut Random) -> Vec<Vec<u8>> {
    let mut words = vec!["HELLO"];
    if !random.one_in(30) {
        words.push(random.pick(&VERSIONS));
    }
    // The proxy lets one login pass.
    let mut has_login = false;
    for _ in 0..random.below(4) {
        let option = OPTIONS[random.below(OPTIONS.len())];
        let is_login = option[0].eq_ignore_ascii_case("auth");
        if words.len() > 1 && !(is_login && std::mem::replace(&mut has_login, true)) {
            words.extend(option);
        }
    }
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// The store looked at all options of HELLO before it did anything, and Redis 7.0 does each in its turn: after `HELLO 2 SETNAME ann
/// NOSUCH` the client had another name, and of two wrong options another one was named.
#[test]
fn hello_does_its_options_in_the_order_of_redis() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let seed = seed();
    let count = asked("PROBITY_STORE_COMMANDS").map_or(HELLOS, |count| count as usize);
    let mut random = Random::new(seed);
    let mut sides = Sides::new(redis.address(), embedded.address, seed);
    for _ in 0..count.div_ceil(PIPELINE) {
        let mut batch = vec![(How::Exactly, words("CLIENT SETNAME zoe"))];
        for _ in 0..PIPELINE {
            // The number of the connection is its own.
            batch.push((How::Shape, hello(&mut random)));
            batch.push((How::Exactly, words("CLIENT GETNAME")));
            // A reply whose form the version of the protocol decides.
            batch.push((How::Exactly, words("GET none")));
        }
        sides.compare(&batch);
    }
}
