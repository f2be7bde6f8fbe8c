//! Parts left out, damage that is met and rows that are committed: each command tells of its own.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use serde_json::{Value, json};

use crate::Place;

const CREATE: [&str; 6] = ["create", "c", "--from", "sqlite:app.db", "--size", "16"];

fn made(statements: &[&str]) -> Place {
    let place = Place::new();
    let mut database = Sqlite::open(&place.path("app.db")).unwrap();
    for sql in statements {
        database.execute(sql, &[]).unwrap();
    }
    place
}

/// A table of the application whose name began with `probity_` was left out without a word, and was
/// not in the copy.
#[test]
fn only_the_tables_of_disguises_are_left_out_and_told() {
    let place = made(&[
        "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO users VALUES (1, 'a')",
        "CREATE TABLE probity_notes (id INTEGER PRIMARY KEY, t TEXT)",
        "INSERT INTO probity_notes VALUES (1, 'the only copy')",
        "CREATE TABLE probity_bags (id INTEGER PRIMARY KEY, t TEXT)",
    ]);
    let (_, stderr) = place.run(&CREATE, 0);
    let left_out = "1 table of disguises is not taken over: --table probity_bags takes one";
    assert!(stderr.contains(left_out), "{stderr}");
    assert!(!stderr.contains("probity_notes"), "{stderr}");
    assert_eq!(place.count("c", "probity_notes"), json!(1));
    let told = place.json(&["create", "d", "--from", "sqlite:app.db", "--size", "16"]);
    assert_eq!(told["left_out"], json!(["probity_bags"]));
    let named = ["--from", "sqlite:app.db", "--table", "probity_bags"];
    let told = place.json(&[&["create", "e"][..], &named].concat());
    assert_eq!(told["left_out"], json!([]));
}

/// Unique indexes over an expression or of some rows, a comparison without case, and conditions were
/// lost without a word.
#[test]
fn rules_that_are_lost_are_refused_or_told() {
    for (index, name) in [
        ("CREATE UNIQUE INDEX lowered ON e(lower(mail))", "lowered"),
        ("CREATE UNIQUE INDEX up ON e(x) WHERE x > 5", "up"),
    ] {
        let table = "CREATE TABLE e (id INTEGER PRIMARY KEY, mail TEXT, x INTEGER)";
        let place = made(&[table, index]);
        let (_, stderr) = place.run(&CREATE, 1);
        assert!(
            stderr.contains(&format!("the key {name}, which")),
            "{stderr}"
        );
        place.run(&[&CREATE[..], &["--plain", "e"]].concat(), 0);
    }
    let place = made(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT COLLATE NOCASE UNIQUE, n INTEGER CHECK (n > 0))",
        "INSERT INTO t VALUES (1, 'A', 1)",
    ]);
    let (_, stderr) = place.run(&CREATE, 0);
    assert!(
        stderr.contains("t.mail is unique here by its bytes"),
        "{stderr}"
    );
    assert!(stderr.contains("conditions of t: "), "{stderr}");
    let told = place.json(&["create", "d", "--from", "sqlite:app.db", "--size", "16"]);
    let weakened = told["weakened"].as_array().unwrap();
    let said: Vec<&str> = weakened.iter().filter_map(Value::as_str).collect();
    assert!(
        said.len() == 2 && said.iter().all(|rule| stderr.contains(rule)),
        "{said:?}"
    );
    assert_eq!(told["cut_keys"], json!([]));
}

/// A damaged page that was met behind a commit was kept silent: the command ended with status 0, and
/// the next one met the same page.
#[test]
fn damage_behind_a_commit_is_told_by_the_command_that_meets_it() {
    let place = Place::new();
    let table = "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER INDEXED, s TEXT(40))";
    fs::write(place.path("a.sql"), table).unwrap();
    place.run(&["create", "v", "--schema", "a.sql", "--size", "4"], 0);
    let rows = (0..383).map(|n| format!("INSERT INTO a (n, s) VALUES ({}, 's{n}');", n % 5));
    fs::write(place.path("rows.sql"), rows.collect::<String>()).unwrap();
    place.run(&["exec", "v", "--file", "rows.sql"], 0);
    fs::write(place.path("one.csv"), "n,s\n1,last\n").unwrap();
    let [chip, root] = ["v", "v.root"].map(|name| fs::read(place.path(name)).unwrap());
    let blocks = u32::from_le_bytes(chip[8..12].try_into().unwrap()) as usize;
    let head = (64 + 4 * blocks).next_multiple_of(2048);
    let mut behind = 0;
    let statement = "INSERT INTO a (n, s) VALUES (1, 'last')";
    for page in 256..263 {
        for (args, said) in [
            (
                ["exec", "v", statement, "--json"],
                "1 row changed and committed",
            ),
            (
                ["import", "v", "a", "one.csv"],
                "1 row was imported and committed",
            ),
        ] {
            let mut damaged = chip.clone();
            damaged[head + page * 2048 + 5] ^= 1;
            fs::write(place.path("v"), &damaged).unwrap();
            fs::write(place.path("v.root"), &root).unwrap();
            let first = place.output(&args, None);
            let second = place.output(&args, None);
            if second.status.code() == Some(3) {
                let told = String::from_utf8(first.stderr).unwrap();
                assert_eq!(first.status.code(), Some(3), "page {page}: {told}");
                if told.contains(said) {
                    assert!(told.contains(&format!("flash page {page} ")), "{told}");
                    assert!(told.contains("do not repeat"), "{told}");
                    behind += 1;
                }
            }
        }
    }
    assert!(behind >= 2, "no page is met behind the commit");
}

/// Rows that were committed were called unwritten where standard output was full: who repeated the
/// command had them twice.
#[test]
fn a_full_output_does_not_hide_what_is_committed() {
    let place = Place::filled();
    fs::write(place.path("one.csv"), "doctor,day,note\n1,1,x\n").unwrap();
    let insert = "INSERT INTO visits (doctor, day, note) VALUES (1, 1, 'x')";
    for args in [
        &["exec", "v", insert][..],
        &["import", "v", "visits", "one.csv"],
    ] {
        let mut command = place.program(&["pocket"]);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.args(args).stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("and committed, then"), "{told}");
        assert!(told.contains("do not repeat the command"), "{told}");
    }
    assert_eq!(place.count("v", "visits"), json!(302));
}

/// A copy of the chip and of the key lay in the temporary folder while a statement was simulated, and
/// stayed there after a kill.
#[test]
fn a_simulation_writes_nothing_to_any_disk() {
    let place = Place::filled();
    let [chip, root] = ["v", "v.root"].map(|name| fs::read(place.path(name)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    // Nothing can be made there, by nobody but the system's administrator.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o500)).unwrap();
    let gone = folder.path().join("none");
    let mut command = place.program(&["pocket", "simulate", "v"]);
    command.env("TMPDIR", &gone);
    command.arg(
        "UPDATE doctors SET fee = 2; DELETE FROM visits WHERE day = 104; SELECT * FROM visits",
    );
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("290 rows"), "{shown}");
    let after = ["v", "v.root"].map(|name| fs::read(place.path(name)).unwrap());
    assert!([chip, root] == after, "the database itself was written");
    let names = fs::read_dir(place.folder.path()).unwrap();
    let names: BTreeSet<_> = names.map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

/// A carriage return in a field without quotes made two rows of one.
#[test]
fn a_carriage_return_that_ends_no_line_is_refused() {
    let place = Place::new();
    fs::write(place.path("a.sql"), "CREATE TABLE a (s TEXT(40))").unwrap();
    place.run(&["create", "v", "--schema", "a.sql", "--size", "4"], 0);
    fs::write(place.path("a.csv"), "s\r\na\rb\r\n").unwrap();
    let (_, stderr) = place.run(&["import", "v", "a", "a.csv"], 1);
    assert!(stderr.contains("line 2 has a carriage return"), "{stderr}");
    fs::write(place.path("b.csv"), "s\r\n\"a\rb\"\r\nc\r").unwrap();
    place.run(&["import", "v", "a", "b.csv"], 0);
    assert_eq!(place.count("v", "a"), json!(2));
}

/// A number nearer to 0 than any real number became 0 without a word.
#[test]
fn a_number_that_would_become_zero_is_refused() {
    let place = Place::new();
    fs::write(place.path("a.sql"), "CREATE TABLE a (n REAL)").unwrap();
    place.run(&["create", "v", "--schema", "a.sql", "--size", "4"], 0);
    fs::write(place.path("a.csv"), "n\n0.0e-400\n1e-400\n").unwrap();
    fs::write(place.path("a.json"), "{\"n\": -1e-400}").unwrap();
    let insert = "INSERT INTO a VALUES (1e-400)";
    for args in [
        &["import", "v", "a", "a.csv"][..],
        &["import", "v", "a", "a.json"],
        &["exec", "v", insert],
    ] {
        let (_, stderr) = place.run(args, 1);
        assert!(
            stderr.contains("nearer to 0 than any"),
            "{args:?}: {stderr}"
        );
    }
    fs::write(place.path("b.json"), "[{\"n\": 0e-400}, {\"n\": 5e-324}]").unwrap();
    place.run(&["import", "v", "a", "b.json"], 0);
    let place = made(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n REAL)",
        "INSERT INTO t VALUES (1, 0.0)",
    ]);
    place.run(&CREATE, 0);
}

/// One flipped bit of the memory in the root file shut the database, with the advice to make it anew
/// with more memory.
#[test]
fn a_flipped_bit_of_the_memory_changes_nothing() {
    let place = Place::filled();
    let root = fs::read(place.path("v.root")).unwrap();
    for bit in [0, 12, 16, 17, 40, 63] {
        let mut damaged = root.clone();
        damaged[64 + bit / 8] ^= 1 << (bit % 8);
        fs::write(place.path("v.root"), &damaged).unwrap();
        fs::write(place.path("w.root"), &damaged).unwrap();
        fs::copy(place.path("v"), place.path("w")).unwrap();
        let told = place.json(&["stats", "w"]);
        assert_eq!(told["ram_given_bytes"], json!(65_536), "bit {bit}");
        place.run(&["verify", "w"], 0);
    }
}
