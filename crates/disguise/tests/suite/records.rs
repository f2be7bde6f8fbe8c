//! Entries of the log: every operation has one, and none names anybody in clear.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use probity_disguise::{Authority, Credential, Error, Holding, Protection, SecretKey, Value};
use probity_format::{Entry, Outcome};

use super::forum::*;

/// The entries of the log: action, outcome, and everything else of the entry as one text.
pub(super) type LoggedOperation = Rc<RefCell<Vec<(String, Outcome, String)>>>;

pub(super) fn listening(forum: &mut Forum) -> LoggedOperation {
    let told = LoggedOperation::default();
    let seen = Rc::clone(&told);
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        entry.check()?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let rest = [
            text(entry.key),
            entry.subjects.iter().collect::<Vec<_>>().join(" "),
            entry.actor.to_owned(),
            entry.basis.to_owned(),
            text(entry.payload),
        ];
        let told = (entry.action.to_owned(), entry.outcome, rest.join("|"));
        seen.borrow_mut().push(told);
        Ok(())
    }));
    told
}

pub(super) fn actions(told: &LoggedOperation) -> Vec<(String, Outcome)> {
    let told = told.borrow();
    told.iter()
        .map(|(action, outcome, _)| (action.clone(), *outcome))
        .collect()
}

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    }
}

pub(crate) fn every_operation_is_told_and_names_nobody() {
    let mut forum = forum();
    forum.sql("INSERT INTO users VALUES (987654, 'Very Personal', 1)");
    let told = listening(&mut forum);
    let user = Value::Int(987_654);
    let engine = &mut forum.engine;
    let made = engine
        .people()
        .register(&user, Protection::Password("secret words"), time())
        .unwrap();
    let again = engine
        .people()
        .register(&user, Protection::KeyAlone, time());
    assert!(matches!(again, Err(Error::AlreadyRegistered)));
    let key = Credential::Key(&made.key);
    let new = Protection::Password("other words");
    engine
        .people()
        .change_password(&user, &key, new, time())
        .unwrap();
    let wrong = Credential::Password("secret words");
    let refused = engine
        .people()
        .change_key(&user, &wrong, Protection::KeyAlone, time());
    assert!(matches!(refused, Err(Error::WrongCredential)));
    let made = engine
        .people()
        .change_key(&user, &key, Protection::Token, time())
        .unwrap();
    let hold = engine
        .holds()
        .place(Holding::Person(&user), &authority())
        .unwrap();
    let held = forum.apply(GDPR, Some(987_654), false);
    assert!(matches!(held, Err(Error::Held { .. })), "{held:?}");
    forum.engine.holds().lift(hold, &authority()).unwrap();
    let lifted = forum.engine.holds().lift(hold, &authority());
    assert!(matches!(lifted, Err(Error::NoSuchHold)));
    let applied = forum.apply(GDPR, Some(987_654), false).unwrap();
    let key = Credential::Key(&made.key);
    let engine = &mut forum.engine;
    engine.forget(&user, &key, applied.id, time()).unwrap();
    let (ok, failed, denied) = (Outcome::Ok, Outcome::Failed, Outcome::Denied);
    let expected = [
        ("disguise.register", ok),
        ("disguise.register", failed),
        ("disguise.password", ok),
        ("disguise.key", denied),
        ("disguise.key", ok),
        ("disguise.hold", ok),
        ("disguise.apply", denied),
        ("disguise.lift", ok),
        ("disguise.lift", failed),
        ("disguise.apply", ok),
        ("disguise.forget", ok),
    ];
    assert_eq!(
        actions(&told),
        expected.map(|(action, outcome)| (action.to_owned(), outcome))
    );
    for (action, _, rest) in told.borrow().iter() {
        assert!(
            !rest.contains("987654") && !rest.contains("Personal") && !rest.contains("words"),
            "{action}: {rest}"
        );
        if action == "disguise.hold" || action == "disguise.lift" {
            assert!(rest.contains("|legal office|file 12/2026|"), "{rest}");
        }
    }
}

pub(crate) fn a_log_that_takes_nothing_keeps_every_operation_from_happening() {
    let mut forum = forum();
    forum.sql("INSERT INTO users VALUES (77, 'new', 0)");
    let (first, second) = (
        SecretKey::from_bytes(*forum.keys[&1].expose()),
        SecretKey::from_bytes(*forum.keys[&2].expose()),
    );
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let hold = forum
        .engine
        .holds()
        .place(
            Holding::Disguise("0000000000000001".parse().unwrap()),
            &authority(),
        )
        .unwrap();
    let tables = [
        "probity_principals",
        "probity_locators",
        "probity_bags",
        "probity_credentials",
        "probity_holds",
    ];
    let state = |forum: &mut Forum| {
        let own = tables.map(|table| {
            let rows = forum.engine.database();
            let rows = rows.query(&format!("SELECT * FROM {table}"), &[]);
            let rows = rows.unwrap().into_iter().map(|row| format!("{row:?}"));
            rows.collect::<BTreeSet<String>>()
        });
        (forum.everything(), own)
    };
    let before = state(&mut forum);
    forum.engine.set_sink(Box::new(|_: &Entry<'_>| {
        Err(std::io::Error::other("the disk is full").into())
    }));
    let (one, two, new) = (Value::Int(1), Value::Int(2), Value::Int(77));
    let key = || Credential::Key(&first);
    let other = Protection::Password("other words");
    let engine = &mut forum.engine;
    let outcomes = [
        engine
            .people()
            .register(&new, Protection::Token, time())
            .err(),
        engine
            .people()
            .change_password(&one, &key(), other, time())
            .err(),
        engine
            .people()
            .change_key(&one, &key(), other, time())
            .err(),
        engine
            .holds()
            .place(Holding::Person(&two), &authority())
            .err(),
        engine.holds().lift(hold, &authority()).err(),
        engine.forget(&one, &key(), applied.id, time()).err(),
        engine
            .forget_everything(&two, &Credential::Key(&second), time())
            .err(),
    ];
    for (at, outcome) in outcomes.iter().enumerate() {
        assert!(matches!(outcome, Some(Error::Audit(_))), "{at} {outcome:?}");
    }
    assert!(matches!(
        forum.apply(GDPR, Some(2), false),
        Err(Error::Audit(_))
    ));
    assert_eq!(state(&mut forum), before);
}

pub(crate) fn a_receipt_tells_what_was_forgotten_and_the_log_vouches_for_it() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let told = listening(&mut forum);
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let (user, credential) = (Value::Int(1), Credential::Key(&key));
    let one = forum.engine.forget(&user, &credential, applied.id, time());
    let one = one.unwrap();
    assert_eq!(one.disguise, Some(applied.id));
    assert!(one.bags > 0);
    let key = SecretKey::from_bytes(*forum.keys[&2].expose());
    let (other, credential) = (Value::Int(2), Credential::Key(&key));
    let all = forum.engine.forget_everything(&other, &credential, time());
    let all = all.unwrap();
    assert_eq!((all.disguise, all.bags), (None, 0));
    for (receipt, about, not_about, at) in [(&one, &user, &other, 0), (&all, &other, &user, 1)] {
        assert!(receipt.is_about(None, about) && !receipt.is_about(None, not_about));
        assert!(told.borrow()[at].2.contains(&receipt.digest()));
    }
}
