//! Columns whose type the application narrowed while a person was away, without recording an update.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, KeptReason};

use super::society::{Society, description};

const TABLES: &str = "[tables.posts]\nowners = [\"who\"]\n";

/// The columns, each with its type, a value, and the narrower type.
fn columns() -> Vec<[&'static str; 4]> {
    match crate::connect().dialect() {
        Dialect::Postgres => of_postgres(),
        Dialect::Mysql => of_mariadb(),
        _ => vec![
            ["code", "TEXT", "'12345678901234567890'", "NUMERIC"],
            ["code", "TEXT", "'9007199254740993.0'", "INTEGER"],
            ["many", "INTEGER", "9007199254740993", "REAL"],
        ],
    }
}

fn of_postgres() -> Vec<[&'static str; 4]> {
    let day = "'2026-01-20 10:11:12.5'";
    let span = "'[2026-01-20 10:00:00,2026-01-21 10:00:00)'";
    let long = "'0123456789012345678901234567890123456789012345678901234567890123456789'";
    vec![
        ["body", "VARCHAR(200)", "'secret text'", "VARCHAR(5)"],
        ["code", "CHAR(9)", "'ninesigns'", "CHAR(3)"],
        ["bits", "BIT VARYING(9)", "B'101010101'", "BIT VARYING(2)"],
        ["price", "NUMERIC", "12.345", "NUMERIC(8,1)"],
        ["many", "INT", "100001", "NUMERIC(8,-3)"],
        ["size", "DOUBLE PRECISION", "0.1234567890123", "REAL"],
        ["at", "TIMESTAMP", day, "DATE"],
        ["seen", "TIMESTAMP", day, "TIMESTAMP(0)"],
        ["gap", "INTERVAL", "'1 day 02:03:04.5'", "INTERVAL(0)"],
        [
            "gap",
            "INTERVAL",
            "'1 mon 2 days'",
            "INTERVAL YEAR TO MONTH",
        ],
        ["many", "NUMERIC[]", "'{1.25}'", "NUMERIC(4,1)[]"],
        ["many", "FLOAT8[]", "'{0.1234567890123}'", "FLOAT4[]"],
        ["many", "TIMESTAMP[]", "'{2026-01-20 10:11:12.5}'", "DATE[]"],
        ["span", "TSRANGE", span, "DATERANGE"],
        ["body", "TEXT", long, "NAME"],
        ["body", "TEXT", "'secret'", "\"char\""],
        ["price", "NUMERIC", "12.345", "MONEY"],
        ["body", "TEXT", "'abc   '", "VARCHAR(3)"],
        ["body", "TEXT", "'abc   '", "CHAR(3)"],
    ]
}

fn of_mariadb() -> Vec<[&'static str; 4]> {
    let day = "'2026-01-20 10:11:12.5'";
    let numbers = "SET('1','2','3')";
    vec![
        ["body", "VARCHAR(200)", "'secret text'", "VARCHAR(5)"],
        ["price", "DECIMAL(20,8)", "12.345", "DECIMAL(8,1)"],
        ["many", "DOUBLE", "12.5", "INT"],
        ["size", "DOUBLE", "0.1234567890123", "FLOAT"],
        ["size", "DOUBLE", "0.1234567890123", "FLOAT UNSIGNED"],
        ["size", "DOUBLE", "0.1234567890123", "DOUBLE(10,2)"],
        ["at", "DATETIME(6)", day, "DATE"],
        ["seen", "DATETIME(6)", day, "DATETIME"],
        ["body", "VARCHAR(10)", "'abc   '", "VARCHAR(3)"],
        ["body", "TEXT", "'abc   '", "VARCHAR(3)"],
        // The text of one is the number of another.
        ["kind", "ENUM('0','1')", "'1'", "ENUM('no','yes')"],
        ["kinds", numbers, "'3'", "SET('one','two','three')"],
    ]
}

/// Gives a column, which holds nothing but NULL, another type.
fn change(column: &str, kind: &str) -> Vec<String> {
    match crate::connect().dialect() {
        Dialect::Postgres => vec![format!(
            "ALTER TABLE posts ALTER {column} TYPE {kind} USING NULL"
        )],
        Dialect::Mysql => vec![format!("ALTER TABLE posts MODIFY {column} {kind}")],
        _ => vec![
            format!("ALTER TABLE posts DROP COLUMN {column}"),
            format!("ALTER TABLE posts ADD COLUMN {column} {kind}"),
        ],
    }
}

/// Gives a column another type, which takes its values.
fn typed(column: &str, kind: &str) -> String {
    match crate::connect().dialect() {
        Dialect::Postgres => format!("ALTER TABLE posts ALTER {column} TYPE {kind}"),
        _ => format!("ALTER TABLE posts MODIFY {column} {kind}"),
    }
}

fn changed(society: &mut Society, column: &str, kind: &str) {
    for sql in change(column, kind) {
        society.sql(&sql);
    }
}

/// The values came back rounded, cut off or as others, with success, and the record was destroyed.
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
            changed(&mut society, column, narrow);
            let revealed = society.reveal(1, id);
            assert_eq!(revealed.kept.len(), 1, "{what} {revealed:?}");
            let is_told = |it: &probity_disguise::Kept| {
                it.said.is_some() || it.reason == KeptReason::KindChanged
            };
            assert!(revealed.kept.iter().all(is_told), "{what} {revealed:?}");
            let left = format!("SELECT COUNT(*) FROM posts WHERE {column} IS NOT NULL");
            assert_eq!(society.numbers(&left), [0], "{what}");
            changed(&mut society, column, kind);
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{what} {revealed:?}");
            society.assert_as_before(&what);
        }
    }
}

/// `MariaDB` takes NULL for the present time where a `TIMESTAMP` was made `NOT NULL`, and for the next number where a column was made
/// `AUTO_INCREMENT`, so that rows came back with what they never had.
pub(crate) fn null_is_kept_where_a_column_takes_none() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    for (kind, other) in [
        ("TIMESTAMP NULL", "TIMESTAMP NOT NULL"),
        ("INT NULL UNIQUE", "INT NOT NULL AUTO_INCREMENT"),
    ] {
        let overwriting =
            "[[modify]]\ntable = \"posts\"\ncolumn = \"v\"\nvalue = { ConstStr = \"20200101\" }\n";
        for steps in [overwriting, "[[remove]]\ntable = \"posts\"\n"] {
            let statements = [
                "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
                format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, v {kind})"),
                "INSERT INTO people VALUES (1, 'one')".to_owned(),
                "INSERT INTO posts VALUES (10, 1, NULL)".to_owned(),
            ];
            let described = description(&format!("{TABLES}{steps}"));
            let mut society = Society::of(&statements, &described, &[1]);
            let id = society.leave(1);
            society.sql(&format!("ALTER TABLE posts MODIFY v {other}"));
            let revealed = society.reveal(1, id);
            assert_eq!(revealed.kept.len(), 1, "{other} {steps} {revealed:?}");
            let kind = kind.replace(" UNIQUE", "");
            society.sql(&format!("ALTER TABLE posts MODIFY v {kind}"));
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{other} {steps} {revealed:?}");
            society.assert_as_before(other);
        }
    }
}

/// The columns, each with its type, a value, and a type that takes no such value.
fn unfit() -> Vec<[&'static str; 4]> {
    match crate::connect().dialect() {
        Dialect::Postgres => vec![
            ["v", "BIT(6)", "B'101010'", "BIT(3)"],
            ["v", "TEXT", "'a b'", "TSQUERY"],
            ["v", "TEXT", "'[5,2)'", "INT4RANGE"],
            ["v", "TEXT", "'no path'", "JSONPATH"],
            ["v", "TEXT", "'a\\101b'", "BYTEA"],
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
        changed(&mut society, column, other);
        let revealed = society.reveal(1, id);
        assert_eq!(revealed.kept.len(), 1, "{other} {revealed:?}");
        assert_eq!(society.numbers("SELECT id FROM posts"), [11], "{other}");
        changed(&mut society, column, kind);
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
    society.sql(&typed("who", "VARCHAR(8)"));
    let revealed = society.reveal(12_345_678, id);
    assert!(!revealed.is_complete(), "{revealed:?}");
    let theirs = society.numbers("SELECT COUNT(*) FROM posts WHERE who = 'u1234567'");
    assert_eq!(theirs, [0], "{revealed:?}");
    society.sql(&typed("who", "VARCHAR(50)"));
    let revealed = society.reveal(12_345_678, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    society.assert_as_before("widened again");
}
