//! Every entry of a login names the user that was tried, whatever became of the login, and proves nobody.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::support::{Kind, Recorder, Redis, Seen, config, script, start, talk, wait};

const KINDS: [Kind; 3] = [Kind::Redis7, Kind::Redis6, Kind::Valkey];

const USERS: &str = "--user alice on >PASSWORD-a ~* &* +@all --user mallory on >PASSWORD-m ~* &* +@all \
                     --user mute on >PASSWORD-x ~* &* +@all -acl";

/// The users tried, in order: name, submitter, outcome and further facts of each entry of a login.
fn logins(entries: &[Seen]) -> Vec<String> {
    let text = format!("{entries:?}");
    assert!(!text.contains("PASSWORD"), "{text}");
    let logins = entries.iter().filter(|seen| seen.action == "authenticate");
    let told = |seen: &Seen| {
        let proven = if seen.claimed.actor { "" } else { " proven" };
        let facts = seen.payload.trim_matches(['{', '}']);
        let facts = facts.split_once(',').map_or("", |(_, facts)| facts);
        let outcome = seen.outcome.as_str();
        format!(
            "{}{proven} by {:?} {outcome} {facts}",
            seen.actor, seen.submitter
        )
    };
    logins.map(told).collect()
}

fn redis(kind: Kind) -> Redis {
    Redis::start_of(kind, &USERS.split_whitespace().collect::<Vec<_>>())
}

/// Says the lines, reads as many bytes as are given, and goes away.
fn leave(address: SocketAddr, lines: &str, heard: usize) {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&script(lines)).unwrap();
    socket.read_exact(&mut vec![0; heard]).unwrap();
    wait(50);
}

fn wait_for_logins(recorder: &Recorder, count: usize) -> Vec<String> {
    let found = || logins(&recorder.entries());
    (0..100).find(|_| {
        wait(20);
        found().len() >= count
    });
    found()
}

/// A login in a transaction that was not executed named nobody: whoever guessed at passwords there
/// left entries without the user's name.
#[test]
fn a_login_that_was_not_executed_names_the_user_that_was_tried() {
    let endings = [
        "DISCARD",
        "RESET",
        "NOSUCHCOMMAND\nEXEC",
        "QUIT",
        "AUTH mallory PASSWORD-m PASSWORD-z x\nDISCARD",
    ];
    for kind in KINDS {
        let redis = redis(kind);
        for before in ["", "AUTH mallory PASSWORD-m\n"] {
            for end in endings {
                let (proxy, address, recorder) = start(&config(&redis));
                let lines = format!(
                    "{before}MULTI\nAUTH alice PASSWORD-a\nAUTH PASSWORD-d\nGET user:7\n{end}"
                );
                talk(address, &script(&lines), usize::MAX);
                proxy.stop();
                let submitter = if before.is_empty() { "" } else { "mallory" };
                let aborted = |user| format!("{user} by {submitter:?} failed \"exec\":\"aborted\"");
                let told = logins(&recorder.entries());
                let told = &told[usize::from(!before.is_empty())..];
                let expected = [aborted("alice"), aborted("default")];
                assert_eq!(told.get(..2), Some(&expected[..]), "{kind:?} {lines}");
            }
        }
    }
}

/// A login whose reply was lost named nobody, or whoever had logged in before it.
#[test]
fn a_login_without_a_reply_names_the_user_that_was_tried() {
    let lost = "AUTH alice PASSWORD-a\nAUTH PASSWORD-d\nHELLO 3 AUTH mute PASSWORD-x SETNAME n\nGET user:7";
    for kind in KINDS {
        for (before, submitter) in [("", ""), ("AUTH mallory PASSWORD-m\n", "mallory")] {
            // The client goes while the server waits for others.
            let mut redis = redis(kind);
            let (proxy, address, recorder) = start(&config(&redis));
            let lines = format!("{before}BLPOP user:none 0\n{lost}");
            leave(address, &lines, if before.is_empty() { 0 } else { 5 });
            let earlier = usize::from(!before.is_empty());
            let told = wait_for_logins(&recorder, 3 + earlier);
            let expected = [
                format!("alice by {submitter:?} failed \"reply\":\"lost\""),
                "default by \"\" failed \"reply\":\"lost\",\"perhaps_actors\":[\"alice\"]"
                    .to_owned(),
                "mute by \"\" failed \"reply\":\"lost\",\"perhaps_actors\":[\"alice\",\"default\"]"
                    .to_owned(),
            ];
            assert_eq!(told.get(earlier..), Some(&expected[..]), "{kind:?}");
            // The server ends while it waits, with a transaction under way.
            recorder.seen.lock().unwrap().clear();
            let mut socket = TcpStream::connect(address).unwrap();
            let lines = format!("{before}BLPOP user:none 0\nMULTI\nAUTH alice PASSWORD-a\nEXEC");
            socket.write_all(&script(&lines)).unwrap();
            wait(100);
            redis.kill();
            let told = wait_for_logins(&recorder, 1 + earlier);
            assert_eq!(told.get(earlier..), Some(&expected[..1]), "{kind:?}");
            proxy.stop();
        }
    }
}

/// The server answers with an error to a HELLO that may have logged in, and does not say who is logged in:
/// the entry named the client's user, not the one that was tried.
#[test]
fn a_login_that_nobody_can_tell_names_the_user_that_was_tried() {
    for kind in [Kind::Redis7, Kind::Redis6] {
        let redis = redis(kind);
        let (proxy, address, recorder) = start(&config(&redis));
        let lines = "AUTH mallory PASSWORD-m\nHELLO 3 AUTH mute PASSWORD-x BADOPT";
        talk(address, &script(lines), usize::MAX);
        proxy.stop();
        let told = logins(&recorder.entries());
        let expected = [
            "mallory proven by \"mallory\" ok ",
            "mute by \"mallory\" failed \"reply\":\"lost\"",
        ];
        assert_eq!(told, expected, "{kind:?}");
    }
}

/// A HELLO with AUTH and one word has no password, and its word may be one: it is named nowhere.
#[test]
fn half_a_login_names_no_word_that_may_be_a_password() {
    for kind in KINDS {
        let redis = redis(kind);
        let (proxy, address, recorder) = start(&config(&redis));
        let half = "HELLO 3 AUTH PASSWORD-d";
        let half_named = "HELLO 3 SETNAME ann AUTH PASSWORD-d";
        for lines in [half, half_named] {
            talk(address, &script(lines), usize::MAX);
            leave(
                address,
                &format!("BLPOP user:none 0\n{lines}\nGET user:1"),
                0,
            );
        }
        wait(500);
        proxy.stop();
        let told = logins(&recorder.entries());
        let refused = "default proven by \"\" failed ";
        assert!(told.len() >= 2 && told[0] == refused, "{kind:?} {told:?}");
        assert!(
            told.iter().all(|told| !told.contains("perhaps_actors")),
            "{told:?}"
        );
    }
}
