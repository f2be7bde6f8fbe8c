//! Attacks the password for the server: nothing of it is left on the heap, and no error or description shows it.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed, and looks at memory piece by piece"
)]

use std::fmt::Write as _;
use std::fs::{File, read_to_string};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use probity_format::Entry;
use probity_proxy::{
    Backend, EntrySink, Listen, OnLogFailure, Proxy, ProxyConfig, SinkError, SinkSource, Upstream,
};
use probity_testing::redis;
use probity_testing::server::Server;
use zeroize::Zeroizing;

/// Bytes of memory read at once.
const PIECE: usize = 1 << 20;
/// Bytes of the password, and of the part of it that is looked for: the allocator writes over the beginning of what is freed.
const LENGTH: usize = 64;
const HALF: usize = 24;

/// Letter `place` of a password: computed, so that no test has a copy.
fn letter(seed: u64, place: usize) -> u8 {
    let mixed = (place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (seed << 40));
    b'A' + ((mixed >> 33) % 26) as u8
}

/// The address of a server with the password in it; every fourth letter is written as its number.
fn address(seed: u64, scheme: &str, place: &str) -> Zeroizing<String> {
    let mut url = Zeroizing::new(String::with_capacity(1024));
    write!(url, "{scheme}://alice:").unwrap();
    for place in 0..LENGTH {
        if place % 4 == 0 {
            write!(url, "%{:02x}", letter(seed, place)).unwrap();
        } else {
            url.push(letter(seed, place).into());
        }
    }
    write!(url, "@{place}").unwrap();
    url
}

/// Memory that this process can write, without the stack that `local` is on and the main one.
fn writable(local: &u8) -> Vec<Range<u64>> {
    let here = std::ptr::from_ref(local).addr() as u64;
    let maps = read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        let is_wanted = rest.starts_with("rw") && !rest.ends_with("[stack]");
        (is_wanted && !range.contains(&here)).then_some(range)
    };
    maps.lines().filter_map(parse).collect()
}

/// Counts copies of the password's end on the heap.
fn copies(seed: u64) -> usize {
    let local = 0;
    let memory = File::open("/proc/self/mem").unwrap();
    let mut piece = vec![0; PIECE];
    let mut found = 0;
    for range in writable(&local) {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(PIECE as u64) as usize;
            // The buffer is memory of this process too.
            piece.fill(0);
            if memory.read_exact_at(&mut piece[..length], at).is_err() {
                break;
            }
            let end = |bytes: &[u8]| {
                let mut places = bytes.iter().zip(LENGTH - HALF..);
                places.all(|(byte, place)| *byte == letter(seed, place))
            };
            let own = piece.as_ptr().addr() as u64;
            let own = own..own + PIECE as u64;
            let windows = (at..).zip(piece[..length].windows(HALF));
            let other = windows.filter(|(address, part)| !own.contains(address) && end(part));
            found += other.count();
            // An end that lies across two pieces is found in the second.
            let next = if length == PIECE {
                PIECE - HALF + 1
            } else {
                length
            };
            at += next as u64;
        }
    }
    piece.fill(0);
    found
}

/// A server whose user has the password, which it is told over its socket.
fn with_password(seed: u64) -> (Server, PathBuf) {
    let (server, path) = redis::on_socket();
    let mut socket = UnixStream::connect(&path).unwrap();
    let mut told = Zeroizing::new(Vec::with_capacity(1024));
    told.extend_from_slice(b"ACL SETUSER alice on +@all ~* >");
    told.extend((0..LENGTH).map(|place| letter(seed, place)));
    told.extend_from_slice(b"\r\n");
    socket.write_all(&told).unwrap();
    let mut answer = [0; 5];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    (server, path)
}

/// A server that repeats what it is told.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut said = [0; 4096];
            while let Ok(count @ 1..) = socket.read(&mut said) {
                let words = std::str::from_utf8(&said[..count]).unwrap();
                let words = words.replace("\r\n", " ");
                let answer = format!("-ERR unknown command, with args beginning with: {words}\r\n");
                socket.write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    port
}

struct Nothing;

impl SinkSource for Nothing {
    type Sink = Self;
    fn open(&self) -> Result<Self, SinkError> {
        Ok(Self)
    }
    fn on_commit(&self, _: Box<dyn Fn() + Send + Sync>) {}
    fn flush(&self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl EntrySink for Nothing {
    type Ticket = ();
    fn append(&mut self, _: &[Entry<'_>]) -> Result<Option<()>, (usize, SinkError)> {
        Ok(None)
    }
    fn is_durable(&mut self, (): ()) -> Result<bool, SinkError> {
        Ok(true)
    }
    fn push(&mut self) {}
    fn miss(&mut self, _: u64, _: OnLogFailure) {}
    fn is_failed(&self) -> bool {
        false
    }
}

fn config(url: &str) -> ProxyConfig {
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    ProxyConfig::new(any_port, Backend::Upstream(Upstream::parse(url).unwrap()))
}

/// Copies of the password stayed where the address was taken apart, where the configuration was cloned for each worker, and where the
/// login was written.
#[test]
fn nothing_of_the_password_is_left_on_the_heap() {
    let (_server, socket) = with_password(1);
    let config = config(&address(1, "redis+unix", socket.to_str().unwrap()));
    assert_eq!(copies(1), 1, "one place holds it");
    let proxy = Proxy::start(&config, &Arc::new(Nothing)).unwrap();
    assert_eq!(copies(1), 1, "one place holds it for all workers");
    proxy.stop();
    drop(config);
    assert_eq!(copies(1), 0);
}

/// A server without AUTH repeats what it was told, and its words stood in the error with the password.
#[test]
fn no_error_and_no_description_shows_the_password() {
    let config = config(&address(2, "redis", &format!("127.0.0.1:{}", echo())));
    let shown = format!("{config:?}");
    let error = Proxy::start(&config, &Arc::new(Nothing)).unwrap_err();
    let told = format!("{error:?} {error}");
    let part: Vec<u8> = (0..6).map(|place| letter(2, place)).collect();
    for text in [shown, told] {
        let found = text.as_bytes().windows(part.len()).any(|it| it == part);
        assert!(!found && !text.contains("args"), "it is shown");
        assert!(text.contains("127.0.0.1"), "{text}");
    }
}
