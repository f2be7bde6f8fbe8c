//! Benchmarks of the pocket database: cost of insertions, queries, lifetimes and reorganisations.
//!
//! Transfers and cipher operations are counted, so they do not depend on the machine. The time of
//! the token's flash chip is computed from them. Only rows per second depend on this machine.

mod answers;
mod data;
mod ftl;
mod indexes;
mod others;
mod part;
mod plots;
mod queries;
mod shell;
mod tree;

use std::io::Write;
use std::time::Instant;

use probity_pocketdb::flash::{CostModel, FileFlash};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Heading, Operations, Row, RowId, Sink, Store};
use serde_json::{Value, json};

pub(crate) use self::part::Part;

use self::data::{Data, TABLES, Table};
use self::part::Parts;
use crate::command::{BenchError, PocketArguments};
use crate::output::write_new;
use crate::plot::{Bar, bars};

/// Size of the secure store, in bytes.
const STORE_BYTES: usize = 1 << 20;
/// Number of device pages per row of T0: for the log-only part, two reorganised parts, and a
/// reserve.
const PAGES_PER_ROW: u32 = 2;
/// Number of blocks of the smallest device.
const BLOCKS_MIN: u32 = 512;
/// Number of rows per commit while tables are loaded.
const ROWS_PER_COMMIT: u32 = 64;
/// Number of rows of each table that are inserted one by one and measured.
const SINGLE_ROWS: u32 = 2_000;
/// The key of the measured database.
const SECRET: [u8; 32] = [7; 32];

type Vault = Store<FileFlash, MemoryStore>;

/// The cost of one measured operation.
struct Figure {
    kind: &'static str,
    name: String,
    rows: u64,
    operations: Operations,
    seconds: f64,
    /// Planned memory of the engine, in bytes.
    memory: usize,
}

/// Runs the whole series, or the selected parts of it.
pub(crate) fn run(arguments: &PocketArguments, out: &mut dyn Write) -> Result<(), BenchError> {
    let folder = arguments.output.folder()?;
    let data = Data::new(arguments.rows, arguments.seed);
    let parts = Parts::of(&arguments.part);
    let place = |name: &str| -> Result<std::path::PathBuf, BenchError> {
        let place = folder.path().join(name);
        std::fs::create_dir(&place)?;
        Ok(place)
    };
    let mut figures = Vec::new();
    if parts.has_any(&[Part::Insertion, Part::Queries, Part::Reorganisation]) {
        figures.append(&mut states(&data, &place("states")?, arguments, &parts)?);
    }
    if parts.has(Part::Lifetimes) && arguments.lifetime_limit > 0 {
        let mut lifetime = Bench::new(&place("lifetime")?, data, arguments)?;
        lifetime.live(arguments.lifetime_limit)?;
        figures.append(&mut lifetime.figures);
    }
    if parts.has(Part::Growth) {
        for more in [arguments.rows / 100, arguments.rows / 10] {
            let place = place(&format!("growth by {more}"))?;
            figures.push(growth(&data, &place, arguments, more)?);
        }
    }
    if parts.has(Part::Answers) {
        let mut compared = answers::run(&data, &place("answers")?, arguments)?;
        figures.append(&mut compared);
    }
    if parts.has(Part::Others) {
        figures.append(&mut others::trees(&data));
        figures.push(others::sqlite(&data, folder.path())?);
        if let Some(program) = &arguments.sqlcipher {
            figures.push(others::sqlcipher(&data, folder.path(), program)?);
        }
    }
    if parts.has(Part::Indexes) {
        figures.append(&mut indexes::figures());
    }
    write(&figures, arguments, out)
}

/// Measures a database in all states, one after the other.
fn states(
    data: &Data,
    folder: &std::path::Path,
    arguments: &PocketArguments,
    parts: &Parts,
) -> Result<Vec<Figure>, BenchError> {
    let mut bench = Bench::new(folder, *data, arguments)?;
    bench.load(data.rows(0))?;
    bench.insert_singly()?;
    if parts.has_any(&[Part::Queries, Part::Reorganisation]) {
        let asks = parts.has(Part::Queries);
        bench.ask_if(asks, "log only")?;
        bench.reorganize("all rows", Extent::Whole)?;
        bench.ask_if(asks, "reorganised")?;
        bench.grow(arguments.rows / 100)?;
        bench.ask_if(asks, "a hundredth new")?;
        bench.reorganize("a hundredth new", Extent::Whole)?;
        bench.grow(arguments.rows / 10)?;
        bench.ask_if(asks, "a tenth new")?;
        bench.change(arguments.changes)?;
        bench.ask_if(asks, "with changes")?;
        bench.reorganize("a tenth new and changes", Extent::Whole)?;
        bench.ask_if(asks, "reorganised again")?;
    }
    if bench.vault.verify().map_err(failed)? == 0 {
        return Err(BenchError::Failed("the database has no pages".into()));
    }
    bench.figures.retain(|figure| parts.shows(figure));
    Ok(bench.figures)
}

/// Measures a whole reorganisation of nine tenths of T0, which were reorganised before, with `more`
/// rows added.
fn growth(
    data: &Data,
    folder: &std::path::Path,
    arguments: &PocketArguments,
    more: u32,
) -> Result<Figure, BenchError> {
    let mut bench = Bench::new(folder, *data, arguments)?;
    let rows = data.rows(0) - data.rows(0) / 10;
    bench.load(rows)?;
    bench.reorganize("nine tenths", Extent::Whole)?;
    bench.grow(more)?;
    bench.reorganize(&format!("{rows} rows of T0 and {more} more"), Extent::Whole)?;
    let last = bench.figures.pop();
    last.ok_or_else(|| BenchError::Failed("nothing was measured".into()))
}

/// Returns deletes of T0 and updates of T3, alternately and evenly spread.
fn changes(data: &Data, count: u32) -> Vec<String> {
    let rows = data.rows(0);
    let count = count.min(rows / 4).max(1);
    let step = rows / (2 * count);
    let pair = |number: u32| {
        let at = (2 * number + 1) * step.max(1);
        let (id, value) = (at % data.rows(3) + 1, number % 7);
        [
            format!("DELETE FROM T0 WHERE id = {at}"),
            format!("UPDATE T3 SET dup10 = 'NEW_{value}' WHERE id = {id}"),
        ]
    };
    (0..count).flat_map(pair).collect()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "map_err hands over what it has"
)]
fn failed(error: Error) -> BenchError {
    BenchError::Failed(format!("the pocket database failed: {error}"))
}

struct Bench {
    vault: Vault,
    data: Data,
    figures: Vec<Figure>,
}

impl Bench {
    fn new(
        folder: &std::path::Path,
        data: Data,
        arguments: &PocketArguments,
    ) -> Result<Self, BenchError> {
        let pages = arguments.rows.saturating_mul(PAGES_PER_ROW);
        let blocks = (pages / probity_pocketdb::flash::BLOCK_PAGES).max(BLOCKS_MIN);
        let flash = FileFlash::create(&folder.join("flash"), blocks, false)?;
        let secure = MemoryStore::new(STORE_BYTES);
        let mut vault = Store::create(flash, secure, &SECRET, arguments.ram).map_err(failed)?;
        for table in &TABLES {
            vault
                .execute(&Data::definition(table), &[], &mut Counted::default())
                .map_err(failed)?;
        }
        Ok(Self {
            vault,
            data,
            figures: Vec::new(),
        })
    }

    /// Records the cost of `work`, which returns its number of rows.
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark measures with the system's clock"
    )]
    fn measure(
        &mut self,
        kind: &'static str,
        name: String,
        work: impl FnOnce(&mut Self) -> Result<u64, BenchError>,
    ) -> Result<(), BenchError> {
        let before = self.vault.operations();
        let started = Instant::now();
        let rows = work(self)?;
        self.figures.push(Figure {
            kind,
            name,
            rows,
            operations: self.vault.operations().since(&before),
            seconds: started.elapsed().as_secs_f64(),
            memory: self.vault.counters().memory_bytes,
        });
        Ok(())
    }

    fn insert(
        &mut self,
        table: &Table,
        rows: std::ops::Range<u32>,
        rows_per_commit: u32,
    ) -> Result<u64, BenchError> {
        let name = format!("T{}", table.number);
        let number = self.vault.table(&name);
        let number = number.ok_or_else(|| BenchError::Failed(format!("{name} is not there")))?;
        let (mut row, mut references, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let count = rows.len() as u64;
        for id in rows.clone() {
            // Rows beyond the data set repeat it.
            let source = id % self.data.rows(table.number).max(1);
            self.data.row(table, source, &mut row);
            self.data.references(table, source, &mut references);
            ids.clear();
            ids.extend(references.iter().copied().map(RowId::new));
            self.vault.insert(number, &row, &ids).map_err(failed)?;
            if (id + 1).is_multiple_of(rows_per_commit) || id + 1 == rows.end {
                self.vault.commit().map_err(failed)?;
            }
        }
        Ok(count)
    }

    /// Fills every table; of T0 only the first `rows` rows.
    fn load(&mut self, rows: u32) -> Result<(), BenchError> {
        for table in &TABLES {
            let rows = match table.number {
                0 => rows,
                number => self.data.rows(number),
            };
            let name = format!("T{}, {ROWS_PER_COMMIT} rows a commit", table.number);
            self.measure("insertion", name, |bench| {
                bench.insert(table, 0..rows, ROWS_PER_COMMIT)
            })?;
        }
        Ok(())
    }

    /// Inserts rows of every table, each in its own transaction, as the paper does.
    fn insert_singly(&mut self) -> Result<(), BenchError> {
        for table in &TABLES {
            let rows = self.data.rows(table.number);
            let more = SINGLE_ROWS.min(rows);
            self.measure(
                "insertion",
                format!("T{}, each row a commit", table.number),
                |bench| bench.insert(table, rows..rows + more, 1),
            )?;
        }
        Ok(())
    }

    /// Adds rows of T0.
    fn grow(&mut self, rows: u32) -> Result<(), BenchError> {
        let Some(table) = TABLES.iter().find(|table| table.number == 0) else {
            return Ok(());
        };
        let first = self
            .vault
            .table("T0")
            .map_or(0, |number| self.vault.count(number));
        self.measure("insertion", format!("T0, {rows} more"), |bench| {
            bench.insert(table, first..first + rows, ROWS_PER_COMMIT)
        })
    }

    /// Runs the 18 queries if `wanted`.
    fn ask_if(&mut self, wanted: bool, state: &str) -> Result<(), BenchError> {
        if !wanted {
            return Ok(());
        }
        for query in queries::all(&self.data) {
            let name = format!("{}, {state}", query.name);
            self.measure("query", name, |bench| bench.execute(&query.text))?;
        }
        Ok(())
    }

    fn execute(&mut self, text: &str) -> Result<u64, BenchError> {
        let mut rows = Counted::default();
        self.vault.execute(text, &[], &mut rows).map_err(failed)?;
        Ok(rows.0)
    }

    fn reorganize(&mut self, name: &str, extent: Extent) -> Result<(), BenchError> {
        self.measure("reorganisation", name.to_owned(), |bench| {
            let progress = bench.vault.reorganize(extent, u32::MAX, u64::MAX);
            let progress = progress.map_err(failed)?;
            Ok(u64::from(progress.tasks))
        })
    }

    /// Deletes and updates rows of T0 and T3, spread evenly.
    fn change(&mut self, count: u32) -> Result<(), BenchError> {
        let statements = changes(&self.data, count);
        let name = format!("{} deletes and updates", statements.len() / 2);
        self.measure("change", name, |bench| {
            for statement in &statements {
                bench.execute(statement)?;
            }
            Ok(statements.len() as u64)
        })
    }

    /// Fills every table, with a reorganisation after every `limit` rows of T0.
    fn live(&mut self, limit: u32) -> Result<(), BenchError> {
        self.measure(
            "lifetime",
            format!("reorganised every {limit} rows"),
            |bench| {
                let mut inserted = 0;
                for table in &TABLES {
                    let rows = bench.data.rows(table.number);
                    let mut at = 0;
                    while at < rows {
                        let next = rows.min(at + limit);
                        inserted += bench.insert(table, at..next, 1)?;
                        at = next;
                        if table.number == 0 {
                            let name = format!("T0 of {next} rows, {limit} of them new");
                            bench.reorganize(&name, Extent::Levels)?;
                        }
                    }
                }
                Ok(inserted)
            },
        )
    }
}

/// Counts rows.
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

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Figure {
    fn milliseconds(&self) -> f64 {
        CostModel::default().nanoseconds(&self.operations.flash) as f64 / 1e6
    }

    fn milliseconds_per_row(&self) -> f64 {
        self.milliseconds() / self.rows.max(1) as f64
    }

    fn page_reads(&self) -> f64 {
        self.operations.flash.page_reads as f64
    }

    fn programs_per_row(&self) -> f64 {
        self.operations.flash.programs as f64 / self.rows.max(1) as f64
    }

    fn rows_per_second(&self) -> f64 {
        // Counted operations have no measured time.
        if self.seconds > 0.0 {
            self.rows as f64 / self.seconds
        } else {
            0.0
        }
    }

    fn json(&self) -> Value {
        let flash = &self.operations.flash;
        json!({
            "kind": self.kind,
            "name": self.name,
            "rows": self.rows,
            "page_reads": flash.page_reads,
            "programs": flash.programs,
            "erases": flash.erases,
            "programs_per_row": self.programs_per_row(),
            "simulated_ms": self.milliseconds(),
            "seconds": self.seconds,
            "rows_per_second": self.rows_per_second(),
            "memory_bytes": self.memory,
        })
    }
}

/// Columns of the CSV file and of the table.
const NAMES: [&str; 11] = [
    "kind",
    "name",
    "rows",
    "page_reads",
    "programs",
    "erases",
    "programs_per_row",
    "simulated_ms",
    "seconds",
    "rows_per_second",
    "memory_bytes",
];

fn write(
    figures: &[Figure],
    arguments: &PocketArguments,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let rows: Vec<Value> = figures.iter().map(Figure::json).collect();
    if arguments.output.json {
        writeln!(
            out,
            "{}",
            json!({ "t0_rows": arguments.rows, "results": rows })
        )?;
    } else {
        writeln!(
            out,
            "| | rows | page reads | programs | programs/row | simulated ms | rows/s here |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for figure in figures {
            let flash = &figure.operations.flash;
            writeln!(
                out,
                "| {} {} | {} | {} | {} | {:.2} | {:.1} | {:.0} |",
                figure.kind,
                figure.name,
                figure.rows,
                flash.page_reads,
                flash.programs,
                figure.programs_per_row(),
                figure.milliseconds(),
                figure.rows_per_second(),
            )?;
        }
    }
    if let Some(path) = &arguments.output.csv {
        write_new(path, &csv(&rows))?;
    }
    if let Some(folder) = &arguments.plots {
        plots::write(figures, folder)?;
    }
    if let Some(path) = &arguments.output.plot {
        let queries = figures.iter().filter(|figure| figure.kind == "query");
        let shown: Vec<Bar> = queries
            .map(|figure| Bar {
                label: figure.name.clone(),
                value: figure.milliseconds(),
                ceiling: 0.0,
            })
            .collect();
        write_new(path, &bars("The 18 queries", plots::QUERIES, &shown)?)?;
    }
    Ok(())
}

fn csv(rows: &[Value]) -> String {
    let mut text = NAMES.join(",");
    text.push('\n');
    for row in rows {
        let cells = NAMES.map(|name| match row.get(name) {
            Some(Value::String(word)) => word.replace(',', ";"),
            Some(other) => other.to_string(),
            None => String::new(),
        });
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}
