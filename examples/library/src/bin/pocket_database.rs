//! Keeps visits in a pocket database of two files, and queries them in 64 KB of memory.

use std::error::Error;

use probity_examples::{new_folder, say};
use probity_pocketdb::flash::FileFlash;
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Heading, Outcome, Result as StoreResult, Row, Sink, Store, Value};

const MEMORY_BYTES: usize = 64 * 1024;
const SECURE_BYTES: usize = 128 * 1024;
const BLOCKS: u32 = 64;

const TABLES: [&str; 2] = [
    "CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT(40))",
    "CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor INTEGER REFERENCES doctors, \
     day INTEGER INDEXED)",
];
const QUERY: &str = "SELECT doctors.name, visits.day FROM visits JOIN doctors \
                     ON visits.doctor = doctors.id WHERE visits.day >= ?";

/// Rows of a query as lines of text.
#[derive(Default)]
struct Lines(Vec<String>);

impl Sink for Lines {
    fn begin(&mut self, columns: &[Heading<'_>]) -> StoreResult<()> {
        self.0.push(
            columns
                .iter()
                .map(|it| it.name)
                .collect::<Vec<_>>()
                .join(" | "),
        );
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> StoreResult<()> {
        self.0.push(format!("{} | {}", row.value(0), row.value(1)));
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = new_folder()?;
    // A device has a flash chip and a secure element here.
    let chip = FileFlash::create(&folder.join("chip"), BLOCKS, true)?;
    let secure = FileStore::create(&folder.join("root"), SECURE_BYTES)?;
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_failed| "no randomness")?;
    let mut store = Store::create(chip, secure, &secret, MEMORY_BYTES)?;
    for table in TABLES {
        store.execute(table, &[], &mut Lines::default())?;
    }
    store.execute(
        "INSERT INTO doctors (name) VALUES ('Ada')",
        &[],
        &mut Lines::default(),
    )?;
    for day in [20_260_321, 20_260_502, 20_251_104] {
        let visit = "INSERT INTO visits (doctor, day) VALUES (1, ?)";
        store.execute(visit, &[Value::Integer(day)], &mut Lines::default())?;
    }
    drop(store);

    let chip = FileFlash::open(&folder.join("chip"), true)?;
    let secure = FileStore::open(&folder.join("root"), SECURE_BYTES)?;
    let mut store = Store::open(chip, secure, MEMORY_BYTES)?;
    let mut lines = Lines::default();
    let outcome = store.execute(QUERY, &[Value::Integer(20_260_101)], &mut lines)?;
    for line in lines.0 {
        say(line)?;
    }
    if let Outcome::Shown(rows) = outcome {
        say(format_args!("{rows} visits in 2026"))?;
    }
    Ok(())
}
