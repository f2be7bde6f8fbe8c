//! People who refer to people: invitations and managers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use super::sample::Sample;
use super::society::{Society, description};

fn inviting(how: &str) -> String {
    description(&format!(
        "[tables.people]\non_leave = {{ invited_by = \"{how}\" }}"
    ))
}

/// Actions of the database on whoever refers to a row that goes.
const ACTIONS: [&str; 3] = ["", "ON DELETE SET NULL", "ON DELETE CASCADE"];

/// Four people: 1 and 2 invited each other, 1 invited 3, and 4 themselves.
fn invited(action: &str) -> Vec<String> {
    [
        &format!(
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT REFERENCES people(id) {action})"
        ),
        "INSERT INTO people VALUES (1, 'one', NULL)",
        "INSERT INTO people VALUES (2, 'two', 1), (3, 'three', 1), (4, 'four', 4)",
        "UPDATE people SET invited_by = 2 WHERE id = 1",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// D6: nobody whom others refer to could leave, and nothing could be said about it.
pub(crate) fn whoever_is_referred_to_leaves_and_returns() {
    for action in ACTIONS {
        for how in ["null", "placeholder"] {
            for chunk in [None, Some(1)] {
                let what = format!("{action} {how} {chunk:?}");
                let mut society = Society::of(&invited(action), &inviting(how), &[1, 2, 3, 4]);
                for user in [1, 4, 1] {
                    let gone = society.try_to_leave(Some(user), false, chunk).unwrap();
                    let there =
                        society.numbers(&format!("SELECT id FROM people WHERE id = {user}"));
                    assert!(there.is_empty(), "{what}");
                    let named = format!("SELECT id FROM people WHERE invited_by = {user}");
                    assert!(society.numbers(&named).is_empty(), "{what}");
                    let empty = society
                        .numbers("SELECT id FROM people WHERE invited_by IS NULL AND id < 5");
                    let expected: &[i64] = if how == "null" && user == 1 {
                        &[2, 3]
                    } else {
                        &[]
                    };
                    assert_eq!(empty, expected, "{what}");
                    let revealed = society.reveal(user, gone.id);
                    assert!(revealed.is_complete(), "{what} {revealed:?}");
                    society.assert_as_before(&what);
                }
            }
        }
    }
}

/// A value that the application wrote meanwhile wins, and the rest comes back.
pub(crate) fn a_reference_that_changed_meanwhile_stays_as_it_is() {
    for how in ["null", "placeholder"] {
        let mut society = Society::of(&invited(""), &inviting(how), &[1, 2, 3, 4]);
        let gone = society.leave(1);
        society.sql("UPDATE people SET invited_by = 4 WHERE id = 3");
        let revealed = society.reveal(1, gone);
        assert_eq!(revealed.kept.len(), 1, "{revealed:?}");
        let now = "SELECT invited_by FROM people ORDER BY id";
        assert_eq!(society.numbers(now), [2, 1, 4, 4], "{how}");
    }
}

/// Nothing is lost or doubled, and everybody is registered, whoever comes back first.
pub(crate) fn two_who_refer_to_each_other_leave_and_return_in_either_order() {
    let mut sample = Sample::new();
    for action in ACTIONS {
        for how in ["null", "placeholder"] {
            for (leaving, returning) in [([1, 2], [1, 2]), ([1, 2], [2, 1]), ([2, 1], [2, 1])] {
                if sample.passes_over() {
                    continue;
                }
                let what = format!("{action} {how} {leaving:?} {returning:?}");
                let mut society = Society::of(&invited(action), &inviting(how), &[1, 2, 3, 4]);
                for _ in 0..2 {
                    let gone = leaving.map(|user| (user, society.leave(user)));
                    let gone = BTreeMap::from(gone);
                    for user in returning {
                        society.reveal(user, gone[&user]);
                        let there = format!("SELECT COUNT(*) FROM people WHERE id = {user}");
                        assert_eq!(society.numbers(&there), [1], "{what}");
                    }
                    society.try_again(&gone);
                    society.assert_as_before(&what);
                }
            }
        }
    }
}

pub(crate) fn everybody_who_refers_to_each_other_leaves_and_returns_in_any_order() {
    let mut sample = Sample::new();
    for action in ACTIONS {
        for how in ["null", "placeholder"] {
            for chunk in [None, Some(1), Some(3)] {
                for order in [[1, 2, 3, 4], [4, 3, 2, 1]] {
                    if sample.passes_over() {
                        continue;
                    }
                    let what = format!("{action} {how} {chunk:?} {order:?}");
                    let mut society = Society::of(&invited(action), &inviting(how), &[1, 2, 3, 4]);
                    let gone = society.try_to_leave(None, false, chunk).unwrap().id;
                    assert_eq!(
                        society.numbers("SELECT COUNT(*) FROM people"),
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
}

/// Some of everybody leave, and whoever stays refers to them.
pub(crate) fn of_everybody_who_stays_refers_to_whoever_leaves() {
    for action in ACTIONS {
        for how in ["null", "placeholder"] {
            for chunk in [None, Some(1)] {
                let what = format!("{action} {how} {chunk:?}");
                let some = format!("{}where = \"people.id < 3\"\n", inviting(how));
                let mut society = Society::of(&invited(action), &some, &[1, 2, 3, 4]);
                let gone = society.try_to_leave(None, false, chunk).unwrap().id;
                let stay = "SELECT id FROM people WHERE id < 5 ORDER BY id";
                assert_eq!(society.numbers(stay), [3, 4], "{what}");
                for user in [1, 2] {
                    society.reveal(user, gone);
                }
                society.try_again(&BTreeMap::from([(1, gone), (2, gone)]));
                society.assert_as_before(&what);
            }
        }
    }
}

/// The boss of everybody is a boss to themselves, and the column may not be NULL.
pub(crate) fn a_reference_that_may_not_be_null_gets_a_placeholder() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), boss BIGINT NOT NULL REFERENCES people(id))",
        "INSERT INTO people VALUES (1, 'one', 1)",
        "INSERT INTO people VALUES (2, 'two', 1), (3, 'three', 2)",
    ]
    .map(str::to_owned);
    let description = description("[tables.people]\non_leave = { boss = \"placeholder\" }")
        .replace("id = { RandNum", "boss = { ConstNum = 3 }, id = { RandNum");
    for returning in [[1, 2], [2, 1]] {
        let mut society = Society::of(&statements, &description, &[1, 2, 3]);
        let gone = BTreeMap::from([1, 2].map(|user| (user, society.leave(user))));
        for user in returning {
            society.reveal(user, gone[&user]);
        }
        society.try_again(&gone);
        society.assert_as_before(&format!("{returning:?}"));
    }
}

/// A column of another table than that of the users, of which no transformation speaks.
pub(crate) fn references_of_other_tables_are_let_go_of_without_a_transformation() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), approved_by BIGINT REFERENCES people(id), held_by BIGINT REFERENCES people(id))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO notes VALUES (10, 1, 2, 2), (20, 2, 1, 1), (21, 2, 2, NULL), (22, 2, 1, 2)",
    ]
    .map(str::to_owned);
    let said = "[tables.notes]\non_leave = { approved_by = \"null\", held_by = \"placeholder\" }\n[[remove]]\ntable = \"notes\"";
    for description in [
        description(said),
        description(&said.replace("[[remove]]", "[[remove]]\nwhere = \"notes.author < 3\"")),
    ] {
        for returning in [[1, 2], [2, 1]] {
            let mut society = Society::of(&statements, &description, &[1, 2]);
            let gone = society.leave(1);
            let approved = "SELECT approved_by FROM notes ORDER BY id";
            assert_eq!(society.numbers(approved), [-1, 2, -1]);
            let gone = BTreeMap::from([(1, gone), (2, society.leave(2))]);
            assert_eq!(society.numbers("SELECT COUNT(*) FROM notes"), [0]);
            for user in returning {
                society.reveal(user, gone[&user]);
            }
            society.try_again(&gone);
            society.assert_as_before(&format!("{returning:?}"));
        }
    }
}

/// Ids are those of other people in another tenant, where nobody leaves.
pub(crate) fn references_of_other_tenants_are_left_alone() {
    let statements = [
        "CREATE TABLE people (org_id BIGINT NOT NULL, id BIGINT NOT NULL, name VARCHAR(20), invited_by BIGINT, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, invited_by) REFERENCES people (org_id, id))",
        "CREATE TABLE follows (org_id BIGINT NOT NULL, follower BIGINT NOT NULL, followee BIGINT NOT NULL, PRIMARY KEY (org_id, follower, followee), FOREIGN KEY (org_id, follower) REFERENCES people (org_id, id), FOREIGN KEY (org_id, followee) REFERENCES people (org_id, id))",
        "INSERT INTO people VALUES (7, 1, 'one', 1), (8, 1, 'other', 1)",
        "INSERT INTO people VALUES (7, 2, 'two', 1), (8, 2, 'other', 1)",
        "UPDATE people SET invited_by = 2 WHERE id = 1",
        "INSERT INTO follows VALUES (7, 1, 2), (8, 1, 2), (7, 2, 1), (8, 2, 1)",
    ]
    .map(str::to_owned);
    for how in ["null", "placeholder"] {
        for chunk in [None, Some(1)] {
            let said = format!(
                "[tables.people]\non_leave = {{ invited_by = \"{how}\" }}\n[tables.follows]\non_leave = {{ follower = \"remove\", followee = \"remove\" }}"
            );
            let description = format!("tenant = \"org_id\"\n{}", description(&said));
            let mut society = Society::of_tenant(7, &statements, &description, &[1, 2]);
            let gone = society.try_to_leave(Some(1), false, chunk).unwrap().id;
            for (table, expected) in [
                ("people WHERE org_id = 8 AND invited_by < 3", 2),
                ("follows WHERE org_id = 8", 2),
                ("follows", 2),
                ("people WHERE org_id = 7 AND invited_by < 3", 0),
            ] {
                let count = society.numbers(&format!("SELECT COUNT(*) FROM {table}"));
                assert_eq!(count, [expected], "{how} {table}");
            }
            let revealed = society.reveal(1, gone);
            assert!(revealed.is_complete(), "{revealed:?}");
            society.assert_as_before(how);
        }
    }
}
