//! Columns whose type the application narrowed while a person was away, without recording an update.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::Dialect;

use super::society::{Society, description};

const TABLES: &str = "[tables.posts]\nowners = [\"who\"]\n";

/// The columns, each with its type, a value, the narrower type and whether it takes the value's like.
fn columns() -> Vec<[&'static str; 4]> {
    match crate::connect().dialect() {
        Dialect::Postgres => vec![
            ["body", "VARCHAR(200)", "'secret text'", "VARCHAR(5)"],
            ["code", "CHAR(9)", "'ninesigns'", "CHAR(3)"],
            ["bits", "BIT VARYING(9)", "B'101010101'", "BIT VARYING(2)"],
            ["price", "NUMERIC", "12.345", "NUMERIC(8,1)"],
            ["many", "INT", "100001", "NUMERIC(8,-3)"],
            ["size", "DOUBLE PRECISION", "0.1234567890123", "REAL"],
            ["at", "TIMESTAMP", "'2026-01-20 10:11:12.5'", "DATE"],
            [
                "seen",
                "TIMESTAMP",
                "'2026-01-20 10:11:12.5'",
                "TIMESTAMP(0)",
            ],
        ],
        Dialect::Mysql => vec![
            ["body", "VARCHAR(200)", "'secret text'", "VARCHAR(5)"],
            ["price", "DECIMAL(20,8)", "12.345", "DECIMAL(8,1)"],
            ["many", "DOUBLE", "12.5", "INT"],
            ["size", "DOUBLE", "0.1234567890123", "FLOAT"],
            ["at", "DATETIME(6)", "'2026-01-20 10:11:12.5'", "DATE"],
            ["seen", "DATETIME(6)", "'2026-01-20 10:11:12.5'", "DATETIME"],
        ],
        _ => Vec::new(),
    }
}

fn change(column: &str, kind: &str) -> String {
    match crate::connect().dialect() {
        Dialect::Postgres => format!("ALTER TABLE posts ALTER {column} TYPE {kind}"),
        _ => format!("ALTER TABLE posts MODIFY {column} {kind}"),
    }
}

/// The values came back rounded or cut off, with success, and the record was destroyed.
pub(crate) fn a_value_that_its_column_would_change_is_kept() {
    for [column, kind, value, narrow] in columns() {
        let overwriting =
            format!("[[modify]]\ntable = \"posts\"\ncolumn = \"{column}\"\nvalue = \"Null\"\n");
        for steps in [overwriting.as_str(), "[[remove]]\ntable = \"posts\"\n"] {
            let what = format!("{column} {narrow} {steps}");
            let statements = [
                "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
                format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, {column} {kind})"),
                "INSERT INTO people VALUES (1, 'one')".to_owned(),
                format!("INSERT INTO posts VALUES (10, 1, {value}), (11, 1, NULL)"),
            ];
            let described = description(&format!("{TABLES}{steps}"));
            let mut society = Society::of(&statements, &described, &[1]);
            let id = society.leave(1);
            society.sql(&change(column, narrow));
            let revealed = society.reveal(1, id);
            assert_eq!(revealed.kept.len(), 1, "{what} {revealed:?}");
            assert!(
                revealed.kept.iter().all(|it| it.said.is_some()),
                "{what} {revealed:?}"
            );
            society.sql(&change(column, kind));
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{what} {revealed:?}");
            society.assert_as_before(&what);
        }
    }
}

/// The columns, each with its type, a value, and a type that takes no such value.
fn unfit() -> Vec<[&'static str; 4]> {
    match crate::connect().dialect() {
        Dialect::Postgres => vec![
            ["v", "BIT(6)", "B'101010'", "BIT(3) USING NULL"],
            ["v", "TEXT", "'a b'", "TSQUERY USING NULL"],
            ["v", "TEXT", "'[5,2)'", "INT4RANGE USING NULL"],
            ["v", "TEXT", "'no path'", "JSONPATH USING NULL"],
            ["v", "TEXT", "'a\\101b'", "BYTEA USING NULL"],
        ],
        Dialect::Mysql => vec![
            ["v", "VARCHAR(20)", "'no place'", "POINT"],
            ["v", "TIME", "'30:00:00'", "DATE"],
        ],
        _ => Vec::new(),
    }
}

/// One value that no longer fitted its column ended the whole reveal.
pub(crate) fn a_value_of_another_type_keeps_one_row_back() {
    for [column, kind, value, other] in unfit() {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, {column} {kind})"),
            "INSERT INTO people VALUES (1, 'one')".to_owned(),
            format!("INSERT INTO posts VALUES (10, 1, {value}), (11, 1, NULL)"),
        ];
        let described = description(&format!("{TABLES}[[remove]]\ntable = \"posts\"\n"));
        let mut society = Society::of(&statements, &described, &[1]);
        let id = society.leave(1);
        society.sql(&change(column, other));
        let revealed = society.reveal(1, id);
        assert_eq!(revealed.kept.len(), 1, "{other} {revealed:?}");
        assert_eq!(society.numbers("SELECT id FROM posts"), [11], "{other}");
        let back = match crate::connect().dialect() {
            Dialect::Postgres => format!("{kind} USING NULL"),
            _ => kind.to_owned(),
        };
        society.sql(&change(column, &back));
        assert!(society.reveal(1, id).is_complete(), "{other}");
        society.assert_as_before(other);
    }
}

/// The id of somebody who returned was cut to that of another person, who got the rows.
pub(crate) fn an_id_is_not_cut_to_that_of_another_person() {
    if crate::connect().dialect() == Dialect::Sqlite {
        return;
    }
    let statements = [
        "CREATE TABLE people (id VARCHAR(50) PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who VARCHAR(50))",
        "INSERT INTO people VALUES ('u12345678', 'one'), ('u1234567', 'two')",
        "INSERT INTO posts VALUES (10, 'u12345678')",
    ]
    .map(str::to_owned);
    let described = description(TABLES).replace(
        "id = { RandNum = { lb = 1000000, ub = 2000000000 } }",
        "id = { RandStr = { len = 5 } }",
    );
    let (described, _) = described.split_once("[[remove]]").unwrap();
    let hiding = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n";
    let described = format!("{described}{hiding}");
    let mut society = Society::of_texts(&statements, &described, &[12_345_678, 1_234_567]);
    let id = society.leave(12_345_678);
    society.sql(&change("who", "VARCHAR(8)"));
    let revealed = society.reveal(12_345_678, id);
    assert!(!revealed.is_complete(), "{revealed:?}");
    let theirs = society.numbers("SELECT COUNT(*) FROM posts WHERE who = 'u1234567'");
    assert_eq!(theirs, [0], "{revealed:?}");
    society.sql(&change("who", "VARCHAR(50)"));
    let revealed = society.reveal(12_345_678, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    society.assert_as_before("widened again");
}
