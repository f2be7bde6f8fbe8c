//! The proxy before an embedded store in a temporary folder.
#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail loudly"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use probity_proxy::resp::Frame;
use probity_proxy::{Backend, Listen, Proxy, ProxyConfig};
use probity_store::{Options, Store, SubjectOf, Sync};

use crate::differential::sides::{Sides, words};
use crate::support::{Recorder, Redis, command, script, start, talk, talk_only, wait};
use crate::transparency::without_id;

/// A proxy before a store of its own.
pub struct Embedded {
    pub address: SocketAddr,
    pub recorder: Arc<Recorder>,
    _proxy: Proxy,
    _directory: tempfile::TempDir,
}

impl Embedded {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            sync: Sync::EverySecond,
            // Keys of two subjects beside those of nobody.
            subject_of: SubjectOf::new(|key| {
                let subject = key.last().map(|last| last % 3)?;
                (subject > 0).then(|| vec![subject])
            }),
            ..Options::default()
        };
        let store = Store::open(&directory.path().join("store"), options).unwrap();
        let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let config = ProxyConfig::new(any_port, Backend::Store(Arc::new(store)));
        let (proxy, address, recorder) = start(&config);
        Self {
            address,
            recorder,
            _proxy: proxy,
            _directory: directory,
        }
    }
}

#[test]
fn what_is_done_in_the_store_is_in_the_log() {
    let embedded = Embedded::start();
    let text = "CLIENT SETNAME bob\nSET user:1:a x\nGET user:1:a\nGET user:2:a\nHSET user:1:h f v\n\
                LPUSH user:1:a x\nDEL user:1:a nokey\nMULTI\nSET user:3:b 1\nGET user:3:b\nEXEC\n\
                NOSUCH user:4:x\nZUNIONSTORE dst 2 user:5:z user:6:z\nSELECT 3\nSET user:7:c x\nFLUSHALL";
    talk(embedded.address, &script(text), usize::MAX);
    let seen: Vec<String> = embedded
        .recorder
        .wait_for(14)
        .iter()
        .map(|entry| {
            let outcome = format!("{:?}", entry.outcome).to_lowercase();
            format!("{} {} {outcome} {}", entry.action, entry.key, entry.actor)
        })
        .collect();
    assert_eq!(
        seen,
        [
            "update user:1:a ok bob",
            "read user:1:a ok bob",
            "read user:2:a absent bob",
            "update user:1:h ok bob",
            "update user:1:a failed bob",
            "delete user:1:a ok bob",
            "delete nokey ok bob",
            "update user:3:b ok bob",
            "read user:3:b ok bob",
            "run  failed bob",
            "delete dst ok bob",
            "read user:5:z absent bob",
            "read user:6:z absent bob",
            "update db3/user:7:c ok bob",
            "delete * ok bob",
        ]
    );
}

/// A command that the store does not have was recorded with the keys that Redis finds in it, as perhaps
/// done. The store refuses it as unknown, and the entry says what was asked alone.
#[test]
fn a_command_that_the_store_does_not_have_is_recorded_by_its_name() {
    let embedded = Embedded::start();
    let text = "EVAL script 1 user:1:a\nBLPOP user:1:l 1\nSUBSCRIBE user:1:c\nMIGRATE h 1 user:1:a 0 1\nSET user:1:a x";
    let heard = talk(embedded.address, &script(text), usize::MAX);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert_eq!(heard.matches("-ERR unknown command").count(), 4, "{heard}");
    let entries = embedded.recorder.wait_for(5);
    let seen: Vec<String> = entries
        .iter()
        .map(|entry| {
            let outcome = format!("{:?}", entry.outcome).to_lowercase();
            format!("{} {} {outcome}", entry.action, entry.key)
        })
        .collect();
    let unknown = "run  failed";
    assert_eq!(
        seen,
        [unknown, unknown, unknown, unknown, "update user:1:a ok"]
    );
    for (entry, name) in entries
        .iter()
        .zip(["EVAL", "BLPOP", "SUBSCRIBE", "MIGRATE"])
    {
        let payload = &entry.payload;
        assert!(
            payload.contains(&format!("\"name\":\"{name}\"")),
            "{payload}"
        );
        assert!(!payload.contains("perhaps"), "{payload}");
    }
}

/// The store has no password, so that `AUTH default` proves nothing: it made the client a proven submitter, and its own name was not
/// recorded any more.
#[test]
fn a_login_without_a_password_proves_nobody() {
    let embedded = Embedded::start();
    let text = "CLIENT SETNAME bob\nAUTH default anything\nSET user:1:a x\nHELLO 3 AUTH default z SETNAME eve\nGET user:1:a";
    talk(embedded.address, &script(text), usize::MAX);
    let seen: Vec<_> = embedded
        .recorder
        .wait_for(4)
        .into_iter()
        .map(|it| (it.action, it.actor, it.submitter, it.claimed.actor))
        .collect();
    let entry = |action: &str, actor: &str| {
        let (action, actor) = (action.to_owned(), actor.to_owned());
        (action, actor, String::new(), true)
    };
    let expected = [
        entry("authenticate", "default"),
        entry("update", "bob"),
        entry("authenticate", "default"),
        entry("read", "eve"),
    ];
    assert_eq!(seen, expected);
}

/// The store keeps the name of a HELLO that it refuses, as Redis does: then the name that it has is recorded, and in no other order
/// than it was taken. Within a transaction nobody could follow it.
#[test]
fn the_name_of_a_refused_hello_is_recorded_as_the_store_has_it() {
    let embedded = Embedded::start();
    let mut expected = Vec::new();
    let mut lines = vec!["CLIENT SETNAME bob".to_owned()];
    for (number, (hello, name)) in [
        ("HELLO 3 SETNAME eve NOSUCH", "eve"),
        ("HELLO 9 SETNAME ann", "eve"),
        ("HELLO 2 AUTH nobody x SETNAME ann", "eve"),
        ("HELLO 2 SETNAME ann AUTH nobody x", "ann"),
        ("HELLO 2 SETNAME zoe SETNAME a\tb", "zoe"),
        ("HELLO 2 AUTH default x SETNAME fay SETNAME", "fay"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("user:{number}");
        lines.extend([hello.to_owned(), format!("GET {key}")]);
        expected.push((key, name.to_owned()));
    }
    lines.push("MULTI\nHELLO 2 SETNAME gil\nEXEC".to_owned());
    let heard = talk(embedded.address, &script(&lines.join("\n")), usize::MAX);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let refusal =
        "-ERR probity: HELLO with a version or a name, MONITOR and subscriptions inside MULTI";
    assert!(heard.contains(refusal), "{heard}");
    let seen = embedded.recorder.wait_for(9).into_iter();
    let seen = seen.filter(|entry| entry.action == "read");
    let seen: Vec<_> = seen.map(|entry| (entry.key, entry.actor)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn every_script_has_the_replies_of_a_server_however_it_is_cut() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let scripts = [
        "FLUSHALL\nSET user:1:a x\nGET user:1:a\nGET user:2:a\nDEL user:1:a nokey\nINCR n\nINCR n x\nNOSUCH a b\nMSET a 1 b 2\nMGET a c b\nLPUSH l 1 2 3\nLRANGE l 0 -1\nHSET h f v\nHGETALL h\nTTL a\nTYPE a\nGET h",
        "FLUSHALL\nMULTI\nSET a 1\nGET a\nGET h\nMGET a b\nLPUSH a x\nEXEC\nEXEC\nMULTI\nNOSUCH\nSET a 2\nEXEC\nMULTI\nSET a 3\nDISCARD\nWATCH a\nSET a 4\nMULTI\nGET a\nEXEC\nSELECT 3\nSET three 3\nSELECT 0\nGET three",
        "FLUSHALL\nHELLO 3\nSET a 1\nHSET h f v\nHGETALL h\nSMEMBERS none\nGET none\nSADD s a\nSMEMBERS s\nZADD z 1.5 m\nZSCORE z m\nRESET\nGET a\nHELLO 3 SETNAME me AUTH default x\nCLIENT GETNAME\nHELLO 2\nCLIENT GETNAME",
        "FLUSHALL\nCLIENT REPLY SKIP\nSET a 1\nGET a\nCLIENT REPLY OFF\nSET b 2\nSELECT 2\nSET c 3\nCLIENT REPLY ON\nGET c\nRENAME c d\nCOPY d e\nRENAME none x\nDBSIZE\nCLIENT REPLY SKIP\nCLIENT REPLY ON\nPING\nRESET\nPING",
        "FLUSHALL\nAUTH wrong\nCLIENT SETNAME bob\nCLIENT GETNAME\nHELLO 3 AUTH nobody x\nHELLO 3 FOO\nSCAN 0 MATCH x*\nSET k v NX\nSET k v NX\nSET k v GET\nGETSET k w\nAPPEND new abc\nEXPIRE none 10\nGETDEL k\nCOMMAND COUNT x\nCOMMAND NOSUCH\nCOMMAND INFO nosuch\nHELLO 3\nCOMMAND INFO nosuch",
        "PING\nQUIT\nPING",
    ];
    for text in scripts {
        let bytes = script(text);
        let direct = talk(redis.address(), &bytes, usize::MAX);
        for piece in [usize::MAX, 1, 2, 7, 50] {
            let through = talk(embedded.address, &bytes, piece);
            assert_eq!(
                without_id(&through),
                without_id(&direct),
                "pieces of {piece}: {text}"
            );
        }
    }
}

#[test]
fn nonsense_has_the_answer_of_a_server() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let fixed = [
        &b"*1\r\n:1\r\n"[..],
        b"*99999999999\r\n",
        b"*1\r\n$-5\r\n",
        b"*1\r\n$536870913\r\n",
        b"*x\r\n",
        b"*2\r\n$4\r\nPING\r\nx\r\n",
        b"GET \"a\r\n",
        b"\r\n\r\nPING\r\nQUIT\r\n",
        b"*1\r\n$4\r\nPING\r\n*1\r\n$x\r\n",
    ];
    // Redis waits for more behind a zero byte.
    let bytes = (1..=u8::MAX).filter(|byte| *byte != b'$');
    let no_bulks: Vec<Vec<u8>> = bytes
        .map(|byte| [b"*1\r\n", &[byte][..], b"1\r\n"].concat())
        .collect();
    for bad in fixed.into_iter().chain(no_bulks.iter().map(Vec::as_slice)) {
        let (through, direct) = (
            talk_only(embedded.address, bad, usize::MAX),
            talk_only(redis.address(), bad, usize::MAX),
        );
        assert_eq!(
            through.escape_ascii().to_string(),
            direct.escape_ascii().to_string(),
            "{}",
            bad[..bad.len().min(40)].escape_ascii()
        );
    }
}

/// A web page can send a request to any port of the machine, and the store has no password: the
/// lines of its body were carried out.
#[test]
fn a_request_of_http_ends_the_connection_before_its_body() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let body = "Content-Type: text/plain\r\n\r\nSET user:1:evil 1\r\n";
    for (first, between) in [
        ("POST / HTTP/1.1", ""),
        ("pOsT / HTTP/1.1", "Host: 127.0.0.1\r\n"),
        ("PUT / HTTP/1.1", "Host: 127.0.0.1\r\n"),
        ("GET / HTTP/1.1", "hOST: 127.0.0.1\r\n"),
        ("MULTI", "POST / HTTP/1.1\r\n"),
    ] {
        let sent = format!("{first}\r\n{between}{body}");
        let (through, direct) = (
            talk_only(embedded.address, sent.as_bytes(), usize::MAX),
            talk_only(redis.address(), sent.as_bytes(), usize::MAX),
        );
        // A server drops the replies that it has not sent yet.
        let as_direct = direct.is_empty() || through == direct;
        assert!(as_direct, "{sent:?}: {}", String::from_utf8_lossy(&through));
        let there = talk(embedded.address, &script("EXISTS user:1:evil"), usize::MAX);
        assert!(there.starts_with(b":0\r\n"), "{sent:?}");
    }
}

#[test]
fn commands_are_described_as_a_server_describes_them() {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut sides = Sides::new(redis.address(), embedded.address, 0);
        let hello = [words(hello)];
        sides.redis.ask(&hello);
        sides.store.ask(&hello);
        let all = sides.store.ask(&[words("COMMAND")]).remove(0).frame;
        let names: Vec<String> = all
            .elements()
            .unwrap()
            .iter()
            .map(|command| {
                let name = command.elements().unwrap()[0].text().unwrap();
                String::from_utf8(name.to_vec()).unwrap()
            })
            .collect();
        assert!(names.len() > 130, "{}", names.len());
        for name in names {
            let command = [words(&format!("COMMAND INFO {name}"))];
            let left = described(&sides.redis.ask(&command).remove(0).frame);
            let right = described(&sides.store.ask(&command).remove(0).frame);
            assert_eq!(left, right, "{name}");
        }
    }
}

/// Returns the description of a command without its subcommands, of which a server has more, and
/// without notes about its keys.
fn described(reply: &Frame) -> String {
    let fields = reply.elements().unwrap()[0].elements().unwrap();
    let (_, fields) = fields.split_last().unwrap();
    let text = format!("{fields:?}");
    let notes = format!("{:?}", Frame::Bulk(b"notes".to_vec()));
    match text.split_once(&notes) {
        None => text,
        Some(_) => without_notes(fields),
    }
}

fn without_notes(fields: &[Frame]) -> String {
    let (specs, fields) = fields.split_last().unwrap();
    let specs: Vec<Frame> = specs
        .elements()
        .unwrap()
        .iter()
        .map(|spec| match spec {
            Frame::Map(pairs) => {
                let kept = pairs
                    .iter()
                    .filter(|(name, _)| name.text() != Some(b"notes"));
                Frame::Map(kept.cloned().collect())
            }
            other => {
                let elements = other.elements().unwrap().chunks(2);
                let kept = elements.filter(|pair| pair[0].text() != Some(b"notes"));
                Frame::Array(kept.flatten().cloned().collect())
            }
        })
        .collect();
    let specs = if fields.iter().any(|field| matches!(field, Frame::Set(_))) {
        Frame::Set(specs)
    } else {
        Frame::Array(specs)
    };
    format!("{:?}", [fields, &[specs]].concat())
}

#[test]
fn a_reply_from_the_store_waits_until_its_entry_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store"), Options::default()).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let config = ProxyConfig {
        release: probity_proxy::Release::Durable,
        ..ProxyConfig::new(any_port, Backend::Store(Arc::new(store)))
    };
    let (proxy, address, recorder) = start(&config);
    recorder.manual.store(true, Ordering::SeqCst);
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&command(&["SET", "a", "1"])).unwrap();
    recorder.wait_for(1);
    socket
        .set_read_timeout(Some(std::time::Duration::from_millis(100)))
        .unwrap();
    assert!(socket.read(&mut [0; 8]).is_err());
    recorder.commit();
    let mut reply = [0; 5];
    socket
        .set_read_timeout(Some(std::time::Duration::from_secs(5)))
        .unwrap();
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    proxy.stop();
}

/// Each client might keep a transaction of a gigabyte, and half a command beside it, and nothing bounded how many did. There is one
/// bound for all; what is beyond it is told so, in its place, and everything else goes on.
#[test]
fn the_memory_of_all_clients_of_a_store_is_bounded_together() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        sync: Sync::EverySecond,
        waiting_bytes_max: 4 << 20,
        ..Options::default()
    };
    let store = Store::open(&directory.path().join("store"), options).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let config = ProxyConfig::new(any_port, Backend::Store(Arc::new(store)));
    let (proxy, address, _) = start(&config);
    let long = "v".repeat(3 << 20);
    // One client keeps a transaction, another one half a command of the rest.
    let mut first = TcpStream::connect(address).unwrap();
    let begun = [script("MULTI"), command(&["SET", "a", &long])].concat();
    first.write_all(&begun).unwrap();
    first.read_exact(&mut [0; 14]).unwrap();
    let mut second = TcpStream::connect(address).unwrap();
    let whole = command(&["SET", "b", &long]);
    second.write_all(&whole[..600_000]).unwrap();
    let others = [
        script("SET c 1\nMULTI\nINCR c"),
        command(&["SET", "d", &long]),
        script("INCR c\nEXEC\nGET c\nWATCH c"),
    ];
    let heard = talk(address, &others.concat(), usize::MAX);
    let refused = "-ERR the transactions, long commands, watched keys and unread replies of all clients take more than 4194304 bytes, try it later\r\n";
    let expected = format!(
        "+OK\r\n+OK\r\n+QUEUED\r\n{refused}+QUEUED\r\n\
         -EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n1\r\n+OK\r\n+OK\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&heard), expected);
    second.write_all(&whole[600_000..]).unwrap();
    let mut reply = vec![0; refused.len()];
    second.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), refused);
    // The memory of the transaction is free again.
    first.write_all(&script("EXEC")).unwrap();
    let mut reply = [0; 9];
    first.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"*1\r\n+OK\r\n");
    assert!(talk(address, &whole, usize::MAX).starts_with(b"+OK"));
    proxy.stop();
}

/// An EXEC that was refused because it was long, where little memory was left, left the transaction open, and the log said that the
/// store's replies fit no commands. It ends the transaction, as every refused EXEC does, in the words that say so.
#[test]
fn an_exec_without_memory_ends_the_transaction_and_is_no_mismatch() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        sync: Sync::EverySecond,
        waiting_bytes_max: 300_000,
        ..Options::default()
    };
    let store = Store::open(&directory.path().join("store"), options).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let config = ProxyConfig::new(any_port, Backend::Store(Arc::new(store)));
    let (proxy, address, recorder) = start(&config);
    let mut holding = TcpStream::connect(address).unwrap();
    holding.write_all(&script("MULTI")).unwrap();
    for length in [150_000, 60_000] {
        let held = command(&["SET", "held", &"h".repeat(length)]);
        holding.write_all(&held).unwrap();
    }
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    let mut heard = vec![0; queued.len()];
    holding.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8_lossy(&heard), queued);
    let long = "x".repeat(150_000);
    let said = [
        script("MULTI\nSET k 1"),
        command(&["exec", &long]),
        script("PING\nMULTI\nSET k 2"),
        command(&["DISCARD", &long]),
        script("EXEC\nGET k"),
    ];
    let heard = talk(address, &said.concat(), usize::MAX);
    let full = "the transactions, long commands, watched keys and unread replies of all clients take more than 300000 bytes, try it later\r\n";
    let expected = format!(
        "+OK\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of: {full}+PONG\r\n+OK\r\n+QUEUED\r\n-ERR {full}\
         -EXECABORT Transaction discarded because of previous errors.\r\n$-1\r\n+OK\r\n"
    );
    assert_eq!(String::from_utf8_lossy(&heard), expected);
    let entries = recorder.wait_for(3);
    assert!(
        entries.iter().all(|it| it.action != "mismatch"),
        "{entries:?}"
    );
    proxy.stop();
}

/// Replies that nobody read were bounded for each client alone: 24 clients with a value of 60 MiB each took 1.6 GB. They count with what
/// clients say; what has no room is refused and not done, short replies are given, and what was read is free again.
#[test]
fn replies_that_nobody_reads_are_bounded_for_all_clients_together() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        sync: Sync::EverySecond,
        waiting_bytes_max: 24 << 20,
        ..Options::default()
    };
    let store = Store::open(&directory.path().join("store"), options).unwrap();
    let any_port = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let config = ProxyConfig::new(any_port, Backend::Store(Arc::new(store)));
    let (proxy, address, _) = start(&config);
    let long = "v".repeat(10 << 20);
    for setup in [
        command(&["SET", "a", &long]),
        command(&["RPUSH", "l", &long, "x"]),
    ] {
        talk(address, &setup, usize::MAX);
    }
    let whole = format!("${}\r\n{long}\r\n", long.len());
    // Beyond the first part, which shows that it was answered, nobody reads what was asked for.
    let mut unread = Vec::new();
    let mut refused = 0;
    for _ in 0..8 {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&script("GET a")).unwrap();
        let mut first = [0; 1];
        socket.read_exact(&mut first).unwrap();
        refused += usize::from(&first == b"-");
        unread.push(socket);
    }
    assert!((6..8).contains(&refused), "{refused}");
    let full = "-ERR the transactions, long commands, watched keys and unread replies of all clients take more than 25165824 bytes, try it later\r\n";
    // Nothing is taken out that cannot be answered, and short commands go on.
    let others = "GETDEL a\nGETSET a b\nLPOP l\nRPOPLPUSH l l\nLMOVE l m LEFT RIGHT\nSTRLEN a\nLLEN l\nSET c 1\nINCR c";
    let heard = String::from_utf8(talk(address, &script(others), usize::MAX)).unwrap();
    let moved = "$1\r\nx\r\n";
    let expected =
        format!("{full}{full}{full}{moved}{moved}:10485760\r\n:1\r\n+OK\r\n:2\r\n+OK\r\n");
    assert_eq!(heard, expected);
    drop(unread);
    // The memory of replies that will not be read is free again.
    for _ in 0..200 {
        let heard = talk(address, &script("GET a"), usize::MAX);
        if heard.len() > whole.len() {
            assert!(heard.starts_with(whole.as_bytes()));
            proxy.stop();
            return;
        }
        wait(20);
    }
    unreachable!("the memory of replies was not free again");
}

/// A client that had gone kept the store busy for an hour with the 52 KB that it had left behind, and other clients and a stop
/// waited. Clients take turns, and what had no turn before its client was missed is dropped.
#[test]
fn what_a_client_that_has_gone_left_behind_holds_up_nobody() {
    let embedded = Embedded::start();
    let members: Vec<String> = (0..20_000).map(|it| format!(" 1 {it}")).collect();
    talk(
        embedded.address,
        &script(&format!("ZADD z{}", members.concat())),
        usize::MAX,
    );
    let slow = script("INCR n\nZCOUNT z 0 2");
    let mut socket = TcpStream::connect(embedded.address).unwrap();
    socket.write_all(&slow.repeat(5000)).unwrap();
    drop(socket);
    let count = || {
        let heard = talk(embedded.address, &script("GET n"), usize::MAX);
        let heard = String::from_utf8(heard).unwrap();
        heard
            .split("\r\n")
            .nth(1)
            .and_then(|it| it.parse::<u32>().ok())
    };
    let mut before = count();
    for _ in 0..200 {
        wait(100);
        let after = count();
        if after == before && after.is_some() {
            assert!(after < Some(2500), "{after:?}");
            return;
        }
        before = after;
    }
    unreachable!("it goes on: {before:?}");
}

/// Clients that had said nothing were taken off the count of INFO when they went, though they had never been counted, and those that
/// were there seemed to be gone. A client counts from its first command on, until it goes.
#[test]
fn clients_that_say_nothing_are_neither_counted_nor_counted_down() {
    let embedded = Embedded::start();
    let say = |socket: &mut TcpStream, line: &str, bytes: usize| {
        socket.write_all(&script(line)).unwrap();
        let mut reply = vec![0; bytes];
        socket.read_exact(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    };
    let info = "$32\r\n# Clients\r\nconnected_clients:1\r\n\r\n";
    let mut first = TcpStream::connect(embedded.address).unwrap();
    say(&mut first, "PING", 7);
    drop([(); 3].map(|()| TcpStream::connect(embedded.address).unwrap()));
    wait(200);
    assert_eq!(say(&mut first, "INFO clients", info.len()), info);
    let mut second = TcpStream::connect(embedded.address).unwrap();
    let two = info.replace(":1", ":2");
    assert_eq!(say(&mut second, "INFO clients", two.len()), two);
    drop(second);
    let gone = |_: i32| {
        wait(20);
        say(&mut first, "INFO clients", info.len()) == info
    };
    assert!((0..200).any(gone));
}

#[test]
fn many_clients_share_the_store_and_none_loses_a_count() {
    let embedded = Embedded::start();
    let address = embedded.address;
    let clients: Vec<_> = (0..8)
        .map(|client| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                for number in 0..500 {
                    bytes.extend(command(&["INCR", "n"]));
                    bytes.extend(command(&["RPUSH", "l", &format!("{client} {number}")]));
                }
                talk(address, &bytes, 4096)
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let reply = talk(address, &script("GET n\nLLEN l"), usize::MAX);
    assert_eq!(
        String::from_utf8_lossy(&reply),
        "$4\r\n4000\r\n:4000\r\n+OK\r\n"
    );
}
