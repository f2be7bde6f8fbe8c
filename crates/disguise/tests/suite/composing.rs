//! Disguises over one another, and rows with several owners.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, KeptReason, Protection, Spec, Value};

use super::forum::*;
use super::member::Member;
use super::sample::Sample;

pub(crate) fn removal_over_an_anonymisation_comes_back_anonymous_and_then_in_full() {
    let mut forum = forum();
    let anon = forum.apply(ANON, None, false).unwrap();
    let anonymous = forum.everything();
    // Without the credential nothing of the placeholders is found.
    let bare = forum.apply(GDPR, Some(1), false).unwrap();
    assert_eq!(bare.rows.get("stories").copied().unwrap_or(0), 0);
    forum.reveal(1, bare.id);
    assert_eq!(forum.everything(), anonymous);
    let gdpr = forum.apply(GDPR, Some(1), true).unwrap();
    assert_eq!(gdpr.rows["stories"], 3);
    assert!(forum.reveal(1, gdpr.id).is_complete());
    assert_eq!(forum.everything(), anonymous);
    for user in 1..=USERS {
        assert!(forum.reveal(user, anon.id).is_complete());
    }
    forum.assert_as_before();
}

pub(crate) fn the_older_disguise_may_be_revealed_first() {
    let mut forum = forum();
    let anon = forum.apply(ANON, None, false).unwrap();
    let gdpr = forum.apply(GDPR, Some(1), true).unwrap();
    for user in 1..=USERS {
        forum.reveal(user, anon.id);
    }
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM users WHERE id = 1"),
        [0]
    );
    forum.reveal(1, gdpr.id);
    assert_eq!(forum.everything(), forum.before.clone());
    forum.assert_as_before();
}

pub(crate) fn chains_of_any_depth_unwind_in_any_order() {
    let mut sample = Sample::new();
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        if sample.passes_over() {
            continue;
        }
        let mut forum = forum();
        let ids = [ANON, GROUPED, ANON].map(|spec| forum.apply(spec, None, false).unwrap().id);
        for at in order {
            for user in 1..=USERS {
                let revealed = forum.reveal(user, ids[at]);
                assert!(revealed.is_complete(), "{order:?} {revealed:?}");
            }
        }
        forum.assert_as_before();
    }
}

pub(crate) fn values_overwritten_twice_come_back_in_any_order() {
    for order in [[0, 1], [1, 0]] {
        let mut forum = forum();
        let ids = [1, 2].map(|_| forum.apply(BLANK, Some(2), false).unwrap().id);
        forum.reveal(2, ids[order[0]]);
        assert!(
            forum
                .reveal(2, ids[order[1]])
                .values
                .contains_key("stories")
        );
        forum.assert_as_before();
    }
}

pub(crate) fn owners_of_shared_rows_leave_and_return_in_any_order() {
    for order in [[1, 2], [2, 1]] {
        let mut forum = forum();
        let mut ids = BTreeMap::new();
        for user in [1, 2] {
            ids.insert(
                user,
                forum.apply(GDPR_REMOVE, Some(user), false).unwrap().id,
            );
        }
        // Rows about user 1 that user 2 moderates belonged to both, and both are gone.
        assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations"), [9]);
        assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations WHERE user_id IN (1, 2) OR moderator_user_id IN (1, 2)"), [0]);
        for user in order {
            let revealed = forum.reveal(user, ids[&user]);
            let own = forum.numbers(&format!(
                "SELECT COUNT(*) FROM moderations WHERE user_id = {user}"
            ));
            assert_eq!(own, [3], "{order:?} {user} {revealed:?}");
        }
        // What user 2 shared about stories of user 1 had to wait for the stories.
        if order == [2, 1] {
            assert!(forum.reveal(2, ids[&2]).is_complete());
        }
        forum.assert_as_before();
    }
}

pub(crate) fn shared_rows_removed_for_everybody_come_back_owner_by_owner() {
    let mut forum = forum();
    let applied = forum.apply(REMOVE_ALL, None, false).unwrap();
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations"), [0]);
    forum.reveal(1, applied.id);
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM moderations"), [6]);
    assert_eq!(
        forum
            .numbers("SELECT COUNT(*) FROM moderations WHERE user_id = 1 OR moderator_user_id = 1"),
        [6]
    );
    for user in 2..=USERS {
        forum.reveal(user, applied.id);
    }
    forum.assert_as_before();
}

/// A number in the place of every story's flag.
fn flagged(number: i64) -> String {
    format!(
        r#"{{"stories": [{{"Modify": {{"pred": "True", "from": "", "col": "is_moderated", "gen_value": {{"ConstNum": {number}}}}}}}]}}"#
    )
}

/// The values seemed to say that the later disguise lay below the earlier one. What the application had written was
/// given to a record that could never be undone, and lost.
pub(crate) fn what_was_written_between_two_disguises_comes_back_although_the_later_puts_there_what_the_earlier_hid()
 {
    for order in [[0, 1], [1, 0]] {
        let mut forum = forum();
        let earlier = forum.apply(&flagged(5), Some(2), false).unwrap().id;
        forum.sql("UPDATE stories SET is_moderated = 7 WHERE id = 20");
        let later = forum.apply(&flagged(0), Some(2), false).unwrap().id;
        for at in order {
            forum.reveal(2, [earlier, later][at]);
        }
        let flags = forum.numbers("SELECT is_moderated FROM stories WHERE user_id = 2 ORDER BY id");
        assert_eq!(flags, [7, 0, 0], "{order:?}");
    }
}

/// Sets a shared row's action, with everything else left alone.
fn acted(action: &str) -> String {
    format!(
        r#"{{"moderations": [{{"Modify": {{"pred": "True", "from": "", "col": "action", "gen_value": {{"ConstStr": "{action}"}}}}}}]}}"#
    )
}

fn actions(forum: &mut Forum) -> Vec<Value> {
    let sql = "SELECT action FROM moderations WHERE user_id = 1 AND moderator_user_id = 2 OR user_id = 2 AND moderator_user_id = 1";
    let rows = forum.engine.database().query(sql, &[]).unwrap();
    rows.into_iter().flatten().collect()
}

/// The later disguise of another owner put there what the earlier had hidden. The first owner who
/// returned found their value in place, their record was dropped, and the second brought back what
/// the first disguise had put there, for good.
pub(crate) fn a_shared_value_that_another_owner_covers_with_itself_comes_back_in_any_order() {
    for order in [[1, 2], [2, 1]] {
        let mut forum = forum();
        assert!(!actions(&mut forum).is_empty());
        let ids = [
            forum.apply(&acted("hidden"), Some(1), false).unwrap().id,
            forum.apply(&acted("edit"), Some(2), false).unwrap().id,
        ];
        let of = |user: i64| ids[usize::try_from(user - 1).unwrap()];
        let first = forum.reveal(order[0], of(order[0]));
        assert_eq!(first.is_complete(), order[0] == 2, "{first:?}");
        let covered = first
            .kept
            .iter()
            .filter(|it| it.reason == KeptReason::Covered);
        assert_eq!(covered.count(), first.kept.len(), "{first:?}");
        assert!(forum.reveal(order[1], of(order[1])).is_complete());
        if order[0] == 1 {
            assert!(actions(&mut forum).contains(&Value::from("hidden")));
        }
        assert!(forum.reveal(order[0], of(order[0])).is_complete());
        forum.assert_as_before();
    }
}

/// The application put the value of a row back by itself: the row names nobody else, so that nothing
/// lies below, and nothing is left to do.
pub(crate) fn a_value_that_the_application_put_back_is_done_where_nobody_else_is_named() {
    let mut forum = forum();
    let before = forum.numbers("SELECT is_moderated FROM stories ORDER BY id");
    let id = forum.apply(&flagged(5), Some(2), false).unwrap().id;
    forum.sql("UPDATE stories SET is_moderated = 0 WHERE user_id = 2");
    assert!(forum.reveal(2, id).is_complete());
    let after = forum.numbers("SELECT is_moderated FROM stories ORDER BY id");
    assert_eq!(after, before);
}

/// Random numbers of disguises decided which of two of one moment was taken for the newer one, where
/// the second had put there what the first had hidden. Several tries make a wrong order show.
pub(crate) fn a_value_that_a_second_disguise_of_the_same_moment_restores_comes_back_in_any_order() {
    for order in [[0, 1], [1, 0]].into_iter().cycle().take(16) {
        let mut forum = forum();
        let time = time();
        let ids = [5, 0].map(|flag| {
            let spec = Spec::from_edna_json(&flagged(flag)).unwrap();
            let request = ApplyRequest {
                spec: &spec,
                user: Some(Value::Int(2)),
                over: None,
                parameters: BTreeMap::new(),
                expires: None,
                time,
            };
            forum.engine.apply(&request).unwrap().id
        });
        for at in order {
            assert!(forum.reveal(2, ids[at]).is_complete(), "{order:?}");
        }
        forum.assert_as_before();
    }
}

/// The rows decide which of two layers is the newer, and they may no longer have the column.
pub(crate) fn values_of_a_column_that_is_gone_stay_and_are_named() {
    let mut forum = forum();
    forum.apply(&flagged(5), Some(2), false).unwrap();
    forum.sql("UPDATE stories SET is_moderated = 7 WHERE id = 20");
    let later = forum.apply(&flagged(0), Some(2), false).unwrap().id;
    forum.sql("ALTER TABLE stories DROP COLUMN is_moderated");
    let revealed = forum.reveal(2, later);
    let reasons: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
    assert_eq!(reasons, [KeptReason::SchemaChanged; 3], "{revealed:?}");
}

/// Random names of records decided which of the two came back. Several tries make a wrong order
/// show.
pub(crate) fn of_two_removed_rows_with_one_key_the_last_comes_back() {
    const STORIES: &str = r#"{"stories": [{"Remove": {"pred": "True", "from": ""}}]}"#;
    for _ in 0..6 {
        let mut forum = forum();
        let first = forum.apply(STORIES, Some(1), false).unwrap().id;
        forum.sql("INSERT INTO stories VALUES (10, 1, 'again', 77)");
        assert_eq!(forum.reveal(1, first).kept.len(), 1);
        let second = forum.apply(STORIES, Some(1), false).unwrap().id;
        assert_eq!(forum.reveal(1, second).kept.len(), 1);
        let flags = forum.numbers("SELECT is_moderated FROM stories WHERE user_id = 1 ORDER BY id");
        assert_eq!(flags, [77, 0, 0]);
    }
}

const REVIEWS: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000 } }, name = { RandStr = { len = 12 } } }
[tables.reviews]
"#;
const WIPE: &str = "[[remove]]\ntable = \"reviews\"\n";

/// Dan stood behind a placeholder in a row that Ann took away, and left with the placeholder's account: when he revealed the first
/// disguise before the second, the placeholder was told to be gone for good, and Ann's row waited for it for ever. A placeholder
/// that rows need and whose account other records hold comes back with them.
pub(crate) fn the_order_in_which_one_returns_keeps_no_row_of_another() {
    let reads = "owners = [\"author\"]\nreaders = [\"editor\"]\n";
    let owns = "owners = [\"author\", \"editor\"]\non_leave = { author = \"remove\", editor = \"remove\" }\n";
    let anonymous = "[[decorrelate]]\ntable = \"reviews\"\nowners = [\"author\", \"editor\"]\n";
    for (people, first) in [(reads, WIPE), (owns, anonymous)] {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
            "CREATE TABLE reviews (id BIGINT PRIMARY KEY, author BIGINT NOT NULL REFERENCES people(id), editor BIGINT NOT NULL REFERENCES people(id))",
            "INSERT INTO people VALUES (1, 'Ann'), (4, 'Dan')",
            "INSERT INTO reviews VALUES (7, 1, 4)",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let head = format!("{REVIEWS}{people}");
        let mut dan = Member::called(Value::Int(4), database, &format!("{head}{first}"));
        let ann = Value::Int(1);
        let engine = &mut dan.engine;
        let key = engine
            .people()
            .register(&ann, Protection::KeyAlone, time())
            .unwrap();
        let tables = ["people", "reviews"];
        let before = dan.rows(tables);
        let older = dan.leave();
        let mut dan = dan.again(&format!("{head}{WIPE}"));
        let anns = dan.apply(Some(ann.clone())).unwrap();
        let leave = format!("{head}{WIPE}[[remove]]\ntable = \"people\"\n");
        let newer = dan.apply_over(&leave);
        for _ in 0..2 {
            dan.return_from(&older);
            dan.return_from(&newer);
            dan.returned(ann.clone(), &key.key, anns.id);
        }
        dan.return_from(&older);
        assert_eq!(dan.rows(tables), before);
        assert_eq!(dan.hidden_by(), 0);
    }
}
