//! Comparison of the pocket database's answers with those of `SQLite` on the same rows, in every
//! state.

use std::path::Path;

use probity_disguise::database::Sqlite;
use probity_disguise::{Database as _, Value};
use probity_pocketdb::{Heading, Row, Sink};

use super::data::{Data, TABLES};
use super::queries::{self, Query};
use super::{Bench, Figure, changes, failed};
use crate::command::{BenchError, PocketArguments};

/// Number of rows per transaction of `SQLite`.
const ROWS_TOGETHER: usize = 1_000;

/// Runs all queries on both in every state; the first difference is an error.
pub(super) fn run(
    data: &Data,
    folder: &Path,
    arguments: &PocketArguments,
) -> Result<Vec<Figure>, BenchError> {
    let mut bench = Bench::new(folder, *data, arguments)?;
    let mut mirror = Mirror::new(*data, &folder.join("mirror.db"))?;
    bench.load(data.rows(0))?;
    mirror.load()?;
    bench.figures.clear();
    mirror.compare(&mut bench, "log only")?;
    bench.reorganize("all rows", super::Extent::Whole)?;
    mirror.compare(&mut bench, "reorganised")?;
    let more = arguments.rows / 10;
    bench.grow(more)?;
    mirror.grow(more)?;
    mirror.compare(&mut bench, "rows since")?;
    bench.change(arguments.changes)?;
    for statement in changes(data, arguments.changes) {
        mirror.database.execute(&statement, &[])?;
    }
    mirror.compare(&mut bench, "deletes and updates since")?;
    bench.reorganize("with changes", super::Extent::Levels)?;
    mirror.compare(&mut bench, "reorganised by levels")?;
    bench.reorganize("all again", super::Extent::Whole)?;
    mirror.compare(&mut bench, "reorganised again")?;
    bench.figures.retain(|figure| figure.kind == "answers");
    Ok(bench.figures)
}

/// A `SQLite` database with the same rows.
struct Mirror {
    database: Sqlite,
    data: Data,
    /// Number of rows of T0.
    rows: u32,
}

impl Mirror {
    fn new(data: Data, path: &Path) -> Result<Self, BenchError> {
        let mut database = Sqlite::open(path)?;
        for (name, value) in [
            ("journal_mode", "MEMORY"),
            ("synchronous", "OFF"),
            ("cache_size", "-262144"),
        ] {
            database.query(&format!("PRAGMA {name} = {value}"), &[])?;
        }
        Ok(Self {
            database,
            data,
            rows: 0,
        })
    }

    /// Fills every table, then creates its indexes.
    fn load(&mut self) -> Result<(), BenchError> {
        for table in &TABLES {
            let mut definitions = Data::plain_definition(table).into_iter();
            if let Some(create) = definitions.next() {
                self.database.execute(&create, &[])?;
            }
            self.insert(table, 0..self.data.rows(table.number))?;
            for index in definitions {
                self.database.execute(&index, &[])?;
            }
        }
        self.rows = self.data.rows(0);
        Ok(())
    }

    fn grow(&mut self, rows: u32) -> Result<(), BenchError> {
        for table in TABLES.iter().filter(|table| table.number == 0) {
            self.insert(table, self.rows..self.rows + rows)?;
        }
        self.rows += rows;
        Ok(())
    }

    fn insert(
        &mut self,
        table: &super::Table,
        rows: std::ops::Range<u32>,
    ) -> Result<(), BenchError> {
        let statement = Data::insertion(table);
        let mut together = Vec::with_capacity(ROWS_TOGETHER);
        self.database.begin()?;
        for row in rows.clone() {
            together.push(self.data.values(table, row));
            if together.len() == ROWS_TOGETHER || row + 1 == rows.end {
                self.database.execute_each(&statement, &together)?;
                together.clear();
            }
        }
        Ok(self.database.commit()?)
    }

    /// Runs every query on both.
    fn compare(&mut self, bench: &mut Bench, state: &str) -> Result<(), BenchError> {
        let asked: Vec<Query> = queries::all(&self.data)
            .into_iter()
            .chain(queries::more(&self.data))
            .collect();
        let name = format!("{} queries equal to SQLite's, {state}", asked.len());
        bench.measure("answers", name, |bench| {
            let mut rows = 0;
            for query in &asked {
                rows += self.compare_one(bench, query, state)?;
            }
            Ok(rows)
        })
    }

    fn compare_one(
        &mut self,
        bench: &mut Bench,
        query: &Query,
        state: &str,
    ) -> Result<u64, BenchError> {
        let mut kept = Kept(Vec::new());
        bench
            .vault
            .execute(&query.text, &[], &mut kept)
            .map_err(failed)?;
        let found = self.database.query(&query.text, &[])?;
        let (mut own, mut other) = (
            kept.0,
            found.iter().map(|row| line(row)).collect::<Vec<_>>(),
        );
        if !query.text.contains("ORDER BY") {
            own.sort_unstable();
            other.sort_unstable();
        }
        if own != other {
            let at = own.iter().zip(&other).position(|(own, other)| own != other);
            let at = at.unwrap_or_else(|| own.len().min(other.len()));
            return Err(BenchError::Failed(format!(
                "{}, {state}: row {at} is {:?}, in SQLite {:?}; {} rows, in SQLite {}",
                query.name,
                own.get(at),
                other.get(at),
                own.len(),
                other.len()
            )));
        }
        Ok(own.len() as u64)
    }
}

/// Returns a row of an answer as one text.
fn line(row: &[Value]) -> String {
    let texts: Vec<String> = row.iter().map(|value| format!("{value:?}")).collect();
    texts.join(", ")
}

/// Collects all rows of an answer.
struct Kept(Vec<String>);

impl Sink for Kept {
    fn begin(&mut self, _columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> probity_pocketdb::Result<()> {
        use probity_pocketdb::Value as Own;
        let values = (0..row.len()).map(|number| match row.value(number) {
            Own::Null => Value::Null,
            Own::Integer(number) => Value::Int(number),
            Own::Real(number) => Value::Real(number),
            Own::Text(text) => Value::Text(text.to_owned()),
        });
        let values: Vec<Value> = values.collect();
        self.0.push(line(&values));
        Ok(())
    }
}
