//! Gives a person a copy of their own, as a pocket database, of what a log and a file hold about
//! them.

use std::error::Error;

use probity_examples::{new_folder, say};
use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::Reader;
use probity_log::{Log, Options, StreamConfig, StreamName};
use probity_pocketdb::flash::FileFlash;
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Heading, Result as StoreResult, Row, Sink, Store};
use probity_vault::{Import, Person, RowsFormat, run_script};

const MEMORY_BYTES: usize = 64 * 1024;
const SECURE_BYTES: usize = 128 * 1024;
const BLOCKS: u32 = 64;

const LETTERS: &str = "day,subject\n20260321,Welcome\n20260502,\"Your order, sent\"\n";

/// The first column of each row.
#[derive(Default)]
struct Shown(Vec<String>);

impl Sink for Shown {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> StoreResult<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> StoreResult<()> {
        self.0.push(row.value(0).to_string());
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = new_folder()?;
    let path = folder.join("audit");
    let root =
        RootKey::new(Secret::filled(aws_lc_rs::rand::fill).map_err(|_failed| "no randomness")?);
    let (stream, config) = (StreamName::default(), StreamConfig::default());
    let log = Log::create(
        &path,
        "example.com/audit",
        &root,
        config,
        Options::default(),
    )?;
    let mut appender = log.appender(&stream)?;
    let time = Timestamp::from_nanoseconds(1_764_000_000_000_000_000)?;
    for (action, about) in [("create", "Bea"), ("read", "Cem"), ("read", "Bea\nCem")] {
        appender.append_durable(&Entry {
            subjects: Subjects::joined(about),
            ..Entry::new(time, action, b"order:7")
        })?;
    }
    log.close()?;

    let chip = FileFlash::create(&folder.join("chip"), BLOCKS, true)?;
    let secure = FileStore::create(&folder.join("root"), SECURE_BYTES)?;
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_failed| "no randomness")?;
    let mut store = Store::create(chip, secure, &secret, MEMORY_BYTES)?;
    let mut person = Person::new(&mut store, "Bea")?;
    person.log(&Reader::open(&path, &root)?, false, &mut ())?;
    let entries = person.finish()?.entries.unwrap_or_default();
    say(format_args!("the log has {entries} entries about Bea"))?;

    let letters = "CREATE TABLE letters (id INTEGER PRIMARY KEY, day INTEGER, subject TEXT(40))";
    run_script(&mut store, letters)?;
    let mut import = Import::new(&mut store, "letters", 64)?;
    import.read(RowsFormat::Csv, LETTERS.as_bytes(), &mut ())?;
    say(format_args!("{} letters were imported", import.committed()))?;

    let mut shown = Shown::default();
    let query = "SELECT subject FROM letters WHERE day > 20260401";
    store.execute(query, &[], &mut shown)?;
    for subject in shown.0 {
        say(format_args!("since April: {subject}"))?;
    }
    Ok(())
}
