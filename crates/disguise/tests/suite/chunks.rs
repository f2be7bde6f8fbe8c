//! Disguises in chunks: each a transaction, gone on with after a cut, taken back when half done.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    Applied, ApplyRequest, Authority, Credential, DisguiseId, Engine, Error, Holding, Progress,
    Protection, References, SecretKey, Spec, Suite, Value,
};

use super::forum::*;

/// Rows in a chunk: fewer than there are in any table.
const ROWS: u32 = 2;
/// The most chunks that a disguise of the forum may take.
const CHUNKS_MAX: usize = 200;
/// Ids from here on are those of placeholders.
const PLACEHOLDER_MIN: i64 = 1_000_000;
/// Every table, and whose rows are gone through: of everybody or of the first user, alone or with what they speak for.
pub(super) const CASES: [(&str, Option<i64>); 12] = [
    (ANON, None),
    (GDPR, None),
    (GDPR_REMOVE, None),
    (REMOVE_ALL, None),
    (GROUPED, None),
    (BOTH_GROUPED, None),
    (GDPR, Some(1)),
    (GDPR_REMOVE, Some(1)),
    (ANON, Some(1)),
    (BLANK, Some(1)),
    (GROUPED, Some(1)),
    (BOTH_GROUPED, Some(1)),
];
/// Both people of a moderation are replaced, one placeholder for each person and action.
const BOTH_GROUPED: &str = r#"{"moderations": [{"Decor": {"pred": "True", "from": "", "group_by_cols": ["action"],
  "user_fk_cols": ["moderator_user_id", "user_id"]}}]}"#;

pub(super) fn begin(
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
    forum.engine.chunks().begin(&request)
}

/// Goes on until it is done; gives the number of chunks, too.
fn finish(forum: &mut Forum, id: DisguiseId) -> (Applied, usize) {
    for chunks in 1..CHUNKS_MAX {
        match forum.engine.chunks().proceed(id, ROWS, time()).unwrap() {
            Progress::Going(_) => {}
            Progress::Done(applied) => return (applied, chunks),
            other => panic!("{other:?}"),
        }
    }
    panic!("there is no end to it");
}

/// Goes on for so many chunks, and says whether it is done.
fn go_on(forum: &mut Forum, id: DisguiseId, chunks: usize) -> bool {
    (0..chunks).any(|_| {
        let progress = forum.engine.chunks().proceed(id, ROWS, time()).unwrap();
        matches!(progress, Progress::Done(_))
    })
}

/// The program starts anew over the same database.
fn restart(forum: &mut Forum) {
    forum.engine = Engine::stored(forum.database.boxed()).unwrap();
}

/// The forum with placeholders named in the order in which they are met, and drawn texts all alike.
pub(super) fn shape(forum: &mut Forum) -> Vec<Vec<String>> {
    let mut names: BTreeMap<i64, usize> = BTreeMap::new();
    let mut shape = Vec::new();
    for table in ["moderations", "stories", "users"] {
        let mut rows = forum.engine.preview().rows(table).unwrap();
        rows.sort_by_key(|row| match row[0] {
            Value::Int(id) => id,
            _ => 0,
        });
        let placeholders = rows.len();
        rows.retain(|row| {
            table != "users" || !matches!(row[0], Value::Int(id) if id >= PLACEHOLDER_MIN)
        });
        let placeholders = placeholders - rows.len();
        let mut told = vec![format!("{table}: {placeholders} placeholders")];
        for row in rows {
            let told_row = row.iter().map(|value| match value {
                Value::Int(id) if *id >= PLACEHOLDER_MIN => {
                    let next = names.len();
                    format!("placeholder {}", names.entry(*id).or_insert(next))
                }
                Value::Text(text) if text.len() == 12 => "drawn".to_owned(),
                other => other.to_string(),
            });
            told.push(told_row.collect::<Vec<_>>().join(", "));
        }
        shape.push(told);
    }
    shape
}

pub(super) fn touched(applied: &Applied) -> Vec<(String, u64)> {
    let rows = applied.rows.clone().into_iter();
    rows.filter(|(_, count)| *count > 0).collect()
}

/// Returns the people who may have records of a disguise.
fn people(user: Option<i64>) -> Vec<i64> {
    user.map_or_else(|| (1..=USERS).collect(), |user| vec![user])
}

/// Everybody reveals a disguise; what people share comes back with the last of them.
pub(super) fn reveal_by_all(forum: &mut Forum, id: DisguiseId, user: Option<i64>) {
    for _ in 0..2 {
        for person in people(user) {
            match forum.reveal_as(person, id, References::Recorrelate) {
                Ok(_) | Err(Error::NoSuchDisguise) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    forum.assert_as_before();
}

/// Checks that nothing is left of a disguise in chunks except the hidden records.
fn assert_over(forum: &mut Forum) {
    assert!(forum.engine.chunks().unfinished().unwrap().is_empty());
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM probity_intents"), [0]);
}

pub(crate) fn a_disguise_in_chunks_does_what_one_in_one_go_does_and_comes_back() {
    let (mut forum, mut twin) = (forum(), forum());
    // What was removed in chunks is read again in its turn.
    forum.engine.options().reveal_bytes = 0;
    for (spec, user) in CASES {
        let whole = twin.apply(spec, user, false).unwrap();
        let id = begin(&mut forum, spec, user, false).unwrap();
        assert_eq!(forum.engine.chunks().unfinished().unwrap(), [id]);
        assert_eq!(forum.everything(), forum.before.clone());
        let (applied, chunks) = finish(&mut forum, id);
        assert!(chunks > 1, "{spec}");
        assert_eq!(
            (applied.id, applied.pseudoprincipals),
            (id, whole.pseudoprincipals),
            "{spec} {user:?}"
        );
        assert_eq!(touched(&applied), touched(&whole), "{spec} {user:?}");
        assert_over(&mut forum);
        assert_eq!(shape(&mut forum), shape(&mut twin), "{spec} {user:?}");
        for person in people(user) {
            let revealed = forum.reveal_as(person, id, References::Recorrelate);
            let twin_revealed = twin.reveal_as(person, whole.id, References::Recorrelate);
            match (revealed, twin_revealed) {
                (Ok(mut one), Ok(mut other)) => {
                    one.kept.sort_by(|a, b| a.identity.cmp(&b.identity));
                    other.kept.sort_by(|a, b| a.identity.cmp(&b.identity));
                    assert_eq!(one.restored, other.restored, "{spec} {user:?} {person}");
                    assert_eq!(one.kept.len(), other.kept.len(), "{spec} {user:?} {person}");
                }
                (Err(Error::NoSuchDisguise), Err(Error::NoSuchDisguise)) => {}
                other => panic!("{other:?}"),
            }
            assert_eq!(
                shape(&mut forum),
                shape(&mut twin),
                "{spec} {user:?} {person}"
            );
        }
        reveal_by_all(&mut forum, id, user);
        reveal_by_all(&mut twin, whole.id, user);
    }
}

pub(crate) fn a_disguise_in_chunks_interrupted_after_each_of_them_is_the_same() {
    let (mut forum, mut twin) = (forum(), forum());
    for (spec, user) in CASES {
        for rows in [1, 5].into_iter().skip(usize::from(crate::CUTS > 1)) {
            let whole = twin.apply(spec, user, false).unwrap().id;
            let id = begin(&mut forum, spec, user, false).unwrap();
            for chunks in 0.. {
                assert!(chunks < CHUNKS_MAX, "there is no end to it");
                restart(&mut forum);
                let progress = forum.engine.chunks().proceed(id, rows, time()).unwrap();
                if matches!(progress, Progress::Done(_)) {
                    break;
                }
            }
            assert_eq!(
                shape(&mut forum),
                shape(&mut twin),
                "{spec} {user:?} {rows}"
            );
            assert_over(&mut forum);
            reveal_by_all(&mut forum, id, user);
            reveal_by_all(&mut twin, whole, user);
        }
    }
}

/// A run went on with a disguise that another had begun, and did the rest of it: the other one said that the
/// credential opens no such disguise, where none was given, and named no disguise. It says which one another
/// run ended.
pub(crate) fn a_disguise_that_another_run_ended_is_named() {
    let mut named = 0;
    for transactions in (1..12).step_by(crate::CUTS) {
        let mut forum = forum();
        let database = forum.database.clone();
        forum.database.between(transactions, move || {
            let mut other = Engine::stored(database.boxed()).unwrap();
            for id in other.chunks().unfinished().unwrap() {
                other.chunks().finish(id, ROWS, time).unwrap();
            }
        });
        let spec = Spec::from_edna_json(GDPR).unwrap();
        let request = ApplyRequest {
            spec: &spec,
            user: Some(Value::Int(1)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        };
        match forum.engine.chunks().apply(&request, ROWS, time) {
            Ok(_) => {}
            Err(halted) => match (halted.begun, halted.cause) {
                (None, Error::EndedByAnother { disguise }) => {
                    named += 1;
                    assert!(forum.reveal(1, disguise).is_complete());
                    forum.assert_as_before();
                }
                other => panic!("{other:?}"),
            },
        }
    }
    assert!(named > 0, "no other run was in time");
}

pub(crate) fn a_half_applied_disguise_is_taken_back_and_not_gone_on_with() {
    let mut forum = forum();
    for (spec, user) in CASES {
        let Some(user) = user else { continue };
        for chunks in (1..CHUNKS_MAX).step_by(crate::CUTS) {
            let id = begin(&mut forum, spec, Some(user), false).unwrap();
            let done = go_on(&mut forum, id, chunks);
            let revealed = forum.reveal(user, id);
            assert!(revealed.is_complete(), "{chunks} {revealed:?}");
            forum.assert_as_before();
            let outcome = forum.engine.chunks().proceed(id, ROWS, time());
            assert!(matches!(outcome, Err(Error::NoSuchDisguise)), "{outcome:?}");
            assert_over(&mut forum);
            if done {
                break;
            }
        }
    }
}

pub(crate) fn a_half_applied_disguise_of_everybody_goes_on_without_whoever_came_back() {
    let (mut forum, mut twin) = (forum(), forum());
    for (spec, user) in CASES.into_iter().filter(|(_, user)| user.is_none()) {
        let whole = twin.apply(spec, None, false).unwrap().id;
        twin.reveal(2, whole);
        let expected = shape(&mut twin);
        reveal_by_all(&mut twin, whole, None);
        for chunks in (0..CHUNKS_MAX).step_by(crate::CUTS) {
            let id = begin(&mut forum, spec, None, false).unwrap();
            let done = go_on(&mut forum, id, chunks);
            // Whoever has nothing hidden yet is left out, too.
            forum.reveal(2, id);
            if !done {
                if chunks / crate::CUTS % 2 == 1 {
                    forum.rekey(2, Suite::X25519);
                }
                assert_eq!(forum.engine.chunks().unfinished().unwrap(), [id]);
                finish(&mut forum, id);
            }
            assert_eq!(shape(&mut forum), expected, "{spec} after {chunks}");
            assert_over(&mut forum);
            reveal_by_all(&mut forum, id, user);
            if done {
                break;
            }
        }
    }
}

pub(crate) fn a_half_applied_disguise_of_everybody_comes_back_when_all_reveal_it() {
    let mut forum = forum();
    for (spec, user) in CASES.into_iter().filter(|(_, user)| user.is_none()) {
        for chunks in (0..CHUNKS_MAX).step_by(crate::CUTS) {
            let id = begin(&mut forum, spec, None, false).unwrap();
            let done = go_on(&mut forum, id, chunks);
            reveal_by_all(&mut forum, id, user);
            if done {
                break;
            }
            restart(&mut forum);
            finish(&mut forum, id);
            forum.assert_as_before();
            assert_over(&mut forum);
        }
    }
}

pub(crate) fn what_is_forgotten_in_the_middle_is_hidden_for_good_and_others_come_back() {
    for spec in [ANON, GDPR_REMOVE] {
        let mut twin = forum();
        let whole = twin.apply(spec, None, false).unwrap().id;
        let key = &twin.keys[&2];
        let two = Value::Int(2);
        twin.engine
            .forget(&two, &Credential::Key(key), whole, time())
            .unwrap();
        for everything in [false, true] {
            for chunks in (1..CHUNKS_MAX).step_by(5 * crate::CUTS) {
                let mut forum = forum();
                let id = begin(&mut forum, spec, None, false).unwrap();
                if go_on(&mut forum, id, chunks) {
                    break;
                }
                let credential = Credential::Key(&forum.keys[&2]);
                let forgotten = if everything {
                    let listed = forum.engine.list(&two, &credential, time()).unwrap();
                    if listed.is_empty() {
                        // What was not hidden yet of a person without a key would be refused.
                        continue;
                    }
                    forum
                        .engine
                        .forget_everything(&two, &credential, time())
                        .map(drop)
                } else {
                    forum.engine.forget(&two, &credential, id, time()).map(drop)
                };
                match forgotten {
                    Ok(()) => {}
                    Err(Error::NoSuchDisguise) => continue,
                    Err(other) => panic!("{other:?}"),
                }
                restart(&mut forum);
                finish_with_a_key_for_two(&mut forum, id);
                assert_eq!(shape(&mut forum), shape(&mut twin), "{spec} after {chunks}");
                assert_over(&mut forum);
                let gone = forum.reveal_as(2, id, References::Recorrelate);
                assert!(did_nothing(&gone), "{gone:?}");
            }
        }
    }
}

/// Goes on to the end. Where the second user had everything forgotten and has the account still, it
/// may be somebody else: a chunk refuses their rows until they have a key.
fn finish_with_a_key_for_two(forum: &mut Forum, id: DisguiseId) {
    for _ in 0..CHUNKS_MAX {
        match forum.engine.chunks().proceed(id, ROWS, time()) {
            Ok(Progress::Going(_)) => {}
            Ok(Progress::Done(_)) => return,
            Err(Error::Unregistered { .. }) => {
                let two = Value::Int(2);
                let made = forum
                    .engine
                    .people()
                    .register(&two, Protection::KeyAlone, time());
                drop(made.unwrap());
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("there is no end to it");
}

pub(crate) fn a_disguise_over_placeholders_asks_for_the_credential_at_each_chunk() {
    for spec in [GDPR, GDPR_REMOVE, ANON, GROUPED] {
        let mut twin = forum();
        twin.apply(ANON, None, false).unwrap();
        twin.apply(spec, Some(1), true).unwrap();
        let mut forum = forum();
        let first = forum.apply(ANON, None, false).unwrap().id;
        let id = begin(&mut forum, spec, Some(1), true).unwrap();
        let key = SecretKey::of(forum.keys[&1].suite(), *forum.keys[&1].expose());
        for chunks in 0.. {
            assert!(chunks < CHUNKS_MAX, "there is no end to it");
            restart(&mut forum);
            let missing = forum.engine.chunks().proceed(id, ROWS, time());
            assert!(matches!(missing, Err(Error::OverNeeded)), "{missing:?}");
            let other = Credential::Key(&forum.keys[&2]);
            let wrong = forum
                .engine
                .chunks()
                .proceed_over(id, Some(&other), ROWS, time());
            assert!(matches!(wrong, Err(Error::WrongCredential)), "{wrong:?}");
            let over = Credential::Key(&key);
            let progress = forum
                .engine
                .chunks()
                .proceed_over(id, Some(&over), ROWS, time());
            if matches!(progress.unwrap(), Progress::Done(_)) {
                break;
            }
        }
        assert_eq!(shape(&mut forum), shape(&mut twin), "{spec}");
        assert_over(&mut forum);
        assert!(forum.reveal(1, id).is_complete());
        reveal_by_all(&mut forum, first, None);
    }
}

pub(crate) fn a_half_applied_disguise_over_placeholders_is_taken_back() {
    let mut forum = forum();
    let first = forum.apply(ANON, None, false).unwrap().id;
    let anonymous = forum.everything();
    for chunks in 1..8 {
        let id = begin(&mut forum, GDPR_REMOVE, Some(1), true).unwrap();
        for _ in 0..chunks {
            let over = Credential::Key(&forum.keys[&1]);
            let going = forum
                .engine
                .chunks()
                .proceed_over(id, Some(&over), ROWS, time());
            assert!(matches!(going, Ok(Progress::Going(_))), "{going:?}");
        }
        assert!(forum.reveal(1, id).is_complete());
        assert_eq!(forum.everything(), anonymous, "after {chunks}");
        assert_over(&mut forum);
    }
    reveal_by_all(&mut forum, first, None);
}

pub(crate) fn a_cut_in_a_chunk_loses_nothing_and_the_next_call_goes_on() {
    for (spec, user) in [(GDPR_REMOVE, Some(1)), (ANON, None), (GROUPED, None)] {
        let mut twin = forum();
        let whole = twin.apply(spec, user, false).unwrap();
        let mut forum = forum();
        let id = begin(&mut forum, spec, user, false).unwrap();
        let mut cut = 1;
        let applied = loop {
            forum.left.set(cut);
            let outcome = forum.engine.chunks().proceed(id, ROWS, time());
            forum.left.set(u64::MAX);
            match outcome {
                Ok(Progress::Done(applied)) => break applied,
                Ok(_) => cut = 1,
                Err(Error::Database { .. } | Error::Unsettled(_) | Error::NotInstalled) => cut += 3,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(touched(&applied), touched(&whole), "{spec}");
        assert_eq!(shape(&mut forum), shape(&mut twin), "{spec}");
        reveal_by_all(&mut forum, id, user);
    }
}

pub(crate) fn a_hold_stops_a_disguise_in_chunks_until_it_is_lifted() {
    for user in [Some(3), None] {
        let mut forum = forum();
        let id = begin(&mut forum, GDPR, user, false).unwrap();
        forum.engine.chunks().proceed(id, ROWS, time()).unwrap();
        let authority = Authority {
            actor: "court",
            basis: "7 C 81/26",
            time: time(),
        };
        let three = Value::Int(3);
        let hold = forum
            .engine
            .holds()
            .place(Holding::Person(&three), &authority)
            .unwrap();
        let half = loop {
            let half = forum.everything();
            match forum.engine.chunks().proceed(id, ROWS, time()) {
                Ok(Progress::Going(_)) => {}
                Err(Error::Held { .. }) => break half,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(forum.everything(), half);
        forum.engine.holds().lift(hold, &authority).unwrap();
        finish(&mut forum, id);
        reveal_by_all(&mut forum, id, user);
    }
}

/// A later reveal passed over the placeholders of chunks that were done. What had been hidden behind one of them since did
/// not come back, though everything else of the disguise was tried again.
pub(crate) fn what_is_hidden_behind_a_placeholder_of_a_chunk_that_is_done_comes_back() {
    let mut forum = forum();
    let chunked = forum.apply_in_chunks(REMOVE_ALL, (Some(1), false), 1);
    let id = chunked.unwrap().id;
    let placeholder = forum.numbers("SELECT user_id FROM moderations WHERE id = 1")[0];
    forum.sql(&format!(
        "INSERT INTO stories VALUES (100, {placeholder}, 'new', 0)"
    ));
    forum.sql("UPDATE moderations SET user_id = 3 WHERE id = 2");
    let revealed = forum.reveal_as(1, id, References::Retain).unwrap();
    assert_eq!(revealed.kept.len(), 1, "{revealed:?}");
    // The placeholder stays for the sake of the new story, and the application gives it a row that was revealed.
    forum.sql(&format!(
        "UPDATE moderations SET user_id = {placeholder} WHERE id = 1"
    ));
    forum.apply(REMOVE_ALL, Some(2), false).unwrap();
    let there = "SELECT COUNT(*) FROM moderations WHERE id = 1";
    assert_eq!(forum.numbers(there), [0]);
    forum.reveal(1, id);
    assert_eq!(forum.numbers(there), [1]);
}
