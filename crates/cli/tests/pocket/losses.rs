//! Databases of which something cannot be kept: it is refused by name, with the option that gives it up.

use std::fs;

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;

use crate::Place;

fn made(sql: &str) -> Place {
    let place = Place::new();
    let mut database = Sqlite::open(&place.path("app.db")).unwrap();
    for statement in sql.split(';').filter(|text| !text.trim().is_empty()) {
        database.execute(statement, &[]).unwrap();
    }
    place
}

const CREATE: [&str; 6] = ["create", "c", "--from", "sqlite:app.db", "--size", "16"];

/// Generated columns, keys of several columns and UNIQUE were dropped without a word, and integers
/// became texts beside texts.
#[test]
fn what_cannot_be_kept_is_refused_by_name_and_given_up_by_an_option() {
    for (sql, said) in [
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER AS (a*2) STORED); INSERT INTO t(a) VALUES (4)",
            "the generated column b",
        ),
        (
            "CREATE TABLE t(a INTEGER, b INTEGER, PRIMARY KEY(a,b)); INSERT INTO t VALUES (1,2)",
            "the primary key (a, b)",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, UNIQUE(b,a)); INSERT INTO t VALUES (1,2,3)",
            "the unique key (b, a)",
        ),
        (
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t(a) VALUES (1),('1')",
            "values of a are numbers and texts",
        ),
    ] {
        let place = made(sql);
        let (_, stderr) = place.run(&CREATE, 1);
        assert!(
            stderr.contains(said) && stderr.contains("--plain t"),
            "{said}: {stderr}"
        );
        assert!(!place.path("c").exists());
        place.run(&[&CREATE[..], &["--plain", "t"]].concat(), 0);
    }
    let place = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, e TEXT UNIQUE); INSERT INTO t(e) VALUES ('x')",
    );
    place.run(&CREATE, 0);
    place.run(&["exec", "c", "INSERT INTO t (e) VALUES ('x')"], 1);
    let (_, stderr) = place.run(
        &["create", "d", "--from", "sqlite:app.db", "--plain", "u"],
        1,
    );
    assert!(stderr.contains("no table u"), "{stderr}");
}

/// Such databases were refused with advice that did not help.
#[test]
fn an_honest_database_is_taken_over_or_refused_with_what_helps() {
    let null = "CREATE TABLE p(id INTEGER PRIMARY KEY, n TEXT); CREATE TABLE t(id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(id)); \
                INSERT INTO p VALUES(1,'x'); INSERT INTO t(p) VALUES (1),(NULL)";
    let place = made(null);
    let (_, stderr) = place.run(&[&CREATE[..], &["--null-as-empty"]].concat(), 1);
    assert!(stderr.contains("--unlinked t.p"), "{stderr}");
    place.run(
        &[&CREATE[..], &["--null-as-empty", "--unlinked", "t.p"]].concat(),
        0,
    );
    let place = made(
        "CREATE TABLE \"order\"(id INTEGER PRIMARY KEY, \"group\" TEXT); INSERT INTO \"order\"(\"group\") VALUES ('g')",
    );
    place.run(&CREATE, 0);
    let (shown, _) = place.run(
        &[
            "query",
            "c",
            "SELECT \"group\" FROM \"order\"",
            "--format",
            "csv",
        ],
        0,
    );
    assert_eq!(shown, "group\ng\n");
    let place = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t(a) VALUES (CAST(x'61ff62' AS TEXT))",
    );
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("is not UTF-8") && !stderr.contains("hidden"),
        "{stderr}"
    );
    let place = made("CREATE TABLE t(id INTEGER PRIMARY KEY, \"x\"\"y\" INTEGER)");
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(stderr.contains("letters, digits and _"), "{stderr}");
    let tables =
        (0..17).map(|number| format!("CREATE TABLE t{number}(id INTEGER PRIMARY KEY, a TEXT);"));
    let place = made(&tables.collect::<String>());
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("17 tables") && stderr.contains("16 at most"),
        "{stderr}"
    );
    let schema =
        (0..17).map(|number| format!("CREATE TABLE t{number}(id INTEGER PRIMARY KEY, a INTEGER);"));
    fs::write(place.path("many.sql"), schema.collect::<String>()).unwrap();
    let (_, stderr) = place.run(&["create", "m", "--schema", "many.sql", "--size", "16"], 1);
    assert!(stderr.contains("16 at most"), "{stderr}");
}
