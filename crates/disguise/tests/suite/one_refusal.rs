//! A refusal for one person, which keeps no other operation of a run away.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, DecayRequest, Dialect, Replayability, Spec, Value};

use super::endings::later;
use super::forum::*;
use super::replay::{edna, outlooks, station, why};

/// Makes all stories of a person alike, which the database refuses of whoever has several.
const ALIKE: &str = r#"{"stories": [{"Modify": {"pred": "True", "from": "", "col": "is_moderated", "gen_value": {"ConstNum": 7}}}]}"#;

/// Leaves to 2 and 3 one story each.
fn of_one_story(forum: &mut Forum) {
    forum.sql("UPDATE stories SET is_moderated = id");
    for user in [2, 3] {
        let of_user = format!("FROM stories WHERE user_id = {user}");
        let kept = forum.numbers(&format!("SELECT MIN(id) {of_user}"))[0];
        forum.sql(&format!("DELETE {of_user} AND id <> {kept}"));
    }
}

fn block(forum: &mut Forum) {
    forum.sql("CREATE UNIQUE INDEX unlike ON stories (user_id, is_moderated)");
}

fn alike(forum: &mut Forum) -> Vec<i64> {
    forum.numbers("SELECT user_id FROM stories WHERE is_moderated = 7")
}

/// After one of them whoever had left later stayed in clear, in each replay.
pub(crate) fn a_replay_goes_on_after_what_the_database_refuses() {
    let mut station = station();
    of_one_story(&mut station.forum);
    station.back_up();
    for user in [1, 2] {
        station.apply(ALIKE, Some(user));
    }
    station.restore();
    block(&mut station.forum);
    for times in [2, 1] {
        let missed = station.replay(&[edna(ALIKE)], &[]);
        assert_eq!(missed.len(), times, "{missed:?}");
        let (refused, done) = missed.split_first().unwrap();
        assert!(why(refused).contains("stories"), "{refused:?}");
        assert!(outlooks(done).iter().all(|it| *it.1 == Replayability::Done));
    }
    assert_eq!(alike(&mut station.forum), [2]);
}

fn request(spec: &Spec) -> DecayRequest<'_> {
    DecayRequest {
        spec,
        inactive: "users.karma < 5",
        parameters: BTreeMap::new(),
        expires: None,
        after: None,
        page: 10,
        time: time(),
    }
}

/// Nobody after somebody whom the database does not let go was ever disguised.
pub(crate) fn a_decay_goes_on_after_whom_the_database_refuses() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 3)");
    of_one_story(&mut forum);
    block(&mut forum);
    let spec = Spec::from_edna_json(ALIKE).unwrap();
    let decayed = forum.engine.decay().apply(&request(&spec)).unwrap();
    assert_eq!((decayed.refused.len(), decayed.applied.len()), (1, 1));
    assert_eq!(alike(&mut forum), [3]);
}

/// No other scheduled disguise was applied, and no record destroyed, as long as one was refused.
pub(crate) fn a_sweep_goes_on_after_what_the_database_refuses() {
    let mut forum = forum();
    of_one_story(&mut forum);
    let spec = Spec::from_edna_json(ALIKE).unwrap();
    for (user, due) in [(1, 1), (2, 2)] {
        let request = ApplyRequest {
            spec: &spec,
            user: Some(Value::Int(user)),
            over: None,
            expires: Some(later(3)),
            parameters: BTreeMap::new(),
            time: time(),
        };
        forum.engine.schedule().add(&request, later(due)).unwrap();
    }
    block(&mut forum);
    let swept = forum.engine.schedule().sweep(later(2)).unwrap();
    assert_eq!((swept.refused.len(), swept.applied.len()), (1, 1));
    let swept = forum.engine.schedule().sweep(later(4)).unwrap();
    assert_eq!((swept.refused.len(), swept.applied.len()), (1, 0));
    assert!(swept.records > 0);
    assert_eq!(forum.engine.schedule().list(None).unwrap().len(), 1);
}

/// Errors of a trigger that say nothing of the row ended it in the same way.
pub(crate) fn a_decay_goes_on_after_whom_a_trigger_does_not_let_go() {
    let mut forum = forum();
    let trigger: &[&str] = match crate::connect().dialect() {
        Dialect::Sqlite => &[
            "CREATE TRIGGER fails BEFORE UPDATE ON stories WHEN old.user_id = 1 \
             BEGIN SELECT abs(-9223372036854775807 - 1); END",
        ],
        Dialect::Postgres => &[
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN IF old.user_id = 1 THEN RAISE EXCEPTION ''no'' USING ERRCODE = ''22023''; \
             END IF; RETURN new; END'",
            "CREATE TRIGGER fails BEFORE UPDATE ON stories FOR EACH ROW EXECUTE FUNCTION fails()",
        ],
        // What its triggers raise counts as a refusal of the row.
        _ => return,
    };
    for sql in trigger {
        forum.sql(sql);
    }
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 3)");
    let spec = Spec::from_edna_json(ALIKE).unwrap();
    let decayed = forum.engine.decay().apply(&request(&spec)).unwrap();
    assert_eq!((decayed.refused.len(), decayed.applied.len()), (1, 1));
    assert_eq!(alike(&mut forum), [3, 3, 3]);
}
