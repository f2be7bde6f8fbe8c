//! Disguises in chunks: each a transaction, gone on with after a cut, taken back when half done.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    Applied, ApplyRequest, Authority, Credential, DisguiseId, Error, Holding, Progress, References,
    Spec, Value,
};

use super::forum::*;

/// Rows in a chunk: fewer than there are in any table.
const ROWS: u32 = 2;

fn begin(
    forum: &mut Forum,
    spec: &str,
    user: Option<i64>,
    over: bool,
) -> Result<DisguiseId, Error> {
    let spec = Spec::from_edna_json(spec).unwrap();
    let key = user.and_then(|user| forum.keys.get(&user));
    let request = ApplyRequest {
        spec: &spec,
        user: user.map(Value::Int),
        over: key.filter(|_| over).map(Credential::Key),
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    forum.engine.begin(&request)
}

/// Goes on until it is done; gives the number of chunks, too.
fn finish(forum: &mut Forum, id: DisguiseId) -> (Applied, usize) {
    let mut chunks = 0;
    loop {
        chunks += 1;
        match forum.engine.proceed(id, ROWS, time()).unwrap() {
            Progress::Going(_) => {}
            Progress::Done(applied) => return (applied, chunks),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn a_disguise_in_chunks_does_what_one_in_one_go_does_and_comes_back() {
    for spec in [GDPR, GDPR_REMOVE, ANON, BLANK] {
        let mut twin = forum();
        let whole = twin.apply(spec, Some(1), false).unwrap();
        let mut forum = forum();
        let id = begin(&mut forum, spec, Some(1), false).unwrap();
        assert_eq!(forum.engine.unfinished().unwrap(), [id]);
        assert_eq!(forum.everything(), forum.before.clone());
        let (applied, chunks) = finish(&mut forum, id);
        assert!(chunks > 1, "{spec}");
        assert_eq!(
            (applied.id, applied.pseudoprincipals),
            (id, whole.pseudoprincipals)
        );
        let touched = |it: &Applied| -> Vec<(String, u64)> {
            let rows = it.rows.clone().into_iter();
            rows.filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(touched(&applied), touched(&whole));
        assert!(forum.engine.unfinished().unwrap().is_empty());
        let sizes = |forum: &mut Forum| {
            forum
                .everything()
                .iter()
                .map(BTreeSet::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(&mut forum), sizes(&mut twin), "{spec}");
        assert!(forum.reveal(1, id).is_complete());
        forum.assert_as_before();
    }
}

pub(crate) fn a_half_applied_disguise_is_taken_back_and_not_gone_on_with() {
    for chunks in 1..6 {
        let mut forum = forum();
        let id = begin(&mut forum, GDPR, Some(2), false).unwrap();
        for _ in 0..chunks {
            forum.engine.proceed(id, ROWS, time()).unwrap();
        }
        let revealed = forum.reveal(2, id);
        assert!(revealed.is_complete(), "{chunks} {revealed:?}");
        forum.assert_as_before();
        let outcome = forum.engine.proceed(id, ROWS, time());
        assert!(matches!(outcome, Err(Error::NoSuchDisguise)), "{outcome:?}");
        assert!(forum.engine.unfinished().unwrap().is_empty());
    }
}

pub(crate) fn a_cut_in_a_chunk_loses_nothing_and_the_next_call_goes_on() {
    let mut forum = forum();
    let id = begin(&mut forum, GDPR_REMOVE, Some(1), false).unwrap();
    let mut cut = 1;
    let applied = loop {
        forum.left.set(cut);
        let outcome = forum.engine.proceed(id, ROWS, time());
        forum.left.set(u64::MAX);
        match outcome {
            Ok(Progress::Done(applied)) => break applied,
            Ok(_) => cut = 1,
            Err(Error::Database { .. } | Error::NotInstalled) => cut += 3,
            Err(other) => panic!("{other:?}"),
        }
    };
    let count = |table: &str| applied.rows.get(table).copied();
    assert_eq!(
        (count("stories"), count("moderations"), count("users")),
        (Some(3), Some(6), Some(1))
    );
    assert!(forum.reveal(1, id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn what_cannot_be_done_in_chunks_is_refused_and_a_hold_stops_it() {
    let mut forum = forum();
    for (spec, user, over) in [
        (GDPR, None, false),
        (GDPR, Some(1), true),
        (GROUPED, Some(1), false),
    ] {
        let outcome = begin(&mut forum, spec, user, over);
        let Err(Error::Value { what }) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(what.ends_with("cannot be done in chunks"), "{what}");
    }
    assert!(forum.engine.unfinished().unwrap().is_empty());
    let id = begin(&mut forum, GDPR, Some(3), false).unwrap();
    forum.engine.proceed(id, ROWS, time()).unwrap();
    let authority = Authority {
        actor: "court",
        basis: "7 C 81/26",
        time: time(),
    };
    let three = Value::Int(3);
    let hold = forum
        .engine
        .hold(Holding::Person(&three), &authority)
        .unwrap();
    let half = forum.everything();
    let outcome = forum.engine.proceed(id, ROWS, time());
    assert!(matches!(outcome, Err(Error::Held { .. })), "{outcome:?}");
    assert_eq!(forum.everything(), half);
    forum.engine.lift(hold, &authority).unwrap();
    finish(&mut forum, id);
    let revealed = forum.reveal_as(3, id, References::Recorrelate).unwrap();
    assert!(revealed.is_complete());
    forum.assert_as_before();
}
