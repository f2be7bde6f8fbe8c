//! Passwords, tokens and keys: changed, and destroyed.

use std::cell::RefCell;
use std::rc::Rc;

use probity_disguise::{
    Credential, DisguiseId, Error, KeyCost, Protection, RecoveryToken, References, RevealRequest,
    Revealed, Rows, SecretKey, TokenShare, Value,
};

use super::forum::*;

fn reveal_with(
    forum: &mut Forum,
    user: i64,
    credential: Credential<'_>,
    id: DisguiseId,
) -> Result<Revealed, Error> {
    forum.engine.reveal(&RevealRequest {
        user: Value::Int(user),
        credential,
        id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time: time(),
    })
}

fn refused(outcome: &Result<Revealed, Error>) {
    assert!(did_nothing(outcome), "{outcome:?}");
}

/// V10: a new key was handed over after everything was sealed under it, and where that failed it was lost. It is handed over before
/// anything is committed, and nothing is committed where it fails.
pub(crate) fn a_credential_is_handed_over_before_anything_is_committed_under_it() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    forum.sql("INSERT INTO users VALUES (77, 'late', 0)");
    let (away, late, alone) = (Value::Int(1), Value::Int(77), Protection::KeyAlone);
    let old = SecretKey::from_bytes(*forum.keys[&1].expose());
    let held = Credential::Key(&old);
    let engine = &mut forum.engine;
    engine.set_hand_over(Box::new(|_| Err("the disk is full".into())));
    let refused = [
        engine.people().register(&late, alone, time()),
        engine.people().change_key(&away, &held, alone, time()),
        engine
            .people()
            .change_password(&away, &held, Protection::Token, time()),
    ];
    for refused in refused {
        assert!(matches!(refused.err(), Some(Error::HandOver(_))));
    }
    assert_eq!(forum.engine.list(&away, &held, time()).unwrap().len(), 1);
    let handed: Rc<RefCell<Vec<[u8; 32]>>> = Rc::default();
    let taken = Rc::clone(&handed);
    forum.engine.set_hand_over(Box::new(move |made| {
        taken.borrow_mut().push(*made.key.expose());
        Ok(())
    }));
    // Wherever it is cut, the old key fits until the new one does, which was handed over.
    let mut cuts = 0;
    let made = loop {
        forum.left.set(cuts);
        let outcome = forum
            .engine
            .people()
            .change_key(&away, &held, alone, time());
        forum.left.set(u64::MAX);
        match outcome {
            Ok(made) => break made,
            Err(error) => assert!(
                matches!(error, Error::Database { .. } | Error::Unsettled(_)),
                "{error:?}"
            ),
        }
        assert_eq!(forum.engine.list(&away, &held, time()).unwrap().len(), 1);
        cuts += 1;
    };
    assert_eq!(handed.borrow().last(), Some(made.key.expose()));
    assert!(handed.borrow().len() > 1);
    forum
        .engine
        .people()
        .register(&late, alone, time())
        .unwrap();
    let new = Credential::Key(&made.key);
    assert!(
        reveal_with(&mut forum, 1, new, applied.id)
            .unwrap()
            .is_complete()
    );
}

pub(crate) fn a_new_password_replaces_the_old_ones_and_reveals_what_they_did() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let user = Value::Int(1);
    let old = Credential::Password("secret words");
    let wrong = Credential::Password("secret word");
    let outcome = forum.engine.people().change_password(
        &user,
        &wrong,
        Protection::Password("other words"),
        time(),
    );
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    // Also while the account is away.
    let changed = forum
        .engine
        .people()
        .change_password(&user, &old, Protection::Password("other words"), time())
        .unwrap();
    assert_eq!(changed.key.expose(), forum.keys[&1].expose());
    refused(&reveal_with(
        &mut forum,
        1,
        Credential::Password("secret words"),
        applied.id,
    ));
    let token = RecoveryToken::parse(&changed.token.unwrap().expose()).unwrap();
    assert!(
        reveal_with(&mut forum, 1, Credential::Token(&token), applied.id)
            .unwrap()
            .is_complete()
    );
    forum.assert_as_before();
    let again = forum.apply(GDPR, Some(1), false).unwrap();
    let new = Credential::Password("other words");
    assert!(
        reveal_with(&mut forum, 1, new, again.id)
            .unwrap()
            .is_complete()
    );
    forum.assert_as_before();
}

pub(crate) fn a_new_key_opens_everything_and_the_old_one_nothing() {
    let mut forum = forum();
    forum.engine.options().key_cost = KeyCost::DANGER_LEAST;
    let anon = forum.apply(ANON, None, false).unwrap();
    let grouped = forum.apply(GROUPED, None, false).unwrap();
    let gdpr = forum.apply(GDPR_REMOVE, Some(1), true).unwrap();
    let old = SecretKey::from_bytes(*forum.keys[&1].expose());
    let changed = forum
        .engine
        .people()
        .change_key(
            &Value::Int(1),
            &Credential::Key(&old),
            Protection::Password("new words"),
            time(),
        )
        .unwrap();
    for id in [anon.id, grouped.id, gdpr.id] {
        refused(&reveal_with(&mut forum, 1, Credential::Key(&old), id));
        refused(&reveal_with(
            &mut forum,
            1,
            Credential::Password("secret words"),
            id,
        ));
    }
    // What is hidden from a placeholder later is for the new key too.
    let later = forum.apply(ANON, None, false).unwrap();
    for id in [later.id, gdpr.id, anon.id, grouped.id] {
        let new = Credential::Password("new words");
        let revealed = reveal_with(&mut forum, 1, new, id);
        assert!(matches!(revealed, Ok(_) | Err(Error::NoSuchDisguise)));
    }
    let listed = forum
        .engine
        .list(&Value::Int(1), &Credential::Key(&changed.key), time())
        .unwrap();
    assert!(listed.is_empty(), "{listed:?}");
    for user in 2..=USERS {
        for id in [later.id, anon.id, grouped.id] {
            forum.reveal(user, id);
        }
    }
    assert_eq!(forum.everything(), forum.before.clone());
}

pub(crate) fn nobody_changes_the_key_of_another() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let other = SecretKey::from_bytes(*forum.keys[&2].expose());
    for user in [1, 3] {
        let (user, other) = (Value::Int(user), Credential::Key(&other));
        let outcome = forum
            .engine
            .people()
            .change_key(&user, &other, Protection::KeyAlone, time());
        assert!(matches!(outcome, Err(Error::WrongCredential)));
        let outcome = forum.engine.people().change_password(
            &user,
            &other,
            Protection::Password("mine now"),
            time(),
        );
        assert!(matches!(outcome, Err(Error::WrongCredential)));
    }
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn whoever_forgets_everything_can_open_nothing_ever_again() {
    let mut forum = forum();
    let anon = forum.apply(ANON, None, false).unwrap();
    let gdpr = forum.apply(GDPR_REMOVE, Some(1), true).unwrap();
    let hidden = forum.everything();
    let password = || Credential::Password("secret words");
    let user = Value::Int(1);
    forum
        .engine
        .forget_everything(&user, &password(), time())
        .unwrap();
    assert_eq!(forum.everything(), hidden);
    for id in [anon.id, gdpr.id] {
        refused(&reveal_with(&mut forum, 1, password(), id));
        let key = SecretKey::from_bytes(*forum.keys[&1].expose());
        refused(&reveal_with(&mut forum, 1, Credential::Key(&key), id));
    }
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM probity_credentials"),
        [2 * (USERS - 1)]
    );
    let outcome = forum.engine.forget_everything(&user, &password(), time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    // Nobody else lost anything.
    for other in 2..=USERS {
        assert!(forum.reveal(other, anon.id).values.contains_key("stories"));
    }
}

pub(crate) fn any_two_shares_of_a_token_open_and_others_open_nothing() {
    let mut forum = forum();
    let mut tokens = Vec::new();
    for user in [1, 2] {
        let key = SecretKey::from_bytes(*forum.keys[&user].expose());
        let (user, key) = (Value::Int(user), Credential::Key(&key));
        let changed = forum
            .engine
            .people()
            .change_password(&user, &key, Protection::Token, time());
        tokens.push(changed.unwrap().token.unwrap());
    }
    let [own, other] = [0, 1].map(|at| tokens[at].split().unwrap());
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    // A share of somebody else, the same share twice, and shares of an older splitting of the same token.
    let older = tokens[0].split().unwrap();
    for (first, second) in [
        (&own[0], &other[1]),
        (&other[0], &other[1]),
        (&own[1], &own[1]),
        (&own[0], &older[1]),
    ] {
        let token = RecoveryToken::join(first, second);
        let outcome = reveal_with(&mut forum, 1, Credential::Token(&token), applied.id);
        assert!(matches!(outcome, Err(Error::WrongCredential)));
    }
    let kept = TokenShare::parse(&own[2].expose()).unwrap();
    let token = RecoveryToken::join(&kept, &own[0]);
    let revealed = reveal_with(&mut forum, 1, Credential::Token(&token), applied.id);
    assert!(revealed.unwrap().is_complete());
    forum.assert_as_before();
}
