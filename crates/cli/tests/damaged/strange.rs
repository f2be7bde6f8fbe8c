//! Something else in the place of a file of the log: a folder, a link, a pipe or a socket.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Place;

/// Puts something in the place of a file, which is gone by then, and its name.
type Plant = (&'static str, fn(&Path));

const PLANTS: [Plant; 4] = [
    ("a folder", |file| fs::create_dir(file).unwrap()),
    ("a link", |file| {
        std::os::unix::fs::symlink("/dev/zero", file).unwrap();
    }),
    ("a pipe", |file| {
        assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
    }),
    ("a socket", |file| {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("s");
        drop(UnixListener::bind(&socket).unwrap());
        fs::rename(&socket, file).unwrap();
    }),
];

/// Returns the files of the log, without those of older tiles and some that come and go.
fn files(log: &Path) -> Vec<String> {
    let mut names: Vec<String> = [
        "durable",
        "keys/master.key",
        "keys/signing.key",
        "keys/signing.next",
        "lock",
        "repairs",
        "subjects",
        "keys",
        "streams",
    ]
    .map(str::to_owned)
    .to_vec();
    for stream in ["journal", "default"] {
        let folder = format!("streams/{stream}");
        for name in [
            "checkpoint",
            "log.vkey",
            "segments/00000000000000000000.seg",
            "segments",
            "tile",
        ] {
            names.push(format!("{folder}/{name}"));
        }
        for tile in ["tile/0/000.p", "tile/entries/000.p"] {
            let newest: PathBuf = crate::last_in(&log.join(&folder).join(tile));
            let newest = newest.strip_prefix(log).unwrap().display().to_string();
            names.push(newest);
        }
    }
    names
}

fn plant(log: &Path, name: &str, plant: fn(&Path)) {
    let file = log.join(name);
    if file.is_dir() {
        fs::remove_dir_all(&file).unwrap();
    } else if file.exists() {
        fs::remove_file(&file).unwrap();
    }
    plant(&file);
}

/// M6 and L6: what is no file was an error of the system with status 1, or nothing at all.
#[test]
fn what_is_no_file_is_damage_to_every_command_and_hangs_none() {
    let place = Place::new();
    fs::write(place.path("none"), b"").unwrap();
    for name in files(&place.path("audit")) {
        for (what, make) in PLANTS {
            // A folder in the place of one that is empty or was not there is none of this.
            let is_folder = ["segments", "tile", "keys", "streams", "subjects"];
            let is_folder = is_folder.iter().any(|folder| name.ends_with(folder));
            if is_folder && what == "a folder" {
                continue;
            }
            place.changed(
                |log| plant(log, &name, make),
                |place| {
                    place.run(&["verify", "audit"], 3, "");
                    place.run(&["verify", "audit", "--key", "audit.key"], 3, "");
                    for command in [
                        &["export", "audit", "--format", "jsonl"][..],
                        &["keys", "status", "audit"],
                        &["stream", "list", "audit"],
                        &["append", "audit", "none"],
                    ] {
                        let output = place.program(command, "");
                        let code = output.status.code();
                        let error = String::from_utf8_lossy(&output.stderr);
                        assert!(
                            code == Some(3) || code == Some(0),
                            "{name} is {what}, {command:?}: {error}"
                        );
                    }
                },
            );
        }
    }
}

/// M6: an empty file of a key was a wrong key.
#[test]
fn an_empty_key_file_is_damaged_and_no_wrong_key() {
    let place = Place::new();
    fs::write(place.path("none"), b"").unwrap();
    for name in ["keys/master.key", "keys/signing.key"] {
        place.changed(
            |log| fs::write(log.join(name), b"").unwrap(),
            |place| {
                let (_, error) = place.run(&["append", "audit", "none"], 3, "");
                assert!(error.contains(name) && error.contains("0 bytes"), "{error}");
            },
        );
    }
}

/// L4: a folder of second copies that was named and was not there was nothing to compare with, and the status was 0.
#[test]
fn second_copies_that_are_named_and_not_there_are_no_success() {
    let place = Place::new();
    let verify = |heads| ["verify", "audit", "--heads", heads];
    place.run(&verify("audit.heads"), 0, "");
    fs::create_dir(place.path("empty")).unwrap();
    for heads in ["nowhere", "empty"] {
        let (_, error) = place.run(&verify(heads), 1, "");
        assert!(error.contains("no second copy"), "{error}");
    }
}

/// A folder, a link or a pipe under the name of a later segment stopped every writer, which advised to see the fault with `verify`. That found none.
#[test]
fn what_is_no_file_in_the_place_of_a_later_segment_is_named_and_stops_nobody() {
    let place = Place::new();
    let name = "streams/default/segments/00000000000000000099.seg";
    for (what, make) in PLANTS {
        place.changed(
            |log| plant(log, name, make),
            |place| {
                let (found, _) = place.run(&["verify", "audit"], 3, "");
                assert!(
                    found.contains("[unknown]") || found.contains("unknown"),
                    "{found}"
                );
                assert!(found.contains(name), "{what}: {found}");
                place.run(&["append", "audit"], 0, "{\"action\":\"read\"}\n");
                place.run(&["export", "audit", "--format", "jsonl"], 0, "");
            },
        );
    }
}

/// L5: every command but `verify` passed over the folder of a stream that the journal never
/// created. It became part of the stream once somebody created that.
#[test]
fn a_stream_that_the_journal_never_created_is_named_and_never_taken_over() {
    let place = Place::new();
    let ghost = |log: &Path| {
        let segments = log.join("streams/ghost/segments");
        fs::create_dir_all(&segments).unwrap();
        fs::write(segments.join("00000000000000000000.seg"), [7; 3000]).unwrap();
    };
    place.changed(ghost, |place| {
        place.run(&["verify", "audit"], 3, "");
        for command in [
            &["export", "audit", "--format", "jsonl"][..],
            &["stream", "list", "audit"],
        ] {
            let (_, error) = place.run(command, 0, "");
            assert!(error.contains("warning: streams/ghost "), "{error}");
        }
        let (_, error) = place.run(&["stream", "create", "audit", "ghost"], 3, "");
        assert!(error.contains("the journal never created"), "{error}");
    });
    place.run(&["stream", "create", "audit", "ghost"], 0, "");
}
