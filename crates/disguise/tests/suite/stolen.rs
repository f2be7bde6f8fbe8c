//! Secrets of a stolen database: nothing is learned from it without a credential.

use std::collections::BTreeSet;

use probity_disguise::{Database as _, Value};

use super::forum::*;

/// Text of the hidden rows that stands nowhere else.
const MARKS: [&str; 5] = ["unmistakable", "user1", "user2", "secret words", "url0"];

/// Every value of the engine's own tables, table by table.
fn stolen(forum: &mut Forum) -> Vec<(String, Vec<Vec<Value>>)> {
    let database = forum.engine.database();
    let tables = database.catalog().unwrap().into_keys();
    let own = tables.filter(|table| table.starts_with("probity_"));
    let own: Vec<String> = own.collect();
    own.into_iter()
        .map(|table| {
            let rows = database.query(&format!("SELECT * FROM {table}"), &[]);
            (table, rows.unwrap())
        })
        .collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.clone(),
        other => other.to_string().into_bytes(),
    }
}

pub(crate) fn a_stolen_database_tells_neither_who_left_nor_what_they_had() {
    let mut forum = forum();
    for user in [1, 2] {
        forum.sql(&format!(
            "UPDATE stories SET url = 'https://unmistakable-{user}.example' WHERE user_id = {user}"
        ));
    }
    let first = forum.apply(GDPR, Some(1), false).unwrap();
    let second = forum.apply(GDPR, Some(2), false).unwrap();

    let keys: Vec<[u8; 32]> = forum.keys.values().map(|key| *key.expose()).collect();
    let mut sealed = BTreeSet::new();
    let mut lengths = BTreeSet::new();
    for (table, rows) in stolen(&mut forum) {
        for value in rows.iter().flatten() {
            let bytes = bytes(value);
            let holds = |what: &[u8]| bytes.windows(what.len()).any(|it| it == what);
            for mark in MARKS {
                assert!(!holds(mark.as_bytes()), "{mark} in {table}");
            }
            assert!(!keys.iter().any(|key| holds(key)), "a key in {table}");
        }
        if table == "probity_locators" || table == "probity_bags" {
            let values = rows.iter().flatten().map(bytes);
            // The mailbox of a person is that of one in 256.
            for value in values.filter(|value| value.len() > 1) {
                assert!(sealed.insert(value), "a value of {table} links two records");
            }
        }
        if table == "probity_locators" {
            lengths.extend(rows.iter().flatten().map(|it| bytes(it).len()));
        }
    }
    // Ids, mailboxes and what is sealed: one length each, whatever is behind it.
    assert!(lengths.len() <= 3, "{lengths:?}");
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM users WHERE id IN (1, 2)"),
        [0]
    );
    let away = "SELECT COUNT(*) FROM probity_principals";
    let there = "SELECT COUNT(*) FROM users";
    // Whoever has an account is registered, placeholders too; whoever is away is not.
    assert_eq!(forum.numbers(away), forum.numbers(there));

    for (user, id) in [(1, first.id), (2, second.id)] {
        forum.reveal(user, id);
    }
    let back = "SELECT COUNT(*) FROM stories WHERE url LIKE 'https://unmistakable%'";
    assert_eq!(forum.numbers(back), [6]);
}
