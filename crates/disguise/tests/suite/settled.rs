//! The order of the operations settles some: people who came back stay, and what was cut off and asked for again is done
//! once.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeSet;

use probity_disguise::{Credential, Holding, MissingOperation, Replayability, Value};

use super::chunks::begin;
use super::endings::later;
use super::every_action::{court, request};
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

const MADE_AND_BACK: [(&str, &Replayability); 2] = [
    ("disguise.apply", &Replayability::TakenBack),
    ("disguise.reveal", &Replayability::TakenBack),
];

impl Station {
    fn replayed(&mut self) -> Vec<MissingOperation> {
        let specs = [GDPR, GDPR_REMOVE, REMOVE_ALL, ANON, BLANK].map(edna);
        self.replay(&specs, &[])
    }

    /// Returns what the last entry names as done before its operation.
    fn last_after(&self) -> Option<Vec<String>> {
        let texts = self.texts.borrow();
        let payload = texts.last().unwrap().split_once(" {").unwrap().1;
        let payload: serde_json::Value = serde_json::from_str(&format!("{{{payload}")).unwrap();
        let after = payload.get("after")?.as_array().unwrap();
        Some(
            after
                .iter()
                .map(|id| id.as_str().unwrap().to_owned())
                .collect(),
        )
    }

    /// Returns the id of the last operation of the log.
    fn last_operation(&self) -> String {
        let texts = self.texts.borrow();
        let (_, rest) = texts
            .last()
            .unwrap()
            .split_once("\"operation\":\"")
            .unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }
}

/// Somebody left and came back, and the backup has neither. A replay hid them again, and asked for their credential to
/// bring them back. They stay, at every replay and whatever is done in between.
pub(crate) fn who_came_back_is_not_hidden_by_a_replay() {
    let mut station = station();
    let before = station.forum.everything();
    let gone = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, gone.id).is_complete());
    for _ in 0..2 {
        station.restore();
        let look = station.replay_or_look(&[], &[], false);
        assert_eq!(outlooks(&look), MADE_AND_BACK);
        assert_eq!(outlooks(&station.replayed()), MADE_AND_BACK);
        assert_eq!(station.forum.everything(), before);
        assert_eq!(station.replayed(), []);
    }
    // The database goes on, and another backup of that time is restored once more.
    station.back_up();
    let other = station.apply(BLANK, Some(2));
    assert_eq!(station.replayed(), []);
    station.restore();
    let done = station.replayed();
    assert_eq!(outlooks(&done), [("disguise.apply", &Replayability::Done)]);
    assert!(station.forum.reveal(2, other.id).is_complete());
    station.forum.assert_as_before();
}

/// A backup has the disguise, and not its reveal: that takes the credential, as before.
pub(crate) fn what_a_backup_has_is_revealed_again() {
    let mut station = station();
    let gone = station.apply(GDPR, Some(1));
    station.back_up();
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.restore();
    for _ in 0..2 {
        let done = station.replayed();
        assert_eq!(done.len(), 1, "{done:?}");
        assert!(why(&done[0]).contains("reveal it again"), "{done:?}");
    }
    assert!(station.forum.reveal(1, gone.id).is_complete());
    assert_eq!(station.replayed(), []);
    station.forum.assert_as_before();
}

/// A disguise that came after one which was taken back hid its own rows by the log. A replay made the first one again, so
/// that it held them, and the second one had other rows.
pub(crate) fn a_disguise_after_a_reveal_hides_what_it_hid() {
    let mut station = station();
    let first = station.apply(REMOVE_ALL, Some(1));
    assert!(station.forum.reveal(1, first.id).is_complete());
    let second = station.apply(GDPR_REMOVE, Some(1));
    let after = station.forum.everything();
    station.restore();
    let done = station.replayed();
    let [made, back] = MADE_AND_BACK;
    let expected = [made, back, ("disguise.apply", &Replayability::Done)];
    assert_eq!(outlooks(&done), expected);
    // Placeholders are drawn anew.
    let numbers = |all: &[BTreeSet<String>]| all.iter().map(BTreeSet::len).collect::<Vec<_>>();
    assert_eq!(numbers(&station.forum.everything()), numbers(&after));
    assert!(station.forum.reveal(1, second.id).is_complete());
    station.forum.assert_as_before();
}

/// Two disguises of one person, the second over the first, were both taken back, the second one first: nothing is left of
/// them. In the other order the first reveal left values to the second disguise, so that both are made again.
pub(crate) fn disguises_that_were_taken_back_whole_leave_nothing_to_do() {
    for is_nested in [true, false] {
        let mut station = station();
        let before = station.forum.everything();
        let one = station.apply(BLANK, Some(1)).id;
        let other = station.apply(GDPR_REMOVE, Some(1)).id;
        let order = if is_nested {
            [other, one]
        } else {
            [one, other]
        };
        for id in order {
            station.forum.reveal(1, id);
        }
        assert_eq!(station.forum.everything(), before);
        station.restore();
        let done = station.replayed();
        let is_back = |it: &MissingOperation| it.outlook == Replayability::TakenBack;
        assert_eq!(
            done.iter().filter(|it| is_back(it)).count(),
            if is_nested { 4 } else { 0 },
            "{done:?}"
        );
        if !is_nested {
            for id in order {
                station.forum.reveal(1, id);
            }
        }
        assert_eq!(station.forum.everything(), before);
        assert_eq!(station.replayed(), []);
    }
}

/// A forgetting waited for the reveal of another person, which might have given its records other names: the next replay did
/// it, and where nobody asked for that it was never done.
pub(crate) fn a_forgetting_waits_for_no_reveal_of_another_person() {
    let mut station = station();
    let theirs = station.apply(GDPR_REMOVE, Some(1));
    station.apply(BLANK, Some(2));
    station.back_up();
    assert!(station.forum.reveal(1, theirs.id).found);
    station.forget(2, None);
    station.restore();
    let done = station.replayed();
    assert_eq!(done[1].action, "disguise.forget", "{done:?}");
    assert_eq!(done[1].outlook, Replayability::Done, "{done:?}");
    assert!(why(&done[0]).contains("reveal it again"), "{done:?}");
    assert!(station.forum.reveal(1, theirs.id).found);
    assert_eq!(station.replayed(), []);
}

/// Another disguise in between met the rows of the first one, or lacked them: one of its person, of everybody, and of
/// another person who shares rows. Each is made again in its order.
pub(crate) fn a_disguise_that_others_met_is_made_again_in_its_order() {
    let others: [(&str, Option<i64>, &str); 3] = [
        (BLANK, Some(1), GDPR_REMOVE),
        (GDPR_REMOVE, None, BLANK),
        (REMOVE_ALL, Some(2), REMOVE_ALL),
    ];
    for (first, user, second) in others {
        let mut station = station();
        let gone = station.apply(first, Some(1));
        station.apply(second, user);
        station.forum.reveal(1, gone.id);
        station.restore();
        let done = station.replayed();
        assert!(
            why(&done[2]).contains("reveal it again"),
            "{user:?} {done:?}"
        );
        let is_made =
            |it: &MissingOperation| why(it).is_empty() && it.outlook != Replayability::TakenBack;
        assert!(done[..2].iter().all(is_made), "{user:?} {done:?}");
        assert!(station.forum.reveal(1, gone.id).found);
    }
}

/// Others left and came back in between, in rows of their own: that is nothing to a disguise that was taken back.
pub(crate) fn what_others_did_with_their_own_rows_holds_nobody_away() {
    let mut station = station();
    let gone = station.apply(BLANK, Some(1));
    let other = station.apply(BLANK, Some(2));
    let third = station.apply(BLANK, Some(3));
    station.forum.reveal(3, third.id);
    station.forum.reveal(1, gone.id);
    let after = station.forum.everything();
    station.restore();
    let done = station.replayed();
    let made: BTreeSet<&str> = done
        .iter()
        .filter(|it| it.outlook == Replayability::Done)
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(made, BTreeSet::from([&*other.id.to_string()]), "{done:?}");
    assert_eq!(station.forum.everything().len(), after.len());
    station.forum.reveal(2, other.id);
    station.forum.assert_as_before();
}

/// Clocks of two machines put a disguise of everybody before one that it came after. Their order in the log says nothing
/// then, and the reveal of the person is asked for.
pub(crate) fn an_order_that_the_log_contradicts_settles_nothing() {
    let mut station = station();
    let gone = station.apply(GDPR_REMOVE, Some(1));
    station.apply(BLANK, None);
    assert!(station.forum.reveal(1, gone.id).is_complete());
    station.told.borrow_mut().swap(0, 1);
    station.restore();
    let done = station.replayed();
    assert_eq!(done.len(), 3, "{done:?}");
    assert!(
        done.iter().all(|it| it.outlook != Replayability::TakenBack),
        "{done:?}"
    );
}

/// A reveal was cut off before its commit, and others went on: by the log its person is hidden. So they are hidden again,
/// and the reveal is listed.
pub(crate) fn a_reveal_that_was_cut_off_brings_nobody_back() {
    let mut station = station();
    let start = station.state();
    let gone = station.apply(GDPR, Some(1));
    station.stop_before_the_commit(|station| {
        station.forum.reveal(1, gone.id);
    });
    station.apply(BLANK, Some(3));
    let hidden = station.forum.everything();
    station.set_state(&start);
    let done = station.replayed();
    assert_eq!(done[0].outlook, Replayability::Done, "{done:?}");
    assert!(why(&done[1]).contains("reveal it again"), "{done:?}");
    assert_eq!(station.forum.everything()[0].len(), hidden[0].len());
    assert!(station.forum.reveal(1, gone.id).is_complete());
}

/// An apply was cut off before its commit, and asked for again: a replay made both, and the first one, whose id nobody has,
/// held the rows. With an end they were lost. It is done once by each replay, whether or not its person came back since, and
/// whoever asked in between for what was cut off, and found nothing.
pub(crate) fn what_was_cut_off_and_asked_for_again_is_done_once() {
    for (is_back, is_looked_for) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut station = station();
        let before = station.forum.everything();
        let mut lost = None;
        station.stop_before_the_commit(|station| {
            lost = Some(station.apply(REMOVE_ALL, Some(1)).id);
        });
        if is_looked_for {
            for user in [1, 2] {
                assert!(!station.forum.reveal(user, lost.unwrap()).found);
            }
        }
        let id = station.apply(REMOVE_ALL, Some(1)).id;
        if is_back {
            assert!(station.forum.reveal(1, id).is_complete());
        }
        let after = station.forum.everything();
        for _ in 0..3 {
            station.restore();
            let done = station.replayed();
            assert_eq!(done[0].outlook, Replayability::AskedAgain, "{done:?}");
            let [made, back] = MADE_AND_BACK;
            if is_back {
                assert_eq!(outlooks(&done)[1..], [made, back]);
            } else {
                assert_eq!(
                    outlooks(&done)[1..],
                    [("disguise.apply", &Replayability::Done)]
                );
            }
            assert_eq!(station.forum.everything()[2].len(), after[2].len());
            assert_eq!(station.replayed(), []);
        }
        // Something else is done then, and the backup is restored once more.
        let other = station.apply(BLANK, Some(3)).id;
        station.restore();
        let done = station.replayed();
        assert_eq!(done[0].outlook, Replayability::AskedAgain, "{done:?}");
        assert_eq!(station.replayed(), []);
        assert!(station.forum.reveal(3, other).is_complete());
        assert_eq!(station.forum.reveal(1, id).found, !is_back);
        assert_eq!(station.forum.everything(), before);
    }
}

/// A backup had a disguise of a life that was lost; its person asked for the same again, and came back. They stayed hidden by the
/// first one, and nothing was listed.
pub(crate) fn a_disguise_of_another_life_hides_nobody_who_came_back() {
    let mut station = station();
    let before = station.forum.everything();
    let lost = station.apply(REMOVE_ALL, Some(1)).id;
    let other = station.state();
    station.restore();
    let id = station.apply(REMOVE_ALL, Some(1)).id;
    assert!(station.forum.reveal(1, id).is_complete());
    station.set_state(&other);
    for _ in 0..2 {
        let listed = station.replayed();
        let strayed = listed.iter().find(|it| it.key == lost.to_string());
        assert!(
            strayed.is_some_and(|it| why(it).contains("another life")),
            "{listed:?}"
        );
    }
    assert!(station.forum.reveal(1, lost).is_complete());
    assert_eq!(station.forum.everything(), before);
    assert_eq!(station.replayed(), []);
}

/// A hold on a disguise that a replay does not make was said to be done, and bound nothing: what was applied anew in the place of
/// that one was forgotten. It is listed until an authority has decided.
pub(crate) fn a_hold_on_a_disguise_that_is_not_here_is_listed() {
    let mut station = station();
    station.apply(ANON, None);
    station.back_up();
    let gone = station.forum.apply(BLANK, Some(1), true).unwrap();
    let mut holds = station.forum.engine.holds();
    holds.place(Holding::Disguise(gone.id), &court()).unwrap();
    station.restore();
    for _ in 0..2 {
        let done = station.replayed();
        assert!(why(&done[0]).contains("credential"), "{done:?}");
        assert!(
            why(&done[1]).contains("the disguise that it holds"),
            "{done:?}"
        );
    }
    station.forum.apply(BLANK, Some(1), true).unwrap();
    let done = station.replayed();
    let holds: Vec<&MissingOperation> = done
        .iter()
        .filter(|it| it.action == "disguise.hold")
        .collect();
    assert!(holds.len() == 1 && !why(holds[0]).is_empty(), "{done:?}");
}

/// Somebody had everything forgotten, which ended what waited for them. A replay found it by the row of the person, who was
/// away: it stayed scheduled, and each sweep was refused.
pub(crate) fn a_forgetting_ends_again_what_waited_for_somebody_away() {
    let mut station = station();
    let blank = edna(BLANK);
    let waiting = request(&blank, Some(1), None);
    let mut schedule = station.forum.engine.schedule();
    schedule.add(&waiting, later(30)).unwrap();
    station.apply(GDPR, Some(1));
    station.back_up();
    station.forget(1, None);
    station.restore();
    let done = station.replayed();
    assert_eq!(
        outlooks(&done),
        [("disguise.forget", &Replayability::Done)],
        "{done:?}"
    );
    let left = station
        .forum
        .numbers("SELECT COUNT(*) FROM probity_scheduled");
    assert_eq!(left, [0]);
}

/// A disguise in chunks stopped, another one with an end came, and the first went on. A replay made the first at its end, so that
/// the second took its rows, and destroyed them with its own end.
pub(crate) fn a_disguise_in_the_middle_of_another_takes_none_of_its_rows() {
    let mut station = station();
    let begun = begin(&mut station.forum, REMOVE_ALL, Some(1), false).unwrap();
    let mut chunks = station.forum.engine.chunks();
    chunks.proceed(begun, 4, time()).unwrap();
    let blank = edna(BLANK);
    let ending = request(&blank, Some(1), Some(later(1)));
    station.forum.engine.apply(&ending).unwrap();
    let mut chunks = station.forum.engine.chunks();
    chunks.finish(begun, 100, time).unwrap();
    station.restore();
    for _ in 0..2 {
        let done = station.replayed();
        let ending = done
            .iter()
            .find(|it| why(it).contains("disguise before it"));
        assert!(ending.is_some(), "{done:?}");
    }
    assert!(station.forum.reveal(1, begun).is_complete());
    station.forum.assert_as_before();
}

/// A disguise was asked for twice, and both were done: the second hid what had been written since. Each is one of its own.
pub(crate) fn what_was_asked_for_twice_and_done_is_done_twice() {
    let mut station = station();
    let first = station.apply(REMOVE_ALL, Some(1)).id;
    let second = station.apply(REMOVE_ALL, Some(1)).id;
    station.apply(BLANK, Some(3));
    station.restore();
    let done = station.replayed();
    assert_eq!(
        outlooks(&done),
        [("disguise.apply", &Replayability::Done); 3]
    );
    assert!(station.forum.reveal(1, first).found);
    assert!(!station.forum.reveal(1, second).found);
}

/// Entries name the operations before theirs, so that a log shows what was committed. An operation of a program before
/// leaves the next one without any.
pub(crate) fn an_entry_names_the_operations_before_it() {
    let mut station = station();
    station.apply(BLANK, Some(1));
    // People were registered without a log.
    assert_eq!(station.last_after(), Some(Vec::new()));
    let mut last = station.last_operation();
    for user in 2..=4 {
        station.apply(BLANK, Some(user));
        assert_eq!(station.last_after(), Some(vec![last]));
        last = station.last_operation();
    }
    // Nothing comes after one that was cut off.
    station.stop_before_the_commit(|station| {
        station.apply(ANON, Some(1));
    });
    station.apply(ANON, Some(2));
    assert_eq!(station.last_after(), Some(vec![last]));
    // The rows of those that others came after do not pile up.
    for _ in 0..100 {
        station.apply(BLANK, Some(4));
    }
    assert!(station.rows("probity_latest").len() < 40);
    station.forum.sql("DELETE FROM probity_latest");
    station.apply(ANON, Some(3));
    assert_eq!(station.last_after(), None);
    // A backup of a database that a program before prepared has no such table, and the replay needs none.
    station
        .forum
        .sql("ALTER TABLE probity_latest RENAME TO kept");
    station.forget(4, None);
    assert_eq!(station.last_after(), None);
    station
        .forum
        .sql("ALTER TABLE kept RENAME TO probity_latest");
    station.forum.sql("DELETE FROM probity_latest");
    station.apply(ANON, Some(3));
    last = station.last_operation();
    station.apply(ANON, Some(2));
    assert_eq!(station.last_after(), Some(vec![last]));
    // A row that nothing wrote like this stops what would build on it.
    station
        .forum
        .sql("UPDATE probity_latest SET after = id WHERE 1 = 1");
    station
        .forum
        .sql("UPDATE probity_latest SET id = SUBSTR(id, 1, 7)");
    let credential = Credential::Key(&station.forum.keys[&1]);
    let engine = &mut station.forum.engine;
    let refused = engine.forget_everything(&Value::Int(1), &credential, time());
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("latest operations")
    );
}
