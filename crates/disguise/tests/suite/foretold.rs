//! Refusals and losses that `check` and `plan` foretell of a disguise of everybody.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{Engine, Error, SpecFile, Value};

use super::society::{Society, description};

const POSTS: &str = "[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n";

fn posts(registered: &[i64]) -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, other BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO posts VALUES (10, 1, 2), (20, 2, 2), (21, 2, 1), (90, 97, 1)",
    ]
    .map(str::to_owned);
    Society::of(&statements, &description(POSTS), registered)
}

/// A disguise of everybody was refused for people without a key, of which neither told.
pub(crate) fn everybody_without_a_key_is_foretold() {
    let mut society = posts(&[1]);
    let (spec, none) = (society.spec.clone(), BTreeMap::new());
    let told = society
        .engine
        .preview()
        .foretell(&spec, None, &none)
        .unwrap();
    assert!(
        told.iter()
            .any(|it| it.contains("table posts: 2 rows belong")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|it| it.contains("table people: 2 rows belong")),
        "{told:?}"
    );
    let refused = society.try_to_leave(None, false, None);
    assert!(
        matches!(refused, Err(Error::Unregistered { .. })),
        "{refused:?}"
    );
    let mut all = posts(&[1, 2, 3]);
    let told = all.engine.preview().foretell(&spec, None, &none).unwrap();
    assert_eq!(told, Vec::<String>::new());
}

/// Rows that went under one description waited under another, and nothing told why.
pub(crate) fn another_description_than_the_stored_one_is_noted() {
    let mut society = posts(&[1, 2, 3]);
    let spec = society.spec.clone();
    let noted = |society: &mut Society| {
        let cautions = society.engine.preview().cautions(&spec).unwrap();
        cautions
            .concat()
            .contains("owners who, and owners other in the stored description")
    };
    assert!(!noted(&mut society));
    let database = society.engine.database();
    let name = Value::Bytes(b"description".to_vec());
    let sql = "SELECT value FROM probity_settings WHERE name = ?";
    let stored = database
        .query(sql, std::slice::from_ref(&name))
        .unwrap()
        .concat();
    let Some(Value::Bytes(text)) = stored.first() else {
        panic!("{stored:?}");
    };
    let text = String::from_utf8(text.clone())
        .unwrap()
        .replace("\"who\"", "\"other\"");
    let sql = "UPDATE probity_settings SET value = ? WHERE name = ?";
    let text = Value::Bytes(text.into_bytes());
    database.execute(sql, &[text, name]).unwrap();
    assert!(noted(&mut society));
}

/// People of one users table lent their keys to those of another with the same ids.
pub(crate) fn another_users_table_is_refused_while_people_are_registered() {
    let mut society = posts(&[1, 2, 3]);
    society.sql("CREATE TABLE accounts (id BIGINT PRIMARY KEY, name VARCHAR(20))");
    society.sql("INSERT INTO accounts VALUES (1, 'another')");
    let all = description("");
    let file = SpecFile::parse(&all.replace("\"people\"", "\"accounts\"")).unwrap();
    let database = std::mem::replace(society.engine.database(), crate::connect());
    let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
    let refused = engine.install();
    assert!(
        matches!(&refused, Err(Error::Value { what }) if what.contains("id of people")),
        "{refused:?}"
    );
}
