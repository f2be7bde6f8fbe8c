//! Texts of databases whose letters have no one-to-one way to Unicode, and values of types that the
//! application casts to text in a way of its own.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::error::Error as _;

use probity_disguise::database::Postgres;
use probity_disguise::{Database, Error, Value};

use crate::suite::member::{Member, NOTES};
use crate::{PLACE, connect, postgres};

/// The character sets of which each text comes back, as the driver has them.
const ONE_TO_ONE: [&str; 19] = [
    "binary", "cp850", "cp852", "cp866", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5",
    "latin7", "macce", "macroman", "ucs2", "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4",
];

fn made(mut database: Box<dyn Database>, statements: &[&str], steps: &str) -> Member {
    for sql in statements {
        database.execute(sql, &[]).unwrap();
    }
    let (users, _) = NOTES.split_once("[[remove]]").unwrap();
    Member::of(database, &format!("{users}{steps}"))
}

fn blank(column: &str) -> String {
    format!("[[modify]]\ntable = \"notes\"\ncolumn = \"{column}\"\nvalue = \"Null\"\n")
}

const REMOVE: &str = "[[remove]]\ntable = \"notes\"\n";
const REPLACE: &str = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";

/// The notes as the database has them, whatever a session makes of them.
fn hexes(member: &mut Member) -> Vec<Vec<Value>> {
    let all = "SELECT * FROM hexes ORDER BY 1";
    member.engine.database().query(all, &[]).unwrap()
}

fn leaves_and_returns(member: &mut Member) {
    let before = hexes(member);
    let applied = member.leave();
    assert_ne!(hexes(member), before);
    let revealed = member.return_from(&applied);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(hexes(member), before);
}

/// The member does not leave, and the refusal names a column; nothing is changed.
fn is_refused(member: &mut Member, column: &str) {
    let before = hexes(member);
    let refused = member.try_to_leave().unwrap_err();
    let reason = refused
        .source()
        .map(ToString::to_string)
        .unwrap_or_default();
    let told = format!("table notes, column {column}: a text would be stored otherwise");
    assert!(reason.starts_with(&told), "{refused:?} {reason}");
    assert!(matches!(refused, Error::Database { .. }));
    assert_eq!(hexes(member), before);
}

/// C1: a text of a character set that gives several codes one letter in Unicode came back as another, with success.
pub(crate) fn texts_without_a_way_back_are_refused() {
    let mut member = made(
        connect(),
        &[
            "CREATE TABLE members (id BIGINT PRIMARY KEY)",
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, what VARCHAR(9))",
            "CREATE VIEW hexes AS SELECT id, member, HEX(what) AS what FROM notes",
            "INSERT INTO members VALUES (1), (2)",
        ],
        REMOVE,
    );
    let digit = "(SELECT 0 AS i UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9 UNION SELECT 10 UNION SELECT 11 UNION SELECT 12 UNION SELECT 13 UNION SELECT 14 UNION SELECT 15)";
    let sets = "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS";
    let sets = member.engine.database().query(sets, &[]).unwrap().concat();
    let (users, _) = NOTES.split_once("[[remove]]").unwrap();
    for set in sets
        .iter()
        .map(Value::to_string)
        .filter(|it| it != "binary" && it != "ucs2")
    {
        let text = format!("CHAR(a.i * 4096 + b.i * 256 + c.i * 16 + d.i USING {set})");
        let twins = format!(
            "SELECT HEX({text}) FROM {digit} a, {digit} b, {digit} c, {digit} d WHERE BINARY {text} <> BINARY CONVERT(CONVERT({text} USING utf8mb4) USING {set}) LIMIT 1"
        );
        let twins = member
            .engine
            .database()
            .query(&twins, &[])
            .unwrap()
            .concat();
        let is_listed = ONE_TO_ONE.contains(&set.as_str());
        assert_eq!(twins.is_empty(), is_listed, "{set} {twins:?}");
        let plain = twins
            .first()
            .map_or_else(|| "61".to_owned(), Value::to_string);
        member.sql(&[
            "DELETE FROM notes",
            &format!("ALTER TABLE notes MODIFY what VARCHAR(9) CHARACTER SET {set}"),
            &format!("INSERT INTO notes VALUES (6, 1, _{set} X'{plain}'), (7, 2, NULL)"),
        ]);
        for steps in [REMOVE, &blank("what")] {
            member = member.again(&format!("{users}{steps}"));
            if is_listed {
                leaves_and_returns(&mut member);
            } else {
                is_refused(&mut member, "what");
                member.sql(&["UPDATE notes SET what = 'a' WHERE id = 6"]);
                leaves_and_returns(&mut member);
                let again = format!("UPDATE notes SET what = _{set} X'{plain}' WHERE id = 6");
                member.sql(&[&again]);
            }
        }
    }
}

/// A text of a row that is owned through another was read by a condition with a subquery, and not looked at.
pub(crate) fn a_text_without_a_way_back_is_refused_through_another_row() {
    let (users, _) = NOTES.split_once("[tables.notes]").unwrap();
    let owned = "[tables.posts]\nowners = [\"member\"]\n[tables.notes]\nthrough = [\"post\"]\n";
    for (set, text) in [("sjis", "5C"), ("cp932", "FA4A")] {
        for steps in [REMOVE, &blank("what")] {
            let mut database = connect();
            for sql in [
                "CREATE TABLE members (id BIGINT PRIMARY KEY)",
                "CREATE TABLE posts (id BIGINT PRIMARY KEY, member BIGINT)",
                &format!(
                    "CREATE TABLE notes (id BIGINT PRIMARY KEY, post BIGINT, what VARCHAR(9) CHARACTER SET {set}, FOREIGN KEY (post) REFERENCES posts (id))"
                ),
                "CREATE VIEW hexes AS SELECT id, post, HEX(what) AS what FROM notes",
                "INSERT INTO members VALUES (1), (2)",
                "INSERT INTO posts VALUES (10, 1), (20, 2)",
                &format!("INSERT INTO notes VALUES (6, 10, _{set} X'{text}'), (7, 20, NULL)"),
            ] {
                database.execute(sql, &[]).unwrap();
            }
            let mut member = Member::of(database, &format!("{users}{owned}{steps}"));
            is_refused(&mut member, "what");
            member.sql(&["UPDATE notes SET what = 'a' WHERE id = 6"]);
            leaves_and_returns(&mut member);
        }
    }
}

/// C1: such a text in the key named the row of another person, who lost it.
pub(crate) fn a_key_without_a_way_back_names_no_other_row() {
    for steps in [REMOVE, &blank("what"), REPLACE] {
        let mut member = made(
            connect(),
            &[
                "CREATE TABLE members (id BIGINT PRIMARY KEY)",
                "CREATE TABLE notes (code VARCHAR(9) CHARACTER SET ujis PRIMARY KEY, member BIGINT, what VARCHAR(9))",
                "CREATE VIEW hexes AS SELECT HEX(code) AS code, member, what FROM notes",
                "INSERT INTO members VALUES (1), (2)",
                "INSERT INTO notes VALUES (_ujis X'A1C0', 1, 'one'), (_ujis X'5C', 2, 'two')",
            ],
            steps,
        );
        is_refused(&mut member, "code");
    }
}

/// C2: in a database in `EUC_JP`, where some letters have two codes, the same.
pub(crate) fn texts_of_a_database_without_a_way_back_are_refused() {
    connect()
        .execute(
            "CREATE DATABASE eucjp ENCODING 'EUC_JP' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
            &[],
        )
        .unwrap();
    let url = PLACE.with_borrow(|it| postgres::url(&it.as_ref().unwrap().socket));
    let url = url.replace("/postgres", "/eucjp");
    let twins = "INSERT INTO notes SELECT convert_from('\\xadf0', 'EUC_JP'), 1, convert_from('\\xadf0', 'EUC_JP') UNION ALL SELECT convert_from('\\xa2e2', 'EUC_JP'), 2, 'two'";
    for (steps, is_key) in [
        (REMOVE, true),
        (&blank("what"), true),
        (REPLACE, true),
        (REMOVE, false),
    ] {
        let database: Box<dyn Database> = Box::new(Postgres::connect(&url).unwrap());
        let mut member = made(
            database,
            &[
                "DROP SCHEMA public CASCADE",
                "CREATE SCHEMA public",
                "CREATE TABLE members (id BIGINT PRIMARY KEY)",
                "CREATE TABLE notes (code TEXT PRIMARY KEY, member BIGINT, what TEXT)",
                "CREATE VIEW hexes AS SELECT convert_to(code, 'EUC_JP') AS code, member, convert_to(what, 'EUC_JP') AS what FROM notes",
                "INSERT INTO members VALUES (1), (2)",
                twins,
            ],
            steps,
        );
        if !is_key {
            member.sql(&["UPDATE notes SET code = 'a' WHERE member = 1"]);
        }
        is_refused(&mut member, if is_key { "code" } else { "what" });
        member.sql(&["UPDATE notes SET code = 'b', what = 'c' WHERE member = 1"]);
        leaves_and_returns(&mut member);
    }
}

/// C4: values were read by a cast to text, which an application may define for its types, and which takes spaces from `bpchar`.
/// They came back as others, and as a key named the row of another person.
pub(crate) fn values_are_read_as_their_type_writes_them() {
    let types = [
        "CREATE TYPE word AS ENUM ('a', 'b')",
        "CREATE FUNCTION said(word) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT CASE $1 WHEN 'a'::word THEN 'b' ELSE 'a' END $$",
        "CREATE CAST (word AS text) WITH FUNCTION said(word)",
        "CREATE TYPE price AS (amount int, currency text)",
        "CREATE FUNCTION said(price) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).amount || ' ' || ($1).currency $$",
        "CREATE CAST (price AS text) WITH FUNCTION said(price)",
        "CREATE DOMAIN padded AS bpchar",
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "INSERT INTO members VALUES (1), (2)",
    ];
    for (kind, one, other) in [
        ("word", "'a'", "'b'"),
        ("price", "'(5,EUR)'", "'(,)'"),
        ("bpchar", "'ada   '", "' '"),
        ("padded", "'ada   '", "' '"),
        ("CHAR(5)", "'ada'", "''"),
        ("\"char\"", "'a'", "''"),
        ("boolean", "true", "false"),
        ("inet", "'10.0.0.1'", "'10.0.0.0/8'"),
        ("xml", "'<a/>'", "''"),
    ] {
        let values =
            format!("INSERT INTO notes VALUES (6, 1, {one}), (7, 2, {other}), (8, 1, NULL)");
        let table =
            format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, what {kind})");
        let hexes =
            "CREATE VIEW hexes AS SELECT id, member, format('%s', what) || '.' AS what FROM notes";
        let mut all = types.to_vec();
        all.extend([table.as_str(), hexes, values.as_str()]);
        let mut member = made(connect(), &all, REMOVE);
        leaves_and_returns(&mut member);
        let (users, _) = NOTES.split_once("[[remove]]").unwrap();
        member = member.again(&format!("{users}{}", blank("what")));
        leaves_and_returns(&mut member);
    }
    for steps in [REMOVE, &blank("what"), REPLACE] {
        let mut all = types.to_vec();
        all.extend([
            "CREATE TABLE notes (id word PRIMARY KEY, member BIGINT, what TEXT)",
            "INSERT INTO notes VALUES ('a', 1, 'one'), ('b', 2, 'two')",
        ]);
        let mut member = made(connect(), &all, steps);
        member.leaves_and_returns(["notes"]);
    }
}
