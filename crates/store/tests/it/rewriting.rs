//! A rewriting leaves nothing of the files before it, under no name, or says that it did not happen.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and gives files other names"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use probity_store::{Command, Commands, Options, Store, SubjectOf};

/// The files of a store's first generation, and the mark that names them.
const NAMES: [&str; 3] = ["probity-store.toml", "store.1.sealed", "store.1.subjects"];

fn ask(store: &Store, line: &str) -> String {
    let (mut commands, mut command) = (Commands::default(), Command::default());
    line.split(' ')
        .for_each(|word| command.push(word.as_bytes()));
    commands.push(command);
    let (sender, receiver) = channel();
    store.ask(store.client(), commands, move |answer| {
        drop(sender.send(answer));
    });
    let answer = receiver.recv().unwrap().unwrap();
    String::from_utf8(answer.bytes).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Of files that had another hard link, and of a mark that was a link or had one, a rewriting removed the name alone, for they are
/// not overwritten, and said that nothing of what was removed was left. It is refused before anything is done, and names the file.
#[test]
fn a_rewriting_that_would_leave_a_file_under_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let store = Store::open(&path, Options::default()).unwrap();
    assert_eq!(ask(&store, "SET a 1"), "+OK\r\n");
    let other = folder.path().join("other");
    for name in NAMES {
        let own = path.join(name);
        let refused = |names_left: &[&str]| {
            let refused = store.rewrite().unwrap_err().to_string();
            let said = format!("{name} is gone, is a link or has another name");
            assert!(refused.contains(&said), "{refused}");
            assert_eq!(names(&path), names_left, "nothing was begun");
        };
        fs::hard_link(&own, &other).unwrap();
        refused(&NAMES);
        // Moved away, and a link in its place.
        fs::remove_file(&own).unwrap();
        let left: Vec<_> = NAMES.into_iter().filter(|it| *it != name).collect();
        refused(&left);
        symlink(&other, &own).unwrap();
        refused(&NAMES);
        fs::rename(&other, &own).unwrap();
    }
    store.rewrite().unwrap();
    assert_eq!(ask(&store, "DBSIZE"), ":1\r\n");
}

/// Links that were made while a rewriting copied kept the old data and its key, and it was said that nothing was left. What a
/// rewriting overwrites it has open from before it on, whatever names it has by then.
#[test]
fn a_link_that_is_made_during_a_rewriting_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("data"), folder.path().join("other"));
    fs::create_dir(&other).unwrap();
    let is_copying = Arc::new(AtomicBool::new(false));
    let (armed, from, to) = (Arc::clone(&is_copying), path.clone(), other.clone());
    let options = Options {
        // The function is called while rows are copied.
        subject_of: SubjectOf::new(move |key| {
            if armed.swap(false, Ordering::SeqCst) {
                for name in NAMES {
                    fs::hard_link(from.join(name), to.join(name)).unwrap();
                }
                // Nor does another file under the name of an old one change anything.
                fs::remove_file(from.join("store.1.sealed")).unwrap();
                fs::write(from.join("store.1.sealed"), "another").unwrap();
            }
            key.strip_prefix(b"user:").map(<[u8]>::to_vec)
        }),
        ..Options::default()
    };
    let store = Store::open(&path, options).unwrap();
    assert_eq!(ask(&store, "SET user:7 1"), "+OK\r\n");
    assert_eq!(ask(&store, "SET a 1"), "+OK\r\n");
    is_copying.store(true, Ordering::SeqCst);
    store.rewrite().unwrap();
    assert!(!is_copying.load(Ordering::SeqCst));
    for name in NAMES {
        let left = fs::read(other.join(name)).unwrap();
        assert!(
            !left.is_empty() && left.iter().all(|byte| *byte == 0),
            "{name}"
        );
    }
    let after = ["probity-store.toml", "store.2.sealed", "store.2.subjects"];
    assert_eq!(names(&path), after);
    assert_eq!(ask(&store, "DBSIZE"), ":2\r\n");
}
