//! Rows that name somebody who has no account beside whoever leaves: they come back with the one who returns.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{Dialect, DisguiseId, Error, KeptReason, Protection, SpecFile, Value};

use super::forum::time;
use super::society::{Society, description};

/// Nobody has this id.
const NOBODY: i64 = 99;

const PEOPLE: [&str; 2] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
];

/// Two people, and tables of which no foreign key says whom they name.
fn society(tables: &[&str], described: &str) -> Society {
    let statements: Vec<String> = [&PEOPLE, tables]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    Society::of(&statements, &description(described), &[1, 2])
}

/// Letters that two wrote.
fn letters(rows: &str) -> Society {
    let insert = format!("INSERT INTO letters VALUES {rows}");
    let tables = [
        "CREATE TABLE letters (id BIGINT PRIMARY KEY, one BIGINT NOT NULL, two BIGINT NOT NULL, three BIGINT)",
        &insert,
    ];
    let owners = "[tables.letters]\nowners = [\"one\", \"two\", \"three\"]\n";
    let remove = "[[remove]]\ntable = \"letters\"\n";
    society(&tables, &format!("{owners}{remove}"))
}

/// The row of somebody and of nobody went with the one who left, and never came back.
pub(crate) fn a_shared_row_with_an_owner_who_is_nobody_comes_back() {
    for chunk in [None, Some(1)] {
        for whom in [Some(1), None] {
            let mut society = letters("(7, 1, 99, NULL), (8, 99, 1, 98), (9, 99, 2, NULL)");
            let id = society.try_to_leave(whom, false, chunk).unwrap().id;
            let left = society.numbers("SELECT id FROM letters WHERE id < 9");
            assert!(left.is_empty(), "{chunk:?} {whom:?}");
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{chunk:?} {whom:?} {revealed:?}");
            if whom.is_none() {
                assert!(society.reveal(2, id).is_complete());
            }
            society.assert_as_before(&format!("{chunk:?} {whom:?}"));
        }
    }
}

pub(crate) fn owners_beside_nobody_leave_and_return_in_any_order() {
    for leaving in [[1, 2], [2, 1]] {
        for returning in [[1, 2], [2, 1]] {
            let mut society = letters("(7, 1, 99, 2)");
            let gone: Vec<(i64, DisguiseId)> =
                leaving.map(|user| (user, society.leave(user))).into();
            assert!(society.numbers("SELECT id FROM letters").is_empty());
            for user in returning {
                let (_, id) = gone.iter().find(|(it, _)| *it == user).unwrap();
                let revealed = society.reveal(user, *id);
                assert!(revealed.is_complete(), "{leaving:?} {revealed:?}");
                assert_eq!(society.numbers("SELECT two FROM letters"), [NOBODY]);
            }
            society.assert_as_before(&format!("{leaving:?} {returning:?}"));
        }
    }
}

/// As above for rows that go whole, and for readers who are nobody.
pub(crate) fn rows_that_go_whole_and_rows_read_by_nobody_come_back() {
    let tables = [
        "CREATE TABLE follows (id BIGINT PRIMARY KEY, follower BIGINT NOT NULL, followee BIGINT NOT NULL)",
        "INSERT INTO follows VALUES (1, 1, 99), (2, 99, 1)",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, editor BIGINT NOT NULL, proof BIGINT)",
        "INSERT INTO posts VALUES (1, 1, 99, 98), (2, 1, 2, 99)",
    ];
    let described = "[tables.follows]\non_leave = { follower = \"remove\", followee = \"remove\" }\n\
        [tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\", \"proof\"]\n\
        references = [{ columns = [\"editor\"], table = \"people\", to = [\"id\"] }]\n\
        [[remove]]\ntable = \"posts\"\n";
    for chunk in [None, Some(1)] {
        for whom in [Some(1), None] {
            let mut society = society(&tables, described);
            let id = society.try_to_leave(whom, false, chunk).unwrap().id;
            assert!(society.numbers("SELECT id FROM posts").is_empty());
            assert!(society.numbers("SELECT id FROM follows").is_empty());
            if whom.is_none() {
                assert!(society.reveal(2, id).is_complete());
            }
            let revealed = society.reveal(1, id);
            assert!(revealed.is_complete(), "{chunk:?} {whom:?} {revealed:?}");
            society.assert_as_before(&format!("{chunk:?} {whom:?}"));
        }
    }
}

/// C4: whoever was somebody when the row went is waited for, in a record that names nobody, too.
pub(crate) fn whoever_was_somebody_then_and_has_gone_since_is_waited_for() {
    let tables = [
        "CREATE TABLE follows (id BIGINT PRIMARY KEY, follower BIGINT NOT NULL, followee BIGINT NOT NULL)",
        "INSERT INTO follows VALUES (1, 1, 2), (2, 1, 99)",
    ];
    let described =
        "[tables.follows]\non_leave = { follower = \"remove\", followee = \"remove\" }\n";
    let mut society = society(&tables, described);
    let ids = [1, 2].map(|user| society.leave(user));
    let revealed = society.reveal(1, ids[0]);
    let kept: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(kept, [KeptReason::OwnerMissing], "{revealed:?}");
    assert_eq!(society.numbers("SELECT id FROM follows"), [2]);
    assert!(society.reveal(2, ids[1]).is_complete());
    assert!(society.reveal(1, ids[0]).is_complete());
    society.assert_as_before("the other is back");
}

/// The row named the id before and names it again: whoever has it by then has what they would have,
/// had nobody left.
pub(crate) fn a_row_names_the_id_of_nobody_again_whoever_has_it_by_then() {
    for registers in [false, true] {
        let mut society = letters("(7, 1, 99, NULL)");
        let id = society.leave(1);
        society.sql("INSERT INTO people VALUES (99, 'new')");
        if registers {
            let made =
                society
                    .engine
                    .people()
                    .register(&Value::Int(NOBODY), Protection::KeyAlone, time());
            society.add(NOBODY, made.unwrap().key);
        }
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(society.numbers("SELECT two FROM letters"), [NOBODY]);
        society.before = society.everything();
        society.assert_as_before("somebody came to the id");
    }
}

/// A foreign key that did not see the row go in refuses it; the row stays and the rest comes back.
pub(crate) fn a_foreign_key_keeps_a_row_that_names_nobody() {
    let key = "CREATE TABLE letters (id BIGINT PRIMARY KEY, one BIGINT NOT NULL, two BIGINT NOT NULL REFERENCES people(id))";
    let (create, around) = match crate::connect().dialect() {
        Dialect::Sqlite => (
            key,
            ["PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"],
        ),
        Dialect::Postgres => (
            "CREATE TABLE letters (id BIGINT PRIMARY KEY, one BIGINT NOT NULL, two BIGINT NOT NULL)",
            [
                "SELECT 1",
                "ALTER TABLE letters ADD FOREIGN KEY (two) REFERENCES people(id) NOT VALID",
            ],
        ),
        _ => (
            key,
            ["SET foreign_key_checks = 0", "SET foreign_key_checks = 1"],
        ),
    };
    let tables = [
        create,
        around[0],
        "INSERT INTO letters VALUES (7, 1, 99)",
        around[1],
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT)",
        "INSERT INTO notes VALUES (1, 1)",
    ];
    let described = "[tables.letters]\nowners = [\"one\", \"two\"]\n[tables.notes]\nowners = [\"who\"]\n\
        [[remove]]\ntable = \"letters\"\n[[remove]]\ntable = \"notes\"\n";
    let mut society = society(&tables, described);
    let id = society.leave(1);
    let revealed = society.reveal(1, id);
    let kept: BTreeSet<&str> = revealed.kept.iter().map(|it| it.table.as_str()).collect();
    assert_eq!(kept, ["letters"].into(), "{revealed:?}");
    assert_eq!(society.numbers("SELECT id FROM notes"), [1]);
    society.sql("INSERT INTO people VALUES (99, 'new')");
    assert!(society.reveal(1, id).is_complete());
    assert_eq!(society.numbers("SELECT two FROM letters"), [NOBODY]);
}

/// A row of two owners who are nobody stayed in clear when everybody left, and named its reader, who had left. It goes with the
/// reader, as a row of one such owner does.
pub(crate) fn a_row_of_owners_who_are_nobody_goes_with_its_reader() {
    let tables = [
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT)",
        "INSERT INTO posts VALUES (1, 1, 2, 1), (2, 97, 98, 2), (3, 97, NULL, 2), (4, NULL, NULL, 2), (5, 97, 1, 2)",
    ];
    let described = "[tables.posts]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\"]\n\
        [[remove]]\ntable = \"posts\"\n";
    for chunk in [None, Some(1)] {
        let mut society = society(&tables, described);
        let id = society.try_to_leave(None, false, chunk).unwrap().id;
        let left = society.numbers("SELECT id FROM posts");
        assert!(left.is_empty(), "{chunk:?} {left:?}");
        society.reveal(1, id);
        let revealed = society.reveal(2, id);
        assert!(revealed.is_complete(), "{chunk:?} {revealed:?}");
        society.try_again(&[(1, id)].into());
        society.assert_as_before(&format!("{chunk:?}"));
    }
}

/// Everybody could not be disguised while a row named only people who are nobody, and the advice was to register them, which is
/// refused without an account. Such rows stay, whatever the step, and are told of before and after.
pub(crate) fn rows_that_name_nobody_stay_and_are_told_of_when_everybody_leaves() {
    let tables = [
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, body VARCHAR(20))",
        "INSERT INTO posts VALUES (1, 1, 2, 'x'), (2, 97, NULL, 'y'), (3, 97, 98, 'y'), (4, 2, NULL, 'x'), (5, 97, NULL, 'y')",
    ];
    let owners = "[tables.posts]\nowners = [\"one\", \"two\"]\n";
    let both = "owners = [\"one\", \"two\"]\n";
    let [remove, modify, decorrelate, grouped] = [
        "[[remove]]\ntable = \"posts\"\n".to_owned(),
        "[[modify]]\ntable = \"posts\"\ncolumn = \"body\"\nvalue = { ConstStr = \"\" }\n"
            .to_owned(),
        format!("[[decorrelate]]\ntable = \"posts\"\n{both}"),
        format!("[[decorrelate]]\ntable = \"posts\"\n{both}group_by = [\"body\"]\n"),
    ];
    let theirs = "SELECT id FROM posts WHERE body = 'y' AND one = 97 ORDER BY id";
    let of_nobody = |count: u64| BTreeMap::from([("posts".to_owned(), count)]);
    for (step, count) in [(remove, 3), (modify, 3), (decorrelate, 4), (grouped, 4)] {
        for chunk in [None, Some(1), Some(2)] {
            let mut society = society(&tables, &format!("{owners}{step}"));
            let spec = SpecFile::parse(&description(&format!("{owners}{step}")));
            let spec = spec.unwrap().spec;
            let told = society
                .engine
                .preview()
                .cautions_of_nobody(&spec, &BTreeMap::new());
            let told = told.unwrap().concat();
            let sentence = format!("leaves {count} rows and values of posts as before");
            assert!(told.contains(&sentence), "{step}: {told}");
            let done = society.try_to_leave(None, false, chunk).unwrap();
            assert_eq!(done.of_nobody, of_nobody(count), "{chunk:?} {step}");
            assert_eq!(society.numbers(theirs), [2, 3, 5], "{chunk:?} {step}");
            for user in [1, 2, 1] {
                society.reveal(user, done.id);
            }
            society.assert_as_before(&format!("{chunk:?} {step}"));
            // Whoever has an account can have a key.
            society.sql("INSERT INTO people VALUES (97, 'new')");
            let refused = society.try_to_leave(None, false, chunk);
            let is_refused = matches!(refused, Err(Error::Unregistered { .. }));
            assert!(is_refused, "{chunk:?} {step}: {refused:?}");
        }
    }
}

/// As above for rows that refer to each other, which chunks take in rounds, and for rows whose owner is at the end of a path.
pub(crate) fn replies_and_rows_on_a_path_that_name_nobody_stay() {
    let tables = [
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, reply_to BIGINT REFERENCES posts(id))",
        "CREATE TABLE marks (id BIGINT PRIMARY KEY, post BIGINT REFERENCES posts(id))",
        "INSERT INTO posts VALUES (1, 97, NULL), (2, 1, NULL), (3, 2, 1), (4, 97, 1), (5, 1, 3)",
        "INSERT INTO marks VALUES (1, 1), (2, 2), (3, 4)",
    ];
    let described = "[tables.posts]\nowners = [\"author\"]\n[tables.marks]\nthrough = [\"post\"]\n\
        [[remove]]\ntable = \"marks\"\n[[remove]]\ntable = \"posts\"\n";
    for chunk in [None, Some(1), Some(3)] {
        let mut society = society(&tables, described);
        let done = society.try_to_leave(None, false, chunk).unwrap();
        let left = [("marks".to_owned(), 2), ("posts".to_owned(), 2)].into();
        assert_eq!(done.of_nobody, left, "{chunk:?}");
        assert_eq!(society.numbers("SELECT id FROM posts ORDER BY id"), [1, 4]);
        assert_eq!(society.numbers("SELECT id FROM marks ORDER BY id"), [1, 3]);
        for user in [2, 1, 2] {
            society.reveal(user, done.id);
        }
        society.assert_as_before(&format!("{chunk:?}"));
    }
}
