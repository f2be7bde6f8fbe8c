//! Rows that name several people and go with any of them, and answers to rows of one's own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{Database as _, Dialect, Engine, Error, SpecFile, Value, draft};

use super::sample::Sample;
use super::society::{Society, description};

/// Followers and those whom they follow, with both in the key or beside a number of its own.
fn following(key: &str) -> Vec<String> {
    let (number, numbers) = match key {
        "id" => (
            "id BIGINT PRIMARY KEY, ",
            ["1, ", "2, ", "3, ", "4, ", "5, "],
        ),
        _ => ("", [""; 5]),
    };
    let primary = match key {
        "id" => "",
        _ => ", PRIMARY KEY (follower, followee)",
    };
    let pairs = ["1, 2", "2, 1", "1, 3", "3, 2", "3, 3"];
    let rows = numbers
        .iter()
        .zip(pairs)
        .map(|(number, pair)| format!("({number}{pair}, 7)"));
    vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        format!(
            "CREATE TABLE follows ({number}follower BIGINT NOT NULL REFERENCES people(id), followee BIGINT NOT NULL REFERENCES people(id), since BIGINT{primary})"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')".to_owned(),
        format!(
            "INSERT INTO follows VALUES {}",
            rows.collect::<Vec<_>>().join(", ")
        ),
    ]
}

const BOTH: &str = "[tables.follows]\non_leave = { follower = \"remove\", followee = \"remove\" }";
const REMOVED: &str = "[[remove]]\ntable = \"follows\"";

/// D16: a table with both of its people in the key was refused. Each row goes with whoever leaves first and comes back with
/// them, once both are there.
pub(crate) fn whoever_leaves_takes_their_following_along() {
    let mut sample = Sample::new();
    let orders = [
        ([1, 2], [1, 2]),
        ([1, 2], [2, 1]),
        ([2, 1], [1, 2]),
        ([2, 1], [2, 1]),
    ];
    for (key, said) in [("both", REMOVED), ("both", BOTH), ("id", BOTH)] {
        for chunk in [None, Some(1)] {
            for (leaving, returning) in orders {
                if sample.passes_over() {
                    continue;
                }
                let what = format!("{key} {said} {chunk:?} {leaving:?} {returning:?}");
                let mut society = Society::of(&following(key), &description(said), &[1, 2, 3]);
                for _ in 0..2 {
                    let mut gone = BTreeMap::new();
                    for user in leaving {
                        let left = society.try_to_leave(Some(user), false, chunk).unwrap();
                        gone.insert(user, left.id);
                        let named = format!(
                            "SELECT COUNT(*) FROM follows WHERE follower = {user} OR followee = {user}"
                        );
                        assert_eq!(society.numbers(&named), [0], "{what}");
                    }
                    assert_eq!(
                        society.numbers("SELECT follower FROM follows"),
                        [3],
                        "{what}"
                    );
                    for user in returning {
                        society.reveal(user, gone[&user]);
                    }
                    society.try_again(&gone);
                    society.assert_as_before(&what);
                }
            }
        }
    }
}

pub(crate) fn everybody_leaves_with_their_following_and_returns_in_any_order() {
    for (key, said) in [("both", REMOVED), ("both", BOTH), ("id", BOTH)] {
        for chunk in [None, Some(2)] {
            for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
                let what = format!("{key} {said} {chunk:?} {order:?}");
                let mut society = Society::of(&following(key), &description(said), &[1, 2, 3]);
                let gone = society.try_to_leave(None, false, chunk).unwrap().id;
                assert_eq!(
                    society.numbers("SELECT COUNT(*) FROM follows"),
                    [0],
                    "{what}"
                );
                for user in order {
                    society.reveal(user, gone);
                }
                society.try_again(&BTreeMap::from(order.map(|user| (user, gone))));
                society.assert_as_before(&what);
            }
        }
    }
}

/// The placeholder of whoever is still there stays as long as a row names it that somebody else took along.
pub(crate) fn a_following_that_was_anonymous_comes_back_to_both() {
    let anonymous =
        description("[[decorrelate]]\ntable = \"follows\"\nowners = [\"follower\", \"followee\"]")
            .replace("[[remove]]\ntable = \"people\"", "");
    let orders = [[1, 2, 3], [2, 1, 3], [3, 2, 1]];
    let both = orders.map(|order| [("id", order), ("both", order)]);
    for (key, order) in both.into_iter().flatten() {
        for newer_first in [true, false] {
            let what = format!("{key} {order:?} {newer_first}");
            let mut society = Society::of(&following(key), &description(BOTH), &[1, 2, 3]);
            let removing =
                std::mem::replace(&mut society.spec, SpecFile::parse(&anonymous).unwrap().spec);
            let hidden = society.try_to_leave(None, false, None).unwrap().id;
            society.spec = removing;
            let gone = society.try_to_leave(Some(1), true, None).unwrap().id;
            assert_eq!(
                society.numbers("SELECT COUNT(*) FROM follows"),
                [2],
                "{what}"
            );
            if newer_first {
                society.reveal(1, gone);
            }
            for user in order {
                society.reveal(user, hidden);
            }
            for _ in 0..2 {
                society.try_again(&BTreeMap::from([(1, gone)]));
                society.try_again(&BTreeMap::from(order.map(|user| (user, hidden))));
            }
            if key == "id" {
                society.assert_as_before(&what);
            } else {
                // By a key that changed with each of its people, their records do not know the row again.
                assert_eq!(society.everything(), society.before.clone(), "{what}");
            }
        }
    }
}

/// Comments on comments of one's own, some that answer themselves, and two that answer each other.
fn answers(key: &str) -> Vec<String> {
    // Rows that refer to each other by columns that may not be NULL cannot come back to `MariaDB`.
    let last = if key.starts_with("NOT NULL") { 9 } else { 21 };
    [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        &format!(
            "CREATE TABLE comments (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), parent BIGINT {key})"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO comments VALUES (9, 1, 9)",
        "INSERT INTO comments VALUES (10, 1, 9)",
        "INSERT INTO comments VALUES (11, 1, 10), (12, 2, 9), (20, 1, 9), (21, 1, 20)",
        &format!("UPDATE comments SET parent = {last} WHERE id = 20"),
        "UPDATE comments SET parent = 12 WHERE id = 12",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// D7: an answer to one's own comment was enough to keep its author on `MariaDB` for ever.
pub(crate) fn answers_to_ones_own_rows_leave_in_one_go() {
    for (key, what) in [
        ("REFERENCES comments(id)", "left alone"),
        ("NOT NULL REFERENCES comments(id)", "not null"),
        ("REFERENCES comments(id) ON DELETE SET NULL", "set null"),
        ("REFERENCES comments(id) ON DELETE CASCADE", "cascade"),
        (
            "NOT NULL REFERENCES comments(id) ON DELETE RESTRICT",
            "restrict",
        ),
    ] {
        let removing = description("[[remove]]\ntable = \"comments\"");
        let mut society = Society::of(&answers(key), &removing, &[1, 2]);
        for _ in 0..2 {
            let gone = society.leave(1);
            assert_eq!(society.numbers("SELECT id FROM comments"), [12], "{what}");
            let revealed = society.reveal(1, gone);
            assert!(revealed.is_complete(), "{what} {revealed:?}");
            society.assert_as_before(what);
        }
        if key.starts_with("NOT NULL") && society.engine.database().dialect() == Dialect::Mysql {
            // Somebody's row must stay for those that refer to themselves.
            continue;
        }
        let gone = society.try_to_leave(None, false, None).unwrap().id;
        assert_eq!(society.numbers("SELECT COUNT(*) FROM comments"), [0]);
        for user in [1, 2] {
            society.reveal(user, gone);
        }
        society.try_again(&BTreeMap::from([(1, gone), (2, gone)]));
        society.assert_as_before(what);
    }
}

/// An answer by somebody else is theirs, so that the comment cannot go unless something is said of it.
pub(crate) fn answers_of_others_keep_a_row_from_going() {
    for key in [
        "REFERENCES comments(id)",
        "REFERENCES comments(id) ON DELETE SET NULL",
    ] {
        let removing = description("[[remove]]\ntable = \"comments\"");
        let mut society = Society::of(&answers(key), &removing, &[1, 2]);
        society.sql("UPDATE comments SET parent = 10 WHERE id = 12");
        society.before = society.everything();
        assert!(society.try_to_leave(Some(1), false, None).is_err());
        society.assert_as_before(key);
    }
}

/// Rules that cannot be kept are refused by name.
pub(crate) fn what_cannot_be_said_of_references_is_refused() {
    let people = "[tables.people]\non_leave = ";
    let follows = "[tables.follows]\n";
    for (said, expected) in [
        (
            format!("{people}{{ id = \"null\" }}"),
            "is the id of the users",
        ),
        (
            format!("{people}{{ name = \"remove\" }}"),
            "no user leaves with another",
        ),
        (
            format!("{people}{{ missing = \"null\" }}"),
            "has no column missing",
        ),
        (
            format!("{follows}on_leave = {{ follower = \"null\" }}"),
            "may not be NULL",
        ),
        (
            format!(
                "{follows}owners = [\"follower\"]\non_leave = {{ follower = \"placeholder\" }}"
            ),
            "is an owner",
        ),
        (
            format!("{follows}readers = [\"follower\"]\non_leave = {{ follower = \"remove\" }}"),
            "is a reader",
        ),
        (
            format!("{follows}on_leave = {{ follower = \"remove\" }}"),
            "owner followee would stay with a row that is gone",
        ),
    ] {
        let file = SpecFile::parse(&description(&said)).unwrap();
        let mut database = crate::connect();
        for sql in following("id") {
            database.execute(&sql, &[]).unwrap();
        }
        let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
        match engine.preview().check(&file.spec, &BTreeMap::new()) {
            Err(Error::Spec(error)) => {
                assert!(error.what.contains(expected), "{error}");
            }
            other => panic!("{said} gave {other:?}"),
        }
    }
    let unknown = SpecFile::parse(&description(&format!("{people}{{ name = \"nil\" }}")));
    assert_eq!(unknown.unwrap_err().place, "line 7");
}

/// D6: a draft left references among users unsaid, and what it proposed was refused for whoever is referred to.
pub(crate) fn a_draft_says_what_becomes_of_references_among_users() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT REFERENCES people(id) ON DELETE SET NULL)",
        "CREATE TABLE follows (follower BIGINT NOT NULL REFERENCES people(id), followee BIGINT NOT NULL REFERENCES people(id), PRIMARY KEY (follower, followee))",
        "INSERT INTO people VALUES (1, 'one', NULL)",
        "INSERT INTO people VALUES (2, 'two', 1)",
        "INSERT INTO follows VALUES (1, 2), (2, 1)",
    ]
    .map(str::to_owned);
    let mut database = crate::connect();
    for sql in &statements {
        database.execute(sql, &[]).unwrap();
    }
    let made = draft(&mut database, None).unwrap();
    let file = SpecFile::parse(&made.text).unwrap();
    assert_eq!(file.schema, made.schema, "{}", made.text);
    let mut society = Society::of(&statements, &made.text, &[1, 2]);
    let cautions = society.engine.preview().cautions(&file.spec).unwrap();
    assert!(cautions.is_empty(), "{cautions:?}");
    let gone = society.leave(1);
    assert_eq!(
        society.numbers("SELECT id FROM people"),
        [2],
        "{}",
        made.text
    );
    assert_eq!(society.numbers("SELECT COUNT(*) FROM follows"), [0]);
    assert!(society.reveal(1, gone).is_complete());
    society.assert_as_before(&made.text);
}

/// Several disguises that put placeholders into a key of two people may leave records that find their row no more, and nothing
/// said so before. `check` notes it wherever the key of such a row may change, and nowhere else.
pub(crate) fn placeholders_in_a_key_of_two_people_are_noted() {
    const USERS: &str = "[[remove]]\ntable = \"people\"";
    for (key, said, is_noted) in [
        (
            "both",
            "[[decorrelate]]\ntable = \"follows\"\nowners = [\"follower\", \"followee\"]",
            true,
        ),
        (
            "both",
            "[tables.follows]\nowners = [\"follower\"]\non_leave = { followee = \"placeholder\" }\n\n[[remove]]\ntable = \"follows\"",
            true,
        ),
        ("both", BOTH, false),
        ("both", REMOVED, false),
        (
            "id",
            "[[decorrelate]]\ntable = \"follows\"\nowners = [\"follower\", \"followee\"]",
            false,
        ),
    ] {
        let said = format!("{said}\n\n{USERS}");
        let mut society = Society::of(&following(key), &description(&said), &[]);
        let cautions = society.engine.preview().cautions(&society.spec).unwrap();
        let noted = cautions
            .iter()
            .any(|it| it.contains("are the key of follows"));
        assert_eq!(noted, is_noted, "{said}: {cautions:?}");
    }
}

/// D6: nothing told that a disguise would be refused but the disguise itself, for one with a grace period a month later.
pub(crate) fn what_a_disguise_would_be_refused_for_is_foretold() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT REFERENCES people(id) ON DELETE SET NULL)",
        "CREATE TABLE comments (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), parent BIGINT REFERENCES comments(id))",
        "INSERT INTO people VALUES (1, 'one', NULL)",
        "INSERT INTO people VALUES (2, 'two', 1), (3, 'three', NULL)",
        "INSERT INTO comments VALUES (10, 1, NULL)",
        "INSERT INTO comments VALUES (11, 1, 10), (20, 3, NULL)",
        "INSERT INTO comments VALUES (12, 2, 10), (13, 2, 11), (21, 3, 20)",
    ]
    .map(str::to_owned);
    let removing = "[[remove]]\ntable = \"comments\"";
    let mut society = Society::of(&statements, &description(removing), &[1, 2, 3]);
    let cautions = society.engine.preview().cautions(&society.spec).unwrap();
    assert!(
        cautions.iter().any(|it| it.contains("(invited_by)")),
        "{cautions:?}"
    );
    let foretold = |society: &mut Society, user: Option<i64>| {
        let user = user.map(Value::Int);
        let named = BTreeMap::new();
        let planned = society
            .engine
            .preview()
            .plan(&society.spec, user.as_ref(), &named)
            .unwrap();
        let refused = planned.into_iter().flat_map(|step| step.refused);
        refused
            .map(|it| (it.table, it.rows, it.would_change))
            .collect::<Vec<_>>()
    };
    let comments = ("comments".to_owned(), 2, false);
    let people = ("people".to_owned(), 1, true);
    assert_eq!(foretold(&mut society, Some(1)), [comments.clone(), people]);
    assert_eq!(foretold(&mut society, Some(2)), []);
    assert_eq!(foretold(&mut society, Some(3)), []);
    assert_eq!(foretold(&mut society, None), []);
    assert!(society.try_to_leave(Some(1), false, None).is_err());
    let refused = society.schedule(1).unwrap_err();
    assert!(
        matches!(refused, Error::WouldOrphan { rows: 2, .. }),
        "{refused:?}"
    );
    society.schedule(3).unwrap();
    // Rows that the person only reads stay, whatever refers to them.
    let reading = "[tables.comments]\nreaders = [\"parent\"]\n[[remove]]\ntable = \"comments\"";
    let mut reader = Society::of(&statements, &description(reading), &[1, 2, 3]);
    assert_eq!(foretold(&mut reader, Some(3)), []);
    // Steps that rules add are foretold, too.
    let said = format!("[tables.people]\non_leave = {{ invited_by = \"null\" }}\n{removing}");
    let mut society = Society::of(&statements, &description(&said), &[1, 2, 3]);
    assert_eq!(foretold(&mut society, Some(1)), [comments]);
    let planned =
        society
            .engine
            .preview()
            .plan(&society.spec, Some(&Value::Int(1)), &BTreeMap::new());
    let actions = planned
        .unwrap()
        .into_iter()
        .map(|step| (step.action, step.table, step.rows));
    let actions: Vec<_> = actions.collect();
    let expected = [
        ("remove", "comments", 2),
        ("unlink", "people", 1),
        ("remove", "people", 1),
    ];
    assert_eq!(
        actions,
        expected.map(|(action, table, rows)| (action, table.to_owned(), rows))
    );
}

/// A newer disguise took a row from under a placeholder in a key of two people, and brought it back under its owner, because the
/// older one was revealed first. The record of the older one missed the row at each reveal, for good; now it finds it.
pub(crate) fn a_row_of_two_people_that_is_back_is_missed_no_more() {
    let mut sample = Sample::new();
    let both = "[[decorrelate]]\ntable = \"follows\"\nowners = [\"follower\", \"followee\"]";
    let one = "[[decorrelate]]\ntable = \"follows\"\nowners = [\"follower\"]";
    for hiding in [both, one] {
        for who in [1, 2] {
            if sample.passes_over() {
                continue;
            }
            let mut society = Society::of(&following("both"), &description(both), &[1, 2, 3]);
            let stays = description(hiding).replace("[[remove]]\ntable = \"people\"", "");
            let stays = SpecFile::parse(&stays).unwrap().spec;
            let leaving = std::mem::replace(&mut society.spec, stays);
            let older = society.leave(who);
            society.spec = leaving;
            let newer = society.try_to_leave(Some(who), true, None).unwrap().id;
            assert!(!society.reveal(who, older).is_complete());
            society.reveal(who, newer);
            let revealed = society.reveal(who, older);
            assert!(revealed.is_complete(), "{hiding} {who} {revealed:?}");
            society.assert_as_before(hiding);
        }
    }
}
