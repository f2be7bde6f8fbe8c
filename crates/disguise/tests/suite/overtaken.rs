//! Deeds that must not be done any more, because something else was done since: operations that were told
//! of and never committed, and disguises whose end or due time has passed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Credential, Error, Holding, Protection, Replayability, SecretKey,
    Spec, Value,
};
use probity_format::Timestamp;

use super::endings::later;
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

const OVERTAKEN: &str = "the database has later operations";

impl Station {
    /// The machine stops between the entry of `deed` and its commit.
    pub(super) fn stop_before_the_commit(&mut self, deed: impl FnOnce(&mut Self)) {
        self.back_up();
        deed(self);
        self.restore();
    }
}

/// A machine stopped between the entry of a `forget` and its commit. Its person went on and left,
/// and a replay did the forgetting then: what was hidden since was lost for good.
pub(crate) fn a_forgetting_that_was_not_committed_takes_nothing_that_was_hidden_since() {
    for restored in [false, true] {
        let mut station = station();
        station.stop_before_the_commit(|station| station.forget(1, None));
        let gone = station.apply(GDPR, Some(1));
        if restored {
            station.back_up();
            station.apply(GDPR, Some(2));
            station.restore();
        }
        for really in [false, true] {
            let missed = station.replay_or_look(&[edna(GDPR)], &[], really);
            assert_eq!(missed[0].action, "disguise.forget");
            assert!(why(&missed[0]).contains(OVERTAKEN), "{missed:?}");
            // What a restored backup lacks at its end is done again.
            let rest: Vec<_> = missed[1..].iter().map(why).collect();
            assert_eq!(rest, vec![""; usize::from(restored)], "{missed:?}");
        }
        assert!(station.forum.reveal(1, gone.id).is_complete());
    }
}

/// A replay scheduled, held or unregistered people by operations that were never committed, whatever
/// was done since.
pub(crate) fn what_was_not_committed_is_not_done_after_what_came_later() {
    let one = Value::Int(1);
    let authority = || Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    };
    let mut station = station();
    station.stop_before_the_commit(|station| {
        let spec = edna(BLANK);
        let request = request(&spec, None);
        let mut schedule = station.forum.engine.schedule();
        schedule.add(&request, later(3)).unwrap();
    });
    station.stop_before_the_commit(|station| {
        let mut holds = station.forum.engine.holds();
        holds.place(Holding::Person(&one), &authority()).unwrap();
    });
    station.stop_before_the_commit(|station| {
        let key = Credential::Key(&station.forum.keys[&1]);
        let mut people = station.forum.engine.people();
        people.unregister(&one, Some(&key), time()).unwrap();
    });
    let first = station.apply(ANON, Some(1));
    let second = station.apply(GDPR, Some(1));
    let hidden = station.forum.everything();
    let missed = station.replay(&[edna(GDPR), edna(ANON), edna(BLANK)], &[]);
    let actions: Vec<&str> = outlooks(&missed).into_iter().map(|it| it.0).collect();
    assert_eq!(
        actions,
        ["disguise.schedule", "disguise.hold", "disguise.unregister"]
    );
    assert!(
        missed.iter().all(|it| why(it).contains(OVERTAKEN)),
        "{missed:?}"
    );
    assert_eq!(station.forum.everything(), hidden);
    for id in [second.id, first.id] {
        assert!(station.forum.reveal(1, id).is_complete());
    }
    station.forum.assert_as_before();
}

/// An operation that a replay did again says nothing of what it could not do: that is done once it
/// can be.
pub(crate) fn what_a_replay_did_again_overtakes_nothing() {
    let mut station = station();
    let gone = station.apply(GDPR, Some(1));
    station.apply(BLANK, Some(2));
    station.restore();
    let missed = station.replay(&[edna(BLANK)], &[]);
    assert!(why(&missed[0]).contains("its specification is not given"));
    assert_eq!(missed[1].outlook, Replayability::Done);
    let missed = station.replay(&[edna(BLANK), edna(GDPR)], &[]);
    assert_eq!(
        outlooks(&missed),
        [("disguise.apply", &Replayability::Done)]
    );
    assert!(station.forum.reveal(1, gone.id).is_complete());
}

fn request(spec: &Spec, expires: Option<Timestamp>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user: Some(Value::Int(1)),
        over: None,
        parameters: BTreeMap::new(),
        expires,
        time: time(),
    }
}

/// A disguise in chunks was gone on with after its end: what was hidden then could never come back.
pub(crate) fn nothing_is_hidden_in_chunks_after_the_end() {
    let mut forum = forum();
    let spec = edna(GDPR);
    let id = {
        let request = request(&spec, Some(later(2)));
        let mut chunks = forum.engine.chunks();
        let id = chunks.begin(&request).unwrap();
        chunks.proceed(id, 1, time()).unwrap();
        id
    };
    let hidden = forum.everything();
    let refused = forum.engine.chunks().proceed(id, 1, later(3));
    let Err(Error::Value { what }) = refused else {
        panic!("{refused:?}");
    };
    assert!(what.contains("cancel it"), "{what}");
    assert_eq!(forum.everything(), hidden);
    assert!(forum.reveal(1, id).is_complete());
    forum.assert_as_before();
}

/// A disguise whose grace period is longer than the time until its end was taken, and refused only
/// when it was due.
pub(crate) fn what_is_due_after_its_end_is_not_scheduled() {
    let mut forum = forum();
    let spec = edna(GDPR);
    let ending = request(&spec, Some(later(2)));
    let refused = forum.engine.schedule().add(&ending, later(3));
    assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
    assert!(forum.engine.schedule().list(None).unwrap().is_empty());
    forum.engine.schedule().add(&ending, later(1)).unwrap();
}

/// Somebody doubled the row that leads to a record: it was read twice, no reveal was complete any
/// more, and a new key made two records of it.
pub(crate) fn a_locator_that_is_there_twice_leads_to_one_record() {
    for changes_key in [false, true] {
        let mut forum = forum();
        let gone = forum.apply(GDPR, Some(1), false).unwrap();
        let all = "SELECT id, mailbox, sealed FROM probity_locators";
        let rows = forum.engine.database().query(all, &[]).unwrap();
        for (number, mut row) in rows.into_iter().enumerate() {
            row[0] = Value::Bytes(vec![u8::try_from(number).unwrap(); 16]);
            let again = "INSERT INTO probity_locators (id, mailbox, sealed) VALUES (?, ?, ?)";
            forum.engine.database().execute(again, &row).unwrap();
        }
        if changes_key {
            let (one, key) = (
                Value::Int(1),
                SecretKey::from_bytes(*forum.keys[&1].expose()),
            );
            let mut people = forum.engine.people();
            let (key, alone) = (Credential::Key(&key), Protection::KeyAlone);
            let made = people.change_key(&one, &key, alone, time()).unwrap();
            forum.keys.insert(1, made.key);
        }
        assert!(forum.reveal(1, gone.id).is_complete());
        // What leads nowhere any more may stay.
        forum.sql("DELETE FROM probity_locators");
        forum.assert_as_before();
    }
}

/// Rows of operations of which no log tells stay as long as somebody may ask about their commit.
pub(crate) fn operations_without_a_log_go_with_a_sweep() {
    let mut forum = forum();
    let count = "SELECT COUNT(*) FROM probity_operations";
    let before = forum.numbers(count)[0];
    let gone = forum.apply(GDPR, Some(1), false).unwrap();
    assert!(forum.reveal(1, gone.id).is_complete());
    assert_eq!(forum.numbers(count)[0], before + 2);
    forum.engine.schedule().sweep(later(1)).unwrap();
    assert_eq!(forum.numbers(count)[0], before + 2);
    forum.engine.schedule().sweep(later(4)).unwrap();
    assert_eq!(forum.numbers(count)[0], 0);
}
