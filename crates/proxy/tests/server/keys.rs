//! The keys found in a command are those that the server itself finds.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test may fail loudly, and takes its seed from the environment"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use probity_proxy::command::{Extraction, Table};
use probity_proxy::resp::{Arguments, Frame, FrameReader, Limits, put_command};

use crate::support::Redis;

/// Generated commands in the gate; `PROBITY_KEY_COMMANDS` asks for more.
const COMMANDS: usize = 10_000;
const WORDS: [&str; 22] = [
    "a",
    "b",
    "c",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "x",
    "STORE",
    "STREAMS",
    "KEYS",
    "GET",
    "SET",
    "BY",
    "LIMIT",
    "COUNT",
    "WEIGHTS",
    "",
    "AUTH",
    "NX",
    "STOREDIST",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn ask(socket: &mut TcpStream, reader: &mut FrameReader, out: &[u8], replies: usize) -> Vec<Frame> {
    socket.write_all(out).unwrap();
    let mut frames = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while frames.len() < replies {
        let count = socket.read(&mut buffer).unwrap();
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let (taken, frame) = reader.read(rest).unwrap();
            rest = &rest[taken..];
            frames.extend(frame);
        }
    }
    frames
}

#[test]
fn the_built_in_table_is_the_servers_own() {
    let redis = Redis::start(&[]);
    let mut socket = TcpStream::connect(redis.address()).unwrap();
    let mut reader = FrameReader::new(Limits::SERVER);
    let reply = ask(&mut socket, &mut reader, b"COMMAND\r\n", 1).remove(0);
    let served = Table::from_reply(&reply).unwrap();
    let builtin = Table::builtin();
    assert_eq!(served.iter().count(), builtin.iter().count());
    for facts in served.iter() {
        assert_eq!(builtin.named(&facts.name).map(AsRef::as_ref), Some(facts));
    }
}

#[test]
fn generated_commands_have_the_keys_the_server_finds() {
    let seed = std::env::var("PROBITY_SEED").map_or(42, |seed| seed.parse().unwrap());
    let count = std::env::var("PROBITY_KEY_COMMANDS");
    let count = count.map_or(COMMANDS, |count| count.parse().unwrap());
    println!("seed {seed}");
    let mut random = Random(seed);
    let redis = Redis::start(&[]);
    let mut socket = TcpStream::connect(redis.address()).unwrap();
    let mut reader = FrameReader::new(Limits::SERVER);
    let table = Table::builtin();
    let mut with_keys: Vec<_> = table
        .iter()
        .filter(|facts| !facts.specs.is_empty())
        .collect();
    with_keys.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut compared, mut keys, mut asked) = (0, Vec::new(), 0);
    while compared < count {
        let batch: Vec<Vec<&str>> = (0..200)
            .map(|_| {
                let facts = with_keys[random.below(with_keys.len())];
                let mut words: Vec<&str> = facts.name.split('|').collect();
                let least = facts.arity.unsigned_abs() as usize;
                let more = if facts.arity < 0 { random.below(7) } else { 0 };
                while words.len() < least + more {
                    words.push(WORDS[random.below(WORDS.len())]);
                }
                words
            })
            .collect();
        let mut out = Vec::new();
        for words in &batch {
            let mut command: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYSANDFLAGS"];
            command.extend(words.iter().map(|word| word.as_bytes()));
            put_command(&mut out, &command);
        }
        for (words, reply) in batch.iter().zip(ask(&mut socket, &mut reader, &out, 200)) {
            let Frame::Array(pairs) = reply else { continue };
            // The server names the words after every STORE or STREAMS, though only one of them counts.
            let family = if words[0].starts_with("georadius") {
                "STORE"
            } else if words[0].starts_with("xread") {
                "STREAMS"
            } else {
                "-"
            };
            if words.iter().filter(|word| word.starts_with(family)).count() > 1 {
                continue;
            }
            let mut arguments = Arguments::default();
            for word in words {
                arguments.push(word.as_bytes());
            }
            let facts = table.find(&arguments).unwrap();
            if facts.extract(&arguments, &mut keys) == Extraction::Ask {
                asked += 1;
                continue;
            }
            let mut expected: Vec<&[u8]> = pairs
                .iter()
                .map(|pair| pair.elements().unwrap()[0].text().unwrap())
                .collect();
            let mut found: Vec<&[u8]> = keys
                .iter()
                .map(|key| arguments.beginning(key.argument))
                .collect();
            expected.sort();
            found.sort();
            assert_eq!(
                found
                    .iter()
                    .map(|key| String::from_utf8_lossy(key))
                    .collect::<Vec<_>>(),
                expected
                    .iter()
                    .map(|key| String::from_utf8_lossy(key))
                    .collect::<Vec<_>>(),
                "{words:?}"
            );
            compared += 1;
        }
    }
    println!("{compared} compared, {asked} left to the server");
    assert!(
        asked * 5 < compared,
        "the table answers most commands: {asked} were left to the server"
    );
}
