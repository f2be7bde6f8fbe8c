//! Bounds are of bytes, waiting ends, and places are given back.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use probity_format::Timestamp;
use probity_policy::Policy;
use probity_proxy::audit::EntryBatch;
use probity_proxy::command::Table;
use probity_proxy::resp::Limits;
use probity_proxy::session::{Next, Session};
use probity_proxy::{Proxy, ProxyConfig, ProxyError};

use crate::scripted::before;
use crate::support::{Recorder, Redis, Source, command, config, script, start, talk, told, wait};

/// A transaction of 70,000 commands was read no further, without a word (proxy 17). Its size in bytes
/// counts, and it works.
#[test]
fn a_large_transaction_works() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut bytes = script("MULTI");
    for number in 0..70_000 {
        bytes.extend(command(&["SET", &format!("user:{number}"), "x"]));
    }
    bytes.extend(script("EXEC\nGET user:1"));
    let heard = talk(address, &bytes, usize::MAX);
    assert!(heard.ends_with(b"+OK\r\n$1\r\nx\r\n+OK\r\n"));
    assert_eq!(recorder.entries().len(), 70_001);
    proxy.stop();
}

/// A client whose transaction is too large to be remembered is told, and nothing of it is done. It
/// never hangs.
#[test]
fn a_transaction_beyond_the_bound_is_refused() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let key = format!("user:{}", "k".repeat(60_000));
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script("MULTI")).unwrap();
    let touch = command(&["TOUCH", &key]);
    for _ in 0..1200 {
        if socket.write_all(&touch).is_err() {
            break;
        }
    }
    let mut heard = Vec::new();
    let _reset = socket.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard);
    assert!(
        heard.contains("a transaction may hold commands of 64 MiB"),
        "{}",
        heard.len()
    );
    wait(300);
    let entries = recorder.entries();
    assert!(entries.len() > 1000 && entries.iter().all(|seen| seen.outcome.as_str() == "failed"));
    proxy.stop();
}

/// The bytes of a command whose long result passed before its end were never given back, so that a
/// connection ended after some thousands of such transactions.
#[test]
fn a_transaction_gives_back_the_bytes_of_a_long_result() {
    let policy = Arc::new(Policy::builtin());
    let mut batch = EntryBatch::new(Arc::clone(&policy), Timestamp::from_nanoseconds(0).unwrap());
    let mut session = Session::new(policy, 0);
    let keys: Vec<String> = (0..20)
        .map(|key| format!("{key}{}", "k".repeat(60_000)))
        .collect();
    let words = ["MGET"].into_iter().chain(keys.iter().map(String::as_str));
    let read = command(&words.collect::<Vec<_>>());
    let (begin, end) = (script("MULTI"), script("EXEC"));
    let mut results = b"+OK\r\n+QUEUED\r\n*1\r\n*20\r\n".to_vec();
    results.extend(command(&["x".repeat(300_000).as_str()]).split_off(4));
    results.extend(b"$-1\r\n".repeat(19));
    for _ in 0..80 {
        for bytes in [&begin, &read, &end] {
            let taken = session.take_commands(&Table::builtin(), bytes);
            assert_eq!(taken.next, Next::Continue);
        }
        for part in results.chunks(290_000) {
            let (mut at, mut out) = (0, Vec::new());
            while at < part.len() {
                at += session
                    .take_replies(&part[at..], &mut out, &mut batch)
                    .unwrap();
                while session.has_work() {
                    session.work(&mut batch);
                    batch.clear();
                }
            }
        }
    }
    assert!(!session.is_owed());
}

/// More arguments than a million closed the connection without a word (proxy 20). They pass, up to the bytes
/// that the keys may take.
#[test]
fn a_command_of_more_than_a_million_arguments_passes() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut bytes = b"*1100001\r\n$3\r\nDEL\r\n".to_vec();
    for number in 0..1_100_000 {
        bytes.extend_from_slice(format!("$7\r\n{number:07}\r\n").as_bytes());
    }
    let heard = talk(address, &bytes, usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), ":0\r\n+OK\r\n");
    assert_eq!(recorder.entries().len(), 1_100_000);
    proxy.stop();
}

/// A field of the server's INFO.
fn info(redis: &Redis, section: &str, field: &str) -> u64 {
    let text = talk(
        redis.address(),
        &script(&format!("INFO {section}")),
        usize::MAX,
    );
    let text = String::from_utf8_lossy(&text).into_owned();
    let (_, rest) = text.split_once(&format!("\r\n{field}:")).unwrap();
    rest.split('\r').next().unwrap().parse().unwrap()
}

/// A client that had said more than is read was never asked for a sign of life, so that the server held its
/// replies for ever. They are taken from the server, recorded, and its memory and its place are free again.
#[test]
fn the_server_holds_nothing_for_a_reader_that_has_left() {
    const REPLIES: usize = 20;
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let value = "v".repeat(1 << 20);
    talk(
        redis.address(),
        &command(&["SET", "user:1:big", &value]),
        usize::MAX,
    );
    // Each worker asks its own questions on a connection that stays.
    for _ in 0..2 {
        talk(address, &script("PING"), usize::MAX);
    }
    let clients = info(&redis, "clients", "connected_clients");
    let sockets: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut socket = TcpStream::connect(address).unwrap();
            let patience = Some(Duration::from_millis(500));
            socket.set_write_timeout(patience).unwrap();
            let read = command(&["GET", "user:1:big"]).repeat(REPLIES);
            let more = command(&["ECHO", &"x".repeat(200)]).repeat(60_000);
            let _full = socket.write_all(&[read, more].concat());
            socket
        })
        .collect();
    // The server counts what its clients hold ten times a second.
    let held = (0..100).any(|_| {
        wait(50);
        info(&redis, "memory", "mem_clients_normal") > 20 << 20
    });
    assert!(held, "{}", info(&redis, "memory", "mem_clients_normal"));
    drop(sockets);
    let free = (0..200).any(|_| {
        wait(50);
        info(&redis, "clients", "connected_clients") <= clients
            && info(&redis, "memory", "mem_clients_normal") < 4 << 20
    });
    let listed = talk(redis.address(), &script("CLIENT LIST"), usize::MAX);
    let listed = String::from_utf8_lossy(&listed);
    assert!(free, "{clients} connections before, now:\n{listed}");
    let read = told(&recorder.wait_for(4 * REPLIES));
    assert_eq!(read, vec!["default read user:1:big ok"; 4 * REPLIES]);
    proxy.stop();
}

/// A connection of a client that has got a place, as soon as there is one.
fn served(address: SocketAddr) -> Option<TcpStream> {
    (0..150).find_map(|_| {
        let mut socket = TcpStream::connect(address).unwrap();
        let _refused = socket.write_all(&script("PING"));
        let mut reply = [0; 7];
        let heard = socket.read_exact(&mut reply).is_ok() && &reply == b"+PONG\r\n";
        if !heard {
            wait(100);
        }
        heard.then_some(socket)
    })
}

/// A client that was refused while another command blocked, and one that had said more than is read, kept
/// their places for ever (proxy 9). So did one whose end lay behind more bytes than the socket takes: round 2.
/// All are given back, and so is their connection to the server.
#[test]
fn places_of_clients_that_have_gone_are_free_again() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        clients_max: 4,
        ..config(&redis)
    });
    for (round, echoes) in [0, 18_000, 60_000].into_iter().enumerate() {
        let mut sockets = Vec::new();
        for _ in 0..4 {
            let mut socket = served(address).expect("a place");
            socket.write_all(&script("BLPOP user:1:never 0")).unwrap();
            if round == 0 {
                socket.write_all(&script("SYNC")).unwrap();
            } else {
                let ping = command(&["ECHO", &"x".repeat(200)]);
                socket
                    .set_write_timeout(Some(Duration::from_millis(300)))
                    .unwrap();
                let _full = socket.write_all(&ping.repeat(echoes));
            }
            sockets.push(socket);
        }
        drop(sockets);
        assert!(served(address).is_some(), "round {round}");
    }
    let all_lost = (0..50).any(|_| {
        wait(100);
        let told = told(&recorder.entries());
        let lost = told
            .iter()
            .filter(|told| told.contains("user:1:never failed"));
        lost.count() == 12
    });
    assert!(all_lost, "{:#?}", told(&recorder.entries()));
    wait(200);
    let listed = talk(redis.address(), &script("CLIENT LIST"), usize::MAX);
    let listed = String::from_utf8_lossy(&listed);
    assert_eq!(listed.matches("cmd=blpop").count(), 0, "{listed}");
    proxy.stop();
}

/// A client that goes on behind a command that blocks is read up to a bound and then refused, so that its place is free.
/// What stood behind that command is not done. One that says less waits for as long as it likes.
#[test]
fn what_waits_behind_a_command_that_blocks_is_bounded_in_time() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&ProxyConfig {
        answer_timeout: Duration::from_millis(700),
        ..config(&redis)
    });
    let mut patient = TcpStream::connect(address).unwrap();
    let little = command(&["SET", "user:1:patient", "x"]).repeat(2000);
    let said = [script("BLPOP user:1:list 0"), little].concat();
    patient.write_all(&said).unwrap();
    let mut crowd = TcpStream::connect(address).unwrap();
    crowd
        .set_write_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let much = command(&["SET", "user:2:crowd", &"x".repeat(200)]).repeat(60_000);
    let _full = crowd.write_all(&[script("BLPOP user:2:never 0"), much].concat());
    let ended = (0..100).any(|_| {
        wait(50);
        told(&recorder.entries())
            .iter()
            .any(|told| told.contains("user:2:never failed"))
    });
    assert!(ended);
    let exists = talk(redis.address(), &script("EXISTS user:2:crowd"), usize::MAX);
    assert!(exists.starts_with(b":0\r\n"));
    talk(redis.address(), &script("RPUSH user:1:list x"), usize::MAX);
    let mut reply = vec![0; 29 + 2000 * 5];
    patient.read_exact(&mut reply).unwrap();
    assert!(reply.starts_with(b"*2\r\n") && reply.ends_with(b"+OK\r\n+OK\r\n"));
    proxy.stop();
}

/// Replies that a server may send ended the connection: deep nesting, a script's big number, a long
/// status. The proxy is no stricter than the server.
#[test]
fn replies_pass_as_the_server_sends_them() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    let deep = "local t = {} for i = 1, 150 do t = {t} end return t";
    let number = "redis.setresp(3) return {big_number='123\\r\\n123'}";
    let status = "return {ok=string.rep('s', 3000000)}";
    for hello in ["2", "3"] {
        let bytes: Vec<u8> = [deep, number, status]
            .into_iter()
            .flat_map(|text| command(&["EVAL", text, "0"]))
            .collect();
        let bytes = [script(&format!("HELLO {hello}\nECHO begin")), bytes].concat();
        let end = |bytes: Vec<u8>| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.split_once("begin").unwrap().1.to_owned()
        };
        let direct = end(talk(redis.address(), &bytes, usize::MAX));
        let through = end(talk(address, &bytes, usize::MAX));
        assert!(
            direct == through && direct.len() > 3_000_000,
            "{}",
            through.len()
        );
    }
    proxy.stop();
}

fn nested() -> Vec<u8> {
    [b"*1\r\n".repeat(65_000), b":1\r\n".to_vec()].concat()
}

/// A server that answered the proxy's own question with 65,000 levels of arrays ended the process, and every client of it, by a stack
/// that overflowed. Such an answer is none, whatever was asked.
#[test]
fn a_nested_answer_to_the_proxy_itself_is_none() {
    let (proxy, address, recorder) = start(&before(|asked| match asked {
        "TIME" => nested(),
        _ if asked.starts_with("EXPIREAT") => b":1\r\n".to_vec(),
        _ => Vec::new(),
    }));
    let heard = talk(address, &script("EXPIREAT user:1 1700000000"), usize::MAX);
    assert!(heard.starts_with(b":1\r\n"));
    let entry = recorder.wait_for(1).pop().unwrap();
    assert!(entry.payload.contains("\"erased\":\"perhaps\""));
    proxy.stop();
    let answers: [fn(&str) -> Vec<u8>; 2] = [
        |asked| {
            if asked == "INFO SERVER" {
                nested()
            } else {
                Vec::new()
            }
        },
        |asked| {
            if asked == "COMMAND" {
                nested()
            } else {
                Vec::new()
            }
        },
    ];
    for answer in answers {
        let source = Arc::new(Source(Arc::new(Recorder::default())));
        let error = Proxy::start(&before(answer), &source).unwrap_err();
        assert!(matches!(error, ProxyError::Upstream { .. }), "{error}");
    }
}

/// Of an answer to the proxy's own question all was kept, however long it was: a server, or what a client had it repeat, filled the
/// memory of the process. An answer beyond the bound is none.
#[test]
fn an_answer_to_the_proxy_itself_is_bounded_in_bytes() {
    let answer: fn(&str) -> Vec<u8> = |asked| {
        if asked != "INFO SERVER" {
            return Vec::new();
        }
        let length = Limits::COMMAND_BYTES_KEPT_MAX;
        [format!("${length}\r\n").as_bytes(), &vec![b'x'; length]].concat()
    };
    let source = Arc::new(Source(Arc::new(Recorder::default())));
    let error = Proxy::start(&before(answer), &source).unwrap_err();
    let ProxyError::Upstream { source, .. } = error else {
        unreachable!("{error}");
    };
    assert_eq!(
        source.to_string(),
        "it answers with more than 67108864 bytes"
    );
}
