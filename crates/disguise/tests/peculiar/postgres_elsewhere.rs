//! Keys of `PostgreSQL` to tables of other schemas, which the catalog of the disguises does not have.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;

use probity_disguise::Value;

use crate::connect;
use crate::suite::member::{Member, NOTES};

/// Members, their notes and the rows of another table of theirs; a disguise removes all of them.
fn notes_and(table: &str) -> String {
    NOTES.replace(
        "[[remove]]\ntable = \"notes\"",
        &format!(
            "[tables.{table}]\nowners = [\"member\"]\n[[remove]]\ntable = \"{table}\"\n\
             [[remove]]\ntable = \"notes\""
        ),
    )
}

/// A row that the application removed in another schema kept everything of a record away: the
/// database refused the whole reveal at the commit.
pub(crate) fn a_key_to_another_schema_that_is_checked_late_keeps_one_row_back() {
    for moment in ["", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"] {
        let modify = "[[modify]]\ntable = \"notes\"\ncolumn = \"topic\"\nvalue = \"Null\"\n";
        let (head, removed) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
        for step in [removed, modify] {
            let mut database = connect();
            let notes = format!(
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members, \
                 topic BIGINT REFERENCES crm.topics {moment})"
            );
            for sql in [
                "DROP SCHEMA IF EXISTS crm CASCADE",
                "CREATE SCHEMA crm",
                "CREATE TABLE crm.topics (id BIGINT PRIMARY KEY)",
                "CREATE TABLE members (id BIGINT PRIMARY KEY)",
                &notes,
                "INSERT INTO crm.topics VALUES (20), (21)",
                "INSERT INTO members VALUES (1), (2)",
                "INSERT INTO notes VALUES (6, 1, 20), (7, 1, 21)",
            ] {
                database.execute(sql, &[]).unwrap();
            }
            let mut member = Member::of(database, &format!("{head}{step}"));
            let before = member.rows(["notes"]);
            let applied = member.leave();
            member.sql(&["DELETE FROM crm.topics WHERE id = 20"]);
            let revealed = member.return_from(&applied);
            let kept: Vec<&str> = revealed.kept.iter().map(|it| &*it.identity).collect();
            assert_eq!(kept, ["6"], "{moment} {step}: {revealed:?}");
            let back = "SELECT topic FROM notes WHERE id = 7";
            let back = member.engine.database().query(back, &[]).unwrap().concat();
            assert_eq!(back, [Value::Int(21)], "{moment} {step}");
            member.sql(&["INSERT INTO crm.topics VALUES (20)"]);
            assert!(
                member.return_from(&applied).is_complete(),
                "{moment} {step}"
            );
            assert_eq!(member.rows(["notes"]), before, "{moment} {step}");
            member.sql(&["DROP SCHEMA crm CASCADE"]);
        }
    }
}

/// A row of a table that inherited since has the key of a row that is away: it counted as that row, and
/// the database refused the whole reveal at the commit.
pub(crate) fn a_row_of_an_heir_is_no_row_to_refer_to() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, code BIGINT UNIQUE, \
         parent BIGINT REFERENCES notes DEFERRABLE INITIALLY DEFERRED)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (10, 1, 5, NULL), (11, 1, NULL, 10), (12, 1, NULL, NULL)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    let before = member.rows(["members", "notes"]);
    let applied = member.leave();
    member.sql(&[
        "CREATE TABLE heirs () INHERITS (notes)",
        "INSERT INTO heirs VALUES (10, 2, NULL, NULL)",
        "INSERT INTO notes VALUES (50, 2, 5, NULL)",
    ]);
    let revealed = member.return_from(&applied);
    let kept: Vec<&str> = revealed.kept.iter().map(|it| &*it.identity).collect();
    assert_eq!(kept, ["10", "11"], "{revealed:?}");
    member.sql(&["DROP TABLE heirs", "DELETE FROM notes WHERE id = 50"]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// The database refused the whole reveal where that row was in a circle of rows of its person.
pub(crate) fn a_key_to_another_schema_keeps_a_circle_back_and_nothing_else() {
    for nullable in ["", "NOT NULL"] {
        let mut database = connect();
        let notes = format!(
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, \
             mate BIGINT {nullable} REFERENCES notes DEFERRABLE INITIALLY DEFERRED, \
             topic BIGINT REFERENCES crm.topics DEFERRABLE INITIALLY DEFERRED)"
        );
        for sql in [
            "DROP SCHEMA IF EXISTS crm CASCADE",
            "CREATE SCHEMA crm",
            "CREATE TABLE crm.topics (id BIGINT PRIMARY KEY)",
            "CREATE TABLE members (id BIGINT PRIMARY KEY)",
            &notes,
            "INSERT INTO crm.topics VALUES (20), (21)",
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO notes VALUES (6, 1, 7, 20), (7, 1, 6, NULL), (8, 1, 8, 21), \
             (9, 1, 10, 21), (10, 1, 9, NULL)",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, NOTES);
        let before = member.rows(["members", "notes"]);
        let applied = member.leave();
        member.sql(&["DELETE FROM crm.topics WHERE id = 20"]);
        let revealed = member.return_from(&applied);
        let kept: BTreeSet<&str> = revealed.kept.iter().map(|it| &*it.identity).collect();
        assert_eq!(kept, BTreeSet::from(["6", "7"]), "{nullable} {revealed:?}");
        member.sql(&["INSERT INTO crm.topics VALUES (20)"]);
        assert!(member.return_from(&applied).is_complete(), "{nullable}");
        assert_eq!(member.rows(["members", "notes"]), before, "{nullable}");
        member.sql(&["DROP SCHEMA crm CASCADE"]);
    }
}

/// A key of the circle had the name of the key to the other schema, and was checked with each row.
pub(crate) fn a_key_to_another_schema_with_the_name_of_another_key_keeps_no_circle_back() {
    for (is_there, names) in [(true, ["a", "b"]), (true, ["c", "d"]), (false, ["a", "b"])] {
        let late = "DEFERRABLE INITIALLY DEFERRED";
        let [first, second] = names;
        let mut database = connect();
        for sql in [
            "DROP SCHEMA IF EXISTS crm CASCADE",
            "CREATE SCHEMA crm",
            "CREATE TABLE crm.topics (id BIGINT PRIMARY KEY)",
            "CREATE TABLE members (id BIGINT PRIMARY KEY)",
            &format!(
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, mate BIGINT NOT NULL, \
                 topic BIGINT CONSTRAINT a REFERENCES crm.topics {late})"
            ),
            &format!(
                "CREATE TABLE mates (id BIGINT PRIMARY KEY, member BIGINT, \
                 note BIGINT NOT NULL CONSTRAINT {first} REFERENCES notes {late}, \
                 topic BIGINT CONSTRAINT b REFERENCES crm.topics {late})"
            ),
            &format!(
                "ALTER TABLE notes ADD CONSTRAINT {second} FOREIGN KEY (mate) REFERENCES mates {late}"
            ),
            "INSERT INTO crm.topics VALUES (5)",
            "INSERT INTO members VALUES (1), (2)",
            "BEGIN",
            "INSERT INTO notes VALUES (10, 1, 11, 5)",
            "INSERT INTO mates VALUES (11, 1, 10, 5)",
            "COMMIT",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let described = notes_and("mates");
        let mut member = Member::of(database, &described);
        let tables = ["members", "notes", "mates"];
        let before = member.rows(tables);
        let applied = member.leave();
        if !is_there {
            member.sql(&["DELETE FROM crm.topics"]);
            let revealed = member.return_from(&applied);
            assert_eq!(revealed.kept.len(), 2, "{names:?} {revealed:?}");
            member.sql(&["INSERT INTO crm.topics VALUES (5)"]);
        }
        let revealed = member.return_from(&applied);
        assert!(revealed.is_complete(), "{names:?} {revealed:?}");
        assert_eq!(member.rows(tables), before, "{names:?}");
        member.sql(&["DROP SCHEMA crm CASCADE"]);
    }
}

/// A deferred trigger of the application fired before the rows of another table for which it waits were in.
pub(crate) fn a_deferred_trigger_waits_beside_a_key_to_another_schema() {
    let mut database = connect();
    for sql in [
        "DROP SCHEMA IF EXISTS crm CASCADE",
        "CREATE SCHEMA crm",
        "CREATE TABLE crm.topics (id BIGINT PRIMARY KEY)",
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, \
         topic BIGINT REFERENCES crm.topics DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE lines (id BIGINT PRIMARY KEY, member BIGINT, \
         note BIGINT NOT NULL REFERENCES notes)",
        "CREATE FUNCTION has_line() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN IF NOT EXISTS (SELECT FROM lines WHERE note = new.id) THEN \
         RAISE EXCEPTION ''no line''; END IF; RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER has_line AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION has_line()",
        "INSERT INTO crm.topics VALUES (5)",
        "INSERT INTO members VALUES (1), (2)",
        "BEGIN",
        "INSERT INTO notes VALUES (10, 1, 5)",
        "INSERT INTO lines VALUES (20, 1, 10)",
        "COMMIT",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let described = notes_and("lines");
    let mut member = Member::of(database, &described);
    let tables = ["members", "notes", "lines"];
    let before = member.rows(tables);
    let applied = member.leave();
    let revealed = member.return_from(&applied);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(tables), before);
    member.sql(&["DROP SCHEMA crm CASCADE"]);
}
