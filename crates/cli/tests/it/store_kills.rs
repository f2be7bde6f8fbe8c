//! The embedded store on the real program, killed at any moment: it holds what it acknowledged.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail loudly, and says what it did"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::store::{Proxy, run, text};

/// Kills in the gate.
const KILLS: u64 = 6;

/// Kills in the slow test; `PROBITY_STORE_KILLS` asks for another number.
const KILLS_MANY: u64 = 200;

const CLIENTS: u64 = 3;

/// The replies to one client before its connection ended.
#[derive(Default)]
struct Told {
    /// Numbers of rounds whose every command was answered.
    rounds: Vec<u64>,
    /// Keys of every command that was answered.
    keys: Vec<String>,
}

/// Does rounds of commands with the next numbers until the connection ends.
fn work_until_killed(mut socket: TcpStream, client: u64, first: u64) -> Told {
    let mut told = Told::default();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    for number in first.. {
        // Reads, what is not there and a transaction are recorded like writes. Each round has a subject of its own, and
        // erases an earlier one.
        let erased = number.wrapping_sub(3);
        let commands = [
            (
                format!("DEL user:{client}-{erased}:a"),
                format!("user:{client}-{erased}:a"),
                1,
            ),
            (
                format!("SET user:{client}-{number}:a {number}"),
                format!("user:{client}-{number}:a"),
                1,
            ),
            (
                format!("GET g{client}:{number}"),
                format!("g{client}:{number}"),
                1,
            ),
            (format!("RPUSH l{client} {number}"), format!("l{client}"), 1),
            (
                format!("MULTI\r\nSET m{client} {number}\r\nHSET h{client} n {number}\r\nEXEC"),
                format!("m{client}"),
                // OK, twice QUEUED, and an array of two.
                6,
            ),
        ];
        for (said, key, lines) in commands {
            if socket.write_all(format!("{said}\r\n").as_bytes()).is_err() {
                return told;
            }
            for _ in 0..lines {
                let mut line = String::new();
                match reader.read_line(&mut line) {
                    Ok(count) if count > 0 && line.ends_with("\r\n") => {
                        assert!(!line.starts_with('-'), "{said}: {line}");
                    }
                    _ => return told,
                }
            }
            told.keys.push(key);
        }
        told.rounds.push(number);
    }
    told
}

/// Returns whether the store holds what clients were told; the last round may be done in part.
fn assert_kept(proxy: &Proxy, known: &BTreeMap<u64, u64>) {
    for (client, last) in known {
        let asked = format!(
            "GET user:{client}-{last}:a\nLINDEX l{client} -1\nGET m{client}\nHGET h{client} n"
        );
        let reply = proxy.ask(&asked);
        let found: Vec<u64> = reply
            .split(' ')
            .filter(|part| !part.starts_with('$'))
            .filter_map(|part| part.parse().ok())
            .collect();
        let [single, in_list, in_string, in_hash] = found.as_slice() else {
            panic!("{reply}");
        };
        assert_eq!(single, last);
        assert!(in_list >= last && in_string >= last, "{reply} after {last}");
        assert_eq!(in_string, in_hash, "half a transaction");
    }
}

/// Counts how often each key is in the log.
fn recorded(folder: &Path) -> BTreeMap<String, u64> {
    let exported = run(folder, &["export", "audit", "--format", "jsonl"]);
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let mut counts = BTreeMap::new();
    for line in text(&exported.stdout).lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let key = entry.get("key").and_then(serde_json::Value::as_str);
        *counts
            .entry(key.unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    counts
}

#[expect(
    clippy::disallowed_methods,
    reason = "a longer or another run is asked for there"
)]
fn asked(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |said| said.parse().unwrap())
}

fn kill_at_random_moments(kills: u64) {
    let mut seed = asked("PROBITY_SEED", 42);
    println!("PROBITY_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<u64, u64> = BTreeMap::new();
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..kills {
        let proxy = Proxy::start(folder.path(), &["--durability", "strict"]);
        assert_kept(&proxy, &known);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                // A command that was on its way at the kill is not sent again.
                let first = known.get(&client).map_or(1, |last| last + 2);
                let socket = proxy.connect();
                std::thread::spawn(move || (client, work_until_killed(socket, client, first)))
            })
            .collect();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let _elapsed = receiver.recv_timeout(Duration::from_millis(20 + seed % 400));
        proxy.kill();
        for client in clients {
            let (client, heard) = client.join().unwrap();
            if let Some(last) = heard.rounds.last() {
                known.insert(client, *last);
            }
            for key in heard.keys {
                *told.entry(key).or_default() += 1;
            }
        }
        let verified = run(folder.path(), &["verify", "audit", "--key", "audit.key"]);
        assert_eq!(
            verified.status.code(),
            Some(0),
            "round {round}: {}",
            text(&verified.stdout)
        );
    }
    let proxy = Proxy::start(folder.path(), &["--durability", "strict"]);
    assert_kept(&proxy, &known);
    proxy.stop();
    let counts = recorded(folder.path());
    for (key, count) in &told {
        let found = counts.get(key).copied().unwrap_or_default();
        assert!(
            found >= *count,
            "{key} was answered {count} times, recorded {found} times"
        );
    }
    println!("{kills} kills, {} keys, all recorded", told.len());
    assert!(told.len() as u64 > kills, "too little was done to be shown");
}

#[test]
fn what_was_acknowledged_is_in_the_store_and_in_the_log_after_a_kill_at_any_moment() {
    kill_at_random_moments(KILLS);
}

#[test]
#[ignore = "hundreds of kills take minutes; the gate kills less often"]
fn what_was_acknowledged_survives_hundreds_of_kills() {
    kill_at_random_moments(asked("PROBITY_STORE_KILLS", KILLS_MANY));
}
