//! The server's clock, and never the proxy's, decides whether a deadline in the past erased a key.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and looks at the clock"
)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use probity_proxy::{Backend, ProxyConfig, Upstream};

use crate::support::{Kind, Recorder, Redis, Seen, config, script, start, talk};

/// A clock that is wrong by as many seconds as `SKEW` says, to be loaded before the system's own.
const CLOCK: &str = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <sys/time.h>\n#include <time.h>\n\
    int gettimeofday(struct timeval *at, void *zone) {\n    struct timespec now;\n\
    clock_gettime(CLOCK_REALTIME, &now);\n    at->tv_sec = now.tv_sec + atol(getenv(\"SKEW\"));\n\
    at->tv_usec = now.tv_nsec / 1000;\n    return 0;\n}\n";

const HOUR: i64 = 3_600_000;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as i64
}

/// Starts a server whose clock is wrong by `hours`.
fn skewed(kind: Kind, hours: i64) -> Redis {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (
        folder.path().join("clock.c"),
        folder.path().join("clock.so"),
    );
    fs::write(&source, CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(compiler.arg(&source).status().unwrap().success());
    let skew = (hours * 3600).to_string();
    let library = library.to_str().unwrap();
    let users = "--user alice on >a ~* &* +@all -time --enable-debug-command yes";
    let users: Vec<&str> = match kind {
        Kind::Redis6 => users.split(' ').take(7).collect(),
        _ => users.split(' ').collect(),
    };
    Redis::start_in(kind, &users, &[("LD_PRELOAD", library), ("SKEW", &skew)])
}

/// Returns the server's own reply.
fn ask(address: SocketAddr, line: &str) -> String {
    String::from_utf8_lossy(&heard(address, line))
        .trim_end()
        .into()
}

fn heard(address: SocketAddr, line: &str) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).unwrap();
    socket.write_all(&script(line)).unwrap();
    let mut heard = [0; 4096];
    let count = socket.read(&mut heard).unwrap();
    heard[..count].to_vec()
}

/// The lines as bytes, with a dump of this server in its place.
fn with_dump(redis: &Redis, lines: &str) -> Vec<u8> {
    const PLACE: &[u8] = b"$6\r\n{dump}\r\n";
    let mut bytes = script(lines);
    let found = bytes.windows(PLACE.len()).position(|part| part == PLACE);
    if let Some(at) = found {
        ask(redis.address(), "SET dumped v");
        let dump = heard(redis.address(), "DUMP dumped");
        bytes.splice(at..at + PLACE.len(), dump);
    }
    bytes
}

fn says(entry: &Seen, word: &str) -> bool {
    entry.payload.contains(word)
}

/// Commands that give a key a deadline, in seconds or milliseconds, after those that make the key. What a server does not know
/// it refuses.
const LINES: [&str; 16] = [
    "SET k v\nEXPIREAT k {s}",
    "SET k v\nPEXPIREAT k {ms}",
    "SET k v EXAT {s}",
    "SET k v PXAT {ms}",
    "SET k v NX PXAT {ms}",
    "SET k v\nSET k w GET PXAT {ms}",
    "SET k v\nGETEX k EXAT {s}",
    "SET k v\nGETEX k PXAT {ms}",
    "HSET k f v\nHGETEX k PXAT {ms} FIELDS 1 f",
    "HSETEX k EXAT {s} FIELDS 1 f v",
    "MSETEX 1 k v PXAT {ms}",
    "SET k v EXAT 1 EXAT {s}",
    "SET k v PXAT 99999999999999 PXAT {ms}",
    "SET k v\nGETEX k EXAT 1 exat {s}",
    "RESTORE k {ms} {dump} ABSTTL",
    "SET k v\nRESTORE k {ms} {dump} REPLACE ABSTTL",
];

/// One line on a server whose clock is wrong, and what its last entry says against what the server then has.
fn judge(
    redis: &Redis,
    address: SocketAddr,
    recorder: &Recorder,
    line: &str,
    at: i64,
) -> [bool; 3] {
    let lines = line
        .replace("{ms}", &at.to_string())
        .replace("{s}", &(at / 1000).to_string());
    let mut seen = [false; 3];
    for around in ["{}", "MULTI\n{}\nEXEC", "HELLO 3\nGET other\n{}\nGET other"] {
        ask(redis.address(), "DEL k");
        recorder.seen.lock().unwrap().clear();
        let bytes = with_dump(redis, &around.replace("{}", &lines));
        let heard = talk(address, &bytes, usize::MAX);
        let there = ask(redis.address(), "EXISTS k") == ":1";
        let heard = String::from_utf8_lossy(&heard);
        assert!(!heard.contains("DUMP payload"), "{heard}");
        if heard.contains("-ERR unknown") {
            continue;
        }
        let entries = recorder.entries();
        let of_key = |seen: &&Seen| seen.key == "k";
        let last = entries.iter().rfind(of_key).expect("an entry");
        let open = says(last, "\"erased\":\"perhaps\"");
        let erased = last.action == "delete";
        let context = format!("{lines}: there {there}: {last:?}: {heard}");
        assert!(open || erased != there, "{context}");
        assert!(says(last, &format!("\"until\":{}", at / 1000)), "{context}");
        assert!(!open || last.action == "update", "{context}");
        seen[if open { 2 } else { usize::from(erased) }] = true;
    }
    seen
}

/// `SET EXAT` in the past erased what was there and was an update, and `EXPIREAT` was judged by the proxy's clock: before a server
/// whose clock is wrong, an erasure that was none. The server is asked for its time before and after.
#[test]
fn a_deadline_has_passed_when_the_clock_of_the_server_says_so() {
    for kind in [Kind::Redis7, Kind::Redis6, Kind::Valkey] {
        for hours in [-30, 0, 30] {
            let redis = skewed(kind, hours);
            let theirs = now() + hours * HOUR;
            let (proxy, address, recorder) = start(&config(&redis));
            for line in LINES {
                for hour in [-40, -20, -1, 1, 20, 40] {
                    let at = now() + hour * HOUR;
                    let [kept, erased, open] = judge(&redis, address, &recorder, line, at);
                    let context = format!("{kind:?} {hours} {line} {hour}");
                    let known = kept || erased || kind != Kind::Valkey;
                    assert!(known, "{context}: not tried");
                    assert!(!open, "{context}: the server had been asked");
                    assert!(!kept || at > theirs, "{context}");
                    assert!(!erased || at < theirs, "{context}");
                }
            }
            proxy.stop();
        }
    }
}

/// A deadline at the very time of the command may have passed or not: the entry may say both, and never the wrong one. Nobody can
/// say at all where the proxy may not ask for the time, but of times before 1970.
#[test]
fn where_nobody_can_tell_an_erasure_the_entry_says_both() {
    for kind in [Kind::Redis7, Kind::Valkey] {
        let redis = skewed(kind, 0);
        let (proxy, address, recorder) = start(&config(&redis));
        for round in 0..30 {
            let began = now();
            let at = began + round % 3;
            let lines = format!("SET k v\nPEXPIREAT k {at}");
            recorder.seen.lock().unwrap().clear();
            talk(address, &script(&lines), usize::MAX);
            let last = recorder.entries().pop().unwrap();
            match (last.action.as_str(), says(&last, "\"erased\":\"perhaps\"")) {
                ("delete", false) => assert!(at < now(), "{last:?}"),
                ("update", false) => assert!(at > began, "{last:?}"),
                (action, open) => assert!(open && action == "update", "{last:?}"),
            }
        }
        proxy.stop();
        let url = format!("redis://alice:a@127.0.0.1:{}", redis.port());
        let (proxy, address, recorder) = start(&ProxyConfig {
            backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
            ..config(&redis)
        });
        for at in [now() - HOUR, now() + HOUR] {
            let [kept, erased, open] = judge(&redis, address, &recorder, LINES[1], at);
            assert!(open && !kept && !erased, "{at}");
        }
        talk(address, &script("SET k v\nEXPIREAT k -1"), usize::MAX);
        assert_eq!(recorder.entries().pop().unwrap().action, "delete");
        proxy.stop();
    }
}

/// A server in import mode keeps keys whose time has come; a deadline in the past was recorded as an
/// erasure there. The mode is asked for with the time, since it changes while the server runs.
#[test]
fn an_import_mode_makes_no_erasure_certain() {
    let users = "--user alice on >a ~* &* +@all -config --import-mode yes";
    let users: Vec<&str> = users.split(' ').collect();
    let redis = Redis::start_in(Kind::Valkey, &users, &[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let url = format!("redis://alice:a@127.0.0.1:{}", redis.port());
    let (limited, theirs, limits) = start(&ProxyConfig {
        backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
        ..config(&redis)
    });
    let lines = [
        "EXPIREAT k 1",
        "EXPIRE k -1",
        "PEXPIREAT k 0",
        "SET k v PXAT 5",
    ];
    for mode in ["yes", "no"] {
        let command = format!("CONFIG SET import-mode {mode}");
        assert_eq!(ask(redis.address(), &command), "+OK");
        for line in lines {
            for (address, recorder, may_ask) in
                [(address, &recorder, true), (theirs, &limits, false)]
            {
                recorder.seen.lock().unwrap().clear();
                talk(address, &script(&format!("SET k v\n{line}")), usize::MAX);
                let last = recorder.entries().pop().unwrap();
                let is_certain = last.action == "delete";
                assert_eq!(is_certain, may_ask && mode == "no", "{line}: {last:?}");
                assert!(
                    is_certain || says(&last, "\"erased\":\"perhaps\""),
                    "{line}: {last:?}"
                );
            }
        }
        // A time that is far from over needs no mode.
        recorder.seen.lock().unwrap().clear();
        talk(
            address,
            &script("SET k v\nEXPIRE k 100\nPEXPIREAT k 99999999999999"),
            usize::MAX,
        );
        let entries = recorder.entries();
        assert!(
            entries.iter().all(|seen| !says(seen, "perhaps")),
            "{entries:?}"
        );
    }
    limited.stop();
    proxy.stop();
}

/// Entries that wait for the server's time keep their order and their replies, and none is lost with the connection.
#[test]
fn what_waits_for_the_time_of_the_server_stays_in_order() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let recorder = Arc::clone(&recorder);
    let lines = |number: u32| {
        let at = now() + HOUR;
        format!("SET user:{number} v PXAT {at}\nGET user:{number}\n")
    };
    let lines: Vec<_> = (0..300).map(lines).collect();
    let lines = lines.concat();
    let heard = talk(address, &script(&lines), usize::MAX);
    proxy.stop();
    assert_eq!(
        heard,
        ["+OK\r\n$1\r\nv\r\n".repeat(300).as_bytes(), b"+OK\r\n"].concat()
    );
    let told: Vec<_> = recorder
        .entries()
        .iter()
        .map(|seen| format!("{} {}", seen.action, seen.key))
        .collect();
    let expected = (0..300)
        .flat_map(|number| ["update", "read"].map(|action| format!("{action} user:{number}")));
    assert_eq!(told, expected.collect::<Vec<_>>());
}
