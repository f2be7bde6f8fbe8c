//! Rows that a disguise chooses and changes, and conditions that keep it from being applied.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeSet;

use probity_disguise::{Credential, Error, Value};

use super::forum::*;

pub(crate) fn removal_takes_user_and_stories_and_keeps_moderations_under_placeholders() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    assert_eq!(applied.pseudoprincipals, 6);
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM users WHERE id = 1"),
        [0]
    );
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 1"),
        [0]
    );
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations"), [12]);
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM users WHERE id >= 1000000 AND length(username) = 30"),
        [6]
    );
    let revealed = forum.reveal(1, applied.id);
    // The moderations of the removed stories could not be checked against the stories, which came back first.
    assert!(revealed.is_complete(), "{revealed:?}");
    forum.assert_as_before();
    // A lost answer is asked for again.
    let again = forum.reveal(1, applied.id);
    assert!(again.is_complete() && !again.found && again.restored.is_empty());
}

pub(crate) fn anonymising_everybody_gives_each_row_and_column_its_own_placeholder() {
    let mut forum = forum();
    let applied = forum.apply(ANON, None, false).unwrap();
    assert_eq!(applied.pseudoprincipals, 12 + 24);
    assert_eq!(
        forum.numbers("SELECT COUNT(DISTINCT user_id) FROM stories WHERE user_id >= 1000000"),
        [12]
    );
    assert_eq!(
        forum.numbers(
            "SELECT COUNT(DISTINCT it) FROM (SELECT user_id AS it FROM moderations UNION ALL SELECT moderator_user_id FROM moderations) AS t"
        ),
        [24]
    );
    assert_eq!(
        forum
            .engine
            .speaks_for(&Value::Int(2), &Credential::Key(&forum.keys[&2]), time())
            .unwrap()
            .len(),
        9
    );
    for user in 1..=USERS {
        let story = forum.numbers(&format!(
            "SELECT user_id FROM stories WHERE id = {}",
            user * 10
        ));
        forum.sql(&format!(
            "INSERT INTO stories VALUES ({}, {}, 'new', 0)",
            500 + user,
            story[0]
        ));
        assert!(forum.reveal(user, applied.id).is_complete());
        assert_eq!(
            forum.numbers(&format!(
                "SELECT user_id FROM stories WHERE id = {}",
                500 + user
            )),
            [user]
        );
    }
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM users"), [USERS]);
    forum.sql("DELETE FROM stories WHERE id > 500");
    forum.assert_as_before();
}

pub(crate) fn rows_of_one_owner_and_group_share_a_placeholder() {
    let mut forum = forum();
    let applied = forum.apply(GROUPED, None, false).unwrap();
    assert_eq!(applied.pseudoprincipals, 8);
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM (SELECT DISTINCT user_id, url FROM stories) AS t"),
        [8]
    );
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id < 1000000"),
        [0]
    );
}

pub(crate) fn a_join_chooses_rows_and_nothing_else() {
    let mut forum = forum();
    let applied = forum.apply(HOBBY, Some(3), false).unwrap();
    assert_eq!(applied.rows["stories"], 2);
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 3"),
        [1]
    );
    assert!(forum.reveal(3, applied.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn wrong_specifications_change_nothing_and_name_their_place() {
    let mut forum = forum();
    let remove = |table: &str, pred: &str| {
        format!(r#"{{"{table}": [{{"Remove": {{"pred": "{pred}", "from": ""}}}}]}}"#)
    };
    let cases = [
        (
            remove("nothing", "True"),
            "line 1, table nothing, entry 1: table nothing is not in the database",
        ),
        (
            remove("stories", "missing = 1"),
            "line 1, table stories, entry 1: there is no column missing",
        ),
        (
            remove("stories", "id = 1; DROP TABLE users"),
            "line 1, table stories, entry 1: ; is left over",
        ),
        (
            remove("tags", "True"),
            "line 1, table tags, entry 1: table tags has no owner column, so a user's rows are unknown",
        ),
        (
            remove("users", "True"),
            "line 1, table users, entry 1: removing rows of users would orphan foreign key moderations(moderator_user_id), and moderations is not in the specification",
        ),
    ];
    for (spec, message) in cases {
        match forum.apply(&spec, Some(1), false) {
            Err(Error::Spec(error)) => assert_eq!(error.to_string(), message),
            other => panic!("{spec} gave {other:?}"),
        }
    }
    // However the condition is written, it stays inside its brackets.
    let applied = forum
        .apply(&remove("stories", "id = 10 OR 1=1"), Some(1), false)
        .unwrap();
    assert_eq!(applied.rows["stories"], 3);
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn users_without_a_key_are_refused_before_anything_changes() {
    let mut forum = forum();
    forum.sql("INSERT INTO users VALUES (70, 'late', 0)");
    forum.sql("INSERT INTO stories VALUES (700, 70, 'u', 0)");
    let before = forum.everything();
    assert!(matches!(
        forum.apply(ANON, None, false),
        Err(Error::Unregistered { rows: 1, .. })
    ));
    assert!(matches!(
        forum.apply(BLANK, None, false),
        Err(Error::Unregistered { rows: 1, .. })
    ));
    assert!(matches!(
        forum.apply(GDPR, Some(70), false),
        Err(Error::NotRegistered { .. })
    ));
    assert_eq!(forum.everything(), before);
}

pub(crate) fn every_kind_of_value_comes_back_bit_by_bit() {
    let mut forum = forum();
    for sql in super::super::kinds() {
        forum.sql(sql);
    }
    let before = forum.engine.preview().rows("kinds").unwrap();
    assert!(before.len() > 2);
    let spec = r#"{"kinds": [{"Remove": {"pred": "True", "from": ""}}]}"#;
    let applied = forum.apply(spec, Some(1), false).unwrap();
    assert!(forum.engine.preview().rows("kinds").unwrap().is_empty());
    assert!(forum.reveal(1, applied.id).is_complete());
    let name = |rows: Vec<Vec<Value>>| -> BTreeSet<String> {
        rows.iter().map(|row| format!("{row:?}")).collect()
    };
    assert_eq!(
        name(forum.engine.preview().rows("kinds").unwrap()),
        name(before)
    );
}
