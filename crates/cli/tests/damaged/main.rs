//! Every command that reads entries, over every kind of damage that it meets: none ends as if there were no more.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and attacks reach around the storage"
)]

mod geometry;
mod keyed;
mod keys;
mod loss;
mod strange;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use tempfile::TempDir;

/// A change that somebody makes to the log in a folder.
struct Damage {
    name: &'static str,
    /// True if every entry can still be read.
    spares_entries: bool,
    make: fn(&Path),
}

fn flip(file: PathBuf, place: fn(usize) -> usize) {
    let mut bytes = fs::read(&file).unwrap();
    let place = place(bytes.len());
    bytes[place] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn segment(log: &Path) -> PathBuf {
    log.join("streams/default/segments/00000000000000000000.seg")
}

fn journal(log: &Path) -> PathBuf {
    log.join("streams/journal/segments/00000000000000000000.seg")
}

/// Returns the only file in a folder of partial tiles.
fn last_in(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let width = |file: &PathBuf| -> u32 {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.parse().unwrap()
    };
    files.max_by_key(width).unwrap()
}

const DAMAGES: [Damage; 14] = [
    Damage {
        name: "a frame flipped",
        spares_entries: false,
        make: |log| flip(segment(log), |length| length / 2),
    },
    Damage {
        name: "the last frame flipped",
        spares_entries: false,
        make: |log| flip(segment(log), |length| length - 40),
    },
    Damage {
        name: "a header flipped",
        spares_entries: true,
        make: |log| flip(segment(log), |_| 20),
    },
    Damage {
        name: "a segment removed",
        spares_entries: false,
        make: |log| fs::remove_file(segment(log)).unwrap(),
    },
    Damage {
        name: "a segment emptied",
        spares_entries: false,
        make: |log| fs::write(segment(log), b"").unwrap(),
    },
    Damage {
        name: "a segment cut",
        spares_entries: false,
        make: |log| {
            let bytes = fs::read(segment(log)).unwrap();
            fs::write(segment(log), &bytes[..bytes.len() - 100]).unwrap();
        },
    },
    Damage {
        name: "a bundle flipped",
        spares_entries: true,
        make: |log| {
            let bundle = last_in(&log.join("streams/default/tile/entries/000.p"));
            flip(bundle, |length| length / 2);
        },
    },
    Damage {
        name: "a tile flipped",
        spares_entries: true,
        make: |log| flip(last_in(&log.join("streams/default/tile/0/000.p")), |_| 3),
    },
    Damage {
        name: "a checkpoint gone",
        spares_entries: true,
        make: |log| fs::remove_file(log.join("streams/default/checkpoint")).unwrap(),
    },
    Damage {
        name: "a checkpoint flipped",
        spares_entries: true,
        make: |log| flip(log.join("streams/default/checkpoint"), |length| length - 10),
    },
    Damage {
        name: "a stream gone, and its head",
        spares_entries: false,
        make: |log| {
            fs::remove_dir_all(log.join("streams/default")).unwrap();
            fs::remove_file(log.with_file_name("audit.heads").join("default")).unwrap();
        },
    },
    Damage {
        name: "the journal flipped",
        spares_entries: true,
        make: |log| flip(journal(log), |length| length - 40),
    },
    Damage {
        name: "the journal's header flipped",
        spares_entries: true,
        make: |log| flip(journal(log), |_| 20),
    },
    Damage {
        name: "the journal gone",
        spares_entries: false,
        make: |log| fs::remove_dir_all(log.join("streams/journal")).unwrap(),
    },
];

/// A folder with a log of three sessions, an application's database, and a copy of both.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        place.run(&["init", "audit"], 0, "");
        for number in 0..3 {
            let line = |entry: u32| {
                format!(
                    "{{\"action\":\"read\",\"key\":\"user:{number}:{entry}\",\"subject\":\"alice\"}}\n"
                )
            };
            place.run(
                &["append", "audit"],
                0,
                &(0..40).map(line).collect::<String>(),
            );
        }
        let mut database = Sqlite::open(&place.path("app.db")).unwrap();
        let sql = "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)";
        database.execute(sql, &[]).unwrap();
        database
            .execute("INSERT INTO people VALUES (19, 'Bea')", &[])
            .unwrap();
        place.run(
            &[
                "disguise",
                "register",
                "--user",
                "19",
                "--credential-out",
                "19.key",
            ],
            0,
            "",
        );
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, args: &[&str], input: &str) -> Output {
        let database = format!("sqlite:{}", self.path("app.db").display());
        let stdin = self.path("input");
        fs::write(&stdin, input).unwrap();
        Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .env_remove("PROBITY_HEADS")
            .env("PROBITY_DB", database)
            .stdin(Stdio::from(fs::File::open(stdin).unwrap()))
            .output()
            .unwrap()
    }

    /// Returns standard output and standard error of a command that ends with `status`.
    fn run(&self, args: &[&str], status: i32, input: &str) -> (String, String) {
        let output = self.program(args, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{args:?}: {out}{error}");
        (out, error)
    }

    /// Does `make` to the log, then `look`, then puts the log back.
    fn changed(&self, make: impl FnOnce(&Path), look: impl FnOnce(&Self)) {
        for name in ["audit", "audit.heads"] {
            copy(&self.path(name), &self.path(&format!("{name}.kept")));
        }
        make(&self.path("audit"));
        look(self);
        for name in ["audit", "audit.heads"] {
            drop(fs::remove_dir_all(self.path(name)));
            fs::rename(self.path(&format!("{name}.kept")), self.path(name)).unwrap();
        }
    }

    /// Returns [`Place::changed`] with one of the listed damages.
    fn damaged(&self, damage: &Damage, look: impl FnOnce(&Self)) {
        self.changed(damage.make, look);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let inside = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &inside);
        } else {
            fs::copy(entry.path(), inside).unwrap();
        }
    }
}

/// UX 1: `export` of a damaged log wrote what came before the damage, or nothing, and ended with 0.
#[test]
fn an_export_of_a_damaged_log_ends_with_3_and_says_what_is_missing() {
    let place = Place::new();
    let export = ["export", "audit", "--format", "jsonl"];
    let (whole, _) = place.run(&export, 0, "");
    assert_eq!(whole.lines().count(), 120);
    for damage in &DAMAGES {
        place.damaged(damage, |place| {
            let (out, error) = place.run(&export, 3, "");
            assert_eq!(out, "", "{}", damage.name);
            assert!(error.contains("--damaged-too"), "{}: {error}", damage.name);
            let file = [&export[..], &["-o", "out.jsonl"]].concat();
            place.run(&file, 3, "");
            assert!(!place.path("out.jsonl").exists(), "{}", damage.name);
            let (rest, error) = place.run(&[&export[..], &["--damaged-too"]].concat(), 3, "");
            assert!(
                error.contains("the log is damaged"),
                "{}: {error}",
                damage.name
            );
            if damage.spares_entries {
                assert_eq!(rest, whole, "{}: {error}", damage.name);
            } else {
                assert!(rest.lines().count() < 120, "{}", damage.name);
                assert!(error.contains(" missing"), "{}: {error}", damage.name);
            }
        });
    }
    place.run(&export, 0, "");
}

/// UX 1: a person's copy was made out of what was left of a damaged log, and ended with 0. One that was asked for had no mark of what is
/// missing, so that whoever got it took it for all that is held.
#[test]
fn a_persons_copy_of_a_damaged_log_is_made_only_when_asked_for() {
    let place = Place::new();
    for damage in &DAMAGES {
        place.damaged(damage, |place| {
            for command in [
                &["subject", "export", "audit", "alice", "--pocket", "hers"][..],
                &[
                    "pocket",
                    "create",
                    "hers",
                    "--log",
                    "audit",
                    "--subject",
                    "alice",
                ],
            ] {
                let (_, error) = place.run(command, 3, "");
                assert!(error.contains("--damaged-too"), "{}: {error}", damage.name);
                assert!(!place.path("hers").exists(), "{}", damage.name);
                let asked = [command, &["--damaged-too"]].concat();
                let (_, error) = place.run(&asked, 3, "");
                assert!(
                    error.contains("the log is damaged"),
                    "{}: {error}",
                    damage.name
                );
                let count = [
                    "pocket",
                    "query",
                    "hers",
                    "SELECT id FROM entries",
                    "--format",
                    "csv",
                ];
                let (rows, _) = place.run(&count, 0, "");
                let is_whole = rows.lines().count() == 121;
                assert_eq!(is_whole, damage.spares_entries, "{}", damage.name);
                let marks = "SELECT name, value FROM about WHERE name >= 'f' AND name <= 'missing'";
                let marks = ["pocket", "query", "hers", marks, "--format", "csv"];
                let (marks, _) = place.run(&marks, 0, "");
                assert!(marks.contains("\nfaults,"), "{}: {marks}", damage.name);
                let is_none = marks.contains("\nmissing,0\n");
                assert!(marks.contains("\nmissing,"), "{}: {marks}", damage.name);
                assert!(is_whole || !is_none, "{}: {marks}", damage.name);
                for file in ["hers", "hers.root"] {
                    fs::remove_file(place.path(file)).unwrap();
                }
            }
        });
    }
}

/// UX 1: `disguise replay` over a damaged log said that the database had missed nothing, and people who had left were back.
#[test]
fn a_replay_of_a_damaged_log_does_nothing_and_says_so() {
    let place = Place::new();
    let replay = ["disguise", "replay", "--log", "audit"];
    // The sound log has no operation of the database, which a replay says.
    place.run(&[&replay[..], &["--dry-run"]].concat(), 4, "");
    for damage in &DAMAGES {
        place.damaged(damage, |place| {
            let before = fs::read(place.path("app.db")).unwrap();
            for more in [&[][..], &["--dry-run"]] {
                let (out, error) = place.run(&[&replay[..], more].concat(), 3, "");
                assert_eq!(out, "", "{}", damage.name);
                let said = "nothing was done again, because the log is damaged";
                assert!(error.contains(said), "{}: {error}", damage.name);
            }
            let after = fs::read(place.path("app.db")).unwrap();
            assert!(before == after, "{}: the database was changed", damage.name);
        });
    }
}

/// M4: a stream of a damaged journal did not exist, and an entry under a missing checkpoint was to
/// be published by appending. Both ended with status 1.
#[test]
fn a_proof_or_a_list_of_a_damaged_log_is_refused_with_3_and_appends_nothing() {
    let place = Place::new();
    let prove = |index| ["prove", "audit", "--index", index, "-o", "proof"];
    place.run(&prove("7"), 0, "");
    for damage in &DAMAGES {
        place.damaged(damage, |place| {
            // Entries that the damage spares can be proved: a proof is checked before it is
            // written.
            for index in ["0", "7", "119", "120"] {
                drop(fs::remove_file(place.path("proof")));
                let output = place.program(&prove(index), "");
                let error = String::from_utf8_lossy(&output.stderr).into_owned();
                let is_proved = index != "120" && output.status.code() == Some(0);
                assert!(
                    is_proved || output.status.code() == Some(3),
                    "{}, {index}: {error}",
                    damage.name
                );
                is_safe(&error, damage.name);
            }
            if damage.name.contains("journal") {
                let (_, error) = place.run(&["stream", "list", "audit"], 3, "");
                is_safe(&error, damage.name);
                let (out, error) = place.run(&["keys", "status", "audit"], 3, "");
                is_safe(&error, damage.name);
                assert!(!out.contains("unbroken"), "{}: {out}", damage.name);
            }
        });
    }
    place.run(&["stream", "list", "audit"], 0, "");
    place.run(&["keys", "status", "audit"], 0, "");
}

/// Checks that advice about a damaged log is safe to follow: nothing writes to it, or puts another
/// in its place.
fn is_safe(error: &str, context: &str) {
    for command in ["probity append", "probity init", "probity stream create"] {
        assert!(!error.contains(command), "{context}: {error}");
    }
}
