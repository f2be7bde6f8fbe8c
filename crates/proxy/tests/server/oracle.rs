//! The server's description of its commands, and the built-in table for a server without one.

use std::sync::Arc;

use probity_proxy::{Proxy, ProxyError};
use probity_testing::free_port;

use crate::support::{Recorder, Redis, Source, command, config, script, start, talk, told, wait};

const LINES: &str = "ZUNIONSTORE user:d 2 user:a user:b\nZUNION 1 user:a\nXREAD STREAMS user:s 0\n\
                     GEORADIUS user:g 1 1 1 m\nMEMORY USAGE user:a\nBLMOVE user:a user:b LEFT LEFT 0.01\n\
                     EVAL return{1} 1 user:e";

/// A server that does not say where keys are, or says nothing at all, left whole commands without entries
/// (proxy 7). The built-in table knows them, and the start says what is used.
#[test]
fn a_server_that_says_nothing_has_the_built_in_table() {
    for arguments in [&[][..], &["--rename-command", "COMMAND", ""]] {
        let redis = Redis::start(arguments);
        let (proxy, address, recorder) = start(&config(&redis));
        let support = proxy.support().to_string();
        assert!(support.contains("7.0"), "{support}");
        assert_eq!(
            support.contains("does not answer COMMAND"),
            !arguments.is_empty()
        );
        talk(address, &script(LINES), usize::MAX);
        let told: Vec<_> = told(&recorder.entries());
        for key in ["user:d", "user:a", "user:b", "user:s", "user:g", "user:e"] {
            assert!(
                told.iter().any(|told| told.contains(key)),
                "{key}: {told:?}"
            );
        }
        assert_eq!(told.len(), 11, "{told:?}");
        proxy.stop();
    }
}

/// A command under another name was `run unknown`, though the server knows what it is. It is recorded as
/// what it is, and a renamed CLIENT has no silence of its own.
#[test]
fn a_renamed_command_is_what_it_was() {
    let arguments = [
        "--rename-command",
        "GET",
        "READIT",
        "--rename-command",
        "CLIENT",
        "KLIENT",
    ];
    let redis = Redis::start(&arguments);
    let (proxy, address, recorder) = start(&config(&redis));
    let lines = "KLIENT REPLY SKIP\nREADIT user:1\nSET user:1 x\nREADIT user:1";
    let heard = talk(address, &script(lines), usize::MAX);
    assert_eq!(String::from_utf8_lossy(&heard), "+OK\r\n$1\r\nx\r\n+OK\r\n");
    assert_eq!(
        told(&recorder.entries()),
        [
            "default read user:1 absent",
            "default update user:1 ok",
            "default read user:1 ok"
        ]
    );
    proxy.stop();
}

/// The connection for questions died when the server closed it for idleness, and the next client to need
/// it was refused (proxy 18). It is opened again.
#[test]
fn a_dead_connection_for_questions_is_opened_again() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    for _ in 0..6 {
        let heard = talk(address, &script("NOSUCH a"), usize::MAX);
        assert!(heard.starts_with(b"-ERR unknown command"), "{heard:?}");
        talk(
            redis.address(),
            &script("CLIENT KILL TYPE normal"),
            usize::MAX,
        );
        wait(20);
    }
    proxy.stop();
}

/// Other clients' MONITOR showed the proxy's questions with the client's arguments in them (proxy 27). For
/// commands that the table knows nothing is asked.
#[test]
fn nothing_is_asked_about_commands_that_are_known() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    // Each worker asks for the names of all commands once.
    for _ in 0..2 {
        talk(address, &script("PING"), usize::MAX);
    }
    talk(redis.address(), &script("CONFIG RESETSTAT"), usize::MAX);
    let odd =
        "MGET\nEVAL x y z\nZUNIONSTORE d 9 a\nXREAD STREAMS a\nPFMERGE user:1\nSORT l BY a* GET b*";
    talk(address, &script(odd), usize::MAX);
    let stats = talk(redis.address(), &script("INFO commandstats"), usize::MAX);
    let stats = String::from_utf8_lossy(&stats);
    assert!(
        !stats.contains("getkeys") && !stats.contains("command|info"),
        "{stats}"
    );
    proxy.stop();
}

/// A node of a cluster redirects clients past the log (proxy 21). The proxy does not start before one, and
/// never shows a redirect.
#[test]
fn a_cluster_is_refused_and_no_redirect_is_shown() {
    let redis = Redis::start(&["--cluster-enabled", "yes"]);
    let source = Arc::new(Source(Arc::new(Recorder::default())));
    let error = Proxy::start(&config(&redis), &source).unwrap_err();
    let ProxyError::Upstream { source, .. } = error else {
        panic!("{error}");
    };
    assert!(source.to_string().contains("cluster"), "{source}");
    // One that does not say what it is may be one all the same.
    let (first, second) = (node(&["--rename-command", "INFO", ""]), node(&[]));
    for (node, slots) in [(&first, "0 8000"), (&second, "8001 16383")] {
        let line = format!("CLUSTER ADDSLOTSRANGE {slots}");
        talk(node.0.address(), &script(&line), usize::MAX);
    }
    let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", second.0.port(), second.1);
    talk(first.0.address(), &script(&meet), usize::MAX);
    let moved = (0..200).any(|_| {
        wait(50);
        talk(first.0.address(), &script("GET foo"), usize::MAX).starts_with(b"-MOVED")
    });
    assert!(moved);
    let (proxy, address, recorder) = start(&config(&first.0));
    for line in ["GET foo", "EVAL return{1} 1 foo"] {
        let heard = talk(address, &script(line), usize::MAX);
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            heard.starts_with("-ERR probity: the server redirects"),
            "{heard}"
        );
    }
    assert_eq!(recorder.wait_for(3).len(), 3);
    proxy.stop();
}

/// A node of a cluster, and the port on which it meets others.
fn node(extra: &[&str]) -> (Redis, u16) {
    let bus = free_port();
    let port = bus.to_string();
    let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-port", &port];
    arguments.extend(extra);
    (Redis::start(&arguments), bus)
}

/// A script whose error looked like a redirect ended the connection. It is an ordinary error, which the
/// client hears, and what follows is served.
#[test]
fn a_script_that_says_moved_redirects_nobody() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for word in ["MOVED", "ASK"] {
        let text = format!("return redis.error_reply('{word} 1234 10.0.0.9:6379')");
        let bytes = [
            command(&["EVAL", &text, "1", "user:1"]),
            script("GET user:2"),
        ]
        .concat();
        let heard = talk(address, &bytes, usize::MAX);
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert_eq!(
            heard,
            format!("-{word} 1234 10.0.0.9:6379\r\n$-1\r\n+OK\r\n")
        );
    }
    let all = told(&recorder.wait_for(6));
    assert_eq!(all[1], "default update user:1 failed");
    proxy.stop();
}
