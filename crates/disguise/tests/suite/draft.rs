//! Views of a developer before anything is changed: drafts, plans and stored data.

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, Engine, Error, KeyCost, Protection, SpecFile, Value, draft};

use super::forum::*;

pub(crate) fn a_draft_fits_the_database_that_it_was_made_from() {
    let mut forum = forum();
    let made = draft(forum.engine.database(), None).unwrap();
    let file = SpecFile::parse(&made.text).unwrap();
    assert_eq!(file.pseudo.as_ref(), Some(&made.pseudo), "{}", made.text);
    assert_eq!(file.schema, made.schema);
    let mut engine = Engine::new(forum.database.boxed(), file.schema, made.pseudo);
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine
        .preview()
        .check(&file.spec, &BTreeMap::new())
        .unwrap();
    let applied = engine
        .apply(&ApplyRequest {
            spec: &file.spec,
            user: Some(Value::Int(1)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        })
        .unwrap();
    // Stories have one owner and nothing declared refers to them; moderations are shared.
    assert_eq!(applied.rows["stories"], 3, "{}", made.text);
    assert_eq!(applied.rows["users"], 1);
    assert_eq!(applied.pseudoprincipals, 6);
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
    let outcome = draft(forum.engine.database(), Some("nothing"));
    assert!(matches!(outcome, Err(Error::Spec(_))));
}

pub(crate) fn a_plan_counts_what_the_disguise_then_does() {
    let mut forum = forum();
    for (text, user) in [
        (GDPR, Some(1)),
        (ANON, None),
        (GROUPED, None),
        (GROUPED, Some(2)),
    ] {
        let spec = SpecFile::parse(text).unwrap().spec;
        let before = forum.everything();
        let of = user.map(Value::Int);
        let planned = forum
            .engine
            .preview()
            .plan(&spec, of.as_ref(), &BTreeMap::new())
            .unwrap();
        assert_eq!(forum.everything(), before);
        let applied = forum.apply(text, user, false).unwrap();
        let placeholders: u64 = planned.iter().map(|step| step.placeholders).sum();
        assert_eq!(placeholders, applied.pseudoprincipals, "{planned:?}");
        for step in &planned {
            assert_eq!(Some(&step.rows), applied.rows.get(&step.table));
            assert!(!step.access.is_empty() && step.statement.starts_with("SELECT COUNT"));
        }
        for user in 1..=USERS {
            if of.as_ref().is_none_or(|of| *of == Value::Int(user)) {
                forum.reveal(user, applied.id);
            }
        }
        forum.assert_as_before();
    }
}

pub(crate) fn a_stored_description_serves_a_reveal_without_files() {
    let mut forum = forum();
    let applied = forum.apply(GDPR_REMOVE, Some(1), false).unwrap();
    let mut engine = Engine::stored(forum.database.boxed()).unwrap();
    assert_eq!(engine.user("1").unwrap(), Value::Int(1));
    assert!(matches!(engine.user("one"), Err(Error::Value { .. })));
    // A number that no row can have failed as the database does, where it refuses such a parameter.
    for beyond in [
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
    ] {
        let none = match engine.user(beyond) {
            Ok(user) => engine
                .people()
                .register(&user, Protection::KeyAlone, time())
                .map(drop),
            Err(error) => Err(error),
        };
        let is_refused = matches!(none, Err(Error::Value { .. } | Error::NoSuchUser { .. }));
        assert!(is_refused, "{beyond}: {none:?}");
    }
    std::mem::swap(&mut engine, &mut forum.engine);
    forum.engine.options().key_cost = KeyCost::DANGER_LEAST;
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}
