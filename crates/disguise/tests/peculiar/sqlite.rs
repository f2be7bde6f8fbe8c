//! Features that only `SQLite` has: tables with a conflict clause, triggers that end a transaction.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise"
)]

use std::num::NonZero;

use probity_disguise::database::Sqlite;
use probity_disguise::{Database as _, Error, Kept, KeptReason, Protection, Revealed, Value};

use crate::connect;
use crate::suite::forum::time;
use crate::suite::member::{Member, NOTES};

/// Members and their names; the first member leaves.
const HEAD: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, mail = { ConstStr = "nobody" } }
[tables.names]
owners = ["member"]
"#;
const REMOVE: &str = "[[remove]]\ntable = \"names\"\n";
const CONSTANT: &str =
    "[[modify]]\ntable = \"names\"\ncolumn = \"nick\"\nvalue = { ConstStr = \"x\" }\n";
const RANDOM: &str =
    "[[modify]]\ntable = \"names\"\ncolumn = \"nick\"\nvalue = { RandStr = { len = 8 } }\n";
const DECORRELATE: &str = "[[decorrelate]]\ntable = \"names\"\nowners = [\"member\"]\n";

/// The first member has the name bob, in a table of which the keys end with `words`.
fn named(words: &str, steps: &str) -> Member {
    let mut database = connect();
    let names = format!(
        "CREATE TABLE names (id INTEGER PRIMARY KEY {words}, member INTEGER NOT NULL REFERENCES members, nick TEXT UNIQUE {words})"
    );
    let members =
        format!("CREATE TABLE members (id INTEGER PRIMARY KEY, mail TEXT UNIQUE {words})");
    for sql in [
        members.as_str(),
        names.as_str(),
        "INSERT INTO members VALUES (1, 'one'), (3, 'three')",
        "INSERT INTO names VALUES (1, 1, 'bob')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, &format!("{HEAD}{steps}"))
}

fn names(member: &mut Member) -> Vec<String> {
    let [names] = member.rows(["names"]);
    names.into_iter().collect()
}

fn kept(revealed: &Revealed) -> Vec<KeptReason> {
    revealed.kept.iter().map(|it| it.reason).collect()
}

/// C2: a table that said `ON CONFLICT REPLACE` lost the row of another person to a row or value that came back, and one that said
/// `IGNORE` lost what came back. Statements relied on a conflict being an error, which the table's own words overrule.
pub(crate) fn what_a_table_says_of_conflicts_costs_no_row() {
    for word in ["REPLACE", "IGNORE", "FAIL", "ROLLBACK", "ABORT"] {
        let words = format!("ON CONFLICT {word}");
        let taken = [
            (
                REMOVE,
                "INSERT INTO names VALUES (2, 3, 'bob')",
                KeptReason::Refused,
            ),
            (
                REMOVE,
                "INSERT INTO names VALUES (1, 3, 'al')",
                KeptReason::RowExists,
            ),
            (
                RANDOM,
                "INSERT INTO names VALUES (2, 3, 'bob')",
                KeptReason::Refused,
            ),
        ];
        for (steps, taken, reason) in taken {
            let mut member = named(&words, steps);
            let before = names(&mut member);
            let applied = member.leave();
            member.sql(&[taken]);
            let meanwhile = names(&mut member);
            let revealed = member.return_from(&applied);
            assert_eq!(kept(&revealed), [reason], "{word} {taken}");
            assert_eq!(names(&mut member), meanwhile, "{word} {taken}");
            member.sql(&["DELETE FROM names WHERE member = 3"]);
            let revealed = member.return_from(&applied);
            assert!(revealed.is_complete(), "{word} {taken}: {revealed:?}");
            assert_eq!(names(&mut member), before, "{word} {taken}");
        }
        // A value that another row has, and placeholders of which the second is like the first.
        for steps in [CONSTANT, DECORRELATE] {
            let mut member = named(&words, steps);
            member.sql(&["INSERT INTO names VALUES (2, 3, 'x'), (3, 1, 'z')"]);
            let before = member.rows(["names", "members"]);
            let refused = member.try_to_leave();
            assert!(refused.is_err(), "{word} {steps}: {refused:?}");
            assert_eq!(member.rows(["names", "members"]), before, "{word} {steps}");
            assert_eq!(member.hidden_by(), 0);
        }
    }
}

/// C2: the verb of a statement stands above what a trigger says in its own statements, so that those of a table which says nothing of
/// conflicts must stay plain. A trigger that keeps a list with `INSERT OR IGNORE` would have refused every row.
pub(crate) fn what_a_trigger_says_of_conflicts_holds() {
    let mut member = named("", REMOVE);
    member.sql(&[
        "CREATE TABLE seen (nick TEXT PRIMARY KEY)",
        "INSERT INTO seen VALUES ('bob')",
        "CREATE TRIGGER noted AFTER INSERT ON names BEGIN INSERT OR IGNORE INTO seen VALUES (NEW.nick); END",
    ]);
    member.leaves_and_returns(["names"]);
}

/// C2: a trigger may end the whole transaction (`RAISE(ROLLBACK)`). The row counted as refused, and all that followed was done outside
/// of any transaction, one statement after the other.
pub(crate) fn a_trigger_that_ends_the_transaction_ends_the_operation() {
    let mut member = named("", REMOVE);
    let before = names(&mut member);
    let applied = member.leave();
    member.sql(&[
        "CREATE TRIGGER shut BEFORE INSERT ON names BEGIN SELECT RAISE(ROLLBACK, 'shut'); END",
    ]);
    let records = |member: &mut Member| {
        let all = "SELECT id, body FROM probity_bags ORDER BY 1";
        member.engine.database().query(all, &[]).unwrap()
    };
    let stored = records(&mut member);
    let refused = member.return_at(applied.id, time()).unwrap_err();
    let Error::Database { source, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert!(
        source.message.ends_with("ended the transaction"),
        "{source}"
    );
    assert_eq!(records(&mut member), stored);
    member.sql(&["DROP TRIGGER shut"]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(names(&mut member), before);
}

/// C3: a key of `SQLite` may have NULL in it, by which no statement finds its row. An overwritten value or owner of such a row was told
/// of as hidden and stood there in clear.
pub(crate) fn a_row_with_null_in_its_key_is_not_said_to_be_hidden() {
    let table = "CREATE TABLE names (id INTEGER, part INTEGER, member INTEGER REFERENCES members, nick TEXT, PRIMARY KEY (id, part))";
    for (steps, passes) in [(RANDOM, false), (DECORRELATE, false), (REMOVE, true)] {
        let mut member = named("", steps);
        member.sql(&["DROP TABLE names", table]);
        member.sql(&["INSERT INTO names VALUES (1, NULL, 1, 'bob'), (2, NULL, 3, 'al')"]);
        if passes {
            member.leaves_and_returns(["members", "names"]);
            continue;
        }
        let before = member.rows(["members", "names"]);
        let refused = format!("{:?}", member.try_to_leave().unwrap_err());
        assert!(refused.contains("passed over 1 row"), "{steps}: {refused}");
        assert_eq!(member.rows(["members", "names"]), before);
    }
}

/// M2: a text that is not UTF-8 kept its person from leaving, and nobody was told where it is or what to do. The error names table and
/// column, and the same bytes in a BLOB leave and return.
pub(crate) fn a_text_that_is_not_utf_8_is_named() {
    let invalid = "INSERT INTO names VALUES (2, 1, CAST(x'ff41' AS TEXT))";
    for steps in [REMOVE, RANDOM] {
        let mut member = named("", steps);
        member.sql(&[invalid]);
        let refused = member.try_to_leave().unwrap_err();
        let Error::Database { source, .. } = &refused else {
            panic!("{refused:?}");
        };
        let told = "table names, column nick: a text is not UTF-8";
        assert!(source.message.starts_with(told), "{source}");
        let all = "SELECT COUNT(*) FROM names WHERE member = 1";
        let left = member.engine.database().query(all, &[]).unwrap();
        assert_eq!(left.concat(), [Value::Int(2)]);
        member.sql(&["UPDATE names SET nick = CAST(nick AS BLOB) WHERE id = 2"]);
        member.leaves_and_returns(["names"]);
    }
}

fn hexes(member: &mut Member) -> Vec<Vec<Value>> {
    let all = "SELECT * FROM hexes ORDER BY 1";
    member.engine.database().query(all, &[]).unwrap()
}

/// C3: in a file of UTF-16, a text with half a letter was read as another one: it came back so, and as a key it named the row of
/// another person, who lost it.
pub(crate) fn a_text_that_is_not_utf_16_is_named() {
    for (encoding, half, whole) in [
        ("UTF-16le", "00d84100", "00d841dc"),
        ("UTF-16be", "d8000041", "d800dc41"),
    ] {
        for steps in [REMOVE, RANDOM, DECORRELATE] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("app.db");
            let mut made = Sqlite::open(&path).unwrap();
            for sql in [
                format!("PRAGMA encoding = '{encoding}'"),
                "CREATE TABLE members (id INTEGER PRIMARY KEY, mail TEXT)".to_owned(),
                "CREATE TABLE names (code TEXT PRIMARY KEY, member INTEGER, nick TEXT)".to_owned(),
                "INSERT INTO members VALUES (1, 'one'), (2, 'two')".to_owned(),
                format!("INSERT INTO names VALUES (CAST(x'{half}' AS TEXT), 1, 'ada'), (CAST(x'{whole}' AS TEXT), 2, 'bob')"),
                "CREATE VIEW hexes AS SELECT hex(CAST(code AS BLOB)), member, hex(CAST(nick AS BLOB)) FROM names".to_owned(),
            ] {
                made.execute(&sql, &[]).unwrap();
            }
            drop(made);
            let database = Box::new(Sqlite::existing(&path).unwrap());
            let mut member = Member::of(database, &format!("{HEAD}{steps}"));
            for column in ["code", "nick"] {
                let before = hexes(&mut member);
                let refused = member.try_to_leave().map(|_| ());
                if column == "nick" && steps == DECORRELATE {
                    continue;
                }
                let refused = refused.unwrap_err();
                let Error::Database { source, .. } = &refused else {
                    panic!("{refused:?}");
                };
                let told =
                    format!("table names, column {column}: a text would be stored otherwise");
                assert!(source.message.starts_with(&told), "{source}");
                assert_eq!(hexes(&mut member), before);
                let half = format!(
                    "UPDATE names SET code = 'a', nick = CAST(x'{half}' AS TEXT) WHERE member = 1"
                );
                member.sql(&[&half]);
            }
            if steps != DECORRELATE {
                member.sql(&["UPDATE names SET nick = '\u{1f600}' WHERE member = 1"]);
                let before = hexes(&mut member);
                let applied = member.leave();
                assert!(member.return_from(&applied).is_complete());
                assert_eq!(hexes(&mut member), before);
            }
        }
    }
}

/// L1: a column that takes other types than the ids of users refers to a user by what is an id for the foreign key alone, as the text 1
/// where the id is a number. Such a row stayed in clear, and nothing told of it; now it leaves with its owner, whom the key names.
pub(crate) fn an_owner_column_of_another_type_is_noted() {
    for (of_member, is_noted) in [
        ("INTEGER", false),
        ("BIGINT", false),
        ("", true),
        ("TEXT", true),
        ("NUMERIC", false),
    ] {
        let mut member = named("", REMOVE);
        let table = format!(
            "CREATE TABLE names (id INTEGER PRIMARY KEY, member {of_member} REFERENCES members, nick TEXT)"
        );
        member.sql(&[
            "DROP TABLE names",
            &table,
            "INSERT INTO names VALUES (1, 1, 'bob'), (2, '01', 'rob')",
        ]);
        let cautions = member.cautions().concat();
        let noted = cautions.contains("column member of names");
        assert_eq!(noted, is_noted, "{of_member}: {cautions}");
        member.leaves_and_returns(["names"]);
        member.leave();
        assert_eq!(
            member.rows(["names"]).map(|left| left.len()),
            [0],
            "{of_member}"
        );
    }
}

/// C6: a row made meanwhile named a placeholder as what the foreign key alone takes for the same, the text 7 for the number. Nothing found
/// it, and it went with the placeholder by `ON DELETE CASCADE`, or lost whom it named, while the reveal said that everything is back.
pub(crate) fn a_placeholder_that_a_value_of_another_type_names_stays() {
    for of_member in ["", "BLOB", "TEXT"] {
        for action in ["", "ON DELETE SET NULL", "ON DELETE CASCADE"] {
            let mut member = named("", DECORRELATE);
            let table = format!(
                "CREATE TABLE names (id INTEGER PRIMARY KEY, member {of_member} REFERENCES members {action}, nick TEXT)"
            );
            member.sql(&[
                "DROP TABLE names",
                &table,
                "INSERT INTO names VALUES (1, 1, 'bob')",
            ]);
            let before = member.rows(["members", "names"]);
            let applied = member.leave();
            let added = "INSERT INTO names SELECT 2, '0' || id, 'al' FROM members WHERE id > 1000";
            member.sql(&[added]);
            let strange = "SELECT member FROM names WHERE id = 2";
            let named = member.engine.database().query(strange, &[]).unwrap();
            let revealed = member.return_from(&applied);
            let expected = |it: &&Kept| it.reason == KeptReason::ReferredTo;
            let stays = revealed.kept.iter().find(expected);
            let said = stays.and_then(|it| it.said.as_deref());
            assert_eq!(said, Some("table names, column member"), "{revealed:?}");
            let now = member.engine.database().query(strange, &[]).unwrap();
            assert_eq!(now, named, "{of_member} {action}");
            member.sql(&["DELETE FROM names WHERE id = 2"]);
            member.return_from(&applied);
            assert_eq!(member.rows(["members", "names"]), before);
        }
    }
}

/// C4: a key that compares letter by letter lets a column that does not have two rows which are the same to `=`. Whoever left
/// overwrote the row of another person with theirs.
pub(crate) fn a_key_that_compares_otherwise_than_its_column_is_none() {
    for (key, is_sure) in [
        ("PRIMARY KEY (code COLLATE BINARY)", false),
        ("UNIQUE (code COLLATE RTRIM)", false),
        ("PRIMARY KEY (code)", true),
        ("UNIQUE (code, member)", false),
    ] {
        let mut database = connect();
        for sql in [
            "CREATE TABLE members (id INTEGER PRIMARY KEY)",
            &format!(
                "CREATE TABLE notes (code TEXT COLLATE NOCASE NOT NULL, member INTEGER, {key})"
            ),
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO notes VALUES ('a', 1), ('b', 2)",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let description = NOTES.replacen("owners", "identity = [\"code\"]\nowners", 1);
        let mut member = Member::of(database, &description);
        if is_sure {
            member.leaves_and_returns(["members", "notes"]);
            continue;
        }
        let refusal = member.refusal();
        let said = "several rows of notes may have one identity (code)";
        assert!(refusal.contains(said), "{key}: {refusal}");
        member.sql(&["CREATE UNIQUE INDEX codes ON notes (code)"]);
        member.leaves_and_returns(["members", "notes"]);
    }
}

/// A row with NULL in its key was passed over by chunks and pages, and with it rows that have a key: they stayed in clear, with
/// success. Such a disguise is refused.
pub(crate) fn no_row_without_a_key_is_passed_over_in_parts() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INTEGER PRIMARY KEY)",
        "CREATE TABLE notes (id TEXT PRIMARY KEY, member INTEGER REFERENCES members, what TEXT)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (NULL, 1, 'x'), ('a', 1, 'y'), ('b', 1, 'z'), (NULL, 2, 'u')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let changing = "[[modify]]\ntable = \"notes\"\ncolumn = \"what\"\nvalue = { ConstStr = \"-\" }";
    let mut member = Member::of(
        database,
        &NOTES
            .replacen("[[remove]]\ntable = \"notes\"", changing, 1)
            .replacen("[[remove]]\ntable = \"members\"", "", 1),
    );
    member.engine.options().apply_rows = NonZero::<u32>::MIN;
    let before = member.rows(["members", "notes"]);
    let refused = format!("{:?}", member.try_to_leave().unwrap_err());
    assert!(refused.contains("NULL in their identity"), "{refused}");
    assert_eq!(member.rows(["members", "notes"]), before);
    member.sql(&["UPDATE notes SET id = 'c' WHERE id IS NULL AND member = 1"]);
    member.leaves_and_returns(["members", "notes"]);
}

/// C6: a column without a type held the number 7 and the text 7 as two people, which one name stood for. Whoever left first took
/// along what the other had under the same key of a record.
pub(crate) fn an_id_of_two_types_is_refused() {
    for (of_id, ids) in [
        ("", "(7), ('7'), (8)"),
        ("BLOB", "(7), (x'37'), (8)"),
        ("TEXT", "('7'), (x'37'), ('8')"),
        ("NUMERIC", "(7), (x'37'), (8)"),
    ] {
        let mut database = connect();
        for sql in [
            format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
            format!("CREATE TABLE notes (id INTEGER PRIMARY KEY, member {of_id})"),
            "INSERT INTO members VALUES (9)".to_owned(),
            format!("INSERT INTO members VALUES {ids}"),
            "INSERT INTO notes (member) SELECT id FROM members".to_owned(),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        let id = if of_id == "TEXT" {
            Value::from("9")
        } else {
            Value::Int(9)
        };
        let mut member = Member::called(id, database, NOTES);
        let noted = member.cautions().concat().contains("has no type");
        assert_eq!(noted, of_id.is_empty() || of_id == "BLOB", "{of_id}");
        for id in [Value::Int(7), Value::from("7"), Value::Bytes(b"7".to_vec())] {
            let protection = Protection::KeyAlone;
            let refused = member.engine.people().register(&id, protection, time());
            let refused = refused.err().unwrap().to_string();
            assert!(
                refused.contains("values of two types"),
                "{of_id}: {refused}"
            );
        }
        let refused = member.try_all_to_leave().unwrap_err().to_string();
        assert!(
            refused.contains("values of two types"),
            "{of_id}: {refused}"
        );
        member.leaves_and_returns(["members", "notes"]);
        let applied = member.leave();
        let alike = if of_id == "TEXT" {
            "(x'39')"
        } else {
            "(9), (x'39')"
        };
        member.sql(&[&format!("INSERT INTO members VALUES {alike}")]);
        let refused = member.try_to_leave().unwrap_err().to_string();
        if of_id != "TEXT" {
            assert!(
                refused.contains("values of two types"),
                "{of_id}: {refused}"
            );
            let refused = member
                .return_at(applied.id, time())
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains("values of two types"),
                "{of_id}: {refused}"
            );
            let refused = member.exported(applied.id, time()).unwrap_err().to_string();
            assert!(
                refused.contains("values of two types"),
                "{of_id}: {refused}"
            );
        }
        member.sql(&["DELETE FROM members WHERE id IN (9, x'39')"]);
        assert!(member.return_from(&applied).is_complete());
    }
}

/// A row whose column made a number of the text that is the id went with its owner, and no reveal found whose it was. It is
/// refused before anything changes, whether a foreign key is declared or not.
pub(crate) fn a_number_that_names_an_id_of_text_is_refused() {
    for (of_id, id, of_member, named) in [
        ("", "'2'", "INTEGER", "2"),
        ("BLOB", "'2'", "INTEGER", "2"),
        ("BLOB", "'2'", "NUMERIC", "2"),
        ("", "2", "TEXT", "'2'"),
        ("BLOB", "2", "VARCHAR(9)", "'2'"),
    ] {
        for key in ["", " REFERENCES members (id)"] {
            let mut database = connect();
            for sql in [
                "PRAGMA foreign_keys = OFF".to_owned(),
                format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
                format!("CREATE TABLE notes (id INTEGER PRIMARY KEY, member {of_member}{key})"),
                format!("INSERT INTO members VALUES ({id}), ('eve')"),
                format!("INSERT INTO notes VALUES (1, {named}), (2, NULL)"),
            ] {
                database.execute(&sql, &[]).unwrap();
            }
            let name = if id == "2" {
                Value::Int(2)
            } else {
                Value::from("2")
            };
            let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
            let described = NOTES.replacen(number, "RandStr = { len = 8 }", 1);
            let mut member = Member::called(name, database, &described);
            let before = member.rows(["members", "notes"]);
            for refused in [
                member.try_to_leave().map(drop).unwrap_err(),
                member.try_in_chunks(1).map(drop).unwrap_err(),
                member.try_all_to_leave().map(drop).unwrap_err(),
            ] {
                let refused = refused.to_string();
                let said = refused.contains("by a value of another type than the id");
                assert!(said, "{of_id} {id} {of_member}{key}: {refused}");
            }
            assert_eq!(member.rows(["members", "notes"]), before);
            member.sql(&["DELETE FROM notes WHERE id = 1"]);
            member.leaves_and_returns(["members", "notes"]);
        }
    }
}

/// A row whose bytes are written like an id of text, or the other way round, went to its person when everybody left, and to a person
/// beside its owner. `SQLite` never takes the two for equal: it is refused before anything changes.
pub(crate) fn a_value_that_is_an_id_in_another_storage_class_is_refused() {
    for (of_id, id, of_member, named) in [
        ("", "'2'", "", "x'32'"),
        ("BLOB", "x'32'", "BLOB", "'2'"),
        ("", "'2'", "BLOB", "2"),
        ("TEXT", "'2'", "TEXT", "x'32'"),
        ("VARCHAR(9)", "x'32'", "TEXT", "'2'"),
        ("BIGINT", "2", "TEXT", "x'32'"),
        ("DECIMAL(9)", "2", "DECIMAL(9)", "x'32'"),
    ] {
        let is_number = id == "2";
        let mut database = connect();
        let eve = if is_number { "3" } else { "'eve'" };
        for sql in [
            format!("CREATE TABLE members (id {of_id} PRIMARY KEY)"),
            format!(
                "CREATE TABLE notes (id INTEGER PRIMARY KEY, member {of_member}, other {of_member})"
            ),
            format!("INSERT INTO members VALUES ({id}), ({eve})"),
            format!("INSERT INTO notes VALUES (1, {named}, NULL), (2, {eve}, {named})"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        let name = if is_number {
            Value::Int(3)
        } else {
            "eve".into()
        };
        let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
        let made = if is_number {
            number
        } else {
            "RandStr = { len = 8 }"
        };
        let described =
            NOTES
                .replacen(number, made, 1)
                .replacen("[\"member\"]", "[\"member\", \"other\"]", 1);
        let mut member = Member::called(name, database, &described);
        let two = match id {
            "2" => Value::Int(2),
            "x'32'" => Value::Bytes(b"2".to_vec()),
            _ => "2".into(),
        };
        member
            .engine
            .people()
            .register(&two, Protection::KeyAlone, time())
            .unwrap();
        let before = member.rows(["members", "notes"]);
        for refused in [
            member.try_to_leave().map(drop).unwrap_err(),
            member.try_in_chunks(1).map(drop).unwrap_err(),
            member.try_all_to_leave().map(drop).unwrap_err(),
        ] {
            let refused = refused.to_string();
            let said = refused.contains("by a value of another type than the id");
            assert!(said, "{of_id} {id} {of_member} {named}: {refused}");
        }
        assert_eq!(member.rows(["members", "notes"]), before);
        member.sql(&[
            &format!("UPDATE notes SET other = {id}"),
            "DELETE FROM notes WHERE id = 1",
        ]);
        member.leaves_and_returns(["members", "notes"]);
    }
}

/// A virtual table whose module the program lacks kept everything from being done. A row that came
/// back had another place, by which a full-text index found the row of somebody else.
#[test]
fn virtual_tables_are_left_alone_and_those_that_find_rows_by_place_are_noted() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INTEGER PRIMARY KEY, mail TEXT)",
        "CREATE TABLE names (id TEXT PRIMARY KEY, member INTEGER NOT NULL REFERENCES members, nick TEXT)",
        "INSERT INTO members VALUES (1, 'one'), (3, 'three')",
        "INSERT INTO names VALUES ('a', 1, 'bob')",
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_schema VALUES ('table', 'places', 'places', 0, 'CREATE VIRTUAL TABLE places USING nowhere(a, content=other)')",
        "INSERT INTO sqlite_schema VALUES ('table', 'found', 'found', 0, 'CREATE VIRTUAL TABLE found USING nowhere(nick, content=''names'')')",
        "PRAGMA writable_schema = RESET",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, &format!("{HEAD}{REMOVE}"));
    let cautions = member.cautions().concat();
    assert!(
        cautions.contains("finds its rows by their rowid"),
        "{cautions}"
    );
    member.leaves_and_returns(["names"]);
}
