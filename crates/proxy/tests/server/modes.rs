//! Commands that change a connection, and commands that wait: the same through the proxy as without
//! it, and recorded.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_format::Outcome;

use crate::support::{Recorder, Redis, Seen, command, config, script, start, talk, wait};
use crate::transparency::without_id;

/// A client that says something and looks at what it has been told so far.
struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(10));
        socket.set_read_timeout(patience).unwrap();
        Self(socket)
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Reads until what has come ends with `end`.
    fn hear(&mut self, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            let mut byte = [0];
            let count = self.0.read(&mut byte).unwrap_or_else(|error| {
                panic!("{error} after {:?}", String::from_utf8_lossy(&heard))
            });
            assert_eq!(count, 1, "closed: {:?}", String::from_utf8_lossy(&heard));
            heard.push(byte[0]);
        }
        String::from_utf8(heard).unwrap()
    }

    fn ask(&mut self, line: &str, end: &str) -> String {
        self.say(&script(line));
        self.hear(end)
    }
}

fn brief(seen: &[Seen]) -> Vec<String> {
    let brief = |seen: &Seen| {
        format!(
            "{} {} {}",
            seen.action,
            seen.key,
            format!("{:?}", seen.outcome).to_lowercase()
        )
    };
    seen.iter().map(brief).collect()
}

/// Says the script without and with the proxy, each on an empty server; what was recorded.
fn same(redis: &Redis, address: SocketAddr, recorder: &Recorder, bytes: &[u8]) -> Vec<String> {
    for piece in [usize::MAX, 1, 5] {
        talk(redis.address(), &script("FLUSHALL"), usize::MAX);
        let direct = talk(redis.address(), bytes, piece);
        talk(redis.address(), &script("FLUSHALL"), usize::MAX);
        recorder.seen.lock().unwrap().clear();
        let through = talk(address, bytes, piece);
        assert_eq!(without_id(&through), without_id(&direct));
    }
    brief(&recorder.entries())
}

#[test]
fn select_within_a_transaction_moves_what_follows_it() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = script(
        "SET a 1\nMULTI\nSET b 1\nSELECT 3\nSET c 1\nEXEC\nSET d 1\nMULTI\nSELECT 4\nDISCARD\nSET e 1",
    );
    assert_eq!(
        same(&redis, address, &recorder, &bytes),
        [
            "update a ok",
            "update b ok",
            "update db3/c ok",
            "update db3/d ok",
            "update db3/e ok"
        ]
    );
    proxy.stop();
}

#[test]
fn a_transaction_that_a_watched_key_aborts_is_recorded_as_aborted() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for (hello, aborted) in [("HELLO 2", "*-1\r\n"), ("HELLO 3", "_\r\n")] {
        recorder.seen.lock().unwrap().clear();
        let mut client = Client::connect(address);
        client.say(&script(hello));
        client.ask("ECHO begin", "begin\r\n");
        client.ask("WATCH user:1:a", "OK\r\n");
        talk(redis.address(), &script("SET user:1:a 2"), usize::MAX);
        client.ask("MULTI", "OK\r\n");
        client.ask("SET user:1:a 3", "QUEUED\r\n");
        client.ask("GET user:2:b", "QUEUED\r\n");
        client.ask("EXEC", aborted);
        client.ask("GET user:1:a", "2\r\n");
        let entries = recorder.wait_for(4);
        assert_eq!(
            brief(&entries),
            [
                "look user:1:a ok",
                "update user:1:a failed",
                "read user:2:b failed",
                "read user:1:a ok"
            ]
        );
        let aborted = entries
            .iter()
            .filter(|seen| seen.payload.contains("\"exec\":\"aborted\""));
        assert_eq!(aborted.count(), 2);
    }
    proxy.stop();
}

#[test]
fn a_queue_that_is_never_executed_is_recorded_as_aborted() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut client = Client::connect(address);
    client.ask("MULTI", "OK\r\n");
    client.ask("SET user:1:a 1", "QUEUED\r\n");
    drop(client);
    let entries = recorder.wait_for(1);
    assert_eq!(brief(&entries), ["update user:1:a failed"]);
    assert!(entries[0].payload.contains("\"exec\":\"aborted\""));
    proxy.stop();
}

#[test]
fn blocking_commands_wait_for_what_others_do() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let cases = [
        ("BLPOP user:1:q user:2:q 0", "RPUSH user:2:q x", "x\r\n"),
        (
            "BLMOVE user:1:q user:3:q LEFT RIGHT 0",
            "RPUSH user:1:q y",
            "y\r\n",
        ),
        ("BZPOPMIN user:1:z 0", "ZADD user:1:z 1 m", "$1\r\n1\r\n"),
        (
            "XREADGROUP GROUP g c BLOCK 0 STREAMS user:1:s >",
            "XADD user:1:s 9-1 f value",
            "value\r\n",
        ),
        (
            "XREAD BLOCK 0 STREAMS user:1:s $",
            "XADD user:1:s 9-2 f other",
            "other\r\n",
        ),
    ];
    let group = "XGROUP CREATE user:1:s g $ MKSTREAM";
    talk(redis.address(), &script(group), usize::MAX);
    for (blocking, other, end) in cases {
        let mut client = Client::connect(address);
        client.say(&script(blocking));
        wait(50);
        talk(redis.address(), &script(other), usize::MAX);
        client.hear(end);
        client.ask("PING", "+PONG\r\n");
    }
    // In time nothing comes, and inside a transaction nothing waits.
    let mut client = Client::connect(address);
    client.ask("BLPOP user:1:none 0.05", "*-1\r\n");
    client.ask(
        "XREADGROUP GROUP g c BLOCK 20 STREAMS user:1:s >",
        "other\r\n",
    );
    client.ask(
        "XREADGROUP GROUP g c BLOCK 20 STREAMS user:1:s >",
        "*-1\r\n",
    );
    client.say(&script("MULTI\nBLPOP user:1:none 0\nEXEC"));
    client.hear("QUEUED\r\n*1\r\n*-1\r\n");
    let entries = recorder.wait_for(13);
    let seen = brief(&entries);
    assert_eq!(seen[..2], ["delete user:1:q absent", "delete user:2:q ok"]);
    assert_eq!(seen[2..4], ["delete user:1:q ok", "update user:3:q ok"]);
    assert_eq!(seen[4], "delete user:1:z ok");
    assert_eq!(seen[5..7], ["update user:1:s ok", "read user:1:s ok"]);
    assert_eq!(
        seen[7..],
        [
            "delete user:1:none absent",
            "update user:1:s ok",
            "update user:1:s absent",
            "delete user:1:none absent"
        ]
    );
    proxy.stop();
}

#[test]
fn channels_of_every_kind_are_recorded_and_messages_pass() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for hello in ["HELLO 2", "HELLO 3"] {
        recorder.seen.lock().unwrap().clear();
        let mut client = Client::connect(address);
        client.say(&script(hello));
        client.ask("ECHO begin", "begin\r\n");
        client.ask("SUBSCRIBE user:1:news other", "other\r\n:2\r\n");
        client.ask("PSUBSCRIBE user:*", "user:*\r\n:3\r\n");
        client.ask("SSUBSCRIBE shard", "shard\r\n:1\r\n");
        let published = talk(
            address,
            &script("PUBLISH user:1:news hello\nSPUBLISH shard cut"),
            usize::MAX,
        );
        assert_eq!(String::from_utf8_lossy(&published), ":2\r\n:1\r\n+OK\r\n");
        let heard = client.hear("cut\r\n");
        let heads: Vec<&str> = ["$7\r\nmessage", "$8\r\npmessage", "$8\r\nsmessage"]
            .into_iter()
            .filter(|head| heard.contains(head))
            .collect();
        assert_eq!(heads.len(), 3, "{heard:?}");
        client.ask("UNSUBSCRIBE", ":2\r\n");
        client.hear(":1\r\n");
        client.ask("PUNSUBSCRIBE user:*", ":0\r\n");
        client.ask("SUNSUBSCRIBE", ":0\r\n");
        client.ask(
            "GET user:1:a",
            if hello == "HELLO 3" {
                "_\r\n"
            } else {
                "$-1\r\n"
            },
        );
        assert_eq!(
            brief(&recorder.wait_for(7)),
            [
                "subscribe user:1:news ok",
                "subscribe other ok",
                "subscribe user:* ok",
                "subscribe shard ok",
                "publish user:1:news ok",
                "publish shard ok",
                "read user:1:a absent"
            ]
        );
    }
    proxy.stop();
}

/// Behind a RESET that was not answered yet everything was refused as after MONITOR. It waits for the answer.
#[test]
fn a_reset_ends_what_a_monitor_may_not() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut client = Client::connect(address);
    client.ask("MONITOR", "+OK\r\n");
    let heard = client.ask("RESET\nSET user:1 a\nGET user:1", "$1\r\na\r\n");
    assert!(heard.ends_with("+RESET\r\n+OK\r\n$1\r\na\r\n"), "{heard}");
    let entries = brief(&recorder.entries());
    assert_eq!(entries[1..], ["update user:1 ok", "read user:1 ok"]);
    proxy.stop();
}

#[test]
fn a_monitor_sees_what_it_sees_without_the_proxy_and_is_recorded() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for hello in ["HELLO 2", "HELLO 3"] {
        recorder.seen.lock().unwrap().clear();
        let mut client = Client::connect(address);
        client.say(&script(hello));
        client.ask("ECHO begin", "begin\r\n");
        client.ask("MONITOR", "+OK\r\n");
        talk(redis.address(), &script("SET user:9:x secret"), usize::MAX);
        let heard = client.hear("\"secret\"\r\n");
        assert!(heard.contains("\"SET\" \"user:9:x\" \"secret\""), "{heard}");
        client.say(&script("RESET"));
        client.hear("+RESET\r\n");
        client.ask("GET user:9:x", "secret\r\n");
        talk(redis.address(), &script("SET user:9:x secret"), usize::MAX);
        client.ask("ECHO quiet", "$5\r\nquiet\r\n");
        assert_eq!(
            brief(&recorder.wait_for(2)),
            ["administer  ok", "read user:9:x ok"]
        );
    }
    proxy.stop();
}

#[test]
fn a_login_in_the_middle_changes_the_actor_from_there_on() {
    let redis = Redis::start(&["--user", "al", "on", ">secret", "~*", "&*", "+@all"]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = script(
        "CLIENT SETNAME first\nGET a\nHELLO 3 AUTH al secret SETNAME second\nCLIENT GETNAME\nGET b\n\
         HELLO 3 SETNAME third\nGET c\nHELLO 2 AUTH al wrong SETNAME x\nGET d\nRESET\nGET e",
    );
    same(&redis, address, &recorder, &bytes);
    let entries = recorder.entries();
    let who: Vec<(&str, &str, bool)> = entries
        .iter()
        .map(|seen| (seen.key.as_str(), seen.actor.as_str(), seen.claimed.actor))
        .collect();
    assert_eq!(
        who,
        [
            ("a", "first", true),
            ("", "al", false),
            ("b", "al", false),
            ("c", "al", false),
            ("", "al", true),
            ("d", "al", false),
            ("e", "default", false)
        ]
    );
    assert_eq!(entries[4].outcome, Outcome::Denied);
    assert!(!format!("{entries:?}").contains("secret"));
    proxy.stop();
}

#[test]
fn silence_that_a_client_asks_for_hides_nothing_from_the_log() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = script(
        "SET a 1\nCLIENT REPLY SKIP\nSET b 1\nGET a\nCLIENT REPLY OFF\nDEL a\nSELECT 2\nSET c 1\n\
         CLIENT REPLY ON\nGET c\nCLIENT REPLY OFF\nMULTI\nSET d 1\nEXEC\nRESET\nGET b",
    );
    assert_eq!(
        same(&redis, address, &recorder, &bytes),
        [
            "update a ok",
            "update b ok",
            "read a ok",
            "delete a ok",
            "update db2/c ok",
            "read db2/c ok",
            "update db2/d ok",
            "read b ok"
        ]
    );
    // Every outcome is known: the server answers all, and only the client does not hear it.
    let entries = recorder.entries();
    let known = entries
        .iter()
        .all(|seen| !seen.payload.contains("\"reply\""));
    assert!(known, "{entries:?}");
    proxy.stop();
}

#[test]
fn keys_of_scripts_and_functions_are_recorded() {
    let redis = Redis::start(&[]);
    let library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return redis.call('SET', keys[1], args[1]) end)";
    let loaded = talk(
        redis.address(),
        &command(&["FUNCTION", "LOAD", library]),
        usize::MAX,
    );
    assert!(loaded.starts_with(b"$3\r\nlib"));
    let (proxy, address, recorder) = start(&config(&redis));
    let mut bytes = command(&[
        "EVAL",
        "return redis.call('GET', KEYS[1])",
        "2",
        "user:1:a",
        "user:2:b",
        "argument",
    ]);
    bytes.extend(script("FCALL f 1 user:3:c value\nEVAL return{1,KEYS[1]} 1 user:4:d\nEVALSHA 0000000000000000000000000000000000000000 1 user:5:e\nEVAL_RO return{1} 1 user:6:f\nEVAL return{1} 0\nEVAL return{1} 2 user:7:g"));
    assert_eq!(
        same(&redis, address, &recorder, &bytes),
        [
            "run  ok",
            "update user:1:a ok",
            "update user:2:b ok",
            "run  ok",
            "update user:3:c ok",
            "run  ok",
            "update user:4:d ok",
            "run  failed",
            "update user:5:e failed",
            "run  ok",
            "read user:6:f ok",
            "run  ok",
            "run  failed"
        ]
    );
    proxy.stop();
}

/// An entry names a script of `EVAL` by a digest that the proxy computes. It is the name that the
/// server gives the same script, whatever its length.
#[test]
fn a_script_is_recorded_by_the_name_that_the_server_gives_it() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for length in [0, 1, 40, 100] {
        let text = format!("return 'x{}'", "y".repeat(length));
        let load = command(&["SCRIPT", "LOAD", &text]);
        let heard = String::from_utf8(talk(address, &load, usize::MAX)).unwrap();
        let name = heard.split("\r\n").nth(1).unwrap().to_owned();
        assert_eq!(name.len(), 40, "{heard}");
        talk(address, &command(&["EVAL", &text, "0"]), usize::MAX);
        let entries = recorder.entries();
        let said = format!("\"script\":\"{name}\"");
        let named = entries.iter().filter(|it| it.payload.contains(&said));
        assert_eq!(named.count(), 2, "{said}");
    }
    proxy.stop();
}

#[test]
fn commands_in_lines_are_recorded_like_others() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = b"SET user:1:a 'x y'\r\n\r\nget \"user:1:\\x61\"\r\n*2\r\n$3\r\nGET\r\n$8\r\nuser:2:b\r\nMGET user:1:a user:3:c\n";
    assert_eq!(
        same(&redis, address, &recorder, bytes),
        [
            "update user:1:a ok",
            "read user:1:a ok",
            "read user:2:b absent",
            "read user:1:a ok",
            "read user:3:c absent"
        ]
    );
    proxy.stop();
}
