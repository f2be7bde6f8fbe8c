//! The rows of passwords and tokens: each is sealed under a key of its own, and one that was replaced stays replaced.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    Credential, Database as _, Error, KeyCost, LoggedOperation, MissingOperation, Protection,
    RecoveryToken, ReplayRequest, Replayability, SecretKey, Value,
};
use probity_format::Entry;

use super::forum::*;

const PASSWORD: &str = "secret words";
/// Credentials that an older program wrote.
const OLDER: &str = include_str!("../testdata/credentials-1.txt");
const OLDER_PASSWORD: &str = "correct horse battery";

/// Every row of the passwords and tokens.
fn rows(forum: &mut Forum) -> Vec<Vec<Value>> {
    let sql = "SELECT id, holder, wrapped FROM probity_credentials";
    forum.engine.database().query(sql, &[]).unwrap()
}

fn put(forum: &mut Forum, rows: &[Vec<Value>]) {
    for row in rows {
        let sql = "INSERT INTO probity_credentials (id, holder, wrapped) VALUES (?, ?, ?)";
        forum.engine.database().execute(sql, row).unwrap();
    }
}

/// The rows of `after` that are none of `before`.
fn made(before: &[Vec<Value>], after: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let new = after.into_iter().filter(|row| !before.contains(row));
    new.collect()
}

fn blob(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        _ => &[],
    }
}

fn opens(forum: &mut Forum, user: i64, credential: &Credential<'_>) -> bool {
    match forum.engine.list(&Value::Int(user), credential, time()) {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error, Error::WrongCredential), "{error:?}");
            false
        }
    }
}

/// Returns whether two sealed keys show the difference of their private keys: the same key stream
/// encrypted both.
fn share_a_stream(one: &[u8], other: &[u8], keys: [&[u8; 32]; 2]) -> bool {
    let apart = |left: &[u8], right: &[u8]| -> Vec<u8> {
        left.iter().zip(right).map(|(a, b)| a ^ b).collect()
    };
    let wanted = apart(keys[0], keys[1]);
    one.windows(32)
        .any(|left| other.windows(32).any(|right| apart(left, right) == wanted))
}

/// A password that stayed over a change of the key sealed both keys under one key and nonce: their difference was in two copies
/// of the database, so that a token of the old key gave the new one. A row has a random salt of its own now.
pub(crate) fn a_password_that_stays_seals_each_key_under_another_key() {
    let mut forum = forum();
    let user = Value::Int(1);
    let mut older = vec![rows(&mut forum)];
    let mut keys = vec![*forum.keys[&1].expose()];
    for step in ["rekey", "forget"] {
        let (engine, current) = (&mut forum.engine, Credential::Password(PASSWORD));
        let kept = Protection::Password(PASSWORD);
        let made = if step == "rekey" {
            engine
                .people()
                .change_key(&user, &current, kept, time())
                .unwrap()
        } else {
            engine.forget_everything(&user, &current, time()).unwrap();
            engine.people().register(&user, kept, time()).unwrap()
        };
        let now = rows(&mut forum);
        for (before, key) in older.iter().zip(&keys) {
            for (one, other) in before
                .iter()
                .flat_map(|one| now.iter().map(move |it| (one, it)))
            {
                let both = [key, made.key.expose()];
                let shared = share_a_stream(blob(&one[2]), blob(&other[2]), both);
                assert!(!shared, "{step}: one key stream over two private keys");
            }
        }
        for row in self::made(older.last().unwrap(), now.clone()) {
            let ids = older.iter().flatten().map(|row| &row[0]);
            assert!(
                ids.into_iter().all(|id| *id != row[0]),
                "{step}: an id again"
            );
        }
        assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
        older.push(now);
        keys.push(*made.key.expose());
    }
}

/// A person of the test data: id, token, public key and rows.
struct Older {
    id: i64,
    token: RecoveryToken,
    public: Value,
    rows: Vec<Vec<Value>>,
}

fn unhex(text: &str) -> Value {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Value::Bytes(digits.map(byte).collect())
}

/// A forum in which people are registered by the rows of an older program.
fn older() -> (Forum, Vec<Older>) {
    let mut forum = forum();
    forum.engine.options().key_cost = KeyCost::DEFAULT;
    forum.sql("DELETE FROM probity_credentials");
    forum.sql("DELETE FROM probity_principals");
    forum.sql("INSERT INTO users VALUES (20, 'user20', 7)");
    let mut people: Vec<Older> = Vec::new();
    for line in OLDER.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let database = forum.engine.database();
        match words[0] {
            "salt" => {
                let set = "UPDATE probity_settings SET value = ? WHERE name = ?";
                let name = Value::Bytes(b"salt".to_vec());
                database.execute(set, &[unhex(words[1]), name]).unwrap();
            }
            "person" => people.push(Older {
                id: words[1].parse().unwrap(),
                token: RecoveryToken::parse(words[2]).unwrap(),
                public: unhex(words[3]),
                rows: Vec::new(),
            }),
            _ => {
                let row = words[1..].iter().map(|it| unhex(it)).collect();
                people.last_mut().unwrap().rows.push(row);
            }
        }
    }
    for person in &people {
        let sql = "INSERT INTO probity_principals (id, public_key, standing) VALUES (?, ?, 0)";
        let id = Value::Bytes(person.id.to_string().into_bytes());
        let row = [id, person.public.clone()];
        forum.engine.database().execute(sql, &row).unwrap();
        put(&mut forum, &person.rows);
    }
    (forum, people)
}

/// Rows of the older form are people's only way to what is theirs. They open, and are sealed anew when they are used; nothing of
/// the older form is left then, and what stands in an old copy is no credential beside a new password.
pub(crate) fn rows_of_the_older_form_open_and_are_sealed_anew() {
    let (mut forum, people) = older();
    for person in &people {
        let id = person.id;
        assert!(!opens(&mut forum, id, &Credential::Password("a guess")));
        assert!(opens(&mut forum, id, &Credential::Password(OLDER_PASSWORD)));
        let left = rows(&mut forum);
        let old = person.rows.iter().filter(|row| left.contains(row));
        assert_eq!(old.count(), 1, "the token was not used yet");
        assert!(opens(&mut forum, id, &Credential::Token(&person.token)));
        let left = rows(&mut forum);
        assert!(!person.rows.iter().any(|row| left.contains(row)));
        assert!(opens(&mut forum, id, &Credential::Password(OLDER_PASSWORD)));
        assert!(opens(&mut forum, id, &Credential::Token(&person.token)));
        assert_eq!(rows(&mut forum).len(), left.len());
        let (engine, user) = (&mut forum.engine, Value::Int(id));
        let current = Credential::Password(OLDER_PASSWORD);
        let new = Protection::Password("other words");
        engine
            .people()
            .change_password(&user, &current, new, time())
            .unwrap();
        put(&mut forum, &person.rows);
        assert!(!opens(
            &mut forum,
            id,
            &Credential::Password(OLDER_PASSWORD)
        ));
        assert!(!opens(&mut forum, id, &Credential::Token(&person.token)));
        assert!(opens(&mut forum, id, &Credential::Password("other words")));
    }
}

/// Whoever has a row of the older form and changes the key at once must not get another one of it: the old row and the new one
/// would have one key stream.
pub(crate) fn a_new_key_for_a_row_of_the_older_form_is_sealed_in_the_new_one() {
    let (mut forum, people) = older();
    for person in &people {
        let before = rows(&mut forum);
        let (engine, user) = (&mut forum.engine, Value::Int(person.id));
        let current = Credential::Password(OLDER_PASSWORD);
        let kept = Protection::Password(OLDER_PASSWORD);
        let new = engine
            .people()
            .change_key(&user, &current, kept, time())
            .unwrap();
        let now = made(&before, rows(&mut forum));
        let lengths = person.rows.iter().map(|row| blob(&row[0]).len());
        let older = lengths.max().unwrap();
        assert_eq!(now.len(), 2);
        assert!(now.iter().all(|row| blob(&row[0]).len() > older));
        assert!(opens(&mut forum, person.id, &Credential::Key(&new.key)));
        assert!(opens(
            &mut forum,
            person.id,
            &Credential::Password(OLDER_PASSWORD)
        ));
        assert!(!opens(
            &mut forum,
            person.id,
            &Credential::Token(&person.token)
        ));
    }
}

/// A forum whose operations are all remembered.
fn told(forum: &mut Forum) -> Rc<RefCell<Vec<LoggedOperation>>> {
    told_as(forum, |payload| payload)
}

/// Collects the operations from entries as `said` changes them.
fn told_as(
    forum: &mut Forum,
    said: impl Fn(serde_json::Value) -> serde_json::Value + 'static,
) -> Rc<RefCell<Vec<LoggedOperation>>> {
    let told: Rc<RefCell<Vec<LoggedOperation>>> = Rc::default();
    let seen = Rc::clone(&told);
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let payload = serde_json::from_slice(entry.payload).unwrap_or_default();
        let payload = said(payload).to_string();
        let entry = Entry {
            payload: payload.as_bytes(),
            ..*entry
        };
        seen.borrow_mut().extend(LoggedOperation::of(&entry));
        Ok(())
    }));
    told
}

fn replay(forum: &mut Forum, told: &Rc<RefCell<Vec<LoggedOperation>>>) -> Vec<MissingOperation> {
    let told = told.borrow().clone();
    let request = ReplayRequest {
        told: &told,
        specs: &[],
        parameters: BTreeMap::new(),
        time: time(),
    };
    forum.engine.missed().replay(&request).unwrap()
}

fn actions(missed: &[MissingOperation]) -> Vec<(&str, &Replayability)> {
    let all = missed.iter();
    all.map(|it| (it.action.as_str(), &it.outlook)).collect()
}

/// A person had everything forgotten and came back with the same password. The next replay ended
/// their new registration, because the new row had the name of the old one. The row has another
/// name now, and a later registration is not taken for the forgotten one.
pub(crate) fn whoever_registers_again_with_the_same_password_stays_registered() {
    let without_key = |mut payload: serde_json::Value| {
        if let Some(payload) = payload.as_object_mut() {
            payload.remove("public_key");
        }
        payload
    };
    for older_entries in [false, true] {
        let mut forum = forum();
        let log = if older_entries {
            told_as(&mut forum, without_key)
        } else {
            told(&mut forum)
        };
        let gone = forum.apply(BLANK, Some(1), false).unwrap();
        let tables = ["probity_locators", "probity_bags", "probity_credentials"];
        let copies = tables.map(|table| {
            let sql = format!("SELECT * FROM {table}");
            forum.engine.database().query(&sql, &[]).unwrap()
        });
        let (engine, user) = (&mut forum.engine, Value::Int(1));
        let (current, again) = (
            Credential::Password(PASSWORD),
            Protection::Password(PASSWORD),
        );
        engine.forget_everything(&user, &current, time()).unwrap();
        let new = engine.people().register(&user, again, time()).unwrap();
        assert_eq!(replay(&mut forum, &log), []);
        assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
        // Somebody puts the old rows back: they go again, and the person stays.
        forum.sql("DELETE FROM probity_forgotten");
        for (table, rows) in tables.iter().zip(copies) {
            for row in rows {
                let marks = vec!["?"; row.len()].join(",");
                let key = &row[0];
                let there = format!("DELETE FROM {table} WHERE id = ?");
                let engine = &mut forum.engine;
                engine
                    .database()
                    .execute(&there, std::slice::from_ref(key))
                    .unwrap();
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                engine.database().execute(&sql, &row).unwrap();
            }
        }
        let done = replay(&mut forum, &log);
        assert_eq!(actions(&done), [("disguise.forget", &Replayability::Done)]);
        assert_eq!(replay(&mut forum, &log), []);
        assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
        let token = new.token.as_ref().unwrap();
        assert!(opens(&mut forum, 1, &Credential::Token(token)));
        let old = SecretKey::from_bytes(*forum.keys[&1].expose());
        assert!(!opens(&mut forum, 1, &Credential::Key(&old)));
        forum.keys.insert(1, new.key);
        let outcome = forum.reveal_as(1, gone.id, probity_disguise::References::Recorrelate);
        assert!(did_nothing(&outcome), "{outcome:?}");
        forum.apply(BLANK, Some(1), false).unwrap();
    }
}

/// A registration that the log was told of and the database never had was done again by a replay although its person had
/// registered since: nobody holds the key that was registered then.
pub(crate) fn a_registration_that_was_lost_does_not_replace_a_later_one() {
    let mut forum = forum();
    let log = told(&mut forum);
    forum.sql("INSERT INTO users VALUES (5, 'user5', 7)");
    let (engine, user) = (&mut forum.engine, Value::Int(5));
    engine
        .people()
        .register(&user, Protection::KeyAlone, time())
        .unwrap();
    // As if the machine had stopped between entry and commit.
    forum.sql("DELETE FROM probity_operations");
    let five = Value::Bytes(b"5".to_vec());
    let remove = "DELETE FROM probity_principals WHERE id = ?";
    let database = forum.engine.database();
    database.execute(remove, &[five]).unwrap();
    let kept = Protection::Password("my words");
    forum.engine.people().register(&user, kept, time()).unwrap();
    assert_eq!(replay(&mut forum, &log), []);
    assert!(opens(&mut forum, 5, &Credential::Password("my words")));
    forum.apply(BLANK, Some(5), false).unwrap();
}

/// A password or token that was replaced opened everything again once its row was back in the table, and a replay had missed
/// nothing. What was replaced is noted like what was forgotten, in the database and in the log.
pub(crate) fn a_replaced_password_or_token_stays_replaced_when_its_row_is_put_back() {
    let mut forum = forum();
    let log = told(&mut forum);
    let user = Value::Int(1);
    let older = rows(&mut forum);
    let (engine, current) = (&mut forum.engine, Credential::Password(PASSWORD));
    let new = Protection::Password("second words");
    let second = engine
        .people()
        .change_password(&user, &current, new, time())
        .unwrap();
    let token = second.token.unwrap();
    let middle = rows(&mut forum);
    let (engine, current) = (&mut forum.engine, Credential::Token(&token));
    let new = Protection::Password("third words");
    engine
        .people()
        .change_password(&user, &current, new, time())
        .unwrap();
    let now = rows(&mut forum);
    let back = |forum: &mut Forum| {
        put(forum, &made(&now, older.clone()));
        let middle = made(&older, middle.clone());
        put(forum, &made(&now, middle));
    };
    back(&mut forum);
    let replaced = |forum: &mut Forum| {
        for credential in [
            Credential::Password(PASSWORD),
            Credential::Password("second words"),
            Credential::Token(&token),
        ] {
            assert!(!opens(forum, 1, &credential));
        }
        assert!(opens(forum, 1, &Credential::Password("third words")));
    };
    replaced(&mut forum);
    // Also under another name of the row, or said to be another key's.
    for row in made(&now, older.clone()) {
        let mut id = blob(&row[0]).to_vec();
        *id.last_mut().unwrap() ^= 1;
        let other = vec![Value::Bytes(id), now[0][1].clone(), row[2].clone()];
        put(&mut forum, &[other]);
    }
    replaced(&mut forum);
    // Whoever takes away what the database remembers is found by the log, all the way back.
    forum.sql("DELETE FROM probity_forgotten");
    let done = replay(&mut forum, &log);
    assert_eq!(
        actions(&done),
        [("disguise.password", &Replayability::Done); 2]
    );
    assert_eq!(replay(&mut forum, &log), []);
    replaced(&mut forum);
    back(&mut forum);
    replaced(&mut forum);
}

/// As above for a new key: rows that wrap the old one open nothing, and a replay removes them.
pub(crate) fn rows_that_wrap_a_replaced_key_are_found_by_a_replay() {
    let mut forum = forum();
    let log = told(&mut forum);
    let older = rows(&mut forum);
    let (engine, user) = (&mut forum.engine, Value::Int(1));
    let (current, kept) = (
        Credential::Password(PASSWORD),
        Protection::Password(PASSWORD),
    );
    engine
        .people()
        .change_key(&user, &current, kept, time())
        .unwrap();
    let now = rows(&mut forum);
    put(&mut forum, &made(&now, older));
    assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
    let done = replay(&mut forum, &log);
    assert_eq!(actions(&done), [("disguise.key", &Replayability::Done)]);
    assert_eq!(rows(&mut forum), now);
    assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
}

/// A backup from before a new password has the old one back. It cannot be taken away, for the new one is not in the log: it is
/// said, until its person has changed it again.
pub(crate) fn a_backup_with_an_older_password_says_so_and_keeps_it() {
    let mut forum = forum();
    let log = told(&mut forum);
    let older = rows(&mut forum);
    let (engine, user) = (&mut forum.engine, Value::Int(1));
    let (current, new) = (
        Credential::Password(PASSWORD),
        Protection::Password("other words"),
    );
    engine
        .people()
        .change_password(&user, &current, new, time())
        .unwrap();
    for table in [
        "probity_credentials",
        "probity_forgotten",
        "probity_operations",
    ] {
        forum.sql(&format!("DELETE FROM {table}"));
    }
    put(&mut forum, &older);
    let missed = replay(&mut forum, &log);
    assert_eq!(missed.len(), 1);
    let why = missed[0].outlook.reason().unwrap();
    assert!(why.contains("the old ones open"), "{why}");
    let (engine, current) = (&mut forum.engine, Credential::Password(PASSWORD));
    let new = Protection::Password("other words");
    engine
        .people()
        .change_password(&user, &current, new, time())
        .unwrap();
    assert_eq!(replay(&mut forum, &log), []);
    assert!(!opens(&mut forum, 1, &Credential::Password(PASSWORD)));
}

/// A row of the form before was named as replaced in the database alone, whatever sealed it anew: put back with nothing noted
/// there, its password opened and a replay had missed nothing, or said that it was done.
pub(crate) fn a_replaced_password_of_the_older_form_is_found_by_a_replay() {
    for used_before in [false, true] {
        let (mut forum, people) = older();
        let log = told(&mut forum);
        for person in &people {
            let old = Credential::Password(OLDER_PASSWORD);
            if used_before {
                assert!(opens(&mut forum, person.id, &old));
                assert!(opens(
                    &mut forum,
                    person.id,
                    &Credential::Token(&person.token)
                ));
            }
            let (engine, user) = (&mut forum.engine, Value::Int(person.id));
            let new = Protection::Password("other words");
            engine
                .people()
                .change_password(&user, &old, new, time())
                .unwrap();
            for row in &person.rows {
                forum.sql("DELETE FROM probity_forgotten");
                put(&mut forum, std::slice::from_ref(row));
                let done = replay(&mut forum, &log);
                assert_eq!(
                    actions(&done),
                    [("disguise.password", &Replayability::Done)]
                );
                assert_eq!(replay(&mut forum, &log), []);
                let old = Credential::Password(OLDER_PASSWORD);
                assert!(!opens(&mut forum, person.id, &old));
                assert!(!opens(
                    &mut forum,
                    person.id,
                    &Credential::Token(&person.token)
                ));
            }
            assert!(opens(
                &mut forum,
                person.id,
                &Credential::Password("other words")
            ));
        }
    }
}

/// The entry of more records than it can name named nothing, not even the credentials, so that a replay overlooked all of them.
pub(crate) fn what_was_forgotten_in_more_records_than_an_entry_names_is_found_by_its_credentials() {
    // As if there had been many more.
    let cut = |mut payload: serde_json::Value| {
        if let Some(names) = payload["destroyed"].as_array_mut() {
            names.truncate(2);
            payload["destroyed_cut"] = true.into();
        }
        payload
    };
    for is_restored in [false, true] {
        let mut forum = forum();
        forum.apply(GDPR, Some(1), false).unwrap();
        let log = told_as(&mut forum, cut);
        let tables = ["probity_locators", "probity_bags", "probity_credentials"];
        let copies = tables.map(|table| {
            let sql = format!("SELECT * FROM {table}");
            forum.engine.database().query(&sql, &[]).unwrap()
        });
        let (engine, user) = (&mut forum.engine, Value::Int(1));
        let current = Credential::Password(PASSWORD);
        engine.forget_everything(&user, &current, time()).unwrap();
        forum.sql("DELETE FROM probity_forgotten");
        if is_restored {
            forum.sql("DELETE FROM probity_operations");
        }
        for (table, rows) in tables.iter().zip(copies) {
            forum.sql(&format!("DELETE FROM {table}"));
            for row in rows {
                let marks = vec!["?"; row.len()].join(",");
                let sql = format!("INSERT INTO {table} VALUES ({marks})");
                forum.engine.database().execute(&sql, &row).unwrap();
            }
        }
        assert!(opens(&mut forum, 1, &Credential::Password(PASSWORD)));
        let missed = replay(&mut forum, &log);
        assert_eq!(missed.len(), 1);
        let reason = missed[0].outlook.reason();
        if is_restored {
            // Some of it would stay for ever, without anybody who could reach it.
            assert!(reason.unwrap().contains("too many for an entry"));
            let (engine, current) = (&mut forum.engine, Credential::Password(PASSWORD));
            engine.forget_everything(&user, &current, time()).unwrap();
        } else {
            assert_eq!(missed[0].outlook, Replayability::Done);
        }
        assert_eq!(replay(&mut forum, &log), []);
        assert!(!opens(&mut forum, 1, &Credential::Password(PASSWORD)));
        let key = SecretKey::from_bytes(*forum.keys[&1].expose());
        assert!(!opens(&mut forum, 1, &Credential::Key(&key)));
    }
}
