//! Updates whose migration ran in a session with other settings than those of the engine.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Dialect, Error, UpdateError};

use super::families::{REMOVAL, assert_alike, mapping, migrated, society};
use super::society::Society;

/// Targets of which the character set of the connection decides on `MariaDB`.
const OF_CONNECTION: [&str; 18] = [
    "sql = { b = \"'\u{e9}'\" }\n",
    "values = { b = \"\u{e9}\" }\n",
    "sql = { b = \"coalesce(t, '\u{e9}')\" }\n",
    "sql = { b = \"coalesce(b, '\u{e9}')\" }\n",
    "sql = { b = \"lower(v)\" }\n",
    "sql = { b = \"coalesce(v, 'x')\" }\n",
    "sql = { n = \"b = '\u{e9}'\" }\n",
    "sql = { n = \"b LIKE '\u{e9}%'\" }\n",
    "sql = { n = \"lower(b) = '\u{e9}'\" }\n",
    "sql = { n = \"octet_length('\u{e9}')\" }\n",
    "sql = { n = \"octet_length(lower(v))\" }\n",
    "sql = { n = \"octet_length(coalesce(t, '\u{e9}'))\" }\n",
    "sql = { n = \"char_length('\u{e9}')\" }\n",
    "sql = { t = \"substr('\u{e9}a', 1, 1)\" }\n",
    "sql = { t = \"lower('\u{c0}I')\" }\n",
    "sql = { t = \"upper('i')\" }\n",
    "sql = { t = \"upper(coalesce(v, 'i'))\" }\n",
    "sql = { t = \"upper(f)\" }\n",
];

fn assert_refused(society: &mut Society, target: &str, why: &str) {
    let refused = society.update(&mapping("", target));
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(why));
    assert!(refused.as_ref().is_err_and(by_name), "{target} {refused:?}");
}

fn record(society: &mut Society, target: &str) {
    let recorded = society.update(&mapping("", target));
    assert!(recorded.is_ok(), "{target} {recorded:?}");
}

/// Letters beyond ASCII became other bytes, and letters of no column another case, by the character set of the connection of the
/// migration. Expressions over texts of no column, of which that decides, are refused; those of columns are not.
pub(crate) fn what_the_character_set_of_the_connection_decides_is_refused() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let columns = "INT, t VARCHAR(30), b VARBINARY(30), n INT, f DOUBLE";
    let there = || society(columns, &["7, '\u{e9}i', 'abc', NULL, 1e20"], REMOVAL);
    let mut twins = there();
    twins.leave(1);
    for target in OF_CONNECTION {
        assert_refused(&mut twins, target, "character set of the connection");
    }
    for target in [
        "sql = { t = \"'\u{e9}'\" }\n",
        "values = { t = \"\u{e9}\" }\n",
        "sql = { t = \"upper(coalesce(t, '\u{e9}'))\" }\n",
        "sql = { t = \"lower(f)\" }\n",
        "sql = { t = \"trim(lower(v))\" }\n",
        "sql = { t = \"upper(v)\" }\n",
        "sql = { b = \"'abc'\" }\n",
        "sql = { b = \"t\" }\n",
        "sql = { n = \"t = '\u{e9}I'\" }\n",
        "sql = { n = \"t LIKE '\u{e9}%'\" }\n",
        "sql = { n = \"b LIKE 'a%'\" }\n",
        "sql = { n = \"b = 'abc'\" }\n",
        "sql = { n = \"octet_length(t)\" }\n",
        "sql = { n = \"octet_length(b)\" }\n",
        "sql = { n = \"char_length(v)\" }\n",
    ] {
        let mut twins = there();
        let gone = twins.leave(1);
        let (column, expression) = target
            .split_once("{ ")
            .unwrap()
            .1
            .split_once(" = ")
            .unwrap();
        let expression = expression
            .trim_end()
            .trim_end_matches(" }")
            .trim_matches('"');
        let expression = if target.starts_with("values") {
            format!("'{expression}'")
        } else {
            expression.to_owned()
        };
        twins
            .sql("SET character_set_connection = latin1, collation_connection = latin1_german2_ci");
        twins.sql(&format!("UPDATE posts SET {column} = {expression}"));
        twins.sql("SET NAMES utf8mb4");
        record(&mut twins, target);
        assert!(twins.reveal(1, gone).is_complete(), "{target}");
        let mut of = |who: i64| {
            let sql = format!("SELECT hex({column}) FROM posts WHERE who = {who}");
            twins.engine.database().query(&sql, &[]).unwrap()
        };
        assert_eq!(of(1), of(2), "{target}");
    }
}

/// A migration whose session told letters of another case apart in LIKE had found nothing, and the reveal found the row. Where the
/// two differ the reveal is refused.
pub(crate) fn what_like_finds_by_a_setting_is_refused() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    for (expression, is_sure) in [
        ("v LIKE 'a%'", false),
        ("coalesce(v, 'x') NOT LIKE '%B_'", false),
        ("lower(v) LIKE 'a%'", true),
        ("v LIKE 'x%'", true),
        ("v LIKE '_bc'", true),
        ("v LIKE '[a]%'", true),
    ] {
        for (set, back) in [("on", "off"), ("on", "on"), ("off", "off"), ("off", "on")] {
            let mut society = society("TEXT", &["'Abc'"], REMOVAL);
            society.sql("ALTER TABLE posts ADD n INTEGER");
            let gone = society.leave(1);
            society.sql(&format!("PRAGMA case_sensitive_like = {set}"));
            society.sql(&format!("UPDATE posts SET n = ({expression})"));
            society.sql(&format!("PRAGMA case_sensitive_like = {back}"));
            record(&mut society, &format!("sql = {{ n = \"{expression}\" }}\n"));
            let revealed = society.try_to_return(1, gone);
            if is_sure {
                assert!(revealed.unwrap().is_complete(), "{expression}");
                let numbers = society.numbers("SELECT n FROM posts");
                assert_eq!(numbers[0], numbers[1], "{expression} {set} {back}");
            } else {
                let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("case_sensitive_like"));
                assert!(
                    revealed.as_ref().is_err_and(by_name),
                    "{expression} {revealed:?}"
                );
            }
        }
    }
}

/// By `transform_null_equals`, `v = NULL` of a migration had been true, and was NULL of a row that came back.
pub(crate) fn a_comparison_with_null_that_a_setting_turns_is_refused() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let mut society = society("TEXT", &["NULL", "'a'"], REMOVAL);
    society.sql("ALTER TABLE posts ADD n BOOLEAN");
    society.leave(1);
    for target in [
        "sql = { n = \"v = NULL\" }\n",
        "sql = { n = \"v IS NULL OR (NULL) = v\" }\n",
        "where = \"v = 'a' OR v = (NULL)\"\n",
    ] {
        assert_refused(&mut society, target, "say IS NULL");
    }
    record(&mut society, "sql = { n = \"v IS NULL\" }\n");
}

/// `ALTER TABLE` from `FLOAT` to `FLOAT(7,2)` had left the digits that an assignment rounds away: the name of the column alone gave
/// the rounded number with success.
pub(crate) fn a_rounded_number_that_keeps_its_digits_needs_its_statement_said() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    for (kind, other) in [("FLOAT", "FLOAT(7,2)"), ("DOUBLE(9,4)", "DOUBLE(7,2)")] {
        let mut society = society(kind, &["0.126"], REMOVAL);
        let gone = society.leave(1);
        for sql in [
            &format!("ALTER TABLE posts ADD w {other}"),
            "UPDATE posts SET w = v",
            &format!("ALTER TABLE posts DROP v, CHANGE w v {other}"),
        ] {
            society.sql(sql);
        }
        assert_refused(
            &mut society,
            "sql = { v = \"v\" }\n",
            "may mean two numbers",
        );
        record(&mut society, "sql = { v = \"(v)\" }\n");
        assert!(society.reveal(1, gone).is_complete(), "{kind}");
        assert_alike(&mut society, kind);
    }
    let mut society = society("FLOAT(7,2)", &["0.13"], REMOVAL);
    let gone = society.leave(1);
    migrated(&mut society, "FLOAT");
    record(&mut society, "sql = { v = \"v\" }\n");
    assert!(society.reveal(1, gone).is_complete());
}

/// A time beside a day and a time was one of the year 0 by `old_mode`, and one of the day of the reading otherwise.
pub(crate) fn a_time_beside_a_day_is_tried_by_the_old_mode() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let mut society = society("TIME", &["'10:00:00'"], REMOVAL);
    society.sql("ALTER TABLE posts ADD w DATETIME, ADD n INT");
    society.sql("UPDATE posts SET w = '1900-01-01'");
    let gone = society.leave(1);
    society.sql("SET old_mode = 'ZERO_DATE_TIME_CAST'");
    society.sql("UPDATE posts SET n = v > w");
    society.sql("SET old_mode = DEFAULT");
    let target = "sql = { n = \"v > w\" }\nadded = { w = \"NULL\" }\n";
    record(&mut society, target);
    let refused = society.try_to_return(1, gone);
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("depends on settings"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}

/// A text that was copied from a statement of `MariaDB` had lost a backslash there or become a tab, and kept both letters here.
pub(crate) fn a_text_with_a_backslash_is_refused_where_it_means_two() {
    let mut society = society("VARCHAR(9)", &["'a_b'", "NULL"], REMOVAL);
    let gone = society.leave(1);
    let is_mariadb = crate::connect().dialect() == Dialect::Mysql;
    for expression in [
        r"coalesce(v,'C:\\tmp')",
        r"coalesce(v,'a\tb')",
        r"coalesce(v,'a\')",
    ] {
        let target = format!("sql = {{ v = '''{expression}''' }}\n");
        if is_mariadb {
            assert_refused(&mut society, &target, "may mean two texts");
        }
    }
    if is_mariadb {
        // It is no escape of a statement, and keeps its backslash in both.
        record(&mut society, "where = '''v IS NULL OR v LIKE 'a\\_%' '''\n");
        assert!(society.reveal(1, gone).is_complete());
    } else {
        record(&mut society, "sql = { v = '''coalesce(v,'a\\tb')''' }\n");
        society.sql(r"UPDATE posts SET v = coalesce(v,'a\tb')");
        assert!(society.reveal(1, gone).is_complete());
        assert_alike(&mut society, "a backslash");
    }
}

/// A statement had been read by other rules, which the server has for all sessions.
pub(crate) fn what_a_server_reads_otherwise_is_refused() {
    let cases: &[(&str, &str, &str, &str)] = match crate::connect().dialect() {
        Dialect::Mysql => &[
            (
                "SET GLOBAL sql_mode = 'ORACLE'",
                "SET GLOBAL sql_mode = DEFAULT",
                "trim(v)",
                "ORACLE",
            ),
            (
                "SET GLOBAL sql_mode = 'ORACLE'",
                "SET GLOBAL sql_mode = DEFAULT",
                "substr(v, 0, 2)",
                "ORACLE",
            ),
            (
                "SET GLOBAL sql_mode = 'HIGH_NOT_PRECEDENCE'",
                "SET GLOBAL sql_mode = DEFAULT",
                "coalesce(v, NOT 4 > 6)",
                "HIGH_NOT_PRECEDENCE",
            ),
            (
                "SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'",
                "SET GLOBAL sql_mode = DEFAULT",
                "v LIKE v",
                "NO_BACKSLASH_ESCAPES",
            ),
            (
                "SET GLOBAL character_set_connection = utf16",
                "SET GLOBAL character_set_connection = DEFAULT",
                "coalesce(v, 'a')",
                "character_set_connection",
            ),
        ],
        Dialect::Postgres => &[
            (
                "ALTER ROLE probity SET standard_conforming_strings = off",
                "ALTER ROLE probity RESET standard_conforming_strings",
                r"coalesce(v, 'a\b')",
                "standard_conforming_strings",
            ),
            (
                "UPDATE pg_catalog.pg_collation SET collcollate = 'de_DE.utf8' WHERE collname = 'ucs_basic'",
                "UPDATE pg_catalog.pg_collation SET collcollate = 'C' WHERE collname = 'ucs_basic'",
                "m = '12.5'",
                "lc_monetary",
            ),
        ],
        _ => return,
    };
    let mut society = society("VARCHAR(9)", &["'ab'"], REMOVAL);
    if crate::connect().dialect() == Dialect::Postgres {
        society.sql("ALTER TABLE posts ADD m MONEY");
    }
    society.leave(1);
    for (set, back, expression, why) in cases {
        let target = format!("sql = {{ v = '''{expression}''' }}\n");
        society.sql(set);
        assert_refused(&mut society, &target, why);
        society.sql(back);
    }
    let (_, _, expression, _) = cases[0];
    let target = format!("sql = {{ v = '''{expression}''' }}\n");
    record(&mut society, &target);
}
