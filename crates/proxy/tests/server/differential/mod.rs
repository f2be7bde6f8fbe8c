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

mod commands;
mod compare;
mod template;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

use crate::embedded::Embedded;
use crate::support::Redis;
use commands::{FAMILIES, How};
use compare::{Answer, agree, frames_agree};
use template::{Random, command};

/// Commands in the gate; `PROBITY_STORE_COMMANDS` asks for another number.
const COMMANDS: usize = 20_000;
/// Commands of the long test.
const COMMANDS_LONG: usize = 1_000_000;
/// Commands after which connections, databases and protocol are new.
const ROUND: usize = 500;
/// Commands sent before their replies are read.
const PIPELINE: usize = 25;

struct Connection {
    socket: TcpStream,
    reader: FrameReader,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            socket,
            reader: FrameReader::new(Limits::SERVER),
        }
    }

    fn ask(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Answer> {
        let mut out = Vec::new();
        for words in commands {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            put_command(&mut out, &words);
        }
        self.socket.write_all(&out).unwrap();
        let mut answers = Vec::new();
        let (mut buffer, mut bytes) = (vec![0; 1 << 16], Vec::new());
        while answers.len() < commands.len() {
            let count = self.socket.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ended");
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let (taken, frame) = self.reader.read(rest).unwrap();
                bytes.extend_from_slice(&rest[..taken]);
                rest = &rest[taken..];
                if let Some(frame) = frame {
                    let bytes = std::mem::take(&mut bytes);
                    answers.push(Answer { bytes, frame });
                }
            }
        }
        answers
    }
}

/// The two sides, and what was said to them since the round began.
struct Sides {
    redis: Connection,
    store: Connection,
    said: Vec<Vec<Vec<u8>>>,
    seed: u64,
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn show(command: &[Vec<u8>]) -> String {
    let words = command.iter().map(|word| {
        let cut = &word[..word.len().min(60)];
        format!("{:?}", String::from_utf8_lossy(cut))
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Sides {
    fn compare(&mut self, batch: &[(How, Vec<Vec<u8>>)]) {
        let commands: Vec<_> = batch.iter().map(|(_, command)| command.clone()).collect();
        let redis = self.redis.ask(&commands);
        let store = self.store.ask(&commands);
        let mut queued: Vec<How> = Vec::new();
        for (place, (how, command)) in batch.iter().enumerate() {
            self.said.push(command.clone());
            if command[0].eq_ignore_ascii_case(b"multi") {
                queued.clear();
            }
            let (left, right) = (&redis[place], &store[place]);
            let same = match (&left.frame, &right.frame) {
                (Frame::Simple(text), _) if text == b"QUEUED" => {
                    queued.push(*how);
                    left.bytes == right.bytes
                }
                (Frame::Array(left), Frame::Array(right))
                    if command[0].eq_ignore_ascii_case(b"exec") =>
                {
                    left.len() == right.len()
                        && queued
                            .drain(..)
                            .zip(left.iter().zip(right))
                            .all(|(how, (left, right))| frames_agree(how, left, right))
                }
                _ => agree(*how, left, right),
            };
            if !same {
                self.fail(command, left, right);
            }
        }
    }

    fn fail(&self, command: &[Vec<u8>], redis: &Answer, store: &Answer) -> ! {
        let shown = |answer: &Answer| {
            let cut = &answer.bytes[..answer.bytes.len().min(300)];
            format!("{:?}", String::from_utf8_lossy(cut))
        };
        let before: Vec<String> = self
            .said
            .iter()
            .rev()
            .take(
                std::env::var("SHOW")
                    .ok()
                    .and_then(|show| show.parse().ok())
                    .unwrap_or(40),
            )
            .rev()
            .map(|c| show(c))
            .collect();
        panic!(
            "seed {}: after\n  {}\n{}\n  Redis {}\n  store {}",
            self.seed,
            before.join("\n  "),
            show(command),
            shown(redis),
            shown(store)
        );
    }
}

/// Whether a key would expire while the others are compared; a test of its own does that.
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

/// Whether what is drawn would change what is there in two ways, or fill the memory.
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
    while expires_soon(&words) || draws_too_much(&words) {
        words = command(text, random);
    }
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

fn run(commands: usize) {
    let seed = std::env::var("PROBITY_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(42);
    let count = std::env::var("PROBITY_STORE_COMMANDS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(commands);
    println!("seed {seed}");
    let redis = Redis::start(&[]);
    let embedded = Embedded::start();
    let mut done = 0;
    for round in 0.. {
        if done >= count {
            break;
        }
        let seed = seed + round;
        let mut random = Random::new(seed);
        let mut sides = Sides {
            redis: Connection::new(redis.address()),
            store: Connection::new(embedded.address),
            said: Vec::new(),
            seed,
        };
        let mut batch = vec![(How::Exactly, words("FLUSHALL"))];
        if round % 2 == 1 {
            batch.insert(0, (How::Pairs, words("HELLO 3")));
            let hello = batch[0].1.clone();
            // The connection's number is its own.
            sides.redis.ask(&[hello.clone()]);
            sides.store.ask(&[hello]);
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
    println!("{done} commands compared");
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
