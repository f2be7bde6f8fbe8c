//! Persons whose envelopes a quantum computer does not open either, beside others, and the way from one suite to another.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{
    Credential, Error, KeptReason, Protection, RecoveryToken, References, RevealRequest, Rows,
    SecretKey, Suite, TokenShare, Value,
};

use super::forum::*;

/// Bytes of a stored public key, of each suite.
const PUBLIC_BYTES: [usize; 2] = [32, 1_217];
/// Bytes of a sealed locator, of each suite.
const SEALED_BYTES: [usize; 2] = [128, 1_216];

/// Counts the values of a column for each of two lengths; there are no others.
fn of_lengths(forum: &mut Forum, column: &str, table: &str, lengths: [usize; 2]) -> [usize; 2] {
    let rows = forum
        .engine
        .database()
        .query(&format!("SELECT {column} FROM {table}"), &[]);
    let mut counts = [0; 2];
    for value in rows.unwrap().into_iter().flatten() {
        let Value::Bytes(bytes) = value else { continue };
        let of = lengths.iter().position(|length| *length == bytes.len());
        counts[of.unwrap()] += 1;
    }
    counts
}

fn principals(forum: &mut Forum) -> [usize; 2] {
    of_lengths(forum, "public_key", "probity_principals", PUBLIC_BYTES)
}

fn locators(forum: &mut Forum) -> [usize; 2] {
    of_lengths(forum, "sealed", "probity_locators", SEALED_BYTES)
}

fn key_of(forum: &Forum, user: i64) -> SecretKey {
    SecretKey::of(forum.keys[&user].suite(), *forum.keys[&user].expose())
}

/// The public key that a person is registered with.
fn public_of(forum: &mut Forum, user: i64) -> Vec<u8> {
    let find = "SELECT public_key FROM probity_principals WHERE id = ?";
    let name = Value::Bytes(user.to_string().into_bytes());
    let rows = forum.engine.database().query(find, &[name]).unwrap();
    match rows.into_iter().flatten().next() {
        Some(Value::Bytes(public)) => public,
        _ => Vec::new(),
    }
}

/// Puts another public key in the place of that of person 1, as whoever can write to the database may.
fn put(forum: &mut Forum, public: &[u8]) {
    let sql = "UPDATE probity_principals SET public_key = ? WHERE id = ?";
    let values = [Value::Bytes(public.to_vec()), Value::Bytes(b"1".to_vec())];
    let changed = forum.engine.database().execute(sql, &values);
    assert_eq!(changed.unwrap(), 1);
}

impl Forum {
    /// Gives a person a new key of this suite.
    pub(crate) fn rekey(&mut self, user: i64, suite: Suite) {
        let old = key_of(self, user);
        self.engine.options().suite = Some(suite);
        let made = self.engine.people().change_key(
            &Value::Int(user),
            &Credential::Key(&old),
            Protection::Password("secret words"),
            time(),
        );
        let made = made.unwrap();
        assert_eq!(made.key.suite(), suite);
        self.keys.insert(user, made.key);
    }
}

pub(crate) fn nothing_of_a_hybrid_person_is_sealed_with_less() {
    let mut forum = forum();
    assert_eq!(principals(&mut forum), [4, 0]);
    let anonymous = forum.apply(ANON, None, false).unwrap();
    let (people, sealed) = (principals(&mut forum), locators(&mut forum));
    assert_eq!((people[1], sealed[1]), (0, 0));
    // What was sealed before is sealed anew, along the whole chain.
    forum.rekey(1, Suite::XWing);
    let of_first = [principals(&mut forum)[1], locators(&mut forum)[1]];
    assert_eq!(of_first, [1 + 9, 1]);
    // Behind hybrid placeholders, and with everybody else's, nothing is sealed with less.
    let grouped = forum.apply(GROUPED, None, false).unwrap();
    let others = [principals(&mut forum)[0], locators(&mut forum)[0]];
    let gone = forum.apply(GDPR, Some(1), true).unwrap();
    assert_eq!([principals(&mut forum)[0], locators(&mut forum)[0]], others);
    let ids = [grouped.id, gone.id, anonymous.id];
    for id in [ids, ids].concat() {
        for user in 1..=USERS {
            let outcome = forum.reveal_as(user, id, References::Recorrelate);
            assert!(matches!(outcome, Ok(_) | Err(Error::NoSuchDisguise)));
        }
    }
    forum.assert_as_before();
    assert_eq!(principals(&mut forum), [3, 1]);
}

pub(crate) fn a_key_changes_from_each_suite_to_the_other_with_everything_that_it_opens() {
    let mut forum = forum();
    let ids = [ANON, GROUPED].map(|spec| forum.apply(spec, None, false).unwrap().id);
    let gone = forum.apply(GDPR, Some(2), true).unwrap();
    for suite in [Suite::XWing, Suite::X25519, Suite::XWing] {
        let old = key_of(&forum, 2);
        forum.rekey(2, suite);
        let listed = forum
            .engine
            .list(&Value::Int(2), &Credential::Key(&old), time());
        assert!(matches!(listed, Err(Error::WrongCredential)));
        let hybrid = principals(&mut forum)[1] + locators(&mut forum)[1];
        assert_eq!(hybrid > 0, suite == Suite::XWing);
    }
    // Unless another is asked for, a new key is of the suite that the old one was.
    let key = key_of(&forum, 2);
    let mut plain = probity_disguise::Engine::stored(forum.database.boxed()).unwrap();
    plain.options().key_cost = probity_disguise::KeyCost::DANGER_LEAST;
    let protection = Protection::Password("other words");
    let made =
        plain
            .people()
            .change_key(&Value::Int(2), &Credential::Key(&key), protection, time());
    let made = made.unwrap();
    assert_eq!(made.key.suite(), Suite::XWing);
    // Password, token and shares open the same, with the suite that lies beside the key.
    let token = made.token.unwrap();
    let shares = token.split().unwrap();
    let share = |at: usize| TokenShare::parse(&shares[at].expose()).unwrap();
    let joined = RecoveryToken::join(&share(0), &share(2));
    let exported = plain.export(&Value::Int(2), &Credential::Token(&joined), None, time());
    assert!(!exported.unwrap().hidden.is_empty());
    for id in [gone.id, ids[0], ids[1]] {
        let revealed = plain.reveal(&RevealRequest {
            user: Value::Int(2),
            credential: Credential::Password("other words"),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        });
        assert!(revealed.unwrap().is_complete());
    }
    for id in ids {
        for user in [1, 3, 4] {
            forum.reveal(user, id);
        }
    }
    forum.assert_as_before();
    let key = made.key;
    plain
        .forget_everything(&Value::Int(2), &Credential::Key(&key), time())
        .unwrap();
    assert_eq!(principals(&mut forum), [3, 0]);
}

pub(crate) fn a_changed_suite_or_public_key_is_refused() {
    let mut forum = forum();
    forum.rekey(1, Suite::XWing);
    let user = Value::Int(1);
    let hidden = forum.apply(BLANK, Some(1), false).unwrap();
    let key = key_of(&forum, 1);
    // The same bytes as a key of the other suite are another key.
    let weak = SecretKey::from_bytes(*key.expose());
    let listed = forum.engine.list(&user, &Credential::Key(&weak), time());
    assert!(matches!(listed, Err(Error::WrongCredential)));
    let outcome = forum.engine.people().change_key(
        &user,
        &Credential::Key(&weak),
        Protection::KeyAlone,
        time(),
    );
    assert!(matches!(outcome, Err(Error::WrongCredential)));

    let stored = public_of(&mut forum, 1);
    let before = forum.everything();
    // Another suite for the same key, no suite, a suite that nobody has, and a key that was cut.
    let (mut other, mut unknown) = (stored.clone(), stored.clone());
    (other[0], unknown[0]) = (0, 9);
    for (public, is_named) in [
        (&other[..], false),
        (&stored[1..], false),
        (&unknown[..], true),
        (&stored[..1_000], false),
        (&[][..], false),
    ] {
        put(&mut forum, public);
        let outcome = forum.apply(GDPR, Some(1), false);
        let refused = match &outcome {
            Err(Error::Suite { name }) => name == "9" || !is_named,
            Err(Error::DamagedRow { table, .. }) => !is_named && *table == "probity_principals",
            _ => false,
        };
        assert!(refused, "{outcome:?}");
        assert_eq!(forum.everything(), before);
    }
    put(&mut forum, &stored);
    assert!(forum.reveal(1, hidden.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn a_public_key_in_the_place_of_another_is_refused_when_its_person_comes() {
    let mut forum = forum();
    forum.rekey(1, Suite::XWing);
    let (user, key) = (Value::Int(1), key_of(&forum, 1));
    let hidden = forum.apply(BLANK, Some(1), false).unwrap();
    // The key of somebody else, of the weaker suite.
    let (stored, public) = (public_of(&mut forum, 1), public_of(&mut forum, 2));
    put(&mut forum, &public);
    let protection = Protection::Password("secret words");
    let outcome =
        forum
            .engine
            .people()
            .change_password(&user, &Credential::Key(&key), protection, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    assert!(matches!(
        forum.apply(GDPR, Some(1), true),
        Err(Error::WrongCredential)
    ));
    put(&mut forum, &stored);
    assert!(forum.reveal(1, hidden.id).is_complete());
    forum.assert_as_before();

    // So is one that is changed while something of the person is under a placeholder.
    let hidden = forum.apply(ANON, Some(1), false).unwrap();
    put(&mut forum, &public);
    let revealed = forum.reveal(1, hidden.id);
    let replaced = |it: &probity_disguise::Kept| it.reason == KeptReason::OwnerReplaced;
    assert!(!revealed.kept.is_empty() && revealed.kept.iter().all(replaced));
    put(&mut forum, &stored);
    assert!(forum.reveal(1, hidden.id).is_complete());
    forum.assert_as_before();
}
