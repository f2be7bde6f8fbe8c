//! Commands of modules: they touch keys that neither the client nor the server names.

use probity_format::Outcome;

use crate::scripted::before;
use crate::support::{Redis, Seen, config, script, start, talk, told};

/// The module of Debian's package `redis-redisearch`.
const MODULE: &str = "/usr/lib/redis/modules/redisearch.so";

fn record(lines: &str) -> (String, Vec<Seen>) {
    let redis = Redis::start(&["--loadmodule", MODULE]);
    let (proxy, address, recorder) = start(&config(&redis));
    let heard = talk(address, &script(lines), usize::MAX);
    proxy.stop();
    let heard = String::from_utf8_lossy(&heard).into_owned();
    (heard, recorder.entries())
}

/// `FT.MGET` returned what two people have, and nothing was recorded: the server names no key of it.
/// `FT.DROP` deleted both, and the index alone was updated.
#[test]
fn a_command_of_a_module_leaves_an_entry_whatever_it_names() {
    let (heard, entries) = record(
        "FT.CREATE user:index SCHEMA iban TEXT\n\
         FT.ADD user:index user:7 1.0 FIELDS iban DE07\n\
         FT.ADD user:index user:8 1.0 FIELDS iban DE08\n\
         FT.MGET user:index user:7 user:8\n\
         MULTI\nFT.MGET user:index user:7\nEXEC\nFT.DROP user:index\nEXISTS user:7 user:8",
    );
    assert_eq!(heard.matches("DE07").count(), 2, "{heard}");
    assert!(heard.ends_with(":0\r\n+OK\r\n"), "{heard}");
    let runs: Vec<&Seen> = entries.iter().filter(|it| it.action == "run").collect();
    assert_eq!(runs.len(), 6, "{:?}", told(&entries));
    let about = |name: &str, keys: &str| {
        let [name, keys] = [("command", name), ("keys", keys)]
            .map(|(member, text)| format!("\"{member}\":\"{text}\""));
        let is_it = |it: &&&Seen| it.payload.contains(&name) && it.payload.contains(&keys);
        runs.iter().filter(is_it).count()
    };
    assert_eq!(about("ft.mget", "unknown"), 2, "{runs:?}");
    assert_eq!(about("ft.drop", "perhaps more"), 1, "{runs:?}");
    assert!(runs.iter().all(|it| it.outcome == Outcome::Ok), "{runs:?}");
}

/// The server calls each key of a module one that is read and written: a search was an update.
#[test]
fn a_command_of_a_module_that_only_reads_is_no_update() {
    let (_, entries) = record(
        "FT.CREATE user:index SCHEMA iban TEXT\nFT.SEARCH user:index DE07\nFT.GET user:index user:7",
    );
    let keyed: Vec<String> = told(&entries);
    let keyed: Vec<&String> = keyed.iter().filter(|it| it.contains("user:")).collect();
    assert!(
        keyed[0].starts_with("default update user:index"),
        "{keyed:?}"
    );
    let rest = keyed.get(1..).unwrap_or_default();
    assert!(!rest.is_empty(), "{keyed:?}");
    assert!(
        rest.iter().all(|it| it.starts_with("default read ")),
        "{keyed:?}"
    );
}

/// Newer modules name no key of any command of an index, and none of those that write.
#[test]
fn a_command_of_which_no_key_is_named_leaves_an_entry() {
    let answer = |asked: &str| {
        let entry = |name: &str, flag: &str| {
            format!(
                "*10\r\n${}\r\n{name}\r\n:-1\r\n*2\r\n+{flag}\r\n+module\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0\r\n",
                name.len()
            )
        };
        let reply = match asked {
            "COMMAND" => "*0\r\n".to_owned(),
            "COMMAND INFO FT.DROPINDEX" => format!("*1\r\n{}", entry("ft.dropindex", "write")),
            "COMMAND INFO TS.MRANGE" => format!("*1\r\n{}", entry("ts.mrange", "readonly")),
            "FT.DROPINDEX PEOPLE DD" => "+OK\r\n".to_owned(),
            "TS.MRANGE - + FILTER USER=7" => "*0\r\n".to_owned(),
            _ => String::new(),
        };
        reply.into_bytes()
    };
    let (proxy, address, recorder) = start(&before(answer));
    let lines = "FT.DROPINDEX people DD\nTS.MRANGE - + FILTER user=7";
    let heard = talk(address, &script(lines), usize::MAX);
    proxy.stop();
    assert_eq!(String::from_utf8_lossy(&heard), "+OK\r\n*0\r\n");
    let entries = recorder.entries();
    assert_eq!(told(&entries), ["default run  ok", "default run  ok"]);
    for entry in entries {
        assert!(entry.payload.contains("\"keys\":\"unknown\""), "{entry:?}");
    }
}

/// A command sent together with the MODULE LOAD that brings it was `run unknown`, as if the server had refused
/// it: the server was asked before the module was there. It was carried out, and nobody knows on which keys.
#[test]
fn a_command_that_was_unknown_and_ran_says_so() {
    let answer = |asked: &str| {
        let reply = match asked {
            "COMMAND" => "*0\r\n",
            "COMMAND INFO FT.CREATE" | "COMMAND INFO NOSUCH" => "*1\r\n*-1\r\n",
            "FT.CREATE USER:INDEX" => "+OK\r\n",
            _ => "",
        };
        reply.as_bytes().to_vec()
    };
    let (proxy, address, recorder) = start(&before(answer));
    let heard = talk(address, &script("FT.CREATE user:index\nNOSUCH user:1"), 64);
    assert_eq!(heard, b"+OK\r\n-ERR unknown command\r\n");
    proxy.stop();
    let entries = recorder.entries();
    let of = |name: &str| {
        let named = |seen: &&Seen| seen.payload.contains(&format!("\"name\":\"{name}\""));
        entries.iter().find(named).unwrap().payload.clone()
    };
    assert!(of("FT.CREATE").contains("\"keys\":\"unknown\""));
    assert!(!of("NOSUCH").contains("keys"));
}
