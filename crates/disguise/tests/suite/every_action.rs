//! Entries of every action, as a replay reads them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use probity_disguise::{
    ApplyRequest, Authority, Credential, DecayRequest, DisguiseId, Holding, LoggedOperation,
    Mapping, Protection, Replayability, SecretKey, Spec, Value,
};
use probity_format::Timestamp;

use super::chunks::begin;
use super::endings::later;
use super::forum::*;
use super::replay::{Station, edna, outlooks, station, why};

/// Actions of which the log has refusals alone.
const READS: [&str; 3] = [
    "disguise.list",
    "disguise.speaks-for",
    "disguise.subject-name",
];
const WEIGHTS: &str = "[[update]]\nname = \"weights\"\ntable = \"moderations\"\n[[update.into]]\ntable = \"moderations\"\nrest = true\nvalues = { weight = 3 }\n";

pub(super) fn court<'a>() -> Authority<'a> {
    Authority {
        actor: "court",
        basis: "7 C 81/26",
        time: time(),
    }
}

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

impl Station {
    pub(super) fn copy_of_key(&self, user: i64) -> SecretKey {
        SecretKey::from_bytes(*self.forum.keys[&user].expose())
    }

    /// Logs, and another identity of the database.
    fn begins_anew(&mut self) {
        self.tell_in("one");
        self.forum.engine.begin_log(time()).unwrap();
        self.tell_in("two");
        self.forum.engine.separate(time()).unwrap();
        self.forum.engine.begin_log(time()).unwrap();
    }

    /// A hold that a replay places again, and that is lifted.
    fn holds(&mut self) {
        self.back_up();
        let (two, mut holds) = (Value::Int(2), self.forum.engine.holds());
        let id = holds.place(Holding::Person(&two), &court()).unwrap();
        self.restore();
        let done = self.replay(&[], &[]);
        assert_eq!(outlooks(&done), [("disguise.hold", &Replayability::Done)]);
        self.forum.engine.holds().lift(id, &court()).unwrap();
    }

    /// A reveal that its person does not repeat, which is dismissed.
    fn dismisses(&mut self) {
        let gone = self.apply(BLANK, Some(2));
        self.back_up();
        self.forum.reveal(2, gone.id);
        self.restore();
        let listed = self.replay(&[edna(BLANK)], &[]);
        let names: Vec<String> = listed
            .iter()
            .filter_map(|it| it.operation.clone())
            .collect();
        self.dismiss(&[edna(BLANK)], &names, &court()).unwrap();
        assert!(self.forum.reveal(2, gone.id).is_complete());
    }

    /// Disguises of every kind, what ends them, and what is done with their records.
    fn disguises(&mut self) {
        let (blank, due) = (edna(BLANK), later(30));
        let engine = &mut self.forum.engine;
        engine
            .apply(&request(&blank, Some(1), Some(later(1))))
            .unwrap();
        assert!(engine.schedule().sweep(later(9)).unwrap().records > 0);
        let id = engine
            .schedule()
            .add(&request(&blank, Some(1), None), due)
            .unwrap();
        engine.schedule().cancel(id, time()).unwrap();
        let id = engine
            .chunks()
            .begin(&request(&blank, Some(2), None))
            .unwrap();
        engine.chunks().finish(id, 2, time).unwrap();
        assert!(self.forum.reveal(2, id).is_complete());
        self.forum.sql("UPDATE users SET karma = 1 WHERE id = 4");
        let inactive = DecayRequest {
            spec: &blank,
            inactive: "users.karma < :active",
            parameters: BTreeMap::from([("active".to_owned(), Value::Int(5))]),
            expires: None,
            after: None,
            page: 10,
            time: time(),
        };
        let decayed = self.forum.engine.decay().apply(&inactive).unwrap();
        assert_eq!(decayed.applied.len(), 1);
        let (four, key) = (Value::Int(4), self.copy_of_key(4));
        let credential = Credential::Key(&key);
        let exported = self.forum.engine.export(&four, &credential, None, time());
        exported.unwrap();
        self.forget(4, Some(decayed.applied.first().unwrap().id));
        self.apply(BLANK, Some(4));
        self.forget(4, None);
    }

    /// Somebody comes, changes what opens their records, and goes; a migration is recorded.
    fn people(&mut self) {
        self.forum.sql("INSERT INTO users VALUES (5, 'user5', 7)");
        let (five, mut people) = (Value::Int(5), self.forum.engine.people());
        let made = people.register(&five, Protection::Password("first"), time());
        let first = made.unwrap().key;
        let second = Protection::Password("second");
        let by_key = Credential::Key(&first);
        people
            .change_password(&five, &by_key, second, time())
            .unwrap();
        let by_password = Credential::Password("second");
        let made = people.change_key(&five, &by_password, Protection::KeyAlone, time());
        let last = made.unwrap().key;
        let by_key = Credential::Key(&last);
        people.unregister(&five, Some(&by_key), time()).unwrap();
        self.forum
            .sql("ALTER TABLE moderations ADD COLUMN weight BIGINT");
        let update = Mapping::parse(WEIGHTS).unwrap();
        let mut updates = self.forum.engine.updates();
        updates.record(&update, time()).unwrap();
    }

    fn actions(&self) -> BTreeSet<String> {
        let texts = self.texts.borrow();
        let action = |it: &String| it.split(' ').next().unwrap_or_default().to_owned();
        texts.iter().map(action).collect()
    }
}

/// Returns the actions that the sources name.
fn actions_of_sources(folder: &Path, all: &mut BTreeSet<String>) {
    for found in fs::read_dir(folder).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() {
            actions_of_sources(&path, all);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for part in text.split("\"disguise.").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            let is_action = |it: char| it.is_ascii_lowercase() || it == '-';
            if !name.is_empty() && name.chars().all(is_action) {
                all.insert(format!("disguise.{name}"));
            }
        }
    }
}

/// The entry of a sweep that destroyed records counts disguises where that of a forgetting names them,
/// and no replay could read it: each listed it for ever. Of every action that the program writes a
/// replay reads the entry, and finds that the database lacks nothing.
pub(crate) fn a_replay_reads_the_entries_of_every_action() {
    let mut station = station();
    station.begins_anew();
    station.holds();
    station.dismisses();
    station.disguises();
    station.people();
    let mut expected = BTreeSet::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    actions_of_sources(&sources, &mut expected);
    expected.retain(|it| !READS.contains(&it.as_str()));
    assert_eq!(station.actions(), expected);
    for really in [false, true] {
        assert_eq!(station.replay_or_look(&[], &[], really), []);
    }
    let told: Vec<LoggedOperation> = station.told.borrow().clone();
    let engine = &mut station.forum.engine;
    assert_eq!(engine.missed().strangers(&told).unwrap(), None);
    assert_eq!(engine.missed().untold(&told).unwrap(), 0);
    assert_eq!(engine.chunks().unfinished().unwrap(), []);
}

/// A reveal of a disguise that never was, which anybody may ask for, stood between each restored backup and
/// what others had forgotten: it might have written their records anew. One that found nothing is nothing to
/// do again, keeps nothing else from being done, and ends nothing.
pub(crate) fn a_reveal_that_found_nothing_keeps_nothing_from_being_done_again() {
    let mut station = station();
    let gone = station.apply(GDPR, Some(1));
    let begun = begin(&mut station.forum, BLANK, Some(4), false).unwrap();
    station.back_up();
    let never: DisguiseId = "0000000000000001".parse().unwrap();
    let find_nothing = |station: &mut Station| {
        for id in [never, gone.id, begun] {
            assert!(!station.forum.reveal(3, id).found);
        }
    };
    find_nothing(&mut station);
    station.forget(1, None);
    station.apply(BLANK, Some(2));
    for is_overtaken in [false, true] {
        station.restore();
        if is_overtaken {
            find_nothing(&mut station);
        }
        let specs = [edna(GDPR), edna(BLANK)];
        let done = station.replay(&specs, &[]);
        let expected = [
            ("disguise.forget", &Replayability::Done),
            ("disguise.apply", &Replayability::Done),
        ];
        assert_eq!(outlooks(&done), expected, "{done:?}");
        assert_eq!(station.replay(&specs, &[]), []);
        let key = station.copy_of_key(1);
        assert!(!station.opens(1, &Credential::Key(&key)));
        assert_eq!(station.forum.engine.chunks().unfinished().unwrap(), [begun]);
    }
}

/// A hold was missed, and placed again by hand: each replay listed the first one for ever, for a hold that is
/// placed again has another id. It ends with a hold of the same authority and basis on the same, and a hold
/// that was lifted leaves nothing to do.
pub(crate) fn a_missed_hold_ends_once_it_is_placed_again() {
    let mut station = station();
    let place = |station: &mut Station, user: i64, authority: &Authority<'_>| {
        let user = Value::Int(user);
        let mut holds = station.forum.engine.holds();
        holds.place(Holding::Person(&user), authority).unwrap()
    };
    let lift = |station: &mut Station, id| {
        station.forum.engine.holds().lift(id, &court()).unwrap();
    };
    let went_on = |station: &mut Station| {
        station.restore();
        station.apply(BLANK, Some(1));
    };
    place(&mut station, 2, &court());
    went_on(&mut station);
    let listed = station.replay(&[], &[]);
    assert!(
        listed.len() == 1 && why(&listed[0]).contains("Place it again"),
        "{listed:?}"
    );
    let authority = Authority {
        actor: "another court",
        ..court()
    };
    place(&mut station, 2, &authority);
    place(&mut station, 3, &court());
    assert_eq!(station.replay(&[], &[]).len(), 1);
    let again = place(&mut station, 2, &court());
    assert_eq!(station.replay(&[], &[]), []);
    lift(&mut station, again);
    assert_eq!(station.replay(&[], &[]), []);
    // One that was lifted is over.
    let stands = place(&mut station, 4, &court());
    station.back_up();
    let over = place(&mut station, 4, &authority);
    lift(&mut station, over);
    went_on(&mut station);
    let done = station.replay(&[], &[]);
    let expected = [
        ("disguise.hold", &Replayability::Done),
        ("disguise.lift", &Replayability::Done),
    ];
    assert_eq!(outlooks(&done), expected);
    assert_eq!(station.replay(&[], &[]), []);
    // One that stands is lifted again.
    station.back_up();
    lift(&mut station, stands);
    went_on(&mut station);
    let listed = station.replay(&[], &[]);
    assert!(
        listed.len() == 1 && !why(&listed[0]).is_empty(),
        "{listed:?}"
    );
    lift(&mut station, stands);
    assert_eq!(station.replay(&[], &[]), []);
}

/// Somebody changed their key in two lives of a database, each time from the same one: the change that this
/// database lacks was said to be that of a writer of the database for ever. It ends once they change it again.
pub(crate) fn a_key_that_was_changed_in_two_lives_is_settled_by_the_next_change() {
    let mut station = station();
    let change = |station: &mut Station, from: &SecretKey| {
        let mut people = station.forum.engine.people();
        let from = Credential::Key(from);
        let made = people.change_key(&Value::Int(4), &from, Protection::KeyAlone, time());
        made.unwrap().key
    };
    let first = station.copy_of_key(4);
    station.back_up();
    let here = change(&mut station, &first);
    let later = station.state();
    station.restore();
    change(&mut station, &first);
    station.set_state(&later);
    for really in [false, true] {
        let listed = station.replay_or_look(&[], &[], really);
        assert!(
            listed.len() == 1 && why(&listed[0]).contains("the same again here"),
            "{listed:?}"
        );
    }
    change(&mut station, &here);
    assert_eq!(station.replay(&[], &[]), []);
}

/// Somebody had come back before a backup was restored. A reveal asked for before the replay found nothing
/// there, and was taken for the one that the log has: the replay hid the person again, and lacked nothing.
pub(crate) fn a_reveal_before_its_disguise_is_made_again_leaves_the_reveal_to_do() {
    let mut station = station();
    station.back_up();
    let left = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, left.id).found);
    let back = station
        .forum
        .numbers("SELECT COUNT(*) FROM users WHERE id = 1");
    station.restore();
    assert!(!station.forum.reveal(1, left.id).found);
    let specs = [edna(GDPR)];
    for expected in [2, 1] {
        let done = station.replay(&specs, &[]);
        let outlooks = outlooks(&done);
        assert_eq!(outlooks.len(), expected, "{done:?}");
        let last = outlooks.last();
        let is_asked = matches!(last, Some(("disguise.reveal", Replayability::Not(_))));
        assert!(is_asked, "{done:?}");
    }
    assert!(station.forum.reveal(1, left.id).found);
    assert_eq!(station.replay(&specs, &[]), []);
    let now = station
        .forum
        .numbers("SELECT COUNT(*) FROM users WHERE id = 1");
    assert_eq!(now, back);
}

/// A backup is put back whose database was to have what was begun in chunks elsewhere, carried through by a
/// replay and revealed. The first replay found nothing to hide, and the second hid the person again.
pub(crate) fn a_second_replay_hides_nobody_who_came_back() {
    let mut station = station();
    station.back_up();
    let karma = |station: &mut Station| {
        let sql = "SELECT karma FROM users WHERE id = 4";
        station.forum.numbers(sql)
    };
    let before = karma(&mut station);
    let begun = begin(&mut station.forum, BLANK, Some(4), false).unwrap();
    station.restore();
    let specs = [edna(BLANK)];
    let done = station.replay(&specs, &[]);
    assert_eq!(outlooks(&done), [("disguise.begin", &Replayability::Done)]);
    assert!(station.forum.reveal(4, begun).found);
    station.restore();
    station.replay(&specs, &[]);
    for _ in 0..2 {
        assert_eq!(station.replay(&specs, &[]), []);
        assert_eq!(karma(&mut station), before);
    }
}

/// A disguise was made again and revealed in another life of the database, and had been revealed here before.
/// The reveal that a replay asked for found nothing, and was asked for at each replay.
pub(crate) fn a_reveal_of_another_life_is_settled_by_one_that_finds_nothing() {
    let mut station = station();
    station.unordered.set(true);
    station.back_up();
    let left = station.apply(GDPR, Some(1));
    assert!(station.forum.reveal(1, left.id).found);
    let back = station.state();
    station.restore();
    let specs = [edna(GDPR)];
    assert_eq!(station.replay(&specs, &[]).len(), 2);
    assert!(station.forum.reveal(1, left.id).found);
    station.set_state(&back);
    station.replay(&specs, &[]);
    assert!(!station.forum.reveal(1, left.id).found);
    assert_eq!(station.replay(&specs, &[]), []);
}
