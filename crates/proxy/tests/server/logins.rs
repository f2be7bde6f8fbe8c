//! Questions of the proxy on a client's connection after a login: when, how often, and what an error
//! means.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use probity_format::Timestamp;
use probity_policy::Policy;
use probity_proxy::audit::EntryBatch;
use probity_proxy::command::Table;
use probity_proxy::session::{End, Next, Session};
use probity_proxy::{Backend, Proxy, ProxyConfig, Upstream};

use crate::support::{
    Kind, Recorder, Redis, command, config, script, start, talk, talk_only, told, wait,
};

const KINDS: [Kind; 3] = [Kind::Redis7, Kind::Redis6, Kind::Valkey];
const ALICE: [&str; 7] = ["--user", "alice", "on", ">a", "~*", "&*", "+@all"];

/// A server with a password, and a proxy before it on one of its databases.
struct Stage {
    redis: Redis,
    proxy: Proxy,
    address: SocketAddr,
    recorder: Arc<Recorder>,
}

impl Stage {
    fn new(kind: Kind, db: &str, password: &[&str]) -> Self {
        let redis = Redis::start_of(kind, &[&ALICE, password].concat());
        let url = format!("redis://alice:a@127.0.0.1:{}{db}", redis.port());
        let config = ProxyConfig {
            backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
            policy: Arc::new(Policy::builtin()),
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
}

/// Sends lines and gives what comes within the time.
fn say(socket: &mut TcpStream, lines: &str) -> String {
    socket.write_all(&script(lines)).unwrap();
    wait(200);
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let mut heard = Vec::new();
    let _nothing_more = socket.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

/// A HELLO that logged in and failed otherwise left the database owed: the client worked in another
/// one, and with its next login was moved from a database of its own choice. What is owed is asked
/// for at once, and a choice of the client ends it.
#[test]
fn a_database_is_owed_once_however_the_login_is_learned() {
    let hello = "HELLO 3 AUTH alice a SETNAME a\tb\nSET user:1 x\nSELECT 5\nSET user:5 x\nAUTH alice a\nGET user:5";
    let expected = [
        "alice authenticate  ok",
        "alice update db2/user:1 ok",
        "alice update db5/user:5 ok",
        "alice authenticate  ok",
        "alice read db5/user:5 ok",
    ];
    let own_choice = "MULTI\nAUTH alice a\nSELECT 5\nEXEC\nSET user:5 x";
    for kind in KINDS {
        let stage = Stage::new(kind, "/2", &["--requirepass", "sec"]);
        // Valkey looks at all options before it logs in.
        if kind != Kind::Valkey {
            let heard = talk(stage.address, &script(hello), usize::MAX);
            let heard = String::from_utf8_lossy(&heard).into_owned();
            let entries = told(&stage.recorder.entries());
            assert_eq!(entries, expected, "{kind:?} {heard}");
        }
        stage.recorder.seen.lock().unwrap().clear();
        let mut socket = TcpStream::connect(stage.address).unwrap();
        assert!(say(&mut socket, "GET x").starts_with("-NOAUTH"));
        let free = [
            command(&["AUTH", "alice", "a"]),
            command(&["CONFIG", "SET", "requirepass", ""]),
        ];
        talk(stage.redis.address(), &free.concat(), usize::MAX);
        say(&mut socket, own_choice);
        let last = told(&stage.recorder.entries()).pop().unwrap();
        assert_eq!(last, "alice update db5/user:5 ok", "{kind:?}");
        stage.proxy.stop();
    }
}

/// A login within a transaction made the proxy ask for what is owed when the client's next
/// transaction was open: the question became a part of it, and its results went to the wrong
/// commands. Nothing goes before the question is answered.
#[test]
fn no_question_of_the_proxy_lands_in_a_transaction() {
    for kind in KINDS {
        for (db, before) in [("/2", ""), ("", "HELLO 3 AUTH alice bad SETNAME nn\n")] {
            let stage = Stage::new(kind, db, &["--requirepass", "sec"]);
            let mut socket = TcpStream::connect(stage.address).unwrap();
            let heard = say(&mut socket, &format!("{before}GET x"));
            assert!(heard.contains("-NOAUTH"), "{heard}");
            let free = [
                command(&["AUTH", "alice", "a"]),
                command(&["CONFIG", "SET", "requirepass", ""]),
            ];
            talk(stage.redis.address(), &free.concat(), usize::MAX);
            let heard = say(&mut socket, "MULTI\nAUTH alice a");
            assert_eq!(heard, "+OK\r\n+QUEUED\r\n", "{kind:?} {db}");
            let lines = "EXEC\nMULTI\nSET user:1 v\nGET user:1\nINCR user:n";
            let heard = say(&mut socket, lines) + &say(&mut socket, "EXEC\nGET user:1");
            let expected = "*1\r\n+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n\
                            *3\r\n+OK\r\n$1\r\nv\r\n:1\r\n$1\r\nv\r\n";
            assert_eq!(heard, expected, "{kind:?} {db}");
            stage.proxy.stop();
        }
    }
}

/// A login as `default` by a HELLO that failed otherwise was not known, and the entry of each such
/// HELLO said that the login had failed. Where the server lets nobody in without a login, its
/// answer proves one; where it does not, nothing is proven.
#[test]
fn a_login_by_a_hello_that_failed_otherwise_is_recorded_as_it_was() {
    let cases: [(&[&str], &str, &str, &str); 6] = [
        (
            &["--requirepass", "sec"],
            "AUTH default sec BADOPT",
            "default",
            "ok",
        ),
        (
            &["--requirepass", "sec"],
            "AUTH default bad BADOPT",
            "",
            "denied",
        ),
        (
            &["--requirepass", "sec"],
            "AUTH alice a BADOPT",
            "alice",
            "ok",
        ),
        (&[], "AUTH alice a BADOPT", "alice", "ok"),
        (&[], "AUTH alice bad BADOPT", "", "denied"),
        (&[], "SETNAME a\tb AUTH default x", "", "failed"),
    ];
    for kind in KINDS {
        for (password, hello, submitter, outcome) in cases {
            let stage = Stage::new(kind, "", password);
            let lines = format!("HELLO 3 {hello}\nCLIENT SETNAME billing\nSET user:1 x");
            let heard = talk(stage.address, &script(&lines), usize::MAX);
            let heard = String::from_utf8_lossy(&heard).into_owned();
            assert!(heard.starts_with('-'), "{heard}");
            let entries = stage.recorder.entries();
            let case = format!(
                "{kind:?} {password:?} {hello}: {heard} {:?}",
                told(&entries)
            );
            let login = entries.first().unwrap();
            // Valkey looks at all options before it logs in.
            let late = heard.starts_with("-ERR Syntax error") && login.outcome.as_str() == "failed";
            if kind == Kind::Valkey && late {
                continue;
            }
            assert_eq!(login.outcome.as_str(), outcome, "{case}");
            assert_eq!(login.submitter, submitter, "{case}");
            let write = entries.last().unwrap();
            assert_eq!(write.submitter, submitter, "{case}");
            stage.proxy.stop();
        }
    }
}

/// A server that is busy with a script answers the proxy's questions with an error, which was taken
/// for the answer that a client has no name, or for a lack of rights. The connection ends, and says
/// that it may be tried again.
#[test]
fn an_error_of_a_busy_server_says_nothing_about_a_client() {
    for kind in KINDS {
        let redis = Redis::start_of(kind, &[&ALICE[..], &["--lua-time-limit", "50"]].concat());
        let (proxy, address, recorder) = start(&config(&redis));
        let hellos = ["HELLO 3 AUTH alice a BADOPT", "HELLO 2 SETNAME a\tb"];
        let mut sockets = hellos.map(|_| TcpStream::connect(address).unwrap());
        for socket in &mut sockets {
            assert_eq!(say(socket, "CLIENT SETNAME ann"), "+OK\r\n");
        }
        let mut busy = TcpStream::connect(redis.address()).unwrap();
        let endless = command(&["EVAL", "while true do end", "0"]);
        busy.write_all(&endless).unwrap();
        wait(300);
        for (socket, hello) in sockets.iter_mut().zip(hellos) {
            let heard = say(socket, &format!("{hello}\nGET user:1"));
            let expected = "the server does not say now who the client is; connect again";
            // Valkey tells the name all the same.
            let told = kind == Kind::Valkey && heard.contains("-BUSY");
            assert!(
                heard.contains(expected) || told,
                "{kind:?} {hello}: {heard}"
            );
        }
        talk(redis.address(), &script("SCRIPT KILL"), usize::MAX);
        let mut entries = told(&recorder.entries());
        entries.retain(|told| !told.contains("user:1"));
        assert_eq!(entries, ["alice authenticate  failed"], "{kind:?}");
        proxy.stop();
    }
}

/// In the debugger of scripts a client runs commands that the proxy takes for words of another one.
/// It does not begin, whatever the command is called on the server.
#[test]
fn the_debugger_of_scripts_does_not_pass() {
    for kind in KINDS {
        for name in ["SCRIPT", "scr"] {
            let renamed = ["--rename-command", "SCRIPT", name];
            let arguments = if name == "scr" { &renamed[..] } else { &[] };
            let redis = Redis::start_of(kind, arguments);
            let (proxy, address, _) = start(&config(&redis));
            for mode in ["YES", "sync"] {
                let line = format!("{name} DEBUG {mode}");
                let heard = talk(address, &script(&line), usize::MAX);
                let heard = String::from_utf8_lossy(&heard).into_owned();
                let expected = "-ERR probity: the debugger of scripts does not pass";
                assert!(heard.starts_with(expected), "{kind:?} {line}: {heard}");
            }
            let heard = talk(address, &script(&format!("{name} DEBUG no")), usize::MAX);
            assert!(heard.starts_with(b"+OK"), "{kind:?}");
            proxy.stop();
        }
    }
}

/// A form of SELECT or AUTH that the proxy does not understand had no effect for it, whatever the
/// server said. If the server confirms one, nobody knows what it did, and the connection ends.
#[test]
fn a_form_that_no_server_accepts_is_not_confirmed() {
    for line in ["SELECT five", "AUTH a b c"] {
        let policy = Arc::new(Policy::builtin());
        let mut batch =
            EntryBatch::new(Arc::clone(&policy), Timestamp::from_nanoseconds(0).unwrap());
        let mut session = Session::new(policy, 0);
        let taken = session.take_commands(&Table::builtin(), &script(line));
        assert_eq!(taken.next, Next::Continue);
        let outcome = session.take_replies(b"+OK\r\n", &mut Vec::new(), &mut batch);
        assert!(matches!(outcome, Err(End::Mismatch(_))), "{line}");
    }
}

/// A denied login made its client the user `default`, proven, and chose the database of the URL:
/// the server had needed a login when the connection began, and needed none any more.
#[test]
fn a_denied_login_changes_nothing_where_the_server_needs_none_any_more() {
    for kind in KINDS {
        let stage = Stage::new(kind, "/2", &["--requirepass", "sec"]);
        let mut client = TcpStream::connect(stage.address).unwrap();
        assert!(say(&mut client, "PING").contains("NOAUTH"));
        let mut administrator = TcpStream::connect(stage.redis.address()).unwrap();
        administrator
            .write_all(b"AUTH sec\r\nCONFIG SET requirepass \"\"\r\n")
            .unwrap();
        let mut done = [0; 10];
        administrator.read_exact(&mut done).unwrap();
        assert_eq!(&done, b"+OK\r\n+OK\r\n");
        let set = "CLIENT SETNAME billing\nSET user:4 mine";
        assert!(say(&mut client, set).ends_with("+OK\r\n"));
        assert!(say(&mut client, "HELLO 3 AUTH alice wrong").contains("WRONGPASS"));
        assert!(say(&mut client, "GET user:4").contains("mine"), "{kind:?}");
        drop(client);
        wait(100);
        let entries = stage.recorder.entries();
        let is_nobody = entries.iter().all(|it| it.submitter.is_empty());
        assert!(is_nobody, "{kind:?}: {:?}", told(&entries));
        stage.proxy.stop();
    }
}

/// Users who may not ask who they are or which name they have, or not choose a database.
const BARE: &str =
    "--user bare on >b ~* &* +@all -acl -client --user fixed on >f ~* &* +@all -select";

/// A wrong password in a HELLO ended the connection of a user without the right to ACL WHOAMI, with the
/// advice to grant it. It is an error like any other, and nothing changes: neither the protocol nor
/// the user nor the name.
#[test]
fn a_wrong_password_in_a_hello_changes_nothing() {
    let before = "HELLO 2 AUTH bare b SETNAME billing";
    let after = "GET user:1\nSET user:2 x\nPING";
    let refused = [
        ("HELLO 3 AUTH alice WRONG", "-WRONGPASS"),
        ("HELLO 3 AUTH nobody WRONG", "-WRONGPASS"),
        ("HELLO 3 AUTH bare WRONG SETNAME shop", "-WRONGPASS"),
        ("HELLO AUTH alice WRONG", "-"),
    ];
    for kind in KINDS {
        let users: Vec<&str> = BARE.split_whitespace().chain(ALICE).collect();
        let redis = Redis::start_of(kind, &users);
        let policy = "version = 1\n[[actor]]\nclient = 'billing'\nfor_users = true\npurpose = 'invoicing'\n\
                      [[actor]]\nclient = 'shop'\nfor_users = true\npurpose = 'selling'";
        let (proxy, address, recorder) = start(&ProxyConfig {
            policy: Arc::new(Policy::parse(policy).unwrap()),
            ..config(&redis)
        });
        for (hello, error) in refused {
            let bytes = [
                &script(&format!("{before}\n{hello}\n{after}"))[..],
                b"QUIT\r\n",
            ]
            .concat();
            let direct = talk_only(redis.address(), &bytes, usize::MAX);
            let direct = String::from_utf8_lossy(&direct).into_owned();
            recorder.seen.lock().unwrap().clear();
            let heard =
                String::from_utf8_lossy(&talk_only(address, &bytes, usize::MAX)).into_owned();
            assert_eq!(
                without_ids(&heard),
                without_ids(&direct),
                "{kind:?} {hello}"
            );
            assert!(heard.contains(&format!("\r\n{error}")), "{heard}");
            let entries = recorder.entries();
            let read = entries.iter().find(|seen| seen.key == "user:1").unwrap();
            let told = (&*read.actor, &*read.submitter, &*read.purpose);
            assert_eq!(told, ("bare", "bare", "invoicing"), "{kind:?} {hello}");
            let denied = entries
                .iter()
                .filter(|seen| seen.outcome.as_str() == "denied");
            assert_eq!(
                denied.count(),
                usize::from(error != "-"),
                "{kind:?} {hello}"
            );
        }
        proxy.stop();
    }
}

/// The number of the connection in the reply to HELLO differs from one to the next.
fn without_ids(heard: &str) -> String {
    let (start, rest) = heard.split_once("\r\nid\r\n").unwrap();
    format!("{start}{}", rest.split_once("\r\n").unwrap().1)
}

/// A refused question of the proxy ends a connection: the reason names the right that helps, and the
/// connection lives once the user has it.
#[test]
fn where_a_refused_question_ends_a_connection_the_right_that_helps_is_named() {
    let cases = [
        (
            "bare",
            "+acl|whoami",
            "AUTH bare b\nHELLO 3 AUTH bare b BADOPT\nGET user:1",
        ),
        ("fixed", "+select", "AUTH fixed f\nGET user:1"),
    ];
    let users = BARE.split_whitespace().chain(["--requirepass", "sec"]);
    let users: Vec<&str> = users.collect();
    for kind in KINDS {
        let stage = Stage::new(kind, "/2", &users);
        for (user, right, lines) in cases {
            let heard = |lines: &str| {
                let heard = talk(stage.address, &script(lines), usize::MAX);
                String::from_utf8_lossy(&heard).into_owned()
            };
            let refused = heard(lines);
            let expected = format!("give the user the right {right}");
            assert!(refused.contains(&expected), "{kind:?} {lines}: {refused}");
            let grant = script(&format!("AUTH alice a\nACL SETUSER {user} {right}"));
            let granted = talk(stage.redis.address(), &grant, usize::MAX);
            assert_eq!(granted, b"+OK\r\n+OK\r\n+OK\r\n", "{kind:?} {right}");
            let heard = heard(lines);
            assert!(
                heard.ends_with("$-1\r\n+OK\r\n"),
                "{kind:?} {lines}: {heard}"
            );
        }
        let entries = stage.recorder.entries();
        assert!(
            entries.iter().all(|seen| seen.action != "mismatch"),
            "{kind:?}"
        );
        stage.proxy.stop();
    }
}

/// A server without ACL under its name cannot say who is logged in, and no right helps there.
#[test]
fn where_the_server_has_no_such_question_the_reason_says_so() {
    let users: Vec<&str> = ALICE
        .into_iter()
        .chain(["--rename-command", "ACL", ""])
        .collect();
    for kind in KINDS {
        let redis = Redis::start_of(kind, &users);
        let (proxy, address, _) = start(&config(&redis));
        let heard = talk(
            address,
            &script("HELLO 3 AUTH alice a BADOPT\nGET user:1"),
            usize::MAX,
        );
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            heard.contains("let the server have the command ACL"),
            "{kind:?} {heard}"
        );
        assert!(!heard.contains("right"), "{kind:?} {heard}");
        proxy.stop();
    }
}
