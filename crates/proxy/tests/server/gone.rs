//! Clients and servers that go away or say nothing: what was forwarded is recorded in bounded time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use probity_format::Outcome;
use probity_proxy::{Backend, Proxy, ProxyConfig, ProxyError, Upstream};

use crate::support::{Recorder, Redis, Source, command, config, script, start, talk, wait};

const SHORT: Duration = Duration::from_millis(300);

/// Sends `bytes` and goes away without reading.
fn say_and_go(address: SocketAddr, bytes: &[u8]) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(bytes).unwrap();
    // The server begins before its client has gone.
    wait(20);
}

#[test]
fn what_a_client_left_unanswered_is_recorded_with_its_outcome() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let value = "v".repeat(1000);
    talk(
        redis.address(),
        &command(&["SET", "big", &value]),
        usize::MAX,
    );
    let bytes: Vec<u8> = (0..5_000)
        .flat_map(|_| [command(&["INCR", "n"]), command(&["GET", "big"])].concat())
        .collect();
    say_and_go(address, &bytes);
    let done: usize = loop {
        let before = recorder.entries().len();
        wait(300);
        if before > 0 && recorder.entries().len() == before {
            let reply = talk(redis.address(), &script("GET n"), usize::MAX);
            let reply = String::from_utf8(reply).unwrap();
            break reply.split("\r\n").nth(1).unwrap().parse().unwrap();
        }
    };
    assert!(done > 0);
    let entries = recorder.entries();
    let increments: Vec<_> = entries.iter().filter(|seen| seen.key == "n").collect();
    assert_eq!(increments.len(), done);
    assert!(entries.iter().all(|seen| seen.outcome == Outcome::Ok));
    proxy.stop();
}

#[test]
fn a_client_that_only_stops_speaking_hears_everything() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut socket = TcpStream::connect(address).unwrap();
    let bytes: Vec<u8> = (0..2_000).flat_map(|_| command(&["INCR", "n"])).collect();
    socket.write_all(&bytes).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    assert!(heard.ends_with("\r\n:2000\r\n"));
    assert_eq!(recorder.wait_for(2_000).len(), 2_000);
    proxy.stop();
}

#[test]
fn a_client_that_goes_while_it_blocks_takes_nothing_with_it() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    say_and_go(address, &command(&["BLPOP", "user:7:q", "0"]));
    let entries = recorder.wait_for(1);
    assert_eq!((entries.len(), entries[0].outcome), (1, Outcome::Failed));
    assert!(entries[0].payload.contains("\"reply\":\"lost\""));
    let left = talk(
        redis.address(),
        &script("RPUSH user:7:q x\nLLEN user:7:q"),
        usize::MAX,
    );
    assert_eq!(String::from_utf8_lossy(&left), ":1\r\n:1\r\n+OK\r\n");
    proxy.stop();
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_when_the_client_has_gone() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        answer_timeout: SHORT,
        ..config(&redis)
    });
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script("PING")).unwrap();
    socket.read_exact(&mut [0; 7]).unwrap();
    redis.pause();
    socket
        .write_all(&script("SELECT 3\nSET user:1:a x\nGET user:2:b"))
        .unwrap();
    drop(socket);
    let entries = recorder.wait_for(2);
    let seen: Vec<_> = entries
        .iter()
        .map(|seen| (seen.key.as_str(), seen.outcome))
        .collect();
    assert_eq!(
        seen,
        [("user:1:a", Outcome::Failed), ("user:2:b", Outcome::Failed)]
    );
    // Nobody saw whether the database was chosen: the entries say so and do not guess.
    assert!(
        entries
            .iter()
            .all(|seen| seen.payload.contains("\"perhaps_dbs\":[3]"))
    );
    assert!(
        entries
            .iter()
            .all(|seen| seen.payload.contains("\"reply\":\"lost\""))
    );
    redis.go_on();
    proxy.stop();
}

#[test]
fn what_has_no_answer_when_the_proxy_stops_or_a_client_idles_is_recorded_as_lost() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        stop_timeout: SHORT,
        ..config(&redis)
    });
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script("PING")).unwrap();
    socket.read_exact(&mut [0; 7]).unwrap();
    socket.write_all(&command(&["BLPOP", "a", "0"])).unwrap();
    wait(100);
    proxy.stop();
    assert_eq!(recorder.entries().len(), 1);
    assert!(recorder.entries()[0].payload.contains("\"reply\":\"lost\""));

    let (proxy, address, recorder) = start(&ProxyConfig {
        idle_timeout: Some(SHORT),
        ..config(&redis)
    });
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&command(&["BLPOP", "a", "0"])).unwrap();
    let mut heard = Vec::new();
    socket.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"");
    assert_eq!(recorder.wait_for(1).len(), 1);
    proxy.stop();
}

fn refusal(config: &ProxyConfig) -> String {
    let source = Arc::new(Source(Arc::new(Recorder::default())));
    let error = Proxy::start(config, &source).unwrap_err();
    let ProxyError::Upstream { place, source } = &error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains(place.as_str()));
    source.to_string()
}

#[test]
fn a_server_that_does_not_answer_in_time_is_said_so() {
    let redis = Redis::start(&["--requirepass", "secret"]);
    let upstream = |url: &str| Backend::Upstream(Upstream::parse(url).unwrap());
    let with = |url: String| ProxyConfig {
        connect_timeout: SHORT,
        answer_timeout: SHORT,
        backend: upstream(&url),
        ..config(&redis)
    };
    let port = redis.port();
    let good = with(format!("redis://:secret@127.0.0.1:{port}"));
    let (proxy, address, _) = start(&good);
    // The password is for the proxy's own questions; clients log in for themselves.
    let heard = talk(address, &script("GET a\nAUTH secret\nGET a"), 64);
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "-NOAUTH Authentication required.\r\n+OK\r\n$-1\r\n+OK\r\n"
    );
    assert_eq!(
        refusal(&with(format!("redis://:wrong@127.0.0.1:{port}"))),
        "it says: WRONGPASS invalid username-password pair or user is disabled."
    );
    assert_eq!(
        refusal(&with(format!("redis://127.0.0.1:{port}"))),
        "it says: NOAUTH Authentication required."
    );
    assert_eq!(
        refusal(&with(format!("redis://:secret@127.0.0.1:{port}/99"))),
        "it says: ERR DB index is out of range"
    );
    let chosen = with(format!("redis://:secret@127.0.0.1:{port}/3"));
    let (chosen, choosing, _) = start(&chosen);
    redis.pause();
    let late = "not connected and logged in within 300 ms";
    assert_eq!(refusal(&good), late);
    assert_eq!(
        refusal(&with(format!("redis://127.0.0.1:{port}"))),
        "no answer to INFO within 300 ms"
    );
    let mut socket = TcpStream::connect(choosing).unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    assert_eq!(
        heard,
        "-ERR probity: no connection to the server: not connected within 300 ms\r\n"
    );
    redis.go_on();
    assert_eq!(
        talk(choosing, &script("PING"), 64),
        b"-NOAUTH Authentication required.\r\n+OK\r\n"
    );
    proxy.stop();
    chosen.stop();
}

#[test]
fn a_question_that_the_server_does_not_answer_in_time_refuses_the_command() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        answer_timeout: SHORT,
        ..config(&redis)
    });
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script("PING")).unwrap();
    socket.read_exact(&mut [0; 7]).unwrap();
    redis.pause();
    // Its keys are known to the server alone.
    socket.write_all(&script("NOSUCH user:1:a")).unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    assert_eq!(
        heard,
        "-ERR probity: the server does not say now what this command is; nothing is done, try again\r\n"
    );
    redis.go_on();
    assert_eq!(recorder.entries().len(), 0);
    proxy.stop();
}
