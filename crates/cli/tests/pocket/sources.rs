//! Databases of servers that are taken over: every row once, each column by its true type.

use probity_disguise::Database;
use probity_disguise::database::connect;
use probity_log::storage::not_shown;
use probity_testing::{mariadb, postgres};
use serde_json::{Value, json};

use crate::Place;

pub(crate) fn run(database: &mut dyn Database, statements: &[&str]) {
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
pub(crate) fn said(url: &str, options: &[&str], status: i32) -> String {
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
        stderr.contains("row 1 of endless") && stderr.contains("no finite number"),
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

/// Columns, keys and generated columns that the account may not see were left out without a word, with
/// status 0.
#[test]
fn a_table_of_mariadb_that_the_account_sees_in_part_is_refused() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut first = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(
        first.as_mut(),
        &[
            "CREATE DATABASE app",
            "CREATE TABLE app.people (id INT PRIMARY KEY, secret VARCHAR(9), name VARCHAR(20), twice INT AS (id + id) VIRTUAL)",
            "CREATE TABLE app.calls (id INT PRIMARY KEY, person INT NOT NULL REFERENCES people(id), aside INT INVISIBLE)",
            "CREATE TABLE app.days (id INT PRIMARY KEY, day INT NOT NULL)",
            "INSERT INTO app.days VALUES (1, 7)",
            "CREATE USER clerk@localhost",
            "GRANT SELECT (id, name) ON app.people TO clerk@localhost",
            "GRANT SELECT (id, person), DELETE ON app.calls TO clerk@localhost",
            "GRANT SELECT ON app.days TO clerk@localhost",
        ],
    );
    let url = mariadb::url(&socket, "app").replace("root@", "clerk@");
    for table in ["people", "calls"] {
        let refused = said(&url, &["--table", table], 1);
        let hidden = format!("may not see all columns and keys of the table {table}");
        assert!(refused.contains(&hidden), "{refused}");
    }
    said(&url, &["--table", "days"], 0);
    // A right to each column shows no foreign key.
    run(
        first.as_mut(),
        &[
            "GRANT SELECT (aside) ON app.calls TO clerk@localhost",
            "REVOKE DELETE ON app.calls FROM clerk@localhost",
        ],
    );
    assert!(said(&url, &["--table", "calls"], 1).contains("columns and keys"));
    run(
        first.as_mut(),
        &["GRANT SELECT ON app.calls TO clerk@localhost"],
    );
    assert!(said(&url, &["--table", "calls"], 0).contains("calls.person refers to people"));
    // A role counts as the account does.
    run(
        first.as_mut(),
        &[
            "DROP USER clerk@localhost",
            "CREATE USER clerk@localhost",
            "CREATE ROLE reader",
            "GRANT SELECT ON app.* TO reader",
            "GRANT reader TO clerk@localhost",
            "SET DEFAULT ROLE reader FOR clerk@localhost",
        ],
    );
    said(&url, &["--table", "calls"], 0);
    assert!(said(&url, &["--table", "people"], 1).contains("generated column twice"));
}

/// Unique indexes over an expression or of some rows, `EXCLUDE` and conditions were lost without a
/// word.
#[test]
fn rules_of_postgres_that_no_key_stands_for_are_refused_or_told() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE a (id INT PRIMARY KEY, mail TEXT NOT NULL)",
            "CREATE UNIQUE INDEX lowered ON a (lower(mail))",
            "CREATE TABLE b (id INT PRIMARY KEY, n INT NOT NULL)",
            "CREATE UNIQUE INDEX few ON b (n) WHERE n > 5",
            "CREATE TABLE c (id INT PRIMARY KEY, n INT NOT NULL, CONSTRAINT other EXCLUDE USING btree (n WITH =))",
            "CREATE TABLE d (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0), word TEXT NOT NULL UNIQUE)",
            "CREATE TABLE e (id INT PRIMARY KEY, n INT NOT NULL, twice INT GENERATED ALWAYS AS (n + n) STORED)",
        ],
    );
    for (table, loss) in [
        ("a", "the key lowered, which"),
        ("b", "the key few, which"),
        ("c", "the key other, which"),
        ("e", "the generated column twice"),
    ] {
        let refused = said(&url, &["--table", table], 1);
        assert!(refused.contains(loss), "{refused}");
        said(&url, &["--table", table, "--plain", table], 0);
    }
    let told = said(&url, &["--table", "d"], 0);
    assert!(
        told.contains("conditions of d: ") && told.contains("n > 0"),
        "{told}"
    );
    assert!(!told.contains("by its bytes"), "{told}");
}

/// A unique index of another collation than its column's was dropped without a word, and so was told
/// nothing of unique numbers that are texts here, and of those of an index without case.
#[test]
fn unique_keys_of_postgres_that_are_weaker_here_are_told() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    let weak =
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    let has_icu = database.execute(weak, &[]).is_ok();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE c (id INT PRIMARY KEY, k NUMERIC NOT NULL UNIQUE)",
            "INSERT INTO c VALUES (1, 1.0)",
            "CREATE TABLE d (id INT PRIMARY KEY, k VARCHAR(9) NOT NULL UNIQUE, n DOUBLE PRECISION NOT NULL UNIQUE)",
        ],
    );
    assert!(said(&url, &["--table", "c"], 0).contains("c.k is unique here by its bytes"));
    assert_eq!(said(&url, &["--table", "d"], 0), "");
    if !has_icu {
        let reason = "this PostgreSQL has no collations of ICU";
        not_shown("unique keys of an index without case", reason);
        return;
    }
    run(
        database.as_mut(),
        &[
            "CREATE TABLE a (id INT PRIMARY KEY, k TEXT COLLATE ci NOT NULL)",
            "CREATE UNIQUE INDEX ON a (k COLLATE \"C\")",
            "INSERT INTO a VALUES (1, 'A'), (2, 'a')",
            "CREATE TABLE b (id INT PRIMARY KEY, k TEXT NOT NULL)",
            "CREATE UNIQUE INDEX ON b (k COLLATE ci)",
            "INSERT INTO b VALUES (1, 'abc')",
        ],
    );
    assert!(said(&url, &["--table", "b"], 0).contains("b.k is unique here by its bytes"));
    let place = Place::new();
    let create = ["create", "a", "--from", &url, "--table", "a", "--size", "8"];
    assert_eq!(place.run(&create, 0).1, "");
    let again = "INSERT INTO a (k) VALUES ('A')";
    let (_, refused) = place.run(&["exec", "a", again], 1);
    assert!(refused.contains("in another row already"), "{refused}");
}

/// Rows of tables that inherit from another were taken over twice: in their own table and in that one.
#[test]
fn rows_of_heirs_in_postgres_are_taken_over_once() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE towns (id INT NOT NULL PRIMARY KEY, n TEXT NOT NULL)",
            "CREATE TABLE capitals (land TEXT NOT NULL) INHERITS (towns)",
            "INSERT INTO towns VALUES (1, 'one')",
            "INSERT INTO capitals VALUES (2, 'two', 'x')",
        ],
    );
    let queries = ["SELECT n FROM towns", "SELECT n FROM capitals"];
    let found = taken(&url, &[], &queries);
    assert_eq!(found, [[json!({"n": "one"})], [json!({"n": "two"})]]);
}

/// Collations of `MariaDB` that compare bytes take texts with other spaces at their end for equal, and
/// nothing was said of them.
#[test]
fn unique_keys_of_mariadb_that_are_weaker_here_are_told() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let url = mariadb::url(&socket, "app");
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    run(database.as_mut(), &["CREATE DATABASE app"]);
    let mut database = connect(&url).unwrap();
    for (number, (column, is_told)) in [
        ("VARCHAR(9) COLLATE utf8mb4_bin", true),
        ("VARCHAR(9) COLLATE utf8mb4_general_ci", true),
        ("VARCHAR(9) COLLATE utf8mb4_nopad_bin", false),
        ("CHAR(9) COLLATE utf8mb4_nopad_bin", true),
        ("DECIMAL(9, 2)", true),
        ("BIGINT", false),
        ("DOUBLE", false),
    ]
    .into_iter()
    .enumerate()
    {
        let table = format!("t{number}");
        let made = format!("CREATE TABLE {table} (id INT PRIMARY KEY, k {column} NOT NULL UNIQUE)");
        run(database.as_mut(), &[&made]);
        let told = said(&url, &["--table", &table], 0);
        assert_eq!(
            told.contains("k is unique here by its bytes"),
            is_told,
            "{column}: {told}"
        );
    }
}

/// An integer of `PostgreSQL` that refers to a column of doubles became the nearest double, with status
/// 0. It is refused with its row, and a value that is exactly one of the column's comes along.
#[test]
fn a_key_of_postgres_between_two_types_takes_exact_values_alone() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    run(
        database.as_mut(),
        &[
            "CREATE TABLE a (id INT PRIMARY KEY, u DOUBLE PRECISION NOT NULL UNIQUE, n NUMERIC NOT NULL UNIQUE)",
            "CREATE TABLE b (id INT PRIMARY KEY, u BIGINT NOT NULL REFERENCES a(u) ON DELETE CASCADE)",
            "CREATE TABLE c (id INT PRIMARY KEY, n BIGINT NOT NULL REFERENCES a(n) ON DELETE CASCADE)",
            "INSERT INTO a VALUES (1, 9007199254740992, 5), (2, 2, 2.00)",
            "INSERT INTO b VALUES (1, 2), (2, 9007199254740992)",
            "INSERT INTO c VALUES (1, 5)",
        ],
    );
    let found = taken(&url, &[], &["SELECT u FROM b", "SELECT n FROM c"]);
    let numbers = [json!({"u": 2.0}), json!({"u": 9_007_199_254_740_992.0})];
    assert_eq!(found[0], numbers);
    assert_eq!(found[1], [json!({"n": "5"})]);
    for (insert, said_of) in [
        (
            "INSERT INTO b VALUES (3, 9007199254740993)",
            "row 3 of b: b.u leads to no row",
        ),
        (
            "INSERT INTO c VALUES (3, 2)",
            "row 2 of c: c.n leads to no row",
        ),
    ] {
        run(database.as_mut(), &[insert]);
        let refused = said(&url, &[], 1);
        let table = if insert.contains(" b ") { "b" } else { "c" };
        let column = if table == "b" { "b.u" } else { "c.n" };
        assert!(refused.contains(said_of), "{refused}");
        assert!(
            refused.contains(&format!("--unlinked {column}")),
            "{refused}"
        );
        let delete = format!("DELETE FROM {table} WHERE id = 3");
        run(database.as_mut(), &[&delete]);
    }
}
