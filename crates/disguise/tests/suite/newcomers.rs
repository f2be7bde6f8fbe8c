//! Keys that are given out again: what has the key of a person's row or account may be somebody else's by the time they return.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Applied, Credential, Error, KeptReason, Protection, Revealed, Value};
use probity_format::Timestamp;

use super::forum::time;
use super::member::Member;

const PEOPLE: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 20 } } }
[tables.posts]
owners = ["author"]
readers = ["editor"]
[tables.drafts]
through = ["post"]
references = [{ columns = ["post"], table = "posts", to = ["id"] }]
[tables.notes]
owners = ["author"]
references = [{ columns = ["post"], table = "posts", to = ["id"] }]
"#;

/// Values of a row, and then the row, are hidden by disguises of their own.
const VALUES: &str = r#"
[[modify]]
table = "people"
column = "name"
value = { ConstStr = "Anonymous" }
[[modify]]
table = "people"
column = "phone"
value = "Null"
[[modify]]
table = "posts"
column = "ip"
value = "Null"
[[modify]]
table = "drafts"
column = "text"
value = { ConstStr = "-" }
"#;
const POSTS: &str = r#"
[[remove]]
table = "notes"
[[remove]]
table = "drafts"
[[remove]]
table = "posts"
"#;
const DRAFTS_AND_POSTS: &str = r#"
[[remove]]
table = "drafts"
[[remove]]
table = "posts"
"#;
const ACCOUNT: &str = r#"
[[remove]]
table = "people"
"#;
const BEHIND: &str = r#"
[[decorrelate]]
table = "posts"
owners = ["author"]
"#;

const TABLES: [&str; 4] = ["people", "posts", "drafts", "notes"];

/// Ann has the id 1, post 5 with a draft, and a note on it; Bob has the id 2.
fn ann() -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, phone VARCHAR(40))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, editor BIGINT, text VARCHAR(40), ip VARCHAR(40))",
        "CREATE TABLE drafts (id BIGINT PRIMARY KEY, post BIGINT, text VARCHAR(40))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT, post BIGINT)",
        "INSERT INTO people VALUES (1, 'Ann', '555-ANN'), (2, 'Bob', '555-BOB')",
        "INSERT INTO posts VALUES (4, 2, NULL, 'of Bob', '10.0.0.2'), (5, 1, NULL, 'of Ann', '10.0.0.1')",
        "INSERT INTO drafts VALUES (40, 4, 'draft of Bob'), (50, 5, 'draft of Ann')",
        "INSERT INTO notes VALUES (500, 1, 5)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, &format!("{PEOPLE}{VALUES}"))
}

fn hides(member: Member, steps: &str) -> (Member, Applied) {
    let mut member = member.again(&format!("{PEOPLE}{steps}"));
    let applied = member.leave();
    (member, applied)
}

fn reasons(revealed: &Revealed) -> Vec<(&str, KeptReason)> {
    let kept = revealed.kept.iter();
    let mut kept: Vec<_> = kept.map(|it| (it.table.as_str(), it.reason)).collect();
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// V1: a value went back into whatever row had the key, so that Ann's name and phone came into the account of whoever had got her
/// id, with or without a credential of their own. Her record was used up, and theirs could never be undone.
pub(crate) fn values_of_an_account_do_not_go_into_that_of_a_newcomer() {
    for is_registered in [false, true] {
        let (mut member, values) = hides(ann(), VALUES);
        let hidden = member.rows(TABLES);
        let (mut member, left) = hides(member, &format!("{POSTS}{ACCOUNT}"));
        member.sql(&["INSERT INTO people VALUES (1, 'Zoe', NULL)"]);
        let mut zoe = None;
        if is_registered {
            let made =
                member
                    .engine
                    .people()
                    .register(&Value::Int(1), Protection::KeyAlone, time());
            let (mut again, applied) = hides(member, VALUES);
            let all = again.rows(["people"]);
            assert!(
                all[0].iter().any(|row| row.contains("Anonymous")),
                "{all:?}"
            );
            zoe = Some((made.unwrap().key, applied));
            member = again;
        }
        let before = member.rows(TABLES);
        let revealed = member.return_from(&values);
        let kept = reasons(&revealed);
        assert!(
            kept.contains(&("people", KeptReason::OwnerReplaced)),
            "{kept:?}"
        );
        assert_eq!(member.rows(TABLES), before);
        if let Some((key, applied)) = zoe {
            let revealed = member.returned(Value::Int(1), &key, applied.id);
            assert!(revealed.is_complete(), "{revealed:?}");
            let held = Credential::Key(&key);
            let forgotten = member
                .engine
                .forget_everything(&Value::Int(1), &held, time());
            forgotten.unwrap();
        }
        // Once the id is free all of it comes back.
        member.sql(&["DELETE FROM people WHERE id = 1"]);
        member.return_from(&left);
        assert_eq!(member.hidden_by(), 0);
        assert_ne!(member.rows(TABLES), hidden);
        let people = member.rows(["people"]);
        assert!(
            people[0].iter().any(|row| row.contains("555-ANN")),
            "{people:?}"
        );
    }
}

/// V1: of a removed post the key was given out again, and what an earlier disguise had hidden of it went into Bob's new post.
/// A value belongs to a row of its person, or of a placeholder of theirs.
pub(crate) fn values_of_a_row_do_not_go_into_that_of_another() {
    // Bob's row, one that Ann reads, and one that is nobody's.
    let others = [
        ("2, NULL", KeptReason::OtherOwner),
        ("2, 1", KeptReason::OtherOwner),
        ("NULL, NULL", KeptReason::OwnerMissing),
    ];
    for (people, reason) in others {
        let (mut member, values) = hides(ann(), VALUES);
        let bob = member
            .engine
            .people()
            .register(&Value::Int(2), Protection::KeyAlone, time());
        drop(bob.unwrap());
        let (mut member, posts) = hides(member, POSTS);
        let newer = format!("INSERT INTO posts VALUES (5, {people}, 'newer', NULL)");
        member.sql(&[&newer]);
        let before = member.rows(["posts"]);
        let kept = member.return_from(&values);
        assert!(
            reasons(&kept).contains(&("posts", reason)),
            "{people} {kept:?}"
        );
        assert_eq!(member.rows(["posts"]), before);
        member.sql(&["DELETE FROM posts WHERE id = 5"]);
        member.return_from(&posts);
        assert_eq!(member.hidden_by(), 0);
        let posts = member.rows(["posts"]);
        assert!(
            posts[0].iter().any(|row| row.contains("10.0.0.1")),
            "{posts:?}"
        );
    }
}

/// A record was taken for done where somebody else's row held the value by chance, and was lost for the person's own row.
pub(crate) fn a_value_that_another_row_has_by_chance_is_not_taken_for_returned() {
    let (member, values) = hides(ann(), VALUES);
    let (mut member, posts) = hides(member, POSTS);
    member.sql(&["INSERT INTO posts VALUES (5, 2, NULL, 'newer', '10.0.0.1')"]);
    member.return_from(&values);
    member.sql(&["DELETE FROM posts WHERE id = 5"]);
    member.return_from(&posts);
    let posts = member.rows(["posts"]);
    assert!(
        posts[0].iter().any(|row| row.contains("10.0.0.1")),
        "{posts:?}"
    );
}

/// V3: a row that is owned through another was put under whatever had the key of that other row. Ann's draft lay under Bob's post,
/// and his export handed it out.
pub(crate) fn a_row_does_not_go_under_that_of_another() {
    let mut member = ann();
    let before = member.rows(TABLES);
    let (mut member, posts) = hides(member, POSTS);
    member.sql(&["INSERT INTO posts VALUES (5, 2, NULL, 'newer', NULL)"]);
    let now = member.rows(["people", "posts", "drafts"]);
    let kept = member.return_from(&posts);
    let expected = [
        ("drafts", KeptReason::OtherOwner),
        ("posts", KeptReason::RowExists),
    ];
    assert_eq!(reasons(&kept), expected, "{kept:?}");
    let under = ["people", "posts", "drafts"];
    assert_eq!(member.rows(under), now);
    member.sql(&["DELETE FROM posts WHERE id = 5"]);
    let revealed = member.return_from(&posts);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(TABLES), before);
}

/// As above, where the other row was removed by a disguise that is not revealed.
pub(crate) fn a_row_waits_for_the_one_that_says_whose_it_is() {
    let mut member = ann();
    let before = member.rows(TABLES);
    let (member, drafts) = hides(member, "[[remove]]\ntable = \"drafts\"\n");
    let (mut member, posts) = hides(member, POSTS);
    member.sql(&["INSERT INTO posts VALUES (5, 2, NULL, 'newer', NULL)"]);
    let now = member.rows(TABLES);
    let kept = member.return_from(&drafts);
    assert_eq!(
        reasons(&kept),
        [("drafts", KeptReason::OtherOwner)],
        "{kept:?}"
    );
    assert_eq!(member.rows(TABLES), now);
    member.sql(&["DELETE FROM posts WHERE id = 5"]);
    let revealed = member.return_from(&posts);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(TABLES), before);
}

/// As above for values of rows that are owned through others, and for the reference itself.
pub(crate) fn values_do_not_go_into_or_under_rows_of_another_along_a_path() {
    let reference = "[[modify]]\ntable = \"drafts\"\ncolumn = \"post\"\nvalue = \"Null\"\n";
    for steps in [VALUES, reference] {
        let (mut member, values) = hides(ann(), steps);
        member.sql(&["UPDATE posts SET author = 2 WHERE id = 5"]);
        let before = member.rows(["drafts"]);
        let kept = member.return_from(&values);
        assert!(
            reasons(&kept).contains(&("drafts", KeptReason::OtherOwner)),
            "{kept:?}"
        );
        assert_eq!(member.rows(["drafts"]), before);
        member.sql(&["UPDATE posts SET author = 1 WHERE id = 5"]);
        let revealed = member.return_from(&values);
        assert!(revealed.is_complete(), "{revealed:?}");
        let drafts = member.rows(["drafts"]);
        assert!(
            drafts[0].iter().any(|row| row.contains("draft of Ann")),
            "{drafts:?}"
        );
    }
}

/// A newcomer may have the id of a placeholder, be it the next free number. Nothing that the placeholder had goes to them, and
/// nothing of theirs to whoever spoke for it.
pub(crate) fn whoever_has_the_id_of_a_placeholder_gives_and_gets_nothing() {
    for is_registered in [false, true] {
        let (mut member, behind) = hides(ann(), BEHIND);
        let find = "SELECT author FROM posts WHERE id = 5";
        let rows = member.engine.database().query(find, &[]).unwrap();
        let placeholder = rows[0][0].clone();
        member.sql(&[&format!("DELETE FROM people WHERE id = {placeholder}")]);
        let mut people = member.engine.people();
        people.unregister(&placeholder, None, time()).unwrap();
        member.sql(&[
            &format!("INSERT INTO people VALUES ({placeholder}, 'Zoe', NULL)"),
            "DELETE FROM posts WHERE id = 5",
            &format!("INSERT INTO posts VALUES (5, {placeholder}, NULL, 'of Zoe', NULL)"),
        ]);
        let mut zoe = None;
        if is_registered {
            let made = member
                .engine
                .people()
                .register(&placeholder, Protection::KeyAlone, time());
            zoe = Some(made.unwrap().key);
        }
        assert!(member.speaks_for().is_empty());
        let now = member.rows(TABLES);
        let over = member.apply_over(&format!("{PEOPLE}{POSTS}"));
        assert_eq!(over.rows.get("posts").copied().unwrap_or(0), 0, "{over:?}");
        assert!(member.return_from(&over).is_complete());
        assert_eq!(member.rows(TABLES), now);
        member.rekey();
        if let Some(zoe) = &zoe {
            let held = Credential::Key(zoe);
            assert_eq!(member.engine.list(&placeholder, &held, time()).unwrap(), []);
        }
        let kept = member.return_from(&behind);
        assert_eq!(reasons(&kept), [("posts", KeptReason::OwnerReplaced)]);
        assert_eq!(member.rows(TABLES), now);
    }
}

/// Albums and pictures that refer to each other.
const CIRCLE: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 20 } } }
[tables.albums]
owners = ["member"]
references = [{ columns = ["cover"], table = "pictures", to = ["id"] }]
[tables.pictures]
owners = ["member"]
references = [{ columns = ["album"], table = "albums", to = ["id"] }]
[tables.frames]
through = ["picture"]
references = [{ columns = ["picture"], table = "pictures", to = ["id"] }, { columns = ["twin"], table = "frames", to = ["id"] }]
[[remove]]
table = "frames"
[[remove]]
table = "pictures"
[[remove]]
table = "albums"
[[remove]]
table = "people"
"#;

/// V2: rows that wait for nothing but each other went back to whoever had the id of their owner by then. What is not in a circle
/// stayed, as it must.
pub(crate) fn rows_in_a_circle_do_not_go_to_a_newcomer() {
    for is_registered in [false, true] {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))",
            "CREATE TABLE albums (id BIGINT PRIMARY KEY, member BIGINT, cover BIGINT)",
            "CREATE TABLE pictures (id BIGINT PRIMARY KEY, member BIGINT, album BIGINT, secret VARCHAR(40))",
            "CREATE TABLE frames (id BIGINT PRIMARY KEY, picture BIGINT, twin BIGINT)",
            "INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')",
            "INSERT INTO albums VALUES (10, 1, 100)",
            "INSERT INTO pictures VALUES (100, 1, 10, 'of Ann')",
            "INSERT INTO frames VALUES (7, 100, 8), (8, 100, 7)",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let tables = ["people", "albums", "pictures", "frames"];
        let mut member = Member::of(database, CIRCLE);
        let before = member.rows(tables);
        let applied = member.leave();
        member.sql(&["INSERT INTO people VALUES (1, 'Zoe')"]);
        if is_registered {
            let made =
                member
                    .engine
                    .people()
                    .register(&Value::Int(1), Protection::KeyAlone, time());
            drop(made.unwrap());
        }
        let now = member.rows(tables);
        let kept = member.return_from(&applied);
        assert_eq!(member.rows(tables), now, "{kept:?}");
        let replaced = KeptReason::OwnerReplaced;
        assert!(reasons(&kept).contains(&("albums", replaced)), "{kept:?}");
        assert!(reasons(&kept).contains(&("pictures", replaced)), "{kept:?}");
        // Somebody else's picture is none to frame.
        member.sql(&["INSERT INTO pictures VALUES (100, 2, NULL, 'of Bob')"]);
        let now = member.rows(tables);
        let kept = member.return_from(&applied);
        assert_eq!(member.rows(tables), now, "{kept:?}");
        member.sql(&[
            "DELETE FROM pictures WHERE id = 100",
            "DELETE FROM people WHERE id = 1",
        ]);
        let revealed = member.return_from(&applied);
        assert!(revealed.is_complete(), "{revealed:?}");
        assert_eq!(member.rows(tables), before);
    }
}

/// V13: what a reveal in part had left was tried again with every later reveal, also after the end of its disguise, when a
/// reveal of that one was refused already. Nothing of it comes back then, put back by hand or not.
pub(crate) fn what_has_ended_does_not_come_back_with_another_disguise() {
    let (mut member, first) = hides_until_tomorrow(ann());
    member.sql(&["INSERT INTO posts VALUES (5, 2, NULL, 'in the way', NULL)"]);
    assert!(!member.return_from(&first).is_complete());
    member.sql(&[
        "DELETE FROM posts WHERE id = 5",
        "INSERT INTO posts VALUES (6, 1, NULL, 'later', NULL)",
    ]);
    let (mut member, second) = hides(member, DRAFTS_AND_POSTS);
    let now = member.rows(TABLES);
    let after = after_days(10);
    let refused = member.return_at(first.id, after).unwrap_err();
    assert!(matches!(refused, Error::Ended), "{refused:?}");
    let revealed = member.return_at(second.id, after).unwrap();
    assert!(revealed.is_complete(), "{revealed:?}");
    let posts = member.rows(["posts"]);
    assert_eq!(posts[0].len(), now[1].len() + 1, "{posts:?}");
    assert!(
        posts[0].iter().all(|row| !row.contains("of Ann")),
        "{posts:?}"
    );
}

fn hides_until_tomorrow(member: Member) -> (Member, Applied) {
    let mut member = member.again(&format!("{PEOPLE}{DRAFTS_AND_POSTS}"));
    let applied = member.leave_until(after_days(1));
    (member, applied)
}

fn after_days(days: i64) -> Timestamp {
    let nanoseconds = days * 86_400 * 1_000_000_000;
    Timestamp::from_nanoseconds(time().nanoseconds() + nanoseconds).unwrap()
}
