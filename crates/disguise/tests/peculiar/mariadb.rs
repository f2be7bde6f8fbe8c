//! What only `MariaDB` has: databases beside each other on one server, tables that keep former versions.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;

use crate::connect;
use crate::suite::member::{Member, NOTES};
use probity_disguise::Value;

fn members() -> Member {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
        "INSERT INTO members VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, NOTES)
}

fn place(member: &mut Member) -> String {
    let rows = member.engine.database().query("SELECT DATABASE()", &[]);
    rows.unwrap()
        .concat()
        .first()
        .map(Value::to_string)
        .unwrap()
}

/// D1: rows of another database that refer to a removed one went for good by `ON DELETE CASCADE`, and nobody was told.
pub(crate) fn keys_of_other_databases_are_not_overlooked() {
    let mut member = members();
    let place = place(&mut member);
    member.sql(&["CREATE DATABASE bills"]);
    for (action, refuses) in [("CASCADE", true), ("SET NULL", true), ("RESTRICT", false)] {
        let table = format!(
            "CREATE TABLE bills.items (id INT PRIMARY KEY, member INT, FOREIGN KEY (MEMBER) REFERENCES {place}.members(ID) ON DELETE {action})"
        );
        // The engine is there already, and nothing of its own database changes.
        member.sql(&[
            &table,
            "INSERT INTO bills.items VALUES (1, 1), (2, 1), (3, 2)",
        ]);
        if refuses {
            let refusal = member.refusal();
            assert!(
                refusal.contains("bills.items by foreign key (member)"),
                "{refusal}"
            );
        } else {
            let cautions = member.cautions();
            assert!(
                cautions.concat().contains("while rows of bills.items"),
                "{cautions:?}"
            );
        }
        assert!(member.try_to_leave().is_err());
        let left = member
            .engine
            .database()
            .query("SELECT id FROM bills.items WHERE member IS NOT NULL", &[]);
        assert_eq!(left.unwrap().len(), 3);
        member.sql(&["DROP TABLE bills.items"]);
    }
    member.sql(&["DROP DATABASE bills"]);
    member.leaves_and_returns(["members", "notes"]);
}

/// D1: tables `WITH SYSTEM VERSIONING` were none to the engine, so that their rows went with what they refer to. Their former
/// versions show what is hidden, and a check says so.
pub(crate) fn versions_are_noted_and_their_tables_are_no_exception() {
    let mut member = members();
    member.sql(&["CREATE TABLE likes (id INT PRIMARY KEY, member INT REFERENCES members(id) ON DELETE CASCADE) WITH SYSTEM VERSIONING"]);
    let refusal = member.refusal();
    assert!(refusal.contains("likes"), "{refusal}");
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20)) WITH SYSTEM VERSIONING",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id), s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(s, e)) WITH SYSTEM VERSIONING",
        "INSERT INTO members VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO notes (id, member) VALUES (6, 1), (7, 1), (8, 2)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    let noted: BTreeSet<bool> = member
        .cautions()
        .iter()
        .map(|it| it.contains("keeps former versions"))
        .collect();
    assert_eq!(noted, BTreeSet::from([true]));
    member.leaves_and_returns(["members", "notes"]);
}
