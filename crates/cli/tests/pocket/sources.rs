//! Databases of servers that are taken over: every row once, each column by its true type.

use probity_disguise::Database;
use probity_disguise::database::connect;
use probity_testing::{mariadb, postgres};
use serde_json::{Value, json};

use crate::Place;

fn run(database: &mut dyn Database, statements: &[&str]) {
    for sql in statements {
        database.execute(sql, &[]).unwrap();
    }
}

/// Takes a database over, and returns the rows of each query.
fn taken(url: &str, options: &[&str], queries: &[&str]) -> Vec<Vec<Value>> {
    let place = Place::new();
    let create = ["create", "c", "--size", "16", "--from", url];
    place.run(&[&create[..], options].concat(), 0);
    let query = |sql: &&str| {
        let (rows, _) = place.run(&["query", "c", sql, "--json"], 0);
        let rows = rows.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            let members = row.as_object_mut().unwrap();
            for known in ["version", "command"] {
                members.remove(known);
            }
            row
        });
        let mut rows: Vec<Value> = rows.collect();
        // A database shows rows in any order.
        rows.sort_by_key(ToString::to_string);
        rows
    };
    queries.iter().map(query).collect()
}

/// Takes a database over with `options`, and returns what the command says.
fn said(url: &str, options: &[&str], status: i32) -> String {
    let create = ["create", "c", "--size", "16", "--from", url];
    Place::new().run(&[&create[..], options].concat(), status).1
}

/// Rows without a key were read page by page. Rows that compare as equal have no order between two
/// pages: some came twice and others never, with status 0.
#[test]
fn each_row_of_a_table_without_a_key_is_taken_over_once() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let url = mariadb::url(&socket, "app");
    let mut first = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(first.as_mut(), &["CREATE DATABASE app"]);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE visits (who VARCHAR(10)) DEFAULT CHARSET utf8mb4",
            "INSERT INTO visits SELECT ELT(1 + seq % 4, 'ab', 'Ab', 'aB', 'AB') FROM seq_1_to_1000",
            "CREATE TABLE kinds (id INT PRIMARY KEY, code ENUM('int','007','07','7'), at DATETIME(3), on_day TIMESTAMP(3))",
            "INSERT INTO kinds VALUES (1, '007', '2020-01-02 03:04:05.5', '2020-01-02 03:04:05.25'), \
             (2, '7', '2020-01-02 03:04:05', '2020-01-02 03:04:05')",
        ],
    );
    let found = taken(
        &url,
        &[],
        &[
            "SELECT who, COUNT(*) AS n FROM visits GROUP BY who",
            "SELECT code, at FROM kinds",
        ],
    );
    let each = ["AB", "Ab", "aB", "ab"].map(|who| json!({"n": 250, "who": who}));
    assert_eq!(found[0], each);
    assert_eq!(
        found[1],
        [
            json!({"code": "7", "at": "2020-01-02 03:04:05"}),
            json!({"code": "007", "at": "2020-01-02 03:04:05.500000"}),
        ]
    );
}

/// Numbers that are equal and written in two ways had no order either. A domain named after a type
/// became a column of that type, and a boolean was refused.
#[test]
fn a_table_of_postgres_keeps_each_row_and_its_true_types() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE sums (amount NUMERIC)",
            "INSERT INTO sums SELECT CASE n % 2 WHEN 0 THEN 1.0 ELSE 1.00 END FROM generate_series(1, 1000) n",
            "CREATE DOMAIN boolish AS TEXT",
            "CREATE DOMAIN printed AS VARCHAR(20)",
            "CREATE TABLE kinds (state boolish, note printed, is_open BOOLEAN, said JSON)",
            "INSERT INTO kinds VALUES ('maybe', '007', true, '{}'), ('no', '7', false, '[1]')",
        ],
    );
    let found = taken(
        &url,
        &[],
        &[
            "SELECT amount, COUNT(*) AS n FROM sums GROUP BY amount",
            "SELECT * FROM kinds",
        ],
    );
    let each = ["1.0", "1.00"].map(|amount| json!({"amount": amount, "n": 500}));
    assert_eq!(found[0], each);
    assert_eq!(
        found[1],
        [
            json!({"state": "no", "note": "7", "is_open": 0, "said": "[1]"}),
            json!({"state": "maybe", "note": "007", "is_open": 1, "said": "{}"}),
        ]
    );
    // SQL refuses an infinity too, and a signed extract showed it as null.
    run(
        database.as_mut(),
        &[
            "CREATE TABLE endless (height DOUBLE PRECISION)",
            "INSERT INTO endless VALUES ('Infinity')",
        ],
    );
    let place = Place::new();
    let create = ["create", "c", "--table", "endless", "--from", &url];
    let (_, stderr) = place.run(&create, 1);
    assert!(
        stderr.contains("row 1 of endless was reached") && stderr.contains("no finite number"),
        "{stderr}"
    );
}

/// An infinite decimal number became a text, a domain over a domain was none, and a key to another
/// schema was left out without a word.
#[test]
fn domains_infinities_and_other_schemas_of_postgres_are_seen() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE DOMAIN whole AS INT",
            "CREATE DOMAIN number AS whole",
            "CREATE DOMAIN short AS VARCHAR(5)",
            "CREATE DOMAIN shorter AS short",
            "CREATE TABLE marks (id number PRIMARY KEY, word shorter)",
            "INSERT INTO marks VALUES (1, 'a'), (2, 'b'), (10, 'c')",
            "CREATE TABLE sums (amount NUMERIC)",
            "INSERT INTO sums VALUES ('-Infinity')",
            "CREATE SCHEMA other",
            "CREATE TABLE other.people (id INT PRIMARY KEY)",
            "CREATE TABLE people (id INT PRIMARY KEY, name TEXT NOT NULL)",
            "CREATE TABLE calls (id INT PRIMARY KEY, person INT NOT NULL REFERENCES other.people(id))",
        ],
    );
    let found = taken(
        &url,
        &["--table", "marks"],
        &["SELECT id, word FROM marks WHERE id > 1"],
    );
    let rows = [
        json!({"id": 10, "word": "c"}),
        json!({"id": 2, "word": "b"}),
    ];
    assert_eq!(found[0], rows);
    let refused = said(&url, &["--table", "sums"], 1);
    assert!(refused.contains("no finite number"), "{refused}");
    let cut = "calls.person refers to other.people, which is not taken over";
    let tables = ["--table", "calls", "--table", "people"];
    assert!(said(&url, &tables, 0).contains(cut));
    let unlinked = [&tables[..], &["--unlinked", "calls.person"]].concat();
    assert!(!said(&url, &unlinked, 0).contains("calls.person"));
}

/// A unique key on the beginnings of texts became one on whole texts, and a key to another database
/// was left out without a word.
#[test]
fn beginnings_of_texts_and_other_databases_of_mariadb_are_seen() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let url = mariadb::url(&socket, "app");
    let mut first = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(
        first.as_mut(),
        &[
            "CREATE DATABASE app",
            "CREATE DATABASE other",
            "CREATE TABLE other.people (id INT PRIMARY KEY)",
            "CREATE TABLE app.words (id INT PRIMARY KEY, word VARCHAR(20) NOT NULL, UNIQUE (word(2)))",
            "CREATE TABLE app.calls (id INT PRIMARY KEY, person INT NOT NULL, \
             FOREIGN KEY (person) REFERENCES other.people(id))",
        ],
    );
    let refused = said(&url, &["--table", "words"], 1);
    assert!(refused.contains("the unique key (word(2))"), "{refused}");
    said(&url, &["--table", "words", "--plain", "words"], 0);
    let cut = "calls.person refers to other.people, which is not taken over";
    assert!(said(&url, &["--table", "calls"], 0).contains(cut));
    let unlinked = ["--table", "calls", "--unlinked", "calls.person"];
    assert!(!said(&url, &unlinked, 0).contains("calls.person"));
}
