//! Data of a subject is sealed under that subject's key, and cannot be opened once that key is
//! destroyed.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and puts older files back"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use probity_store::{Command, Commands, OpenError, Options, Store, SubjectOf, Sync};

use crate::runs::bytes_of;

/// A store of version 2: its file as runs of bytes that are not zero, each behind its place and length, its mark and key.
const UNOWNED: &[u8] = include_bytes!("../../testdata/unowned-store.runs");
const UNOWNED_MARK: &[u8] = include_bytes!("../../testdata/unowned-store.toml");
const UNOWNED_KEY: &[u8] = include_bytes!("../../testdata/unowned-store.key");

/// The subject of `user:S:...`, and of nothing else.
fn subject_of() -> SubjectOf {
    SubjectOf::new(|key| {
        let mut parts = key.split(|byte| *byte == b':');
        let (kind, subject) = (parts.next()?, parts.next()?);
        (kind == b"user").then(|| subject.to_vec())
    })
}

fn options() -> Options {
    Options {
        subject_of: subject_of(),
        ..Options::default()
    }
}

fn opened(path: &Path) -> Store {
    Store::open(path, options()).unwrap()
}

fn ask(store: &Store, lines: &[&str]) -> String {
    let mut commands = Commands::default();
    for line in lines {
        let mut command = Command::default();
        line.split(' ')
            .for_each(|word| command.push(word.as_bytes()));
        commands.push(command);
    }
    let (mut client, mut replies) = (store.client(), Vec::new());
    while !commands.is_empty() {
        let (sender, receiver) = channel();
        store.ask(client, commands, move |answer| {
            drop(sender.send(answer));
        });
        let answer = receiver.recv().unwrap().unwrap();
        replies.extend_from_slice(&answer.bytes);
        (client, commands) = (answer.client, answer.rest);
    }
    String::from_utf8(replies).unwrap()
}

/// Something of every kind for one subject.
fn fill(store: &Store, subject: &str) {
    let long = "long".repeat(20_000);
    let lines = [
        format!("SET user:{subject}:short one"),
        format!("SET user:{subject}:long {long}"),
        format!("SET user:{subject}:brief x EXAT 4102444800"),
        format!("HSET user:{subject}:hash f1 v1 f2 v2"),
        format!("SADD user:{subject}:set m1 m2 m3"),
        format!("ZADD user:{subject}:zset 1 c 1 a 1 b 2 aa 0.5 z"),
        format!("RPUSH user:{subject}:list i1 i2 i3"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert!(!ask(store, &lines).contains('-'));
}

/// Returns whether a subject has everything; it must have all or nothing.
fn is_full(store: &Store, subject: &str) -> bool {
    let said = |line: &str| {
        ask(
            store,
            &[&line.replace("user:S:", &format!("user:{subject}:"))],
        )
    };
    let found = [
        said("GET user:S:short"),
        said("STRLEN user:S:long"),
        said("EXPIRETIME user:S:brief"),
        said("HGET user:S:hash f2"),
        said("SCARD user:S:set"),
        said("SISMEMBER user:S:set m3"),
        said("ZRANGE user:S:zset 0 -1"),
        said("ZREVRANGE user:S:zset 0 2"),
        said("ZRANK user:S:zset b"),
        said("LRANGE user:S:list 0 -1"),
    ];
    let whole = [
        "$3\r\none\r\n",
        ":80000\r\n",
        ":4102444800\r\n",
        "$2\r\nv2\r\n",
        ":3\r\n",
        ":1\r\n",
        "*5\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$2\r\naa\r\n",
        "*3\r\n$2\r\naa\r\n$1\r\nc\r\n$1\r\nb\r\n",
        ":2\r\n",
        "*3\r\n$2\r\ni1\r\n$2\r\ni2\r\n$2\r\ni3\r\n",
    ];
    if found == whole {
        return true;
    }
    let none = [
        "$-1\r\n", ":0\r\n", ":-2\r\n", "$-1\r\n", ":0\r\n", ":0\r\n", "*0\r\n", "*0\r\n",
        "$-1\r\n", "*0\r\n",
    ];
    assert_eq!(found, none);
    false
}

fn erase(store: &Store, subject: &str) {
    let names = ["short", "long", "brief", "hash", "set", "zset", "list"];
    let names: Vec<String> = names.map(|it| format!("user:{subject}:{it}")).into();
    assert_eq!(ask(store, &[&format!("DEL {}", names.join(" "))]), ":7\r\n");
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap();
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    entries.map(|it| read(it.unwrap().path())).collect()
}

fn put_back(files: &BTreeMap<PathBuf, Vec<u8>>, which: &str) {
    let wanted = |path: &&PathBuf| path.to_str().unwrap().ends_with(which);
    let found: Vec<&PathBuf> = files.keys().filter(wanted).collect();
    assert!(!found.is_empty(), "{which}");
    for path in found {
        fs::write(path, &files[path]).unwrap();
    }
}

/// An older file of keys was put back beside newer data, and the key of a subject that had been erased
/// since came back for good. Each opening destroys again what the data gave out and nobody has.
#[test]
fn an_older_file_of_keys_beside_newer_data_brings_no_erased_subject_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    for it in ["4", "5", "6"] {
        fill(&store, it);
    }
    store.close().unwrap();
    let before = files(&path);
    let store = opened(&path);
    erase(&store, "4");
    erase(&store, "6");
    store.close().unwrap();
    // The notes of what is to be destroyed are gone.
    let store = opened(&path);
    assert_eq!(ask(&store, &["SET plain x"]), "+OK\r\n");
    store.close().unwrap();
    put_back(&before, "subjects");
    let store = opened(&path);
    assert!(!is_full(&store, "4") && is_full(&store, "5"));
    assert!(store.damaged_subjects().is_empty());
    store.close().unwrap();
    put_back(&before, "sealed");
    let store = opened(&path);
    assert!(!is_full(&store, "4") && !is_full(&store, "6"));
    assert!(is_full(&store, "5"));
    fill(&store, "4");
    assert!(is_full(&store, "4"));
}

/// A store had one key for all subjects, so that older files and the key file gave erased data
/// back. The key of a subject goes with the last of its data, and older files open nothing of it.
#[test]
fn older_files_tell_nothing_of_a_subject_that_was_erased_since() {
    for sync in [Sync::Always, Sync::EverySecond] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let options = Options { sync, ..options() };
        let store = Store::open(&path, options.clone()).unwrap();
        fill(&store, "7");
        fill(&store, "8");
        ask(&store, &["SET plain stays"]);
        store.close().unwrap();
        let before = files(&path);
        let store = Store::open(&path, options.clone()).unwrap();
        erase(&store, "7");
        assert!(!is_full(&store, "7") && is_full(&store, "8"));
        store.close().unwrap();
        // The data of before, with the keys of subjects that are left.
        put_back(&before, ".sealed");
        let store = Store::open(&path, options.clone()).unwrap();
        assert!(!is_full(&store, "7") && is_full(&store, "8"));
        let keys = ask(&store, &["KEYS *"]);
        assert!(!keys.contains("user:7") && keys.contains("user:8") && keys.contains("plain"));
        fill(&store, "7");
        assert!(is_full(&store, "7") && is_full(&store, "8"));
        store.rewrite().unwrap();
        assert!(is_full(&store, "7") && is_full(&store, "8"));
        store.close().unwrap();
        // A whole older copy is another store, and opens until it is removed.
        for path in files(&path).keys() {
            fs::remove_file(path).unwrap();
        }
        put_back(&before, "");
        let store = Store::open(&path, options).unwrap();
        assert!(is_full(&store, "7") && is_full(&store, "8"));
    }
}

/// The key goes before the client is told, and a subject that comes back gets another.
#[test]
fn a_subjects_key_is_destroyed_before_the_erasure_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    fill(&store, "7");
    let slots = path.join("store.1.subjects");
    let before = fs::read(&slots).unwrap();
    ask(&store, &["DEL user:7:short"]);
    assert_eq!(fs::read(&slots).unwrap(), before, "others are left");
    ask(&store, &["SET user:7:short one"]);
    erase(&store, "7");
    let after = fs::read(&slots).unwrap();
    let changed: Vec<usize> = (0..after.len() / 128)
        .filter(|slot| before[slot * 128..][..128] != after[slot * 128..][..128])
        .collect();
    assert_eq!(changed, [1]);
    // A crash before the slot was overwritten: the next opening does it.
    let mut copy = files(&path);
    copy.insert(slots.clone(), before.clone());
    fill(&store, "7");
    store.close().unwrap();
    let end = fs::read(&slots).unwrap();
    assert_eq!(
        end[128..256],
        after[128..256],
        "the slot is nobody's any more"
    );
    put_back(&copy, "");
    let store = opened(&path);
    assert!(!is_full(&store, "7"));
    assert_ne!(fs::read(&slots).unwrap()[128..256], before[128..256]);
    ask(&store, &["SET user:7:short one", "FLUSHALL"]);
    store.close().unwrap();
    assert!(!is_full(&opened(&path), "7"));
}

/// The key of a subject that returned before the commit stayed, and opened what it had in older data.
#[test]
fn a_subject_that_returns_at_once_gets_another_key() {
    let first = "SET user:7:mail secret";
    let returns: [&[&str]; 4] = [
        &["DEL user:7:mail", "SET user:7:session new"],
        &["MULTI", "DEL user:7:mail", "SADD user:7:set new", "EXEC"],
        &["FLUSHALL", "SET user:7:session new"],
        &[
            "GETDEL user:7:mail",
            "SET user:7:mail new",
            "DEL user:7:mail",
            "SET user:7:mail new",
        ],
    ];
    for sync in [Sync::Always, Sync::EverySecond] {
        for lines in returns {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("data");
            let options = Options { sync, ..options() };
            let store = Store::open(&path, options.clone()).unwrap();
            ask(&store, &[first]);
            store.close().unwrap();
            let before = files(&path);
            let store = Store::open(&path, options.clone()).unwrap();
            ask(&store, lines);
            store.close().unwrap();
            put_back(&before, ".sealed");
            let store = Store::open(&path, options).unwrap();
            let left = ask(&store, &["GET user:7:mail"]);
            assert_eq!(left, "$-1\r\n", "{sync:?} {lines:?}");
        }
    }
}

/// A key that is merely gone is damage and no erasure.
#[test]
fn keys_of_subjects_that_are_missing_or_changed_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    for subject in ["7", "8"] {
        fill(&store, subject);
    }
    store.close().unwrap();
    let slots = path.join("store.1.subjects");
    let whole = fs::read(&slots).unwrap();
    let fails = |store: &Store| {
        let refused = ask(store, &["GET user:7:short"]);
        is_full(store, "8") && refused.contains("the key of subject 1 was changed or is gone")
    };
    for (at, bytes) in [(128, [0; 128]), (128, [7; 128])] {
        let mut changed = whole.clone();
        changed[at..at + 128].copy_from_slice(&bytes);
        fs::write(&slots, changed).unwrap();
        assert!(fails(&opened(&path)));
    }
    // The key of another slot is not taken for this one.
    let mut moved = whole.clone();
    moved.copy_within(256..384, 128);
    fs::write(&slots, moved).unwrap();
    assert!(fails(&opened(&path)));
    let is_refused = || {
        let refused = Store::open(&path, options()).unwrap_err();
        assert!(matches!(refused, OpenError::Subjects { .. }), "{refused:?}");
    };
    for cut in [&whole[..128], b""] {
        fs::write(&slots, cut).unwrap();
        is_refused();
    }
    fs::remove_file(&slots).unwrap();
    is_refused();
    fs::write(&slots, &whole).unwrap();
    assert!(is_full(&opened(&path), "7"));
}

/// Values go from one subject to another, and stay readable for as long as the one whose they are has keys.
#[test]
fn what_is_renamed_or_copied_is_sealed_for_its_new_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    fill(&store, "7");
    for kind in ["short", "long", "brief", "hash", "set", "zset", "list"] {
        let (from, to) = (format!("user:7:{kind}"), format!("user:8:{kind}"));
        assert_eq!(ask(&store, &[&format!("RENAME {from} {to}")]), "+OK\r\n");
        assert_eq!(
            ask(&store, &[&format!("COPY {to} user:9:{kind}")]),
            ":1\r\n"
        );
    }
    assert!(!is_full(&store, "7") && is_full(&store, "8") && is_full(&store, "9"));
    erase(&store, "8");
    assert!(!is_full(&store, "8") && is_full(&store, "9"));
    // The only key of a subject, under another name of the same subject and of nobody.
    let lines = [
        "RPUSH user:1:a x",
        "RENAME user:1:a user:1:b",
        "RENAME user:1:b nobody",
        "RPUSH nobody y",
        "RENAME nobody user:1:c",
        "SUNIONSTORE user:9:set user:9:set user:9:set",
        "SMOVE user:9:set user:2:set m1",
        "SMOVE user:2:set user:9:set m1",
        "LRANGE user:1:c 0 -1",
    ];
    assert!(ask(&store, &lines).ends_with("*2\r\n$1\r\nx\r\n$1\r\ny\r\n"));
    store.close().unwrap();
    let store = opened(&path);
    assert!(is_full(&store, "9"));
    assert_eq!(
        ask(&store, &["LLEN user:1:c", "EXISTS user:2:set"]),
        ":2\r\n:0\r\n"
    );
    // A later policy changes nothing about existing keys.
    store.close().unwrap();
    let store = Store::open(&path, Options::default()).unwrap();
    assert!(is_full(&store, "9"));
    store.rewrite().unwrap();
    assert!(is_full(&store, "9"));
    erase(&store, "9");
    assert!(!is_full(&store, "9"));
}

/// A store of version 2 knew no subjects: its values are sealed for them when it is opened.
#[test]
fn a_store_without_subjects_is_converted_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    let bytes = bytes_of(UNOWNED);
    fs::write(path.join("store.1.sealed"), &bytes).unwrap();
    fs::write(path.join("probity-store.toml"), UNOWNED_MARK).unwrap();
    fs::write(folder.path().join("data.key"), UNOWNED_KEY).unwrap();
    // A crash left half of the next file, and a mark that was not yet put in place.
    fs::write(path.join("store.2.sealed.new"), &bytes[..9000]).unwrap();
    fs::write(path.join("store.2.subjects.new"), b"half").unwrap();
    fs::write(path.join("probity-store.toml.new"), b"version = 5").unwrap();
    // Older programs gave it the name of data: it could be the store, and the mark an older one.
    let older = path.join("store.2.sealed");
    fs::write(&older, &bytes[..9000]).unwrap();
    let refused = Store::open(&path, options()).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { .. }));
    fs::rename(older, folder.path().join("aside")).unwrap();
    let store = opened(&path);
    let lines = [
        "DBSIZE",
        "GET user:7:marker-key",
        "HGETALL hash:marker",
        "ZRANGE zset:marker 0 -1 WITHSCORES",
        "EXPIRETIME user:8:kept",
        "GETRANGE text:marker 3184 3199",
        "SELECT 3",
        "GET third",
    ];
    let expected = ":7\r\n$12\r\nmarker-short\r\n*2\r\n$12\r\nmarker-field\r\n$12\r\nmarker-value\r\n*2\r\n\
        $13\r\nmarker-scored\r\n$3\r\n1.5\r\n:4102444800\r\n$16\r\nmarker-long-text\r\n+OK\r\n$12\r\nmarker-third\r\n";
    assert_eq!(ask(&store, &lines), expected);
    store.close().unwrap();
    let names: Vec<_> = files(&path).into_keys().collect();
    let names: Vec<_> = names.iter().map(|it| it.file_name().unwrap()).collect();
    assert_eq!(
        names,
        ["probity-store.toml", "store.2.sealed", "store.2.subjects"]
    );
    let before = files(&path);
    let store = opened(&path);
    assert_eq!(ask(&store, &["DEL user:7:marker-key"]), ":1\r\n");
    store.close().unwrap();
    put_back(&before, ".sealed");
    let store = opened(&path);
    assert_eq!(ask(&store, &["GET user:7:marker-key"]), "$-1\r\n");
    assert_eq!(ask(&store, &["EXISTS user:8:kept"]), ":1\r\n");
}

/// Keys are made ahead, and those that a stop left over were never used: each opening that met a new subject cost 32 KiB for good.
#[test]
fn keys_that_nobody_took_take_no_room_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for subject in 0..20 {
        let store = opened(&path);
        let set = format!("SET user:s{subject}:name x");
        assert_eq!(ask(&store, &[&set]), "+OK\r\n");
        store.close().unwrap();
        let keys = fs::metadata(path.join("store.1.subjects")).unwrap().len();
        assert_eq!(keys, (subject + 2) * 128);
    }
    let store = opened(&path);
    for subject in 0..20 {
        let get = format!("GET user:s{subject}:name");
        assert_eq!(ask(&store, &[&get]), "$1\r\nx\r\n");
    }
    store.close().unwrap();
}
