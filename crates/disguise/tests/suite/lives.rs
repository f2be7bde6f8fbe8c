//! Two lives of one database, told of in one log: a disguise in chunks that is here in part, or whole, or not at all, and was
//! carried on in the other one.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    Credential, DisguiseId, Error, MissingOperation, Progress, Protection, References,
    ReplayRequest, Replayability, RevealRequest, Rows, SecretKey, Value,
};

use super::chunks::begin;
use super::dice::{Dice, SeedOnPanic, seeds};
use super::forum::*;
use super::replay::{Station, edna, station};

/// Rows in a chunk.
const ROWS: u32 = 2;
/// Ids from here on are those of placeholders.
const PLACEHOLDER_MIN: i64 = 1_000_000;
/// The most statements that a replay does before it is cut.
const CUT_MAX: usize = 150;

/// The specifications, each with the person whose rows it hides.
const DISGUISES: [(&str, Option<i64>); 7] = [
    (BLANK, Some(1)),
    (BLANK, None),
    (GDPR, Some(1)),
    (GDPR_REMOVE, Some(1)),
    (ANON, None),
    (ANON, Some(1)),
    (GROUPED, None),
];

/// The part of the disguise that is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Here {
    NotBegun,
    Chunks(usize),
    Whole,
}

/// From which state the other life went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fork {
    /// This database is a backup of it.
    Here,
    /// A backup from before the disguise was restored there.
    Before,
    /// A backup from after so many chunks was restored there.
    Chunks(usize),
}

/// The end of the disguise there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Nothing,
    Cancelled,
    Revealed,
    Forgotten,
    EverythingForgotten,
    ForgottenByAnother,
    EverythingForgottenByAnother,
}

const ENDS: [End; 7] = [
    End::Nothing,
    End::Cancelled,
    End::Revealed,
    End::Forgotten,
    End::EverythingForgotten,
    End::ForgottenByAnother,
    End::EverythingForgottenByAnother,
];

/// One replay of the restored database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    With,
    Without,
    /// Cut after so many statements.
    Cut(usize),
}

#[derive(Debug, Clone)]
struct Draw {
    spec: &'static str,
    user: Option<i64>,
    here: Here,
    fork: Fork,
    /// A replay is made there first.
    replayed: bool,
    /// Chunks that are made there; it is finished where absent.
    chunks: Option<usize>,
    renewed: bool,
    end: End,
    ways: Vec<Way>,
}

impl Draw {
    fn of(dice: &mut Dice) -> Self {
        let (spec, user) = dice.pick(&DISGUISES).unwrap();
        let here = match dice.throw(6) {
            0 => Here::NotBegun,
            1 => Here::Whole,
            chunks => Here::Chunks(chunks - 2),
        };
        let fork = match (dice.throw(5), here) {
            (0, _) => Fork::Before,
            (1 | 2, Here::Chunks(made)) if made > 0 => Fork::Chunks(dice.throw(made)),
            (1 | 2, Here::Whole) => Fork::Chunks(dice.throw(3)),
            _ => Fork::Here,
        };
        let ways = match dice.throw(6) {
            0 => vec![Way::With],
            1 => vec![Way::Without, Way::With],
            2 => vec![Way::With, Way::With],
            3 => vec![Way::Cut(dice.throw(CUT_MAX)), Way::With],
            4 => vec![Way::Without, Way::Cut(dice.throw(CUT_MAX)), Way::With],
            _ => vec![Way::Without],
        };
        Self {
            spec,
            user,
            here,
            fork,
            // What everybody's disguise hid here of whom, the log does not say: a life that never had
            // it is another database's.
            replayed: dice.throw(2) == 0 || fork == Fork::Before && user.is_none(),
            chunks: (dice.throw(2) == 0).then(|| dice.throw(3)),
            renewed: dice.throw(5) == 0,
            end: dice.pick(&ENDS).unwrap(),
            ways,
        }
    }
}

/// Every table of a database.
type State = Vec<Vec<Vec<Value>>>;
/// A table, the id of a row, a column and its value.
type Fact = (&'static str, String, usize, String);

/// The state of a database at the end of a life.
#[derive(Debug)]
struct Seen {
    /// Values in clear that a disguise would hide.
    clear: BTreeSet<Fact>,
    /// People who open something of the disguise, with the number of the key.
    opens: BTreeSet<(i64, usize)>,
    records: BTreeSet<Vec<u8>>,
    /// Values in clear once everybody who can has revealed it.
    revealed: BTreeSet<Fact>,
    /// The disguise goes on in chunks.
    is_going: bool,
}

/// A station with all keys that people had.
struct Lives {
    station: Station,
    keys: BTreeMap<i64, Vec<SecretKey>>,
    original: BTreeSet<Fact>,
    id: Option<DisguiseId>,
    /// The records that were ever there in the other life.
    known: BTreeSet<Vec<u8>>,
    /// People who ever opened something of the disguise there.
    opened: BTreeSet<(i64, usize)>,
}

impl Lives {
    fn new() -> Self {
        let mut station = station();
        let copy = |key: &SecretKey| SecretKey::from_bytes(*key.expose());
        let keys = station.forum.keys.iter();
        let keys = keys.map(|(user, key)| (*user, vec![copy(key)])).collect();
        let original = facts(&mut station);
        Self {
            station,
            keys,
            original,
            id: None,
            known: BTreeSet::new(),
            opened: BTreeSet::new(),
        }
    }

    fn is_going(&mut self) -> bool {
        let unfinished = self.station.forum.engine.chunks().unfinished().unwrap();
        self.id.is_some_and(|id| unfinished.contains(&id))
    }

    fn begin(&mut self, draw: &Draw) {
        let begun = begin(&mut self.station.forum, draw.spec, draw.user, false);
        self.id = Some(begun.unwrap());
    }

    /// Goes on for so many chunks, or until it is done.
    fn go_on(&mut self, chunks: Option<usize>) {
        for _ in 0..chunks.unwrap_or(200) {
            if !self.is_going() {
                return;
            }
            let mut all = self.station.forum.engine.chunks();
            match all.proceed(self.id.unwrap(), ROWS, time()) {
                Ok(Progress::Going(_)) => {}
                Ok(_) | Err(Error::Value { .. } | Error::NotRegistered { .. }) => return,
                Err(other) => panic!("{other:?}"),
            }
            self.note();
        }
    }

    /// Notes what is there, in the other life.
    fn note(&mut self) {
        let (records, opens) = (records(&mut self.station), self.opens());
        self.known.extend(records);
        self.opened.extend(opens);
    }

    fn replay(&mut self, draw: &Draw, with: bool) -> Vec<MissingOperation> {
        let specs = [edna(draw.spec)];
        self.station.replay(if with { &specs } else { &[] }, &[])
    }

    /// Lets a replay be cut.
    fn replay_cut(&mut self, draw: &Draw, statements: usize) {
        let told = self.station.told.borrow().clone();
        let request = ReplayRequest {
            told: &told,
            specs: &[edna(draw.spec)],
            parameters: BTreeMap::new(),
            time: time(),
        };
        let left = u64::try_from(statements).unwrap() + 3;
        self.station.forum.left.set(left);
        let outcome = self.station.forum.engine.missed().replay(&request);
        self.station.forum.left.set(u64::MAX);
        drop(outcome);
    }

    fn change_key(&mut self) {
        let old = SecretKey::from_bytes(*self.station.forum.keys[&1].expose());
        let mut people = self.station.forum.engine.people();
        let (current, alone) = (Credential::Key(&old), Protection::KeyAlone);
        let made = people.change_key(&Value::Int(1), &current, alone, time());
        let key = made.unwrap().key;
        let all = self.keys.get_mut(&1).unwrap();
        all.push(SecretKey::from_bytes(*key.expose()));
        self.station.forum.keys.insert(1, key);
        self.note();
    }

    /// Ends it as `end` says; what is refused changes nothing.
    fn end(&mut self, end: End) {
        let Some(id) = self.id else { return };
        let (one, other) = (Value::Int(1), Value::Int(2));
        let forum = &mut self.station.forum;
        let own = Credential::Key(&forum.keys[&1]);
        let others = Credential::Key(&forum.keys[&2]);
        let engine = &mut forum.engine;
        match end {
            End::Nothing => {}
            End::Cancelled => drop(engine.schedule().cancel(id, time())),
            End::Revealed => drop(forum.reveal_as(1, id, References::Recorrelate)),
            End::Forgotten => drop(engine.forget(&one, &own, id, time())),
            End::EverythingForgotten => drop(engine.forget_everything(&one, &own, time())),
            End::ForgottenByAnother => drop(engine.forget(&other, &others, id, time())),
            End::EverythingForgottenByAnother => {
                drop(engine.forget_everything(&other, &others, time()));
            }
        }
    }

    fn opens(&mut self) -> BTreeSet<(i64, usize)> {
        let mut opens = BTreeSet::new();
        for (user, keys) in &self.keys {
            for (number, key) in keys.iter().enumerate() {
                let engine = &mut self.station.forum.engine;
                let listed = engine.list(&Value::Int(*user), &Credential::Key(key), time());
                let listed = listed.unwrap_or_default();
                if listed.iter().any(|it| Some(it.id) == self.id) {
                    opens.insert((*user, number));
                }
            }
        }
        opens
    }

    fn clear(&mut self) -> BTreeSet<Fact> {
        let now = facts(&mut self.station);
        now.intersection(&self.original).cloned().collect()
    }

    /// Looks at the database and leaves it, and the log, as they are.
    fn look(&mut self) -> Seen {
        let (state, told) = (self.station.state(), self.station.told.borrow().len());
        let mut seen = Seen {
            clear: self.clear(),
            opens: self.opens(),
            records: records(&mut self.station),
            revealed: BTreeSet::new(),
            is_going: self.is_going(),
        };
        // What people share comes back with the last of them.
        for (user, number) in seen.opens.iter().chain(&seen.opens) {
            let revealed = self.station.forum.engine.reveal(&RevealRequest {
                user: Value::Int(*user),
                credential: Credential::Key(&self.keys[user][*number]),
                id: self.id.unwrap(),
                references: References::Recorrelate,
                rows: Rows::PerColumn,
                time: time(),
            });
            match revealed {
                Ok(_) | Err(Error::WrongCredential | Error::NoSuchDisguise) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        seen.revealed = self.clear();
        self.station.set_state(&state);
        self.station.told.borrow_mut().truncate(told);
        seen
    }

    /// Makes the state here, and then lets the other life go on; gives what is known of its end.
    fn live(&mut self, draw: &Draw) -> (State, Seen) {
        let mut states = vec![self.station.state()];
        if draw.here != Here::NotBegun {
            self.begin(draw);
            states.push(self.station.state());
            let chunks = match draw.here {
                Here::Chunks(chunks) => chunks,
                _ => 200,
            };
            for _ in 0..chunks {
                if !self.is_going() {
                    break;
                }
                self.go_on(Some(1));
                states.push(self.station.state());
            }
        }
        let here = states.last().unwrap().clone();
        let from = match draw.fork {
            Fork::Here => here.clone(),
            Fork::Before => states[0].clone(),
            Fork::Chunks(chunks) => states[(chunks + 1).min(states.len() - 1)].clone(),
        };
        self.station.set_state(&from);
        self.known.clear();
        self.opened.clear();
        self.note();
        if draw.replayed {
            self.replay(draw, true);
            self.note();
        }
        if self.id.is_none() {
            self.begin(draw);
        }
        self.go_on(draw.chunks);
        if draw.renewed {
            self.change_key();
        }
        self.end(draw.end);
        let there = self.look();
        (here, there)
    }

    /// Returns what is here that must not be after a replay that did all of it.
    fn faults(&mut self, there: &Seen) -> Vec<String> {
        let here = self.look();
        let mut faults = Vec::new();
        let clear: Vec<_> = here.clear.difference(&there.clear).collect();
        if !clear.is_empty() {
            faults.push(format!("in clear: {clear:?}"));
        }
        let destroyed: BTreeSet<_> = self.known.difference(&there.records).collect();
        let left = here.records.iter().filter(|it| destroyed.contains(it));
        if left.count() > 0 {
            faults.push("records that were destroyed are there".to_owned());
        }
        let shut: BTreeSet<_> = self.opened.difference(&there.opens).collect();
        let open: Vec<_> = here.opens.iter().filter(|it| shut.contains(it)).collect();
        if !open.is_empty() {
            faults.push(format!("opens: {open:?}"));
        }
        if !there.opens.is_subset(&here.opens) {
            faults.push(format!("opens not: {:?} {:?}", here.opens, there.opens));
        }
        // What was still to be hidden there may be hidden here.
        let lost: Vec<_> = there.revealed.difference(&here.revealed).collect();
        if !there.is_going && !lost.is_empty() {
            faults.push(format!("does not come back: {lost:?}"));
        }
        faults
    }
}

/// Returns all that the rows say of people.
fn facts(station: &mut Station) -> BTreeSet<Fact> {
    let mut facts = BTreeSet::new();
    for table in ["users", "stories", "moderations"] {
        for row in station.forum.engine.preview().rows(table).unwrap() {
            if table == "users" && matches!(row[0], Value::Int(id) if id >= PLACEHOLDER_MIN) {
                continue;
            }
            for (column, value) in row.iter().enumerate() {
                facts.insert((table, row[0].to_string(), column, value.to_string()));
            }
        }
    }
    facts
}

fn records(station: &mut Station) -> BTreeSet<Vec<u8>> {
    let tables = ["probity_locators", "probity_bags"];
    let rows = tables.iter().flat_map(|table| station.rows(table));
    let ids = rows.map(|row| match &row[0] {
        Value::Bytes(id) => id.clone(),
        other => panic!("{other:?}"),
    });
    ids.collect()
}

/// Returns whether all was done that a draw asks for.
fn lives(draw: &Draw) -> bool {
    let mut lives = Lives::new();
    let (here, there) = lives.live(draw);
    lives.station.set_state(&here);
    let mut last = Vec::new();
    for way in &draw.ways {
        match way {
            Way::With => last = lives.replay(draw, true),
            Way::Without => last = lives.replay(draw, false),
            Way::Cut(statements) => lives.replay_cut(draw, *statements),
        }
    }
    let told = lives.station.told.borrow().clone();
    let mut missed = lives.station.forum.engine.missed();
    let strangers = missed.strangers(&told).unwrap();
    let untold = missed.untold(&told).unwrap();
    let is_said = |it: &MissingOperation| match &it.outlook {
        Replayability::Not(why) => {
            assert!(!why.is_empty(), "{draw:?} {it:?}");
            true
        }
        _ => false,
    };
    let is_listed = last.iter().any(is_said);
    let is_done = strangers.is_none() && untold == 0 && !is_listed && !lives.is_going();
    if is_done {
        let faults = lives.faults(&there);
        assert!(faults.is_empty(), "{draw:?}\n{last:?}\n{faults:#?}");
    }
    is_done
}

/// A disguise in chunks, of which a database had a part, was carried through in another life of it and
/// forgotten there: a replay said that all was done, with rows in clear here, or records that were
/// destroyed there. Whatever became of it there, a replay that says so has hidden what was hidden,
/// destroyed what was destroyed, and left to everybody what they could reveal.
pub(crate) fn a_replay_after_another_life_of_the_database_is_done_or_says_what_is_not() {
    for seed in seeds(crate::SCHEDULES / u64::try_from(crate::ONE_OF).unwrap()) {
        let on_panic = SeedOnPanic(seed);
        let draw = Draw::of(&mut Dice::of(seed));
        lives(&draw);
        drop(on_panic);
    }
}

/// Returns each disguise with each of these ends; fewer where a case takes long.
fn some_of(ends: &[End]) -> Vec<(&'static str, Option<i64>, End)> {
    let all = DISGUISES.iter().flat_map(|(spec, user)| {
        let ends = ends.iter();
        ends.map(move |end| (*spec, *user, *end))
    });
    all.step_by(2 * crate::ONE_OF - 1).collect()
}

/// A backup has a part of a disguise whose records were forgotten once it was whole. A replay without the
/// specification ended its chunks and took the credential away, and no other replay could hide the rest:
/// the forgetting waits for the disguise now, and both are done once it is given.
pub(crate) fn a_forgetting_waits_for_its_disguise_to_be_made_again() {
    let ends = [
        End::Nothing,
        End::Forgotten,
        End::EverythingForgotten,
        End::ForgottenByAnother,
        End::EverythingForgottenByAnother,
    ];
    for (spec, user, end) in some_of(&ends) {
        let draw = |ways: &[Way]| Draw {
            spec,
            user,
            here: Here::Chunks(1),
            fork: Fork::Here,
            replayed: false,
            chunks: None,
            renewed: false,
            end,
            ways: ways.to_vec(),
        };
        assert!(!lives(&draw(&[Way::Without, Way::Without])), "{end:?}");
        let both = [Way::Without, Way::With];
        assert!(lives(&draw(&both)), "{:?}", draw(&both));
        let at_once = [Way::With];
        assert!(lives(&draw(&at_once)), "{:?}", draw(&at_once));
    }
}

/// A disguise of which a database had a part was carried through, from its beginning, by a replay of an older
/// backup, and forgotten there. No other operation told of it, so that a replay here found nothing missing
/// but the forgetting, and called it done with the rest in clear and the part to be opened.
pub(crate) fn what_a_replay_elsewhere_carried_through_is_missed_here() {
    for (spec, user, end) in some_of(&[End::Nothing, End::Forgotten, End::EverythingForgotten]) {
        let draw = |ways: &[Way]| Draw {
            spec,
            user,
            here: Here::Chunks(1),
            fork: Fork::Before,
            replayed: true,
            chunks: None,
            renewed: false,
            end,
            ways: ways.to_vec(),
        };
        assert!(!lives(&draw(&[Way::Without])), "{end:?}");
        // Records of the part are forgotten with the credential alone.
        let is_done = lives(&draw(&[Way::With]));
        assert_eq!(is_done, end == End::Nothing, "{:?}", draw(&[Way::With]));
    }
}
