//! Updates whose expressions have more than one meaning, or another one at each moment.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, UpdateError};

use super::families::{REMOVAL, assert_alike, mapping, migrated, named, society};

/// A number that its column shows with other digits came back as the text of `ALTER TABLE` where the migration had been an
/// UPDATE, and the other way round.
pub(crate) fn a_number_of_two_texts_needs_one_of_them_said() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    for (kind, value, other) in [
        ("INT(6) ZEROFILL", "7", "VARCHAR(30)"),
        ("DECIMAL(8,2) ZEROFILL", "5.10", "VARCHAR(30)"),
        ("FLOAT", "0.1", "VARBINARY(30)"),
        ("DOUBLE(8,3)", "0.1", "VARCHAR(30)"),
    ] {
        let mut society = society(kind, &[value], REMOVAL);
        let id = society.leave(1);
        for sql in [
            &format!("ALTER TABLE posts ADD w {other}"),
            "UPDATE posts SET w = v",
            &format!("ALTER TABLE posts DROP v, CHANGE w v {other}"),
        ] {
            society.sql(sql);
        }
        for alone in ["v", "\\\"v\\\"", "length(v)"] {
            let alone = mapping("", &format!("sql = {{ v = \"{alone}\" }}\n"));
            let refused = society.update(&alone);
            let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("may mean two"));
            assert!(refused.as_ref().is_err_and(by_name), "{kind} {refused:?}");
        }
        let said = mapping("", "sql = { v = \"(v)\" }\n");
        society.update(&said).unwrap();
        assert!(society.reveal(1, id).is_complete(), "{kind}");
        assert_alike(&mut society, kind);
    }
}

/// A time in a zone that an earlier update made was compared in the zone of the engine: a row came back that the migration
/// had deleted.
pub(crate) fn a_time_that_an_update_made_needs_the_zone_said() {
    let (add, fill) = match crate::connect().dialect() {
        Dialect::Postgres => ("ADD ts TIMESTAMPTZ", "v::timestamptz"),
        Dialect::Mysql => ("ADD ts TIMESTAMP NULL", "v"),
        _ => return,
    };
    let mut society = society("VARCHAR(30)", &["'2026-01-19 17:00:00'"], REMOVAL);
    society.leave(1);
    society.sql(&format!("ALTER TABLE posts {add}"));
    society.sql(&format!("UPDATE posts SET ts = {fill}"));
    let made = named("made", "time_zone = \"+00:00\"\n", "sql = { ts = \"v\" }\n");
    society.update(&made).unwrap();
    let unsaid = named("later", "", "where = \"ts <> '2026-01-19 17:00:00'\"\n");
    let refused = society.update(&unsaid);
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("time_zone"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}

/// Bytes and intervals never came back as texts: the form of their texts could not be said.
pub(crate) fn an_update_says_how_texts_are_made() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    for (kind, value, other, key) in [
        ("TIME", "'10:00'", "TIMETZ", "by code"),
        ("TIME[]", "'{10:00}'", "TIMETZ[]", "by code"),
        ("BYTEA", "'a'", "TEXT USING v::text", "bytea_output"),
        ("INTERVAL[]", "'{90 minutes}'", "TEXT", "interval_style"),
        ("DATE", "'2026-01-05'", "TEXT", "date_style"),
        (
            "TIMESTAMP[]",
            "'{2026-01-05}'",
            "TEXT[] USING v::text[]",
            "date_style",
        ),
    ] {
        let mut society = society(kind, &[value], REMOVAL);
        society.leave(1);
        migrated(&mut society, other);
        let zone = if key == "by code" {
            "time_zone = \"UTC\"\n"
        } else {
            ""
        };
        let unsaid = mapping(zone, "sql = { v = \"v\" }\n");
        let refused = society.update(&unsaid);
        let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(key));
        assert!(refused.as_ref().is_err_and(by_name), "{kind} {refused:?}");
    }
    // A rounded number has more digits by one setting than by another, and an interval another sign.
    for (kind, value, other) in [
        ("DOUBLE PRECISION", "0.30000000000000004", "TEXT"),
        ("TEXT", "'-1 10:00:00'", "INTERVAL USING v::interval"),
    ] {
        let mut society = society(kind, &[value], REMOVAL);
        let id = society.leave(1);
        society.sql("SET intervalstyle = 'sql_standard'");
        society.sql("SET extra_float_digits = 0");
        migrated(&mut society, other);
        society.sql("SET intervalstyle = 'postgres'");
        society.sql("SET extra_float_digits = 3");
        let unsaid = mapping("", "sql = { v = \"v\" }\n");
        society.update(&unsaid).unwrap();
        let refused = society.try_to_return(1, id);
        assert!(
            matches!(refused, Err(Error::Update { .. })),
            "{kind} {refused:?}"
        );
        let settings = "interval_style = \"sql_standard\"\nextra_float_digits = 0\n";
        let said = mapping(settings, "sql = { v = \"v\" }\n");
        society.replace(&said).unwrap();
        assert!(society.try_to_return(1, id).unwrap().is_complete());
        assert_alike(&mut society, kind);
    }
}

/// Two migrations were done, and their updates recorded one after the other: the first had the type that the second led to, and
/// values came back as if the type between had never been. The second is refused now.
pub(crate) fn an_update_that_was_recorded_too_late_is_found() {
    let (first, second) = match crate::connect().dialect() {
        Dialect::Postgres => ("REAL USING v::real", "DOUBLE PRECISION"),
        Dialect::Mysql => ("FLOAT", "DOUBLE"),
        _ => ("REAL", "NUMERIC"),
    };
    let mut society = society("VARCHAR(9)", &["'0.1'"], REMOVAL);
    society.leave(1);
    migrated(&mut society, first);
    migrated(&mut society, second);
    let said = "sql = { v = \"v\" }\n";
    let late = named("late", "", said);
    society.update(&late).unwrap();
    let refused = society.update(&named("later", "", said));
    let by_name = |error: &Error| matches!(error, Error::Update { name, source: UpdateError::Wrong(what) } if name == "later" && what.contains("update late made"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}

/// A number became other bits by the width of its column, a time the day of the clock, and an amount another by `lc_monetary`:
/// only pairs of types that were found wanting had been refused. Now all are that are on no list.
pub(crate) fn a_conversion_that_is_on_no_list_is_refused_by_name() {
    let cases: &[(&str, &str, &str, &str)] = match crate::connect().dialect() {
        Dialect::Postgres => &[
            ("INTEGER", "5", "BIT(8) USING v::bit(8)", "bit of number"),
            ("MONEY", "'12.34'", "NUMERIC", "number of money"),
            ("XML", "'<a/>'", "TEXT", "text of xml"),
        ],
        Dialect::Mysql => &[
            ("TIME", "'10:00:00'", "DATETIME", "datetime of time"),
            ("VARBINARY(9)", "'12'", "INT", "whole of bytes"),
        ],
        _ => return,
    };
    for (kind, value, other, told) in cases {
        let mut society = society(kind, &[value], REMOVAL);
        society.leave(1);
        migrated(&mut society, other);
        let said = mapping("", "sql = { v = \"v\" }\n");
        let refused = society.update(&said);
        let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(told) && what.contains("by code"));
        assert!(refused.as_ref().is_err_and(by_name), "{kind} {refused:?}");
    }
}

/// Rows were hidden once with a type of which an update has no certain result, and are back. The update is recorded for those that
/// are hidden with another.
pub(crate) fn types_of_rows_that_are_back_keep_no_update_away() {
    let (kind, value, next, last) = match crate::connect().dialect() {
        Dialect::Postgres => ("INTEGER", "101", "TEXT", "BIT VARYING USING v::bit varying"),
        Dialect::Mysql => ("VARBINARY(9)", "'12'", "VARCHAR(9)", "INT"),
        _ => return,
    };
    let mut society = society(kind, &[value], REMOVAL);
    let id = society.leave(1);
    assert!(society.reveal(1, id).is_complete());
    migrated(&mut society, next);
    let id = society.leave(1);
    migrated(&mut society, last);
    let refused = society.update(&mapping("", "sql = { v = \"v\" }\n"));
    let names_both = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(" or ") && what.contains("as was"));
    assert!(refused.as_ref().is_err_and(names_both), "{refused:?}");
    let was = format!("was = {{ v = \"{next}\" }}\n");
    let recorded = society.update(&mapping(&was, "sql = { v = \"v\" }\n"));
    assert!(recorded.is_ok(), "{recorded:?}");
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_alike(&mut society, kind);
}

/// A text `NULL` in a list, a fragment of XML, the short name of a zone, and on `MariaDB` a fraction of a second and a day that its
/// month lacks became what settings of the return made of them, which no update says. The reveal is refused.
pub(crate) fn what_a_setting_without_a_name_decides_is_refused() {
    let zone = "time_zone = \"UTC\"\ndate_style = \"ISO, YMD\"\n";
    let cases: &[(&str, &str, &str, &str, &str)] = match crate::connect().dialect() {
        Dialect::Postgres => &[
            (
                "array_nulls = off",
                "TEXT",
                "'{NULL,a}'",
                "TEXT[] USING v::text[]",
                "",
            ),
            (
                "xmloption = content",
                "TEXT",
                "'a<b/>'",
                "XML USING v::xml",
                "",
            ),
            (
                "timezone_abbreviations = 'India'",
                "TEXT",
                "'2026-01-05 10:00 IST'",
                "TIMESTAMPTZ USING v::timestamptz",
                zone,
            ),
        ],
        Dialect::Mysql => &[
            (
                "sql_mode = 'TIME_ROUND_FRACTIONAL'",
                "DATETIME(6)",
                "'2026-01-05 10:00:00.6'",
                "DATETIME",
                "",
            ),
            ("sql_mode = ''", "VARCHAR(20)", "'2026-02-31'", "DATE", ""),
            ("sql_mode = ''", "VARCHAR(20)", "'12.5'", "INT", ""),
        ],
        _ => return,
    };
    for (setting, kind, value, other, more) in cases {
        let mut society = society(kind, &[value], REMOVAL);
        let id = society.leave(1);
        let is_mariadb = setting.starts_with("sql_mode");
        if is_mariadb {
            society.sql("SET @mode = @@sql_mode");
        }
        society.sql(&format!("SET {setting}"));
        migrated(&mut society, other);
        if is_mariadb {
            society.sql("SET sql_mode = @mode");
        }
        let said = mapping(more, "sql = { v = \"v\" }\n");
        society.update(&said).unwrap();
        let refused = society.try_to_return(1, id);
        assert!(
            matches!(refused, Err(Error::Update { .. })),
            "{kind} {refused:?}"
        );
    }
}

/// A text such as 'now', alone or in a list or a range, came back as the moment of the return.
pub(crate) fn an_update_reads_no_moment() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    for (kind, value, other) in [
        ("TEXT", "'now'", "TIMESTAMPTZ USING v::timestamptz"),
        ("TEXT", "'[now, infinity)'", "TSTZRANGE USING v::tstzrange"),
        (
            "TEXT[]",
            "'{\"January 5, 2026\",now}'",
            "TIMESTAMP[] USING v::timestamp[]",
        ),
    ] {
        let mut society = society(kind, &[value], REMOVAL);
        let id = society.leave(1);
        migrated(&mut society, other);
        let settings = "time_zone = \"UTC\"\ndate_style = \"ISO, YMD\"\n";
        let said = mapping(settings, "sql = { v = \"v\" }\n");
        society.update(&said).unwrap();
        let revealed = society.try_to_return(1, id);
        assert!(
            matches!(revealed, Err(Error::Update { .. })),
            "{value} {revealed:?}"
        );
    }
}

/// A text with U+0000 became the number in front of it.
pub(crate) fn no_number_is_made_of_a_text_with_a_zero_byte() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    let mut society = society("TEXT", &["'12' || char(0) || 'x'"], REMOVAL);
    let id = society.leave(1);
    migrated(&mut society, "INTEGER");
    let said = mapping("", "sql = { v = \"v\" }\n");
    society.update(&said).unwrap();
    let revealed = society.try_to_return(1, id);
    assert!(
        matches!(revealed, Err(Error::Update { .. })),
        "{revealed:?}"
    );
}

/// A refusal of the database named neither the expression nor the reason.
pub(crate) fn a_refused_update_gives_the_reason() {
    let (more, target, reason) = match crate::connect().dialect() {
        Dialect::Postgres => (
            "time_zone = \"Nowhere/At_All\"\n",
            "where = \"v > '2026-01-05'\"\n",
            "distance from UTC",
        ),
        Dialect::Mysql => (
            "time_zone = \"Nowhere/At_All\"\n",
            "where = \"v > '2026-01-05'\"\n",
            "time_zone = \"-05:00\"",
        ),
        _ => return,
    };
    let mut society = society("TIMESTAMP NULL", &["'2026-01-05 10:00:00'"], REMOVAL);
    society.leave(1);
    let recorded = society.update(&mapping(more, target));
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(reason));
    assert!(recorded.as_ref().is_err_and(by_name), "{recorded:?}");
}

/// A value of two types had the text of the first one for certain, and padded letters were compared by one mode alone: what
/// depends on settings is asked under all of them, unless it is passed on as it is.
pub(crate) fn what_is_found_of_types_with_settings_is_tried_under_them() {
    let cases: &[(&str, &str, &str, &str, &str)] = match crate::connect().dialect() {
        Dialect::Postgres => &[
            (
                "INTEGER",
                "ADD w REAL, ADD n TEXT",
                "1234567.9",
                "SET extra_float_digits = 0",
                "coalesce(v, w)",
            ),
            (
                "NUMERIC",
                "ADD w DOUBLE PRECISION, ADD n TEXT",
                "0.30000000000000004",
                "SET extra_float_digits = 0",
                "coalesce(v, w)",
            ),
        ],
        Dialect::Mysql => &[
            (
                "INT",
                "ADD w CHAR(5) COLLATE utf8mb4_nopad_bin, ADD n INT",
                "'ab'",
                "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
                "w = 'ab'",
            ),
            (
                "INT",
                "ADD w CHAR(5) COLLATE utf8mb4_nopad_bin, ADD n INT",
                "'ab'",
                "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
                "w IN ('cd', 'ab')",
            ),
        ],
        _ => return,
    };
    for (kind, columns, value, setting, expression) in cases {
        let mut society = society(kind, &["NULL"], REMOVAL);
        society.sql(&format!("ALTER TABLE posts {columns}"));
        society.sql(&format!("UPDATE posts SET w = {value}"));
        let id = society.leave(1);
        society.sql(setting);
        society.sql(&format!("UPDATE posts SET n = ({expression})"));
        let target = format!("sql = {{ n = \"{expression}\" }}\nadded = {{ w = \"NULL\" }}\n");
        let update = mapping("", &target);
        society.update(&update).unwrap();
        let refused = society.try_to_return(1, id);
        let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("depends on settings"));
        assert!(refused.as_ref().is_err_and(by_name), "{kind} {refused:?}");
    }
}

/// A text of 200 commas and "now" was taken for no time, since it is too long for one: the database skips the commas.
pub(crate) fn a_moment_behind_many_marks_is_a_moment() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let value = format!("'{}now'", ",".repeat(200));
    let mut society = society("TEXT", &[&value], REMOVAL);
    let id = society.leave(1);
    migrated(&mut society, "TIMESTAMPTZ USING v::timestamptz");
    let settings = "time_zone = \"UTC\"\ndate_style = \"ISO, YMD\"\n";
    let update = mapping(settings, "sql = { v = \"v\" }\n");
    society.update(&update).unwrap();
    let refused = society.try_to_return(1, id);
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("another time at each reading"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}

/// A text with more spaces at its end than its column has room for stayed hidden, with the advice to do what had been done.
pub(crate) fn spaces_beyond_the_bound_of_a_column_are_cut_as_it_cuts_them() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    for kind in ["VARCHAR(5)", "CHAR(5)"] {
        let mut society = society(
            "TEXT",
            &["'ab         '", "'abcde  '", "'a'", "NULL"],
            REMOVAL,
        );
        let id = society.leave(1);
        migrated(&mut society, kind);
        let update = mapping("", "sql = { v = \"v\" }\n");
        society.update(&update).unwrap();
        let revealed = society.try_to_return(1, id).unwrap();
        assert!(revealed.is_complete(), "{kind} {revealed:?}");
        assert_alike(&mut society, kind);
    }
}

/// Of a number with a fraction, ALTER TABLE made one member and an assignment the one before it.
pub(crate) fn a_number_with_a_fraction_is_no_member() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let mut society = society("DECIMAL(10,2)", &["1.50"], REMOVAL);
    society.leave(1);
    migrated(&mut society, "ENUM('a','b','c')");
    let update = mapping("", "sql = { v = \"v\" }\n");
    let refused = society.update(&update);
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("member of decimal"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}

/// An empty text came back where the mode of the server had made NULL of it for the migration.
pub(crate) fn an_empty_text_has_no_meaning_where_the_server_makes_null_of_it() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let mut society = society("VARCHAR(9)", &["NULL"], REMOVAL);
    society.sql("ALTER TABLE posts ADD w VARCHAR(9)");
    society.leave(1);
    society.sql("SET GLOBAL sql_mode = 'EMPTY_STRING_IS_NULL'");
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("EMPTY_STRING_IS_NULL"));
    for target in [
        "sql = { w = \"coalesce(v, '')\" }\n",
        "values = { w = \"\" }\n",
    ] {
        let refused = society.update(&mapping("", target));
        assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
    }
    society.sql("SET GLOBAL sql_mode = DEFAULT");
    let update = mapping("", "sql = { w = \"coalesce(v, '')\" }\n");
    society.update(&update).unwrap();
}

/// A truth became the digit 1 in a column of texts, where a statement stores the word.
pub(crate) fn a_truth_becomes_what_a_statement_makes_of_it() {
    let mut society = society("INTEGER", &["7"], REMOVAL);
    let id = society.leave(1);
    for sql in [
        "ALTER TABLE posts ADD w VARCHAR(9)",
        "UPDATE posts SET w = TRUE",
        "ALTER TABLE posts DROP v",
        "ALTER TABLE posts RENAME COLUMN w TO v",
    ] {
        society.sql(sql);
    }
    let update = mapping("", "values = { v = true }\n");
    society.update(&update).unwrap();
    assert!(society.reveal(1, id).is_complete());
    assert_alike(&mut society, "truth");
}

/// Texts of no column were compared by the collation of the parameters here, and by that of its connection in the migration.
pub(crate) fn texts_of_no_column_are_not_compared() {
    if crate::connect().dialect() != Dialect::Mysql {
        return;
    }
    let mut society = society("INT", &["7"], REMOVAL);
    society.sql("ALTER TABLE posts ADD n INT, ADD length INT");
    society.leave(1);
    for compared in [
        "coalesce(v, 'A') = 'a'",
        "lower(v) = '7'",
        "'A' = 'a'",
        "lower(v) LIKE 'A'",
        "coalesce(v, 'A') IN ('a', 'b')",
    ] {
        let update = mapping("", &format!("sql = {{ n = \"{compared}\" }}\n"));
        let refused = society.update(&update);
        let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("collation of the connection"));
        assert!(
            refused.as_ref().is_err_and(by_name),
            "{compared} {refused:?}"
        );
    }
    // A column may be called length; the function alone has two meanings.
    let update = mapping("", "sql = { n = \"length\" }\n");
    society.update(&update).unwrap();
}

/// A column was judged by the type of another one whose name differs in its case.
pub(crate) fn names_that_differ_in_case_are_two_columns() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let mut society = society("REAL", &["1234567.9"], REMOVAL);
    society.sql("ALTER TABLE posts ADD \"V\" INTEGER, ADD n TEXT");
    let id = society.leave(1);
    let update = mapping("", "sql = { n = \"v\" }\n");
    society.update(&update).unwrap();
    let refused = society.try_to_return(1, id);
    let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("depends on settings"));
    assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
}
