//! Columns that name people and compare otherwise than the users' ids: no row goes with somebody whose it may not be.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Value};

use super::member::{Member, NOTES};

/// A member whose table of members and notes have these types, and these rows.
pub(super) fn member(id: Value, types: [&str; 2], rows: [&str; 2]) -> Member {
    let mut database = crate::connect();
    if database.dialect() == Dialect::Postgres {
        let loose = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)";
        database.execute(loose, &[]).unwrap();
        for made in [
            "CREATE COLLATION unaccented (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false)",
            "CREATE COLLATION uncapital (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        ] {
            database.execute(made, &[]).unwrap();
        }
    }
    let [of_id, of_member] = types;
    for sql in [
        format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
        format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, member {of_member})"),
        format!("INSERT INTO members VALUES {}", rows[0]),
        format!("INSERT INTO notes VALUES {}", rows[1]),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let made = if matches!(id, Value::Text(_)) {
        "RandStr = { len = 8 }"
    } else {
        number
    };
    Member::called(id, database, &NOTES.replacen(number, made, 1))
}

/// Types for texts that are compared letter by letter, and without regard to capitals.
pub(super) fn texts() -> [&'static str; 2] {
    match crate::connect().dialect() {
        Dialect::Sqlite => ["VARCHAR(20)", "VARCHAR(20) COLLATE NOCASE"],
        Dialect::Postgres => ["VARCHAR(20)", "VARCHAR(20) COLLATE loose"],
        _ => [
            "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
        ],
    }
}

/// Nothing of a disguise of one, of everybody or in chunks happens, and it is foretold.
pub(super) fn is_refused(member: &mut Member, words: &str) {
    let before = member.rows(["members", "notes"]);
    let told = member.foretold().concat();
    assert!(told.contains(words), "{told}");
    let refused = member.try_to_leave().unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    let refused = member.try_in_chunks(1).unwrap_err().to_string();
    assert!(refused.contains(words), "{refused}");
    assert_eq!(member.rows(["members", "notes"]), before);
    assert_eq!(member.hidden_by(), 0);
    let noted = member.cautions().concat();
    assert!(
        noted.contains("column member of notes compares otherwise"),
        "{noted}"
    );
}

/// C4: a column of numbers takes the texts 7 and 07 for one, so that a row went with whichever of two people left first. Now it
/// goes with nobody while both are there.
pub(crate) fn a_row_that_is_of_two_people_by_a_conversion_is_refused() {
    let dialect = crate::connect().dialect();
    let rows = "(1, 7), (2, 9)";
    let mut others = vec!["07"];
    if dialect == Dialect::Mysql {
        others.push("7abc");
    }
    for other in others {
        let both = format!("('7'), ('{other}'), ('bob')");
        for id in ["7", other] {
            let mut member = member(id.into(), [texts()[0], "BIGINT"], [&both, rows]);
            is_refused(&mut member, "belong to two people");
            let refused = member.try_all_to_leave().unwrap_err().to_string();
            assert!(refused.contains("rows of notes"), "{refused}");
        }
        let mut member = member("7".into(), [texts()[0], "BIGINT"], [&both, rows]);
        member.sql(&["DELETE FROM members WHERE id <> '7'"]);
        member.leaves_and_returns(["members", "notes"]);
        member.leave();
        assert_eq!(member.rows(["notes"]).map(|it| it.len()), [1]);
    }
}

/// C4: a number as the id took rows along that name somebody as 07 or 7abc, which a comparison of numbers takes for 7. On another
/// database the same rows stayed in clear.
pub(crate) fn a_row_that_names_its_owner_by_a_conversion_alone_is_refused() {
    let types = ["BIGINT", texts()[0]];
    let rows = "(1, '7'), (2, '07'), (3, '7abc'), (4, '8')";
    let mut member = member(7.into(), types, ["(7), (8)", rows]);
    is_refused(&mut member, "only after a conversion");
    if member.engine.database().dialect() != Dialect::Postgres {
        let refused = member.try_all_to_leave().unwrap_err().to_string();
        assert!(refused.contains("only after a conversion"), "{refused}");
    }
    member.sql(&["DELETE FROM notes WHERE id IN (2, 3)"]);
    let [before] = member.rows(["notes"]);
    member.leaves_and_returns(["members", "notes"]);
    member.leave();
    assert_eq!(
        member.rows(["notes"]).map(|it| it.len()),
        [before.len() - 1]
    );
}

/// C4: a column that disregards capitals found the rows of bob and BOB for either. A column that regards them missed rows that
/// the ids take for theirs.
pub(crate) fn a_row_goes_with_one_person_whichever_column_disregards_capitals() {
    let [strict, loose] = texts();
    let rows = "(1, 'bob'), (2, 'eve')";
    let members = "('bob'), ('BOB'), ('eve')";
    for id in ["bob", "BOB"] {
        let mut member = member(id.into(), [strict, loose], [members, rows]);
        is_refused(&mut member, "belong to two people");
        assert!(member.try_all_to_leave().is_err());
    }
    let members = "('bob'), ('eve')";
    let mut spelled = member("bob".into(), [strict, loose], [members, "(1, 'Bob')"]);
    is_refused(&mut spelled, "takes for one, since its type or collation");
    let member_of = |types, rows| {
        let mut member = member("bob".into(), types, [members, rows]);
        member.leaves_and_returns(["members", "notes"]);
        member.leave();
        assert_eq!(member.rows(["notes"]).map(|it| it.len()), [1]);
    };
    member_of([strict, loose], rows);
    member_of([loose, strict], "(1, 'bob'), (2, 'Bob'), (3, 'eve')");
}

/// C4: a column of rounded numbers holds one value for two great ids, and its row went with either. Exact numbers of other types are
/// told apart as they are.
pub(crate) fn numbers_that_are_rounded_name_nobody_twice() {
    let (one, two) = (9_007_199_254_740_992, 9_007_199_254_740_993);
    let both = format!("({one}), ({two})");
    let dialect = crate::connect().dialect();
    for of_member in ["DOUBLE PRECISION", "DECIMAL(20,3)", "NUMERIC(18)"] {
        for id in [one, two] {
            let rows = format!("(1, {one}), (2, {two}), (3, 5)");
            let mut member = member(id.into(), ["BIGINT", of_member], [&both, &rows]);
            if of_member.starts_with("DOUBLE") && dialect != Dialect::Sqlite {
                is_refused(&mut member, "belong to two people");
                continue;
            }
            if dialect == Dialect::Sqlite {
                continue;
            }
            member.leaves_and_returns(["members", "notes"]);
            member.leave();
            assert_eq!(member.rows(["notes"]).map(|it| it.len()), [2]);
        }
    }
}

/// C4: an id of fixed length is compared without the spaces at its end, a text of any length with them. Rows of both kinds leave
/// with their owner alone.
pub(crate) fn a_padded_id_finds_the_rows_of_its_owner_alone() {
    let rows = "(1, 'ada'), (2, 'bob')";
    for types in [["CHAR(8)", "VARCHAR(12)"], ["VARCHAR(12)", "CHAR(8)"]] {
        let mut member = member("ada".into(), types, ["('ada'), ('bob')", rows]);
        member.leaves_and_returns(["members", "notes"]);
        member.leave();
        assert_eq!(member.rows(["notes"]).map(|it| it.len()), [1]);
    }
    if crate::connect().dialect() == Dialect::Postgres {
        let types = ["VARCHAR(12)", "CHAR(8)"];
        let mut member = member("ada ".into(), types, ["('ada'), ('ada ')", rows]);
        is_refused(&mut member, "belong to two people");
    }
}
