//! Files of a store that were cut, changed or are of another time: nothing stored is missing unseen, and nobody gets a
//! key of somebody else.

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

use probity_store::{Command, Commands, OpenError, Options, Store, SubjectOf, Sync};

use crate::runs::bytes_of;

/// Lengths in the files, see docs/store-format.md.
const HEAD: usize = 4096;
const SEALED: usize = 16 + 8 + 16 + 4096;
const SLOT: usize = 128;
/// The place of the state in redb's header, and two of its bits.
const STATE: usize = 9;
const NOT_CLOSED: u8 = 2;
const TWO_PHASES: u8 = 4;
/// A store of version 4, with its keys of subjects, its mark and its key.
const UNCOUNTED: &[u8] = include_bytes!("../../testdata/uncounted-store.runs");
const UNCOUNTED_SLOTS: &[u8] = include_bytes!("../../testdata/uncounted-store.subjects.runs");
const UNCOUNTED_MARK: &[u8] = include_bytes!("../../testdata/uncounted-store.toml");
const UNCOUNTED_KEY: &[u8] = include_bytes!("../../testdata/uncounted-store.key");

/// The names behind the kind, joined by line feeds; nobody for keys without any.
fn options(sync: Sync) -> Options {
    let subject_of = SubjectOf::new(|key| {
        let mut parts = key.split(|byte| *byte == b':');
        parts.next();
        let names: Vec<&[u8]> = parts.collect();
        (!names.is_empty()).then(|| names.join(&b'\n'))
    });
    Options {
        sync,
        subject_of,
        ..Options::default()
    }
}

fn opened(path: &Path) -> Store {
    Store::open(path, options(Sync::Always)).unwrap()
}

/// The reply to a command; none where the store failed.
fn asked(store: &Store, words: &[&str]) -> Option<String> {
    let (mut commands, mut command) = (Commands::default(), Command::default());
    for word in words {
        command.push(word.as_bytes());
    }
    commands.push(command);
    let (sender, receiver) = channel();
    store.ask(store.client(), commands, move |answer| {
        drop(sender.send(answer));
    });
    let answer = receiver.recv().unwrap().ok()?;
    Some(String::from_utf8(answer.bytes).unwrap())
}

fn ask(store: &Store, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    asked(store, &words).unwrap()
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).unwrap();
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    entries.map(|it| read(it.unwrap().path())).collect()
}

fn put_back(folder: &Path, files: &Files) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

fn is_refused(path: &Path, text: &str) {
    let refused = Store::open(path, options(Sync::Always)).unwrap_err();
    let OpenError::Subjects { source, .. } = &refused else {
        panic!("{refused:?}");
    };
    let said = format!("{refused}: {source}");
    assert!(
        said.contains(text) && said.contains("of one time"),
        "{said}"
    );
}

/// The number of the next free key came from the length of a file that nothing authenticates: two people got one key.
#[test]
fn a_file_of_keys_that_was_cut_or_is_older_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let slots = path.join("store.1.subjects");
    let store = opened(&path);
    ask(&store, "SET user:anna 1");
    store.close().unwrap();
    let older = fs::read(&slots).unwrap();
    let store = opened(&path);
    ask(&store, "SET user:bert 1");
    ask(&store, "SET user:carl 1");
    ask(&store, "DEL user:carl");
    store.close().unwrap();
    let whole = fs::read(&slots).unwrap();
    assert_eq!((older.len(), whole.len()), (2 * SLOT, 4 * SLOT));
    for bytes in [
        &older,
        &whole[..SLOT],
        &whole[..3 * SLOT],
        &whole[..4 * SLOT - 1],
    ] {
        fs::write(&slots, bytes).unwrap();
        is_refused(&path, "was cut, or is an older copy");
    }
    fs::write(&slots, &whole).unwrap();
    let store = opened(&path);
    assert_eq!(ask(&store, "GET user:bert"), "$1\r\n1\r\n");
}

/// Keys are made ahead, and a number is given to another key once a stop gave it back: a copy from before, as long or
/// longer, holds a key of nobody under the number of a subject.
#[test]
fn a_key_of_another_time_is_not_taken_for_that_of_a_subject() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let slots = path.join("store.1.subjects");
    let store = opened(&path);
    ask(&store, "SET user:anna 1");
    let older = fs::read(&slots).unwrap();
    assert!(older.len() > 100 * SLOT);
    store.close().unwrap();
    let store = opened(&path);
    ask(&store, "SET user:bert 1");
    store.close().unwrap();
    fs::write(&slots, &older).unwrap();
    let store = opened(&path);
    for command in ["GET user:bert", "SET user:bert 2", "SET chat:bert 2"] {
        let refused = ask(&store, command);
        assert!(refused.contains("is of another time"), "{refused}");
    }
    assert_eq!(ask(&store, "GET user:anna"), "$1\r\n1\r\n");
    // Given up, the key is nobody's, and the subject gets another.
    assert_eq!(ask(&store, "DEL user:bert"), ":1\r\n");
    assert_eq!(ask(&store, "SET chat:bert 2"), "+OK\r\n");
    store.close().unwrap();
    let store = opened(&path);
    assert_eq!(ask(&store, "GET chat:bert"), "$1\r\n2\r\n");
    assert_eq!(ask(&store, "GET user:anna"), "$1\r\n1\r\n");
}

/// Places of the blocks that are not zero.
fn blocks(file: &[u8]) -> Vec<usize> {
    let places = (HEAD..file.len()).step_by(SEALED);
    let written = places.filter(|at| file[*at..*at + SEALED].iter().any(|byte| *byte != 0));
    written.collect()
}

/// Opens a store whose blocks were changed one after the other, whatever the state in the header; how often it was refused.
fn nothing_is_missing(path: &Path, before: &Files, state: impl Fn(u8) -> u8) -> usize {
    let file = path.join("store.1.sealed");
    let whole = &before[&file];
    let mut refused = 0;
    for at in blocks(whole) {
        put_back(path, before);
        let mut changed = whole.clone();
        changed[at + 200] ^= 1;
        changed[STATE] = state(changed[STATE]);
        fs::write(&file, &changed).unwrap();
        let Ok(store) = Store::open(path, options(Sync::Always)) else {
            refused += 1;
            continue;
        };
        for key in ["cfg0", "cfg1", "cfg2"] {
            match asked(&store, &["GET", key]) {
                Some(reply) => assert_eq!(reply, "$5\r\nvalue\r\n", "block at {at}"),
                None => refused += 1,
            }
        }
    }
    refused
}

/// A changed block of the last write that was answered was taken for one that a power cut had torn, and the write was
/// gone without a word.
#[test]
fn no_changed_block_takes_back_what_was_answered() {
    for sync in [Sync::Always, Sync::EverySecond] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let store = Store::open(&path, options(sync)).unwrap();
        for key in ["cfg0", "cfg1", "cfg2"] {
            ask(&store, &format!("SET {key} value"));
        }
        if sync == Sync::EverySecond {
            // After a second it is on the disk; later beside other work.
            std::thread::sleep(std::time::Duration::from_secs(5));
        }
        let killed = files(&path);
        store.close().unwrap();
        let stopped = files(&path);
        let torn = |state: u8| (state | NOT_CLOSED) & !TWO_PHASES;
        assert!(nothing_is_missing(&path, &killed, |state| state) > 0);
        assert!(nothing_is_missing(&path, &killed, torn) > 0);
        assert!(nothing_is_missing(&path, &stopped, |state| state) > 0);
        assert!(nothing_is_missing(&path, &stopped, torn) > 0);
    }
}

/// A store of version 4, whose data did not say which keys had been given out, is converted whole.
#[test]
fn a_store_that_did_not_count_its_keys_is_converted_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("store.1.sealed"), bytes_of(UNCOUNTED)).unwrap();
    fs::write(path.join("store.1.subjects"), bytes_of(UNCOUNTED_SLOTS)).unwrap();
    fs::write(path.join("probity-store.toml"), UNCOUNTED_MARK).unwrap();
    fs::write(folder.path().join("data.key"), UNCOUNTED_KEY).unwrap();
    for _ in 0..2 {
        let store = opened(&path);
        assert_eq!(store.unopened_blocks(), 0);
        let get = |key| asked(&store, &["GET", key]).unwrap();
        assert_eq!(get("user:anna"), "$3\r\none\r\n");
        assert_eq!(get("chat:anna:bert"), "$3\r\ntwo\r\n");
        assert_eq!(get("user:anna\nbert"), "$5\r\nthree\r\n");
        assert_eq!(get("plain"), "$1\r\np\r\n");
        assert_eq!(ask(&store, "HGET user:carl f"), "$1\r\nv\r\n");
        assert_eq!(ask(&store, "DBSIZE"), ":5\r\n");
        store.close().unwrap();
    }
    let slots = fs::read(path.join("store.2.subjects")).unwrap();
    fs::write(path.join("store.2.subjects"), &slots[..2 * SLOT]).unwrap();
    is_refused(&path, "was cut, or is an older copy");
}
