//! The embedded store behind the proxy answers as a real Redis server does: drawn commands, both answers compared.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test may fail loudly, and takes its seed from the environment"
)]

pub mod commands;
mod compare;
mod echoed;
mod hellos;
pub mod sides;
pub mod template;
mod timed;
mod watched;

use crate::embedded::Embedded;
use crate::support::Redis;
use commands::{FAMILIES, How};
use sides::{Sides, words};
use template::{Random, command};

/// Commands in the gate; `PROBITY_STORE_COMMANDS` asks for another number.
const COMMANDS: usize = 20_000;
/// Commands of the long test.
const COMMANDS_LONG: usize = 1_000_000;
/// Commands after which connections, databases and protocol are new.
const ROUND: usize = 500;
/// Commands sent before their replies are read.
const PIPELINE: usize = 25;

/// Returns whether a key would expire during the comparison; a test of its own does that.
fn expires_soon(words: &[Vec<u8>]) -> bool {
    let soon = |word: Option<&Vec<u8>>| {
        let number = word.and_then(|word| std::str::from_utf8(word).ok()?.parse::<i64>().ok());
        number.is_some_and(|number| (1..=1000).contains(&number))
    };
    match words[0].to_ascii_lowercase().as_slice() {
        b"expire" | b"pexpire" | b"setex" | b"psetex" => soon(words.get(2)),
        b"set" | b"getex" => words.windows(2).any(|pair| {
            let options = [&b"EX"[..], b"PX", b"EXAT", b"PXAT"];
            options.contains(&pair[0].as_slice()) && soon(Some(&pair[1]))
        }),
        _ => false,
    }
}

/// Returns whether a draw would differ between both sides in its effect, or fill the memory.
fn draws_too_much(words: &[Vec<u8>]) -> bool {
    let count = words
        .get(2)
        .and_then(|word| std::str::from_utf8(word).ok()?.parse::<i64>().ok());
    match words[0].to_ascii_lowercase().as_slice() {
        b"spop" => {
            words.get(1).is_some_and(|key| key != b"none") && count.is_none_or(|count| count < 1000)
        }
        b"srandmember" | b"hrandfield" | b"zrandmember" => {
            count.is_some_and(|count| count.unsigned_abs() > 1000)
        }
        _ => false,
    }
}

/// Returns whether the second word is the name of a subcommand.
fn has_subcommand(words: &[Vec<u8>]) -> bool {
    let containers = ["CLIENT", "COMMAND", "CONFIG", "OBJECT"];
    let mut names = containers.iter().map(|name| name.as_bytes());
    names.any(|name| words[0].eq_ignore_ascii_case(name))
}

/// Returns whether the name of a subcommand has a zero byte: the proxy refuses such a command.
fn is_not_let_through(words: &[Vec<u8>]) -> bool {
    has_subcommand(words) && words.get(1).is_some_and(|word| word.contains(&0))
}

/// Returns whether both sides can be asked this in one comparison.
fn drawn_is_comparable(words: &[Vec<u8>]) -> bool {
    !expires_soon(words) && !draws_too_much(words) && !is_not_let_through(words)
}

/// At times a zero byte behind an option, which Redis does not see.
fn spell(words: &mut [Vec<u8>], random: &mut Random) {
    let place = random.below(words.len());
    let is_option = words[place].iter().all(u8::is_ascii_uppercase) && !words[place].is_empty();
    if random.one_in(6) && place > 0 && is_option && !has_subcommand(words) {
        let end: &[u8] = if random.one_in(2) { b"\0" } else { b"\0x" };
        words[place].extend_from_slice(end);
    }
}

fn drawn(random: &mut Random) -> (How, Vec<Vec<u8>>) {
    let whole: u32 = FAMILIES.iter().map(|(weight, _)| weight).sum();
    let mut place = random.below(whole as usize) as u32;
    let family = FAMILIES.iter().find(|(weight, _)| {
        let here = place < *weight;
        place = place.saturating_sub(*weight);
        here
    });
    let templates = family.unwrap().1;
    let whole: u32 = templates.iter().map(|(weight, ..)| weight).sum();
    let mut place = random.below(whole as usize) as u32;
    let template = templates.iter().find(|(weight, ..)| {
        let here = place < *weight;
        place = place.saturating_sub(*weight);
        here
    });
    let (_, how, text) = template.unwrap();
    let mut words = command(text, random);
    while !drawn_is_comparable(&words) {
        words = command(text, random);
    }
    spell(&mut words, random);
    let scans = words[0].to_ascii_lowercase().ends_with(b"scan");
    let cursor = usize::from(words[0].len() > 4) + 1;
    let begins = words.get(cursor).is_some_and(|word| word == b"0");
    let ends = words.iter().any(|word| word == b"1000");
    let how = if scans && !(begins && ends) {
        How::Loosely
    } else {
        *how
    };
    (how, words)
}

/// A command, or a whole transaction.
fn step(random: &mut Random) -> Vec<(How, Vec<Vec<u8>>)> {
    if !random.one_in(40) {
        return vec![drawn(random)];
    }
    let mut steps = vec![(How::Exactly, words("MULTI"))];
    for _ in 0..random.below(6) {
        steps.push(drawn(random));
    }
    let end = if random.one_in(6) { "DISCARD" } else { "EXEC" };
    steps.push((How::Exactly, words(end)));
    steps
}

/// A number from the environment.
fn asked(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap())
}

/// The seed, shown so that a failure can be had again.
fn seed() -> u64 {
    let seed = asked("PROBITY_SEED").unwrap_or(42);
    print(&format!("seed {seed}"));
    seed
}

#[expect(clippy::print_stdout, reason = "the test tells how to repeat it")]
fn print(text: &str) {
    println!("{text}");
}

fn run(commands: usize) {
    let seed = seed();
    let count = asked("PROBITY_STORE_COMMANDS").map_or(commands, |count| count as usize);
    let redis = Redis::start(&[]);
    let embedded = Embedded::start();
    let mut done = 0;
    for round in 0.. {
        if done >= count {
            break;
        }
        let seed = seed + round;
        let mut random = Random::new(seed);
        let mut sides = Sides::new(redis.address(), embedded.address, seed);
        let mut batch = vec![(How::Exactly, words("FLUSHALL"))];
        if round % 2 == 1 {
            batch.insert(0, (How::Pairs, words("HELLO 3")));
            let hello = batch[0].1.clone();
            // The connection's number is its own.
            sides.redis.ask(std::slice::from_ref(&hello));
            sides.store.ask(std::slice::from_ref(&hello));
            batch.remove(0);
        }
        while sides.said.len() < ROUND {
            while batch.len() < PIPELINE {
                batch.extend(step(&mut random));
            }
            sides.compare(&batch);
            batch.clear();
        }
        done += sides.said.len();
    }
    print(&format!("{done} commands compared"));
}

#[test]
fn the_store_answers_drawn_commands_as_redis_does() {
    run(COMMANDS);
}

#[test]
#[ignore = "a million commands take minutes; the gate compares fewer"]
fn the_store_answers_a_million_drawn_commands_as_redis_does() {
    run(COMMANDS_LONG);
}
