//! Disguises in one go of people with more rows than are held in memory.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::num::NonZero;

use probity_disguise::{Database as _, Dialect, Engine, Error, References, Value};

use super::chunks::{CASES, reveal_by_all, shape, touched};
use super::forum::*;
use super::member::Member;

/// Stories that one person has more than the others.
const MORE: i64 = 37;
/// The limit of rows held in memory, below `MORE`.
const HELD: u32 = 16;

fn hold(forum: &mut Forum, rows: u32) {
    forum.engine.options().apply_rows = NonZero::new(rows).unwrap();
}

/// The forum, in which the first person has many stories.
fn busy_forum() -> Forum {
    let mut forum = forum();
    for story in 0..MORE {
        let id = 1_000 + story;
        forum.sql(&format!(
            "INSERT INTO stories VALUES ({id}, 1, 'url of {id}', 0)"
        ));
    }
    forum.before = forum.everything();
    hold(&mut forum, HELD);
    forum
}

fn records(forum: &mut Forum) -> i64 {
    forum.numbers("SELECT COUNT(*) FROM probity_locators")[0]
}

pub(crate) fn a_person_with_more_rows_than_are_held_leaves_in_one_go_and_comes_back() {
    let (mut forum, mut twin) = (forum(), forum());
    for rows in 1..=2 {
        hold(&mut forum, rows);
        for (spec, user) in CASES {
            let whole = twin.apply(spec, user, false).unwrap();
            let applied = forum.apply(spec, user, false).unwrap();
            assert_eq!(
                applied.pseudoprincipals, whole.pseudoprincipals,
                "{spec} {user:?}"
            );
            assert_eq!(touched(&applied), touched(&whole), "{spec} {user:?}");
            assert_eq!(shape(&mut forum), shape(&mut twin), "{spec} {user:?}");
            let (parts, one) = (records(&mut forum), records(&mut twin));
            // Of everybody, all rows are held.
            assert_eq!(parts > one, user.is_some(), "{spec} {user:?} {rows}");
            assert_eq!(forum.numbers("SELECT COUNT(*) FROM probity_intents"), [0]);
            reveal_by_all(&mut forum, applied.id, user);
            reveal_by_all(&mut twin, whole.id, user);
        }
    }
}

pub(crate) fn no_statement_gives_more_rows_than_are_held() {
    let mut forum = busy_forum();
    let held = usize::try_from(HELD).unwrap();
    for spec in [GDPR, GDPR_REMOVE, ANON, BLANK] {
        forum.database.rows_given();
        let applied = forum.apply(spec, Some(1), false).unwrap();
        assert_eq!(forum.database.rows_given(), held, "{spec}");
        forum.engine.options().reveal_bytes = 0;
        assert!(forum.reveal(1, applied.id).is_complete(), "{spec}");
        forum.assert_as_before();
    }
}

pub(crate) fn a_cut_in_the_middle_of_many_rows_changes_nothing() {
    let mut forum = busy_forum();
    for spec in [GDPR_REMOVE, BLANK] {
        let mut cuts: u64 = 0;
        let applied = loop {
            forum.left.set(cuts);
            let outcome = forum.apply(spec, Some(1), false);
            forum.left.set(u64::MAX);
            match outcome {
                Ok(applied) => break applied,
                Err(error) => assert!(
                    matches!(error, Error::Database { .. } | Error::Unsettled(_)),
                    "{error:?}"
                ),
            }
            forum.assert_as_before();
            assert_eq!(records(&mut forum), 0, "cut {cuts}");
            cuts += u64::try_from(crate::CUTS).unwrap();
        };
        // The beginning, and each part with its records.
        assert!(cuts > 20, "{cuts}");
        forum.engine = Engine::stored(forum.database.boxed()).unwrap();
        hold(&mut forum, HELD);
        forum
            .reveal_as(1, applied.id, References::Recorrelate)
            .unwrap();
        forum.assert_as_before();
    }
}

/// A person's rows of tables in which no place leads to one row alone.
const PLACELESS: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } } }
[tables.notes]
owners = ["member"]
[tables.marks]
owners = ["member"]
[[remove]]
table = "notes"
[[remove]]
table = "marks"
[[remove]]
table = "members"
"#;

/// Tables in parts, or without places, or with a column that is called like a place.
fn placeless(dialect: Dialect) -> Vec<String> {
    let notes = "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT, what BIGINT)";
    let tail = match dialect {
        Dialect::Sqlite => "WITHOUT ROWID",
        Dialect::Mysql => "PARTITION BY HASH (id) PARTITIONS 2",
        _ => "PARTITION BY HASH (id)",
    };
    let called = match dialect {
        Dialect::Sqlite => "RowId",
        _ => "what",
    };
    let mut tables = vec![
        "CREATE TABLE members (id BIGINT PRIMARY KEY)".to_owned(),
        format!("{notes} {tail}"),
        format!("CREATE TABLE marks (id BIGINT PRIMARY KEY, member BIGINT, {called} BIGINT)"),
    ];
    if dialect == Dialect::Postgres {
        tables.extend((0..2).map(|part| {
            let values = format!("FOR VALUES WITH (MODULUS 2, REMAINDER {part})");
            format!("CREATE TABLE notes{part} PARTITION OF notes {values}")
        }));
    }
    tables
}

pub(crate) fn rows_of_tables_without_places_leave_a_part_at_a_time_and_take_nobody_along() {
    let mut database = crate::connect();
    for sql in placeless(database.dialect()) {
        database.execute(&sql, &[]).unwrap();
    }
    database
        .execute("INSERT INTO members VALUES (1), (2)", &[])
        .unwrap();
    for table in ["notes", "marks"] {
        // Two people in turns, so that rows of both are first of their part.
        for id in 0..40 {
            let row = [id, 1 + id % 4 / 2, 7].map(Value::Int);
            let sql = format!("INSERT INTO {table} VALUES (?, ?, ?)");
            database.execute(&sql, &row).unwrap();
        }
    }
    let mut member = Member::of(database, PLACELESS);
    member.engine.options().apply_rows = NonZero::new(3).unwrap();
    let tables = ["members", "notes", "marks"];
    let before = member.rows(tables);
    let applied = member.leave();
    assert_eq!(member.rows(tables).map(|rows| rows.len()), [1, 20, 20]);
    let revealed = member.return_from(&applied);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(tables), before);
}
