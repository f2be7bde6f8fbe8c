//! Many tenants in one database: what is one's is nobody else's, however equal their ids are.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use probity_disguise::{
    ApplyRequest, Authority, Credential, DecayRequest, Error, Holding, LoggedOperation, Protection,
    References, ReplayRequest, Replayability, RevealRequest, Rows, SecretKey, Spec, Value,
};
use probity_format::{Entry, Timestamp};

use super::forum::*;

const DAY: i64 = 86_400_000_000_000;

fn later(days: i64) -> Timestamp {
    Timestamp::from_nanoseconds(time().nanoseconds() + days * DAY).unwrap()
}

/// Returns the request for a disguise of one person, or of everybody.
pub(super) fn request(
    spec: &Spec,
    user: Option<i64>,
    expires: Option<Timestamp>,
) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user: user.map(Value::Int),
        over: None,
        parameters: BTreeMap::new(),
        expires,
        time: time(),
    }
}

pub(crate) fn tenants_with_the_same_ids_never_touch_each_other() {
    let [mut first, mut second] = forums();
    let untouched = second.everything();
    let gone = first.apply(GDPR, Some(1), false).unwrap();
    assert_eq!(gone.pseudoprincipals, 6);
    assert_eq!(second.everything(), untouched);
    let anonymous = first.apply(ANON, None, false).unwrap();
    first.apply(GDPR_REMOVE, Some(2), true).unwrap();
    assert_eq!(second.everything(), untouched);
    // The same disguises there, in another order.
    let disguised = first.everything();
    let hidden = second.apply(HOBBY, None, false).unwrap();
    let removed = second.apply(GDPR_REMOVE, Some(1), true).unwrap();
    let blank = second.apply(BLANK, Some(3), false).unwrap();
    assert_eq!(first.everything(), disguised);
    for id in [removed.id, hidden.id, blank.id] {
        for user in 1..=USERS {
            let outcome = second.reveal_as(user, id, References::Recorrelate);
            assert!(matches!(outcome, Ok(_) | Err(Error::NoSuchDisguise)));
        }
    }
    assert_eq!(first.everything(), disguised);
    assert_eq!(second.everything(), untouched);
    for _ in 0..3 {
        for user in 1..=USERS {
            let key = SecretKey::from_bytes(*first.keys[&user].expose());
            let listed = first
                .engine
                .list(&Value::Int(user), &Credential::Key(&key), time())
                .unwrap();
            for it in listed {
                first.reveal(user, it.id);
            }
        }
    }
    assert_eq!(first.everything(), first.before);
    assert_eq!(second.everything(), untouched);
    for id in [gone.id, anonymous.id] {
        let outcome = first.reveal_as(1, id, References::Recorrelate);
        assert!(did_nothing(&outcome), "{outcome:?}");
    }
    for table in ["bags", "locators", "shared"] {
        let count = format!("SELECT COUNT(*) FROM probity_{table}");
        assert_eq!(first.numbers(&count), [0], "{table}");
    }
    let count = "SELECT COUNT(*) FROM probity_principals";
    assert_eq!(first.numbers(count), [2 * USERS]);
}

pub(crate) fn a_credential_of_one_tenant_opens_nothing_of_another() {
    let [mut first, mut second] = forums();
    let own = first.apply(GDPR, Some(1), false).unwrap();
    let other = second.apply(GDPR, Some(1), false).unwrap();
    let disguised = [first.everything(), second.everything()];
    let key = SecretKey::from_bytes(*first.keys[&1].expose());
    let user = Value::Int(1);
    // As many mailboxes as there are, the key shares one with somebody of the other tenant now and then.
    for id in [own.id, other.id] {
        for credential in [
            Credential::Key(&key),
            Credential::Password("secret words of 1"),
        ] {
            let outcome = second.engine.reveal(&RevealRequest {
                user: user.clone(),
                credential,
                id,
                references: References::Recorrelate,
                rows: Rows::PerColumn,
                time: time(),
            });
            assert!(did_nothing(&outcome), "{outcome:?}");
        }
    }
    let credential = Credential::Key(&key);
    let engine = &mut second.engine;
    let outcome = engine.list(&user, &credential, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let outcome = engine.speaks_for(&user, &credential, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let outcome = engine.export(&user, &credential, None, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let outcome = engine.forget(&user, &credential, other.id, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let outcome = engine.forget_everything(&user, &credential, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let outcome = engine
        .people()
        .change_key(&user, &credential, Protection::KeyAlone, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    let protection = Protection::Password("another");
    let outcome = engine
        .people()
        .change_password(&user, &credential, protection, time());
    assert!(matches!(outcome, Err(Error::WrongCredential)));
    assert_eq!([first.everything(), second.everything()], disguised);

    // A locator that somebody moves among the rows of the other tenant opens nothing there either: it is bound to both.
    let receipt = first.engine.forget(&user, &credential, own.id, time());
    let receipt = receipt.unwrap();
    assert!(receipt.is_about(Some(&Value::Int(1)), &user));
    assert!(!receipt.is_about(Some(&Value::Int(2)), &user) && !receipt.is_about(None, &user));
    assert!(second.reveal(1, other.id).is_complete());
    assert_eq!(second.everything(), second.before);
}

pub(crate) fn holds_schedules_ends_decay_and_replays_are_of_one_tenant() {
    let [mut first, mut second] = forums();
    let user = Value::Int(1);
    let authority = Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    };
    let hold = first
        .engine
        .holds()
        .place(Holding::Person(&user), &authority);
    let hold = hold.unwrap();
    let held = first.apply(GDPR, Some(1), false);
    assert!(matches!(held, Err(Error::Held { .. })));
    assert!(second.engine.holds().list(None).unwrap().is_empty());
    let lifted = second.engine.holds().lift(hold, &authority);
    assert!(matches!(lifted, Err(Error::NoSuchHold)));

    let spec = Spec::from_edna_json(GDPR).unwrap();
    let asked = request(&spec, Some(1), None);
    let waiting = second.engine.schedule().add(&asked, later(1)).unwrap();
    assert!(first.engine.schedule().list(None).unwrap().is_empty());
    let cancelled = first.engine.schedule().cancel(waiting, time());
    assert!(matches!(cancelled, Err(Error::NoSuchDisguise)));
    let swept = first.engine.schedule().sweep(later(2)).unwrap();
    assert!(swept.applied.is_empty());
    assert_eq!(second.everything(), second.before);
    let swept = second.engine.schedule().sweep(later(2)).unwrap();
    assert_eq!(swept.applied.len(), 1);
    assert!(second.reveal(1, waiting).is_complete());

    // What ends is destroyed by the sweep of its tenant.
    let ending = request(&spec, Some(2), Some(later(1)));
    let ending = second.engine.apply(&ending).unwrap();
    let swept = first.engine.schedule().sweep(later(9)).unwrap();
    assert_eq!((swept.records, swept.held), (0, 0));
    assert!(second.reveal(2, ending.id).is_complete());
    let ending = request(&spec, Some(2), Some(later(1)));
    second.engine.apply(&ending).unwrap();
    assert!(second.engine.schedule().sweep(later(9)).unwrap().records > 0);

    let begun = second
        .engine
        .chunks()
        .begin(&request(&spec, Some(3), None))
        .unwrap();
    assert!(first.engine.chunks().unfinished().unwrap().is_empty());
    let outcome = first.engine.chunks().proceed(begun, 1, time());
    assert!(matches!(outcome, Err(Error::NoSuchDisguise)));
    second.engine.chunks().proceed(begun, 2, time()).unwrap();
    assert_eq!(first.everything(), first.before);
    assert!(second.reveal(3, begun).is_complete());

    // Everybody of one tenant decays, but for who is held there.
    let everybody = DecayRequest {
        spec: &spec,
        inactive: "users.karma < 50",
        parameters: BTreeMap::new(),
        expires: None,
        after: None,
        page: 10,
        time: time(),
    };
    let there = second.everything();
    let decayed = first.engine.decay().apply(&everybody).unwrap();
    assert_eq!((decayed.applied.len(), decayed.held), (3, 1));
    assert_eq!(second.everything(), there);
}

/// A list that a listener fills.
type Heard<T> = Rc<RefCell<Vec<T>>>;

/// Everything that the engine tells of from now on.
fn listen(forum: &mut Forum) -> (Heard<LoggedOperation>, Heard<String>) {
    let (told, texts): (Heard<LoggedOperation>, Heard<String>) = (Rc::default(), Rc::default());
    let (seen, written) = (Rc::clone(&told), Rc::clone(&texts));
    forum.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        seen.borrow_mut().extend(LoggedOperation::of(entry));
        let payload = String::from_utf8(entry.payload.to_vec())?;
        let subject = entry.subjects.iter().next().unwrap_or_default();
        written.borrow_mut().push(format!("{subject} {payload}"));
        Ok(())
    }));
    (told, texts)
}

/// The tenant of an entry.
fn tenant_of(text: &str) -> &str {
    let (_, rest) = text.split_once("\"tenant\":\"").unwrap();
    rest.split_once('"').unwrap().0
}

fn replay(forum: &mut Forum, told: &[LoggedOperation], spec: &Spec) -> Vec<Replayability> {
    let missed = forum.engine.missed().replay(&ReplayRequest {
        told,
        specs: std::slice::from_ref(spec),
        parameters: BTreeMap::new(),
        time: time(),
    });
    missed.unwrap().into_iter().map(|it| it.outlook).collect()
}

pub(crate) fn a_tenant_is_bound_and_refused_where_it_is_none() {
    let [mut first, mut second] = forums();
    let (told, texts) = listen(&mut first);
    let (others, their_texts) = listen(&mut second);
    let spec = Spec::from_edna_json(ANON).unwrap();
    first.engine.apply(&request(&spec, Some(1), None)).unwrap();
    second.engine.apply(&request(&spec, Some(1), None)).unwrap();
    // The row of another tenant's user is none here.
    second.sql("INSERT INTO users VALUES (999, 'theirs', 7, 2)");
    let refused = first.apply(GDPR, Some(999), false);
    assert!(matches!(refused, Err(Error::NoSuchUser { .. })));
    for texts in [&texts, &their_texts] {
        let texts = texts.borrow();
        assert!(texts.iter().all(|it| tenant_of(it) == tenant_of(&texts[0])));
        assert_eq!(tenant_of(&texts[0]).len(), 32);
    }
    let (texts, their_texts) = (texts.borrow(), their_texts.borrow());
    assert_eq!((texts.len(), their_texts.len()), (2, 1));
    assert_ne!(tenant_of(&texts[0]), tenant_of(&their_texts[0]));
    // The same person's id, and not the same subject.
    let subject = |text: &str| text.split(' ').next().unwrap().to_owned();
    assert_ne!(subject(&texts[0]), subject(&their_texts[0]));
    drop((texts, their_texts));
    // Neither misses anything, and what the other is told of is none of its business.
    let all: Vec<LoggedOperation> = told
        .borrow()
        .iter()
        .chain(&*others.borrow())
        .cloned()
        .collect();
    let of_others = |forum: &mut Forum| forum.engine.missed().of_other_tenants(&all).unwrap();
    assert_eq!((of_others(&mut first), of_others(&mut second)), (0, 0));
    first.sql("DELETE FROM probity_operations");
    let before = second.everything();
    assert_eq!((of_others(&mut first), of_others(&mut second)), (1, 1));
    assert_eq!(replay(&mut first, &all, &spec), [Replayability::Done]);
    assert_eq!((of_others(&mut first), of_others(&mut second)), (1, 0));
    assert_eq!(second.everything(), before);

    let everything = [first.everything(), second.everything()];
    let with = |tenant: Option<Value>| {
        let mut engine = engine_of(&first.database, Value::Null);
        engine.set_tenant(tenant);
        let planned = engine.preview().plan(&spec, None, &BTreeMap::new());
        (engine.apply(&request(&spec, None, None)), planned)
    };
    for wrong in [
        None,
        Some(Value::Null),
        Some(Value::from("")),
        Some(Value::from("1")),
        Some(Value::from("1 OR 1=1")),
        Some(Value::from("1'; DROP TABLE users; --")),
        Some(Value::Bytes(vec![1])),
        Some(Value::Real(1.0)),
    ] {
        let (outcome, _) = with(wrong.clone());
        assert!(matches!(outcome, Err(Error::Tenant { .. })), "{wrong:?}");
    }
    assert!(matches!(with(None).1, Err(Error::Tenant { .. })));
    // Nobody has heard of that one, so there is nothing to hide.
    let (outcome, planned) = with(Some(Value::Int(3)));
    assert_eq!(outcome.unwrap().rows.values().sum::<u64>(), 0);
    assert!(planned.unwrap().iter().all(|step| step.rows == 0));
    assert_eq!([first.everything(), second.everything()], everything);
    let mut engine = engine_of(&first.database, Value::Int(1));
    assert_eq!(engine.tenant("2").unwrap(), Value::Int(2));
    assert!(matches!(engine.tenant("2 OR 1"), Err(Error::Tenant { .. })));

    // A database without tenants has none.
    let mut alone = forum();
    alone.engine.set_tenant(Some(Value::Int(1)));
    let outcome = alone.apply(ANON, None, false);
    assert!(matches!(outcome, Err(Error::Tenant { .. })));
    assert!(matches!(
        alone.engine.tenant("1"),
        Err(Error::Tenant { .. })
    ));
}
