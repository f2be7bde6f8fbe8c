//! Disguises of one person keep their order in a replay, or what went another way is listed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, Protection, ReplayRequest, Replayability, Spec, Value};
use probity_format::Timestamp;

use super::endings::later;
use super::forum::*;
use super::replay::{Station, edna, station, why};

fn of_one(spec: &Spec, expires: Option<Timestamp>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user: Some(Value::Int(1)),
        over: None,
        parameters: BTreeMap::new(),
        expires,
        time: time(),
    }
}

/// The specification of a disguise was not given, and a replay let a later one with an end take its rows: they were
/// lost, or came back though they had been forgotten.
pub(crate) fn a_disguise_waits_for_one_before_it_that_is_not_done() {
    for is_forgotten in [false, true] {
        let mut station = station();
        let first = station.apply(BLANK, Some(1));
        station.apply(ANON, Some(1));
        station.apply(BLANK, Some(2));
        if is_forgotten {
            station.forget(1, Some(first.id));
        }
        let after = station.forum.everything();
        station.restore();
        let before = station.forum.everything();
        let done = station.replay(&[edna(ANON)], &[]);
        assert!(
            why(&done[0]).contains("its specification is not given"),
            "{done:?}"
        );
        assert!(why(&done[1]).contains("is not done again"), "{done:?}");
        assert_eq!(station.forum.everything(), before);
        let done = station.replay(&[edna(ANON), edna(BLANK)], &[]);
        assert!(
            done.iter().all(|it| it.outlook == Replayability::Done),
            "{done:?}"
        );
        assert_eq!(station.forum.everything().len(), after.len());
        assert_eq!(station.forum.reveal(1, first.id).found, !is_forgotten);
    }
}

/// A disguise of everybody was held up by one of one person that cannot be done: all others stayed in clear.
pub(crate) fn a_disguise_of_everybody_does_not_wait_for_one_that_cannot_be_done() {
    let mut station = station();
    station
        .forum
        .sql("INSERT INTO users VALUES (9, 'newcomer', 0)");
    let mut people = station.forum.engine.people();
    let newcomer = Value::Int(9);
    people
        .register(&newcomer, Protection::Password("secret words"), time())
        .unwrap();
    station.apply(ANON, Some(9));
    station.apply(BLANK, None);
    station.restore();
    let done = station.replay(&[edna(ANON), edna(BLANK)], &[]);
    let blank = done
        .iter()
        .find(|it| it.outlook == Replayability::Done && it.action == "disguise.apply");
    assert!(blank.is_some(), "{done:?}");
}

/// A reveal that a person repeated after a replay ended what was scheduled, as due while they were away: by the log
/// they had been back by then. It is listed until it is asked for anew.
pub(crate) fn what_a_late_reveal_ended_is_listed() {
    let mut station = station();
    station.unordered.set(true);
    let spec = edna(BLANK);
    let mut schedule = station.forum.engine.schedule();
    let due = later(1);
    schedule.add(&of_one(&spec, None), due).unwrap();
    let gone = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.restore();
    let specs = [edna(BLANK), edna(GDPR)];
    let done = station.replay(&specs, &[]);
    assert!(why(&done[2]).contains("reveal it again"), "{done:?}");
    let back = station.reveal_at(gone.id, later(2));
    assert_eq!(back.ended.len(), 1);
    for _ in 0..2 {
        let done = station.replay(&specs, &[]);
        assert_eq!(done.len(), 1, "{done:?}");
        assert!(why(&done[0]).contains("was due after a reveal"), "{done:?}");
    }
    station.apply(BLANK, Some(1));
    assert_eq!(station.replay(&specs, &[]), []);
}

/// A reveal that was repeated left rows hidden that end, and the log's had left none: it passed for the same.
pub(crate) fn a_reveal_in_part_is_not_the_same_where_the_rest_ends() {
    let mut station = station();
    station.unordered.set(true);
    let (remove, leave) = (edna(REMOVE_ALL), edna(GDPR));
    let request = of_one(&remove, Some(later(9)));
    let first = station.forum.engine.apply(&request).unwrap().id;
    assert!(station.forum.reveal(1, first).is_complete());
    station.forum.engine.apply(&of_one(&leave, None)).unwrap();
    station.restore();
    let specs = [edna(REMOVE_ALL), edna(GDPR)];
    let done = station.replay(&specs, &[]);
    // Made before the reveal, it meets other rows than then.
    let otherwise = &done[2].outlook;
    assert!(matches!(otherwise, Replayability::Otherwise(_)), "{done:?}");
    let revealed = station.forum.reveal(1, first);
    let done = station.replay(&specs, &[]);
    let is_listed = done.iter().any(|it| it.action == "disguise.reveal");
    assert_eq!(is_listed, !revealed.is_complete(), "{done:?}");
}

/// In entries of programs before, which do not say what came after what. An apply was cut off before its commit, and asked for again. A replay makes both, the first of which holds the rows:
/// the second says so. Two like ones with the same numbers of rows may both have been done.
pub(crate) fn a_disguise_that_was_asked_for_twice_is_made_twice() {
    for is_cut_off in [true, false] {
        let mut station = station();
        station.unordered.set(true);
        let apply = |station: &mut Station| station.apply(REMOVE_ALL, Some(1)).id;
        let first = if is_cut_off {
            station.stop_before_the_commit(|station| {
                apply(station);
            });
            None
        } else {
            let first = apply(&mut station);
            let sql = "INSERT INTO moderations VALUES (2001, 1, 10, 1, 'late')";
            station.forum.sql(sql);
            Some(first)
        };
        let second = apply(&mut station);
        assert!(station.forum.reveal(1, second).found);
        station.restore();
        let done = station.replay(&[edna(REMOVE_ALL)], &[]);
        assert_eq!(done.len(), 3, "{done:?}");
        let told = matches!(done[1].outlook, Replayability::Otherwise(_));
        assert!(told, "{done:?}");
        assert!(why(&done[2]).contains("reveal it again"), "{done:?}");
        station.forum.reveal(1, second);
        if let Some(first) = first {
            // What is hidden by the log stays hidden.
            let left = "SELECT COUNT(*) FROM moderations WHERE user_id = 1";
            assert_eq!(station.forum.numbers(left), [0]);
            assert!(station.forum.reveal(1, first).found);
        }
    }
}

/// A row of two people was hidden by both, and the first took it back. The disguise of the second ended, and a replay
/// kept the row for good.
pub(crate) fn what_ended_keeps_no_row_that_another_person_took_back() {
    let mut station = station();
    let spec = edna(REMOVE_ALL);
    let shared = "SELECT COUNT(*) FROM moderations WHERE user_id = 1 OR moderator_user_id = 1";
    let before = station.forum.numbers(shared);
    let first = station.apply(REMOVE_ALL, Some(1));
    let second = ApplyRequest {
        user: Some(Value::Int(2)),
        ..of_one(&spec, Some(later(1)))
    };
    station.forum.engine.apply(&second).unwrap();
    station.forum.reveal(1, first.id);
    assert_eq!(station.forum.numbers(shared), before);
    station.restore();
    let done = station.replay_at(REMOVE_ALL, later(4));
    assert!(
        why(&done[1]).contains("another person took rows back"),
        "{done:?}"
    );
    assert!(why(&done[2]).contains("reveal it again"), "{done:?}");
    station.forum.reveal(1, first.id);
    assert_eq!(station.forum.numbers(shared), before);
    let left = station.replay_at(REMOVE_ALL, later(4));
    assert_eq!(left.len(), 1, "{left:?}");
    station.apply(REMOVE_ALL, Some(2));
    assert_eq!(station.replay_at(REMOVE_ALL, later(4)), []);
}

/// A replay held a disguise back that would take rows of one before it, which was taken back. Once another life of the
/// database had that one, the same replay did what it had refused.
pub(crate) fn what_another_life_made_again_is_not_here() {
    let mut station = station();
    let first = edna(REMOVE_ALL);
    let before = station.forum.everything();
    let request = of_one(&first, Some(later(1)));
    let id = station.forum.engine.apply(&request).unwrap().id;
    station.apply(GDPR_REMOVE, Some(1));
    station.forum.reveal(1, id);
    station.restore();
    let specs = [edna(REMOVE_ALL), edna(GDPR_REMOVE)];
    let replay = |station: &mut Station| {
        let told = station.told.borrow().clone();
        let request = ReplayRequest {
            told: &told,
            specs: &specs,
            parameters: BTreeMap::new(),
            time: later(4),
        };
        station.forum.engine.missed().replay(&request).unwrap()
    };
    // A life in which the first one is made again, before its end.
    station.replay(&specs, &[]);
    station.restore();
    for _ in 0..2 {
        let done = replay(&mut station);
        let held = done
            .iter()
            .find(|it| why(it).contains("taken back after it"));
        assert!(held.is_some(), "{done:?}");
        assert_eq!(station.forum.everything(), before);
    }
}
