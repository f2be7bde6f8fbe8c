//! Damage costs what it holds: others are served, and a rewriting takes what is left.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and damages files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use probity_store::{Command, Commands, Loss, Options, Store, SubjectOf, Sync};

/// Lengths in the files, see docs/store-format.md.
const HEAD: usize = 4096;
const SEALED: usize = 16 + 8 + 16 + 4096;
const SLOT: usize = 128;

/// The subject of `user:S:...`, and of nothing else.
fn options(sync: Sync) -> Options {
    let subject_of = SubjectOf::new(|key| {
        let mut parts = key.split(|byte| *byte == b':');
        let (kind, subject) = (parts.next()?, parts.next()?);
        (kind == b"user").then(|| subject.to_vec())
    });
    Options {
        sync,
        subject_of,
        ..Options::default()
    }
}

fn opened(path: &Path) -> Store {
    Store::open(path, options(Sync::EverySecond)).unwrap()
}

/// The replies to commands of one client; none where the store failed.
fn try_ask(store: &Store, lines: &[&str]) -> Option<String> {
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
        let answer = receiver.recv().unwrap().ok()?;
        replies.extend_from_slice(&answer.bytes);
        (client, commands) = (answer.client, answer.rest);
    }
    Some(String::from_utf8(replies).unwrap())
}

fn ask(store: &Store, line: &str) -> String {
    try_ask(store, &[line]).unwrap()
}

/// A store with three people, of whom the second's key was changed.
fn damaged(path: &Path) {
    let store = opened(path);
    for person in 1..=3 {
        ask(&store, &format!("SET user:{person}:x v"));
        ask(&store, &format!("HSET user:{person}:h f v"));
    }
    ask(&store, "SET plain p");
    store.close().unwrap();
    let slots = path.join("store.1.subjects");
    let mut bytes = fs::read(&slots).unwrap();
    bytes[2 * SLOT + 30] ^= 1;
    fs::write(&slots, bytes).unwrap();
}

/// The keys of SCAN, from the first call to the last.
fn scanned(store: &Store) -> Vec<String> {
    let reply = ask(store, "SCAN 0 COUNT 1000");
    assert!(reply.starts_with("*2\r\n$1\r\n0\r\n"), "{reply}");
    let mut keys: Vec<String> = reply
        .split("\r\n")
        .filter(|word| word.contains(':') || *word == "plain")
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys
}

/// One damaged slot ended the store at each command that met it, also lists of others, and nothing
/// could remove what belonged to it. Commands that need it are refused, and all others are served.
#[test]
fn the_damaged_key_of_a_subject_costs_what_belongs_to_that_subject_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    damaged(&path);
    let store = opened(&path);
    for command in [
        "GET user:2:x",
        "EXISTS user:2:x",
        "TYPE user:2:h",
        "HGET user:2:h f",
        "SET user:2:x new",
        "SET user:2:other new",
        "MGET plain user:2:x",
        "MSET plain changed user:2:x new",
        "MSETNX fresh 1 user:2:other 1",
        "RENAME plain user:2:x",
        "COPY plain user:2:other",
        "RENAME user:2:x plain",
        "SUNIONSTORE user:2:union absent",
        "WATCH user:2:x",
    ] {
        let refused = ask(&store, command);
        let said = "-ERR the key of subject 2 was changed or is gone";
        assert!(refused.starts_with(said), "{command}: {refused}");
        assert!(refused.contains("with DEL"), "{command}: {refused}");
    }
    let lines = [
        "MULTI",
        "SET plain q",
        "GET user:2:x",
        "SET plain p",
        "EXEC",
    ];
    let replies = try_ask(&store, &lines).unwrap();
    assert!(replies.contains("*3\r\n+OK\r\n-ERR the key"), "{replies}");
    assert!(replies.ends_with("\r\n+OK\r\n"), "{replies}");
    assert_eq!(ask(&store, "GET plain"), "$1\r\np\r\n");
    let others = ["plain", "user:1:h", "user:1:x", "user:3:h", "user:3:x"];
    assert_eq!(scanned(&store), others);
    assert!(ask(&store, "KEYS *").starts_with("*5\r\n"));
    assert!(ask(&store, "RANDOMKEY").starts_with('$'));
    // Keys that lists pass over are counted.
    assert_eq!(ask(&store, "DBSIZE"), ":7\r\n");
    let told = ask(&store, "INFO stats");
    assert!(
        told.contains("damaged_subjects:1\r\nunreadable_keys:2\r\n"),
        "{told}"
    );
    assert_eq!(store.damaged_subjects(), [2]);
    assert!(!store.has_failed());
    store.close().unwrap();
    assert_eq!(scanned(&opened(&path)), others);
}

/// RANDOMKEY drew among the keys that are counted, and answered nil where it met a hundred that do not
/// open. It draws among those that open, few or many, and is nil where there are none.
#[test]
fn a_random_key_is_drawn_among_those_that_open() {
    for count in [200, 400] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        damaged(&path);
        let store = opened(&path);
        let names: Vec<String> = (0..count).map(|it| format!("user:1:n{it} v")).collect();
        assert_eq!(ask(&store, &format!("MSET {}", names.join(" "))), "+OK\r\n");
        assert_eq!(ask(&store, "DEL user:3:x user:3:h"), ":2\r\n");
        store.close().unwrap();
        let mut now = fs::read(path.join("store.1.subjects")).unwrap();
        now[SLOT + 30] ^= 1;
        fs::write(path.join("store.1.subjects"), &now).unwrap();
        let store = opened(&path);
        assert_eq!(ask(&store, "SET other o"), "+OK\r\n");
        let drawn: Vec<String> = (0..60).map(|_| ask(&store, "RANDOMKEY")).collect();
        for known in ["$5\r\nplain\r\n", "$5\r\nother\r\n"] {
            assert!(drawn.iter().any(|it| it == known), "{drawn:?}");
        }
        assert!(drawn.iter().all(|it| it.starts_with("$5")), "{drawn:?}");
        assert_eq!(ask(&store, "DEL plain other"), ":2\r\n");
        assert_eq!(ask(&store, "RANDOMKEY"), "$-1\r\n");
    }
}

/// Keys that had expired and were not yet swept made RANDOMKEY answer nil too.
#[test]
fn a_random_key_is_found_among_many_that_have_expired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    let mut lines = vec!["MULTI".to_owned()];
    lines.extend((0..3000).map(|it| format!("SET brief{it} v PX 1")));
    lines.extend(["SET stays v".to_owned(), "EXEC".to_owned()]);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    try_ask(&store, &lines).unwrap();
    for _ in 0..20 {
        assert_eq!(ask(&store, "RANDOMKEY"), "$5\r\nstays\r\n");
    }
}

/// Nothing removed what belonged to a damaged slot. DEL and FLUSHALL need no key, nor does the sweep
/// of what has expired, and the subject begins anew.
#[test]
fn what_does_not_open_is_removed_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    damaged(&path);
    let store = opened(&path);
    assert_eq!(ask(&store, "DEL user:2:x user:2:none plain"), ":2\r\n");
    assert!(ask(&store, "SET user:2:x new").starts_with("-ERR the key"));
    assert_eq!(ask(&store, "UNLINK user:2:h"), ":1\r\n");
    assert_eq!(ask(&store, "SET user:2:x new"), "+OK\r\n");
    store.close().unwrap();
    let store = opened(&path);
    assert_eq!(ask(&store, "GET user:2:x"), "$3\r\nnew\r\n");
    assert_eq!(ask(&store, "DBSIZE"), ":5\r\n");
    assert!(ask(&store, "INFO stats").contains("damaged_subjects:0\r\nunreadable_keys:0\r\n"));
    store.close().unwrap();
    for flush in ["FLUSHALL", "FLUSHDB"] {
        fs::remove_dir_all(&path).unwrap();
        fs::remove_file(folder.path().join("data.key")).unwrap();
        damaged(&path);
        let store = opened(&path);
        assert_eq!(ask(&store, flush), "+OK\r\n");
        assert_eq!(ask(&store, "SET user:2:x new"), "+OK\r\n");
        assert_eq!(ask(&store, "DBSIZE"), ":1\r\n");
        store.close().unwrap();
        assert_eq!(ask(&opened(&path), "GET user:2:x"), "$3\r\nnew\r\n");
    }
}

/// A key that does not open expired never, and the sweep that met it ended the store.
#[test]
fn what_does_not_open_expires() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    ask(&store, "SET user:1:x v");
    ask(&store, "SET user:2:brief v PX 700");
    ask(&store, "SET user:2:longer v EX 4000");
    store.close().unwrap();
    let slots = path.join("store.1.subjects");
    let mut bytes = fs::read(&slots).unwrap();
    bytes[2 * SLOT + 30] ^= 1;
    fs::write(&slots, bytes).unwrap();
    let store = opened(&path);
    let begun = Instant::now();
    while ask(&store, "DBSIZE") != ":2\r\n" {
        assert!(begun.elapsed() < Duration::from_mins(1), "it stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(ask(&store, "DEL user:2:brief user:2:longer"), ":1\r\n");
    assert!(ask(&store, "INFO keyspace").contains("keys=1,expires=0"));
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap();
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    entries.map(|it| read(it.unwrap().path())).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let paths = files(folder).into_keys();
    let named = paths.map(|it| it.file_name().unwrap().to_str().unwrap().to_owned());
    named.collect()
}

fn put_back(folder: &Path, files: &Files) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

/// Rewrites a damaged store, and returns its losses.
fn rewritten(path: &Path) -> Vec<Loss> {
    let mut losses = Vec::new();
    let options = options(Sync::Always);
    Store::rewrite_damaged(path, &options, &mut |loss| losses.push(loss)).unwrap();
    losses
}

/// A rewriting was refused for one damaged slot, so that all later data was lost with a backup put
/// back. It names what it leaves out, and everything else is there.
#[test]
fn a_rewriting_leaves_out_what_does_not_open_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    damaged(&path);
    let store = opened(&path);
    let refused = store.rewrite().unwrap_err().to_string();
    for part in ["store.1.subjects", "the key of subject 2"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(!refused.contains(".new"), "{refused}");
    let before = ["probity-store.toml", "store.1.sealed", "store.1.subjects"];
    assert_eq!(names(&path), before, "nothing is left of it");
    assert_eq!(ask(&store, "GET plain"), "$1\r\np\r\n");
    store.close().unwrap();
    let losses = rewritten(&path);
    let unnamed = Loss::Unnamed { db: 0, subject: 2 };
    assert_eq!(losses, [Loss::Subject(2), unnamed.clone(), unnamed]);
    let after = ["probity-store.toml", "store.2.sealed", "store.2.subjects"];
    assert_eq!(names(&path), after);
    let store = opened(&path);
    let others = ["plain", "user:1:h", "user:1:x", "user:3:h", "user:3:x"];
    assert_eq!(scanned(&store), others);
    assert_eq!(ask(&store, "DBSIZE"), ":5\r\n");
    assert_eq!(ask(&store, "GET user:2:x"), "$-1\r\n");
    assert_eq!(ask(&store, "HGET user:3:h f"), "$1\r\nv\r\n");
    assert_eq!(ask(&store, "SET user:2:x new"), "+OK\r\n");
    store.rewrite().unwrap();
    store.close().unwrap();
    assert_eq!(rewritten(&path), []);
    assert_eq!(ask(&opened(&path), "GET user:2:x"), "$3\r\nnew\r\n");
}

/// A file of keys that was cut, or that lacks the key for names of subjects, kept the store from
/// being opened and rewritten. What others have goes on, and people are found by their names again.
#[test]
fn a_rewriting_goes_past_a_cut_file_of_keys_and_a_lost_key_for_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    for person in 1..=3 {
        ask(&store, &format!("SET user:{person}:x v"));
    }
    store.close().unwrap();
    let slots = path.join("store.1.subjects");
    let mut bytes = fs::read(&slots).unwrap();
    bytes.truncate(3 * SLOT + 50);
    bytes[30] ^= 1;
    fs::write(&slots, bytes).unwrap();
    assert!(Store::open(&path, options(Sync::Always)).is_err());
    let unnamed = Loss::Unnamed { db: 0, subject: 3 };
    assert_eq!(rewritten(&path), [Loss::Names, Loss::Subject(3), unnamed]);
    let store = opened(&path);
    assert_eq!(scanned(&store), ["user:1:x", "user:2:x"]);
    let keys = fs::metadata(path.join("store.2.subjects")).unwrap().len();
    assert_eq!(keys, 3 * SLOT as u64);
    // Their later keys have the slots that they have already.
    assert_eq!(ask(&store, "MSET user:1:y v user:2:y v"), "+OK\r\n");
    assert_eq!(ask(&store, "DEL user:1:x user:1:y"), ":2\r\n");
    store.close().unwrap();
    let kept = fs::metadata(path.join("store.2.subjects")).unwrap().len();
    assert_eq!(kept, keys);
    assert_eq!(scanned(&opened(&path)), ["user:2:x", "user:2:y"]);
}

/// A kill while a damaged store is rewritten leaves that store and files that have no name in it.
#[test]
fn a_rewriting_that_is_killed_leaves_the_damaged_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    damaged(&path);
    let before = files(&path);
    let mut killed = Files::new();
    let mut losses = 0;
    Store::rewrite_damaged(&path, &options(Sync::Always), &mut |_loss| {
        losses += 1;
        killed = files(&path);
    })
    .unwrap();
    let between = path.join("store.0.sealed.new");
    assert!(losses == 3 && killed.contains_key(&between), "{losses}");
    for (name, bytes) in &before {
        assert_eq!(&killed[name], bytes, "{}", name.display());
    }
    put_back(&path, &killed);
    let others = ["plain", "user:1:h", "user:1:x", "user:3:h", "user:3:x"];
    assert_eq!(scanned(&opened(&path)), others);
    assert_eq!(
        files(&path).len(),
        before.len(),
        "the next opening removes them"
    );
    put_back(&path, &killed);
    assert_eq!(rewritten(&path).len(), 3);
    assert_eq!(files(&path).len(), before.len());
    assert_eq!(scanned(&opened(&path)), others);
}

/// Places of the blocks that are not zero.
fn blocks(file: &[u8]) -> Vec<usize> {
    let places = (HEAD..file.len()).step_by(SEALED);
    let written = places.filter(|at| file[*at..*at + SEALED].iter().any(|byte| *byte != 0));
    written.collect()
}

/// Fills a store; returns for each key a command that reads it, and the reply.
fn filled(path: &Path) -> BTreeMap<String, (String, String)> {
    let store = opened(path);
    let mut model = BTreeMap::new();
    for number in 0..60 {
        let key = format!("user:{}:s{number}", number % 7);
        let value = format!("{number:0>900}");
        ask(&store, &format!("SET {key} {value}"));
        let reply = format!("$900\r\n{value}\r\n");
        model.insert(key.clone(), (format!("GET {key}"), reply));
    }
    for number in 0..4 {
        let (hash, list, text) = (
            format!("user:{number}:hash"),
            format!("list{number}"),
            format!("user:{number}:text"),
        );
        let long = number.to_string().repeat(90_000);
        ask(&store, &format!("SET {text} {long}"));
        model.insert(
            text.clone(),
            (format!("GET {text}"), format!("$90000\r\n{long}\r\n")),
        );
        for field in 0..40 {
            ask(&store, &format!("HSET {hash} f{field} {field:0>200}"));
            ask(&store, &format!("RPUSH {list} {field:0>200}"));
        }
        model.insert(hash.clone(), (format!("HLEN {hash}"), ":40\r\n".to_owned()));
        model.insert(list.clone(), (format!("LLEN {list}"), ":40\r\n".to_owned()));
    }
    store.close().unwrap();
    model
}

/// Expects that each key is whole, or was told to be lost, in whole or in part.
fn nothing_is_missing_untold(
    store: &Store,
    model: &BTreeMap<String, (String, String)>,
    losses: &[Loss],
) {
    let (mut untold, mut told) = (0, 0);
    let mut lacking = BTreeMap::new();
    for loss in losses {
        match loss {
            Loss::Keys { db: 0, count } => told += count,
            Loss::Unnamed { db: 0, .. } => told += 1,
            Loss::Key { db: 0, name } => drop(lacking.insert(name.clone(), None)),
            Loss::Elements { db: 0, name, count } => {
                lacking.insert(name.clone(), Some(*count));
            }
            Loss::Block(_) | Loss::Subject(_) | Loss::Unknown => {}
            other => panic!("{other:?}"),
        }
    }
    for (key, (command, whole)) in model {
        let reply = ask(store, command);
        match lacking.remove(key.as_bytes()) {
            None if reply == *whole => {}
            None => {
                assert_eq!(ask(store, &format!("EXISTS {key}")), ":0\r\n", "{key}");
                untold += 1;
            }
            Some(None) => assert_eq!(ask(store, &format!("EXISTS {key}")), ":0\r\n", "{key}"),
            Some(Some(count)) => assert_eq!(reply, format!(":{}\r\n", 40 - count), "{key}"),
        }
    }
    assert!(lacking.is_empty(), "{lacking:?}");
    if !losses.contains(&Loss::Unknown) {
        assert_eq!(untold, told, "{losses:?}");
    }
    assert!(ask(store, "SET user:1:fresh v").starts_with("+OK"));
    assert_eq!(ask(store, "HSET user:2:fresh f v"), ":1\r\n");
}

/// One changed block of 4 KiB kept the whole store from being opened and rewritten. A rewriting
/// takes what lies in others, and tells what is missing.
#[test]
fn a_rewriting_takes_what_a_changed_block_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let model = filled(&path);
    let before = files(&path);
    let file = path.join("store.1.sealed");
    let whole = &before[&file];
    let (mut hurt, mut refused) = (0, 0);
    for at in blocks(whole).into_iter().step_by(3) {
        put_back(&path, &before);
        let mut changed = whole.clone();
        changed[at + 2000] ^= 1;
        fs::write(&file, &changed).unwrap();
        let mut losses = Vec::new();
        let options = options(Sync::Always);
        let done = Store::rewrite_damaged(&path, &options, &mut |loss| losses.push(loss));
        if let Err(error) = done {
            // Nobody knows then where anything is.
            let said = error.to_string();
            assert!(
                said.contains("the list of its tables does not open"),
                "{said}"
            );
            let left = files(&path);
            assert_eq!(left[&file], changed, "the store is as it was");
            assert_eq!(left.len(), before.len());
            refused += 1;
            continue;
        }
        hurt += usize::from(!losses.is_empty());
        nothing_is_missing_untold(&opened(&path), &model, &losses);
    }
    assert!(hurt > 20 && refused <= 3, "{hurt} {refused}");
}
