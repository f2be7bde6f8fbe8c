//! Reveals: rows that come back, rows that stay, and rows that are gone for good.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeSet;

use probity_disguise::{
    ApplyRequest, Credential, Error, Kept, KeptReason, References, RevealRequest, Rows, SecretKey,
    Spec, Value,
};
use probity_format::Timestamp;

use super::forum::*;

pub(crate) fn the_application_wins_and_a_retry_finds_what_is_left() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    forum.sql("INSERT INTO users VALUES (55, 'user1', 1)");
    let refused = forum.reveal(1, applied.id);
    let reasons: BTreeSet<&str> = refused
        .kept
        .iter()
        .map(|kept| kept.reason.as_str())
        .collect();
    assert!(
        refused
            .kept
            .iter()
            .any(|it: &Kept| it.reason == KeptReason::Refused)
    );
    assert!(
        refused
            .kept
            .iter()
            .any(|it| it.reason == KeptReason::OwnerMissing),
        "{reasons:?}"
    );
    assert_eq!(
        forum.numbers("SELECT karma FROM users WHERE username = 'user1'"),
        [1]
    );
    forum.sql("DELETE FROM users WHERE id = 55");
    let revealed = forum.reveal(1, applied.id);
    assert!(revealed.is_complete(), "{revealed:?}");
    forum.assert_as_before();
}

pub(crate) fn a_changed_value_stays_and_the_rest_of_the_row_follows_the_choice() {
    let mut forum = forum();
    let spec = r#"{"stories": [
      {"Modify": {"pred": "True", "from": "", "col": "url", "gen_value": {"ConstStr": "x"}}},
      {"Modify": {"pred": "True", "from": "", "col": "is_moderated", "gen_value": {"ConstNum": 1}}}]}"#;
    let applied = forum.apply(spec, Some(1), false).unwrap();
    forum.sql("UPDATE stories SET url = 'mine' WHERE id = 10");
    let request = |forum: &Forum, rows| RevealRequest {
        user: Value::Int(1),
        credential: Credential::Key(Box::leak(Box::new(SecretKey::from_bytes(
            *forum.keys[&1].expose(),
        )))),
        id: applied.id,
        references: References::Recorrelate,
        rows,
        time: time(),
    };
    let whole = request(&forum, Rows::Whole);
    let revealed = forum.engine.reveal(&whole).unwrap();
    assert_eq!(revealed.kept.len(), 2);
    assert_eq!(
        forum.numbers("SELECT is_moderated FROM stories WHERE user_id = 1 ORDER BY id"),
        [1, 0, 0]
    );
    let columns = request(&forum, Rows::PerColumn);
    let revealed = forum.engine.reveal(&columns).unwrap();
    assert_eq!(revealed.kept.len(), 1);
    assert_eq!(revealed.kept[0].reason, KeptReason::Changed);
    assert_eq!(
        forum.numbers("SELECT is_moderated FROM stories WHERE user_id = 1 ORDER BY id"),
        [0, 0, 0]
    );
}

pub(crate) fn rows_made_meanwhile_follow_the_policy() {
    for (references, stories, placeholders) in [
        (References::Recorrelate, 4, 0),
        (References::Delete, 3, 0),
        (References::Retain, 3, 1),
    ] {
        let mut forum = forum();
        let applied = forum.apply(ANON, None, false).unwrap();
        let pseudo = forum.numbers("SELECT user_id FROM stories WHERE id = 10")[0];
        forum.sql(&format!(
            "INSERT INTO stories VALUES (99, {pseudo}, 'new', 0)"
        ));
        let mut retained = 0;
        for user in 1..=USERS {
            let revealed = forum.reveal_as(user, applied.id, references).unwrap();
            retained += revealed.retained.get("stories").copied().unwrap_or(0);
        }
        assert_eq!(retained, u64::try_from(placeholders).unwrap());
        assert_eq!(
            forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 1"),
            [stories]
        );
        assert_eq!(
            forum.numbers("SELECT COUNT(*) FROM users WHERE id > 1000000"),
            [placeholders]
        );
        let spoken = forum
            .engine
            .speaks_for(&Value::Int(1), &Credential::Key(&forum.keys[&1]), time())
            .unwrap();
        assert_eq!(spoken.len(), usize::try_from(placeholders).unwrap());
    }
}

pub(crate) fn only_the_right_credential_opens_anything() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let disguised = forum.everything();
    let stranger = SecretKey::generate().unwrap();
    for credential in [
        Credential::Key(&stranger),
        Credential::Password("secret word"),
        Credential::Password(""),
    ] {
        let outcome = forum.engine.reveal(&RevealRequest {
            user: Value::Int(1),
            credential,
            id: applied.id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        });
        assert!(matches!(
            outcome,
            Err(Error::NoSuchDisguise | Error::WrongCredential)
        ));
    }
    let of_another = forum.reveal_as(2, applied.id, References::Recorrelate);
    assert!(did_nothing(&of_another), "{of_another:?}");
    assert_eq!(forum.everything(), disguised);
    let outcome = forum.engine.reveal(&RevealRequest {
        user: Value::Int(1),
        credential: Credential::Password("secret words"),
        id: applied.id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time: time(),
    });
    assert!(outcome.unwrap().is_complete());
    forum.assert_as_before();
}

pub(crate) fn what_is_forgotten_never_comes_back() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let listed = forum
        .engine
        .list(&Value::Int(1), &Credential::Key(&key), time())
        .unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, applied.id);
    assert!(!listed[0].pending);
    forum
        .engine
        .forget(&Value::Int(1), &Credential::Key(&key), applied.id, time())
        .unwrap();
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM probity_bags"), [0]);
    // The account went with the records, so that nothing is left that tells whose the key was.
    assert!(matches!(
        forum.reveal_as(1, applied.id, References::Recorrelate),
        Err(Error::WrongCredential)
    ));
}

pub(crate) fn forgetting_one_disguise_leaves_the_way_to_another() {
    let mut forum = forum();
    let anon = forum.apply(ANON, None, false).unwrap();
    let gdpr = forum.apply(GDPR, Some(1), true).unwrap();
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    forum
        .engine
        .forget(&Value::Int(1), &Credential::Key(&key), anon.id, time())
        .unwrap();
    assert!(forum.reveal(1, gdpr.id).is_complete());
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 1"),
        [0]
    );
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM stories"), [12]);
}

pub(crate) fn a_cut_at_any_statement_changes_nothing() {
    let mut forum = forum();
    forum.apply(ANON, None, false).unwrap();
    let anonymous = forum.everything();
    let mut cuts: u64 = 0;
    let applied = loop {
        forum.left.set(cuts);
        let outcome = forum.apply(GDPR_REMOVE, Some(1), true);
        forum.left.set(u64::MAX);
        match outcome {
            Ok(applied) => break applied,
            Err(error) => assert!(
                matches!(error, Error::Database { .. } | Error::Unsettled(_)),
                "{error:?}"
            ),
        }
        assert_eq!(forum.everything(), anonymous, "cut {cuts}");
        cuts += 1;
    };
    let disguised = forum.everything();
    let mut more: u64 = 0;
    loop {
        forum.left.set(more);
        let outcome = forum.reveal_as(1, applied.id, References::Recorrelate);
        forum.left.set(u64::MAX);
        match outcome {
            Ok(revealed) => break assert!(revealed.is_complete()),
            Err(error) => assert!(
                matches!(error, Error::Database { .. } | Error::Unsettled(_)),
                "{error:?}"
            ),
        }
        assert_eq!(forum.everything(), disguised, "cut {more}");
        more += 1;
    }
    assert_eq!(forum.everything(), anonymous);
    assert!(cuts > 20 && more > 20, "{cuts} {more}");
}

/// Every order of three.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

pub(crate) fn values_come_back_in_any_order_although_the_clock_was_put_back() {
    let spec = Spec::from_edna_json(BLANK).unwrap();
    for order in ORDERS {
        let mut forum = forum();
        let ids = [3, 2, 1].map(|seconds| {
            let time = Timestamp::from_nanoseconds(seconds * 1_000_000_000).unwrap();
            let request = ApplyRequest {
                spec: &spec,
                user: Some(Value::Int(1)),
                over: None,
                parameters: [].into(),
                expires: None,
                time,
            };
            forum.engine.apply(&request).unwrap().id
        });
        for at in order {
            assert!(forum.reveal(1, ids[at]).is_complete(), "{order:?}");
        }
        forum.assert_as_before();
    }
}

pub(crate) fn values_come_back_in_any_order_from_under_a_chunk_that_was_begun_before() {
    let spec = Spec::from_edna_json(BLANK).unwrap();
    for is_first in [false, true] {
        let mut forum = forum();
        let everybody = ApplyRequest {
            spec: &spec,
            user: None,
            over: None,
            parameters: [].into(),
            expires: None,
            time: time(),
        };
        let begun = forum.engine.chunks().begin(&everybody).unwrap();
        let between = forum.apply(BLANK, Some(1), false).unwrap().id;
        forum.engine.chunks().finish(begun, 2, time).unwrap();
        let both = if is_first {
            [begun, between]
        } else {
            [between, begun]
        };
        for id in both {
            assert!(forum.reveal(1, id).is_complete(), "{is_first}");
        }
        for user in 2..=USERS {
            assert!(forum.reveal(user, begun).is_complete());
        }
        forum.assert_as_before();
    }
}
