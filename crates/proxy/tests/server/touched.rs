//! An entry records the places that a command touches besides its keys.
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::sync::Arc;

use probity_policy::Policy;
use probity_proxy::ProxyConfig;

use crate::support::{Redis, Seen, command, config, script, start, talk, told};

/// Entries under a policy that takes `cache:*` for not personal.
fn record(bytes: &[u8]) -> (String, Vec<Seen>) {
    let redis = Redis::start(&["--enable-debug-command", "yes"]);
    let policy = "version = 1\n[[key]]\npattern = 'cache:*'\npersonal = false\n[[key]]\npattern = 'user:{subject}'";
    let (proxy, address, recorder) = start(&ProxyConfig {
        policy: Arc::new(Policy::parse(policy).unwrap()),
        ..config(&redis)
    });
    let setup = "SET user:7 secret\nRPUSH cache:ids 7 8\nSET cache:x x";
    talk(redis.address(), &script(setup), usize::MAX);
    let heard = talk(address, bytes, usize::MAX);
    proxy.stop();
    (
        String::from_utf8_lossy(&heard).into_owned(),
        recorder.entries(),
    )
}

/// A script chose its own outcome: with an error that began with NOPERM the log said `denied` of data that was read and deleted, and
/// with nil `absent` of a key that was written. A script never says so now.
#[test]
fn a_script_does_not_choose_its_outcome() {
    let taken = "return redis.error_reply('NOPERM '..redis.call('getdel',KEYS[1]))";
    let silent = "redis.call('set',KEYS[1],'x') return nil";
    let bytes = [
        command(&["EVAL", taken, "1", "user:7"]),
        command(&["EVAL", silent, "1", "user:8"]),
    ]
    .concat();
    let (heard, entries) = record(&bytes);
    assert!(heard.contains("-NOPERM secret"), "{heard}");
    assert_eq!(
        told(&entries),
        [
            "default run  failed",
            "default update user:7 failed",
            "default run  ok",
            "default update user:8 ok"
        ]
    );
    for entry in &entries[..2] {
        assert!(entry.payload.contains("\"ran\":\"perhaps\""));
    }
}

/// A script that chose another database read a key there, and the entry named the one of the client.
/// The entry says now that it may be another.
#[test]
fn a_script_may_be_in_another_database() {
    let elsewhere = "redis.call('select',5) return redis.call('get',KEYS[1])";
    let (_, entries) = record(
        &[
            command(&["EVAL", elsewhere, "1", "user:7"]),
            script("GET user:7"),
        ]
        .concat(),
    );
    let says: Vec<bool> = entries
        .iter()
        .map(|it| it.payload.contains("\"database\":\"perhaps\""))
        .collect();
    assert_eq!(says, [true, true, false], "{entries:?}");
}

/// A script or a function with one decoy key read and wrote other keys without any entry (proxy 11, S7).
/// Each leaves a `run` that names it, and so does what loads it.
#[test]
fn every_script_and_function_is_named() {
    let decoy = "return redis.call('get','user:7')";
    let library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return redis.call('get', args[1]) end)";
    let bytes = [
        command(&["EVAL", decoy, "1", "cache:x"]),
        command(&["SCRIPT", "LOAD", decoy]),
        command(&[
            "EVALSHA",
            "3DAF5B02CF6EDA73C1B3DA5C8BB4B3CD2D0FC9A2",
            "1",
            "cache:x",
        ]),
        command(&["FUNCTION", "LOAD", library]),
        command(&["FCALL", "f", "1", "cache:x", "user:7"]),
        command(&["EVAL", &format!("{decoy}--{}", "x".repeat(70_000)), "0"]),
    ]
    .concat();
    let (heard, entries) = record(&bytes);
    assert!(heard.contains("secret"));
    let digest = heard
        .split("\r\n")
        .find(|line| line.len() == 40)
        .unwrap()
        .to_owned();
    assert_eq!(
        told(&entries),
        [
            "default run  ok",
            "default administer  ok",
            "default run  failed",
            "default administer  ok",
            "default run  ok",
            "default run  ok"
        ]
    );
    for index in [0, 1] {
        let says = format!("\"script\":\"{digest}\",\"script_sha256\":\"");
        assert!(
            entries[index].payload.contains(&says),
            "{:?}",
            entries[index]
        );
    }
    assert!(entries[0].payload.contains("\"declared\":1"));
    assert!(entries[2].payload.contains("\"script\":\"3daf5b02cf6eda"));
    assert!(entries[4].payload.contains("\"function\":\"f\""));
    assert!(entries[5].payload.contains("\"script\":\"sha256:"));
}

/// SORT with BY and GET reads as many keys as its patterns name, and only the list was recorded, or nothing
/// (proxy 10, S7). Each pattern with a star is recorded as read.
#[test]
fn the_patterns_of_sort_are_read() {
    let lines =
        "SORT cache:ids BY nosort GET user:* GET #\nSORT_RO cache:ids BY user:*->age GET const";
    let (heard, entries) = record(&script(lines));
    assert!(heard.contains("secret"));
    assert_eq!(
        told(&entries),
        ["default read user:* ok", "default read user:*->age ok"]
    );
}

/// Data that left the personal keys could not be followed. The source's entry names the other key;
/// later reads of that key are not recorded, as the policy says.
#[test]
fn the_source_says_where_its_data_went() {
    let (_, entries) = record(&script(
        "COPY user:7 cache:copy\nCOPY user:7 cache:far DB 2\nRENAME user:7 cache:free",
    ));
    assert_eq!(entries.len(), 3);
    assert!(entries[0].payload.contains("\"to\":\"cache:copy\""));
    assert!(!entries[0].payload.contains("to_db"));
    let elsewhere = "\"to\":\"cache:far\",\"to_db\":2";
    assert!(entries[1].payload.contains(elsewhere));
    assert!(entries[2].payload.contains("\"to\":\"cache:free\""));
}

/// An optional group of keys that was left out made the server's answer an error, and the error was read
/// as no keys (proxy 8). The key that is there has its entry.
#[test]
fn a_command_without_its_optional_keys_is_recorded() {
    let (heard, entries) = record(&script("PFMERGE user:77\nEXISTS user:77"));
    assert!(heard.starts_with("+OK\r\n:1\r\n"));
    assert_eq!(
        told(&entries),
        ["default update user:77 ok", "default look user:77 ok"]
    );
}

/// With GET the reply of SET says what was there and not whether it was set, and the log said the
/// opposite of what happened (proxy 16). Each pair of options has its own reading.
#[test]
fn set_with_get_says_what_it_did() {
    let lines = "SET user:1 v XX GET\nSET user:1 v NX GET\nSET user:1 w NX GET\nSET user:1 w XX GET\nSET user:2 v GET\nSET user:2 v GET\nSET user:3 v XX\nSET user:2 v NX";
    let (_, entries) = record(&script(lines));
    assert_eq!(
        told(&entries),
        [
            "default update user:1 absent",
            "default create user:1 ok",
            "default read user:1 ok",
            "default update user:1 ok",
            "default create user:2 ok",
            "default update user:2 ok",
            "default update user:3 absent",
            "default update user:2 failed"
        ]
    );
}

/// Reads of a key that is not there were `ok` for dozens of commands (proxy 24). Nothing there is `absent`.
#[test]
fn nothing_there_is_absent() {
    let lines = "LRANGE user:n 0 -1\nZRANGE user:n 0 -1\nXRANGE user:n - +\nHMGET user:n a b\nGETRANGE user:n 0 9\nSINTER user:n\nHRANDFIELD user:n 3\nSMISMEMBER user:n a b\nHELLO 3\nSINTER user:n\nHMGET user:n a";
    let (_, entries) = record(&script(lines));
    assert_eq!(entries.len(), 10);
    assert!(
        entries.iter().all(|seen| seen.outcome.as_str() == "absent"),
        "{entries:?}"
    );
}

/// Some operations had no entry, and `administer` did not say what was administered (proxy 25, 26). Names
/// of parameters and users are told, and no value.
#[test]
fn what_is_administered_is_said() {
    let lines = "CLIENT TRACKING OFF\nPUBSUB CHANNELS\nFUNCTION FLUSH\nSCRIPT FLUSH\nCONFIG SET maxmemory-samples 7\nACL SETUSER zed on >hidden\nDEBUG OBJECT user:7\nCONFIG GET maxm*";
    let (_, entries) = record(&script(lines));
    let all = format!("{entries:?}").replace('\\', "");
    assert_eq!(entries.len(), 9, "{all}");
    for says in [
        "\"parameters\":[\"maxmemory-samples\"]",
        "\"user\":\"zed\"",
        "\"subcommand\":\"OBJECT\"",
        "\"parameters\":[\"maxm*\"]",
        "key: \"user:7\"",
    ] {
        assert!(all.contains(says), "{says}: {all}");
    }
    assert!(!all.contains("hidden"));
}

/// A password with a blank and without quotes is several words, and each second one was listed as the
/// name of a parameter. None is listed behind one whose value is secret.
#[test]
fn no_word_of_a_password_is_listed_as_a_parameter() {
    let lines = "CONFIG SET requirepass my hidden\nCONFIG SET requirepass my hidden word\n\
                 CONFIG SET timeout 7 MasterAuth my hidden word\nCONFIG SET x requirepass my hidden";
    let (_, entries) = record(&script(lines));
    let all = format!("{entries:?}").replace('\\', "");
    assert_eq!(entries.len(), 4, "{all}");
    assert!(!all.contains("hidden") && !all.contains("word"), "{all}");
    let more = "\"parameters\":[\"timeout\",\"MasterAuth\"],\"parameters_more\":true";
    assert!(all.contains(more), "{all}");
}

/// A password stood in an entry where a word before it was forgotten, or one too many: as a parameter, a user or an actor. The
/// command is repeated rightly, so that it is the password in force.
#[test]
fn a_slip_brings_no_password_into_an_entry() {
    let slips = [
        "CONFIG SET save 3600 1 requirepass hidden",
        "CONFIG SET maxmemory requirepass hidden",
        "CONFIG SET timeout 7 x requirepass hidden word",
        "CONFIG GET requirepass hidden",
        "HELLO 3 AUTH hidden SETNAME worker",
        "HELLO 3 AUTH hidden AUTH worker",
        "ACL SETUSER >hidden bob on",
        "ACL GETUSER #hidden",
        "ACL >hidden",
        "ACL DELUSER alice on >hidden",
        "ACL DELUSER alice >my hidden word",
        "ACL SETUSER alice>hidden on",
        "ACL SETUSER (>hidden)",
        "ACL DRYRUN >hidden get x",
        "ACL hidden",
        "CONFIG hidden",
        "CONFIG SET hidden requirepass",
        "CONFIG SET hidden masterauth maxmemory 0",
        "CONFIG SET requirepass=hidden x",
        "CONFIG GET hidden requirepass",
        "CONFIG GET hidden* *hidden",
        "MIGRATE 127.0.0.1 1 AUTH hidden 0 10",
        "REPLICAOF redis://:hidden@host 6379",
        "REPLICAOF hidden@host hidden",
        "AUTHhidden",
    ];
    let quoted = [
        ["ACL", "SETUSER", "alice >hidden"],
        ["ACL", "SETUSER >hidden", "on"],
        ["CONFIG", "GET", "requirepass hidden"],
        ["CONFIG", "SET requirepass hidden", "x"],
        ["REPLICAOF", "host -a hidden", "6379"],
        ["AUTH hidden", "", ""],
    ];
    let slips = slips.map(|line| line.split(' ').collect::<Vec<_>>());
    let slips: Vec<_> = slips.into_iter().chain(quoted.map(Vec::from)).collect();
    let bytes: Vec<_> = slips.iter().flat_map(|words| command(words)).collect();
    let (_, mut entries) = record(&bytes);
    // REPLICAOF has two.
    entries.retain(|seen| seen.action != "delete" || seen.key != "*");
    assert_eq!(entries.len(), slips.len(), "{:?}", told(&entries));
    for (entry, slip) in entries.iter().zip(slips) {
        let all = format!("{entry:?}");
        assert!(
            !all.contains("hidden") && !all.contains("word"),
            "{slip:?}: {all}"
        );
    }
    // A password may be the name of an option.
    let lines = "ACL SETUSER ada on >setname ~* &* +@all\nHELLO 3 AUTH ada setname\nGET user:7";
    let (_, entries) = record(&script(lines));
    let last = told(&entries);
    assert_eq!(
        last[last.len() - 2..],
        ["ada authenticate  ok", "ada read user:7 ok"]
    );
}

/// The entries named no server: neither the one that data went to, nor the one whose data came.
#[test]
fn another_server_is_named() {
    let lines = "MIGRATE 127.0.0.1 1 user:7 2 10 COPY\nREPLICAOF 127.0.0.1 1\nREPLICAOF NO ONE\n\
                 SLAVEOF 127.0.0.1 1\nPFADD user:1 a\nPFMERGE cache:h user:1";
    let (_, entries) = record(&script(lines));
    let payload = |index: usize| entries[index].payload.as_str();
    let to = "\"to_host\":\"127.0.0.1\",\"to_port\":\"1\",\"to_db\":\"2\"";
    assert!(payload(0).contains(to), "{}", payload(0));
    let from = "\"from_host\":\"127.0.0.1\",\"from_port\":\"1\",\"databases\":\"all\",\"changed\":\"perhaps\"";
    let all = told(&entries);
    assert_eq!(
        all[1..6],
        [
            "default administer  ok",
            "default delete * ok",
            "default administer  ok",
            "default administer  ok",
            "default delete * ok"
        ]
    );
    for index in [1, 2, 4, 5] {
        assert!(payload(index).contains(from), "{}", payload(index));
    }
    assert!(
        payload(entries.len() - 1).contains("\"to\":\"cache:h\""),
        "{all:?}"
    );
}

/// Functions of a dump left no digest, so that nobody could say what ran afterwards.
#[test]
fn functions_that_are_restored_leave_their_digest() {
    let bytes = [
        command(&["FUNCTION", "RESTORE", "no dump", "FLUSH"]),
        command(&["FUNCTION", "DELETE", "lib"]),
    ];
    let (_, entries) = record(&bytes.concat());
    let payloads: Vec<&str> = entries.iter().map(|it| it.payload.as_str()).collect();
    let digest = "\"libraries\":\"95bee89a95ca1b5070c72c275a042162d2cd97e1\"";
    assert!(payloads[0].contains(digest), "{payloads:?}");
    assert!(payloads[1].contains("\"library\":\"lib\""), "{payloads:?}");
}

/// Of the parameters of CONFIG sixteen stood in the entry, and of the users of ACL DELUSER one, as if there had been no others. All
/// users are listed as parameters are, and where there are more than are listed the entry says so.
#[test]
fn a_list_of_an_entry_that_is_cut_says_so() {
    let words = |count: usize| {
        let words: Vec<String> = (0..count).map(|it| format!(" w{it}")).collect();
        words.concat()
    };
    let known = include_str!("../../data/parameters.txt");
    let known: Vec<_> = known
        .lines()
        .filter(|name| !name.contains("auth"))
        .collect();
    let lines = [16, 17].map(|count| {
        let names = known[..count].join(" ");
        format!("CONFIG GET {names}\nACL DELUSER{}", words(count))
    });
    let (_, entries) = record(&script(&format!("{}\nACL DELUSER zed", lines.join("\n"))));
    let ends = |index: usize| {
        let payload = entries[index].payload.as_str();
        payload.split_once(']').unwrap().1
    };
    assert_eq!((ends(0), ends(1)), ("}", "}"));
    assert_eq!(ends(2), ",\"parameters_more\":true}");
    assert_eq!(ends(3), ",\"users_more\":true}");
    assert!(entries[4].payload.contains("\"user\":\"zed\""));
}

/// DEBUG had an entry about no key, so that nobody looked at the key (outsider 3). Each key is looked at, and
/// those that DEBUG makes are named by their prefix.
#[test]
fn the_keys_of_debug_are_recorded() {
    let lines = "DEBUG OBJECT user:7\nDEBUG SDSLEN user:7\nDEBUG DIGEST-VALUE user:7 user:8\nDEBUG POPULATE 1 user:new\nDEBUG SLEEP 0";
    let (_, entries) = record(&script(lines));
    let keys: Vec<_> = told(&entries);
    assert_eq!(
        keys.iter()
            .filter(|told| told.contains("user:"))
            .collect::<Vec<_>>(),
        [
            "default look user:7 ok",
            "default look user:7 ok",
            "default look user:7 ok",
            "default look user:8 ok",
            "default update user:new:* ok"
        ]
    );
    assert_eq!(entries[1].subjects, "7");
    let administered = entries.iter().filter(|seen| seen.action == "administer");
    assert_eq!(administered.count(), 5);
}

/// MIGRATE that found no key was a successful delete, and one that may have sent its keys had only failed
/// (outsider 4).
#[test]
fn migrate_says_what_was_there() {
    let other = Redis::start(&[]);
    let lines = "MIGRATE 127.0.0.1 PORT user:none 0 500\nMIGRATE 127.0.0.1 PORT user:7 0 500 COPY\n\
                 MIGRATE 127.0.0.1 PORT user:7 0 500 REPLACE\nMIGRATE 127.0.0.1 1 cache:x 0 500\n\
                 SET user:8 x\nMIGRATE 127.0.0.1 1 user:8 0 500\n\
                 MIGRATE 127.0.0.1 PORT  0 500 KEYS user:8 user:none";
    let (heard, entries) = record(&script(&lines.replace("PORT", &other.port().to_string())));
    assert!(
        heard.starts_with("+NOKEY\r\n+OK\r\n+OK\r\n-IOERR"),
        "{heard}"
    );
    assert_eq!(
        told(&entries),
        [
            "default delete user:none absent",
            "default read user:7 ok",
            "default delete user:7 ok",
            "default update user:8 ok",
            "default delete user:8 failed",
            "default delete user:8 ok",
            "default delete user:none ok"
        ]
    );
    assert!(entries[4].payload.contains("\"ran\":\"perhaps\""));
    assert!(entries[6].payload.contains("\"changed\":\"perhaps\""));
}

/// A shortened text in an entry could be taken for the whole. A shortened key says so and bears the
/// digest of the whole, so that two people with long names that begin alike are told apart.
#[test]
fn what_is_shortened_says_so() {
    let long = |end: &str| format!("user:{}{end}", "k".repeat(70_000));
    let looks_alike = format!("user:{}#sha256:{}", "k".repeat(10), "0".repeat(64));
    let name = "n".repeat(70_000);
    let bytes = [
        command(&["SET", &long("a"), "x"]),
        command(&["GET", &long("b")]),
        command(&["GET", &looks_alike]),
        command(&["COPY", "user:7", &long("c")]),
        command(&["KEYS", &format!("x{}", "y".repeat(300))]),
        command(&["KEYS", &long("d")]),
        command(&["ACL", "GETUSER", &name]),
        command(&["AUTH", &name, "x"]),
        command(&["DEBUG", "OBJECT", &long("a")]),
    ]
    .concat();
    let (_, entries) = record(&bytes);
    let short = |seen: &Seen| seen.payload.contains("\"shortened\":true");
    let digest = |end: &str| sha256(long(end).as_bytes());
    assert!(short(&entries[0]) && entries[0].key.ends_with(&digest("a")));
    assert_eq!(entries[0].rule, "shortened");
    assert_eq!(entries[0].subjects, format!("key#sha256:{}", digest("a")));
    assert_eq!(entries[1].subjects, format!("key#sha256:{}", digest("b")));
    assert!(!short(&entries[2]) && entries[2].key == looks_alike);
    assert!(
        entries[3].payload.contains(&digest("c")),
        "{:?}",
        entries[3]
    );
    assert!(short(&entries[4]) && entries[4].key.ends_with(&digest("c")));
    assert!(!short(&entries[5]) && entries[5].key.len() == 301);
    assert!(short(&entries[6]) && entries[6].key.ends_with(&digest("d")));
    assert!(entries[7].payload.contains(&sha256(name.as_bytes())));
    assert_eq!(
        entries[8].actor,
        format!("sha256:{}", sha256(name.as_bytes()))
    );
    assert!(short(&entries[10]) && entries[10].key.ends_with(&digest("a")));
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    use sha2::Digest as _;
    let mut text = String::new();
    for byte in sha2::Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// `DEBUG ERROR "NOPERM x"` chose the outcome of its own entry: `denied`, of a command that was let through. What a client words itself
/// tells nothing but that it is an error.
#[test]
fn a_debugged_error_does_not_choose_its_outcome() {
    let errors: Vec<u8> = ["NOPERM x", "WRONGPASS x", "MOVED 1 elsewhere:1", "ERR x"]
        .iter()
        .flat_map(|error| command(&["DEBUG", "ERROR", error]))
        .collect();
    let (heard, entries) = record(&errors);
    assert!(heard.contains("-NOPERM x"));
    assert_eq!(told(&entries), ["default administer  failed"; 4]);
}

/// XREADGROUP moves the last id of a group and puts messages and consumers into it, and was recorded as a `read` alone. It is an
/// `update` as XCLAIM is, and says where the reply does not tell what changed.
#[test]
fn reading_as_a_group_changes_the_group() {
    let lines = "XADD user:7 1-1 f v
        XGROUP CREATE user:7 g 0
        XREADGROUP GROUP g c STREAMS user:7 >
        XREADGROUP GROUP g c STREAMS user:7 0
        XREADGROUP GROUP g d STREAMS user:7 >";
    let lines = lines.replace("user:7", "user:7s");
    let (_, entries) = record(&script(&lines));
    let reads = &entries[entries.len() - 3..];
    assert_eq!(
        told(reads),
        [
            "default update user:7s ok",
            "default update user:7s ok",
            "default update user:7s absent"
        ]
    );
    let perhaps = |seen: &Seen| seen.payload.contains("\"changed\":\"perhaps\"");
    assert!(!perhaps(&reads[0]));
    assert!(perhaps(&reads[1]) && perhaps(&reads[2]));
}

/// Redis 6.2 does not say what a command does with its keys, and a command that writes nothing was recorded as an update. A command
/// without the flag of writing reads.
#[test]
fn a_command_that_does_not_write_is_no_update_where_the_server_tells_no_flags() {
    let redis = Redis::start_of(crate::support::Kind::Redis6, &[]);
    let (proxy, address, recorder) = start(&config(&redis));
    talk(
        address,
        &script("SET user:a ab\nSET user:b b\nSTRALGO LCS KEYS user:a user:b LEN"),
        usize::MAX,
    );
    proxy.stop();
    let entries = recorder.entries();
    assert_eq!(
        told(&entries[2..]),
        ["default read user:a ok", "default read user:b ok"]
    );
}

/// The entry of FLUSHALL named the database of its client, though all are emptied, and that of SWAPDB
/// none of the two that it exchanges.
#[test]
fn commands_about_whole_databases_name_them() {
    let bytes = script("SELECT 1\nFLUSHDB\nSWAPDB 3 4\nFLUSHALL");
    let (heard, entries) = record(&bytes);
    assert_eq!(heard, "+OK\r\n".repeat(5));
    let expected = [
        "\"command\":\"flushdb\",\"db\":1}",
        "\"command\":\"swapdb\",\"databases\":[\"3\",\"4\"]}",
        "\"command\":\"flushall\",\"databases\":\"all\"}",
    ];
    for (entry, expected) in entries.iter().zip(expected) {
        assert_eq!(entry.key, "*");
        assert!(entry.payload.ends_with(expected), "{}", entry.payload);
    }
    assert_eq!(entries.len(), expected.len());
}
