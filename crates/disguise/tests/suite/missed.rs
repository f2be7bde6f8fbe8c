//! Operations that a replay must not do again, and those that it must not miss.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Credential, Error, Protection, Replayability, SecretKey, Value};

use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

const PASSWORD: &str = "secret words";
const WAYS: [&str; 3] = ["probity_locators", "probity_bags", "probity_credentials"];

impl Station {
    /// Puts rows of `tables` there again, as they were.
    pub(super) fn put_back(&mut self, copies: &[Vec<Vec<Value>>]) {
        for (table, rows) in WAYS.iter().zip(copies) {
            for row in rows {
                let database = self.forum.engine.database();
                let there = format!("DELETE FROM {table} WHERE id = ?");
                database.execute(&there, &row[..1]).unwrap();
                let marks = vec!["?"; row.len()].join(",");
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                database.execute(&sql, row).unwrap();
            }
        }
    }

    pub(super) fn copies(&mut self) -> Vec<Vec<Vec<Value>>> {
        WAYS.iter().map(|table| self.rows(table)).collect()
    }

    /// Takes away what the database remembers, but for `operations`.
    pub(super) fn unremember(&mut self, operations: &[Vec<Value>]) {
        self.forum.sql("DELETE FROM probity_forgotten");
        for row in operations {
            let sql = "DELETE FROM probity_operations WHERE id = ?";
            self.forum.engine.database().execute(sql, row).unwrap();
        }
    }

    pub(super) fn opens(&mut self, user: i64, credential: &Credential<'_>) -> bool {
        let listed = self
            .forum
            .engine
            .list(&Value::Int(user), credential, time());
        match listed {
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error, Error::WrongCredential), "{error:?}");
                false
            }
        }
    }
}

/// Somebody registered with a password after the backup and left: a replay removed their rows under that key, of which the
/// password went with the database, and said that it was done. They are told of, and stay until their person has a key.
pub(crate) fn nothing_is_hidden_again_under_a_key_whose_password_went_with_the_database() {
    let mut station = station();
    station
        .forum
        .sql("INSERT INTO users VALUES (5, 'user5', 7)");
    station
        .forum
        .sql("INSERT INTO stories VALUES (50, 5, 'url0', 0)");
    let before = station.forum.everything();
    station.back_up();
    let five = Value::Int(5);
    let engine = &mut station.forum.engine;
    let protection = Protection::Password("my words");
    engine.people().register(&five, protection, time()).unwrap();
    station.apply(GDPR, Some(5));
    station.apply(BLANK, None);
    station.restore();
    let specs = [edna(GDPR), edna(BLANK)];
    for really in [false, true] {
        let missed = station.replay_or_look(&specs, &[], really);
        assert_eq!(missed[0].action, "disguise.register");
        assert!(why(&missed[0]).contains("register the person again"));
        assert!(
            why(&missed[1]).contains("is not registered here"),
            "{missed:?}"
        );
        assert_eq!(why(&missed[2]).is_empty(), !really, "{missed:?}");
        assert_eq!(station.forum.everything(), before);
    }
    // Who is in the restored database as if nothing had happened registers again, and leaves again.
    let engine = &mut station.forum.engine;
    let made = engine.people().register(&five, protection, time()).unwrap();
    station.forum.keys.insert(5, made.key);
    let missed = station.replay(&specs, &[]);
    assert_eq!(missed.len(), 2, "{missed:?}");
    assert!(why(&missed[0]).contains("is not registered here"));
    assert_eq!(missed[1].outlook, Replayability::Done);
    let gone = station.apply(GDPR, Some(5));
    assert!(station.opens(5, &Credential::Password("my words")));
    assert!(station.forum.reveal(5, gone.id).is_complete());
}

/// A key that was changed after the backup, or between two replays, is not registered: an apply under it, or under the one
/// before, was done again all the same, and nobody could open it.
pub(crate) fn nothing_is_hidden_again_under_a_key_that_was_replaced() {
    for after_the_restore in [false, true] {
        let mut station = station();
        let before = station.forum.everything();
        let one = Value::Int(1);
        let change = |station: &mut Station, protection| {
            let engine = &mut station.forum.engine;
            let current = Credential::Password(PASSWORD);
            engine
                .people()
                .change_key(&one, &current, protection, time())
                .unwrap()
        };
        let protection = Protection::Password("second words");
        if !after_the_restore {
            change(&mut station, protection);
        }
        station.apply(GDPR, Some(1));
        station.restore();
        let missed = station.replay(&[], &[]);
        assert_eq!(missed.len(), 1 + usize::from(!after_the_restore));
        let new = change(&mut station, protection);
        station.forum.keys.insert(1, new.key);
        for really in [false, true] {
            let missed = station.replay_or_look(&[edna(GDPR)], &[], really);
            assert_eq!(missed.len(), 1, "{missed:?}");
            assert!(
                why(&missed[0]).contains("is not registered here"),
                "{missed:?}"
            );
        }
        assert_eq!(station.forum.everything(), before);
        let gone = station.apply(GDPR, Some(1));
        assert!(station.forum.reveal(1, gone.id).is_complete());
    }
}

/// The backup is from while somebody was away, who had everything forgotten since. A newcomer under their id who forgot
/// everything too made a replay overlook the first, whose old key opened what was forgotten.
pub(crate) fn what_was_forgotten_and_is_there_again_is_found_although_a_newcomer_forgot_the_same() {
    let mut station = station();
    station.apply(GDPR_REMOVE, Some(1));
    station.back_up();
    station.forget(1, None);
    station.restore();
    station
        .forum
        .sql("INSERT INTO users VALUES (1, 'newcomer', 7)");
    let one = Value::Int(1);
    let engine = &mut station.forum.engine;
    let new = engine
        .people()
        .register(&one, Protection::KeyAlone, time())
        .unwrap();
    let old = station.forum.keys.insert(1, new.key).unwrap();
    station.forget(1, None);
    assert!(station.opens(1, &Credential::Key(&old)));
    let done = station.replay(&[], &[]);
    assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
    assert_eq!(station.replay(&[], &[]), []);
    assert!(!station.opens(1, &Credential::Key(&old)));
    assert!(!station.opens(1, &Credential::Password(PASSWORD)));
}

/// Whoever writes the database puts back what was forgotten, and takes away that it ever was: the same, forgotten once more since, made a replay overlook it.
pub(crate) fn what_was_forgotten_twice_and_is_there_again_is_found() {
    let mut station = station();
    station.apply(BLANK, Some(1));
    let copies = station.copies();
    let kept = station.rows("probity_operations");
    station.forget(1, None);
    let now = station.rows("probity_operations");
    let first: Vec<_> = now.into_iter().filter(|it| !kept.contains(it)).collect();
    let one = Value::Int(1);
    let engine = &mut station.forum.engine;
    let new = engine
        .people()
        .register(&one, Protection::KeyAlone, time())
        .unwrap();
    let old = station.forum.keys.insert(1, new.key).unwrap();
    station.forget(1, None);
    assert_eq!(station.replay(&[], &[]), []);
    station.unremember(&first);
    station.put_back(&copies);
    assert!(station.opens(1, &Credential::Key(&old)));
    let done = station.replay(&[], &[]);
    assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
    assert!(!station.opens(1, &Credential::Key(&old)));
}

/// As above with a password, and with a key: the log says with which key their person went on.
pub(crate) fn a_password_that_was_replaced_twice_and_is_there_again_is_found() {
    for with_key in [false, true] {
        let mut station = station();
        let one = Value::Int(1);
        let copies = station.copies();
        let mut words = [PASSWORD, "second words", "third words"].into_iter();
        let mut current = words.next().unwrap();
        let mut operations = Vec::new();
        for next in words {
            let engine = &mut station.forum.engine;
            let (credential, new) = (Credential::Password(current), Protection::Password(next));
            if with_key {
                engine
                    .people()
                    .change_key(&one, &credential, new, time())
                    .unwrap();
            } else {
                engine
                    .people()
                    .change_password(&one, &credential, new, time())
                    .unwrap();
            }
            operations.push(station.rows("probity_operations"));
            current = next;
        }
        station.unremember(&operations[0]);
        let now = station.copies();
        station.put_back(&copies);
        station.put_back(&now);
        let old = SecretKey::from_bytes(*station.forum.keys[&1].expose());
        assert!(station.opens(1, &Credential::Password(PASSWORD)));
        let action = if with_key {
            "disguise.key"
        } else {
            "disguise.password"
        };
        let done = station.replay(&[], &[]);
        assert_eq!(outlooks(&done), [(action, &Replayability::Done)]);
        assert!(!station.opens(1, &Credential::Password(PASSWORD)));
        assert!(station.opens(1, &Credential::Password(current)));
        assert_eq!(station.opens(1, &Credential::Key(&old)), !with_key);
        assert_eq!(station.replay(&[], &[]), []);
    }
}
