//! Overwritten values whose rows a migration split, deleted or changed under a condition.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{DisguiseId, KeptReason, Mapping, Revealed};

use super::society::{Society, description};

const NULL: &str = "[[modify]]\ntable = \"t\"\ncolumn = \"v\"\nvalue = \"Null\"\n";
const GONE: &str = "[[modify]]\ntable = \"t\"\ncolumn = \"v\"\nvalue = { ConstStr = \"gone\" }\n";
const OWNER: &str = "[[decorrelate]]\ntable = \"t\"\nowners = [\"who\"]\n";

/// Two rows of person 1 and one of person 2, of which `steps` hide a value.
fn society(steps: &str) -> (Society, DisguiseId) {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, v VARCHAR(20), w VARCHAR(20))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO t VALUES (1, 1, 'a@old', 'w1'), (2, 2, 'b@old', 'w2'), (3, 1, 'c@new', 'w3')",
    ]
    .map(str::to_owned);
    let described = description(&format!("[tables.t]\nowners = [\"who\"]\n{steps}"));
    let mut society = Society::of(&statements, &described, &[1]);
    let id = society.leave(1);
    (society, id)
}

fn mapping(into: &[&str]) -> Vec<Mapping> {
    let head = "[[update]]\nname = \"u\"\ntable = \"t\"\n[[update.into]]\n";
    let text = [head, &into.join("\n[[update.into]]\n")].concat();
    Mapping::parse(&text).unwrap()
}

fn record(society: &mut Society, into: &[&str]) {
    let mapping = mapping(into);
    society.update(&mapping).unwrap();
}

fn count(society: &mut Society, of: &str) -> i64 {
    let counted = society.numbers(&format!("SELECT COUNT(*) FROM {of}"));
    counted.into_iter().sum()
}

/// The rows that could not be told, by their reason.
fn undecided(revealed: &Revealed) -> Vec<&str> {
    let all = revealed.kept.iter();
    let all = all.filter(|it| it.reason == KeptReason::Undecided);
    all.map(|it| it.identity.as_str()).collect()
}

/// An update that split a table, or deleted rows by what they held, made a row of an overwritten value: it came back with that
/// value alone, and with defaults in the place of what the row of the application had. Now the value stays, and is told of.
pub(crate) fn no_row_is_made_of_an_overwritten_value_alone() {
    let cases: [(&str, &[&str], &[&str], &str); 3] = [
        (
            NULL,
            &[
                "CREATE TABLE tt (id BIGINT PRIMARY KEY, body VARCHAR(20), w VARCHAR(20) DEFAULT 'made up')",
                "INSERT INTO tt SELECT id, v, w FROM t WHERE v IS NOT NULL",
            ],
            &[
                "table = \"t\"\nrest = true",
                "table = \"tt\"\ncolumns = { id = \"id\", body = \"v\", w = \"w\" }\nwhere = \"v IS NOT NULL\"",
            ],
            "tt WHERE id <> 2",
        ),
        (
            GONE,
            &["DELETE FROM t WHERE v = 'gone'"],
            &["table = \"t\"\nrest = true\nwhere = \"v <> 'gone'\""],
            "t WHERE id <> 2",
        ),
        (
            OWNER,
            &[
                "CREATE TABLE tt (id BIGINT PRIMARY KEY, who BIGINT, w VARCHAR(20))",
                "INSERT INTO tt SELECT id, who, w FROM t WHERE who < 1000",
            ],
            &[
                "table = \"t\"\nrest = true",
                "table = \"tt\"\ncolumns = { id = \"id\", who = \"who\", w = \"w\" }\nwhere = \"who < 1000\"",
            ],
            "tt WHERE id <> 2",
        ),
    ];
    for (steps, migration, into, missing) in cases {
        let (mut society, id) = society(steps);
        for sql in migration {
            society.sql(sql);
        }
        record(&mut society, into);
        let revealed = society.reveal(1, id);
        assert_eq!(undecided(&revealed), ["1", "3"], "{steps} {revealed:?}");
        assert_eq!(count(&mut society, missing), 0, "{steps}");
        // Nothing is lost, and nothing is made up the next time either.
        let revealed = society.reveal(1, id);
        assert_eq!(undecided(&revealed), ["1", "3"], "{steps} {revealed:?}");
        assert_eq!(count(&mut society, missing), 0, "{steps}");
        // By hand, everything is as it should be.
        society.sql(match steps {
            NULL => "INSERT INTO tt VALUES (1, 'a@old', 'w1'), (3, 'c@new', 'w3')",
            GONE => "INSERT INTO t VALUES (1, 1, 'a@old', 'w1'), (3, 1, 'c@new', 'w3')",
            _ => "INSERT INTO tt VALUES (1, 1, 'w1'), (3, 1, 'w3')",
        });
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{steps} {revealed:?}");
        let back = "t WHERE id = 1 AND who = 1 AND v = 'a@old' AND w = 'w1' OR id = 3 AND who = 1 AND v = 'c@new' AND w = 'w3'";
        assert_eq!(count(&mut society, back), 2, "{steps}");
    }
}

/// An UPDATE under a condition is told as two targets of one table with opposite conditions. An overwritten value that met another
/// one than the value in its place never came back: it was taken for a row of its own.
pub(crate) fn an_update_under_a_condition_reaches_overwritten_values() {
    let when = "table = \"t\"\nrest = true\nsql = { v = \"'none'\" }\nwhere = \"v LIKE '%@old'\"";
    let other = "table = \"t\"\nrest = true\nwhere = \"v IS NULL OR NOT (v LIKE '%@old')\"";
    for steps in [NULL, GONE] {
        for into in [[when, other], [other, when]] {
            let (mut society, id) = society(steps);
            society.sql("UPDATE t SET v = 'none' WHERE v LIKE '%@old'");
            record(&mut society, &into);
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{steps} {revealed:?}");
            let back = "t WHERE id = 1 AND who = 1 AND v = 'none' AND w = 'w1' OR id = 3 AND v = 'c@new' AND w = 'w3'";
            assert_eq!(count(&mut society, back), 2, "{steps}");
        }
    }
    // If the application deleted the row meanwhile, none comes back.
    let (mut society, id) = society(GONE);
    society.sql("UPDATE t SET v = 'none' WHERE v LIKE '%@old'");
    society.sql("DELETE FROM t WHERE id = 1");
    record(&mut society, &[when, other]);
    let revealed = society.reveal(1, id);
    let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [KeptReason::Absent], "{revealed:?}");
    assert_eq!(count(&mut society, "t WHERE id = 1"), 0);
}

/// The owner of a row stands in its key: the row of the opposite condition has another key then, and is the same row.
pub(crate) fn an_update_under_a_condition_reaches_the_owner_in_a_key() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE t (id BIGINT, who BIGINT, w VARCHAR(20), PRIMARY KEY (id, who))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO t VALUES (1, 1, 'w1'), (2, 2, 'w2')",
    ]
    .map(str::to_owned);
    let described = description(&format!("[tables.t]\nowners = [\"who\"]\n{OWNER}"));
    let mut society = Society::of(&statements, &described, &[1]);
    let id = society.leave(1);
    record(
        &mut society,
        &[
            "table = \"t\"\nrest = true\nwhere = \"who < 1000\"",
            "table = \"t\"\nrest = true\nwhere = \"who >= 1000\"",
        ],
    );
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    society.assert_as_before("owner");
}

/// A migration deleted rows by what they held, and left those where that was overwritten. The record was dropped, and the reveal said
/// that everything was put back.
pub(crate) fn a_value_whose_row_should_have_gone_is_told_of() {
    for steps in [NULL, GONE] {
        let (mut society, id) = society(steps);
        society.sql("DELETE FROM t WHERE v LIKE '%@old'");
        record(
            &mut society,
            &["table = \"t\"\nrest = true\nwhere = \"v IS NULL OR NOT (v LIKE '%@old')\""],
        );
        let revealed = society.reveal(1, id);
        assert_eq!(undecided(&revealed), ["1"], "{steps} {revealed:?}");
        assert_eq!(count(&mut society, "t WHERE id = 3 AND v = 'c@new'"), 1);
        assert_eq!(count(&mut society, "t WHERE v = 'a@old'"), 0);
        society.sql("DELETE FROM t WHERE id = 1");
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{steps} {revealed:?}");
    }
}

/// Of conditions over other columns than the overwritten one, both targets counted as met, and both values were put back, one over
/// the other. The row tells which it was, if anything does.
pub(crate) fn of_two_targets_that_a_record_cannot_tell_apart_the_row_decides() {
    let when = "table = \"t\"\nrest = true\nsql = { v = \"upper(v)\" }\nwhere = \"w = 'w1'\"";
    let other = "table = \"t\"\nrest = true\nwhere = \"w <> 'w1'\"";
    for into in [[when, other], [other, when]] {
        let (mut society, id) = society(GONE);
        society.sql("UPDATE t SET v = upper(v) WHERE w = 'w1'");
        record(&mut society, &into);
        let revealed = society.reveal(1, id);
        let back = "t WHERE id = 1 AND v = 'A@OLD' OR id = 3 AND v = 'c@new'";
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(count(&mut society, back), 2);
        let (mut society, id) = self::society(NULL);
        society.sql("UPDATE t SET v = upper(v) WHERE w = 'w1'");
        record(&mut society, &into);
        let revealed = society.reveal(1, id);
        assert_eq!(undecided(&revealed), ["1", "3"], "{revealed:?}");
        assert_eq!(count(&mut society, "t WHERE id <> 2 AND v IS NULL"), 2);
    }
}

/// A condition over the overwritten column and another one counted as met, so that the value came back past the migration.
pub(crate) fn a_condition_over_the_overwritten_value_and_others_is_told_of() {
    let (mut society, id) = society(GONE);
    society.sql("UPDATE t SET v = 'none' WHERE v LIKE '%@old' AND w = 'w1'");
    record(
        &mut society,
        &[
            "table = \"t\"\nrest = true\nsql = { v = \"'none'\" }\nwhere = \"v LIKE '%@old' AND w = 'w1'\"",
            "table = \"t\"\nrest = true\nwhere = \"NOT (v LIKE '%@old' AND w = 'w1')\"",
        ],
    );
    let revealed = society.reveal(1, id);
    assert_eq!(undecided(&revealed), ["1", "3"], "{revealed:?}");
    assert_eq!(count(&mut society, "t WHERE v = 'gone'"), 2);
}

/// A value of which an update made something of several columns alone was dropped: nothing of it was left, and the reveal said that
/// everything was put back. It stays, and an update that takes the place of that one brings it back.
pub(crate) fn what_an_update_cannot_tell_meets_the_one_in_its_place() {
    let (mut society, id) = society(GONE);
    record(
        &mut society,
        &["table = \"t\"\nrest = true\nsql = { v = \"coalesce(v, w)\" }"],
    );
    let revealed = society.reveal(1, id);
    assert_eq!(undecided(&revealed), ["1", "3"], "{revealed:?}");
    let columns: Vec<_> = revealed
        .kept
        .iter()
        .map(|it| it.column.as_deref())
        .collect();
    assert_eq!(columns, [Some("v"), Some("v")]);
    let other = mapping(&["table = \"t\"\nrest = true"]);
    society.replace(&other).unwrap();
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    society.assert_as_before("replaced");
}

/// No record has what an UPDATE by an overwritten value wrote into another column. The value comes back, and the rest is told of.
pub(crate) fn a_column_that_an_overwritten_value_decided_is_told_of() {
    let (mut society, id) = society(GONE);
    society.sql("UPDATE t SET w = 'old' WHERE v LIKE '%@old'");
    record(
        &mut society,
        &[
            "table = \"t\"\nrest = true\nsql = { w = \"'old'\" }\nwhere = \"v LIKE '%@old'\"",
            "table = \"t\"\nrest = true\nwhere = \"NOT (v LIKE '%@old')\"",
        ],
    );
    let revealed = society.reveal(1, id);
    assert_eq!(undecided(&revealed), ["1"], "{revealed:?}");
    let back = "t WHERE id = 1 AND v = 'a@old' AND w = 'w1' OR id = 3 AND v = 'c@new' AND w = 'w3'";
    assert_eq!(count(&mut society, back), 2);
    society.sql("UPDATE t SET w = 'old' WHERE id = 1");
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
}

/// A column that the migration changed by the overwritten value was reported once; the next reveal, before which nobody had done
/// anything, called the record settled, and it was gone. It stays until another mapping, or a forgetting, ends it.
pub(crate) fn a_record_of_which_nothing_shows_what_is_missing_stays() {
    let (mut society, id) = society(NULL);
    society.sql("UPDATE t SET w = 'none' WHERE v IS NULL");
    let into = [
        "table = \"t\"\nrest = true\nsql = { w = \"'none'\" }\nwhere = \"v IS NULL\"",
        "table = \"t\"\nrest = true\nwhere = \"v IS NOT NULL\"",
    ];
    record(&mut society, &into);
    for _ in 0..3 {
        let revealed = society.reveal(1, id);
        assert_eq!(undecided(&revealed).len(), 2, "{revealed:?}");
    }
    assert_eq!(count(&mut society, "t WHERE v IS NOT NULL"), 3);
}
