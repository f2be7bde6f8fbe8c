//! Features that only `MariaDB` has: several databases on one server, tables that keep former
//! versions.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;
use std::num::NonZero;

use probity_disguise::database::{Mysql, Property};
use probity_disguise::{Database, KeptReason, Value};

use crate::suite::member::{Member, NOTES};
use crate::{PLACE, connect, is_kept_by, mariadb};

fn filled() -> Box<dyn Database> {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
        "INSERT INTO members VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    database
}

fn members() -> Member {
    Member::of(filled(), NOTES)
}

fn place(database: &mut dyn Database) -> String {
    let rows = database.query("SELECT DATABASE()", &[]);
    rows.unwrap()
        .concat()
        .first()
        .map(Value::to_string)
        .unwrap()
}

/// M2: a reveal wrote into a table without transactions, was refused, and could not undo what it had written: its record stayed for
/// good. Now such a table keeps what is hidden of it.
pub(crate) fn nothing_is_written_into_a_table_without_transactions() {
    let steps = "[[modify]]\ntable = \"notes\"\ncolumn = \"what\"\nvalue = \"Null\"\n";
    let (users, removal) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let (removal, _) = removal.split_at(removal.rfind("[[remove]]").unwrap());
    for steps in [steps, removal] {
        let mut database = connect();
        for sql in [
            "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT, what VARCHAR(9))",
            "INSERT INTO members VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO notes VALUES (6, 1, 'a'), (7, 1, 'b'), (8, 2, 'c')",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, &format!("{users}{steps}"));
        let before = member.rows(["members", "notes"]);
        let applied = member.leave();
        let hidden = member.rows(["members", "notes"]);
        member.sql(&["ALTER TABLE notes ENGINE = MyISAM"]);
        let revealed = member.return_from(&applied);
        let reasons: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [KeptReason::WithoutTransactions; 2], "{steps}");
        assert_eq!(member.rows(["members", "notes"]), hidden);
        member.sql(&["ALTER TABLE notes ENGINE = InnoDB"]);
        assert!(member.return_from(&applied).is_complete());
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}

/// D1: rows of another database that refer to a removed one went for good by `ON DELETE CASCADE`, and nobody was told.
pub(crate) fn keys_of_other_databases_are_not_overlooked() {
    let mut member = members();
    let place = place(member.engine.database());
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
    member.leaves_and_returns(["members", "notes"]);
    let (removals, _) = NOTES.split_at(NOTES.rfind("[[remove]]").unwrap());
    let decorrelate = "[[decorrelate]]\nowners = [\"member\"]";
    let mut member = member.again(&removals.replace("[[remove]]", decorrelate));
    let marks = format!(
        "CREATE TABLE bills.marks (note INT, member INT, FOREIGN KEY (note, member) REFERENCES {place}.notes (ID, MEMBER) ON UPDATE SET NULL)"
    );
    member.sql(&["ALTER TABLE notes ADD UNIQUE (id, member)", &marks]);
    is_kept_by(&mut member, "bills.marks");
    member.sql(&["DROP DATABASE bills"]);
    member.leaves_and_returns(["members", "notes"]);
}

/// D1: an account that does not see all databases cannot tell, and a check says so.
pub(crate) fn an_account_that_sees_one_database_says_so() {
    assert_eq!(members().cautions(), [""; 0]);
    let mut database = filled();
    let place = place(&mut *database);
    let grant = format!("GRANT ALL ON {place}.* TO clerk@localhost");
    for sql in ["CREATE USER clerk@localhost", &grant] {
        database.execute(sql, &[]).unwrap();
    }
    let url = PLACE.with_borrow(|it| mariadb::url(&it.as_ref().unwrap().socket, &place));
    let clerk = Mysql::connect(&url.replace("root@", "clerk@")).unwrap();
    let mut member = Member::of(Box::new(clerk), NOTES);
    let cautions = member.cautions().concat();
    assert!(
        cautions.contains("an account that reads all databases"),
        "{cautions}"
    );
    member.leaves_and_returns(["members", "notes"]);
}

/// D1: the values of columns that the account may not see were gone for good, for the rows of the record lacked
/// them.
pub(crate) fn columns_that_the_account_does_not_see_are_an_error() {
    let mut owner = filled();
    let place = place(&mut *owner);
    for sql in [
        "ALTER TABLE notes ADD secret VARCHAR(9) INVISIBLE",
        "UPDATE notes SET secret = 'only here'",
        "CREATE USER part@localhost",
        &format!("GRANT ALL ON {place}.members TO part@localhost"),
        &format!(
            "GRANT SELECT (id, member), INSERT (id, member), DELETE ON {place}.notes TO part@localhost"
        ),
        &format!("GRANT CREATE ON {place}.* TO part@localhost"),
    ] {
        owner.execute(sql, &[]).unwrap();
    }
    let url = PLACE.with_borrow(|it| mariadb::url(&it.as_ref().unwrap().socket, &place));
    let part = Mysql::connect(&url.replace("root@", "part@")).unwrap();
    let mut catalog_of = Mysql::connect(&url.replace("root@", "part@")).unwrap();
    let catalog = catalog_of.catalog().unwrap();
    let hides = |table: &str| {
        catalog
            .get(table)
            .is_some_and(|it| it.has(Property::HidesColumns))
    };
    assert_eq!([hides("members"), hides("notes")], [false, true]);
    // The engine's own tables are made by somebody who may.
    drop(Member::of(owner, NOTES));
    let by_hand = Mysql::connect(&mariadb::url(
        &PLACE.with_borrow(|it| it.as_ref().unwrap().socket.clone()),
        &place,
    ));
    let mut by_hand = by_hand.unwrap();
    let tables = by_hand.query("SHOW TABLES LIKE 'probity%'", &[]).unwrap();
    for table in tables.concat() {
        let sql = format!("GRANT ALL ON {place}.{table} TO part@localhost");
        by_hand.execute(&sql, &[]).unwrap();
    }
    let mut member = Member::called(Value::Int(2), Box::new(part), NOTES);
    let refusal = member.refusal();
    assert!(
        refusal.contains("may not see all columns and keys of notes"),
        "{refusal}"
    );
    assert!(member.try_to_leave().is_err());
    let sql = format!("GRANT ALL ON {place}.notes TO part@localhost");
    by_hand.execute(&sql, &[]).unwrap();
    member.leaves_and_returns(["members", "notes"]);
    let kept = by_hand.query("SELECT DISTINCT secret FROM notes", &[]);
    assert_eq!(
        kept.unwrap().concat(),
        [Value::Text("only here".to_owned())]
    );
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

/// Members and posts in tables that note the time of each update.
const STAMPED: &[&str] = &[
    "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20), seen TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3))",
    "CREATE TABLE posts (id INT PRIMARY KEY, member INT NOT NULL REFERENCES members(id), text VARCHAR(20), kind ENUM('a', 'b') NOT NULL, updated DATETIME NULL ON UPDATE CURRENT_TIMESTAMP, edited TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)",
    "INSERT INTO members VALUES (1, 'one', '2020-01-01 10:00:00.125'), (2, 'two', '2020-02-01')",
    "INSERT INTO posts VALUES (6, 1, 'a', 'a', '2020-01-03', '2020-01-04'), (7, 1, 'b', 'b', NULL, '2020-02-04'), (8, 2, 'c', 'a', NULL, '2020-03-04')",
];
const STAMPING: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
[tables.posts]
owners = ["member"]
[[modify]]
table = "members"
column = "name"
value = { RandStr = { len = 8 } }
[[modify]]
table = "posts"
column = "text"
value = { RandStr = { len = 8 } }
[[modify]]
table = "posts"
column = "edited"
value = { ConstStr = "2000-01-01 00:00:00" }
[[decorrelate]]
table = "posts"
owners = ["member"]
"#;

/// C5: each update set a column with `ON UPDATE CURRENT_TIMESTAMP` to its own time, for good, and the rows that one person had left
/// under placeholders bore one time. Updates write such columns with what they hold.
pub(crate) fn times_of_updates_stay_as_they_were() {
    let mut database = connect();
    for sql in STAMPED {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, STAMPING);
    let cautions = member.cautions();
    let noted = cautions.iter().filter(|it| it.contains("column seen"));
    assert_eq!(noted.count(), 1, "{cautions:?}");
    let times = |member: &mut Member| {
        let all = "SELECT id, CAST(updated AS CHAR) FROM posts UNION ALL SELECT id, CAST(seen AS CHAR) FROM members WHERE id < 3 ORDER BY 1";
        member.engine.database().query(all, &[]).unwrap()
    };
    let (before, of_before) = (member.rows(["members", "posts"]), times(&mut member));
    let applied = member.leave();
    assert_eq!(times(&mut member), of_before);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "posts"]), before);
    // What is changed one by one, with a value that only a lax mode takes among it.
    member.sql(&[
        "UPDATE IGNORE posts SET kind = '', updated = updated, edited = edited WHERE id = 7",
    ]);
    let lax = STAMPING.replace(
        "column = \"text\"\nvalue = { RandStr = { len = 8 } }",
        "column = \"kind\"\nvalue = { ConstStr = \"b\" }",
    );
    assert_ne!(lax, STAMPING);
    member.again(&lax).leaves_and_returns(["members", "posts"]);
}

/// The next rows of a chunk were read in the order of an enumeration's numbers, and looked for behind its text: rows were passed
/// over and stayed in clear, with success. Pages of one go did the same.
pub(crate) fn rows_with_an_enumeration_in_the_key_are_all_taken() {
    for key in [
        "ENUM('public', 'friends', 'admin')",
        "SET('public', 'friends', 'admin')",
    ] {
        let mut database = connect();
        for sql in [
            "CREATE TABLE members (id INT PRIMARY KEY)",
            &format!(
                "CREATE TABLE notes (member INT REFERENCES members(id), kind {key}, PRIMARY KEY (member, kind))"
            ),
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO notes VALUES (1, 'public'), (1, 'friends'), (1, 'admin'), (2, 'admin')",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, NOTES);
        member.engine.options().apply_rows = NonZero::<u32>::MIN;
        let before = member.rows(["members", "notes"]);
        let applied = member.leave();
        assert_eq!(member.rows(["notes"])[0].len(), 1, "{key}");
        assert!(member.return_from(&applied).is_complete());
        assert_eq!(member.rows(["members", "notes"]), before, "{key}");
    }
}

/// The key of a table with versions was taken for unique without its end, also where the beginning of a version was a part of it.
pub(crate) fn a_key_with_the_beginning_of_a_version_names_no_row() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "CREATE TABLE notes (id INT NOT NULL, member INT REFERENCES members(id), \
         rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, re TIMESTAMP(6) GENERATED ALWAYS AS ROW END, \
         PERIOD FOR SYSTEM_TIME (rs, re), PRIMARY KEY (id, rs)) WITH SYSTEM VERSIONING",
        "INSERT INTO members VALUES (1), (2)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    let refused = member.refusal();
    assert!(refused.contains("notes"), "{refused}");
}

/// D9: what a lax mode had let into an enumeration or a date was removed and stayed away, for the connection is strict.
pub(crate) fn values_of_a_lax_mode_come_back_as_they_were() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, kind ENUM('a', 'b') NOT NULL)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id), kind ENUM('a', 'b') NOT NULL, marks SET('x', 'y'), born DATE, seen DATETIME)",
        "SET @strict = @@sql_mode",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "INSERT INTO members VALUES (1, 'none'), (2, 'a')",
        "INSERT INTO notes VALUES (6, 1, 'none', 'z', '2026-02-31', '2026-00-00 10:00:00'), (7, 1, 'b', 'x,z', '0000-00-00', 'never'), (8, 2, 'a', NULL, NULL, NULL)",
        "SET sql_mode = @strict",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let changing = NOTES.replacen(
        "[[remove]]\ntable = \"notes\"",
        "[[modify]]\ntable = \"notes\"\ncolumn = \"kind\"\nvalue = { ConstStr = \"b\" }\n[[modify]]\ntable = \"notes\"\ncolumn = \"born\"\nvalue = \"Null\"\n[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]",
        1,
    );
    let changing = changing.replacen(
        "placeholder = {",
        "placeholder = { kind = { ConstStr = \"a\" },",
        1,
    );
    let mut member = Member::of(database, NOTES);
    member.leaves_and_returns(["members", "notes"]);
    let mut member = member.again(&changing);
    member.leaves_and_returns(["members", "notes"]);
    // A value that the column has no more is none of these.
    let mut member = member.again(NOTES);
    let applied = member.leave();
    member.sql(&["ALTER TABLE notes MODIFY kind ENUM('a', 'c') NOT NULL"]);
    let kept = member.return_from(&applied).kept;
    let kept: Vec<_> = kept.iter().map(|it| (&*it.identity, it.reason)).collect();
    assert_eq!(kept, [("7", KeptReason::Refused)]);
    let kinds = "SELECT kind + 0 FROM notes ORDER BY id";
    let kinds = member.engine.database().query(kinds, &[]).unwrap().concat();
    let kinds: Vec<String> = kinds.iter().map(Value::to_string).collect();
    assert_eq!(kinds, ["0", "1"]);
}
