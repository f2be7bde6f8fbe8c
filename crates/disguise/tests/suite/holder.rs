//! A credential serves its own person alone, whatever id is given with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use probity_disguise::{
    Answered, Credential, DisguiseId, Error, Kept, KeptReason, Mapping, Once, Protection,
    References, RevealRequest, Revealed, Rows, SecretKey, SubjectKey, Value,
};
use probity_format::{Entry, Outcome, Timestamp};

use super::forum::*;

/// Action, outcome and subject of each entry.
type LoggedOperation = Rc<RefCell<Vec<(String, Outcome, String)>>>;

fn listening(forum: &mut Forum) -> LoggedOperation {
    let told = LoggedOperation::default();
    let seen = Rc::clone(&told);
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let subject = entry.subjects.iter().collect::<Vec<_>>().join(" ");
        let told = (entry.action.to_owned(), entry.outcome, subject);
        seen.borrow_mut().push(told);
        Ok(())
    }));
    told
}

fn key(forum: &Forum, user: i64) -> SecretKey {
    SecretKey::from_bytes(*forum.keys[&user].expose())
}

fn reveal(
    forum: &mut Forum,
    user: Value,
    key: &SecretKey,
    id: DisguiseId,
) -> Result<Revealed, Error> {
    forum.engine.reveal(&RevealRequest {
        user,
        credential: Credential::Key(key),
        id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time: time(),
    })
}

/// S9: with a key of their own anybody had a signed receipt, and an entry in the log, that everything of somebody else was
/// forgotten. Every operation that takes a credential refuses it for anybody but its person, and the refusal is an entry.
pub(crate) fn a_credential_does_nothing_in_the_name_of_another() {
    let mut forum = forum();
    let own = forum.apply(GDPR, Some(1), false).unwrap();
    let theirs = forum.apply(BLANK, Some(2), false).unwrap();
    let before = forum.everything();
    let records = "SELECT COUNT(*) FROM probity_locators";
    let located = forum.numbers(records);
    let told = listening(&mut forum);
    let key = key(&forum, 1);
    // Somebody who is there with records, one who is there without any, one who never was, and nobody.
    for user in [Value::Int(2), Value::Int(3), Value::Int(99), Value::Null] {
        let credential = Credential::Key(&key);
        let engine = &mut forum.engine;
        let keep = Protection::KeyAlone;
        let word = Protection::Password("mine");
        let outcomes = [
            engine.forget(&user, &credential, own.id, time()).err(),
            engine.forget(&user, &credential, theirs.id, time()).err(),
            engine.forget_everything(&user, &credential, time()).err(),
            engine.list(&user, &credential, time()).err(),
            engine.speaks_for(&user, &credential, time()).err(),
            engine.export(&user, &credential, None, time()).err(),
            engine
                .people()
                .change_key(&user, &credential, keep, time())
                .err(),
            engine
                .people()
                .change_password(&user, &credential, word, time())
                .err(),
        ];
        for (at, outcome) in outcomes.iter().enumerate() {
            let refused = matches!(outcome, Some(Error::WrongCredential));
            assert!(refused, "{at} {user:?} {outcome:?}");
        }
        if !user.is_null() {
            let outcome = reveal(&mut forum, user.clone(), &key, own.id);
            let refused = matches!(outcome, Err(Error::WrongCredential));
            assert!(refused, "{user:?} {outcome:?}");
        }
    }
    assert_eq!(forum.everything(), before);
    assert_eq!(forum.numbers(records), located);
    let told = told.borrow();
    assert_eq!(told.len(), 4 * 8 + 3);
    assert!(
        told.iter()
            .all(|(_, outcome, _)| *outcome == Outcome::Denied)
    );
    // The name of the person meant, so that refusals can be counted for each.
    let of = |action: &str| {
        let of = told.iter().filter(|(told, ..)| told == action);
        of.map(|(_, _, subject)| subject.clone())
            .collect::<Vec<_>>()
    };
    let lists = of("disguise.list");
    assert_eq!(lists.len(), 4);
    assert_eq!(of("disguise.speaks-for"), lists);
    assert_eq!(of("disguise.export"), lists);
    assert_ne!(lists[0], lists[1]);
}

/// S20: guesses of a password at `list` and `speaks-for` were told to no log. Each is an entry under the name of the person
/// whose password was guessed, known or not, and what is right is none.
pub(crate) fn each_wrong_password_is_told_wherever_it_is_tried() {
    let mut forum = forum();
    forum.apply(GDPR, Some(1), false).unwrap();
    let told = listening(&mut forum);
    for user in [1, 2, 99] {
        let user = Value::Int(user);
        let wrong = Credential::Password("a guess");
        let engine = &mut forum.engine;
        assert!(engine.list(&user, &wrong, time()).is_err());
        assert!(engine.speaks_for(&user, &wrong, time()).is_err());
    }
    let right = Credential::Password("secret words");
    for user in [1, 2] {
        let user = Value::Int(user);
        forum.engine.list(&user, &right, time()).unwrap();
        forum.engine.speaks_for(&user, &right, time()).unwrap();
    }
    let told = told.borrow();
    assert_eq!(told.len(), 6);
    for pair in told.chunks(2) {
        assert_eq!(pair[0].0, "disguise.list");
        assert_eq!(pair[1].0, "disguise.speaks-for");
        assert_eq!((pair[0].1, pair[1].1), (Outcome::Denied, Outcome::Denied));
        assert_eq!(pair[0].2, pair[1].2);
        assert!(!pair[0].2.is_empty());
    }
}

/// S10: a person whose id somebody else had meanwhile gave any other id, or over HTTP none, and their rows came back as the
/// newcomer's, in the name of a third person. The key is bound to its person first, and the rows stay.
pub(crate) fn a_reveal_under_another_id_gives_the_newcomer_nothing() {
    for newcomer_registers in [false, true] {
        let mut forum = forum();
        let gone = forum.apply(GDPR, Some(1), false).unwrap();
        forum.sql("INSERT INTO users VALUES (1, 'newcomer', 0)");
        if newcomer_registers {
            let (user, alone) = (Value::Int(1), Protection::KeyAlone);
            forum
                .engine
                .people()
                .register(&user, alone, time())
                .unwrap();
        }
        let theirs = forum.everything();
        let told = listening(&mut forum);
        let key = key(&forum, 1);
        for user in [77, 2] {
            let outcome = reveal(&mut forum, Value::Int(user), &key, gone.id);
            let refused = matches!(outcome, Err(Error::WrongCredential));
            assert!(refused, "{outcome:?}");
        }
        assert_eq!(forum.everything(), theirs);
        // Without an id it is the person whose key it is, under their own name.
        for user in [Value::Null, Value::Int(1)] {
            let back = reveal(&mut forum, user, &key, gone.id).unwrap();
            assert!(!back.is_complete());
            let count = "SELECT COUNT(*) FROM stories WHERE user_id = 1";
            assert_eq!(forum.numbers(count), [0], "{back:?}");
            let replaced = |it: &Kept| it.reason == KeptReason::OwnerReplaced;
            assert!(back.kept.iter().any(replaced), "{back:?}");
        }
        let told = told.borrow();
        let subjects: Vec<&String> = told.iter().map(|(_, _, subject)| subject).collect();
        assert_eq!(subjects[2], subjects[3]);
        assert!(!subjects[..2].contains(&subjects[2]));
    }
}

pub(crate) fn a_key_alone_says_whose_it_is() {
    let mut forum = forum();
    let away = forum.apply(GDPR, Some(1), false).unwrap();
    let there = forum.apply(BLANK, Some(2), false).unwrap();
    for (user, id) in [(1, away.id), (2, there.id)] {
        let own = key(&forum, user);
        assert!(
            reveal(&mut forum, Value::Null, &own, id)
                .unwrap()
                .is_complete()
        );
    }
    forum.assert_as_before();
    let stranger = SecretKey::generate().unwrap();
    let outcome = reveal(&mut forum, Value::Null, &stranger, away.id);
    assert!(matches!(outcome, Err(Error::WrongCredential)));
}

/// The tables of records and credentials, as whoever writes the database may copy them.
const COPIED: [&str; 4] = [
    "probity_principals",
    "probity_locators",
    "probity_bags",
    "probity_credentials",
];

fn copied(forum: &mut Forum) -> Vec<Vec<Vec<Value>>> {
    let rows = |table: &&str| {
        let sql = format!("SELECT * FROM {table}");
        forum.engine.database().query(&sql, &[]).unwrap()
    };
    COPIED.iter().map(rows).collect()
}

/// Puts the copies in the place of what the tables hold.
fn put_back(forum: &mut Forum, copies: &[Vec<Vec<Value>>]) {
    for (table, rows) in COPIED.iter().zip(copies) {
        forum.sql(&format!("DELETE FROM {table}"));
        for row in rows {
            let marks = vec!["?"; row.len()].join(",");
            let sql = format!("INSERT INTO {table} VALUES ({marks})");
            forum.engine.database().execute(&sql, row).unwrap();
        }
    }
}

/// Low finding of the security review: records that were forgotten, put back from a copy of the engine's tables, were revealed
/// with the person's key. Names that only the key gives stay when records go, and nothing opens what they name.
pub(crate) fn old_rows_put_back_do_not_bring_back_what_was_forgotten() {
    let mut forum = forum();
    let anonymous = forum.apply(ANON, None, false).unwrap();
    let gone = forum.apply(GDPR_REMOVE, Some(1), true).unwrap();
    let other = forum.apply(BLANK, Some(2), false).unwrap();
    let copies = copied(&mut forum);
    let (one, two) = (key(&forum, 1), key(&forum, 2));
    let engine = &mut forum.engine;
    let (first, second) = (Value::Int(1), Value::Int(2));
    let credential = Credential::Key(&one);
    engine.forget(&first, &credential, gone.id, time()).unwrap();
    let credential = Credential::Key(&two);
    engine
        .forget_everything(&second, &credential, time())
        .unwrap();
    put_back(&mut forum, &copies);
    let hidden = forum.everything();
    // Of one disguise: what is left is there as ever.
    let credential = Credential::Key(&one);
    let listed = forum.engine.list(&first, &credential, time()).unwrap();
    let listed: Vec<DisguiseId> = listed.iter().map(|it| it.id).collect();
    assert_eq!(listed, [anonymous.id]);
    let outcome = reveal(&mut forum, first.clone(), &one, gone.id);
    assert!(did_nothing(&outcome), "{outcome:?}");
    let exported = forum.engine.export(&first, &credential, None, time());
    let exported = exported.unwrap();
    assert!(exported.hidden.iter().all(|it| it.disguise == anonymous.id));
    // Of everything: neither the key nor the password is one.
    for credential in [Credential::Key(&two), Credential::Password("secret words")] {
        let outcome = forum.engine.list(&second, &credential, time());
        assert!(
            matches!(outcome, Err(Error::WrongCredential)),
            "{outcome:?}"
        );
    }
    let outcome = reveal(&mut forum, second, &two, other.id);
    assert!(
        matches!(outcome, Err(Error::WrongCredential)),
        "{outcome:?}"
    );
    assert_eq!(forum.everything(), hidden);
}

/// As above for a key that was changed: with the old records put back, the old key would have
/// opened them again. The name of the old key stays, and it opens nothing.
pub(crate) fn old_rows_put_back_are_not_open_to_a_key_that_was_changed() {
    let mut forum = forum();
    let gone = forum.apply(GDPR, Some(1), false).unwrap();
    let copies = copied(&mut forum);
    let (old, user) = (key(&forum, 1), Value::Int(1));
    let credential = Credential::Key(&old);
    let engine = &mut forum.engine;
    let made = engine
        .people()
        .change_key(&user, &credential, Protection::KeyAlone, time());
    let new = copied(&mut forum);
    put_back(&mut forum, &copies);
    let outcome = forum.engine.list(&user, &credential, time());
    assert!(
        matches!(outcome, Err(Error::WrongCredential)),
        "{outcome:?}"
    );
    let outcome = reveal(&mut forum, user.clone(), &old, gone.id);
    assert!(
        matches!(outcome, Err(Error::WrongCredential)),
        "{outcome:?}"
    );
    put_back(&mut forum, &new);
    let key = made.unwrap().key;
    assert!(
        reveal(&mut forum, user, &key, gone.id)
            .unwrap()
            .is_complete()
    );
    forum.assert_as_before();
}

/// Low finding of the security review: who writes the database and knows a public key makes records that a reveal inserts. A
/// migration stands for it here that gives what was removed another owner: the row is not one of whoever returns, and stays.
pub(crate) fn a_row_of_somebody_else_does_not_come_back_with_a_person() {
    let mut forum = forum();
    let gone = forum.apply(GDPR, Some(1), false).unwrap();
    let mapping = "[[update]]\nname = \"another owner\"\ntable = \"stories\"\n[[update.into]]\ntable = \"stories\"\nrest = true\ndrop = [\"user_id\"]\nsql = { user_id = \"user_id + 1\" }\n";
    let mappings = Mapping::parse(mapping).unwrap();
    forum.engine.updates().record(&mappings, time()).unwrap();
    let theirs = "SELECT COUNT(*) FROM stories WHERE user_id = 2";
    let before = forum.numbers(theirs);
    let back = forum.reveal(1, gone.id);
    let other = |it: &&Kept| it.reason == KeptReason::OtherOwner && it.table == "stories";
    assert_eq!(back.kept.iter().filter(other).count(), 3, "{back:?}");
    assert_eq!(forum.numbers(theirs), before);
}

/// S20: nobody counted the guesses at a password. The entry of each says how many credentials were refused for that person, under
/// a name that the database's salt does not give; a count to which nothing was added for 90 days begins anew.
pub(crate) fn refusals_are_counted_for_each_person() {
    let mut forum = forum();
    let told: Rc<RefCell<Vec<(String, u64)>>> = Rc::default();
    let seen = Rc::clone(&told);
    forum
        .engine
        .set_subject_key(Arc::new(SubjectKey::of_log(b"a secret of the log")));
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let payload: serde_json::Value = serde_json::from_slice(entry.payload).unwrap_or_default();
        let count = payload["refusals"].as_u64().unwrap_or(0);
        seen.borrow_mut()
            .push((entry.subjects.iter().collect(), count));
        Ok(())
    }));
    let wrong = Credential::Password("a guess");
    for user in [1, 1, 2, 1, 99, 99] {
        let outcome = forum.engine.list(&Value::Int(user), &wrong, time());
        assert!(matches!(outcome, Err(Error::WrongCredential)));
    }
    let right = Credential::Password("secret words");
    forum.engine.list(&Value::Int(1), &right, time()).unwrap();
    let counts: Vec<u64> = told.borrow().iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1, 2, 1, 3, 1, 2]);
    let names: BTreeSet<String> = told.borrow().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), 3);
    // A request that may be asked again is rolled back, and counts as well: its entry had no count.
    let once = Once {
        caller: b"a caller",
        key: "a key",
        request: b"a request",
        time: time(),
        until: time(),
    };
    let outcome: Result<_, Error> = forum.engine.once(&once, |engine| {
        let shown = engine.export(&Value::Int(2), &wrong, None, time())?;
        Ok((shown, None))
    });
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    assert_eq!(told.borrow().last().unwrap().1, 2);
    assert!(forum.engine.list(&Value::Int(2), &wrong, time()).is_err());
    assert_eq!(told.borrow().last().unwrap().1, 3);
    // Also where the request does something else instead, which is committed.
    let again = Once {
        key: "another key",
        ..once
    };
    let outcome: Result<_, Error> = forum.engine.once(&again, |engine| {
        let refused = engine.export(&Value::Int(2), &wrong, None, time());
        Ok((refused.is_err(), None))
    });
    assert!(matches!(outcome, Ok(Answered::Now(true))));
    assert_eq!(told.borrow().last().unwrap().1, 4);
    assert_eq!(told.borrow().len(), 9);
    let long_after = Timestamp::from_nanoseconds(time().nanoseconds() + 91 * 86_400_000_000_000);
    let long_after = long_after.unwrap();
    forum.engine.schedule().sweep(long_after).unwrap();
    assert!(
        forum
            .engine
            .list(&Value::Int(1), &wrong, long_after)
            .is_err()
    );
    assert_eq!(told.borrow().last().unwrap().1, 1);
}
