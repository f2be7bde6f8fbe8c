//! People without a row in the users table: an id that is nobody's, and people who are away.

use std::collections::BTreeMap;

use probity_disguise::{
    Applied, ApplyRequest, Credential, DecayRequest, Error, Protection, SecretKey, Spec, Value,
};
use probity_format::{Outcome, Timestamp};

use super::forum::*;
use super::records::{actions, listening};

/// V15: `resume` of a disguise that nobody knows, and a decay by a condition that does not fit, were refused without an entry. They
/// are told of like every other refusal.
pub(crate) fn what_is_refused_before_it_begins_is_told() {
    let mut forum = forum();
    let told = listening(&mut forum);
    let id = "00000000000000aa".parse().unwrap();
    let refused = forum.engine.chunks().proceed(id, 10, time());
    assert!(matches!(refused, Err(Error::NoSuchDisguise)), "{refused:?}");
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let request = DecayRequest {
        spec: &spec,
        inactive: "users.missing < 3",
        parameters: BTreeMap::new(),
        expires: None,
        after: None,
        page: 10,
        time: time(),
    };
    let refused = forum.engine.decay().apply(&request);
    assert!(matches!(refused, Err(Error::Spec(_))), "{refused:?}");
    let expected = [
        ("disguise.apply".to_owned(), Outcome::Denied),
        ("disguise.decay".to_owned(), Outcome::Failed),
    ];
    assert_eq!(actions(&told), expected);
    assert!(
        told.borrow()
            .iter()
            .all(|it| it.2.contains("00aa|") || it.0.contains("decay"))
    );
}

/// Everything that would begin a disguise of `user`.
fn attempts(forum: &mut Forum, user: i64, over: bool) -> Vec<Error> {
    let mut refused = Vec::new();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let due = Timestamp::from_nanoseconds(2_000_000_000_000_000_000).unwrap();
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(user)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    refused.extend(forum.engine.schedule().add(&request, due).err());
    refused.extend(forum.apply(GDPR, Some(user), over).err());
    let in_chunks = forum.apply_in_chunks(GDPR, (Some(user), over), 10);
    refused.extend(in_chunks.err());
    assert_eq!(refused.len(), 3);
    refused
}

fn is_nobody(error: &Error) -> bool {
    matches!(error, Error::NoSuchUser { table } if table == "users")
}

/// A mistyped id was refused as not registered; registering it gave a credential for nobody, and a disguise of nobody's rows
/// was recorded as done. Nobody is registered or disguised without a row, and the log has each refusal.
pub(crate) fn an_id_without_a_row_is_neither_registered_nor_disguised() {
    let mut forum = forum();
    let told = listening(&mut forum);
    let user = Value::Int(77);
    let registered = forum
        .engine
        .people()
        .register(&user, Protection::Token, time());
    let registered = registered.err().unwrap();
    assert!(is_nobody(&registered), "{registered:?}");
    let refused = attempts(&mut forum, 77, false);
    assert!(refused.iter().all(is_nobody), "{refused:?}");
    forum.assert_as_before();
    let expected = ["register", "schedule", "apply", "begin"];
    let expected = expected.map(|it| (format!("disguise.{it}"), Outcome::Failed));
    assert_eq!(actions(&told), expected);
    // Who has a row and no credential is something else.
    forum.sql("INSERT INTO users VALUES (77, 'late', 0)");
    let refused = attempts(&mut forum, 77, false);
    let is_unregistered = |it: &Error| matches!(it, Error::NotRegistered { .. });
    assert!(refused.iter().all(is_unregistered), "{refused:?}");
    forum
        .engine
        .people()
        .register(&user, Protection::KeyAlone, time())
        .unwrap();
    forum.apply(GDPR, Some(77), false).unwrap();
}

/// People who left were told to register first. Without a credential nothing shows that they are
/// away. With it they learn by which disguise, and they keep everything that is allowed while away.
pub(crate) fn whoever_is_away_is_told_by_which_disguise_and_still_returns() {
    let mut forum = forum();
    let gone = forum.apply(GDPR, Some(1), false).unwrap();
    let everything = forum.everything();
    let refused = attempts(&mut forum, 1, false);
    assert!(refused.iter().all(is_nobody), "{refused:?}");
    let refused = forum.apply(GDPR, Some(1), true).unwrap_err();
    let is_away = matches!(refused, Error::AlreadyDisguised { by } if by == gone.id);
    assert!(is_away, "{refused:?}");
    let refused = forum.apply_in_chunks(GDPR, (Some(1), true), 10);
    assert!(matches!(refused, Err(Error::AlreadyDisguised { .. })));
    forum.keys.insert(77, another(&forum, 2));
    let refused = forum.apply(GDPR, Some(77), true);
    assert!(matches!(refused, Err(Error::WrongCredential)));
    let user = Value::Int(1);
    let again = forum
        .engine
        .people()
        .register(&user, Protection::KeyAlone, time());
    assert!(is_nobody(&again.err().unwrap()));
    assert_eq!(forum.everything(), everything);
    rekeyed(&mut forum, 1);
    assert!(forum.reveal(1, gone.id).is_complete());
    forum.assert_as_before();
}

/// The application may remove a row by itself: its person keeps what the credential gives.
pub(crate) fn whoever_was_removed_by_the_application_keeps_what_is_theirs() {
    let mut forum = forum();
    forum.sql("INSERT INTO users VALUES (5, 'late', 0)");
    let user = Value::Int(5);
    let made = forum
        .engine
        .people()
        .register(&user, Protection::KeyAlone, time());
    forum.keys.insert(5, made.unwrap().key);
    forum.sql("INSERT INTO stories VALUES (500, 5, 'u', 0)");
    let hidden: Applied = forum.apply(ANON_STORIES, Some(5), false).unwrap();
    forum.sql("DELETE FROM users WHERE id = 5");
    let refused = attempts(&mut forum, 5, true);
    assert!(refused.iter().all(is_nobody), "{refused:?}");
    rekeyed(&mut forum, 5);
    let key = another(&forum, 5);
    let listed = forum.engine.list(&user, &Credential::Key(&key), time());
    assert_eq!(listed.unwrap().len(), 1);
    // The story waits for its owner.
    assert!(!forum.reveal(5, hidden.id).is_complete());
    let engine = &mut forum.engine;
    let forgotten = engine.forget_everything(&user, &Credential::Key(&key), time());
    assert!(forgotten.unwrap().bags > 0);
}

const ANON_STORIES: &str = r#"{"stories": [{"Decor": {"pred": "True", "from": "", "group_by_cols": [], "user_fk_cols": ["user_id"]}}]}"#;

fn another(forum: &Forum, user: i64) -> SecretKey {
    SecretKey::from_bytes(*forum.keys[&user].expose())
}

fn rekeyed(forum: &mut Forum, user: i64) {
    let key = another(forum, user);
    let credential = Credential::Key(&key);
    let (id, alone) = (Value::Int(user), Protection::KeyAlone);
    let made = forum
        .engine
        .people()
        .change_key(&id, &credential, alone, time());
    forum.keys.insert(user, made.unwrap().key);
}
