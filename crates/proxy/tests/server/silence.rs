//! The server answers the proxy even where a client wants no replies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use probity_proxy::{ProxyConfig, Release};

use crate::support::{Redis, both, config, script, start, talk, told};

const SETUP: &str =
    "SET user:1 one\nSET user:2 two\nRPUSH cache:l message x y\nSET cache:q QUEUED\n";

fn heard(lines: &str) -> (String, Vec<String>) {
    let (heard, entries) = both(&format!("{SETUP}{lines}"), &[]);
    let rest = told(&entries).split_off(4);
    (heard, rest)
}

/// `CLIENT REPLY` with an error as its answer, and `MULTI x`, made the proxy believe in a silence and a
/// transaction that were not there: reads and writes without entries (S1). Each has its entry now.
#[test]
fn a_refused_silence_hides_nothing() {
    let lines = "CLIENT REPLY OFF x\nMULTI x\nGET user:1\nDISCARD";
    assert_eq!(heard(lines).1, ["default read user:1 ok"]);
    let lines = "CLIENT REPLY OFF\nMULTI x\nSET user:9 evil\nDEL user:1\nDISCARD\nCLIENT REPLY ON";
    let expected = ["default update user:9 ok", "default delete user:1 ok"];
    assert_eq!(heard(lines).1, expected);
}

/// A skip that an empty command, a wrong mode or an error had ended shifted the outcomes of all that
/// followed (proxy 4). The outcome of each key is the server's.
#[test]
fn outcomes_belong_to_their_commands_whatever_ends_a_skip() {
    let reads = "GET user:1\nGET nosuch\nGET user:2";
    for ending in [
        "CLIENT REPLY SKIP x",
        "CLIENT REPLY FOO",
        "CLIENT REPLY",
        "NOSUCH",
        "PING",
    ] {
        let lines = format!("CLIENT REPLY SKIP\n{ending}\n{reads}");
        let (_, told) = heard(&lines);
        let told: Vec<_> = told.iter().filter(|told| told.contains("read")).collect();
        let expected = [
            "default read user:1 ok",
            "default read nosuch absent",
            "default read user:2 ok",
        ];
        assert_eq!(told, expected, "{ending}");
    }
}

/// An empty command ends a skip on the server, and did not on the proxy (proxy 4). It is followed now, in
/// both of its forms and wherever it stands.
#[test]
fn an_empty_command_ends_a_skip() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    talk(redis.address(), &script("SET user:1 one"), usize::MAX);
    for blank in [&b"*0\r\n"[..], b"\r\n", b"*-1\r\n"] {
        for before in [
            "CLIENT REPLY SKIP",
            "GET user:1\nCLIENT REPLY SKIP",
            "CLIENT REPLY SKIP\nPING",
        ] {
            let bytes = [
                &script(before)[..],
                blank,
                &script("GET user:1\nGET nosuch"),
            ]
            .concat();
            recorder.seen.lock().unwrap().clear();
            let direct = talk(redis.address(), &bytes, usize::MAX);
            let through = talk(address, &bytes, usize::MAX);
            assert_eq!(
                String::from_utf8_lossy(&through),
                String::from_utf8_lossy(&direct),
                "{before}"
            );
            let told = told(&recorder.entries());
            let expected = ["default read user:1 ok", "default read nosuch absent"];
            assert!(told.ends_with(&expected.map(str::to_owned)), "{told:?}");
        }
    }
    proxy.stop();
}

/// In every mode, and in every order of modes, the client hears what the server alone would let it hear.
/// So it is with subscriptions, whose confirmations silence does not stop, and with RESET.
#[test]
fn silence_sounds_as_it_does_without_the_proxy() {
    for lines in [
        "CLIENT REPLY OFF\nSUBSCRIBE a\nPING\nUNSUBSCRIBE a",
        "CLIENT REPLY SKIP\nSUBSCRIBE a b\nPING",
        "CLIENT REPLY SKIP\nRESET\nGET user:1",
        "CLIENT REPLY OFF\nRESET\nGET user:1",
        "CLIENT REPLY OFF\nCLIENT REPLY SKIP\nCLIENT REPLY ON\nGET user:1",
        "CLIENT REPLY SKIP\nCLIENT REPLY ON\nGET user:1",
        "CLIENT REPLY SKIP\nCLIENT REPLY SKIP\nGET user:1\nGET user:2",
        "CLIENT REPLY SKIP\nMULTI\nGET user:1\nEXEC",
        "MULTI\nGET user:1\nCLIENT REPLY ON\nEXEC\nGET user:2",
        "CLIENT REPLY OFF\nMULTI\nGET user:1\nCLIENT REPLY ON\nEXEC\nGET user:2",
        "CLIENT REPLY OFF\nMULTI\nGET user:1\nRESET\nGET user:2",
        "CLIENT REPLY OFF\nGET user:1\nQUIT",
        "SUBSCRIBE a\nCLIENT REPLY OFF\nPING",
    ] {
        heard(lines);
    }
}

/// After the server had skipped the answer to RESET, or RESP3 arrays had been taken for messages, each
/// reply went out before its entry existed (proxy 3). In strict mode nothing is heard before its commit.
#[test]
fn no_reply_goes_out_before_its_entry() {
    for lines in [
        "CLIENT REPLY SKIP\nRESET",
        "HELLO 3\nSUBSCRIBE c\nLRANGE cache:l 0 -1",
        "CLIENT REPLY OFF\nRESET x\nCLIENT REPLY ON",
    ] {
        let redis = Redis::start(&[]);
        let (proxy, address, recorder) = start(&ProxyConfig {
            release: Release::Durable,
            ..config(&redis)
        });
        talk(redis.address(), &script(SETUP), usize::MAX);
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&script(lines)).unwrap();
        crate::support::wait(100);
        recorder.seen.lock().unwrap().clear();
        recorder.durable.store(0, Ordering::SeqCst);
        recorder.manual.store(true, Ordering::SeqCst);
        socket.write_all(&script("GET user:1")).unwrap();
        assert_eq!(
            told(&recorder.wait_for(1)),
            ["default read user:1 ok"],
            "{lines}"
        );
        let mut heard = [0; 4096];
        let mut all = Vec::new();
        let timeout = std::time::Duration::from_millis(100);
        socket.set_read_timeout(Some(timeout)).unwrap();
        while let Ok(count) = socket.read(&mut heard) {
            all.extend_from_slice(heard.get(..count).unwrap());
        }
        assert!(
            !String::from_utf8_lossy(&all).contains("$3\r\none"),
            "{lines}"
        );
        recorder.commit();
        proxy.stop();
    }
}

/// While a RESP3 client was subscribed, an array that begins with the word `message` took no command off
/// the queue, and everything after it was shifted (S8). Only pushes are messages there.
#[test]
fn an_array_that_looks_like_a_message_is_a_reply() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    talk(redis.address(), &script(SETUP), usize::MAX);
    let lines = "HELLO 3\nSUBSCRIBE ch\nLRANGE cache:l 0 -1\nGET user:1\nGET user:3\nMULTI x\nPING\n\
                 GET user:2\nGET cache:q\nDISCARD x\nPING\nAUTH carol wrong\nPING\nGET user:1";
    talk(address, &script(lines), usize::MAX);
    assert_eq!(
        told(&recorder.entries()),
        [
            "default subscribe ch ok",
            "default read cache:l ok",
            "default read user:1 ok",
            "default read user:3 absent",
            "default read user:2 ok",
            "default read cache:q ok",
            "carol authenticate  denied",
            "default read user:1 ok",
        ]
    );
    proxy.stop();
}

/// A script may answer with the status `QUEUED`, or with a status that looks like a line of MONITOR.
/// Neither is anything but a reply, because the proxy saw no MULTI and no MONITOR succeed.
#[test]
fn a_script_cannot_speak_for_the_server() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let eval =
        |text: &str| crate::support::command(&["EVAL", &format!("return {{ok='{text}'}}"), "0"]);
    let bytes = [
        eval("QUEUED"),
        eval("1700000000.1 [0 127.0.0.1:1] x"),
        eval("RESET"),
        script("GET user:1\nGET user:2"),
    ]
    .concat();
    talk(address, &bytes, usize::MAX);
    let told = told(&recorder.entries());
    assert_eq!(told.len(), 5);
    assert!(told.iter().take(3).all(|told| told == "default run  ok"));
    proxy.stop();
}

/// Two channels whose first 1,024 bytes are the same counted as one, and the outcomes after their
/// UNSUBSCRIBE were shifted (proxy 28). Confirmations are counted, and long names have their digest.
#[test]
fn long_names_of_channels_are_told_apart() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let (a, b) = ("c".repeat(1100) + "a", "c".repeat(1100) + "b");
    let long = "c".repeat(70_000);
    let bytes = [
        crate::support::command(&["SUBSCRIBE", &a, &b, &long, &a]),
        script("UNSUBSCRIBE\nGET nosuch\nSET user:1 x\nGET user:1"),
    ]
    .concat();
    talk(address, &bytes, usize::MAX);
    let entries = recorder.entries();
    assert_eq!(entries[0].key, a);
    assert!(entries[2].key.contains("#sha256:"), "{}", entries[2].key);
    assert_eq!(
        told(&entries)[4..],
        [
            "default read nosuch absent",
            "default update user:1 ok",
            "default read user:1 ok"
        ]
    );
    proxy.stop();
}
