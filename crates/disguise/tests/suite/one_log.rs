//! The one log in which operations of a database are told of.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use probity_disguise::{Credential, Error, ReplayRequest, SecretKey, SubjectKey, Value};

use super::forum::*;
use super::replay::{Station, station};

const ONE: Value = Value::Int(1);

impl Station {
    /// Tells of what follows in the log of this name.
    fn tell_in(&mut self, log: &str) {
        let key = SubjectKey::of_log(log.as_bytes());
        self.forum.engine.set_subject_key(Arc::new(key));
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
