//! Rows that the application makes or changes while placeholders stand for somebody, and what becomes of them afterwards.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    Authority, Database as _, Dialect, DisguiseId, Holding, Kept, KeptReason, References, Revealed,
    Value,
};
use probity_format::Entry;

use super::forum::time;
use super::society::Society;

/// Posts go under placeholders; the rest is said by each test.
fn described(tables: &str) -> String {
    format!(
        r#"
[users]
table = "people"
id = "id"
placeholder = {{ id = {{ RandNum = {{ lb = 1000000, ub = 2000000000 }} }} }}
{tables}
[[decorrelate]]
table = "posts"
owners = ["author"]
"#
    )
}

const POSTS: &str = "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT NOT NULL REFERENCES people(id), words VARCHAR(40))";

/// Three people and two posts of the first, with further tables.
fn society(more: &[String], tables: &str) -> Society {
    let mut statements = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, invited_by BIGINT)".to_owned(),
        POSTS.to_owned(),
        "INSERT INTO people VALUES (1, NULL), (2, NULL), (3, NULL)".to_owned(),
        "INSERT INTO posts VALUES (1, 1, 'one'), (2, 1, 'two')".to_owned(),
    ];
    statements.extend_from_slice(more);
    Society::of(&statements, &described(tables), &[1, 2, 3])
}

/// Has the first person leave, and gives the placeholders of their posts.
fn leave(society: &mut Society) -> (DisguiseId, [i64; 2]) {
    let id = society.leave(1);
    let placeholders = society.numbers("SELECT author FROM posts ORDER BY id");
    (id, placeholders.try_into().unwrap())
}

/// Returns the kept rows, by table, identity and reason.
/// The payloads of the entries from now on.
fn payloads(society: &mut Society) -> Rc<RefCell<Vec<String>>> {
    let told: Rc<RefCell<Vec<String>>> = Rc::default();
    let seen = Rc::clone(&told);
    society.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let payload = String::from_utf8_lossy(entry.payload).into_owned();
        seen.borrow_mut().push(payload);
        Ok(())
    }));
    told
}

fn kept(revealed: &Revealed) -> Vec<(&str, String, KeptReason)> {
    let named = |it: &Kept| it.identity.clone();
    let mut kept: Vec<_> = revealed
        .kept
        .iter()
        .map(|it| (&*it.table, named(it), it.reason))
        .collect();
    kept.sort();
    kept
}

/// Actions of the database on whoever refers to a row that goes.
const ACTIONS: [&str; 3] = ["", "ON DELETE SET NULL", "ON DELETE CASCADE"];

/// C1: a reveal took placeholders out of the users table without a look at what refers to them. The database then deleted or
/// emptied rows of other people by `ON DELETE`, or refused the whole reveal, so that the person stayed away.
pub(crate) fn an_account_that_others_refer_to_stays_until_they_let_go_of_it() {
    for action in ACTIONS {
        let more = [
            "CREATE TABLE guests (id BIGINT PRIMARY KEY, invited_by BIGINT)",
            "CREATE TABLE docs (id BIGINT PRIMARY KEY, owner BIGINT NOT NULL REFERENCES people(id), approver BIGINT)",
            &format!("ALTER TABLE docs ADD COLUMN signer BIGINT REFERENCES people(id) {action}"),
        ];
        let tables = "[tables.docs]\nowners = [\"owner\"]";
        let mut society = society(&more.map(str::to_owned), tables);
        let (id, [first, second]) = leave(&mut society);
        society.sql(&format!("INSERT INTO docs VALUES (1, 3, NULL, {first})"));
        let docs = society.engine.preview().rows("docs").unwrap();
        let revealed = society.reveal(1, id);
        let expected = ("people", first.to_string(), KeptReason::ReferredTo);
        assert_eq!(kept(&revealed), [expected], "{action}");
        let said = revealed.kept[0].said.as_deref();
        assert_eq!(said, Some("table docs, column signer"));
        assert_eq!(revealed.values, BTreeMap::from([("posts".to_owned(), 2)]));
        assert_eq!(
            society.engine.preview().rows("docs").unwrap(),
            docs,
            "{action}"
        );
        let there = format!("SELECT id FROM people WHERE id IN ({first}, {second})");
        assert_eq!(society.numbers(&there), [first]);
        // It is tried again, and waits for nobody's leave but theirs.
        assert!(!society.reveal(1, id).is_complete());
        society.sql("DELETE FROM docs");
        let revealed = society.reveal(1, id);
        assert!(revealed.found && revealed.is_complete(), "{revealed:?}");
        society.assert_as_before(action);
        // Whoever retains what was made meanwhile is not told again.
        let (id, [first, _]) = leave(&mut society);
        society.sql(&format!("INSERT INTO docs VALUES (1, 3, NULL, {first})"));
        let revealed = society.reveal_by(1, id, References::Retain).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        let there = format!("SELECT id FROM people WHERE id = {first}");
        assert_eq!(society.numbers(&there), [first]);
        assert!(!society.reveal(1, id).found);
    }
}

/// C1: nobody was told before that a key leads to placeholders of which the specification says nothing. `check` said that it fits.
pub(crate) fn keys_that_keep_placeholders_are_noted() {
    for action in ACTIONS {
        let people = format!(
            "CREATE TABLE people (id BIGINT PRIMARY KEY, invited_by BIGINT REFERENCES people(id) {action})"
        );
        let docs = "CREATE TABLE docs (id BIGINT PRIMARY KEY, owner BIGINT REFERENCES people(id), approver BIGINT REFERENCES people(id))";
        let statements = [&people, POSTS, docs].map(str::to_owned);
        let owner = "[tables.docs]\nowners = [\"owner\"]";
        let all = "[tables.docs]\nowners = [\"owner\"]\nreaders = [\"approver\"]\n[tables.people]\non_leave = { invited_by = \"null\" }";
        for (tables, expected) in [
            (owner, &["docs", "people"][..]),
            ("", &["people"]),
            (all, &[]),
        ] {
            let mut society = Society::of(&statements, &described(tables), &[]);
            let cautions = society.engine.preview().cautions(&society.spec).unwrap();
            let noted = |table: &str| {
                let beginning = format!("rows of {table} that refer to a placeholder");
                cautions.iter().any(|it| it.starts_with(&beginning))
            };
            for table in ["docs", "people", "posts"] {
                assert_eq!(noted(table), expected.contains(&table), "{cautions:?}");
            }
        }
        // An invitation by a placeholder takes nobody's account along.
        let mut society = Society::of(&statements, &described(owner), &[]);
        society.sql("INSERT INTO people VALUES (1, NULL), (3, NULL)");
        society.sql("INSERT INTO posts VALUES (1, 1, 'one')");
        let person = Value::Int(1);
        let alone = probity_disguise::Protection::KeyAlone;
        let made = society
            .engine
            .people()
            .register(&person, alone, time())
            .unwrap();
        society.add(1, made.key);
        let id = society.leave(1);
        society.sql("UPDATE people SET invited_by = (SELECT author FROM posts) WHERE id = 3");
        let before = society.numbers("SELECT invited_by FROM people WHERE id = 3");
        assert!(!society.reveal(1, id).is_complete());
        let now = society.numbers("SELECT invited_by FROM people WHERE id = 3");
        assert_eq!(now, before, "{action}");
    }
}

/// C1: the policy `delete` took rows away to which rows of other people refer, and these went along by `ON DELETE CASCADE`. Nothing told
/// of it, and nothing counted what the policy deleted.
pub(crate) fn rows_that_others_refer_to_are_not_deleted_with_a_placeholder() {
    for action in ACTIONS {
        let comments = format!(
            "CREATE TABLE comments (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), post BIGINT REFERENCES posts(id) {action})"
        );
        let mut society = society(&[comments], "");
        let told = payloads(&mut society);
        let (id, [first, second]) = leave(&mut society);
        society.sql(&format!(
            "INSERT INTO posts VALUES (7, {first}, 'x'), (8, {second}, 'y'), (9, {second}, 'z')"
        ));
        society.sql(&format!(
            "INSERT INTO comments VALUES (1, 3, 7), (2, {second}, 8), (3, {second}, 8)"
        ));
        let revealed = society.reveal_by(1, id, References::Delete).unwrap();
        let expected = ("posts", "7".to_owned(), KeptReason::ReferredTo);
        assert_eq!(kept(&revealed), [expected], "{action}");
        let said = revealed.kept[0].said.as_deref();
        assert_eq!(said, Some("table comments, column post"));
        let deleted = [("comments".to_owned(), 2), ("posts".to_owned(), 2)];
        assert_eq!(revealed.deleted, BTreeMap::from(deleted));
        let entry = told.borrow().last().cloned().unwrap();
        assert!(
            entry.contains(r#""deleted":{"comments":2,"posts":2}"#),
            "{entry}"
        );
        assert_eq!(
            society.numbers("SELECT post FROM comments"),
            [7],
            "{action}"
        );
        let left = society.numbers("SELECT author FROM posts ORDER BY id");
        assert_eq!(left, [1, 1, first]);
        society.sql("DELETE FROM comments");
        let revealed = society.reveal_by(1, id, References::Delete).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(revealed.deleted, BTreeMap::from([("posts".to_owned(), 1)]));
        society.assert_as_before(action);
    }
}

/// H3: the policy `delete` took rows away that another person owns, too, and spared readers alone. Such a row goes to whoever
/// returns.
pub(crate) fn rows_of_others_are_not_deleted_with_a_placeholder() {
    let more = [
        "CREATE TABLE papers (id BIGINT PRIMARY KEY, one BIGINT REFERENCES people(id), other BIGINT REFERENCES people(id))",
        "CREATE TABLE follows (follower BIGINT NOT NULL REFERENCES people(id), followee BIGINT NOT NULL REFERENCES people(id), PRIMARY KEY (follower, followee))",
    ];
    for said in ["", "meanwhile = \"delete\""] {
        let tables = match said {
            "" => String::new(),
            _ => ["papers", "follows"]
                .map(|it| format!("[tables.{it}]\n{said}"))
                .join("\n"),
        };
        let policy = match said {
            "" => References::Delete,
            _ => References::Recorrelate,
        };
        let mut society = society(&more.map(str::to_owned), &tables);
        let (id, [first, second]) = leave(&mut society);
        society.sql(&format!(
            "INSERT INTO papers VALUES (1, {first}, 2), (2, 2, {second}), (3, {first}, {second}), (4, NULL, {first}), (5, 3, 2)"
        ));
        society.sql(&format!(
            "INSERT INTO follows VALUES (2, {first}), ({first}, 3), ({first}, {second}), (2, 3)"
        ));
        let revealed = society.reveal_by(1, id, policy).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        let deleted = [("follows".to_owned(), 1), ("papers".to_owned(), 2)];
        assert_eq!(revealed.deleted, BTreeMap::from(deleted));
        let papers = society.numbers("SELECT id FROM papers ORDER BY id");
        assert_eq!(papers, [1, 2, 5]);
        let owners = society.numbers("SELECT one, other FROM papers ORDER BY id");
        assert_eq!(owners, [1, 2, 2, 1, 3, 2]);
        let follows = "SELECT follower, followee FROM follows ORDER BY follower, followee";
        assert_eq!(society.numbers(follows), [1, 3, 2, 1, 2, 3]);
    }
}

/// H2: a row that a held person reads, or a person who is held owns, went with a placeholder by the policy `delete`. What is held is
/// given to whoever returns.
pub(crate) fn what_is_held_is_not_deleted_with_a_placeholder() {
    let letters = "CREATE TABLE letters (id BIGINT PRIMARY KEY, sender BIGINT REFERENCES people(id), reader BIGINT REFERENCES people(id))";
    let tables = "[tables.letters]\nowners = [\"sender\"]\nreaders = [\"reader\"]";
    for (whom, letters_left) in [(2, vec![1]), (1, vec![1, 2])] {
        let mut society = society(&[letters.to_owned()], tables);
        let (id, [first, _]) = leave(&mut society);
        society.sql(&format!(
            "INSERT INTO letters VALUES (1, {first}, 2), (2, {first}, 3)"
        ));
        let authority = Authority {
            actor: "court",
            basis: "x1",
            time: time(),
        };
        let person = Value::Int(whom);
        let held = Holding::Person(&person);
        society.engine.holds().place(held, &authority).unwrap();
        let revealed = society.reveal_by(1, id, References::Delete).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        let left = society.numbers("SELECT id FROM letters WHERE sender = 1 ORDER BY id");
        assert_eq!(left, letters_left);
        assert_eq!(
            society.numbers("SELECT COUNT(*) FROM letters")[0],
            i64::try_from(left.len()).unwrap()
        );
    }
}

/// H3: a row from before whose key the application changed was told of as not there, and deleted by the same command as one made
/// meanwhile. It cannot be told from these, so that all rows of its placeholder go to whoever returns.
pub(crate) fn a_row_that_a_record_has_lost_is_not_deleted_with_its_placeholder() {
    let mut society = society(&[], "");
    let (id, [first, second]) = leave(&mut society);
    society.sql("UPDATE posts SET id = 100 WHERE id = 1");
    society.sql(&format!(
        "INSERT INTO posts VALUES (7, {first}, 'x'), (8, {second}, 'y')"
    ));
    let revealed = society.reveal_by(1, id, References::Delete).unwrap();
    let expected = ("posts", "1".to_owned(), KeptReason::Absent);
    assert_eq!(kept(&revealed), [expected]);
    assert_eq!(revealed.deleted, BTreeMap::from([("posts".to_owned(), 1)]));
    let posts = society.numbers("SELECT id, author FROM posts ORDER BY id");
    assert_eq!(posts, [2, 1, 7, 1, 100, 1]);
}

/// H4: one row made meanwhile that a key or a condition refuses under whoever returns made every reveal fail. Whoever could make
/// such a row kept a person away.
pub(crate) fn a_row_that_a_constraint_refuses_keeps_its_placeholder_alone() {
    let more = [
        "CREATE TABLE prefs (person BIGINT NOT NULL REFERENCES people(id), k VARCHAR(20) NOT NULL, PRIMARY KEY (person, k))",
        "CREATE TABLE marks (id BIGINT PRIMARY KEY, person BIGINT REFERENCES people(id), mark BIGINT, CHECK (mark < 5 OR person > 1000))",
        "INSERT INTO prefs VALUES (1, 'theme')",
    ];
    let mut society = society(&more.map(str::to_owned), "");
    let (id, [first, second]) = leave(&mut society);
    society.sql(&format!(
        "INSERT INTO prefs VALUES ({first}, 'theme'), ({first}, 'size'), ({second}, 'font')"
    ));
    society.sql(&format!(
        "INSERT INTO marks VALUES (1, {first}, 3), (2, {first}, 7), (3, {second}, 4)"
    ));
    let revealed = society.reveal(1, id);
    let expected = [
        ("marks", "2".to_owned(), KeptReason::Refused),
        ("prefs", format!("{first}, theme"), KeptReason::Refused),
    ];
    assert_eq!(kept(&revealed), expected);
    let of_prefs = revealed.kept.iter().find(|it| it.table == "prefs").unwrap();
    let said = of_prefs.said.as_deref().unwrap();
    assert!(said.starts_with("table prefs, "), "{said}");
    assert_eq!(of_prefs.column.as_deref(), Some("person"));
    let posts = society.numbers("SELECT author FROM posts ORDER BY id");
    assert_eq!(posts, [1, 1]);
    let prefs = society.numbers("SELECT person FROM prefs ORDER BY person");
    assert_eq!(prefs, [1, 1, 1, first]);
    let marks = society.numbers("SELECT person FROM marks ORDER BY id");
    assert_eq!(marks, [1, first, 1]);
    let there = format!("SELECT id FROM people WHERE id IN ({first}, {second})");
    assert_eq!(society.numbers(&there), [first]);
    society.sql("DELETE FROM prefs WHERE person > 1000");
    society.sql("UPDATE marks SET mark = 1");
    let revealed = society.reveal(1, id);
    assert!(revealed.found && revealed.is_complete(), "{revealed:?}");
    assert_eq!(society.numbers("SELECT COUNT(*) FROM people"), [3]);
    assert_eq!(society.numbers("SELECT COUNT(*) FROM probity_bags"), [0]);
}

const SETTINGS: &str = "CREATE TABLE settings (person BIGINT NOT NULL REFERENCES people(id), k VARCHAR(20) NOT NULL, PRIMARY KEY (person, k))";

/// H4: a row of another person refers to a key that a placeholder is part of, and the key was changed all the same. The database
/// refused the whole reveal, at the commit where it checks there.
pub(crate) fn a_key_that_others_refer_to_stays_with_its_placeholder() {
    let notes = "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), sp BIGINT, sk VARCHAR(20), FOREIGN KEY (sp, sk) REFERENCES settings (person, k))";
    let tables = "[tables.notes]\nowners = [\"author\"]";
    let mut society = society(&[SETTINGS, notes].map(str::to_owned), tables);
    let (id, [first, second]) = leave(&mut society);
    society.sql(&format!(
        "INSERT INTO settings VALUES ({first}, 'a'), ({first}, 'b'), ({second}, 'c')"
    ));
    society.sql(&format!("INSERT INTO notes VALUES (1, 3, {first}, 'a')"));
    let revealed = society.reveal(1, id);
    let expected = ("settings", format!("{first}, a"), KeptReason::ReferredTo);
    assert_eq!(kept(&revealed), [expected]);
    let settings = society.numbers("SELECT person FROM settings ORDER BY k");
    assert_eq!(settings, [first, 1, 1]);
    assert_eq!(society.numbers("SELECT sp FROM notes"), [first]);
    society.sql("DELETE FROM notes");
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
}

/// H4: rows made under a placeholder refer to each other by keys that it is part of. They go together where the database checks at
/// the commit, and where one of them cannot go, the other stays with it.
pub(crate) fn rows_whose_parent_must_stay_stay_with_it() {
    let dialect = crate::connect().dialect();
    let late = match dialect {
        Dialect::Mysql => "",
        _ => "DEFERRABLE INITIALLY IMMEDIATE",
    };
    let more = [
        SETTINGS.replacen(
            "PRIMARY KEY",
            "CHECK (k <> 'b' OR person > 1000), PRIMARY KEY",
            1,
        ),
        format!(
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT REFERENCES people(id), sk VARCHAR(20), FOREIGN KEY (author, sk) REFERENCES settings (person, k) {late})"
        ),
    ];
    let mut society = society(&more, "");
    let (id, [first, second]) = leave(&mut society);
    society.sql(&format!(
        "INSERT INTO settings VALUES ({first}, 'a'), ({second}, 'b')"
    ));
    society.sql(&format!(
        "INSERT INTO notes VALUES (1, {first}, 'a'), (2, {second}, 'b'), (3, {first}, NULL)"
    ));
    let revealed = society.reveal(1, id);
    let authors = society.numbers("SELECT author FROM notes ORDER BY id");
    let people = society.numbers("SELECT COUNT(*) FROM people");
    let posts = society.numbers("SELECT author FROM posts");
    assert_eq!(posts, [1, 1]);
    if dialect == Dialect::Mysql {
        assert_eq!((authors, people), (vec![first, second, 1], vec![5]));
        return;
    }
    let expected = [
        ("notes", "2".to_owned(), KeptReason::ParentMissing),
        ("settings", format!("{second}, b"), KeptReason::Refused),
    ];
    assert_eq!(kept(&revealed), expected);
    assert_eq!((authors, people), (vec![1, second, 1], vec![4]));
}

/// U2: rows that the policy `retain` leaves under a placeholder for good were told of nowhere, and no later reveal named them. They
/// are counted by table, those that stay because their placeholder does too, and with them its account.
pub(crate) fn what_a_policy_retains_is_counted() {
    let replies = "CREATE TABLE replies (id BIGINT PRIMARY KEY, author BIGINT, reader BIGINT)";
    let tables = "[tables.posts]\nmeanwhile = \"retain\"\n[tables.replies]\nowners = [\"author\"]\nreaders = [\"reader\"]";
    for (tables, references) in [
        (tables, References::Recorrelate),
        (
            &tables.replace("meanwhile = \"retain\"", ""),
            References::Retain,
        ),
    ] {
        let mut society = society(&[replies.to_owned()], tables);
        let told = payloads(&mut society);
        let (id, [first, _]) = leave(&mut society);
        society.sql(&format!(
            "INSERT INTO posts VALUES (7, {first}, 'x'), (8, {first}, 'y')"
        ));
        // A row may name a placeholder twice.
        society.sql(&format!(
            "INSERT INTO replies VALUES (1, {first}, {first}), (2, 3, NULL)"
        ));
        let revealed = society.reveal_by(1, id, references).unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        let retained = [("people", 1), ("posts", 2), ("replies", 1)];
        let retained = retained.map(|(table, rows)| (table.to_owned(), rows));
        assert_eq!(revealed.retained, BTreeMap::from(retained));
        let entry = told.borrow().last().cloned().unwrap();
        let counts = r#""retained":{"people":1,"posts":2,"replies":1}"#;
        assert!(entry.contains(counts), "{entry}");
        let named = format!("SELECT id FROM posts WHERE author = {first} ORDER BY id");
        assert_eq!(society.numbers(&named), [7, 8]);
        // Nothing of it is left to a later reveal.
        let again = society.reveal_by(1, id, references).unwrap();
        assert!(!again.found && again.retained.is_empty(), "{again:?}");
    }
}
