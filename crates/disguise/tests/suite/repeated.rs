//! Operations that a person repeats after a restore, before everything that was missed is done.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Credential, DisguiseId, Error, Holding, MissingOperation, Protection,
    References, Replayability, SecretKey, Spec, Value,
};

use super::endings::later;
use super::forum::*;
use super::replay::{Station, edna, station, why};
use super::sample::Sample;

const PASSWORD: &str = "secret words";
const ONE: Value = Value::Int(1);
const TWO: Value = Value::Int(2);
const FIVE: Value = Value::Int(5);

impl Station {
    fn key(&self) -> SecretKey {
        SecretKey::from_bytes(*self.forum.keys[&1].expose())
    }

    fn change_key(&mut self) {
        self.try_to_change_key().unwrap();
    }

    fn try_to_change_key(&mut self) -> Result<(), Error> {
        let (current, protection) = (self.key(), Protection::KeyAlone);
        let mut people = self.forum.engine.people();
        let made = people.change_key(&ONE, &Credential::Key(&current), protection, time())?;
        self.forum.keys.insert(1, made.key);
        Ok(())
    }

    fn lists(&mut self, key: &SecretKey, id: DisguiseId) -> bool {
        let (engine, key) = (&mut self.forum.engine, Credential::Key(key));
        let listed = engine.list(&ONE, &key, time()).unwrap_or_default();
        listed.iter().any(|it| it.id == id)
    }
}

fn assert_listed(missed: &[MissingOperation], action: &str) {
    let mut of_action = missed.iter().filter(|it| it.action == action);
    let is_listed = of_action.any(|it| why(it).contains("again"));
    assert!(is_listed, "{action}: {missed:?}");
}

/// A replay told that a new key and a forgetting under it were not done. Its person made another
/// new key, as told, and the next replay called the forgetting done: the records have other names
/// under the key from before, so that nothing was destroyed.
pub(crate) fn what_was_forgotten_is_listed_after_its_person_repeated_the_new_key() {
    for everything in [false, true] {
        let mut station = station();
        let gone = station.apply(BLANK, Some(1));
        let old = station.key();
        station.back_up();
        station.change_key();
        station.forget(1, Some(gone.id).filter(|_| !everything));
        station.restore();
        assert_listed(&station.replay(&[], &[]), "disguise.forget");
        station
            .forum
            .keys
            .insert(1, SecretKey::from_bytes(*old.expose()));
        station.change_key();
        for _ in 0..2 {
            assert_listed(&station.replay(&[], &[]), "disguise.forget");
        }
        let key = station.key();
        assert!(station.lists(&key, gone.id));
        station.forget(1, Some(gone.id).filter(|_| !everything));
        assert_eq!(station.replay(&[], &[]), []);
        assert!(!station.lists(&key, gone.id) && !station.lists(&old, gone.id));
    }
}

/// A reveal wrote the record of a newer disguise anew, which was then forgotten. After a restore the
/// person repeated the reveal, and a replay called the forgetting done, of which it found no record.
pub(crate) fn what_was_forgotten_is_listed_after_its_person_repeated_the_reveal() {
    let mut station = station();
    let older = station.apply(BLANK, Some(1));
    let newer = station.apply(BLANK, Some(1));
    station.back_up();
    assert!(station.forum.reveal(1, older.id).is_complete());
    station.forget(1, Some(newer.id));
    station.restore();
    assert!(station.forum.reveal(1, older.id).is_complete());
    for _ in 0..2 {
        assert_listed(&station.replay(&[], &[]), "disguise.forget");
    }
    station.forget(1, Some(newer.id));
    assert_eq!(station.replay(&[], &[]), []);
}

/// The machine stopped between the entry of a forgetting and its commit. Its person revealed
/// afterwards, one row waited, and a replay destroyed its record: an entry of a reveal named no key.
pub(crate) fn what_a_reveal_left_waiting_is_not_lost_by_a_forgetting_that_was_not_committed() {
    for everything in [false, true] {
        let mut station = station();
        let gone = station.apply(GDPR, Some(1));
        station.back_up();
        station.forget(1, Some(gone.id).filter(|_| !everything));
        station.restore();
        let taken = "INSERT INTO stories VALUES (10, 2, 'theirs', 0)";
        station.forum.sql(taken);
        assert!(!station.forum.reveal(1, gone.id).is_complete());
        assert_listed(&station.replay(&[], &[]), "disguise.forget");
        station.forum.sql("DELETE FROM stories WHERE id = 10");
        assert!(station.forum.reveal(1, gone.id).is_complete());
        station.forum.assert_as_before();
    }
}

/// The registration under a new key ended with the account. A backup has the key from before: the
/// replay called the end done, and the registration stayed.
pub(crate) fn a_registration_that_ended_under_a_new_key_is_listed() {
    let mut station = station();
    station.back_up();
    station.change_key();
    Deed::Unregister.act(&mut station, None).unwrap();
    let old = station.forum.keys.remove(&1);
    station.restore();
    assert_listed(&station.replay(&[], &[]), "disguise.unregister");
    // The application deletes the account again.
    station.forum.keys.extend(old.map(|key| (1, key)));
    station
        .forum
        .sql("DELETE FROM moderations WHERE 1 IN (user_id, moderator_user_id)");
    station.forum.sql("DELETE FROM stories WHERE user_id = 1");
    station.forum.sql("DELETE FROM users WHERE id = 1");
    let mut people = station.forum.engine.people();
    people.unregister(&ONE, None, time()).unwrap();
    let missed = station.replay(&[], &[]);
    assert!(missed.iter().all(|it| it.action == "disguise.key"));
}

/// A disguise was forgotten of which others needed links, and then everything. A replay listed the
/// first and did the second, and with it went the only credential that could have done the first.
pub(crate) fn no_replay_takes_the_credential_that_it_asks_for() {
    let mut station = station();
    let below = station.apply(ANON, Some(1));
    station.forum.apply(BLANK, Some(1), true).unwrap();
    station.back_up();
    station.forget(1, Some(below.id));
    station.forget(1, None);
    station.restore();
    for _ in 0..2 {
        let missed = station.replay(&[], &[]);
        assert_eq!(missed.len(), 2, "{missed:?}");
        let is_listed = |it: &MissingOperation| why(it).contains("forget");
        assert!(missed.iter().all(is_listed), "{missed:?}");
    }
    station.forget(1, None);
    assert_eq!(station.replay(&[], &[]), []);
    for table in ["probity_locators", "probity_bags"] {
        assert!(station.rows(table).is_empty(), "{table}");
    }
}

/// A change of the password before everything was forgotten was listed for ever: nobody could do it
/// again, and nothing was left to do.
pub(crate) fn a_password_under_which_everything_was_forgotten_is_settled() {
    let mut station = station();
    station.apply(BLANK, Some(1));
    station.back_up();
    Deed::Password.act(&mut station, None).unwrap();
    station.forget(1, None);
    station.restore();
    for really in [false, true] {
        let missed = station.replay_or_look(&[], &[], really);
        let actions: Vec<_> = missed.iter().map(|it| it.action.as_str()).collect();
        assert_eq!(actions, ["disguise.forget"], "{missed:?}");
        assert_eq!(why(&missed[0]), "");
    }
    assert!(!station.opens(1, &Credential::Password(PASSWORD)));
    assert_eq!(station.replay(&[], &[]), []);
}

/// The machine stopped between the entry of a sweep's disguise and its commit, and the next sweep
/// applied it under the same id. Each replay listed the first, to be done again, and after a restore
/// both were done.
pub(crate) fn a_disguise_that_was_told_of_twice_is_missed_once() {
    let mut station = station();
    let spec = edna(BLANK);
    let mut schedule = station.forum.engine.schedule();
    let id = schedule.add(&request(&spec, Some(ONE)), later(1)).unwrap();
    station.back_up();
    for _ in 0..2 {
        station.restore();
        let swept = station.forum.engine.schedule().sweep(later(2)).unwrap();
        assert_eq!(swept.applied.len(), 1, "{swept:?}");
    }
    assert_eq!(station.replay(std::slice::from_ref(&spec), &[]), []);
    station.restore();
    let missed = station.replay(&[spec], &[]);
    let keys: Vec<_> = missed.iter().map(|it| it.key.clone()).collect();
    assert_eq!(keys, [id.to_string()]);
    assert_eq!(missed[0].outlook, Replayability::Done);
    assert!(station.forum.reveal(1, id).is_complete());
    station.forum.assert_as_before();
}

/// An operation of which a backup may know nothing, or which is done after it was restored.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Register,
    Apply,
    Decorrelate,
    Everybody,
    Reveal,
    Forget,
    Everything,
    Key,
    Password,
    Hold,
    Lift,
    Schedule,
    Cancel,
    Unregister,
}

const DEEDS: [Deed; 14] = [
    Deed::Register,
    Deed::Apply,
    Deed::Decorrelate,
    Deed::Everybody,
    Deed::Reveal,
    Deed::Forget,
    Deed::Everything,
    Deed::Key,
    Deed::Password,
    Deed::Hold,
    Deed::Lift,
    Deed::Schedule,
    Deed::Cancel,
    Deed::Unregister,
];

fn authority() -> Authority<'static> {
    Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    }
}

fn request(spec: &Spec, user: Option<Value>) -> ApplyRequest<'_> {
    ApplyRequest {
        spec,
        user,
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    }
}

/// The backup: a disguise of the first user, a schedule of the second, a hold on one
/// of the fourth.
struct Ground {
    applied: DisguiseId,
    scheduled: DisguiseId,
    held: probity_disguise::HoldId,
    original: SecretKey,
}

impl Ground {
    fn of(station: &mut Station) -> Self {
        station
            .forum
            .sql("INSERT INTO users VALUES (5, 'user5', 7)");
        let applied = station.apply(BLANK, Some(1)).id;
        let spec = edna(GDPR);
        let mut schedule = station.forum.engine.schedule();
        let scheduled = schedule.add(&request(&spec, Some(TWO)), later(3)).unwrap();
        let other = Holding::Disguise(station.apply(BLANK, Some(4)).id);
        let mut holds = station.forum.engine.holds();
        let held = holds.place(other, &authority()).unwrap();
        Self {
            applied,
            scheduled,
            held,
            original: station.key(),
        }
    }
}

impl Deed {
    fn act(self, station: &mut Station, ground: Option<&Ground>) -> Result<(), Error> {
        let key = station.key();
        let credential = Credential::Key(&key);
        let engine = &mut station.forum.engine;
        let (anon, grouped, gdpr) = (edna(ANON), edna(GROUPED), edna(GDPR));
        let applied = ground.map(|it| it.applied);
        match self {
            Self::Apply => engine.apply(&request(&anon, Some(ONE))).map(drop),
            Self::Decorrelate => engine.apply(&request(&anon, Some(TWO))).map(drop),
            Self::Everybody => engine.apply(&request(&grouped, None)).map(drop),
            Self::Everything => engine
                .forget_everything(&ONE, &credential, time())
                .map(drop),
            Self::Forget => {
                let forgotten = engine.forget(&ONE, &credential, applied.unwrap(), time());
                forgotten.map(drop)
            }
            Self::Reveal => {
                let (id, policy) = (applied.unwrap(), References::Recorrelate);
                station.forum.reveal_as(1, id, policy).map(drop)
            }
            Self::Register => {
                let mut people = engine.people();
                let made = people.register(&FIVE, Protection::KeyAlone, time());
                made.map(drop)
            }
            Self::Key => station.try_to_change_key(),
            Self::Password => {
                let new = Protection::Password("other words");
                let mut people = engine.people();
                let made = people.change_password(&ONE, &credential, new, time());
                made.map(drop)
            }
            Self::Unregister => {
                let mut people = engine.people();
                people.unregister(&ONE, Some(&credential), time())
            }
            Self::Hold => {
                let held = engine.holds().place(Holding::Person(&TWO), &authority());
                held.map(drop)
            }
            Self::Lift => engine.holds().lift(ground.unwrap().held, &authority()),
            Self::Schedule => {
                let mut schedule = engine.schedule();
                let added = schedule.add(&request(&gdpr, Some(ONE)), later(3));
                added.map(drop)
            }
            Self::Cancel => engine.schedule().cancel(ground.unwrap().scheduled, time()),
        }
    }

    /// Returns whether its effect is there.
    fn is_done(self, station: &mut Station, ground: &Ground) -> bool {
        let key = station.key();
        let counts = |station: &mut Station, sql: &str| station.forum.numbers(sql)[0];
        let own = "SELECT COUNT(*) FROM stories WHERE user_id < 1000";
        let people = "SELECT COUNT(*) FROM probity_principals WHERE standing = 0";
        match self {
            Self::Register => counts(station, people) == USERS + 1,
            Self::Apply => counts(station, "SELECT COUNT(*) FROM stories WHERE user_id = 1") == 0,
            Self::Decorrelate => {
                counts(station, "SELECT COUNT(*) FROM stories WHERE user_id = 2") == 0
            }
            Self::Everybody => counts(station, own) == 0,
            Self::Reveal | Self::Forget | Self::Everything => {
                !station.lists(&key, ground.applied)
                    && !station.lists(&ground.original, ground.applied)
            }
            Self::Key => !station.opens(1, &Credential::Key(&ground.original)),
            Self::Password => !station.opens(1, &Credential::Password(PASSWORD)),
            Self::Hold => {
                let mut holds = station.forum.engine.holds();
                !holds.list(Some(Holding::Person(&TWO))).unwrap().is_empty()
            }
            Self::Lift => {
                let mut holds = station.forum.engine.holds();
                holds
                    .list(None)
                    .unwrap()
                    .iter()
                    .all(|it| it.id != ground.held)
            }
            Self::Schedule => {
                let mut schedule = station.forum.engine.schedule();
                !schedule.list(Some(&ONE)).unwrap().is_empty()
            }
            Self::Cancel => {
                let mut schedule = station.forum.engine.schedule();
                let all = schedule.list(None).unwrap();
                all.iter().all(|it| it.id != ground.scheduled)
            }
            Self::Unregister => counts(station, people) < USERS,
        }
    }

    const fn action(self) -> &'static str {
        match self {
            Self::Register => "disguise.register",
            Self::Apply | Self::Decorrelate | Self::Everybody => "disguise.apply",
            Self::Reveal => "disguise.reveal",
            Self::Forget | Self::Everything => "disguise.forget",
            Self::Key => "disguise.key",
            Self::Password => "disguise.password",
            Self::Hold => "disguise.hold",
            Self::Lift => "disguise.lift",
            Self::Schedule => "disguise.schedule",
            Self::Cancel => "disguise.cancel",
            Self::Unregister => "disguise.unregister",
        }
    }
}

/// A replay left out what a restored backup lacks, because a person had done something else of the
/// kind meanwhile. Whatever a person does between a restore and a replay, and however much of it a
/// replay does first: each operation of the log is there afterwards, or told of.
pub(crate) fn what_was_missed_is_done_or_told_of_whatever_was_repeated() {
    let (mut pairs, mut cases) = (Sample::new(), Sample::new());
    for missed in DEEDS {
        for repeated in DEEDS {
            if pairs.passes_over() {
                continue;
            }
            for first in [false, true] {
                if !cases.passes_over() {
                    told_of(missed, repeated, first);
                }
            }
        }
    }
}

fn told_of(missed: Deed, repeated: Deed, replay_first: bool) {
    let mut station = station();
    let ground = Ground::of(&mut station);
    station.back_up();
    // A new key before it, so that its records have other names than in the backup.
    station.change_key();
    missed.act(&mut station, Some(&ground)).unwrap();
    station.restore();
    let original = SecretKey::from_bytes(*ground.original.expose());
    station.forum.keys.insert(1, original);
    let specs = [edna(BLANK), edna(ANON), edna(GROUPED), edna(GDPR)];
    if replay_first {
        station.replay(&specs, &[]);
    }
    let acted = repeated.act(&mut station, Some(&ground));
    assert!(acted.is_ok() || replay_first, "{repeated:?}: {acted:?}");
    for _ in 0..2 {
        let listed = station.replay(&specs, &[]);
        let is_told = listed
            .iter()
            .any(|it| it.action == missed.action() && matches!(it.outlook, Replayability::Not(_)));
        let is_done = missed.is_done(&mut station, &ground);
        assert!(
            is_told || is_done,
            "{missed:?} missed, {repeated:?} repeated, replayed first {replay_first}: {listed:?}"
        );
    }
}
