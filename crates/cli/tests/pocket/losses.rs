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

/// A primary key that refers to a table became a reference that several rows may have.
#[test]
fn a_unique_foreign_key_stays_unique() {
    let place = made(
        "CREATE TABLE users(id INTEGER PRIMARY KEY, n TEXT); INSERT INTO users VALUES (1,'a'),(2,'b'),(3,'c'); \
         CREATE TABLE profiles(user_id INTEGER PRIMARY KEY REFERENCES users(id), bio TEXT); \
         INSERT INTO profiles VALUES (1,'x'),(2,'y'); \
         CREATE TABLE keys(id INTEGER PRIMARY KEY, user_id INTEGER UNIQUE REFERENCES users(id)); \
         INSERT INTO keys(user_id) VALUES (2)",
    );
    place.run(&CREATE, 0);
    for twin in [
        "INSERT INTO profiles (user_id, bio) VALUES (1, 'twin')",
        "INSERT INTO keys (user_id) VALUES (2)",
    ] {
        let (_, stderr) = place.run(&["exec", "c", twin], 1);
        assert!(stderr.contains("user_id has this value"), "{stderr}");
    }
    place.run(
        &[
            "exec",
            "c",
            "INSERT INTO profiles (user_id, bio) VALUES (3, 'z')",
        ],
        0,
    );
}

/// A key to a column that is a foreign key itself ended the program. The advice leads to the same
/// rows.
#[test]
fn a_chain_of_keys_is_refused_with_advice_that_works() {
    for ids in [[1, 2], [7, 9], [2, 1]] {
        let [one, other] = ids;
        let place = made(&format!(
            "CREATE TABLE users(id INTEGER PRIMARY KEY, n TEXT); INSERT INTO users VALUES ({one},'a'),({other},'b'); \
             CREATE TABLE profiles(user_id INTEGER PRIMARY KEY REFERENCES users(id), bio TEXT); \
             INSERT INTO profiles VALUES ({one},'bio a'),({other},'bio b'); \
             CREATE TABLE photos(id INTEGER PRIMARY KEY, profile INTEGER REFERENCES profiles(user_id), f TEXT); \
             INSERT INTO photos VALUES (1,{other},'photo b'),(2,{one},'photo a')"
        ));
        let (_, stderr) = place.run(&CREATE, 1);
        assert!(stderr.contains("--unlinked profiles.user_id"), "{stderr}");
        place.run(
            &[&CREATE[..], &["--unlinked", "profiles.user_id"]].concat(),
            0,
        );
        let sql = "SELECT f, bio FROM photos JOIN profiles ON photos.profile = profiles.user_id ORDER BY f";
        let (rows, _) = place.run(&["query", "c", sql, "--format", "csv"], 0);
        assert_eq!(rows, "f,bio\nphoto a,bio a\nphoto b,bio b\n");
    }
}

/// The length of a text was that of its form in the other database.
#[test]
fn texts_have_room_whatever_form_they_have_there() {
    let place = made(
        "PRAGMA encoding = 'UTF-16'; CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, n NUMERIC, b BLOB); \
         INSERT INTO t(a, n, b) VALUES ('\u{65e5}\u{672c}', 1e300, 1.0), ('x', 5, 1)",
    );
    place.run(&CREATE, 0);
    let sql = "SELECT a, n, b FROM t ORDER BY id";
    let (rows, _) = place.run(&["query", "c", sql, "--format", "csv"], 0);
    assert_eq!(rows, "a,n,b\n\u{65e5}\u{672c},1e300,1.0\nx,5,1\n");
    let place = made(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a ANY) STRICT; INSERT INTO t(a) VALUES (1),('1')",
    );
    let (_, stderr) = place.run(&CREATE, 1);
    assert!(
        stderr.contains("values of a are numbers and texts"),
        "{stderr}"
    );
}
