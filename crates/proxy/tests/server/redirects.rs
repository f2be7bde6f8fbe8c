//! Servers that send clients to another one, where nothing would be recorded.

use crate::scripted::before;
use crate::support::{Kind, Redis, config, script, start, talk, told, wait};

/// The error that replaces a redirect.
const REDIRECTS: &str = "-ERR probity: the server redirects";

/// A replica of Valkey, and its primary.
fn replica() -> (Redis, Redis) {
    // Without it the primary waits five seconds for more replicas.
    let primary = Redis::start_of(Kind::Valkey, &["--repl-diskless-sync-delay", "0"]);
    let port = primary.port().to_string();
    let replica = Redis::start_of(Kind::Valkey, &["--replicaof", "127.0.0.1", &port]);
    let is_linked = (0..1_200).any(|_| {
        wait(25);
        let said = talk(replica.address(), &script("INFO replication"), usize::MAX);
        String::from_utf8_lossy(&said).contains("master_link_status:up")
    });
    assert!(is_linked);
    (primary, replica)
}

/// The proxy knew MOVED and ASK alone, and `CLIENT CAPA redirect` passed, so that a replica of
/// Valkey sent clients to its primary, past the log. No capability reaches the server, and the
/// replica answers as it does to a client without one.
#[test]
fn a_replica_leads_no_client_past_the_log() {
    let (_primary, replica) = replica();
    let capable = script("CLIENT CAPA redirect\nGET user:1:a");
    let direct = talk(replica.address(), &capable, usize::MAX);
    let direct = String::from_utf8_lossy(&direct).into_owned();
    assert!(direct.contains("-REDIRECT 127.0.0.1:"), "{direct}");
    let (proxy, address, recorder) = start(&config(&replica));
    let lines = "CLIENT CAPA redirect\nclient capa other REDIRECT\nCLIENT CAPA\nMULTI\nCLIENT CAPA redirect\nEXEC\n\
                 GET user:1:a\nSET user:1:a x\nMULTI\nGET user:1:a\nEXEC";
    let through = talk(address, &script(lines), usize::MAX);
    let without = lines.replace("redirect", "?").replace("REDIRECT", "?");
    let direct = talk(replica.address(), &script(&without), usize::MAX);
    let through = String::from_utf8_lossy(&through);
    assert_eq!(through, String::from_utf8_lossy(&direct));
    assert!(through.contains("-READONLY "), "{through}");
    let inline = talk(address, b"CLIENT CAPA redirect\r\nGET user:1:a\r\n", 1);
    assert_eq!(inline, b"+OK\r\n$-1\r\n+OK\r\n");
    let entries = told(&recorder.wait_for(4));
    let expected = [
        "default read user:1:a absent",
        "default update user:1:a failed",
        "default read user:1:a absent",
        "default read user:1:a absent",
    ];
    assert_eq!(entries, expected);
    proxy.stop();
}

/// A redirect that a server sends all the same, to a command, to EXEC or as a message on its own, is not shown.
#[test]
fn a_redirect_is_not_shown_however_it_is_said() {
    let answer = |asked: &str| {
        let reply = match asked {
            "GET A" => "-REDIRECT 10.0.0.9:6379\r\n",
            "GET B" => "!24\r\nREDIRECT 10.0.0.9:636379\r\n",
            "GET C" => ">4\r\n$6\r\nMOVING\r\n:1\r\n:15\r\n$13\r\n10.0.0.9:6379\r\n$-1\r\n",
            "GET D" => ">3\r\n+SMIGRATED\r\n:1\r\n*0\r\n$-1\r\n",
            "GET E" => "-ASK 1234 10.0.0.9:6379\r\n",
            "GET F" => return [&b"-REDIRECT "[..], &vec![b'x'; 400_000], b"\r\n"].concat(),
            "GET G" => "+QUEUED\r\n",
            "EXEC" => "-REDIRECT 10.0.0.9:6379\r\n",
            "MULTI" | "GET AFTER" => "+OK\r\n",
            _ => "",
        };
        reply.as_bytes().to_vec()
    };
    let (proxy, address, recorder) = start(&before(answer));
    for (number, key) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        let line = format!("GET {key}\nGET after");
        let heard = talk(address, &script(&line), usize::MAX);
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(heard.starts_with(REDIRECTS), "{key}: {heard:.99}");
        let entries = recorder.wait_for(2 * number + 2);
        assert_eq!(entries.get(2 * number).unwrap().key, key);
    }
    recorder.seen.lock().unwrap().clear();
    let heard = talk(address, &script("MULTI\nGET g\nEXEC"), usize::MAX);
    let heard = String::from_utf8_lossy(&heard).into_owned();
    let heard = heard.strip_prefix("+OK\r\n+QUEUED\r\n").unwrap();
    assert!(heard.starts_with(REDIRECTS), "{heard}");
    let entries = recorder.wait_for(1);
    assert!(entries[0].payload.contains("\"exec\":\"aborted\""));
    proxy.stop();
}
