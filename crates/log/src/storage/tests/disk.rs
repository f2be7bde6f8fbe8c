//! On the disk: atomic replacement, locks between processes, planted files, full and closed disks.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::storage::directory::OpenFile;
use crate::storage::{Directory, File as _, SmallDisk, Storage as _, not_shown};

const READ_MAX: u64 = 1 << 20;

fn plant(path: &Path, content: &[u8]) {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    file.write_all(content).unwrap();
}

/// Everything in a folder, temporary files too.
fn raw_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn readers_see_the_old_or_the_new_content_and_never_a_mixture() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    storage.replace("head", &[0; 5_000]).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let content = storage.read("head", READ_MAX).unwrap();
                    let number = content[0];
                    let length = 5_000 + usize::from(number) * 131;
                    assert_eq!(content.len(), length);
                    assert!(content.iter().all(|byte| *byte == number));
                }
            });
        }
        for round in 1..=400_usize {
            let number = u8::try_from(round % 251).unwrap();
            let content = vec![number; 5_000 + usize::from(number) * 131];
            if round % 4 == 0 {
                storage.replace("head", &content).unwrap();
            } else {
                storage.place("head", &content).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(raw_names(folder.path()), ["head"]);
}

#[test]
fn files_of_keys_are_closed_to_the_group_and_nothing_is_open_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("log");
    let storage = Directory::new(&root);
    storage.replace("keys/a", b"secret").unwrap();
    storage.place("keys/deep/b", b"secret").unwrap();
    storage.open("subjects/slots", true).unwrap();
    storage
        .replace("streams/default/checkpoint", b"note")
        .unwrap();
    storage
        .open("streams/default/segments/1.seg", true)
        .unwrap();
    for name in ["keys/a", "keys/deep/b", "subjects/slots"] {
        assert_eq!(mode(&root.join(name)) & !0o600, 0, "{name}");
    }
    for name in [
        "streams/default/checkpoint",
        "streams/default/segments/1.seg",
    ] {
        assert_eq!(mode(&root.join(name)) & !0o640, 0, "{name}");
    }
    for name in ["", "keys", "streams/default/segments"] {
        assert_eq!(mode(&root.join(name)) & !0o750, 0, "{name}");
    }
}

#[test]
fn a_planted_link_redirects_neither_reads_nor_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("log"), folder.path().join("outside"));
    let storage = Directory::new(&root);
    storage.replace("streams/x", b"inside").unwrap();
    fs::create_dir(&outside).unwrap();
    plant(&outside.join("victim"), b"untouched");
    symlink(outside.join("victim"), root.join("link")).unwrap();
    symlink(outside.join("fresh"), root.join("dangling")).unwrap();
    symlink(&outside, root.join("folder")).unwrap();
    symlink("streams", root.join("within")).unwrap();

    for name in [
        "link",
        "dangling",
        "folder/victim",
        "folder/fresh",
        "within/x",
    ] {
        assert!(storage.open(name, true).is_err(), "{name}");
        assert!(storage.open(name, false).is_err(), "{name}");
        assert!(storage.open_read(name).is_err(), "{name}");
        assert!(storage.read(name, READ_MAX).is_err(), "{name}");
        assert!(storage.lock(name).is_err(), "{name}");
    }
    let refused = storage.open_read("link").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    for name in ["folder/victim", "folder/fresh", "within/x"] {
        assert!(storage.replace(name, b"new").is_err(), "{name}");
        assert!(storage.place(name, b"new").is_err(), "{name}");
        assert!(storage.remove(name).is_err(), "{name}");
    }
    assert!(storage.list("folder").is_err());
    assert!(storage.sync_folder("folder").is_err());
    // A replacement takes the place of the link and does not go through it.
    storage.replace("link", b"new").unwrap();
    storage.place("dangling", b"new").unwrap();
    assert_eq!(storage.read("link", READ_MAX).unwrap(), b"new");
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"untouched");
    assert_eq!(raw_names(&outside), ["victim"]);
    assert_eq!(storage.read("streams/x", READ_MAX).unwrap(), b"inside");
}

#[test]
fn pipes_devices_and_folders_in_the_place_of_a_file_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    for name in ["pipe", "socket", "folder"] {
        assert!(storage.open(name, true).is_err(), "{name}");
        assert!(storage.open_read(name).is_err(), "{name}");
        assert!(storage.read(name, READ_MAX).is_err(), "{name}");
        assert!(storage.lock(name).is_err(), "{name}");
    }
    let refused = storage.open_read("pipe").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData);
    assert!(storage.replace("folder", b"x").is_err());
    assert_eq!(raw_names(folder.path()), ["folder", "pipe", "socket"]);
}

#[test]
fn names_that_lead_out_of_the_root_are_refused_by_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("log");
    let storage = Directory::new(&root);
    storage.replace("x", b"x").unwrap();
    let absolute = folder.path().join("y").display().to_string();
    for name in [
        "../y",
        "a/../../y",
        &absolute,
        "/",
        "a//b",
        "./x",
        "x\0y",
        ".tmp-1-1",
    ] {
        let kinds = [
            storage.open(name, true).err(),
            storage.open_read(name).err(),
            storage.read(name, READ_MAX).err(),
            storage.replace(name, b"y").err(),
            storage.place(name, b"y").err(),
            storage.remove(name).err(),
            storage.list(name).err(),
            storage.sync_folder(name).err(),
            storage.lock(name).err(),
        ]
        .map(|error| error.map(|error| error.kind()));
        assert_eq!(kinds, [Some(ErrorKind::InvalidInput); 9], "{name:?}");
    }
    assert_eq!(raw_names(folder.path()), ["log"]);
    assert_eq!(raw_names(&root), ["x"]);
}

#[test]
fn leftovers_of_a_crash_are_not_listed_do_not_block_and_are_swept() {
    // A process that crashed while it replaced a file had the same process id as this one, as
    // happens at every start in a container. Its leftovers must not block a replacement.
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    storage
        .replace("streams/default/checkpoint", b"old")
        .unwrap();
    let deep = folder.path().join("streams/default");
    let fresh = Directory::new(folder.path());
    for number in 0..3 {
        plant(
            &deep.join(format!(".tmp-{}-{number}", std::process::id())),
            b"torn",
        );
    }
    fs::create_dir(deep.join(".tmp-1-2")).unwrap();
    fresh.replace("streams/default/checkpoint", b"new").unwrap();
    assert_eq!(fresh.list("streams/default").unwrap(), ["checkpoint"]);
    assert_eq!(raw_names(&deep).len(), 5);
    assert_eq!(fresh.sweep().unwrap(), 3);
    assert_eq!(fresh.sweep().unwrap(), 0);
    assert_eq!(raw_names(&deep), [".tmp-1-2", "checkpoint"]);
    assert_eq!(
        fresh.read("streams/default/checkpoint", READ_MAX).unwrap(),
        b"new"
    );
    let missing = Directory::new(&folder.path().join("missing"));
    assert_eq!(missing.sweep().unwrap(), 0);
}

/// Every opening removed whatever had a name that began as those of temporary files do, other
/// people's files too.
#[test]
fn a_name_that_only_begins_as_a_temporary_one_is_listed_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    let names = [
        ".tmp-",
        ".tmp-1",
        ".tmp-1-",
        ".tmp-1-x",
        ".tmp-notes",
        ".tmp-x-1",
    ];
    for name in names {
        plant(&folder.path().join(name), b"precious");
    }
    assert_eq!(storage.list("").unwrap(), names);
    assert_eq!(storage.sweep().unwrap(), 0);
    assert_eq!(storage.read(".tmp-notes", READ_MAX).unwrap(), b"precious");
}

#[test]
fn a_file_longer_than_allowed_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    storage.replace("x", &[1; 100]).unwrap();
    assert_eq!(storage.read("x", 100).unwrap().len(), 100);
    assert_eq!(
        storage.read("x", 99).unwrap_err().kind(),
        ErrorKind::InvalidData
    );
    // A length that exceeds memory costs an error, not the process.
    storage
        .open("huge", true)
        .unwrap()
        .set_length(1 << 43)
        .unwrap();
    assert_eq!(
        storage.read("huge", 99).unwrap_err().kind(),
        ErrorKind::InvalidData
    );
}

#[test]
fn a_root_is_created_with_the_folders_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/b/c");
    let storage = Directory::new(&root);
    assert_eq!(storage.list("").unwrap(), [] as [&str; 0]);
    assert_eq!(storage.list("x/y").unwrap(), [] as [&str; 0]);
    assert_eq!(
        storage.open("x", false).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(!root.exists(), "looking creates nothing");
    storage.replace("d/e/x", b"x").unwrap();
    assert_eq!(storage.read("d/e/x", 1).unwrap(), b"x");
    storage.sync_folder("d/e").unwrap();
    storage.sync_folder("").unwrap();
    assert_eq!(
        storage.sync_folder("none").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn many_threads_may_create_the_same_folders_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let storage = Directory::new(&folder.path().join(round.to_string()));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let storage = &storage;
                scope.spawn(move || {
                    storage.replace(&format!("a/b/c/{thread}"), b"x").unwrap();
                    storage.place("a/b/c/same", b"x").unwrap();
                });
            }
        });
        assert_eq!(storage.list("a/b/c").unwrap().len(), 9);
    }
}

/// A shell that tries to lock `path` and reports the result; it holds the lock until it is stopped
/// or killed.
fn other_process(path: &Path) -> (Child, String) {
    let script = r#"exec 9<>"$0"; flock -n 9 && echo held || echo refused; read -r _ || true"#;
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    (child, line.trim().to_owned())
}

#[test]
fn a_lock_excludes_other_processes_until_it_is_dropped_or_they_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    let path = folder.path().join("lock");
    let held = storage.lock("lock").unwrap().unwrap();
    assert!(
        storage.lock("lock").unwrap().is_none(),
        "nor the same process twice"
    );
    let pid = storage.read("lock", 32).unwrap();
    assert_eq!(pid, format!("{}\n", std::process::id()).into_bytes());
    let (mut child, said) = other_process(&path);
    assert_eq!(said, "refused");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(held);

    let (mut child, said) = other_process(&path);
    assert_eq!(said, "held");
    assert!(storage.lock("lock").unwrap().is_none());
    assert_eq!(
        storage.read("lock", 32).unwrap(),
        pid,
        "the loser writes nothing"
    );
    // As kill -9 does.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(storage.lock("lock").unwrap().is_some());
}

#[test]
fn the_kernel_saying_that_the_device_is_full_is_passed_on_as_such() {
    let file = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let file = OpenFile { file };
    let error = file.write_at(b"x", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(!crate::storage::is_transient(&error));
}

#[test]
fn a_full_disk_is_an_error_that_leaves_what_was_there_and_no_leftovers() {
    let Some(disk) = SmallDisk::mounted("a full disk", 64 << 10) else {
        return;
    };
    let storage = Directory::new(disk.path());
    storage.replace("head", &[1; 1000]).unwrap();
    let segment = storage.open("segments/0", true).unwrap();
    let mut written: u64 = 0;
    let full = loop {
        match segment.write_at(&[2; 1000], written) {
            Ok(()) => written += 1000,
            Err(error) => break error,
        }
        assert!(written < 1 << 20, "the disk takes more than it has");
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    for result in [
        storage.replace("head", &[3; 9000]),
        storage.place("head", &[3; 9000]),
        storage.replace("fresh/file", &[3; 9000]),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    assert_eq!(storage.read("head", READ_MAX).unwrap(), [1; 1000]);
    assert_eq!(raw_names(disk.path()), ["fresh", "head", "segments"]);
    assert_eq!(storage.list("fresh").unwrap(), [] as [&str; 0]);
    let mut kept = vec![0; usize::try_from(written).unwrap()];
    segment.read_at(&mut kept, 0).unwrap();
    assert!(kept.iter().all(|byte| *byte == 2));
    // The lock needs no space, and once there is some again everything works.
    assert!(storage.lock("head").unwrap().is_some());
    segment.set_length(1000).unwrap();
    segment.sync().unwrap();
    storage.replace("head", &[4; 9000]).unwrap();
    assert_eq!(storage.read("head", READ_MAX).unwrap(), [4; 9000]);
}

#[test]
fn a_read_only_disk_is_read_and_refuses_every_change() {
    let Some(mut disk) = SmallDisk::mounted("a read-only disk", 64 << 10) else {
        return;
    };
    let storage = Directory::new(disk.path());
    storage.replace("streams/head", b"note").unwrap();
    disk.remount("ro").unwrap();
    assert_eq!(storage.read("streams/head", READ_MAX).unwrap(), b"note");
    assert_eq!(
        storage.open_read("streams/head").unwrap().length().unwrap(),
        4
    );
    assert_eq!(storage.list("streams").unwrap(), ["head"]);
    assert_eq!(storage.sweep().unwrap(), 0);
    let kinds = [
        storage.open("streams/head", false).err(),
        storage.open("streams/fresh", true).err(),
        storage.replace("streams/head", b"x").err(),
        storage.place("fresh/x", b"x").err(),
        storage.remove("streams/head").err(),
        storage.lock("lock").err(),
    ]
    .map(|error| error.map(|error| error.kind()));
    assert_eq!(kinds, [Some(ErrorKind::ReadOnlyFilesystem); 6]);
}

#[test]
fn lost_write_permission_is_an_error_that_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Directory::new(folder.path());
    storage.replace("head", b"note").unwrap();
    let change = |program: &str, mode: &str| {
        let status = Command::new(program).arg(mode).arg(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    // Modes do not bind the superuser; the immutable mark does, where the file system has it.
    let is_root = rustix::process::geteuid().is_root();
    let (program, closed, opened) = if is_root {
        ("chattr", "+i", "-i")
    } else {
        ("chmod", "0500", "0700")
    };
    if !change(program, closed) {
        not_shown(
            "lost write permission",
            &format!("{program} {closed} does not work here"),
        );
        return;
    }
    let kinds = [
        storage.replace("head", b"x").err(),
        storage.place("fresh", b"x").err(),
        storage.open("fresh", true).err(),
        storage.remove("head").err(),
        storage.lock("lock").err(),
    ]
    .map(|error| error.map(|error| error.kind()));
    let names = storage.list("");
    let content = storage.read("head", READ_MAX);
    assert!(change(program, opened), "the folder can be removed again");
    assert_eq!(kinds, [Some(ErrorKind::PermissionDenied); 5]);
    assert_eq!(names.unwrap(), ["head"]);
    assert_eq!(content.unwrap(), b"note");
}
