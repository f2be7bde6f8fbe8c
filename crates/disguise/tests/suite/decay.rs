//! Inactive people are disguised, and can come back.

use std::collections::BTreeMap;

use probity_disguise::{Authority, DecayRequest, Decayed, Error, Holding, Spec, Value};

use super::forum::*;

fn request(spec: &Spec, after: Option<Value>, page: u32) -> DecayRequest<'_> {
    DecayRequest {
        spec,
        inactive: "users.karma < :active",
        parameters: BTreeMap::from([("active".to_owned(), Value::Int(5))]),
        expires: None,
        after,
        page,
        time: time(),
    }
}

/// Runs all pages, of one person each.
fn run(forum: &mut Forum, spec: &str) -> Vec<Decayed> {
    let spec = Spec::from_edna_json(spec).unwrap();
    let mut pages: Vec<Decayed> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| page.next.clone());
        let decayed = forum.engine.decay(&request(&spec, after, 1)).unwrap();
        let ended = decayed.next.is_none();
        pages.push(decayed);
        if ended {
            return pages;
        }
    }
}

fn applied(pages: &[Decayed]) -> usize {
    pages.iter().map(|page| page.applied.len()).sum()
}

fn sum(pages: &[Decayed], of: impl Fn(&Decayed) -> u64) -> u64 {
    pages.iter().map(of).sum()
}

pub(crate) fn whoever_is_inactive_is_disguised_once_and_can_come_back() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 3)");
    forum.sql("INSERT INTO users VALUES (77, 'no key', 1)");
    let before = forum.everything();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let dry = forum.engine.inactive(&request(&spec, None, 10)).unwrap();
    assert_eq!((dry.people, dry.unregistered, dry.applied.len()), (2, 1, 0));
    assert_eq!(forum.everything(), before);
    let pages = run(&mut forum, GDPR);
    assert_eq!((applied(&pages), sum(&pages, |it| it.unregistered)), (2, 1));
    assert_eq!(
        forum.numbers("SELECT id FROM users WHERE id < 1000000 ORDER BY id"),
        [2, 4, 77]
    );
    assert_eq!(applied(&run(&mut forum, GDPR)), 0);
    let ids = pages.iter().flat_map(|page| &page.applied).map(|it| it.id);
    for (user, id) in [1, 3].into_iter().zip(ids) {
        assert!(forum.reveal(user, id).is_complete());
    }
    assert_eq!(forum.everything(), before);
}

pub(crate) fn whoever_stays_in_the_table_is_taken_again_only_after_a_change() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id = 1");
    assert_eq!(applied(&run(&mut forum, BLANK)), 1);
    let again = run(&mut forum, BLANK);
    assert_eq!((applied(&again), sum(&again, |it| it.before)), (0, 1));
    // Another specification is another decay.
    assert_eq!(applied(&run(&mut forum, GROUPED)), 1);
    forum.sql("UPDATE users SET karma = 9 WHERE id = 1");
    assert_eq!(applied(&run(&mut forum, BLANK)), 0);
    forum.sql("UPDATE users SET karma = 2 WHERE id = 1");
    assert_eq!(applied(&run(&mut forum, BLANK)), 1);
}

pub(crate) fn whoever_is_held_does_not_decay_and_a_cut_run_is_finished_by_the_next() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 2, 3)");
    let (two, authority) = (
        Value::Int(2),
        Authority {
            actor: "court",
            basis: "7 C 81/26",
            time: time(),
        },
    );
    forum
        .engine
        .hold(Holding::Person(&two), &authority)
        .unwrap();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let mut cut = 5;
    loop {
        forum.left.set(cut);
        let outcome = forum.engine.decay(&request(&spec, None, 10));
        forum.left.set(u64::MAX);
        if let Ok(decayed) = outcome {
            assert_eq!(decayed.held, 1);
            break;
        }
        cut += 5;
    }
    assert_eq!(
        forum.numbers("SELECT id FROM users WHERE id < 1000000 ORDER BY id"),
        [2, 4]
    );
    assert_eq!(forum.numbers("SELECT COUNT(*) FROM stories"), [6]);
    let wrong = DecayRequest {
        inactive: "users.karma < 5; DROP TABLE users",
        ..request(&spec, None, 10)
    };
    assert!(matches!(forum.engine.decay(&wrong), Err(Error::Spec(_))));
}
