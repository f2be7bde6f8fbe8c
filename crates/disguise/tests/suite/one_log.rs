//! The one log in which operations of a database are told of.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

use probity_disguise::{
    Credential, Engine, Error, ReplayRequest, Replayability, SecretKey, SubjectKey, Value,
};

use super::forum::*;
use super::replay::{Station, edna, outlooks, station};

const ONE: Value = Value::Int(1);

impl Station {
    /// Tells of what follows in the log of this name.
    pub(super) fn tell_in(&mut self, log: &str) {
        let key = SubjectKey::of_log(log.as_bytes());
        self.forum.engine.set_subject_key(Arc::new(key));
    }

    /// Tells of what follows in one of several logs that have this key.
    fn tell_in_log_of(&mut self, key: &str, identity: &str) {
        let key = SubjectKey::of_log(key.as_bytes()).in_log(identity.as_bytes());
        self.forum.engine.set_subject_key(Arc::new(key));
    }

    /// Lets operations be told of in no log.
    fn tell_nobody(&mut self) {
        let database = self.forum.database.boxed();
        self.forum.engine = Engine::stored(database).unwrap();
    }

    fn setting(&mut self, name: &str) -> Vec<u8> {
        let name = Value::Bytes(name.as_bytes().to_vec());
        let settings = self.settings();
        let row = settings.into_iter().find(|row| row.first() == Some(&name));
        match row.as_deref() {
            Some([_, Value::Bytes(value)]) => value.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn put_setting(&mut self, name: &str, value: &[u8]) {
        let [name, value] = [name.as_bytes(), value].map(|it| Value::Bytes(it.to_vec()));
        let sql = "UPDATE probity_settings SET value = ? WHERE name = ?";
        let database = self.forum.engine.database();
        assert_eq!(database.execute(sql, &[value, name]).unwrap(), 1);
    }

    fn settings(&mut self) -> Vec<Vec<Value>> {
        self.rows("probity_settings")
    }

    fn set(&mut self, settings: &[Vec<Value>]) {
        self.forum.sql("DELETE FROM probity_settings");
        for row in settings {
            let sql = "INSERT INTO probity_settings VALUES (?, ?)";
            self.forum.engine.database().execute(sql, row).unwrap();
        }
    }

    fn misses(&mut self) -> Result<usize, Error> {
        let told = self.told.borrow().clone();
        let request = ReplayRequest {
            told: &told,
            specs: &[],
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.forum
            .engine
            .missed()
            .replay(&request)
            .map(|it| it.len())
    }
}

fn of_another<T: Debug>(outcome: Result<T, Error>) {
    match outcome {
        Err(Error::OtherLog) => {}
        other => panic!("{other:?}"),
    }
}

/// A disguise was told of in one log and forgotten in another, as the command line advised beside a
/// server. After a restore a replay of each found nothing missing, and what was forgotten was back.
pub(crate) fn a_database_is_told_of_in_one_log() {
    let mut station = station();
    let key = SecretKey::from_bytes(*station.forum.keys[&1].expose());
    let credential = Credential::Key(&key);
    station.tell_in("one");
    let gone = station.apply(BLANK, Some(1));
    station.tell_in("two");
    let before = station.forum.everything();
    let engine = &mut station.forum.engine;
    of_another(engine.forget(&ONE, &credential, gone.id, time()));
    of_another(engine.forget_everything(&ONE, &credential, time()));
    of_another(station.misses());
    assert_eq!(station.forum.everything(), before);
    station.tell_in("one");
    assert_eq!(station.misses().unwrap(), 0);
    station.forget(1, Some(gone.id));
    // Where the first log is gone for good, the second one is that of another database.
    station.tell_in("two");
    station.forum.engine.separate(time()).unwrap();
    let gone = station.apply(BLANK, Some(1));
    assert_eq!(station.misses().unwrap(), 0);
    station.tell_in("one");
    let engine = &mut station.forum.engine;
    of_another(engine.forget(&ONE, &credential, gone.id, time()));
}

/// A copy of a database went on beside it under the same log, and a replay did in the original what
/// was forgotten in the copy.
pub(crate) fn what_a_copy_forgot_is_not_replayed_in_the_original() {
    let mut station = station();
    station.tell_in("one");
    let gone = station.apply(BLANK, Some(1));
    station.back_up();
    let settings = station.settings();
    let in_the_same = station.forum.engine.separate(time());
    assert!(
        matches!(in_the_same, Err(Error::SameLog)),
        "{in_the_same:?}"
    );
    station.tell_in("two");
    station.forum.engine.separate(time()).unwrap();
    station.forget(1, Some(gone.id));
    assert_eq!(station.misses().unwrap(), 0);
    station.restore();
    station.set(&settings);
    station.tell_in("one");
    assert_eq!(station.misses().unwrap(), 0);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forum.assert_as_before();
}

/// Operations were done without a log, and one was named later. A backup from before was bound by whichever
/// log was named first, and what the other one told of was never done again: nothing but its log, or somebody
/// who says so, binds it now.
pub(crate) fn a_database_that_had_no_log_takes_none_of_which_nobody_says_that_it_is_its() {
    for is_told in [true, false] {
        let mut station = station();
        station.tell_nobody();
        let gone = station.apply(BLANK, Some(1));
        station.back_up();
        let settings = station.settings();
        let key = SecretKey::from_bytes(*station.forum.keys[&1].expose());
        let credential = Credential::Key(&key);
        // Nothing says that the log is the first one of the database.
        station.tell_again();
        station.tell_in("one");
        let before = station.forum.everything();
        let refused = station
            .forum
            .engine
            .forget(&ONE, &credential, gone.id, time());
        assert!(matches!(refused, Err(Error::UnsaidLog)), "{refused:?}");
        assert_eq!(station.forum.everything(), before);
        station.forum.engine.begin_log(time()).unwrap();
        station.forget(1, Some(gone.id));
        // A backup from before is as it was.
        station.restore();
        station.set(&settings);
        station.tell_in("two");
        let told = station.told.borrow().clone();
        station.told.borrow_mut().clear();
        assert_eq!(station.misses().unwrap(), 0);
        let refused = station
            .forum
            .engine
            .forget(&ONE, &credential, gone.id, time());
        assert!(matches!(refused, Err(Error::UnsaidLog)), "{refused:?}");
        if is_told {
            // The log tells of it.
            *station.told.borrow_mut() = told;
            station.tell_in("one");
            assert_eq!(station.misses().unwrap(), 2);
            assert_eq!(station.misses().unwrap(), 0);
            station.tell_in("two");
            of_another(station.forum.engine.begin_log(time()));
            of_another(station.misses());
        } else {
            // It is another database, whatever was told of the one that it was.
            station.forum.engine.separate(time()).unwrap();
            station.forget(1, Some(gone.id));
        }
    }
}

/// A setting that names the logs of before was damaged, and counted as another log: a copy was made
/// another database in the log of its original. The setting is named instead.
pub(crate) fn a_damaged_name_of_a_log_is_named() {
    let mut station = station();
    station.tell_in("one");
    station.apply(BLANK, Some(1));
    station.tell_in("two");
    station.forum.engine.separate(time()).unwrap();
    station.tell_in("three");
    station.forum.engine.separate(time()).unwrap();
    for setting in ["former logs", "log", "history"] {
        let whole = station.setting(setting);
        let mut changed = whole.clone();
        if let Some(first) = changed.first_mut() {
            *first ^= 1;
        }
        let cut = whole.get(..whole.len() - 1).unwrap();
        for damaged in [&changed[..], cut] {
            station.put_setting(setting, damaged);
            station.tell_in("one");
            for outcome in [
                station.forum.engine.separate(time()).map(drop),
                station.misses().map(drop),
            ] {
                match outcome {
                    Err(Error::DamagedRow { row, .. }) => assert_eq!(row, setting),
                    other => panic!("{setting}: {other:?}"),
                }
            }
        }
        station.put_setting(setting, &whole);
    }
    for log in ["one", "two", "three"] {
        station.tell_in(log);
        let same = station.forum.engine.separate(time());
        assert!(matches!(same, Err(Error::SameLog)), "{log}: {same:?}");
    }
}

/// A number that makes another database of a copy got into a database, or was changed there. What the
/// database remembered under its own name counted as that of another tenant, and so for proof that the log
/// was its own: a replay found nothing missing of a log that had more. The setting is named instead.
pub(crate) fn operations_under_another_name_are_no_proof_of_a_log() {
    let refuses = |station: &mut Station| {
        let told = station.told.borrow().clone();
        let strangers = station.forum.engine.missed().strangers(&told).map(drop);
        for outcome in [strangers, station.misses().map(drop)] {
            match outcome {
                Err(Error::DamagedRow { row, .. }) => assert_eq!(row, "history"),
                other => panic!("{other:?}"),
            }
        }
    };
    let mut station = station();
    station.tell_in("one");
    station.apply(BLANK, Some(1));
    station.back_up();
    station.apply(BLANK, Some(2));
    station.restore();
    let settings = station.settings();
    let inserted = [b"history".to_vec(), vec![7; 16]].map(Value::Bytes);
    let sql = "INSERT INTO probity_settings VALUES (?, ?)";
    let database = station.forum.engine.database();
    database.execute(sql, &inserted).unwrap();
    refuses(&mut station);
    station.set(&settings);
    assert_eq!(station.misses().unwrap(), 1);
    station.tell_in("two");
    station.forum.engine.separate(time()).unwrap();
    station.apply(BLANK, Some(3));
    // As a program before wrote it, without a check.
    let mut number = station.setting("history").get(..16).unwrap().to_vec();
    station.put_setting("history", &number);
    assert_eq!(station.misses().unwrap(), 0);
    if let Some(first) = number.first_mut() {
        *first ^= 1;
    }
    station.put_setting("history", &number);
    refuses(&mut station);
}

/// A database lost that its log was noted, and its log was noted again by hand: each replay listed the first
/// noting for ever. Where the log is noted it is nothing.
pub(crate) fn a_missed_noting_of_the_log_is_nothing_where_it_is_noted() {
    let mut station = station();
    station.tell_nobody();
    station.apply(BLANK, Some(1));
    station.back_up();
    let settings = station.settings();
    station.tell_again();
    station.tell_in("one");
    station.forum.engine.begin_log(time()).unwrap();
    station.restore();
    station.set(&settings);
    station.forum.engine.begin_log(time()).unwrap();
    station.apply(BLANK, Some(2));
    let done = station.replay(&[], &[]);
    assert_eq!(
        outlooks(&done),
        [("disguise.begin-log", &Replayability::Done)]
    );
    assert_eq!(station.replay(&[], &[]), []);
}

/// A database of a program before named its log by the key alone, and took every log of that key for it.
/// The first operation that the log tells of narrows it.
pub(crate) fn a_log_that_was_named_by_its_key_alone_is_narrowed_by_the_first_operation() {
    let mut station = station();
    // As a program before named it, without a check.
    station.tell_in("a key");
    station.apply(BLANK, Some(1));
    let named = station.setting("log");
    station.put_setting("log", named.get(..16).unwrap());
    station.tell_in_log_of("another key", "one");
    of_another(station.misses());
    station.tell_in_log_of("a key", "one");
    assert_eq!(station.misses().unwrap(), 0);
    station.apply(BLANK, Some(2));
    station.tell_in_log_of("a key", "two");
    of_another(station.misses());
    // A copy has another log of the same key.
    station.forum.engine.separate(time()).unwrap();
    station.apply(BLANK, Some(3));
    station.tell_in_log_of("a key", "one");
    of_another(station.misses());
    let same = station.forum.engine.separate(time());
    assert!(matches!(same, Err(Error::SameLog)), "{same:?}");
}

/// A former log that was noted by its key alone was said to be each log of that key. By its identity it is
/// that log alone, and by the key alone it may be any: that is refused as unclear, until the log itself
/// says which it is, or the new one has a key of its own.
pub(crate) fn a_former_log_is_known_by_its_identity_and_unclear_by_its_key_alone() {
    let unclear = |station: &mut Station| {
        let refused = station.forum.engine.separate(time());
        assert!(matches!(refused, Err(Error::UnclearLog)), "{refused:?}");
    };
    let mut station = station();
    station.tell_in("a key");
    station.apply(BLANK, Some(1));
    let by_key = station.setting("log");
    station.put_setting("log", by_key.get(..16).unwrap());
    let earlier = station.settings();
    // Nothing says whether it is the log that was noted.
    station.tell_in_log_of("a key", "two");
    unclear(&mut station);
    station.tell_in_log_of("a key", "one");
    station.forum.engine.begin_log(time()).unwrap();
    for (log, is_it) in [
        ("two", false),
        ("three", false),
        ("one", true),
        ("two", true),
    ] {
        station.tell_in_log_of("a key", log);
        match station.forum.engine.separate(time()) {
            Ok(()) if !is_it => {}
            Err(Error::SameLog) if is_it => {}
            other => panic!("{log}: {other:?}"),
        }
    }
    // A program before let the name by the key alone become one of a former log.
    station.set(&earlier);
    station.tell_in_log_of("another key", "four");
    station.forum.engine.separate(time()).unwrap();
    for log in ["one", "five"] {
        station.tell_in_log_of("a key", log);
        unclear(&mut station);
    }
    station.tell_in_log_of("a third key", "six");
    station.forum.engine.separate(time()).unwrap();
    station.tell_in_log_of("another key", "four");
    let same = station.forum.engine.separate(time());
    assert!(matches!(same, Err(Error::SameLog)), "{same:?}");
}

/// A backup with nothing but people who were registered without a log took the first log that was named,
/// without a word. A replay notes the log that has operations of it, one of an empty log says that nothing
/// makes it this database's, and whatever else notes the first log that is named says so.
pub(crate) fn a_backup_with_registrations_alone_takes_no_log_in_silence() {
    let mut station = station();
    station.tell_in("one");
    station.back_up();
    let settings = station.settings();
    let gone = station.apply(BLANK, Some(1));
    let told = station.told.borrow().clone();
    for is_replayed in [true, false] {
        station.restore();
        station.set(&settings);
        let remarks: Rc<RefCell<Vec<String>>> = Rc::default();
        let seen = Rc::clone(&remarks);
        let engine = &mut station.forum.engine;
        engine.set_notice(Box::new(move |it| seen.borrow_mut().push(it.to_owned())));
        station.tell_in("two");
        let strange = station.forum.engine.missed().strangers(&[]).unwrap();
        assert_eq!(strange, Some(0));
        if is_replayed {
            station.tell_in("one");
            station.told.borrow_mut().clone_from(&told);
            let strange = station.forum.engine.missed().strangers(&told).unwrap();
            assert_eq!(strange, None);
            let missed = station.replay(&[edna(BLANK)], &[]);
            assert_eq!(
                outlooks(&missed),
                [("disguise.apply", &Replayability::Done)]
            );
            assert!(remarks.take().is_empty());
            station.tell_in("two");
            of_another(station.misses());
            station.tell_in("one");
            station.forum.reveal(1, gone.id);
        } else {
            station.apply(BLANK, Some(2));
            let said = remarks.take();
            assert!(
                said.len() == 1 && said.concat().contains("restore it again"),
                "{said:?}"
            );
            station.apply(BLANK, Some(3));
            assert!(remarks.take().is_empty());
            // The log that has the rest is refused, and its replay after another restoring is whole.
            station.tell_in("one");
            of_another(station.misses());
        }
    }
}
