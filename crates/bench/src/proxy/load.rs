//! Clients that repeat one command, as `redis-benchmark` does, and their measurements.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use probity_proxy::resp::put_command;

use crate::command::BenchError;

const TIMEOUT: Duration = Duration::from_secs(30);
const REPLY_BYTES: usize = 16 << 10;
/// Number of keys that are filled with one command before a run.
const FILLED_AT_ONCE: u64 = 500;

/// The command that the clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Set,
    Get,
}

impl Verb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Get => "GET",
        }
    }
}

/// The load of a run: command, pipelining, clients, requests and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) verb: Verb,
    /// Commands sent before their replies are read.
    pub(super) pipeline: u64,
    pub(super) clients: u64,
    /// Number of pipelines of all clients together, before rounding to as many for each.
    pub(super) requests: u64,
    pub(super) keys: u64,
    pub(super) payload_bytes: usize,
}

/// The measurements of the clients.
pub(super) struct Pace {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    /// Microseconds from the first byte sent to the last byte received of each pipeline, sorted.
    waits: Vec<f64>,
}

impl Pace {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    pub(super) fn percentile(&self, share: f64) -> f64 {
        crate::latency::percentile(&self.waits, share)
    }
}

impl Load {
    /// Returns the number of pipelines that each client sends.
    fn rounds(&self) -> u64 {
        (self.requests / self.clients).max(1)
    }

    /// Sets a value for every key, so that reads find one.
    pub(super) fn fill(&self, address: SocketAddr) -> io::Result<()> {
        let value = vec![b'v'; self.payload_bytes];
        let mut client = connect(address)?;
        let mut first = 0;
        while first < self.keys {
            let end = self.keys.min(first + FILLED_AT_ONCE);
            let mut said = Vec::new();
            for number in first..end {
                put_command(&mut said, &[b"SET", key(number).as_bytes(), &value]);
            }
            exchange(&mut client, &said, OK.len() * usize_of(end - first))?;
            first = end;
        }
        Ok(())
    }

    /// Runs all clients and measures.
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark measures with the system's clock"
    )]
    pub(super) fn play(&self, address: SocketAddr) -> Result<Pace, BenchError> {
        let ready = Barrier::new(usize_of(self.clients) + 1);
        let (waits, seconds) = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients)
                .map(|client| {
                    let ready = &ready;
                    scope.spawn(move || {
                        let connected = connect(address);
                        ready.wait();
                        self.client(connected?, client)
                    })
                })
                .collect();
            ready.wait();
            let began = Instant::now();
            let mut waits = Vec::new();
            for client in clients {
                let ended = client.join();
                waits.extend(ended.map_err(|_panic| io::Error::other("a client panicked"))??);
            }
            Ok::<_, io::Error>((waits, began.elapsed().as_secs_f64()))
        })?;
        let mut waits = waits;
        waits.sort_by(f64::total_cmp);
        Ok(Pace {
            seconds,
            requests: self.requests_said(),
            waits,
        })
    }

    /// Returns the number of commands actually sent: full pipelines of every client.
    pub(super) fn requests_said(&self) -> u64 {
        self.rounds() * self.pipeline * self.clients
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark measures with the system's clock"
    )]
    fn client(&self, mut socket: TcpStream, client: u64) -> io::Result<Vec<f64>> {
        let value = vec![b'v'; self.payload_bytes];
        let reply_bytes = match self.verb {
            Verb::Set => OK.len(),
            Verb::Get => format!("${}\r\n\r\n", value.len()).len() + value.len(),
        };
        let mut random = (client + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut said = Vec::new();
        let mut waits = Vec::with_capacity(usize_of(self.rounds()));
        for _ in 0..self.rounds() {
            said.clear();
            for _ in 0..self.pipeline {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = key(random % self.keys);
                match self.verb {
                    Verb::Set => put_command(&mut said, &[b"SET", key.as_bytes(), &value]),
                    Verb::Get => put_command(&mut said, &[b"GET", key.as_bytes()]),
                }
            }
            let began = Instant::now();
            exchange(&mut socket, &said, reply_bytes * usize_of(self.pipeline))?;
            waits.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(waits)
    }
}

const OK: &[u8] = b"+OK\r\n";

fn key(number: u64) -> String {
    format!("user:{number}:data")
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

/// Sends `said` and reads the `expected` bytes of its replies.
fn exchange(socket: &mut TcpStream, said: &[u8], expected: usize) -> io::Result<()> {
    socket.write_all(said)?;
    let mut buffer = [0; REPLY_BYTES];
    let mut heard = 0;
    while heard < expected {
        let count = socket.read(&mut buffer)?;
        let part = buffer.get(..count).unwrap_or_default();
        if part.is_empty() || (heard == 0 && part.starts_with(b"-")) {
            let text = String::from_utf8_lossy(part).into_owned();
            return Err(io::Error::other(format!("the reply was {text:?}")));
        }
        heard += count;
    }
    if heard > expected {
        return Err(io::Error::other("there came more than was asked for"));
    }
    Ok(())
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
