//! A request that is asked again under the same key, with its operation in one transaction.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{Answered, ApplyRequest, DisguiseId, Error, Once, Spec, Value};
use probity_format::{Entry, Outcome, Timestamp};

use super::forum::*;

/// How long an answer is kept.
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
    forum.engine.sweep(over).unwrap();
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
