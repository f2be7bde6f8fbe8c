//! Replays for people when the records of somebody else, or of nobody any more, were destroyed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Credential, Protection, References, Replayability, SecretKey, Value,
};
use probity_format::Timestamp;

use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

/// Lets somebody else come to the id 1, and gives the key that its person had.
fn newcomer(station: &mut Station) -> SecretKey {
    station
        .forum
        .sql("INSERT INTO users VALUES (1, 'newcomer', 7)");
    let engine = &mut station.forum.engine;
    let new = engine
        .people()
        .register(&Value::Int(1), Protection::KeyAlone, time())
        .unwrap();
    station.forum.keys.insert(1, new.key).unwrap()
}

fn rows(station: &mut Station) -> Vec<i64> {
    let counts = ["users", "stories", "moderations"].map(|table| {
        let count = format!("SELECT COUNT(*) FROM {table}");
        station.forum.numbers(&count)
    });
    counts.concat()
}

/// A person left, and somebody who came to their id had everything of their own destroyed: a replay removed the rows of the first,
/// kept no record, and said that all was done. Records are dropped only for the key that they would be sealed to.
pub(crate) fn whoever_had_an_id_before_loses_nothing_by_what_a_newcomer_forgot() {
    for user in [Some(1), None] {
        let mut station = station();
        let gone = station.apply(GDPR_REMOVE, user);
        let old = newcomer(&mut station);
        station.forget(1, None);
        station.restore();
        let done = station.replay(&[edna(GDPR_REMOVE)], &[]);
        assert_eq!(outlooks(&done)[0], ("disguise.apply", &Replayability::Done));
        assert_ne!(station.forum.everything(), station.forum.before);
        station.forum.keys.insert(1, old);
        // Who comes back first waits for the others with what they share.
        let all = if user.is_some() { 1 } else { USERS };
        for user in (1..=all).chain(1..=all) {
            station.forum.reveal(user, gone.id);
        }
        station.forum.assert_as_before();
    }
}

/// Before a replay it was said of a newcomer's registration that another key is registered under the id, and the replay did it: it
/// removes the account of whoever had the id before. Looking follows that, too.
pub(crate) fn a_newcomers_registration_is_foretold_as_it_is_replayed() {
    let mut station = station();
    let gone = station.apply(GDPR_REMOVE, Some(1));
    let old = newcomer(&mut station);
    station.restore();
    let specs = [edna(GDPR_REMOVE)];
    let look = station.replay_or_look(&specs, &[], false);
    let done = station.replay(&specs, &[]);
    assert_eq!(look[1].action, "disguise.register");
    assert_eq!(look[1].outlook, Replayability::Possible);
    assert_eq!(done[1].outlook, Replayability::Done);
    station.forum.keys.insert(1, old);
    let listed = station.forum.keys.get(&1).unwrap();
    let listed = SecretKey::from_bytes(*listed.expose());
    assert!(station.opens(1, &Credential::Key(&listed)), "{gone:?}");
}

/// Whoever writes the database put a key of theirs under the id of a person who was away and had everything forgotten with it: the
/// replay listed that as a stranger's, and dropped the records of the person all the same. What it lists destroys nothing.
pub(crate) fn what_a_stranger_forgot_takes_nothing_from_its_person() {
    let mut station = station();
    let one = Value::Int(1);
    let current = Credential::Key(&station.forum.keys[&1]);
    let engine = &mut station.forum.engine;
    let made = engine
        .people()
        .change_key(&one, &current, Protection::KeyAlone, time())
        .unwrap();
    station.forum.keys.insert(1, made.key);
    station.back_up();
    let gone = station.apply(GDPR_REMOVE, Some(1));
    let old = newcomer(&mut station);
    station.told.borrow_mut().pop();
    station.forget(1, None);
    station.restore();
    let done = station.replay(&[edna(GDPR_REMOVE)], &[]);
    assert_eq!(done[0].outlook, Replayability::Done);
    assert!(why(&done[1]).contains("not the person's word"), "{done:?}");
    station.forum.keys.insert(1, old);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forum.assert_as_before();
}

/// Entries of programs before do not name the key, and a replay dropped records by the name alone. They are sealed, and what was
/// forgotten is listed until its person has forgotten it again.
pub(crate) fn what_was_forgotten_without_a_key_is_sealed_and_listed() {
    let mut station = station();
    let gone = station.apply(GDPR_REMOVE, Some(1));
    station.keyless.set(true);
    station.forget(1, None);
    station.restore();
    let specs = [edna(GDPR_REMOVE)];
    for rest in [2, 1] {
        let done = station.replay(&specs, &[]);
        assert_eq!(done.len(), rest, "{done:?}");
        let listed = &done[rest - 1];
        assert!(why(listed).contains("does not name the key"), "{done:?}");
    }
    let key = SecretKey::from_bytes(*station.forum.keys[&1].expose());
    assert!(station.opens(1, &Credential::Key(&key)));
    station.keyless.set(false);
    station.forget(1, None);
    assert_eq!(station.replay(&specs, &[]), []);
    let outcome = station.forum.reveal_as(1, gone.id, References::Recorrelate);
    assert!(did_nothing(&outcome), "{outcome:?}");
}

/// A person left, took everything back and then had what was left of them forgotten: a replay removed the rows and kept no record
/// of them, and the reveal that it asked for found nothing. Nothing is removed, for the key may be gone with what was forgotten.
pub(crate) fn what_was_back_before_it_was_forgotten_comes_back_after_a_replay() {
    let mut station = station();
    station.unordered.set(true);
    let gone = station.apply(GDPR_REMOVE, Some(1));
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forget(1, None);
    station.restore();
    let before = station.forum.everything();
    let specs = [edna(GDPR_REMOVE)];
    let done = station.replay(&specs, &[]);
    assert!(
        done.iter().all(|it| it.outlook == Replayability::Done),
        "{done:?}"
    );
    assert_eq!(station.forum.everything(), before);
    let key = SecretKey::from_bytes(*station.forum.keys[&1].expose());
    assert!(!station.opens(1, &Credential::Key(&key)));
    assert_eq!(station.replay(&specs, &[]), []);
}

/// A row shared by two people went with the one who left last, and each kept a copy. A replay
/// dropped the copy of the first when the other, or anybody, had something forgotten. The copy
/// belongs to the person who left first, and comes back with them.
pub(crate) fn copies_of_whoever_forgot_nothing_come_back_after_a_replay() {
    for forgets in [2, 4] {
        let left = |restored: bool| {
            let mut station = station();
            let gone = station.apply(GDPR_REMOVE, Some(1));
            station.apply(GDPR_REMOVE, Some(2));
            station.apply(BLANK, Some(4));
            station.forget(forgets, None);
            if restored {
                station.restore();
                let done = station.replay(&[edna(GDPR_REMOVE), edna(BLANK)], &[]);
                assert!(
                    done.iter().all(|it| it.outlook == Replayability::Done),
                    "{done:?}"
                );
                assert_eq!(done.len(), 4);
            }
            let revealed = station.forum.reveal(1, gone.id);
            (revealed.restored, revealed.kept, rows(&mut station))
        };
        assert_eq!(left(true), left(false), "{forgets}");
    }
}

/// Pat's row stood under an id in a backup, and Quinn had come to the id since. A replay gave
/// Quinn's key Pat's row and did Quinn's disguise, schedule or share of everybody's on Pat's rows.
pub(crate) fn a_replay_gives_nothing_to_the_next_holder_of_an_id() {
    for is_known in [true, false] {
        for way in ["apply", "schedule", "everybody", "chunks"] {
            succeeded(is_known, way);
        }
    }
}

fn succeeded(is_known: bool, way: &str) {
    let mut station = station();
    let user = if is_known { 1 } else { 5 };
    if !is_known {
        station
            .forum
            .sql("INSERT INTO users VALUES (5, 'user5', 7)");
        station
            .forum
            .sql("INSERT INTO stories VALUES (50, 5, 'url0', 0)");
    }
    station.back_up();
    let before = station.forum.everything();
    let id = Value::Int(user);
    let delete = [
        format!("DELETE FROM moderations WHERE moderator_user_id = {user} OR user_id = {user}"),
        format!("DELETE FROM stories WHERE user_id = {user}"),
        format!("DELETE FROM users WHERE id = {user}"),
    ];
    station.forum.sql("DELETE FROM taggings");
    for sql in &delete {
        station.forum.sql(sql);
    }
    if is_known {
        station
            .forum
            .engine
            .people()
            .unregister(&id, None, time())
            .unwrap();
    }
    let quinn = format!("INSERT INTO users VALUES ({user}, 'quinn', 7)");
    station.forum.sql(&quinn);
    let engine = &mut station.forum.engine;
    let made = engine
        .people()
        .register(&id, Protection::KeyAlone, time())
        .unwrap();
    match way {
        "apply" => drop(station.apply(BLANK, Some(user))),
        "everybody" => drop(station.apply(BLANK, None)),
        "chunks" => drop(station.forum.apply_in_chunks(BLANK, (None, false), 1)),
        _ => schedule(&mut station, user),
    }
    station.restore();
    let specs = [edna(BLANK)];
    for really in [false, true, true] {
        let missed = station.replay_or_look(&specs, &[], really);
        let of = |action| missed.iter().find(|it| it.action == action);
        let registered = of("disguise.register").unwrap();
        assert!(
            why(registered).contains("somebody else's row"),
            "{missed:?}"
        );
        let own = ["disguise.apply", "disguise.schedule"];
        for it in missed.iter().filter(|it| own.contains(&&*it.action)) {
            assert_ne!(it.outlook, Replayability::Done, "{missed:?}");
        }
        assert_eq!(station.forum.everything(), before, "{way}");
    }
    assert!(
        station
            .forum
            .engine
            .schedule()
            .list(None)
            .unwrap()
            .is_empty()
    );
    assert!(!station.opens(user, &Credential::Key(&made.key)), "{way}");
}

fn schedule(station: &mut Station, user: i64) {
    let spec = edna(BLANK);
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(user)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    let due = Timestamp::from_nanoseconds(2_000_000_000_000_000_000).unwrap();
    station.forum.engine.schedule().add(&request, due).unwrap();
}

/// A person was away, somebody came to the id, and the first could not change a key that others had
/// learned: it was refused as a wrong credential. They change their own, and nothing of the newcomer's.
pub(crate) fn whoever_is_away_changes_key_and_password_although_somebody_has_the_id() {
    let mut station = station();
    let one = Value::Int(1);
    let gone = station.apply(GDPR_REMOVE, Some(1));
    let old = newcomer(&mut station);
    let engine = &mut station.forum.engine;
    let (current, words) = (Credential::Key(&old), Protection::Password("new words"));
    engine
        .people()
        .change_password(&one, &current, words, time())
        .unwrap();
    let current = Credential::Password("new words");
    let made = engine
        .people()
        .change_key(&one, &current, Protection::KeyAlone, time());
    let made = made.unwrap();
    assert!(!station.opens(1, &Credential::Key(&old)));
    assert!(!station.opens(1, &current));
    let theirs = SecretKey::from_bytes(*station.forum.keys[&1].expose());
    assert!(station.opens(1, &Credential::Key(&theirs)));
    let hidden = station.apply(BLANK, Some(1));
    assert!(station.forum.reveal(1, hidden.id).is_complete());
    station.forum.sql("DELETE FROM users WHERE id = 1");
    let engine = &mut station.forum.engine;
    engine.people().unregister(&one, None, time()).unwrap();
    station.forum.keys.insert(1, made.key);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forum.assert_as_before();
}
