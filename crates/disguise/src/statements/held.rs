//! Keys as the columns of a table can hold them.

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Dialect, Family, is_time};
use crate::error::{Doing as _, Error};
use crate::statements::own_row::as_stored;

/// Returns a key with NULL for what a column of `PostgreSQL` cannot hold: such a key names no row.
/// The server would end the statement, since it gives a parameter the type of the column.
pub(crate) fn held(
    database: &mut dyn TenantConnection,
    table: &str,
    by: &[String],
    key: &[Value],
) -> Result<Vec<Value>, Error> {
    let dialect = database.dialect();
    if dialect != Dialect::Postgres {
        return Ok(key.to_vec());
    }
    let mut held = Vec::with_capacity(key.len());
    for (name, value) in by.iter().zip(key) {
        let Some(column) = database.column(table, name) else {
            held.push(value.clone());
            continue;
        };
        let compared = column.compared(dialect, value);
        let is_known = match column.family(dialect) {
            Family::Own(kind) => kind == "uuid",
            Family::Date | Family::DateTime | Family::Zoned => is_time(&compared),
            _ => true,
        };
        if is_known || compared.is_null() {
            held.push(compared);
            continue;
        }
        // Only the server knows what the type takes.
        let column = column.clone();
        let taken = as_stored(database, &[&column], std::slice::from_ref(value));
        let taken = taken.doing("looking at a key")?;
        held.push(taken.map_or(Value::Null, |_| compared));
    }
    Ok(held)
}
