//! Superseded records: records that were replaced, or whose rows are back, open nothing when
//! somebody puts them back.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{
    Credential, DisguiseId, Error, Protection, References, Replayability, SecretKey, Value,
};

use super::forum::*;
use super::replay::{Station, outlooks, station};

fn key(station: &Station, user: i64) -> SecretKey {
    SecretKey::from_bytes(*station.forum.keys[&user].expose())
}

fn listed(station: &mut Station, key: &SecretKey) -> Vec<DisguiseId> {
    let (engine, one) = (&mut station.forum.engine, Value::Int(1));
    let listed = engine.list(&one, &Credential::Key(key), time()).unwrap();
    listed.iter().map(|it| it.id).collect()
}

/// A reveal in part took records away without their names. Put back, they brought back what their person had the rest of forgotten,
/// and a replay found nothing.
pub(crate) fn what_a_reveal_in_part_superseded_does_not_come_back() {
    for everything in [false, true] {
        let mut station = station();
        let gone = station.apply(GDPR, Some(1));
        let copies = station.copies();
        station
            .forum
            .sql("INSERT INTO users VALUES (55, 'user1', 1)");
        assert!(!station.forum.reveal(1, gone.id).is_complete());
        station.forget(1, Some(gone.id).filter(|_| !everything));
        let now = station.copies();
        let key = key(&station, 1);
        let is_shut = |station: &mut Station| {
            let outcome = station.forum.reveal_as(1, gone.id, References::Recorrelate);
            let refused = matches!(outcome, Err(Error::NoSuchDisguise | Error::WrongCredential));
            assert!(refused, "{outcome:?}");
            assert!(!station.opens(1, &Credential::Key(&key)));
        };
        station.put_back(&copies);
        is_shut(&mut station);
        // The log has their names, too.
        station.unremember(&[]);
        let done = station.replay(&[], &[]);
        let again: Vec<_> = done.iter().map(|it| it.action.as_str()).collect();
        assert_eq!(again[0], "disguise.reveal", "{done:?}");
        assert!(
            done.iter().all(|it| it.outlook == Replayability::Done),
            "{done:?}"
        );
        is_shut(&mut station);
        assert_eq!(station.replay(&[], &[]), []);
        for (now, then) in station.copies().iter().zip(&now).take(2) {
            assert_eq!(now, then);
        }
    }
}

/// A disguise that was revealed completely could be revealed again from old rows, and brought back
/// rows that its person had deleted since. Neither the tables nor the log had the names of the
/// records.
pub(crate) fn what_was_revealed_is_not_revealed_again_from_old_rows() {
    let mut station = station();
    let gone = station.apply(BLANK, Some(1));
    let over = station.apply(ANON, Some(1));
    let copies = station.copies();
    for id in [gone.id, over.id] {
        assert!(station.forum.reveal(1, id).is_complete());
    }
    station.forum.sql("UPDATE stories SET url = 'mine'");
    let after = station.forum.everything();
    let key = key(&station, 1);
    station.put_back(&copies);
    assert_eq!(listed(&mut station, &key), []);
    for id in [gone.id, over.id] {
        let outcome = station.forum.reveal_as(1, id, References::Recorrelate);
        let nothing = matches!(&outcome, Ok(it) if !it.found && it.restored.is_empty());
        assert!(nothing, "{outcome:?}");
    }
    station.unremember(&[]);
    let done = station.replay(&[], &[]);
    assert_eq!(
        outlooks(&done),
        [("disguise.reveal", &Replayability::Done); 2]
    );
    assert_eq!(listed(&mut station, &key), []);
    assert_eq!(station.replay(&[], &[]), []);
    assert_eq!(station.forum.everything(), after);
}

/// A new key named the credentials that it replaced and not the records under the old one. With the names in the database gone the
/// old key opened them again, and a replay had missed nothing.
pub(crate) fn records_under_a_replaced_key_are_found_by_a_replay() {
    let mut station = station();
    // As for a person who keeps the key alone: no credential is there by which a replay finds it.
    station.forum.sql("DELETE FROM probity_credentials");
    let gone = station.apply(GDPR, Some(1));
    let copies = station.copies();
    let (one, old) = (Value::Int(1), key(&station, 1));
    let (engine, current) = (&mut station.forum.engine, Credential::Key(&old));
    let made = engine
        .people()
        .change_key(&one, &current, Protection::KeyAlone, time());
    let new = made.unwrap().key;
    station.put_back(&copies);
    station.unremember(&[]);
    assert!(station.opens(1, &current));
    let done = station.replay(&[], &[]);
    assert_eq!(outlooks(&done), [("disguise.key", &Replayability::Done)]);
    assert!(!station.opens(1, &current));
    assert_eq!(station.replay(&[], &[]), []);
    station.forum.keys.insert(1, new);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forum.assert_as_before();
}

/// A locator that is put back under another id is found by no name of its own, and parts came last among those that an entry names.
/// The first part of each bag comes first.
pub(crate) fn what_was_forgotten_is_found_under_whatever_id_its_locator_is_put_back() {
    let mut station = station();
    station.forum.sql("DELETE FROM probity_credentials");
    let gone = station.apply(BLANK, Some(1));
    let mut copies = station.copies();
    for row in &mut copies[0] {
        row[0] = Value::Bytes(vec![7; 16]);
    }
    // As if there had been so many more that one name a record is all there is room for.
    station.cut_names_to(1);
    station.forget(1, Some(gone.id));
    station.put_back(&copies);
    station.unremember(&[]);
    let key = key(&station, 1);
    assert_eq!(listed(&mut station, &key), [gone.id]);
    let done = station.replay(&[], &[]);
    assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
    assert_eq!(listed(&mut station, &key), []);
    assert_eq!(station.replay(&[], &[]), []);
}
