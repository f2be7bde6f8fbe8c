//! Tables, columns and keys of a database, as `pocket schema` shows them, and who asks for them.

use std::fs;

use serde_json::json;

use crate::Place;
use crate::person::log_of_two_people;

/// Nothing showed the columns of a pocket database. What is shown makes the same tables elsewhere.
#[test]
fn the_schema_is_shown_and_makes_the_same_tables() {
    let place = Place::filled();
    let (shown, said) = place.run(&["schema", "v"], 0);
    assert_eq!(said, "");
    assert_eq!(
        shown,
        "CREATE TABLE doctors (\n  id INTEGER PRIMARY KEY,\n  name TEXT(30) INDEXED,\n  fee REAL\n);\n\
         CREATE TABLE visits (\n  id INTEGER PRIMARY KEY,\n  doctor INTEGER REFERENCES doctors(id),\n  \
         day INTEGER INDEXED,\n  note TEXT(40)\n);\n"
    );
    fs::write(place.path("shown.sql"), &shown).unwrap();
    place.run(&["create", "w", "--schema", "shown.sql", "--size", "16"], 0);
    assert_eq!(place.run(&["schema", "w"], 0).0, shown);
    let found = place.json(&["schema", "v"]);
    assert_eq!(found["command"], "pocket schema");
    assert_eq!(found["file"], "v");
    let doctor = json!({
        "name": "doctor", "type": "integer", "primary_key": false, "unique": false, "indexed": true,
        "references": {"table": "doctors", "column": "id"},
    });
    assert_eq!(found["tables"][1]["columns"][1], doctor);
    let name = json!({
        "name": "name", "type": "text", "bytes_max": 30, "primary_key": false, "unique": false, "indexed": true,
    });
    assert_eq!(found["tables"][0]["columns"][1], name);
    place.run(&["verify", "v"], 0);
}

/// A refusal of a column or a join had no remedy, and that of a table led to tables without columns.
#[test]
fn refusals_of_tables_columns_and_joins_lead_to_the_schema() {
    let place = Place::filled();
    fs::write(place.path("r.csv"), "nurse\n1\n").unwrap();
    for (call, status) in [
        (&["query", "v", "SELECT nurse FROM visits"][..], 1),
        (&["query", "v", "SELECT visits.nurse FROM visits"], 1),
        (&["query", "v", "SELECT id FROM nurses"], 1),
        (&["query", "v", "SELECT day FROM visits, doctors"], 1),
        (&["query", "v", "SHOW TABLES"], 2),
        (&["exec", "v", "DESCRIBE visits"], 1),
        (&["exec", "v", "INSERT INTO visits (nurse) VALUES (1)"], 1),
        (
            &["exec", "v", "CREATE TABLE n (a INTEGER REFERENCES nurses)"],
            1,
        ),
        (&["import", "v", "nurses", "r.csv"], 1),
        (&["import", "v", "visits", "r.csv"], 1),
    ] {
        let (_, said) = place.run(call, status);
        assert!(said.contains("probity pocket schema v"), "{call:?}: {said}");
    }
    // A database that is not made cannot be looked at.
    fs::write(place.path("bad.sql"), "INSERT INTO nurses VALUES (1)").unwrap();
    let (_, said) = place.run(&["create", "w", "--schema", "bad.sql"], 1);
    assert!(!said.contains("pocket schema"), "{said}");
}

/// People with a database of their own found no query in the help that says who read their data. The
/// one that stands there is run as it is printed.
#[test]
fn the_help_has_the_query_that_a_person_asks() {
    let place = Place::new();
    log_of_two_people(&place);
    let created = [
        "create",
        "alice.pocket",
        "--log",
        "audit",
        "--subject",
        "alice",
        "--size",
        "16",
    ];
    place.run(&created, 0);
    let help = place
        .program(&["subject", "export", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, asked) = help
        .split_once("probity pocket query alice.pocket")
        .unwrap();
    let sql = asked.split('"').nth(1).unwrap();
    let (shown, _) = place.run(&["query", "alice.pocket", sql, "--format", "csv"], 0);
    let mut lines = shown.lines();
    assert_eq!(lines.next(), Some("day,actor,purpose"));
    // Two thirds of 120 reads.
    assert_eq!(lines.clone().count(), 80);
    assert!(
        lines.any(|line| line == "2026-03-01,clerk0,billing"),
        "{shown}"
    );
}
