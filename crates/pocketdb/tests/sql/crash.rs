//! After a loss of power at any program or erasure of a script of statements and
//! reorganisations, the database is exactly what was committed, and goes on from there.

use probity_pocketdb::flash::{Nand as _, PowerCut, Simulator, Torn};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Extent, Result, Store};

use crate::pair::{Cell, Kept, Pair};

const MEMORY: usize = 65_536;
const BLOCKS: u32 = 60;
const STORE_BYTES: usize = 256 * 1024;
const TABLES: [&str; 3] = ["town", "person", "visit"];
/// Operations of the device that one share of a reorganisation may use before it is stopped.
const SHARE: u64 = 70;

enum Step {
    /// Statements that make one transaction.
    Change(Vec<String>),
    /// A share of a reorganisation: its extent, tasks, and operations of the device.
    Reorganize(Extent, u32, u64),
}

fn script() -> Vec<Step> {
    let mut steps = Vec::new();
    let one = |text: String| Step::Change(vec![text]);
    let towns: Vec<String> = (0..12)
        .map(|n| format!("(NULL, 'town {}')", n % 5))
        .collect();
    steps.push(one(format!("INSERT INTO town VALUES {}", towns.join(", "))));
    for round in 0..12 {
        let people = (0..24).map(|n| format!("(NULL, {}, 'p{}')", n % 12 + 1, (n + round) % 7));
        let people: Vec<String> = people.collect();
        let people = format!("INSERT INTO person VALUES {}", people.join(", "));
        let visits = |from: usize| {
            let rows = (from..from + 18).map(|n| {
                let person = (n * 7 + round) % (20 * (round + 1)) + 1;
                format!("(NULL, {person}, {}, 'note {}')", n % 9, n % 4)
            });
            format!(
                "INSERT INTO visit VALUES {}",
                rows.collect::<Vec<_>>().join(", ")
            )
        };
        // A person who was deleted meanwhile cannot be visited; that share is refused as a whole.
        steps.push(Step::Change(vec![people, visits(0)]));
        steps.push(one(visits(40)));
        steps.push(one(format!(
            "UPDATE person SET name = 'renamed {round}' WHERE name = 'p{}'",
            round % 7
        )));
        steps.push(one(format!(
            "UPDATE visit SET day = {} WHERE day = {}",
            round + 20,
            round % 9
        )));
        steps.push(one(format!(
            "DELETE FROM visit WHERE id = {}",
            round * 5 + 2
        )));
        if [1, 2, 4].contains(&round) {
            steps.push(Step::Reorganize(Extent::Levels, u32::MAX, u64::MAX));
        }
        match round {
            3 => steps.push(Step::Reorganize(Extent::Levels, 7, u64::MAX)),
            5..=8 => steps.push(Step::Reorganize(Extent::Whole, 5, SHARE)),
            9 => steps.push(Step::Reorganize(Extent::Whole, u32::MAX, u64::MAX)),
            10 => steps.push(one("DELETE FROM town WHERE id = 4".to_owned())),
            11 => steps.push(Step::Reorganize(Extent::Levels, u32::MAX, u64::MAX)),
            _ => steps.push(one(format!(
                "DELETE FROM person WHERE id = {}",
                round * 3 + 1
            ))),
        }
    }
    steps.push(one("UPDATE town SET name = 'last' WHERE id = 2".to_owned()));
    steps
}

type Rows = [Vec<Vec<Cell>>; 3];

fn rows_of(store: &mut Store<Simulator, MemoryStore>) -> Rows {
    TABLES.map(|table| {
        let mut kept = Kept::default();
        let text = format!("SELECT * FROM {table} ORDER BY id");
        store.execute(&text, &[], &mut kept).unwrap();
        kept.rows
    })
}

/// Rows found through the indexes of the last table.
fn found_by_index(store: &mut Store<Simulator, MemoryStore>) -> Vec<Vec<Vec<Cell>>> {
    let conditions = [
        "town.name = 'town 3'",
        "person.name = 'renamed 2'",
        "day = 24",
        "person.id = 9",
    ];
    let found = conditions.map(|condition| {
        let mut kept = Kept::default();
        let text = format!(
            "SELECT visit.id, day FROM visit JOIN person ON visit.person = person.id \
             JOIN town ON person.town = town.id WHERE {condition} ORDER BY visit.id"
        );
        store.execute(&text, &[], &mut kept).unwrap();
        kept.rows
    });
    found.to_vec()
}

fn create(pair: &mut Pair) {
    for (own, other) in [
        (
            "CREATE TABLE town (id INTEGER PRIMARY KEY, name TEXT(12) INDEXED)",
            "TEXT",
        ),
        (
            "CREATE TABLE person (id INTEGER PRIMARY KEY, town INTEGER REFERENCES town(id) ON DELETE CASCADE, name TEXT(30) INDEXED)",
            "TEXT",
        ),
        (
            "CREATE TABLE visit (id INTEGER PRIMARY KEY, person INTEGER REFERENCES person(id) ON DELETE CASCADE, day INTEGER INDEXED, note TEXT(300))",
            "TEXT",
        ),
    ] {
        pair.own(own).unwrap();
        let other = own
            .replace(" INDEXED", "")
            .replace("TEXT(", &format!("{other}("));
        pair.other.execute_batch(&other).unwrap();
    }
}

/// Does one step; statements that are refused leave the database as it was.
fn run_step(store: &mut Store<Simulator, MemoryStore>, step: &Step) -> Result<()> {
    match step {
        Step::Reorganize(extent, tasks, operations) => {
            store.reorganize(*extent, *tasks, *operations).map(drop)
        }
        Step::Change(texts) => {
            let mut sink = Kept::default();
            store.execute("BEGIN", &[], &mut sink)?;
            for text in texts {
                match store.execute(text, &[], &mut sink) {
                    Err(probity_pocketdb::Error::Key(_)) => {
                        // Nothing is left to take back when earlier statements changed something.
                        drop(store.execute("ROLLBACK", &[], &mut sink));
                        return Ok(());
                    }
                    result => result?,
                };
            }
            store.execute("COMMIT", &[], &mut sink).map(drop)
        }
    }
}

/// Does as much on the other side.
fn run_other(pair: &Pair, step: &Step) {
    let Step::Change(texts) = step else { return };
    pair.other.execute_batch("BEGIN").unwrap();
    let done = texts
        .iter()
        .all(|text| pair.other.execute_batch(text).is_ok());
    let end = if done { "COMMIT" } else { "ROLLBACK" };
    pair.other.execute_batch(end).unwrap();
}

struct Reference {
    steps: Vec<Step>,
    /// The rows before each step and behind the last.
    states: Vec<Rows>,
    found: Vec<Vec<Vec<Cell>>>,
    start: (Simulator, MemoryStore),
    operations: u64,
    /// Writes of the secure store: before the first step, and altogether.
    root_writes: std::ops::Range<u64>,
}

fn reference() -> Reference {
    let mut pair = Pair::sized(MEMORY, BLOCKS, STORE_BYTES);
    create(&mut pair);
    let (flash, secure) = pair.own.take().unwrap().into_parts();
    let start = (flash.clone(), secure.clone());
    pair.own = Some(Store::open(flash, secure, MEMORY).unwrap());
    let begun = pair.store().counters().flash;
    let first_write = pair.store().secure_store().writes();
    let steps = script();
    let mut states = vec![rows_of(pair.store())];
    let mut parts = 0;
    for step in &steps {
        run_step(pair.store(), step).unwrap();
        run_other(&pair, step);
        parts = parts.max(pair.store().parts());
        let rows = rows_of(pair.store());
        for (table, own) in TABLES.iter().zip(&rows) {
            let other = pair.sqlite(&format!("SELECT * FROM {table} ORDER BY id"));
            assert_eq!(own, &other);
        }
        states.push(rows);
    }
    assert!(pair.store().instance() >= 2 && parts >= 3, "{parts}");
    let found = found_by_index(pair.store());
    assert!(found.iter().all(|rows| !rows.is_empty()));
    let ended = pair.store().counters().flash;
    let root_writes = first_write..pair.store().secure_store().writes();
    Reference {
        steps,
        states,
        found,
        start,
        operations: ended.programs + ended.erases - begun.programs - begun.erases,
        root_writes,
    }
}

impl Reference {
    /// Plays into the cut, opens again, compares, and plays to the end.
    fn cut(&self, cut: PowerCut, place: &str) -> bool {
        let (mut flash, secure) = self.start.clone();
        flash.plan_cut(cut);
        self.play_into_cut((flash, secure), place)
    }

    /// Cuts the power while the secure store keeps `kept` bytes of write number `write`.
    fn cut_root(&self, write: u64, kept: usize, place: &str) -> bool {
        let (flash, mut secure) = self.start.clone();
        secure.plan_cut(write - secure.writes(), kept);
        self.play_into_cut((flash, secure), place)
    }

    fn play_into_cut(&self, (flash, secure): (Simulator, MemoryStore), place: &str) -> bool {
        let mut store = Store::open(flash, secure, MEMORY).unwrap();
        let mut steps = self.steps.iter().enumerate();
        let Some((number, _)) = steps.find(|(_, step)| run_step(&mut store, step).is_err()) else {
            return false;
        };
        let (mut flash, mut secure) = store.into_parts();
        flash.restore_power();
        secure.restore_power();
        let mut store =
            Store::open(flash, secure, MEMORY).unwrap_or_else(|error| panic!("{place}: {error}"));
        store
            .verify()
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        let rows = rows_of(&mut store);
        // The step under way came to be as a whole or not at all.
        let next = if rows == self.states[number + 1] {
            number + 1
        } else {
            number
        };
        assert!(rows == self.states[next], "{place} in step {number}");
        for step in &self.steps[next..] {
            run_step(&mut store, step).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
        assert!(
            Some(&rows_of(&mut store)) == self.states.last(),
            "{place}: the end"
        );
        assert!(
            found_by_index(&mut store) == self.found,
            "{place}: by index"
        );
        store.verify().unwrap();
        true
    }
}

#[test]
fn a_cut_at_every_program_and_erasure_leaves_what_was_committed() {
    let reference = reference();
    println!("{} programs and erasures", reference.operations);
    assert!(reference.operations > 300);
    let torn = [Torn::Nothing, Torn::Prefix(900), Torn::Everything];
    for after in 0..reference.operations {
        // Each moment with one kind of torn page; the neighbours have the others.
        let torn = torn[usize::try_from(after % 3).unwrap()];
        let place = format!("{torn:?} {after}");
        // Queries between the steps of the reference wrote nothing that the others lack.
        reference.cut(PowerCut { after, torn }, &place);
    }
}

/// Cuts every write of the secure store, or each `stride`th.
fn cut_root_writes(stride: usize) {
    let reference = reference();
    let writes = reference.root_writes.clone();
    println!("{} writes of the secure store", writes.end - writes.start);
    let mut cuts = 0;
    for write in writes.step_by(stride) {
        // Nothing of it, a part of a secret or an entry, a part of a record.
        let kept = [0, 9, 200][usize::try_from(write % 3).unwrap()];
        let place = format!("write {write}, {kept} bytes kept");
        cuts += u32::from(reference.cut_root(write, kept, &place));
    }
    assert!(cuts > 50, "{cuts}");
}

#[test]
fn a_cut_at_every_seventh_write_of_the_secure_store_leaves_what_was_committed() {
    // Every write is cut by the longer form of this test.
    cut_root_writes(7);
}

#[test]
#[ignore = "takes a minute; run with --release --ignored"]
fn a_cut_at_every_write_of_the_secure_store_leaves_what_was_committed() {
    cut_root_writes(1);
}

#[test]
fn a_flipped_bit_in_any_page_is_an_error_or_changes_nothing() {
    let reference = reference();
    let (flash, secure) = reference.start.clone();
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    for step in &reference.steps {
        run_step(&mut store, step).unwrap();
    }
    let live = store.verify().unwrap();
    let (flash, secure) = store.into_parts();
    let mut refused = 0u64;
    for page in 0..flash.blocks() * probity_pocketdb::flash::BLOCK_PAGES {
        if !flash.is_programmed(page) {
            continue;
        }
        let mut damaged = flash.clone();
        damaged.flip_bit(page, page as usize * 37 % 16_384);
        let Ok(mut store) = Store::open(damaged, secure.clone(), MEMORY) else {
            refused += 1;
            continue;
        };
        if store.verify().is_err() {
            refused += 1;
            continue;
        }
        // A page that nothing needs any more.
        assert!(
            Some(&rows_of(&mut store)) == reference.states.last(),
            "page {page}"
        );
    }
    println!("{refused} pages refused");
    // Every page that verification reads, and no answer was shorter.
    assert!(refused >= live && live > 30);
}
