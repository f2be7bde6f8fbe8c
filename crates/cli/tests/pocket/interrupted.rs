//! The remains of interrupted creations and of refused signatures, and the advice on a full chip.

use std::fs;
use std::process::{Command, Output, Stdio};

use probity_testing::program::Program;

use crate::Place;
use crate::person::log_of_two_people;

impl Place {
    /// Names in the folder that begin with `start`.
    fn names(&self, start: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
        names.sort();
        names
    }

    /// Runs `args`, which read the pipe `pipe` in their midst, and sends `signal` at that moment.
    pub(crate) fn ended_by(&self, args: &[&str], signal: &str) -> Output {
        drop(fs::remove_file(self.path("pipe")));
        let made = Command::new("mkfifo").arg(self.path("pipe")).status();
        assert!(made.unwrap().success());
        let mut command =
            Program::new(env!("CARGO_BIN_EXE_probity")).command(self.folder.path(), args);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        // The pipe opens once the command reads from the other end.
        let held = fs::File::options().write(true).open(self.path("pipe"));
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        drop(held);
        output
    }
}

/// Ctrl-C, and a kill, left a person's copy with part of the rows that were found. Its commits were
/// those of a whole one, so `verify`, `sign` and `extract` called it intact. Nothing lies under the
/// name that was asked for until all of it is there.
#[test]
fn an_interrupted_creation_leaves_nothing_that_opens() {
    let place = Place::new();
    log_of_two_people(&place);
    let whole = ["subject", "export", "audit", "alice", "--pocket", "mine"];
    let cut = [&whole[..], &["--disguises", "pipe"]].concat();
    for signal in ["INT", "TERM", "HUP"] {
        let ended = place.ended_by(&cut, signal);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("error: stopped by a signal; the file under way was removed"),
            "{said}"
        );
        assert_eq!(place.names("mine"), Vec::<String>::new(), "{signal}");
    }
    assert_eq!(place.ended_by(&cut, "KILL").status.code(), None);
    let left = place.names("mine");
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|name| name.contains(".part-")), "{left:?}");
    for (command, root) in [
        ("verify", None),
        ("stats", Some(&left[1])),
        ("reorganize", Some(&left[1])),
    ] {
        let args = [command, &left[0]];
        let args = match root {
            Some(root) => [&args[..], &["--root", root]].concat(),
            None => args.to_vec(),
        };
        let (_, refused) = place.run(&args, 1);
        assert!(
            refused.contains("is what an interrupted creation left"),
            "{refused}"
        );
    }
    let made = place.program(&whole).output().unwrap();
    let said = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(0), "{said}");
    for name in &left {
        let line = format!("{name} is left of a creation that was interrupted: remove it");
        assert!(said.contains(&line), "{said}");
    }
    place.run(&["verify", "mine"], 0);
    assert_eq!(place.count("mine", "entries"), 82);
}

/// A creation that a kill ended between its two steps left the database in its place. Its root file
/// still had the name of one under way. `query` advised to name that, `create` to choose another
/// name, and neither said what had happened. All name both files and the step that is left.
#[test]
fn a_creation_without_its_last_step_is_named_and_ends_as_advised() {
    let place = Place::filled();
    fs::rename(place.path("v.root"), place.path("v.root.part-77")).unwrap();
    let step = "mv -n v.root.part-77 v.root";
    let commands: [&[&str]; 5] = [
        &["query", "v", "SELECT id FROM visits"],
        &["verify", "v"],
        &["simulate", "v", "SELECT id FROM visits"],
        &["create", "v", "--schema", "vault.sql"],
        &["verify", "v", "--root", "v.root.part-77"],
    ];
    for command in commands {
        let (_, refused) = place.run(command, 1);
        assert!(refused.contains("v.root.part-77"), "{refused}");
        assert!(refused.contains(step), "{command:?} {refused}");
    }
    assert_eq!(place.names("v."), ["v.root.part-77"]);
    // One that is left of an earlier creation is not taken for it.
    fs::write(place.path("v.root.part-5"), "other").unwrap();
    fs::write(place.path("v.part-5"), "other").unwrap();
    let (_, refused) = place.run(&["verify", "v"], 1);
    assert!(refused.contains(step), "{refused}");
    // Without the database nobody knows whether it is elsewhere.
    fs::rename(place.path("v"), place.path("moved")).unwrap();
    let (_, said) = place.run(&["create", "v", "--schema", "vault.sql", "--size", "1"], 0);
    let left = "left of a creation that was interrupted:";
    for line in [
        format!("v.root.part-77 is {left} without its database: remove it, unless"),
        format!("v.root.part-5 is {left} remove it\n"),
        format!("v.part-5 is {left} remove it\n"),
    ] {
        assert!(said.contains(&line), "{said}");
    }
    for name in ["v", "v.root"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    fs::rename(place.path("moved"), place.path("v")).unwrap();
    let mut shell = Command::new("sh");
    let shell = shell.args(["-ec", step]).current_dir(place.folder.path());
    assert!(shell.status().unwrap().success());
    place.run(&["verify", "v"], 0);
    assert_eq!(place.count("v", "visits"), 300);
}

/// `create --from` filled the file under its own name too. Where something came to one of the two names meanwhile, neither is touched.
#[test]
fn a_creation_takes_only_names_that_are_free() {
    let place = Place::new();
    for taken in ["w", "w.root"] {
        fs::write(place.path(taken), "before").unwrap();
        let (_, refused) = place.run(&["create", "w", "--schema", "vault.sql"], 1);
        assert!(refused.contains("it is there already"), "{refused}");
        assert!(
            refused.contains("help: name a file that does not exist yet"),
            "{refused}"
        );
        assert_eq!(place.names("w"), [taken]);
        assert_eq!(fs::read(place.path(taken)).unwrap(), b"before");
        fs::remove_file(place.path(taken)).unwrap();
    }
    let (_, refused) = place.run(&["create", "w.part-7"], 1);
    assert!(
        refused.contains("has the name of a file under way"),
        "{refused}"
    );
}

/// `sign` replaced whatever had the name of its digest, then found another key's file in its way and said that nothing was written. Both
/// places are looked at before the first is written, and only a digest is replaced unasked.
#[test]
fn a_signature_that_is_refused_replaces_nothing() {
    let place = Place::filled();
    place.run(&["reorganize", "v"], 0);
    fs::write(place.path("v.digest"), "important").unwrap();
    let unchanged = |key: Option<&str>| {
        assert_eq!(fs::read(place.path("v.digest")).unwrap(), b"important");
        let found = fs::read_to_string(place.path("v.vkey")).ok();
        assert_eq!(found.as_deref(), key);
    };
    let (_, refused) = place.run(&["sign", "v"], 1);
    assert!(refused.contains("it is there already"), "{refused}");
    unchanged(None);
    fs::write(place.path("v.vkey"), "other").unwrap();
    let (_, refused) = place.run(&["sign", "v", "--overwrite"], 1);
    assert!(refused.contains("v.vkey: it is there already"), "{refused}");
    assert!(
        refused.contains("help: name another file with --key-out FILE; nothing was written"),
        "{refused}"
    );
    unchanged(Some("other"));
    let extract = [
        "extract",
        "v",
        "SELECT id FROM visits WHERE id < 3",
        "-o",
        "v.digest",
        "--overwrite",
    ];
    place.run(&extract, 1);
    unchanged(Some("other"));
    fs::remove_file(place.path("v.vkey")).unwrap();
    place.run(&["sign", "v", "-o", "v.vkey"], 2);
    unchanged(None);
    place.run(&["sign", "v", "--overwrite"], 0);
    place.run(&["verify", "v", "--keyless", "v.vkey"], 0);
    // An older digest goes unasked.
    let before = fs::read(place.path("v.digest")).unwrap();
    place.run(&["sign", "v"], 0);
    assert_ne!(fs::read(place.path("v.digest")).unwrap(), before);
}

/// On a full chip every delete advised `reorganize`, which was refused with the advice to reorganise. The advice leads to a larger chip
/// that holds the rows.
#[test]
fn the_advice_on_a_full_chip_leads_out_of_it() {
    let place = Place::new();
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT(100))";
    fs::write(place.path("t.sql"), schema).unwrap();
    let row = |n: u32| format!("{n},{n:-<90}\n");
    let rows: String = (1..=20_000).map(row).collect();
    fs::write(place.path("t.csv"), format!("id,a\n{rows}")).unwrap();
    place.run(&["create", "w", "--schema", "t.sql", "--size", "2"], 0);
    let import = ["import", "w", "t", "t.csv", "--rows-per-commit", "64"];
    let (_, full) = place.run(&import, 1);
    let (_, delete) = place.run(&["exec", "w", "DELETE FROM t WHERE id = 7"], 1);
    for said in [full, delete] {
        assert!(said.contains("has no room left"), "{said}");
        assert!(said.contains("else the rows go to a larger chip"), "{said}");
    }
    let (_, refused) = place.run(&["reorganize", "w"], 1);
    assert!(refused.contains("has no room left"), "{refused}");
    assert!(!refused.contains("probity pocket reorganize"), "{refused}");
    assert!(
        refused.contains("the rows go to a larger chip"),
        "{refused}"
    );
    // The manual's own commands.
    let manual = include_str!("../../../../docs/pocketdb.md");
    let (_, commands) = manual.split_once("```text\nprobity pocket query").unwrap();
    let (commands, _) = commands.split_once("```").unwrap();
    let commands = format!("probity pocket query{commands}")
        .replace("probity", env!("CARGO_BIN_EXE_probity"))
        .replace("full.pocket", "w")
        .replace("visits", "t");
    let mut shell = Command::new("sh");
    let shell = shell
        .args(["-ec", &commands])
        .current_dir(place.folder.path());
    assert!(shell.status().unwrap().success(), "{commands}");
    place.run(&["create", "wider", "--schema", "t.sql", "--size", "8"], 0);
    place.run(&["import", "wider", "t", "sorted.csv"], 0);
    assert_eq!(place.count("wider", "t"), place.count("w", "t"));
    place.run(&["exec", "wider", "DELETE FROM t WHERE id = 7"], 0);
    place.run(&["reorganize", "wider"], 0);
    // One that is full while it is made leaves nothing to reorganise.
    let inserts = (1..=9_000).map(|n| format!("INSERT INTO t (a) VALUES ('{n:-<90}');\n"));
    fs::write(
        place.path("t.sql"),
        format!("{schema};\n{}", inserts.collect::<String>()),
    )
    .unwrap();
    let (_, refused) = place.run(&["create", "small", "--schema", "t.sql", "--size", "1"], 1);
    assert!(
        refused.contains("help: make it larger with --size MIB"),
        "{refused}"
    );
    assert_eq!(place.names("small"), Vec::<String>::new());
}

/// `--json` printed no document where the verdict was status 3, so that a script had to read messages for people. There is one with the
/// fault, for what is checked with the key and without it.
#[test]
fn what_is_broken_is_a_document_too() {
    let place = Place::filled();
    place.run(&["reorganize", "v"], 0);
    place.run(&["sign", "v"], 0);
    place.run(
        &[
            "extract",
            "v",
            "SELECT id FROM visits WHERE id < 3",
            "-o",
            "rows",
        ],
        0,
    );
    let rows = fs::read_to_string(place.path("rows")).unwrap();
    fs::write(place.path("rows"), rows.replacen('1', "9", 1)).unwrap();
    fs::write(place.path("v.digest"), "nothing").unwrap();
    let mut root = fs::read(place.path("v.root")).unwrap();
    root[40] ^= 1;
    fs::write(place.path("other.root"), root).unwrap();
    let checks: [&[&str]; 3] = [
        &["check", "rows", "--key", "v.vkey"],
        &["verify", "v", "--keyless", "v.vkey"],
        &["verify", "v", "--root", "other.root"],
    ];
    for check in checks {
        let (document, said) = place.run(&[check, &["--json"]].concat(), 3);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["intact"], false, "{check:?}");
        let fault = document["fault"].as_str().unwrap();
        assert!(said.contains(&format!("error: {fault}\n")), "{said}");
    }
}

/// An empty file was imported with `imported 0 rows` and status 0, and rows out of order were refused without a word about their order.
#[test]
fn rows_that_cannot_be_imported_are_refused_with_a_remedy() {
    let place = Place::filled();
    fs::write(place.path("empty.csv"), "").unwrap();
    let (_, refused) = place.run(&["import", "v", "visits", "empty.csv"], 1);
    assert!(refused.contains("the CSV file is empty"), "{refused}");
    fs::write(place.path("late.csv"), "id,doctor,day,note\n900,1,3,x\n").unwrap();
    let (_, refused) = place.run(&["import", "v", "visits", "late.csv"], 1);
    assert!(
        refused.contains("help: rows that others refer to come first; keys of rows are 1, 2, 3"),
        "{refused}"
    );
    assert_eq!(place.count("v", "visits"), 300);
}
