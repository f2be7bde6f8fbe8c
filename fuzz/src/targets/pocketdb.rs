//! Statements, and the two media of a pocket database.

use probity_pocketdb::flash::Simulator;
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Heading, Result, Row, SecureStore as _, Sink, Store};

use crate::Target;
use crate::targets::{is_accepted, text};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "sql",
        seeds: sql_seeds,
        check: check_sql,
    },
    Target {
        name: "secure_store",
        seeds: secure_seeds,
        check: check_secure,
    },
    Target {
        name: "flash_page",
        seeds: page_seeds,
        check: check_page,
    },
];

const BLOCKS: u32 = 16;
const SECURE_BYTES: usize = 128 * 1024;
const MEMORY_BYTES: usize = 64 * 1024;

const SCRIPT: [&str; 4] = [
    "CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT(30) INDEXED)",
    "CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor INTEGER REFERENCES doctors, day INTEGER INDEXED)",
    "INSERT INTO doctors (name) VALUES ('Ada')",
    "INSERT INTO visits (doctor, day) VALUES (1, 20260321)",
];

/// Reads every value and keeps none.
struct Discard;

impl Sink for Discard {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        let _text = row.value(0).to_string();
        Ok(())
    }
}

fn filled() -> Store<Simulator, MemoryStore> {
    let media = (Simulator::new(BLOCKS), MemoryStore::new(SECURE_BYTES));
    let store = Store::create(media.0, media.1, &[7; 32], MEMORY_BYTES);
    let mut store = store.expect("an empty chip");
    for statement in SCRIPT {
        let done = store.execute(statement, &[], &mut Discard);
        done.expect("a valid statement");
    }
    store
}

fn sql_seeds() -> Vec<Vec<u8>> {
    let statements = [
        "CREATE TABLE rooms (id INTEGER PRIMARY KEY, floor INTEGER NOT NULL, name CHAR(8) UNIQUE)",
        "SELECT name, COUNT(*) FROM visits JOIN doctors ON visits.doctor = doctors.id \
         WHERE day BETWEEN 20260101 AND 20261231 AND NOT name = 'Bea' GROUP BY name",
        "SELECT day FROM visits WHERE day >= 20260101 ORDER BY day DESC LIMIT 3",
        "UPDATE visits SET day = 20260322 WHERE id IN (1, 2) OR day = 0",
        "DELETE FROM visits WHERE day < 20260101",
        "BEGIN",
    ];
    let filling = SCRIPT.iter().skip(2);
    let all = filling.chain(&statements);
    all.map(|it| (*it).into()).collect()
}

/// A statement is carried out or refused with words; the database answers afterwards as before.
fn check_sql(data: &[u8]) -> bool {
    let Some(statement) = text(data) else {
        return false;
    };
    let mut store = filled();
    let accepted = is_accepted(&store.execute(statement, &[], &mut Discard));
    let still = store.execute("SELECT id FROM doctors", &[], &mut Discard);
    assert!(still.is_ok(), "{still:?} after {statement:?}");
    accepted
}

/// The used beginning of a sound secure store.
fn secure_seeds() -> Vec<Vec<u8>> {
    let (_, mut secure) = filled().into_parts();
    let bytes = secure.bytes_mut();
    let used = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    vec![bytes[..used].to_vec()]
}

/// A changed store opens to the rows that were committed, or is refused: the engine trusts it.
fn check_secure(data: &[u8]) -> bool {
    let (chip, mut secure) = filled().into_parts();
    let capacity = secure.capacity();
    let changed = &data[..data.len().min(capacity)];
    secure.bytes_mut()[..changed.len()].copy_from_slice(changed);
    let Ok(mut store) = Store::open(chip, secure, MEMORY_BYTES) else {
        return false;
    };
    store
        .execute("SELECT day FROM visits", &[], &mut Discard)
        .is_ok()
}

/// The number of a page, and its bytes.
fn page_seeds() -> Vec<Vec<u8>> {
    let (chip, _) = filled().into_parts();
    let written = (0..BLOCKS * 64).filter(|page| chip.is_programmed(*page));
    let seed = |page: u32| Some([&page.to_le_bytes()[..], chip.peek(page)?].concat());
    written.filter_map(seed).take(8).collect()
}

/// A changed page of the chip never changes an answer: it is refused where it counts.
fn check_page(data: &[u8]) -> bool {
    let Some((page, bytes)) = data.split_first_chunk::<4>() else {
        return false;
    };
    let (mut chip, secure) = filled().into_parts();
    let page = u32::from_le_bytes(*page) % (BLOCKS * 64);
    let Some(before) = chip.peek(page).map(<[u8]>::to_vec) else {
        return false;
    };
    let mut after = before.clone();
    let changed = bytes.len().min(after.len());
    after[..changed].copy_from_slice(&bytes[..changed]);
    chip.overwrite(page, &after);
    let mut days = Days::default();
    let answered = Store::open(chip, secure, MEMORY_BYTES)
        .and_then(|mut store| store.execute("SELECT day FROM visits", &[], &mut days));
    if answered.is_ok() {
        assert_eq!(days.0, ["20260321"]);
    }
    answered.is_ok()
}

#[derive(Default)]
struct Days(Vec<String>);

impl Sink for Days {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        self.0.push(row.value(0).to_string());
        Ok(())
    }
}
