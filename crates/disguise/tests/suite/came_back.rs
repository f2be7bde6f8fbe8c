//! People who came back are not hidden again: neither by a replay nor by what was scheduled before.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Credential, DisguiseId, Error, MissingOperation, References, ReplayRequest,
    Replayability, RevealRequest, Revealed, Rows, Spec, Value,
};
use probity_format::Timestamp;

use super::chunks::begin;
use super::endings::later;
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

const ONE: Value = Value::Int(1);

fn of_one(spec: &Spec, expires: Option<Timestamp>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user: Some(ONE),
        over: None,
        parameters: BTreeMap::new(),
        expires,
        time: time(),
    }
}

impl Station {
    pub(super) fn replay_at(&mut self, spec: &str, time: Timestamp) -> Vec<MissingOperation> {
        let (told, specs) = (self.told.borrow().clone(), [edna(spec)]);
        let request = ReplayRequest {
            told: &told,
            specs: &specs,
            parameters: BTreeMap::new(),
            time,
        };
        self.forum.engine.missed().replay(&request).unwrap()
    }

    pub(super) fn reveal_at(&mut self, id: DisguiseId, time: Timestamp) -> Revealed {
        let request = RevealRequest {
            user: ONE,
            credential: Credential::Key(&self.forum.keys[&1]),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time,
        };
        self.forum.engine.reveal(&request).unwrap()
    }

    fn schedule(&mut self, spec: &Spec) -> Result<DisguiseId, Error> {
        let mut schedule = self.forum.engine.schedule();
        schedule.add(&of_one(spec, None), later(1))
    }

    /// Returns what a sweep applies, and what it refuses.
    fn swept(&mut self, days: i64) -> [Vec<DisguiseId>; 2] {
        let swept = self.forum.engine.schedule().sweep(later(days)).unwrap();
        let applied = swept.applied.iter().map(|it| it.id).collect();
        [applied, swept.refused.iter().map(|it| it.0).collect()]
    }

    fn waiting(&mut self) -> Vec<DisguiseId> {
        let all = self.forum.engine.schedule().list(None).unwrap();
        all.iter().map(|it| it.id).collect()
    }
}

/// Somebody came back before their disguise ended. A replay after its end hid them again, and the reveal
/// that it asked for was refused: nobody could bring them back.
pub(crate) fn what_was_taken_back_before_its_end_is_not_hidden_after_it() {
    let mut station = station();
    station.unordered.set(true);
    let spec = edna(GDPR);
    let before = station.forum.everything();
    let leave = |station: &mut Station| {
        let request = of_one(&spec, Some(later(1)));
        station.forum.engine.apply(&request).unwrap().id
    };
    let id = leave(&mut station);
    assert!(station.forum.reveal(1, id).is_complete());
    station.restore();
    let done = station.replay_at(GDPR, later(4));
    let expected = [
        ("disguise.apply", &Replayability::Done),
        ("disguise.reveal", &Replayability::Done),
    ];
    assert_eq!(outlooks(&done), expected);
    assert_eq!(station.forum.everything(), before);
    assert_eq!(station.replay_at(GDPR, later(4)), []);
    // Before its end it is made again, and revealed.
    station.restore();
    let done = station.replay_at(GDPR, time());
    assert!(why(&done[1]).contains("reveal it again"), "{done:?}");
    let last = station.replay_at(GDPR, later(4));
    assert_eq!(last.len(), 1, "{last:?}");
    assert!(why(&last[0]).contains("has ended since"), "{last:?}");
}

/// A backup had a part of a disguise in chunks, which its person took back, and had everything forgotten. A
/// second replay took the reveal for done, and destroyed the records of the part.
pub(crate) fn a_part_that_is_here_waits_for_its_person_at_every_replay() {
    let mut station = station();
    let before = station.forum.everything();
    let begun = begin(&mut station.forum, GDPR, Some(1), false).unwrap();
    let mut chunks = station.forum.engine.chunks();
    chunks.proceed(begun, 1, time()).unwrap();
    station.back_up();
    assert!(station.forum.reveal(1, begun).is_complete());
    station.forget(1, None);
    station.restore();
    for _ in 0..3 {
        let done = station.replay(&[edna(GDPR)], &[]);
        let left: Vec<_> = done
            .iter()
            .map(|it| (it.action.as_str(), why(it)))
            .collect();
        let is_left = |action| {
            left.iter()
                .any(|(it, why)| *it == action && !why.is_empty())
        };
        assert!(
            is_left("disguise.reveal") && is_left("disguise.forget"),
            "{left:?}"
        );
    }
    assert!(station.forum.reveal(1, begun).is_complete());
    assert_eq!(station.forum.everything(), before);
}

/// A disguise was taken back in one life of the database, and forgotten or swept in another. Made neither
/// again, it left in clear whom the last life had deleted.
pub(crate) fn what_another_life_deleted_is_not_left_in_clear_without_a_word() {
    for is_swept in [false, true] {
        let mut station = station();
        let spec = edna(GDPR);
        let request = of_one(&spec, is_swept.then(|| later(1)));
        let id = station.forum.engine.apply(&request).unwrap().id;
        let hidden = station.state();
        assert!(station.forum.reveal(1, id).is_complete());
        station.set_state(&hidden);
        if is_swept {
            station.swept(4);
        } else {
            station.forget(1, None);
        }
        station.restore();
        for _ in 0..2 {
            let done = station.replay_at(GDPR, later(5));
            let apply = done.iter().find(|it| it.action == "disguise.apply");
            let reveal = done.iter().find(|it| it.action == "disguise.reveal");
            if is_swept {
                assert!(why(apply.unwrap()).contains("apply it anew"), "{done:?}");
            } else {
                assert!(why(reveal.unwrap()).contains("reveal it again"), "{done:?}");
                let rows = station
                    .forum
                    .numbers("SELECT COUNT(*) FROM users WHERE id = 1");
                assert_eq!(rows, [0], "{done:?}");
            }
        }
    }
}

/// Of a disguise that was taken back in part, the rest is in clear after its end, and named.
pub(crate) fn what_was_taken_back_in_part_is_named_after_its_end() {
    let mut station = station();
    let spec = edna(GDPR);
    let request = of_one(&spec, Some(later(1)));
    let before = station.forum.everything();
    let id = station.forum.engine.apply(&request).unwrap().id;
    let story = "INSERT INTO stories VALUES (10, 2, 'made anew', 0)";
    station.forum.sql(story);
    assert!(!station.forum.reveal(1, id).is_complete());
    station.restore();
    for expected in [2, 1] {
        let done = station.replay_at(GDPR, later(4));
        assert_eq!(done.len(), expected, "{done:?}");
        assert!(why(&done[0]).contains("it has ended, after"), "{done:?}");
        assert!(done[1..].iter().all(|it| why(it).is_empty()), "{done:?}");
        assert_eq!(station.forum.everything(), before);
    }
}

/// A disguise of everybody had ended, and somebody had taken back what it hid of them: a replay hid that for
/// good.
pub(crate) fn what_one_of_everybody_took_back_is_not_hidden_after_its_end() {
    let mut station = station();
    let spec = edna(BLANK);
    let request = ApplyRequest {
        user: None,
        ..of_one(&spec, Some(later(1)))
    };
    let before = station.forum.everything();
    let id = station.forum.engine.apply(&request).unwrap().id;
    assert!(station.forum.reveal(1, id).is_complete());
    station.restore();
    let done = station.replay_at(BLANK, later(4));
    assert!(why(&done[0]).contains("apply it anew"), "{done:?}");
    assert_eq!(station.forum.everything(), before);
    assert_eq!(station.replay_at(BLANK, later(4)).len(), 1);
}

/// Somebody came back and had everything forgotten. A replay hid them again under the key that they had
/// thrown away, and asked for it.
pub(crate) fn who_forgot_everything_after_coming_back_is_not_hidden_again() {
    let mut station = station();
    station.unordered.set(true);
    let before = station.forum.everything();
    let gone = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.forget(1, None);
    station.restore();
    let done = station.replay_at(GDPR, time());
    let expected = [
        ("disguise.apply", &Replayability::Done),
        ("disguise.reveal", &Replayability::Done),
        ("disguise.forget", &Replayability::Done),
    ];
    assert_eq!(outlooks(&done), expected, "{done:?}");
    assert_eq!(station.forum.everything(), before);
    assert_eq!(station.replay_at(GDPR, time()), []);
}

/// A grace period was asked for twice, or followed by a disguise at once: the one that was left hid the
/// person again after they had come back. One waits, and ends once the same is applied.
pub(crate) fn what_waits_ends_with_a_disguise_of_the_same() {
    let mut station = station();
    let (spec, before) = (edna(GDPR), station.forum.everything());
    let id = station.schedule(&spec).unwrap();
    let refused = station.schedule(&spec);
    let Err(Error::Value { what }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(what.contains(&id.to_string()), "{what}");
    // That of another person, or with another specification, is not the same.
    let other = ApplyRequest {
        user: Some(Value::Int(2)),
        ..of_one(&spec, None)
    };
    let mut schedule = station.forum.engine.schedule();
    let others = schedule.add(&other, later(9)).unwrap();
    assert_eq!(schedule.like(&of_one(&spec, None)).unwrap(), [id]);
    station.apply(BLANK, Some(3));
    station.back_up();
    let gone = station.apply(GDPR, Some(1));
    assert_eq!(gone.ended, [id]);
    let said = format!("\"scheduled\":[\"{id}\"]");
    assert!(station.texts.borrow().last().unwrap().contains(&said));
    assert_eq!(station.waiting(), [others]);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    assert_eq!(station.swept(2), [[], []]);
    // A replay of a backup in which it waits ends it, too.
    station.restore();
    assert_eq!(station.waiting(), [id, others]);
    let done = station.replay_at(GDPR, time());
    assert!(why(&done[1]).contains("reveal it again"), "{done:?}");
    assert!(station.forum.reveal(1, gone.id).is_complete());
    assert_eq!(station.waiting(), [others]);
    // One that begins in chunks ends it, too.
    station.restore();
    let chunked = of_one(&spec, None);
    let mut chunks = station.forum.engine.chunks();
    let begun = chunks.begin(&chunked).unwrap();
    assert!(station.texts.borrow().last().unwrap().contains(&said));
    assert_eq!(station.waiting(), [others]);
    let refused = station.schedule(&spec);
    assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
    let mut chunks = station.forum.engine.chunks();
    chunks.finish(begun, 1, time).unwrap();
    station.forum.reveal(1, begun);
    let blank = station.forum.everything();
    assert_eq!(station.swept(2), [[], []]);
    assert_eq!(station.forum.everything(), blank);
    assert_eq!(blank.len(), before.len());
}

/// A program before took two of the same. The sweep that applies the first ends the second.
pub(crate) fn two_that_waited_for_the_same_are_applied_once() {
    let mut station = station();
    let id = station.schedule(&edna(GDPR)).unwrap();
    let mut row = station.rows("probity_scheduled").remove(0);
    row[0] = Value::Bytes(vec![7; 8]);
    row[1] = Value::Int(later(2).nanoseconds());
    let sql = "INSERT INTO probity_scheduled VALUES (?, ?, ?)";
    station.forum.engine.database().execute(sql, &row).unwrap();
    let swept = station.forum.engine.schedule().sweep(later(3)).unwrap();
    assert_eq!((swept.applied.len(), swept.refused.len()), (1, 0));
    assert_eq!(swept.applied[0].ended.len(), 1);
    assert!(station.forum.reveal(1, id).is_complete());
    assert_eq!(station.swept(4), [[], []]);
}

/// A disguise that was due while the account was away was refused by each sweep, until the person came
/// back: the next one hid them again.
pub(crate) fn what_was_due_while_the_account_was_away_ends_with_its_return() {
    let mut station = station();
    let id = station.schedule(&edna(BLANK)).unwrap();
    let gone = station.apply(GDPR, Some(1));
    assert_eq!(station.waiting(), [id]);
    station.back_up();
    // One that is not due yet stays.
    assert_eq!(station.reveal_at(gone.id, time()).ended, []);
    assert_eq!(station.waiting(), [id]);
    station.restore();
    assert_eq!(station.swept(2), [vec![], vec![id]]);
    let back = station.reveal_at(gone.id, later(2));
    assert_eq!(back.ended, [id]);
    assert_eq!(station.swept(3), [[], []]);
    station.forum.assert_as_before();
}

/// A disguise was lost with a backup that nobody replayed, and its person, in clear, had everything forgotten.
/// A replay of an older backup hid them, and threw away what brings them back.
pub(crate) fn who_forgot_everything_where_a_disguise_was_not_keeps_what_opens_it() {
    let mut station = station();
    let before = station.forum.everything();
    let gone = station.apply(GDPR, Some(1));
    station.restore();
    station.forget(1, None);
    station.restore();
    for is_first in [true, false] {
        let done = station.replay_at(GDPR, time());
        assert_eq!(done.len(), if is_first { 2 } else { 1 }, "{done:?}");
        let last = why(done.last().unwrap());
        assert!(last.contains("forget everything again"), "{done:?}");
    }
    assert!(station.forum.reveal(1, gone.id).is_complete());
    assert_eq!(station.forum.everything(), before);
    station.forget(1, None);
    assert_eq!(station.replay_at(GDPR, time()), []);
    // One of everybody is not made again over them.
    let mut station = self::station();
    let before = station.forum.everything();
    station.apply(BLANK, None);
    station.restore();
    station.forget(2, None);
    station.restore();
    // The forgetting ends the registration of the second person.
    for reason in ["Apply it anew", "belong to nobody who is registered"] {
        let done = station.replay_at(BLANK, time());
        assert!(why(&done[0]).contains(reason), "{done:?}");
        assert!(done[1..].iter().all(|it| why(it).is_empty()), "{done:?}");
        assert_eq!(station.forum.everything(), before);
    }
}

/// A disguise that hid nothing, for another one held the rows, was made again by a replay without that other one,
/// which had been taken back: it hid the rows, whose records nobody could open.
pub(crate) fn a_disguise_after_one_that_was_taken_back_hides_no_more_than_it_did() {
    for is_begun in [false, true] {
        let mut station = station();
        let before = station.forum.everything();
        let first = if is_begun {
            let begun = begin(&mut station.forum, BLANK, Some(1), false).unwrap();
            station
                .forum
                .engine
                .chunks()
                .proceed(begun, 1, time())
                .unwrap();
            begun
        } else {
            station.apply(BLANK, Some(1)).id
        };
        station.apply(ANON, Some(1));
        assert!(station.forum.reveal(1, first).found);
        station.forget(1, None);
        station.restore();
        let specs = [edna(BLANK), edna(ANON)];
        for _ in 0..2 {
            let done = station.replay(&specs, &[]);
            let anon = done.iter().find(|it| !why(it).is_empty());
            let anon = anon.unwrap_or_else(|| panic!("{is_begun} {done:?}"));
            assert_eq!(anon.action, "disguise.apply", "{done:?}");
            assert!(why(anon).contains("taken back after it"), "{done:?}");
            assert_eq!(station.forum.everything(), before);
        }
    }
}

/// A replay made a disguise again before its person could reveal what the log reveals before it: those rows
/// came back in clear, and nothing said so.
pub(crate) fn what_is_revealed_after_a_replay_is_named_until_it_is_hidden_anew() {
    for (gone, text) in [(GDPR, "not listed any more"), (ANON, "in clear here")] {
        let mut station = station();
        let gone_id = station.apply(gone, Some(1)).id;
        station.back_up();
        assert!(station.forum.reveal(1, gone_id).is_complete());
        station.apply(BLANK, Some(1));
        station.restore();
        let specs = [edna(gone), edna(BLANK)];
        let done = station.replay(&specs, &[]);
        assert!(why(&done[0]).contains("reveal it again"), "{done:?}");
        assert!(station.forum.reveal(1, gone_id).is_complete());
        for _ in 0..2 {
            let done = station.replay(&specs, &[]);
            assert_eq!(done.len(), 1, "{done:?}");
            assert!(why(&done[0]).contains(text), "{done:?}");
        }
        station.apply(BLANK, Some(1));
        let done = station.replay(&specs, &[]);
        assert!(done.iter().all(|it| why(it).is_empty()), "{done:?}");
        assert_eq!(station.replay(&specs, &[]), []);
    }
}

/// A disguise in chunks ended one that waited for the same, and was cancelled. In a backup from before, that one
/// waited on, and a sweep hid the person.
pub(crate) fn what_ended_with_a_cancelled_disguise_does_not_wait_after_a_replay() {
    let mut station = station();
    let spec = edna(GDPR);
    let before = station.forum.everything();
    station.schedule(&spec).unwrap();
    station.back_up();
    let mut chunks = station.forum.engine.chunks();
    let begun = chunks.begin(&of_one(&spec, None)).unwrap();
    chunks.proceed(begun, 1, time()).unwrap();
    station
        .forum
        .engine
        .schedule()
        .cancel(begun, time())
        .unwrap();
    station.restore();
    assert_eq!(station.waiting().len(), 1);
    for _ in 0..2 {
        let done = station.replay_at(GDPR, time());
        assert!(why(&done[0]).contains("in clear here"), "{done:?}");
        assert_eq!(station.waiting(), []);
    }
    assert_eq!(station.swept(9), [[], []]);
    assert_eq!(station.forum.everything(), before);
}

/// A reveal found nothing where its disguise is not and will not be made again: the reveal that the log tells
/// of was listed at each replay, with advice that led nowhere.
pub(crate) fn a_reveal_of_what_is_not_made_again_is_not_listed() {
    let mut station = station();
    let gone = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.restore();
    assert!(!station.forum.reveal(1, gone.id).found);
    // The database goes on without the disguise.
    station.apply(BLANK, Some(2));
    let first = station.replay_at(GDPR, time());
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first.iter().all(|it| why(it).is_empty()), "{first:?}");
    assert_eq!(station.replay_at(GDPR, time()), []);
}
