//! Effects of databases themselves: computed columns, and triggers.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Database as _, Dialect};

use super::member::{Member, NOTES};

/// D2: a column that the database works out cannot be written. It does not keep its row away, not even where a foreign key is
/// made of it.
pub(crate) fn columns_that_the_database_works_out_keep_nobody_away() {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY, name VARCHAR(20), sign BIGINT GENERATED ALWAYS AS (id + 1) STORED)",
        "CREATE TABLE places (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members(id), half BIGINT, place BIGINT GENERATED ALWAYS AS (half * 2) STORED, FOREIGN KEY (place) REFERENCES places(id))",
        "INSERT INTO members (id, name) VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO places VALUES (10), (20)",
        "INSERT INTO notes (id, member, half) VALUES (6, 1, 5), (7, 1, 10), (8, 2, 5)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let tables = ["members", "places", "notes"];
    let mut member = Member::of(database, NOTES);
    member.leaves_and_returns(tables);
    let decorrelate = "[[decorrelate]]\nowners = [\"member\"]";
    let decorrelating = NOTES.replacen("[[remove]]", decorrelate, 1);
    member.again(&decorrelating).leaves_and_returns(tables);
}

/// A trigger may copy what is hidden to where nobody looks. Nothing else tells that there is one.
pub(crate) fn triggers_on_touched_tables_are_noted() {
    let mut database = crate::connect();
    let trigger: &[&str] = match database.dialect() {
        Dialect::Sqlite => &[
            "CREATE TRIGGER copied AFTER DELETE ON notes BEGIN INSERT INTO copies VALUES (OLD.id); END",
        ],
        Dialect::Mysql => &[
            "CREATE TRIGGER copied AFTER DELETE ON notes FOR EACH ROW INSERT INTO copies VALUES (OLD.id)",
        ],
        _ => &[
            "CREATE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO copies VALUES (OLD.id); RETURN NULL; END'",
            "CREATE TRIGGER copied AFTER DELETE ON notes FOR EACH ROW EXECUTE FUNCTION copy()",
        ],
    };
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT)",
        "CREATE TABLE copies (id BIGINT)",
        "INSERT INTO members VALUES (1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    assert_eq!(member.cautions(), [""; 0]);
    member.sql(trigger);
    let cautions = member.cautions();
    let noted = cautions
        .iter()
        .filter(|it| it.starts_with("table notes has triggers (copied)"));
    assert_eq!(noted.count(), 1, "{cautions:?}");
}

/// D1: names may be written in any letters. On `SQLite` rows went by a key whose table was written in others than its own.
pub(crate) fn a_key_written_in_other_letters_is_not_overlooked() {
    let mut database = crate::connect();
    let target = match database.dialect() {
        // There the names of tables are files.
        Dialect::Mysql => "members(ID)",
        _ => "Members(ID)",
    };
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members(id))",
        &format!(
            "CREATE TABLE likes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES {target} ON DELETE CASCADE)"
        ),
        "INSERT INTO members VALUES (1)",
        "INSERT INTO likes VALUES (6, 1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    let refusal = member.refusal();
    assert!(
        refusal.contains("would orphan foreign key likes(member)"),
        "{refusal}"
    );
    assert!(member.try_to_leave().is_err());
    assert_eq!(member.rows(["likes"]).map(|rows| rows.len()), [1]);
}
