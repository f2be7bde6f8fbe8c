//! The cost of other engines for the same rows: B+-trees for the same indexes, `SQLite` and
//! `SQLCipher`. All run on a simulated flash translation layer with a 64 KB page cache.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use probity_disguise::database::Sqlite;
use probity_disguise::{Database as _, Value};
use probity_pocketdb::Operations;
use probity_pocketdb::flash::PAGE_BYTES;

use super::data::{Data, TABLES, Table};
use super::ftl::Ftl;
use super::shell::Shell;
use super::tree::{Cache, Tree};
use super::{Figure, ROWS_PER_COMMIT, SINGLE_ROWS};
use crate::command::BenchError;

/// Number of pages in 64 KB.
const CACHE_PAGES: usize = 32;
/// Number of pages that each tree may grow by while rows are inserted.
const GROWTH_PAGES: u32 = 64;
/// Number of rows per page of the table itself, in the order of insertion.
const ROWS_PER_PAGE: u32 = 12;
/// Lengths of the write-ahead log's header and of a frame's header, in bytes.
const LOG_HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
/// Number of frames after which `SQLite` checkpoints the log by itself.
const CHECKPOINT_FRAMES: usize = 1_000;
/// Number of pages of the simulated log file.
const LOG_PAGES: u32 = 1_100;

/// Measures insertions of single rows of every table into B+-trees for the same indexes.
pub(super) fn trees(data: &Data) -> Vec<Figure> {
    TABLES.iter().map(|table| in_trees(data, table)).collect()
}

fn in_trees(data: &Data, table: &Table) -> Figure {
    let rows = data.rows(table.number);
    let mut trees: Vec<Tree> = Vec::new();
    let mut keys = Vec::new();
    for row in 0..rows {
        data.keys(table, row, &mut keys);
        trees.resize_with(keys.len(), Tree::new);
        for (tree, &key) in trees.iter_mut().zip(&keys) {
            tree.insert(key_of(key, row), &mut |_, _| {});
        }
    }
    let more = SINGLE_ROWS.min(rows);
    let mut page = (rows + more).div_ceil(ROWS_PER_PAGE);
    for tree in &mut trees {
        tree.first_page = page;
        page += tree.pages() + GROWTH_PAGES;
    }
    let mut flash = Ftl::used(page, 1);
    let mut cache = Cache::new(CACHE_PAGES);
    for row in rows..rows + more {
        data.keys(table, row % rows, &mut keys);
        let begins = row.is_multiple_of(ROWS_PER_PAGE);
        cache.change(row / ROWS_PER_PAGE, begins, &mut flash);
        for (tree, &key) in trees.iter_mut().zip(&keys) {
            tree.insert(key_of(key, row), &mut |page, changed| match changed {
                Some(is_new) => cache.change(page, is_new, &mut flash),
                None => cache.touch(page, false, &mut flash),
            });
        }
        cache.commit(&mut flash);
    }
    let name = format!("T{}, {} B+-trees over an FTL", table.number, trees.len());
    figure(name, more, &flash)
}

/// Returns the key of a tree entry; the row distinguishes equal labels.
fn key_of(label: u32, row: u32) -> u64 {
    u64::from(label) << 32 | u64::from(row)
}

/// A database engine whose write-ahead log is read.
enum Engine {
    Sqlite(Sqlite),
    /// The shell of `SQLCipher`, which cannot be linked beside `SQLite`.
    Cipher(Shell),
}

impl Engine {
    /// Runs a statement; the shell may run it later.
    fn run(&mut self, statement: &str, values: &[Value]) -> Result<(), BenchError> {
        match self {
            Self::Sqlite(database) if values.is_empty() => {
                database.query(statement, &[])?;
            }
            Self::Sqlite(database) => {
                database.execute(statement, values)?;
            }
            Self::Cipher(shell) => shell.send(statement, values)?,
        }
        Ok(())
    }

    /// Waits until all statements are done.
    fn wait(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Cipher(shell) => Ok(shell.wait()?),
        }
    }
}

/// Measures insertions of single rows of T0 in `SQLite`, with its own columns and references
/// indexed. The pages in its log are written to the simulated layer; its reads are not counted.
pub(super) fn sqlite(data: &Data, folder: &Path) -> Result<Figure, BenchError> {
    let path = folder.join("compared.db");
    let mut engine = Engine::Sqlite(Sqlite::open(&path)?);
    engine.run(&format!("PRAGMA page_size = {PAGE_BYTES}"), &[])?;
    compare("SQLite", &mut engine, data, &path)
}

/// Measures the same in `SQLCipher` with the shell `program`: every page is encrypted and
/// authenticated.
pub(super) fn sqlcipher(data: &Data, folder: &Path, program: &Path) -> Result<Figure, BenchError> {
    let path = folder.join("encrypted.db");
    let mut engine = Engine::Cipher(Shell::start(Command::new(program), &path)?);
    engine.run("PRAGMA key = 'of a benchmark'", &[])?;
    engine.run(&format!("PRAGMA cipher_page_size = {PAGE_BYTES}"), &[])?;
    let figure = compare("SQLCipher", &mut engine, data, &path)?;
    let head = std::fs::read(&path)?;
    if head.starts_with(b"SQLite format 3") {
        let what = "the shell encrypts nothing: it is not SQLCipher";
        return Err(BenchError::Failed(what.into()));
    }
    Ok(figure)
}

fn compare(
    name: &str,
    database: &mut Engine,
    data: &Data,
    path: &Path,
) -> Result<Figure, BenchError> {
    for (name, value) in [
        ("journal_mode", "WAL".to_owned()),
        ("synchronous", "OFF".to_owned()),
        ("cache_size", CACHE_PAGES.to_string()),
    ] {
        database.run(&format!("PRAGMA {name} = {value}"), &[])?;
    }
    for table in &TABLES {
        for statement in Data::plain_definition(table) {
            database.run(&statement, &[])?;
        }
        insert(
            database,
            data,
            table,
            0..data.rows(table.number),
            ROWS_PER_COMMIT,
            |_| Ok(()),
        )?;
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // From here on the log is checkpointed only after its pages were counted.
    database.run("PRAGMA wal_autocheckpoint = 0", &[])?;
    checkpoint(database)?;
    let length = std::fs::metadata(path)?.len();
    let pages = u32::try_from(length / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    let rows = data.rows(0);
    let more = SINGLE_ROWS.min(rows);
    // Twice the pages that the new rows take at the present density.
    let growth = u64::from(pages) * u64::from(2 * more) / u64::from(rows.max(1));
    let room = pages + u32::try_from(growth).unwrap_or(pages) + GROWTH_PAGES;
    let mut layer = Layer {
        flash: Ftl::used(LOG_PAGES + room, 1),
        log: log.into(),
        frames: 0,
        room,
    };
    let Some(table) = TABLES.iter().find(|table| table.number == 0) else {
        return Err(BenchError::Failed("there is no T0".into()));
    };
    insert(database, data, table, rows..rows + more, 1, |database| {
        layer.committed(database)
    })?;
    let name = format!("T0, {name} with 6 indexes over an FTL, without its reads");
    Ok(figure(name, more, &layer.flash))
}

/// The simulated flash below `SQLite`, first its log, then its file.
struct Layer {
    flash: Ftl,
    log: std::path::PathBuf,
    /// Number of log frames already written.
    frames: usize,
    /// Number of pages of the file.
    room: u32,
}

impl Layer {
    /// Writes the pages that a commit appended to the log, and those that a checkpoint copies.
    fn committed(&mut self, database: &mut Engine) -> Result<(), BenchError> {
        let length = usize::try_from(std::fs::metadata(&self.log)?.len()).unwrap_or(usize::MAX);
        let frames = length.saturating_sub(LOG_HEAD_BYTES) / (FRAME_HEAD_BYTES + PAGE_BYTES);
        for frame in self.frames..frames {
            // A frame has a header, so it does not match a page exactly; each counts as one page.
            let page = u32::try_from(frame).unwrap_or(0) % LOG_PAGES;
            self.flash.write(page);
        }
        self.frames = frames;
        if frames < CHECKPOINT_FRAMES {
            return Ok(());
        }
        let bytes = std::fs::read(&self.log)?;
        let frames = bytes.get(LOG_HEAD_BYTES..).unwrap_or(&[]);
        let numbers = frames.chunks_exact(FRAME_HEAD_BYTES + PAGE_BYTES);
        let numbers = numbers.filter_map(|frame| frame.first_chunk::<4>());
        let changed: BTreeSet<u32> = numbers.map(|bytes| u32::from_be_bytes(*bytes)).collect();
        for page in changed {
            if page > self.room {
                return Err(BenchError::Failed(
                    "SQLite's file has grown too much".into(),
                ));
            }
            self.flash.write(LOG_PAGES + page - 1);
        }
        checkpoint(database)?;
        self.frames = 0;
        Ok(())
    }
}

/// Checkpoints the log into the file and empties it.
fn checkpoint(database: &mut Engine) -> Result<(), BenchError> {
    database.run("PRAGMA wal_checkpoint(TRUNCATE)", &[])?;
    database.wait()
}

fn insert(
    database: &mut Engine,
    data: &Data,
    table: &Table,
    rows: std::ops::Range<u32>,
    rows_per_commit: u32,
    mut committed: impl FnMut(&mut Engine) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let statement = Data::insertion(table);
    let mut open = false;
    for row in rows.clone() {
        let values = data.values(table, row);
        if !open {
            database.run("BEGIN", &[])?;
            open = true;
        }
        database.run(&statement, &values)?;
        if (row + 1).is_multiple_of(rows_per_commit) || row + 1 == rows.end {
            database.run("COMMIT", &[])?;
            database.wait()?;
            open = false;
            committed(database)?;
        }
    }
    Ok(())
}

fn figure(name: String, rows: u32, flash: &Ftl) -> Figure {
    Figure {
        kind: "comparison",
        name,
        rows: u64::from(rows),
        operations: Operations {
            flash: flash.counters,
            ..Operations::default()
        },
        seconds: 0.0,
        memory: CACHE_PAGES * PAGE_BYTES,
    }
}
