//! Marks that people leave in a disguise of everybody in chunks, and whoever has their ids later.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    ApplyRequest, Authority, DisguiseId, Error, Holding, Progress, Protection, SecretKey, SpecFile,
    Value,
};

use super::forum::time;
use super::member::Member;

/// People, what they write, and notes that two of them own.
const HEAD: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 20 } } }
[tables.posts]
owners = ["author"]
[tables.notes]
owners = ["author", "co"]
on_leave = { author = "remove", co = "remove" }
"#;
const REMOVE: &str = "[[remove]]\ntable = \"posts\"\n";
const OVERWRITE: &str =
    "[[modify]]\ntable = \"posts\"\ncolumn = \"text\"\nvalue = { ConstStr = \"-\" }\n";
const REPLACE: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"author\"]\n";
const NOTES: &str =
    "[[modify]]\ntable = \"notes\"\ncolumn = \"text\"\nvalue = { ConstStr = \"-\" }\n";
const SHARED: &str = "[[remove]]\ntable = \"notes\"\n";
const ANN: Value = Value::Int(1);
const BOB: Value = Value::Int(2);

/// The mark that Ann leaves in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Returned,
    Forgotten,
}

/// Ann and Bob, a post of each to begin with, and one of Ann that a later chunk meets.
fn people() -> (Member, SecretKey) {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, text VARCHAR(40))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, author BIGINT, co BIGINT, text VARCHAR(40))",
        "INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')",
        "INSERT INTO posts VALUES (1, 1, 'of Ann'), (2, 2, 'of Bob'), (3, 1, 'later')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, &format!("{HEAD}{REMOVE}"));
    let bob = member
        .engine
        .people()
        .register(&BOB, Protection::KeyAlone, time());
    (member, bob.unwrap().key)
}

fn begin(member: &mut Member, steps: &str) -> Result<DisguiseId, Error> {
    let file = SpecFile::parse(&format!("{HEAD}{steps}")).unwrap();
    member.engine.chunks().begin(&ApplyRequest {
        spec: &file.spec,
        user: None,
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    })
}

/// A disguise of everybody that has taken its first row, which is Ann's.
fn begun(member: &mut Member, steps: &str) -> DisguiseId {
    let id = begin(member, steps).unwrap();
    let going = member.engine.chunks().proceed(id, 1, time()).unwrap();
    assert!(matches!(going, Progress::Going(_)), "{going:?}");
    id
}

/// Goes on to the end, or to the first refusal.
fn go_on(member: &mut Member, id: DisguiseId) -> Result<(), Error> {
    while let Progress::Going(_) = member.engine.chunks().proceed(id, 1, time())? {}
    Ok(())
}

/// Ann leaves her mark. She is not registered any more: who came back leaves by herself then, and
/// her registration goes with the account.
fn ann_marks(member: &mut Member, id: DisguiseId, mark: Mark) {
    match mark {
        Mark::Forgotten => member.forget(None).unwrap(),
        Mark::Returned => {
            assert!(member.return_at(id, time()).unwrap().found);
            let account = format!("{HEAD}{REMOVE}[[remove]]\ntable = \"people\"\n");
            let file = SpecFile::parse(&account).unwrap();
            let request = ApplyRequest {
                spec: &file.spec,
                user: Some(ANN),
                over: None,
                parameters: BTreeMap::new(),
                expires: None,
                time: time(),
            };
            member.engine.apply(&request).unwrap();
        }
    }
}

/// The application deletes Ann's account, and Zoe gets the id.
fn zoe_comes(member: &mut Member) {
    member.sql(&[
        "DELETE FROM posts WHERE author = 1",
        "DELETE FROM people WHERE id = 1",
        "INSERT INTO people VALUES (1, 'Zoe')",
        "INSERT INTO posts VALUES (9, 1, 'of Zoe')",
    ]);
}

fn is_unregistered(outcome: &Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Unregistered { .. }))
}

fn is_held<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Held { .. }))
}

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "court",
        basis: "7 C 81/26",
        time: time(),
    }
}

/// Calls `check` with the disguise of each kind in the middle of which Ann left each mark and Zoe got
/// her id, and with the name of both.
fn in_the_middle(check: impl Fn(&str, &mut Member, DisguiseId)) {
    for mark in [Mark::Forgotten, Mark::Returned] {
        for steps in [REMOVE, OVERWRITE, REPLACE] {
            let (mut member, _) = people();
            let id = begun(&mut member, steps);
            ann_marks(&mut member, id, mark);
            zoe_comes(&mut member);
            check(&format!("{mark:?} {steps}"), &mut member, id);
        }
    }
}

/// C3: Ann returned, or had everything forgotten, in the middle of a disguise of everybody, and Zoe got her id without a key. The
/// next chunk took the mark for Zoe's: it hid her rows without a record, for good, or left them in clear.
pub(crate) fn a_mark_is_not_that_of_an_unregistered_newcomer() {
    in_the_middle(|way, member, id| {
        let outcome = go_on(member, id);
        assert!(is_unregistered(&outcome), "{way}: {outcome:?}");
        let posts = format!("{:?}", member.rows(["posts"]));
        assert!(posts.contains("of Zoe"), "{way}: {posts}");
        // Once Zoe has a key it goes on, and her record is hers.
        hides_zoe_with_a_record(member, id);
    });
}

/// C3: the same, where the newcomer has a key before the next chunk. What is hidden of her is hers to reveal.
pub(crate) fn a_mark_is_not_that_of_a_registered_newcomer() {
    in_the_middle(|_, member, id| hides_zoe_with_a_record(member, id));
}

fn hides_zoe_with_a_record(member: &mut Member, id: DisguiseId) {
    let made = member
        .engine
        .people()
        .register(&ANN, Protection::KeyAlone, time());
    let zoe = made.unwrap().key;
    let of_zoe = |member: &mut Member| {
        let rows = "SELECT COUNT(*) FROM posts WHERE id = 9 AND author = 1 AND text = 'of Zoe'";
        let rows = member.engine.database().query(rows, &[]);
        rows.unwrap().concat()
    };
    assert_eq!(of_zoe(member), [Value::Int(1)]);
    go_on(member, id).unwrap();
    assert_eq!(of_zoe(member), [Value::Int(0)]);
    assert!(member.returned(ANN, &zoe, id).is_complete());
    assert_eq!(of_zoe(member), [Value::Int(1)]);
}

/// Marks of the person alone count still: who returned stays in clear under a new key, and what is left of an account that nobody
/// has any more is hidden for good, as its person asked.
pub(crate) fn a_mark_stays_that_of_its_person() {
    let (mut member, _) = people();
    let id = begun(&mut member, REMOVE);
    assert!(member.return_at(id, time()).unwrap().found);
    member.rekey();
    let before = member.rows(["posts"]);
    go_on(&mut member, id).unwrap();
    let posts = member.rows(["posts"]);
    assert!(posts.iter().all(|rows| rows.len() == 2), "{posts:?}");
    assert_ne!(posts, before);

    let (mut member, _) = people();
    let id = begun(&mut member, REMOVE);
    member.forget(None).unwrap();
    member.sql(&["DELETE FROM people WHERE id = 1"]);
    go_on(&mut member, id).unwrap();
    assert!(member.rows(["posts"]).iter().all(BTreeSet::is_empty));
    let gone = member.return_at(id, time());
    assert!(matches!(gone, Err(Error::WrongCredential)), "{gone:?}");
}

/// C3: an account that was deleted after its person had everything forgotten could not be unregistered, since nobody was, and its
/// marks stayed. The end of a registration takes the marks of the id, whether or not it is registered.
pub(crate) fn the_end_of_a_registration_takes_its_marks() {
    for everything in [false, true] {
        let (mut member, _) = people();
        let ids = [begun(&mut member, REMOVE), begun(&mut member, OVERWRITE)];
        let marks = |member: &mut Member| {
            let count = "SELECT COUNT(*) FROM probity_intents";
            let count = member.engine.database().query(count, &[]);
            count.unwrap().concat()
        };
        assert_eq!(marks(&mut member), [Value::Int(2)]);
        if everything {
            member.forget(None).unwrap();
        } else {
            for id in ids {
                assert!(member.return_at(id, time()).unwrap().found);
            }
        }
        assert_ne!(marks(&mut member), [Value::Int(2)]);
        member.sql(&["DELETE FROM people WHERE id = 1"]);
        member
            .engine
            .people()
            .unregister(&ANN, None, time())
            .unwrap();
        assert_eq!(marks(&mut member), [Value::Int(2)]);
        let again = member.engine.people().unregister(&ANN, None, time());
        assert!(matches!(again, Err(Error::Value { .. })), "{again:?}");
        // What is left under the id is nobody's, and stays.
        let before = member.rows(["posts"]);
        go_on(&mut member, ids[0]).unwrap();
        let of_ann = |posts: &str| posts.contains("later");
        let after = member.rows(["posts"]);
        assert!(of_ann(&format!("{before:?}")), "{before:?}");
        assert!(of_ann(&format!("{after:?}")), "{after:?}");
    }
}

/// A program before bound the marks to no key, or by a note of another kind. They are read, and count for nobody who is registered
/// and for no id that the users table has.
pub(crate) fn a_mark_without_a_key_counts_where_nobody_has_the_id() {
    for is_there in [false, true] {
        let (mut member, _) = people();
        let id = begun(&mut member, REMOVE);
        member.forget(None).unwrap();
        let empty = "UPDATE probity_intents SET what = ? WHERE LENGTH(id) = 25";
        let database = member.engine.database();
        let emptied = database.execute(empty, &[Value::Bytes(Vec::new())]);
        assert_eq!(emptied.unwrap(), 1);
        if !is_there {
            member.sql(&["DELETE FROM people WHERE id = 1"]);
        }
        let outcome = go_on(&mut member, id);
        assert_eq!(is_unregistered(&outcome), is_there, "{outcome:?}");
    }
}

/// Ann forgot this disguise alone, or everything, in the middle. A hold that was placed since, on her or on somebody who owns a row
/// with her, was not asked about in later chunks, because the mark stood in the place of the registration.
pub(crate) fn a_hold_on_any_owner_stops_chunks_after_a_mark() {
    for steps in [REMOVE, OVERWRITE, REPLACE] {
        let (mut member, _) = people();
        let id = begun(&mut member, steps);
        member.forget(None).unwrap();
        member.sql(&["DELETE FROM people WHERE id = 1"]);
        let hold = member
            .engine
            .holds()
            .place(Holding::Away(&ANN), &authority());
        let outcome = go_on(&mut member, id);
        assert!(is_held(&outcome), "{steps}: {outcome:?}");
        let posts = format!("{:?}", member.rows(["posts"]));
        assert!(posts.contains("later"), "{steps}: {posts}");
        member
            .engine
            .holds()
            .lift(hold.unwrap(), &authority())
            .unwrap();
        go_on(&mut member, id).unwrap();
    }
    for steps in [NOTES, SHARED] {
        let (mut member, _) = people();
        let of_both = "INSERT INTO notes VALUES (10, 1, 1, 'of Ann'), (11, 1, 2, 'of both')";
        member.sql(&[of_both]);
        let id = begun(&mut member, steps);
        member.forget(Some(id)).unwrap();
        let hold = member
            .engine
            .holds()
            .place(Holding::Person(&BOB), &authority());
        let outcome = go_on(&mut member, id);
        assert!(is_held(&outcome), "{steps}: {outcome:?}");
        let notes = format!("{:?}", member.rows(["notes"]));
        assert!(notes.contains("of both"), "{steps}: {notes}");
        member
            .engine
            .holds()
            .lift(hold.unwrap(), &authority())
            .unwrap();
        go_on(&mut member, id).unwrap();
    }
}

/// A held co-owner without a key was met in the middle of chunks of everybody, after others had gone. Whoever owns a row is asked
/// for before the disguise begins.
pub(crate) fn a_hold_on_a_co_owner_is_found_before_chunks_of_everybody_begin() {
    for steps in [NOTES, SHARED] {
        let (mut member, _) = people();
        member.sql(&[
            "INSERT INTO people VALUES (3, 'Cem')",
            "INSERT INTO notes VALUES (10, 1, 1, 'of Ann'), (11, 1, 3, 'of Ann and Cem')",
        ]);
        let cem = Value::Int(3);
        let hold = member
            .engine
            .holds()
            .place(Holding::Person(&cem), &authority());
        let outcome = begin(&mut member, steps);
        assert!(is_held(&outcome), "{steps}: {outcome:?}");
        assert!(member.engine.chunks().unfinished().unwrap().is_empty());
        hold.unwrap();
    }
}

/// Ann forgot a disguise of everybody in the middle, and owned a row with Bob before him. Its record was made for her alone, and
/// destroyed: Bob, who forgot nothing, could not bring his row back. It is his where she wants none.
pub(crate) fn a_row_of_two_stays_with_the_one_who_forgot_nothing() {
    for is_back in [false, true] {
        let (mut member, bob) = people();
        member.sql(&["INSERT INTO notes VALUES (10, 1, 1, 'of Ann'), (11, 1, 2, 'of both')"]);
        let id = begun(&mut member, NOTES);
        member.forget(Some(id)).unwrap();
        if is_back {
            // His rows are left alone then, hers with him too.
            assert!(member.returned(BOB, &bob, id).found);
        }
        go_on(&mut member, id).unwrap();
        let notes = format!("{:?}", member.rows(["notes"]));
        assert_eq!(notes.contains("of both"), is_back, "{notes}");
        let revealed = member.returned(BOB, &bob, id);
        assert!(revealed.is_complete(), "{revealed:?}");
        let notes = format!("{:?}", member.rows(["notes"]));
        assert!(notes.contains("of both"), "{notes}");
        assert!(!notes.contains("of Ann"), "{notes}");
    }
}
