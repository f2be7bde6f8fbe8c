//! A person's own database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::Reader;
use probity_log::{Log, Options, StreamConfig, StreamName};
use probity_policy::Policy;
use probity_store::{Clock, Command, Commands, Store};
use probity_vault::{Attribution, ExportFault, Observer, Person, VaultError};

use crate::{Pocket, pocket, rows};

/// Counts what it is told of.
struct Count(u64);

impl Observer for Count {
    fn took(&mut self, _number: u64) {
        self.0 += 1;
    }
}

#[test]
fn entries_of_a_log_come_with_their_names_and_without_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit");
    let root = RootKey::new(
        Secret::filled(|bytes| {
            bytes.fill(7);
            Ok::<(), ()>(())
        })
        .unwrap(),
    );
    let (config, options) = (StreamConfig::default(), Options::default());
    let log = Log::create(&path, "example.com/audit", &root, config, options).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    let time = Timestamp::from_nanoseconds(1_764_000_000_000_000_000).unwrap();
    for (about, payload) in [
        ("ada", &b"text"[..]),
        ("bea", b""),
        ("ada\nbea", b"\x00\x01"),
    ] {
        let entry = Entry {
            subjects: Subjects::joined(about),
            purpose: "care",
            payload,
            ..Entry::new(time, "read", b"user:7")
        };
        appender.append_durable(&entry).unwrap();
    }
    log.close().unwrap();

    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    let reader = Reader::open(&path, &root).unwrap();
    let mut count = Count(0);
    assert!(person.log(&reader, false, &mut count).unwrap().is_none());
    let filled = person.finish().unwrap();
    assert_eq!((filled.entries, filled.keys, count.0), (Some(2), None, 2));
    assert_eq!(
        rows(&mut store, "SELECT name, value FROM about"),
        ["log|example.com/audit", "subject|ada"]
    );
    assert_eq!(rows(&mut store, "SELECT name FROM purposes"), ["care"]);
    assert_eq!(
        rows(&mut store, "SELECT day, number, others FROM entries"),
        ["2025-11-24|0|0", "2025-11-24|2|1"]
    );
    let payloads = "SELECT encoding, text FROM contents WHERE field = 'payload'";
    assert_eq!(rows(&mut store, payloads), ["text|text", "withheld|"]);
}

/// Subjects, key, payload and actor of an entry, and whether a policy decided.
type Said<'a> = (&'a str, &'a [u8], &'a [u8], &'a str, bool);

fn time() -> Timestamp {
    Timestamp::from_nanoseconds(1_764_000_000_000_000_000).unwrap()
}

/// Makes a log with these entries. Returns a reader behind the erasure of `erased`, if the log has
/// that subject.
fn reader_of(folder: &Path, entries: &[Entry<'_>], erased: &str) -> Reader {
    reader_in(folder, entries, StreamName::DEFAULT, erased)
}

/// Makes such a log with the entries in `stream`.
fn reader_in(folder: &Path, entries: &[Entry<'_>], stream: &str, erased: &str) -> Reader {
    let path = folder.join("audit");
    let root = RootKey::new(
        Secret::filled(|bytes| {
            bytes.fill(7);
            Ok::<(), ()>(())
        })
        .unwrap(),
    );
    let config = StreamConfig {
        erasable: true,
        ..StreamConfig::default()
    };
    let log = Log::create(
        &path,
        "example.com/audit",
        &root,
        config,
        Options::default(),
    )
    .unwrap();
    let stream = StreamName::new(stream).unwrap();
    if stream != StreamName::default() {
        log.create_stream(&stream, config).unwrap();
    }
    let mut appender = log.appender(&stream).unwrap();
    for entry in entries {
        appender.append_durable(entry).unwrap();
    }
    drop(appender);
    log.erase(erased).unwrap();
    log.close().unwrap();
    Reader::open(&path, &root).unwrap()
}

/// Makes ada's database from the log.
fn copy_of_ada(reader: &Reader) -> Pocket {
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.log(reader, false, &mut Count(0)).unwrap();
    person.finish().unwrap();
    store
}

/// A person's copy had the names of other subjects in keys, payloads and actors.
#[test]
fn no_field_of_a_persons_copy_names_another_subject() {
    let folder = tempfile::tempdir().unwrap();
    let renamed = br#"{"command":"rename","to":"user:carl:v","found":1}"#;
    let own = br#"{"command":"rename","to":"user:ada:v"}"#;
    let of_application = br#"{"command":1,"to":"carl"}"#;
    let entries: [Said<'_>; 13] = [
        ("ada\nbea", b"chat:ada:bea", b"bea wrote", "bea", false),
        ("ada\nada:bea", b"chat:ada:bea:ada", b"", "ada", false),
        ("ada\nbea", b"pairbea-ada", b"", "clerk", false),
        ("ada\nb%25a", b"chat:ada:b%a", b"", "clerk", false),
        ("ada\nbea", b"order:17", b"", "clerk", false),
        ("ada\nsha256:00", b"chat:ada:long", b"", "clerk", false),
        ("ada\ngone", b"chat:ada:gone", b"of gone", "clerk", false),
        ("ada", b"user:ada:v", renamed, "clerk", true),
        ("ada", b"user:ada:v", own, "clerk", true),
        ("ada", b"user:ada:w", of_application, "clerk", true),
        ("ada", b"user:ada:x", renamed, "clerk", false),
        ("ada\nad", b"chat:ada:ad", b"", "clerk", false),
        ("ada\nb:ada", b"chatb:ada", b"", "clerk", false),
    ];
    let entries = entries.map(|(about, key, payload, actor, is_decided)| Entry {
        subjects: Subjects::joined(about),
        payload,
        actor,
        policy: is_decided.then_some(&[7; 32]),
        ..Entry::new(time(), "read", key)
    });
    let reader = reader_of(folder.path(), &entries, "gone");
    let mut store = copy_of_ada(&reader);
    let of = |store: &mut _, field: &str| {
        rows(
            store,
            &format!("SELECT entry, encoding, text FROM contents WHERE field = '{field}'"),
        )
    };
    assert_eq!(
        of(&mut store, "key"),
        [
            "10|text|user:ada:w",
            "11|text|user:ada:x",
            "12|text|chat:ada:*",
            "13|withheld|",
            "1|text|chat:ada:*",
            "2|text|chat:*:ada",
            "3|withheld|",
            "4|text|chat:ada:*",
            "5|text|order:17",
            "6|withheld|",
            "7|withheld|",
            "8|text|user:ada:v",
            "9|text|user:ada:v",
        ]
    );
    assert_eq!(
        of(&mut store, "payload"),
        [
            r#"10|text|{"command":1,"to":"carl"}"#,
            r#"11|text|{"command":"rename","to":"user:carl:v","found":1}"#,
            "1|withheld|",
            "7|withheld|",
            r#"8|text|{"command":"rename","to":"*","found":1}"#,
            r#"9|text|{"command":"rename","to":"user:ada:v"}"#,
        ]
    );
    assert_eq!(
        rows(&mut store, "SELECT name FROM actors"),
        ["*", "ada", "clerk"]
    );
}

/// A person's copy showed another subject who was controller, processor, purpose, basis, action or
/// rule.
#[test]
fn no_text_of_a_persons_copy_names_another_subject() {
    let texts = [
        ("ada\nbert", "bert", "*"),
        ("ada\nbert", "for bert's care", "for *'s care"),
        ("ada\nbert", "bertram, no relative", "*, no relative"),
        ("ada\nbert", "ada", "ada"),
        ("ada\nb%25rt", "by b%rt", "by *"),
        ("ada\na", "marketing", "marketing"),
        ("ada\na", "article 6(1)(a)", "article 6(1)(*)"),
        ("ada\n19", "since 2019", "since 2019"),
        ("ada\n19", "of user19", "of user*"),
        ("ada\nad", "ada and ad", "ada and *"),
        ("ada\nx-ada", "yx-ada", "*"),
        ("ada\ngone", "care", "*"),
        ("ada\nsha256:00", "care", "*"),
        ("ada", "bert", "bert"),
    ];
    for (about, said, shown) in texts {
        let entry = Entry {
            subjects: Subjects::joined(about),
            controller: said,
            processor: said,
            purpose: said,
            basis: said,
            rule: said,
            ..Entry::new(time(), said, b"")
        };
        let folder = tempfile::tempdir().unwrap();
        let reader = reader_of(folder.path(), &[entry], "gone");
        let mut store = copy_of_ada(&reader);
        for table in ["controllers", "processors", "purposes", "bases"] {
            let names = rows(&mut store, &format!("SELECT name FROM {table}"));
            assert_eq!(names, [shown], "{table}, {about:?}: {said}");
        }
        assert_eq!(rows(&mut store, "SELECT action FROM entries"), [shown]);
        assert_eq!(rows(&mut store, "SELECT rule FROM acts"), [shown]);
    }
}

/// The name of a stream was not masked like all other texts: one that is called after a person showed
/// whom an entry concerns besides. The number of the entry in it stays.
#[test]
fn no_stream_of_a_persons_copy_names_another_subject() {
    for (about, stream, shown) in [
        ("ada\nbert-1990", "bert-1990", "*"),
        ("ada\nbert-1990", "of.bert-1990", "of.*"),
        ("ada\nbert-1990", "wards", "wards"),
        ("ada\nbert-1990", "default", "default"),
        ("ada\nada-1990", "ada", "ada"),
        ("ada\ngone", "gone", "*"),
        ("ada\ngone", "default", "default"),
        ("ada\ndefault", "default", "*"),
        ("ada", "bert-1990", "bert-1990"),
    ] {
        let entry = Entry {
            subjects: Subjects::joined(about),
            ..Entry::new(time(), "read", b"")
        };
        let folder = tempfile::tempdir().unwrap();
        let reader = reader_in(folder.path(), &[entry], stream, "gone");
        let mut store = copy_of_ada(&reader);
        let streams = rows(&mut store, "SELECT stream, number FROM entries");
        assert_eq!(streams, [format!("{shown}|0")], "{about:?}: {stream}");
    }
}

/// The digest of an idempotency key was given with entries about several people, whose names it may be
/// of: whoever guesses one finds it by its digest.
#[test]
fn the_digest_of_a_request_is_left_out_where_others_are_concerned() {
    let entry = |about, idempotency| Entry {
        subjects: Subjects::joined(about),
        idempotency,
        ..Entry::new(time(), "read", b"")
    };
    let entries = [
        entry("ada", Some(&[7; 32])),
        entry("ada\nbert", Some(&[8; 32])),
        entry("ada\nbert", None),
    ];
    let folder = tempfile::tempdir().unwrap();
    let reader = reader_of(folder.path(), &entries, "gone");
    let mut store = copy_of_ada(&reader);
    let said = "SELECT entry, encoding, text FROM contents WHERE field = 'idempotency'";
    let own = format!("1|text|{}", "07".repeat(32));
    assert_eq!(rows(&mut store, said), [own.as_str(), "2|withheld|"]);
}

/// The erasure of one subject would take purpose and rule from the copies of the others, though a
/// policy wrote them.
#[test]
fn words_of_a_policy_and_the_log_stay_where_a_subject_was_erased() {
    let digest = [7; 32];
    let entry = |policy| Entry {
        subjects: Subjects::joined("ada\ngone"),
        purpose: "care",
        rule: "chats",
        actor: "clerk",
        policy,
        ..Entry::new(time(), "read", b"")
    };
    let folder = tempfile::tempdir().unwrap();
    let entries = [entry(Some(&digest)), entry(None)];
    let reader = reader_of(folder.path(), &entries, "gone");
    let mut store = copy_of_ada(&reader);
    let names = rows(&mut store, "SELECT name FROM purposes");
    assert_eq!(names, ["*", "care"]);
    let acts = rows(&mut store, "SELECT rule FROM acts");
    assert_eq!(acts, ["*", "chats"]);
    let actors = rows(&mut store, "SELECT name FROM actors");
    assert_eq!(actors, ["clerk"]);
    let actions = rows(&mut store, "SELECT action FROM entries");
    assert_eq!(actions, ["read", "read"]);
}

fn put(store: &Store, words: &[&str]) {
    let mut command = Command::default();
    for word in words {
        command.push(word.as_bytes());
    }
    let mut commands = Commands::default();
    commands.push(command);
    let (sender, receiver) = std::sync::mpsc::channel();
    store.ask(store.client(), commands, move |answer| {
        let _gone = sender.send(answer);
    });
    receiver.recv().unwrap().unwrap();
}

#[test]
fn keys_of_a_store_come_with_their_values_unless_they_are_others_too() {
    let folder = tempfile::tempdir().unwrap();
    let options = probity_store::Options::default();
    let keys = Store::open(&folder.path().join("store"), options).unwrap();
    put(&keys, &["SET", "user:ada:name", "Ada"]);
    put(&keys, &["SET", "user:bea:name", "Bea"]);
    put(&keys, &["RPUSH", "user:ada:days", "1", "2"]);
    put(&keys, &["SET", "pair:ada:bea", "a secret of two"]);
    let policy = Policy::parse(
        "version = 1\n[[key]]\npattern = \"user:{subject}:*\"\npurpose = \"service\"\n\
         [[key]]\npattern = \"pair:{subject}:{subject}\"\npurpose = \"chat\"\n",
    )
    .unwrap();

    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.items(&keys, &policy, "data").unwrap();
    let filled = person.finish().unwrap();
    keys.close().unwrap();
    assert_eq!((filled.entries, filled.keys), (None, Some(3)));
    let items = rows(&mut store, "SELECT name, kind, purpose, others FROM items");
    assert_eq!(
        items,
        [
            "pair:ada:*|string|chat|1",
            "user:ada:days|list|service|0",
            "user:ada:name|string|service|0",
        ]
    );
    let values = rows(
        &mut store,
        "SELECT part, text FROM item_values WHERE part <> 'key'",
    );
    assert_eq!(values, ["element|1", "element|2", "value|Ada"]);
}

/// A collection that no single reply of the store holds kept the person from any copy. It is read in
/// parts, each element once.
#[test]
fn collections_that_are_longer_than_a_reply_come_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let options = probity_store::Options {
        reply_bytes_max: 4096,
        ..probity_store::Options::default()
    };
    let keys = Store::open(&folder.path().join("store"), options).unwrap();
    let texts: Vec<String> = (0..600).map(|number| format!("{number:030}")).collect();
    for group in texts.chunks(50) {
        for (command, key) in [("RPUSH", "l"), ("SADD", "s"), ("HSET", "h"), ("ZADD", "z")] {
            let key = format!("user:ada:{key}");
            let mut words = vec![command, &key];
            for text in group {
                match command {
                    "HSET" => words.extend([text.as_str(), "v"]),
                    "ZADD" => words.extend([text.get(20..).unwrap(), text.as_str()]),
                    _ => words.push(text),
                }
            }
            put(&keys, &words);
        }
    }
    let policy = "version = 1\n[[key]]\npattern = \"user:{subject}:*\"\npurpose = \"service\"\n";
    let policy = Policy::parse(policy).unwrap();
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.items(&keys, &policy, "data").unwrap();
    person.finish().unwrap();
    keys.close().unwrap();
    for (name, part) in [
        ("l", "element"),
        ("s", "member"),
        ("h", "field"),
        ("z", "member"),
    ] {
        let query = format!(
            "SELECT item_values.text, item_values.number FROM item_values JOIN items \
             ON item_values.item = items.id WHERE items.name = 'user:ada:{name}' \
             AND item_values.part = '{part}'"
        );
        let found = rows(&mut store, &query);
        let split = found.iter().map(|row| row.split_once('|').unwrap());
        let (found, mut numbers): (Vec<&str>, Vec<usize>) = split
            .map(|(text, number)| (text, number.parse::<usize>().unwrap()))
            .unzip();
        assert_eq!(found, texts, "{name}");
        if name == "l" {
            assert!(numbers.is_sorted(), "{name}");
        }
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=600), "{name}");
    }
}

#[test]
fn hidden_rows_and_credentials_come_from_several_files() {
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.credential("ada.key", b"a secret").unwrap();
    person.credential("binary", &[0xFF, 0]).unwrap();
    let first =
        br#"{"disguise":4,"table":"notes","row":"id=1","values":{"text":"hello","n":1.50}}"#;
    let second =
        br#"{"rows":[{"disguise":4,"table":"notes","row":"id=2","values":{"text":null}}]}"#;
    for export in [&first[..], second] {
        let named = person.hidden_rows(export).unwrap();
        assert_eq!(named, Attribution::Unnamed);
    }
    person.finish().unwrap();
    assert_eq!(
        rows(&mut store, "SELECT name, encoding, text FROM credentials"),
        ["ada.key|text|a secret", "binary|base64|/wA="]
    );
    assert_eq!(rows(&mut store, "SELECT name FROM disguises"), ["4"]);
    assert_eq!(
        rows(&mut store, "SELECT source, place FROM hidden"),
        ["notes|id=1", "notes|id=2"]
    );
    assert_eq!(
        rows(
            &mut store,
            "SELECT hidden, name, type, text FROM hidden_values"
        ),
        ["1|n|number|1.50", "1|text|text|hello", "2|text|null|"]
    );
}

#[test]
fn a_text_that_is_no_export_is_refused_with_its_fault() {
    for (export, fault) in [
        ("[]", ExportFault::Empty),
        // One of the two was passed over without a word.
        (
            r#"{"disguise":1,"table":"t","row":"1","values":{},"rows":[{"disguise":1,"table":"u","row":"1","values":{}}]}"#,
            ExportFault::RowWithRows,
        ),
        (
            r#"[{"disguise":1,"table":"t","row":"1","values":{}},{"disguise":1,"table":"t"}]"#,
            ExportFault::Row {
                number: 2,
                lacks: "values",
            },
        ),
    ] {
        let mut store = pocket();
        let mut person = Person::new(&mut store, "ada").unwrap();
        let error = person.hidden_rows(export.as_bytes()).unwrap_err();
        assert!(matches!(error, VaultError::NoExport(found) if found == fault));
    }
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    let error = person
        .hidden_rows(br#"{"table":"t","table":"u"}"#)
        .unwrap_err();
    assert!(matches!(
        error,
        VaultError::NoExport(ExportFault::Malformed(words)) if words.contains("table twice")
    ));
}

/// A text that JSON does not have was refused with a place that was counted from its own beginning.
#[test]
fn a_malformed_document_of_an_export_is_named_by_its_line() {
    let line = r#"{"disguise":1,"table":"t","row":"1","values":{"a":"b"}}"#;
    let bad = r#"{"disguise":1,"table":"t","row":"1","values":{"a":"\ud800"}}"#;
    let export = format!("{}  {bad}\n{line}\n", format!("{line}\n\n").repeat(20));
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    let error = person.hidden_rows(export.as_bytes()).unwrap_err();
    let VaultError::NoExport(ExportFault::Malformed(words)) = error else {
        unreachable!("{error}");
    };
    let place = ", in the document that begins at line 41";
    assert!(
        words.ends_with(place) && !words.contains("column"),
        "{words}"
    );
}

/// A person's copy had the keys of the first database alone, and said nothing of the others.
#[test]
fn keys_come_from_every_database_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let options = probity_store::Options::default();
    let keys = Store::open(&folder.path().join("store"), options).unwrap();
    put(&keys, &["SET", "user:ada:name", "Ada"]);
    put(
        &keys,
        &["COPY", "user:ada:name", "user:ada:last", "DB", "15"],
    );
    put(
        &keys,
        &["COPY", "user:ada:name", "user:ada:name", "DB", "1"],
    );
    let policy = Policy::parse("version = 1\n[[key]]\npattern = \"user:{subject}:*\"\n").unwrap();
    let mut store = pocket();
    let mut person = Person::new(&mut store, "ada").unwrap();
    person.items(&keys, &policy, "data").unwrap();
    assert_eq!(person.finish().unwrap().keys, Some(3));
    keys.close().unwrap();
    assert_eq!(
        rows(&mut store, "SELECT db, name FROM items"),
        ["0|user:ada:name", "15|user:ada:last", "1|user:ada:name"]
    );
}

/// A collection that expired while it was read in parts came half, and nothing said so.
#[test]
fn a_key_that_goes_while_it_is_read_ends_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let time = Arc::new(AtomicU64::new(1_000));
    let options = probity_store::Options {
        clock: Clock::Manual(Arc::clone(&time)),
        ..probity_store::Options::default()
    };
    let keys = Store::open(&folder.path().join("store"), options).unwrap();
    let names: Vec<String> = (0..4000).map(|number| number.to_string()).collect();
    let mut words = vec!["SADD", "user:ada:s"];
    words.extend(names.iter().map(String::as_str));
    let policy = Policy::parse("version = 1\n[[key]]\npattern = \"user:{subject}:*\"\n").unwrap();
    let copied = |wait: u64| {
        time.store(1_000, Ordering::Relaxed);
        put(&keys, &words);
        put(&keys, &["PEXPIREAT", "user:ada:s", "2000"]);
        let mut store = pocket();
        let mut person = Person::new(&mut store, "ada").unwrap();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (_kept, never) = std::sync::mpsc::channel::<()>();
                let _waited = never.recv_timeout(Duration::from_millis(wait));
                time.store(3_000, Ordering::Relaxed);
            });
            person.items(&keys, &policy, "data")
        });
        done?;
        person.finish().unwrap();
        let members = "SELECT COUNT(*) FROM item_values WHERE part = 'member'";
        Ok(rows(&mut store, members))
    };
    let mut ended = 0;
    for wait in [1, 3, 10, 30, 100, 300, 1000, 3000] {
        match copied(wait) {
            Err(error) => {
                assert!(matches!(error, VaultError::StoreChanged), "{error}");
                ended += 1;
            }
            // It came whole, or had gone before.
            Ok(members) => assert!(members == ["4000"] || members == ["0"], "{members:?}"),
        }
    }
    assert!(ended > 0, "nothing was read meanwhile");
    keys.close().unwrap();
}
