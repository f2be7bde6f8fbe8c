//! Columns of types whose values are compared in a way of their own.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::Dialect;

use super::society::{Society, description};

/// A column of the type `ANY` in a strict table of `SQLite` keeps the text 7 and the number 7 apart.
/// The engine compared with the number: rows of the person stayed in clear, and those of a number
/// that was nobody's id went.
pub(crate) fn a_column_of_any_type_is_compared_as_it_is() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    for (who, others) in [
        ("ANY REFERENCES people", "(12, '8')"),
        ("ANY", "(12, '8'), (13, 9)"),
    ] {
        let statements = [
            "CREATE TABLE people (id TEXT PRIMARY KEY, name TEXT) STRICT".to_owned(),
            format!("CREATE TABLE posts (id INTEGER PRIMARY KEY, who {who}) STRICT"),
            "INSERT INTO people VALUES ('7', 'seven'), ('8', 'eight')".to_owned(),
            format!("INSERT INTO posts VALUES (10, '7'), (11, '7'), {others}"),
        ];
        for steps in [
            "[[remove]]\ntable = \"posts\"\n",
            "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n",
        ] {
            let described = description(&format!("[tables.posts]\nowners = [\"who\"]\n{steps}"));
            let mut society = Society::of_digits(&statements, &described, &[7, 8]);
            let id = society.leave(7);
            let left = society.numbers("SELECT COUNT(*) FROM posts WHERE who = '7'");
            assert_eq!(left, [0], "{who} {steps}");
            let others = society.numbers("SELECT id FROM posts WHERE who = '8' OR who = 9");
            assert_eq!(others.first(), Some(&12), "{who} {steps}");
            assert!(society.reveal(7, id).is_complete(), "{who} {steps}");
            society.assert_as_before(steps);
        }
    }
}

/// A disguise changed rows that are identified by a composed value or by the name of an object, and
/// no reveal found them again: nothing of the person came back.
pub(crate) fn rows_that_no_statement_finds_are_not_changed() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let kinds = [
        ("whole_place", "ROW('Rome', 7)::whole_place"),
        ("regtype", "'integer'::regtype"),
        ("regproc", "'now'::regproc"),
    ];
    for (kind, value) in kinds {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            "CREATE TYPE whole_place AS (city TEXT, house INT)".to_owned(),
            format!("CREATE TABLE posts (id {kind} PRIMARY KEY, who BIGINT, body TEXT)"),
            "INSERT INTO people VALUES (1, 'one')".to_owned(),
            format!("INSERT INTO posts VALUES ({value}, 1, 'text')"),
        ];
        let described = description(
            "[tables.posts]\nowners = [\"who\"]\n[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n",
        );
        let mut society = Society::of(&statements, &described, &[1]);
        let refused = society.try_to_leave(Some(1), false, None).unwrap_err();
        let refused = format!("{refused:?}");
        assert!(refused.contains("identified by id"), "{kind}: {refused}");
        society.assert_as_before(kind);
    }
}

/// One value that an index, a partition or a function of a key did not take ended the whole reveal.
pub(crate) fn a_value_that_an_index_does_not_take_keeps_one_row_back() {
    let (change, back) = match crate::connect().dialect() {
        Dialect::Sqlite => (
            "CREATE INDEX by_name ON posts (json_extract(body, '$.name'))",
            "DROP INDEX by_name",
        ),
        Dialect::Postgres => ("CREATE INDEX by_body ON posts (body)", "DROP INDEX by_body"),
        _ => (
            "ALTER TABLE posts PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (11))",
            "ALTER TABLE posts REMOVE PARTITIONING",
        ),
    };
    // Hardly compressible, and no JSON.
    let numbers = (0_u64..3000).map(|it| it.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let long: Vec<String> = numbers.map(|it| format!("{it:x}")).collect();
    let long = long.concat();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, body TEXT)".to_owned(),
        "INSERT INTO people VALUES (1, 'one')".to_owned(),
        format!("INSERT INTO posts VALUES (10, 1, '{{}}'), (11, 1, '{long}')"),
    ];
    let described =
        description("[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n");
    let mut society = Society::of(&statements, &described, &[1]);
    let id = society.leave(1);
    society.sql(change);
    let revealed = society.reveal(1, id);
    assert_eq!(revealed.kept.len(), 1, "{revealed:?}");
    assert_eq!(society.numbers("SELECT id FROM posts"), [10]);
    society.sql(back);
    assert!(society.reveal(1, id).is_complete());
    society.assert_as_before("indexed");
}
