//! Messages that a server writes into the middle of a reply.

use crate::adversary::watcher::{Executed, Watcher};
use crate::scripted::before;
use crate::support::{Kind, Redis, command, config, script, start, talk, told, wait};
use crate::transparency::without_id;

const KINDS: [Kind; 3] = [Kind::Redis7, Kind::Redis6, Kind::Valkey];

/// A server that tells of each change and each miss, and whose users are `admin` and `mallory`.
fn telling(kind: Kind, events: &str) -> Redis {
    let users = "--user admin on >realpw ~* +@all --user mallory on >m ~* &* +@all -@admin +acl";
    let arguments = format!("--notify-keyspace-events {events} {users}");
    let arguments: Vec<_> = arguments.split(' ').collect();
    let redis = Redis::start_of(kind, &arguments);
    let lines = "SET x val\nSET user:anna diary";
    talk(redis.address(), &script(lines), usize::MAX);
    redis
}

/// All events that a server of this kind has.
const fn all_events(kind: Kind) -> &'static str {
    match kind {
        Kind::Redis6 => "KEAm",
        Kind::Redis7 | Kind::Valkey => "KEAmn",
    }
}

/// The commands that follow a reply with a message in it.
const AFTER: &str = "SET a 1\nAUTH admin wrong\nSET b 1\nGET user:anna\nDEL user:anna\nGET a\nMULTI\n\
                     GET nokey\nMGET nokey x\nSET c 1\nEXEC\nACL WHOAMI\nGET b";

/// The commands in `lines` and those that follow them; in the place of WAIT a script that takes a while.
fn pipeline(lines: &str) -> Vec<u8> {
    let spin = "local a=redis.call('time') repeat local b=redis.call('time') \
                until b[2]-a[2]>4000 or b[1]~=a[1]";
    let lines = lines.lines().chain(AFTER.lines());
    lines
        .flat_map(|line| match line {
            "WAIT" => command(&["EVAL", spin, "0"]),
            line => script(line),
        })
        .collect()
}

/// A notification in the middle of a reply of RESP3 was counted as an element of it, and from there on
/// each reply as that of another command: a refused AUTH was recorded as a login, and what followed
/// under the name of that user. Each reply belongs to its command, as MONITOR saw them.
#[test]
fn a_message_in_the_middle_of_a_reply_shifts_nothing() {
    for kind in KINDS {
        let misses = ("__keyevent@0__:keymiss", "MGET nokey x");
        let expiry = "SET k 1 PX 1\nWAIT\nMGET k x";
        for (channel, lines) in [misses, ("__keyevent@0__:expired", expiry)] {
            for piece in [usize::MAX, 1, 7] {
                let redis = telling(kind, all_events(kind));
                let (proxy, address, recorder) = start(&config(&redis));
                let watcher = Watcher::start(redis.address());
                let login = script(&format!("HELLO 3 AUTH mallory m\nSUBSCRIBE {channel}"));
                let bytes = [login, pipeline(lines)].concat();
                let heard = talk(address, &bytes, piece);
                let heard = String::from_utf8_lossy(&heard);
                assert!(heard.contains("$7\r\nmallory\r\n"), "{kind:?}: {heard}");
                proxy.stop();
                let done: Vec<_> = watcher
                    .stop()
                    .into_iter()
                    .filter(Executed::is_write)
                    .collect();
                let deleted = done
                    .iter()
                    .any(|it| it.words.iter().any(|word| word == b"user:anna"));
                assert!(deleted && done.len() >= 4, "{kind:?}");
                let entries = recorder.entries();
                let told: Vec<_> = told(&entries);
                let place = told.iter().position(|told| told.contains(" read x ok"));
                let expected = [
                    "mallory read x ok",
                    "mallory update a ok",
                    "admin authenticate  denied",
                    "mallory update b ok",
                    "mallory read user:anna ok",
                    "mallory delete user:anna ok",
                    "mallory read a ok",
                    "mallory read nokey absent",
                    "mallory read nokey absent",
                    "mallory read x ok",
                    "mallory update c ok",
                    "mallory read b ok",
                ];
                assert_eq!(
                    told[place.unwrap()..],
                    expected,
                    "{kind:?} {channel} {piece}"
                );
                let others = entries.iter().filter(|seen| seen.actor != "admin");
                assert!(others.clone().count() > 10);
                assert!(others.clone().all(|seen| seen.submitter == "mallory"));
            }
        }
    }
}

/// The bytes of messages counted as those of the reply, which was then taken for one too long to wait for: keys that
/// were not there were recorded as read.
#[test]
fn messages_make_no_reply_longer() {
    for kind in [Kind::Redis7, Kind::Redis6] {
        let redis = telling(kind, all_events(kind));
        let (proxy, address, recorder) = start(&config(&redis));
        let keys: Vec<String> = (0..3_000).map(|number| format!("nokey:{number}")).collect();
        let wanted = format!("MGET {}", keys.join(" "));
        let lines = format!("HELLO 3 AUTH mallory m\nSUBSCRIBE __keyevent@0__:keymiss\n{wanted}");
        talk(address, &script(&lines), usize::MAX);
        proxy.stop();
        let entries = recorder.entries();
        let told = told(&entries);
        let absent = told.iter().filter(|it| it.ends_with(" absent"));
        assert_eq!(absent.count(), keys.len(), "{kind:?}");
    }
}

/// A client that wants no replies still gets the messages within them, as from the server itself.
#[test]
fn a_message_within_a_reply_that_nobody_hears_is_heard() {
    let big = "y".repeat(400_000);
    for kind in KINDS {
        let redis = telling(kind, all_events(kind));
        let set = command(&["SET", "big", &big]);
        talk(redis.address(), &set, usize::MAX);
        let (proxy, address, recorder) = start(&config(&redis));
        for lines in [
            "CLIENT REPLY OFF\nMGET nokey x nokey2\nCLIENT REPLY ON\nPING",
            "CLIENT REPLY SKIP\nMGET nokey x\nPING\nMGET nokey x",
            "CLIENT REPLY OFF\nMGET nokey big nokey2 x\nCLIENT REPLY ON\nGET x",
            "CLIENT REPLY SKIP\nMULTI\nMGET nokey x\nGET nokey\nMGET big nokey\nEXEC\nGET x",
            "MGET nokey big nokey2 x\nGET x",
        ] {
            let lines = format!("HELLO 3\nPSUBSCRIBE __key*@0__:*\n{lines}");
            let direct = talk(redis.address(), &script(&lines), usize::MAX);
            for piece in [usize::MAX, 5] {
                recorder.seen.lock().unwrap().clear();
                let through = talk(address, &script(&lines), piece);
                assert_eq!(
                    without_id(&through),
                    without_id(&direct),
                    "{kind:?}: {lines}"
                );
                let told = told(&recorder.entries());
                assert!(told.iter().any(|told| told == "default read nokey absent"));
                assert!(told.iter().any(|told| told.ends_with(" ok")), "{told:?}");
            }
        }
        proxy.stop();
    }
}

/// In RESP2 a message is an array like any other, which within the results of EXEC nobody could tell
/// from a result: nobody subscribes, and nobody goes back to RESP2, within a transaction.
#[test]
fn where_a_message_looks_like_a_result_nobody_subscribes() {
    for kind in KINDS {
        let redis = telling(kind, all_events(kind));
        let (proxy, address, recorder) = start(&config(&redis));
        for line in [
            "SUBSCRIBE __keyevent@0__:keymiss",
            "PSUBSCRIBE __key*",
            "SSUBSCRIBE s",
            "HELLO 2",
            "HELLO 3",
        ] {
            if kind == Kind::Redis6 && line == "SSUBSCRIBE s" {
                continue;
            }
            let before = if line == "HELLO 2" {
                "HELLO 3\nSUBSCRIBE a\n"
            } else {
                ""
            };
            let lines = format!("{before}MULTI\n{line}\nMGET nokey x\nSET user:anna y\nEXEC");
            let heard = talk(address, &script(&lines), usize::MAX);
            let heard = String::from_utf8_lossy(&heard);
            assert!(
                heard.contains("inside MULTI do not pass"),
                "{kind:?} {line}: {heard}"
            );
        }
        wait(20);
        let told = told(&recorder.entries());
        assert!(
            told.iter().all(|told| !told.contains("user:anna")),
            "{told:?}"
        );
        proxy.stop();
    }
}

/// A message that ends a connection where it stands alone ends it in the middle of a reply too.
#[test]
fn a_message_within_a_reply_redirects_and_confirms_nothing() {
    let answer = |asked: &str| {
        let message = match asked {
            "MGET A B" => ">2\r\n$6\r\nMOVING\r\n$13\r\n10.0.0.9:6379\r\n",
            "MGET C D" => ">3\r\n+subscribe\r\n+a\r\n:1\r\n",
            "MGET E F" => ">3\r\n+message\r\n*1\r\n>0\r\n%1\r\n+subscribe\r\n:1\r\n+b\r\n",
            _ => return Vec::new(),
        };
        format!("*2\r\n$1\r\na\r\n{message}$1\r\nb\r\n").into_bytes()
    };
    let (proxy, address, recorder) = start(&before(answer));
    for (line, end) in [
        ("MGET a b", "redirects"),
        ("MGET c d", "do not fit"),
        ("MGET e f", ""),
    ] {
        for piece in [usize::MAX, 1] {
            recorder.seen.lock().unwrap().clear();
            let heard = talk(address, &script(line), piece);
            let heard = String::from_utf8_lossy(&heard);
            assert!(
                heard.contains(end) && heard.contains("$1\r\nb") == end.is_empty(),
                "{heard}"
            );
            let told = told(&recorder.wait_for(2));
            assert_eq!(
                told.iter().filter(|told| told.ends_with("ok")).count(),
                if end.is_empty() { 2 } else { 0 }
            );
        }
    }
    proxy.stop();
}

/// Whatever came in the place of the reply to HELLO, if it was an array, logged its user in.
#[test]
fn a_reply_that_hello_does_not_have_logs_nobody_in() {
    let answer = |asked: &str| {
        let reply = match asked {
            "HELLO 3 AUTH ADMIN X" => "%1\r\n+a\r\n+b\r\n",
            "HELLO 2 AUTH ADMIN X" => "*2\r\n+a\r\n+b\r\n",
            "AUTH ADMIN X" => "+PONG\r\n",
            _ => "",
        };
        reply.as_bytes().to_vec()
    };
    let (proxy, address, recorder) = start(&before(answer));
    for line in [
        "HELLO 3 AUTH admin x",
        "HELLO 2 AUTH admin x",
        "AUTH admin x",
    ] {
        recorder.seen.lock().unwrap().clear();
        let heard = talk(address, &script(&format!("{line}\nGET user:1")), usize::MAX);
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.contains("do not fit"), "{line}: {heard}");
        let entries = recorder.wait_for(2);
        assert!(
            entries.iter().all(|seen| seen.submitter.is_empty()),
            "{entries:?}"
        );
        assert!(told(&entries).contains(&"admin authenticate  failed".to_owned()));
    }
    proxy.stop();
}
