//! Pending work for a person whose id somebody else has by now.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{
    Applied, ApplyRequest, Credential, DisguiseId, Error, Progress, Protection, SecretKey,
    SpecFile, Value,
};
use probity_format::Timestamp;

use super::forum::time;
use super::member::Member;

/// People and what they write.
const HEAD: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } }, name = { RandStr = { len = 20 } } }
[tables.posts]
owners = ["author"]
"#;
const POSTS: &str = "[[remove]]\ntable = \"posts\"\n";
const ACCOUNT: &str = "[[remove]]\ntable = \"posts\"\n[[remove]]\ntable = \"people\"\n";
const TABLES: [&str; 2] = ["people", "posts"];
const ID: Value = Value::Int(1);

/// Ann, who has three posts.
fn ann() -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, text VARCHAR(40))",
        "INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')",
        "INSERT INTO posts VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, &format!("{HEAD}{ACCOUNT}"))
}

/// Ann leaves, and Zoe gets her id.
fn ann_leaves_and_zoe_comes(
    member: &mut Member,
    is_registered: bool,
) -> (Applied, Option<SecretKey>) {
    let left = member.leave();
    member.sql(&[
        "INSERT INTO people VALUES (1, 'Zoe')",
        "INSERT INTO posts VALUES (9, 1, 'of Zoe')",
    ]);
    let made = is_registered.then(|| {
        let made = member
            .engine
            .people()
            .register(&ID, Protection::KeyAlone, time());
        made.unwrap().key
    });
    (left, made)
}

/// Begins a disguise of Ann's posts alone, and takes its first row.
fn begun(member: &mut Member) -> DisguiseId {
    let file = SpecFile::parse(&format!("{HEAD}{POSTS}")).unwrap();
    let id = member.engine.chunks().begin(&request(&file)).unwrap();
    let going = member.engine.chunks().proceed(id, 1, time()).unwrap();
    assert!(matches!(going, Progress::Going(_)), "{going:?}");
    id
}

fn request(file: &SpecFile) -> ApplyRequest<'_> {
    ApplyRequest {
        spec: &file.spec,
        user: Some(ID),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    }
}

fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Value { what } if what.contains("somebody else"))
}

/// C3: a disguise in chunks went on when its person had left and somebody else had the id, and the newcomer's rows were sealed to the
/// former person, whose export printed them. Before each chunk the id must be that of the person whose key the disguise bears, or
/// nobody's.
pub(crate) fn chunks_of_a_person_leave_a_newcomer_alone() {
    for is_registered in [false, true] {
        let mut member = ann();
        let before = member.rows(TABLES);
        let begun = begun(&mut member);
        let (left, zoe) = ann_leaves_and_zoe_comes(&mut member, is_registered);
        let now = member.rows(TABLES);
        let refused = member
            .engine
            .chunks()
            .proceed(begun, 1, time())
            .unwrap_err();
        assert!(is_refused(&refused), "{refused:?}");
        assert_eq!(member.rows(TABLES), now);
        // Nor is it Zoe's to end.
        if let Some(zoe) = &zoe {
            let revealed = member.returned(ID, zoe, begun);
            assert!(!revealed.found, "{revealed:?}");
            assert_eq!(member.engine.chunks().unfinished().unwrap(), [begun]);
            let held = Credential::Key(zoe);
            member.engine.forget_everything(&ID, &held, time()).unwrap();
            assert_eq!(member.engine.chunks().unfinished().unwrap(), [begun]);
        }
        member.sql(&[
            "DELETE FROM people WHERE id = 1",
            "DELETE FROM posts WHERE id = 9",
        ]);
        // Once nobody has the id it goes on, and ends with nothing left to do.
        assert!(matches!(
            member.engine.chunks().proceed(begun, 9, time()).unwrap(),
            Progress::Done(_)
        ));
        assert!(member.return_from(&left).is_complete());
        assert!(member.return_at(begun, time()).unwrap().is_complete());
        assert_eq!(member.rows(TABLES), before);
    }
}

/// Ann returned from a disguise of everybody in chunks, or had her records destroyed, and the mark that she left bore her id alone:
/// when Zoe got the id, Zoe's row was hidden without a record, or stayed in clear. The mark bears the key too.
pub(crate) fn marks_of_chunks_are_their_persons_and_not_a_newcomers() {
    for forgets in [false, true] {
        let mut member = ann();
        let file = SpecFile::parse(&format!("{HEAD}{POSTS}")).unwrap();
        let everybody = ApplyRequest {
            user: None,
            ..request(&file)
        };
        let id = member.engine.chunks().begin(&everybody).unwrap();
        let going = member.engine.chunks().proceed(id, 1, time()).unwrap();
        assert!(matches!(going, Progress::Going(_)), "{going:?}");
        if forgets {
            let key = Credential::Key(&member.key);
            member.engine.forget_everything(&ID, &key, time()).unwrap();
        } else {
            assert!(member.return_at(id, time()).unwrap().found);
            let key = Credential::Key(&member.key);
            member
                .engine
                .people()
                .unregister(&ID, Some(&key), time())
                .unwrap();
        }
        member.sql(&[
            "DELETE FROM posts",
            "DELETE FROM people WHERE id = 1",
            "INSERT INTO people VALUES (1, 'Zoe')",
            "INSERT INTO posts VALUES (9, 1, 'of Zoe')",
        ]);
        let made = member
            .engine
            .people()
            .register(&ID, Protection::KeyAlone, time());
        let zoe = made.unwrap().key;
        let before = member.rows(TABLES);
        while let Progress::Going(_) = member.engine.chunks().proceed(id, 1, time()).unwrap() {}
        assert_ne!(member.rows(TABLES), before, "forgets: {forgets}");
        assert!(member.returned(ID, &zoe, id).is_complete());
        assert_eq!(member.rows(TABLES), before, "forgets: {forgets}");
    }
}

/// A new key in the middle of chunks left the disguise with the old one, to which an account that was away was sealed from then on.
/// What waits or goes on follows its person to the new key.
pub(crate) fn chunks_and_orders_follow_their_person_to_a_new_key() {
    let mut member = ann();
    let before = member.rows(TABLES);
    let going_on = begun(&mut member);
    // One that is not the same goes on beside it.
    let file = SpecFile::parse(&format!("{HEAD}{POSTS}# later\n")).unwrap();
    let waiting = member
        .engine
        .schedule()
        .add(&request(&file), later(1))
        .unwrap();
    member.rekey();
    let done = member.engine.chunks().proceed(going_on, 9, time()).unwrap();
    assert!(matches!(done, Progress::Done(_)), "{done:?}");
    assert!(member.return_at(going_on, time()).unwrap().is_complete());
    let swept = member.engine.schedule().sweep(later(2)).unwrap();
    assert!(
        swept.refused.is_empty() && swept.applied.len() == 1,
        "{swept:?}"
    );
    assert!(member.return_at(waiting, time()).unwrap().is_complete());
    assert_eq!(member.rows(TABLES), before);
}

fn later(days: i64) -> Timestamp {
    let nanoseconds = days * 86_400 * 1_000_000_000;
    Timestamp::from_nanoseconds(time().nanoseconds() + nanoseconds).unwrap()
}

/// H1: a disguise in its grace period named an id and no key, so that it hid whoever had the id when it was due: Zoe's account and
/// posts went, for what Ann had asked for. It names the key of its person, and is refused for anybody else.
pub(crate) fn a_disguise_in_its_grace_period_leaves_a_newcomer_alone() {
    for is_registered in [false, true] {
        let mut member = ann();
        let file = SpecFile::parse(&format!("{HEAD}{ACCOUNT}# later\n")).unwrap();
        let waiting = member
            .engine
            .schedule()
            .add(&request(&file), later(1))
            .unwrap();
        let (left, zoe) = ann_leaves_and_zoe_comes(&mut member, is_registered);
        let now = member.rows(TABLES);
        let swept = member.engine.schedule().sweep(later(2)).unwrap();
        let refused: Vec<_> = swept.refused.iter().map(|(id, _)| *id).collect();
        assert_eq!(refused, [waiting]);
        assert_eq!(member.rows(TABLES), now);
        if let Some(zoe) = zoe {
            assert!(is_refused(&swept.refused[0].1), "{swept:?}");
            // It does not end with what the newcomer forgets.
            let held = Credential::Key(&zoe);
            member.engine.forget_everything(&ID, &held, time()).unwrap();
        }
        assert_eq!(member.engine.schedule().list(None).unwrap().len(), 1);
        member.sql(&[
            "DELETE FROM people WHERE id = 1",
            "DELETE FROM posts WHERE id = 9",
        ]);
        assert!(member.return_from(&left).is_complete());
        let swept = member.engine.schedule().sweep(later(3)).unwrap();
        assert_eq!(swept.applied.len(), 1, "{swept:?}");
        assert!(member.return_at(waiting, time()).unwrap().is_complete());
    }
}

/// H1: whoever had everything forgotten left their scheduled disguise behind, which waited until somebody registered under the id.
/// It ends with the rest.
pub(crate) fn what_is_scheduled_ends_when_everything_is_forgotten() {
    let mut member = ann();
    let file = SpecFile::parse(&format!("{HEAD}{ACCOUNT}")).unwrap();
    member
        .engine
        .schedule()
        .add(&request(&file), later(1))
        .unwrap();
    member.forget(None).unwrap();
    assert!(member.engine.schedule().list(None).unwrap().is_empty());
    let made = member
        .engine
        .people()
        .register(&ID, Protection::KeyAlone, time());
    drop(made.unwrap());
    let now = member.rows(TABLES);
    let swept = member.engine.schedule().sweep(later(2)).unwrap();
    assert!(
        swept.applied.is_empty() && swept.refused.is_empty(),
        "{swept:?}"
    );
    assert_eq!(member.rows(TABLES), now);
}

/// An order of a program before names no key, so that nobody can tell whose it is. It is read, listed and cancelled as ever, and is
/// not applied.
pub(crate) fn an_order_without_a_key_is_read_and_not_applied() {
    let mut member = ann();
    let file = SpecFile::parse(&format!("{HEAD}{ACCOUNT}")).unwrap();
    let waiting = member
        .engine
        .schedule()
        .add(&request(&file), later(1))
        .unwrap();
    without_its_key(&mut member);
    let now = member.rows(TABLES);
    let swept = member.engine.schedule().sweep(later(2)).unwrap();
    assert!(is_refused(&swept.refused[0].1), "{swept:?}");
    assert_eq!(member.rows(TABLES), now);
    assert_eq!(member.engine.schedule().list(Some(&ID)).unwrap().len(), 1);
    member.engine.schedule().cancel(waiting, time()).unwrap();
    member
        .engine
        .schedule()
        .add(&request(&file), later(1))
        .unwrap();
    without_its_key(&mut member);
    member.forget(None).unwrap();
    assert!(member.engine.schedule().list(None).unwrap().is_empty());
}

/// Takes the only order back to the form before: no key behind the text and the user, and version 1.
fn without_its_key(member: &mut Member) {
    let database = member.engine.database();
    let rows = database.query("SELECT what FROM probity_scheduled", &[]);
    let Value::Bytes(mut what) = rows.unwrap().concat().remove(0) else {
        unreachable!("an order is binary");
    };
    assert_eq!(what[0], 2);
    what[0] = 1;
    // The number 1 as a signed value, and then the key with its length.
    let user = [1, 2, 32];
    let at = what.windows(3).rposition(|bytes| bytes == user).unwrap();
    what.drain(at + 2..at + 35);
    let put = "UPDATE probity_scheduled SET what = ?";
    database.execute(put, &[Value::Bytes(what)]).unwrap();
}

/// H2: a registration stayed when the application deleted the account and gave the id again: the newcomer could not register, and what
/// was hidden of them was sealed to the person before. `unregister` ends it, and whoever is registered without a row is named.
pub(crate) fn a_deleted_account_ends_its_registration_and_the_id_is_free() {
    let mut member = ann();
    let file = SpecFile::parse(&format!("{HEAD}{POSTS}")).unwrap();
    let waiting = member
        .engine
        .schedule()
        .add(&request(&file), later(1))
        .unwrap();
    let begun = begun(&mut member);
    let there = member
        .engine
        .people()
        .unregister(&ID, None, time())
        .unwrap_err();
    assert!(matches!(there, Error::Value { .. }), "{there:?}");
    assert!(member.engine.people().rowless().unwrap().is_empty());
    member.sql(&["DELETE FROM people WHERE id = 1"]);
    assert_eq!(member.engine.people().rowless().unwrap().users, ["1"]);
    assert_eq!(
        member
            .engine
            .schedule()
            .sweep(time())
            .unwrap()
            .rowless
            .users,
        ["1"]
    );
    assert_eq!(
        member.engine.schedule().due(time()).unwrap().rowless.users,
        ["1"]
    );
    member
        .engine
        .people()
        .unregister(&ID, None, time())
        .unwrap();
    assert!(member.engine.people().rowless().unwrap().is_empty());
    for id in [waiting, begun] {
        let gone = member.engine.schedule().cancel(id, time());
        assert!(matches!(gone, Err(Error::NoSuchDisguise)), "{gone:?}");
    }
    let again = member.engine.people().unregister(&ID, None, time());
    assert!(matches!(again, Err(Error::Value { .. })), "{again:?}");
    // The newcomer is nobody but themselves, and the person before keeps what is theirs.
    member.sql(&[
        "DELETE FROM posts",
        "INSERT INTO people VALUES (1, 'Zoe')",
        "INSERT INTO posts VALUES (9, 1, 'of Zoe')",
    ]);
    let zoe = member
        .engine
        .people()
        .register(&ID, Protection::KeyAlone, time());
    let zoe = zoe.unwrap().key;
    let before = member.rows(TABLES);
    let hidden = member.apply(Some(ID)).unwrap();
    assert_eq!(member.exported(begun, time()).unwrap(), 1);
    let strange = member.exported(hidden.id, time());
    assert!(matches!(strange, Err(Error::NoSuchDisguise)), "{strange:?}");
    let kept = member.return_at(begun, time()).unwrap();
    assert!(!kept.is_complete(), "{kept:?}");
    assert!(member.returned(ID, &zoe, hidden.id).is_complete());
    assert_eq!(member.rows(TABLES), before);
}

/// While the row is there the registration ends by the credential of its person alone.
pub(crate) fn a_registration_ends_by_its_persons_credential_while_the_row_is_there() {
    let mut member = ann();
    let bob = Value::Int(2);
    let made = member
        .engine
        .people()
        .register(&bob, Protection::KeyAlone, time());
    let (bobs, time) = (made.unwrap().key, time());
    let wrong = member
        .engine
        .people()
        .unregister(&ID, Some(&Credential::Key(&bobs)), time);
    assert!(matches!(wrong, Err(Error::WrongCredential)), "{wrong:?}");
    let credential = Credential::Key(&bobs);
    member
        .engine
        .people()
        .unregister(&bob, Some(&credential), time)
        .unwrap();
    let made = member
        .engine
        .people()
        .register(&bob, Protection::KeyAlone, time);
    drop(made.unwrap());
}
