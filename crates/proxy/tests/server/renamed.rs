//! Commands under other names: what the server says of a name decides, and an error says nothing.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use probity_policy::Policy;
use probity_proxy::command::Table;
use probity_proxy::resp::{FrameReader, Limits};
use probity_proxy::session::{Next, Session};
use probity_proxy::{Backend, Proxy, ProxyConfig, Upstream};

use crate::support::{
    Kind, Recorder, Redis, Source, command, config, script, start, talk, told, wait,
};

const KINDS: [Kind; 3] = [Kind::Redis7, Kind::Redis6, Kind::Valkey];

/// The user of the proxy's own questions, and another one.
const USERS: &str = "--user asker on >p ~* &* +@all --user mallory on >m ~* &* +@all";

/// A server with these users, whose commands have other names.
fn server(kind: Kind, names: &str) -> Redis {
    let names = names.split(' ').flat_map(|pair| {
        let (name, new) = pair.split_once('=').unwrap();
        ["--rename-command", name, new]
    });
    let arguments: Vec<&str> = USERS.split(' ').chain(names).collect();
    Redis::start_of(kind, &arguments)
}

fn as_asker(redis: &Redis) -> ProxyConfig {
    let url = format!("redis://asker:p@127.0.0.1:{}", redis.port());
    ProxyConfig {
        backend: Backend::Upstream(Upstream::parse(&url).unwrap()),
        ..config(redis)
    }
}

/// A client that has been answered once.
fn client(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(20));
    socket.set_read_timeout(patience).unwrap();
    socket.write_all(&script("PING")).unwrap();
    let mut reply = [0; 7];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    socket
}

/// All that comes until the other side closes, or nothing more comes.
fn rest(mut socket: TcpStream) -> String {
    let mut heard = Vec::new();
    let patience = Some(Duration::from_secs(2));
    socket.set_read_timeout(patience).unwrap();
    // The rest of what was said may be refused with a reset.
    let _reset = socket.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

/// Makes the server answer the proxy's questions with errors: its user has no right, or its
/// connections are closed and there is no place for another.
fn silence(redis: &Redis, way: &str) -> TcpStream {
    let mut direct = client(redis.address());
    if way == "no right" {
        let line = "ACL SETUSER asker -command";
        direct.write_all(&script(line)).unwrap();
    } else {
        let all = talk(redis.address(), &script("CLIENT LIST"), usize::MAX);
        let all = String::from_utf8_lossy(&all).into_owned();
        let own = all.lines().filter(|line| line.contains(" user=asker "));
        let ids = own.filter_map(|line| line.split_once("id=")?.1.split(' ').next());
        let kills = ids.map(|id| format!("\nCLIENT KILL ID {id}"));
        let lines = "CONFIG SET maxclients 1".to_owned() + &kills.collect::<String>();
        direct.write_all(&script(&lines)).unwrap();
    }
    wait(100);
    direct
}

/// An error in reply to COMMAND INFO counted as "there is no such command", so that SELECT, AUTH
/// and SYNC under other names passed, and the log knew nothing of their effects. It is no answer:
/// nothing of the command reaches the server.
#[test]
fn an_error_is_no_answer_about_a_command() {
    for kind in KINDS {
        for way in ["no right", "no place"] {
            for attack in ["xs 2", "xsync"] {
                let redis = server(kind, "SELECT=xs SYNC=xsync");
                let (proxy, address, recorder) = start(&as_asker(&redis));
                let mut socket = client(address);
                let _direct = silence(&redis, way);
                let lines = format!("{attack}\nGET user:7");
                socket.write_all(&script(&lines)).unwrap();
                let heard = rest(socket);
                let case = format!("{kind:?} {way} {attack}: {heard:.200}");
                let expected = "-ERR probity: the server does not say now what this command is";
                assert!(heard.starts_with(expected), "{case}");
                assert_eq!(told(&recorder.entries()), [""; 0], "{case}");
                proxy.stop();
            }
        }
    }
}

/// Before a server whose COMMAND does not answer, names that the built-in table does not have
/// passed as "unknown": SELECT, AUTH and SYNC under other names. What nobody knows does not run
/// there, and the start says so.
#[test]
fn before_a_server_without_command_no_unknown_name_passes() {
    for kind in KINDS {
        for way in ["COMMAND=", "ECHO=e"] {
            let redis = server(kind, &format!("SELECT=xs SYNC=xsync {way}"));
            if way == "ECHO=e" {
                let line = "ACL SETUSER asker -command";
                talk(redis.address(), &script(line), usize::MAX);
            }
            let (proxy, address, recorder) = start(&as_asker(&redis));
            let support = proxy.support().to_string();
            assert!(support.contains("others are refused"), "{support}");
            for attack in ["xs 2", "xsync"] {
                let lines = format!("{attack}\nGET user:7");
                let heard = talk(address, &script(&lines), usize::MAX);
                let heard = String::from_utf8_lossy(&heard).into_owned();
                let expected = "-ERR probity: the server does not say now what this command is";
                assert!(heard.starts_with(expected), "{kind:?} {way} {heard:.200}");
            }
            let heard = talk(address, &script("GET user:7"), usize::MAX);
            assert_eq!(heard, b"$-1\r\n+OK\r\n");
            assert_eq!(told(&recorder.entries()), ["default read user:7 absent"]);
            proxy.stop();
        }
    }
}

/// A command that the server gave the name of another one was recorded as that one: DEL as a read,
/// AUTH as MGET, FLUSHALL as KEYS. COMMAND names the commands as they were called first; the start
/// asks for each name what is called so now.
#[test]
fn a_command_with_the_name_of_another_is_recorded_as_what_it_is() {
    for kind in KINDS {
        let names = "GET=x1 DEL=get MGET= AUTH=mget KEYS= FLUSHALL=keys STRLEN= MULTI=strlen \
                     TTL= SYNC=ttl";
        let redis = server(
            kind,
            &names.split_whitespace().collect::<Vec<_>>().join(" "),
        );
        let (proxy, address, recorder) = start(&config(&redis));
        let lines =
            "SET user:7 a\nget user:7\nx1 user:7\nmget mallory m\nx1 user:7\nkeys\ndel user:7";
        let heard = talk(address, &script(lines), usize::MAX);
        let heard = String::from_utf8_lossy(&heard).into_owned();
        let expected = [
            "default update user:7 ok",
            "default delete user:7 ok",
            "default read user:7 absent",
            "mallory authenticate  ok",
            "mallory read user:7 absent",
            "mallory delete * ok",
            "mallory run  failed",
        ];
        assert_eq!(told(&recorder.entries()), expected, "{kind:?} {heard}");
        let heard = talk(address, &script("ttl"), usize::MAX);
        assert!(heard.starts_with(b"-ERR probity: replication"), "{kind:?}");
        let heard = talk(address, &script("strlen\nx1 user:7\nEXEC"), usize::MAX);
        assert!(heard.starts_with(b"+OK\r\n+QUEUED\r\n*1\r\n"), "{kind:?}");
        proxy.stop();
    }
}

/// A server that was started anew behind the proxy, with names exchanged or as a node of a cluster,
/// was taken for the one of the start. With each connection that begins, it is asked again if it is
/// another one.
#[test]
fn a_server_that_was_started_anew_is_asked_again() {
    for kind in KINDS {
        let mut redis = Redis::start_of(kind, &[]);
        let (proxy, address, recorder) = start(&config(&redis));
        for _ in 0..4 {
            drop(client(address));
        }
        redis.start_again(&[
            "--rename-command",
            "GET",
            "x1",
            "--rename-command",
            "DEL",
            "get",
        ]);
        talk(address, &script("get user:7"), usize::MAX);
        assert_eq!(told(&recorder.entries()), ["default delete user:7 absent"]);
        if kind == Kind::Redis7 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port().to_string();
            drop(free);
            redis.start_again(&["--cluster-enabled", "yes", "--cluster-port", &port]);
            for _ in 0..4 {
                let heard = rest(TcpStream::connect(address).unwrap());
                assert!(heard.contains("it is a node of a cluster"), "{heard}");
            }
        }
        proxy.stop();
    }
}

/// A server that is busy with a script answers INFO and COMMAND with an error, and the proxy took
/// it for one that tells nothing, so that it started before a node of a cluster. It does not start.
#[test]
fn before_a_busy_server_the_proxy_does_not_start() {
    for kind in KINDS {
        let redis = Redis::start_of(kind, &["--lua-time-limit", "50"]);
        let mut busy = TcpStream::connect(redis.address()).unwrap();
        let endless = command(&["EVAL", "while true do end", "0"]);
        busy.write_all(&endless).unwrap();
        wait(400);
        let source = Arc::new(Source(Arc::new(Recorder::default())));
        let error = Proxy::start(&config(&redis), &source)
            .map(|_| ())
            .unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("BUSY"), "{kind:?} {cause}");
        talk(redis.address(), &script("SCRIPT KILL"), usize::MAX);
        wait(200);
        start(&config(&redis)).0.stop();
    }
}

/// A command that was unknown at its beginning and known at its end was replaced from its last
/// bytes on, in the middle of what the server had taken of it, or went without its keys where a
/// module was loaded meanwhile. A long one of a name that the server does not have does not begin.
#[test]
fn what_a_long_command_is_is_decided_before_its_beginning_goes() {
    // CLIENT as a server before 7.0 describes it, under another name.
    let reply = b"*1\r\n*6\r\n$6\r\nclient\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n";
    let frame = FrameReader::new(Limits::SERVER).read(reply).unwrap().1;
    let renamed = Table::from_reply(&frame.unwrap()).unwrap().renamed(b"kli");
    let mut learned = Table::builtin();
    learned.merge(renamed);
    let long = "x".repeat(600 << 10);
    let bytes = command(&["kli", "REPLY", &long]);
    let mut session = Session::new(Arc::new(Policy::builtin()), 0);
    let (begin, _) = bytes.split_at(400 << 10);
    let table = Table::builtin();
    assert_eq!(session.take_commands(&table, begin).next, Next::Learn);
    assert!(matches!(session.learn(&table), Next::Refuse(_)));
    let mut session = Session::new(Arc::new(Policy::builtin()), 0);
    assert_eq!(session.take_commands(&table, begin).next, Next::Learn);
    assert!(matches!(session.learn(&learned), Next::Refuse(_)));
}

/// Of a name that was too long to be kept, the server was asked for the beginning alone, and what it
/// said of that counted for the whole name. Such a name does not pass.
#[test]
fn a_name_that_is_not_kept_whole_is_refused() {
    let bytes = command(&[&"x".repeat(70_000), "2"]);
    let mut session = Session::new(Arc::new(Policy::builtin()), 0);
    let next = session.take_commands(&Table::builtin(), &bytes).next;
    assert!(matches!(next, Next::Refuse(_)), "{next:?}");
}
