//! Files of rows that are damaged, and imports that a signal stops.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use probity_testing::program::Program;

use crate::Place;

/// A CSV file that was cut inside of a quoted text, and an object with a member twice, were taken
/// for whole.
#[test]
fn a_damaged_file_of_rows_is_refused_with_its_line() {
    let place = Place::filled();
    let cut = "doctor,day,note\n1,1,\"first\"\n2,2,\"a \"\"b\"\"\nc\"\n1,3,\"cut here\nand on";
    let twice = "{\"doctor\": 1, \"day\": 5, \"note\": \"a\"}\n{\"doctor\": 1, \"day\": 6, \"day\": 7, \"note\": \"b\"}\n";
    for (name, content, said) in [
        (
            "cut.csv",
            cut,
            "the quote that line 5 opens is never closed",
        ),
        ("twice.json", twice, "the member day twice at line 2"),
        ("seven.json", "[{\"day\": 1},\n 7]", "line 2"),
    ] {
        fs::write(place.path(name), content).unwrap();
        let (_, stderr) = place.run(&["import", "v", "visits", name], 1);
        assert!(stderr.contains(said), "{name}: {stderr}");
        assert!(stderr.contains("0 rows were imported"), "{name}: {stderr}");
        assert_eq!(place.count("v", "visits"), 300);
    }
    let whole =
        "doctor,day,note\n1,1,\"first\"\n2,2,\"a \"\"b\"\"\nc\"\n1,3,plain \"quote\n1,4,\"\"";
    fs::write(place.path("whole.csv"), format!("\u{feff}{whole}")).unwrap();
    place.run(&["import", "v", "visits", "whole.csv"], 0);
    assert_eq!(place.count("v", "visits"), 304);
}

/// A value was refused with a byte of a statement that nobody had written.
#[test]
fn a_value_that_does_not_fit_is_named_by_line_and_column() {
    let place = Place::filled();
    fs::write(
        place.path("r.json"),
        "{\"doctor\": 1, \"day\": \"x\", \"note\": \"a\"}",
    )
    .unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "r.json"], 1);
    assert!(!stderr.contains("of the statement"), "{stderr}");
    assert!(
        stderr.contains("day") && stderr.contains("object 1"),
        "{stderr}"
    );
}

/// An import that a signal stopped said nothing of the rows that stay.
#[test]
fn an_import_that_a_signal_stops_says_how_many_rows_stay() {
    let place = Place::filled();
    for format in ["csv", "json"] {
        let args = [
            "pocket", "import", "v", "visits", "pipe", "--format", format,
        ];
        let ended = place.ended_by(&args, "INT");
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("0 rows were imported, then a signal asked to stop"),
            "{format}: {said}"
        );
    }
    place.run(&["verify", "v"], 0);
    assert_eq!(place.count("v", "visits"), 300);
}

/// The first rows of a pipe that stayed open were waited for until 32 bytes were there, and counted as
/// none at a signal. A short row is final as soon as its line is there.
#[test]
fn the_first_short_rows_of_a_live_pipe_are_taken_at_once() {
    let place = Place::filled();
    let args = [
        "pocket",
        "import",
        "v",
        "doctors",
        "-",
        "--rows-per-commit",
        "1",
    ];
    let mut command =
        Program::new(env!("CARGO_BIN_EXE_probity")).command(place.folder.path(), &args);
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"name,fee\na,1\nb,2\nc,3\n").unwrap();
    let chip = || fs::read(place.path("v")).unwrap();
    let (before, begun) = (chip(), Instant::now());
    // Some commits came; the signal follows the last once nothing changes any more.
    let mut last = before.clone();
    while begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(500));
        let now = chip();
        if now != before && now == last {
            break;
        }
        last = now;
    }
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    let ended = child.wait_with_output().unwrap();
    drop(input);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("3 rows were imported, then a signal"),
        "{said}"
    );
    assert_eq!(place.count("v", "doctors"), 5);
}

/// An infinity was imported, and shown and signed as null.
#[test]
fn a_number_that_is_not_finite_is_refused_with_its_line_and_column() {
    let place = Place::filled();
    for number in ["inf", "-Infinity", "1e999", "NaN"] {
        fs::write(
            place.path("d.csv"),
            format!("name,fee\nAda,1\nBo,{number}\n"),
        )
        .unwrap();
        let (_, stderr) = place.run(&["import", "v", "doctors", "d.csv"], 1);
        assert!(
            stderr.contains("line 3")
                && stderr.contains("fee: ")
                && stderr.contains("no finite number"),
            "{number}: {stderr}"
        );
        assert_eq!(place.count("v", "doctors"), 2);
    }
}

/// A signed object had a member twice, of which readers take one.
#[test]
fn an_extract_with_two_columns_of_one_name_is_refused() {
    let place = Place::filled();
    let sql = "SELECT doctors.name, visits.note AS name FROM doctors, visits WHERE visits.doctor = doctors.id";
    let (_, stderr) = place.run(&["extract", "v", sql, "-o", "out"], 1);
    assert!(
        stderr.contains("two columns are called name") && stderr.contains("with AS"),
        "{stderr}"
    );
    assert!(!place.path("out").exists());
}

/// Rows of a transaction that was rolled back were said to be changed.
#[test]
fn rows_that_were_rolled_back_are_not_counted() {
    let place = Place::filled();
    let insert = "INSERT INTO doctors (name, fee) VALUES ('Z', 1)";
    let script = format!("{insert}; BEGIN; {insert}; {insert}; rollback; BEGIN; {insert}; COMMIT");
    let done = place.json(&["exec", "v", &script]);
    assert_eq!(done["rows_changed"], 2, "{done}");
    assert_eq!(place.count("v", "doctors"), 4);
}

/// A terminal obeyed codes in values, and a line break began another row.
#[test]
fn a_table_shows_control_characters_as_escapes() {
    let place = Place::filled();
    let insert = "INSERT INTO doctors (name, fee) VALUES ('a\u{1b}[2J\nb', 1)";
    place.run(&["exec", "v", insert], 0);
    let (shown, _) = place.run(&["query", "v", "SELECT name FROM doctors WHERE id = 3"], 0);
    assert_eq!(shown, "name\na\\u{1b}[2J\\nb\n");
}

/// A deletion told of one row, and half of the rows of another table went with it.
#[test]
fn rows_that_go_along_with_a_deleted_one_are_counted() {
    let place = Place::filled();
    let (said, _) = place.run(&["exec", "v", "DELETE FROM visits WHERE id = 1"], 0);
    assert_eq!(said, "1 statement: 0 tables created, 1 row changed\n");
    let script = "INSERT INTO doctors VALUES (3, 'Rossi', 1); BEGIN; DELETE FROM doctors; ROLLBACK; \
                  UPDATE visits SET day = 1 WHERE id = 4; DELETE FROM doctors WHERE id = 1";
    let (said, _) = place.run(&["exec", "v", script], 0);
    assert_eq!(
        said,
        "6 statements: 0 tables created, 3 rows changed, 149 rows went along that referred to deleted rows\n"
    );
    assert_eq!(place.count("v", "visits"), 150);
    let told = place.json(&["exec", "v", "delete from doctors"]);
    assert_eq!(told["rows_changed"], 2);
    assert_eq!(told["rows_gone_along"], 150);
    assert_eq!(place.count("v", "visits"), 0);
}

/// A column that the file lacks was named together with another one that it has.
#[test]
fn a_column_that_the_rows_lack_is_named_alone() {
    let place = Place::filled();
    fs::write(place.path("r.csv"), "doctor,day\n1,5\n").unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "r.csv"], 1);
    assert!(stderr.contains("note has no value"), "{stderr}");
    assert!(!stderr.contains("in the column"), "{stderr}");
}

/// The manual called the extract with the higher number the later one, also where an older copy of
/// the database had been put back in between.
#[test]
fn a_database_that_was_put_back_counts_its_states_again() {
    let place = Place::filled();
    let files = ["v", "v.root"];
    let copy = |name: &str| place.path(&format!("{name}.copy"));
    for name in files {
        fs::copy(place.path(name), copy(name)).unwrap();
    }
    let extract = |name: &str| {
        place.run(&["extract", "v", "SELECT id FROM doctors", "-o", name], 0);
        let said = place.json(&["check", name, "--key", "v.vkey"]);
        let time = said["time"].as_str().unwrap().to_owned();
        (said["state"].as_u64().unwrap(), time)
    };
    for _ in 0..3 {
        place.run(&["exec", "v", "DELETE FROM doctors WHERE id = 9"], 0);
    }
    place.run(&["exec", "v", "INSERT INTO doctors VALUES (3, 'Ng', 1)"], 0);
    let before = extract("before");
    for name in files {
        fs::copy(copy(name), place.path(name)).unwrap();
    }
    let after = extract("after");
    assert!(before.1 < after.1, "{before:?} {after:?}");
    assert!(before.0 > after.0, "{before:?} {after:?}");
}
