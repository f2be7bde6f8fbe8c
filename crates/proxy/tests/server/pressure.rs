//! Too much of something, and a log that fails: bounded, said, and nothing unrecorded is shown.
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits};
use probity_proxy::{Backend, Listen, OnLogFailure, ProxyConfig, Upstream};

use crate::support::{Redis, command, config, script, start, talk, talk_only, wait};

const BIG_BYTES: usize = 64 << 20;

#[test]
fn a_log_that_fails_in_the_middle_of_a_reply_cuts_it_there() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let value = "v".repeat(BIG_BYTES);
    talk(
        redis.address(),
        &command(&["SET", "big", &value]),
        usize::MAX,
    );
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&command(&["GET", "big"])).unwrap();
    let mut beginning = vec![0; 400 << 10];
    socket.read_exact(&mut beginning).unwrap();
    recorder.failed.store(true, Ordering::SeqCst);
    let mut rest = Vec::new();
    // The connection may end with a reset: there are bytes of the server that nobody takes.
    let _cut = socket.read_to_end(&mut rest);
    assert!(beginning.len() + rest.len() < BIG_BYTES, "{}", rest.len());
    assert!(
        rest.iter().all(|byte| *byte == b'v'),
        "an error inside a value"
    );
    assert_eq!(recorder.entries().len(), 1);
    proxy.stop();
}

#[test]
fn once_the_log_has_failed_nothing_is_done_any_more() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut before = TcpStream::connect(address).unwrap();
    before.write_all(&script("SET a 1")).unwrap();
    before.read_exact(&mut [0; 5]).unwrap();
    recorder.failed.store(true, Ordering::SeqCst);
    let after = TcpStream::connect(address).unwrap();
    for mut socket in [before, after] {
        socket.write_all(&script("SET a 2\nPING")).unwrap();
        let mut heard = String::new();
        socket.read_to_string(&mut heard).unwrap();
        let refusal = "-ERR probity: the log does not take entries; nothing is done\r\n";
        assert_eq!(heard, refusal);
    }
    assert_eq!(
        talk(redis.address(), &script("GET a"), 64),
        b"$1\r\n1\r\n+OK\r\n"
    );
    proxy.stop();
}

#[test]
fn how_many_entries_a_full_log_did_not_take_is_counted() {
    let redis = Redis::start(&[]);
    for on_log_failure in [OnLogFailure::Refuse, OnLogFailure::Forward] {
        let (proxy, address, recorder) = start(&ProxyConfig {
            log_timeout: Duration::from_millis(100),
            on_log_failure,
            ..config(&redis)
        });
        recorder.full.store(true, Ordering::SeqCst);
        // Each on a connection, and both on one worker or one on each: the sum counts.
        for _ in 0..2 {
            let reply = talk(address, &script("SET a 1\nGET a\nPING"), usize::MAX);
            let refused = reply.starts_with(b"-ERR probity: the log does not take entries; the op");
            assert_eq!(refused, on_log_failure == OnLogFailure::Refuse);
        }
        recorder.full.store(false, Ordering::SeqCst);
        for _ in 0..2 {
            assert_eq!(talk(address, &script("GET a"), 64), b"$1\r\n1\r\n+OK\r\n");
        }
        proxy.stop();
        let said = recorder.missed.lock().unwrap().clone();
        assert!(said.iter().all(|(_, replies)| *replies == on_log_failure));
        let missed: u64 = said.iter().map(|(count, _)| count).sum();
        assert_eq!(missed, 4, "{said:?}");
    }
}

/// While the disk of a log stood still, what connections had to record when the proxy was stopped went with them, and nothing
/// counted it: the worker waited as long as a connection does and had begun before. What a connection is dropped with is counted.
#[test]
fn what_a_full_log_did_not_take_before_the_proxy_was_stopped_is_counted() {
    let redis = Redis::start(&[]);
    for on_log_failure in [OnLogFailure::Refuse, OnLogFailure::Forward] {
        let (proxy, address, recorder) = start(&ProxyConfig {
            log_timeout: Duration::from_millis(300),
            stop_timeout: Duration::from_millis(300),
            on_log_failure,
            ..config(&redis)
        });
        recorder.full.store(true, Ordering::SeqCst);
        let blocked: Vec<TcpStream> = (0..20)
            .map(|_| {
                let mut socket = TcpStream::connect(address).unwrap();
                socket.write_all(&script("BLPOP user:1:q 0")).unwrap();
                socket
            })
            .collect();
        wait(200);
        proxy.stop();
        drop(blocked);
        let said = recorder.missed.lock().unwrap().clone();
        let missed: u64 = said.iter().map(|(count, _)| count).sum();
        assert_eq!(missed, 20, "{on_log_failure:?} {said:?}");
    }
}

#[test]
fn clients_beyond_the_bound_are_told_so_and_a_place_that_is_free_again_is_given() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&ProxyConfig {
        clients_max: 3,
        ..config(&redis)
    });
    let mut clients: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(&script("PING")).unwrap();
            socket.read_exact(&mut [0; 7]).unwrap();
            socket
        })
        .collect();
    let mut heard = String::new();
    let mut fourth = TcpStream::connect(address).unwrap();
    fourth.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "-ERR max number of clients reached\r\n");
    drop(clients.pop());
    let served = (0..100).any(|_| {
        wait(20);
        let mut socket = TcpStream::connect(address).unwrap();
        let _refused = socket.write_all(&script("PING"));
        let mut reply = [0; 7];
        socket.read_exact(&mut reply).is_ok() && &reply == b"+PONG\r\n"
    });
    assert!(served);
    proxy.stop();
}

#[test]
fn a_server_with_too_many_clients_is_heard() {
    let redis = Redis::start(&["--maxclients", "2"]);
    let (proxy, address, _) = start(&config(&redis));
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let mut socket = TcpStream::connect(redis.address()).unwrap();
        socket.write_all(&script("PING")).unwrap();
        socket.read_exact(&mut [0; 7]).unwrap();
        clients.push(socket);
    }
    let mut heard = String::new();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.read_to_string(&mut heard).unwrap();
    let said = "no connection to the server: it says: ERR max number of clients reached";
    assert_eq!(heard, format!("-ERR probity: {said}\r\n"));
    proxy.stop();
}

#[test]
fn clients_that_hardly_speak_disturb_nobody() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let said = command(&["SET", "user:1:slow", "x"]);
    let (last, others) = said.split_last().unwrap();
    for byte in others {
        for mut socket in &slow {
            socket.write_all(&[*byte]).unwrap();
        }
        let reply = talk(address, &script("INCR n"), usize::MAX);
        assert!(reply.ends_with(b"+OK\r\n"));
    }
    assert_eq!(recorder.entries().len(), others.len());
    for mut socket in &slow {
        socket.write_all(&[*last]).unwrap();
        let mut reply = [0; 5];
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
    assert_eq!(recorder.entries().len(), others.len() + slow.len());
    proxy.stop();
}

#[test]
fn a_value_above_the_bound_has_the_servers_own_answer() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for bad in [
        &b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870913\r\n"[..],
        b"*2\r\n$3\r\nGET\r\n$99999999999999999999\r\n",
        b"*2147483648\r\n$4\r\nMGET\r\n",
    ] {
        let direct = talk_only(redis.address(), bad, usize::MAX);
        let through = talk_only(address, bad, usize::MAX);
        assert_eq!(
            String::from_utf8_lossy(&through),
            String::from_utf8_lossy(&direct)
        );
    }
    assert_eq!(recorder.entries().len(), 0);
    proxy.stop();
}

#[test]
fn unix_sockets_on_both_sides_carry_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (behind, front) = (folder.path().join("redis"), folder.path().join("proxy"));
    let redis = Redis::start(&["--unixsocket", behind.to_str().unwrap()]);
    let url = format!("unix:{}", behind.display());
    let (proxy, address, recorder) = start(&ProxyConfig {
        listen: vec![
            Listen::Tcp(([127, 0, 0, 1], 0).into()),
            Listen::Unix(front.clone()),
        ],
        backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
        ..config(&redis)
    });
    let said = script("SET user:1:a x\nGET user:1:a");
    let mut socket = std::os::unix::net::UnixStream::connect(&front).unwrap();
    socket.write_all(&said).unwrap();
    let mut reader = FrameReader::new(Limits::SERVER);
    let mut frames = Vec::new();
    while frames.len() < 2 {
        let mut buffer = [0; 64];
        let count = socket.read(&mut buffer).unwrap();
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let (taken, frame) = reader.read(rest).unwrap();
            rest = &rest[taken..];
            frames.extend(frame);
        }
    }
    assert_eq!(frames[1], Frame::Bulk(b"x".to_vec()));
    assert_eq!(
        talk(address, &said, usize::MAX),
        talk(redis.address(), &said, usize::MAX)
    );
    assert_eq!(recorder.entries().len(), 4);
    proxy.stop();
}
