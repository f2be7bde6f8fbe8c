//! Ends of the thread and what is durable at them.
#![expect(clippy::disallowed_methods, reason = "a test damages files")]

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use super::*;
use crate::commands::{Command, Commands};
use crate::directory::tests::ask;
use crate::store::Store;
use crate::subject::SubjectOf;

/// Sends, when it is dropped, whether the directory is still locked. The keys of subjects hold
/// it, and the directory itself holds those right before its lock.
struct Probe(PathBuf, Sender<bool>);

impl Drop for Probe {
    fn drop(&mut self) {
        let directory = File::open(&self.0).unwrap();
        let is_locked = matches!(directory.try_lock(), Err(TryLockError::WouldBlock));
        self.1.send(is_locked).unwrap();
    }
}

/// More than the blocks hold that an opening reads.
const KEYS: u64 = 200;

fn probed(path: &Path) -> (Store, Receiver<bool>) {
    let (sender, receiver) = channel();
    let probe = Probe(path.to_owned(), sender);
    let subject_of = SubjectOf::new(move |key| {
        let _held = &probe;
        Some(key.to_vec())
    });
    let options = Options {
        subject_of,
        // An answer from memory shows no damage.
        cache_bytes: 0,
        ..Options::default()
    };
    (Store::open(path, options).unwrap(), receiver)
}

/// A stopping store cut off unused keys of subjects after its lock had gone, and with them a
/// key that the next process had just given out. Everything that uses a file goes before the
/// lock.
#[test]
fn the_lock_goes_after_everything_that_uses_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (store, was_locked) = probed(&path);
    let keys: Vec<String> = (0..KEYS).map(|number| format!("key {number}")).collect();
    for key in &keys {
        ask(&store, &[b"SET", key.as_bytes(), &[b'v'; 1024]]);
    }
    store.close().unwrap();
    assert!(was_locked.recv().unwrap(), "a store that is closed");
    // Those that were not taken are given up all the same.
    let slots = path.join("store.1.subjects");
    assert_eq!(fs::metadata(&slots).unwrap().len(), (1 + KEYS) * 128);
    let (store, was_locked) = probed(&path);
    // No block that is read from now on opens. A file that is cut off first looks like one of another form, and is
    // written anew.
    let data = File::options()
        .write(true)
        .open(path.join("store.1.sealed"));
    let data = data.unwrap();
    let length = data.metadata().unwrap().len() - 4096;
    let damage = vec![1; usize::try_from(length).unwrap()];
    data.write_all_at(&damage, 4096).unwrap();
    let fails = |key: &String| {
        let (mut commands, mut command) = (Commands::default(), Command::default());
        command.push(b"GET");
        command.push(key.as_bytes());
        commands.push(command);
        let (sender, answered) = channel();
        store.ask(store.client(), commands, move |answer| {
            sender.send(answer.is_ok()).unwrap();
        });
        !answered.recv().unwrap()
    };
    assert!(keys.iter().any(fails));
    store.close().unwrap_err();
    assert!(was_locked.recv().unwrap(), "a store that has failed");
}

/// Damage that a wiping had met was dropped by a rewriting, which overwrote the damaged file.
#[test]
fn a_rewriting_tells_of_damage_that_a_wiping_met_and_keeps_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let options = Options::default();
    let opened = crate::directory::open(&path, &options).unwrap();
    let (_sender, receiver) = channel();
    let mut engine = Engine::new(opened, options, (receiver, Arc::default())).unwrap();
    let file = path.join("store.1.sealed");
    let before = fs::read(&file).unwrap();
    engine.wiping = Wiping::under_way(|| Err(io::Error::other("block 7 was changed")));
    let refused = engine.rewrite().unwrap_err();
    assert!(refused.cause.contains("block 7 was changed"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), before);
    for kind in [io::ErrorKind::StorageFull, FORM_UNKNOWN] {
        engine.wiping = Wiping::under_way(move || Err(kind.into()));
        engine.rewrite().unwrap();
    }
    assert!(!file.exists());
}

/// A command that met a damaged block before the wiping had cost what was answered in the same
/// second. Until all blocks were read once, changes are durable before they are answered.
#[test]
fn answers_before_all_blocks_were_read_are_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let options = Options {
        sync: Sync::EverySecond,
        ..Options::default()
    };
    let opened = crate::directory::open(&path, &options).unwrap();
    let (sender, receiver) = channel();
    let requests = (receiver, Arc::default());
    let mut engine = Engine::new(opened, options.clone(), requests).unwrap();
    let (release, waiting) = channel::<()>();
    engine.wiping = Wiping::under_way(move || waiting.recv().map_err(io::Error::other));
    let thread = std::thread::spawn(move || engine.run());
    let (mut commands, mut command) = (Commands::default(), Command::default());
    for word in [&b"SET"[..], b"a", b"1"] {
        command.push(word);
    }
    commands.push(command);
    let (told, answered) = channel();
    let request = Request {
        client: crate::client::Client::default(),
        commands,
        answer: Answering::new(Box::new(move |answer| told.send(answer.is_ok()).unwrap())),
    };
    sender.send(Message::Request(Box::new(request))).unwrap();
    assert!(answered.recv().unwrap());
    // As a kill leaves it.
    fs::create_dir(&copy).unwrap();
    for name in ["probity-store.toml", "store.1.sealed", "store.1.subjects"] {
        fs::copy(path.join(name), copy.join(name)).unwrap();
    }
    fs::copy(
        folder.path().join("data.key"),
        folder.path().join("copy.key"),
    )
    .unwrap();
    release.send(()).unwrap();
    sender.send(Message::Close).unwrap();
    thread.join().unwrap().unwrap();
    let store = Store::open(&copy, options).unwrap();
    assert_eq!(ask(&store, &[b"GET", b"a"]), b"$1\r\n1\r\n");
}

/// A store that had failed did not wait for the thread that wipes free blocks, and that thread
/// overwrote blocks of the next process. The thread ends before the lock goes.
#[test]
fn no_wiping_outlives_the_one_who_began_it() {
    let (sender, receiver) = channel();
    let wiping = Wiping::under_way(move || {
        std::thread::sleep(Duration::from_millis(50));
        sender.send(()).unwrap();
        Ok(())
    });
    drop(wiping);
    receiver.try_recv().unwrap();
}
