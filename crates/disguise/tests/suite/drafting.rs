//! Drafts of users tables that are particular about their rows, applied as they are.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Database, Dialect, Engine, Error, KeyCost, SpecFile, Value, draft};

use super::forum::time;
use super::member::{Member, NOTES};

/// A users table with a condition, a unique key or a type of its own on each column.
fn particular(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Sqlite => &[
            "CREATE TABLE members (id INTEGER PRIMARY KEY, handle VARCHAR(12) NOT NULL UNIQUE, code CHAR(6) NOT NULL CHECK (length(code) = 6 AND code = upper(code)),
               role TEXT NOT NULL CONSTRAINT known_role CHECK (role IN ('reader', 'writer')), settings JSON NOT NULL CHECK (json_valid(settings)),
               age INT NOT NULL, born DATE NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, seen_at INT NOT NULL DEFAULT 7,
               sign TEXT GENERATED ALWAYS AS (handle || code) STORED, email TEXT, phone TEXT, country INT NOT NULL REFERENCES countries(id),
               CONSTRAINT grown CHECK (age >= 18 AND age < 150), CHECK (email IS NOT NULL OR phone IS NOT NULL))",
        ],
        Dialect::Mysql => &[
            "CREATE TABLE members (id INT PRIMARY KEY, handle VARCHAR(12) NOT NULL UNIQUE, code CHAR(6) NOT NULL CHECK (char_length(code) = 6 AND code LIKE 'A%'),
               role ENUM('rea''der','writer') NOT NULL, marks SET('x','y') NOT NULL, settings JSON NOT NULL, bits BIT(3) NOT NULL, place INET6 NOT NULL, y YEAR NOT NULL,
               age INT NOT NULL, born DATE NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, seen_at INT NOT NULL DEFAULT 7,
               sign INT GENERATED ALWAYS AS (age + 1) STORED, email TEXT, phone TEXT, country INT NOT NULL REFERENCES countries(id),
               CONSTRAINT grown CHECK (age >= 18 AND age < 150), CONSTRAINT reachable CHECK (email IS NOT NULL OR phone IS NOT NULL))",
        ],
        _ => &[
            "CREATE TYPE role AS ENUM ('reader', 'writer')",
            "CREATE DOMAIN postcode AS VARCHAR(9) CHECK (VALUE ~ '^[0-9]{5}$')",
            "CREATE DOMAIN share AS INT NOT NULL CHECK (VALUE BETWEEN 40 AND 60)",
            "CREATE TABLE members (id INT GENERATED ALWAYS AS IDENTITY, handle VARCHAR(12) NOT NULL UNIQUE, code postcode NOT NULL, part share,
               role role NOT NULL, settings JSONB NOT NULL, bits BIT(3) NOT NULL, place INET NOT NULL, tags TEXT[] NOT NULL, span INT4RANGE NOT NULL, wait INTERVAL NOT NULL,
               age INT NOT NULL, born DATE NOT NULL, created_at TIMESTAMPTZ NOT NULL DEFAULT now(), seen_at INT NOT NULL DEFAULT 7, token UUID NOT NULL UNIQUE,
               sign TEXT GENERATED ALWAYS AS (handle || age::text) STORED, email TEXT, phone TEXT, country INT NOT NULL REFERENCES countries(id),
               PRIMARY KEY (id), CONSTRAINT grown CHECK (age >= 18 AND age < 150), CHECK (email IS NOT NULL OR phone IS NOT NULL)) PARTITION BY HASH (id)"
                ,
        ],
    }
}

fn filled() -> Box<dyn Database> {
    let mut database = crate::connect();
    let dialect = database.dialect();
    let run = |database: &mut Box<dyn Database>, sql: &str| {
        database.execute(sql, &[]).unwrap();
    };
    run(&mut database, "CREATE TABLE countries (id INT PRIMARY KEY)");
    run(&mut database, "INSERT INTO countries VALUES (49)");
    for sql in particular(dialect) {
        // Keys over the whole of a table that is in partitions must have what parts it.
        let whole = sql.replace(" PARTITION BY HASH (id)", "");
        run(&mut database, &whole);
    }
    run(
        &mut database,
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id), what VARCHAR(20))",
    );
    database
}

fn of_members(database: &mut Box<dyn Database>) -> String {
    draft(database, Some("members")).unwrap().text
}

/// D12, D14: an enumeration got random letters, a text of JSON, too, a condition was not looked at, and all placeholders of a person
/// shared the moment of their making.
pub(crate) fn a_draft_makes_placeholders_that_the_database_takes() {
    let mut database = filled();
    let dialect = database.dialect();
    let text = of_members(&mut database);
    let file = SpecFile::parse(&text).unwrap();
    let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    let tried = engine.preview().try_placeholder(time());
    assert!(matches!(tried, Ok(None)), "{tried:?}\n{text}");
    let count = "SELECT COUNT(*) FROM members";
    assert_eq!(
        engine.database().query(count, &[]).unwrap().concat(),
        [Value::Int(0)]
    );
    for part in [
        "age = { ConstNum = 18 }",
        "country = { ConstNum = 49 }",
        "created_at = { ConstStr = \"2000-01-01 00:00:00\" }",
        "seen_at = { ConstNum = 946684800 }",
    ] {
        let part = part.replacen(" = ", "\" = ", 1);
        assert!(text.contains(&format!("\"{part}")), "{part}: {text}");
    }
    assert!(
        !text.contains("Timestamp") && !text.contains("sign"),
        "{text}"
    );
    // People of the same kind leave and return.
    let member = match dialect {
        Dialect::Sqlite => {
            "INSERT INTO members (id, handle, code, role, settings, age, born, email, country) VALUES (1, 'one', 'ABCDEF', 'reader', '{}', 40, '1980-01-01', 'a@b.example', 49)"
        }
        Dialect::Mysql => {
            "INSERT INTO members (id, handle, code, role, marks, settings, bits, place, y, age, born, email, country) VALUES (1, 'one', 'ABCDEF', 'writer', 'x', '{}', b'101', '::1', 2001, 40, '1980-01-01', 'a@b.example', 49)"
        }
        _ => {
            "INSERT INTO members (handle, code, part, role, settings, bits, place, tags, span, wait, age, born, email, token, country) VALUES ('one', '12345', 50, 'writer', '{}', B'101', '::1', '{}', 'empty', '1 day', 40, '1980-01-01', 'a@b.example', '00000000-0000-0000-0000-000000000001', 49)"
        }
    };
    for sql in [member, "INSERT INTO notes VALUES (6, 1, 'a'), (7, 1, 'b')"] {
        engine.database().execute(sql, &[]).unwrap();
    }
    let mut database = filled_again(engine);
    let decorrelating = of_members(&mut database).replacen(
        "[[remove]]",
        "[[decorrelate]]\nowners = [\"member\"]",
        1,
    );
    let mut member = Member::of(database, &decorrelating);
    member.leaves_and_returns(["members", "notes"]);
}

/// Takes the database out of `engine` for another one.
fn filled_again(mut engine: Engine<Box<dyn Database>>) -> Box<dyn Database> {
    let empty: Box<dyn Database> = crate::connect();
    std::mem::replace(engine.database(), empty)
}

/// D12: the error of a placeholder named neither the column nor the constraint.
pub(crate) fn a_placeholder_that_is_refused_names_table_column_and_constraint() {
    let mut database = crate::connect();
    let dialect = database.dialect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, age INT, name VARCHAR(9) NOT NULL, email VARCHAR(40), CONSTRAINT grown CHECK (age >= 18), CONSTRAINT one_mail UNIQUE (email))",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT)",
        "INSERT INTO members VALUES (1, 40, 'one', 'bea@example.com')",
        "INSERT INTO notes VALUES (6, 1), (7, 1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let decorrelating = NOTES.replacen("[[remove]]", "[[decorrelate]]\nowners = [\"member\"]", 1);
    let with = |more: &str| {
        decorrelating.replacen("placeholder = {", &format!("placeholder = {{ {more},"), 1)
    };
    let mut member = Member::of(database, &with("name = { ConstStr = \"x\" }"));
    let cases: &[(&str, &str)] = &[
        (
            "age = { ConstNum = 3 }, name = { ConstStr = \"x\" }",
            "column age",
        ),
        ("age = { ConstNum = 30 }", "column name"),
        (
            "name = { ConstStr = \"x\" }, email = { ConstStr = \"bea@example.com\" }",
            "column email",
        ),
    ];
    let before = member.rows(["members", "notes"]);
    for (more, column) in cases {
        let file = SpecFile::parse(&with(more)).unwrap();
        let mut engine = member.described(file.schema, file.pseudo.unwrap());
        let tried = engine.preview().try_placeholder(time()).unwrap_err();
        member = member.over(engine);
        let refused = member.try_to_leave().unwrap_err();
        for error in [tried, refused] {
            assert!(matches!(error, Error::Placeholder { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains(&format!("table members, {column}")), "{said}");
            assert!(!said.contains("bea"), "{said}");
            // `SQLite` names no unique key, and nobody one that says a column may not be NULL.
            match *column {
                "column age" => assert!(said.contains("grown"), "{said}"),
                "column email" if dialect != Dialect::Sqlite => {
                    assert!(said.contains("constraint one_mail"), "{said}");
                }
                _ => {}
            }
        }
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}
