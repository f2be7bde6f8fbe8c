//! A request that is asked again under the same key, with its operation in one transaction.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    Answered, ApplyRequest, Credential, DisguiseId, Error, Once, Replayability, SecretKey, Spec,
    Value,
};
use probity_format::{Entry, Outcome, Timestamp};

use super::forum::*;
use super::replay::{Station, outlooks, station};

/// The time for which an answer is kept, in nanoseconds.
const KEPT: i64 = 1_000;

/// The first time that is not that of a test.
const FIRST: i64 = 1_900_000_000_000_000_000;

fn once<'a>(key: &'a str, request: &'a [u8], at: i64) -> Once<'a> {
    let time = |nanoseconds| Timestamp::from_nanoseconds(FIRST + nanoseconds).unwrap();
    Once {
        caller: b"a secret of the caller",
        key,
        request,
        time: time(at),
        until: time(at + KEPT),
    }
}

/// Hides the stories' addresses of a user under a key.
fn ask(forum: &mut Forum, user: i64, once: &Once<'_>) -> Result<Answered<DisguiseId>, Error> {
    let spec = Spec::from_edna_json(BLANK).unwrap();
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(user)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    forum.engine.once(once, |engine| {
        let applied = engine.apply(&request)?;
        Ok((applied.id, Some(applied.id.to_string().into_bytes())))
    })
}

fn now(answered: Result<Answered<DisguiseId>, Error>) -> DisguiseId {
    match answered.unwrap() {
        Answered::Now(id) => id,
        _ => panic!("it was not done now"),
    }
}

fn before(answered: Result<Answered<DisguiseId>, Error>) -> String {
    match answered.unwrap() {
        Answered::Before(text) => String::from_utf8(text.to_vec()).unwrap(),
        _ => panic!("it was not done before"),
    }
}

pub(crate) fn a_request_asked_again_is_answered_as_before_and_done_once() {
    let mut forum = forum();
    let first = now(ask(&mut forum, 1, &once("a", b"one", 0)));
    let hidden = forum.everything();
    for at in [0, KEPT] {
        let answered = ask(&mut forum, 1, &once("a", b"one", at));
        assert_eq!(before(answered), first.to_string());
    }
    let refused = ask(&mut forum, 2, &once("a", b"two", 1));
    assert!(matches!(refused, Err(Error::OtherRequest)));
    // Another caller's key of the same name is another key.
    let other = Once {
        caller: b"another secret",
        ..once("a", b"one", 1)
    };
    assert_eq!(forum.everything(), hidden);
    let second = now(ask(&mut forum, 2, &other));
    // After its time a key is as good as new.
    let third = now(ask(&mut forum, 3, &once("a", b"three", KEPT + 1)));
    for (user, id) in [(1, first), (2, second), (3, third)] {
        assert!(forum.reveal(user, id).is_complete());
    }
    forum.assert_as_before();
    let over = Timestamp::from_nanoseconds(FIRST + 3 * KEPT).unwrap();
    forum.engine.schedule().sweep(over).unwrap();
    let count = "SELECT COUNT(*) FROM probity_answers";
    assert_eq!(forum.numbers(count), [0]);
}

pub(crate) fn a_request_that_is_refused_or_cut_keeps_no_key_and_is_told() {
    let mut forum = forum();
    let told: Rc<RefCell<Vec<(String, Outcome)>>> = Rc::default();
    let seen = Rc::clone(&told);
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        let line = (entry.action.to_owned(), entry.outcome);
        seen.borrow_mut().push(line);
        Ok(())
    }));
    let nobody = ask(&mut forum, 99, &once("a", b"one", 0));
    assert!(matches!(nobody, Err(Error::NoSuchUser { .. })));
    let line = ("disguise.apply".to_owned(), Outcome::Failed);
    assert_eq!(told.borrow_mut().split_off(0), [line]);
    let mut cut = 0;
    let done = loop {
        forum.left.set(cut);
        let answered = ask(&mut forum, 1, &once("a", b"two", 0));
        forum.left.set(u64::MAX);
        match answered {
            Err(Error::Database { .. } | Error::Unsettled(_)) => {}
            answered => break now(answered),
        }
        assert_eq!(forum.everything(), forum.before.clone(), "cut {cut}");
        cut += 1;
    };
    assert!(cut > 10, "{cut}");
    // Whatever was told of as done before it was cut was taken back.
    let told = told.borrow();
    let promised = told.iter().filter(|(_, it)| *it == Outcome::Ok).count();
    assert_eq!(told.last().unwrap().1, Outcome::Ok);
    assert!(promised > 1, "{told:?}");
    for pair in told.windows(2) {
        assert!(pair[0].1 == Outcome::Failed || pair[1].1 == Outcome::Failed);
    }
    drop(told);
    assert_eq!(
        before(ask(&mut forum, 1, &once("a", b"two", 0))),
        done.to_string()
    );
    assert!(forum.reveal(1, done).is_complete());
    forum.assert_as_before();
}

/// An answer about a person who had everything forgotten could be read for a day more, with rows
/// that stayed among it. It is destroyed with their records, after one go and after chunks. The
/// request still counts as done.
pub(crate) fn answers_about_whoever_is_forgotten_go_with_them() {
    let mut forum = forum();
    for user in 1..=USERS {
        let key = format!("of {user}");
        now(ask(&mut forum, user, &once(&key, b"one", 0)));
    }
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let request = ApplyRequest {
        spec: &spec,
        user: Some(Value::Int(1)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    let chunks = once("chunks", b"two", 0);
    let engine = &mut forum.engine;
    let begun = engine.once(&chunks, |engine| {
        let id = engine.chunks().begin(&request)?;
        Ok((id, Some(id.to_string().into_bytes())))
    });
    let of = (now(begun), None);
    let answer = |_: &probity_disguise::Applied| b"done".to_vec();
    let finished = engine.chunks().finish_once(of, 2, time, &chunks, answer);
    finished.unwrap();
    let kept = |forum: &mut Forum| {
        forum.numbers("SELECT COUNT(*) FROM probity_answers WHERE length(sealed) > 0")[0]
    };
    assert_eq!(kept(&mut forum), USERS + 1);
    let key = SecretKey::from_bytes(*forum.keys[&1].expose());
    let engine = &mut forum.engine;
    let forgotten: Result<Answered<()>, Error> =
        engine.once(&once("forget", b"three", 0), |engine| {
            let receipt =
                engine.forget_everything(&Value::Int(1), &Credential::Key(&key), time())?;
            Ok(((), Some(receipt.digest().into_bytes())))
        });
    assert!(matches!(forgotten, Ok(Answered::Now(()))));
    for key in ["of 1", "chunks"] {
        let request: &[u8] = if key == "chunks" { b"two" } else { b"one" };
        let again = ask(&mut forum, 1, &once(key, request, 1));
        assert!(matches!(again, Ok(Answered::Withheld)), "{key}");
        let other = ask(&mut forum, 2, &once(key, b"other", 1));
        assert!(matches!(other, Err(Error::OtherRequest)));
    }
    // The answer to the request itself is what the person takes away.
    let again = ask(&mut forum, 1, &once("forget", b"three", 1));
    assert!(matches!(again, Ok(Answered::Before(_))));
    // One person in 256 shares the byte.
    let others = (2..=USERS).filter(|user| {
        let key = format!("of {user}");
        matches!(
            ask(&mut forum, *user, &once(&key, b"one", 1)),
            Ok(Answered::Before(_))
        )
    });
    let others = others.count();
    assert!(others > 0);
    assert_eq!(kept(&mut forum), i64::try_from(others).unwrap() + 1);
}

/// The answer from before its person had something forgotten could be put back with its row, and was given out again; a replay for
/// a person who is away left it. Its name is noted like that of a record, and its row is part of what seals it.
pub(crate) fn an_answer_about_whoever_is_forgotten_stays_gone_when_its_row_is_put_back() {
    for is_away in [false, true] {
        let mut station = station();
        let sealed = "SELECT id FROM probity_answers WHERE LENGTH(sealed) > 0";
        let first = now(ask(&mut station.forum, 1, &once("a", b"one", 0)));
        if is_away {
            station.apply(GDPR, Some(1));
        }
        station.back_up();
        let rows = station.rows("probity_answers");
        let put_back = |station: &mut Station, rows: &[Vec<Value>]| {
            station.forum.sql("DELETE FROM probity_answers");
            for row in rows {
                let sql = "INSERT INTO probity_answers VALUES (?, ?, ?, ?)";
                station.forum.engine.database().execute(sql, row).unwrap();
            }
        };
        // Nobody keeps it for longer than it was kept.
        let mut longer = rows.clone();
        longer[0][2] = Value::Int(i64::MAX);
        put_back(&mut station, &longer);
        let answered = ask(&mut station.forum, 1, &once("a", b"one", KEPT + 1));
        assert!(matches!(answered, Err(Error::Forged)));
        put_back(&mut station, &rows);
        let answered = ask(&mut station.forum, 1, &once("a", b"one", 1));
        assert_eq!(before(answered), first.to_string());
        station.forget(1, Some(first));
        put_back(&mut station, &rows);
        let answered = ask(&mut station.forum, 1, &once("a", b"one", 1));
        assert!(matches!(answered, Ok(Answered::Withheld)));
        // The log has its name, too: whoever takes that of the database away is found, and a restored backup is emptied.
        for is_restored in [false, true] {
            if is_restored {
                station.restore();
            }
            station.forum.sql("DELETE FROM probity_forgotten");
            put_back(&mut station, &rows);
            let done = station.replay(&[], &[]);
            assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
            assert!(
                station
                    .forum
                    .engine
                    .database()
                    .query(sealed, &[])
                    .unwrap()
                    .is_empty()
            );
            assert_eq!(station.replay(&[], &[]), []);
            let answered = ask(&mut station.forum, 1, &once("a", b"one", 1));
            assert!(matches!(answered, Ok(Answered::Withheld)));
        }
    }
}
