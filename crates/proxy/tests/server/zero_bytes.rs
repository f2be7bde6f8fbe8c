//! Zero bytes within words: a server compares words up to the first one, so the proxy must too, or let no such word pass.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and writes a configuration"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

use crate::support::{
    Kind, Redis, Seen, command, config, script, start, talk, talk_only, told, wait,
};
use crate::transparency::without_id;

const KINDS: [Kind; 3] = [Kind::Redis7, Kind::Redis6, Kind::Valkey];
const REFUSED: &str = "-ERR probity: a zero byte in the name of a command does not pass";

fn bytes_of(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_command(&mut bytes, words);
    bytes
}

/// Replies of a server to many commands at once.
fn replies(address: SocketAddr, commands: &[Vec<u8>]) -> Vec<Frame> {
    let mut socket = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).unwrap();
    let mut reader = FrameReader::new(Limits::SERVER);
    let mut frames = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    for part in commands.chunks(50) {
        socket.write_all(&part.concat()).unwrap();
        let wanted = frames.len() + part.len();
        while frames.len() < wanted {
            let count = socket.read(&mut buffer).unwrap();
            assert!(count > 0);
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let (taken, frame) = reader.read(rest).unwrap();
                rest = &rest[taken..];
                frames.extend(frame);
            }
        }
    }
    frames
}

/// A word that the server takes for `word`, though there is a zero byte within, if one of many tries is: whether one is
/// depends on places of its hash table that are drawn at its start.
fn alias(address: SocketAddr, word: &str, of: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let tries: Vec<Vec<u8>> = (0..3000)
        .map(|number| [word.as_bytes(), b"\0\xff", number.to_string().as_bytes()].concat())
        .collect();
    let commands: Vec<Vec<u8>> = tries.iter().map(|word| of(word)).collect();
    let known = |frame: &Frame| match frame {
        Frame::Error(text) => {
            let text = String::from_utf8_lossy(text).to_lowercase();
            !text.contains("unknown ")
        }
        _ => true,
    };
    let place = replies(address, &commands).iter().position(known)?;
    tries.into_iter().nth(place)
}

/// `CLIENT "REPLY\0..." SKIP`, which Redis took for CLIENT REPLY, passed as a subcommand without any effect, and every outcome
/// behind it was told of the next command: a DEL that the server refused was recorded as done. A name with a zero byte does
/// not pass, be it of a command or of its subcommand.
#[test]
fn no_outcome_is_shifted_by_another_spelling_of_client_reply() {
    for kind in KINDS {
        let redis = Redis::start_of(kind, &[]);
        let found = alias(redis.address(), "REPLY", |word| {
            bytes_of(&[b"CLIENT", word, b"ON"])
        });
        assert!(found.is_some() || kind == Kind::Valkey, "{kind:?}");
        let word = found.unwrap_or_else(|| b"REPLY\0".to_vec());
        talk(
            redis.address(),
            &script("SET user:alice:s secret\nACL SETUSER default -del"),
            usize::MAX,
        );
        let (proxy, address, recorder) = start(&config(&redis));
        let attack = [
            bytes_of(&[b"CLIENT", &word, b"SKIP"]),
            script("PING\nDEL user:alice:s\nPING\nPING\nPING"),
        ];
        let heard = talk(address, &attack.concat(), usize::MAX);
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.starts_with(REFUSED), "{kind:?}: {heard}");
        assert_eq!(recorder.entries(), []);
        proxy.stop();
    }
}

/// Names with a zero byte that Redis took for AUTH, RESET, SELECT, GET or SET were unknown to the proxy: an entry `run` named no key,
/// or the wrong user, or none was made at all (`XINFO`, `ACL SETUSER`). None of them reaches the server, in lists and on lines.
#[test]
fn a_name_with_a_zero_byte_does_not_reach_the_server() {
    for kind in KINDS {
        let arguments = ["--user", "eve", "on", ">p", "~*", "+@all"];
        let redis = Redis::start_of(kind, &[&arguments, kind.debug_arguments()].concat());
        talk(
            redis.address(),
            &script("SET user:a:s secret\nXADD user:a:x * f secret"),
            usize::MAX,
        );
        let get = alias(redis.address(), "get", |word| {
            bytes_of(&[word, b"user:a:s"])
        });
        let xinfo = alias(redis.address(), "STREAM", |word| {
            bytes_of(&[b"XINFO", word, b"user:a:x"])
        });
        let get = get.unwrap_or_else(|| b"get\0".to_vec());
        let xinfo = xinfo.unwrap_or_else(|| b"STREAM\0".to_vec());
        let (proxy, address, recorder) = start(&config(&redis));
        let attacks: [&[&[u8]]; 12] = [
            &[&get, b"user:a:s"],
            &[b"XINFO", &xinfo, b"user:a:x", b"FULL"],
            &[b"GET\0", b"user:a:s"],
            &[b"SET\0\xff175", b"user:a:s", b"v"],
            &[b"AUTH\0\xffN", b"eve", b"p"],
            &[b"RESET\0\xffN"],
            &[b"SELECT\0\xffN", b"5"],
            &[b"SYNC\0a404"],
            &[b"sync\0"],
            &[b"ACL", b"SETUSER\0\xff30", b"mallory", b"on", b"nopass"],
            &[b"OBJECT", b"ENCODING\0", b"user:a:s"],
            &[b"DEBUG", b"OBJECT\0", b"user:a:s"],
        ];
        for attack in attacks {
            let bytes = bytes_of(attack);
            for piece in [usize::MAX, 3] {
                let heard = talk(address, &bytes, piece);
                let heard = String::from_utf8_lossy(&heard);
                let shown = String::from_utf8_lossy(&bytes);
                assert!(heard.starts_with(REFUSED), "{kind:?} {shown}: {heard}");
            }
        }
        let heard = talk_only(address, b"\"GET\\x00\" user:a:s\r\n", usize::MAX);
        assert!(String::from_utf8_lossy(&heard).starts_with(REFUSED));
        assert_eq!(recorder.entries(), []);
        proxy.stop();
    }
}

/// Lines with a tilde behind each option.
const OPTIONS: [&str; 22] = [
    "XREAD STREAMS~ user:alice:x 0",
    "XREAD COUNT~ 1 STREAMS~ user:alice:x 0",
    "XREADGROUP GROUP~ g c STREAMS~ user:alice:x >",
    "SORT user:bob:l STORE~ user:other:dst",
    "SORT user:bob:l BY~ nosort GET~ user:*:s",
    "SORT user:bob:l LIMIT~ 0 1 STORE~ user:other:dst",
    "GEORADIUS user:bob:g 1 1 10 km STORE~ user:other:g",
    "GEORADIUSBYMEMBER user:bob:g m 10 km COUNT~ 1 STOREDIST~ user:other:g",
    "SET user:new:v n GET~",
    "SET user:carol:v n NX~",
    "SET user:carol:v z PXAT~ 1000",
    "GETEX user:carol:v EXAT~ 1",
    "GETEX user:carol:v PERSIST~",
    "COPY user:bob:l user:bob:copy DB~ 3",
    "COPY user:bob:l user:carol:v REPLACE~",
    // One key: the order of several depends on how far the server has rehashed.
    "SCAN 0 MATCH~ user:carol:*",
    "ZADD user:bob:z CH~ 1 m",
    "BITFIELD user:carol:v SET~ u8 0 255",
    "HELLO 2 AUTH~ eve p",
    "HELLO 2 SETNAME~ somebody",
    "MIGRATE 127.0.0.1 1  0 100 COPY~ KEYS~ user:a:1 user:a:2",
    "CLIENT REPLY OFF~",
];

const BEFORE: &str = "FLUSHALL\nRPUSH user:bob:l 3 1 2\nGEOADD user:bob:g 1 1 m\nSET user:carol:v x\nXADD user:alice:x 1-1 f secret\n\
    XGROUP CREATE user:alice:x g 0\nZADD user:bob:z 1 m";
const BEHIND: &str = "SET user:dave:v w\nMSET user:dave:a 1 user:dave:b 2\nCLIENT GETNAME";

/// `XREAD "STREAMS\0z" key 0` gave a stream without any entry, `HELLO 2 "AUTH\0" eve p` logged in and everything behind it
/// was recorded under the name from before, `SET ... "PXAT\0" 1000` erased and was an `update`. An option with a zero byte is
/// the option before it, as it is for the server: with it and without, the same is heard and recorded.
#[test]
fn an_option_with_a_zero_byte_is_the_option_before_it() {
    for kind in KINDS {
        let redis = Redis::start_of(kind, &["--user", "eve", "on", ">p", "~*", "&*", "+@all"]);
        let (proxy, address, recorder) = start(&config(&redis));
        let record = |line: &str| -> (String, Vec<Seen>) {
            talk(redis.address(), &script(BEFORE), usize::MAX);
            recorder.seen.lock().unwrap().clear();
            let heard = talk(address, &script(&format!("{line}\n{BEHIND}")), usize::MAX);
            let heard = without_id(&heard);
            (heard, std::mem::take(&mut *recorder.seen.lock().unwrap()))
        };
        for line in OPTIONS {
            let (heard, plain) = record(&line.replace('~', ""));
            for end in ["\0", "\0z", "\0\u{ff}1\0"] {
                let spelled = line.replace('~', end);
                let (now, entries) = record(&spelled);
                assert_eq!(now, heard, "{kind:?} {spelled:?}");
                assert_eq!(told(&entries), told(&plain), "{kind:?} {spelled:?}");
                assert_eq!(entries, plain, "{kind:?} {spelled:?}");
            }
        }
        proxy.stop();
    }
}

/// Of two patterns of a SCAN the entry named the first, and the server goes by the last. A value that reads like the option is none.
#[test]
fn the_last_pattern_of_a_scan_counts() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let lines = "SCAN 0 MATCH nothing MATCH user:*\nSCAN 0 TYPE match MATCH user:1*";
    talk(address, &script(lines), usize::MAX);
    let expected = ["default list user:* ok", "default list user:1* ok"];
    let shown = told(&recorder.entries());
    let keys = |lines: &[String]| -> Vec<String> {
        let key = |line: &String| line.split(' ').nth(2).unwrap().to_owned();
        lines.iter().map(key).collect()
    };
    assert_eq!(keys(&shown), keys(&expected.map(str::to_owned)));
    proxy.stop();
}

/// Before a server with `rename-command SYNC foo`, `foo` passed: only the word that the client wrote was looked at, and the
/// whole database came back without an entry. Whatever a command is called there, what it does decides.
#[test]
fn replication_under_another_name_does_not_pass() {
    for kind in KINDS {
        let renamed = [
            "--rename-command",
            "SYNC",
            "foo",
            "--rename-command",
            "PSYNC",
            "bar",
            "--rename-command",
            "REPLCONF",
            "baz",
            "--repl-diskless-sync",
            "no",
        ];
        let redis = Redis::start_of(kind, &renamed);
        talk(redis.address(), &script("SET user:1:s SECRET"), usize::MAX);
        let (proxy, address, _) = start(&config(&redis));
        for line in ["foo", "FOO", "bar ? -1", "baz ack 0"] {
            let heard = talk(address, &script(line), usize::MAX);
            let heard = String::from_utf8_lossy(&heard);
            let expected = "-ERR probity: replication does not pass through the proxy\r\n";
            assert_eq!(heard, expected, "{kind:?} {line}");
        }
        proxy.stop();
    }
}

/// The name of a command that was given another one by bytes that are not UTF-8 was asked for and thrown away, so that AUTH and
/// GET under such names were `run` and nothing else. It is learned like any other.
#[test]
fn a_name_that_is_not_utf8_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("redis.conf");
    let lines = b"rename-command AUTH \"\\xffauth\"\nrename-command GET \"g\\xc3\"\n";
    std::fs::write(&file, lines).unwrap();
    let include = ["--include", file.to_str().unwrap()];
    let users = ["--user", "eve", "on", ">p", "~*", "+@all"];
    let redis = Redis::start(&[&include[..], &users].concat());
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = [
        bytes_of(&[b"\xffAUTH", b"eve", b"p"]),
        bytes_of(&[b"G\xc3", b"user:1:s"]),
    ];
    talk(address, &bytes.concat(), usize::MAX);
    let expected = ["eve authenticate  ok", "eve read user:1:s absent"];
    assert_eq!(told(&recorder.entries()), expected);
    proxy.stop();
}

/// Of a command under another name the beginning of a long value went to the server before anybody knew what it was, and what
/// was put in its place behind that was taken for a part of the value. It is asked for before its beginning goes.
#[test]
fn a_long_command_under_another_name_is_known_before_it_streams() {
    let renamed = [
        "--rename-command",
        "CLIENT",
        "kli",
        "--rename-command",
        "SET",
        "s3t",
    ];
    let redis = Redis::start(&renamed);
    let (proxy, address, recorder) = start(&config(&redis));
    let long = "x".repeat(600 << 10);
    let mut socket = TcpStream::connect(address).unwrap();
    let _closed_early = socket.write_all(&command(&["kli", "REPLY", &long]));
    let mut heard = Vec::new();
    // The rest of what was said may be refused with a reset.
    let _reset = socket.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard);
    assert!(
        heard.is_empty() || heard.starts_with("-ERR probity"),
        "{heard}"
    );
    let bytes = command(&["s3t", "user:1:s", &long]);
    assert!(talk(address, &bytes, 50_000).starts_with(b"+OK"));
    // The server may have such a command by its end.
    let mut socket = TcpStream::connect(address).unwrap();
    let _closed_early = socket.write_all(&command(&["nosuch", "user:1:s", &long]));
    let mut heard = Vec::new();
    let _reset = socket.read_to_end(&mut heard);
    let heard = String::from_utf8_lossy(&heard);
    assert!(
        heard.is_empty() || heard.starts_with("-ERR probity"),
        "{heard}"
    );
    wait(50);
    assert_eq!(told(&recorder.entries()), ["default update user:1:s ok"]);
    proxy.stop();
}

/// A subcommand that the table does not have counted as its container, which has no keys: what it did to which key was recorded
/// by nothing. Its entry says that its keys are not known.
#[test]
fn a_subcommand_that_is_not_known_has_an_entry() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    talk(
        address,
        &script("OBJECT NOSUCH user:1:s\nCLIENT NOSUCH"),
        usize::MAX,
    );
    let entries = recorder.entries();
    assert_eq!(told(&entries), ["default run  failed"; 2]);
    for entry in entries {
        let payload = &entry.payload;
        assert!(payload.contains("\"keys\":\"unknown\""), "{payload}");
        assert!(payload.contains("\"subcommand\":\"NOSUCH\""), "{payload}");
    }
    proxy.stop();
}
