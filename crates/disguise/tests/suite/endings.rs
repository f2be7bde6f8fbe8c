//! Grace periods, and disguises that end.

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Credential, DisguiseId, Error, Holding, References, RevealRequest,
    Rows, SecretKey, Spec, Value,
};
use probity_format::Timestamp;

use super::forum::*;

const DAY: i64 = 86_400_000_000_000;

pub(super) fn later(days: i64) -> Timestamp {
    Timestamp::from_nanoseconds(time().nanoseconds() + days * DAY).unwrap()
}

fn request(spec: &Spec, user: Option<i64>, expires: Option<Timestamp>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user: user.map(Value::Int),
        over: None,
        parameters: BTreeMap::new(),
        expires,
        time: time(),
    }
}

fn apply_until(forum: &mut Forum, spec: &str, user: Option<i64>, days: i64) -> DisguiseId {
    let spec = Spec::from_edna_json(spec).unwrap();
    let request = request(&spec, user, Some(later(days)));
    forum.engine.apply(&request).unwrap().id
}

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    }
}

/// Returns the numbers of rows of the engine's tables that hold records.
fn records(forum: &mut Forum) -> [i64; 3] {
    ["bags", "locators", "deadlines"]
        .map(|table| forum.numbers(&format!("SELECT COUNT(*) FROM probity_{table}"))[0])
}

fn reveal_at(forum: &mut Forum, user: i64, id: DisguiseId, time: Timestamp) -> Result<bool, Error> {
    let key = SecretKey::from_bytes(*forum.keys[&user].expose());
    let revealed = forum.engine.reveal(&RevealRequest {
        user: Value::Int(user),
        credential: Credential::Key(&key),
        id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time,
    })?;
    Ok(revealed.is_complete())
}

pub(crate) fn what_ends_can_be_revealed_before_and_is_destroyed_after() {
    let mut forum = forum();
    let first = apply_until(&mut forum, GDPR, Some(1), 30);
    let listed = forum
        .engine
        .list(&Value::Int(1), &Credential::Key(&forum.keys[&1]), time())
        .unwrap();
    let end = listed[0].expires.unwrap();
    assert!(end >= later(29) && end <= later(31), "{end:?}");
    assert_eq!(forum.engine.schedule().sweep(later(29)).unwrap().records, 0);
    assert!(forum.reveal(1, first).is_complete());
    forum.assert_as_before();
    assert_eq!(records(&mut forum), [0; 3]);
    let second = apply_until(&mut forum, GDPR, Some(1), 30);
    let kept = forum.apply(GDPR, Some(2), false).unwrap();
    let hidden = forum.everything();
    // Over, and not swept yet.
    let outcome = reveal_at(&mut forum, 1, second, later(31));
    assert!(matches!(outcome, Err(Error::Ended)), "{outcome:?}");
    let swept = forum.engine.schedule().sweep(later(31)).unwrap();
    assert!(swept.records >= 2, "{swept:?}");
    assert_eq!(forum.engine.schedule().sweep(later(31)).unwrap().records, 0);
    // Nothing is left that tells whose the key was.
    let outcome = reveal_at(&mut forum, 1, second, later(31));
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let credential = Credential::Key(&forum.keys[&1]);
    let spoken = forum.engine.speaks_for(&Value::Int(1), &credential, time());
    assert!(matches!(spoken, Err(Error::WrongCredential)));
    // A password says by itself whose it is.
    let credential = Credential::Password("secret words");
    let spoken = forum.engine.speaks_for(&Value::Int(1), &credential, time());
    assert!(spoken.unwrap().is_empty());
    assert_eq!(forum.everything(), hidden);
    // What has no end stays.
    assert!(reveal_at(&mut forum, 2, kept.id, later(10_000)).unwrap());
    assert_eq!(records(&mut forum), [0; 3]);
}

pub(crate) fn what_is_hidden_behind_placeholders_ends_with_them_and_nothing_unreadable_stays() {
    let mut forum = forum();
    let inner = apply_until(&mut forum, ANON, None, 30);
    // Without an end of its own, but the records lie behind placeholders that end.
    let outer = forum.apply(GROUPED, None, false).unwrap();
    forum.engine.schedule().sweep(later(31)).unwrap();
    assert_eq!(records(&mut forum), [0; 3]);
    for user in 1..=USERS {
        for id in [inner, outer.id] {
            let before = forum.everything();
            assert!(reveal_at(&mut forum, user, id, later(31)).unwrap());
            assert_eq!(forum.everything(), before);
        }
    }
    // A later disguise of everybody still works, and leaves nothing that nobody could open.
    forum.apply(GROUPED, None, false).unwrap();
    forum.engine.schedule().sweep(later(32)).unwrap();
    assert_eq!(records(&mut forum), [0; 3]);
}

pub(crate) fn a_new_key_and_a_reveal_in_part_keep_the_end() {
    let mut forum = forum();
    let id = apply_until(&mut forum, GDPR, Some(1), 30);
    let old = SecretKey::from_bytes(*forum.keys[&1].expose());
    let protection = probity_disguise::Protection::KeyAlone;
    let made = forum.engine.people().change_key(
        &Value::Int(1),
        &Credential::Key(&old),
        protection,
        time(),
    );
    forum.keys.insert(1, made.unwrap().key);
    forum.sql("INSERT INTO users VALUES (55, 'user1', 1)");
    assert!(!forum.reveal(1, id).is_complete());
    let [bags, locators, deadlines] = records(&mut forum);
    assert!(bags > 0 && deadlines == bags + locators);
    forum.engine.schedule().sweep(later(31)).unwrap();
    assert_eq!(records(&mut forum), [0; 3]);
}

pub(crate) fn a_sweep_cut_at_any_statement_is_finished_by_the_next() {
    for cut in (0..).step_by(crate::CUTS) {
        let mut forum = forum();
        let id = apply_until(&mut forum, GDPR, Some(1), 30);
        let kept = forum.apply(GDPR, Some(2), false).unwrap();
        forum.left.set(cut);
        let outcome = forum.engine.schedule().sweep(later(31));
        forum.left.set(u64::MAX);
        let done = outcome.is_ok();
        forum.engine.schedule().sweep(later(31)).unwrap();
        let outcome = reveal_at(&mut forum, 1, id, later(31));
        assert!(matches!(outcome, Err(Error::WrongCredential)), "{cut}");
        assert!(forum.reveal(2, kept.id).is_complete());
        assert_eq!(records(&mut forum), [0; 3]);
        if done {
            break;
        }
    }
}

pub(crate) fn a_hold_on_a_person_or_a_disguise_keeps_records_from_ending() {
    for by_person in [true, false] {
        let mut forum = forum();
        let id = apply_until(&mut forum, GDPR, Some(1), 30);
        let user = Value::Int(1);
        let what = if by_person {
            Holding::Away(&user)
        } else {
            Holding::Disguise(id)
        };
        let hold = forum.engine.holds().place(what, &authority()).unwrap();
        let before = records(&mut forum);
        let swept = forum.engine.schedule().sweep(later(31)).unwrap();
        assert_eq!((swept.records, swept.held > 0), (0, true));
        assert_eq!(records(&mut forum), before);
        forum.engine.holds().lift(hold, &authority()).unwrap();
        assert!(forum.engine.schedule().sweep(later(31)).unwrap().records > 0);
        assert_eq!(records(&mut forum), [0; 3]);
    }
}

/// A sweep destroyed the only way to a held disguise that lay behind placeholders of one that ended, and what was held stayed
/// without anybody who could read it.
pub(crate) fn a_hold_on_a_disguise_keeps_the_way_to_it() {
    for everybody in [true, false] {
        let who = if everybody { None } else { Some(1) };
        let mut forum = forum();
        let early = apply_until(&mut forum, GDPR_REMOVE, Some(4), 10);
        let inner = apply_until(&mut forum, ANON, who, 30);
        // With a credential the records lie with the person, and need no way.
        let outer = forum.apply(BLANK, who, !everybody).unwrap();
        let what = Holding::Disguise(outer.id);
        let hold = forum.engine.holds().place(what, &authority()).unwrap();
        let looked = forum.engine.schedule().due(later(31)).unwrap();
        let swept = forum.engine.schedule().sweep(later(31)).unwrap();
        assert_eq!(looked.records, swept.records);
        assert!(swept.records > 0, "{swept:?}");
        assert_eq!(swept.held > 0, everybody, "{swept:?}");
        // What ended before can lead nowhere, and what leads to it has ended all the same.
        let outcome = reveal_at(&mut forum, 4, early, later(31));
        assert!(outcome.is_err(), "{outcome:?}");
        let outcome = reveal_at(&mut forum, 1, inner, later(31));
        assert_eq!(matches!(outcome, Err(Error::Ended)), everybody);
        assert_eq!(outcome.is_ok(), !everybody, "{outcome:?}");
        let key = SecretKey::from_bytes(*forum.keys[&1].expose());
        let (one, mine) = (Value::Int(1), Credential::Key(&key));
        let exported = forum.engine.export(&one, &mine, Some(outer.id), later(31));
        assert_eq!(exported.unwrap().hidden.len(), 3);
        let open = "SELECT COUNT(*) FROM stories WHERE url IN ('url0', 'url1')";
        let others = forum.numbers(open)[0];
        // Where the way is gone nobody can tell any more whose the rows are, so that nothing goes into them.
        let back = reveal_at(&mut forum, 1, outer.id, later(31)).unwrap();
        assert_eq!(back, everybody);
        let values = if everybody { 3 } else { 0 };
        assert_eq!(forum.numbers(open), [others + values]);
        forum.engine.holds().lift(hold, &authority()).unwrap();
        let swept = forum.engine.schedule().sweep(later(31)).unwrap();
        assert_eq!(swept.records > 0, everybody);
        assert_eq!(records(&mut forum) == [0; 3], everybody);
    }
}

pub(crate) fn within_the_grace_period_a_disguise_is_cancelled_and_after_it_applied() {
    let mut forum = forum();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let schedule = |forum: &mut Forum, user| {
        let request = request(&spec, Some(user), Some(later(400)));
        forum.engine.schedule().add(&request, later(30)).unwrap()
    };
    let cancelled = schedule(&mut forum, 1);
    let meant = schedule(&mut forum, 2);
    assert_eq!(forum.engine.schedule().list(None).unwrap().len(), 2);
    let of_one = forum.engine.schedule().list(Some(&Value::Int(1))).unwrap();
    assert_eq!(of_one[0].id, cancelled);
    assert!(
        forum
            .engine
            .schedule()
            .sweep(later(29))
            .unwrap()
            .applied
            .is_empty()
    );
    forum.engine.schedule().cancel(cancelled, time()).unwrap();
    let again = forum.engine.schedule().cancel(cancelled, time());
    assert!(matches!(again, Err(Error::NoSuchDisguise)));
    forum.assert_as_before();
    let swept = forum.engine.schedule().sweep(later(31)).unwrap();
    assert_eq!(swept.applied.len(), 1);
    assert_eq!(swept.applied[0].id, meant);
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM users WHERE id IN (1, 2)"),
        [1]
    );
    assert!(
        forum
            .engine
            .schedule()
            .sweep(later(31))
            .unwrap()
            .applied
            .is_empty()
    );
    assert!(reveal_at(&mut forum, 2, meant, later(399)).unwrap());
    forum.assert_as_before();
    assert_eq!(records(&mut forum), [0; 3]);
}

pub(crate) fn a_scheduled_disguise_that_is_refused_stays_and_does_not_stop_the_others() {
    let mut forum = forum();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let [first, second] = [1, 2].map(|user| {
        let request = request(&spec, Some(user), None);
        forum.engine.schedule().add(&request, later(30)).unwrap()
    });
    let user = Value::Int(1);
    let hold = forum
        .engine
        .holds()
        .place(Holding::Person(&user), &authority())
        .unwrap();
    let swept = forum.engine.schedule().sweep(later(31)).unwrap();
    assert_eq!(swept.applied[0].id, second);
    assert_eq!(swept.refused[0].0, first);
    assert!(matches!(swept.refused[0].1, Error::Held { .. }));
    // Nor can a new one be scheduled, nor one for somebody without a key, nor one that ends before it begins.
    for (user, expires) in [(1, None), (77, None), (3, Some(later(-1)))] {
        let request = request(&spec, Some(user), expires);
        assert!(
            forum.engine.schedule().add(&request, later(30)).is_err(),
            "{user}"
        );
    }
    forum.engine.holds().lift(hold, &authority()).unwrap();
    let swept = forum.engine.schedule().sweep(later(31)).unwrap();
    assert_eq!(swept.applied[0].id, first);
    assert!(forum.engine.schedule().list(None).unwrap().is_empty());
    for (user, id) in [(1, first), (2, second)] {
        forum.reveal(user, id);
    }
    assert_eq!(forum.everything(), forum.before.clone());
}
