//! Mistakes of the caller, each told by its true reason and before anything is read or written.

use std::fs;

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;

use crate::Place;

fn taken_over(sql: &[&str]) -> Place {
    let place = Place::new();
    let mut database = Sqlite::open(&place.path("app.db")).unwrap();
    for statement in sql {
        database.execute(statement, &[]).unwrap();
    }
    place
}

const CREATE: [&str; 6] = ["create", "c", "--from", "sqlite:app.db", "--size", "16"];

/// The whole chip was read, and the places of the files were looked at behind that.
#[test]
fn places_that_cannot_be_written_are_told_before_the_chip_is_read() {
    let place = Place::filled();
    let select = "SELECT id FROM doctors";
    // Nothing is reorganised, so there is nothing to sign: that comes second.
    place.run(&["sign", "v", "-o", "v.vkey"], 2);
    fs::write(place.path("taken"), "important").unwrap();
    let calls: [&[&str]; 4] = [
        &["sign", "v", "-o", "taken"],
        &["sign", "v", "--key-out", "taken"],
        &["extract", "v", select, "-o", "taken"],
        &["extract", "v", select, "-o", "rows", "--key-out", "taken"],
    ];
    for call in calls {
        let (_, stderr) = place.run(call, 1);
        assert!(
            stderr.contains("taken: it is there already"),
            "{call:?}: {stderr}"
        );
    }
    // The state of the database shows that no call opened it.
    let state = || {
        let root = fs::read(place.path("v.root")).unwrap();
        (root, fs::read(place.path("v")).unwrap())
    };
    let before = state();
    for call in calls {
        place.run(call, 1);
    }
    assert!(before == state());
    assert!(!place.path("rows").exists());
    let (_, stderr) = place.run(&["sign", "v"], 1);
    assert!(stderr.contains("no reorganised part"), "{stderr}");
}

/// The chip was named as the broken file, although it was the other file that is no digest.
#[test]
fn an_extract_in_the_place_of_a_digest_is_named_itself() {
    let place = Place::filled();
    place.run(&["reorganize", "v"], 0);
    place.run(
        &[
            "extract",
            "v",
            "SELECT id FROM doctors WHERE id > 5",
            "-o",
            "rows",
        ],
        0,
    );
    let (_, stderr) = place.run(
        &["verify", "v", "--keyless", "v.vkey", "--digest", "rows"],
        3,
    );
    assert!(
        stderr.contains("rows: it is a statement of another kind"),
        "{stderr}"
    );
}

/// Another program was said to have the chip open.
#[test]
fn the_chip_is_not_taken_for_its_own_root_file() {
    let place = Place::filled();
    std::os::unix::fs::symlink("v", place.path("link")).unwrap();
    for root in ["v", "./v", "link"] {
        let (_, stderr) = place.run(&["query", "v", "SELECT id FROM doctors", "--root", root], 2);
        assert!(
            stderr.contains("is the chip, and its root file is another file"),
            "{stderr}"
        );
    }
    let (_, stderr) = place.run(&["create", "new", "--root", "./new"], 2);
    assert!(stderr.contains("is the chip"), "{stderr}");
    assert!(!place.path("new").exists());
    place.run(&["verify", "v"], 0);
}

/// A root file named as the database was called damaged, and the advice put an older copy in its
/// place, which does not open. It is wrong usage, in whatever place the wrong file is named.
#[test]
fn a_root_file_is_not_taken_for_a_damaged_chip() {
    let place = Place::filled();
    fs::copy(place.path("v.root"), place.path("moved.root")).unwrap();
    let select = "SELECT id FROM doctors";
    for call in [
        &["query", "v.root", select][..],
        &["query", "v.root", select, "--root", "v"],
        &["query", "v.root", select, "--root", "moved.root"],
        &["query", "v.root", select, "--root", "v.root"],
        &["stats", "v.root"],
        &["verify", "v.root"],
    ] {
        let (_, stderr) = place.run(call, 2);
        assert!(stderr.contains("root file"), "{call:?}: {stderr}");
        assert!(!stderr.contains("undamaged"), "{call:?}: {stderr}");
    }
    let (_, stderr) = place.run(&["query", "v.root", select, "--root", "v"], 2);
    assert!(stderr.contains("v.root is a root file"), "{stderr}");
    assert!(stderr.contains("; v is the chip"), "{stderr}");
    // The chip of another database is no root file either.
    fs::copy(place.path("v"), place.path("other")).unwrap();
    let (_, stderr) = place.run(&["query", "v", select, "--root", "other"], 2);
    assert!(stderr.contains("other is a chip"), "{stderr}");
    // Damage is reported as such.
    fs::write(place.path("broken"), "no chip").unwrap();
    let (_, stderr) = place.run(&["query", "broken", select, "--root", "v.root"], 3);
    assert!(stderr.contains("it is not a flash image"), "{stderr}");
    place.run(&["verify", "v"], 0);
}

/// Integers between 2^63 and 2^64 were said to be no numbers, and larger ones were taken.
#[test]
fn integers_of_json_beyond_64_bits_are_reals() {
    let place = Place::filled();
    for (number, bits) in [
        ("9223372036854775808", 63),
        ("18446744073709551615", 64),
        ("18446744073709551616", 64),
    ] {
        let row = format!("{{\"name\": \"n{number}\", \"fee\": {number}}}");
        fs::write(place.path("big.json"), row).unwrap();
        place.run(&["import", "v", "doctors", "big.json"], 0);
        let sql = format!("SELECT fee FROM doctors WHERE name = 'n{number}'");
        assert_eq!(
            place.json(&["query", "v", &sql])["fee"].as_f64(),
            Some(2f64.powi(bits))
        );
    }
    let row = r#"{"doctor": 1, "day": 9223372036854775808, "note": "a"}"#;
    fs::write(place.path("day.json"), row).unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "day.json"], 1);
    assert!(
        stderr.contains("day") && !stderr.contains("no number"),
        "{stderr}"
    );
    assert_eq!(place.count("v", "visits"), 300);
}

/// The refusal named the width of an indexed column, and nothing that helps.
#[test]
fn a_unique_text_too_wide_for_a_key_is_refused_with_the_option_that_takes_it_over() {
    for definition in [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE)",
        "CREATE TABLE t(a TEXT PRIMARY KEY, b INTEGER)",
    ] {
        let place = taken_over(&[
            definition,
            "INSERT INTO t(a) VALUES ('x'), (replace(hex(zeroblob(65)), '0', 'y'))",
            "UPDATE t SET a = a || 1",
        ]);
        let mut sql = Sqlite::open(&place.path("app.db")).unwrap();
        if definition.contains("b INTEGER") {
            sql.execute("UPDATE t SET b = 1", &[]).unwrap();
        }
        let (_, stderr) = place.run(&CREATE, 1);
        assert!(
            stderr.contains("that a is unique, for its texts have up to 131 bytes")
                && stderr.contains("128 at most")
                && stderr.contains("--plain t"),
            "{stderr}"
        );
        place.run(&[&CREATE[..], &["--plain", "t"]].concat(), 0);
        assert_eq!(place.count("c", "t"), 2);
    }
    let place = taken_over(&[
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE)",
        "INSERT INTO t(a) VALUES (hex(zeroblob(64)))",
    ]);
    place.run(&CREATE, 0);
}

/// One of the two references was dropped without a word.
#[test]
fn a_column_that_refers_to_two_tables_is_refused_by_name() {
    let place = taken_over(&[
        "CREATE TABLE x(id INTEGER PRIMARY KEY, n INTEGER)",
        "CREATE TABLE y(id INTEGER PRIMARY KEY, n INTEGER)",
        "CREATE TABLE t(a INTEGER REFERENCES x(id), b INTEGER, FOREIGN KEY (a) REFERENCES y(id))",
        "INSERT INTO x VALUES (1, 1)",
        "INSERT INTO y VALUES (1, 1)",
        "INSERT INTO t VALUES (1, 1)",
    ]);
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("t.a refers to")
            && stderr.contains("here a column refers to one")
            && stderr.contains("--unlinked t.a"),
        "{stderr}"
    );
    place.run(&[&CREATE[..], &["--unlinked", "t.a"]].concat(), 0);
}

/// A hidden row with a long key was refused without its number and without a limit.
#[test]
fn a_hidden_row_that_does_not_fit_is_named_with_the_limit() {
    const MINE: [&str; 8] = [
        "create",
        "mine",
        "--subject",
        "19",
        "--disguises",
        "d.json",
        "--size",
        "16",
    ];
    let place = Place::new();
    let line = |table: &str, row: &str, column: &str| {
        let row = serde_json::json!({
            "disguise": "d", "table": table, "row": row, "values": { column: 1 }
        });
        format!("{row}\n")
    };
    let (long, longer) = ("k".repeat(65), "r".repeat(121));
    for (row, said) in [
        (
            line("t", &longer, "a"),
            "row 2 has a key of 121 bytes, and 120 fit",
        ),
        (
            line("t", "1", &long),
            "row 2 has the name of a column of 65 bytes, and 64 fit",
        ),
        (
            line(&long, "1", "a"),
            "row 2 has the name of a table of 65 bytes, and 64 fit",
        ),
    ] {
        fs::write(place.path("d.json"), line("t", "1", "a") + &row).unwrap();
        let (_, stderr) = place.run(&MINE, 1);
        assert!(
            stderr.contains(said) && stderr.contains("d.json") && stderr.contains("help:"),
            "{stderr}"
        );
    }
    let (name, key) = ("k".repeat(64), "r".repeat(120));
    let fits = line(&name, &key, &name);
    fs::write(place.path("d.json"), fits).unwrap();
    place.run(&MINE, 0);
}

/// The value was refused without its row.
#[test]
fn a_value_that_is_not_taken_over_is_named_by_its_row() {
    let place = taken_over(&[
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER)",
        "INSERT INTO t VALUES (5, 1), (7, 'x')",
    ]);
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("row 2 of t: a has a value of another type"),
        "{stderr}"
    );
}

/// The advice was about the order of rows that refer to each other.
#[test]
fn a_value_that_is_there_twice_is_refused_with_what_helps() {
    let place = taken_over(&[
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE)",
        "INSERT INTO t(a) VALUES (NULL), (NULL)",
    ]);
    let (_, stderr) = place.run(&[&CREATE[..], &["--null-as-empty"]].concat(), 1);
    assert!(
        stderr.contains("row 2 of t")
            && stderr.contains("a has this value in another row already")
            && stderr.contains("--plain TABLE")
            && !stderr.contains("rows that others refer to"),
        "{stderr}"
    );
    let options = ["--null-as-empty", "--plain", "t"];
    place.run(&[&CREATE[..], &options].concat(), 0);
}

/// A folder was said to be a malformed file of rows.
#[test]
fn a_folder_is_no_file_of_rows() {
    let place = Place::filled();
    fs::create_dir(place.path("rows")).unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "rows"], 1);
    assert!(
        stderr.contains("cannot read rows: Is a directory") && !stderr.contains("malformed"),
        "{stderr}"
    );
}

/// An address without a file gave an empty copy and status 0, for the library takes it for a new database.
#[test]
fn an_address_without_a_file_and_a_database_without_tables_give_no_copy() {
    let place = taken_over(&[]);
    for address in [
        "sqlite:",
        "sqlite://",
        "sqlite::memory:",
        "sqlite:file:app.db?mode=memory",
    ] {
        let (_, stderr) = place.run(&["create", "c", "--from", address], 2);
        assert!(stderr.contains("no address of a database"), "{stderr}");
    }
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("the other database has no tables"),
        "{stderr}"
    );
    assert!(!place.path("c").exists());
}

/// M1: the file of a key in the place of the rows was taken for a heading, and the whole key stood in
/// the error.
#[test]
fn no_key_in_the_place_of_rows_is_shown() {
    let place = Place::filled();
    for (name, head) in [
        ("root", "probity-root-key-v1 "),
        ("person", "probity-disguise-key-v1 "),
        ("person 2", "\u{feff}probity-disguise-key-v2 x-wing "),
        ("token", "probity-disguise-token-v1 "),
        ("share", "probity-disguise-share-v1 1 "),
        ("receipts", "probity-receipt-key-v1 name "),
        ("note", "PRIVATE+KEY+name+1a2b3c4d+"),
    ] {
        fs::write(place.path(name), format!("{head}EikjlI2vwCZ4\n")).unwrap();
        for format in ["csv", "json"] {
            let import = ["import", "v", "visits", name, "--format", format];
            let (stdout, stderr) = place.run(&import, 1);
            assert!(!(stdout + &stderr).contains("Eikjl"), "{stderr}");
            assert!(stderr.contains("holds a key"), "{stderr}");
        }
    }
}

/// L10: a heading with other separators was refused without a word on what to do.
#[test]
fn a_heading_with_other_columns_is_refused_with_advice() {
    let place = Place::filled();
    fs::write(place.path("rows"), "doctor;day;note\n1;100;n\n").unwrap();
    let (_, stderr) = place.run(&["import", "v", "visits", "rows"], 1);
    assert!(
        stderr.contains("help: name columns of the table"),
        "{stderr}"
    );
}

/// M2: whoever was kept from naming a password was sent to a variable that this command does not
/// read, and made an empty database.
#[test]
fn the_advice_for_a_password_is_one_that_the_command_takes() {
    let place = Place::new();
    let create = ["create", "c", "--from", "mysql://app:pw@localhost/app"];
    let (_, stderr) = place.run(&create, 2);
    assert!(stderr.contains("--from-file FILE"), "{stderr}");
    assert!(!stderr.contains("PROBITY_DB"), "{stderr}");
    let (_, stderr) = place.run(&["create", "c", "--from", "app.db"], 2);
    assert!(!stderr.contains("--db"), "{stderr}");
}

/// L9: the advised command named FILE, and a path with a space as two.
#[test]
fn advised_commands_name_the_database() {
    let place = Place::filled();
    fs::rename(place.path("v"), place.path("a v")).unwrap();
    let root = ["--root", "v.root"];
    let import = ["import", "a v", "nowhere", "visits.csv"];
    let query = ["query", "a v", "SELECT id FROM nowhere"];
    for call in [&import[..], &query] {
        let (_, stderr) = place.run(&[call, &root].concat(), 1);
        assert!(stderr.contains("probity pocket schema 'a v'"), "{stderr}");
    }
}
