//! Ids that the database takes for the same although they are spelled in two ways: by capitals, accents, spaces at the end.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{
    Authority, Database, Dialect, Error, Holding, KeptReason, Protection, Revealed, Value,
};

use super::forum::time;
use super::member::Member;

const USERS: &str = r#"
[users]
table = "members"
id = "email"
placeholder = { email = { RandStr = { len = 20 } } }
[tables.notes]
owners = ["email"]
references = [{ columns = ["topic"], table = "topics", to = ["name"] }]
[tables.letters]
owners = ["sender", "receiver"]
"#;
const REMOVE: &str = r#"
[[remove]]
table = "notes"
[[remove]]
table = "letters"
[[remove]]
table = "members"
"#;
const DECORRELATE: &str = r#"
[[decorrelate]]
table = "notes"
owners = ["email"]
[[decorrelate]]
table = "letters"
owners = ["sender", "receiver"]
"#;
const GROUPED: &str = r#"
[[decorrelate]]
table = "notes"
owners = ["email"]
group_by = ["topic"]
"#;
const TABLES: [&str; 4] = ["members", "topics", "notes", "letters"];

/// Ways to write the first member's id: on each database the greatest difference that it takes for none.
fn spellings(database: &dyn Database) -> [&'static str; 3] {
    match database.dialect() {
        Dialect::Sqlite => ["ada@b.c", "ADA@b.c", "Ada@B.C"],
        Dialect::Postgres => ["ada@b.c", "\u{c1}DA@b.c", "Ada@B.C"],
        _ => ["ada@b.c", "\u{c1}DA@b.c ", "Ada@B.C"],
    }
}

fn opened(description: &str) -> Member {
    let mut database = crate::connect();
    let text = match database.dialect() {
        Dialect::Sqlite => "VARCHAR(40) COLLATE NOCASE",
        Dialect::Postgres => {
            let collation = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)";
            database.execute(collation, &[]).unwrap();
            "VARCHAR(40) COLLATE loose"
        }
        _ => "VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    };
    for sql in [
        format!("CREATE TABLE members (email {text} PRIMARY KEY)"),
        format!("CREATE TABLE topics (name {text} PRIMARY KEY)"),
        format!(
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, email {text}, topic {text}, FOREIGN KEY (email) REFERENCES members(email), FOREIGN KEY (topic) REFERENCES topics(name))"
        ),
        format!(
            "CREATE TABLE letters (id BIGINT PRIMARY KEY, sender {text}, receiver {text}, FOREIGN KEY (sender) REFERENCES members(email), FOREIGN KEY (receiver) REFERENCES members(email))"
        ),
        "INSERT INTO topics VALUES ('Cats')".to_owned(),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let [one, two, three] = spellings(&*database).map(Value::from);
    let (bob, loud) = (Value::from("bob"), Value::from("BOB"));
    let (cats, small) = (Value::from("Cats"), Value::from("cats"));
    for id in [&one, &bob] {
        database
            .execute("INSERT INTO members VALUES (?)", std::slice::from_ref(id))
            .unwrap();
    }
    for (id, owner, topic) in [
        (1, &one, &cats),
        (2, &two, &small),
        (3, &three, &cats),
        (4, &loud, &small),
    ] {
        let row = [Value::Int(id), owner.clone(), topic.clone()];
        database
            .execute("INSERT INTO notes VALUES (?, ?, ?)", &row)
            .unwrap();
    }
    for (id, from, to) in [
        (1, &two, &bob),
        (2, &loud, &three),
        (3, &two, &three),
        (4, &bob, &loud),
    ] {
        let row = [Value::Int(id), from.clone(), to.clone()];
        database
            .execute("INSERT INTO letters VALUES (?, ?, ?)", &row)
            .unwrap();
    }
    Member::called(one, database, &format!("{USERS}{description}"))
}

/// The rows in which a member is named, however spelled.
fn naming(member: &mut Member, id: &str) -> usize {
    let sql = "SELECT (SELECT COUNT(*) FROM notes WHERE email = ?) + (SELECT COUNT(*) FROM letters WHERE sender = ? OR receiver = ?)";
    let id = Value::from(id);
    let rows = member
        .engine
        .database()
        .query(sql, &[id.clone(), id.clone(), id]);
    rows.unwrap()
        .concat()
        .first()
        .unwrap()
        .to_string()
        .parse()
        .unwrap()
}

/// D5: of two notes of one person, one with the id in other letters, one came back and the other never did.
pub(crate) fn rows_that_spell_their_owner_in_another_way_leave_and_return() {
    for description in [REMOVE, DECORRELATE, GROUPED] {
        let mut member = opened(description);
        let before = member.rows(TABLES);
        for _ in 0..2 {
            let applied = member.leave();
            let left = if description == GROUPED { 3 } else { 0 };
            assert_eq!(naming(&mut member, "ada@b.c"), left, "{description}");
            let revealed = member.return_from(&applied);
            assert!(revealed.is_complete(), "{description}: {revealed:?}");
            assert_eq!(member.rows(TABLES), before, "{description}");
            assert_eq!(member.hidden_by(), 0);
        }
    }
}

/// D5: a disguise of everybody left rows alone that spell their owner in another way, as if they were nobody's.
pub(crate) fn rows_of_everybody_are_hidden_however_they_spell_their_owner() {
    for description in [DECORRELATE, GROUPED] {
        let mut member = opened(description);
        let bob = Value::from("bob");
        let other = member
            .engine
            .people()
            .register(&bob, Protection::KeyAlone, time())
            .unwrap();
        let before = member.rows(TABLES);
        let applied = member.all_leave();
        let left = if description == GROUPED { 6 } else { 0 };
        assert_eq!(
            naming(&mut member, "ada@b.c") + naming(&mut member, "bob"),
            left
        );
        let placeholders = if description == GROUPED { 3 } else { 12 };
        assert_eq!(applied.pseudoprincipals, placeholders, "{description}");
        assert!(member.return_from(&applied).is_complete());
        assert!(member.returned(bob, &other.key, applied.id).is_complete());
        assert_eq!(member.rows(TABLES), before);
    }
    // Nobody could bring back what is somebody's without a credential, whoever spells them how.
    let mut member = opened(DECORRELATE);
    let before = member.rows(TABLES);
    assert!(matches!(
        member.apply(None),
        Err(Error::Unregistered { .. })
    ));
    assert_eq!(member.rows(TABLES), before);
}

/// D5: the last of two owners of a letter takes it along, and either brings it back, as each of them spells the other.
pub(crate) fn what_is_shared_or_refers_comes_back_in_its_own_spelling() {
    let mut member = opened(REMOVE);
    let bob = Value::from("bob");
    let other = member
        .engine
        .people()
        .register(&bob, Protection::KeyAlone, time())
        .unwrap();
    let before = member.rows(TABLES);
    for bob_first in [true, false] {
        let applied = member.leave();
        let also = member.apply(Some(bob.clone())).unwrap();
        let [_, _, notes, letters] = member.rows(TABLES);
        assert_eq!((notes.len(), letters.len()), (0, 0));
        let back = [bob_first, !bob_first].map(|is_bob| {
            if is_bob {
                member.returned(bob.clone(), &other.key, also.id)
            } else {
                member.return_from(&applied)
            }
        });
        assert!(back.iter().all(Revealed::is_complete), "{back:?}");
        assert_eq!(member.rows(TABLES), before);
        assert_eq!(member.hidden_by(), 0);
    }
}

/// D5: a credential was made for each spelling of an id, and rows were sealed to one that their owner did not have.
pub(crate) fn an_id_in_another_spelling_is_refused() {
    let mut member = opened(REMOVE);
    let before = member.rows(TABLES);
    let [_, two, _] = spellings(&**member.engine.database());
    let other = Value::from(two);
    let made = member
        .engine
        .people()
        .register(&other, Protection::KeyAlone, time());
    let registered = made.err().unwrap().to_string();
    assert!(registered.contains("in another spelling"), "{registered}");
    // V9: a hold under another spelling held nothing.
    let authority = Authority {
        actor: "court",
        basis: "file 1",
        time: time(),
    };
    for what in [Holding::Person(&other), Holding::Away(&other)] {
        let held = member.engine.holds().place(what, &authority);
        let held = held.unwrap_err().to_string();
        assert!(held.contains("in another spelling"), "{held}");
    }
    let applied = member.apply(Some(other)).unwrap_err().to_string();
    assert!(applied.contains("in another spelling"), "{applied}");
    // The application may change how it spells somebody.
    let sql = "UPDATE members SET email = ? WHERE email = 'bob'";
    let bob = Value::from("bob");
    member
        .engine
        .people()
        .register(&bob, Protection::KeyAlone, time())
        .unwrap();
    member
        .engine
        .database()
        .execute(sql, &[Value::from("BOB")])
        .unwrap_or_default();
    assert_eq!(member.rows(["topics", "notes", "letters"])[..], before[1..]);
}

/// D5: nothing goes to somebody who came to an id meanwhile, in whichever spelling.
pub(crate) fn whoever_came_to_an_id_in_another_spelling_gets_nothing() {
    for description in [
        REMOVE,
        &format!("{DECORRELATE}[[remove]]\ntable = \"members\"\n"),
    ] {
        let mut member = opened(description);
        let before = member.rows(TABLES);
        let applied = member.leave();
        let newcomer = "INSERT INTO members VALUES ('ADA@b.c')";
        member.sql(&[newcomer]);
        for registered in [false, true] {
            if registered {
                let id = Value::from("ADA@b.c");
                member
                    .engine
                    .people()
                    .register(&id, Protection::KeyAlone, time())
                    .unwrap();
            }
            let kept = member.return_from(&applied).kept;
            assert!(
                kept.iter().any(|it| it.reason == KeptReason::RowExists),
                "{kept:?}"
            );
            assert_eq!(naming(&mut member, "ada@b.c"), 0, "{kept:?}");
        }
        member.sql(&["DELETE FROM members WHERE email = 'ADA@b.c'"]);
        let revealed = member.return_from(&applied);
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(member.rows(TABLES), before);
    }
}
