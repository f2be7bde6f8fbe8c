//! Restored databases that are older than the log: keys, passwords and disguises in chunks have
//! changed since.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Credential, DecayRequest, DisguiseId, Error, Holding, Progress,
    Protection, References, Replayability, SecretKey, Spec, Value,
};
use probity_format::Timestamp;

use super::chunks::begin;
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

const PASSWORD: &str = "secret words";

fn key(station: &Station, user: i64) -> SecretKey {
    SecretKey::from_bytes(*station.forum.keys[&user].expose())
}

fn authority<'a>() -> Authority<'a> {
    Authority {
        actor: "court",
        basis: "file 7",
        time: time(),
    }
}

/// Changes what opens the records of the first user.
fn change(station: &mut Station, with_key: bool, to: Protection<'_>) {
    let (one, old) = (Value::Int(1), key(station, 1));
    let (engine, current) = (&mut station.forum.engine, Credential::Key(&old));
    let made = if with_key {
        engine
            .people()
            .change_key(&one, &current, to, time())
            .unwrap()
    } else {
        engine
            .people()
            .change_password(&one, &current, to, time())
            .unwrap()
    };
    station.forum.keys.insert(1, made.key);
}

/// Somebody left, got another key or password after or before it, and threw the old one away. A backup from before both was
/// brought up to date by hiding their rows under the old key, which nobody has.
pub(crate) fn nothing_is_hidden_again_under_a_key_that_was_changed_before_or_after() {
    for (with_key, comes_first) in [(true, false), (false, true), (false, false)] {
        let mut station = station();
        let before = station.forum.everything();
        let new = Protection::Password("second words");
        if comes_first {
            change(&mut station, with_key, new);
        }
        station.apply(GDPR, Some(1));
        let spec = edna(BLANK);
        let mut request = ApplyRequest {
            spec: &spec,
            user: Some(Value::Int(2)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        };
        let due = Timestamp::from_nanoseconds(2_000_000_000_000_000_000).unwrap();
        station.forum.engine.schedule().add(&request, due).unwrap();
        let other = edna(ANON);
        (request.user, request.spec) = (None, &other);
        station.forum.engine.schedule().add(&request, due).unwrap();
        station.apply(BLANK, None);
        if !comes_first {
            change(&mut station, with_key, new);
        }
        station.restore();
        let specs = [edna(GDPR), spec.clone(), other.clone()];
        for really in [false, true] {
            let missed = station.replay_or_look(&specs, &[], really);
            let held_back: Vec<&str> = missed.iter().map(why).collect();
            let count = |part: &str| held_back.iter().filter(|it| it.contains(part)).count();
            assert_eq!(count("its person changed"), 1, "{missed:?}");
            assert_eq!(count("somebody changed"), 2, "{missed:?}");
            assert_eq!(count("rekey again with the"), 1, "{missed:?}");
            assert_eq!(held_back.iter().filter(|it| it.is_empty()).count(), 1);
            assert_eq!(station.forum.everything(), before);
        }
        // Once its person has done the same again, what is registered is theirs.
        station.forum.keys.insert(1, key(&station, 1));
        let (one, engine) = (Value::Int(1), &mut station.forum.engine);
        let current = Credential::Password(PASSWORD);
        let again = if with_key {
            engine
                .people()
                .change_key(&one, &current, new, time())
                .unwrap()
        } else {
            engine
                .people()
                .change_password(&one, &current, new, time())
                .unwrap()
        };
        station.forum.keys.insert(1, again.key);
        let missed = station.replay(&specs, &[]);
        let refused: Vec<&str> = missed.iter().map(why).filter(|it| !it.is_empty()).collect();
        assert_eq!(refused.len(), usize::from(with_key), "{missed:?}");
        let current = Credential::Password("second words");
        assert!(station.opens(1, &current));
    }
}

/// A person registered with a key alone and took a password later. A replay registered them again
/// under the key, which was thrown away, and hid them under it. They register again.
pub(crate) fn a_registration_whose_password_came_later_is_not_done_again() {
    let mut station = station();
    station
        .forum
        .sql("INSERT INTO users VALUES (5, 'user5', 7)");
    station.back_up();
    let before = station.forum.everything();
    let five = Value::Int(5);
    let engine = &mut station.forum.engine;
    let made = engine
        .people()
        .register(&five, Protection::KeyAlone, time())
        .unwrap();
    let current = Credential::Key(&made.key);
    let words = Protection::Password("my words");
    engine
        .people()
        .change_password(&five, &current, words, time())
        .unwrap();
    station.apply(GDPR, Some(5));
    station.restore();
    for really in [false, true] {
        let missed = station.replay_or_look(&[edna(GDPR)], &[], really);
        assert!(
            why(&missed[0]).contains("register the person again"),
            "{missed:?}"
        );
        assert!(
            why(&missed[2]).contains("is not registered here"),
            "{missed:?}"
        );
        assert_eq!(station.forum.everything(), before);
    }
    let engine = &mut station.forum.engine;
    engine.people().register(&five, words, time()).unwrap();
    assert!(station.opens(5, &Credential::Password("my words")));
}

fn go_on(station: &mut Station, id: DisguiseId) {
    let progress = station
        .forum
        .engine
        .chunks()
        .proceed(id, 2, time())
        .unwrap();
    assert!(matches!(progress, Progress::Going(_)));
}

fn hidden(station: &mut Station) -> i64 {
    let sql = "SELECT COUNT(*) FROM stories WHERE url NOT IN ('url0', 'url1')";
    station.forum.numbers(sql)[0]
}

/// A disguise in chunks that was ended in the middle was brought up to date as if it had never been, with everything in clear
/// and status 0. Which rows were hidden is not in the log, so that it says how many were.
pub(crate) fn rows_of_chunks_that_were_ended_are_said_to_be_in_clear() {
    for (end, user) in [
        ("forget", Some(1)),
        ("everything", Some(1)),
        ("cancel", Some(1)),
        ("cancel", None),
    ] {
        let mut station = station();
        let id = begin(&mut station.forum, BLANK, user, false).unwrap();
        go_on(&mut station, id);
        match end {
            "forget" => station.forget(1, Some(id)),
            "everything" => station.forget(1, None),
            _ => station.forum.engine.schedule().cancel(id, time()).unwrap(),
        }
        assert_eq!(hidden(&mut station), 2);
        station.restore();
        for really in [false, true, true] {
            let missed = station.replay_or_look(&[edna(BLANK)], &[], really);
            assert_eq!(missed[0].action, "disguise.begin");
            assert!(
                why(&missed[0]).contains("in clear here, 2 of them"),
                "{missed:?}"
            );
        }
        assert_eq!(hidden(&mut station), 0);
        let unfinished = station.forum.engine.chunks().unfinished();
        assert_eq!(unfinished.unwrap(), []);
    }
    // What was taken back whole, or ended before its first chunk, leaves nothing in clear that was hidden.
    for end in ["reveal", "cancel"] {
        let mut station = station();
        let id = begin(&mut station.forum, BLANK, Some(1), false).unwrap();
        if end == "reveal" {
            go_on(&mut station, id);
            assert!(station.forum.reveal(1, id).is_complete());
        } else {
            station.forum.engine.schedule().cancel(id, time()).unwrap();
        }
        station.restore();
        let done = station.replay(&[edna(BLANK)], &[]);
        assert!(
            done.iter().all(|it| it.outlook == Replayability::Done),
            "{done:?}"
        );
        assert_eq!(hidden(&mut station), 0);
    }
}

/// A backup from the middle of chunks went on with them after their person had ended them since: a replay of forgetting, cancelling or
/// revealing left the intent there. It ends, and what was hidden after the backup is said to be in clear.
pub(crate) fn chunks_that_were_ended_since_the_backup_end() {
    for end in ["forget", "everything", "cancel", "reveal"] {
        for is_exact in [true, false] {
            let mut station = station();
            let id = begin(&mut station.forum, BLANK, Some(1), false).unwrap();
            station
                .forum
                .engine
                .chunks()
                .proceed(id, 1, time())
                .unwrap();
            station.back_up();
            if !is_exact {
                station
                    .forum
                    .engine
                    .chunks()
                    .proceed(id, 1, time())
                    .unwrap();
            }
            match end {
                "forget" => station.forget(1, Some(id)),
                "everything" => station.forget(1, None),
                "reveal" => assert!(station.forum.reveal(1, id).is_complete()),
                _ => station.forum.engine.schedule().cancel(id, time()).unwrap(),
            }
            station.restore();
            let going = station.forum.engine.chunks().unfinished().unwrap();
            assert_eq!(going, [id], "the backup has it");
            for really in [false, true, true] {
                let missed = station.replay_or_look(&[edna(BLANK)], &[], really);
                match (end, is_exact) {
                    ("reveal", _) => assert!(why(&missed[0]).contains("reveal it again")),
                    (_, false) => {
                        let why = why(&missed[0]);
                        assert!(why.contains("rows that it had hidden"), "{missed:?}");
                    }
                    (_, true) => assert!(missed.iter().all(|it| why(it).is_empty())),
                }
            }
            let going = station.forum.engine.chunks().unfinished().unwrap();
            assert_eq!(going, [], "{end}");
            let outcome = station.forum.engine.chunks().proceed(id, 2, time());
            assert!(matches!(outcome, Err(Error::NoSuchDisguise)));
            if end == "reveal" {
                assert!(station.forum.reveal(1, id).is_complete());
                assert_eq!(station.replay(&[], &[]), []);
                station.forum.assert_as_before();
            }
        }
    }
}

/// As above, where everybody is meant: people who had their records destroyed got new ones for the
/// rest. They are left out. Those who spoke for placeholders, which their credential alone shows,
/// forget it again.
pub(crate) fn chunks_of_everybody_go_on_without_whoever_forgot_since_the_backup() {
    for has_placeholders in [false, true] {
        let mut station = station();
        if has_placeholders {
            station.apply(ANON, Some(1));
        }
        let id = begin(&mut station.forum, BLANK, None, false).unwrap();
        station
            .forum
            .engine
            .chunks()
            .proceed(id, 1, time())
            .unwrap();
        station.back_up();
        if has_placeholders {
            // A chunk that met something of theirs.
            while !listed(&mut station).contains(&id) {
                station
                    .forum
                    .engine
                    .chunks()
                    .proceed(id, 1, time())
                    .unwrap();
            }
        }
        station.forget(1, Some(id));
        station.restore();
        let done = station.replay(&[edna(BLANK)], &[]);
        assert_eq!(done.len(), 1);
        if has_placeholders {
            assert!(
                why(&done[0]).contains("forget it again with it"),
                "{done:?}"
            );
            continue;
        }
        assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
        station.forum.engine.chunks().finish(id, 2, time).unwrap();
        assert_eq!(listed(&mut station), []);
        assert_eq!(hidden(&mut station), 3 * USERS);
        let outcome = station.forum.reveal_as(1, id, References::Recorrelate);
        assert!(matches!(&outcome, Ok(it) if !it.found && it.restored.is_empty()));
        assert!(station.forum.reveal(2, id).is_complete());
        assert_eq!(station.replay(&[], &[]), []);
    }
}

fn listed(station: &mut Station) -> Vec<DisguiseId> {
    let (one, key) = (Value::Int(1), key(station, 1));
    let engine = &mut station.forum.engine;
    let listed = engine.list(&one, &Credential::Key(&key), time()).unwrap();
    listed.iter().map(|it| it.id).collect()
}

/// After a restore a court held a person, or a disguise, and a replay destroyed their records all the same. Holds bind a replay as
/// they bind people, and once they are lifted it does what it had left.
pub(crate) fn a_replay_destroys_nothing_that_is_held() {
    for (everything, by_person) in [(false, true), (false, false), (true, true), (true, false)] {
        for is_away in [false, true] {
            let mut station = station();
            let spec = if is_away { GDPR } else { BLANK };
            let gone = station.apply(spec, Some(1));
            station.back_up();
            station.forget(1, Some(gone.id).filter(|_| !everything));
            station.restore();
            let one = Value::Int(1);
            let what = match (by_person, is_away) {
                (true, true) => Holding::Away(&one),
                (true, false) => Holding::Person(&one),
                (false, _) => Holding::Disguise(gone.id),
            };
            let hold = station
                .forum
                .engine
                .holds()
                .place(what, &authority())
                .unwrap();
            let copies = station.copies();
            for really in [false, true] {
                let missed = station.replay_or_look(&[], &[], really);
                assert_eq!(missed.len(), 1, "{missed:?}");
                let why = why(&missed[0]);
                let is_held = why.contains("legal hold") || why.contains("somebody is held");
                assert!(is_held, "{missed:?}");
                assert_eq!(station.copies(), copies);
            }
            station
                .forum
                .engine
                .holds()
                .lift(hold, &authority())
                .unwrap();
            let done = station.replay(&[], &[]);
            assert_eq!(outlooks(&done), [("disguise.forget", &Replayability::Done)]);
            assert_eq!(station.replay(&[], &[]), []);
        }
    }
    // Nor does it hide or schedule anything of whoever is held; a hold that the log has, too, is lifted where it says so.
    let mut station = station();
    let before = station.forum.everything();
    station.apply(BLANK, Some(1));
    station.restore();
    let one = Value::Int(1);
    station
        .forum
        .engine
        .holds()
        .place(Holding::Person(&one), &authority())
        .unwrap();
    for really in [false, true] {
        let missed = station.replay_or_look(&[edna(BLANK)], &[], really);
        assert!(why(&missed[0]).contains("legal hold"), "{missed:?}");
        assert_eq!(station.forum.everything(), before);
    }
}

/// U6: nothing claimed that a disguise that a backup has lost is not done again while its person, or somebody whose row it would take
/// along, is held. It stays in the list, changes nothing, and is done once the hold is lifted.
pub(crate) fn a_disguise_that_is_not_done_is_not_replayed_while_its_person_is_held() {
    for (spec, held) in [(BLANK, 1), (GDPR, 1), (SHARED_TEXT, 2)] {
        for in_chunks in [false, true] {
            let mut station = station();
            let before = station.forum.everything();
            if in_chunks {
                let chunked = station.forum.apply_in_chunks(spec, (Some(1), false), 2);
                chunked.unwrap();
            } else {
                station.apply(spec, Some(1));
            }
            let gone = station.forum.everything();
            station.restore();
            let person = Value::Int(held);
            let engine = &mut station.forum.engine;
            let hold = engine
                .holds()
                .place(Holding::Person(&person), &authority())
                .unwrap();
            let missed = station.replay(&[edna(spec)], &[]);
            let last = missed.last().unwrap();
            assert!(why(last).contains("legal hold"), "{missed:?}");
            assert_eq!(station.forum.everything(), before);
            station
                .forum
                .engine
                .holds()
                .lift(hold, &authority())
                .unwrap();
            let done = station.replay(&[edna(spec)], &[]);
            assert_eq!(done.last().unwrap().outlook, Replayability::Done);
            assert_ne!(station.forum.everything(), before);
            assert_eq!(station.forum.everything().len(), gone.len());
            assert_eq!(station.replay(&[edna(spec)], &[]), []);
        }
    }
}

/// Overwrites what several people own.
const SHARED_TEXT: &str = r#"{"moderations": [{"Modify": {"pred": "True", "from": "", "col": "action", "gen_value": {"RandStr": {"len": 12}}}}]}"#;

/// People who decay stay in the users table. The next run disguised those a second time whom a
/// replay had disguised again.
pub(crate) fn whoever_decayed_again_by_a_replay_is_not_taken_anew() {
    let mut station = station();
    let spec: Spec = edna(BLANK);
    let run = |station: &mut Station| {
        let request = DecayRequest {
            spec: &spec,
            inactive: "users.id = 1",
            parameters: BTreeMap::new(),
            expires: None,
            after: None,
            page: 10,
            time: time(),
        };
        station.forum.engine.decay().apply(&request).unwrap()
    };
    assert_eq!(run(&mut station).applied.len(), 1);
    station.restore();
    let done = station.replay(std::slice::from_ref(&spec), &[]);
    assert_eq!(outlooks(&done), [("disguise.decay", &Replayability::Done)]);
    let again = run(&mut station);
    assert_eq!((again.applied.len(), again.before), (0, 1));
}

/// Whoever writes the database put their own public key in the place of a person's, had everything forgotten in that name and
/// put it all back: the receipt was right, and a replay found nothing. The log knows which key was whose.
pub(crate) fn what_was_forgotten_with_a_key_that_is_not_its_persons_is_told_of() {
    for by_new_key in [false, true] {
        let mut station = station();
        for user in [5, 6] {
            let sql = format!("INSERT INTO users VALUES ({user}, 'user{user}', 7)");
            station.forum.sql(&sql);
            let engine = &mut station.forum.engine;
            let made = engine
                .people()
                .register(&Value::Int(user), Protection::KeyAlone, time());
            station.forum.keys.insert(user, made.unwrap().key);
        }
        station.apply(BLANK, Some(5));
        let registered = station.rows("probity_principals");
        let name = |user: i64| Value::Bytes(user.to_string().into_bytes());
        let of = |user| registered.iter().find(|row| row[0] == name(user)).unwrap();
        let replace = "UPDATE probity_principals SET public_key = ? WHERE id = ?";
        let database = station.forum.engine.database();
        database
            .execute(replace, &[of(6)[1].clone(), name(5)])
            .unwrap();
        let (five, mut key) = (Value::Int(5), key(&station, 6));
        let engine = &mut station.forum.engine;
        if by_new_key {
            let current = Credential::Key(&key);
            let made = engine
                .people()
                .change_key(&five, &current, Protection::KeyAlone, time());
            key = made.unwrap().key;
        }
        let current = Credential::Key(&key);
        let receipt = engine.forget_everything(&five, &current, time()).unwrap();
        assert_eq!(receipt.bags, 0);
        let back = "DELETE FROM probity_principals WHERE id = ?";
        let database = station.forum.engine.database();
        database.execute(back, &[name(5)]).unwrap();
        let back = "INSERT INTO probity_principals (id, public_key, standing) VALUES (?, ?, ?)";
        database.execute(back, of(5)).unwrap();
        for really in [false, true] {
            let missed = station.replay_or_look(&[], &[], really);
            let actions: Vec<&str> = missed.iter().map(|it| it.action.as_str()).collect();
            let expected = ["disguise.key", "disguise.forget"];
            assert_eq!(actions, expected[usize::from(!by_new_key)..]);
            let tells = |it: &&str| it.contains("the log does not say that the key");
            assert!(missed.iter().map(why).all(|it| tells(&it)), "{missed:?}");
        }
        let credential = super::behind::key(&station, 5);
        assert!(station.opens(5, &Credential::Key(&credential)));
        // The person themselves is told apart.
        station.forget(5, None);
        assert_eq!(station.replay(&[], &[]).len(), 1 + usize::from(by_new_key));
    }
}
