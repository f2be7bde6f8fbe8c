//! Statements one by one: what they do, and what is refused with its place.

use probity_pocketdb::{Error, Outcome, Value};

use crate::pair::{Cell, Kept, Pair};

fn shop() -> Pair {
    let mut pair = Pair::new(65_536, 60);
    for text in [
        "CREATE TABLE town (id INTEGER PRIMARY KEY, name CHAR(10) INDEXED)",
        "CREATE TABLE person (id INTEGER PRIMARY KEY, town INTEGER REFERENCES town(id), \
         name VARCHAR(20) UNIQUE, age INTEGER, INDEX (age))",
        "CREATE TABLE visit (person VARCHAR(20) REFERENCES person(name) ON DELETE CASCADE, \
         day INTEGER NOT NULL, cost REAL) STORED AS ROWS",
        "INSERT INTO town (name) VALUES ('Rome'), ('Oslo')",
        "INSERT INTO person VALUES (1, 1, 'Ada', 30), (2, 2, 'O''Brien', 40), (NULL, 2, 'Cy', 30)",
        "INSERT INTO visit VALUES ('Ada', 1, 2.5), ('O''Brien', 1, 1), ('Ada', 2, -1e1)",
    ] {
        pair.own(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    pair
}

fn texts(kept: &Kept) -> Vec<String> {
    let cell = |cell: &Cell| match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(number) => format!("{number}"),
        Cell::Real(number) => format!("{number:?}"),
        Cell::Text(text) => text.clone(),
    };
    let row = |row: &Vec<Cell>| row.iter().map(cell).collect::<Vec<_>>().join("|");
    kept.rows.iter().map(row).collect()
}

#[test]
fn the_parts_of_a_query_work_together() {
    let mut pair = shop();
    let mut ask = |text: &str| texts(&pair.own(text).unwrap().1);
    assert_eq!(
        ask("SELECT * FROM person ORDER BY id"),
        ["1|1|Ada|30", "2|2|O'Brien|40", "3|2|Cy|30"]
    );
    assert_eq!(
        ask(
            "select v.day, p.name, t.name from visit v join person p on v.person = p.name \
             join town t on t.id = p.town where t.name = 'Rome' order by day desc"
        ),
        ["2|Ada|Rome", "1|Ada|Rome"]
    );
    assert_eq!(
        ask(
            "SELECT person, COUNT(*), SUM(cost) AS total FROM visit GROUP BY person ORDER BY total"
        ),
        ["Ada|2|-7.5", "O'Brien|1|1.0"]
    );
    assert_eq!(
        ask("SELECT DISTINCT age FROM person ORDER BY 1"),
        ["30", "40"]
    );
    assert_eq!(
        ask("SELECT AVG(age), MIN(name), MAX(name) FROM person"),
        ["33.333333333333336|Ada|O'Brien"]
    );
    assert_eq!(
        ask("SELECT COUNT(*), SUM(age), MAX(name) FROM person WHERE age > 90"),
        ["0|NULL|NULL"]
    );
    assert_eq!(
        ask("SELECT name FROM person WHERE age IN (40, 41) OR name = 'Cy'"),
        ["Cy", "O'Brien"]
    );
    assert_eq!(
        ask("SELECT name FROM person ORDER BY id LIMIT 1 OFFSET 1;"),
        ["O'Brien"]
    );
    assert!(ask("SELECT name FROM person LIMIT 0").is_empty());
}

#[test]
fn parameters_stand_for_values_and_titles_are_given() {
    let mut pair = shop();
    let mut kept = Kept::default();
    let text = "SELECT name AS who, COUNT(*) FROM person WHERE age = ? AND name <> ? GROUP BY name";
    let parameters = [Value::Integer(30), Value::Text("Cy")];
    let outcome = pair.store().execute(text, &parameters, &mut kept).unwrap();
    assert_eq!(outcome, Outcome::Shown(1));
    assert_eq!(kept.columns, ["who", "COUNT(*)"]);
    assert_eq!(texts(&kept), ["Ada|1"]);
    for wrong in [
        &parameters[..1],
        &[Value::Integer(1); 3],
        &[Value::Text("x"), Value::Text("y")],
    ] {
        let result = pair.store().execute(text, wrong, &mut Kept::default());
        assert!(matches!(result, Err(Error::Sql { .. })), "{wrong:?}");
    }
}

#[test]
fn deletes_reach_what_references_and_updates_are_found() {
    let mut pair = shop();
    let outcome = pair
        .own("UPDATE town SET name = 'Roma' WHERE name = 'Rome'")
        .unwrap()
        .0;
    assert_eq!(outcome, Outcome::Changed(1));
    let visits = "SELECT COUNT(*) FROM visit, person, town WHERE visit.person = person.name \
                  AND person.town = town.id AND town.name = ";
    assert_eq!(
        texts(&pair.own(&format!("{visits}'Roma'")).unwrap().1),
        ["2"]
    );
    assert_eq!(
        texts(&pair.own(&format!("{visits}'Rome'")).unwrap().1),
        ["0"]
    );
    assert_eq!(
        pair.own("DELETE FROM town WHERE id = 1").unwrap().0,
        Outcome::Changed(1)
    );
    assert_eq!(
        texts(&pair.own("SELECT person FROM visit").unwrap().1),
        ["O'Brien"]
    );
    let refused = pair.own("INSERT INTO person VALUES (4, 1, 'Dee', 1)");
    assert!(matches!(refused, Err(Error::Key(_))));
    // The key of a row deleted with its town can be used again.
    pair.own("INSERT INTO person VALUES (4, 2, 'Ada', 1)")
        .unwrap();
}

#[test]
fn keys_and_values_that_break_a_rule_are_refused_by_name() {
    let mut pair = shop();
    for (text, words) in [
        (
            "INSERT INTO person VALUES (4, 2, 'Ada', 1)",
            "name has this value",
        ),
        (
            "INSERT INTO person VALUES (9, 2, 'Dee', 1)",
            "the next row of person is 4",
        ),
        (
            "INSERT INTO person VALUES (4, 7, 'Dee', 1)",
            "town has no row 7",
        ),
        (
            "INSERT INTO visit VALUES ('Zed', 1, 1.0)",
            "person has no row Zed",
        ),
        (
            "INSERT INTO town (name) VALUES ('a name too long')",
            "name: a text of 15 bytes",
        ),
        (
            "UPDATE town SET name = 'a name too long'",
            "name: a text of 15 bytes",
        ),
        (
            "INSERT INTO town (name) VALUES (7)",
            "a text is expected, not an integer",
        ),
        (
            "INSERT INTO town (name) VALUES (NULL)",
            "a text is expected, not NULL",
        ),
    ] {
        let error = pair.own(text).unwrap_err();
        assert!(error.to_string().contains(words), "{text}: {error}");
    }
    assert_eq!(
        texts(&pair.own("SELECT COUNT(*) FROM person").unwrap().1),
        ["3"]
    );
}

/// Statements, where they stop making sense, and what is said of that.
const REFUSED: [(&str, usize, &str); 35] = [
    ("CHOOSE 1", 0, "CHOOSE is not supported"),
    ("SELECT name FROM persons", 17, "there is no table persons"),
    ("SELECT mail FROM person", 7, "there is no column mail"),
    (
        "SELECT name FROM person WHERE name LIKE 'A%'",
        35,
        "LIKE is not supported",
    ),
    (
        "SELECT name FROM person WHERE age IS NULL",
        34,
        "IS is not supported",
    ),
    ("SELECT name FROM person, town", 25, "town is not joined"),
    (
        "SELECT name FROM person p LEFT JOIN town",
        26,
        "LEFT is not supported",
    ),
    (
        "SELECT a.name FROM person a, person b",
        29,
        "joined to itself",
    ),
    (
        "SELECT town FROM person, visit WHERE visit.person = person.name OR age = 1",
        37,
        "a join inside OR",
    ),
    (
        "SELECT name FROM person WHERE age = 'x'",
        36,
        "an integer is expected, not a text",
    ),
    (
        "SELECT name FROM person GROUP BY age HAVING COUNT(*) > 1",
        37,
        "HAVING is not supported",
    ),
    (
        "SELECT name, COUNT(*) FROM person GROUP BY age",
        46,
        "not among them",
    ),
    (
        "SELECT LENGTH(name) FROM person",
        7,
        "the function LENGTH is not supported",
    ),
    ("SELECT SUM(name) FROM person", 11, "a text cannot be added"),
    (
        "SELECT name FROM person UNION SELECT name FROM town",
        24,
        "UNION is not supported",
    ),
    (
        "SELECT name FROM person WHERE age = (SELECT 1)",
        36,
        "a value is expected",
    ),
    (
        "SELECT name FROM person WHERE (age = 1",
        38,
        ") is expected",
    ),
    ("SELECT age + 1 FROM person", 11, "+ is not supported"),
    (
        "SELECT COUNT(DISTINCT age) FROM person",
        13,
        "DISTINCT is not supported",
    ),
    (
        "UPDATE person SET age = 1, town = 2",
        27,
        "keys and references cannot be changed",
    ),
    ("UPDATE person SET age = 1 + 1", 26, "+ is not supported"),
    (
        "CREATE TABLE x (a INTEGER DEFAULT 1)",
        26,
        "DEFAULT is not supported",
    ),
    (
        "CREATE TABLE x (a BLOB)",
        18,
        "the type BLOB is not supported",
    ),
    ("CREATE TABLE x (a TEXT)", 22, "largest length"),
    ("CREATE INDEX i ON person(age)", 7, "INDEX is not supported"),
    ("DROP TABLE person", 0, "DROP is not supported"),
    ("alter table person ADD x", 0, "ALTER is not supported"),
    ("PRAGMA page_size", 0, "PRAGMA is not supported"),
    ("WITH x AS (SELECT 1) SELECT 1", 0, "WITH is not supported"),
    ("VACUUM", 0, "VACUUM is not supported"),
    ("(SELECT 1)", 0, "a statement begins with a word"),
    (
        "SELECT age FROM person WHERE age = 9223372036854775808",
        35,
        "the number exceeds 64 bits",
    ),
    (
        "INSERT INTO person SELECT * FROM person",
        19,
        "SELECT is not supported",
    ),
    ("COMMIT", 6, "no transaction is open"),
    (
        "SELECT name FROM person; SELECT 1",
        25,
        "the statement should end",
    ),
];

#[test]
fn what_is_not_supported_is_refused_with_its_place() {
    let mut pair = shop();
    let deep = format!("SELECT name FROM person WHERE {}age = 1", "NOT ".repeat(13));
    let too_deep = Error::Sql {
        at: 82,
        what: "the condition is nested too deeply".into(),
    };
    assert_eq!(pair.own(&deep).unwrap_err(), too_deep);
    for (text, at, words) in REFUSED {
        match pair.own(text) {
            Err(Error::Sql { at: found, what }) => {
                assert!(what.contains(words), "{text}: {what}");
                assert_eq!(found, at, "{text}: {what}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(
        texts(&pair.own("SELECT COUNT(*) FROM person").unwrap().1),
        ["3"]
    );
}

#[test]
fn a_transaction_is_made_as_a_whole_or_not_at_all() {
    let mut pair = shop();
    let count = "SELECT COUNT(*) FROM person";
    pair.own("BEGIN").unwrap();
    pair.own("DELETE FROM person WHERE name = 'Cy'").unwrap();
    pair.own("INSERT INTO person VALUES (4, 2, 'Dee', 1)")
        .unwrap();
    assert_eq!(
        texts(&pair.own("SELECT name FROM person WHERE age = 1").unwrap().1),
        ["Dee"]
    );
    pair.own("ROLLBACK").unwrap();
    assert_eq!(texts(&pair.own(count).unwrap().1), ["3"]);
    assert!(texts(&pair.own("SELECT name FROM person WHERE age = 1").unwrap().1).is_empty());
    pair.own("BEGIN").unwrap();
    pair.own("UPDATE person SET age = 77 WHERE id = 1").unwrap();
    // A failed statement takes the transaction with it.
    assert!(
        pair.own("INSERT INTO person VALUES (4, 9, 'Dee', 1)")
            .is_err()
    );
    assert!(pair.own("COMMIT").is_err());
    assert_eq!(
        texts(
            &pair
                .own("SELECT COUNT(*) FROM person WHERE age = 77")
                .unwrap()
                .1
        ),
        ["0"]
    );
    pair.own("BEGIN").unwrap();
    pair.own("UPDATE person SET age = 77 WHERE id = 1").unwrap();
    pair.own("COMMIT").unwrap();
    pair.reopen();
    assert_eq!(
        texts(
            &pair
                .own("SELECT name FROM person WHERE age = 77")
                .unwrap()
                .1
        ),
        ["Ada"]
    );
}

#[test]
fn an_explanation_names_indexes_passes_and_transfers() {
    let mut pair = shop();
    let text = "EXPLAIN SELECT COUNT(*) FROM visit, person WHERE visit.person = person.name \
                AND age = 30 AND day > 1";
    let lines = texts(&pair.own(text).unwrap().1);
    assert_eq!(lines[0], "root visit, 3 rows");
    assert_eq!(lines[1], "person.age =: by index person.age -> visit");
    assert_eq!(lines[2], "visit.day >: row by row");
    assert_eq!(lines[3], "result 1 rows");
    assert!(lines[4].starts_with("sorting 0 runs"), "{}", lines[4]);
    assert!(lines[5].contains("page reads"), "{}", lines[5]);
    let by_id = texts(&pair.own("EXPLAIN SELECT day FROM visit, person WHERE visit.person = person.name AND person.id = 1").unwrap().1);
    assert_eq!(by_id[1], "person.id =: by index person.id -> visit");
    let own_id = texts(
        &pair
            .own("EXPLAIN SELECT name FROM person WHERE id = 1")
            .unwrap()
            .1,
    );
    assert_eq!(own_id[1], "person.id =: by position");
}

/// P6: the lowest number could be imported, but no statement could name it.
#[test]
fn the_lowest_number_is_a_literal() {
    let mut pair = shop();
    let lowest = "-9223372036854775808";
    let insert = format!("INSERT INTO person VALUES (4, 1, 'Low', {lowest})");
    pair.own(&insert).unwrap();
    let select = format!("SELECT name FROM person WHERE age = {lowest}");
    assert_eq!(texts(&pair.own(&select).unwrap().1), ["Low"]);
    assert_eq!(
        texts(&pair.own("SELECT MIN(age) FROM person").unwrap().1),
        [lowest]
    );
}

/// P7: a statement that needed more than its share was refused with two numbers of which the lesser was needed.
#[test]
fn a_statement_too_large_for_its_share_is_refused_with_how_large() {
    let mut pair = shop();
    let comparisons = (0..24).map(|number| format!("name <> 'name {number}'"));
    let comparisons: Vec<String> = comparisons.collect();
    let columns = "name, age, id, name, age, id, name, age, id, name, age, id";
    let text = format!(
        "SELECT DISTINCT {columns} FROM person WHERE {} ORDER BY name, age",
        comparisons.join(" AND ")
    );
    match pair.own(&text) {
        Err(Error::Share { needed, given }) => assert!(needed > given, "{needed} of {given}"),
        other => panic!("{:?}", other.map(|(outcome, _)| outcome)),
    }
}

/// Words of the language were no names even in quotes.
#[test]
fn a_word_of_the_language_in_quotes_is_a_name() {
    let mut pair = shop();
    for text in [
        "CREATE TABLE \"order\" (id INTEGER PRIMARY KEY, \"group\" TEXT(9) INDEXED, \"select\" INTEGER, \"null\" REAL)",
        "INSERT INTO \"order\" (\"group\", \"select\", \"null\") VALUES ('a', 1, 2), ('b', 3, 4)",
        "UPDATE \"order\" SET \"select\" = 5 WHERE \"group\" = 'b'",
    ] {
        pair.own(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let mut ask = |text: &str| texts(&pair.own(text).unwrap().1);
    assert_eq!(
        ask(
            "SELECT \"order\".*, \"null\" AS \"from\" FROM \"order\" WHERE \"order\".\"group\" = 'b' ORDER BY \"from\""
        ),
        ["2|b|5|4.0|4.0"]
    );
    assert_eq!(
        ask(
            "SELECT \"group\", SUM(\"select\") FROM \"order\" GROUP BY \"group\" ORDER BY \"group\""
        ),
        ["a|1", "b|5"]
    );
    for text in [
        "SELECT \"group\" FROM order",
        "\"SELECT\" \"group\" FROM \"order\"",
        "SELECT \"group\" \"FROM\" \"order\"",
    ] {
        assert!(matches!(pair.own(text), Err(Error::Sql { .. })), "{text}");
    }
}

/// A sum above the largest number was shown as infinity.
#[test]
fn a_sum_that_no_number_holds_is_refused() {
    let mut pair = shop();
    let insert = "INSERT INTO visit VALUES ('Ada', 3, 1e308), ('Ada', 4, 1e308)";
    pair.own(insert).unwrap();
    for function in ["SUM", "AVG"] {
        let text = format!("SELECT {function}(cost) FROM visit");
        assert!(matches!(pair.own(&text), Err(Error::Value(_))), "{text}");
    }
    assert_eq!(
        texts(&pair.own("SELECT MAX(cost) FROM visit").unwrap().1),
        ["1e308"]
    );
}

/// A table was accepted of which no query could show a whole row.
#[test]
fn a_table_whose_rows_no_query_can_show_is_refused_with_the_numbers() {
    let mut pair = shop();
    let wide = |bytes: u32| {
        format!(
            "CREATE TABLE wide{bytes} (id INTEGER PRIMARY KEY, a TEXT(900), b TEXT({bytes}), c TEXT(128))"
        )
    };
    match pair.own(&wide(950)) {
        Err(Error::Refused(what)) => assert!(what.contains("bytes"), "{what}"),
        other => panic!("{:?}", other.map(|(outcome, _)| outcome)),
    }
    for bytes in [1, 300, 600, 900] {
        if pair.own(&wide(bytes)).is_ok() {
            pair.own(&format!(
                "INSERT INTO wide{bytes} (a, b, c) VALUES ('1', '2', '3')"
            ))
            .unwrap();
            let shown = pair.own(&format!("SELECT * FROM wide{bytes}")).unwrap().1;
            assert_eq!(texts(&shown), ["1|1|2|3"]);
        } else {
            assert_eq!(bytes, 900);
        }
    }
}

#[test]
fn the_limit_of_tables_is_named() {
    let mut pair = shop();
    let mut refused = None;
    for number in 0..14 {
        let text = format!("CREATE TABLE more{number} (id INTEGER PRIMARY KEY, n INTEGER)");
        refused = pair.own(&text).err();
    }
    let said = refused.unwrap().to_string();
    assert!(said.contains("16"), "{said}");
}

/// `PRIMARY KEY` and `UNIQUE` were taken for a referencing column and never kept.
#[test]
fn a_unique_reference_is_kept_in_every_spelling() {
    for declared in [
        "p INTEGER UNIQUE REFERENCES p(id), w TEXT(9)",
        "p INTEGER REFERENCES p(id) UNIQUE, w TEXT(9)",
        "p INTEGER PRIMARY KEY REFERENCES p(id), w TEXT(9)",
        "p INTEGER REFERENCES p(id) PRIMARY KEY, w TEXT(9)",
        "p INTEGER PRIMARY KEY, w TEXT(9), FOREIGN KEY (p) REFERENCES p(id)",
        "p INTEGER, w TEXT(9), FOREIGN KEY (p) REFERENCES p(id), PRIMARY KEY (p)",
        "w TEXT(9), o INTEGER REFERENCES o, p INTEGER UNIQUE REFERENCES p(id)",
    ] {
        let mut pair = shop();
        let mut run = |text: &str| pair.store().execute(text, &[], &mut Kept::default());
        run("CREATE TABLE p (id INTEGER PRIMARY KEY, v TEXT(9))").unwrap();
        run("CREATE TABLE o (id INTEGER PRIMARY KEY, v TEXT(9))").unwrap();
        run("INSERT INTO p (v) VALUES ('x'), ('y')").unwrap();
        run("INSERT INTO o (v) VALUES ('x'), ('y')").unwrap();
        run(&format!("CREATE TABLE c ({declared})")).unwrap();
        let insert = |p: i64| {
            if declared.contains("REFERENCES o") {
                format!("INSERT INTO c (p, w, o) VALUES ({p}, 'w', 1)")
            } else {
                format!("INSERT INTO c (p, w) VALUES ({p}, 'w')")
            }
        };
        run(&insert(1)).unwrap();
        let twice = run(&insert(1)).unwrap_err().to_string();
        assert!(
            twice.contains("p has this value in another row"),
            "{declared}: {twice}"
        );
        run(&insert(2)).unwrap();
        // One transaction sees its own rows, and a deleted row stands in nobody's way.
        run("DELETE FROM c WHERE w = 'w'").unwrap();
        run("BEGIN").unwrap();
        run(&insert(2)).unwrap();
        assert!(run(&insert(2)).is_err(), "{declared}");
    }
}

/// A unique column that refers to a table has no bytes. A reference to it was taken, and its first
/// row ended the program.
#[test]
fn a_reference_to_a_reference_is_refused_by_name() {
    let mut pair = shop();
    let mut run = |text: &str| pair.store().execute(text, &[], &mut Kept::default());
    run("CREATE TABLE p (id INTEGER PRIMARY KEY, v TEXT(9))").unwrap();
    run("CREATE TABLE c (p INTEGER UNIQUE REFERENCES p(id), w TEXT(9))").unwrap();
    let refused = run("CREATE TABLE g (x INTEGER REFERENCES c(p), z TEXT(9))");
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("c.p refers to p itself"), "{refused}");
}

/// An infinity came in as a parameter, and was shown and signed as null.
#[test]
fn a_number_that_is_not_finite_is_refused() {
    let mut pair = shop();
    let mut run =
        |text: &str, values: &[Value<'_>]| pair.store().execute(text, values, &mut Kept::default());
    run("CREATE TABLE m (r REAL)", &[]).unwrap();
    for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        let insert = "INSERT INTO m (r) VALUES (?)";
        let refused = run(insert, &[Value::Real(number)]).unwrap_err().to_string();
        assert!(
            refused.contains("r: ") && refused.contains("no finite number"),
            "{refused}"
        );
    }
}
