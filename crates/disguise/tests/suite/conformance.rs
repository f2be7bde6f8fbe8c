//! Those of Edna's tests that no other claim covers; the table in docs/disguise-tests.md says which cover the others.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{Database as _, DisguiseId, Row, Update, Value};

use super::forum::*;

/// Edna's test 1.
pub(crate) fn an_engine_that_is_installed_leaves_the_application_alone() {
    let mut forum = forum();
    let before = forum.before.clone();
    let tables = forum.engine.database().catalog().unwrap();
    let (own, others): (Vec<&String>, Vec<&String>) =
        tables.keys().partition(|name| name.starts_with("probity_"));
    assert_eq!(
        others,
        ["moderations", "stories", "taggings", "tags", "users"]
    );
    assert!(!own.is_empty());
    forum.sql("INSERT INTO stories VALUES (99, 1, 'new', 0)");
    let joined = "SELECT COUNT(*) FROM stories JOIN users ON users.id = stories.user_id WHERE users.username = 'user1'";
    assert_eq!(forum.numbers(joined), [4]);
    forum.sql("UPDATE stories SET user_id = NULL WHERE id = 99");
    assert_eq!(forum.numbers(joined), [3]);
    let nobodys = "SELECT id FROM stories WHERE user_id IS NULL";
    assert_eq!(forum.numbers(nobodys), [99]);
    forum.sql("DELETE FROM stories WHERE id = 99");
    assert_eq!(forum.everything(), before);
    forum.assert_as_before();
}

/// Every row names placeholders alone, another in each place, and each of them is there with a name of its own.
fn assert_anonymous(forum: &mut Forum, stories: i64) {
    for (what, expected) in [
        ("stories", stories),
        ("stories WHERE user_id <= 4", 0),
        ("moderations", 12),
        (
            "moderations WHERE user_id <= 4 OR moderator_user_id <= 4",
            0,
        ),
        (
            "(SELECT user_id FROM moderations UNION SELECT moderator_user_id FROM moderations UNION SELECT user_id FROM stories) AS t JOIN users ON users.id = t.user_id WHERE length(username) = 30",
            24 + stories,
        ),
    ] {
        let count = forum.numbers(&format!("SELECT COUNT(*) FROM {what}"));
        assert_eq!(count, [expected], "{what}");
    }
}

/// Edna's tests 6, 9 and 10, with everybody over the same anonymisation.
pub(crate) fn everybody_leaves_over_an_anonymisation_and_returns_in_either_order() {
    for newer_first in [true, false] {
        let mut forum = forum();
        let anonymous = forum.apply(ANON, None, false).unwrap().id;
        assert_anonymous(&mut forum, 12);
        let gone: Vec<DisguiseId> = (1..=USERS)
            .map(|user| forum.apply(GDPR, Some(user), true).unwrap().id)
            .collect();
        assert_anonymous(&mut forum, 0);
        let accounts = "SELECT COUNT(*) FROM users WHERE id <= 4";
        assert_eq!(forum.numbers(accounts), [0]);
        if newer_first {
            for (user, id) in (1..=USERS).zip(&gone) {
                assert!(forum.reveal(user, *id).is_complete());
            }
            assert_anonymous(&mut forum, 12);
            assert_eq!(forum.numbers(accounts), [USERS]);
        }
        for user in 1..=USERS {
            let revealed = forum.reveal(user, anonymous);
            assert_eq!(revealed.is_complete(), newer_first, "{revealed:?}");
        }
        if !newer_first {
            assert_anonymous(&mut forum, 0);
            for (user, id) in (1..=USERS).zip(&gone) {
                let revealed = forum.reveal(user, *id);
                assert!(revealed.is_complete(), "{revealed:?}");
            }
        }
        forum.assert_as_before();
    }
}

/// Edna's test 12: whoever removes shared rows after an anonymisation, without a credential, finds none of them.
pub(crate) fn shared_rows_under_placeholders_are_not_found_without_the_credential() {
    let mut forum = forum();
    let anonymous = forum.apply(ANON, None, false).unwrap().id;
    let gone = forum.apply(GDPR_REMOVE, Some(1), false).unwrap();
    let account = "SELECT COUNT(*) FROM users WHERE id = 1";
    assert_eq!(forum.numbers(account), [0]);
    assert_eq!(gone.rows.get("moderations").copied().unwrap_or(0), 0);
    assert!(forum.reveal(1, gone.id).is_complete());
    assert_eq!(forum.numbers(account), [1]);
    assert_anonymous(&mut forum, 12);
    assert!(forum.reveal(1, anonymous).is_complete());
    for own in ["moderator_user_id", "user_id"] {
        let named = format!("SELECT COUNT(*) FROM moderations WHERE {own} = 1");
        assert_eq!(forum.numbers(&named), [3]);
        let others = format!("SELECT COUNT(*) FROM moderations WHERE {own} BETWEEN 2 AND 4");
        assert_eq!(forum.numbers(&others), [0]);
    }
    for user in 2..=USERS {
        assert!(forum.reveal(user, anonymous).is_complete());
    }
    forum.assert_as_before();
}

/// Edna's test 13: one person moderates everything and leaves first; the others leave, return, and find a placeholder in the
/// place of whoever is still away.
pub(crate) fn a_moderator_of_everything_leaves_first_and_returns_last() {
    let mut forum = forum();
    forum.sql("DELETE FROM moderations WHERE user_id = 4");
    forum.sql("UPDATE moderations SET moderator_user_id = 4");
    forum.before = forum.everything();
    let named = "SELECT COUNT(*) FROM moderations WHERE moderator_user_id = 4";
    let replaced = "SELECT COUNT(DISTINCT moderator_user_id) FROM moderations JOIN users ON users.id = moderator_user_id WHERE users.id > 4";
    let moderator = forum.apply(GDPR_REMOVE, Some(4), false).unwrap().id;
    assert_eq!(forum.numbers(named), [0]);
    assert_eq!(forum.numbers(replaced), [9]);
    let mut gone = BTreeMap::new();
    for user in 1..=3 {
        let id = forum.apply(GDPR_REMOVE, Some(user), false).unwrap().id;
        gone.insert(user, id);
        assert_eq!(forum.numbers(replaced), [9 - 3 * user]);
    }
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations"), [0]);
    for user in 1..=3 {
        let revealed = forum.reveal(user, gone[&user]);
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(forum.numbers(replaced), [3 * user]);
    }
    assert_eq!(forum.numbers(named), [0]);
    let revealed = forum.reveal(4, moderator);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(forum.numbers(named), [9]);
    forum.assert_as_before();
}

/// Writes an o for every u, wherever there is text.
struct Letters;

impl Update for Letters {
    fn name(&self) -> &'static str {
        "letters"
    }

    fn rows(&self, mut row: Row) -> Result<Vec<Row>, String> {
        for (_, value) in &mut row.columns {
            if let Value::Text(text) = value {
                *text = text.replace('u', "o");
            }
        }
        Ok(vec![row])
    }
}

/// Edna's test 15: texts rewritten everywhere while they are disguised, through composition, in either order.
pub(crate) fn texts_rewritten_while_they_are_disguised_come_back_rewritten() {
    for newer_first in [true, false] {
        let mut forum = forum();
        let anonymous = forum.apply(ANON, None, false).unwrap().id;
        let gone: Vec<DisguiseId> = (1..=USERS)
            .map(|user| forum.apply(GDPR, Some(user), true).unwrap().id)
            .collect();
        for (table, column) in [("users", "username"), ("stories", "url")] {
            forum.sql(&format!(
                "UPDATE {table} SET {column} = replace({column}, 'u', 'o')"
            ));
        }
        forum.engine.options().set_update(Box::new(Letters));
        forum
            .engine
            .updates()
            .record_code("letters", time())
            .unwrap();
        if !newer_first {
            for user in 1..=USERS {
                forum.reveal(user, anonymous);
            }
        }
        for (user, id) in (1..=USERS).zip(&gone) {
            let revealed = forum.reveal(user, *id);
            assert!(revealed.is_complete(), "{revealed:?}");
        }
        if newer_first {
            for user in 1..=USERS {
                assert!(forum.reveal(user, anonymous).is_complete());
            }
        }
        for (what, expected) in [
            ("users", USERS),
            ("users WHERE id <= 4 AND username LIKE 'oser%'", USERS),
            (
                "stories WHERE url LIKE 'orl%' AND id - 10 * user_id BETWEEN 0 AND 2",
                12,
            ),
            (
                "moderations WHERE action = 'edit' AND user_id <= 4 AND moderator_user_id <= 4",
                12,
            ),
            ("probity_bags", 0),
            ("probity_principals", USERS),
        ] {
            let count = forum.numbers(&format!("SELECT COUNT(*) FROM {what}"));
            assert_eq!(count, [expected], "{what}");
        }
    }
}
