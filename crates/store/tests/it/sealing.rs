//! Data on the disk is sealed under a key that lies elsewhere, even if an older program had left it
//! in clear.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and damages files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use probity_store::{Command, Commands, OpenError, Options, Store, Unanswered};

use crate::runs::bytes_of;

/// Part of everything that a person could be known by.
const MARKER: &[u8] = b"marker";
/// Lengths in the file, see docs/store.md.
const HEAD: usize = 4096;
const SEALED: usize = 16 + 8 + 16 + 4096;
/// The file of an older program, in clear: runs of bytes that are not zero, each behind its place
/// and length.
const UNSEALED: &[u8] = include_bytes!("../../testdata/unsealed-store.runs");
const UNSEALED_MARK: &str =
    "# A store of probity; see docs/store.md. Written once, when it was created.\nversion = 1\n";

fn opened(path: &Path) -> Store {
    Store::open(path, Options::default()).unwrap()
}

fn ask(store: &Store, lines: &[&str]) -> String {
    asked(store, lines).unwrap()
}

fn asked(store: &Store, lines: &[&str]) -> Result<String, Unanswered> {
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
        let answer = receiver.recv().unwrap()?;
        replies.extend_from_slice(&answer.bytes);
        (client, commands) = (answer.client, answer.rest);
    }
    Ok(String::from_utf8(replies).unwrap())
}

fn fill(store: &Store) {
    let long = format!("SET text:marker {}", "marker-long-text".repeat(200));
    let lines = [
        "SET user:7:marker-key marker-short",
        "HSET hash:marker marker-field marker-value",
        "SADD set:marker marker-member",
        "ZADD zset:marker 1.5 marker-scored",
        "RPUSH list:marker marker-item other",
        "SET user:8:kept until EXAT 4102444800",
        "SELECT 3",
        "SET third marker-third",
        "SELECT 0",
        &long,
    ];
    assert!(!ask(store, &lines).contains('-'));
}

/// Expects everything that [`fill`] stores, and nothing else.
fn is_full(store: &Store) {
    let lines = [
        "DBSIZE",
        "GET user:7:marker-key",
        "HGETALL hash:marker",
        "SMEMBERS set:marker",
        "ZRANGE zset:marker 0 -1 WITHSCORES",
        "LRANGE list:marker 0 -1",
        "EXPIRETIME user:8:kept",
        "STRLEN text:marker",
        "GETRANGE text:marker 3184 3199",
        "SELECT 3",
        "GET third",
    ];
    let expected = ":7\r\n$12\r\nmarker-short\r\n*2\r\n$12\r\nmarker-field\r\n$12\r\nmarker-value\r\n*1\r\n$13\r\n\
        marker-member\r\n*2\r\n$13\r\nmarker-scored\r\n$3\r\n1.5\r\n*2\r\n$11\r\nmarker-item\r\n$5\r\nother\r\n\
        :4102444800\r\n:3200\r\n$16\r\nmarker-long-text\r\n+OK\r\n$12\r\nmarker-third\r\n";
    assert_eq!(ask(store, &lines), expected);
}

/// The files below a folder, the key beside the store among them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

fn is_anywhere(folder: &Path, words: &[u8]) -> bool {
    let holds = |path: &PathBuf| {
        fs::read(path)
            .unwrap()
            .windows(words.len())
            .any(|it| it == words)
    };
    files(folder).iter().any(holds)
}

fn data_file(store: &Path) -> PathBuf {
    let mut all = files(store).into_iter();
    all.find(|path| path.extension().is_some_and(|it| it == "sealed"))
        .unwrap()
}

/// The store of an older program, without its key.
fn unsealed(path: &Path) {
    let bytes = bytes_of(UNSEALED);
    fs::create_dir(path).unwrap();
    fs::write(path.join("store.redb"), bytes).unwrap();
    fs::write(path.join("probity-store.toml"), UNSEALED_MARK).unwrap();
}

/// S19: values lay on the disk in clear beside an encrypted log.
#[test]
fn nothing_that_is_stored_can_be_read_from_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    fill(&store);
    store.rewrite().unwrap();
    is_full(&store);
    assert!(!is_anywhere(folder.path(), MARKER));
    store.close().unwrap();
    assert!(!is_anywhere(folder.path(), MARKER));
    is_full(&opened(&path));
    assert!(!is_anywhere(folder.path(), b"user:8"));
    assert!(is_anywhere(folder.path(), b"redb"));
}

/// An older program left people's data in clear: it is converted when it is opened, whole, once, and nothing of the old
/// file is left.
#[test]
fn a_store_in_clear_is_converted_and_its_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    unsealed(&path);
    assert!(is_anywhere(folder.path(), MARKER));
    let store = opened(&path);
    is_full(&store);
    store.close().unwrap();
    assert!(!is_anywhere(folder.path(), MARKER));
    let names: Vec<_> = files(folder.path())
        .iter()
        .map(|it| {
            it.strip_prefix(folder.path())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(
        names,
        [
            "data/probity-store.toml",
            "data/store.1.sealed",
            "data/store.1.subjects",
            "data.key"
        ]
    );
    is_full(&opened(&path));
}

fn put(folder: &Path, all: &[(&str, Option<&Vec<u8>>)]) {
    for (name, bytes) in all {
        if let Some(bytes) = bytes {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
}

/// Whatever a crash leaves of the conversion or of a rewriting, everything stored is there, and the next opening tidies up.
#[test]
fn a_conversion_that_was_cut_off_is_begun_again_or_finished() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    unsealed(&whole);
    let clear = fs::read(whole.join("store.redb")).unwrap();
    opened(&whole).close().unwrap();
    let mark = fs::read(whole.join("probity-store.toml")).unwrap();
    let sealed = fs::read(whole.join("store.1.sealed")).unwrap();
    let key = fs::read(folder.path().join("whole.key")).unwrap();
    let subjects = fs::read(whole.join("store.1.subjects")).unwrap();
    let half = sealed[..sealed.len() / 2].to_vec();
    let old = UNSEALED_MARK.as_bytes().to_vec();
    let wiped = vec![0; clear.len()];
    // The mark and the half-written next one; the file in clear; the names of the sealed file, of the keys of subjects and of
    // the store's key, and what is in the first; one of a later rewriting.
    let before = [".new"; 3];
    let states = [
        (&old, None, Some(&clear), before, Some(&half), None),
        (&old, Some(&half), Some(&clear), before, Some(&sealed), None),
        (&old, Some(&mark), Some(&clear), before, Some(&sealed), None),
        (&mark, None, Some(&clear), before, Some(&sealed), None),
        (
            &mark,
            None,
            Some(&clear),
            ["", ".new", ".new"],
            Some(&sealed),
            None,
        ),
        (
            &mark,
            None,
            Some(&clear),
            ["", "", ".new"],
            Some(&sealed),
            None,
        ),
        (&mark, None, Some(&wiped), [""; 3], Some(&sealed), None),
        (
            &mark,
            Some(&half),
            None,
            [""; 3],
            Some(&sealed),
            Some(&half),
        ),
    ];
    for (number, (mark, next, clear, endings, sealed, later)) in states.into_iter().enumerate() {
        let path = folder.path().join(format!("s{number}"));
        fs::create_dir(&path).unwrap();
        let [data, slots, root] = endings;
        fs::write(folder.path().join(format!("s{number}.key{root}")), &key).unwrap();
        let (data, slots) = (
            format!("store.1.sealed{data}"),
            format!("store.1.subjects{slots}"),
        );
        let all = [
            ("probity-store.toml", Some(mark)),
            ("probity-store.toml.new", next),
            ("store.redb", clear),
            (data.as_str(), sealed),
            (slots.as_str(), sealed.map(|_| &subjects)),
            ("store.2.sealed.new", later),
            ("store.2.subjects.new", later),
        ];
        put(&path, &all);
        let store = opened(&path);
        is_full(&store);
        store.close().unwrap();
        assert!(!is_anywhere(&path, MARKER), "{number}");
        assert_eq!(files(&path).len(), 3, "{number}");
        is_full(&opened(&path));
    }
}

/// One that an older program had begun, and no more, never held anything.
#[test]
fn a_store_that_was_begun_and_no_more_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begun");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("probity-store.toml"), b"# begun\nversion = 3\n").unwrap();
    assert_eq!(ask(&opened(&path), &["DBSIZE"]), ":0\r\n");
}

#[test]
fn without_its_key_a_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    fill(&store);
    store.close().unwrap();
    let key = folder.path().join("data.key");
    let before: Vec<_> = files(&path)
        .iter()
        .map(|it| fs::read(it).unwrap())
        .collect();
    let other = folder.path().join("other");
    opened(&other).close().unwrap();
    let elsewhere = folder.path().join("elsewhere.key");
    fs::rename(&key, &elsewhere).unwrap();
    let refused = |path: &Path| Store::open(path, Options::default()).unwrap_err();
    assert!(matches!(refused(&path), OpenError::NoKey { .. }));
    assert!(!key.exists());
    fs::copy(folder.path().join("other.key"), &key).unwrap();
    assert!(matches!(refused(&path), OpenError::WrongKey(_)));
    fs::write(&key, "probity-root-key-v1 nonsense\n").unwrap();
    assert!(matches!(refused(&path), OpenError::WrongKey(_)));
    let after: Vec<_> = files(&path)
        .iter()
        .map(|it| fs::read(it).unwrap())
        .collect();
    assert!(before == after);
    let options = Options {
        key_file: Some(elsewhere),
        ..Options::default()
    };
    is_full(&Store::open(&path, options).unwrap());
}

/// Changes one block after the other of a store and opens it each time; how often that was refused.
fn every_block_changed(path: &Path) -> usize {
    let file = data_file(path);
    let before: Vec<_> = files(path)
        .into_iter()
        .map(|it| (fs::read(&it).unwrap(), it))
        .collect();
    let whole = fs::read(&file).unwrap();
    let written = (HEAD..whole.len()).step_by(SEALED);
    let written = written.filter(|at| whole[*at..at + SEALED].iter().any(|byte| *byte != 0));
    let mut refused = 0;
    for at in written {
        for (bytes, name) in &before {
            fs::write(name, bytes).unwrap();
        }
        let mut changed = whole.clone();
        changed[at + 100] ^= 1;
        fs::write(&file, &changed).unwrap();
        let Ok(store) = Store::open(path, Options::default()) else {
            refused += 1;
            continue;
        };
        let lines = ["GET user:7:marker-key", "LRANGE list:marker 0 -1"];
        match asked(&store, &lines) {
            Ok(replies) => assert_eq!(
                replies,
                "$12\r\nmarker-short\r\n*2\r\n$11\r\nmarker-item\r\n$5\r\nother\r\n"
            ),
            Err(_unanswered) => refused += 1,
        }
    }
    refused
}

#[test]
fn a_changed_block_is_never_taken_for_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = opened(&path);
    fill(&store);
    store.close().unwrap();
    assert!(every_block_changed(&path) > 0);
}

/// A power cut leaves pages of a commit torn that was not yet named: they cost nothing but that commit.
#[test]
fn a_block_that_was_torn_costs_no_more_than_the_commit_that_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let store = opened(&path);
    fill(&store);
    assert_eq!(ask(&store, &["SET last one"]), "+OK\r\n");
    let before = fs::read(data_file(&path)).unwrap();
    assert_eq!(ask(&store, &["SET last two"]), "+OK\r\n");
    // As a power cut would find it: not closed.
    fs::create_dir(&copy).unwrap();
    for file in files(&path) {
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    fs::copy(
        folder.path().join("data.key"),
        folder.path().join("copy.key"),
    )
    .unwrap();
    let whole = fs::read(data_file(&copy)).unwrap();
    assert_eq!(before.len(), whole.len());
    let mut all = before.clone();
    let mut torn = 0;
    for at in (HEAD..whole.len()).step_by(SEALED) {
        let written = &whole[at..at + SEALED];
        if written == &before[at..at + SEALED] || written.iter().all(|byte| *byte == 0) {
            continue;
        }
        torn += 1;
        let mut one = before.clone();
        for bytes in [&mut one, &mut all] {
            bytes[at..at + SEALED / 2].copy_from_slice(&written[..SEALED / 2]);
            bytes[at + SEALED / 2..at + SEALED].fill(0);
            fs::write(data_file(&copy), &bytes).unwrap();
            let store = opened(&copy);
            assert_eq!(ask(&store, &["GET last"]), "$3\r\none\r\n");
            ask(&store, &["DEL last"]);
            is_full(&store);
        }
    }
    assert!(torn > 0);
    fs::write(data_file(&copy), whole).unwrap();
    every_block_changed(&copy);
}

/// S14 has the same fault in the pocket database: a copy that was put back and written to under the same key and counter
/// gave both plaintexts.
#[test]
fn copies_that_go_on_apart_never_use_a_key_and_counter_twice() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two", "three"].map(|name| folder.path().join(name));
    let store = opened(&paths[0]);
    fill(&store);
    store.close().unwrap();
    for path in &paths[1..] {
        fs::create_dir(path).unwrap();
        for file in files(&paths[0]) {
            fs::copy(&file, path.join(file.file_name().unwrap())).unwrap();
        }
        let name = format!("{}.key", path.file_name().unwrap().to_str().unwrap());
        fs::copy(folder.path().join("one.key"), folder.path().join(name)).unwrap();
    }
    let mut seen = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    let mut blocks = 0;
    for (number, path) in paths.iter().enumerate() {
        let store = opened(path);
        let line = format!(
            "SET another {}",
            format!("secret-{number} ").trim().repeat(300)
        );
        ask(&store, &[&line]);
        store.close().unwrap();
        let bytes = fs::read(data_file(path)).unwrap();
        for block in bytes[HEAD..].chunks_exact(SEALED) {
            if block.iter().all(|byte| *byte == 0) {
                continue;
            }
            blocks += 1;
            let (nonce, sealed) = block.split_at(24);
            let before = seen.insert(nonce.to_vec(), sealed.to_vec());
            assert!(before.is_none_or(|before| before == sealed));
        }
    }
    assert!(
        blocks > seen.len() && seen.len() > 10,
        "{blocks} {}",
        seen.len()
    );
}
