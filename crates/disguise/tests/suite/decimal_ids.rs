//! Ids and keys of type `DECIMAL`: `MariaDB` compares texts with them as floating-point numbers, for
//! which many of those beyond 2^53 are one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Dialect, Error, SpecFile};

use super::society::{Society, description};

/// The first person; the second has the id after the next.
const FIRST: i64 = 9_007_199_254_740_995;
const TABLES: &str = "[tables.posts]\nowners = [\"who\"]\n[tables.likes]\nowners = [\"who\"]\n";
const HIDING: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n";

/// Makes two people whose ids, and rows whose keys, are neighbours.
fn people(id: &str) -> Society {
    let second = FIRST + 2;
    let statements = [
        format!("CREATE TABLE people (id {id} PRIMARY KEY, name VARCHAR(20))"),
        format!("CREATE TABLE posts (id {id} PRIMARY KEY, who {id})"),
        format!(
            "CREATE TABLE likes (id {id} PRIMARY KEY, who {id}, post {id}, FOREIGN KEY (post) REFERENCES posts(id))"
        ),
        format!("INSERT INTO people VALUES ({FIRST}, 'one'), ({second}, 'two')"),
        format!(
            "INSERT INTO posts VALUES ({FIRST}, {second}), ({second}, {FIRST}), (18446744073709551613, {FIRST}), (18446744073709551615, {second})"
        ),
        format!(
            "INSERT INTO likes VALUES ({FIRST}, {FIRST}, {second}), ({second}, {second}, {FIRST}), (7, {second}, 18446744073709551615)"
        ),
    ];
    Society::of(&statements, &description(TABLES), &[FIRST, second])
}

fn spec(steps: &str) -> probity_disguise::Spec {
    let all = description(TABLES);
    let (head, tail) = all.split_at(all.find("[[remove]]").unwrap());
    let tail = if steps.is_empty() { tail } else { "" };
    SpecFile::parse(&format!("{head}{steps}{tail}"))
        .unwrap()
        .spec
}

/// A disguise over another took the row of somebody else, who has no record of it.
pub(crate) fn an_id_of_many_digits_is_one_person() {
    let id = match crate::connect().dialect() {
        Dialect::Mysql | Dialect::Postgres => "DECIMAL(22,0)",
        _ => return,
    };
    let second = FIRST + 2;
    let removing = format!("{HIDING}[[remove]]\ntable = \"likes\"\n");
    for steps in [
        removing.as_str(),
        "[[remove]]\ntable = \"likes\"\n[[remove]]\ntable = \"posts\"\n",
    ] {
        for chunk in [None, Some(1)] {
            let what = format!("{steps} {chunk:?}");
            let mut society = people(id);
            let mut gone = Vec::new();
            for user in [second, FIRST] {
                society.spec = spec(HIDING);
                gone.push((user, society.leave(user)));
                society.spec = spec(steps);
                let over = society.try_to_leave(Some(user), true, chunk).unwrap();
                let likes = if user == second { 2 } else { 1 };
                assert_eq!(over.rows["likes"], likes, "{what}");
                let left = society.numbers("SELECT COUNT(*) FROM likes");
                assert_eq!(left, [i64::from(user == second)], "{what}");
                gone.push((user, over.id));
            }
            while let Some((user, id)) = gone.pop() {
                let revealed = society.reveal(user, id);
                assert!(revealed.is_complete(), "{what} {revealed:?}");
            }
            society.assert_as_before(&what);
        }
    }
}

/// Chunks left a row in clear, or a disguise was refused because "several rows have one identity".
pub(crate) fn keys_of_too_many_digits_are_refused_by_name() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    for (key, rows) in [
        (
            "DECIMAL(22,0)",
            ["18446744073709551617", "18446744073709551619"],
        ),
        (
            "DECIMAL(22,4)",
            ["9007199254740993.5", "9007199254740993.75"],
        ),
        (
            "DECIMAL(20,0) ZEROFILL",
            ["9007199254740993", "9007199254740995"],
        ),
    ] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!("CREATE TABLE posts (id {key} PRIMARY KEY, who BIGINT)"),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            format!(
                "INSERT INTO posts VALUES ({}, 1), ({}, 2), (3, 2)",
                rows[0], rows[1]
            ),
        ];
        let tables = format!("[tables.posts]\nowners = [\"who\"]\n{HIDING}");
        let mut society = Society::of(&statements, &description(&tables), &[1, 2]);
        for chunk in [None, Some(1)] {
            let refused = society.try_to_leave(Some(1), false, chunk);
            let what = match refused {
                Err(Error::Value { what }) => what,
                other => panic!("{key} {other:?}"),
            };
            assert!(what.contains("rows of posts have keys (id)"), "{what}");
        }
        society.sql("DELETE FROM posts WHERE id > 3");
        society.before = society.everything();
        let id = society.leave(2);
        assert!(society.reveal(2, id).is_complete(), "{key}");
        society.assert_as_before(key);
    }
}
