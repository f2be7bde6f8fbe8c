//! Inactive people are disguised, and can come back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    Authority, Credential, Database, DecayRequest, Decayed, Engine, Error, Holding, Protection,
    References, RevealRequest, Rows, SecretKey, Spec, SpecFile, Value,
};
use probity_format::Entry;

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
        let decayed = forum
            .engine
            .decay()
            .apply(&request(&spec, after, 1))
            .unwrap();
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

/// A parameter that the specification declares was not given, although it has a default.
pub(crate) fn the_default_of_a_parameter_counts_for_inactivity() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 3)");
    let text = "[parameters]\nactive = \"5\"\n[[remove]]\ntable = \"stories\"\n";
    let file = SpecFile::parse(text).unwrap();
    let asked = DecayRequest {
        parameters: BTreeMap::new(),
        ..request(&file.spec, None, 10)
    };
    let dry = forum.engine.decay().inactive(&asked).unwrap();
    assert_eq!(dry.people, 2);
}

pub(crate) fn whoever_is_inactive_is_disguised_once_and_can_come_back() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id IN (1, 3)");
    forum.sql("INSERT INTO users VALUES (77, 'no key', 1)");
    let before = forum.everything();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let dry = forum
        .engine
        .decay()
        .inactive(&request(&spec, None, 10))
        .unwrap();
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

/// A person who decayed, stayed in the users table and came back was left out by every run from then on,
/// unless the application changed the row. Once nothing of theirs is hidden they count as before.
pub(crate) fn whoever_came_back_from_a_decay_decays_again() {
    let mut forum = forum();
    forum.sql("UPDATE users SET karma = 1 WHERE id = 1");
    let before = forum.everything();
    for _ in 0..2 {
        let first = run(&mut forum, BLANK);
        let second = run(&mut forum, GROUPED);
        let [first, second] = [first, second].map(|pages| {
            assert_eq!(applied(&pages), 1);
            pages
                .iter()
                .flat_map(|page| &page.applied)
                .next()
                .unwrap()
                .id
        });
        // What another decay hides stays hidden.
        assert!(forum.reveal(1, second).is_complete());
        for spec in [BLANK, GROUPED] {
            assert_eq!(applied(&run(&mut forum, spec)), 0);
        }
        assert!(forum.reveal(1, first).is_complete());
        assert_eq!(forum.everything(), before);
    }
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
        .holds()
        .place(Holding::Person(&two), &authority)
        .unwrap();
    let spec = Spec::from_edna_json(GDPR).unwrap();
    let mut cut = 5;
    loop {
        forum.left.set(cut);
        let outcome = forum.engine.decay().apply(&request(&spec, None, 10));
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
    assert!(matches!(
        forum.engine.decay().apply(&wrong),
        Err(Error::Spec(_))
    ));
}

const ONE: Value = Value::Int(1);

/// Work of somebody else on the inactive person 1 over an engine of their own, with the key of
/// the person.
type Elsewhere = fn(&mut Engine<Box<dyn Database>>, SecretKey);

/// Lets others work before each transaction of a decay of person 1 in turn. Returns the outcomes,
/// where they came in time, each with the forum.
fn interleaved(spec: &str, elsewhere: Elsewhere) -> Vec<(Forum, Decayed)> {
    let file = Spec::from_edna_json(spec).unwrap();
    let mut all = Vec::new();
    for transactions in 0..10 {
        let mut forum = forum();
        forum.sql("UPDATE users SET karma = 1 WHERE id = 1");
        let key = SecretKey::from_bytes(*forum.keys[&1].expose());
        let (did_work, other) = (Rc::new(Cell::new(false)), forum.database.boxed());
        let done = Rc::clone(&did_work);
        forum.database.between(transactions, move || {
            done.set(true);
            elsewhere(&mut Engine::stored(other).unwrap(), key);
        });
        let told = Rc::new(RefCell::new(Vec::new()));
        let entries = Rc::clone(&told);
        forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            entries.borrow_mut().push(entry.action.to_owned());
            Ok(())
        }));
        let decayed = forum
            .engine
            .decay()
            .apply(&request(&file, None, 10))
            .unwrap();
        assert!(decayed.refused.is_empty(), "{transactions}: {decayed:?}");
        assert_eq!(told.borrow().len(), decayed.applied.len(), "{told:?}");
        if !did_work.get() {
            assert!(transactions > 1 && decayed.applied.len() == 1);
            return all;
        }
        all.push((forum, decayed));
    }
    panic!("there is no end to it");
}

/// A page of inactive people was believed when each of them was disguised, in a transaction after it. Whoever had been
/// active since, or whose id somebody else had, was hidden all the same, and two decays beside each other hid a person twice.
pub(crate) fn whoever_is_not_inactive_any_more_does_not_decay() {
    let active: Elsewhere = |engine, _| {
        let active = "UPDATE users SET karma = 9 WHERE id = 1";
        engine.database().execute(active, &[]).unwrap();
    };
    let replaced: Elsewhere = |engine, key| {
        engine
            .forget_everything(&ONE, &Credential::Key(&key), time())
            .unwrap();
        let newcomer = "UPDATE users SET username = 'newcomer', karma = 7 WHERE id = 1";
        engine.database().execute(newcomer, &[]).unwrap();
        drop(
            engine
                .people()
                .register(&ONE, Protection::KeyAlone, time())
                .unwrap(),
        );
    };
    for elsewhere in [active, replaced] {
        for (mut forum, decayed) in interleaved(GDPR, elsewhere) {
            assert_eq!((decayed.applied.len(), decayed.people), (0, 0));
            assert_eq!(forum.numbers("SELECT id FROM users WHERE id = 1"), [1]);
            assert_eq!(forum.numbers("SELECT COUNT(*) FROM probity_bags"), [0]);
        }
    }
}

/// As above, for whoever was held or lost the key, or was taken by another decay: they were told of as refused, or hidden twice. They
/// are counted as a page counts them, and nothing that is held is hidden.
pub(crate) fn whoever_is_held_or_disguised_meanwhile_is_left_out_of_a_decay() {
    let held: Elsewhere = |engine, _| {
        let authority = Authority {
            actor: "court",
            basis: "7 C 81/26",
            time: time(),
        };
        engine
            .holds()
            .place(Holding::Person(&ONE), &authority)
            .unwrap();
    };
    for (mut forum, decayed) in interleaved(GDPR, held) {
        assert_eq!((decayed.people, decayed.held), (0, 1), "{decayed:?}");
        assert_eq!(forum.numbers("SELECT id FROM users WHERE id = 1"), [1]);
    }
    let forgotten: Elsewhere = |engine, key| {
        let key = Credential::Key(&key);
        engine.forget_everything(&ONE, &key, time()).unwrap();
    };
    let unregistered: Elsewhere = |engine, key| {
        let key = Credential::Key(&key);
        engine
            .people()
            .unregister(&ONE, Some(&key), time())
            .unwrap();
    };
    for elsewhere in [forgotten, unregistered] {
        for (mut forum, decayed) in interleaved(GDPR, elsewhere) {
            let counts = (decayed.people, decayed.unregistered);
            assert_eq!(counts, (0, 1), "{decayed:?}");
            assert_eq!(forum.numbers("SELECT id FROM users WHERE id = 1"), [1]);
        }
    }
    let decayed_elsewhere: Elsewhere = |engine, _| {
        let spec = Spec::from_edna_json(BLANK).unwrap();
        let decayed = engine.decay().apply(&request(&spec, None, 10)).unwrap();
        assert_eq!(decayed.applied.len(), 1);
    };
    for (mut forum, decayed) in interleaved(BLANK, decayed_elsewhere) {
        assert_eq!((decayed.people, decayed.before), (0, 1), "{decayed:?}");
        let key = Credential::Key(&forum.keys[&1]);
        assert_eq!(forum.engine.list(&ONE, &key, time()).unwrap().len(), 1);
    }
    // A reveal changes nothing of it: who comes back is as inactive as before.
    let came_back: Elsewhere = |engine, key| {
        let spec = Spec::from_edna_json(GDPR).unwrap();
        let decayed = engine.decay().apply(&request(&spec, None, 10)).unwrap();
        let id = decayed.applied[0].id;
        engine
            .reveal(&RevealRequest {
                user: ONE,
                credential: Credential::Key(&key),
                id,
                references: References::Recorrelate,
                rows: Rows::PerColumn,
                time: time(),
            })
            .unwrap();
    };
    for (mut forum, decayed) in interleaved(GDPR, came_back) {
        assert_eq!((decayed.people, decayed.applied.len()), (1, 1));
        let id = decayed.applied[0].id;
        assert!(forum.reveal(1, id).is_complete());
    }
}
