//! Users whose names a migration moves to a table of their own while some are away: Edna's tests of schema changes.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;

use probity_disguise::{DisguiseId, Engine, KeyCost, Mapping, Pseudo, References, Schema};

use super::forum::*;

/// No key of one column keeps the names, so that every database lets go of the column.
const USERS_TABLE: &str =
    "CREATE TABLE users (id BIGINT PRIMARY KEY, username VARCHAR(100), karma BIGINT)";

const MIGRATION: [&str; 3] = [
    "CREATE TABLE handles (handle VARCHAR(100) PRIMARY KEY, user_id BIGINT)",
    "INSERT INTO handles SELECT username, id FROM users",
    "ALTER TABLE users DROP COLUMN username",
];

const MAPPING: &str = r#"
[[update]]
name = "handles apart"
table = "users"
[[update.into]]
table = "handles"
columns = { handle = "username", user_id = "id" }
[[update.into]]
table = "users"
rest = true
drop = ["username"]
"#;

const NAMES: &str = r#" "handles": {"table": "handles", "id_cols": ["handle"],
   "owner_fks": [{"to_table": "users", "to_col": "id", "from_table": "handles", "from_col": "user_id"}], "other_fks": []},
 "stories""#;

const PSEUDO_AFTER: &str = r#"{"table": "users", "id_col": "id", "cols": ["id", "karma"],
  "val_generation": [{"RandNum": {"lb": 1000000, "ub": 9000000000000}}, {"ConstNum": 0}]}"#;

/// The owners that the description gives to the table of names.
#[derive(Clone, Copy, PartialEq)]
enum Handles {
    Owned,
    Nobodys,
}

/// When a disguise is revealed.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Before,
    After,
}

/// Moves the names to a table of their own, and tells the engine so.
fn migrate(forum: &mut Forum, handles: Handles) {
    for sql in MIGRATION {
        forum.sql(sql);
    }
    let schema = match handles {
        Handles::Owned => SCHEMA.replacen(" \"stories\"", NAMES, 1),
        Handles::Nobodys => SCHEMA.to_owned(),
    };
    let mut engine = Engine::new(
        forum.database.boxed(),
        Schema::from_edna_json(&schema).unwrap(),
        Pseudo::from_edna_json(PSEUDO_AFTER).unwrap(),
    );
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.install().unwrap();
    forum.engine = engine;
    let mapping = Mapping::parse(MAPPING).unwrap();
    forum.engine.updates().record(&mapping, time()).unwrap();
}

/// The names, each with whose it is.
fn handles(forum: &mut Forum) -> BTreeSet<String> {
    let rows = forum.engine.preview().rows("handles").unwrap();
    rows.iter().map(|row| format!("{row:?}")).collect()
}

fn reveal_all(forum: &mut Forum, ids: &[DisguiseId]) {
    for (user, id) in (1..=USERS).zip(ids) {
        let revealed = forum.reveal_as(user, *id, References::Delete).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
    }
}

/// Reveals an anonymisation of people who are away, of which nothing comes back yet.
fn reveal_below(forum: &mut Forum, id: DisguiseId) {
    for user in 1..=USERS {
        let revealed = forum.reveal_as(user, id, References::Delete).unwrap();
        assert!(!revealed.is_complete());
    }
}

/// Everything is as it was but for the column that moved, and everybody has the one name of their own.
fn assert_split(forum: &mut Forum) {
    let expected: BTreeSet<String> = (1..=USERS)
        .map(|user| format!(r#"[Text("user{user}"), Int({user})]"#))
        .collect();
    assert_eq!(handles(forum), expected);
    for (what, expected) in [
        ("users", USERS),
        ("users WHERE id <= 4 AND karma = 7", USERS),
        ("stories WHERE id - 10 * user_id BETWEEN 0 AND 2", 12),
        (
            "moderations WHERE user_id <= 4 AND moderator_user_id <= 4",
            12,
        ),
        ("probity_bags", 0),
        ("probity_locators", 0),
        ("probity_principals", USERS),
    ] {
        let count = forum.numbers(&format!("SELECT COUNT(*) FROM {what}"));
        assert_eq!(count, [expected], "{what}");
    }
}

/// Edna's tests 16 and 17.
pub(crate) fn names_that_moved_to_a_table_of_their_own_come_back_there() {
    let mut forum = forum_of_users(USERS_TABLE);
    let anonymous = forum.apply(ANON, None, false).unwrap().id;
    migrate(&mut forum, Handles::Owned);
    reveal_all(&mut forum, &[anonymous; 4]);
    assert_split(&mut forum);
    let mut forum = forum_of_users(USERS_TABLE);
    let gone: Vec<DisguiseId> = (1..=USERS)
        .map(|user| forum.apply(GDPR, Some(user), false).unwrap().id)
        .collect();
    migrate(&mut forum, Handles::Owned);
    reveal_all(&mut forum, &gone);
    assert_split(&mut forum);
}

/// Edna's test 18: the removals over an anonymisation are revealed first, and whoever is back has their name and no other.
pub(crate) fn names_of_placeholders_go_with_them_when_the_newer_disguise_comes_first() {
    for described in [Handles::Owned, Handles::Nobodys] {
        let mut forum = forum_of_users(USERS_TABLE);
        let anonymous = forum.apply(ANON, None, false).unwrap().id;
        let gone: Vec<DisguiseId> = (1..=USERS)
            .map(|user| forum.apply(GDPR, Some(user), true).unwrap().id)
            .collect();
        migrate(&mut forum, described);
        reveal_all(&mut forum, &gone);
        for user in 1..=USERS {
            let name = format!(r#"[Text("user{user}"), Int({user})]"#);
            assert!(handles(&mut forum).contains(&name), "{name}");
        }
        let owned = forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id <= 4");
        assert_eq!(owned, [0]);
        if described == Handles::Owned {
            reveal_all(&mut forum, &[anonymous; 4]);
            assert_split(&mut forum);
        }
    }
}

/// D4, Edna's tests 19 and 20: the name of a placeholder that was gone went to the nearest principal, so that its person had
/// random names beside their own. It makes no difference where the migration lies, or whether the names are anybody's.
pub(crate) fn names_of_placeholders_that_are_gone_do_not_come_to_their_person() {
    for described in [Handles::Owned, Handles::Nobodys] {
        for revealed in [When::After, When::Before] {
            let mut forum = forum_of_users(USERS_TABLE);
            let anonymous = forum.apply(ANON, None, false).unwrap().id;
            let gone: Vec<DisguiseId> = (1..=USERS)
                .map(|user| forum.apply(GDPR, Some(user), true).unwrap().id)
                .collect();
            if revealed == When::Before {
                reveal_below(&mut forum, anonymous);
            }
            migrate(&mut forum, described);
            if revealed == When::After {
                reveal_below(&mut forum, anonymous);
            }
            let all = forum.numbers("SELECT COUNT(*) FROM users WHERE id <= 4");
            assert_eq!(all, [0]);
            // Placeholders that the removals made are there still; nobody's own name is.
            let own: BTreeSet<String> = handles(&mut forum);
            assert!(!own.iter().any(|it| it.contains("user")), "{own:?}");
            if described == Handles::Nobodys {
                forum.sql("DELETE FROM handles");
            }
            reveal_all(&mut forum, &gone);
            assert_split(&mut forum);
        }
    }
}

/// A first try put nothing of the placeholders back, and kept the records as the migration had made them.
pub(crate) fn names_of_placeholders_go_with_them_although_a_first_try_failed() {
    let mut forum = forum_of_users(USERS_TABLE);
    let anonymous = forum.apply(ANON, None, false).unwrap().id;
    let taken = forum.numbers("SELECT user_id FROM stories WHERE id BETWEEN 20 AND 22");
    let gone = forum.apply(GDPR, Some(2), true).unwrap().id;
    migrate(&mut forum, Handles::Owned);
    for id in &taken {
        forum.sql(&format!("INSERT INTO users VALUES ({id}, 1)"));
    }
    let refused = forum.reveal_as(2, gone, References::Delete).unwrap();
    assert!(!refused.is_complete());
    forum.reveal_as(2, anonymous, References::Delete).unwrap();
    forum.sql("DELETE FROM users WHERE karma = 1");
    let revealed = forum.reveal_as(2, gone, References::Delete).unwrap();
    assert!(revealed.is_complete(), "{revealed:?}");
    let own = handles(&mut forum);
    let of_person: Vec<&String> = own.iter().filter(|it| it.ends_with("Int(2)]")).collect();
    assert_eq!(of_person, [r#"[Text("user2"), Int(2)]"#]);
    let stories = forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 2");
    assert_eq!(stories, [3]);
}
