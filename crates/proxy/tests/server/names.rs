//! The name that a client gives itself counts as the server has it, whatever became of the command that gave it.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use probity_policy::Policy;
use probity_proxy::{Backend, Proxy, ProxyConfig, Upstream};

use crate::support::{Kind, Recorder, Redis, Seen, command, config, script, start, talk};

const USERS: &str = "--user alice on >a ~* &* +@all --user mute on >m ~* &* +@all -client";

const POLICY: &str = "version = 1\n[[actor]]\nclient = 'billing'\nfor_users = true\npurpose = 'invoicing'\n\
    [[actor]]\nclient = 'shop'\nfor_users = true\npurpose = 'selling'";

/// A server and a proxy before it.
struct Stage {
    redis: Redis,
    proxy: Proxy,
    address: SocketAddr,
    recorder: Arc<Recorder>,
}

impl Stage {
    fn new(kind: Kind, arguments: &[&str]) -> Self {
        let arguments: Vec<&str> = USERS.split(' ').chain(arguments.iter().copied()).collect();
        let redis = Redis::start_of(kind, &arguments);
        let url = format!("redis://alice:a@127.0.0.1:{}", redis.port());
        let config = ProxyConfig {
            policy: Arc::new(Policy::parse(POLICY).unwrap()),
            backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
            ..config(&redis)
        };
        let (proxy, address, recorder) = start(&config);
        Self {
            redis,
            proxy,
            address,
            recorder,
        }
    }

    /// Returns the replies to the client, and the entries of its reads.
    fn record(&self, lines: &str, piece: usize) -> (String, Vec<Seen>) {
        self.recorder.seen.lock().unwrap().clear();
        let heard = talk(self.address, &script(lines), piece);
        let mut entries = self.recorder.entries();
        entries.retain(|seen| seen.action == "read");
        (String::from_utf8_lossy(&heard).into_owned(), entries)
    }
}

fn purposes(reads: &[Seen]) -> Vec<&str> {
    reads.iter().map(|seen| seen.purpose.as_str()).collect()
}

/// The purpose that follows from a name, of which the server's own answer is the last one heard but that to QUIT.
fn purpose_of(heard: &str) -> &'static str {
    ["billing", "shop"]
        .iter()
        .zip(["invoicing", "selling"])
        .find(|(name, _)| heard.ends_with(&format!("{name}\r\n+OK\r\n")))
        .map_or("", |(_, purpose)| purpose)
}

/// Redis takes the name of a HELLO that it refuses for another reason, Valkey does not: the proxy kept the old name, and the
/// policy decided by it. What counts is what the server answers when it is asked.
#[test]
fn the_name_of_a_refused_hello_counts_as_the_server_has_it() {
    let hellos = [
        "HELLO 3 SETNAME shop BADOPT",
        "HELLO 2 SETNAME shop BADOPT",
        "HELLO 3 SETNAME shop AUTH alice WRONG",
        "HELLO 3 AUTH alice WRONG SETNAME shop",
        "HELLO 3 AUTH alice a SETNAME shop BADOPT",
        "HELLO 9 SETNAME shop",
        "HELLO 3 SETNAME shop SETNAME",
        "HELLO 2 SETNAME shop SETNAME a\tb",
        "HELLO 3 SETNAME shop",
    ];
    let mut taken = [0, 0];
    for kind in [Kind::Redis7, Kind::Redis6, Kind::Valkey] {
        let stage = Stage::new(kind, &[]);
        for hello in hellos {
            for before in ["HELLO 2", "HELLO 3", "AUTH alice a"] {
                let lines = format!(
                    "{before}\nCLIENT SETNAME billing\n{hello}\nGET user:1\nMULTI\nGET user:2\nEXEC\nCLIENT GETNAME"
                );
                for piece in [usize::MAX, 9] {
                    let (heard, reads) = stage.record(&lines, piece);
                    let purpose = purpose_of(&heard);
                    assert!(!purpose.is_empty(), "{kind:?} {lines}: {heard}");
                    taken[usize::from(purpose == "selling")] += 1;
                    let told = purposes(&reads);
                    assert_eq!(told, [purpose, purpose], "{kind:?} {lines}: {heard}");
                }
            }
        }
        stage.proxy.stop();
    }
    assert!(taken[0] > 0 && taken[1] > 0, "both were seen");
}

/// A server refuses a subscribed client of RESP2 everything else, the questions of the proxy too: their errors were taken for the answer
/// that the client has no name, or ended the connection. Nothing is asked there, since nothing was looked at.
#[test]
fn a_refused_hello_of_a_subscribed_client_changes_nothing() {
    for kind in [Kind::Redis7, Kind::Redis6, Kind::Valkey] {
        let stage = Stage::new(kind, &[]);
        for hello in ["HELLO 3 SETNAME shop", "HELLO 3 AUTH alice a"] {
            let lines = format!(
                "CLIENT SETNAME billing\nSUBSCRIBE ch\n{hello}\nUNSUBSCRIBE ch\nGET user:1\nCLIENT GETNAME"
            );
            let (heard, reads) = stage.record(&lines, usize::MAX);
            assert!(heard.ends_with("billing\r\n+OK\r\n"), "{kind:?} {heard}");
            assert_eq!(purposes(&reads), ["invoicing"], "{kind:?} {hello}");
        }
        stage.proxy.stop();
    }
}

/// Within a transaction a name counts from its place on, if the server took it, and not where nothing was executed.
#[test]
fn a_name_within_a_transaction_counts_once_it_was_executed() {
    let taken = "MULTI\nGET user:1\nCLIENT SETNAME shop\nGET user:2\nEXEC\nGET user:3";
    let refused = "MULTI\nGET user:1\nCLIENT SETNAME a\tb\nGET user:2\nEXEC\nGET user:3";
    let dropped = "MULTI\nCLIENT SETNAME shop\nGET user:1\nDISCARD\nGET user:2\nGET user:3";
    let aborted = "MULTI\nCLIENT SETNAME shop\nGET user:1\nNOSUCH\nEXEC\nGET user:2\nGET user:3";
    let (old, new) = ("invoicing", "selling");
    let stage = Stage::new(Kind::Redis7, &[]);
    for before in ["HELLO 2", "HELLO 3"] {
        for (lines, expected) in [
            (taken, [old, new, new]),
            (refused, [old; 3]),
            (dropped, [old; 3]),
            (aborted, [old; 3]),
        ] {
            let lines = format!("{before}\nAUTH alice a\nCLIENT SETNAME billing\n{lines}");
            let (heard, reads) = stage.record(&lines, usize::MAX);
            assert_eq!(purposes(&reads), expected, "{lines}: {heard}");
        }
    }
    stage.proxy.stop();
}

/// Before a login the server answers no question, yet Redis keeps the name of a HELLO that it
/// refuses for lack of one. The name is asked for after a login, and if that user may not ask, no
/// name counts.
#[test]
fn a_name_from_before_the_login_is_asked_for_after_it() {
    for kind in [Kind::Redis7, Kind::Valkey] {
        let lines = "HELLO 3 SETNAME shop\nAUTH alice a\nGET user:1\nCLIENT GETNAME";
        let stage = Stage::new(kind, &["--user", "default", "off"]);
        let (heard, reads) = stage.record(lines, usize::MAX);
        assert_eq!(purposes(&reads), [purpose_of(&heard)], "{kind:?}: {heard}");
        stage.proxy.stop();
    }
    let lines = "CLIENT SETNAME billing\nAUTH mute m\nHELLO 3 SETNAME shop BADOPT\nGET user:1";
    let stage = Stage::new(Kind::Redis7, &[]);
    let (heard, reads) = stage.record(lines, usize::MAX);
    assert_eq!(purposes(&reads), [""]);
    assert_eq!(reads[0].actor, "mute");
    assert!(!heard.contains("NOPERM"), "{heard}");
    stage.proxy.stop();
}

/// The reply to SETNAME was lost, and what came after it stood under the old name as if that were certain.
#[test]
fn after_a_lost_name_both_are_named() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    // Behind a command that blocks nothing is answered, and the client goes.
    let bytes = [
        command(&["BLPOP", "user:none", "0"]),
        command(&["CLIENT", "SETNAME", "shop"]),
        command(&["GET", "user:1"]),
    ]
    .concat();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&bytes).unwrap();
    drop(socket);
    let entries = recorder.wait_for(2);
    proxy.stop();
    let read = entries.iter().find(|seen| seen.key == "user:1").unwrap();
    assert!(
        read.payload.contains("\"perhaps_actors\":[\"shop\"]"),
        "{}",
        read.payload
    );
}

/// A lost RESET may have ended a login, and yet a name that was set behind it was left out, so that
/// the actor had no name at all. Names from behind a lost RESET are recorded, those from before it
/// are not.
#[test]
fn after_a_lost_reset_a_name_is_named_beside_the_login() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let bytes = [
        command(&["AUTH", "default", "x"]),
        command(&["BLPOP", "user:none", "0"]),
        command(&["CLIENT", "SETNAME", "before"]),
        command(&["RESET"]),
        command(&["CLIENT", "SETNAME", "shop"]),
        command(&["GET", "user:1"]),
    ]
    .concat();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(&bytes).unwrap();
    socket.read_exact(&mut [0; 5]).unwrap();
    drop(socket);
    let entries = recorder.wait_for(usize::MAX);
    proxy.stop();
    let read = entries.iter().find(|seen| seen.key == "user:1").unwrap();
    assert!(
        read.payload
            .contains("\"perhaps_actors\":[\"default\",\"shop\"]"),
        "{}",
        read.payload
    );
}

/// Of lost names, logins and databases the sixteen that sort first were named, as if there had been no others: the one that was
/// most likely in force was left out in silence. The last ones are named, and that there were more.
#[test]
fn of_many_lost_names_the_last_are_named_and_that_there_were_more() {
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    for (count, more) in [(16, false), (20, true)] {
        let names: Vec<String> = (0..count).rev().map(|it| format!("n{it:02}")).collect();
        let mut bytes = command(&["BLPOP", "user:none", "0"]);
        for name in &names {
            bytes.extend(command(&["CLIENT", "SETNAME", name]));
        }
        bytes.extend(command(&["GET", &format!("user:{count}")]));
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&bytes).unwrap();
        drop(socket);
        let key = format!("user:{count}");
        let found = |seen: &Seen| seen.key == key;
        let read = (0..20).find_map(|_| {
            let entries = recorder.wait_for(usize::MAX);
            entries.into_iter().find(found)
        });
        let payload = read.unwrap().payload;
        let last = names[names.len() - 16..].join("\",\"");
        let named = format!("\"perhaps_actors\":[\"{last}\"]");
        assert!(payload.contains(&named), "{payload}");
        assert_eq!(payload.contains("\"perhaps_more\":true"), more, "{payload}");
    }
    proxy.stop();
}

/// A client gave itself a name in a HELLO that was refused, before a server that let nobody in without
/// a login. Once the server let everybody in, nobody had logged in, so that the name was not asked
/// for and was missing in all that the client did. It is asked for before the next command.
#[test]
fn a_name_from_before_is_asked_for_where_no_login_is_needed_any_more() {
    let hellos = [
        "HELLO 3 SETNAME shop",
        "HELLO 3 SETNAME shop AUTH alice WRONG",
    ];
    let does = [
        "GET user:1\nCLIENT GETNAME",
        "MULTI\nGET user:1\nEXEC\nCLIENT GETNAME",
        "EVALSHA 0000000000000000000000000000000000000000 1 user:1\nGET user:1\nCLIENT GETNAME",
    ];
    let mut taken = 0;
    for kind in [Kind::Redis7, Kind::Redis6, Kind::Valkey] {
        for hello in hellos {
            for lines in does {
                taken += usize::from(name_counts_once_let_in(kind, hello, lines));
            }
        }
    }
    assert!(taken > 0, "a server took the name");
}

/// Returns whether the server took the name, which its entries have then and only then.
fn name_counts_once_let_in(kind: Kind, hello: &str, lines: &str) -> bool {
    let ways: [&[&str]; 2] = [
        &["ACL", "SETUSER", "default", "on", "nopass"],
        &["CONFIG", "SET", "requirepass", ""],
    ];
    let taken = ways.map(|open| {
        let stage = Stage::new(kind, &["--requirepass", "sec"]);
        let case = format!("{kind:?} {open:?} {hello} {lines}");
        let mut socket = TcpStream::connect(stage.address).unwrap();
        let before = format!("{hello}\nGET user:0");
        hear(&mut socket, &before, "-NOAUTH Authentication required.");
        let free = [command(&["AUTH", "alice", "a"]), command(open)].concat();
        let done = talk(stage.redis.address(), &free, usize::MAX);
        assert_eq!(done, b"+OK\r\n+OK\r\n+OK\r\n", "{case}");
        stage.recorder.seen.lock().unwrap().clear();
        let heard = say(&mut socket, lines);
        let named = heard.ends_with("$4\r\nshop\r\n");
        assert!(named || heard.ends_with("$-1\r\n"), "{case}: {heard}");
        let mut entries = stage.recorder.entries();
        entries.retain(|seen| seen.key == "user:1");
        assert!(!entries.is_empty(), "{case}: {heard}");
        for seen in &entries {
            let told = (&*seen.actor, &*seen.submitter, seen.claimed.actor);
            let actor = if named { "shop" } else { "default" };
            assert_eq!(told, (actor, "", named), "{case}: {heard}");
        }
        stage.proxy.stop();
        named
    });
    assert_eq!(taken[0], taken[1], "{kind:?}");
    taken[0]
}

/// Sends lines and gives the replies, up to the error of a last command that no server has.
fn say(socket: &mut TcpStream, lines: &str) -> String {
    let heard = hear(
        socket,
        &format!("{lines}\nEND-OF-LINES"),
        "-ERR unknown command",
    );
    let (replies, _) = heard.rsplit_once("-ERR unknown command").unwrap();
    replies.to_owned()
}

/// Sends lines and gives the replies once the last of them begins with `last`.
fn hear(socket: &mut TcpStream, lines: &str, last: &str) -> String {
    socket.write_all(&script(lines)).unwrap();
    let limit = Some(Duration::from_secs(20));
    socket.set_read_timeout(limit).unwrap();
    let (mut heard, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&heard).into_owned();
        let line = text.trim_end().rsplit("\r\n").next();
        if text.ends_with("\r\n") && line.is_some_and(|line| line.starts_with(last)) {
            return text;
        }
        let count = socket.read(&mut part).unwrap_or(0);
        assert!(count > 0, "{lines}: {text}");
        heard.extend(part.iter().take(count));
    }
}

/// A user may lose its password while its client is connected, or be let in without one, or not any
/// more: the client stays who it is, with the name that the server holds.
#[test]
fn a_user_that_loses_its_password_keeps_its_name() {
    let hellos = [
        "PING",
        "HELLO 3 SETNAME shop BADOPT",
        "HELLO 3 AUTH alice a SETNAME shop",
        "HELLO 3 SETNAME shop AUTH alice a",
        "HELLO 3 AUTH alice WRONG SETNAME shop BADOPT",
        "AUTH alice a",
        "CLIENT SETNAME shop",
    ];
    for kind in [Kind::Redis7, Kind::Redis6, Kind::Valkey] {
        let stage = Stage::new(kind, &["--requirepass", "sec"]);
        for rule in ["nopass", "resetpass", "off"] {
            for hello in hellos {
                name_stays(&stage, rule, hello);
            }
        }
        stage.proxy.stop();
    }
}

fn name_stays(stage: &Stage, rule: &str, hello: &str) {
    let mut socket = TcpStream::connect(stage.address).unwrap();
    say(&mut socket, "AUTH alice a\nCLIENT SETNAME billing");
    let grant = |rule: &str| {
        let lines = format!("AUTH default sec\nACL SETUSER alice {rule}");
        let done = talk(stage.redis.address(), &script(&lines), usize::MAX);
        assert_eq!(done, b"+OK\r\n+OK\r\n+OK\r\n", "{rule}");
    };
    grant(rule);
    stage.recorder.seen.lock().unwrap().clear();
    let lines = format!("{hello}\nGET user:1\nACL WHOAMI\nCLIENT GETNAME");
    let heard = say(&mut socket, &lines);
    let names = ["billing", "shop"].iter();
    let mut names = names.zip(["invoicing", "selling"]);
    let told = names.find(|(name, _)| heard.ends_with(&format!("{name}\r\n")));
    let case = format!("{rule} {hello}: {heard}");
    assert!(told.is_some(), "{case}");
    let expected = told.map(|(_, purpose)| ("alice", "alice", purpose));
    let entries = stage.recorder.entries();
    let read = entries.iter().find(|seen| seen.key == "user:1");
    let told = read.map(|read| (&*read.actor, &*read.submitter, &*read.purpose));
    assert_eq!(told, expected, "{case}");
    assert!(heard.contains("alice"), "{case}");
    grant("on resetpass >a");
}
