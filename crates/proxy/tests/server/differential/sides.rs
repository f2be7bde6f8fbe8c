//! A Redis server and the embedded store, asked the same.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

use super::commands::How;
use super::compare::{Answer, agree, frames_agree};

/// Commands that a failure shows before the one that failed.
const SHOWN: usize = 40;

/// One client's connection.
pub struct Connection {
    socket: TcpStream,
    reader: FrameReader,
}

impl Connection {
    pub fn new(address: SocketAddr) -> Self {
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

    pub fn ask(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Answer> {
        let mut out = Vec::new();
        for words in commands {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            put_command(&mut out, &words);
        }
        self.socket.write_all(&out).unwrap();
        let mut answers: Vec<Answer> = Vec::new();
        let (mut buffer, mut bytes) = (vec![0; 1 << 16], Vec::new());
        while answers.len() < commands.len() {
            let count = self.socket.read(&mut buffer).unwrap();
            let last = answers.last().map(|answer| &answer.frame);
            assert!(count > 0, "the connection ended after {last:?}");
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
pub struct Sides {
    pub redis: Connection,
    pub store: Connection,
    pub said: Vec<Vec<Vec<u8>>>,
    seed: u64,
}

pub fn words(text: &str) -> Vec<Vec<u8>> {
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
    pub fn new(redis: SocketAddr, store: SocketAddr, seed: u64) -> Self {
        Self {
            redis: Connection::new(redis),
            store: Connection::new(store),
            said: Vec::new(),
            seed,
        }
    }

    pub fn compare(&mut self, batch: &[(How, Vec<Vec<u8>>)]) {
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
            .take(SHOWN)
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
