//! Answers for a help desk: the reason why a row stays, expected refusals, and findings.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{Database as _, Dialect, KeptReason, SpecFile, Value};
use probity_format::Entry;

use super::forum::*;
use super::member::{Member, NOTES};

const SECRET: &str = "bea@example.com";

fn members() -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20), email VARCHAR(40), CONSTRAINT one_mail UNIQUE (email))",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id), what VARCHAR(20))",
        "INSERT INTO members VALUES (1, 'one', 'bea@example.com'), (2, 'two', 'al@example.com')",
        "INSERT INTO notes VALUES (6, 1, 'a'), (7, 1, 'b'), (8, 2, 'c')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, NOTES)
}

/// UX 1: a row that stays said that a constraint refuses it, and support could not tell which.
pub(crate) fn a_row_that_stays_says_which_constraint_keeps_it() {
    let mut member = members();
    let dialect = member.engine.database().dialect();
    let applied = member.leave();
    member.sql(&["INSERT INTO members VALUES (3, 'three', 'bea@example.com')"]);
    let back = member.return_from(&applied);
    let root: Vec<_> = back
        .kept
        .iter()
        .filter(|it| it.reason == KeptReason::Refused)
        .collect();
    let [root] = root.as_slice() else {
        panic!("{back:?}");
    };
    let said = root.said.as_deref().unwrap();
    assert!(said.starts_with("table members, column email"), "{said}");
    assert!(
        dialect == Dialect::Sqlite || said.contains("constraint one_mail"),
        "{said}"
    );
    assert!(!format!("{back:?}").contains(SECRET), "{back:?}");
    let others = back
        .kept
        .iter()
        .filter(|it| it.reason == KeptReason::OwnerMissing);
    assert_eq!(others.count(), 2);
    member.sql(&["DELETE FROM members WHERE id = 3"]);
    let back = member.return_from(&applied);
    assert!(back.is_complete() && back.found, "{back:?}");
    assert_eq!(back.restored.values().sum::<u64>(), 3);
    assert!(back.values.is_empty());
}

/// UX 1: a statement that fails named neither column nor constraint on `MariaDB`, and no value may be told on any.
pub(crate) fn a_statement_that_fails_names_what_it_is_about() {
    let taken = "[[modify]]\ntable = \"members\"\ncolumn = \"email\"\nvalue = { ConstStr = \"al@example.com\" }\n";
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let mut member = members().again(&format!("{head}{taken}"));
    let dialect = member.engine.database().dialect();
    let refused = member.try_to_leave().unwrap_err();
    let said = std::error::Error::source(&refused).unwrap().to_string();
    assert!(said.starts_with("table members, column email"), "{said}");
    assert!(
        dialect == Dialect::Sqlite || said.contains("constraint one_mail"),
        "{said}"
    );
    assert!(
        !format!("{refused:?} {said}").contains("al@"),
        "{refused:?} {said}"
    );
    // A row that others refer to, by a key that the specification does not know of at the time of the check.
    let (head, _) = NOTES.split_at(NOTES.rfind("[[remove]]").unwrap());
    let only_members = format!("{head}where = \"id > 6\"\n[[remove]]\ntable = \"members\"\n");
    let only_members =
        only_members.replacen("table = \"notes\"\n\nwhere", "table = \"notes\"\nwhere", 1);
    let mut member = member.again(&only_members);
    let refused = member.try_to_leave().unwrap_err();
    let said = std::error::Error::source(&refused).unwrap().to_string();
    assert!(said.starts_with("table notes, column member"), "{said}");
}

/// UX 3: a lost answer looked like a failure. A reveal that finds nothing is one that succeeded.
pub(crate) fn a_reveal_of_what_is_not_hidden_succeeds_and_says_so() {
    let mut forum = forum();
    let applied = forum.apply(GDPR, Some(1), false).unwrap();
    // Somebody of whom it hides nothing, and whoever asks a second time.
    assert!(!forum.reveal(2, applied.id).found);
    let back = forum.reveal(1, applied.id);
    assert!(back.found && back.is_complete());
    // UX 8: rows that were removed and values that were overwritten are counted apart.
    assert_eq!(
        back.restored,
        BTreeMap::from([("stories".to_owned(), 3), ("users".to_owned(), 1)])
    );
    assert_eq!(back.values, BTreeMap::from([("moderations".to_owned(), 6)]));
    let again = forum.reveal(1, applied.id);
    assert!(!again.found && again.is_complete() && again.restored.is_empty());
    forum.assert_as_before();
}

/// UX 8: an entry of what failed had no reason.
pub(crate) fn failed_entries_say_why_and_name_nobody() {
    let mut member = members();
    let told: Rc<RefCell<Vec<String>>> = Rc::default();
    let seen = Rc::clone(&told);
    member.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let payload = String::from_utf8_lossy(entry.payload).into_owned();
        seen.borrow_mut()
            .push(format!("{:?} {payload}", entry.outcome));
        Ok(())
    }));
    let taken = "[[modify]]\ntable = \"members\"\ncolumn = \"email\"\nvalue = { ConstStr = \"al@example.com\" }\nwhere = \"email = 'bea@example.com'\"\n";
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let mut member = member.again(&format!("{head}{taken}"));
    member.try_to_leave().unwrap_err();
    let wrong = taken.replace("email = 'bea", "nothing = 'bea");
    let mut member = member.again(&format!("{head}{wrong}"));
    member.try_to_leave().unwrap_err();
    member.apply(Some(Value::Int(77))).unwrap_err();
    let told = told.borrow();
    assert!(told.iter().all(|it| it.starts_with("Failed")), "{told:?}");
    let reasons = [
        "table members, column email",
        "refused at line",
        "table members has no row of this user",
    ];
    assert_eq!(told.len(), reasons.len(), "{told:?}");
    for (told, reason) in told.iter().zip(reasons) {
        assert!(
            told.contains("\"reason\":\"") && told.contains(reason),
            "{told}"
        );
        assert!(!told.contains("example.com"), "{told}");
    }
}

const REPLIES: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 1000003 } } }
[[remove]]
table = "replies"
[[remove]]
table = "notes"
[[decorrelate]]
table = "visits"
owners = ["member"]
"#;

/// UX 2: a check passed what the apply then refused by counting, and a sweep a month later.
pub(crate) fn what_would_be_refused_is_foretold() {
    for action in ["", "ON DELETE CASCADE"] {
        let mut database = crate::connect();
        let replies = format!(
            "CREATE TABLE replies (id INT PRIMARY KEY, member INT REFERENCES members(id), note INT, FOREIGN KEY (note) REFERENCES notes(id) {action})"
        );
        for sql in [
            "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
            &replies,
            "CREATE TABLE visits (id INT PRIMARY KEY, member INT REFERENCES members(id))",
            "INSERT INTO members VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "INSERT INTO notes VALUES (6, 1), (7, 1), (8, 2)",
            "INSERT INTO replies VALUES (10, 1, 6), (11, 1, 8), (12, 2, 8)",
            "INSERT INTO visits VALUES (1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, REPLIES);
        let spec = SpecFile::parse(REPLIES).unwrap().spec;
        let none = BTreeMap::new();
        let mut told = |user: Option<i64>| {
            let user = user.map(Value::Int);
            member
                .engine
                .preview()
                .foretell(&spec, user.as_ref(), &none)
                .unwrap()
        };
        // Reply 11 is of the first member under a note of the second.
        assert_eq!(told(Some(1)), [""; 0]);
        let of_second = told(Some(2)).join("\n");
        for part in [
            "1 rows of replies refer to these by foreign key (note)",
            "is not registered",
            "5 placeholders are needed, and the generator of members has 4 ids left",
        ] {
            assert!(of_second.contains(part), "{part}: {of_second}");
        }
        let of_all = told(None).join("\n");
        assert!(
            of_all.contains("1 rows of replies that belong to somebody else refer to them"),
            "{of_all}"
        );
        assert!(!of_all.contains("nothing is said"), "{of_all}");
        assert!(told(Some(77)).concat().contains("has no row of this user"));
        // What is foretold is refused.
        let applied = member.leave();
        assert!(member.return_from(&applied).is_complete());
        let user = Value::Int(2);
        let protection = probity_disguise::Protection::KeyAlone;
        member
            .engine
            .people()
            .register(&user, protection, time())
            .unwrap();
        member.apply(Some(user)).unwrap_err();
    }
}
