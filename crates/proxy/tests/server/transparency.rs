//! Through the proxy a client sees the same bytes as without it, and every touched key is in the log.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use probity_format::Outcome;

use crate::support::{Redis, command, config, script, start, talk, talk_only, wait};

const SCRIPTS: [&str; 6] = [
    "FLUSHALL\nSET user:1:a x\nGET user:1:a\nGET user:2:a\nDEL user:1:a nokey\nINCR n\nINCR n x\nNOSUCH a b\nMSET a 1 b 2\nMGET a c b\nSETNX a 1\nSETNX z 1\nLPUSH l 1 2 3\nLRANGE l 0 -1\nHSET h f v\nHGETALL h\nTTL a\nTYPE a\nGET h",
    "FLUSHALL\nMULTI\nSET a 1\nGET a\nGET h\nMGET a b\nLPUSH a x\nEXEC\nEXEC\nMULTI\nNOSUCH\nSET a 2\nEXEC\nMULTI\nSET a 3\nDISCARD\nWATCH a\nSET a 4\nMULTI\nGET a\nEXEC\nSELECT 3\nSET three 3\nSELECT 0\nGET three",
    "FLUSHALL\nHELLO 3\nSET a 1\nHSET h f v g w\nHGETALL h\nSMEMBERS none\nGET none\nSADD s a\nSMEMBERS s\nZADD z 1.5 m\nZSCORE z m\nXADD x 1-1 f v\nXREAD STREAMS x y 0 0\nEVAL return{1,KEYS[1]} 1 k\nSUBSCRIBE c d\nPUBLISH c hello\nUNSUBSCRIBE\nPING\nRESET",
    "FLUSHALL\nSUBSCRIBE c d\nPING\nPSUBSCRIBE p*\nGET a\nUNSUBSCRIBE c\nUNSUBSCRIBE\nPUNSUBSCRIBE\nSET a 1\nGET a",
    "FLUSHALL\nCLIENT REPLY SKIP\nSET a 1\nGET a\nCLIENT REPLY OFF\nSET b 2\nSELECT 2\nSET c 3\nCLIENT REPLY ON\nGET c\nRPUSH q 1\nBLPOP none q 1\nBLPOP none q 0.01\nRENAME c d\nCOPY d e\nRENAME none x\nKEYS *\nDBSIZE",
    "FLUSHALL\nAUTH wrong\nCLIENT SETNAME bob\nCLIENT GETNAME\nSORT l BY nosort STORE dst\nOBJECT ENCODING none\nSCAN 0 MATCH x*\nSET k v NX\nSET k v NX\nSET k v GET\nGETSET k w\nAPPEND new abc\nEXPIRE none 10\nGETDEL k",
];

#[test]
fn every_script_gives_the_same_bytes_however_it_is_cut() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    for text in SCRIPTS {
        let bytes = script(text);
        let direct = talk(redis.address(), &bytes, usize::MAX);
        for piece in [usize::MAX, 1, 2, 3, 7, 50] {
            let through = talk(address, &bytes, piece);
            assert_eq!(
                without_id(&through),
                without_id(&direct),
                "pieces of {piece}: {text}"
            );
        }
    }
    proxy.stop();
}

/// HELLO tells the connection's number, which no two connections share.
pub(crate) fn without_id(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut parts = text.split("$2\r\nid\r\n:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

#[test]
fn every_touched_key_is_in_the_log_with_its_outcome() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let lines = "CLIENT SETNAME bob\nSET user:1:a x\nGET user:2:a\nSETNX new 1\nSETNX new 1\nMGET user:1:a none\nMULTI\nSET m 1\nGET h\nEXEC\nSELECT 3\nDEL none\nFLUSHDB";
    talk(address, &script(lines), usize::MAX);
    let entries = recorder.wait_for(10);
    let brief: Vec<_> = entries
        .iter()
        .map(|seen| {
            format!(
                "{} {} {} {}",
                seen.action,
                seen.key,
                seen.subjects,
                seen.outcome.as_str()
            )
        })
        .collect();
    assert_eq!(
        brief,
        [
            "update user:1:a 1 ok",
            "read user:2:a 2 absent",
            "create new  ok",
            "update new  failed",
            "read user:1:a 1 ok",
            "read none  absent",
            "update m  ok",
            "read h  absent",
            "delete db3/none  absent",
            "delete *  ok",
        ]
    );
    assert!(
        entries
            .iter()
            .all(|seen| seen.actor == "bob" && seen.claimed.actor)
    );
    proxy.stop();
}

#[test]
fn a_principal_counts_only_after_a_login_that_succeeded() {
    let redis = Redis::start(&["--user", "al", "on", ">secret", "~user:*", "+@all"]);
    let (proxy, address, recorder) = start(&config(&redis));
    let lines =
        "AUTH al wrong\nGET user:1\nAUTH al secret\nGET user:1\nGET other\nRESET\nGET user:1";
    talk(address, &script(lines), usize::MAX);
    let entries = recorder.wait_for(6);
    let brief: Vec<_> = entries
        .iter()
        .map(|seen| (seen.action.as_str(), seen.actor.as_str(), seen.outcome))
        .collect();
    assert_eq!(
        brief,
        [
            ("authenticate", "al", Outcome::Denied),
            ("read", "default", Outcome::Absent),
            ("authenticate", "al", Outcome::Ok),
            ("read", "al", Outcome::Absent),
            ("read", "al", Outcome::Denied),
            ("read", "default", Outcome::Absent),
        ]
    );
    assert!(
        entries
            .iter()
            .all(|seen| !format!("{seen:?}").contains("secret"))
    );
    proxy.stop();
}

#[test]
fn a_strict_reply_waits_for_the_commit() {
    let redis = Redis::start(&[]);
    let config = probity_proxy::ProxyConfig {
        release: probity_proxy::Release::Durable,
        ..config(&redis)
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

#[test]
fn when_the_log_fails_the_reply_is_refused_and_the_connection_ends() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    recorder.failed.store(true, Ordering::SeqCst);
    let reply = talk(address, &command(&["SET", "a", "1"]), usize::MAX);
    assert!(
        reply.starts_with(b"-ERR probity: the log does not take"),
        "{}",
        String::from_utf8_lossy(&reply)
    );
    proxy.stop();
}

#[test]
fn big_values_stream_through() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let value = "v".repeat(64 << 20);
    let mut bytes = command(&["SET", "big", &value]);
    bytes.extend(command(&["GET", "big"]));
    let reply = talk(address, &bytes, 1 << 20);
    assert_eq!(reply.len(), 5 + "$67108864\r\n".len() + (64 << 20) + 2 + 5);
    assert_eq!(recorder.wait_for(2).len(), 2);
    proxy.stop();
}

#[test]
fn ten_thousand_pipelined_commands_keep_their_order() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes: Vec<u8> = (0..10_000)
        .flat_map(|number| command(&["ECHO", &number.to_string()]))
        .collect();
    assert_eq!(
        talk(address, &bytes, usize::MAX),
        talk(redis.address(), &bytes, usize::MAX)
    );
    let bytes: Vec<u8> = (0..10_000)
        .flat_map(|number| command(&["INCRBY", "n", &number.to_string()]))
        .collect();
    talk(address, &bytes, usize::MAX);
    assert_eq!(recorder.wait_for(10_000).len(), 10_000);
    proxy.stop();
}

#[test]
fn commands_under_way_when_the_server_dies_are_recorded_as_lost() {
    let mut redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut socket = TcpStream::connect(address).unwrap();
    socket
        .write_all(&command(&["BLPOP", "user:7:q", "0"]))
        .unwrap();
    wait(200);
    redis.kill();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    let entries = recorder.wait_for(1);
    assert_eq!(
        (entries[0].outcome, entries[0].subjects.as_str()),
        (Outcome::Failed, "7")
    );
    assert!(entries[0].payload.contains("\"reply\":\"lost\""));
    proxy.stop();
}

#[test]
fn nonsense_gets_the_servers_own_answer_and_replication_is_refused() {
    let redis = Redis::start(&[]);
    let (proxy, address, _) = start(&config(&redis));
    for bad in [
        &b"*1\r\n:1\r\n"[..],
        b"*99999999999\r\n",
        b"*1\r\n$-5\r\n",
        b"GET \"a\r\n",
        b"\r\n\r\nPING\r\nQUIT\r\n",
    ] {
        let (through, direct) = (
            talk_only(address, bad, 1),
            talk_only(redis.address(), bad, 1),
        );
        assert_eq!(
            String::from_utf8_lossy(&through),
            String::from_utf8_lossy(&direct)
        );
    }
    for replication in ["SYNC", "PSYNC ? -1", "REPLCONF listening-port 1"] {
        let reply = talk_only(address, &script(replication), 64);
        assert!(
            reply.starts_with(b"-ERR probity: replication"),
            "{}",
            String::from_utf8_lossy(&reply)
        );
    }
    proxy.stop();
}
