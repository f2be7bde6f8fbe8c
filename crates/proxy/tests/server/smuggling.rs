//! Nothing reaches the server that is not understood and recorded.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use probity_proxy::{Backend, ProxyConfig, Upstream};

use crate::support::{Kind, Redis, command, config, script, start, talk, talk_only, wait};

/// Behind an inline line that was too long for the proxy and not for the server, commands went through
/// without entries (proxy 1). Of every length around the bound, what is answered is recorded.
#[test]
fn what_follows_a_long_line_is_recorded_or_not_done() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for length in [
        65_000, 65_525, 65_532, 65_535, 65_536, 70_000, 81_000, 300_000,
    ] {
        talk(redis.address(), &script("SET user:7 topsecret"), usize::MAX);
        recorder.seen.lock().unwrap().clear();
        let mut bytes = b"PING ".to_vec();
        bytes.resize(bytes.len() + length, b'y');
        bytes.extend_from_slice(b"\r\nGET user:7\r\nDEL user:7\r\nQUIT\r\n");
        for piece in [usize::MAX, 4096] {
            let heard = talk_only(address, &bytes, piece);
            let heard = String::from_utf8_lossy(&heard);
            let recorded = recorder.entries();
            let read = recorded.iter().any(|seen| seen.action == "read");
            assert!(read || !heard.contains("topsecret"), "{length}");
            let there = talk(redis.address(), &script("EXISTS user:7"), usize::MAX);
            let deleted = recorded.iter().any(|seen| seen.action == "delete");
            assert!(deleted || there.starts_with(b":1"), "{length}");
            if length >= 70_000 {
                assert!(heard.starts_with("-ERR Protocol error: too big inline request"));
            }
        }
    }
    proxy.stop();
}

/// Redis looks for the end of a line up to a zero byte only, so the proxy recorded what never ran and
/// waited for a reply that never came (proxy 30). Such a line is refused, and nothing of it goes on.
#[test]
fn a_line_with_a_zero_byte_is_refused() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let heard = talk_only(address, b"GET user:1\0\r\nGET user:2\r\n", usize::MAX);
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "-ERR Protocol error: zero byte in inline request\r\n"
    );
    assert_eq!(recorder.entries().len(), 0);
    proxy.stop();
}

/// Words on a line go on as a list of lengths and bytes, so that no server takes them apart differently.
/// Every word arrives as the client meant it, whatever it holds.
#[test]
fn lines_arrive_as_they_were_meant() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes =
        b"set user:1 \"a\\r\\n*1\\r\\n$8\\r\\nFLUSHALL\\r\\n\\x00\"\nget 'user:1'\r\nQUIT\r\n";
    let through = talk_only(address, bytes, 3);
    assert_eq!(through, talk_only(redis.address(), bytes, usize::MAX));
    assert_eq!(recorder.entries().len(), 2);
    proxy.stop();
}

/// A word ended at a vertical tab or a form feed, at which it goes on for Redis: other keys were
/// deleted than the client had named.
#[test]
fn words_end_where_they_end_for_the_server() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for space in ["\x0b", "\x0c"] {
        let text = format!(
            "MSET user:1 x user:2 y\r\nDEL user:1{space}user:2\r\nMGET user:1 user:2\r\n\
             APPEND{space}user:1 x\r\n{space}GET user:1\r\nGET {space} user:2\r\nSET \"user:1\"{space}z\r\nQUIT\r\n"
        );
        let through = talk_only(address, text.as_bytes(), 8);
        let direct = talk_only(redis.address(), text.as_bytes(), usize::MAX);
        assert_eq!(
            String::from_utf8_lossy(&through),
            String::from_utf8_lossy(&direct)
        );
        let entries = recorder.entries();
        let named = format!("user:1{space}user:2");
        assert!(entries.iter().any(|it| it.key == named), "{entries:?}");
    }
    proxy.stop();
}

/// A client that breaks off within a value must leave nothing behind, at any length. The value streams,
/// the end of the command does not go before the command is understood.
#[test]
fn half_a_command_never_runs() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let value = "v".repeat(3 << 20);
    let whole = command(&["SET", "user:1:half", &value]);
    for length in [
        20,
        60,
        1000,
        300 << 10,
        1 << 20,
        whole.len() - 2,
        whole.len() - 1,
    ] {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(whole.get(..length).unwrap()).unwrap();
        wait(30);
        drop(socket);
    }
    wait(100);
    let there = talk(redis.address(), &script("EXISTS user:1:half"), usize::MAX);
    assert!(there.starts_with(b":0"));
    assert_eq!(recorder.entries().len(), 0);
    proxy.stop();
}

/// After a refused HELLO the proxy asks who is logged in. The question went between the parts of a long value behind the HELLO: the
/// server took it for a part of the value, and the end of the value for commands without an entry. A long command begins to go once
/// nothing is left to ask.
#[test]
fn a_question_of_the_proxy_never_lands_in_a_value() {
    for kind in [Kind::Redis7, Kind::Valkey, Kind::Redis6] {
        let redis = Redis::start_of(kind, &[]);
        let (proxy, address, recorder) = start(&config(&redis));
        for (length, parts) in [(262_144, 2), (600 << 10, 7), (3 << 20, 5)] {
            talk(
                redis.address(),
                &script("SET user:victim x\nSET user:w admin"),
                usize::MAX,
            );
            recorder.seen.lock().unwrap().clear();
            let mut value = "v".repeat(length);
            let end = "\r\nGETDEL user:victim\r\nGET user:secret          \r\n       ";
            value.replace_range(length - end.len().., end);
            let first = script("BLPOP nothing 0.3\nHELLO 2 AUTH nobody wrong SETNAME eve");
            let said = [first, command(&["GETSET", "user:w", &value])].concat();
            let mut socket = TcpStream::connect(address).unwrap();
            for part in said.chunks(said.len() / parts) {
                socket.write_all(part).unwrap();
                wait(200);
            }
            socket.write_all(&script("SET user:x 1\nQUIT")).unwrap();
            let mut heard = Vec::new();
            socket.read_to_end(&mut heard).unwrap();
            let heard = String::from_utf8_lossy(&heard);
            assert!(heard.ends_with("$5\r\nadmin\r\n+OK\r\n+OK\r\n"), "{heard}");
            let there = talk(
                redis.address(),
                &script("STRLEN user:w\nEXISTS user:victim"),
                9,
            );
            assert!(there.starts_with(format!(":{length}\r\n:1").as_bytes()));
            let entries = recorder.entries();
            let told: Vec<_> = entries
                .iter()
                .map(|it| (&*it.action, &*it.key, &*it.actor, it.outcome.as_str()))
                .collect();
            let expected = [
                ("delete", "nothing", "default", "absent"),
                ("authenticate", "", "nobody", "denied"),
                ("update", "user:w", "default", "ok"),
                ("update", "user:x", "default", "ok"),
            ];
            assert_eq!(told, expected, "{kind:?} {length}");
        }
        proxy.stop();
    }
}

/// The database that is owed after a login was chosen in the middle of a long value behind it, and the client waited without an end.
#[test]
fn a_database_that_is_owed_is_chosen_before_a_long_value() {
    let redis = Redis::start(&["--requirepass", "p"]);
    let url = format!("redis://:p@127.0.0.1:{}/3", redis.port());
    let config = ProxyConfig {
        backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
        ..config(&redis)
    };
    let (proxy, address, recorder) = start(&config);
    let value = "v".repeat(1 << 20);
    let said = [script("AUTH p"), command(&["SET", "user:1", &value])].concat();
    assert_eq!(talk(address, &said, usize::MAX), b"+OK\r\n+OK\r\n+OK\r\n");
    let there = talk(
        redis.address(),
        &script("AUTH p\nEXISTS user:1\nSELECT 3\nEXISTS user:1"),
        9,
    );
    assert_eq!(there, b"+OK\r\n:0\r\n+OK\r\n:1\r\n+OK\r\n");
    assert_eq!(recorder.entries().last().unwrap().key, "db3/user:1");
    proxy.stop();
}

/// A command whose name or keys are unknown does not begin to stream either, and one that changes the
/// connection never does. What is refused has left nothing on the server.
#[test]
fn what_changes_the_connection_does_not_stream() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    let long = "x".repeat(400 << 10);
    for words in [["CLIENT", "REPLY", &long], ["AUTH", "alice", &long]] {
        let mut socket = TcpStream::connect(address).unwrap();
        let _closed_early = socket.write_all(&command(&words));
        let mut heard = Vec::new();
        // The rest of what was said may be refused with a reset.
        let _reset = socket.read_to_end(&mut heard);
        let heard = String::from_utf8_lossy(&heard);
        assert!(
            heard.is_empty() || heard.starts_with("-ERR probity"),
            "{heard}"
        );
    }
    assert!(talk(address, &script("PING"), 64).starts_with(b"+PONG"));
    proxy.stop();
}

/// `HELLO 2` within a transaction of a subscribed RESP3 client made the server put a message to the client itself between the
/// results of EXEC, so that each was taken for the next command's: a refused login became `ok`, and what was given `absent`.
/// A version within a transaction does not pass, whether the subscription before it is answered yet or not.
#[test]
fn no_message_slips_between_the_results_of_a_transaction() {
    let redis = Redis::start(&["--user bob on >pw ~* +@all &*"]);
    talk(redis.address(), &script("SET user:1 SECRET"), usize::MAX);
    for pieces in [usize::MAX, 16] {
        let (proxy, address, recorder) = start(&config(&redis));
        let attack = script(
            "HELLO 3\nSUBSCRIBE c1\nMULTI\nHELLO 2\nPUBLISH c1 m\nAUTH bob wrong\nGET user:no\nGET user:1\nDEL user:1\nEXEC",
        );
        let heard = talk_only(address, &attack, pieces);
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.contains("inside MULTI do not pass"), "{heard}");
        assert!(!heard.contains("SECRET"), "{heard}");
        wait(200);
        let entries = recorder.entries();
        assert!(!entries.iter().any(|seen| seen.outcome.as_str() == "absent"));
        assert!(!entries.iter().any(|seen| seen.submitter == "bob"));
        proxy.stop();
    }
    let there = talk(redis.address(), &script("EXISTS user:1"), usize::MAX);
    assert!(there.starts_with(b":1"));
}
