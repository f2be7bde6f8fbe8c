//! Columns whose type became one of another family while a person was away: what they hid waits for
//! an update, which the database itself carries out.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, KeptReason, Mapping, SpecFile, UpdateError};

use super::society::{Society, description};

const TABLES: &str = "[tables.posts]\nowners = [\"who\"]\n";
pub(super) const REMOVAL: &str = "[[remove]]\ntable = \"posts\"\n";
pub(super) const STEPS: [&str; 2] = [
    "[[modify]]\ntable = \"posts\"\ncolumn = \"v\"\nvalue = \"Null\"\n",
    REMOVAL,
];

/// A column of posts, of which person 1 has rows from 10 on and person 2 the same from 20 on.
pub(super) fn society(kind: &str, values: &[&str], steps: &str) -> Society {
    let mut statements = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, v {kind})"),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
    ];
    for (at, value) in values.iter().enumerate() {
        for who in [1, 2] {
            let id = who * 10 + at;
            statements.push(format!("INSERT INTO posts VALUES ({id}, {who}, {value})"));
        }
    }
    let described = description(&format!("{TABLES}{steps}"));
    Society::of(&statements, &described, &[1])
}

/// Gives the column another type, as a migration does.
pub(super) fn migrated(society: &mut Society, kind: &str) {
    let statements = match crate::connect().dialect() {
        Dialect::Postgres => vec![format!("ALTER TABLE posts ALTER v TYPE {kind}")],
        Dialect::Mysql => vec![format!("ALTER TABLE posts MODIFY v {kind}")],
        _ => vec![
            format!("CREATE TABLE anew (id BIGINT PRIMARY KEY, who BIGINT, v {kind})"),
            "INSERT INTO anew SELECT * FROM posts".to_owned(),
            "DROP TABLE posts".to_owned(),
            "ALTER TABLE anew RENAME TO posts".to_owned(),
        ],
    };
    for sql in statements {
        society.sql(&sql);
    }
}

pub(super) fn mapping(more: &str, target: &str) -> Vec<Mapping> {
    named("kinds", more, target)
}

pub(super) fn named(name: &str, more: &str, target: &str) -> Vec<Mapping> {
    let text = format!(
        "[[update]]\nname = \"{name}\"\ntable = \"posts\"\n{more}[[update.into]]\ntable = \"posts\"\nrest = true\n{target}"
    );
    Mapping::parse(&text).unwrap()
}

/// Person 1 has what the migration made of the same values of person 2.
pub(super) fn assert_alike(society: &mut Society, what: &str) {
    let mut of = |who: i64| {
        let sql = format!("SELECT id - 10 * who, v FROM posts WHERE who = {who} ORDER BY id");
        society.engine.database().query(&sql, &[]).unwrap()
    };
    assert_eq!(of(1), of(2), "{what}");
}

/// A type, values, the type that it became, and settings of the migration.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
);

fn cases() -> Vec<Case> {
    match crate::connect().dialect() {
        Dialect::Postgres => of_postgres(),
        Dialect::Mysql => of_mariadb(),
        _ => vec![
            ("TEXT", &["'007'", "'1e3'", "'a'"], "INTEGER", ""),
            ("INTEGER", &["3", "9007199254740993"], "REAL", ""),
            ("NUMERIC", &["12", "0.5"], "TEXT", ""),
        ],
    }
}

fn of_postgres() -> Vec<Case> {
    let utc = "time_zone = \"UTC\"\n";
    let ymd = "date_style = \"ISO, YMD\"\n";
    vec![
        ("BIT(3)", &["'101'"], "INTEGER USING v::integer", ""),
        ("REAL", &["0.1"], "DOUBLE PRECISION", ""),
        ("TEXT", &["'10.0.0.1'"], "INET USING v::inet", ""),
        ("TEXT", &["'90 minutes'"], "INTERVAL USING v::interval", ""),
        (
            "TEXT",
            &["'08-00-2b-01-02-03'"],
            "MACADDR USING v::macaddr",
            "",
        ),
        ("TEXT", &["'{1,2.50}'"], "NUMERIC[] USING v::numeric[]", ""),
        ("TEXT", &["'[1,5]'"], "INT4RANGE USING v::int4range", ""),
        ("TEXT", &["'2026-01-05'"], "DATE USING v::date", ""),
        ("TEXT", &["'01/02/03'"], "DATE USING v::date", ymd),
        ("TEXT", &["'yes'", "'0'"], "BOOLEAN USING v::boolean", ""),
        ("TEXT", &["'10:30'"], "TIME USING v::time", ""),
        ("TEXT", &["'b a'"], "TSVECTOR USING v::tsvector", ""),
        ("TEXT", &["'<a/>'"], "XML USING v::xml", ""),
        ("TEXT", &["'101'"], "BIT VARYING USING v::bit varying", ""),
        ("TEXT", &["'12.5'"], "MONEY USING v::money", ""),
        ("TEXT", &["'(1,2)'"], "POINT USING v::point", ""),
        ("TEXT", &["'a\\101'", "'plain'"], "BYTEA USING v::bytea", ""),
        ("JSON", &["'{\"b\": 1,  \"a\": 2}'"], "JSONB", ""),
        ("INTEGER", &["7"], "TEXT", ""),
        ("DOUBLE PRECISION", &["2.5", "0.1"], "INTEGER", ""),
        ("TIMESTAMP", &["'2026-01-20 10:11:12.5'"], "DATE", ""),
        ("TIMESTAMP", &["'2026-01-20 10:11:12'"], "TIMESTAMPTZ", utc),
        (
            "TIMESTAMPTZ",
            &["'2026-01-20 10:11:12+02'"],
            "TIMESTAMP",
            utc,
        ),
        ("TIMESTAMPTZ", &["'2026-01-20 00:30:00+02'"], "DATE", utc),
        (
            "TIMESTAMPTZ",
            &["'2026-01-20 10:11:12+02'"],
            "TEXT",
            "time_zone = \"UTC\"\ndate_style = \"ISO, YMD\"\n",
        ),
        ("DATE", &["'2026-01-05'"], "TEXT", ymd),
        (
            "BYTEA",
            &["'a'", "'\\\\001'"],
            "TEXT USING v::text",
            "bytea_output = \"hex\"\n",
        ),
        (
            "INTERVAL",
            &["'90 minutes'"],
            "TEXT",
            "interval_style = \"postgres\"\n",
        ),
        ("INTEGER[]", &["'{1,2}'"], "TEXT", ""),
        ("DATE[]", &["'{2026-01-05}'"], "TEXT[] USING v::text[]", ymd),
        ("CHAR(5)[]", &["'{a,b}'"], "TEXT[] USING v::text[]", ""),
        ("DOUBLE PRECISION", &["0.1"], "TEXT", ""),
    ]
}

fn of_mariadb() -> Vec<Case> {
    let utc = "time_zone = \"+00:00\"\n";
    vec![
        ("BIT(9)", &["b'100000001'"], "BLOB", ""),
        ("ENUM('3', '1', '2')", &["'3'"], "INT", ""),
        ("SET('x', 'y', '1')", &["'1'", "'x,y'"], "INT", ""),
        ("INET6", &["'::1'"], "VARBINARY(16)", ""),
        ("INT(5) ZEROFILL", &["1234"], "CHAR(5)", ""),
        ("FLOAT", &["0.1", "2.5"], "VARCHAR(30)", ""),
        ("FLOAT", &["0.1"], "DOUBLE", ""),
        ("FLOAT", &["1234567.8"], "VARCHAR(30)", ""),
        ("DECIMAL(8,2) ZEROFILL", &["5.10"], "VARCHAR(30)", ""),
        ("DOUBLE", &["0.1", "1e22", "1234567.8"], "VARCHAR(30)", ""),
        ("DOUBLE", &["2.5", "-0.4"], "INT", ""),
        ("VARCHAR(20)", &["'2026-01-05'"], "DATE", ""),
        ("VARCHAR(20)", &["'12.50'"], "DECIMAL(8,1)", ""),
        ("TIME(6)", &["'10:11:12.5'"], "VARCHAR(20)", ""),
        ("DATE", &["'2026-01-05'"], "DATETIME", ""),
        ("DATE", &["'2026-01-05'"], "TIMESTAMP NULL", utc),
        (
            "DATETIME",
            &["'2026-01-20 10:11:12'"],
            "TIMESTAMP NULL",
            utc,
        ),
        (
            "TIMESTAMP NULL",
            &["'2026-01-20 10:11:12'"],
            "DATETIME",
            utc,
        ),
        (
            "TIMESTAMP NULL",
            &["'2026-01-20 10:11:12'"],
            "VARCHAR(30)",
            utc,
        ),
        ("VARBINARY(9)", &["'a'"], "VARCHAR(9)", ""),
    ]
}

/// Returns the expression for what `ALTER TABLE` makes.
fn altered(kind: &str, other: &str) -> &'static str {
    let is_shown = kind.starts_with("FLOAT") || kind.ends_with("ZEROFILL");
    if is_shown && other.contains("CHAR") {
        "lower(v)"
    } else {
        "v"
    }
}

/// Values went back as something else than the migration made of the others, with success: by rules that predicted what a
/// column keeps. Others never came back, whatever update was recorded. Now they wait for an update, and then have what the
/// others have.
pub(crate) fn values_of_another_family_wait_for_an_update() {
    for (number, (kind, values, other, settings)) in cases().into_iter().enumerate() {
        // Each case costs a society; every other one has the other step.
        for steps in STEPS.into_iter().skip(number % 2).take(1) {
            let what = format!("{kind} {other} {steps}");
            let mut society = society(kind, values, steps);
            let id = society.leave(1);
            migrated(&mut society, other);
            let revealed = society.reveal(1, id);
            let kept: Vec<_> = revealed
                .kept
                .iter()
                .map(|it| (it.reason, it.column.as_deref()))
                .collect();
            let waits = vec![(KeptReason::KindChanged, Some("v")); values.len()];
            assert_eq!(kept, waits, "{what}");
            assert_ne!(revealed.kept[0].identity, "", "{what}");
            let alone = mapping("", "");
            society.update(&alone).unwrap();
            let revealed = society.reveal(1, id);
            assert_eq!(revealed.kept.len(), values.len(), "{what} {revealed:?}");
            let said = format!("sql = {{ v = \"{}\" }}\n", altered(kind, other));
            let said = named("again", settings, &said);
            let recorded = society.update(&said);
            assert!(recorded.is_ok(), "{what} {recorded:?}");
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{what} {revealed:?}");
            assert_alike(&mut society, &what);
        }
    }
}

/// A value that was hidden once before and once after its column got another type came back as if it were of the new
/// type, if what hid it first was taken back first.
pub(crate) fn a_value_hidden_on_both_sides_of_a_migration_waits() {
    let (kind, value, other) = match crate::connect().dialect() {
        Dialect::Postgres => ("BYTEA", "'a'", "TEXT USING v::text"),
        Dialect::Mysql => ("INT(6) ZEROFILL", "7", "VARCHAR(9)"),
        _ => ("INTEGER", "7", "TEXT"),
    };
    let mut society = society(kind, &[value], STEPS[0]);
    let alone = |steps: &str| {
        let whole = description(&format!("{TABLES}{steps}"));
        let stays = whole.replace("[[remove]]\ntable = \"people\"\n", "");
        SpecFile::parse(&stays).unwrap().spec
    };
    society.spec = alone(STEPS[0]);
    let first = society.leave(1);
    migrated(&mut society, other);
    society.spec = alone(&STEPS[0].replace("\"Null\"", "{ ConstStr = \"x2\" }"));
    let second = society.leave(1);
    let revealed = society.reveal(1, first);
    assert_eq!(revealed.kept.len(), 1, "{revealed:?}");
    let revealed = society.reveal(1, second);
    assert_eq!(revealed.values["posts"], 1, "{revealed:?}");
    let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [KeptReason::KindChanged]);
}

/// A column that an update had made took each later type for its own: a second migration, of which no update was recorded,
/// went unnoticed.
pub(crate) fn a_value_that_an_update_made_waits_after_the_next_migration() {
    let (first, second) = match crate::connect().dialect() {
        Dialect::Postgres => ("REAL USING v::real", "DOUBLE PRECISION"),
        Dialect::Mysql => ("FLOAT", "DOUBLE"),
        _ => ("REAL", "INTEGER"),
    };
    for steps in STEPS {
        let kind = if crate::connect().dialect() == Dialect::Sqlite {
            "TEXT"
        } else {
            "VARCHAR(9)"
        };
        let mut society = society(kind, &["'0.1'", "'2.5'"], steps);
        let id = society.leave(1);
        migrated(&mut society, first);
        let said = mapping("", "sql = { v = \"v\" }\n");
        society.update(&said).unwrap();
        migrated(&mut society, second);
        let revealed = society.reveal(1, id);
        let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [KeptReason::KindChanged; 2], "{steps}");
        let again = named("again", "", "sql = { v = \"v\" }\n");
        society.update(&again).unwrap();
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{steps} {revealed:?}");
        assert_alike(&mut society, steps);
    }
}

/// One row with a value of another family kept the others of its table back, and their columns with NULL.
pub(crate) fn only_rows_with_a_value_wait() {
    let (kind, other) = match crate::connect().dialect() {
        Dialect::Postgres => ("TEXT", "DATE USING v::date"),
        Dialect::Mysql => ("VARCHAR(20)", "DATE"),
        _ => ("TEXT", "INTEGER"),
    };
    for steps in STEPS {
        let mut society = society(kind, &["'2026-01-05'", "NULL"], steps);
        let id = society.leave(1);
        migrated(&mut society, other);
        let revealed = society.reveal(1, id);
        assert_eq!(revealed.kept.len(), 1, "{steps} {revealed:?}");
        let back = society.numbers("SELECT id FROM posts WHERE who = 1 AND v IS NULL");
        assert!(back.contains(&11), "{steps} {back:?}");
    }
}

/// Expressions over times in a zone were asked in that of the engine: rows stayed that the migration had deleted.
pub(crate) fn an_update_over_zoned_times_says_the_zone() {
    let kind = match crate::connect().dialect() {
        Dialect::Postgres => "TIMESTAMPTZ",
        Dialect::Mysql => "TIMESTAMP NULL",
        _ => return,
    };
    let zone = "-05:00";
    let set = match crate::connect().dialect() {
        Dialect::Postgres => "SET TIME ZONE INTERVAL '-05:00' HOUR TO MINUTE",
        _ => "SET time_zone = '-05:00'",
    };
    let zone = if crate::connect().dialect() == Dialect::Postgres {
        "<-05>+05"
    } else {
        zone
    };
    // In New York the first is of the 19th, and in London of the 20th.
    let values = ["'2026-01-20 02:00:00'", "'2026-01-20 12:00:00'"];
    let mut society = society(kind, &values, REMOVAL);
    let id = society.leave(1);
    society.sql(set);
    society.sql("DELETE FROM posts WHERE v < '2026-01-20'");
    society.sql(match crate::connect().dialect() {
        Dialect::Postgres => "SET TIME ZONE 'UTC'",
        _ => "SET time_zone = '+00:00'",
    });
    let condition = "where = \"v >= '2026-01-20'\"\n";
    let unsaid = society.update(&mapping("", condition));
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("time_zone"));
    assert!(unsaid.as_ref().is_err_and(by_name), "{unsaid:?}");
    let of_null = mapping("", "where = \"v IS NOT NULL\"\n");
    society.update(&of_null).unwrap();
    let said = mapping(&format!("time_zone = \"{zone}\"\n"), condition);
    society.replace(&said).unwrap();
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_alike(&mut society, "zones");
}

/// Numbers of an expression went through floating-point numbers, and a number that the column rounds kept its row back.
pub(crate) fn an_update_calculates_as_the_migration_did() {
    let (decimal, long) = match crate::connect().dialect() {
        Dialect::Postgres => ("NUMERIC(10,2)", "NUMERIC(20,2)"),
        Dialect::Mysql => ("DECIMAL(10,2)", "DECIMAL(20,2)"),
        _ => ("NUMERIC", "NUMERIC"),
    };
    let all: &[(&str, &[&str], &str)] = &[
        (decimal, &["1.15", "10.10", "2.00", "8.35"], "v * 1.1"),
        (
            decimal,
            &["1.15", "10.10", "1.25", "1.05"],
            "round(v * 1.1, 2)",
        ),
        (long, &["123456789012345678.91"], "v + 0.5"),
        ("BIGINT", &["9007199254740993"], "v + 1"),
        ("INTEGER", &["3", "4"], "v * 1.5"),
    ];
    for (kind, values, expression) in all {
        let mut society = society(kind, values, REMOVAL);
        let id = society.leave(1);
        society.sql(&format!("UPDATE posts SET v = {expression}"));
        let target = format!("sql = {{ v = \"{expression}\" }}\n");
        let recorded = society.update(&mapping("", &target));
        assert!(recorded.is_ok(), "{expression} {recorded:?}");
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{expression} {revealed:?}");
        assert_alike(&mut society, expression);
    }
}

/// Types that hold the values of one another exactly kept people waiting for an update, and bytes that a longer column
/// fills up counted as changed by the application. On `SQLite` so did bytes, and what went into a column without a type.
pub(crate) fn types_that_hold_each_others_values_need_no_update() {
    let all: &[(&str, &[&str], &str)] = match crate::connect().dialect() {
        Dialect::Postgres => &[
            ("INTEGER[]", &["'{1,NULL,3}'"], "BIGINT[]"),
            ("VARCHAR(9)[]", &["'{a,\"b c\"}'"], "TEXT[]"),
        ],
        Dialect::Mysql => &[
            ("BINARY(4)", &["'ab'", "x'00'"], "BINARY(8)"),
            ("VARBINARY(4)", &["'ab'"], "BINARY(4)"),
        ],
        _ => &[
            ("DATETIME", &["'2026-01-05 10:00:00'", "'a'"], "TEXT"),
            ("", &["'a'", "'7'"], "TEXT"),
            ("BLOB", &["x'00ff'", "x''", "'a'"], "TEXT"),
            ("BLOB", &["x'07'", "7", "0.5"], "NUMERIC"),
            ("TEXT", &["'a'", "'7'"], "BLOB"),
            ("INTEGER", &["7"], ""),
        ],
    };
    for (kind, values, other) in all {
        for steps in STEPS {
            let mut society = society(kind, values, steps);
            let id = society.leave(1);
            migrated(&mut society, other);
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{kind} {steps} {revealed:?}");
            assert_alike(&mut society, kind);
        }
    }
}

/// An overwritten amount that its column shows in another form since was taken for one that the application had written.
pub(crate) fn an_overwritten_amount_is_found_in_another_form() {
    let (kind, other) = match crate::connect().dialect() {
        Dialect::Postgres => ("INTEGER", "NUMERIC(10,2)"),
        Dialect::Mysql => ("INT", "DECIMAL(10,2)"),
        _ => ("INTEGER", "NUMERIC"),
    };
    let steps = "[[modify]]\ntable = \"posts\"\ncolumn = \"v\"\nvalue = { ConstNum = -7 }\n";
    let mut society = society(kind, &["3", "-7", "NULL"], steps);
    let id = society.leave(1);
    migrated(&mut society, other);
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_alike(&mut society, other);
}

/// Negative numbers, fractions and comparisons of two numbers were refused by `PostgreSQL`, or compared as texts, since they
/// were parameters; and `MariaDB` compared fractions with rounded numbers.
pub(crate) fn numbers_of_a_condition_are_numbers() {
    let kind = match crate::connect().dialect() {
        Dialect::Mysql => "DECIMAL(20,2)",
        Dialect::Postgres => "NUMERIC(20,2)",
        _ => "NUMERIC",
    };
    let great = match crate::connect().dialect() {
        Dialect::Sqlite => "v > 6.5",
        _ => "v > 123456789012345678.915",
    };
    let values = ["-5", "7", "123456789012345678.91", "123456789012345678.92"];
    for (condition, hidden) in [
        ("v < -3", 1),
        ("v IN (-5, 7)", 2),
        ("v BETWEEN -6 AND -1", 1),
        ("v = abs(-7)", 1),
        ("9 < 10", 4),
        ("v * 2.5 < 17.6", 2),
        (great, if great == "v > 6.5" { 3 } else { 1 }),
    ] {
        let steps = format!("{REMOVAL}where = \"{condition}\"\n");
        let mut society = society(kind, &values, &steps);
        let id = society.leave(1);
        let left = society.numbers("SELECT COUNT(*) FROM posts WHERE who = 1");
        assert_eq!(left, [4 - hidden], "{condition}");
        assert!(society.reveal(1, id).is_complete(), "{condition}");
        society.assert_as_before(condition);
    }
}

/// A wrong expression was recorded where rows were hidden with the types of now, and refused everybody who returned.
pub(crate) fn an_expression_that_no_row_takes_is_refused_at_once() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let mut society = society("INTEGER", &["3"], REMOVAL);
    society.leave(1);
    let wrong = mapping("", "sql = { v = \"lower(v)\" }\n");
    let recorded = society.update(&wrong);
    assert!(
        matches!(recorded, Err(Error::Update { .. })),
        "{recorded:?}"
    );
}

/// A key that was narrowed ended the whole reveal where rows were looked up by it.
pub(crate) fn a_key_that_its_column_cannot_hold_names_no_row() {
    for steps in STEPS {
        let mut society = society("BIGINT", &["7"], steps);
        society.sql("INSERT INTO posts VALUES (5000000000, 1, 8)");
        society.before = society.everything();
        let id = society.leave(1);
        society.sql("DELETE FROM posts WHERE id = 5000000000");
        match crate::connect().dialect() {
            Dialect::Postgres => society.sql("ALTER TABLE posts ALTER id TYPE integer"),
            Dialect::Mysql => society.sql("ALTER TABLE posts MODIFY id INT"),
            _ => return,
        }
        let revealed = society.reveal(1, id);
        assert_eq!(revealed.kept.len(), 1, "{steps} {revealed:?}");
        let back = society.numbers("SELECT id FROM posts WHERE who = 1 AND v = 7");
        assert_eq!(back, [10], "{steps}");
    }
}

/// A value that named what was gone ended the whole reveal.
pub(crate) fn a_name_of_something_gone_keeps_its_row_alone() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    for (kind, gone, there, made, drop) in [
        (
            "REGCLASS",
            "'gone'",
            "'people'",
            "CREATE TABLE gone (a INT)",
            "DROP TABLE gone",
        ),
        (
            "REGTYPE",
            "'mood'",
            "'integer'",
            "CREATE TYPE mood AS ENUM ('a')",
            "DROP TYPE mood",
        ),
        (
            "REGNAMESPACE",
            "'nowhere'",
            "'public'",
            "CREATE SCHEMA nowhere",
            "DROP SCHEMA nowhere",
        ),
    ] {
        let described = description(&format!("{TABLES}{REMOVAL}"));
        let statements = [
            made.to_owned(),
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, v {kind})"),
            "INSERT INTO people VALUES (1, 'one')".to_owned(),
            format!("INSERT INTO posts VALUES (10, 1, {gone}), (11, 1, {there})"),
        ];
        let mut society = Society::of(&statements, &described, &[1]);
        let id = society.leave(1);
        society.sql(drop);
        let revealed = society.reveal(1, id);
        let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [KeptReason::Refused], "{kind}");
        assert_eq!(society.numbers("SELECT id FROM posts"), [11], "{kind}");
    }
}

/// A text that `SQLite` takes for a number up to its U+0000 came back as that number, and a row with NULL in its key was
/// not read back.
pub(crate) fn what_a_column_of_numbers_makes_of_a_value_is_seen() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (k TEXT PRIMARY KEY, who BIGINT, v ANYTHING_BLOB)",
        "INSERT INTO people VALUES (1, 'one')",
        "INSERT INTO posts VALUES (NULL, 1, 9007199254740993), ('a', 1, 9007199254740993), ('b', 1, 2)",
        "INSERT INTO posts VALUES ('c', 1, '12' || char(0) || 'secret'), (NULL, 1, '13' || char(0))",
        // Other versions of `SQLite` leave such texts alone.
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'ANYTHING_BLOB', 'NUMERIC')",
        "PRAGMA writable_schema = RESET",
    ]
    .map(str::to_owned);
    let described = description(&format!("{TABLES}{REMOVAL}"));
    let mut society = Society::of(&statements, &described, &[1]);
    let texts = "SELECT COUNT(*) FROM posts WHERE typeof(v) = 'text'";
    assert_eq!(society.numbers(texts), [2]);
    let id = society.leave(1);
    let revealed = society.reveal(1, id);
    let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [KeptReason::Refused; 2], "{revealed:?}");
    let all = society.numbers("SELECT v FROM posts ORDER BY v");
    assert_eq!(all, [2, 9_007_199_254_740_993, 9_007_199_254_740_993]);
}
