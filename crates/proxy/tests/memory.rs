//! Memory of the whole process under commands that wait: a process of its own, for no other test may
//! take memory meanwhile.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

#[expect(dead_code, unused_imports, reason = "one test needs few of the parts")]
#[path = "server/support.rs"]
mod support;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use probity_policy::Policy;
use probity_proxy::ProxyConfig;

use support::{Redis, command, config, script, start, wait};

/// Returns the mebibytes that the process has in memory.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<usize>()
        .unwrap()
        >> 10
}

/// Three commands of a million keys behind one that blocks became 288 MB, and 880 MB at their end (S18). The
/// second is not read before the first is answered, and entries are made in portions.
#[test]
fn commands_that_wait_are_bounded_by_their_bytes() {
    let redis = Redis::start(&[]);
    let (proxy, address, _recorder) = start(&ProxyConfig {
        policy: Arc::new(Policy::parse("version = 1\n[defaults]\npersonal = false").unwrap()),
        ..config(&redis)
    });
    let keys: Vec<String> = (0..300_000).map(|number| format!("k{number}")).collect();
    let mut words = vec!["EXISTS"];
    words.extend(keys.iter().map(String::as_str));
    let exists = command(&words);
    let before = resident();
    let mut sockets = Vec::new();
    for _ in 0..4 {
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        socket.write_all(&script("BLPOP cache:none 0")).unwrap();
        for _ in 0..3 {
            if socket.write_all(&exists).is_err() {
                break;
            }
        }
        sockets.push(socket);
    }
    wait(300);
    let during = resident();
    drop(sockets);
    wait(1500);
    let after = resident();
    let most = during.max(after).saturating_sub(before);
    assert!(
        most < 4 * 40 + 64,
        "{before} MiB, then {during}, then {after}"
    );
    proxy.stop();
}
