//! The second signal to a program that serves: an end at once, whatever it waits for.

#![expect(clippy::disallowed_methods, reason = "the time of an end is measured")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use probity_testing::program::Program;
use probity_testing::redis::Redis;
use probity_testing::wait;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));

/// A second signal was lost: a proxy went on for five seconds while a client waited in `BLPOP`.
#[test]
fn the_second_signal_ends_a_proxy_whose_client_waits_for_the_server() {
    let (folder, redis) = (tempfile::tempdir().unwrap(), Redis::start(&[]));
    let upstream = redis.url();
    let args = [
        "proxy",
        "--log",
        "audit",
        "--init",
        "--listen",
        "127.0.0.1:0",
        "--upstream",
    ];
    let args = [&args[..], &[&upstream]].concat();
    let mut child = PROBITY.command(folder.path(), &args).spawn().unwrap();
    let mut line = String::new();
    drop(child.stdin.take());
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let place = line.trim_end().strip_prefix("listening on ");
    let place = place.and_then(|it| it.split(';').next()).unwrap();
    let mut client = TcpStream::connect(place).unwrap();
    client.write_all(b"BLPOP q 0\r\n").unwrap();
    wait(500);
    let begun = Instant::now();
    let id = child.id().to_string();
    for signal in ["TERM", "INT"] {
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        wait(500);
    }
    let status = child.wait().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by a signal"), "{said}");
}
