//! `verify`, `stats`, `simulate`: commands that change no rows.

use std::fs;
use std::path::Path;

use probity_pocketdb::flash::{CostModel, FileFlash, Nand as _, Overlay};
use probity_pocketdb::secure::{FileStore, MemoryStore};
use probity_pocketdb::{Heading, Operations, Row, Sink, Statements, Store, Usage};
use serde::Serialize;

use super::{Place, Vault};
use crate::args::{PocketSimulate, PocketStats, PocketVerify};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::{Output, counted, note};

/// Nanoseconds per microsecond.
const MICROSECOND_NS: u64 = 1_000;

#[derive(Serialize)]
struct Verified<'a> {
    file: &'a Path,
    intact: bool,
    pages: u64,
}

pub(super) fn verify(args: &PocketVerify, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let checked = vault.verify();
    let checked = checked.map_err(|error| place.refused(error));
    place.close(vault)?;
    let (pages, file) = (checked?, place.file.as_path());
    let mut output = Output::new();
    if args.json {
        output.json(&Verified {
            file,
            intact: true,
            pages,
        })?;
    } else {
        let pages = counted(pages, "page is", "pages are");
        output.line(&format!("intact: {pages} what was written"))?;
    }
    output.flush()?;
    Ok(Status::Done)
}

#[derive(Serialize)]
struct Stats<'a> {
    file: &'a Path,
    file_bytes: u64,
    tables: Vec<TableForm>,
    ram_given_bytes: u64,
    ram_planned_bytes: u64,
    since_creation: Cost,
    last_command: Cost,
    wear: Wear,
}

#[derive(Serialize)]
struct TableForm {
    name: String,
    /// Inserted rows, including deleted ones.
    rows_inserted: u32,
}

/// Counts of operations, and their time on the token's flash chip.
#[derive(Serialize)]
struct Cost {
    page_reads: u64,
    sector_reads: u64,
    programs: u64,
    erases: u64,
    cipher_blocks: u64,
    mac_blocks: u64,
    tag_blocks: u64,
    root_writes: u64,
    simulated_us: u64,
}

impl Cost {
    fn of(operations: &Operations) -> Self {
        let (flash, cipher) = (&operations.flash, &operations.cipher);
        Self {
            page_reads: flash.page_reads,
            sector_reads: flash.sector_reads,
            programs: flash.programs,
            erases: flash.erases,
            cipher_blocks: cipher.cipher_blocks,
            mac_blocks: cipher.mac_blocks,
            tag_blocks: cipher.tag_blocks,
            root_writes: operations.root_writes,
            simulated_us: CostModel::default().nanoseconds(flash) / MICROSECOND_NS,
        }
    }

    fn cells(&self) -> [String; 9] {
        [
            self.page_reads,
            self.sector_reads,
            self.programs,
            self.erases,
            self.cipher_blocks,
            self.mac_blocks,
            self.tag_blocks,
            self.root_writes,
            self.simulated_us,
        ]
        .map(|number| number.to_string())
    }
}

/// Labels of the cells of a [`Cost`].
const COST_NAMES: [&str; 9] = [
    "page reads",
    "sectors read",
    "programs",
    "erasures",
    "cipher blocks",
    "code blocks",
    "tag blocks",
    "root writes",
    "simulated us",
];

/// Counts of erased blocks.
#[derive(Serialize)]
struct Wear {
    blocks: u32,
    blocks_erased: u32,
    erasures_most: u32,
}

pub(super) fn stats(args: &PocketStats, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let vault = place.open(true)?;
    let tables = vault.tables().map(|(number, name)| TableForm {
        name: name.to_owned(),
        rows_inserted: vault.count(number),
    });
    let tables = tables.collect();
    let wear = wear(&vault).map_err(|error| Failure::file("read", &place.file, error))?;
    // Closing would replace the counts of the last command by those of this one.
    let (_, mut secure) = vault.into_parts();
    let usage = Usage::read(&mut secure).map_err(|error| place.refused(error.into()))?;
    let memory = Store::<FileFlash, FileStore>::memory_given(&mut secure);
    let memory = memory.map_err(|error| place.refused(error))?;
    if usage.is_damaged() {
        let root = place.root.display();
        note(&format!(
            "the numbers of operations in {root} are damaged; nothing else depends on them"
        ));
    }
    let found = fs::metadata(&place.file);
    let found = found.map_err(|error| Failure::file("read", &place.file, error))?;
    let stats = Stats {
        file: &place.file,
        file_bytes: found.len(),
        tables,
        ram_given_bytes: memory as u64,
        ram_planned_bytes: usage.memory_planned,
        since_creation: Cost::of(&usage.total),
        last_command: Cost::of(&usage.last),
        wear,
    };
    let mut output = Output::new();
    if args.json {
        output.json(&stats)?;
    } else {
        print(&mut output, &stats)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn wear(vault: &Vault) -> std::io::Result<Wear> {
    let chip = vault.device();
    let mut wear = Wear {
        blocks: chip.blocks(),
        blocks_erased: 0,
        erasures_most: 0,
    };
    for block in 0..wear.blocks {
        let count = chip.wear(block)?;
        wear.blocks_erased += u32::from(count > 0);
        wear.erasures_most = wear.erasures_most.max(count);
    }
    Ok(wear)
}

fn print(output: &mut Output, stats: &Stats<'_>) -> Result<(), Failure> {
    let tables = stats.tables.iter();
    let tables: Vec<[String; 2]> = tables
        .map(|table| [table.name.clone(), table.rows_inserted.to_string()])
        .collect();
    output.table(["table", "rows inserted"], &tables)?;
    output.line("")?;
    let cells = stats
        .since_creation
        .cells()
        .into_iter()
        .zip(stats.last_command.cells());
    let costs: Vec<[String; 3]> = COST_NAMES
        .iter()
        .zip(cells)
        .map(|(name, (total, last))| [(*name).to_owned(), total, last])
        .collect();
    output.table(["operations", "since creation", "last command"], &costs)?;
    output.line("")?;
    output.line(&format!(
        "memory  {} bytes given, {} planned at most",
        stats.ram_given_bytes, stats.ram_planned_bytes
    ))?;
    output.line(&format!(
        "wear    {} of {} blocks erased, one {} at most",
        stats.wear.blocks_erased,
        stats.wear.blocks,
        counted(u64::from(stats.wear.erasures_most), "time", "times")
    ))?;
    output.line(&format!("file    {} bytes", stats.file_bytes))
}

#[derive(Serialize)]
struct Simulated<'a> {
    statement: &'a str,
    rows: u64,
    #[serde(flatten)]
    cost: Cost,
}

/// A database of which every change stays in memory.
type Copied = Store<Overlay<FileFlash>, MemoryStore>;

pub(super) fn simulate(
    args: &PocketSimulate,
    environment: &Environment,
) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    // The key never leaves its file for another one: a copy on a disk would outlive what is deleted.
    let chip = Overlay::new(place.chip(false)?);
    let mut root = place.secure()?;
    let copy = MemoryStore::copy_of(&mut root).map_err(|error| place.refused(error.into()))?;
    let mut vault = place.open_with(chip, copy)?;
    let ran = run_each(args, &place, &mut vault);
    let closed = vault.close().map_err(|error| place.refused(error));
    ran?;
    closed?;
    Ok(Status::Done)
}

fn run_each(args: &PocketSimulate, place: &Place, vault: &mut Copied) -> Result<(), Failure> {
    let mut output = Output::new();
    for (_, statement) in Statements::new(&args.sql) {
        let simulated = run_one(place, vault, statement)?;
        if args.json {
            output.json(&simulated)?;
        } else {
            let cost = &simulated.cost;
            output.lines(statement)?;
            output.line(&format!(
                "  {} us on the token: {}, {}, {}, {}; {}",
                cost.simulated_us,
                counted(cost.page_reads, "page read", "page reads"),
                counted(cost.programs, "program", "programs"),
                counted(cost.erases, "erasure", "erasures"),
                counted(cost.root_writes, "root write", "root writes"),
                counted(simulated.rows, "row", "rows"),
            ))?;
        }
    }
    output.flush()
}

fn run_one<'s>(
    place: &Place,
    vault: &mut Copied,
    statement: &'s str,
) -> Result<Simulated<'s>, Failure> {
    let before = vault.operations();
    let mut counted = Counted::default();
    let outcome = vault.execute(statement, &[], &mut counted);
    let outcome = outcome.map_err(|error| place.refused(error))?;
    let rows = match outcome {
        probity_pocketdb::Outcome::Changed(rows) => rows,
        _ => counted.0,
    };
    Ok(Simulated {
        statement,
        rows,
        cost: Cost::of(&vault.operations().since(&before)),
    })
}

/// A sink that counts rows.
#[derive(Default)]
struct Counted(u64);

impl Sink for Counted {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        Ok(())
    }

    fn row(&mut self, _row: &Row<'_>) -> probity_pocketdb::Result<()> {
        self.0 += 1;
        Ok(())
    }
}
