//! A person's database: filled from a log, a store, disguises and credentials.

use std::fs;
use std::path::Path;
use std::process::Command;

use probity_format::{Claimed, Entry, Subjects, Timestamp};
use probity_log::{Log, Options, RootKey, StreamName};
use serde_json::{Value, json};

use crate::Place;

/// Makes a log with entries about two people.
pub(crate) fn log_of_two_people(place: &Place) {
    let probity = |args: &[&str], input: &str| {
        fs::write(place.path("input"), input).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(args)
            .current_dir(place.folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .stdin(fs::File::open(place.path("input")).unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
    };
    let mut lines = String::new();
    for number in 0..120 {
        let purpose = ["billing", "research"][number % 2];
        let subjects = [json!("alice"), json!("bob"), json!(["bob", "alice"])][number % 3].clone();
        let payload = "p\u{e9}".repeat(number * 5);
        let entry = json!({
            "time": format!("2026-03-{:02}T10:00:00Z", number % 28 + 1),
            "action": "read",
            "key": format!("user:{number}"),
            "subject": subjects,
            "controller": "shop",
            "actor": format!("clerk{}", number % 4),
            "purpose": purpose,
            "payload": payload,
        });
        lines.push_str(&entry.to_string());
        lines.push('\n');
    }
    lines.push_str("{\"action\":\"update\",\"key_base64\":\"AAH/\",\"subject\":\"alice\",\"purpose\":\"billing\",\"idempotency_key\":\"abc\"}\n");
    probity(&["init", "audit"], "");
    probity(&["append", "audit"], &lines);
    append_as_gateway(&place.path("audit"));
}

/// Appends entries about alice as a server that authenticates and decides by a policy does.
fn append_as_gateway(log: &Path) {
    let key = fs::read_to_string(log.with_extension("key")).unwrap();
    let log = Log::open(log, &RootKey::from_text(&key).unwrap(), Options::default()).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    appender.set_submitter("gateway").unwrap();
    appender.set_claimed(Claimed {
        actor: true,
        purpose: false,
    });
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry {
        subjects: Subjects::joined("alice"),
        actor: "clerk",
        purpose: "care",
        policy: Some(&[0xAB; 32]),
        rule: "patients",
        ..Entry::new(time, "delete", b"")
    };
    appender.append_durable(&entry).unwrap();
    log.close().unwrap();
}

#[test]
fn a_person_carries_what_a_log_holds_about_them_and_nothing_of_others() {
    let place = Place::new();
    log_of_two_people(&place);
    let wrong = ["create", "mine", "--log", "audit"];
    place.run(&wrong, 2);
    let created = ["--log", "audit", "--subject", "alice", "--size", "16"];
    place.run(&[&["create", "mine"][..], &created].concat(), 0);
    let ask = |sql: &str| {
        let (rows, _) = place.run(&["query", "mine", sql, "--format", "csv"], 0);
        let rows = rows.lines().skip(1).map(str::to_owned);
        rows.collect::<Vec<String>>()
    };
    // Two thirds of 120, the one with a binary key, and the gateway's.
    assert_eq!(ask("SELECT COUNT(*) FROM entries"), ["82"]);
    assert_eq!(ask("SELECT COUNT(*) FROM entries WHERE others = 1"), ["40"]);
    let of = "SELECT COUNT(*) FROM entries JOIN acts ON entries.act = acts.id \
              JOIN purposes ON acts.purpose = purposes.id WHERE purposes.name = 'billing'";
    assert_eq!(ask(of), ["41"]);
    assert_eq!(
        ask("SELECT value FROM about WHERE name = 'subject'"),
        ["alice"]
    );
    let pieces = "SELECT text FROM contents JOIN entries ON contents.entry = entries.id \
                  WHERE entries.number = 117 AND contents.field = 'payload' ORDER BY piece";
    assert_eq!(ask(pieces).concat(), "p\u{e9}".repeat(585));
    let key = "SELECT contents.encoding, contents.text FROM contents JOIN entries ON contents.entry = entries.id \
               WHERE entries.action = 'update' AND contents.field = 'key'";
    assert_eq!(ask(key), ["base64,AAH/"]);
    // The fields that the log adds to those of the caller.
    let of_gateway = "SELECT acts.submitter, acts.claimed, acts.policy, acts.rule FROM entries \
                      JOIN acts ON entries.act = acts.id WHERE entries.action = 'delete'";
    assert_eq!(
        ask(of_gateway),
        [format!("gateway,actor,{},patients", "ab".repeat(32))]
    );
    let claimed = "SELECT COUNT(*) FROM entries JOIN acts ON entries.act = acts.id WHERE acts.claimed = 'actor purpose'";
    assert_eq!(ask(claimed), ["80"]);
    assert_eq!(
        ask("SELECT COUNT(*) FROM entries WHERE taken > 1700000000000000000"),
        ["82"]
    );
    let request = "SELECT contents.text FROM contents WHERE field = 'idempotency'";
    assert_eq!(
        ask(request),
        ["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"]
    );
    // The other person's name is nowhere.
    for table in [
        "about",
        "controllers",
        "processors",
        "actors",
        "purposes",
        "bases",
        "acts",
        "contents",
    ] {
        let rows = ask(&format!("SELECT * FROM {table}"));
        assert!(rows.iter().all(|row| !row.contains("bob")), "{table}");
    }
    place.run(&["extract", "mine", of, "-o", "billing"], 0);
    place.run(&["check", "billing", "--key", "mine.vkey"], 0);
    place.run(&["verify", "mine"], 0);
    // Nothing stays of a database that cannot be filled.
    let (_, refused) = place.run(
        &["create", "none", "--log", "vault.sql", "--subject", "alice"],
        1,
    );
    assert!(!refused.is_empty());
    assert!(!place.path("none").exists() && !place.path("none.root").exists());
}

/// Makes a store of the proxy's with keys of two people.
fn store_of_two_people(folder: &Path) {
    let commands: [&[&str]; 7] = [
        &["SET", "user:alice:name", "Alice \u{e9}"],
        &["RPUSH", "user:alice:cart", "pen", "ink", ""],
        &[
            "HSET",
            "user:alice:address",
            "town",
            "Ulm",
            "street",
            "Ring 1",
        ],
        &["ZADD", "user:alice:scores", "2.5", "chess"],
        &["SADD", "chat:alice:bob", "what bob wrote"],
        &["SET", "user:bob:name", "Bob"],
        &["SET", "weather", "rain"],
    ];
    store_of(folder, &commands);
}

/// Fills a store with what these commands write.
fn store_of(folder: &Path, commands: &[&[&str]]) {
    let store = probity_store::Store::open(folder, probity_store::Options::default()).unwrap();
    for words in commands {
        let mut command = probity_store::Command::default();
        for word in *words {
            command.push(word.as_bytes());
        }
        let mut commands = probity_store::Commands::default();
        commands.push(command);
        let (sender, receiver) = std::sync::mpsc::channel();
        store.ask(store.client(), commands, move |answer| {
            sender.send(answer.unwrap().bytes).unwrap();
        });
        let answer = receiver.recv().unwrap();
        assert_ne!(answer.first(), Some(&b'-'), "{words:?}");
    }
    store.close().unwrap();
}

/// Makes a person's database out of all sources.
fn person() -> Place {
    let place = sources();
    let about = ["create", "mine", "--subject", "alice", "--log", "audit"];
    place.run(&[&about[..], &FURTHER].concat(), 0);
    place
}

/// The options of a database beside those for a log.
const FURTHER: [&str; 12] = [
    "--size",
    "16",
    "--store",
    "data",
    "--policy",
    "policy.toml",
    "--credential",
    "19.key",
    "--disguises",
    "export.json",
    "--disguises",
    "export.jsonl",
];

/// Makes all that a person's database comes from.
fn sources() -> Place {
    let place = Place::new();
    log_of_two_people(&place);
    store_of_two_people(&place.path("data"));
    let policy = "version = 1\n[[key]]\npattern = \"user:{subject}:*\"\npurpose = \"service\"\n\
                  [[key]]\npattern = \"chat:{subject}:{subject}\"\n";
    fs::write(place.path("policy.toml"), policy).unwrap();
    fs::write(place.path("19.key"), "an age-old secret\n").unwrap();
    let hidden = |row: u32, mail: Value| {
        json!({ "disguise": "leave", "table": "posts", "row": row, "when": "later",
                "values": { "mail": mail, "text": "x".repeat(250), "gone": null } })
    };
    let array = json!([hidden(1, json!("a@example")), hidden(2, json!(""))]);
    fs::write(place.path("export.json"), array.to_string()).unwrap();
    let line = hidden(3, json!(7)).to_string();
    fs::write(place.path("export.jsonl"), format!("{line}\n{line}\n")).unwrap();
    place
}

fn asked(place: &Place, sql: &str) -> Vec<String> {
    let (rows, _) = place.run(&["query", "mine", sql, "--format", "csv"], 0);
    rows.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_person_carries_their_keys_without_what_belongs_to_others_too() {
    let place = person();
    let ask = |sql: &str| asked(&place, sql);
    assert_eq!(ask("SELECT COUNT(*) FROM entries"), ["82"]);
    assert_eq!(
        ask("SELECT name, kind, others FROM items WHERE purpose = 'service' ORDER BY name"),
        [
            "user:alice:address,hash,0",
            "user:alice:cart,list,0",
            "user:alice:name,string,0",
            "user:alice:scores,zset,0"
        ]
    );
    let of = |key: &str| {
        ask(&format!(
            "SELECT part, number, text FROM item_values JOIN items ON item_values.item = items.id \
             WHERE items.name = '{key}' AND part <> 'key' ORDER BY item_values.id"
        ))
    };
    assert_eq!(of("user:alice:name"), ["value,1,Alice \u{e9}"]);
    assert_eq!(
        of("user:alice:cart"),
        ["element,1,pen", "element,2,ink", "element,3,"]
    );
    assert_eq!(of("user:alice:scores"), ["member,1,chess", "score,1,2.5"]);
    assert_eq!(of("user:alice:address").len(), 4);
    // An item of two people is listed without the other one and without its value.
    assert_eq!(of("chat:alice:*"), [""; 0]);
    assert_eq!(
        ask("SELECT others FROM items WHERE name = 'chat:alice:*'"),
        ["1"]
    );
    assert!(
        ask("SELECT text FROM item_values")
            .iter()
            .all(|text| !text.contains("bob"))
    );
}

/// An empty file was taken for a credential, with status 0, and left no row.
#[test]
fn an_empty_credential_is_refused() {
    let place = Place::new();
    fs::write(place.path("empty.key"), "").unwrap();
    let args = [
        "create",
        "p",
        "--subject",
        "alice",
        "--credential",
        "empty.key",
    ];
    let (_, stderr) = place.run(&args, 1);
    assert!(
        stderr.contains("empty.key is empty, and no credential"),
        "{stderr}"
    );
    assert!(!place.path("p").exists());
}

#[test]
fn a_person_carries_what_disguises_hid_and_the_credentials() {
    let place = person();
    let ask = |sql: &str| asked(&place, sql);
    let values = "SELECT place, type, text FROM hidden_values \
                  JOIN hidden ON hidden_values.hidden = hidden.id \
                  WHERE hidden.source = 'posts' AND hidden_values.name = 'mail' ORDER BY hidden.id";
    assert_eq!(
        ask(values),
        ["1,text,a@example", "2,text,", "3,number,7", "3,number,7"]
    );
    assert_eq!(ask("SELECT name FROM disguises"), ["leave"]);
    assert_eq!(
        ask("SELECT name, text FROM credentials"),
        ["19.key,\"an age-old secret", "\""]
    );
}

#[test]
fn a_person_hands_out_a_signed_part_of_what_they_carry() {
    let place = person();
    let told = "SELECT name, kind FROM items";
    place.run(&["extract", "mine", told, "-o", "told"], 0);
    place.run(&["check", "told", "--key", "mine.vkey"], 0);
    place.run(&["reorganize", "mine", "--levels"], 0);
    place.run(&["verify", "mine"], 0);
    for (wrong, code) in [
        (vec!["create", "none", "--subject", "alice"], 2),
        (
            vec!["create", "none", "--subject", "alice", "--store", "nowhere"],
            1,
        ),
        (
            vec![
                "create",
                "none",
                "--subject",
                "alice",
                "--disguises",
                "policy.toml",
            ],
            1,
        ),
    ] {
        let (_, refused) = place.run(&wrong, code);
        assert!(!refused.is_empty());
        assert!(!place.path("none").exists() && !place.path("nowhere").exists());
    }
}

#[test]
fn the_subject_of_a_log_gets_the_same_database_by_an_export() {
    let place = person();
    let export = ["subject", "export", "audit", "alice", "--pocket", "hers"];
    let said = |args: &[&str], status| {
        let output = place.program(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let document = said(&[&export[..], &FURTHER, &["--json"]].concat(), 0);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["file"], "hers");
    for table in ["about", "entries", "contents", "acts", "purposes", "items"]
        .into_iter()
        .chain(["item_values", "hidden", "hidden_values", "credentials"])
    {
        let rows = |file| {
            let sql = format!("SELECT * FROM {table} ORDER BY id");
            place.run(&["query", file, &sql, "--format", "csv"], 0).0
        };
        assert_eq!(rows("hers"), rows("mine"), "{table}");
    }
    place.run(&["verify", "hers"], 0);
    // The subject and the file must be named; an existing database stays.
    said(&["subject", "export", "audit", "--pocket", "none"], 2);
    said(&["subject", "export", "audit", "alice"], 2);
    said(&export, 1);
    said(
        &["subject", "export", "nowhere", "alice", "--pocket", "none"],
        1,
    );
    assert!(!place.path("none").exists() && place.path("hers").exists());
}

/// A mistyped subject made a database of nothing, and an export of nothing, without a word. Both say that nothing was found.
#[test]
fn a_subject_of_whom_there_is_nothing_is_said() {
    let place = sources();
    let said = |args: &[&str]| {
        let output = place.program(args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
        (String::from_utf8(output.stdout).unwrap(), error)
    };
    let export = |name: &str, file: &str| {
        let export = ["subject", "export", "audit", name, "--pocket", file];
        let store = ["--store", "data", "--policy", "policy.toml", "--json"];
        let (document, error) = said(&[&export[..], &store, &["--size", "16"]].concat());
        let document: Value = serde_json::from_str(&document).unwrap();
        (
            (document["entries"].clone(), document["keys"].clone()),
            error,
        )
    };
    let (found, error) = export("alcie", "q.pocket");
    assert_eq!(found, (json!(0), json!(0)));
    assert!(
        error.contains("0 entries about alcie found in audit"),
        "{error}"
    );
    assert!(
        error.contains("0 keys about alcie found in data"),
        "{error}"
    );
    assert!(error.contains("probity disguise subject-name"), "{error}");
    let (found, error) = export("alice", "r.pocket");
    assert_eq!(found, (json!(82), json!(5)));
    assert_eq!(error, "");
    for form in ["jsonl", "csv"] {
        let export = ["export", "audit", "--format", form, "--subject"];
        let (_, error) = said(&[&export[..], &["alcie"]].concat());
        assert!(
            error.contains("0 entries about alcie found in audit"),
            "{error}"
        );
        let (_, error) = said(&[&export[..], &["alice"]].concat());
        assert_eq!(error, "");
    }
}

/// Numbers came rounded, and of two members of one name the last one.
#[test]
fn hidden_values_are_kept_as_they_are_written() {
    let place = Place::new();
    let row = |values: &str| {
        format!(r#"{{"disguise":"d","table":"t","row":12345678901234567890123,"values":{values}}}"#)
    };
    let create = ["create", "mine", "--subject", "19", "--disguises", "d.json"];
    for (values, said) in [
        (r#"{"a":1,"a":2}"#, "member a twice"),
        (r#"{"a":[{"b":1,"b":2}]}"#, "member b twice"),
    ] {
        fs::write(place.path("d.json"), row(values)).unwrap();
        let (_, stderr) = place.run(&create, 1);
        assert!(stderr.contains(said), "{stderr}");
    }
    let values = r#"{"a": 12345678901234567890123, "b": 1.10, "c": true, "d": null, "e": "x",
        "f": {"z": 1, "a": 2.50}, "g": [1.50, "y\n"]}"#;
    fs::write(place.path("d.json"), row(values)).unwrap();
    place.run(&create, 0);
    let found = asked(&place, "SELECT name, type, text FROM hidden_values");
    let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "a,number,12345678901234567890123",
            "b,number,1.10",
            "c,boolean,true",
            "d,null,",
            "e,text,x",
            r#"f,json,"{""z"":1,""a"":2.50}""#,
            r#"g,json,"[1.50,""y\n""]""#,
        ]
    );
    assert_eq!(
        asked(&place, "SELECT place FROM hidden"),
        ["12345678901234567890123"]
    );
}

/// A collection that expired while the copy read it in parts came half, with status 0. Now the clock
/// stands: it comes whole, or not at all where it had expired before.
#[test]
fn a_collection_that_expires_meanwhile_comes_whole_or_not_at_all() {
    let place = sources();
    let data = place.path("brief");
    let names: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    let mut put = vec!["RPUSH", "user:alice:list"];
    put.extend(names.iter().map(String::as_str));
    let expire = ["PEXPIRE", "user:alice:list", "2000"];
    store_of(&data, &[&put, &expire]);
    let create = ["create", "mine", "--subject", "alice", "--store", "brief"];
    let document = place.json(&[&create[..], &["--policy", "policy.toml"]].concat());
    let count = asked(
        &place,
        "SELECT COUNT(*) FROM item_values WHERE part = 'element'",
    );
    match document["keys"].as_u64() {
        // This machine took its time to begin.
        Some(0) => assert_eq!(count, ["0"]),
        keys => {
            assert_eq!((keys, count), (Some(1), vec!["2000".to_owned()]));
            assert_eq!(asked(&place, "SELECT kind FROM items"), ["list"]);
        }
    }
    assert_eq!(document["unreadable"], json!(0));
}
