//! Legal holds: what they keep from happening, and what they do not.

use probity_disguise::{Authority, Credential, Error, Holding, SecretKey, Value};

use super::forum::*;

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    }
}

fn is_held<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Held { .. }))
}

pub(crate) fn whoever_is_held_is_neither_hidden_nor_forgotten_until_it_is_lifted() {
    let mut forum = forum();
    let anon = forum.apply(GROUPED, Some(1), false).unwrap();
    let before = forum.everything();
    let user = Value::Int(1);
    let holds = [(); 2].map(|()| {
        let placed = forum.engine.hold(Holding::Person(&user), &authority());
        placed.unwrap()
    });
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    for hold in holds {
        assert!(is_held(&forum.apply(GDPR, Some(1), false)));
        assert!(is_held(&forum.apply(REMOVE_ALL, None, false)));
        let credential = Credential::Key(&key);
        assert!(is_held(&forum.engine.forget(
            &user,
            &credential,
            anon.id,
            time()
        )));
        assert!(is_held(&forum.engine.forget_everything(
            &user,
            &credential,
            time()
        )));
        // Under another name the key is not the one of that person.
        for other in [2, 99] {
            let outcome = forum
                .engine
                .forget(&Value::Int(other), &credential, anon.id, time());
            assert!(matches!(outcome, Err(Error::WrongCredential)));
        }
        assert_eq!(forum.everything(), before);
        forum.engine.lift(hold, &authority()).unwrap();
    }
    // Others were never concerned.
    let other = forum.apply(GDPR, Some(2), false).unwrap();
    assert!(forum.reveal(2, other.id).is_complete());
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let placed = forum.engine.hold(Holding::Away(&user), &authority());
    placed.unwrap();
    // A reveal brings back what was there: nothing is destroyed by it.
    assert!(forum.reveal(1, gdpr.id).is_complete());
    assert!(forum.reveal(1, anon.id).is_complete());
    forum.assert_as_before();
}

/// V9: a hold on an id that nobody has was accepted and held nothing, so that its person was hidden and forgotten all the same. It
/// takes the row in the users table, or the word that the person is away.
pub(crate) fn a_hold_on_nobody_is_refused() {
    let mut forum = forum();
    let (nobody, there) = (Value::Int(77), Value::Int(1));
    let refused = forum.engine.hold(Holding::Person(&nobody), &authority());
    assert!(matches!(refused, Err(Error::NoSuchUser { .. })));
    let refused = forum.engine.hold(Holding::Away(&there), &authority());
    assert!(matches!(refused, Err(Error::Value { .. })));
    assert!(forum.engine.holds(None).unwrap().is_empty());
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let refused = forum.engine.hold(Holding::Person(&there), &authority());
    assert!(matches!(refused, Err(Error::NoSuchUser { .. })));
    let hold = forum.engine.hold(Holding::Away(&there), &authority());
    let listed = forum.engine.holds(Some(Holding::Person(&there))).unwrap();
    assert_eq!(listed[0].id, hold.unwrap());
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let credential = Credential::Key(&key);
    let forgotten = forum.engine.forget(&there, &credential, gdpr.id, time());
    assert!(is_held(&forgotten));
}

pub(crate) fn whoever_is_held_while_away_cannot_be_forgotten_under_another_name() {
    let mut forum = forum();
    let gdpr = forum.apply(GDPR, Some(1), false).unwrap();
    let user = Value::Int(1);
    let hold = forum.engine.hold(Holding::Away(&user), &authority());
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    for name in [user.clone(), Value::Int(2), Value::Int(99), Value::Null] {
        let credential = Credential::Key(&key);
        let outcome = forum.engine.forget(&name, &credential, gdpr.id, time());
        assert!(matches!(
            outcome,
            Err(Error::Held { .. } | Error::WrongCredential)
        ));
        let outcome = forum.engine.forget_everything(&name, &credential, time());
        assert!(matches!(
            outcome,
            Err(Error::Held { .. } | Error::WrongCredential)
        ));
    }
    forum.engine.lift(hold.unwrap(), &authority()).unwrap();
    let credential = Credential::Key(&key);
    forum
        .engine
        .forget(&user, &credential, gdpr.id, time())
        .unwrap();
}

pub(crate) fn a_held_disguise_is_not_forgotten_and_its_holds_are_listed() {
    let mut forum = forum();
    let held = forum.apply(GDPR, Some(1), false).unwrap();
    let free = forum.apply(BLANK, Some(2), false).unwrap();
    let what = Holding::Disguise(held.id);
    let hold = forum.engine.hold(what, &authority()).unwrap();
    for (user, id, refused) in [(1, held.id, true), (2, free.id, false)] {
        let key = SecretKey::from_bytes(*forum.keys[&user].expose());
        let (user, key) = (Value::Int(user), Credential::Key(&key));
        let outcome = forum.engine.forget(&user, &key, id, time());
        assert_eq!(is_held(&outcome), refused);
    }
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let (user, key) = (Value::Int(1), Credential::Key(&key));
    assert!(is_held(&forum.engine.forget_everything(
        &user,
        &key,
        time()
    )));
    let listed = forum.engine.holds(Some(what)).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, hold);
    assert_eq!(listed[0].actor, "legal office");
    assert_eq!(listed[0].basis, "file 12/2026");
    assert!(
        forum
            .engine
            .holds(Some(Holding::Person(&user)))
            .unwrap()
            .is_empty()
    );
    assert_eq!(forum.engine.holds(None).unwrap(), listed);
    for (actor, basis) in [("", "x"), ("x", ""), ("x\n", "x"), ("x", &*"x".repeat(300))] {
        let authority = Authority {
            actor,
            basis,
            time: time(),
        };
        let refused = forum.engine.hold(what, &authority);
        assert!(matches!(refused, Err(Error::Value { .. })));
    }
    forum.engine.lift(hold, &authority()).unwrap();
    forum.engine.forget(&user, &key, held.id, time()).unwrap();
}
