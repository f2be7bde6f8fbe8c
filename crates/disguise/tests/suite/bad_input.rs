//! Bad input of every kind: an error that names the place, no change, and the same work for every wrong credential.

#![expect(clippy::indexing_slicing, reason = "tests stop at the first surprise")]

use probity_disguise::{
    Credential, Database as _, Dialect, Error, KeptReason, Protection, RecoveryToken, References,
    RevealRequest, Revealed, Rows, SecretKey, Value,
};

use super::forum::*;

pub(crate) fn a_schema_that_changed_meanwhile_is_named_and_nothing_is_lost() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let column = "ALTER TABLE stories DROP COLUMN is_moderated";
    forum.sql(column);
    let disguised = forum.everything();
    let revealed = forum.reveal(1, applied.id);
    let changed = revealed
        .kept
        .iter()
        .filter(|it| it.reason == KeptReason::SchemaChanged && it.table == "stories");
    assert_eq!(changed.count(), 3, "{revealed:?}");
    assert_eq!(forum.everything()[1], disguised[1]);
    let spec = r#"{"stories": [{"Modify": {"pred": "True", "from": "", "col": "is_moderated", "gen_value": {"ConstNum": 1}}}]}"#;
    match forum.apply(spec, Some(2), false) {
        Err(Error::Spec(error)) => assert_eq!(
            error.to_string(),
            "line 1, table stories, entry 1: table stories has no column is_moderated"
        ),
        other => assert!(other.is_err(), "{other:?}"),
    }
    // With the column back, so is everything.
    forum.sql("ALTER TABLE stories ADD COLUMN is_moderated BIGINT");
    forum.sql("UPDATE stories SET is_moderated = 0");
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn every_change_of_a_table_gives_the_schema_another_number() {
    let mut forum = forum();
    let mut before = forum.engine.database().catalog_version().unwrap();
    let dialect = forum.engine.database().dialect();
    let sqlite = dialect == Dialect::Sqlite;
    let (made, gone) = match dialect {
        Dialect::Sqlite => (
            "CREATE TRIGGER told AFTER INSERT ON notes BEGIN SELECT 1; END",
            "DROP TRIGGER told",
        ),
        Dialect::Mysql => (
            "CREATE TRIGGER told BEFORE INSERT ON notes FOR EACH ROW SET NEW.story_id = NULL",
            "DROP TRIGGER told",
        ),
        _ => (
            "CREATE RULE told AS ON INSERT TO notes DO ALSO NOTHING",
            "DROP RULE told ON notes",
        ),
    };
    for (sql, everywhere) in [
        ("ALTER TABLE stories ADD COLUMN draft VARCHAR(20)", true),
        ("ALTER TABLE stories RENAME COLUMN draft TO note", true),
        (
            "ALTER TABLE stories ALTER COLUMN note SET DEFAULT 'n'",
            false,
        ),
        ("ALTER TABLE stories DROP COLUMN note", true),
        (
            "CREATE TABLE notes (id BIGINT NOT NULL, story_id BIGINT)",
            true,
        ),
        ("ALTER TABLE notes ADD PRIMARY KEY (id)", false),
        (
            "ALTER TABLE notes ADD CONSTRAINT told FOREIGN KEY (story_id) REFERENCES stories(id)",
            false,
        ),
        (made, true),
        (gone, true),
        ("ALTER TABLE notes RENAME TO remarks", true),
        ("DROP TABLE remarks", true),
    ] {
        if sqlite && !everywhere {
            continue;
        }
        forum.sql(sql);
        let number = forum.engine.database().catalog_version().unwrap();
        assert_ne!(number, before, "{sql}");
        before = number;
    }
}

pub(crate) fn a_column_added_meanwhile_is_hidden_with_the_row_from_then_on() {
    let mut forum = forum();
    let first = forum.apply(GDPR, Some(1), false).unwrap();
    forum.sql("ALTER TABLE stories ADD COLUMN draft VARCHAR(20)");
    forum.sql("UPDATE stories SET draft = 'secret'");
    let second = forum.apply(GDPR, Some(2), false).unwrap();
    assert!(forum.reveal(2, second.id).is_complete());
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 2 AND draft = 'secret'"),
        [3]
    );
    assert!(forum.reveal(1, first.id).is_complete());
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 1 AND draft IS NULL"),
        [3]
    );
}

/// Numbers are used again by databases, addresses by people.
pub(crate) fn whoever_came_to_an_id_meanwhile_gets_nothing_of_its_owner() {
    let mut forum = forum();
    let anonymous = forum.apply(ANON, None, false).unwrap();
    let gone = forum.apply(GDPR, Some(1), true).unwrap();
    forum.sql("INSERT INTO users VALUES (1, 'newcomer', 0)");
    for registered in [false, true] {
        if registered {
            let user = Value::Int(1);
            let protection = Protection::KeyAlone;
            forum
                .engine
                .people()
                .register(&user, protection, time())
                .unwrap();
        }
        let has = |revealed: &Revealed, reason| revealed.kept.iter().any(|it| it.reason == reason);
        // What is anonymous comes back under its placeholders, and goes no further.
        let back = forum.reveal(1, gone.id);
        assert!(has(&back, KeptReason::RowExists), "{back:?}");
        let back = forum.reveal(1, anonymous.id);
        assert!(has(&back, KeptReason::OwnerReplaced), "{back:?}");
        let theirs = "SELECT COUNT(*) FROM stories WHERE user_id = 1";
        assert_eq!(forum.numbers(theirs), [0]);
        let theirs = "SELECT COUNT(*) FROM moderations WHERE user_id = 1 OR moderator_user_id = 1";
        assert_eq!(forum.numbers(theirs), [0]);
        // Nor does the owner of the id get what is the newcomer's.
        assert!(forum.apply(GDPR, Some(1), true).is_err());
        assert_eq!(forum.numbers("SELECT karma FROM users WHERE id = 1"), [0]);
    }
    forum.sql("DELETE FROM users WHERE id = 1");
    assert!(forum.reveal(1, gone.id).is_complete());
    for user in 2..=USERS {
        forum.reveal(user, anonymous.id);
    }
    forum.assert_as_before();
}

pub(crate) fn every_wrong_credential_costs_the_same_work() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    let disguised = forum.everything();
    let token = RecoveryToken::parse(&"A".repeat(27)).unwrap();
    let mut work = Vec::new();
    for (user, credential) in [
        (1, Credential::Password("wrong")),
        (1, Credential::Password("")),
        // The right password of somebody else, somebody who is there, and somebody who never was.
        (3, Credential::Password("wrong")),
        (777, Credential::Password("secret words")),
        (1, Credential::Token(&token)),
        (777, Credential::Token(&token)),
    ] {
        work.push(forum.work(|engine| {
            let outcome = engine.reveal(&RevealRequest {
                user: Value::Int(user),
                credential,
                id: applied.id,
                references: References::Recorrelate,
                rows: Rows::PerColumn,
                time: time(),
            });
            assert!(
                matches!(outcome, Err(Error::WrongCredential)),
                "{outcome:?}"
            );
        }));
    }
    // The statements are the same; a password is stretched in any case.
    assert!(
        work.iter().all(|statements| *statements == work[0]),
        "{work:?}"
    );
    let stranger = SecretKey::generate().unwrap();
    let outcome =
        forum
            .engine
            .forget_everything(&Value::Int(1), &Credential::Key(&stranger), time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    assert_eq!(forum.everything(), disguised);
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}

pub(crate) fn a_removal_that_breaks_a_constraint_changes_nothing() {
    let mut forum = forum();
    for sql in [
        "CREATE TABLE teams (id BIGINT PRIMARY KEY, owner BIGINT REFERENCES users(id))",
        "CREATE TABLE members (id BIGINT PRIMARY KEY, owner BIGINT REFERENCES users(id), team BIGINT REFERENCES teams(id))",
        "ALTER TABLE teams ADD COLUMN leader BIGINT REFERENCES members(id)",
        "INSERT INTO teams VALUES (1, 1, NULL)",
        "INSERT INTO members VALUES (5, 1, 1), (6, 2, 1)",
        "UPDATE teams SET leader = 5",
    ] {
        forum.sql(sql);
    }
    let before = (
        forum.engine.preview().rows("teams").unwrap(),
        forum.everything(),
    );
    let remove = r#"{"teams": [{"Remove": {"pred": "True", "from": ""}}], "members": [{"Remove": {"pred": "True", "from": ""}}]}"#;
    // Member 6 is somebody else's and refers to the team, so that the constraint must hold.
    let outcome = forum.apply(remove, Some(1), false);
    assert!(
        matches!(outcome, Err(Error::Database { .. })),
        "{outcome:?}"
    );
    let after = (
        forum.engine.preview().rows("teams").unwrap(),
        forum.everything(),
    );
    assert_eq!(after, before);
    forum.sql("INSERT INTO tags VALUES (3, 'the connection goes on')");
}
