//! Rows and rules of servers that do not come along: each is refused by name or told.

use probity_disguise::Database;
use probity_disguise::database::connect;
use probity_testing::{mariadb, postgres};
use serde_json::json;

use crate::Place;
use crate::sources::{run, said};

/// The rows of heirs in other schemas, of heirs that were not chosen and of foreign ones were lost,
/// with status 0.
#[test]
fn heirs_that_are_not_taken_over_are_told() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE SCHEMA s",
            "CREATE TABLE towns (id INT PRIMARY KEY, n TEXT NOT NULL)",
            "CREATE TABLE capitals (land TEXT NOT NULL) INHERITS (towns)",
            "CREATE TABLE s.\"Old\" (y INT) INHERITS (capitals)",
            "CREATE TABLE s.towns (y INT) INHERITS (public.towns)",
            "CREATE TEMPORARY TABLE passing () INHERITS (towns)",
            "INSERT INTO towns VALUES (1, 'one')",
            "INSERT INTO capitals VALUES (2, 'two', 'x')",
            "INSERT INTO s.\"Old\" VALUES (3, 'three', 'x', 1)",
        ],
    );
    let lost = |heir: &str, table: &str| {
        format!(
            "the rows of {heir}, which inherits from {table}, are not taken over: {table} shows them there and not here"
        )
    };
    let told = said(&url, &[], 0);
    let expected = [
        ("s.\"Old\"", "capitals"),
        ("s.\"Old\"", "towns"),
        ("s.towns", "towns"),
    ];
    for (heir, table) in expected {
        assert!(told.contains(&lost(heir, table)), "{told}");
    }
    assert_eq!(told.matches("inherits").count(), 3, "{told}");
    let told = said(&url, &["--table", "towns"], 0);
    assert!(told.contains(&lost("capitals", "towns")), "{told}");
    assert_eq!(told.matches("inherits").count(), 3, "{told}");
    let create = ["create", "c", "--from", &url, "--table", "capitals"];
    let told = Place::new().json(&create);
    let heirs = json!([{"heir": "s.\"Old\"", "table": "capitals"}]);
    assert_eq!(told["left_out_heirs"], heirs);
    // A foreign table takes an extension of the server that may be missing.
    let foreign = [
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE TABLE bare (id INT PRIMARY KEY, n TEXT NOT NULL)",
        "CREATE FOREIGN TABLE far () INHERITS (bare) SERVER files OPTIONS (program 'echo 7,seven', format 'csv')",
    ];
    if database.execute(foreign[0], &[]).is_ok() {
        run(database.as_mut(), &foreign[1..]);
        let told = said(&url, &["--table", "bare"], 0);
        assert!(told.contains(&lost("far", "bare")), "{told}");
    }
}

/// Unique keys and conditions of partitions were lost without a word: the table alone was asked.
#[test]
fn keys_and_conditions_of_partitions_are_refused_or_told() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE SCHEMA s",
            "CREATE TABLE s.far (id INT PRIMARY KEY)",
            "CREATE TABLE a (id INT NOT NULL, x INT NOT NULL, far INT NOT NULL, CHECK (id > 5)) PARTITION BY RANGE (id)",
            "CREATE TABLE s.a1 PARTITION OF a FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (x)",
            "CREATE TABLE a11 PARTITION OF s.a1 (CHECK (x < 7)) FOR VALUES FROM (0) TO (10)",
            "CREATE UNIQUE INDEX a11_x ON a11 (x)",
            "ALTER TABLE a11 ADD FOREIGN KEY (far) REFERENCES s.far(id)",
            "CREATE TABLE b (id INT PRIMARY KEY, x INT NOT NULL CHECK (x > 1)) PARTITION BY RANGE (id)",
            "CREATE TABLE b1 PARTITION OF b FOR VALUES FROM (0) TO (10)",
            "INSERT INTO b VALUES (1, 2)",
            "CREATE TABLE c (id INT NOT NULL, x INT NOT NULL) PARTITION BY RANGE (id)",
            "CREATE TABLE s.c1 PARTITION OF c (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (10)",
        ],
    );
    let refused = said(&url, &["--table", "a"], 1);
    assert!(refused.contains("the key a11_x, which is"), "{refused}");
    let told = said(&url, &["--table", "a", "--plain", "a"], 0);
    for rule in ["id > 5", "a11: (x < 7)", "a.far refers to s.far"] {
        assert_eq!(told.matches(rule).count(), 1, "{told}");
    }
    let told = said(&url, &["--table", "b"], 0);
    assert!(told.contains("conditions of b: (x > 1)\n"), "{told}");
    let refused = said(&url, &["--table", "c"], 1);
    assert!(refused.contains("the key s.c1_pkey, which is"), "{refused}");
}

/// A condition of a domain was told of a column of the domain itself alone.
#[test]
fn conditions_of_domains_are_told_wherever_a_domain_is() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE DOMAIN word AS TEXT CHECK (VALUE <> 'no')",
            "CREATE DOMAIN short AS word CHECK (length(VALUE) < 9)",
            "CREATE TYPE pair AS (one short, other INT)",
            "CREATE TABLE t (id INT PRIMARY KEY, \"A b\" TEXT, a word NOT NULL, b short NOT NULL, c short[] NOT NULL, d pair NOT NULL, e TEXT)",
            "ALTER TABLE t DROP COLUMN \"A b\"",
            "INSERT INTO t VALUES (1, 'a', 'b', '{c}', '(d,1)', 'e')",
        ],
    );
    let told = said(&url, &["--table", "t", "--null-as-empty"], 0);
    for column in ["a", "b", "parts of c", "parts of d"] {
        let condition = format!("{column}: (VALUE <> 'no'::text)");
        assert_eq!(told.matches(&condition).count(), 1, "{condition}: {told}");
        let condition = format!("{column}: (length((VALUE)::text) < 9)");
        let times = usize::from(column != "a");
        assert_eq!(told.matches(&condition).count(), times, "{told}");
    }
}

/// A key that forbids to delete a row that others refer to became one that deletes them, without a
/// word.
#[test]
fn keys_of_servers_that_do_not_cascade_are_told() {
    let statements = [
        "CREATE TABLE people (id INT PRIMARY KEY, n INT NOT NULL)",
        "CREATE TABLE a (id INT PRIMARY KEY, person INT NOT NULL, FOREIGN KEY (person) REFERENCES people(id) ON DELETE CASCADE)",
        "CREATE TABLE b (id INT PRIMARY KEY, person INT NOT NULL, FOREIGN KEY (person) REFERENCES people(id) ON DELETE RESTRICT)",
        "CREATE TABLE c (id INT PRIMARY KEY, person INT NOT NULL, FOREIGN KEY (person) REFERENCES people(id))",
        "CREATE TABLE d (id INT PRIMARY KEY, person INT, FOREIGN KEY (person) REFERENCES people(id) ON DELETE SET NULL)",
    ];
    let check = |database: &mut dyn Database, url: &str| {
        run(database, &statements);
        let told = said(url, &[], 0);
        let lines = told.lines().filter(|line| line.contains("deleting"));
        let lines: Vec<&str> = lines.collect();
        let line = |table: &str, there: &str| {
            format!(
                "here deleting a row of people also deletes the rows of {table} that refer to it by {table}.person: the other database would {there}"
            )
        };
        let expected = [
            line("b", "refuse it"),
            line("c", "refuse it"),
            line("d", "keep them"),
        ];
        assert_eq!(lines.len(), 3, "{told}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(&expected), "{told}");
        }
        let unlinked = ["b", "c", "d"].map(|table| format!("{table}.person"));
        let unlinked = unlinked.iter().flat_map(|it| ["--unlinked", it]);
        let unlinked: Vec<&str> = unlinked.collect();
        assert_eq!(said(url, &unlinked, 0), "");
    };
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    check(connect(&url).unwrap().as_mut(), &url);
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(database.as_mut(), &["CREATE DATABASE app"]);
    let url = mariadb::url(&socket, "app");
    check(connect(&url).unwrap().as_mut(), &url);
}

/// Tables, and databases, whose names differ in large and small letters mixed up their keys: a table
/// was refused for a key that it did not have.
#[test]
fn tables_of_mariadb_are_told_apart_by_each_letter() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(
        database.as_mut(),
        &["CREATE DATABASE app", "CREATE DATABASE App"],
    );
    let url = mariadb::url(&socket, "app");
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE far (id INT PRIMARY KEY)",
            "CREATE TABLE users (id INT PRIMARY KEY, mail VARCHAR(50) COLLATE utf8mb4_nopad_bin NOT NULL UNIQUE)",
            "CREATE TABLE Users (id INT PRIMARY KEY, a INT, b INT AS (a + 1), UNIQUE (a, id), \
             mail VARCHAR(50) COLLATE utf8mb4_general_ci NOT NULL)",
            "CREATE TABLE App.users (id INT PRIMARY KEY, mail VARCHAR(50) COLLATE utf8mb4_general_ci, other INT UNIQUE, \
             FOREIGN KEY (other) REFERENCES app.far(id))",
        ],
    );
    assert_eq!(said(&url, &["--table", "users"], 0), "");
    let refused = said(&url, &["--table", "Users"], 1);
    assert!(
        refused.contains("cannot be kept: the generated column b, the unique key (a, id)\n"),
        "{refused}"
    );
}

/// Tables of `PostgreSQL` with partitions in two schemas.
const PARTITIONED: [&str; 15] = [
    "CREATE SCHEMA other",
    "CREATE TABLE p (id INT PRIMARY KEY, n TEXT NOT NULL)",
    "CREATE TABLE other.far (id INT PRIMARY KEY)",
    "CREATE TABLE other.ev (id INT PRIMARY KEY, p INT NOT NULL REFERENCES p(id) ON DELETE CASCADE, \
     q INT NOT NULL REFERENCES other.far(id), v TEXT NOT NULL) PARTITION BY RANGE (id)",
    "CREATE TABLE ev1 PARTITION OF other.ev FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE ev2 PARTITION OF other.ev FOR VALUES FROM (10) TO (30) PARTITION BY RANGE (id)",
    "CREATE TABLE ev2a PARTITION OF ev2 FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE other.ev2b PARTITION OF ev2 FOR VALUES FROM (20) TO (30)",
    "CREATE TABLE other.hidden PARTITION OF other.ev FOR VALUES FROM (30) TO (50) PARTITION BY RANGE (id)",
    "CREATE TABLE ev3 PARTITION OF other.hidden FOR VALUES FROM (30) TO (40)",
    "CREATE TABLE notes (id INT PRIMARY KEY, e INT NOT NULL REFERENCES other.ev(id), f INT NOT NULL REFERENCES ev1(id))",
    "INSERT INTO p VALUES (7, 'one'), (9, 'two')",
    "INSERT INTO other.far VALUES (1)",
    "INSERT INTO other.ev VALUES (1, 7, 1, 'a'), (2, 9, 1, 'b'), (11, 7, 1, 'c'), (21, 7, 1, 'd'), (31, 9, 1, 'e')",
    "INSERT INTO notes VALUES (1, 31, 2)",
];

/// A partition whose root is in another schema lost its foreign keys without a word, for the server
/// keeps them as copies of the root's, and one below another such partition was taken over twice. Each
/// is a table with its keys, or part of the table above it.
#[test]
fn partitions_of_a_root_elsewhere_are_tables_with_their_keys() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(database.as_mut(), &PARTITIONED);
    let place = Place::new();
    let told = place.json(&["create", "c", "--size", "16", "--from", &url]);
    let cut = told["cut_keys"].as_array().unwrap().iter();
    let mut cut: Vec<String> = cut.map(ToString::to_string).collect();
    cut.sort();
    let expected = [
        ("ev1.q", "other.far"),
        ("ev2.q", "other.far"),
        ("ev3.q", "other.far"),
        ("notes.e", "other.ev"),
    ];
    let expected =
        expected.map(|(column, target)| json!({"column": column, "target": target}).to_string());
    assert_eq!(cut, expected, "{told}");
    let schema = place.json(&["schema", "c"]);
    let tables = schema["tables"].as_array().unwrap();
    let mut names: Vec<&str> = tables
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["ev1", "ev2", "ev3", "notes", "p"]);
    for (table, rows) in [("ev1", 2), ("ev2", 2), ("ev3", 1)] {
        assert_eq!(place.count("c", table), rows, "{table}");
        let joined = format!("{table} JOIN p ON {table}.p = p.id");
        assert_eq!(place.count("c", &joined), rows, "{table}");
    }
    assert_eq!(place.count("c", "notes JOIN ev1 ON notes.f = ev1.id"), 1);
    let done = place.json(&["exec", "c", "DELETE FROM p WHERE id = 7"]);
    assert_eq!(done["rows_gone_along"], 3);
    assert_eq!(place.count("c", "ev2"), 0);
    // A key of the root that does not cascade is told of each partition, and may be unlinked.
    run(
        database.as_mut(),
        &[
            "ALTER TABLE other.ev DROP CONSTRAINT ev_p_fkey",
            "ALTER TABLE other.ev ADD FOREIGN KEY (p) REFERENCES p(id)",
        ],
    );
    let told = said(
        &url,
        &["--table", "p", "--table", "ev1", "--table", "ev2"],
        0,
    );
    for table in ["ev1", "ev2"] {
        let line = format!("deletes the rows of {table} that refer to it by {table}.p:");
        assert_eq!(told.matches(&line).count(), 1, "{told}");
    }
    let unlinked = ["--unlinked", "ev1.p", "--unlinked", "ev1.q"];
    let tables = ["--table", "p", "--table", "ev1"];
    assert_eq!(said(&url, &[&tables[..], &unlinked].concat(), 0), "");
}
