//! Missed operations that nobody wants done again end on the list of a replay.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{Authority, Error, MissingOperation, ReplayRequest, Replayability, Spec};

use super::every_action::court;
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

impl Station {
    pub(super) fn dismiss(
        &mut self,
        specs: &[Spec],
        operations: &[String],
        authority: &Authority<'_>,
    ) -> Result<(), Error> {
        let told = self.told.borrow().clone();
        let request = ReplayRequest {
            told: &told,
            specs,
            parameters: BTreeMap::new(),
            time: time(),
        };
        let mut missed = self.forum.engine.missed();
        missed.dismiss(&request, operations, authority)
    }

    /// A disguise of everybody that the database lacks, and went on without.
    fn lacks_one_of_everybody(&mut self) -> Vec<MissingOperation> {
        self.apply(BLANK, None);
        self.restore();
        self.apply(GDPR, Some(1));
        let listed = self.replay(&[edna(BLANK), edna(GDPR)], &[]);
        assert!(
            listed.len() == 1 && !why(&listed[0]).is_empty(),
            "{listed:?}"
        );
        listed
    }
}

fn names(listed: &[MissingOperation]) -> Vec<String> {
    let names = listed.iter().filter_map(|it| it.operation.clone());
    names.collect()
}

/// A disguise of everybody that nobody wanted any more was on the list of each replay for ever, with status 4. It ends once
/// somebody says so, which the log records; a backup from before lists it again.
pub(crate) fn what_nobody_wants_any_more_is_dismissed() {
    let mut station = station();
    let specs = [edna(BLANK), edna(GDPR)];
    let listed = station.lacks_one_of_everybody();
    let before = station.forum.everything();
    station.dismiss(&specs, &names(&listed), &court()).unwrap();
    let entry = station.texts.borrow().last().unwrap().clone();
    assert!(entry.starts_with("disguise.dismiss"), "{entry}");
    assert!(
        entry.contains("\"dismissed\":\"disguise.apply\"") && entry.contains(&listed[0].key),
        "{entry}"
    );
    for really in [false, true] {
        assert_eq!(station.replay_or_look(&specs, &[], really), []);
        assert_eq!(station.replay_or_look(&[], &[], really), []);
    }
    assert_eq!(station.forum.everything(), before);
    let state = station.state();
    station.restore();
    let done = station.replay(&specs, &[]);
    assert!(
        outlooks(&done)
            .iter()
            .any(|it| it.0 == "disguise.apply" && *it.1 == Replayability::Done),
        "{done:?}"
    );
    station.set_state(&state);
    assert_eq!(station.replay(&specs, &[]), []);
}

/// Nothing is dismissed that a replay does, or that it would do with the specification, nor what is not on the list, and nothing
/// without a log and an authority that can be recorded.
pub(crate) fn what_can_be_done_is_not_dismissed() {
    let mut station = station();
    station.apply(GDPR, Some(1));
    let gone = station.apply(BLANK, Some(2));
    station.back_up();
    station.forum.reveal(2, gone.id);
    let after = station.state();
    station.restore();
    let specs = [edna(GDPR), edna(BLANK)];
    let is_refused = |it: &Result<(), Error>| matches!(it, Err(Error::Value { .. }));
    let listed = station.replay_or_look(&specs, &[], false);
    let all = names(&listed);
    let never = ["0f".repeat(8)];
    let unwanted = station.dismiss(&specs, &never, &court());
    assert!(is_refused(&unwanted), "{unwanted:?}");
    // With one that is wrong none is dismissed.
    let both = [all[0].clone(), never[0].clone()];
    assert!(is_refused(&station.dismiss(&specs, &both, &court())));
    assert_eq!(station.replay_or_look(&specs, &[], false), listed);
    let nobody = Authority {
        actor: "",
        ..court()
    };
    assert!(is_refused(&station.dismiss(&specs, &all, &nobody)));
    station.dismiss(&specs, &all, &court()).unwrap();
    assert_eq!(station.replay(&specs, &[]), []);
    // It is there again, and nothing is listed: one of everybody waits for its specification alone.
    station.set_state(&after);
    station.back_up();
    station.apply(BLANK, None);
    station.restore();
    let listed = station.replay_or_look(&[], &[], false);
    let refused = station.dismiss(&[], &names(&listed), &court());
    assert!(
        matches!(&refused, Err(Error::Value { what }) if what.contains("specification")),
        "{refused:?}"
    );
    let refused = station.dismiss(&specs, &names(&listed), &court());
    assert!(
        matches!(&refused, Err(Error::Value { what }) if what.contains("a replay does it")),
        "{refused:?}"
    );
}

/// A disguise waits for an earlier one of its person that is not done again, and not for one that was dismissed.
pub(crate) fn a_dismissed_disguise_keeps_no_later_one_waiting() {
    let mut station = station();
    station.apply(ANON, None);
    station.back_up();
    station.forum.apply(BLANK, Some(1), true).unwrap();
    station.apply(GDPR_REMOVE, Some(1));
    station.restore();
    let specs = [edna(BLANK), edna(GDPR_REMOVE)];
    let listed = station.replay_or_look(&specs, &[], false);
    assert!(why(&listed[0]).contains("credential"), "{listed:?}");
    assert!(why(&listed[1]).contains("before it"), "{listed:?}");
    let first = names(&listed[..1]);
    station.dismiss(&specs, &first, &court()).unwrap();
    let done = station.replay(&specs, &[]);
    assert_eq!(outlooks(&done), [("disguise.apply", &Replayability::Done)]);
    assert_eq!(station.replay(&specs, &[]), []);
}
