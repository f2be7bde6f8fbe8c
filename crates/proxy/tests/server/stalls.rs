//! No client holds up the others of its worker by work that grows faster than what it sends.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and looks at the clock"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probity_format::{Outcome, Timestamp};
use probity_policy::Policy;
use probity_proxy::ProxyConfig;
use probity_proxy::audit::EntryBatch;
use probity_proxy::command::Table;
use probity_proxy::resp::{FrameReader, Limits};
use probity_proxy::session::{Next, Session};

use crate::support::{Redis, command, config, script, start, talk, told};

/// Work that grows with the product of keys and names takes minutes in a build for tests; work that grows with what was sent,
/// less than a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcomes of the keys of a command, by its reply, with the bytes of their payloads, and how long that took.
fn outcomes(command: &[u8], reply: &[u8]) -> (Vec<(Outcome, usize)>, Duration) {
    let policy = Arc::new(Policy::builtin());
    let mut batch = EntryBatch::new(Arc::clone(&policy), Timestamp::from_nanoseconds(0).unwrap());
    let mut session = Session::new(policy, 0);
    let taken = session.take_commands(&Table::builtin(), command);
    assert_eq!(taken.next, Next::Continue);
    let begun = Instant::now();
    let mut seen = Vec::new();
    session
        .take_replies(reply, &mut Vec::new(), &mut batch)
        .unwrap();
    loop {
        let entries = batch.entries().into_iter();
        seen.extend(entries.map(|entry| (entry.outcome, entry.payload.len())));
        batch.clear();
        if !session.has_work() {
            return (seen, begun.elapsed());
        }
        session.work(&mut batch);
    }
}

/// For each key of XREAD all names of its reply were looked through, so that 4 MB with 6,000 streams that have something and 200,000
/// that do not held up every client of the worker for nine seconds. Each key is looked up.
#[test]
fn the_names_in_a_reply_are_looked_up() {
    let names: Vec<String> = (0..6_000).map(|number| format!("x{number}")).collect();
    let missing: Vec<String> = (0..200_000).map(|number| format!("q{number}")).collect();
    let keys = || names.iter().chain(&missing).map(String::as_str);
    let ids = keys().map(|_| "0");
    let words: Vec<&str> = ["XREAD", "STREAMS"]
        .into_iter()
        .chain(keys())
        .chain(ids)
        .collect();
    let streams = names
        .iter()
        .map(|name| format!("*2\r\n${}\r\n{name}\r\n*0\r\n", name.len()));
    for header in ["*6000\r\n", "*6001\r\n"] {
        let reply = header.to_owned() + &streams.clone().collect::<String>();
        let reply = match header {
            "*6000\r\n" => reply,
            // One that is not to be seen whole before entries are made.
            _ => reply + "*2\r\n$1000000\r\n" + &"x".repeat(200_000),
        };
        let (seen, took) = outcomes(&command(&words), reply.as_bytes());
        assert!(took < PATIENCE, "{took:?}");
        assert_eq!(seen.len(), names.len() + missing.len());
        let done = seen.iter().filter(|(outcome, _)| *outcome == Outcome::Ok);
        let expected = if header == "*6000\r\n" {
            6_000
        } else {
            206_000
        };
        assert_eq!(done.count(), expected);
    }
}

/// Each entry of a command had the whole name of its destination, or of its function: 6 MB with a name of 60,000 bytes became 60 GB
/// of a log. A name above 1,024 bytes stands there as its digest.
#[test]
fn a_long_name_is_not_repeated_for_each_key() {
    let name = "n".repeat(60_000);
    let sources: Vec<String> = (0..1_000).map(|number| format!("k{number}")).collect();
    let sources = || sources.iter().map(String::as_str);
    let store = ["SUNIONSTORE", &name].into_iter().chain(sources());
    let call = ["FCALL", &name, "1000"].into_iter().chain(sources());
    let sha = ["EVALSHA", &name, "1000"].into_iter().chain(sources());
    for words in [store.collect::<Vec<_>>(), call.collect(), sha.collect()] {
        let (seen, _) = outcomes(&command(&words), b":5\r\n");
        assert_eq!(seen.len(), 1_001);
        assert!(seen.iter().all(|(_, payload)| *payload < 200));
    }
}

/// Keys that are not personal become no entries, so that nothing ended a turn: 40,000 keys under 50
/// patterns with a star before held up a worker for 35 seconds. A turn is bounded by what is compared.
#[test]
fn keys_that_become_no_entries_are_classified_in_turns() {
    let patterns = (0..50).map(|number| format!("[[key]]\npattern = \"*:email{number}\"\n"));
    let text = format!(
        "version = 1\n[defaults]\npersonal = false\n{}",
        patterns.collect::<String>()
    );
    let policy = Arc::new(Policy::parse(&text).unwrap());
    let mut batch = EntryBatch::new(Arc::clone(&policy), Timestamp::from_nanoseconds(0).unwrap());
    let mut session = Session::new(policy, 0);
    let keys: Vec<String> = (0..40_000)
        .map(|key| format!("{key}:{}", "k".repeat(400)))
        .collect();
    let words = ["EXISTS"]
        .into_iter()
        .chain(keys.iter().map(String::as_str));
    let taken = session.take_commands(&Table::builtin(), &command(&words.collect::<Vec<_>>()));
    assert_eq!(taken.next, Next::Continue);
    let (mut longest, mut turns) = (Duration::ZERO, 0);
    let begun = Instant::now();
    session
        .take_replies(b":0\r\n", &mut Vec::new(), &mut batch)
        .unwrap();
    while session.has_work() {
        let turn = Instant::now();
        session.work(&mut batch);
        longest = longest.max(turn.elapsed());
        turns += 1;
    }
    assert!(
        turns > 100 && longest < PATIENCE / 10,
        "{turns} turns, {longest:?}"
    );
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(batch.is_empty());
}

/// A command of a module whose keys follow a word, as a server describes it.
const MODULES_COMMAND: &str = "*1\r\n*10\r\n$6\r\nx.read\r\n:-3\r\n*1\r\n+module\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n\
    *1\r\n*6\r\n+flags\r\n*1\r\n+RO\r\n+begin_search\r\n*4\r\n+type\r\n+keyword\r\n+spec\r\n*4\r\n\
    +keyword\r\n$4\r\nKEYS\r\n+startfrom\r\n:1\r\n+find_keys\r\n*4\r\n+type\r\n+range\r\n+spec\r\n*6\r\n\
    +lastkey\r\n:-1\r\n+keystep\r\n:1\r\n+limit\r\n:0\r\n*0\r\n";

/// With each part of a long command of a module all arguments that had come were searched for zero bytes again. They are searched
/// once, when all are there.
#[test]
fn a_long_command_of_a_module_is_searched_once() {
    let mut reader = FrameReader::new(Limits::SERVER);
    let (_, frame) = reader.read(MODULES_COMMAND.as_bytes()).unwrap();
    let table = Table::from_reply(&frame.unwrap()).unwrap();
    let words: Vec<String> = (0..100_000).map(|number| format!("k{number}")).collect();
    let refused = "a zero byte in a word that keys follow does not pass";
    for first in ["KEYS", "KEYS\0z"] {
        let all = ["X.READ", first]
            .into_iter()
            .chain(words.iter().map(String::as_str));
        let bytes = command(&all.collect::<Vec<_>>());
        let mut session = Session::new(Arc::new(Policy::builtin()), 0);
        let begun = Instant::now();
        let mut last = Next::Continue;
        for part in bytes.chunks(16) {
            let taken = session.take_commands(&table, part);
            last = taken.next;
        }
        let took = begun.elapsed();
        assert!(took < PATIENCE, "{took:?}");
        let reason = match &last {
            Next::Refuse(reason) => String::from_utf8_lossy(reason),
            _ => "".into(),
        };
        let is_refused = reason.contains(refused) && matches!(last, Next::Refuse(_));
        assert_eq!(is_refused, first != "KEYS", "{last:?}");
    }
}

/// Whatever a client had said while a command of its waited was under way at once when that was over, 1 MB on lines as 60 MB of
/// commands. No more is understood than may be under way, and all of it is answered.
#[test]
fn what_was_said_meanwhile_is_understood_little_by_little() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    let mut socket = TcpStream::connect(address).unwrap();
    let before = script("BLPOP none 0.5\nHELLO 2 SETNAME x");
    let lines = "PING\r\n".repeat(170_000) + "QUIT\r\n";
    let bytes = [&before, lines.as_bytes()].concat();
    socket.write_all(&bytes).unwrap();
    let mut heard = Vec::new();
    socket.read_to_end(&mut heard).unwrap();
    let answers = "+PONG\r\n".repeat(170_000) + "+OK\r\n";
    assert!(heard.starts_with(b"*-1\r\n") && heard.ends_with(answers.as_bytes()));
    proxy.stop();
}

/// The time that the server has to answer after a client has gone was counted from when something last moved: what it had
/// done was recorded as lost for a client that had stalled before, and what stood before a refused command was dropped.
#[test]
fn the_server_has_its_time_from_the_end_of_the_client_on() {
    let redis = Redis::start(&[]);
    let big = command(&["SET", "big", &"v".repeat(32 << 20)]);
    talk(redis.address(), &big, usize::MAX);
    let stall = Duration::from_millis(900);
    for idle_timeout in [None, Some(Duration::from_millis(600))] {
        let (proxy, address, recorder) = start(&ProxyConfig {
            answer_timeout: Duration::from_millis(300),
            idle_timeout,
            ..config(&redis)
        });
        for half in [false, true] {
            recorder.seen.lock().unwrap().clear();
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(&script("GET big\nSET user:1 x")).unwrap();
            std::thread::sleep(stall);
            let kept = if half {
                let _closed = socket.shutdown(std::net::Shutdown::Write);
                Some(socket)
            } else {
                drop(socket);
                None
            };
            let begun = Instant::now();
            while recorder.entries().len() < 2 && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
            let expected = ["default read big ok", "default update user:1 ok"];
            assert_eq!(
                told(&recorder.entries()),
                expected,
                "{half} {idle_timeout:?}"
            );
            drop(kept);
        }
        recorder.seen.lock().unwrap().clear();
        if idle_timeout.is_none() {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(&script("PING")).unwrap();
            socket.read_exact(&mut [0; 7]).unwrap();
            std::thread::sleep(stall);
            socket.write_all(&script("SET user:2 x\nSYNC")).unwrap();
            let mut heard = Vec::new();
            let _reset = socket.read_to_end(&mut heard);
            assert!(heard.starts_with(b"+OK\r\n-"), "{heard:?}");
            assert!(told(&recorder.entries()).contains(&"default update user:2 ok".to_owned()));
        }
        proxy.stop();
    }
}

/// A client that read no replies kept its own acts out of the log: the server had done what stood behind a long reply, and
/// the entry came when the client read on, at its leisure and with that time. It is let go after a while in all, and what
/// the server has done is recorded. A client that reads slowly what nothing waits behind is served.
#[test]
fn who_reads_no_replies_keeps_no_entry_away() {
    let redis = Redis::start(&[]);
    let big = command(&["SET", "big", &"v".repeat(32 << 20)]);
    talk(redis.address(), &big, usize::MAX);
    let (proxy, address, recorder) = start(&ProxyConfig {
        reading_timeout: Duration::from_millis(700),
        // The server has this time from then on, and not since something moved before.
        answer_timeout: Duration::from_millis(300),
        ..config(&redis)
    });
    for reads in [false, true] {
        recorder.seen.lock().unwrap().clear();
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .write_all(&script("GET big\nSET user:1 x\nMULTI\nDEL user:1\nEXEC"))
            .unwrap();
        let begun = Instant::now();
        while recorder.entries().len() < 3 && begun.elapsed() < PATIENCE {
            let slowly = Duration::from_millis(5);
            std::thread::sleep(slowly);
            if reads {
                socket.read_exact(&mut [0; 2000]).unwrap();
            }
        }
        let expected = [
            "default read big ok",
            "default update user:1 ok",
            "default delete user:1 ok",
        ];
        assert_eq!(told(&recorder.entries()), expected, "{reads}");
        let mut heard = Vec::new();
        let _reset = socket.read_to_end(&mut heard);
        assert!(heard.len() < 32 << 20);
    }
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script("GET big")).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    socket.read_exact(&mut vec![0; 32 << 20]).unwrap();
    socket.read_exact(&mut [0; 13]).unwrap();
    socket.write_all(&script("PING")).unwrap();
    socket.read_exact(&mut [0; 7]).unwrap();
    proxy.stop();
}
