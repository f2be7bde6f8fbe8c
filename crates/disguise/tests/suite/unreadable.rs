//! Records of which a part is missing or damaged, as after a partial restore.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;

use probity_disguise::{
    Credential, Dialect, DisguiseId, Error, KeptReason, Protection, SecretKey, SpecFile, Value,
};

use super::forum::time;
use super::society::Society;

const DESCRIBED: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 12 } } }
[tables.posts]
owners = ["who"]
[tables.notes]
owners = ["who"]
"#;
const LINKED: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n";
const REMOVED: &str = "[[remove]]\ntable = \"notes\"\n";

/// One is disguised twice: posts get placeholders, and notes go. Returns both, and the rows of
/// `probity_bags` that the first one made.
fn twice() -> (Society, [DisguiseId; 2], Vec<Value>) {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO posts VALUES (10, 1), (20, 2)",
        "INSERT INTO notes VALUES (11, 1), (21, 2)",
    ]
    .map(str::to_owned);
    let described = |step: &str| format!("{DESCRIBED}{step}");
    let mut society = Society::of(&statements, &described(LINKED), &[1, 2]);
    let linked = society.leave(1);
    let bags = bags(&mut society);
    society.spec = SpecFile::parse(&described(REMOVED)).unwrap().spec;
    let removed = society.leave(1);
    (society, [linked, removed], bags)
}

fn bags(society: &mut Society) -> Vec<Value> {
    let ids = society
        .engine
        .database()
        .query("SELECT id FROM probity_bags", &[]);
    ids.unwrap().concat()
}

fn key_of(society: &Society) -> SecretKey {
    let key = society.key(1);
    SecretKey::of(key.suite(), *key.expose())
}

/// A lost row of the records of one disguise locked its person out of everything: also of the records of
/// another one, and of every way to give the lost one up.
pub(crate) fn a_record_that_cannot_be_read_keeps_no_other_away() {
    let one = Value::Int(1);
    for is_lost in [true, false] {
        let (mut society, [linked, removed], bags) = twice();
        for id in &bags {
            let sql = if is_lost {
                "DELETE FROM probity_bags WHERE id = ?"
            } else {
                "UPDATE probity_bags SET body = id WHERE id = ?"
            };
            let id = std::slice::from_ref(id);
            society.engine.database().execute(sql, id).unwrap();
        }
        let key = key_of(&society);
        let credential = Credential::Key(&key);
        let listed = society.engine.list(&one, &credential, time()).unwrap();
        let told: Vec<_> = listed.iter().map(|it| (it.id, it.unreadable)).collect();
        assert_eq!(told, [(linked, true), (removed, false)]);
        let exported = society.engine.export(&one, &credential, None, time());
        let exported = exported.unwrap();
        assert_eq!(exported.unreadable, BTreeSet::from([linked]));
        assert!(exported.hidden.iter().all(|it| it.disguise == removed));
        assert_eq!(exported.hidden.len(), 1);

        let revealed = society.reveal(1, linked);
        let kept: Vec<_> = revealed.kept.iter().map(|it| it.reason).collect();
        assert_eq!(kept, [KeptReason::Unreadable]);
        let revealed = society.reveal(1, removed);
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(society.numbers("SELECT id FROM notes WHERE who = 1"), [11]);

        let (alone, none) = (Protection::KeyAlone, time());
        let mut people = society.engine.people();
        let refused = people.change_key(&one, &credential, alone, none).err();
        let is_it =
            |error: &Error| matches!(error, Error::Unreadable { disguise } if *disguise == linked);
        assert!(refused.as_ref().is_some_and(is_it), "{refused:?}");
        let receipt = society.engine.forget(&one, &credential, linked, time());
        // Nothing of it was there to destroy but what is damaged.
        assert_eq!(receipt.unwrap().bags, u64::from(!is_lost));
        let mut people = society.engine.people();
        people.change_key(&one, &credential, alone, none).unwrap();
    }
}

/// A receipt said that records were destroyed which a trigger had kept.
pub(crate) fn what_a_trigger_keeps_is_not_forgotten() {
    if crate::connect().dialect() != Dialect::Sqlite {
        // Others let no trigger keep a row without an error, or a rule of its own would be needed.
        return;
    }
    let one = Value::Int(1);
    for table in ["probity_bags", "probity_locators"] {
        let (mut society, [_, removed], _) = twice();
        society.sql(&format!(
            "CREATE TRIGGER keeps BEFORE DELETE ON {table} BEGIN SELECT RAISE(IGNORE); END"
        ));
        let key = key_of(&society);
        let credential = Credential::Key(&key);
        let forgotten = society.engine.forget(&one, &credential, removed, time());
        assert!(
            matches!(forgotten, Err(Error::Database { .. })),
            "{forgotten:?}"
        );
        let forgotten = society.engine.forget_everything(&one, &credential, time());
        assert!(
            matches!(forgotten, Err(Error::Database { .. })),
            "{forgotten:?}"
        );
        society.sql("DROP TRIGGER keeps");
        assert!(society.reveal(1, removed).is_complete());
    }
}
