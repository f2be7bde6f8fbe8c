//! The actor of an entry is the user whose login the server confirmed, and no other.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use probity_format::Outcome;
use probity_proxy::{Backend, ProxyConfig, Upstream};

use crate::support::{Redis, Seen, config, script, start, talk, told};

const USERS: [&str; 21] = [
    "--user",
    "alice",
    "on",
    ">a",
    "~*",
    "&*",
    "+@all",
    "--user",
    "mallory",
    "on",
    ">m",
    "~*",
    "&*",
    "+@all",
    "--user",
    "mute",
    "on",
    ">x",
    "~*",
    "&*",
    "+@all -client|reply -acl",
];

fn users() -> Vec<&'static str> {
    let mut users = USERS.to_vec();
    let last = users.pop();
    users.extend(last.unwrap().split(' '));
    users
}

fn record(lines: &str) -> (String, Vec<Seen>) {
    let redis = Redis::start(&users());
    let (proxy, address, recorder) = start(&config(&redis));
    let heard = talk(address, &script(lines), usize::MAX);
    proxy.stop();
    (
        String::from_utf8_lossy(&heard).into_owned(),
        recorder.entries(),
    )
}

/// A login whose failure the client had asked not to hear counted as one that succeeded (proxy 2, S2). The
/// actor is who the server says is logged in.
#[test]
fn a_failed_login_that_nobody_heard_names_nobody() {
    for silence in ["CLIENT REPLY SKIP", "CLIENT REPLY OFF"] {
        let lines = format!("AUTH mallory m\n{silence}\nAUTH alice WRONG\nGET user:7");
        let entries = record(&lines).1;
        assert_eq!(
            told(&entries),
            [
                "mallory authenticate  ok",
                "alice authenticate  denied",
                "mallory read user:7 absent"
            ]
        );
    }
}

/// A user without the right to CLIENT REPLY is answered NOPERM, and all that follows is heard (proxy 5). So
/// it is for a client that has not logged in: what was denied is recorded as denied.
#[test]
fn a_silence_that_is_not_allowed_does_not_come_about() {
    let (heard, entries) = record("AUTH mute x\nCLIENT REPLY OFF\nGET user:7");
    assert!(heard.contains("NOPERM") && heard.contains("$-1"), "{heard}");
    assert_eq!(told(&entries)[1], "mute read user:7 absent");
    let redis = Redis::start(&["--requirepass", "secret"]);
    let upstream = Upstream::parse(&format!("redis://:secret@127.0.0.1:{}", redis.port())).unwrap();
    let (proxy, address, recorder) = start(&ProxyConfig {
        backend: Backend::Upstream(upstream),
        ..config(&redis)
    });
    let heard = talk(address, &script("CLIENT REPLY OFF\nGET user:7"), usize::MAX);
    assert!(heard.starts_with(b"-NOAUTH"));
    assert_eq!(recorder.entries()[0].outcome, Outcome::Denied);
    proxy.stop();
}

/// HELLO logs in before it looks at its other options, so an error hid who was logged in (proxy 6). The
/// proxy asks the server, and where that user may not ask, the connection ends.
#[test]
fn a_login_by_a_hello_that_failed_otherwise_is_known() {
    for hello in [
        "HELLO 3 AUTH mallory m BADOPT",
        "HELLO 2 AUTH mallory m SETNAME a\tb",
    ] {
        let lines = format!("CLIENT SETNAME crm\n{hello}\nGET user:7\nACL WHOAMI");
        let (heard, entries) = record(&lines);
        let read = told(&entries);
        let read = read.iter().find(|told| told.contains("user:7")).unwrap();
        assert!(read.starts_with("mallory "), "{read}: {heard}");
        assert!(heard.contains("mallory"), "{heard}");
    }
    let (heard, entries) = record("HELLO 3 AUTH mute x BADOPT\nGET user:7");
    assert!(heard.contains("does not let its user ask"), "{heard}");
    assert!(told(&entries).iter().all(|told| !told.contains("user:7")));
    let entries = record("HELLO 3 AUTH alice WRONG\nGET user:7").1;
    assert_eq!(told(&entries)[1], "default read user:7 absent");
}

/// With two AUTH options in one HELLO, guesses at one user's password stood in the log as failures of the other.
#[test]
fn a_hello_logs_in_once() {
    for hello in [
        "HELLO 3 AUTH alice GUESS AUTH mallory m",
        "HELLO 3 AUTH alice a AUTH nobody x",
    ] {
        let (heard, entries) = record(&format!("{hello}\nGET user:7"));
        assert!(heard.contains("more than one AUTH"), "{heard}");
        assert!(told(&entries).iter().all(|told| !told.contains("user:7")));
    }
    let (heard, _) = record("HELLO 3 AUTH auth x SETNAME auth");
    assert!(!heard.contains("more than one AUTH"), "{heard}");
}

/// The password for the server logged every client in, and after RESET the log still named that user
/// (proxy 12, 13). It is for the proxy's own questions now: clients log in for themselves, or do not.
#[test]
fn the_login_of_the_proxy_is_nobody_elses() {
    let mut arguments = users();
    arguments.extend(["--user", "default", "off"]);
    let redis = Redis::start(&arguments);
    let url = format!("redis://alice:a@127.0.0.1:{}/3", redis.port());
    let (proxy, address, recorder) = start(&ProxyConfig {
        backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
        ..config(&redis)
    });
    let lines =
        "GET user:1\nAUTH mallory m\nSET user:2 x\nRESET\nGET user:3\nAUTH mallory m\nGET user:2";
    talk(address, &script(lines), usize::MAX);
    assert_eq!(
        told(&recorder.entries()),
        [
            "default read user:1 denied",
            "mallory authenticate  ok",
            "mallory update db3/user:2 ok",
            "default read user:3 denied",
            "mallory authenticate  ok",
            "mallory read user:2 absent"
        ]
    );
    proxy.stop();
}

/// A database that the server did not choose stood before every later key (proxy 14). COPY and MOVE name
/// one of their own, and the key there has its entry (proxy 15).
#[test]
fn keys_stand_in_the_database_they_are_in() {
    let lines = "CLIENT REPLY OFF\nSELECT 99\nCLIENT REPLY ON\nGET user:7\nSET user:1 x\n\
                 COPY user:1 user:1 DB 3 REPLACE\nMOVE user:1 4\nSELECT 4\nGET user:1";
    assert_eq!(
        told(&record(lines).1),
        [
            "default read user:7 absent",
            "default update user:1 ok",
            "default read user:1 ok",
            "default update db3/user:1 ok",
            "default delete user:1 ok",
            "default create db4/user:1 ok",
            "default read db4/user:1 ok"
        ]
    );
}
