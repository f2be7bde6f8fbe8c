//! A backup of hard links beside a store that is converted or rewritten, and killed meanwhile.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use probity_store::{Command, Commands, OpenError, Options, Store, SubjectOf};

use crate::runs::bytes_of;

const MARK: &str = "probity-store.toml";
/// Most steps of one conversion or rewriting that are told apart.
const STEPS_MAX: usize = 60;
/// The folder of the store that a child process opens.
const CHILD_FOLDER: &str = "PROBITY_TEST_STORE";

/// The files of a store of an older version, from runs of bytes that are not zero.
struct Older {
    files: &'static [(&'static str, &'static [u8])],
    mark: &'static [u8],
    key: Option<&'static [u8]>,
}

const OLDER: [Older; 3] = [
    Older {
        files: &[(
            "store.redb",
            include_bytes!("../../testdata/unsealed-store.runs"),
        )],
        mark: b"version = 1\n",
        key: None,
    },
    Older {
        files: &[(
            "store.1.sealed",
            include_bytes!("../../testdata/unowned-store.runs"),
        )],
        mark: include_bytes!("../../testdata/unowned-store.toml"),
        key: Some(include_bytes!("../../testdata/unowned-store.key")),
    },
    Older {
        files: &[
            (
                "store.1.sealed",
                include_bytes!("../../testdata/unbound-store.runs"),
            ),
            (
                "store.1.subjects",
                include_bytes!("../../testdata/unbound-store.subjects.runs"),
            ),
        ],
        mark: include_bytes!("../../testdata/unbound-store.toml"),
        key: Some(include_bytes!("../../testdata/unbound-store.key")),
    },
];

impl Older {
    /// Puts the store into `folder/data`; returns that path.
    fn put(&self, folder: &Path) -> PathBuf {
        let path = folder.join("data");
        fs::create_dir(&path).unwrap();
        for (name, runs) in self.files {
            fs::write(path.join(name), bytes_of(runs)).unwrap();
        }
        fs::write(path.join(MARK), self.mark).unwrap();
        if let Some(key) = self.key {
            fs::write(folder.join("data.key"), key).unwrap();
        }
        path
    }
}

/// Opens a store. A process that another test begins at the moment of a close has the lock until
/// its program runs.
fn opened(path: &Path) -> Store {
    let begun = Instant::now();
    loop {
        match Store::open(path, Options::default()) {
            Err(OpenError::InUse(_)) if begun.elapsed().as_secs() < 60 => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
}

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

/// Expects the content of the test data.
fn assert_whole(store: &Store) {
    assert_eq!(ask(store, "DBSIZE"), ":7\r\n");
    let short = ask(store, "GET user:7:marker-key");
    assert_eq!(short, "$12\r\nmarker-short\r\n");
    let list = ask(store, "LRANGE list:marker 0 -1");
    assert_eq!(list, "*2\r\n$11\r\nmarker-item\r\n$5\r\nother\r\n");
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|it| it.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths
        .map(|path| (name(&path), fs::read(&path).unwrap()))
        .collect()
}

/// Makes a backup of hard links in `to`; returns its bytes.
fn link_all(from: &Path, to: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::create_dir(to).unwrap();
    for name in files(from).into_keys() {
        fs::hard_link(from.join(&name), to.join(&name)).unwrap();
    }
    files(to)
}

/// Opens, converts and rewrites a store, until the test that started it kills it.
#[test]
#[ignore = "the tests that kill it start it"]
fn store_until_killed() {
    let Some(path) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    let options = Options {
        // Each key is asked about while it is copied: more states are seen of a slow copy.
        subject_of: SubjectOf::new(|_| {
            std::thread::sleep(Duration::from_millis(2));
            None
        }),
        ..Options::default()
    };
    let store = Store::open(Path::new(&path), options).unwrap();
    // With a backup of hard links it is refused.
    let _refused = store.rewrite();
    store.close().unwrap();
}

/// Names and lengths, which each step changes.
fn state(path: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(path).unwrap();
    let length = |entry: &fs::DirEntry| entry.metadata().map_or(0, |it| it.len());
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), length(&entry)))
        .collect();
    found.sort();
    found
}

/// Lets a child process work on the store at `path`, and kills it at the change number `step` of the
/// folder; returns whether it came to that.
fn kill_at(path: &Path, step: usize) -> bool {
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "backups::store_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(CHILD_FOLDER, path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut before, mut changes, begun) = (state(path), 0, Instant::now());
    loop {
        let now = state(path);
        if now != before {
            changes += 1;
            before = now;
        }
        if changes == step {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success());
            return false;
        }
        assert!(begun.elapsed().as_secs() < 60, "the child hangs");
    }
}

/// An administrator keeps a backup of hard links (`cp -l`) beside a store of an older version. Its
/// conversion, killed at any step, neither overwrites nor changes the backup, and says what it left.
#[test]
fn a_conversion_that_is_killed_changes_no_backup_of_hard_links() {
    for older in &OLDER {
        let mut most = 0;
        for step in 1..=STEPS_MAX {
            let folder = tempfile::tempdir().unwrap();
            let path = older.put(folder.path());
            let backup = folder.path().join("backup");
            let before = link_all(&path, &backup);
            let was_killed = kill_at(&path, step);
            assert!(files(&backup) == before, "changed at step {step}");
            let store = opened(&path);
            assert_whole(&store);
            store.close().unwrap();
            assert!(files(&backup) == before, "changed after step {step}");
            assert_eq!(files(&path).len(), 3, "step {step}");
            if !was_killed {
                break;
            }
            most = step;
        }
        assert!(most >= 2, "only {most} steps were told apart");
    }
}

/// A conversion removed the name of an old file with another hard link, and nothing said that its
/// content stays. The opening names each such file, and no other.
#[test]
fn an_opening_names_the_files_whose_content_stays_under_another_name() {
    for older in &OLDER {
        for is_linked in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let path = older.put(folder.path());
            let mut expected: Vec<_> = files(&path).into_keys().map(|it| path.join(it)).collect();
            if is_linked {
                link_all(&path, &folder.path().join("backup"));
            } else {
                expected.clear();
            }
            let store = opened(&path);
            let mut named = store.kept_elsewhere().to_vec();
            named.sort();
            assert_eq!(named, expected);
            assert_whole(&store);
            store.rewrite().unwrap();
            store.close().unwrap();
            assert!(opened(&path).kept_elsewhere().is_empty(), "named once");
        }
    }
}

/// A rewriting can be killed at any step, and an administrator links what it left (`cp -l`) before
/// the next start. The old files in that backup keep their bytes, and the opening names them.
#[test]
fn a_rewriting_that_is_killed_before_a_backup_of_hard_links_costs_neither() {
    let (mut most, mut named_at) = (0, 0);
    for step in 1..=STEPS_MAX {
        let folder = tempfile::tempdir().unwrap();
        let path = OLDER[2].put(folder.path());
        opened(&path).close().unwrap();
        let was_killed = kill_at(&path, step);
        let backup = folder.path().join("backup");
        let before = link_all(&path, &backup);
        let store = opened(&path);
        assert_whole(&store);
        let refused = store.rewrite().unwrap_err().to_string();
        assert!(refused.contains("has another name"), "{refused}");
        let named = store.kept_elsewhere().to_vec();
        store.close().unwrap();
        let after = files(&backup);
        for (name, bytes) in &before {
            // A half-made file may have got its own name.
            let own = name.trim_end_matches(".new");
            if path.join(own).exists() {
                continue;
            }
            assert!(after[name] == *bytes, "{name} at step {step}");
            assert!(named.contains(&path.join(name)), "{name} at step {step}");
            named_at += 1;
        }
        assert_eq!(files(&path).len(), 3, "step {step}");
        if !was_killed {
            break;
        }
        most = step;
    }
    assert!(most >= 2 && named_at > 0, "{most} steps, {named_at} files");
}
