//! Contents of the tables as the database writes them: no reader of the product is involved.

use probity_disguise::{Database, Dialect, Value};

use super::ddl::heir;
use super::kinds::Shown;
use super::layout::{Column, Form, Layout, Table, Values};

/// The cells of a row, by the columns of its table; what a trigger counts is left out.
pub(crate) type Cells = Vec<Option<String>>;

/// The rows of each table, in an order of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dump(pub(crate) Vec<Vec<Cells>>);

pub(crate) fn of(database: &mut dyn Database, layout: &Layout) -> Dump {
    let dialect = layout.dialect;
    let mut all = Vec::new();
    for table in &layout.tables {
        all.push(rows(database, dialect, (table, &table.name)));
    }
    for table in layout.tables.iter().filter(|it| it.form == Form::Inherited) {
        all.push(rows(database, dialect, (table, &heir(table))));
    }
    Dump(all)
}

fn rows(
    database: &mut dyn Database,
    dialect: Dialect,
    (table, name): (&Table, &str),
) -> Vec<Cells> {
    let columns = table.columns.iter();
    let columns = columns.filter(|it| !matches!(it.values, Values::Stamp));
    let columns: Vec<String> = columns.map(|it| shown(dialect, it)).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), dialect.quote(name));
    let rows = database.query(&sql, &[]).unwrap();
    let mut rows: Vec<Cells> = rows
        .into_iter()
        .map(|row| row.into_iter().map(text).collect())
        .collect();
    rows.sort();
    rows
}

pub(crate) fn shown(dialect: Dialect, column: &Column) -> String {
    let name = dialect.quote(&column.name);
    match (dialect, column.shown) {
        (Dialect::Sqlite, _) => format!(
            "typeof({name}) || ' ' || CASE typeof({name}) WHEN 'real' THEN printf('%!.20g', {name}) WHEN 'text' THEN hex({name}) ELSE quote({name}) END"
        ),
        (Dialect::Mysql, Shown::Plain) => format!("CAST({name} AS CHAR)"),
        (Dialect::Mysql, Shown::Bytes) => format!("HEX({name})"),
        (Dialect::Mysql, Shown::Single) => format!("CAST(CAST({name} AS DOUBLE) AS CHAR)"),
        (Dialect::Mysql, Shown::Member) => format!("CONCAT(HEX({name}), ' ', {name} + 0)"),
        _ => format!("{name}::text"),
    }
}

/// A cell that a query gives.
pub(crate) fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        other => Some(other.to_string()),
    }
}
