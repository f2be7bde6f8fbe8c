//! Rows that belong to people through other rows, and people who only read a row.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    Applied, ApplyRequest, Credential, DisguiseId, Engine, Error, KeptReason, KeyCost, Pseudo,
    References, Revealed, Schema, SpecFile, Value, draft,
};

use super::forum::*;
use super::member::Member;

const TABLES: [&str; 10] = [
    "CREATE TABLE submissions (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES users(id), title VARCHAR(40))",
    "CREATE TABLE answers (id BIGINT PRIMARY KEY, submission_id BIGINT NOT NULL REFERENCES submissions(id), text VARCHAR(80))",
    "CREATE TABLE remarks (id BIGINT PRIMARY KEY, answer_id BIGINT NOT NULL REFERENCES answers(id), grader_id BIGINT REFERENCES users(id), text VARCHAR(80))",
    "CREATE TABLE reviews (id BIGINT PRIMARY KEY, author_id BIGINT REFERENCES users(id), reader_id BIGINT REFERENCES users(id), text VARCHAR(80))",
    "INSERT INTO submissions SELECT id, id, 'title' FROM users",
    "INSERT INTO answers SELECT 10 * id, id, 'yes' FROM users",
    "INSERT INTO answers SELECT 10 * id + 1, id, 'no' FROM users",
    "INSERT INTO remarks SELECT 100 * id, 10 * id, 1 + id % 4, 'good' FROM users",
    "INSERT INTO remarks SELECT 100 * id + 1, 10 * id + 1, NULL, 'better' FROM users",
    "INSERT INTO reviews SELECT id, id, 1 + id % 4, 'fine' FROM users",
];
const OWNERSHIP: &str = r#"
[users]
table = "users"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, username = { RandStr = { len = 30 } }, karma = { ConstNum = 0 } }
[tables.answers]
through = ["submission_id"]
[tables.remarks]
through = ["answer_id"]
readers = ["grader_id"]
[tables.reviews]
readers = ["reader_id"]
"#;
const LEAVE: &str = r#"
[[remove]]
table = "users"
[[remove]]
table = "submissions"
[[remove]]
table = "answers"
[[remove]]
table = "remarks"
[[remove]]
table = "reviews"
"#;
const ANONYMOUS: &str = r#"
[[decorrelate]]
table = "submissions"
owners = ["user_id"]
"#;

/// The forum with submissions, answers and remarks.
struct Course {
    forum: Forum,
    before: Vec<Vec<String>>,
}

fn course() -> Course {
    let mut forum = forum();
    // Nothing else may refer to whoever leaves.
    for sql in ["DROP TABLE moderations", "DROP TABLE stories"]
        .iter()
        .chain(&TABLES)
    {
        forum.sql(sql);
    }
    let file = SpecFile::parse(OWNERSHIP).unwrap();
    forum.engine = Engine::new(forum.database.boxed(), file.schema, file.pseudo.unwrap());
    forum.engine.options().key_cost = KeyCost::DANGER_LEAST;
    forum.engine.install().unwrap();
    let mut course = Course {
        forum,
        before: Vec::new(),
    };
    course.before = course.everything();
    course
}

impl Course {
    fn everything(&mut self) -> Vec<Vec<String>> {
        let tables = ["users", "submissions", "answers", "remarks", "reviews"];
        let rows = |table: &str| {
            let rows = self.forum.engine.preview().rows(table).unwrap();
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        tables.map(rows).to_vec()
    }

    fn apply(&mut self, spec: &str, user: Option<i64>, over: bool) -> Result<Applied, Error> {
        let file = SpecFile::parse(spec).unwrap();
        let key = user
            .filter(|_| over)
            .map(|user| Credential::Key(&self.forum.keys[&user]));
        self.forum.engine.apply(&ApplyRequest {
            spec: &file.spec,
            user: user.map(Value::Int),
            over: key,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        })
    }

    fn planned(&mut self, spec: &str, user: Option<i64>) -> BTreeMap<String, u64> {
        let file = SpecFile::parse(spec).unwrap();
        let user = user.map(Value::Int);
        let planned = self
            .forum
            .engine
            .preview()
            .plan(&file.spec, user.as_ref(), &BTreeMap::new());
        let steps = planned.unwrap();
        steps.into_iter().map(|it| (it.table, it.rows)).collect()
    }

    fn reveal(&mut self, user: i64, id: DisguiseId) -> Revealed {
        self.forum.reveal(user, id)
    }

    fn assert_as_before(&mut self) {
        assert_eq!(self.everything(), self.before);
        let bags = self.forum.numbers("SELECT COUNT(*) FROM probity_bags");
        assert_eq!(bags, [0]);
    }
}

fn reasons(revealed: &Revealed) -> Vec<(&str, KeptReason)> {
    let kept = revealed.kept.iter();
    kept.map(|it| (it.table.as_str(), it.reason)).collect()
}

pub(crate) fn rows_owned_through_others_leave_and_return_with_their_owner() {
    let mut course = course();
    let planned = course.planned(LEAVE, Some(1));
    let applied = course.apply(LEAVE, Some(1), false).unwrap();
    assert_eq!(planned, applied.rows);
    let rows: Vec<(&str, u64)> = applied
        .rows
        .iter()
        .map(|(table, rows)| (table.as_str(), *rows))
        .collect();
    // Of the remarks two are their own, and of another and a review they are the reader.
    let expected = [
        ("answers", 2),
        ("remarks", 3),
        ("reviews", 2),
        ("submissions", 1),
        ("users", 1),
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        course.forum.numbers("SELECT id FROM answers ORDER BY id"),
        [20, 21, 30, 31, 40, 41]
    );
    assert!(course.reveal(1, applied.id).is_complete());
    course.assert_as_before();
}

pub(crate) fn rows_behind_placeholders_are_found_through_their_parents() {
    for order in [[0, 1], [1, 0]] {
        let mut course = course();
        let anonymous = course.apply(ANONYMOUS, None, false).unwrap();
        // Without the credential nobody knows whose submissions these are.
        let bare = course.apply(LEAVE, Some(2), false).unwrap();
        assert_eq!(bare.rows.get("answers"), Some(&0));
        assert!(course.reveal(2, bare.id).is_complete());
        let left = course.apply(LEAVE, Some(2), true).unwrap();
        assert_eq!(left.rows.get("answers"), Some(&2));
        assert_eq!(left.rows.get("submissions"), Some(&1));
        for at in order {
            let id = [anonymous.id, left.id][at];
            course.reveal(2, id);
            let back = course.forum.numbers("SELECT COUNT(*) FROM answers");
            let expected = if order[0] == 0 && at == 0 { 6 } else { 8 };
            assert_eq!(back, [expected], "{order:?}");
        }
        for user in [1, 3, 4] {
            assert!(course.reveal(user, anonymous.id).is_complete());
        }
        course.assert_as_before();
    }
}

pub(crate) fn changes_of_rows_come_before_their_owners_are_hidden() {
    let spec = r#"
        [[modify]]
        table = "answers"
        column = "text"
        value = { ConstStr = "-" }
        [[modify]]
        table = "remarks"
        column = "text"
        value = { RandStr = { len = 8 } }
        [[decorrelate]]
        table = "submissions"
        owners = ["user_id"]
        "#;
    let gone = format!("{spec}[[remove]]\ntable = \"reviews\"\n");
    for (spec, user) in [(spec, None), (spec, Some(3)), (&gone, Some(3))] {
        let mut course = course();
        let planned = course.planned(spec, user);
        let applied = course.apply(spec, user, false).unwrap();
        assert_eq!(planned, applied.rows);
        let users = user.map_or(USERS, |_one| 1);
        let count = "SELECT COUNT(*) FROM answers WHERE text = '-'";
        assert_eq!(course.forum.numbers(count), [2 * users]);
        for user in user.map_or(1..=USERS, |one| one..=one) {
            assert!(course.reveal(user, applied.id).is_complete());
        }
        course.assert_as_before();
    }
}

pub(crate) fn a_row_whose_parent_is_gone_is_kept_and_reported() {
    let spec = "[[remove]]\ntable = \"answers\"\n[[remove]]\ntable = \"remarks\"\n";
    let mut course = course();
    let applied = course.apply(spec, Some(1), false).unwrap();
    course.forum.sql("DELETE FROM submissions WHERE id = 1");
    let revealed = course.reveal(1, applied.id);
    let mut kept = reasons(&revealed);
    kept.sort_by_key(|(table, _)| *table);
    let missing = KeptReason::ParentMissing;
    let expected = [
        ("answers", missing),
        ("answers", missing),
        ("remarks", missing),
        ("remarks", missing),
    ];
    assert_eq!(kept, expected);
    course
        .forum
        .sql("INSERT INTO submissions VALUES (1, 1, 'title')");
    assert!(course.reveal(1, applied.id).is_complete());
    course.assert_as_before();
}

pub(crate) fn who_only_reads_a_row_leaves_it_and_its_owner_takes_it_along() {
    let leave = "[[remove]]\ntable = \"reviews\"\n";
    // The reader of review 1 is user 2, who is the author of review 2.
    for (leaving, returning) in [
        ([1, 2], [1, 2]),
        ([1, 2], [2, 1]),
        ([2, 1], [1, 2]),
        ([2, 1], [2, 1]),
    ] {
        let mut course = course();
        let mut ids = BTreeMap::new();
        for user in leaving {
            let applied = course.apply(leave, Some(user), false).unwrap();
            ids.insert(user, applied.id);
            let rows = "SELECT COUNT(*) FROM reviews WHERE id = ";
            let left = course.forum.numbers(&format!("{rows}{user}"));
            assert_eq!(left, [0], "the author's row goes");
        }
        let read = "SELECT COUNT(*) FROM reviews WHERE id = 4 AND reader_id >= 1000000";
        assert_eq!(course.forum.numbers(read), [1], "what user 1 read stays");
        for user in returning {
            course.reveal(user, ids[&user]);
            let rows = "SELECT COUNT(*) FROM reviews WHERE id = ";
            let back = course.forum.numbers(&format!("{rows}{user}"));
            assert_eq!(back, [1], "{leaving:?} {returning:?}");
        }
        // Whose reading had to wait for the row tries again.
        for (user, id) in ids {
            match course.forum.reveal_as(user, id, References::Recorrelate) {
                Ok(revealed) => assert!(revealed.is_complete(), "{revealed:?}"),
                Err(error) => assert!(matches!(error, Error::NoSuchDisguise), "{error:?}"),
            }
        }
        course.assert_as_before();
    }
}

pub(crate) fn an_owner_returns_without_waiting_for_the_readers() {
    let mut course = course();
    let mut ids = BTreeMap::new();
    for user in [1, 2] {
        ids.insert(user, course.apply(LEAVE, Some(user), false).unwrap().id);
    }
    let revealed = course.reveal(1, ids[&1]);
    let kept = [
        ("remarks", KeptReason::OwnerMissing),
        ("reviews", KeptReason::OwnerMissing),
    ];
    let mut found = reasons(&revealed);
    found.sort_by_key(|(table, _)| *table);
    assert_eq!(found, kept, "{revealed:?}");
    let empty = "SELECT COUNT(*) FROM reviews WHERE id = 1 AND reader_id IS NULL";
    assert_eq!(course.forum.numbers(empty), [1]);
    let empty = "SELECT COUNT(*) FROM remarks WHERE id = 100 AND grader_id IS NULL";
    assert_eq!(course.forum.numbers(empty), [1]);
    assert!(course.reveal(2, ids[&2]).is_complete());
    assert!(course.reveal(1, ids[&1]).is_complete());
    course.assert_as_before();
}

/// Notes on a table, and the error that refuses each.
const BAD_PATHS: [(&str, &str); 11] = [
    (
        "[tables.answers]\nthrough = [\"nothing\"]",
        "table answers: has no column nothing",
    ),
    (
        "[tables.answers]\nthrough = [\"text\"]",
        "table answers: answers has no foreign key (text); declare it, or name it under references",
    ),
    (
        "[tables.answers]\nthrough = []",
        "table answers: answers has no foreign key (); declare it, or name it under references",
    ),
    (
        "[tables.answers]\nthrough = [\"submission_id\"]\nowners = [\"submission_id\"]",
        "table answers: has owners of its own, so that it belongs to nobody through another table",
    ),
    (
        "[tables.halves]\nthrough = [\"tag_id\"]",
        "table halves: its path ends at tags, whose rows nobody owns",
    ),
    (
        "[tables.halves]\nthrough = [\"pair_id\"]",
        "table halves: its path is not unique: pairs has the owners one and two; say which is its owner, and who only reads it under readers",
    ),
    (
        "[tables.halves]\nthrough = [\"user_id\"]",
        "table halves: halves(user_id) refers to the users table, name it under owners",
    ),
    (
        "[tables.rings]\nthrough = [\"next_id\"]",
        "table rings: its path leads in a circle over rings",
    ),
    (
        "[tables.taggings]\nthrough = [\"story_id\"]\nreferences = [{ columns = [\"story_id\"], table = \"stories\", to = [\"url\"] }]",
        "table taggings: its path is not unique: several rows of stories may have the same url",
    ),
    (
        "[tables.answers]\nthrough = [\"submission_id\"]\nreferences = [{ columns = [\"submission_id\"], table = \"stories\", to = [\"id\"] }]",
        "table answers: its path is not unique: answers(submission_id) refers to stories and submissions",
    ),
    (
        "[tables.reviews]\nowners = [\"author_id\"]\nreaders = [\"author_id\"]",
        "table reviews: author_id is an owner and a reader",
    ),
];

pub(crate) fn a_path_that_does_not_lead_to_one_owner_is_refused() {
    let mut forum = forum();
    for sql in TABLES {
        forum.sql(sql);
    }
    for sql in [
        "CREATE TABLE pairs (id BIGINT PRIMARY KEY, one BIGINT REFERENCES users(id), two BIGINT REFERENCES users(id))",
        "CREATE TABLE halves (id BIGINT PRIMARY KEY, pair_id BIGINT REFERENCES pairs(id), tag_id BIGINT REFERENCES tags(id), user_id BIGINT REFERENCES users(id))",
        "CREATE TABLE rings (id BIGINT PRIMARY KEY, next_id BIGINT REFERENCES rings(id))",
    ] {
        forum.sql(sql);
    }
    let users = OWNERSHIP.split("[tables.answers]").next().unwrap();
    for (said, expected) in BAD_PATHS {
        let file = SpecFile::parse(&format!("{users}{said}")).unwrap();
        let mut engine = Engine::new(forum.database.boxed(), file.schema, file.pseudo.unwrap());
        match engine.preview().check(&file.spec, &BTreeMap::new()) {
            Err(Error::Spec(error)) => assert_eq!(error.to_string(), expected),
            other => panic!("{said}: {other:?}"),
        }
    }
    // One of the two is the owner, and the other one reads: then there is one path.
    let said = "[tables.pairs]\nowners = [\"one\"]\nreaders = [\"two\"]\n[tables.halves]\nthrough = [\"pair_id\"]\n";
    let wrong = "[[decorrelate]]\ntable = \"halves\"\nowners = [\"user_id\"]\n";
    let file = SpecFile::parse(&format!("{users}{said}{wrong}")).unwrap();
    let mut engine = Engine::new(forum.database.boxed(), file.schema, file.pseudo.unwrap());
    match engine.preview().check(&file.spec, &BTreeMap::new()) {
        Err(Error::Spec(error)) => assert_eq!(
            error.what,
            "rows of halves belong to the owners of their rows of pairs, decorrelate that table"
        ),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_draft_proposes_the_way_to_the_owner() {
    let mut forum = forum();
    for sql in TABLES.iter().take(2) {
        forum.sql(sql);
    }
    for sql in [
        "CREATE TABLE choices (id BIGINT PRIMARY KEY, answer_id BIGINT REFERENCES answers(id))",
        // Two ways, so that a person must decide.
        "CREATE TABLE links (id BIGINT PRIMARY KEY, submission_id BIGINT REFERENCES submissions(id), story_id BIGINT REFERENCES stories(id))",
        "INSERT INTO submissions SELECT id, id, 'title' FROM users",
        "INSERT INTO answers SELECT 10 * id, id, 'yes' FROM users",
        "INSERT INTO choices SELECT 100 * id, 10 * id FROM users",
    ] {
        forum.sql(sql);
    }
    let made = draft(forum.engine.database(), None).unwrap();
    for line in [
        "[tables.\"answers\"]\nthrough = [\"submission_id\"]",
        "[tables.\"choices\"]\nthrough = [\"answer_id\"]",
        "[[remove]]\ntable = \"answers\"",
        "[[remove]]\ntable = \"choices\"",
        "# links has no owner column and is left alone.",
        // Links refer to them, so they stay.
        "table = \"submissions\"\nowners = [\"user_id\"]",
    ] {
        assert!(made.text.contains(line), "{line} in {}", made.text);
    }
    let file = SpecFile::parse(&made.text).unwrap();
    assert_eq!(file.schema, made.schema);
    let mut engine = Engine::new(forum.database.boxed(), file.schema, made.pseudo);
    engine.install().unwrap();
    let applied = engine
        .apply(&ApplyRequest {
            spec: &file.spec,
            user: Some(Value::Int(1)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        })
        .unwrap();
    assert_eq!((applied.rows["answers"], applied.rows["choices"]), (1, 1));
    forum.engine = engine;
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM choices"), [USERS]);
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM users"), [USERS]);
}

const NAMED: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { pk = { RandNum = { lb = 1000000, ub = 2000000000 } }, id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 12 } } }
"#;

/// C2: a key to another column of the users table than their id was taken for an owner. The rows of whoever has the id of the person
/// as their number, or as their name, were hidden in their place, and sealed to the person.
pub(crate) fn a_key_to_another_column_of_the_users_table_names_no_owner() {
    for (kind, to, values) in [
        ("BIGINT", "pk", "(6, 1), (7, 2)"),
        ("VARCHAR(20)", "name", "(6, '1'), (7, 'one')"),
    ] {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE members (pk BIGINT PRIMARY KEY, id BIGINT NOT NULL UNIQUE, name VARCHAR(20) NOT NULL UNIQUE)",
            &format!(
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, member {kind}, words VARCHAR(20), FOREIGN KEY (member) REFERENCES members ({to}))"
            ),
            "INSERT INTO members VALUES (1, 2, '1'), (2, 1, 'one')",
            &format!("INSERT INTO notes (id, member) VALUES {values}"),
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let modify = "[[modify]]\ntable = \"notes\"\ncolumn = \"words\"\nvalue = \"Null\"\n";
        let remove = "[[remove]]\ntable = \"notes\"\n";
        let untold = format!("refer to members by foreign key (member), which leads to ({to})");
        let decorrelate = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";
        let unnamed =
            format!("column member refers by its foreign key to {to} of members, not to id");
        let mut cases = vec![
            (modify.to_owned(), untold.clone()),
            (remove.to_owned(), untold),
            (decorrelate.to_owned(), "is not an owner column".to_owned()),
        ];
        for said in [
            "owners = [\"member\"]",
            "readers = [\"member\"]",
            "on_leave = { member = \"null\" }",
            "on_leave = { member = \"remove\" }",
        ] {
            cases.push((format!("[tables.notes]\n{said}\n{remove}"), unnamed.clone()));
        }
        let mut engine = Engine::new(database, Schema::default(), pseudo());
        engine.install().unwrap();
        let before = engine.preview().rows("notes").unwrap();
        for (steps, expected) in cases {
            let file = SpecFile::parse(&format!("{NAMED}{steps}")).unwrap();
            engine = Engine::new(
                std::mem::replace(engine.database(), crate::connect()),
                file.schema,
                pseudo(),
            );
            match engine.preview().check(&file.spec, &BTreeMap::new()) {
                Err(Error::Spec(error)) => {
                    let said = error.to_string();
                    assert!(said.contains(&expected), "{said}");
                }
                other => panic!("{steps}: {other:?}"),
            }
        }
        // A draft, whose ids are those of the primary key, takes no name for one.
        let drafted = draft(engine.database(), Some("members")).unwrap().text;
        let is_alone = drafted.contains("notes has no owner column");
        assert_eq!(is_alone, to == "name", "{drafted}");
        // Whoever leaves by another step takes nothing of such a table along.
        let database = std::mem::replace(engine.database(), crate::connect());
        let rename = "[[modify]]\ntable = \"members\"\ncolumn = \"pk\"\nvalue = { RandNum = { lb = 1000000, ub = 2000000000 } }\nwhere = \"id = 99\"\n";
        let mut member = Member::of(database, &format!("{NAMED}{rename}"));
        member.leave();
        assert_eq!(member.engine.preview().rows("notes").unwrap(), before);
    }
}

fn pseudo() -> Pseudo {
    SpecFile::parse(NAMED).unwrap().pseudo.unwrap()
}
