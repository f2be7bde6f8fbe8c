//! The width of a row here, which has room for the longest value of each column.

use std::collections::BTreeSet;

use probity_disguise::database::{Catalog, CatalogTable};
use probity_pocketdb::Error as PocketError;
use probity_pocketdb::limits::ROW_BYTES_MAX;

use super::column::{Form, Measure};
use crate::error::VaultError;

/// Bytes of a number in a row.
const NUMBER_BYTES: usize = 8;
/// Bytes of the place of a row that is referred to, directly or through others.
const PLACE_BYTES: usize = 4;
/// The beginning of the engine's words for a table of whose rows a statement cannot hold one.
const TOO_WIDE_TO_SHOW: &str = "a table whose rows take ";

/// Returns the bytes of a value in a row.
pub(super) fn bytes_of(form: Form, longest: usize) -> usize {
    match form {
        Form::Integer | Form::Boolean | Form::Real => NUMBER_BYTES,
        Form::Decimal | Form::Text => longest,
    }
}

/// Refuses a table whose rows would be wider than they can be here; `bytes` are those of its values.
pub(super) fn refuse_wide(
    catalog: &Catalog,
    (name, table): (&str, &CatalogTable),
    measure: &Measure,
    bytes: usize,
) -> Result<(), VaultError> {
    let mut reached = BTreeSet::new();
    reach(catalog, table, &mut reached);
    let bytes = bytes + reached.len() * PLACE_BYTES;
    if bytes <= ROW_BYTES_MAX {
        return Ok(());
    }
    let what = format!("rows that take {bytes} bytes, of {ROW_BYTES_MAX} at most,");
    Err(wide((name, table), measure, what))
}

/// Returns the refusal of a table's definition, which names the longest text where the rows are too
/// wide for a statement.
pub(super) fn explained(
    error: VaultError,
    (name, table): (&str, &CatalogTable),
    measure: &Measure,
) -> VaultError {
    let cause = match &error {
        VaultError::Reached { cause, .. } => cause,
        error => error,
    };
    match cause {
        VaultError::Pocket(PocketError::Refused(what)) if what.starts_with(TOO_WIDE_TO_SHOW) => {
            wide((name, table), measure, what.clone())
        }
        _ => error,
    }
}

fn wide((name, table): (&str, &CatalogTable), measure: &Measure, what: String) -> VaultError {
    let longest = (0..table.columns.len()).max_by_key(|&column| measure.longest(column));
    let column = longest.unwrap_or(0);
    VaultError::WideRow {
        table: name.to_owned(),
        what,
        column: (table.columns.get(column)).map_or_else(String::new, |it| it.name.clone()),
        longest: measure.longest(column),
        row: measure.longest_row(column),
    }
}

/// Adds the tables that a table leads to, of which none leads back to it.
fn reach<'c>(catalog: &'c Catalog, table: &'c CatalogTable, reached: &mut BTreeSet<&'c str>) {
    for key in &table.foreign_keys {
        if reached.insert(&key.to_table)
            && let Some(target) = catalog.get(&key.to_table)
        {
            reach(catalog, target, reached);
        }
    }
}
