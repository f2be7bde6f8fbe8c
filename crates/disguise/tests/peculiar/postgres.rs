//! Features that only `PostgreSQL` has: several schemas, partitions, numbers that no insertion may
//! give, policies.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::database::Postgres;
use probity_disguise::{Database, Error, References, Value};

use crate::suite::member::{Member, NOTES};
use crate::{PLACE, connect, is_kept_by, postgres};

fn member_of(statements: &[&str]) -> Member {
    let mut database = connect();
    for sql in statements {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, NOTES)
}

pub(crate) fn place(database: &mut dyn Database) -> String {
    let rows = database.query("SELECT current_schema()::text", &[]);
    rows.unwrap()
        .concat()
        .first()
        .map(Value::to_string)
        .unwrap()
}

/// D1: rows of another schema that refer to a removed one went for good by `ON DELETE CASCADE`, and nobody was told. A table
/// of another schema with the name of one that is described is not that one either.
pub(crate) fn keys_of_other_schemas_are_not_overlooked() {
    let mut member = member_of(&[
        "CREATE SCHEMA bills",
        "CREATE TABLE bills.members (id INT PRIMARY KEY)",
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members, payer INT REFERENCES bills.members)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO bills.members VALUES (3)",
        "INSERT INTO notes VALUES (6, 1, 3), (7, 1, NULL), (8, 2, 3)",
    ]);
    let place = place(member.engine.database());
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION"] {
        for parts in ["", "PARTITION BY LIST (id)"] {
            let table = format!(
                "CREATE TABLE bills.items (id INT, member INT REFERENCES {place}.members ON DELETE {action}) {parts}"
            );
            member.sql(&[&table]);
            if !parts.is_empty() {
                member.sql(&["CREATE TABLE bills.rest PARTITION OF bills.items DEFAULT"]);
            }
            member.sql(&["INSERT INTO bills.items VALUES (1, 1), (2, 1), (3, 2)"]);
            if action == "NO ACTION" {
                let cautions = member.cautions();
                let noted = cautions
                    .iter()
                    .filter(|it| it.contains("while rows of bills.items"));
                assert_eq!(noted.count(), 1, "{cautions:?}");
            } else {
                let refusal = member.refusal();
                assert!(
                    refusal.contains("bills.items by foreign key (member)"),
                    "{refusal}"
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
    }
    member.leaves_and_returns(["members", "notes"]);
    // Whom a disguise leaves in place nothing refers to in vain, but for its placeholders.
    let (removals, _) = NOTES.split_at(NOTES.rfind("[[remove]]").unwrap());
    let decorrelate = "[[decorrelate]]\nowners = [\"member\"]";
    let mut member = member.again(&removals.replace("[[remove]]", decorrelate));
    let items = format!(
        "CREATE TABLE bills.items (id INT, member INT REFERENCES {place}.members ON DELETE CASCADE)"
    );
    member.sql(&[&items, "INSERT INTO bills.items VALUES (1, 1), (2, 2)"]);
    let cautions = member.cautions().concat();
    assert!(
        cautions.contains("rows of bills.items that are made under a placeholder"),
        "{cautions}"
    );
    member.leaves_and_returns(["members", "notes"]);
    let left = member
        .engine
        .database()
        .query("SELECT id FROM bills.items", &[]);
    assert_eq!(left.unwrap().len(), 2);
    let marks = format!(
        "CREATE TABLE bills.marks (note INT, member INT, FOREIGN KEY (note, member) REFERENCES {place}.notes (id, member) ON UPDATE SET NULL)"
    );
    member.sql(&["ALTER TABLE notes ADD UNIQUE (id, member)", &marks]);
    is_kept_by(&mut member, "bills.marks");
    member.sql(&["DROP SCHEMA bills CASCADE"]);
}

/// D1: a foreign key that only a partition has is as good as one of its table, and the partitions of a described table need no
/// description.
pub(crate) fn keys_of_partitions_are_those_of_their_table() {
    let mut member = member_of(&[
        "CREATE TABLE members (id INT PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE first_members PARTITION OF members FOR VALUES IN (1)",
        "CREATE TABLE other_members PARTITION OF members DEFAULT",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members) PARTITION BY RANGE (id)",
        "CREATE TABLE early_notes PARTITION OF notes FOR VALUES FROM (0) TO (7)",
        "CREATE TABLE late_notes PARTITION OF notes FOR VALUES FROM (7) TO (100)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
    ]);
    member.leaves_and_returns(["members", "notes"]);
    member.sql(&[
        "CREATE TABLE likes (id INT PRIMARY KEY, member INT) PARTITION BY LIST (id)",
        "CREATE TABLE all_likes PARTITION OF likes DEFAULT",
        "ALTER TABLE all_likes ADD FOREIGN KEY (member) REFERENCES members ON DELETE CASCADE",
    ]);
    let refusal = member.refusal();
    assert!(refusal.contains("foreign key likes(member)"), "{refusal}");
}

/// D5: ids in a padded type are the same with and without the spaces, in rows of another length, too.
pub(crate) fn padded_ids_come_back() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id CHAR(8) PRIMARY KEY)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member CHAR(12) REFERENCES members, other VARCHAR(12))",
        "INSERT INTO members VALUES ('ada'), ('bob')",
        "INSERT INTO notes VALUES (6, 'ada', 'ada'), (7, 'ada ', 'ada  '), (8, 'bob', 'bob')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let padded = NOTES.replacen(number, "RandStr = { len = 8 }", 1);
    let owners = "owners = [\"member\", \"other\"]";
    let padded = padded.replacen("owners = [\"member\"]", owners, 1);
    let mut member = Member::called(Value::from("ada"), database, &padded);
    member.leaves_and_returns(["members", "notes"]);
}

/// D1: an owner column of another kind of values ended a disguise in the middle, by an error of the server that named no column.
/// It is refused by name before anything changes.
pub(crate) fn a_column_of_a_type_without_ids_names_nobody() {
    for of_member in [
        "date",
        "boolean",
        "inet",
        "\"char\"",
        "jsonb",
        "integer[]",
        "text[]",
        "timestamp without time zone",
    ] {
        for of_id in ["BIGINT", "TEXT"] {
            let mut member = member_of(&[
                &format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
                "INSERT INTO members VALUES (1), (2)",
                &format!("CREATE TABLE notes (id INT PRIMARY KEY, member {of_member})"),
                "INSERT INTO notes VALUES (6, NULL)",
            ]);
            let before = member.rows(["members", "notes"]);
            let refused = member.refusal();
            let said =
                format!("column member has the type {of_member}, which holds no id of members");
            assert!(refused.contains(&said), "{refused}");
            let refused = member.try_to_leave();
            assert!(matches!(refused, Err(Error::Spec(_))), "{refused:?}");
            assert!(member.try_in_chunks(1).is_err());
            assert!(member.try_all_to_leave().is_err());
            assert_eq!(member.rows(["members", "notes"]), before);
        }
    }
}

/// D2: the ids of very many owners were turned into the type of a column that holds none of them: the server ended the disguise, or
/// cut them off, and the rows of somebody else went.
pub(crate) fn many_owners_have_no_row_in_a_column_that_does_not_hold_their_id() {
    let long = "a".repeat(63);
    let longer = "a".repeat(64);
    for (of_like, like, id) in [
        ("UUID", "00000000-0000-0000-0000-000000000007", "ada"),
        ("MOOD", "happy", "ada"),
        ("NAME", long.as_str(), longer.as_str()),
        ("BYTEA", "x", "a\\da"),
    ] {
        let mut database = connect();
        let notes: Vec<String> = (1..=502).map(|note| format!("({note}, '{id}')")).collect();
        for sql in [
            "CREATE TYPE mood AS ENUM ('happy', 'sad')".to_owned(),
            "CREATE TABLE members (id VARCHAR(80) PRIMARY KEY)".to_owned(),
            "CREATE TABLE notes (id INT PRIMARY KEY, member VARCHAR(80))".to_owned(),
            format!("CREATE TABLE likes (id INT PRIMARY KEY, member {of_like})"),
            format!("INSERT INTO members VALUES ('{id}')"),
            format!("INSERT INTO notes VALUES {}", notes.join(", ")),
            format!("INSERT INTO likes VALUES (1, '{like}')"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
        let described = NOTES.replacen(number, "RandStr = { len = 8 }", 1);
        let (head, _) = described.split_at(described.find("[[remove]]").unwrap());
        let head = format!("{head}[tables.likes]\nowners = [\"member\"]\n");
        let hide = format!("{head}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
        let remove =
            format!("{head}[[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"likes\"\n");
        let mut member = Member::called(Value::from(id), database, &hide);
        let before = member.rows(["notes", "likes"]);
        let hidden = member.leave();
        let removed = member.apply_over(&remove);
        assert_eq!(
            member.rows(["notes", "likes"]).map(|it| it.len()),
            [0, 1],
            "{of_like}"
        );
        assert!(member.return_from(&removed).is_complete());
        assert!(member.return_from(&hidden).is_complete());
        assert_eq!(member.rows(["notes", "likes"]), before);
    }
}

/// C4: a unique key of some rows alone, of another collation or of what is worked out from a column does not keep two rows from being
/// the same to `=`. A row of somebody else with such a key was overwritten.
pub(crate) fn a_key_that_compares_otherwise_than_its_column_is_none() {
    for key in [
        "(code COLLATE \"C\")",
        "(code) WHERE member = 1",
        "(code, lower(what))",
    ] {
        let mut database = connect();
        for sql in [
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
            "CREATE TABLE members (id INT PRIMARY KEY)",
            "CREATE TABLE notes (code TEXT COLLATE loose NOT NULL, member INT, what TEXT)",
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO notes VALUES ('a', 1, 'one'), ('A', 2, 'two')",
            &format!("CREATE UNIQUE INDEX codes ON notes {key}"),
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let description = NOTES.replacen("owners", "identity = [\"code\"]\nowners", 1);
        let mut member = Member::of(database, &description);
        let refusal = member.refusal();
        let said = "several rows of notes may have one identity (code)";
        assert!(refusal.contains(said), "{key}: {refusal}");
        member.sql(&[
            "UPDATE notes SET code = 'b' WHERE member = 2",
            "CREATE UNIQUE INDEX whole ON notes (code)",
        ]);
        member.leaves_and_returns(["members", "notes"]);
    }
}

/// D2: nobody came back to a table with `GENERATED ALWAYS AS IDENTITY`, and no placeholder was made in one.
pub(crate) fn numbers_that_the_database_gives_come_back() {
    let tables = [
        "CREATE TABLE members (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT)",
        "CREATE TABLE notes (id INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, member INT REFERENCES members, serial SERIAL, own INT GENERATED BY DEFAULT AS IDENTITY)",
        "INSERT INTO members (name) VALUES ('one'), ('two')",
        "INSERT INTO notes (member) VALUES (1), (1), (2)",
    ];
    let mut member = member_of(&tables);
    member.leaves_and_returns(["members", "notes"]);
    member.sql(&["INSERT INTO members (name) VALUES ('three')"]);
    let decorrelating = NOTES.replacen("[[remove]]", "[[decorrelate]]\nowners = [\"member\"]", 1);
    let mut database = connect();
    for sql in tables {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, &decorrelating);
    member.leaves_and_returns(["members", "notes"]);
    let changing = format!(
        "{NOTES}[[modify]]\ntable = \"notes\"\ncolumn = \"id\"\nvalue = {{ ConstNum = 5 }}\n"
    );
    let mut database = connect();
    for sql in tables {
        database.execute(sql, &[]).unwrap();
    }
    let refusal = Member::of(database, &changing).refusal();
    assert!(
        refusal.contains("GENERATED ALWAYS AS IDENTITY"),
        "{refusal}"
    );
}

/// D8: rows that a policy hides from the account kept the id of the person, and the disguise was told of as done. A pocket database
/// was made without them: whatever reads is refused.
pub(crate) fn rows_that_a_policy_hides_are_an_error() {
    let mut owner = connect();
    let place = place(&mut owner);
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
        "CREATE ROLE clerk LOGIN",
        &format!("GRANT ALL ON SCHEMA {place} TO clerk"),
        "GRANT ALL ON members, notes TO clerk",
    ] {
        owner.execute(sql, &[]).unwrap();
    }
    let url = PLACE.with_borrow(|it| postgres::url(&it.as_ref().unwrap().socket));
    let mut clerk = Postgres::connect(&url.replace("probity@", "clerk@")).unwrap();
    let path = format!("SET search_path = {place}");
    clerk.execute(&path, &[]).unwrap();
    let mut member = Member::of(Box::new(clerk), NOTES);
    member.leaves_and_returns(["members", "notes"]);
    let before = member.rows(["notes"]);
    for sql in [
        "CREATE POLICY odd ON notes USING (id % 2 = 1)",
        "ALTER TABLE notes ENABLE ROW LEVEL SECURITY",
    ] {
        owner.execute(sql, &[]).unwrap();
    }
    let refusal = member.refusal();
    assert!(
        refusal.contains("row-level security hides rows of notes"),
        "{refusal}"
    );
    assert!(member.try_to_leave().is_err());
    // A table that is read alone, too.
    for is_reading in [false, true] {
        let database = member.engine.database();
        let begun = if is_reading {
            database.begin_reading()
        } else {
            database.begin()
        };
        begun.unwrap();
        let read = member.engine.database().query("SELECT id FROM notes", &[]);
        let refused = read.unwrap_err().to_string();
        assert!(refused.contains("row-level security"), "{refused}");
        member.engine.database().rollback().unwrap();
    }
    // The application's own statements are no concern of the engine.
    let read = member.engine.database().query("SELECT id FROM notes", &[]);
    assert_eq!(read.unwrap().len(), 1);
    owner.execute("ALTER ROLE clerk BYPASSRLS", &[]).unwrap();
    member.leaves_and_returns(["members", "notes"]);
    assert_eq!(member.rows(["notes"]), before);
}

/// D13: a schema whose name needs quotes could not be read, and tables in another schema of the search path were none. D12: the
/// partitions of a table were drafted beside it.
pub(crate) fn schemas_of_any_name_are_drafted_and_described() {
    let statements = |first: &str, second: &str| {
        [
            format!("CREATE SCHEMA \"{first}\""),
            format!("CREATE SCHEMA \"{second}\""),
            format!("SET search_path = \"{first}\", \"{second}\""),
            format!("CREATE TABLE \"{second}\".members (id INT PRIMARY KEY, \"Name\" TEXT NOT NULL)"),
            "CREATE TABLE notes (id INT, member INT REFERENCES members, what TEXT, PRIMARY KEY (id)) PARTITION BY RANGE (id)".to_owned(),
            "CREATE TABLE early_notes PARTITION OF notes FOR VALUES FROM (0) TO (7)".to_owned(),
            "CREATE TABLE late_notes PARTITION OF notes DEFAULT".to_owned(),
            // Hidden by one of the first schema, so that it is no table of this name.
            format!("CREATE TABLE \"{second}\".notes (id INT PRIMARY KEY)"),
            "INSERT INTO members VALUES (1, 'one'), (2, 'two')".to_owned(),
            "INSERT INTO notes VALUES (6, 1, 'a'), (7, 1, 'b'), (8, 2, 'c')".to_owned(),
        ]
    };
    for (first, second) in [("My App", "Bills"), ("APP", "it\"\"s")] {
        let mut database = connect();
        for sql in statements(first, second) {
            database.execute(&sql, &[]).unwrap();
        }
        let text = probity_disguise::draft(&mut database, None).unwrap().text;
        assert!(!text.contains("early_notes"), "{text}");
        let mut member = Member::of(database, &text);
        member.leaves_and_returns(["members", "notes"]);
        let hidden = format!("SELECT id FROM \"{first}\".probity_bags");
        assert!(member.engine.database().query(&hidden, &[]).is_ok());
    }
}

/// Members with an id, and one of them with notes, as many as there are numbers to `most`.
fn busy(most: u32) -> Member {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members)",
        "CREATE INDEX ON notes (member)",
        "INSERT INTO members SELECT generate_series(1, 5)",
        &format!("INSERT INTO notes SELECT n, 1 FROM generate_series(1, {most}) n"),
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let of_notes = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";
    let wide = head.replacen("ub = 2000000000", "ub = 2000000000000", 1);
    Member::of(database, &format!("{wide}{of_notes}"))
}

/// D17: a statement that was prepared while the users table had few rows went on reading all of it once placeholders filled it.
pub(crate) fn plans_follow_a_table_that_grows() {
    let mut member = busy(1);
    let database = member.engine.database();
    let keys: Vec<Value> = (1..=64).map(Value::Int).collect();
    let marks = vec!["?"; keys.len()].join(",");
    let asked = format!("SELECT \"id\" FROM \"members\" WHERE \"id\" IN ({marks})");
    let scans = "SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relname = 'members'";
    database.begin().unwrap();
    for _ in 0..10 {
        assert_eq!(database.query(&asked, &keys).unwrap().len(), 5);
    }
    let filled = "INSERT INTO members SELECT generate_series(1000, 30000)";
    database.execute(filled, &[]).unwrap();
    let before = database.query(scans, &[]).unwrap();
    for _ in 0..10 {
        assert_eq!(database.query(&asked, &keys).unwrap().len(), 5);
    }
    assert_eq!(database.query(scans, &[]).unwrap(), before);
    database.rollback().unwrap();
}

/// Members, of whom the first has two notes; a disguise puts the notes under placeholders.
fn decorrelated(statements: &[&str]) -> Member {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (6, 1), (7, 1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    for sql in statements {
        database.execute(sql, &[]).unwrap();
    }
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let of_notes = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";
    Member::of(database, &format!("{head}{of_notes}"))
}

fn count(member: &mut Member, sql: &str) -> Value {
    let rows = member.engine.database().query(sql, &[]).unwrap();
    rows.concat().first().cloned().unwrap_or(Value::Null)
}

/// C5: the policy `delete` took a row of an heir away, and a comment of another person with it, by a key that leads to the heir. A row
/// of a table that others inherit from goes to whoever returns, and no row of an heir goes with a placeholder.
pub(crate) fn keys_to_heirs_are_not_overlooked() {
    let mut member = decorrelated(&[]);
    let applied = member.leave();
    // With heirs from before it would have been refused.
    member.sql(&[
        "CREATE TABLE letters (stamp BIGINT PRIMARY KEY) INHERITS (notes)",
        "CREATE TABLE comments (id INT, letter BIGINT REFERENCES letters ON DELETE CASCADE)",
        "CREATE TABLE guests (room BIGINT PRIMARY KEY) INHERITS (members)",
        "CREATE TABLE bills (id INT, room BIGINT REFERENCES guests ON DELETE CASCADE)",
        "INSERT INTO letters SELECT 9, member, 70 FROM notes WHERE id = 6",
        "INSERT INTO comments VALUES (1, 70)",
        "INSERT INTO guests SELECT member, 5 FROM notes WHERE id = 7",
        "INSERT INTO bills VALUES (1, 5)",
    ]);
    let revealed = member.return_by(&applied, References::Delete);
    assert!(revealed.deleted.is_empty(), "{revealed:?}");
    assert_eq!(
        count(&mut member, "SELECT COUNT(*) FROM comments"),
        Value::Int(1)
    );
    assert_eq!(
        count(&mut member, "SELECT COUNT(*) FROM bills"),
        Value::Int(1)
    );
    assert_eq!(
        count(&mut member, "SELECT COUNT(*) FROM notes WHERE member = 1"),
        Value::Int(3)
    );
    // The account is gone, and the guest with its id is there still.
    let placeholders = "SELECT COUNT(*) FROM ONLY members WHERE id > 1000";
    assert_eq!(count(&mut member, placeholders), Value::Int(0));
}

/// H3: a key of another schema that is checked at the commit refused the whole reveal, each time and under any policy, because one row
/// named a placeholder. The placeholder stays, is told of, and everything else comes back.
pub(crate) fn keys_of_other_schemas_that_are_checked_late_refuse_no_reveal() {
    for moment in ["", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"] {
        for policy in [
            References::Recorrelate,
            References::Delete,
            References::Retain,
        ] {
            let mut member = decorrelated(&["CREATE SCHEMA shop"]);
            let place = place(member.engine.database());
            let orders = format!(
                "CREATE TABLE shop.orders (id INT, member BIGINT REFERENCES {place}.members {moment}, note BIGINT REFERENCES {place}.notes {moment})"
            );
            member.sql(&[&orders]);
            let before = member.rows(["members", "notes"]);
            let applied = member.leave();
            member.sql(&[
                "INSERT INTO shop.orders SELECT 1, member, NULL FROM notes WHERE id = 6",
                "INSERT INTO notes SELECT 8, member FROM notes WHERE id = 7",
                "INSERT INTO shop.orders VALUES (2, NULL, 8)",
            ]);
            let revealed = member.return_by(&applied, policy);
            let own = "SELECT COUNT(*) FROM notes WHERE id < 8 AND member = 1";
            assert_eq!(count(&mut member, own), Value::Int(2), "{moment}");
            let left =
                "SELECT COUNT(*) FROM shop.orders WHERE member IS NOT NULL OR note IS NOT NULL";
            assert_eq!(count(&mut member, left), Value::Int(2), "{moment}");
            let expected = match policy {
                References::Delete => vec!["members", "notes"],
                References::Retain => Vec::new(),
                _ => vec!["members"],
            };
            let mut kept: Vec<&str> = revealed.kept.iter().map(|it| &*it.table).collect();
            kept.sort_unstable();
            assert_eq!(kept, expected, "{moment} {policy:?}");
            member.sql(&["DROP SCHEMA shop CASCADE", "DELETE FROM notes WHERE id = 8"]);
            if policy != References::Retain {
                assert!(member.return_by(&applied, policy).is_complete());
                assert_eq!(member.rows(["members", "notes"]), before);
            }
        }
    }
}

/// U3: a unique key that is checked at the commit refused the whole reveal there, where any other would have kept one value back.
pub(crate) fn unique_keys_that_are_checked_late_keep_one_value_back() {
    for moment in ["", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"] {
        let mut database = connect();
        let notes = format!(
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members, code TEXT UNIQUE {moment})"
        );
        for sql in [
            "CREATE TABLE members (id INT PRIMARY KEY)",
            &notes,
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO notes VALUES (6, 1, 'a'), (7, 1, 'b'), (8, 2, 'c')",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
        let modify = "[[modify]]\ntable = \"notes\"\ncolumn = \"code\"\nvalue = { RandStr = { len = 12 } }\n";
        let mut member = Member::of(database, &format!("{head}{modify}"));
        let before = member.rows(["notes"]);
        let applied = member.leave();
        member.sql(&["UPDATE notes SET code = 'b' WHERE id = 8"]);
        let revealed = member.return_by(&applied, References::Recorrelate);
        let kept: Vec<&str> = revealed.kept.iter().map(|it| &*it.identity).collect();
        assert_eq!(kept, ["7"], "{moment}: {revealed:?}");
        let back = "SELECT code FROM notes WHERE id = 6";
        assert_eq!(count(&mut member, back), Value::from("a"));
        member.sql(&["UPDATE notes SET code = 'c' WHERE id = 8"]);
        assert!(member.return_from(&applied).is_complete());
        assert_eq!(member.rows(["notes"]), before);
    }
}

/// H3: a trigger that is put off to the commit raises its error when no row can be told apart any more. The operation is refused as a
/// whole, says which constraint it was and changes nothing, and it succeeds once the trigger lets its rows through.
pub(crate) fn an_error_of_a_trigger_at_the_commit_changes_nothing() {
    let mut member = member_of(&[
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
    ]);
    let before = member.rows(["members", "notes"]);
    let shut = "CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''shut''; END'";
    let put_off = |event: &str, row: &str| {
        format!(
            "CREATE CONSTRAINT TRIGGER shut AFTER {event} ON notes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ({row}.id = 6) EXECUTE FUNCTION shut()"
        )
    };
    let is_named = |refused: Error| {
        let source = std::error::Error::source(&refused).map(ToString::to_string);
        let told = format!("{refused}: {}", source.unwrap_or_default());
        for words in [
            "table notes, constraint shut, which is checked at the commit",
            "a trigger or a function of the database refuses it",
        ] {
            assert!(told.contains(words), "{told}");
        }
    };
    member.sql(&[shut, &put_off("DELETE", "OLD")]);
    is_named(member.try_to_leave().unwrap_err());
    is_named(member.try_in_chunks(1).unwrap_err());
    assert_eq!(member.rows(["members", "notes"]), before);
    assert_eq!(member.hidden_by(), 0);
    member.sql(&["DROP FUNCTION shut() CASCADE"]);
    let applied = member.leave();
    let hidden = member.rows(["members", "notes"]);
    member.sql(&[shut, &put_off("INSERT", "NEW")]);
    let refused = member.return_at(applied.id, crate::suite::forum::time());
    is_named(refused.unwrap_err());
    assert_eq!(member.rows(["members", "notes"]), hidden);
    member.sql(&["DROP FUNCTION shut() CASCADE"]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}
