//! Names and columns in updates: those that were added, copied, written with quotes or without, and
//! words that have other names.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, KeptReason, Mapping, SpecError, UpdateError};

use super::families::{REMOVAL, STEPS, assert_alike, mapping, migrated, named, society};
use super::society::{Society, description};

fn is_wrong(refused: &Result<(), Error>, because: &str) -> bool {
    matches!(refused, Err(Error::Update { source: UpdateError::Wrong(what), .. }) if what.contains(because))
}

/// A column that was added got the default of the day of the reveal, whatever the migration had given to the rows that were there.
/// An update says it, or is refused by its name.
pub(crate) fn a_column_that_was_added_is_said_or_refused() {
    for value in ["'3'", "v"] {
        let mut society = society("VARCHAR(9)", &["'a'", "NULL"], REMOVAL);
        let id = society.leave(1);
        society.sql("ALTER TABLE posts ADD c VARCHAR(9)");
        society.sql(&format!("UPDATE posts SET c = {value}"));
        for unsaid in ["", "sql = { v = \"v\" }\n"] {
            let refused = society.update(&mapping("", unsaid));
            assert!(is_wrong(&refused, "column c of posts"), "{refused:?}");
        }
        let said = mapping("", &format!("added = {{ c = \"{value}\" }}\n"));
        society.update(&said).unwrap();
        assert!(society.reveal(1, id).is_complete(), "{value}");
        assert_alike(&mut society, value);
        let of = |who| format!("SELECT COUNT(*) FROM posts WHERE who = {who} AND c IN ('3', 'a')");
        assert_eq!(society.numbers(&of(1)), society.numbers(&of(2)), "{value}");
    }
    // A column that is NULL wherever it is there, and has no default, need not be said.
    let mut society = society("VARCHAR(9)", &["'a'"], REMOVAL);
    let id = society.leave(1);
    society.sql("ALTER TABLE posts ADD c VARCHAR(9)");
    let unsaid = mapping("", "");
    society.update(&unsaid).unwrap();
    if crate::connect().dialect() != Dialect::Sqlite {
        society.sql("ALTER TABLE posts ALTER c SET DEFAULT 'later'");
    }
    assert!(society.reveal(1, id).is_complete());
    let empty = society.numbers("SELECT COUNT(*) FROM posts WHERE c IS NULL");
    assert_eq!(empty, [2]);
    // Rows that have the column keep it.
    let mut society = self::society("VARCHAR(9)", &["'a'"], REMOVAL);
    society.sql("ALTER TABLE posts ADD c VARCHAR(9)");
    society.sql("UPDATE posts SET c = 'own'");
    let id = society.leave(1);
    let said = mapping("", "added = { c = \"'other'\" }\n");
    society.update(&said).unwrap();
    assert!(society.reveal(1, id).is_complete());
    let own = society.numbers("SELECT COUNT(*) FROM posts WHERE c = 'own'");
    assert_eq!(own, [2]);
    // Such a column may be left to the database.
    let mut society = self::society("VARCHAR(9)", &["'a'"], REMOVAL);
    let id = society.leave(1);
    society.sql("ALTER TABLE posts ADD c VARCHAR(9) DEFAULT 'filled'");
    let refused = society.update(&mapping("", ""));
    assert!(is_wrong(&refused, "column c of posts"), "{refused:?}");
    let said = mapping("", "added = { c = \"default\" }\n");
    society.update(&said).unwrap();
    assert!(society.reveal(1, id).is_complete());
    let filled = society.numbers("SELECT COUNT(*) FROM posts WHERE c = 'filled'");
    assert_eq!(filled, [2]);
}

/// A copy of a column under a wrong name was passed over: the row came back without the value, and its record went.
pub(crate) fn a_copy_of_no_column_is_refused() {
    for steps in [REMOVAL, STEPS[0]] {
        let mut society = society("VARCHAR(9)", &["'a'"], steps);
        let id = society.leave(1);
        society.sql("ALTER TABLE posts RENAME COLUMN v TO body");
        let text = |from: &str| {
            format!(
                "[[update]]\nname = \"u\"\ntable = \"posts\"\n[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"v\"]\ncolumns = {{ body = \"{from}\" }}\n"
            )
        };
        let wrong = Mapping::parse(&text("vv")).unwrap();
        let refused = society.update(&wrong);
        assert!(is_wrong(&refused, "copies column vv"), "{refused:?}");
        let right = Mapping::parse(&text("v")).unwrap();
        society.update(&right).unwrap();
        assert!(society.reveal(1, id).is_complete());
        let back = society.numbers("SELECT COUNT(*) FROM posts WHERE body = 'a'");
        assert_eq!(back, [2]);
    }
}

/// A name without quotes was taken as it was written, so that A was the column "A", where `PostgreSQL` reads the column a.
pub(crate) fn names_without_quotes_are_folded() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, \"A\" TEXT, a TEXT, v TEXT, \"Only\" TEXT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO posts VALUES (10, 1, 'upper', 'lower', '', 'only'), (20, 2, 'upper', 'lower', '', 'only')",
    ]
    .map(str::to_owned);
    let described = description(&format!("[tables.posts]\nowners = [\"who\"]\n{REMOVAL}"));
    for (said, made) in [
        ("A", "A"),
        ("\\\"A\\\"", "\"A\""),
        ("\\\"a\\\"", "\"a\""),
        ("lower(A)", "lower(A)"),
        // No column has the folded name.
        ("Only", "\"Only\""),
    ] {
        let mut society = Society::of(&statements, &described, &[1]);
        let id = society.leave(1);
        society.sql(&format!("UPDATE posts SET v = {made}"));
        let update = mapping("", &format!("sql = {{ v = \"{said}\" }}\n"));
        society.update(&update).unwrap();
        assert!(society.reveal(1, id).is_complete(), "{said}");
        assert_alike(&mut society, said);
    }
    let mut society = Society::of(&statements, &described, &[1]);
    society.leave(1);
    let wrong = mapping("", "sql = { v = \"\\\"only\\\"\" }\n");
    let refused = society.update(&wrong);
    assert!(is_wrong(&refused, "there is no column only"), "{refused:?}");
}

/// A comparison within another one was read by the grammar of the parser, and databases have others: rows came back with other truths
/// than the migration found.
pub(crate) fn a_comparison_within_another_needs_brackets() {
    let mut society = society("VARCHAR(9)", &["'a'"], REMOVAL);
    let id = society.leave(1);
    for open in [
        "v LIKE 'a%' = 0",
        "id = who < id",
        "v = who IN (1, 2)",
        "id BETWEEN 1 AND 2 = who",
        "id = who IS NULL",
        "id = who LIKE 'a'",
        "- id < who + (NOT v = 'a') IN (1)",
    ] {
        let update = mapping("", &format!("where = \"{open}\"\n"));
        let refused = society.update(&update);
        let is_named = matches!(&refused, Err(Error::Spec(SpecError { what, .. })) if what.contains("brackets"));
        assert!(is_named, "{open} {refused:?}");
    }
    let said =
        "where = \"NOT v = 'b' AND (v = 'a') = (id < who + 100) OR v IS NULL AND - id + 1 > 0\"\n";
    let update = mapping("", said);
    society.update(&update).unwrap();
    assert!(society.reveal(1, id).is_complete());
    society.assert_as_before("brackets");
}

/// Values were worked out of rows that the condition of an update leaves alone, too: a text that is no number refused the reveal of
/// everything that a person had.
pub(crate) fn what_a_condition_leaves_alone_is_not_worked_out() {
    let made = match crate::connect().dialect() {
        Dialect::Postgres => "v::numeric",
        _ => "v",
    };
    let mut society = society("VARCHAR(9)", &["'12.5'", "'hello'"], REMOVAL);
    let id = society.leave(1);
    society.sql("ALTER TABLE posts ADD n DECIMAL(10,2)");
    society.sql(&format!("UPDATE posts SET n = {made} WHERE v <> 'hello'"));
    let into = "sql = { n = \"v\" }\nwhere = \"v <> 'hello'\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nadded = { n = \"NULL\" }\nwhere = \"v = 'hello'\"\n";
    let update = mapping("", into);
    society.update(&update).unwrap();
    assert!(society.reveal(1, id).is_complete());
    assert_alike(&mut society, "guarded");
    let numbers = society.numbers("SELECT COUNT(*) FROM posts WHERE n = 12.5");
    assert_eq!(numbers, [2]);
}

/// A mapping in the place of another one had the types of its own day: a value came back past a type between.
pub(crate) fn a_mapping_in_the_place_of_another_keeps_its_types() {
    let between = match crate::connect().dialect() {
        Dialect::Postgres => "NUMERIC(10,1) USING v::numeric(10,1)",
        _ => "DECIMAL(10,1)",
    };
    let mut society = society("VARCHAR(20)", &["'1.250'"], REMOVAL);
    let id = society.leave(1);
    let said = |name| named(name, "", "sql = { v = \"v\" }\n");
    migrated(&mut society, between);
    society.update(&said("one")).unwrap();
    migrated(&mut society, "VARCHAR(20)");
    society.update(&said("two")).unwrap();
    let again = said("one");
    society.replace(&again).unwrap();
    assert!(society.reveal(1, id).is_complete());
    assert_alike(&mut society, between);
}

/// `MariaDB` reads what is in double quotes as a text, and --1 as a number: a row came back with a column of that name, or without the
/// number.
pub(crate) fn double_quotes_and_comments_are_refused() {
    let mut society = society("VARCHAR(9)", &["'a'"], REMOVAL);
    society.leave(1);
    for comment in ["id--1", "id -- 1", "id /* 1 */"] {
        let update = mapping("", &format!("sql = {{ v = \"{comment}\" }}\n"));
        let refused = society.update(&update);
        assert!(
            matches!(refused, Err(Error::Spec(_))),
            "{comment} {refused:?}"
        );
    }
    let update = mapping("", "sql = { v = \"\\\"v\\\"\" }\n");
    let refused = society.update(&update);
    if crate::connect().dialect() == Dialect::Mysql {
        assert!(is_wrong(&refused, "may mean two"), "{refused:?}");
    } else {
        refused.unwrap();
    }
    // The name of a table in other letters concerns no row.
    let text = "[[update]]\nname = \"T\"\ntable = \"POSTS\"\n[[update.into]]\ntable = \"posts\"\nrest = true\n";
    let refused = society.update(&Mapping::parse(text).unwrap());
    assert!(is_wrong(&refused, "are of posts"), "{refused:?}");
}

/// A distance from UTC that the program itself advised was read with the sign of POSIX: times came back by hours too early, or too late.
pub(crate) fn a_distance_from_utc_is_not_turned_round() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let mut society = society("TIMESTAMPTZ", &["'2026-01-20 10:00Z'"], REMOVAL);
    let id = society.leave(1);
    society.sql("SET timezone = 'Etc/GMT+5'");
    society.sql("ALTER TABLE posts ALTER v TYPE text");
    society.sql("SET timezone = 'UTC'");
    let said = |zone: &str| {
        let more = format!("time_zone = \"{zone}\"\ndate_style = \"ISO, YMD\"\n");
        mapping(&more, "sql = { v = \"v\" }\n")
    };
    let refused = society.update(&said("Nowhere/City"));
    assert!(is_wrong(&refused, "<-05>+05"), "{refused:?}");
    for turned in ["-05:00", "+05:00", "05:30"] {
        let refused = society.update(&said(turned));
        assert!(is_wrong(&refused, "sign of POSIX"), "{refused:?}");
    }
    society.update(&said("<-05>+05")).unwrap();
    assert!(society.reveal(1, id).is_complete());
    assert_alike(&mut society, "zone");
}

/// A word of an enumeration had no way back once it had another name: every condition on the old word was refused. It is compared as
/// the text that it was.
pub(crate) fn a_word_that_has_another_name_is_said_by_the_old_one() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let renamed = ["ALTER TYPE letters RENAME VALUE 'z' TO 'c'"];
    let dropped = [
        "CREATE TYPE others AS ENUM ('c', 'b')",
        "ALTER TABLE posts ALTER v TYPE others USING (CASE v WHEN 'z' THEN 'c' ELSE v::text END)::others",
        "DROP TYPE letters",
    ];
    let turned = [
        "ALTER TYPE letters RENAME VALUE 'z' TO 'other'",
        "ALTER TYPE letters RENAME VALUE 'b' TO 'z'",
        "ALTER TYPE letters RENAME VALUE 'other' TO 'b'",
    ];
    let known = "sql = { v = \"'c'\" }\nwhere = \"v = 'z'\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"v IS NULL OR v <> 'z'\"\n";
    let known_anew = "sql = { v = \"'c'\" }\nwhere = \"v = 'z'\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { v = \"v\" }\nwhere = \"v IS NULL OR v <> 'z'\"\n";
    let circle = "sql = { v = \"'b'\" }\nwhere = \"v = 'z'\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { v = \"'z'\" }\nwhere = \"v = 'b'\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"v IS NULL OR NOT v IN ('z', 'b')\"\n";
    for steps in STEPS {
        for (migration, said) in [
            (&renamed[..], known),
            (&dropped[..], known_anew),
            (&turned[..], circle),
        ] {
            let mut society = enumerated(steps);
            let id = society.leave(1);
            for sql in migration {
                society.sql(sql);
            }
            if migration == renamed {
                let waiting = society.reveal(1, id);
                let reasons: Vec<_> = waiting.kept.iter().map(|it| it.reason).collect();
                assert_eq!(reasons, [KeptReason::KindChanged], "{waiting:?}");
            }
            let update = named("words", "", said);
            society.update(&update).unwrap();
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{steps} {said} {revealed:?}");
            assert_alike(&mut society, said);
        }
    }
    // Texts have another order.
    let mut society = enumerated(REMOVAL);
    society.leave(1);
    society.sql(renamed[0]);
    let ordered = named("words", "", "where = \"v < 'b'\"\n");
    let refused = society.update(&ordered);
    assert!(
        is_wrong(&refused, "orders the words of column v"),
        "{refused:?}"
    );
}

fn enumerated(steps: &str) -> Society {
    let mut statements = vec![
        "CREATE TYPE letters AS ENUM ('z', 'b')".to_owned(),
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, v letters)".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
    ];
    for (at, value) in ["'z'", "'b'", "NULL"].iter().enumerate() {
        for who in [1, 2] {
            let id = who * 10 + at;
            statements.push(format!("INSERT INTO posts VALUES ({id}, {who}, {value})"));
        }
    }
    let described = description(&format!("[tables.posts]\nowners = [\"who\"]\n{steps}"));
    Society::of(&statements, &described, &[1])
}
